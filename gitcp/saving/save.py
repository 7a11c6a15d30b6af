"""Save: capture → snapshot → commit → ref. Objects first, the ref last: a failed save leaves no
checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gitcp import readme, wire
from gitcp.errors import ConversationUnreadable, FormatTooNew, Refused, StoreBusy, StoreDamaged
from gitcp.git import damage, trees
from gitcp.model import (
    MAIN,
    Agent,
    Checkpoint,
    CheckpointId,
    Conversation,
    Digest,
    Fault,
    FileChange,
    Memory,
    Note,
    Oid,
    Run,
    Skip,
    Snapshot,
    Source,
    Span,
    State,
    States,
    StepName,
    Trigger,
)
from gitcp.saving import authors, conversation, memory, position, session, states
from gitcp.saving.conversation import Readable
from gitcp.saving.live_trees import LiveTrees, live_trees
from gitcp.saving.session import Choice
from gitcp.state import hook_failures, latest, note, numbers, programs, run_journal, tag, tool_log
from gitcp.store import Store, one_line
from gitcp.value import EMPTY, Value, replace
from gitcp.worktree import outputs as worktree_outputs
from gitcp.worktree.paths import skip_line
from gitcp.worktree.snapshot import Limits, PartialScan, Taken, known, take

if TYPE_CHECKING:
    from gitcp.state.steps import StepResult

TRIES = 5

UNKNOWN = Oid("unknown")


class ChangeScope(StrEnum):
    """What must have changed for a new checkpoint: anything, files or messages, or files only; or
    files since the last checkpoint here, of any session.
    """

    ALL = "all"
    MESSAGES = "messages"
    FILES = "files"
    UNSAVED = "unsaved"


class Records(Value):
    """What a checkpoint records of the operation that it belongs to: what was restored or reverted;
    the command that was run; the step that ended; the results of steps; `compensated`, the outcomes
    of compensations by key (existing keys win); a framework's state; and the states outside the
    files that commands saved or restored.
    """

    restored_from: CheckpointId | None = None
    reverted: Span | None = None
    run: Run | None = None
    step: StepName | None = None
    results: tuple[StepResult, ...] = ()
    compensated: Mapping[str, str] = EMPTY
    state: State | None = None
    states: States | None = None


class Carried(Value):
    """What a save takes over instead of looking for it: a conversation that is in the store, with
    its agent; a note that replaces the inherited one; the step results of the checkpoint
    `steps_of`; and a snapshot, so that no file is read. `parent` is not read again if it is still
    the last checkpoint.
    """

    conversation: tuple[Conversation | None, Agent | None] | None = None
    note: Note | None = None
    steps_of: Checkpoint | None = None
    files: Snapshot | None = None
    parent: Checkpoint | None = None


class RestoreScan(Value):
    """How the save before a restore and the one after it share one scan. The first adds by
    `complete` what the scan could not see, and does not `remember` the scan; the second continues
    from it (`since`), looks only at what the restore changed, and stores both.
    """

    since: PartialScan | None = None
    complete: Callable[[Taken], Taken] | None = None
    remember: bool = True


class SaveRequest(Value):
    """What to save, and with which note.

    `conversation` is a file or its content, given by hand; with `choice`, session and conversation
    are chosen already. `outputs` are files that are never left out, `appends` those that a program
    appends to. Those `promised` were only appended to since the last save; no other save relies on
    it. `patience` is the seconds to wait for the running agent's conversation to appear on disk.

    A save compares every file with the last scan. Only if `watched`, those that a watcher reports:
    never where gitcp then overwrites or removes files, and not before a risky change.

    `look` is a scan that was made before, of the files to save; it is made again if something newer
    was saved since.

    `due_states`: states outside the files that are due are saved by the user's commands, too, and
    those named in `states` whether they are due or not (gitcp.saving.states).

    `at_work`: the session's program made what nobody is known to have done; False if it has just
    begun (gitcp.saving.authors).
    """

    cwd: Path
    note: Note = Note()
    trigger: Trigger = Trigger.MANUAL
    tags: tuple[str, ...] = ()
    session: str | None = None
    agent: str | None = None
    conversation: Path | bytes | None = None
    limits: Limits = Limits()
    outputs: tuple[bytes, ...] = ()
    appends: tuple[bytes, ...] = ()
    promised: tuple[bytes, ...] = ()
    force: bool = False
    change_scope: ChangeScope = ChangeScope.ALL
    watched: bool = False
    patience: float = 0.0
    choice: Choice | None = None
    due_states: bool = False
    states: tuple[str, ...] = ()
    at_work: bool | None = None
    records: Records = Records()
    carried: Carried = Carried()
    scan: RestoreScan = RestoreScan()
    look: Look | None = None


class Unread(Value):
    """A conversation, or a part of it, that a save could not read: what failed and what was stored
    instead, and a command to run next, or "".
    """

    what: str
    hint: str

    def __str__(self) -> str:
        return f"{self.what}; {self.hint}" if self.hint else self.what


IN_A_HOOK = 4.0
"""Seconds for the commands of states before a risky change. A hook waits ten for everything: a
command of 14 seconds took the files' time as well, and what `rm -rf` removed was in no checkpoint.
"""

MOST_LISTED = 10
"""Paths that were left out, of which a save tells one by one."""


class Saved(Value):
    """The result of a save. `saved` is False if everything was saved already; then `checkpoint` is
    the existing one.

    `missing_states` says which states outside the files are not saved, and why; `allowable` if that
    is for want of the user's word: their commands are in the repository's own configuration.
    `why` explains the choice of session and conversation, `taken` is the snapshot, `sources` are
    the streams that were read. `damage` describes a damaged session and where its checkpoints are
    now, "" if there was none. `unread` is what could not be read of the conversation: the files are
    saved, and what the last checkpoint has of the conversation is kept. `faults` is what is broken
    of git's. `uncommitted` are submodules and nested repositories with work that no commit of
    theirs has, once it was looked for (`described`). `unknown` are the kinds of records of the
    agent's that the adapter does not know, and that no earlier checkpoint of the session had.
    """

    saved: bool
    reason: str
    why: str
    checkpoint: Checkpoint
    taken: Taken
    sources: tuple[Source, ...] = ()
    damage: str = ""
    unread: Unread | None = None
    faults: tuple[Fault, ...] = ()
    uncommitted: tuple[Skip, ...] = ()
    unknown: tuple[str, ...] = ()
    missing_states: tuple[str, ...] = ()
    allowable: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the fields that `gitcp save --json` prints."""
        from gitcp import documents  # only for programs

        return {
            "saved": self.saved,
            "reason": self.reason,
            "uncommitted": documents.skipped(self.uncommitted),
            "unread": self.unread and self.unread.what,
            "faults": documents.faults(self.faults),
            "unknown": list(self.unknown),
            "missing_states": list(self.missing_states),
            "checkpoint": self.checkpoint.to_json(),
        }

    @property
    def skipped(self) -> tuple[Skip, ...]:
        """The paths that are not in the checkpoint, with the reasons."""
        return self.checkpoint.snapshot.skipped

    def __str__(self) -> str:
        """Return the saved id with its label, or why nothing was saved; then a line for each of the
        first paths that were left out.
        """
        from gitcp import humanize  # only for programs

        label = self.checkpoint.note.label if self.saved else None
        first = f'{self.reason} "{one_line(label, 200)}"' if label else self.reason
        left_out = humanize.listed([skip_line(skip) for skip in self.skipped], MOST_LISTED)
        missing = (*self.missing_states, *left_out)
        return "\n".join([first, *(f"not saved: {line}" for line in missing)])


