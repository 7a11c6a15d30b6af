"""`gitcp note`."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import click

from gitcp import documents
from gitcp.cli.context import Context
from gitcp.cli.options import (
    Command,
    NoteOptions,
    exact_session_option,
    json_option,
    note_of,
    note_options,
)
from gitcp.cli.output import BOLD, Styled
from gitcp.errors import BadValue, GitcpError
from gitcp.git.fsync import replace_file
from gitcp.model import Note
from gitcp.saving import session as session_op
from gitcp.state import note as op
from gitcp.state.note import PendingNote

EDITED = "note.txt"
EXPLAINED = """
# Note for the next checkpoint {whose}. One entry per line, KEY: TEXT; a line that starts
# with a space continues the previous one. Lines that start with # are ignored.
#
#   phase, objective, task           once
#   fact, position                   KEY=VALUE; an empty value removes it
#   decided, failed, next, active    repeatable
"""


class Options(NoteOptions):
    """What was typed."""

    edit: bool
    show: bool
    clear: bool
    session: str | None
    as_json: bool


@click.command(cls=Command)
@note_options
@click.option("--edit", "-e", is_flag=True, help="edit the pending note in your editor")
@click.option("--show", is_flag=True, help="show the pending note (the default)")
@click.option("--clear", is_flag=True, help="discard the pending note, and end the handoff")
@exact_session_option
@json_option
@click.pass_obj
def command(context: Context, /, **values: Any) -> None:
    """Add a note to the next checkpoint

    Added once, whoever saves it; in an agent's shell, or with --session, to the next checkpoint of
    that session. Repeated notes are combined.

      gitcp note --decided "one file per change"
      gitcp note --edit
      gitcp note --show
    """
    given = Options(**values)
    note, ways = (
        note_of(given),
        [name for name in ("edit", "show", "clear") if getattr(given, name)],
    )
    if len(ways) + (note != Note()) > 1:
        raise BadValue(
            "--edit, --show, --clear and note options cannot be combined", hint="gitcp note -h"
        )
    shown = ways == ["show"] or (not ways and note == Note())
    name = session_op.resolve_prefix(context.store, given.session) if shown else given.session
    session = session_op.named(context.store, name)
    if ways == ["clear"]:
        op.clear(context.store, session)
        if (of := session or context.current(None)) is not None:
            op.clear_handoff(context.store, of)
    elif ways == ["edit"]:
        op.put(context.store, session, _edited(context, session))
    elif note != Note():
        op.add(context.store, session, note)
    notes = op.pending(context.store.repo)
    if given.session is not None:
        notes = tuple(each for each in notes if each.session == session)
    _print(context, notes, as_json=given.as_json)


def _edited(context: Context, session: str | None) -> Note:
    """Return the pending note as edited by the user. Unreadable text stays in the file, and its
    path is printed.
    """
    repo = context.store.repo
    path = repo.state_dir / EDITED
    before = next((each.note for each in op.pending(repo) if each.session == session), Note())
    explained = EXPLAINED.format(whose=f"of {session}" if session else "here").lstrip("\n")
    replace_file(path, f"{explained}\n{op.format_lines(before)}".encode(), durable=False)
    env = context.host.env
    named = (
        env.get("GIT_EDITOR"),
        repo.personal("core.editor"),
        env.get("VISUAL"),
        env.get("EDITOR"),
    )
    editor = next(filter(None, named), "vi" if sys.stdin.isatty() else None)
    if editor is None:
        raise GitcpError(
            "no editor is set and this is not a terminal: the note is unchanged",
            hint="gitcp note --task TEXT",
        )
    # The user's own command line, as git runs it.
    code = subprocess.run(
        ["/bin/sh", "-c", f'{editor} "$@"', editor, path], env=dict(env), check=False
    ).returncode
    if code:
        raise GitcpError(
            f"the editor exited with {code}: the note is unchanged",
            hint="GIT_EDITOR=nano gitcp note --edit",
        )
    try:
        note = op.read(path.read_text("utf-8"))
    except UnicodeDecodeError:
        raise GitcpError(
            f"the edited note is not UTF-8: the note is unchanged; your text is in {path}"
        ) from None
    except GitcpError as error:
        context.output.say(f"the note is unchanged; your text is in {path}")
        raise error from None
    path.unlink(missing_ok=True)
    return note


def _print(context: Context, notes: tuple[PendingNote, ...], *, as_json: bool) -> None:
    if as_json:
        for each in notes:
            context.output.document(documents.document("note", each.to_json()))
        return
    if not notes:
        context.output.line("no pending note")
    for each in notes:
        whose = f"of {each.session}" if each.session else "here"
        context.output.line(Styled(f"Pending note for the next checkpoint {whose}:", BOLD))
        for line in op.format_lines(each.note).splitlines():
            context.output.line(f"  {line}")
        if removed := op.removed(each.note):
            context.output.line(f"  ({', '.join(removed)}: removed)")
