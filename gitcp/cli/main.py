"""The command line: a click group whose commands are imported when they are used; errors become
exit codes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    shell_complete,
)

from gitcp import __version__
from gitcp.cli import commands
from gitcp.cli.commands import COMMANDS, MORE
from gitcp.cli.context import Context
from gitcp.cli.failure import guarded
from gitcp.cli.options import COMPLETE, asked_for_help, verbatim
from gitcp.errors import RepositoryNotFound

if TYPE_CHECKING:
    from gitcp.fastpath.stat_check import Look

HELP = ("-h", "--help")
SETTINGS = {"help_option_names": [*HELP], "max_content_width": 100}

ON_ONE_SCREEN = """\
Usage: gitcp [-C DIR] [--no-pager] COMMAND ...

Save points for coding agents: files and conversation, together.

COMMANDS

A checkpoint is written as @ (the last one), @~2, 12, a tag, a label, yesterday.
gitcp help COMMAND explains one command, gitcp help --all lists all.
"""


class LazyGroup(click.Group):
    """Imports a command only when it is used."""

    def __init__(self, *positional: Any, help: str | None, **more: Any) -> None:
        super().__init__(*positional, help=verbatim(help), **more)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's
        return [*commands.NAMES]

    # click's
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        known = cmd_name in commands.NAMES or cmd_name in commands.FORMS
        return commands.load(cmd_name) if known else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = self._command_at(args)
        options, words = args[:at], args[at:]
        if words:
            asked = [word for word in options if word in HELP]  # `gitcp --help log`
            options = [word for word in options if word not in HELP]
            words = [*commands.expanded(words), *asked[:1]]
        self.whole = "--help" in options
        try:
            return super().parse_args(ctx, [*options, *words])
        except click.NoSuchOption as error:
            from gitcp.cli import habits  # only on the way to an error

            raise habits.unknown_root_option(error, args) from None

    def _command_at(self, args: list[str]) -> int:
        takes_value = {
            name for each in self.params if not getattr(each, "is_flag", True) for name in each.opts
        }
        at = 0
        while at < len(args) and args[at].startswith("-"):
            at += 2 if args[at] in takes_value else 1
        return at

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, words = commands.form(args)
        if name not in commands.NAMES and name not in commands.FORMS:
            if ctx.resilient_parsing:
                return super().resolve_command(ctx, args)
            from gitcp.cli import habits  # only on the way to an error

            raise habits.unknown_command(name, words)
        return name, commands.load(name), words

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        return asked_for_help(super().get_help_option(ctx))

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
        with formatter.section("For setup and programs"):
            formatter.write_text(", ".join(MORE))


@click.group(
    "gitcp",
    cls=LazyGroup,
    context_settings=SETTINGS,
    invoke_without_command=True,
    subcommand_metavar="COMMAND ...",
)
@click.option("-C", "directory", metavar="DIR", default="", help="run as if started in DIR")
@click.option("--no-pager", "-P", is_flag=True, help="never send output through a pager")
@click.version_option(
    __version__, "--version", "-v", "-V", message="gitcp %(version)s", help="show the version"
)
@click.pass_context
def root(ctx: click.Context, directory: str, *, no_pager: bool) -> None:
    """Save points for coding agents: files and conversation, together.

    Each checkpoint is one commit in this repository, on a separate ref. A restore brings back both,
    and the agent continues from there. Ways to name a checkpoint:

      @  @~2           the last one of the session, the second before it
      12  SESSION@12   by number
      TAG  LABEL       by tag, by its exact label
      :/TEXT           by words of its label
      yesterday        by time
      A..B             a range, for log
    """
    context = ctx.ensure_object(Context)
    context.directory = directory
    context.output.paging = not no_pager
    if ctx.invoked_subcommand is None and not _shows_interface(context):
        click.echo(ctx.get_help())


class Described(BashComplete):
    """Completions for bash's script: a word, a tab and its description."""

    name = "described"

    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.type},{item.value}" + (f"\t{item.help}" if item.help else "")


def run(args: Sequence[str], look: Look | None = None) -> int:
    """Run the command line `args` and return its exit code. `look` is a scan in progress."""
    context = Context(args, look)
    options = args[: args.index("--")] if "--" in args else args
    try:
        return guarded(
            lambda: context.recording_damage(lambda: invoke(args, context)),
            os.environ,
            as_json="--json" in options,
            interrupted=context.interrupted,
        )
    finally:
        if "gitcp.git.catfile" in sys.modules:  # where this process ends without its exit handlers
            sys.modules["gitcp.git.catfile"].stop_all()


def invoke(args: Sequence[str], context: Context) -> int:
    """Run click like `click.Command.main`, but without its handling of errors and of a closed
    pipe.
    """
    asked = os.environ.get(COMPLETE)
    if asked:
        add_completion_class(Described)
        return shell_complete(root, {"obj": context}, "gitcp", COMPLETE, asked)
    try:
        with root.make_context("gitcp", list(args), obj=context) as ctx:
            root.invoke(ctx)
    except click.exceptions.Exit as end:
        return end.exit_code
    return 0


def _shows_interface(context: Context) -> bool:
    """Run the interface if `gitcp` alone was typed on a terminal, in a repository."""
    if not sys.stdout.isatty():
        return False
    from gitcp.cli import ui  # only for a terminal

    if not (ui.is_on_terminal(context) and _is_in_repository(context)):
        return False
    ui.show(context, None)
    return True


def _is_in_repository(context: Context) -> bool:
    try:
        return context.store is not None
    except RepositoryNotFound:
        return False
