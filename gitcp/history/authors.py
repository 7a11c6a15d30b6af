"""Who changed what, where several sessions work in one working tree.

All checkpoints of a working tree form one line, whatever their session: each names the one made
before it (`model.Authors.previous`; without it, that is its parent). A step of this line is a
transition, and the checkpoint that ends it recorded who made each of its changes. What a checkpoint
changed since its parent is the union of the transitions in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from gitcp.errors import Refused, StoreDamaged
from gitcp.git import trees
from gitcp.model import (
    NOBODY,
    Authors,
    Checkpoint,
    CheckpointId,
    Claim,
    Entry,
    FileChange,
    Oid,
    Snapshot,
    Trigger,
)
from gitcp.state import latest
from gitcp.store import Store, Summary
from gitcp.value import Value, replace

RESTORES = ("Gitcp-Restored-From", "Gitcp-Reverted")
"""Trailers of checkpoints that record a restore."""

LONGEST = 1000
"""Checkpoints of other sessions between one and its parent that are read for `changed_by`."""


class Transition(Value):
    """What changed between two checkpoints of a working tree that follow each other, for a session.

    `checkpoint` is the one that ends it, made by whichever session. `own` are the paths that only
    this session changed, and `others` those that only others did, with their names (NOBODY for a
    person or a script). `uncertain` are those that this session may have changed, or changed
    together with others.
    """

    checkpoint: CheckpointId
    before: Snapshot
    after: Snapshot
    own: frozenset[bytes]
    others: Mapping[bytes, tuple[str, ...]]
    uncertain: frozenset[bytes]


def transitions(store: Store, session: str, since: Oid) -> list[Transition]:
    """Return what changed in this working tree, oldest first: from the checkpoint with the commit
    `since` to the newest one of any session, as seen by `session`.

    Raises Refused if the newest does not follow `since`, StoreDamaged if one cannot be read.
    """
    own = frozenset((session,))
    return [transition(step, own) for step in steps_since(store, session, store.read(since))]


def steps_since(
    store: Store, session: str, since: Checkpoint, *, is_copy: bool = False
) -> list[Step]:
    """Return the steps of this working tree's line after a checkpoint, oldest first. Without a
    record of the newest checkpoint, that is the last one of `session`. Raises as `transitions`.

    `is_copy`: it may be one for which no file was read, such as a fork. Then it is not in the line,
    but has the files of one that is. It may also have been made elsewhere, and what its session
    came to be there was brought here by a restore.

    Changes that a later restore undid are marked: see `Step.undone`.
    """
    line = WorktreeHistory(store)
    newest = line.newest() or store.tip(session)
    steps: list[Step] = []
    for step in line.steps(newest) if newest else ():
        if step.after.commit == since.commit:
            return _mark_undone(line, steps)[::-1]
        steps.append(step)
    same = [n for n, step in enumerate(steps) if step.after.snapshot.tree == since.snapshot.tree]
    if is_copy and same:
        return _mark_undone(line, steps[: same[0]])[::-1]
    unrelated = {step.after.commit for step in steps}
    for number, step in enumerate(steps):
        source = _whole_source(line, step)
        if (
            source is not None
            and (elsewhere := _led_to(line, source, since, unrelated)) is not None
        ):
            return _mark_undone(line, steps[:number] + elsewhere)[::-1]
    raise Refused(
        f"{since.id} was not made in this working tree, or what came after it is "
        "no longer known; nothing was changed"
    )


def _mark_undone(line: WorktreeHistory, steps: Sequence[Step]) -> list[Step]:
    """Return the steps with the changes marked that a restore among them undid. `steps` follow each
    other, newest first: from a restore back to the checkpoint whose content it restored, the
    changes of a path cancel out, the restore's own included.

    In a clone, the save before `restore --trust` records the removal of every file, and the restore
    is the author of all of them: `rewind` removed files that the session had never changed.
    """
    made = [step.after for step in steps]
    if steps and (first := steps[-1].before) is not None:
        made.append(first)
    whole, ends = 0, dict[bytes, int]()
    marked: list[Step] = []
    for number, step in enumerate(steps):
        paths = {change.path for change in step.changes}
        source = restored_source(line.store, step.after)
        position = _position(made, source, number) if source is not None else 0
        if source is not None and position:
            others = _differing(line.store, source, step.after)
            # A killed restore had written paths that the one that continued it did not change.
            known = paths - others if others else ends.keys()
            ends |= {path: position for path in known if ends.get(path, whole) <= number}
            if not others and whole <= number:
                whole = position
        undone = frozenset(path for path in paths if ends.get(path, whole) > number)
        marked.append(replace(step, undone=undone))
    return marked


def _position(made: Sequence[Checkpoint], source: Checkpoint, restore: int) -> int:
    """Return the index of a restore's source, behind its own; of a source that is not in this line,
    such as a fork's checkpoint, the index of the first one with the same files. 0: there is none.
    """
    behind = range(restore + 1, len(made))
    same = [n for n in behind if made[n].snapshot.tree == source.snapshot.tree]
    return next((n for n in same if made[n].commit == source.commit), same[0] if same else 0)


def _differing(store: Store, old: Checkpoint, new: Checkpoint) -> set[bytes]:
    """Return the paths that differ between two checkpoints."""
    changes = trees.diff(store.reader, old.snapshot.tree, new.snapshot.tree)
    return {change.path for change in changes}


def _whole_source(line: WorktreeHistory, step: Step) -> Checkpoint | None:
    """Return the source of a restore that left exactly its files; None for other steps."""
    source = restored_source(line.store, step.after)
    is_whole = source is not None and source.snapshot.tree == step.after.snapshot.tree
    return source if is_whole else None


def _led_to(
    line: WorktreeHistory, last: Checkpoint, since: Checkpoint, unrelated: set[Oid]
) -> list[Step] | None:
    """Return the steps from `since` to `last`, newest first; None if no line has both.

    Adds the checkpoints that it reads to `unrelated`, those that do not follow `since`, and reads
    none of these again. Each restore was once followed to the first checkpoint: 200 of them took
    twenty seconds.
    """
    steps: list[Step] = []
    for step in line.steps(last.commit):
        if step.after.commit == since.commit:
            return steps
        if step.after.commit in unrelated:
            break
        unrelated.add(step.after.commit)
        steps.append(step)
    return None


def changed_by(store: Store, checkpoint: Checkpoint) -> dict[bytes, Claim]:
    """Return who changed the paths that differ from the checkpoint's parent (for a first one: from
    its base). Paths of which nothing is recorded are left out.
    """
    return WorktreeHistory(store).changed_by(checkpoint)


def between(store: Store, old: Checkpoint, new: Checkpoint) -> dict[bytes, Claim]:
    """Return who changed files from one checkpoint to a later one, as far as recorded."""
    return WorktreeHistory(store).between(old, new)


def since_parent(store: Store, oldest: Checkpoint, newest: Checkpoint) -> dict[bytes, Claim]:
    """Return who changed files from before `oldest` up to `newest`, as far as recorded."""
    line, claims = WorktreeHistory(store), dict[bytes, Claim]()
    spans = [line.changed_by(oldest)]
    spans += [line.between(oldest, newest)] if oldest.commit != newest.commit else []
    for span in spans:
        for path, claim in span.items():
            claims[path] = claims[path].joined(claim) if path in claims else claim
    return claims


def foreign(claims: Mapping[bytes, Claim], session: str) -> dict[bytes, Claim]:
    """Return the claims that are not simply the session's own."""
    own = Claim(frozenset((session,)))
    return {path: claim for path, claim in claims.items() if claim != own}


