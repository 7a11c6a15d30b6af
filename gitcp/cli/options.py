"""Options and arguments that several commands have, and the types they are read as."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from gitcp.cli.context import Context
from gitcp.errors import RevisionNotFound

PATHS = "gitcp.paths"

F = TypeVar("F", bound=Callable[..., Any])

pass_context = click.make_pass_decorator(Context)


class Words(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """Text that is going to be stored: it must be UTF-8, and hold no NUL."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:  # Python read the argument in a locale that knows less
            value = self._decoded(value, param, ctx)
        if "\0" in value:
            self.fail("there is a NUL in it", param, ctx)
        return str(value)

    def _decoded(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return os.fsencode(value).decode("utf-8")
        except UnicodeError:
            self.fail(f"{value!a} is not UTF-8", param, ctx)


class Pair(Words):
    """`KEY=VALUE`."""

    name = "pair"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = super().convert(value, param, ctx)
        if not text.partition("=")[0].strip() or "=" not in text:
            self.fail(f"{text!r} is not KEY=VALUE", param, ctx)
        return text


class Revision(click.ParamType):  # type: ignore[type-arg]
    """A checkpoint as a person writes it. What it means is found out later; here are only the
    completions.
    """

    name = "revision"

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002 -- click's
        incomplete: str,
    ) -> list[Any]:
        from click.shell_completion import CompletionItem  # only when a shell asks

        from gitcp.errors import GitcpError

        try:
            store = ctx.ensure_object(Context).store
            names = [*store.tags(), *store.sessions()]
        except GitcpError:
            return []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


WORDS = Words()
PAIR = Pair()
REVISION = Revision()
SECONDS = click.FloatRange(min=0)


def verbatim(text: str) -> str:
    """A help text whose indented paragraphs (examples) keep their lines: click marks them with a
    backspace.
    """
    return re.sub(r"\n\n(?=  )", "\n\n\b\n", inspect.cleandoc(text))


class Command(click.Command):
    """A command whose examples are shown as they are written."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help = verbatim(self.help or "")


class WithPaths(Command):
    """A command that takes `[-- PATH…]`: what follows `--` are paths, whatever they look like."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        before, paths = args, []
        if "--" in args:
            before, paths = args[: args.index("--")], args[args.index("--") + 1 :]
        ctx.meta[PATHS] = tuple(os.fsencode(path) for path in paths)
        return super().parse_args(ctx, before)

    def invoke(self, ctx: click.Context) -> Any:
        """A path where a revision is expected lacks its `--`: say so."""
        try:
            return super().invoke(ctx)
        except RevisionNotFound as error:
            raise ctx.obj.with_path(error, ctx.params.values(), ctx.command_path) from None

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- PATH...]"]


def paths_given() -> tuple[bytes, ...]:
    """What followed `--` on the command line that is running."""
    found: tuple[bytes, ...] = click.get_current_context().meta.get(PATHS, ())
    return found


def session_option(command: F) -> F:
    """`--session`, on every command that has a current session."""
    return click.option(
        "--session",
        metavar="SESSION",
        type=WORDS,
        help="take this session for the current one (a beginning will do)",
    )(command)


def exact_session_option(command: F) -> F:
    """`--session`, on commands that write into a session: a name that no session has begins one."""
    return click.option(
        "--session", metavar="SESSION", type=WORDS, help="use this session, by its exact name"
    )(command)


def json_option(command: F) -> F:
    """`--json`, on every command."""
    return click.option("--json", "as_json", is_flag=True, help="print JSON, for programs")(command)


def yes_option(command: F) -> F:
    """`--yes`, on what changes files."""
    return click.option("--yes", "-y", is_flag=True, help="do not ask")(command)


def trust_option(command: F) -> F:
    """`--trust`, on what lets a checkpoint act on this machine."""
    return click.option("--trust", is_flag=True, help="also if it comes from somebody else")(
        command
    )


NOTE = (
    click.option("--phase", metavar="NAME", type=WORDS, help="what stage the work is in"),
    click.option("--objective", metavar="TEXT", type=WORDS, help="what the work is for"),
    click.option(
        "--fact",
        "facts",
        metavar="K=V",
        type=PAIR,
        multiple=True,
        help="keep a fact (K= drops it; can be repeated)",
    ),
    click.option("--task", metavar="TEXT", type=WORDS, help="handoff: what is being done"),
    click.option(
        "--decided",
        metavar="TEXT",
        type=WORDS,
        multiple=True,
        help="handoff: a decision (can be repeated)",
    ),
    click.option(
        "--failed",
        metavar="TEXT",
        type=WORDS,
        multiple=True,
        help="handoff: tried in vain (can be repeated)",
    ),
    click.option(
        "--next",
        metavar="TEXT",
        type=WORDS,
        multiple=True,
        help="handoff: what comes next (can be repeated)",
    ),
    click.option(
        "--active",
        metavar="PATH",
        type=WORDS,
        multiple=True,
        help="handoff: a file in work (can be repeated)",
    ),
    click.option(
        "--position",
        metavar="K=V",
        type=PAIR,
        multiple=True,
        help="where execution stands (can be repeated)",
    ),
)
"""What is said about a checkpoint, now or of the next one."""


def note_options(command: F) -> F:
    """`--phase`, `--fact` and the like."""
    for option in reversed(NOTE):
        command = option(command)
    return command
