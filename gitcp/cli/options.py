"""What commands are made of: their class, types of arguments with completions, and options that
several have.

A completion reads only commits, and offers nothing that cannot be read.
"""

from __future__ import annotations

import inspect
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

import click

from gitcp import humanize
from gitcp.cli.context import Context
from gitcp.errors import BadValue, GitcpError
from gitcp.model import Handoff, Note
from gitcp.safe import safe
from gitcp.value import Value

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from gitcp.store import Summary


NUMBERS = 20
"""Number of recent checkpoints that are offered."""

PHASES = 1000
"""Number of recent checkpoints that are searched for phases."""


def revisions(context: Context) -> Iterator[tuple[str, str]]:
    """Yield the current session's recent checkpoints by number, then tags, then sessions."""
    session = context.viewed(None)
    if session is not None:
        for summary in islice(context.store.readable(context.viewed_tip(None)), NUMBERS):
            yield str(summary.id.number), _about(context, summary)
    yield from tags(context)
    yield from sessions(context)


def tags(context: Context) -> Iterator[tuple[str, str]]:
    """Yield tags, local before fetched ones."""
    from gitcp.state import tag

    for name, summary in tag.listing(context.store):
        yield name, _about(context, summary)


def sessions(context: Context) -> Iterator[tuple[str, str]]:
    """Yield sessions, local before fetched ones."""
    for name, tip in {**context.store.sessions(), **context.store.fetched()}.items():
        last = next(context.store.readable(tip), None)
        yield name, _about(context, last) if last else ""


def phases(context: Context) -> Iterator[tuple[str, str]]:
    """Return the phases of the current session, each with its newest checkpoint."""
    newest: dict[str, Summary] = {}
    for summary in islice(context.store.readable(context.viewed_tip(None)), PHASES):
        newest.setdefault(summary.trailers.get("Gitcp-Phase", ""), summary)
    return ((name, _about(context, each)) for name, each in newest.items() if name)


NAMES = {"session": sessions, "tag": tags, "phase": phases}
"""The completions for each kind of name."""


def _about(context: Context, summary: Summary) -> str:
    return f"{summary.subject} ({humanize.ago(summary.created, context.host.now())})"


COMPLETE = "_GITCP_COMPLETE"
COUNT = re.compile(r"-([0-9]{1,9})")
HEAD = re.compile(r"(?:(?<=\A)|(?<=\.\.))HEAD(?=\Z|[~^:]|\.\.)")

F = TypeVar("F", bound=Callable[..., Any])


