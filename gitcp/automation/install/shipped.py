"""The shipped files: the top-level `hooks/`, which a wheel contains inside the package.

Slash commands are written in Claude Code's format and converted for other agents.
"""

from __future__ import annotations

import re
from pathlib import Path

from gitcp import wire

PACKAGE = Path(__file__).parents[2]
ARGUMENTS = "$ARGUMENTS"
ENDINGS = {"toml-command": ".toml"}
SHARED = re.compile(rb"(?m)^// (shared/\w+\.js)\n")
"""Where a plugin has what others have, too: each is one file."""

PARTS = re.compile(r"---\n(.*?)^---\n(.*)", re.DOTALL | re.MULTILINE)


def directory() -> Path:
    """Return the directory: in the wheel, or in the checkout that gitcp runs from."""
    packed = PACKAGE / "_hooks"
    return packed if packed.is_dir() else PACKAGE.parent / "hooks"


def read(name: str) -> bytes:
    """Return the content of a file, with what it shares."""
    content = (directory() / name).read_bytes()
    return SHARED.sub(lambda match: read(match[1].decode()), content)


def below(name: str) -> tuple[str, ...]:
    """Return the relative names of all files below a directory; ("",) for a file."""
    root = directory() / name
    if root.is_file():
        return ("",)
    return tuple(
        sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    )


def rewritten(form: str, content: bytes) -> tuple[bytes, str]:
    """Return the content in this form, and its file extension ("": unchanged)."""
    if not form:
        return content, ""
    match = PARTS.fullmatch(content.decode("utf-8"))
    assert match, "a shipped command has a head and a body"
    description = re.search(r"(?m)^description: (.*)$", match[1])
    assert description, "a shipped command says what it does"
    body = match[2] if form == "command" else match[2].replace(ARGUMENTS, "{{args}}")
    if form != "toml-command":
        result = f"---\ndescription: {description[1]}\n---\n{body}"
    else:
        result = f"description = {wire.dumps(description[1]).decode()}\nprompt = '''\n{body}'''\n"
    return result.encode("utf-8"), ENDINGS.get(form, "")
