"""Regular expressions that are compiled when they are first used: of those that a save loads, it needs few."""

from __future__ import annotations

import re

from gitcp.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import AnyStr


class Pattern:
    """Stands for a compiled one, and has its methods."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self.pattern = text
        self.flags = flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = self.__dict__[name] = getattr(re.compile(self.pattern, self.flags), name)
        return found


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """A Pattern, to be used by its methods like what `re.compile` returns."""
    return Pattern(text, flags)  # type: ignore[return-value]
