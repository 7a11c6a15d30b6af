"""The catalogue of a remote: one ref with what a list of its sessions shows, so that listing
thousands fetches one ref.

    refs/gitcp/shared/catalogue → commit → tree
        <2 hex digits>    one line of JSON for each session of this shard, sorted by session

Anybody who may push can write anything there. So it is used for lists only, and an entry counts
only while the session's ref is at the tip that the entry describes. A push writes the entries of
what it sends, and removes or renews those that no longer fit the refs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from gitcp import wire
from gitcp.errors import GitcpError, StoreBusy, StoreDamaged
from gitcp.git import remote
from gitcp.git.fsync import make_own_directory, replace_file
from gitcp.git.refs import HEX
from gitcp.git.trees import TreeEntry
from gitcp.history.sessions import Session
from gitcp.model import FILE, Oid
from gitcp.secrets import checkpoint_scan
from gitcp.secrets.checkpoint_scan import Sieve
from gitcp.sharing.remote_refs import RemoteRefs, shard
from gitcp.sharing.remotes import Remote
from gitcp.state import documents
from gitcp.store import Store, one_line, signature
from gitcp.value import Value

SEEN = "catalogues"
"""The directory with the commit of each remote's catalogue that was fetched or pushed last."""

LARGEST = 1 << 26
"""Maximum bytes of a catalogue that is read: about 300,000 sessions."""

LONGEST = 120
"""Maximum characters of a title."""

Lines = dict[str, "CatalogueEntry"]


class CatalogueEntry(Value):
    """A session in the catalogue: its tip, the time of its last checkpoint as ISO 8601, its title,
    and its agent ("" if there is none).
    """

    session: str
    tip: Oid
    time: str = ""
    title: str = ""
    agent: str = ""


def describe(store: Store, session: str, tip: Oid, sieve: Sieve) -> CatalogueEntry:
    """Return the entry of a session that ends at `tip`, its texts without secrets. Raises
    StoreDamaged.
    """
    last = store.read(tip)
    title = one_line(_clean(Session(session, last, 0, ()).title, sieve), LONGEST)
    agent = _clean(last.agent.name, sieve) if last.agent else ""
    return CatalogueEntry(session, tip, wire.encode_time(last.created), title, agent)


def _clean(text: str, sieve: Sieve) -> str:
    data = checkpoint_scan.redacted(text.encode("utf-8", "surrogateescape"), sieve)
    return data.decode("utf-8", "replace")


def read(store: Store, commit: Oid) -> Lines:
    """Return the entries of a catalogue whose objects are here, by session. What is not an entry is
    skipped. Raises StoreDamaged for an object that cannot be read.
    """
    shards = _shards(store, commit)
    sizes = remote.sizes(store.repo, list(shards.values())) if shards else {}
    if sum(sizes.values()) > LARGEST:
        raise StoreDamaged("the catalogue is too large; it was not read")
    lines = (line for oid in shards.values() for line in _lines(store, oid))
    return {entry.session: entry for entry in lines}


def fetch(store: Store, source: Remote, url: str, commit: Oid) -> Lines:
    """Return the entries of a remote's catalogue, after fetching what is missing of it.

    Writes objects, and the commit's name into `<git dir>/gitcp/catalogues`. Raises GitFailed,
    StoreDamaged, and StoreBusy if the remote has another one by now.
    """
    last = _last_seen(store, source)
    if last != commit or not store.reader.exists(commit):
        tip = last if last and store.reader.exists(last) else None
        remote.receive(store.repo, url, [source.catalogue], negotiation_tip=tip)
        store.writer.flush()  # forget cached lookups: the objects exist now
        if not store.reader.exists(commit):
            raise StoreBusy(f"another push updated the catalogue of {source.name} meanwhile")
    entries = read(store, commit)
    remember(store, source, commit)
    return entries


def remember(store: Store, source: Remote, commit: Oid) -> None:
    """Record which catalogue is here, so that the next fetch brings only what changed."""
    path = store.repo.store_dir / SEEN / source.name
    with suppress(OSError):  # without it, the next fetch brings all of it
        make_own_directory(path.parent)
        replace_file(path, commit.encode("ascii"), durable=False)