def others(claims: Mapping[bytes, Claim], session: str) -> dict[bytes, Claim]:
    """Return the claims of which another session, or somebody beside this one, has a part. Without
    hooks everything is unclaimed, which need not be said of each path.
    """
    unclaimed = Claim(frozenset((NOBODY,)))
    mixed = foreign(claims, session)
    return {path: claim for path, claim in mixed.items() if claim != unclaimed}


def restored_source(store: Store, made: Checkpoint) -> Checkpoint | None:
    """Return the checkpoint whose files a restore, undo or revert wrote; None for any other
    checkpoint, and if it was dropped since.
    """
    id = made.reverted.after if made.reverted else made.restored_from
    commit = store.find(id) if id is not None and made.trigger is Trigger.RESTORE else None
    try:
        return store.read(commit) if commit is not None else None
    except StoreDamaged:
        return None


def is_restore(summary: Summary) -> bool:
    """Return whether a checkpoint records a restore, undo or revert."""
    return any(name in summary.trailers for name in RESTORES)


class Step(Value):
    """One step of the line, `before` None for its first checkpoint. `is_whole` is False if
    checkpoints in between were dropped. `undone` are the changed paths that nobody claims, since a
    later restore undid the change.
    """

    before: Checkpoint | None
    after: Checkpoint
    changes: tuple[FileChange, ...]
    is_whole: bool
    undone: frozenset[bytes] = frozenset()

    @property
    def sides(self) -> tuple[Checkpoint | None, Checkpoint]:
        """The checkpoints before and after."""
        return self.before, self.after

    @property
    def is_recorded(self) -> bool:
        """Whether it is known who made the changes, if there are any."""
        return self.after.authors is not None or not self.changes

    def claims(self) -> dict[bytes, Claim]:
        """Return who made the changes. What is not recorded, the session may have changed."""
        return {path: by for path, by in self._all_claims().items() if path not in self.undone}

    @property
    def unknown(self) -> frozenset[str]:
        """The sessions that may have made the changes if nothing is recorded: also the one of a
        dropped checkpoint, or of one that is not in this clone.
        """
        before = self.after.authors.previous if self.after.authors else None
        others = {before.session} if before is not None and not self.is_whole else set()
        return frozenset((self.after.id.session, NOBODY, *others))

    def _all_claims(self) -> dict[bytes, Claim]:
        authors, session = self.after.authors, self.after.id.session
        unknown = Claim(possible=self.unknown)
        if authors is None or not self.is_whole:
            return {change.path: unknown for change in self.changes}
        own = Claim(frozenset((session,)))
        if self.after.trigger is Trigger.RESTORE:  # it contains nothing else
            return {change.path: own for change in self.changes}
        claims = {change.path: _claim(authors, change.path) for change in self.changes}
        is_complete = sum(claim is None for claim in claims.values()) <= authors.own
        default = own if is_complete else unknown
        return {path: claim or default for path, claim in claims.items()}


