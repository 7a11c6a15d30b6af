"""Display of compensations for effects outside the files."""

from __future__ import annotations

from collections.abc import Callable

from gitcp.cli.output import GREEN, PLAIN, RED, Styled
from gitcp.state.effects import DONE, FAILED, TIMEOUT, Effect

OUTCOMES = {
    None: "not run",
    DONE: "done",
    FAILED: "failed; will not run again",
    TIMEOUT: "timed out; will not run again",
}


def tell(line: Callable[..., None], effect: Effect) -> None:
    """Print one compensation and its outcome."""
    how = OUTCOMES.get(effect.outcome, "interrupted, result unknown; will not run again")
    colour = GREEN if effect.outcome == DONE else RED if effect.outcome else PLAIN
    line("  ", effect.key, "  ", effect.command, "  (", Styled(how, colour), ")")
