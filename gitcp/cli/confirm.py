"""The question before what was shown is done: a person answers it at a terminal, and without one it
is refused.
"""

from __future__ import annotations

from collections.abc import Iterable

from gitcp.cli.context import Context
from gitcp.errors import Refused


def ask(
    context: Context,
    question: str,
    lines: Iterable[str] = (),
    *,
    nobody: str,
    no: str,
    hint: str | None = None,
) -> None:
    """Show the lines and ask. Raises Refused unless a person says yes: with `no`, or `nobody` where
    nobody is there.

    Both say what was not changed; `hint` is how to do without the question, unless it is the same
    with --yes.
    """
    for line in lines:
        context.output.say(line)
    agreed = context.output.ask(question)
    if agreed is None:
        hint = context.with_option("--yes") if hint is None else hint
        raise Refused(f"there is nobody to ask: {nobody}", hint=hint)
    if not agreed:
        raise Refused(no)