def _choose(store: Store, request: SaveRequest) -> Choice:
    """Choose the session and the conversation; wait for a conversation not written yet."""
    given = (request.session, request.agent, request.conversation)
    choice = session.choose(
        store, request.cwd, session=given[0], agent=given[1], conversation=given[2]
    )
    if choice.capture is not None or not session.await_running(store, request.patience):
        return choice
    return session.choose(
        store, request.cwd, session=given[0], agent=given[1], conversation=given[2]
    )


def decided(store: Store, request: SaveRequest) -> Choice:
    """Return where a save goes, and with which conversation. Raises what `save` does before it
    writes anything: for a tag or session name that cannot be, a taken tag, several conversations.
    """
    for name in request.tags:
        tag.check_free(store, name)
    return request.choice or _choose(store, request)


def save(store: Store, request: SaveRequest) -> Saved:
    """Save files and conversation as one checkpoint.

    Writes objects, one ref under `refs/gitcp/sessions/` and files in `<git dir>/gitcp/`, nothing
    else. Raises a GitcpError and leaves no checkpoint if anything fails.
    """
    choice = decided(store, request)
    if request.conversation is not None and any(source.path is None for source in _sources(choice)):
        store.repo.look = None  # the writer of a pipe may have changed files until it closed
    is_whole = request.carried.files is None and request.scan.since is None
    try:
        captured = _states(store, request, choice.session)
        if captured.states is not None:
            records = replace(request.records, states=captured.states)
            request = replace(request, records=records)
        known = request.look or _look(store, request, choice.session, is_whole=is_whole)
        scanned = known.scanned
        side_by_side = _save_side_by_side(store, request, choice, scanned)
        saved = side_by_side or _save_alone(store, request, choice, scanned)
    except BaseException:
        store.writer.discard()
        raise
    if request.scan.remember:
        remember_scan(store, saved)
    programs.settle(known.mark)
    if request.carried.files is None:
        session.set_current(store, saved.checkpoint.id.session)
        hook_failures.clear(hook_failures.files(store.repo))
    _set_tags(store, request.tags, saved.checkpoint)
    if captured.troubles:
        troubles = {"missing_states": captured.troubles, "allowable": captured.allowable}
        saved = replace(saved, **troubles)
    return replace(saved, faults=store.repo.faults) if store.repo.faults else saved


