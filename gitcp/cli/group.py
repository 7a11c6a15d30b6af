"""`gitcp` itself: the table of its commands, each imported when it runs, and the options before the
command.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import click

from gitcp import __version__
from gitcp.cli.context import Context
from gitcp.cli.failure import guarded
from gitcp.cli.options import verbatim

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

COMMANDS = {
    "Save": {
        "save": "Save files and conversation as a checkpoint",
    },
    "Look": {
        "log": "Show checkpoints, newest first",
        "list": "List the checkpoints of the session in a short table",
        "show": "Show one checkpoint, or a file or the conversation in it",
        "diff": "Show what differs between a checkpoint and now, or another checkpoint",
        "status": "Show what a save would take, and what can be undone",
        "sessions": "List all sessions",
        "why": "Say which checkpoint and prompt made a line, or changed a path",
        "find": "Find a text in the conversations, notes and files of all checkpoints",
        "oplog": "List what was done besides saving",
        "stats": "Show what the checkpoints take on disk",
        "view": "Show a session in the browser: timeline, conversation, changes",
    },
    "Go back": {
        "restore": "Bring files and conversation back from a checkpoint",
        "rollback": "Go back to the state before the last prompt",
        "undo": "Undo the last restore, prune or delete",
        "redo": "Take back the last undo",
        "revert": "Take back what one step changed, and keep everything later",
        "resume": "Start the agent where a checkpoint has it",
    },
    "Branch off": {
        "fork": "Begin a new session at a checkpoint, beside the old one",
    },
    "Name": {
        "tag": "Name a checkpoint, or list the names",
        "rename": "Give a session another name",
        "note": "Say now what the next save shall say",
    },
    "Run": {
        "watch": "Save by itself while somebody works here",
        "run": "Run a command between two checkpoints",
        "compensate": "Run compensations: what undoes effects outside of the files",
    },
    "Tidy": {
        "prune": "Drop checkpoints that no rule keeps",
        "delete": "Drop a whole session",
        "purge": "Take a text or a path out of every checkpoint",
    },
    "Share": {
        "remote": "Say which remotes checkpoints may go to, or list them",
        "push": "Send a session and its tags to a remote",
        "fetch": "Get sessions from a remote, to look at or to go on with",
        "export": "Write a session or a conversation to a file",
        "review": "Tell how commits came about: prompts, attempts, tests, files",
        "import": "Take in what somebody exported: a bundle, JSON, or an agent's transcript",
        "publish": "Make a branch of a session, for a pull request",
        "secrets": "List secrets in checkpoints: tokens, keys, passwords",
    },
    "Check": {
        "check": "Verify that every checkpoint is whole",
    },
    "Set up": {
        "enable": "Set up agents so that they save by themselves",
        "disable": "Take back what enable set up",
        "doctor": "Look whether everything is in place",
        "hook": "Take an event from an agent; agents call this",
        "mcp": "Serve checkpoints to any MCP client, on standard input and output",
        "completion": "Print the completion script for a shell",
        "demo": "Show gitcp at work in a scratch repository",
    },
}
"""The literal table: `gitcp --help` imports no command."""


MISSING = {
    "merge": "sessions are never merged: each is a line. `gitcp diff A B` shows what differs, "
    "`gitcp restore B -- PATH` takes paths over; `git merge` merges what was committed on two "
    "branches",
}
"""Commands that one could expect and that there are not, and what to do instead."""

MODULES = {"import": "importing"}
"""Where the module cannot have the command's name."""

COMPLETE = "_GITCP_COMPLETE"


class LazyGroup(click.Group):
    """Imports `gitcp.cli.<name>` when that command runs, and not before."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help = verbatim(self.help or "")

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's
        return list(_names())

    # click's
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _names():
            return None
        command: click.Command = import_module(
            f"gitcp.cli.{MODULES.get(cmd_name, cmd_name)}"
        ).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _names() and not ctx.resilient_parsing:
            instead = MISSING.get(args[0])
            raise click.UsageError(
                instead or f"there is no command {args[0]!r}{_suggestion(args[0])}", ctx
            )
        return super().resolve_command(ctx, args)

    # click's
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for section, commands in COMMANDS.items():
            with formatter.section(section):
                formatter.write_dl(list(commands.items()), col_max=12)


@click.group(
    cls=LazyGroup,
    context_settings=SETTINGS,
    invoke_without_command=True,
    subcommand_metavar="COMMAND ...",
)
@click.version_option(__version__, message="gitcp %(version)s")
@click.option("-C", "directory", metavar="DIR", default="", help="run as if started in DIR")
@click.option("--no-pager", is_flag=True, help="never send output through a pager")
@click.pass_context
def root(ctx: click.Context, directory: str, *, no_pager: bool) -> None:
    """Save points for coding agents: files and conversation, together.

    Each checkpoint is one commit in this repository, on a ref of its own. Going back restores both,
    and the agent continues from there. A checkpoint is written as in

      @  @~2           the last one of the session, the second before it
      12  SESSION@12   by number
      TAG  :/TEXT      by name, by words of its label
      A..B             a range, for log
    """
    context = ctx.ensure_object(Context)
    context.directory = directory
    context.output.paging = not no_pager
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def run(args: Sequence[str]) -> int:
    """Run the command line on `args`; its exit code. Writes nothing but what the command does."""
    context = Context(args)
    options = list(args)
    options = options[: options.index("--")] if "--" in options else options
    return guarded(
        lambda: context.noting_damage(lambda: _invoke(list(args), context)),
        os.environ,
        as_json="--json" in options,
        interrupted=context.interrupted,
    )


def _invoke(args: list[str], context: Context) -> int:
    """What `click.Command.main` does, without its own idea of a reader that left early."""
    asked = os.environ.get(COMPLETE)
    if asked:
        from click.shell_completion import shell_complete  # only when a shell asks

        return shell_complete(root, {"obj": context}, "gitcp", COMPLETE, asked)
    try:
        with root.make_context("gitcp", args, obj=context) as ctx:
            root.invoke(ctx)
    except click.exceptions.Exit as end:
        return end.exit_code
    return 0


def _names() -> Iterator[str]:
    return (name for commands in COMMANDS.values() for name in commands)


def _suggestion(name: str) -> str:
    from difflib import get_close_matches  # only on the way to an error

    close = get_close_matches(name, list(_names()), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
