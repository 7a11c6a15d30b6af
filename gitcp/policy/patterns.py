"""Match commands against patterns such as `git push --force`, `npm run *deploy*`, `kubectl delete`.

The first word is the program. Options match anywhere; other words in this order, with anything in
between. `*` matches any characters. A short option also matches inside a group (`-f` in `-rf`).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from gitcp.policy.shell import ShellCommand


def applies(command: ShellCommand, built_in: Iterable[str], own: Iterable[str]) -> bool:
    """Return whether one of the patterns matches, and no exception ("!…") does."""
    own = tuple(own)
    if any(matches(command, pattern[1:]) for pattern in own if pattern.startswith("!")):
        return False
    return any(
        matches(command, pattern) for pattern in (*own, *built_in) if not pattern.startswith("!")
    )


def matches(command: ShellCommand, pattern: str) -> bool:
    program, *rest = pattern.split() or [""]
    if not program or not is_like(command.program, program):
        return False
    options = [word for word in rest if word.startswith("-")]
    words = [word for word in rest if not word.startswith("-")]
    given = command.words[1:]
    in_order = iter(given)
    return all(any(_is_option(word, option) for word in given) for option in options) and all(
        any(is_like(word, pattern_word) for word in in_order) for pattern_word in words
    )


def _is_option(word: str, option: str) -> bool:
    if is_like(word, option) or (option.startswith("--") and word.startswith(f"{option}=")):
        return True
    short = len(option) == 2 and option[1] != "-"
    return short and word.startswith("-") and not word.startswith("--") and option[1] in word[1:]


def is_like(word: str, pattern: str) -> bool:
    """Return whether the word matches; `*` in the pattern matches any characters."""
    first, *others = pattern.split("*")
    if not others:
        return word == first
    if not word.startswith(first):
        return False
    at = len(first)
    for part in others[:-1]:
        start = word.find(part, at)
        if start < 0:
            return False
        at = start + len(part)
    return len(word) - at >= len(others[-1]) and word.endswith(others[-1])