def _states(store: Store, request: SaveRequest, name: str) -> states.Captured:
    """Save the states outside the files that are due, before any lock is taken: hooks wait for
    locks, and a command takes as long as it takes.
    """
    if not (request.states or request.due_states):
        return states.Captured()
    is_tagged = bool(request.tags)
    commands = states.due(store, request.trigger, request.states, tagged=is_tagged)
    if commands:
        store.repo.look = None  # files may change while the commands run
    is_waited_for = request.trigger is Trigger.BEFORE_RISKY_CHANGE
    return states.capture(store, commands, name, within=IN_A_HOOK if is_waited_for else None)


def described(store: Store, saved: Saved) -> Saved:
    """Return the result of a save with what only its reader wants: the checkpoint's tags, and the
    repositories inside with uncommitted work. Writes nothing.
    """
    snapshot = saved.taken.snapshot
    inner: tuple[Skip, ...] = ()
    if snapshot.submodules or snapshot.nested:
        from gitcp.worktree.uncommitted import uncommitted  # hardly any repository has one

        inner = uncommitted(store.repo, snapshot)
    tags = tag.by_commit(store).get(saved.checkpoint.commit, ())
    return replace(saved, checkpoint=replace(saved.checkpoint, tags=tuple(tags)), uncommitted=inner)


def remember_scan(store: Store, saved: Saved) -> None:
    """Store the scan of a save, unless the last checkpoint here has other files: this session may
    have gone back to what its own last one has, after another session saved.
    """
    if saved.saved or authors.before(store, saved.checkpoint).tree == saved.taken.snapshot.tree:
        saved.taken.remember()


class Scanned(NamedTuple):
    """A snapshot, and the trees that its scan trusted."""

    live: LiveTrees
    taken: Taken


class Look(NamedTuple):
    """A scan, and what the programs of this process had written before it."""

    scanned: Scanned
    mark: programs.ProgramMark | None


def look(store: Store, cwd: Path, limits: Limits) -> Look:
    """Return a scan of the current files for a save that comes later. Writes objects only, which
    are lost if the store discards what is pending.
    """
    return _look(store, SaveRequest(cwd=cwd, limits=limits, watched=True), "", is_whole=True)


def _look(store: Store, request: SaveRequest, session: str, *, is_whole: bool) -> Look:
    mark = programs.mark(store.repo) if is_whole else None
    live = live_trees(store, session)
    return Look(Scanned(live, _take(store, request, live)), mark)


