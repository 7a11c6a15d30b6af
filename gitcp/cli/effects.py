"""How effects outside of the files and their compensations are said."""

from __future__ import annotations

from collections.abc import Callable

from gitcp.cli.output import GREEN, RED, Styled
from gitcp.state.effects import DONE, FAILED, TIMEOUT, Effect

SAID = {
    None: "not run",
    DONE: "done",
    FAILED: "failed; it is not run again",
    TIMEOUT: "ended, since it took too long; it is not run again",
}


def tell(line: Callable[..., None], effect: Effect) -> None:
    """One compensation, and how it ended."""
    how = SAID.get(effect.outcome, "cut off, nobody knows how far it came; it is not run again")
    colour = GREEN if effect.outcome == DONE else RED if effect.outcome else ""
    line("  ", effect.key, "  ", effect.command, "  (", Styled(how, colour), ")")
