"""Which files a tool call changes, as far as its input names them."""

from __future__ import annotations

from gitcp.policy import risk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitcp.policy.events import Call

WAITING = frozenset("Agent Task agent task".split())
"""Tools that wait for another agent, whose own calls are reported."""

FILE = ("file_path", "filePath", "notebook_path", "path", "absolute_path")
PATCH = ("command", "input", "patch", "patchText")
HEADS = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")


def changed(call: Call) -> list[str] | None:
    """Return the paths that a tool call changes, as the agent gave them. None if it may change any
    file, as a command may.
    """
    if call.tool in risk.READERS or call.tool in WAITING:
        return []
    if call.tool in risk.PATCHERS:
        return _patched(call.text(*PATCH)) or None
    if call.tool in risk.WRITERS or call.tool in risk.EDITORS:
        return list(filter(None, [call.text(*FILE)])) or None
    return None


def _patched(patch: str) -> list[str]:
    return [
        line.removeprefix(head).strip()
        for line in patch.splitlines()
        for head in HEADS
        if line.startswith(head)
    ]