def _save_side_by_side(
    store: Store, request: SaveRequest, choice: Choice, scanned: Scanned
) -> Saved | None:
    """Save while other processes save other sessions. Return None, with nothing saved, if that
    needs the whole store: there is a pending note, which is for any session, or damage.
    """
    for _ in range(TRIES):
        with store.lock_session(choice.session):
            current = _with_current_session(store, request, choice)
            if current.session != choice.session:  # which has another lock
                choice = current
                continue
            if note.is_pending(store.repo):
                return None
            try:
                taken = _revalidated_scan(store, request, choice.session, scanned)
                return _commit_with_retries(store, request, choice, taken)
            except FormatTooNew:
                raise
            except StoreDamaged:
                return None
    return None


def _save_alone(store: Store, request: SaveRequest, choice: Choice, scanned: Scanned) -> Saved:
    with store.lock():
        choice = _with_current_session(store, request, choice)
        taken = _revalidated_scan(store, request, choice.session, scanned)
        return _save_despite_damage(store, request, choice, taken)


def _revalidated_scan(store: Store, request: SaveRequest, session: str, scanned: Scanned) -> Taken:
    """Return the snapshot; a new one if what its scan trusted is gone, or if the last checkpoint of
    this working tree is of a scan that began after this look: no checkpoint may follow one with
    newer files. The caller holds a lock.
    """
    live, taken = scanned
    last = latest.read(store.repo) if request.carried.files is None else None
    # Of two saves at once, the one that had looked first made the second checkpoint, which then
    # lacked the first one's changes.
    began = taken.began + (request.look is not None)  # which several saves may share
    is_newest = last is None or last.scanned < began
    is_trusted = live.is_still_valid()
    if is_newest and is_trusted:
        return taken
    # Pending objects stay: some are the caller's. They were dropped here, and the checkpoint of a
    # graph's step named a state that was nowhere.
    store.freshener.forget()
    return _take(store, request, live_trees(store, session) if is_trusted else frozenset())


def _with_current_session(store: Store, request: SaveRequest, choice: Choice) -> Choice:
    if request.session and not choice.whose:
        return choice
    return session.follow_rename(store, choice)


def _set_tags(store: Store, names: tuple[str, ...], made: Checkpoint) -> None:
    """Tag the new checkpoint. If another process took a name meanwhile, the error names the
    checkpoint.
    """
    for name in names:
        try:
            tag.create(store, name, made, text=None, force=False, now=store.repo.host.now())
        except (Refused, StoreBusy) as error:
            message = f"saved {made.id}, but without tag {name}: {error}"
            raise type(error)(message, hint=f"gitcp tag OTHER-NAME {made.id}") from None


def _take(store: Store, request: SaveRequest, live: Container[Oid]) -> Taken:
    if request.carried.files is not None:
        return known(request.carried.files)
    outputs = (*request.outputs, *request.appends)
    if named := (*outputs, *request.limits.outputs):
        worktree_outputs.add(store.repo, named, request.appends)
    limits = replace(request.limits, promised=request.promised)
    watched = request.watched and request.trigger is not Trigger.BEFORE_RISKY_CHANGE
    taken = take(store.repo, store.objects, limits, live, request.scan.since, watched=watched)
    worktree_outputs.check(store.repo, outputs, taken.snapshot, taken.stamp)
    return request.scan.complete(taken) if request.scan.complete else taken


def _sources(choice: Choice) -> tuple[Source, ...]:
    return choice.capture.sources if choice.capture else ()


def _save_despite_damage(store: Store, request: SaveRequest, choice: Choice, taken: Taken) -> Saved:
    """Make the checkpoint even if the session is damaged. First retry without trusting the
    unreadable objects, so that data still in files is stored again; then begin a new chain.
    """
    try:
        return _commit_with_retries(store, request, choice, taken)
    except FormatTooNew:
        raise
    except StoreDamaged as error:
        store.freshener.distrust(error.objects)
    try:
        return _commit_with_retries(store, request, choice, taken)
    except StoreDamaged as error:
        from gitcp.saving import quarantine  # damage is rare

        store.freshener.distrust(error.objects)
        # A session whose last checkpoint was damaged was never saved again, by hooks silently.
        quarantined = quarantine.move_to_trash(store, choice.session)
        if quarantined is None:
            raise
        return replace(_commit_with_retries(store, request, choice, taken), damage=str(quarantined))


