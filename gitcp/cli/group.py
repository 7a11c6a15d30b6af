"""`gitcp` and its commands as click objects, built from their declarations (`gitcp.cli.options`).
Parses what the quick reader does not, and prints help, usage and completions.
"""

from __future__ import annotations

import inspect
import os
import re
import shlex
from collections.abc import Sequence
from typing import Any

import click
from click.shell_completion import BashComplete, CompletionItem

from gitcp import __version__
from gitcp.cli import commands
from gitcp.cli.commands import COMMANDS, COMPLETE
from gitcp.cli.context import Context
from gitcp.cli.options import (
    WORDS,
    Argument,
    Kind,
    Option,
    Parameter,
    Rest,
    spelled_out,
)
from gitcp.cli.options import Command as Declared
from gitcp.errors import BadValue, GitcpError
from gitcp.safe import safe

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


ON_ONE_SCREEN = """\
Usage: gitcp [-C DIR] [--no-pager] COMMAND ...

Save points for coding agents: files and conversation, together.

COMMANDS

A checkpoint is written as @ (the last one), @~2, 12, a tag, a label, yesterday.
gitcp help COMMAND explains one command, gitcp help --all lists all.
"""


def _verbatim(text: str) -> str:
    """Mark indented paragraphs (examples) with click's backspace, so that their lines are kept."""
    return re.sub(r"\n\n(?=  )", "\n\n\b\n", inspect.cleandoc(text))


