"""Import what Entire recorded: one session for each conversation, one checkpoint for each of its
checkpoints, with the files of the commit that it belongs to.

Entire keeps no files but the conversations, as `<id[:2]>/<id[2:]>/` on the branch
`entire/checkpoints/v1`, or at the root of `refs/entire/checkpoints/<shard>/<id>`: `metadata.json`,
and for each conversation `N/metadata.json` and `N/full.jsonl`, in parts if it is large. The commit
names the checkpoint in its trailer `Entire-Checkpoint`. So what Entire shows can be restored here.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gitcp import progress, wire
from gitcp.errors import BadValue, GitcpError, RevisionNotFound, StoreBusy, StoreDamaged
from gitcp.git import refs, remote, trees
from gitcp.git.trees import TreeEntry
from gitcp.model import (
    GITLINK,
    RESERVED,
    TREE,
    Base,
    CheckpointId,
    Note,
    Oid,
    Skip,
    SkipReason,
    Snapshot,
    Submodule,
)
from gitcp.sharing import importing, verify_incoming
from gitcp.sharing.importing import Imported, ImportedTranscript
from gitcp.state import documents, oplog
from gitcp.state.numbers import Highest
from gitcp.store import Store
from gitcp.value import Value, replace

NAME = "entire"
BRANCH = "entire/checkpoints/v1"
PREFIX = "refs/entire/checkpoints/"
TRAILER = "Entire-Checkpoint"
MOST_METADATA = 4 << 20
FILE = "imports"
"""The file that records what was imported: this is how it is known when imported again."""

ID = re.compile(r"[0-9A-Za-z]{6,64}")

UNREADABLE = "its transcript has no messages of an agent that gitcp knows"

NUMBER = re.compile(rb"0|[1-9][0-9]{0,5}")
PART = re.compile(rb"full\.jsonl(?:\.([0-9]{3}))?")


class EntireConversation(Value):
    """One conversation of a checkpoint of Entire. `key` names both; `parts` are the blobs of its
    transcript, in order; `commit` is the one that names the checkpoint, None if none does.
    """

    key: str
    session: str
    created: datetime
    branch: str | None
    parts: tuple[Oid, ...]
    commit: Oid | None
    subject: str


class EntirePlan(Value):
    """What an import would store, oldest first. `again` counts conversations that are here already,
    `refused` says why others cannot be imported, by key. Of the `checkpoints` of Entire, `squashed`
    share their commit with another one, and no commit names those that are `lost`.
    """

    new: tuple[EntireConversation, ...]
    again: int
    refused: dict[str, str]
    checkpoints: int
    squashed: int
    lost: int

    def to_json(self) -> wire.Json:
        """Return the fields that `gitcp import --from entire --dry-run --json` prints."""
        return {
            "checkpoints": self.checkpoints,
            "squashed": self.squashed,
            "lost": self.lost,
            "imported_before": self.again,
            "new": [
                {
                    "entire": one.key,
                    "agent_session": one.session,
                    "created": wire.encode_time(one.created),
                    "commit": one.commit,
                }
                for one in self.new
            ],
            "refused": self.refused,
        }


class _Commit(Value):
    commit: Oid
    subject: str
    checkpoints: int


def plan(store: Store, source: str | None) -> EntirePlan:
    """Return what an import would store. `source` is a remote, URL or path to fetch from; None
    reads this repository.

    Without `source` reads only; else writes fetched objects, and no ref. Raises RevisionNotFound
    if there is nothing of Entire, and GitFailed if the source cannot be reached.
    """
    tips = _tips(store) if source is None else _fetched(store, source)
    if not tips:
        listed_by = f"ls-remote {shlex.quote(source)}" if source else "branch --all --list"
        raise RevisionNotFound(
            f"{source or 'this repository'} has no checkpoints of Entire (branch {BRANCH} or "
            f"{PREFIX}*); nothing was imported",
            hint=f"git {listed_by} '*{BRANCH}'",
        )
    listed = dict(_listed(store, tips))
    commits, known = _commits(store), _imported(store)
    new: list[EntireConversation] = []
    refused: dict[str, str] = {}
    again = 0
    for id, entries in progress.each(listed.items(), "reading", "checkpoints", len(listed)):
        try:
            conversations = list(_conversations(store, id, entries, commits.get(id)))
        except (BadValue, StoreDamaged) as error:
            refused[id] = str(error)
            continue
        for one in conversations:
            if one.key in known:
                again += 1
            elif problem := _problem(store, one):
                refused[one.key] = problem
            else:
                new.append(one)
    return EntirePlan(
        tuple(sorted(new, key=lambda one: (one.created, one.key))),
        again,
        refused,
        len(listed),
        sum(commits[id].checkpoints > 1 for id in listed if id in commits),
        sum(id not in commits for id in listed),
    )


def apply(store: Store, planned: EntirePlan) -> tuple[tuple[Imported, ...], dict[str, str]]:
    """Store the conversations of a plan. Return the sessions, and why conversations were refused,
    by their key.

    Writes objects, refs below `refs/gitcp/remotes/imported/`, and the operation log. Raises what a
    save raises; sessions that were imported until then stay.
    """
    by_session: dict[str, list[EntireConversation]] = {}
    for one in planned.new:
        by_session.setdefault(one.session, []).append(one)
    files, highest = _Files(store), Highest()
    imports: list[Imported] = []
    refused: dict[str, str] = {}
    with progress.task("importing", "conversations", len(planned.new)) as advance:
        for conversations in by_session.values():
            imports += _session(store, files, highest, conversations, refused, advance)
    made = [store.summary(each.tip).id for each in imports if each.checkpoints]
    if made:
        noun = "session" if len(made) == 1 else "sessions"
        oplog.record(
            store.repo, "import", f"{len(made):,} {noun} from Entire", checkpoints=tuple(made[-1:])
        )
    return tuple(imports), refused


# ---------------------------------------------------------------- reading


def _tips(store: Store) -> dict[str, Oid]:
    """Return the refs of Entire in this repository; of remotes what git fetched, too."""
    branches = store.repo.refs.list("refs/heads/") | store.repo.refs.list("refs/remotes/")
    named = {name: oid for name, oid in branches.items() if name.endswith(f"/{BRANCH}")}
    return named | store.repo.refs.list(PREFIX)


def _fetched(store: Store, source: str) -> dict[str, Oid]:
    listed = remote.listed(store.repo, source, f"refs/heads/{BRANCH}")
    listed |= remote.listed(store.repo, source, f"{PREFIX}*")
    if listed:
        remote.receive(store.repo, source, list(listed))
        store.writer.flush()  # forget cached lookups: the objects exist now
    return listed


def _listed(store: Store, tips: dict[str, Oid]) -> Iterator[tuple[str, list[TreeEntry]]]:
    """Yield each checkpoint's id with the entries of its directory, the first ref's last."""
    for name, tip in reversed(tips.items()):
        top = store.reader.read_tree(store.reader.tree_of(tip))
        if not name.endswith(f"/{BRANCH}"):
            id = name.rpartition("/")[2]
            if ID.fullmatch(id):
                yield id, top
            continue
        for shard in top:
            inside = store.reader.read_tree(shard.oid) if shard.mode == TREE else ()
            for entry in inside:
                id = (shard.name + entry.name).decode("ascii", "replace")
                if entry.mode == TREE and ID.fullmatch(id):
                    yield id, store.reader.read_tree(entry.oid)


def _conversations(
    store: Store, id: str, entries: list[TreeEntry], named: _Commit | None
) -> Iterator[EntireConversation]:
    numbered = [entry for entry in entries if entry.mode == TREE and NUMBER.fullmatch(entry.name)]
    for entry in sorted(numbered, key=lambda entry: int(entry.name)):
        inside = store.reader.read_tree(entry.oid)
        fields = _fields(store, inside)
        number = int(entry.name)
        parts = ((int(match[1] or 0), each.oid) for each in inside if (match := _part(each)))
        branch = fields.get("branch")
        yield EntireConversation(
            key=f"{id}/{number}" if number else id,
            session=str(fields.get("session_id") or id),
            created=_time(fields.get("created_at")),
            branch=branch if isinstance(branch, str) else None,
            parts=tuple(oid for _, oid in sorted(parts)),
            commit=named.commit if named else None,
            subject=named.subject if named else "",
        )


def _part(entry: TreeEntry) -> re.Match[bytes] | None:
    return None if entry.mode == TREE else PART.fullmatch(entry.name)


def _fields(store: Store, entries: list[TreeEntry]) -> dict[str, Any]:
    """Return the fields of `metadata.json`. Raises BadValue if it is none, StoreDamaged if it is
    missing.
    """
    oid = next((each.oid for each in entries if each.name == b"metadata.json"), None)
    if oid is None:
        raise BadValue("it has no metadata.json")
    if remote.sizes(store.repo, [oid])[oid] > MOST_METADATA:
        raise BadValue(f"its metadata.json is larger than {MOST_METADATA >> 20} MiB")
    try:
        fields = wire.loads(store.reader.read_blob(oid))
    except ValueError:
        raise BadValue("its metadata.json is no JSON") from None
    if not isinstance(fields, dict):
        raise BadValue("its metadata.json is no object")
    return fields


def _time(value: object) -> datetime:
    try:
        return datetime.fromisoformat(str(value)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadValue(f"its created_at is no time: {value!r}") from None


def _problem(store: Store, one: EntireConversation) -> str:
    """Return why a conversation cannot be imported, "" if it can."""
    if not one.parts:
        return "Entire recorded no transcript"
    if not all(map(store.reader.exists, one.parts)):
        return "its transcript is not in this repository"
    sizes = remote.sizes(store.repo, one.parts)
    if sum(sizes[part] for part in one.parts) > importing.LARGEST:
        return f"its transcript is larger than {importing.LARGEST >> 30} GiB"
    return ""


def _commits(store: Store) -> dict[str, _Commit]:
    """Return the commit that names each checkpoint; the oldest of several, which a rebase copied.

    Only the trailers of a message count: whoever writes such a line into its body names nothing.
    """
    fields = f"%H%x00%s%x00%(trailers:key={TRAILER},valueonly,separator=%x2C)"
    output = store.repo.git(
        "log",
        *(f"--exclude={prefix}*" for prefix in (refs.PREFIX, PREFIX)),
        "--all",
        "--reverse",
        "--no-show-signature",
        f"--format={fields}",
    )
    commits: dict[str, _Commit] = {}
    # Not `splitlines`: a subject may have a line separator of Unicode in it.
    for line in filter(None, output.decode("utf-8", "replace").split("\n")):
        commit, _, rest = line.partition("\0")
        subject, _, values = rest.rpartition("\0")
        ids = [id for value in values.split(",") if (id := value.strip())]
        for id in ids:
            commits.setdefault(id, _Commit(Oid(commit), subject, len(set(ids))))
    return commits


def _imported(store: Store) -> set[str]:
    """Return the keys of the conversations that were imported before, and whose sessions are still
    here. What checkpoints say does not count: labels change, and others write some, too.
    """
    listed = store.repo.refs.list(refs.REMOTES)
    recorded = documents.peek(store.repo.store_dir / FILE).get(NAME)
    known = recorded.items() if isinstance(recorded, dict) else ()
    return {key for key, ref in known if ref in listed}


def _record(store: Store, keys: Iterable[str], ref: str) -> None:
    """Record that conversations were imported into the session of a ref. The caller holds the
    store's lock.
    """
    path = store.repo.store_dir / FILE
    fields = documents.peek(path)
    recorded = fields.get(NAME)
    before = recorded if isinstance(recorded, dict) else {}
    documents.write(path, {**fields, NAME: {**before, **dict.fromkeys(keys, ref)}})


# ---------------------------------------------------------------- writing


class _Files:
    """The snapshots of commits, each made once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[Oid, Snapshot] = {}

    def of(self, one: EntireConversation, parent: Oid | None) -> Snapshot:
        """Return the files of the commit; without one, a snapshot that claims no files, with the
        tree of the checkpoint `parent`.
        """
        base = Base(one.commit, one.branch)
        if one.commit is None:
            skip = Skip(b".", SkipReason.NOT_HELD, NAME)
            if parent is not None:
                return self._store.read(parent).snapshot.carried(base, skip)
            return Snapshot(self._store.repo.object_format.empty_tree, base, 0, (skip,))
        if one.commit not in self._known:
            self._known[one.commit] = self._read(one.commit)
        return replace(self._known[one.commit], base=base)

    def _read(self, commit: Oid) -> Snapshot:
        store = self._store
        tree = store.reader.tree_of(commit)
        if any(entry.name == RESERVED for entry in store.reader.read_tree(tree)):
            tree = trees.without(store, tree, RESERVED) or store.repo.object_format.empty_tree
        paths = list(trees.walk(store.reader, tree))
        links = tuple(Submodule(path, e.oid) for path, e in paths if e.mode == GITLINK)
        return Snapshot(tree, Base(commit, None), len(paths) - len(links), submodules=links)


