"""What is shipped: the files of the top-level `hooks/`, in a wheel beside the package's modules.

Slash commands are written once, as Claude Code reads them, and rewritten for agents that read
something else.
"""

from __future__ import annotations

import re
from pathlib import Path

from gitcp import wire
from gitcp.automation.install.agents import Form

PACKAGE = Path(__file__).parents[2]
ARGUMENTS = "$ARGUMENTS"
ENDINGS = {"toml-command": ".toml"}
PARTS = re.compile(r"---\n(.*?)^---\n(.*)", re.DOTALL | re.MULTILINE)


def directory() -> Path:
    """Where they lie: in the wheel, or in the checkout that gitcp runs from."""
    packed = PACKAGE / "_hooks"
    return packed if packed.is_dir() else PACKAGE.parent / "hooks"


def read(name: str) -> bytes:
    """One of them."""
    return (directory() / name).read_bytes()


def below(name: str) -> tuple[str, ...]:
    """The names of all files below a directory, or of the file itself, relative to it ("")."""
    root = directory() / name
    if root.is_file():
        return ("",)
    return tuple(
        sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    )


def rewritten(form: Form, content: bytes) -> tuple[bytes, str]:
    """The content in this form, and the ending that its file has then ("": the same)."""
    if not form:
        return content, ""
    found = PARTS.fullmatch(content.decode("utf-8"))
    assert found, "a shipped command has a head and a body"
    said = re.search(r"(?m)^description: (.*)$", found[1])
    assert said, "a shipped command says what it does"
    if form == "command":
        made = f"---\ndescription: {said[1]}\n---\n{found[2]}"
    else:
        body = found[2].replace(ARGUMENTS, "{{args}}")
        made = f"description = {wire.dumps(said[1]).decode()}\nprompt = '''\n{body}'''\n"
    return made.encode("utf-8"), ENDINGS.get(form, "")