def _commit_with_retries(store: Store, request: SaveRequest, choice: Choice, taken: Taken) -> Saved:
    """Make the checkpoint; retry on top of the new tip if another process moved the ref without our
    lock.
    """
    for attempt in range(TRIES):
        tip = store.tip(choice.session)
        parent = _parent(store, request, tip)
        stored = _stored(store, request, choice, parent)
        draft = _draft(store, request, choice, taken.snapshot, parent, stored)
        unread, unknown = _unread(stored, parent), _unknown(stored.conversation, parent)
        why = _why(choice, stored, parent)
        result = Saved(True, "", why, draft, taken, stored.sources, unread=unread, unknown=unknown)
        if _sets_position(request, draft, parent):
            position.check(store, draft, parent)
        if (
            parent is not None
            and not (request.force or request.tags)
            and _is_saved(store, draft, parent, request.change_scope)
        ):
            _end_unchanged(store)
            _clear_pending_note(store, request, choice.session)
            reason = f"nothing changed since {parent.id}"
            return replace(result, saved=False, reason=reason, checkpoint=parent)
        _tell_open_transactions(store, draft, parent)
        changes = _changes(store, draft, parent)
        draft = replace(draft, changed=len(changes))
        if request.carried.files is None:
            draft = _with_authors(store, draft, parent, taken, changes, request.at_work)
        _join_programs(store, request, draft)
        checkpoint = store.commit(draft, readme.render(draft, changes), parent)
        _announce(store, request, checkpoint, taken)
        try:
            store.advance(checkpoint)
        except StoreBusy:
            if attempt + 1 == TRIES:
                raise
            continue
        _finish(store, request, checkpoint, taken)
        return replace(result, reason=f"saved {checkpoint.id}", checkpoint=checkpoint)
    raise AssertionError("unreachable")


def _end_unchanged(store: Store) -> None:
    """Discard what was written, unless it replaces damaged objects."""
    if store.freshener.damaged:
        store.writer.flush()
    else:
        store.writer.discard()


def _join_programs(store: Store, request: SaveRequest, draft: Checkpoint) -> None:
    """Tell the programs around that this session is a part of their work. Before it has the
    checkpoint: killed in between, a transaction did not know whose step results to put back.
    """
    if request.trigger is not Trigger.BEFORE_RISKY_CHANGE:  # a transaction of its own may follow
        programs.join(store.repo, draft.id.session)


def _announce(store: Store, request: SaveRequest, checkpoint: Checkpoint, taken: Taken) -> None:
    """Record which checkpoint is about to be the last one of this working tree."""
    if request.carried.files is None:
        last = latest.known(store)
        before = (last.id, last.scanned) if last else None
        latest.write(
            store.repo, latest.Latest(checkpoint.id, taken.started, checkpoint.commit, before)
        )


def _finish(store: Store, request: SaveRequest, checkpoint: Checkpoint, taken: Taken) -> None:
    """Record what the next save starts from."""
    if request.carried.files is None:
        latest.write(store.repo, latest.Latest(checkpoint.id, taken.started))
        tool_log.turn_over(str(store.repo.git_dir))
    _clear_pending_note(store, request, checkpoint.id.session)


def _with_authors(
    store: Store,
    draft: Checkpoint,
    parent: Checkpoint | None,
    taken: Taken,
    changes: tuple[FileChange, ...],
    at_work: bool | None,
) -> Checkpoint:
    """Return the draft with who made the changes since the last checkpoint here; `changes` are
    those since the parent.
    """
    state = authors.before(store, parent)
    if state.previous is not None:
        changes = tuple(trees.diff(store.reader, state.tree, draft.snapshot.tree))
    made = authors.decide(store, draft, taken, state, changes, at_work=at_work)
    return replace(draft, authors=made)


def _sets_position(request: SaveRequest, draft: Checkpoint, parent: Checkpoint | None) -> bool:
    """Return whether a program or a user says here how far it is; restores put positions back."""
    before = parent.note.position if parent else EMPTY
    return request.carried.note is None and bool(
        request.note.position or draft.note.position != before
    )


