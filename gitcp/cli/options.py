"""Declarations of arguments and options: one table in each command's file, used by the quick reader
(`gitcp.cli.reader`), click (`gitcp.cli.group`), the help and the completion.

Does not import click, which takes as long to import as most commands run. Options shared by several
commands are here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gitcp.cli.context import Context
from gitcp.model import Handoff, Note

COUNT = re.compile(r"-([0-9]{1,9})")


class Kind:
    """The type of a word on the command line. `read` raises ValueError with the reason."""

    name = "text"

    def read(self, text: str) -> Any:
        return text

    def complete(self, context: Context) -> Iterable[tuple[str, str]]:  # noqa: ARG002 -- few can
        """Return completions, each with a description."""
        return ()


class Words(Kind):
    """Text to be stored: UTF-8 without NUL."""

    def read(self, text: str) -> str:
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:  # Python read the argument in a locale that knows less
            text = self._decoded(text)
        if "\0" in text:
            raise ValueError("must not contain NUL")
        return text

    def _decoded(self, text: str) -> str:
        try:
            return os.fsencode(text).decode("utf-8")
        except UnicodeError:
            raise ValueError(f"{text!a} is not UTF-8") from None


class Pair(Words):
    """`KEY=VALUE`."""

    name = "pair"

    def read(self, text: str) -> str:
        text = super().read(text)
        if not text.partition("=")[0].strip() or "=" not in text:
            raise ValueError(f"{text!r} is not KEY=VALUE")
        return text


class Number(Kind):
    """A whole number of at least `least`."""

    name = "number"

    def __init__(self, least: int = 0) -> None:
        self.least = least

    def read(self, text: str) -> int:
        try:
            number = int(text) if len(text) < 20 else None
        except ValueError:
            number = None
        if number is None or number < self.least:
            raise ValueError(f"{text!r} is not a whole number of at least {self.least}")
        return number


class Seconds(Kind):
    """A length of time in seconds, with a fraction or without."""

    name = "seconds"

    def read(self, text: str) -> float:
        try:
            seconds = float(text)
        except ValueError:
            seconds = -1.0
        if not seconds >= 0:
            raise ValueError(f"{text!r} is not a number of seconds of at least 0")
        return seconds


class OneOf(Kind):
    """One of a few names."""

    name = "choice"

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)

    def read(self, text: str) -> str:
        if text not in self.names:
            raise ValueError(f"{text!r} is not one of {', '.join(self.names)}")
        return text

    def complete(self, context: Context) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        return ((name, "") for name in self.names)


class RawPath(Kind):
    """A path as bytes."""

    name = "path"

    def read(self, text: str) -> bytes:
        return os.fsencode(text)


class Revision(Kind):
    """A checkpoint as typed, resolved later."""

    name = "revision"

    def complete(self, context: Context) -> Iterable[tuple[str, str]]:
        from gitcp.cli import candidates  # only when a shell asks

        return candidates.revisions(context)


class Known(Words):
    """The name of a session, tag or phase, possibly new; completes existing ones."""

    def __init__(self, name: str) -> None:
        self.name = name

    def complete(self, context: Context) -> Iterable[tuple[str, str]]:
        from gitcp.cli import candidates  # only when a shell asks

        return candidates.NAMES[self.name](context)


TEXT = Kind()
WORDS = Words()
PAIR = Pair()
NUMBER = Number()
SECONDS = Seconds()
PATH = RawPath()
REVISION = Revision()
SESSION = Known("session")
TAG = Known("tag")
PHASE = Known("phase")


class Argument(NamedTuple):
    """A positional argument; `several` takes all remaining words."""

    target: str
    kind: Kind
    metavar: str
    required: bool
    default: Any
    several: bool


class Option(NamedTuple):
    """`--option`: a flag if it has a `meaning`, else with a value. `-h` omits rare ones."""

    names: tuple[str, ...]
    target: str
    kind: Kind
    metavar: str
    help: str
    default: Any
    meaning: Any = None
    multiple: bool = False
    required: bool = False
    rare: bool = False


class Rest(NamedTuple):
    """The words after `--` and, if `bare`, also extra words before it."""

    target: str
    kind: Kind
    metavar: str
    bare: bool = False


Parameter = Argument | Option | Rest


def argument(
    target: str,
    kind: Kind = TEXT,
    *,
    metavar: str = "",
    required: bool = True,
    default: Any = None,
    several: bool = False,
) -> Argument:
    """Declare a positional argument, required unless it has a default or `required` is False."""
    required = required and default is None and not several
    shown = metavar or (target.upper() if required else f"[{target.upper()}]")
    return Argument(target, kind, shown, required, () if several else default, several)


def option(
    *names: str,
    help: str,
    target: str = "",
    kind: Kind = TEXT,
    metavar: str = "",
    default: Any = None,
    multiple: bool = False,
    required: bool = False,
) -> Option:
    """Declare an option with a value. With `multiple`, its value is a tuple."""
    if multiple:
        default = ()
    target = target or _target(names)
    return Option(names, target, kind, metavar, help, default, multiple=multiple, required=required)


def flag(
    *names: str, help: str, target: str = "", meaning: bool = True, default: bool | None = False
) -> Option:
    """Declare an option without a value."""
    return Option(names, target or _target(names), TEXT, "", help, default, meaning=meaning)


def rare(option: Option) -> Option:
    """Omit an option from `-h`."""
    return option._replace(rare=True)


def _target(names: Sequence[str]) -> str:
    return max(names, key=len).lstrip("-").replace("-", "_")


class Command(NamedTuple):
    """A command: its parameters, and the function that runs it with their values by target."""

    run: Callable[..., None]
    parameters: tuple[Parameter, ...]

    @property
    def help(self) -> str:
        return self.run.__doc__ or ""

    def defaults(self) -> dict[str, Any]:
        """Return the default of every parameter."""
        values: dict[str, Any] = {}
        for each in self.parameters:
            values.setdefault(each.target, () if isinstance(each, Rest) else each.default)
        return values


def spelled_out(command: Command, args: Sequence[str]) -> list[str]:
    """Return a command line with `-5` as `-n 5`, if the command has `-n N`."""
    options = {
        name: each for each in command.parameters if isinstance(each, Option) for name in each.names
    }
    if "-n" not in options or options["-n"].meaning is not None:
        return [*args]
    words: list[str] = []
    end = args.index("--") if "--" in args else len(args)
    for before, word in zip(("", *args), args[:end], strict=False):
        is_value = before in options and options[before].meaning is None
        count = COUNT.fullmatch(word) if not is_value else None
        words += ["-n", count[1]] if count else [word]
    return [*words, *args[end:]]


def takes(*parameters: Parameter) -> Callable[[Callable[..., None]], Command]:
    """Make the decorated function a command with these parameters; its docstring is the help."""
    return lambda function: Command(function, parameters)


PATHS = Rest("paths", PATH, "PATH", bare=True)
"""For commands that take optional paths."""

session_option = option(
    "--session",
    metavar="SESSION",
    kind=SESSION,
    help="use this session (a unique prefix is enough)",
)
"""On every command that has a current session."""

exact_session_option = option(
    "--session", metavar="SESSION", kind=SESSION, help="use this session (exact name)"
)
"""For commands that write into a session: a new name starts a new session."""

json_option = flag("--json", target="as_json", help="print JSON")
"""On every command."""

yes_option = flag("--yes", "-y", help="do not ask")
"""For commands that change files."""

mine_option = flag("--mine", help="restore only what this session changed")
whole_tree_option = flag("--whole-tree", help="also undo changes of sessions at work")
"""For commands that restore files."""

keep_later_option = flag("--mine", help="keep later changes (the default)")
undo_later_option = flag("--whole-tree", help="also undo later changes")
"""For undo and redo, which keep later changes by default, whoever made them."""

allow_option = option(
    "--allow",
    multiple=True,
    metavar="ID",
    kind=WORDS,
    help="allow this secret from now on (repeatable)",
)
"""For commands that scan what they write or send for secrets."""

allow_filtered_option = flag(
    "--allow-filtered",
    target="unfiltered",
    help="send files that git would filter as they are",
)
"""For commands that send files: a filter may encrypt them in commits."""

produces_option = option(
    "--produces",
    metavar="PATH",
    kind=PATH,
    multiple=True,
    help="a file the program writes; never skipped (repeatable)",
)
"""For commands that a program calls."""

appends_option = option(
    "--appends",
    metavar="PATH",
    kind=PATH,
    multiple=True,
    help="a file only appended to since the last save (repeatable)",
)
"""For commands that save files which a program writes."""

trust_option = flag("--trust", help="allow checkpoints from another repository")
"""For commands that let a checkpoint act on this machine."""

NOTE = (
    option("--phase", metavar="NAME", kind=PHASE, help="the phase of the work"),
    rare(option("--objective", metavar="TEXT", kind=WORDS, help="the objective of the work")),
    option(
        "--fact",
        target="facts",
        metavar="K=V",
        kind=PAIR,
        multiple=True,
        help="record a fact; K= removes it (repeatable)",
    ),
    rare(option("--task", metavar="TEXT", kind=WORDS, help="handoff: the current task")),
    option(
        "--decided",
        metavar="TEXT",
        kind=WORDS,
        multiple=True,
        help="handoff: a decision (repeatable)",
    ),
    rare(
        option(
            "--failed",
            metavar="TEXT",
            kind=WORDS,
            multiple=True,
            help="handoff: what was tried and failed (repeatable)",
        )
    ),
    option(
        "--next",
        metavar="TEXT",
        kind=WORDS,
        multiple=True,
        help="handoff: a next step (repeatable)",
    ),
    rare(
        option(
            "--active",
            metavar="PATH",
            kind=WORDS,
            multiple=True,
            help="handoff: a file being worked on (repeatable)",
        )
    ),
    rare(
        option(
            "--position",
            metavar="K=V",
            kind=PAIR,
            multiple=True,
            help="a position in the execution (repeatable)",
        )
    ),
)
"""The options of a note, for save and note."""


def note_of(given: Mapping[str, Any]) -> Note:
    """Return the note in the values of NOTE."""
    return Note(
        phase=given["phase"],
        objective=given["objective"],
        facts=_pairs(given["facts"]),
        handoff=Handoff(
            given["task"], given["decided"], given["failed"], given["next"], given["active"]
        ),
        position=_pairs(given["position"]),
    )


def _pairs(given: Sequence[str]) -> dict[str, str]:
    """Return `KEY=VALUE` options as a mapping; the last value of a key wins."""
    parts = (text.partition("=") for text in given)
    return {key.strip(): value for key, _, value in parts}
