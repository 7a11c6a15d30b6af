"""`gitcp note`."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import click

from gitcp.cli import objects
from gitcp.cli.context import Context
from gitcp.cli.options import Command, exact_session_option, json_option, note_options, pass_context
from gitcp.cli.output import BOLD, Styled
from gitcp.cli.saving import note_of
from gitcp.errors import GitcpError
from gitcp.git.fsync import replace_file
from gitcp.model import Note
from gitcp.saving import session as session_op
from gitcp.state import note as op
from gitcp.state.note import Waiting

EDITED = "note.txt"
EXPLAINED = """
# What the next save {whose} says of itself. One thing a line, KEY: TEXT; what begins with a
# blank goes on with the line before. Lines that begin with # say nothing.
#
#   phase, objective, task           once
#   fact, position                   KEY=VALUE; an empty value drops it
#   decided, failed, next, active    as often as you like
"""


@click.command(cls=Command)
@note_options
@click.option("--edit", "-e", is_flag=True, help="write it in your editor")
@click.option("--show", is_flag=True, help="show what waits (the same as no option)")
@click.option("--clear", is_flag=True, help="let nothing wait")
@exact_session_option
@json_option
@pass_context
def command(context: Context, /, **given: Any) -> None:
    """Say now what the next save shall say

    The next checkpoint takes it, whoever makes it, once. In an agent's shell, or with --session, it
    is that session's next one. Given several times it adds up.

      gitcp note --decided "one file per change" --failed "threads: the library is not safe"
      gitcp note --edit
      gitcp note --show
    """
    said, ways = note_of(given), [name for name in ("edit", "show", "clear") if given[name]]
    if len(ways) + (said != Note()) > 1:
        raise click.UsageError("--edit, --show, --clear and what to say exclude each other")
    shown = ways == ["show"] or (not ways and said == Note())
    name = session_op.looked_up(context.store, given["session"]) if shown else given["session"]
    session = session_op.named(context.store, name)
    if ways == ["clear"]:
        op.clear(context.store, session)
    elif ways == ["edit"]:
        op.put(context.store, session, _edited(context, session))
    elif said != Note():
        op.add(context.store, session, said)
    found = op.waiting(context.store.repo)
    if given["session"] is not None:
        found = tuple(each for each in found if each.session == session)
    _print(context, found, as_json=given["as_json"])


def _edited(context: Context, session: str | None) -> Note:
    """What the user's editor made of what waits. Where it cannot be read, it is kept, and it is
    said where.
    """
    repo = context.store.repo
    path = repo.state_dir / EDITED
    before = next((each.note for each in op.waiting(repo) if each.session == session), Note())
    explained = EXPLAINED.format(whose=f"of {session}" if session else "here").lstrip("\n")
    replace_file(path, f"{explained}\n{op.written(before)}".encode(), sync=False)
    env = context.host.env
    named = (
        env.get("GIT_EDITOR"),
        repo.config.get("core.editor"),
        env.get("VISUAL"),
        env.get("EDITOR"),
    )
    editor = next(filter(None, named), "vi" if sys.stdin.isatty() else None)
    if editor is None:
        raise GitcpError(
            "no editor is set, and there is no terminal: the note is as it was",
            hint="gitcp note --task TEXT",
        )
    # The user's own command line, as git runs it.
    code = subprocess.run(
        ["/bin/sh", "-c", f'{editor} "$@"', editor, path], env=dict(env), check=False
    ).returncode
    if code:
        raise GitcpError(
            f"the editor ended with {code}: the note is as it was",
            hint="GIT_EDITOR=… gitcp note --edit",
        )
    try:
        found = op.read(path.read_text("utf-8"))
    except UnicodeDecodeError:
        raise GitcpError(
            f"what was written is not UTF-8; it is kept in {path}, and the note is as it was"
        ) from None
    except GitcpError as error:
        context.output.say(f"what was written is kept in {path}, and the note is as it was")
        raise error from None
    path.unlink(missing_ok=True)
    return found


def _print(context: Context, found: tuple[Waiting, ...], *, as_json: bool) -> None:
    if as_json:
        for each in found:
            context.output.document(objects.document("note", objects.waiting(each)))
        return
    if not found:
        context.output.line("no note waits")
    for each in found:
        whose = f"of {each.session}" if each.session else "here"
        context.output.line(Styled(f"The next save {whose} says:", BOLD))
        for line in op.written(each.note).splitlines():
            context.output.line(f"  {line}")
