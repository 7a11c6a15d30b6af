"""Compare a change with the version reviewed last, across rebases. Reads only.

Compares added and removed lines rather than file contents, so that commits of the upstream branch
do not show up as differences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gitcp.errors import GitcpError
from gitcp.git import trees
from gitcp.history.chains import ChainLines
from gitcp.model import FileChange, Oid
from gitcp.review import links
from gitcp.review.links import Commit
from gitcp.store import Store
from gitcp.value import Value


class CommitStatus(Value):
    """A commit of the old or new version. `state` is "same", "new", "changed" (same subject, other
    lines) or "gone".
    """

    commit: str
    subject: str
    state: str


class FileDelta(Value):
    """A path that the change modifies differently now: the number of changed lines that are new
    (`more`) and that are no longer in it (`less`).
    """

    path: bytes
    more: int
    less: int


class Since(Value):
    """Differences since a review. `reviewed` is the head that was reviewed; `known` is False if
    that commit is no longer in the repository, so nothing could be compared. `steps` are the ids of
    newer checkpoints, None if the last one of the review is not in the story.
    """

    reviewed: str | None
    known: bool
    commits: tuple[CommitStatus, ...]
    files: tuple[FileDelta, ...]
    steps: tuple[str, ...] | None


def since(
    store: Store,
    base: Oid | None,
    now: Sequence[Commit],
    reviewed: Oid | None,
    lines: ChainLines,
    steps: tuple[str, ...] | None,
) -> Since:
    """Compare the commits `now` with those up to `reviewed`."""
    if reviewed is None or store.base_tree(reviewed) is None:
        return Since(reviewed, False, (), (), steps)
    head = now[-1].oid if now else base
    old_base = _old_base(store, base, reviewed)
    then = links.commits(store, old_base, reviewed) if old_base else []
    files = _files(store, (old_base, reviewed), (base, head), lines)
    return Since(reviewed, True, tuple(_statuses(then, now, lines)), files, steps)


def _old_base(store: Store, base: Oid | None, reviewed: Oid) -> Oid | None:
    """Return the merge base of the reviewed version and the current base branch."""
    try:
        return links.merge_base(store.repo, base, reviewed) if base else None
    except GitcpError:  # history that a shallow clone does not have
        return None


def _statuses(
    then: Sequence[Commit], now: Sequence[Commit], lines: ChainLines
) -> list[CommitStatus]:
    unmatched = list(then)
    states: dict[Oid, str] = {}
    for same in (
        lambda a, b: a.oid == b.oid,
        lambda a, b: _patch(a, lines) == _patch(b, lines),
        _same_subject,
    ):
        for commit in now:
            old = (
                next((each for each in unmatched if same(each, commit)), None)
                if commit.oid not in states
                else None
            )
            if old is not None:
                unmatched.remove(old)
                states[commit.oid] = "changed" if same is _same_subject else "same"
    moved = [
        CommitStatus(commit.oid, commit.subject, states.get(commit.oid, "new")) for commit in now
    ]
    return moved + [CommitStatus(commit.oid, commit.subject, "gone") for commit in unmatched]


def _same_subject(old: Commit, new: Commit) -> bool:
    return old.subject == new.subject


def _patch(commit: Commit, lines: ChainLines) -> frozenset[object]:
    """Return the effect of a commit in a form that survives a rebase."""
    return frozenset(_effect(change, lines) for change in commit.changes)


def _effect(change: FileChange, lines: ChainLines) -> object:
    line_sum = lines.change(change.old, change.new)
    return change.path, (change.old, change.new) if line_sum is None else line_sum


Ends = tuple[Oid | None, Oid | None]


def _files(store: Store, then: Ends, now: Ends, lines: ChainLines) -> tuple[FileDelta, ...]:
    before, after = (_changes(store, *ends) for ends in (then, now))
    deltas = []
    for path in sorted(before.keys() | after.keys()):
        a, b = (_lines(changes.get(path), lines) for changes in (before, after))
        if a != b:
            deltas.append(FileDelta(path, (b - a).total(), (a - b).total()))
    return tuple(deltas)


def _changes(store: Store, old: Oid | None, new: Oid | None) -> dict[bytes, FileChange]:
    a, b = (store.base_tree(end) for end in (old, new))
    return {change.path: change for change in trees.diff(store.reader, a, b)}


def _lines(change: FileChange | None, lines: ChainLines) -> Counter[object]:
    """Count the lines a change adds and removes. A binary file counts as its new entry."""
    if change is None:
        return Counter()
    old, new = lines.of(change.old), lines.of(change.new)
    if old is None or new is None:
        return Counter[object]([change.new])
    before, after = Counter(old), Counter(new)
    return Counter({("+", line): n for line, n in (after - before).items()}) + Counter(
        {("-", line): n for line, n in (before - after).items()}
    )
