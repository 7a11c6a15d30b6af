"""What changed in a change since it was last reviewed, however it was rebased in between. Reads
only.

Compared is not what the files are but which lines came and went, so that what came in from the
branch below does not show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gitcp.errors import GitcpError
from gitcp.git import trees
from gitcp.history import diff
from gitcp.history.chains import Lines
from gitcp.model import Entry, FileChange, Oid
from gitcp.review import links
from gitcp.review.links import Commit
from gitcp.store import Store
from gitcp.value import Value


class Moved(Value):
    """A commit then or now: "same", "new", "changed" (its subject is the same, its lines are not)
    or "gone".
    """

    commit: str
    subject: str
    state: str


class Differs(Value):
    """A path whose change is another one now: lines that the change adds now and did not, and the
    other way round.
    """

    path: bytes
    more: int
    less: int


class Since(Value):
    """What is new. `reviewed` is the head that was reviewed; `known` is False where that commit is
    not here any more, and nothing can be compared. `steps` are the checkpoints since, None where
    the last one of then is not here.
    """

    reviewed: str | None
    known: bool
    commits: tuple[Moved, ...]
    files: tuple[Differs, ...]
    steps: tuple[str, ...] | None


def since(
    store: Store,
    base: Oid | None,
    now: Sequence[Commit],
    reviewed: Oid | None,
    lines: Lines,
    steps: tuple[str, ...] | None,
) -> Since:
    """Compare the commits of now with those up to `reviewed`."""
    if reviewed is None or diff.base_tree(store, reviewed) is None:
        return Since(reviewed, False, (), (), steps)
    head = now[-1].oid if now else base
    old_base = _base(store, base, reviewed)
    then = links.commits(store, old_base, reviewed) if old_base else []
    files = _files(store, (old_base, reviewed), (base, head), lines)
    return Since(reviewed, True, tuple(_moved(then, now, lines)), files, steps)


def _base(store: Store, base: Oid | None, reviewed: Oid) -> Oid | None:
    """Where the change of then began: below the branch that it is based on now."""
    try:
        return links.merge_base(store.repo, base, reviewed) if base else None
    except GitcpError:  # history that a shallow clone does not have
        return None


def _moved(then: Sequence[Commit], now: Sequence[Commit], lines: Lines) -> list[Moved]:
    left = list(then)
    states: dict[Oid, str] = {}
    for same in (
        lambda a, b: a.oid == b.oid,
        lambda a, b: _patch(a, lines) == _patch(b, lines),
        _same_subject,
    ):
        for commit in now:
            old = (
                next((each for each in left if same(each, commit)), None)
                if commit.oid not in states
                else None
            )
            if old is not None:
                left.remove(old)
                states[commit.oid] = "changed" if same is _same_subject else "same"
    moved = [Moved(commit.oid, commit.subject, states.get(commit.oid, "new")) for commit in now]
    return moved + [Moved(commit.oid, commit.subject, "gone") for commit in left]


def _same_subject(one: Commit, other: Commit) -> bool:
    return one.subject == other.subject


def _patch(commit: Commit, lines: Lines) -> frozenset[object]:
    """What a commit did, as far as a rebase leaves it."""
    return frozenset(_did(change, lines) for change in commit.changes)


def _did(change: FileChange, lines: Lines) -> object:
    found = lines.change(change.old, change.new)
    return change.path, (change.old, change.new) if found is None else found


Ends = tuple[Oid | None, Oid | None]


def _files(store: Store, then: Ends, now: Ends, lines: Lines) -> tuple[Differs, ...]:
    before, after = (_changes(store, *ends) for ends in (then, now))
    found = []
    for path in sorted(before.keys() | after.keys()):
        a, b = (_lines(changes.get(path), lines) for changes in (before, after))
        if a != b:
            found.append(Differs(path, (b - a).total(), (a - b).total()))
    return tuple(found)


def _changes(store: Store, old: Oid | None, new: Oid | None) -> dict[bytes, FileChange]:
    a, b = (diff.base_tree(store, end) for end in (old, new))
    return {change.path: change for change in trees.diff(store.objects, a, b)}


def _lines(change: FileChange | None, lines: Lines) -> Counter[object]:
    """The lines that a change adds and removes; of what is no text, what it is afterwards."""
    if change is None:
        return Counter()
    old, new = lines.of(change.old), lines.of(change.new)
    if old is None or new is None:
        return Counter([_whole(change.new)])
    before, after = Counter(old), Counter(new)
    return Counter({("+", line): n for line, n in (after - before).items()}) + Counter(
        {("-", line): n for line, n in (before - after).items()}
    )


def _whole(entry: Entry | None) -> object:
    return entry
