"""Checkpoints with other words in them, or without some paths: what purge writes, and what a
redacted push sends.

An edited checkpoint keeps its id, its time and its place in the chain, and is whole: sizes,
checksums and what a listing says follow from what it holds now. What becomes of it depends on
itself alone, so that the same checkpoint gives the same commit again, wherever and whenever.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from gitcp import adapters, readme
from gitcp.conversation import segments
from gitcp.conversation.segments import Segment
from gitcp.conversation.sums import Sums
from gitcp.git import trees
from gitcp.model import (
    GITLINK,
    RESERVED,
    TREE,
    Checkpoint,
    Conversation,
    Digest,
    Entry,
    IndexEntry,
    Oid,
    Skip,
    SkipReason,
    Snapshot,
    State,
    Stream,
)
from gitcp.restoring.plan import within
from gitcp.saving import conversation
from gitcp.store import README, Store, Summary, message
from gitcp.value import EMPTY, Value, replace

FIXED = frozenset({"commit", "encoding", "eol", "format", "head", "name", "oid", "sha256", "tree"})
"""Fields that say where something is, or are a word of gitcp's: nobody wrote them."""

IDENTITY = re.compile(rb"(?m)^(author|committer) (.*)(?=> [0-9])")
TRAILER = re.compile(r"^(Gitcp-[A-Za-z-]+): .*$", re.MULTILINE)
NOT_IN_STREAM = re.compile(r"[^A-Za-z0-9._/-]")


class Edit(Value):
    """What is changed: `text` gives the bytes that shall stand instead of others, `paths` are taken
    out.

    `across`: what `text` changes may go over the end of a line. `clean` are objects in which it
    changes nothing.
    """

    text: Callable[[bytes], bytes]
    paths: tuple[bytes, ...] = ()
    across: bool = False
    clean: Collection[bytes] = frozenset()