def _tell_open_transactions(store: Store, draft: Checkpoint, parent: Checkpoint | None) -> None:
    """Tell the transactions in progress that step results or the position are about to change."""
    before = (parent.steps, note.inherited(parent).position_from) if parent else (None, None)
    if (draft.steps, note.inherited(draft).position_from) != before:
        run_journal.enlist(store.repo, draft.id.session, parent.id if parent else None)


def _clear_pending_note(store: Store, request: SaveRequest, name: str) -> None:
    """Discard the pending note, which is now in a checkpoint, unless this save replaced it."""
    if request.carried.note is None:
        note.discard_saved(store.repo, name)


def _parent(store: Store, request: SaveRequest, tip: Oid | None) -> Checkpoint | None:
    if request.carried.parent is not None and request.carried.parent.commit == tip:
        return request.carried.parent
    return store.read(tip) if tip else None


def _stored(
    store: Store, request: SaveRequest, choice: Choice, parent: Checkpoint | None
) -> Readable:
    """Store the conversation, as far as it can be read. Raises ConversationUnreadable for one that
    was given by hand.
    """
    if request.carried.conversation:
        return Readable(*request.carried.conversation)
    stored = conversation.store_readable(store, choice.capture, parent)
    error = stored.error or choice.error
    if error is not None and request.conversation is not None:
        raise ConversationUnreadable(f"{error}; no checkpoint was made", hint=error.hint)
    return stored._replace(error=error)


def _why(choice: Choice, stored: Readable, parent: Checkpoint | None) -> str:
    """Return why this conversation is stored: the choice's reason, and that the file which it chose
    is shorter than what is stored already. A session that was named is no reason for none.
    """
    has_none = choice.capture is None and stored.conversation is None and stored.error is None
    if choice.why == session.GIVEN and has_none:
        return f"no agent conversation found for session {choice.session}"
    if (
        parent is None
        or choice.capture is None
        or stored.error is not None
        or stored.conversation is not parent.conversation
    ):
        return choice.why
    return f"{choice.why}; the one in {parent.id} was kept, since it is longer"


def _unknown(conversation: Conversation | None, parent: Checkpoint | None) -> tuple[str, ...]:
    """Return the kinds of unknown records that the session had not before."""
    kinds = conversation.digest.unknown if conversation else ()
    told = parent.conversation.digest.unknown if parent and parent.conversation else ()
    return tuple(kind for kind in kinds if kind not in told)


def _unread(stored: Readable, parent: Checkpoint | None) -> Unread | None:
    error = stored.error
    if error is None:
        return None
    if error.stream != MAIN:
        instead = "the rest of the conversation was saved"
    elif parent is not None and stored.conversation is not None:
        instead = "the conversation of the last checkpoint was kept"
    else:
        instead = "only the files were saved"
    return Unread(f"{error}; {instead}", error.hint)


def _draft(
    store: Store,
    request: SaveRequest,
    choice: Choice,
    snapshot: Snapshot,
    parent: Checkpoint | None,
    stored: Readable,
) -> Checkpoint:
    # its conversation may not be written yet
    agent = stored.agent or (choice.whose if parent is None else None)
    compensated = (
        {**request.records.compensated, **parent.compensated}
        if parent
        else request.records.compensated
    )
    return Checkpoint(
        id=CheckpointId(choice.session, numbers.following(store, choice.session, parent)),
        commit=UNKNOWN,
        root=UNKNOWN,
        parent=parent.commit if parent else None,
        created=store.repo.host.now(),
        trigger=request.trigger,
        agent=agent,
        note=request.carried.note or _note(store, request.note, choice.session, parent),
        snapshot=snapshot,
        conversation=stored.conversation,
        changed=0,
        restored_from=request.records.restored_from,
        run=request.records.run,
        step=request.records.step,
        steps=_steps(store, request, parent),
        state=request.records.state,
        memory=_memory(store, request, agent, parent),
        states=request.records.states,
        compensated=compensated,
        reverted=request.records.reverted,
    )


def _memory(
    store: Store, request: SaveRequest, agent: Agent | None, parent: Checkpoint | None
) -> Memory | None:
    """Return the agent's memory of the project; none for a save that looks at no files."""
    if request.carried.files is not None:
        return None
    return memory.capture(store, agent, request.trigger, parent.memory if parent else None)