class _Type(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """A `Kind` as a click parameter type."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.name = kind.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self.kind.read(value) if isinstance(value, str) else value  # else: a default
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
        context = ctx.ensure_object(Context)
        context.directory = ctx.find_root().params.get("directory", "")
        try:
            completions = list(self.kind.complete(context))
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


class Command(click.Command):
    """A command whose examples are printed verbatim, with optional words after `--`. `-h` shows the
    common options, `--help` all.
    """

    def __init__(self, name: str) -> None:
        self.declared = declared = commands.load(name)
        super().__init__(
            name,
            callback=lambda **given: commands.perform(_context(), declared, given),
            help=_verbatim(declared.help),
            params=_made_of(declared),
        )
        self.rest = next((each for each in declared.parameters if isinstance(each, Rest)), None)
        self.allow_extra_args = True  # refused in parse_args, with a better hint
        self.whole = False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = spelled_out(self.declared, args)
        at = words.index("--") if self.rest is not None and "--" in words else len(words)
        self.whole = "--help" in words[:at]
        bare = super().parse_args(ctx, words[:at])
        if bare and not (self.rest and self.rest.bare):
            raise self._too_many(ctx, bare)
        if self.rest is not None:
            rest = map(self.rest.kind.read, (*bare, *words[at + 1 :]))
            ctx.params[self.rest.target] = tuple(rest)
        return []

    def _too_many(self, ctx: click.Context, words: list[str]) -> BadValue:
        """Return the error for extra words; for a single text argument it suggests quotes."""
        arguments = [each for each in self.declared.parameters if isinstance(each, Argument)]
        if len(arguments) != 1 or arguments[0].kind is not WORDS:
            return BadValue(f"unexpected argument {words[0]!r}", hint=f"{ctx.command_path} -h")
        (first,) = arguments
        text = " ".join((ctx.params[first.target], *words))
        hint = shlex.join(["gitcp", str(self.name), text])
        return BadValue(f"{first.metavar.strip('[]')} with several words must be quoted", hint=hint)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        pieces = super().collect_usage_pieces(ctx)
        if self.rest is None:
            return pieces
        dashes = "[--]" if self.rest.bare else "--"
        return [*pieces, f"[{dashes} {self.rest.metavar}...]"]

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        return _asked_for_help(super().get_help_option(ctx))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rare = {each.target for each in self.declared.parameters if _is_rare(each)}
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        shown = [each for each in options if self.whole or each.name not in rare]
        lines = [line for each in shown if (line := each.get_help_record(ctx)) is not None]
        with formatter.section("Options"):
            formatter.write_dl(lines)
            if len(shown) < len(options):
                formatter.write_text(f"More options: gitcp help {self.name}")


def _is_rare(parameter: Parameter) -> bool:
    return isinstance(parameter, Option) and parameter.rare


def _asked_for_help(option: click.Option | None) -> click.Option | None:
    if option is not None:
        option.help = "show this help"
    return option


def _context() -> Context:
    return click.get_current_context().ensure_object(Context)


def _made_of(declared: Declared) -> list[click.Parameter]:
    return [_made(each) for each in declared.parameters if not isinstance(each, Rest)]


def _made(declared: Argument | Option) -> click.Parameter:
    """Return the click parameter for a declaration."""
    more: dict[str, Any] = {"required": declared.required}
    if declared.default not in (None, ()):  # for click, None is a value as well
        more["default"] = declared.default
    if isinstance(declared, Argument):
        more["nargs"] = -1 if declared.several else 1
        kind, metavar = _Type(declared.kind), declared.metavar
        return click.Argument([declared.target], type=kind, metavar=metavar, **more)
    names, text = [*declared.names, declared.target], declared.help
    if declared.meaning is not None:
        default = declared.default
        return click.Option(names, flag_value=declared.meaning, default=default, help=text)
    more["multiple"] = declared.multiple
    kind, metavar = _Type(declared.kind), declared.metavar
    return click.Option(names, type=kind, metavar=metavar, help=text, **more)


class LazyGroup(click.Group):
    """Imports a command only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's
        return [*commands.NAMES]

    # click's
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        return Command(cmd_name) if cmd_name in commands.NAMES else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        self.whole = "--help" in args
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in commands.NAMES and not ctx.resilient_parsing:
            raise commands.unknown(args[0], args[1:])
        return super().resolve_command(ctx, args)

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        return _asked_for_help(super().get_help_option(ctx))

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the everyday commands on one screen, or all commands."""
        if self.whole:
            super().format_help(ctx, formatter)
            return
        formatter.write(ON_ONE_SCREEN.partition("COMMANDS\n")[0])
        with formatter.indentation():
            formatter.write_dl([(name, commands.LINES[name]) for name in commands.EVERYDAY])
        formatter.write(ON_ONE_SCREEN.partition("COMMANDS\n")[2])

    # click's
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for section, lines in COMMANDS.items():
            with formatter.section(section):
                formatter.write_dl(list(lines.items()), col_max=12)


def _root() -> click.Group:
    def begin(**given: Any) -> None:
        commands.GITCP.run(_context(), **given)
        ctx = click.get_current_context()
        if ctx.invoked_subcommand is None:
            click.echo(ctx.get_help())

    version = click.version_option(__version__, message="gitcp %(version)s")
    return version(
        LazyGroup(
            "gitcp",
            callback=begin,
            help=_verbatim(commands.GITCP.help),
            params=_made_of(commands.GITCP),
            context_settings=SETTINGS,
            invoke_without_command=True,
            subcommand_metavar="COMMAND ...",
        )
    )


root = _root()


class Described(BashComplete):
    """Completions for bash's script: a word, a tab and its description."""

    name = "described"

    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.type},{item.value}" + (f"\t{item.help}" if item.help else "")


def run(args: Sequence[str], context: Context) -> int:
    """Run click like `click.Command.main`, but without its handling of a closed pipe."""
    asked = os.environ.get(COMPLETE)
    if asked:
        from click.shell_completion import add_completion_class, shell_complete

        add_completion_class(Described)
        return shell_complete(root, {"obj": context}, "gitcp", COMPLETE, asked)
    try:
        with root.make_context("gitcp", list(args), obj=context) as ctx:
            root.invoke(ctx)
    except click.exceptions.Exit as end:
        return end.exit_code
    return 0
