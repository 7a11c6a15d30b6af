"""Commands in the forms that are typed most, read without click: loading that takes as long as
doing what they say.

A form has flags, options with a value, and at most one word. Whatever else is given (another
option, a second word, `--option=value`, `--`), click reads all of it.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


class Form(NamedTuple):
    """What a command takes in its plain form: the module with its DEFAULTS and `perform`, and what
    its words mean.
    """

    module: str
    word: str
    flags: Mapping[str, str]
    texts: Mapping[str, str] = {"--session": "session"}
    numbers: Mapping[str, str] = {}


FORMS = {
    "log": Form(
        "history",
        "revision",
        {"--oneline": "oneline", "--reverse": "reverse"},
        numbers={"-n": "limit"},
    ),
    "restore": Form(
        "back",
        "revision",
        {
            "--files": "files",
            "--conversation": "conversation",
            "--dry-run": "dry_run",
            "-n": "dry_run",
            "--yes": "yes",
            "-y": "yes",
        },
    ),
    "save": Form("saving", "label", {"--quiet": "quiet", "-q": "quiet"}),
}


def read(args: Sequence[str]) -> dict[str, Any] | None:
    """What is given on the command line `args`, by the names that click gives it; None if that is
    for click to read.
    """
    form = FORMS.get(args[0]) if args else None
    if form is None or sys.stdin is None or sys.stdout is None or sys.stderr is None:
        return None
    given: dict[str, Any] = {}
    options = list(args[:0:-1])
    while options:
        option = options.pop()
        if option in form.flags:
            given[form.flags[option]] = True
        elif option in form.numbers and options and _is_number(options[-1]):
            given[form.numbers[option]] = int(options.pop())
        elif option in form.texts and options and _is_word(options[-1]):
            given[form.texts[option]] = options.pop()
        elif _is_word(option) and form.word not in given:
            given[form.word] = option
        else:
            return None
    return given


def _is_word(text: str) -> bool:
    return bool(text) and text.isprintable() and not text.startswith("-")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def run(args: Sequence[str]) -> int | None:
    """Run the command on `args`: its exit code. None if click is to read them; nothing was done
    then.
    """
    given = read(args)
    if given is None:
        return None
    from gitcp.cli.context import Context
    from gitcp.cli.failure import guarded

    context = Context(args)

    def perform() -> int:
        module = getattr(
            __import__("gitcp.cli", fromlist=[FORMS[args[0]].module]), FORMS[args[0]].module
        )
        module.perform(context, {**module.DEFAULTS, **given})
        return 0

    return guarded(
        lambda: context.noting_damage(perform),
        os.environ,
        as_json=False,
        interrupted=context.interrupted,
    )