class Editor:
    """Edits chains, each checkpoint after the one before it. Writes objects, which the caller
    flushes.

    `becomes` says of each commit that was edited which one takes its place; it is the same one
    where nothing changed. `changed` are those in which something was to be edited.
    """

    def __init__(self, store: Store, edit: Edit) -> None:
        self.store = store
        self.edit = edit
        self.becomes: dict[Oid, Oid] = {}
        self.changed: list[Oid] = []
        self._roots: dict[tuple[Oid, bytes], tuple[Oid, bytes]] = {}
        self._blobs: dict[Oid, Oid] = {}
        self._trees: dict[Oid, Oid] = {}
        self._names: dict[Oid, Mapping[bytes, bytes]] = {}
        self._groups: dict[tuple[Oid, ...], tuple[tuple[Oid, int], ...]] = {}
        self._plain: set[bytes] = set()
        self._whole: dict[Oid, bool] = {}
        self._sums = Sums()
        self._grown: tuple[str, tuple[Segment, ...], Digest] = ("", (), Digest())

    def chains(self, nodes: Iterable[Summary]) -> None:
        """Edit checkpoints, given each after the one before it. Raises StoreDamaged for one that is
        not whole.
        """
        for node in nodes:
            if node.commit not in self.becomes:
                self.becomes[node.commit] = self._commit(node)

    def tag(self, value: Oid, commit: Oid) -> Oid:
        """The tag, its text edited, on what became of its commit."""
        kind, data = self.store.objects.read(value)
        if kind != "tag":
            return commit
        head, blank, text = data.partition(b"\n\n")
        edited = self.store.objects.write("tag", head + blank + self.edit.text(text))
        return self.store.retag(edited, commit)

    # ------------------------------------------------------------ commits

    def _commit(self, node: Summary) -> Oid:
        head, _, body = self.store.objects.read_commit(node.commit).partition(b"\n\n")
        lines = [line for line in head.split(b"\n") if not line.startswith(b"parent ")]
        key = (node.root, body)
        if key not in self._roots:
            self._roots[key] = self._root(node, body)
        root, message = self._roots[key]
        parent = self.becomes[node.parent] if node.parent else None
        rest = IDENTITY.sub(lambda m: m[1] + b" " + self.edit.text(m[2]), b"\n".join(lines[1:]))
        if (root, message, rest) != (node.root, body, b"\n".join(lines[1:])):
            self.changed.append(node.commit)
        first = [
            b"tree " + root.encode("ascii"),
            *([b"parent " + parent.encode("ascii")] if parent else []),
        ]
        return self.store.objects.write("commit", b"\n".join([*first, rest, b"", message]))

    def _root(self, node: Summary, body: bytes) -> tuple[Oid, bytes]:
        """The tree and the message of an edited checkpoint."""
        written = self.edit.text(body)
        if bytes.fromhex(node.root) in self.edit.clean and written == body:
            return node.root, body
        before = self.store.read(node.commit)
        entry = trees.lookup(self.store.objects, node.root, RESERVED + b"/" + README)
        page = self.store.objects.read_blob(entry.oid) if entry else b""
        after, revised = self.checkpoint(before), self.edit.text(page)
        if after == before and revised == page:
            return node.root, written
        root = self.store.write_root(
            after, readme.revised(after, revised.decode("utf-8", "replace"))
        )
        return root, _message(before, after, written) if after != before else written

    def checkpoint(self, before: Checkpoint) -> Checkpoint:
        """The checkpoint as it will say it; the same where there is nothing to change."""
        named = {
            "note": before.note,
            "agent": before.agent,
            "run": before.run,
            "extra": before.extra,
        }
        return replace(
            before,
            **{name: self._worded(value) for name, value in named.items()},
            snapshot=self._snapshot(before.snapshot),
            conversation=self._conversation(before.conversation) if before.conversation else None,
            steps=self._tree(before.steps) if before.steps else None,
            state=before.state if before.state and not self._is_held(before.state) else None,
        )

    def _is_held(self, state: State) -> bool:
        """Whether a framework's state is to be edited. It has an encoding of its own, with lengths:
        it is left out.
        """
        if bytes.fromhex(state.tree) in self.edit.clean:
            return False
        found = (entry.oid for _, entry in trees.walk(self.store.objects, state.tree))
        data = b"".join([state.key.encode(), b"\0", *map(self.store.objects.read_blob, found)])
        return self.edit.text(data) != data

    def _worded(self, value: Any, tree: Oid | None = None) -> Any:
        """A value with its words edited, and its paths, which lie in `tree`."""
        if type(value) is str:
            return self.edit.text(value.encode("utf-8", "surrogatepass")).decode(
                "utf-8", "surrogatepass"
            )
        if type(value) is bytes:
            return self._path(tree, value)
        if type(value) in (tuple, list):
            return type(value)(self._worded(item, tree) for item in value)
        if isinstance(value, Value):
            fields = (name for name in value.fields if name not in FIXED)
            return replace(
                value, **{name: self._worded(getattr(value, name), tree) for name in fields}
            )
        if isinstance(value, Mapping):
            return {
                self._worded(key, tree): self._worded(item, tree) for key, item in value.items()
            } or EMPTY
        return value

    # ------------------------------------------------------------ files

    def _snapshot(self, before: Snapshot) -> Snapshot:
        left = self._without(before) if self.edit.paths else before
        staged, conflicts = (
            tuple(map(self._entry, entries)) for entries in (left.staged, left.conflicts)
        )
        edited: Snapshot = self._worded(
            replace(left, staged=staged, conflicts=conflicts), left.tree
        )
        return replace(edited, tree=self._tree(left.tree))

    def _entry(self, entry: IndexEntry) -> IndexEntry:
        stored = not entry.intent_to_add and entry.mode != GITLINK
        return replace(entry, oid=self._blob(entry.oid)) if stored else entry

    def _without(self, before: Snapshot) -> Snapshot:
        """The snapshot without the paths that are taken out, and with the reason why they are not
        in it.
        """
        found = before
        for path in self.edit.paths:
            found = self._without_path(found, path)
        return found

    def _without_path(self, before: Snapshot, path: bytes) -> Snapshot:
        lists = {
            name: getattr(before, name)
            for name in before.fields
            if type(getattr(before, name)) is tuple
        }
        left = {
            name: tuple(each for each in items if not within(_place(each), (path,)))
            for name, items in lists.items()
        }
        modes = {name: mode for name, mode in before.modes.items() if not within(name, (path,))}
        entry = trees.lookup(self.store.objects, before.tree, path)
        if entry is None and left == lists and modes == before.modes:
            return before
        left["skipped"] = tuple(
            sorted((*left["skipped"], Skip(path, SkipReason.PURGED)), key=_place)
        )
        size = (
            sum(1 for _ in trees.walk(self.store.objects, entry.oid))
            if entry and entry.mode == TREE
            else 1
        )
        tree = trees.without(self.store.objects, before.tree, path) or trees.EMPTY_TREE
        return replace(
            before,
            **left,
            modes=modes or EMPTY,
            tree=tree,
            total=before.total - (size if entry else 0),
        )

    def _tree(self, oid: Oid) -> Oid:
        """A tree with all that is in it edited."""
        if bytes.fromhex(oid) in self.edit.clean:
            return oid
        if oid not in self._trees:
            entries, names = self.store.objects.read_tree(oid), self._renamed(oid)
            edited = [
                each._replace(name=names[each.name], oid=self._below(each)) for each in entries
            ]
            self._trees[oid] = self.store.objects.write_tree(edited) if edited != entries else oid
        return self._trees[oid]

    def _below(self, entry: trees.TreeEntry) -> Oid:
        if entry.mode == GITLINK:
            return entry.oid
        return self._tree(entry.oid) if entry.mode == TREE else self._blob(entry.oid)

    def _blob(self, oid: Oid) -> Oid:
        if bytes.fromhex(oid) in self.edit.clean:
            return oid
        if oid not in self._blobs:
            data = self.store.objects.read_blob(oid)
            edited = self.edit.text(data)
            self._blobs[oid] = oid if edited == data else self.store.objects.write_blob(edited)
        return self._blobs[oid]

    def _renamed(self, tree: Oid) -> Mapping[bytes, bytes]:
        """The names in a tree, edited; two that would be the same are told apart by a number."""
        if tree not in self._names:
            names = [entry.name for entry in self.store.objects.read_tree(tree)]
            edited = {name: self.edit.text(name) for name in names}
            taken = {name for name, new in edited.items() if name == new}
            for name in sorted(name for name, new in edited.items() if name != new):
                new = edited[name]
                edited[name] = next(
                    n
                    for n in (new, *(b"%s-%d" % (new, k) for k in range(2, 999999)))
                    if n not in taken
                )
                taken.add(edited[name])
            self._names[tree] = edited
        return self._names[tree]

    def _path(self, tree: Oid | None, path: bytes) -> bytes:
        """A path of the metadata: as its names are in the tree, where they are in it."""
        if path in self._plain or self.edit.text(path) == path:
            self._plain.add(path)
            return path
        parts = []
        for name in path.split(b"/"):
            parts.append(self._renamed(tree).get(name) if tree else None)
            parts[-1] = parts[-1] or self.edit.text(name)
            found = (
                next((e for e in self.store.objects.read_tree(tree) if e.name == name), None)
                if tree
                else None
            )
            tree = found.oid if found and found.mode == TREE else None
        return b"/".join(part or b"" for part in parts)

    # ------------------------------------------------------------ the conversation

    def _conversation(self, before: Conversation) -> Conversation:
        found = {
            stream.name: conversation.stored(self.store, before, stream.name)
            for stream in before.streams
        }
        edited = {name: self._stream(each) for name, each in found.items()}
        streams = tuple(
            self._described(stream, found[stream.name], edited[stream.name])
            for stream in before.streams
        )
        if streams == before.streams:
            return before
        written = {
            stream.name.encode(): Entry(
                TREE, segments.write_tree(self.store.objects, edited[old.name])
            )
            for old, stream in zip(before.streams, streams, strict=True)
        }
        digest = before.digest
        if edited.get(conversation.MAIN) != found.get(conversation.MAIN):
            digest = self._digest(before.format, edited[conversation.MAIN])
        return replace(
            before,
            tree=trees.build(self.store.objects, trees.nest(written)),
            streams=streams,
            digest=digest,
        )

    def _described(
        self, stream: Stream, before: tuple[Segment, ...], after: tuple[Segment, ...]
    ) -> Stream:
        worded: Stream = self._worded(stream)
        name = self._worded(stream.name)
        if name != stream.name:
            worded = replace(worded, name=NOT_IN_STREAM.sub("", name))
        if after == before:
            return worded
        size, digest = self._sums.of(self.store.objects, stream.name, after)
        return replace(worded, bytes=size, sha256=digest)

    def _stream(self, found: tuple[Segment, ...]) -> tuple[Segment, ...]:
        """A stream's segments, edited. Those that end with a line are edited each by itself, and
        once.
        """
        edited: list[Segment] = []
        group: list[Segment] = []
        for number, segment in enumerate(found, 1):
            group.append(segment)
            if number == len(found) or (not self.edit.across and self._ends_line(segment.oid)):
                for oid, size in self._group(tuple(group)):
                    edited.append(Segment(oid, sum(edited[-1][1:]) if edited else 0, size))
                group.clear()
        return tuple(edited)

    def _ends_line(self, oid: Oid) -> bool:
        if oid not in self._whole:
            self._whole[oid] = self.store.objects.read_blob(oid).endswith(b"\n")
        return self._whole[oid]

    def _group(self, found: tuple[Segment, ...]) -> tuple[tuple[Oid, int], ...]:
        """What segments that belong together become: blobs and their sizes."""
        oids = tuple(segment.oid for segment in found)
        if oids not in self._groups:
            new: Iterable[Segment] = found
            if len(oids) > 1 or bytes.fromhex(oids[0]) not in self.edit.clean:
                data = b"".join(segments.content(self.store.objects, found))
                edited = self.edit.text(data)
                new = segments.store(self.store.objects, (edited,), 0) if edited != data else found
            self._groups[oids] = tuple((segment.oid, segment.size) for segment in new)
        return self._groups[oids]

    def _digest(self, format: str, found: tuple[Segment, ...]) -> Digest:
        """What a listing says of the edited conversation; taken further where it only grew."""
        known, before, digest = self._grown
        adapter = adapters.for_format(format)
        start = (
            sum(before[-1][1:])
            if before and format == known and self._begins_with(found, before)
            else 0
        )
        lines = conversation.lines(self.store, found, start)
        digest = adapter.digest(digest if start else Digest(), lines)
        self._grown = (format, found, digest)
        return digest

    def _begins_with(self, found: tuple[Segment, ...], before: tuple[Segment, ...]) -> bool:
        return found[: len(before)] == before and self._ends_line(before[-1].oid)


def _place(value: Any) -> bytes:
    """The path that an item of a snapshot is about."""
    path: bytes = value if isinstance(value, bytes) else value.path
    return path.rstrip(b"/")


def _message(before: Checkpoint, after: Checkpoint, written: bytes) -> bytes:
    """The message of an edited checkpoint, with the trailers that others put into that of the one
    before.
    """
    made = message(after)
    known = {match[1] for match in TRAILER.finditer(message(before))}
    others = [
        m[0] for m in TRAILER.finditer(written.decode("utf-8", "replace")) if m[1] not in known
    ]
    return (made + "".join(f"{line}\n" for line in others)).encode("utf-8", "replace")
