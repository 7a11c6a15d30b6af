"""Confirmation before a change: asked on a terminal, refused without one."""

from __future__ import annotations

from collections.abc import Iterable

from gitcp.cli.context import Context
from gitcp.errors import Refused


class Declined(Refused):
    """The user answered no."""


def ask(
    context: Context,
    question: str,
    lines: Iterable[str] = (),
    *,
    nobody: str,
    no: str,
    hint: str | None = None,
) -> None:
    """Show the lines and ask. Raises Declined(`no`) unless the answer is yes, and Refused with
    `nobody` without a terminal.

    Both texts state what was not changed. `hint` is the command that needs no confirmation
    (default: this command with --yes).
    """
    for line in lines:
        context.output.say(line)
    agreed = context.output.ask(question)
    if agreed is None:
        hint = context.with_option("--yes") if hint is None else hint
        raise Refused(f"cannot ask for confirmation here: {nobody}", hint=hint)
    if not agreed:
        raise Declined(no)