class WorktreeHistory:
    """The checkpoints of a working tree in the order in which they were made, read backwards."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._read: dict[Oid, Checkpoint] = {}
        self._sessions: dict[str, tuple[dict[int, Oid], Iterator[Summary]]] = {}

    def newest(self) -> Oid | None:
        """Return the last checkpoint made in this working tree, None if it is not known."""
        last = latest.known(self.store)
        return last.commit if last else None

    def steps(self, newest: Oid) -> Iterator[Step]:
        """Yield the steps that lead to `newest`, the last one first."""
        seen: set[Oid] = set()
        commit: Oid | None = newest
        while commit is not None and commit not in seen:
            seen.add(commit)
            step = self._step(self.read(commit))
            yield step
            commit = step.before.commit if step.before else None

    def changed_by(self, checkpoint: Checkpoint) -> dict[bytes, Claim]:
        """Return who changed the paths since the checkpoint's parent, as far as recorded."""
        if checkpoint.parent is not None:
            return self.between(self.read(checkpoint.parent), checkpoint)
        base = checkpoint.snapshot.base.commit
        return self._union(checkpoint, lambda each: each.snapshot.base.commit != base)

    def between(self, old: Checkpoint, new: Checkpoint) -> dict[bytes, Claim]:
        """Return who changed files from one checkpoint to a later one, as far as recorded."""
        return self._union(
            new, lambda each: each.commit == old.commit or each.created < old.created
        )

    def _union(self, newest: Checkpoint, ends: Callable[[Checkpoint], bool]) -> dict[bytes, Claim]:
        span: list[Step] = []
        for step in self.steps(newest.commit):
            if ends(step.after) or not step.is_recorded or len(span) == LONGEST:
                break
            span.append(step)
        claims: dict[bytes, Claim] = {}
        for step in _mark_undone(self, span):
            for path, claim in self._writers(step).items():
                claims[path] = claims[path].joined(claim) if path in claims else claim
        return claims

    def _writers(self, step: Step) -> dict[bytes, Claim]:
        """Return who wrote what a step changed. A restore wrote nothing: it is who wrote the files
        that it restored, as far as recorded; for what it merged, it is the restore's session.
        """
        if step.after.trigger is not Trigger.RESTORE:
            return step.claims()
        # After a restore and an undo, `why` named the undo as the author of every line.
        source = restored_source(self.store, step.after)
        if source is None:
            return {}
        merged = _differing(self.store, source, step.after)
        own = Claim(frozenset((step.after.id.session,)))
        changes = [change for change in step.changes if change.path not in step.undone]
        claims = {change.path: own for change in changes if change.path in merged}
        restored = {each.path: each.new for each in changes if each.new and each.path not in merged}
        return claims | self._writers_of(source, restored)

    def _writers_of(self, source: Checkpoint, wanted: dict[bytes, Entry]) -> dict[bytes, Claim]:
        """Return who wrote these entries of a checkpoint, as far as recorded."""
        claims: dict[bytes, Claim] = {}
        for number, step in enumerate(self.steps(source.commit)):
            if len(claims) == len(wanted) or not step.is_recorded or number == LONGEST:
                break
            if step.after.trigger is not Trigger.RESTORE:
                made = {c.path for c in step.changes if c.new and c.new == wanted.get(c.path)}
                known = step.claims() if made - claims.keys() else {}
                claims = {path: known[path] for path in made - claims.keys()} | claims
        return claims

    def read(self, commit: Oid) -> Checkpoint:
        """Return a checkpoint, each of which is read once."""
        if commit not in self._read:
            self._read[commit] = self.store.read(commit)
        return self._read[commit]

    def _step(self, after: Checkpoint) -> Step:
        previous = after.authors.previous if after.authors else None
        commit = self._commit(previous) if previous else after.parent
        is_next = previous is not None and commit is not None
        commit = commit or after.parent
        before = self.read(commit) if commit else None
        is_whole = is_next or (
            previous is None and (before is None or before.id.number == after.id.number - 1)
        )
        old = before.snapshot.tree if before else self.store.base_tree(after.snapshot.base.commit)
        changes = trees.diff(self.store.reader, old, after.snapshot.tree)
        return Step(before, after, tuple(changes), is_whole)

    def _commit(self, id: CheckpointId) -> Oid | None:
        """Return the commit of a checkpoint, None if its session no longer has it. Each session is
        read once, and only as far back as needed.
        """
        if id.session not in self._sessions:
            chain = self.store.readable(self.store.tip(id.session))
            self._sessions[id.session] = ({}, chain)
        commits, rest = self._sessions[id.session]
        while id.number not in commits:
            summary = next(rest, None)
            if summary is None or summary.id.number < id.number:
                return commits.get(id.number)
            commits[summary.id.number] = summary.commit
        return commits[id.number]


def _claim(authors: Authors, path: bytes) -> Claim | None:
    """Return who else changed a path, None if only the session did."""
    if path in authors.claims:
        return authors.claims[path]
    directory = path
    while directory:
        directory = directory.rpartition(b"/")[0]
        if directory + b"/" in authors.claims:
            return authors.claims[directory + b"/"]
    return None


def transition(step: Step, sessions: frozenset[str]) -> Transition:
    """Return a step as these sessions see it, which count as one. The step must not be the first
    of its line.
    """
    assert step.before is not None
    own, others, uncertain = set[bytes](), dict[bytes, tuple[str, ...]](), set[bytes]()
    for path, claim in step.claims().items():
        names = claim.sessions | claim.possible
        if names <= sessions:
            own.add(path)
        elif names & sessions:
            uncertain.add(path)
        else:
            others[path] = tuple(sorted(names))
    return Transition(
        checkpoint=step.after.id,
        before=step.before.snapshot,
        after=step.after.snapshot,
        own=frozenset(own),
        others=others,
        uncertain=frozenset(uncertain),
    )
