"""Reads what is typed most without click: loading that takes as long as doing what is said.

Options that a command declares, flags or followed by their value, and words. Whatever else is there
(an unknown option, `--option=value`, `-qn3`, a value that its kind refuses, one that is missing, an
odd character) is for click to read, or to refuse; so is every question for help.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gitcp.cli.options import Argument, Command, Option, Rest, spelled_out
from gitcp.errors import GitcpError


class _Left(Exception):
    """Raised for words that click must read."""


def read(command: Command, args: Sequence[str]) -> dict[str, Any] | None:
    """What `args` give to the parameters of a command, as click gives it; None if click must read
    them.
    """
    given = command.defaults()
    try:
        words = _options(command, _without_rest(command, spelled_out(command, args), given), given)
        _arguments(command, words, given)
    except _Left:
        return None
    return given


def _without_rest(command: Command, args: list[str], given: dict[str, Any]) -> list[str]:
    """Give what follows `--` to its parameter, and return the words before it."""
    if "--" not in args:
        return args
    at = args.index("--")
    rest = _rest(command)
    if rest is None:
        raise _Left
    given[rest.target] = tuple(map(rest.kind.read, args[at + 1 :]))
    return args[:at]


def _options(command: Command, args: list[str], given: dict[str, Any]) -> list[str]:
    """Give every option to its parameter, and return the other words."""
    options = {
        name: each for each in command.parameters if isinstance(each, Option) for name in each.names
    }
    words, left, needed = [], args[::-1], {o.target for o in options.values() if o.required}
    while left:
        word = left.pop()
        if word in options:
            option = options[word]
            _give(option, left, given)
            needed.discard(option.target)
        else:
            words.append(_plain(word))
    if needed:
        raise _Left
    return words


def _give(option: Option, left: list[str], given: dict[str, Any]) -> None:
    if option.meaning is not None:
        given[option.target] = option.meaning
    elif not left:
        raise _Left
    else:
        value = _value(option, left.pop())
        given[option.target] = (*given[option.target], value) if option.multiple else value


def _arguments(command: Command, words: list[str], given: dict[str, Any]) -> None:
    for each in command.parameters:
        if not isinstance(each, Argument):
            continue
        if each.several:
            given[each.target] = tuple(_value(each, word) for word in words)
            return
        if words:
            given[each.target] = _value(each, words.pop(0))
        elif each.required:
            raise _Left
    rest = _rest(command)
    if words and (rest is None or not rest.bare):
        raise _Left
    if rest is not None:
        given[rest.target] = (*map(rest.kind.read, words), *given[rest.target])


def _rest(command: Command) -> Rest | None:
    return next((each for each in command.parameters if isinstance(each, Rest)), None)


def _value(parameter: Argument | Option, word: str) -> Any:
    try:
        return parameter.kind.read(_plain(word))
    except GitcpError:
        raise
    except ValueError:
        raise _Left from None


def _plain(word: str) -> str:
    """Return the word; raises _Left if it could be anything but a plain word."""
    if not word.isprintable() or not word or word.startswith("-"):
        raise _Left
    return word
