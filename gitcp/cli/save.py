"""`gitcp save`."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from gitcp import adapters, humanize, wire
from gitcp.cli import confirm, rendering
from gitcp.cli.agent_names import RECORDED_NAME
from gitcp.cli.context import Context
from gitcp.cli.failure import IN_PART, end
from gitcp.cli.options import (
    WORDS,
    Command,
    NoteOptions,
    OneOf,
    appends_option,
    dry_run_option,
    exact_session_option,
    json_option,
    note_of,
    note_options,
    produces_option,
    rare,
)
from gitcp.cli.output import BOLD, GREEN, Styled
from gitcp.errors import BadValue, GitcpError
from gitcp.fastpath import watched
from gitcp.lifecycle import housekeeping
from gitcp.model import Checkpoint, CheckpointId, Note, Trigger
from gitcp.saving import unchanged
from gitcp.saving.save import Saved, SaveRequest, decided, described, save
from gitcp.state import state_commands
from gitcp.state.state_commands import ALLOW, StateCommand
from gitcp.value import replace
from gitcp.worktree.paths import skip_line

SHOWN = 10
TRIGGERS = [trigger.value for trigger in Trigger]
SAVING = (
    *("compensate", "tags", "agent", "conversation", "include", "produces", "appends", "state"),
    *("allow", "force"),
)
"""Options that say something of a save, and nothing where only a label is changed."""

PATIENCE = 0.5
"""Seconds to wait for the conversation of the agent running this command, if it is not written
yet.
"""


class Options(NoteOptions):
    """What was typed."""

    label: str | None
    message: str | None
    compensate: tuple[str, ...]
    trigger: str
    tags: tuple[str, ...]
    session: str | None
    agent: str | None
    conversation: str | None
    include: tuple[str, ...]
    produces: tuple[bytes, ...]
    appends: tuple[bytes, ...]
    state: bool
    allow: tuple[str, ...]
    amend: bool
    dry_run: bool
    force: bool
    quiet: bool
    as_json: bool


@click.command(cls=Command)
@click.argument("label", type=WORDS, required=False)
@click.option(
    "--message", "-m", type=WORDS, metavar="LABEL", help="the label, what this checkpoint is"
)
@note_options
@rare(
    click.option(
        "--compensate",
        type=WORDS,
        metavar="CMD",
        multiple=True,
        help="the command that undoes an effect elsewhere",
    )
)
@rare(
    click.option(
        "--trigger",
        type=OneOf(TRIGGERS),
        metavar="WHY",
        default="manual",
        help=f"one of: {', '.join(TRIGGERS)}",
    )
)
@click.option(
    "--tag",
    "tags",
    type=WORDS,
    metavar="NAME",
    multiple=True,
    help="tag the checkpoint (repeatable)",
)
@rare(exact_session_option)
@rare(
    click.option(
        "--agent", type=RECORDED_NAME, metavar="NAME", help="store this agent's conversation"
    )
)
@rare(
    click.option(
        "--conversation", metavar="FILE|-", help="store this file as the conversation (-: stdin)"
    )
)
@rare(
    click.option(
        "--include",
        type=WORDS,
        metavar="GLOB",
        multiple=True,
        help="include ignored files (repeatable)",
    )
)
@rare(produces_option)
@rare(appends_option)
@rare(
    click.option(
        "--state",
        is_flag=True,
        help="run every gitcp.state command, due or not",
    )
)
@rare(
    click.option(
        "--allow",
        type=WORDS,
        metavar="ID",
        multiple=True,
        help="with --state: allow a command that this repository names (repeatable)",
    )
)
@rare(click.option("--amend", is_flag=True, help="change the label of the last checkpoint"))
@dry_run_option
@rare(click.option("--force", is_flag=True, help="save even if nothing changed"))
@click.option("--quiet", "-q", is_flag=True, help="print nothing unless it fails")
@json_option
@click.pass_obj
def command(context: Context, /, **values: Any) -> None:
    """Save files and conversation as a checkpoint

    Untracked files are saved unless ignored or very large. The conversation is that of the agent
    running this command, else the newest of this directory. Phase, objective, facts and handoff
    carry over until you change them.

      gitcp save "before migration" --fact database=sqlite
      gitcp save --decided "one file per change" --next "write the tests"
    """
    given = Options(**values)
    _check_allow(context, given)
    if given.amend:
        _amend(context, given)
    elif given.dry_run:
        _show(context, given)
    else:
        _save(context, given)


def _save(context: Context, given: Options) -> None:
    request = _with_states(context, given, _request(context, given))
    label = request.note.label
    if label and os.path.lexists(context.cwd / label):
        context.output.say(
            f"note: {label} is a path; it became the label of a checkpoint of all files"
        )
    saved = save(context.store, request)
    if saved.damage:
        context.output.say(f"note: {saved.damage}; gitcp doctor --store lists the damaged objects")
    rendering.say_unread(context.output, saved.unread)
    if saved.unknown:
        context.output.say(f"note: {adapters.unknown(saved.checkpoint.agent, saved.unknown)}")
    if given.as_json:
        context.output.data(_json_text(described(context.store, saved)).encode("utf-8"))
    elif not given.quiet:
        _print(context, described(context.store, saved))
    if saved.saved:
        retain(context, saved.checkpoint.id)
    if saved.unread is not None or any(fault.is_loss for fault in saved.faults):
        end(IN_PART)
    if context.look is None or saved.saved or saved.faults:
        return
    if _is_repeatable(context, given, saved):
        options = context.arguments[1:]
        text = _json_text(described(context.store, saved)) if given.as_json else _text(saved)
        unchanged.remember_answer(context.store, saved, options, text, context.look.started)


def _with_states(context: Context, given: Options, request: SaveRequest) -> SaveRequest:
    """Return the request, with --state with every state that a command saves. Those that this
    repository's own configuration names are shown, and run only if the user agrees. Raises BadValue
    if there are none.
    """
    if not given.state:
        return request
    commands = _saving(context)
    if not commands:
        raise BadValue(
            "no command saves a state: nothing was saved",
            hint="git config --global gitcp.state.NAME.save COMMAND",
        )
    _require_allowed(context, given, commands)
    return replace(request, states=tuple(each.name for each in commands))


def _saving(context: Context) -> list[StateCommand]:
    return [each for each in state_commands.listing(context.store.repo) if each.save]


def _check_allow(context: Context, given: Options) -> None:
    """Raise BadValue for --allow without --state, or with the ID of no command."""
    if given.allow and not given.state:
        raise BadValue(
            "--allow is an option of --state: nothing was saved",
            hint=context.with_option("--state"),
        )
    known = {each.id for each in _saving(context)} if given.allow else set()
    for id in given.allow:
        if id not in known:
            raise BadValue(
                f"no command of a state here has the ID {id}: nothing was run or saved",
                hint=shlex.join(["gitcp", *_without_allow(context.arguments)]),
            )


def _without_allow(arguments: Iterable[str]) -> Iterator[str]:
    words = iter(arguments)
    for word in words:
        if word == "--allow":
            next(words, None)
        elif not word.startswith("--allow="):
            yield word


def _require_allowed(context: Context, given: Options, commands: list[StateCommand]) -> None:
    """Ask for the commands that this repository's own configuration names, unless they are named.
    Raises Refused: nothing is run then.
    """
    new = [each for each in commands if each.allowable]
    asked = [each for each in new if each.id not in given.allow]
    if asked:
        allowing = [word for each in asked for word in ("--allow", each.id)]
        confirm.ask(
            context,
            "Allow these commands in this repository, and run those that save?",
            _command_lines(asked),
            nobody="no command was run, and nothing was saved",
            no="not allowed: no command was run, and nothing was saved",
            hint=context.with_option(*allowing),
        )
    state_commands.allow(context.store.repo, new)


def _command_lines(commands: Iterable[StateCommand]) -> Iterator[str]:
    """Yield what would be allowed, all of it: a line of a stranger's command cannot pass for one of
    ours.
    """
    yield "This repository's own configuration names these commands, and it may be a stranger's:"
    for each in commands:
        yield f"  state {each.name}, {each.id}"
        for done, text in (("saved", each.save), ("restored", each.restore)):
            first, *more = text.split("\n")
            yield from [f"    {done} by: {first}"] if text else []
            yield from (f"    | {line}" for line in more)
        yield from (f"    {limit}" for limit in each.limits)


def _amended(context: Context, given: str | None) -> str:
    """Return the session whose last checkpoint is amended: as for a save, no prefix will do."""
    from gitcp.saving import session as session_op  # rarely

    if given is None:
        return context.session(None)
    session = session_op.exact(context.store, given)
    if context.store.tip(session) is None:
        raise session_op.unknown(given, "nothing was changed")
    return session


def _amend(context: Context, given: Options) -> None:
    """Change the label of the last checkpoint, and save nothing."""
    label = _label(given)
    others = any(getattr(given, name) for name in SAVING) or given.trigger != Trigger.MANUAL
    if label is None or others or note_of(given) != Note():
        raise BadValue(
            "--amend changes only the label, and needs one: nothing was changed",
            hint="gitcp save --amend -m LABEL",
        )
    from gitcp.lifecycle.amend import amend  # rarely

    session = _amended(context, given.session)
    context.require_here(given.session)
    if given.dry_run:
        before = context.checkpoint("@", session)
        if given.as_json:
            _print_amended(context, replace(before, note=replace(before.note, label=label)))
            return
        was = f" from {before.note.label!r}" if before.note.label else ""
        context.output.line(f"would change the label of {before.id}{was} to {label!r}")
        return
    before, after = amend(context.store, session, label)
    if given.as_json:
        _print_amended(context, after)
    elif not given.quiet:
        was = f', before "{before.note.label}"' if before.note.label else ""
        context.output.line(
            Styled("amended", GREEN), " ", Styled(str(after.id), BOLD), f' "{label}"{was}'
        )


def _print_amended(context: Context, checkpoint: Checkpoint) -> None:
    from gitcp import documents  # only for programs

    fields = documents.checkpoint(checkpoint, context.tags.get(checkpoint.commit, ()))
    context.output.document(documents.document("checkpoint", fields))


def _show(context: Context, given: Options) -> None:
    """Print what a save would store now."""
    from gitcp.history.status import status  # rarely

    request = _request(context, given)
    choice = decided(context.store, request)
    current = status(context.store, context.cwd, given.session, request.limits, choice)
    growth = current.conversation
    talk = growth.messages if growth else 0
    if given.as_json:
        from gitcp import documents  # only for programs

        fields = {
            "session": current.session,
            "changes": [documents.change(change) for change in current.changes],
            "skipped": documents.skipped(current.skipped),
            "new_messages": talk,
            "states": _states_to_run(context, given),
        }
        context.output.document(documents.document("save-plan", fields))
        return
    where = f" in session {current.session}" if current.session else ", in a new session"
    files = humanize.count(len(current.changes), "file")
    messages = f", {humanize.count(talk, 'new message')}" if talk else ""
    named = ", ".join(_states_to_run(context, given))
    if asked := ", ".join(_states_to_ask(context, given)):
        context.output.line(f"would first ask whether to allow the commands of: {asked}")
    if not current.changes and talk == 0 and not given.force:
        unchanged = "files and conversation are unchanged"
        if named:
            context.output.line(f"would save{where} if a state changed ({named}): {unchanged}")
        else:
            context.output.line(f"nothing to save{where}: {unchanged}")
        return
    if named:
        context.output.line(f"would run the commands that save: {named}")
    context.output.line(f"would save{where}: {files} changed{messages}")
    rendering.changed(context.output, current.changes, SHOWN)
    for skip in current.skipped[:SHOWN]:
        context.output.line(f"not saved: {skip_line(skip)}")


def _is_repeatable(context: Context, given: Options, saved: Saved) -> bool:
    """Return whether the same options give the same answer until a file of the working tree, the
    repository or the transcript changes. Not if a pipe was read, if a transcript was not found and
    may appear anywhere, if there was a warning, or if other repositories are inside.
    """
    snapshot = saved.taken.snapshot
    if context.arguments[:1] != ("save",) or context.warned:
        return False
    if snapshot.submodules or snapshot.nested or _has_states(context):
        return False
    if given.conversation is not None:
        return all(source.path is not None for source in saved.sources)
    agent = saved.checkpoint.agent
    return bool(saved.sources) or agent is None or agent.session_id is None


def _states_to_run(context: Context, given: Options) -> list[str]:
    if not _has_states(context):
        return []
    from gitcp.saving import states

    due = states.due(context.store, Trigger.MANUAL, tagged=bool(given.tags))
    asked = state_commands.listing(context.store.repo) if given.state else due
    return [each.name for each in asked if each.save and not each.refused]


def _states_to_ask(context: Context, given: Options) -> list[str]:
    listed = state_commands.listing(context.store.repo) if given.state else ()
    return [each.name for each in listed if each.save and each.allowable]


def _has_states(context: Context) -> bool:
    """Return whether a save may run commands, whose answer no file tells."""
    return any(key.startswith(state_commands.PREFIX) for key in context.store.repo.config)


def retain(context: Context, saved: CheckpointId) -> None:
    """Start housekeeping in the background, and print the report of the last one. If it fails, the
    save stands.
    """
    try:
        housekeeping.after_save(context.store, saved)
    except GitcpError as error:
        if str(error) not in context.warned:
            context.output.say(f"note: nothing was dropped: {error}")
    _mention_missed(context)
    report = housekeeping.take_report(context.store.repo)
    if report is not None:
        context.output.say(f"note: {report}")


def _mention_missed(context: Context) -> None:
    """Print once that a watcher of the working tree is not trusted any more."""
    git_dir = str(context.store.repo.git_dir)
    known = watched.load(git_dir)
    if known is not None and known.missed is not None and not known.is_told:
        what = rendering.missed(known.missed)
        context.output.say(
            f"note: {watched.WATCHER} is not trusted: {what}; until it is restarted, every file is "
            "compared"
        )
        known.is_told = True
        watched.store(git_dir, known)


def _request(context: Context, given: Options) -> SaveRequest:
    growing = context.inside(given.appends)
    return SaveRequest(
        cwd=context.cwd,
        note=replace(note_of(given), label=_label(given), compensations=given.compensate),
        trigger=Trigger(given.trigger),
        tags=given.tags,
        session=given.session,
        agent=given.agent,
        conversation=_conversation(context, given.conversation),
        limits=context.limits(given.include),
        outputs=context.inside(given.produces),
        appends=growing,
        promised=growing,
        force=given.force,
        patience=PATIENCE,
        watched=True,
        due_states=True,
    )


def _label(given: Options) -> str | None:
    if given.label is not None and given.message is not None:
        is_path = os.path.lexists(given.label)
        why = f"a save includes all files, {given.label} cannot be saved alone"
        raise BadValue(
            f"{why if is_path else 'LABEL and --message cannot be used together'}: "
            "nothing was saved",
            hint=shlex.join(["gitcp", "save", "-m", given.message]),
        )
    label: str | None = given.message if given.label is None else given.label
    return label


def _conversation(context: Context, given: str | None) -> Path | bytes | None:
    if given is None:
        return None
    if given == "":
        raise BadValue(
            "--conversation is empty: nothing was saved", hint="gitcp save --conversation FILE"
        )
    return sys.stdin.buffer.read() if given == "-" else Path(os.path.join(context.cwd, given))


def _text(saved: Saved) -> str:
    """Return the output if nothing was saved."""
    return "".join(f"{line}\n" for line in (saved.reason, *_rest(saved)))


def _json_text(saved: Saved) -> str:
    from gitcp import documents  # only for programs

    return wire.dumps(documents.document("save", saved.to_json())).decode("utf-8") + "\n"


def _print(context: Context, saved: Saved) -> None:
    output, checkpoint = context.output, saved.checkpoint
    if not saved.saved:
        output.line(saved.reason)
    else:
        label = f' "{checkpoint.note.label}"' if checkpoint.note.label else ""
        output.line(
            Styled("saved", GREEN),
            " ",
            Styled(str(checkpoint.id), BOLD),
            label,
            f"  ({_extent(checkpoint)})",
        )
    for line in _rest(saved):
        output.line(line)


def _rest(saved: Saved) -> list[str]:
    """Return the lines that every save prints, whether it made a checkpoint or not."""
    skipped = (*saved.uncommitted, *saved.taken.snapshot.skipped)
    left_out = humanize.listed([skip_line(skip) for skip in skipped], SHOWN)
    unlocked = [rendering.unlocked(each) for each in saved.taken.snapshot.unlocked]
    stored = saved.checkpoint.states.stored if saved.saved and saved.checkpoint.states else ()
    return [
        f"conversation: {saved.why}",
        *(f"state: {each.name}  {humanize.size(each.bytes)}" for each in stored),
        *(f"not saved: {line}" for line in saved.missing_states),
        *([f"if they are yours, run them with: {ALLOW}"] if saved.allowable else []),
        *(f"not saved: {line}" for line in left_out),
        *(f"saved without a lock: {line}" for line in unlocked),
    ]


def _extent(checkpoint: Checkpoint) -> str:
    files = humanize.count(checkpoint.changed, "file") + " changed"
    if checkpoint.conversation is None:
        return f"{files}, no conversation"
    return f"{files}, {humanize.count(checkpoint.conversation.digest.messages, 'message')}"