class Type(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """A click type whose `read` raises ValueError with the reason, and which describes what it
    completes.
    """

    name = "text"

    def read(self, text: str) -> Any:
        """Return the value of a word."""
        return text

    def complete(self, context: Context) -> Iterable[tuple[str, str]]:  # noqa: ARG002 -- few can
        """Return completions, each with a description."""
        return ()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self.read(value) if isinstance(value, str) else value  # else: a default
        except GitcpError:
            raise
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002 -- click's
        incomplete: str,
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem  # only when a shell asks

        context = ctx.ensure_object(Context)
        context.directory = ctx.find_root().params.get("directory", "")
        try:
            completions = list(self.complete(context))
        except GitcpError:  # where there is no repository, or it is damaged: nothing to offer
            return []
        return [
            CompletionItem(word, help=_in_one_line(about) or None)
            for word, about in dict(completions).items()
            if word.startswith(incomplete)
        ]


def _in_one_line(about: str) -> str:
    """Return a description on one line. Without commas for fish, which ends it there."""
    text = safe(" ".join(about.split()))
    return text.replace(",", ";") if os.environ.get(COMPLETE, "").startswith("fish") else text


class Words(Type):
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


class Number(Type):
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


class Seconds(Type):
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


class OneOf(Type):
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


class RawPath(Type):
    """A path as bytes."""

    name = "path"

    def read(self, text: str) -> bytes:
        return os.fsencode(text)


class Revision(Type):
    """A checkpoint as typed, resolved later."""

    name = "revision"

    def complete(self, context: Context) -> Iterable[tuple[str, str]]:

        return revisions(context)


class Looked(Revision):
    """A checkpoint or a range to look at: git's HEAD is the last checkpoint, as far as that goes.
    What changes something asks for `@`, since a commit may be meant.
    """

    def read(self, text: str) -> str:
        return HEAD.sub("@", text)


class KnownWords(Words):
    """The name of a session, tag or phase, possibly new; completes existing ones."""

    def __init__(self, name: str) -> None:
        self.name = name

    def complete(self, context: Context) -> Iterable[tuple[str, str]]:

        return NAMES[self.name](context)


class SessionName(KnownWords):
    """The name of a session, or a prefix."""

    def __init__(self) -> None:
        super().__init__("session")

    def read(self, text: str) -> str:
        if not text:  # `--session "$S"` without an S: every session, or the only one
            raise ValueError("the name of a session is empty")
        return super().read(text)


TEXT = Type()
WORDS = Words()
PAIR = Pair()
NUMBER = Number()
SECONDS = Seconds()
PATH = RawPath()
REVISION = Revision()
LOOKED = Looked()
SESSION = SessionName()
TAG = KnownWords("tag")
PHASE = KnownWords("phase")


class Rest(NamedTuple):
    """The words after `--` and, if `bare`, also extra words before it, and the path of REV:PATH
    unless the command splits that itself. `changes`: the command changes these paths, and without
    any all of them, so that `--` with nothing after it is refused.
    """

    target: str
    type: Type
    metavar: str
    bare: bool = False
    splits: bool = True
    changes: bool = False


PATHS = Rest("paths", PATH, "PATH", bare=True)
"""For commands that take optional paths."""

CHANGED_PATHS = PATHS._replace(changes=True)
"""For commands that change the files at these paths."""


class Command(click.Command):
    """A command whose examples are printed verbatim, with optional words after `--`. `-h` shows the
    common options, `--help` all.
    """

    def __init__(
        self,
        name: str | None,
        *,
        rest: Rest | None = None,
        help: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(name, help=verbatim(help), **more)
        self.rest = rest
        self.allow_extra_args = True  # refused in parse_args, with a better hint
        self.whole = False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = self._with_count_spelled_out(args)
        at = words.index("--") if self.rest is not None and "--" in words else len(words)
        self.whole = "--help" in words[:at]
        bare = self._parsed(ctx, words[:at])
        if bare and not (self.rest and self.rest.bare):
            raise self._too_many(ctx, bare)
        if self.rest is not None:
            rest = map(self.rest.type.read, (*bare, *words[at + 1 :]))
            ctx.params[self.rest.target] = tuple(rest)
            if self.rest.changes and words[at:] == ["--"] and not bare:
                self._refuse_no_path(words)
            takes_paths = self.rest.bare and self.rest.type is PATH
            if takes_paths and at == len(words) and not ctx.resilient_parsing:
                self._set_paths_apart(ctx)
            elif takes_paths and not ctx.resilient_parsing:
                self._set_path_of_revision_apart(ctx)
        return []

    def _refuse_no_path(self, words: list[str]) -> NoReturn:
        """Raise BadValue: `restore 3 -- $FILES` without FILES restored everything."""
        given = [each for each in words[:-1] if each not in ("--yes", "-y", "--dry-run")]
        raise BadValue(
            "there is no path after --: nothing was changed",
            hint=shlex.join(["gitcp", str(self.name), *given, "--dry-run"]),
        )

    def _parsed(self, ctx: click.Context, words: list[str]) -> list[str]:
        """Parse options and arguments; an option of another tool as gitcp spells it. Return the
        extra words.
        """
        try:
            return super().parse_args(ctx, [*words])
        except click.NoSuchOption:
            from gitcp.cli import habits  # only on the way to an error

            again = habits.rewritten(self, words)
            if again is None:
                raise
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # its hint is this command's help
            raise
        return super().parse_args(ctx, self._with_count_spelled_out(again))

    def _with_count_spelled_out(self, args: Sequence[str]) -> list[str]:
        """Return a command line with `-5` as `-n 5`, if the command has `-n N`."""
        options = {
            name: each
            for each in self.params
            if isinstance(each, click.Option)
            for name in each.opts
        }
        if "-n" not in options or options["-n"].is_flag:
            return [*args]
        words: list[str] = []
        end = args.index("--") if "--" in args else len(args)
        for before, word in zip(("", *args), args[:end], strict=False):
            is_value = before in options and not options[before].is_flag
            count = COUNT.fullmatch(word) if not is_value else None
            words += ["-n", count[1]] if count else [word]
        return [*words, *args[end:]]

    def _set_paths_apart(self, ctx: click.Context) -> None:
        """Treat the first argument that is a path and not a revision, and all after it, as paths:
        `restore 1 db.py` means `restore 1 -- db.py`.
        """
        context, params = ctx.find_object(Context), ctx.params
        defaults = {  # without one, newer versions of click have an object of their own there
            str(each.name): each.default if isinstance(each.default, str) else None
            for each in self.params
            if isinstance(each.type, Revision)
        }
        self._set_path_of_revision_apart(ctx)
        named = [name for name, default in defaults.items() if params[name] != default]
        for position, name in enumerate(named):
            if context is not None and context.is_path(params[name], params["session"]):
                paths = [os.fsencode(params[later]) for later in named[position:]]
                params["paths"] = (*paths, *params["paths"])
                params.update((later, defaults[later]) for later in named[position:])
                return

    def _set_path_of_revision_apart(self, ctx: click.Context) -> None:
        """Treat `REV:PATH` as `REV -- PATH`."""
        context, params = ctx.find_object(Context), ctx.params
        if context is None or self.rest is None or not self.rest.splits:
            return
        for name in (str(each.name) for each in self.params if isinstance(each.type, Revision)):
            word = params[name]
            if not isinstance(word, str) or ":" not in word or word.startswith(":/"):
                continue
            revision, path = context.split_path(word, params["session"])
            if path is not None:
                params[name] = revision
                params["paths"] = tuple(dict.fromkeys((path, *params["paths"])))

    def _too_many(self, ctx: click.Context, words: list[str]) -> BadValue:
        """Return the error for extra words; for a single text argument it suggests quotes."""
        arguments = [each for each in self.params if isinstance(each, click.Argument)]
        if len(arguments) != 1 or arguments[0].type is not WORDS:
            from gitcp.cli import habits  # only on the way to an error

            hint = habits.extra_word(str(self.name), words) or f"{ctx.command_path} -h"
            return BadValue(f"unexpected argument {words[0]!r}", hint=hint)
        (first,) = arguments
        text = " ".join((ctx.params[str(first.name)], *words))
        hint = shlex.join(["gitcp", *str(self.name).split(), text])
        shown = first.make_metavar(ctx).strip("[]")
        return BadValue(f"{shown} needs quotes if it has spaces", hint=hint)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        pieces = super().collect_usage_pieces(ctx)
        if self.rest is None:
            return pieces
        dashes = "[--]" if self.rest.bare else "--"
        return [*pieces, f"[{dashes} {self.rest.metavar}...]"]

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        return asked_for_help(super().get_help_option(ctx))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        shown = [each for each in options if self.whole or not getattr(each, "is_rare", False)]
        lines = [line for each in shown if (line := each.get_help_record(ctx)) is not None]
        with formatter.section("Options"):
            formatter.write_dl(lines)
            if len(shown) < len(options):
                formatter.write_text(f"More options: gitcp help {self.name}")


def verbatim(text: str | None) -> str:
    """Mark indented paragraphs (examples) with click's backspace, so that their lines are kept.
    There is no text under `python -OO`, which drops docstrings.
    """
    return re.sub(r"\n\n(?=  )", "\n\n\n\b\n", inspect.cleandoc(text or ""))


def asked_for_help(option: click.Option | None) -> click.Option | None:
    """Say what `-h` does in gitcp's words."""
    if option is not None:
        option.help = "show this help"
    return option


def rare(option: Callable[[F], F]) -> Callable[[F], F]:
    """Omit an option from `-h`."""

    def add(function: F) -> F:
        function = option(function)
        function.__click_params__[-1].is_rare = True  # type: ignore[attr-defined]
        return function

    return add


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Make one decorator of several options, in their order."""

    def add(function: F) -> F:
        for each in reversed(options):
            function = each(function)
        return function

    return add


session_option = click.option(
    "--session",
    type=SESSION,
    metavar="SESSION",
    help="use this session (a unique prefix is enough)",
)
"""On every command that has a current session."""

exact_session_option = click.option(
    "--session", type=SESSION, metavar="SESSION", help="use this session (exact name)"
)
"""For commands that write into a session: a new name starts a new session."""

dry_run_option = click.option(
    "--dry-run", "-n", is_flag=True, help="show the plan and change nothing"
)
replace_option = click.option("--force", is_flag=True, help="replace FILE if it exists")
json_option = click.option("--json", "as_json", is_flag=True, help="print JSON")
"""On every command."""

yes_option = click.option("--yes", "-y", is_flag=True, help="do not ask")
"""For commands that change files."""

mine_option = click.option("--mine", is_flag=True, help="restore only what this session changed")
whole_tree_option = click.option(
    "--whole-tree", is_flag=True, help="also undo changes of other active sessions"
)
"""For commands that restore files."""

state_option = click.option(
    "--state", is_flag=True, help="also databases, by your gitcp.state commands"
)
"""For commands that restore: nothing else implies it, --yes included."""

keep_later_option = click.option("--mine", is_flag=True, help="keep later changes (the default)")
undo_later_option = click.option("--whole-tree", is_flag=True, help="also undo later changes")
"""For undo and redo, which keep later changes by default, whoever made them."""

allow_option = click.option(
    "--allow",
    type=WORDS,
    metavar="ID",
    multiple=True,
    help="allow this secret from now on (repeatable)",
)
"""For commands that scan what they write or send for secrets."""

allow_filtered_option = click.option(
    "--allow-filtered",
    "unfiltered",
    is_flag=True,
    help="send files that git would filter as they are",
)
"""For commands that send files: a filter may encrypt them in commits."""

produces_option = click.option(
    "--produces",
    type=PATH,
    metavar="PATH",
    multiple=True,
    help="a file the program writes; never skipped (repeatable)",
)
"""For commands that a program calls."""

appends_option = click.option(
    "--appends",
    type=PATH,
    metavar="PATH",
    multiple=True,
    help="a file only appended to since the last save (repeatable)",
)
"""For commands that save files which a program writes."""

trust_option = click.option(
    "--trust", is_flag=True, help="allow checkpoints from another repository"
)
"""For commands that let a checkpoint act on this machine."""

note_options = together(
    click.option(
        "--phase", type=PHASE, metavar="NAME", help="the stage of the work, until another is named"
    ),
    rare(click.option("--objective", type=WORDS, metavar="TEXT", help="the objective of the work")),
    click.option(
        "--fact",
        "facts",
        type=PAIR,
        metavar="K=V",
        multiple=True,
        help="record a fact; K= removes it (repeatable)",
    ),
    rare(click.option("--task", type=WORDS, metavar="TEXT", help="handoff: the current task")),
    click.option(
        "--decided",
        type=WORDS,
        metavar="TEXT",
        multiple=True,
        help="handoff: a decision (repeatable)",
    ),
    rare(
        click.option(
            "--failed",
            type=WORDS,
            metavar="TEXT",
            multiple=True,
            help="handoff: what was tried and failed (repeatable)",
        )
    ),
    click.option(
        "--next",
        type=WORDS,
        metavar="TEXT",
        multiple=True,
        help="handoff: a next step (repeatable)",
    ),
    rare(
        click.option(
            "--active",
            type=WORDS,
            metavar="PATH",
            multiple=True,
            help="handoff: a file being worked on (repeatable)",
        )
    ),
    rare(
        click.option(
            "--position",
            type=PAIR,
            metavar="K=V",
            multiple=True,
            help="a position in the execution (repeatable)",
        )
    ),
)


class NoteOptions(Value):
    """The values of `note_options`."""

    phase: str | None
    objective: str | None
    facts: tuple[str, ...]
    task: str | None
    decided: tuple[str, ...]
    failed: tuple[str, ...]
    next: tuple[str, ...]
    active: tuple[str, ...]
    position: tuple[str, ...]


def note_of(given: NoteOptions) -> Note:
    """Return the note in the values of `note_options`."""
    return Note(
        phase=given.phase,
        objective=given.objective,
        facts=_pairs(given.facts),
        handoff=Handoff(given.task, given.decided, given.failed, given.next, given.active),
        position=_pairs(given.position),
    )


def _pairs(given: Sequence[str]) -> dict[str, str]:
    """Return `KEY=VALUE` options as a mapping; the last value of a key wins."""
    parts = (text.partition("=") for text in given)
    return {key.strip(): value for key, _, value in parts}
