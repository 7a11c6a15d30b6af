"""Slash commands are written once, as Claude Code reads them, and rewritten for agents that read
something else.
"""

from __future__ import annotations

import re

from gitcp import wire
from gitcp.automation.install.agents import Form

ARGUMENTS = "$ARGUMENTS"
ENDINGS = {"toml-command": ".toml"}
PARTS = re.compile(r"---\n(.*?)^---\n(.*)", re.DOTALL | re.MULTILINE)


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
