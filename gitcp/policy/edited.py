"""What a file contains after an edit tool ran, as far as its input says so.

If the file contains something else, another author wrote to it while the tool ran: a person, or a
formatter. Agents differ in small things, such as blanks at the ends of lines; `digest` ignores
these.
"""

from __future__ import annotations

from gitcp.policy import risk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from gitcp.policy.events import EventCall
    from gitcp.policy.payload import Fields

WHOLE = ("content", "contents", "file_text")
OLD = ("old_string", "oldString", "old_str")
NEW = ("new_string", "newString", "new_str")
EVERYWHERE = ("replace_all", "replaceAll", "allow_multiple")
PATCH = ("command", "input", "patch", "patchText")
ADDED, UPDATED, DELETED, MOVED = HEADS = (
    "*** Add File: ",
    "*** Update File: ",
    "*** Delete File: ",
    "*** Move to: ",
)
LAST = "*** End of File"


def digest(content: bytes) -> str:
    """Return a checksum of a file's lines, whatever blanks and line ends they end with."""
    try:
        from _sha1 import sha1  # type: ignore[import-not-found]  # hashlib loads OpenSSL
    except ImportError:
        from hashlib import sha1
    lines = b"\n".join(line.rstrip() for line in content.split(b"\n"))
    checksum: str = sha1(lines.rstrip()).hexdigest()
    return checksum[:16]


def results(call: EventCall, path: str, before: bytes) -> list[bytes]:
    """Return what the file at `path` (as the call names it) may contain after the call, `before`
    being its content when the call began. Empty if that cannot be told.
    """
    if call.tool in risk.PATCHERS:
        return _patched(call.text(*PATCH), path, before)
    whole = _text(call.input, WHOLE)
    if whole is not None:
        return [_bytes(whole)]
    edits = call.input.get("edits")
    contents = [before]
    for edit in edits if isinstance(edits, list) else [call.input]:
        can_be_told = contents and isinstance(edit, dict)
        contents = list(_edited(edit, contents[0])) if can_be_told else []
    return contents


def is_one_place(call: EventCall) -> bool:
    """Return whether a call changes lines that follow each other, if it changes any."""
    several = any(call.input.get(name) for name in (*EVERYWHERE, "edits"))
    return call.tool in risk.EDITORS and call.tool != "NotebookEdit" and not several


def _text(fields: Fields, names: tuple[str, ...]) -> str | None:
    return next((text for name in names if isinstance(text := fields.get(name), str)), None)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _edited(edit: Fields, before: bytes) -> Iterator[bytes]:
    """Yield the content with a text replaced. Some agents remove the line end after a text that
    they delete.
    """
    old, new = (
        [text for name in names if isinstance(text := edit.get(name), str)] for names in (OLD, NEW)
    )
    if not old or not new:
        return
    texts = _bytes(old[0]), _bytes(new[0])
    if texts[0] not in before and b"\r\n" in before:
        before = before.replace(b"\r\n", b"\n")
    count = -1 if any(edit.get(name) for name in EVERYWHERE) else 1
    if not texts[0]:
        yield from [] if before.strip() else [texts[1]]
    elif texts[0] in before:
        yield before.replace(texts[0], texts[1], count)
        if not texts[1]:
            yield before.replace(texts[0] + b"\n", b"", count)


def _patched(patch: str, path: str, before: bytes) -> list[bytes]:
    """Return the content that a patch makes of a file, in the format of Codex."""
    head, section = "", list[str]()
    for line in patch.split("\n"):
        if line.startswith("*** ") and line.strip() != LAST:
            if head:
                section = [] if line.startswith(MOVED) else section
                break
            head = next((each for each in (ADDED, UPDATED) if line.strip() == each + path), "")
        elif head:
            section.append(line)
    if head == ADDED:
        return [_bytes("\n".join(line[1:] for line in section))]
    return _hunked(section, before) if section else []


def _hunked(section: list[str], before: bytes) -> list[bytes]:
    """Return the content with the hunks of a patch applied, without blanks at the ends of lines."""
    lines = [line.rstrip() for line in before.split(b"\n")]
    old, new, at = list[bytes](), list[bytes](), 0
    while section and not section[-1].strip():
        section.pop()
    for line in (*section, "@@"):
        text = _bytes(line[1:]).rstrip()
        if not line.startswith("@@"):
            old += [text] * (line[:1] != "+")
            new += [text] * (line[:1] != "-")
            continue
        if old or new:
            start = _place(lines, old, at) if old else -1
            if start < 0:
                return []
            lines[start : start + len(old)] = new
            old, new, at = [], [], start + len(new)
        anchor = _bytes(line[2:]).strip()
        if anchor:
            at = 1 + next((n for n in range(at, len(lines)) if lines[n].strip() == anchor), at - 1)
    return [b"\n".join(lines)]


def _place(lines: list[bytes], wanted: list[bytes], at: int) -> int:
    """Return where these lines are, from `at` on; -1 if they are not there."""
    last = len(lines) - len(wanted)
    return next((n for n in range(at, last + 1) if lines[n : n + len(wanted)] == wanted), -1)
