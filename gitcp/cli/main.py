"""The command line: find the command, parse its arguments, run it; errors become exit codes.

Arguments that `gitcp.cli.reader` does not parse go to click, which is imported only then.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gitcp.cli import commands, reader
from gitcp.cli.context import Context
from gitcp.cli.failure import guarded
from gitcp.errors import RepositoryNotFound

if TYPE_CHECKING:
    from gitcp.fastpath.stat_check import Look


def run(args: Sequence[str], look: Look | None = None) -> int:
    """Run the command line `args` and return its exit code. `look` is a scan in progress."""
    context = Context(args, look)
    options = args[: args.index("--")] if "--" in args else args
    try:
        return guarded(
            lambda: context.noting_damage(lambda: _run(args, context)),
            os.environ,
            as_json="--json" in options,
            interrupted=context.interrupted,
        )
    finally:
        if "gitcp.git.catfile" in sys.modules:  # where this process ends without its exit handlers
            sys.modules["gitcp.git.catfile"].stop_all()


def _run(args: Sequence[str], context: Context) -> int:
    args, at = commands.expanded(args)
    if at == len(args) and _shows_interface(args, context):
        return 0
    if args[at : at + 1] and args[at] in commands.NAMES and commands.COMPLETE not in os.environ:
        command = commands.load(args[at])
        before, given = reader.read(commands.GITCP, args[:at]), reader.read(command, args[at + 1 :])
        if before is not None and given is not None:
            commands.GITCP.run(context, **before)
            commands.perform(context, command, given)
            return 0
    from gitcp.cli import group  # loads click

    return group.run(args, context)


def _shows_interface(args: Sequence[str], context: Context) -> bool:
    """Run the interface if `gitcp` alone was typed on a terminal, in a repository. Without its
    extra, print how to install it, before the help.
    """
    given = reader.read(commands.GITCP, args)
    if given is None or not sys.stdout.isatty() or commands.COMPLETE in os.environ:
        return False
    from gitcp.cli import ui  # only for a terminal

    commands.GITCP.run(context, **given)
    if not (ui.is_on_terminal(context) and _is_in_repository(context)):
        return False
    if not ui.is_installed():
        context.output.say(f"for the terminal interface: {ui.INSTALL}")
        return False
    ui.show(context, None)
    return True


def _is_in_repository(context: Context) -> bool:
    try:
        return context.store is not None
    except RepositoryNotFound:
        return False
