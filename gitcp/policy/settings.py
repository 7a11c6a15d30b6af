"""Settings for automatic checkpoints."""

from __future__ import annotations

INTERVAL = 30 * 60
LARGE = 10_000

AUTOMATIC = (
    "prompt",
    "tools",
    "turn",
    "interval",
    "compaction",
    "session-end",
    "before-risky-change",
    "before-refactor",
    "after-bug-found",
    "on-test-failure",
)
"""The triggers that can be switched off."""


class Settings:
    """The settings in force.

    `off` are disabled triggers. `interval` is in seconds, `large_rewrite` in bytes. `risky` and
    `tests` are patterns in addition to the built-in ones; a leading "!" makes an exception.
    `risky_states`: a command of the user's saves a state outside the files before a risky change.
    """

    __slots__ = ("interval", "large_rewrite", "off", "risky", "risky_states", "tests")

    def __init__(
        self,
        off: frozenset[str] = frozenset(),
        interval: int = INTERVAL,
        risky: tuple[str, ...] = (),
        tests: tuple[str, ...] = (),
        large_rewrite: int = LARGE,
        *,
        risky_states: bool = False,
    ) -> None:
        self.off = off
        self.interval = interval
        self.risky = risky
        self.tests = tests
        self.large_rewrite = large_rewrite
        self.risky_states = risky_states

    def plain(self) -> dict[str, object]:
        """Return the arguments of `Settings(**…)`, as values that `marshal` can write."""
        return {name: getattr(self, name) for name in self.__slots__}
