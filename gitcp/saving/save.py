"""Save: capture → snapshot → commit → ref. Objects first, the ref last; a save that fails leaves no
checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from gitcp import readme
from gitcp.errors import FormatTooNew, StoreBusy, StoreDamaged
from gitcp.fastpath import stat_check
from gitcp.git import damage
from gitcp.model import (
    Agent,
    Checkpoint,
    CheckpointId,
    Conversation,
    Digest,
    FileChange,
    Note,
    Oid,
    Run,
    SkipReason,
    Snapshot,
    Source,
    Span,
    State,
    Trigger,
)
from gitcp.saving import conversation, session
from gitcp.saving.session import Choice
from gitcp.state import note, numbers, tag
from gitcp.store import Store
from gitcp.value import EMPTY, Value, replace
from gitcp.worktree.snapshot import Limits, Since, Taken, known, take

if TYPE_CHECKING:
    from gitcp.state.steps import Result

TRIES = 5
RECENT = 16
"""Checkpoints of a session searched for the tree of the last scan: another working tree may have
added some.
"""

UNKNOWN = Oid("0" * 40)


class ChangeScope(StrEnum):
    """What must have changed for a save to make a checkpoint: anything, files or messages, or
    files.
    """

    ALL = "all"
    MESSAGES = "messages"
    FILES = "files"


class Request(Value):
    """What to save and under which words. `conversation` is a file or the bytes of one, given by
    hand.

    A restore gives its `choice` of session and conversation, `stored`, a conversation that lies in
    the store already, `words`, which replace the note that would be inherited, `steps_of`, whose
    results of steps stand, and `since`, so that only what it changed is looked at. `complete` adds
    to a snapshot what the look could not see.

    `run` is what was run, `results` are those of steps that were done, `compensated` says how
    compensations ended; a key that is there already keeps what it says. `state` is what a framework
    keeps. With `files`, a snapshot that is known already, no file is looked at. `parent`, where it
    still is the last checkpoint, is not read again. `patience` is for how many seconds the
    conversation of the agent that runs us is waited for, where it is not on disk yet.
    """

    cwd: Path
    note: Note = Note()
    trigger: Trigger = Trigger.MANUAL
    tags: tuple[str, ...] = ()
    session: str | None = None
    agent: str | None = None
    conversation: Path | bytes | None = None
    limits: Limits = Limits()
    force: bool = False
    restored_from: CheckpointId | None = None
    reverted: Span | None = None
    choice: Choice | None = None
    stored: tuple[Conversation | None, Agent | None] | None = None
    words: Note | None = None
    steps_of: Checkpoint | None = None
    run: Run | None = None
    results: tuple[Result, ...] = ()
    compensated: Mapping[str, str] = EMPTY
    state: State | None = None
    files: Snapshot | None = None
    parent: Checkpoint | None = None
    since: Since | None = None
    complete: Callable[[Taken], Taken] | None = None
    change_scope: ChangeScope = ChangeScope.ALL
    patience: float = 0.0


class Saved(Value):
    """What a save did. `saved` is False when everything was saved already; `checkpoint` is then the
    one that holds it.

    `why` says how session and conversation were chosen, `taken` is the snapshot that was made,
    `sources` the streams that were read. `damage` says that the session was damaged, and where its
    checkpoints are now ("": it was not).
    """

    saved: bool
    reason: str
    why: str
    checkpoint: Checkpoint
    taken: Taken
    sources: tuple[Source, ...] = ()
    damage: str = ""


def _choose(store: Store, request: Request) -> Choice:
    """Which session and conversation; one that its agent has not written yet is waited for."""
    given = (request.session, request.agent, request.conversation)
    choice = session.choose(
        store, request.cwd, session=given[0], agent=given[1], conversation=given[2]
    )
    if choice.capture is not None or not request.patience:
        return choice
    session.await_running(store, request.patience)
    return session.choose(
        store, request.cwd, session=given[0], agent=given[1], conversation=given[2]
    )


def save(store: Store, request: Request) -> Saved:
    """Save files and conversation as one checkpoint.

    Writes objects, one ref under `refs/gitcp/sessions/` and files in `<git dir>/gitcp/`; nothing
    else. Raises a GitcpError and leaves no checkpoint if anything could not be done.
    """
    for name in request.tags:
        tag.check_free(store, name)
    choice = request.choice or _choose(store, request)
    if request.conversation is not None and any(source.path is None for source in _sources(choice)):
        stat_check.forget()  # whoever wrote into a pipe may have changed files until its end
    live = live_trees(store, choice.session)
    try:
        taken = _take(store, request, live)
        with store.lock():
            if not live.still_holds():
                store.objects.discard()
                taken = _take(store, request, frozenset())
            choice = (
                choice
                if request.session and not choice.whose
                else session.called_now(store, choice)
            )
            saved = _despite_damage(store, request, choice, taken)
    except BaseException:
        store.objects.discard()
        raise
    taken.remember()
    if request.files is None:
        session.set_current(store, choice.session)
    for name in request.tags:
        tag.create(store, name, saved.checkpoint, text=None, force=False, now=store.repo.host.now())
    return saved


def _take(store: Store, request: Request, live: Container[Oid]) -> Taken:
    if request.files is not None:
        return known(request.files)
    taken = take(store.repo, store.objects, request.limits, live, request.since)
    return request.complete(taken) if request.complete else taken


class LiveTrees:
    """The trees of files in the last checkpoints of some sessions: what they hold cannot be pruned
    while the refs stay.

    The state file is made from such a tree, by whichever session was saved last; every session may
    trust it then.
    """

    def __init__(self, store: Store, names: Iterable[str]) -> None:
        self._store = store
        self._names = tuple(dict.fromkeys(names))
        self._trusted: Oid | None = None

    def __contains__(self, tree: object) -> bool:
        found = next(
            (held for name in self._names for held in self._trees(name) if held == tree), None
        )
        self._trusted = found or self._trusted
        return found is not None

    def still_holds(self) -> bool:
        """Whether what was trusted can be trusted now, when the caller holds the store's lock:
        nothing was deleted.
        """
        return self._trusted is None or self._trusted in self

    def _trees(self, name: str) -> Iterator[Oid]:
        """The newest first. A checkpoint that cannot be read vouches for nothing, nor do those
        before it.
        """
        tip = self._store.tip(name)
        with suppress(StoreDamaged):
            for summary in self._store.history(tip, RECENT) if tip else ():
                yield self._store.files_tree(summary.root)


def live_trees(store: Store, name: str) -> LiveTrees:
    """The trees that a save into the session `name` may trust: its own, and those of the session
    last used here.
    """
    return LiveTrees(store, filter(None, (name, session.last_used(store))))


def _sources(choice: Choice) -> tuple[Source, ...]:
    return choice.capture.sources if choice.capture else ()


def _despite_damage(store: Store, request: Request, choice: Choice, taken: Taken) -> Saved:
    """Make the checkpoint, whatever of the session is damaged: first with no trust in what could
    not be read, so that what is still in files is stored anew; else as the first checkpoint of a
    new chain.
    """
    try:
        return _with_retries(store, request, choice, taken)
    except FormatTooNew:
        raise
    except StoreDamaged as error:
        store.objects.distrust(error.objects)
    try:
        return _with_retries(store, request, choice, taken)
    except StoreDamaged as error:
        from gitcp.saving import quarantine  # damage is rare

        store.objects.distrust(error.objects)
        done = quarantine.put_away(store, choice.session)
        if done is None:
            raise
        return replace(_with_retries(store, request, choice, taken), damage=str(done))


def _with_retries(store: Store, request: Request, choice: Choice, taken: Taken) -> Saved:
    """Make the checkpoint; make it again on top of what somebody without our lock put there
    meanwhile.
    """
    sources = _sources(choice)
    for attempt in range(TRIES):
        tip = store.tip(choice.session)
        parent = _parent(store, request, tip)
        draft = _draft(store, request, choice, taken.snapshot, parent)
        forced = request.force or bool(request.tags)
        if (
            parent is not None
            and not forced
            and _is_saved(store, draft, parent, request.change_scope)
        ):
            if store.objects.damaged:
                # what was written though nothing changed replaces damaged objects
                store.objects.flush()
            else:
                store.objects.discard()
            _let_go(store, request, choice.session)
            return Saved(
                False, f"nothing changed since {parent.id}", choice.why, parent, taken, sources
            )
        changes = _changes(store, draft, parent)
        draft = replace(draft, changed=len(changes))
        checkpoint = store.commit(draft, readme.render(draft, changes), parent)
        try:
            store.advance(checkpoint)
        except StoreBusy:
            if attempt + 1 == TRIES:
                raise
            continue
        _let_go(store, request, choice.session)
        return Saved(True, f"saved {checkpoint.id}", choice.why, checkpoint, taken, sources)
    raise AssertionError("unreachable")


def _let_go(store: Store, request: Request, name: str) -> None:
    """What was said of the next save is in a checkpoint, unless this save had words of its own."""
    if request.words is None:
        note.taken(store.repo, name)


def _parent(store: Store, request: Request, tip: Oid | None) -> Checkpoint | None:
    if request.parent is not None and request.parent.commit == tip:
        return request.parent
    return store.read(tip) if tip else None


def _draft(
    store: Store, request: Request, choice: Choice, snapshot: Snapshot, parent: Checkpoint | None
) -> Checkpoint:
    kept, agent = request.stored or conversation.keep(store, choice.capture, parent)
    # its conversation may not be written yet
    agent = agent or (choice.whose if parent is None else None)
    done = {**request.compensated, **parent.compensated} if parent else request.compensated
    return Checkpoint(
        id=CheckpointId(
            choice.session, parent.id.number + 1 if parent else numbers.first(store, choice.session)
        ),
        commit=UNKNOWN,
        root=UNKNOWN,
        parent=parent.commit if parent else None,
        created=store.repo.host.now(),
        trigger=request.trigger,
        agent=agent,
        note=request.words or _note(store, request.note, choice.session, parent),
        snapshot=snapshot,
        conversation=kept,
        changed=0,
        restored_from=request.restored_from,
        run=request.run,
        steps=_steps(store, request, parent),
        state=request.state,
        compensated=done,
        reverted=request.reverted,
    )


def _note(store: Store, given: Note, name: str, parent: Checkpoint | None) -> Note:
    """What holds already, then what was said of this save before it, then what is said with it."""
    before, said = parent.note if parent else Note(), note.of_next(store.repo, name)
    return note.inherit(note.inherit(before, said) if said is not None else before, given)


def _steps(store: Store, request: Request, parent: Checkpoint | None) -> Oid | None:
    """The results of steps that hold with this checkpoint."""
    holder = request.steps_of or parent
    found = holder.steps if holder else None
    if request.results:
        from gitcp.state import steps  # only where a program records them

        for result in request.results:
            found = steps.add(store, found, result)
    return found


def _is_saved(
    store: Store, draft: Checkpoint, parent: Checkpoint, change_scope: ChangeScope
) -> bool:
    """Whether the parent says all that this checkpoint would say, as far as it is heeded, and is
    whole.
    """
    if store.objects.damaged and _is_lacking(store, parent):
        return False
    if (
        draft.note.label
        or draft.note.compensations
        or draft.run
        or draft.snapshot != parent.snapshot
    ):
        return False
    if (draft.steps, draft.compensated) != (parent.steps, parent.compensated):
        return False
    if draft.note != replace(parent.note, label=None, compensations=()):
        return False
    return change_scope is ChangeScope.FILES or _same_conversation(draft, parent, change_scope)


def _is_lacking(store: Store, parent: Checkpoint) -> bool:
    """Whether a checkpoint needs an object that is damaged. One that was made since that was found
    needs none.
    """
    # a commit knows whole seconds
    is_older = parent.created.timestamp() <= damage.recorded(store.repo.common_dir) + 1
    return is_older and damage.lacking(store.objects, parent.root) is not None


def _same_conversation(a: Checkpoint, b: Checkpoint, change_scope: ChangeScope) -> bool:
    if change_scope is ChangeScope.MESSAGES:
        digests = [each.conversation.digest if each.conversation else Digest() for each in (a, b)]
        return len({(digest.messages, digest.last_message) for digest in digests}) == 1
    if a.conversation is None or b.conversation is None:
        return a.conversation is b.conversation
    return a.conversation.tree == b.conversation.tree


def _changes(store: Store, draft: Checkpoint, parent: Checkpoint | None) -> tuple[FileChange, ...]:
    """What changed since the parent; nothing where the files are not held."""
    if any(skip.reason is SkipReason.NOT_HELD for skip in draft.snapshot.skipped):
        return ()
    if parent is not None:
        return changes_between(store, parent.snapshot.tree, draft.snapshot)
    try:
        return changes_between(store, _base_tree(store, draft), draft.snapshot)
    except StoreDamaged:  # the project's own history is damaged
        return changes_between(store, None, draft.snapshot)


def changes_between(store: Store, old: Oid | None, snapshot: Snapshot) -> tuple[FileChange, ...]:
    """What the snapshot's files changed against an earlier tree."""
    return store.objects.compare(old, snapshot.tree)


def _base_tree(store: Store, draft: Checkpoint) -> Oid | None:
    """The first checkpoint of a session is compared with the commit it stands on."""
    base = draft.snapshot.base.commit
    if base is None:
        return None
    return Oid(store.objects.read_commit(base)[5:45].decode("ascii"))