def _note(store: Store, given: Note, name: str, parent: Checkpoint | None) -> Note:
    """Return the inherited note, merged with the pending note, then with the given one."""
    inherited, pending = (
        note.inherited(parent) if parent else Note(),
        note.pending_for(store.repo, name),
    )
    return note.inherit(
        note.inherit(inherited, pending) if pending is not None else inherited, given
    )


def _steps(store: Store, request: SaveRequest, parent: Checkpoint | None) -> Oid | None:
    """Return the tree of step results for this checkpoint."""
    holder = request.carried.steps_of or parent
    results_tree = holder.steps if holder else None
    if request.records.results:
        from gitcp.state import steps  # only where a program records them

        for result in request.records.results:
            results_tree = steps.add(store, results_tree, result)
    return results_tree


def _is_saved(
    store: Store, draft: Checkpoint, parent: Checkpoint, change_scope: ChangeScope
) -> bool:
    """Return whether the parent contains everything of this draft, within `change_scope`, and is
    intact.
    """
    if store.freshener.damaged and _is_damaged(store, parent):
        return False
    if not states.is_same(draft.states, parent.states):
        return False
    if change_scope is ChangeScope.UNSAVED:
        return authors.before(store, parent).tree == draft.snapshot.tree
    if (
        draft.note.label
        or draft.note.compensations
        or draft.run
        or not _same_files(draft.snapshot, parent.snapshot, change_scope)
    ):
        return False
    if (draft.steps, draft.compensated) != (parent.steps, parent.compensated):
        return False
    # as it is stored: a position may change from 1 to true, which Python takes for equal
    inherited = replace(parent.note, label=None, compensations=())
    noted = draft.note
    if noted.position_from == parent.id:  # its files are those of the parent
        noted = replace(noted, position_from=None)
    if wire.encode(noted) != wire.encode(inherited):
        return False
    if change_scope is ChangeScope.FILES:
        return True
    return _same_conversation(draft, parent, change_scope) and (
        change_scope is ChangeScope.MESSAGES
        or memory.is_same(store.reader, draft.memory, parent.memory)
    )


def _same_files(a: Snapshot, b: Snapshot, change_scope: ChangeScope) -> bool:
    """Return whether two snapshots are the same; where files or messages must have changed, apart
    from git's own state: a commit of the files alone changes neither.
    """
    if change_scope is not ChangeScope.ALL:
        a = replace(a, base=b.base, staged=b.staged, untracked=b.untracked)
    return a == b


def _is_damaged(store: Store, parent: Checkpoint) -> bool:
    """Return whether a checkpoint needs a damaged object. A checkpoint newer than the detection of
    the damage does not.
    """
    # commits have whole seconds
    is_older = parent.created.timestamp() <= damage.recorded(store.repo.common_dir) + 1
    return is_older and damage.lacking(store.reader, store.freshener, parent.root) is not None


def _same_conversation(a: Checkpoint, b: Checkpoint, change_scope: ChangeScope) -> bool:
    if change_scope is ChangeScope.MESSAGES:
        digests = [
            checkpoint.conversation.digest if checkpoint.conversation else Digest()
            for checkpoint in (a, b)
        ]
        return len({(digest.messages, digest.last_message) for digest in digests}) == 1
    if a.conversation is None or b.conversation is None:
        return a.conversation is b.conversation
    return a.conversation.tree == b.conversation.tree


def _changes(store: Store, draft: Checkpoint, parent: Checkpoint | None) -> tuple[FileChange, ...]:
    """Return the changes since the parent, none if the snapshot has no files."""
    if not draft.snapshot.has_files:
        return ()
    if parent is not None and (parent.snapshot.has_files or parent.snapshot.total):
        return changes_between(store, parent.snapshot.tree, draft.snapshot)
    try:
        base = store.base_tree(draft.snapshot.base.commit)
        return changes_between(store, base, draft.snapshot)
    except StoreDamaged:  # the project's own history is damaged
        return changes_between(store, None, draft.snapshot)


def changes_between(store: Store, old: Oid | None, snapshot: Snapshot) -> tuple[FileChange, ...]:
    """Return the changes from an earlier tree to the snapshot's files."""
    return store.reader.compare(old, snapshot.tree)
