"""`gitcp ui`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from gitcp.cli import commands
from gitcp.cli.context import Context
from gitcp.cli.failure import Ended, describe
from gitcp.cli.options import Command, session_option
from gitcp.cli.output import Output, Part
from gitcp.errors import BadValue
from gitcp.safe import safe

if TYPE_CHECKING:
    from gitcp.store import Store
    from gitcp.tui.acts import Console
    from gitcp.tui.app import Given


@click.command(cls=Command)
@session_option
@click.pass_obj
def command(context: Context, session: str | None) -> None:
    """Show sessions and checkpoints in the terminal

    Keys restore, fork, resume, save, tag and undo; each shows its plan first. ? lists all keys.

      gitcp ui
      gitcp ui --session e7ba
    """
    if not is_on_terminal(context):
        raise BadValue("gitcp ui needs a terminal", hint="gitcp log")
    show(context, session)


def is_on_terminal(context: Context) -> bool:
    """Return whether a person can see and type: not on a pipe, not on a dumb terminal."""
    return (
        context.output.terminal
        and context.output.can_ask
        and context.host.env.get("TERM", "dumb") != "dumb"
    )


def show(context: Context, session: str | None) -> None:
    """Run the interface until it is quit."""
    given = given_by(context, session)
    from gitcp.tui.app import run  # textual: a quarter of a second

    env = context.host.env
    light = env.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")
    run(given, light=light, mouse=env.get("GITCP_MOUSE", "1") != "0")


def given_by(context: Context, session: str | None) -> Given:
    """Return what the interface needs of the command line."""
    from gitcp.tui.app import Given

    def opened() -> Store:
        return _quiet(context).store

    def perform(args: Sequence[str], console: Console) -> int:
        return _perform(context, args, console)

    store = context.store
    return Given(
        open_store=opened,
        perform=perform,
        limits=lambda: _quiet(context).limits(),
        current=lambda store: _quiet(context, store).viewed(None),
        now=context.host.now,
        session=context.viewed(session),
        root=store.repo.root,
        cwd=context.cwd,
        program=(sys.executable, "-P", "-m", "gitcp", "-C", os.fspath(context.cwd)),
    )


class _Nowhere:
    """A console that nobody sees."""

    def line(self, text: str) -> None: ...

    def ask(self, question: str) -> bool:  # noqa: ARG002
        return False


def _quiet(context: Context, store: Store | None = None) -> Context:
    """Return a context of its own whose messages nobody sees."""
    quiet = _context(context, (), _Nowhere())
    if store is not None:
        quiet.__dict__["store"] = store
    return quiet


def _context(context: Context, args: Sequence[str], console: Console) -> Context:
    inner = Context(args)
    inner.lives_long = True
    inner.host, inner.directory = context.host, os.fspath(context.cwd)
    inner.output = _Shown(context.host.env, console)
    return inner


class _Shown(Output):
    """The output of a command that the interface runs: its lines and questions are shown there."""

    def __init__(self, env: Mapping[str, str], console: Console) -> None:
        super().__init__(env)
        self._console = console
        self.colour = self.paging = False
        self.terminal = True

    @property
    def width(self) -> int | None:
        return None

    @property
    def can_ask(self) -> bool:
        return True

    def line(self, *parts: Part) -> None:
        self.say(*parts)

    def text(self, text: str) -> None:
        self._console.line(text.removesuffix("\n"))

    def data(self, data: bytes) -> None:
        self._console.line(data.decode("utf-8", "replace").removesuffix("\n"))

    def say(self, *parts: Part) -> None:
        self._console.line("".join(map(self.shown, parts)))

    def ask(self, question: str) -> bool | None:
        return self._console.ask(question)

    def prompt(self, question: str) -> str | None:  # noqa: ARG002
        return None

    @contextmanager
    def progress(self) -> Iterator[None]:
        yield


def _perform(context: Context, args: Sequence[str], console: Console) -> int:
    """Run a command line; what it prints, asks and fails with goes to the console."""
    own = _context(context, args, console)
    try:
        return own.recording_damage(lambda: _run(args, own))
    except Ended as ended:
        return ended.code
    except Exception as error:  # noqa: BLE001 -- this is the last place that sees it
        failure = describe(error)
        lines = [f"error: {failure.message}", *(f"  {each}" for each in failure.candidates)]
        lines += [f"hint: {failure.hint}"] if failure.hint else []
        for line in lines:
            console.line(safe(line))
        return failure.code


def _run(args: Sequence[str], context: Context) -> int:
    command = commands.load(args[0])
    with command.make_context(args[0], [*args[1:]], obj=context) as ctx:
        command.invoke(ctx)
    return 0