def changed(
    store: Store,
    entries: Mapping[str, CatalogueEntry],
    refs: RemoteRefs,
    sent: Mapping[str, CatalogueEntry],
) -> dict[str, CatalogueEntry | None]:
    """Return what to change in a catalogue with `entries` (None: remove): `sent` is written,
    sessions that the remote no longer lists are removed, and stale entries renewed, as far as their
    checkpoints are here.
    """
    gone = {name: None for name in entries if name not in refs.sessions and name not in sent}
    stale = (
        (name, tip)
        for name, (_, tip) in refs.sessions.items()
        if name not in sent and (name not in entries or entries[name].tip != tip)
    )
    renewed = {}
    for name, tip in stale:
        if store.reader.exists(tip):
            with suppress(GitcpError):
                renewed[name] = describe(store, name, tip, Sieve())
    new = {name: entry for name, entry in sent.items() if entries.get(name) != entry}
    return {**gone, **renewed, **new}


def write(
    store: Store,
    entries: Mapping[str, CatalogueEntry],
    changes: Mapping[str, CatalogueEntry | None],
    old: Oid | None,
    sieve: Sieve,
    *,
    parent: Oid | None,
) -> Oid:
    """Write the catalogue `old` (None: an empty one), which has `entries`, with `changes`. Only the
    shards of these are written. Return its commit.

    It has no parent unless `parent` is given: a list needs no history. Secrets in the name or the
    address of its author are replaced: it is written with today's, which no checkpoint may have.
    Writes unreferenced objects.
    """
    touched = {shard(name) for name in changes}
    after = {name: entry for name, entry in {**entries, **changes}.items() if entry is not None}
    texts: dict[str, list[bytes]] = {name: [] for name in touched}
    for name in sorted(after):
        if shard(name) in touched:
            texts[shard(name)].append(_encode(after[name]))
    blobs = dict(_shards(store, old)) if old else {}
    for name, lines in texts.items():
        blobs.pop(name, None)
        if lines:
            blobs[name] = store.writer.write_blob(b"".join(lines), new=True)
    tree = store.writer.write_tree([TreeEntry(n.encode(), FILE, oid) for n, oid in blobs.items()])
    commit = store.writer.write("commit", _commit(store, tree, parent, sieve), new=True)
    store.writer.flush(keep=True)
    return commit


def _commit(store: Store, tree: Oid, parent: Oid | None, sieve: Sieve) -> bytes:
    identity = _clean(signature(store.repo, store.repo.host.now()), sieve)
    above = [f"parent {parent}"] if parent else []
    lines = [f"tree {tree}", *above, f"author {identity}", f"committer {identity}"]
    return "\n".join([*lines, "", "Sessions of gitcp", ""]).encode("utf-8", "surrogateescape")


def _shards(store: Store, commit: Oid) -> dict[str, Oid]:
    """Return the blobs of a catalogue by the name of their shard."""
    entries = store.reader.read_tree(store.reader.tree_of(commit))
    return {os.fsdecode(each.name): each.oid for each in entries if each.mode == FILE}


def _lines(store: Store, oid: Oid) -> Iterator[CatalogueEntry]:
    for line in store.reader.read_blob(oid).splitlines():
        entry = _decode(wire.parse_line(line))
        if entry is not None:
            yield entry


def _encode(entry: CatalogueEntry) -> bytes:
    fields = {name: getattr(entry, name) for name in CatalogueEntry.fields if getattr(entry, name)}
    return wire.dumps(fields, small=True) + b"\n"


def _decode(fields: wire.Json | None) -> CatalogueEntry | None:
    """Return the entry in a line, None if it is not one."""
    values = {name: (fields or {}).get(name, "") for name in CatalogueEntry.fields}
    texts: Iterable[object] = values.values()
    if not all(isinstance(text, str) for text in texts) or not HEX.match(values["tip"]):
        return None
    return CatalogueEntry(
        values["session"],
        Oid(values["tip"]),
        _time(values["time"]),
        one_line(values["title"], LONGEST),
        one_line(values["agent"], LONGEST),
    )


def _time(text: str) -> str:
    """Return a time that can be parsed, "" for any other text."""
    try:
        return wire.encode_time(wire.decode_time(text))
    except (ValueError, OverflowError):
        return ""


def _last_seen(store: Store, source: Remote) -> Oid | None:
    text = documents.read_line(store.repo.store_dir / SEEN / source.name) or ""
    return Oid(text) if HEX.match(text) else None
