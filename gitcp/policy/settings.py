"""What can be set about automatic checkpoints."""

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
"""Every trigger that can be switched off."""


class Settings:
    """The settings in force.

    `off` are triggers that are not wanted. `interval` is in seconds, `large_rewrite` in bytes.
    `risky` and `tests` are patterns of commands besides the built-in ones; one that begins with "!"
    is an exception.
    """

    __slots__ = ("interval", "large_rewrite", "off", "risky", "tests")

    def __init__(
        self,
        off: frozenset[str] = frozenset(),
        interval: int = INTERVAL,
        risky: tuple[str, ...] = (),
        tests: tuple[str, ...] = (),
        large_rewrite: int = LARGE,
    ) -> None:
        self.off = off
        self.interval = interval
        self.risky = risky
        self.tests = tests
        self.large_rewrite = large_rewrite

    def plain(self) -> dict[str, object]:
        """What `Settings(**…)` takes, in values that `marshal` can write."""
        return {name: getattr(self, name) for name in self.__slots__}