def _session(
    store: Store,
    files: _Files,
    highest: Highest,
    conversations: list[EntireConversation],
    refused: dict[str, str],
    advance: Callable[[int], None],
) -> Iterator[Imported]:
    """Import the checkpoints of one conversation, each on top of the one before."""
    chosen: tuple[str, str, Oid | None] | None = None
    tip: Oid | None = None
    number = 1
    keys: list[str] = []
    for one in conversations:
        advance(1)
        with _written(store, one.parts) as path:
            try:
                transcript = _transcript(path, one)
            except BadValue:
                refused[one.key] = UNREADABLE
                continue
            if chosen is None:
                chosen = importing.session_for(store, transcript)
                number = highest.first_of(store, [chosen[1]])[chosen[1]]
            id, parent = CheckpointId(chosen[1], number), tip or chosen[2]
            snapshot = files.of(one, parent)
            tip = importing.checkpoint(store, transcript, id, parent, snapshot, one.created)
        keys.append(one.key)
    if chosen is not None and tip is not None:
        yield _moved(store, chosen, tip, keys)


def _moved(
    store: Store, chosen: tuple[str, str, Oid | None], tip: Oid, keys: Sequence[str]
) -> Imported:
    namespace, session, old = chosen
    revision, ref = f"{namespace}/{session}", importing.ref_of(namespace, session)
    if tip == old:
        with store.lock():
            _record(store, keys, ref)
        return Imported(revision, session, tip, 0)
    known = frozenset(summary.commit for summary in store.history(old)) if old else frozenset()
    try:
        verify_incoming.validate(store, session, tip, known)
    except GitcpError as error:
        return Imported(revision, session, tip, 0, str(error))
    with store.lock():
        if not store.repo.refs.update(ref, tip, old):
            raise StoreBusy(f"{revision} moved in the meantime; it was not imported")
        _record(store, keys, ref)
    return Imported(revision, session, tip, len(keys))


def _transcript(path: Path, one: EntireConversation) -> ImportedTranscript:
    """Read a transcript. Raises BadValue if it contains no conversation."""
    label = f"Entire {one.key}: {one.subject}" if one.subject else f"Entire {one.key}"
    name = re.sub(r"[^A-Za-z0-9-]", "", one.session)[:64] or "conversation"
    return replace(importing.read(path, f"{name}.jsonl", None), note=Note(label=label))


@contextmanager
def _written(store: Store, parts: Iterable[Oid]) -> Iterator[Path]:
    """Yield a temporary file with the content of blobs, joined by line feeds as Entire split it."""
    path = importing.incoming(store)
    try:
        with open(os.open(path, importing.NEW, 0o600), "wb") as file:
            for number, part in enumerate(parts):
                if number:
                    file.write(b"\n")
                file.writelines(store.reader.stream_blob(part))
        yield path
    finally:
        path.unlink(missing_ok=True)
