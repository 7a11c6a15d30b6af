"""Edit checkpoints: replace text or remove paths. Used by purge and by redacted pushes.

An edited checkpoint keeps its id, time and position; sizes, checksums and digests are recomputed.
The result depends only on the checkpoint itself, so editing it again gives the same commit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from gitcp import adapters, progress, readme
from gitcp.conversation import segments
from gitcp.conversation.segments import Segment
from gitcp.conversation.sums import Sums
from gitcp.git import segmented, trees
from gitcp.model import (
    GITLINK,
    MAIN,
    RESERVED,
    TREE,
    Authors,
    Checkpoint,
    CommandState,
    Conversation,
    Digest,
    Entry,
    IndexEntry,
    Memory,
    Oid,
    Skip,
    SkipReason,
    Snapshot,
    State,
    States,
    StepName,
    Stream,
)
from gitcp.restoring.plan import within
from gitcp.saving import conversation, states
from gitcp.store import README, Store, Summary, message
from gitcp.value import EMPTY, Value, replace

FIXED = frozenset({"commit", "encoding", "eol", "format", "head", "name", "oid", "sha256", "tree"})
"""Fields that contain no user text: locations, and values defined by gitcp."""

# A secret in the name of a commit's author was pushed, even with --redact.
IDENTITY = re.compile(rb"(?m)^(author|committer|tagger) (.*)(?=> [0-9])")
TRAILER = re.compile(r"^(Gitcp-[A-Za-z-]+): .*$", re.MULTILINE)
NOT_IN_STREAM = re.compile(r"[^A-Za-z0-9._/-]")


EDITED = "it contained text that was purged or redacted"
"""Why a state is missing in an edited checkpoint."""


class Edit(Value):
    """What to change: `text` maps bytes to their replacement, `paths` are removed.

    `across` means that a match of `text` can span lines. `clean` are objects known to have no
    match.
    """

    text: Callable[[bytes], bytes]
    paths: tuple[bytes, ...] = ()
    across: bool = False
    clean: Collection[bytes] = frozenset()


class Editor:
    """Edits chains, parents first. Writes objects, which the caller flushes.

    `becomes` maps each edited commit to its replacement, itself if nothing changed. `changed` are
    the commits with changes of their own.
    """

    def __init__(self, store: Store, edit: Edit) -> None:
        self.store = store
        self.edit = edit
        self.becomes: dict[Oid, Oid] = {}
        self.changed: list[Oid] = []
        self._roots: dict[tuple[Oid, bytes], tuple[Oid, bytes]] = {}
        self._blobs: dict[Oid, Oid] = {}
        self._growing: dict[Oid, Oid] = {}
        self._trees: dict[Oid, Oid] = {}
        self._names: dict[Oid, Mapping[bytes, bytes]] = {}
        self._groups: dict[tuple[Oid, ...], tuple[tuple[Oid, int], ...]] = {}
        self._plain: set[bytes] = set()
        self._whole: dict[Oid, bool] = {}
        self._dumps: dict[Oid, bool] = {}
        self._sums = Sums()
        self._grown: tuple[str, tuple[Segment, ...], Digest] = ("", (), Digest())

    def chains(self, nodes: Iterable[Summary]) -> None:
        """Edit checkpoints, given parents first. Raises StoreDamaged for an incomplete one."""
        for node in progress.each(nodes, "rewriting", "checkpoints"):
            if node.commit not in self.becomes:
                self.becomes[node.commit] = self._commit(node)

    def tag(self, value: Oid, commit: Oid) -> Oid:
        """Return the tag, with its text edited, on the replacement of its commit."""
        kind, data = self.store.reader.read(value)
        if kind != "tag":
            return commit
        head, blank, text = data.partition(b"\n\n")
        edited = self.store.writer.write("tag", self._identity(head) + blank + self.edit.text(text))
        return self.store.retag(edited, commit)

    # ------------------------------------------------------------ commits

    def _identity(self, head: bytes) -> bytes:
        """Return the head of a commit or tag with the names and addresses in it edited."""
        return IDENTITY.sub(lambda m: m[1] + b" " + self.edit.text(m[2]), head)

    def _commit(self, node: Summary) -> Oid:
        head, _, body = self.store.reader.read_commit(node.commit).partition(b"\n\n")
        lines = [line for line in head.split(b"\n") if not line.startswith(b"parent ")]
        key = (node.root, body)
        if key not in self._roots:
            self._roots[key] = self._root(node, body)
        root, message = self._roots[key]
        parent = self.becomes[node.parent] if node.parent else None
        rest = self._identity(b"\n".join(lines[1:]))
        if (root, message, rest) != (node.root, body, b"\n".join(lines[1:])):
            self.changed.append(node.commit)
        first = [
            b"tree " + root.encode("ascii"),
            *([b"parent " + parent.encode("ascii")] if parent else []),
        ]
        return self.store.writer.write("commit", b"\n".join([*first, rest, b"", message]))

    def _root(self, node: Summary, body: bytes) -> tuple[Oid, bytes]:
        """Return the tree and message of an edited checkpoint."""
        written = self.edit.text(body)
        if bytes.fromhex(node.root) in self.edit.clean and written == body:
            return node.root, body
        before = self.store.read(node.commit)
        entry = trees.lookup(self.store.reader, node.root, RESERVED + b"/" + README)
        page = self.store.reader.read_blob(entry.oid) if entry else b""
        after, revised = self.checkpoint(before), self.edit.text(page)
        if after == before and revised == page:
            return node.root, written
        root = self.store.write_root(
            after, readme.revised(after, revised.decode("utf-8", "replace"))
        )
        return root, _message(before, after, written) if after != before else written

    def checkpoint(self, before: Checkpoint) -> Checkpoint:
        """Return the edited checkpoint, equal to the old one if nothing changes."""
        texts = {
            "note": before.note,
            "agent": before.agent,
            "run": before.run,
            "extra": before.extra,
        }
        return replace(
            before,
            **{name: self._edit_value(value) for name, value in texts.items()},
            step=before.step and StepName(*self._edit_value(tuple(before.step))),
            snapshot=self._snapshot(before.snapshot),
            conversation=self._conversation(before.conversation) if before.conversation else None,
            steps=self._tree(before.steps) if before.steps else None,
            state=before.state if before.state and not self._needs_edit(before.state) else None,
            memory=before.memory and self._memory(before.memory),
            states=before.states and self._states(before.states),
            authors=before.authors and self._authors(before.authors, before.snapshot.tree),
        )

    def _memory(self, before: Memory) -> Memory:
        skipped = tuple(map(self.edit.text, before.skipped))
        return replace(before, tree=before.tree and self._tree(before.tree), skipped=skipped)

    def _states(self, before: States) -> States | None:
        """Return the states without those that contain text to edit: an edited dump is none."""
        each = tuple(map(partial(self._state, before), before.each))
        if each == before.each:
            return before
        kept = [state.name for state in each if not state.missing]
        remaining = states.only(self.store, before, kept)
        return States(each, remaining.tree if remaining else None)

    def _state(self, before: States, state: CommandState) -> CommandState:
        if state.missing:
            return replace(state, missing=self._edit_value(state.missing))
        if not self._has_text(before, state):
            return state
        return CommandState(state.name, milliseconds=state.milliseconds, missing=EDITED)

    def _has_text(self, before: States, state: CommandState) -> bool:
        """Return whether the content of a state has text to edit."""
        tree = states.parts(self.store.reader, before).get(state.name)
        if tree is None or bytes.fromhex(tree) in self.edit.clean:
            return False
        if tree not in self._dumps:
            stored = states.stored(self.store.reader, before, state)
            lines = _whole_lines(segments.content(self.store.reader, stored))
            parts = iter([b"".join(lines)]) if self.edit.across else lines
            self._dumps[tree] = any(self.edit.text(part) != part for part in parts)
        return self._dumps[tree]

    def _authors(self, before: Authors, tree: Oid) -> Authors:
        """Return who changed the files, with edited paths and without removed ones."""
        claims = {
            self._path(tree, path): claim
            for path, claim in before.claims.items()
            if not self.edit.paths or not within(path.rstrip(b"/"), self.edit.paths)
        }
        return replace(before, claims=claims or EMPTY)

    def _needs_edit(self, state: State) -> bool:
        """Return whether a framework's state contains text to edit. It is then
        dropped: its encoding has lengths.
        """
        if bytes.fromhex(state.tree) in self.edit.clean:
            return False
        blobs = (entry.oid for _, entry in trees.walk(self.store.reader, state.tree))
        data = b"".join([state.key.encode(), b"\0", *map(self.store.reader.read_blob, blobs)])
        return self.edit.text(data) != data

    def _edit_value(self, value: Any, tree: Oid | None = None) -> Any:
        """Return a value with all texts edited, and all paths, which are relative to `tree`."""
        if type(value) is str:
            return self.edit.text(value.encode("utf-8", "surrogatepass")).decode(
                "utf-8", "surrogatepass"
            )
        if type(value) is bytes:
            return self._path(tree, value)
        if type(value) in (tuple, list):
            return type(value)(self._edit_value(item, tree) for item in value)
        if isinstance(value, Value):
            fields = (name for name in value.fields if name not in FIXED)
            return replace(
                value, **{name: self._edit_value(getattr(value, name), tree) for name in fields}
            )
        if isinstance(value, Mapping):
            return {
                self._edit_value(key, tree): self._edit_value(item, tree)
                for key, item in value.items()
            } or EMPTY
        return value

    # ------------------------------------------------------------ files

    def _snapshot(self, before: Snapshot) -> Snapshot:
        remaining = before
        for path in self.edit.paths:
            remaining = self._without_path(remaining, path)
        staged, conflicts = (
            tuple(map(self._entry, entries)) for entries in (remaining.staged, remaining.conflicts)
        )
        edited: Snapshot = self._edit_value(
            replace(remaining, staged=staged, conflicts=conflicts), remaining.tree
        )
        tree = self._tree(remaining.tree)
        for path, pointer in self._pointers(remaining).items():
            tree = trees.put(self.store.objects, tree, path, pointer)
        return replace(edited, tree=tree)

    def _pointers(self, before: Snapshot) -> dict[bytes, Entry]:
        """Return the new pointers of edited files that are stored as segments, by edited path."""
        pointers = {}
        for path, entry in segmented.files(self.store.reader, before):
            oid = self._segmented(entry.oid)
            if oid != entry.oid:
                pointers[self._path(before.tree, path)] = Entry(entry.mode, oid)
        return pointers

    def _segmented(self, oid: Oid) -> Oid:
        """Return the pointer of an edited file that is stored as segments."""
        tree = segmented.pointer(self.store.reader, oid).tree
        if bytes.fromhex(tree) in self.edit.clean:
            return oid
        if oid not in self._growing:
            parts = _whole_lines(segmented.content(self.store.reader, oid))
            if self.edit.across:
                parts = iter([b"".join(parts)])
            chunks = map(self.edit.text, parts)
            self._growing[oid] = segmented.store_chunks(self.store.objects, chunks)
        return self._growing[oid]

    def _entry(self, entry: IndexEntry) -> IndexEntry:
        stored = not entry.intent_to_add and entry.mode != GITLINK
        return replace(entry, oid=self._blob(entry.oid)) if stored else entry

    def _without_path(self, before: Snapshot, path: bytes) -> Snapshot:
        """Return the snapshot without a removed path, which is listed as skipped."""
        lists = {
            name: getattr(before, name)
            for name in before.fields
            if type(getattr(before, name)) is tuple
        }
        remaining = {
            name: tuple(each for each in items if not within(_path_of(each), (path,)))
            for name, items in lists.items()
        }
        modes = {name: mode for name, mode in before.modes.items() if not within(name, (path,))}
        entry = trees.lookup(self.store.reader, before.tree, path)
        if entry is None and remaining == lists and modes == before.modes:
            return before
        remaining["skipped"] = tuple(
            sorted((*remaining["skipped"], Skip(path, SkipReason.PURGED)), key=_path_of)
        )
        size = (
            sum(1 for _ in trees.walk(self.store.reader, entry.oid))
            if entry and entry.mode == TREE
            else 1
        )
        tree = trees.without(self.store.objects, before.tree, path)
        tree = tree or self.store.repo.object_format.empty_tree
        return replace(
            before,
            **remaining,
            modes=modes or EMPTY,
            tree=tree,
            total=before.total - (size if entry else 0),
        )

    def _tree(self, oid: Oid) -> Oid:
        """Return the edited tree. A loop, because a tree may be nested deeper than Python may call
        itself.
        """
        ahead = [] if self._is_edited(oid) else [oid]
        while ahead:
            tree = ahead[-1]
            entries = self.store.reader.read_tree(tree)
            below = [each.oid for each in entries if each.mode == TREE]
            new = [each for each in below if not self._is_edited(each)]
            ahead += new
            if not new:
                ahead.pop()
                names = self._edited_names(tree)
                edited = [
                    each._replace(name=names[each.name], oid=self._child(each)) for each in entries
                ]
                is_same = edited == entries
                self._trees[tree] = tree if is_same else self.store.writer.write_tree(edited)
        return self._trees.get(oid, oid)

    def _is_edited(self, tree: Oid) -> bool:
        return tree in self._trees or bytes.fromhex(tree) in self.edit.clean

    def _child(self, entry: trees.TreeEntry) -> Oid:
        if entry.mode == GITLINK:
            return entry.oid
        if entry.mode == TREE:  # edited before
            return self._trees.get(entry.oid, entry.oid)
        return self._blob(entry.oid)

    def _blob(self, oid: Oid) -> Oid:
        if bytes.fromhex(oid) in self.edit.clean:
            return oid
        if oid not in self._blobs:
            data = self.store.reader.read_blob(oid)
            edited = data if segmented.decode(data) else self.edit.text(data)
            self._blobs[oid] = oid if edited == data else self.store.writer.write_blob(edited)
        return self._blobs[oid]

    def _edited_names(self, tree: Oid) -> Mapping[bytes, bytes]:
        """Return the edited names of a tree's entries; duplicates get a number."""
        if tree not in self._names:
            names = [entry.name for entry in self.store.reader.read_tree(tree)]
            edited = {name: self.edit.text(name) for name in names}
            used = {name for name, new in edited.items() if name == new}
            for name in sorted(name for name, new in edited.items() if name != new):
                new = edited[name]
                edited[name] = next(
                    n
                    for n in (new, *(b"%s-%d" % (new, k) for k in range(2, 999999)))
                    if n not in used
                )
                used.add(edited[name])
            self._names[tree] = edited
        return self._names[tree]

    def _path(self, tree: Oid | None, path: bytes) -> bytes:
        """Return an edited path of the metadata, with the names its components have in the tree."""
        if path in self._plain or self.edit.text(path) == path:
            self._plain.add(path)
            return path
        parts = []
        for name in path.split(b"/"):
            parts.append(self._edited_names(tree).get(name) if tree else None)
            parts[-1] = parts[-1] or self.edit.text(name)
            child = (
                next((e for e in self.store.reader.read_tree(tree) if e.name == name), None)
                if tree
                else None
            )
            tree = child.oid if child and child.mode == TREE else None
        return b"/".join(part or b"" for part in parts)

    # ------------------------------------------------------------ the conversation

    def _conversation(self, before: Conversation) -> Conversation:
        stored = {
            stream.name: conversation.stored(self.store, before, stream.name)
            for stream in before.streams
        }
        edited = {name: self._stream(each) for name, each in stored.items()}
        streams = tuple(
            self._describe(stream, stored[stream.name], edited[stream.name])
            for stream in before.streams
        )
        if streams == before.streams:
            return before
        written = {
            stream.name.encode(): Entry(
                TREE, segments.write_tree(self.store.writer, edited[old.name])
            )
            for old, stream in zip(before.streams, streams, strict=True)
        }
        digest = before.digest
        if edited.get(MAIN) != stored.get(MAIN):
            digest = self._digest(before.format, edited[MAIN])
        return replace(
            before,
            tree=trees.build(self.store.writer, trees.nest(written)),
            streams=streams,
            digest=digest,
        )

    def _describe(
        self, stream: Stream, before: tuple[Segment, ...], after: tuple[Segment, ...]
    ) -> Stream:
        edited: Stream = self._edit_value(stream)
        name = self._edit_value(stream.name)
        if name != stream.name:
            edited = replace(edited, name=NOT_IN_STREAM.sub("", name))
        if after == before:
            return edited
        size, digest = self._sums.of(self.store.reader, stream.name, after)
        return replace(edited, bytes=size, sha256=digest)

    def _stream(self, stored: tuple[Segment, ...]) -> tuple[Segment, ...]:
        """Return the edited segments of a stream. Segments that end with a line
        are edited separately, once each.
        """
        edited: list[Segment] = []
        group: list[Segment] = []
        for number, segment in enumerate(stored, 1):
            group.append(segment)
            if number == len(stored) or (not self.edit.across and self._ends_line(segment.oid)):
                for oid, size in self._group(tuple(group)):
                    edited.append(Segment(oid, sum(edited[-1][1:]) if edited else 0, size))
                group.clear()
        return tuple(edited)

    def _ends_line(self, oid: Oid) -> bool:
        if oid not in self._whole:
            self._whole[oid] = self.store.reader.read_blob(oid).endswith(b"\n")
        return self._whole[oid]

    def _group(self, stored: tuple[Segment, ...]) -> tuple[tuple[Oid, int], ...]:
        """Return the blobs and sizes that replace segments with lines in common."""
        oids = tuple(segment.oid for segment in stored)
        if oids not in self._groups:
            new: Iterable[Segment] = stored
            if len(oids) > 1 or bytes.fromhex(oids[0]) not in self.edit.clean:
                data = b"".join(segments.content(self.store.reader, stored))
                edited = self.edit.text(data)
                new = segments.store(self.store.writer, (edited,), 0) if edited != data else stored
            self._groups[oids] = tuple((segment.oid, segment.size) for segment in new)
        return self._groups[oids]

    def _digest(self, format: str, stored: tuple[Segment, ...]) -> Digest:
        """Return the digest of the edited conversation, extending the previous one where it only
        grew.
        """
        known_format, before, digest = self._grown
        adapter = adapters.for_format(format)
        is_grown = (
            before
            and format == known_format
            and stored[: len(before)] == before
            and self._ends_line(before[-1].oid)
        )
        start = sum(before[-1][1:]) if is_grown else 0
        lines = conversation.lines(self.store, stored, start)
        digest = adapter.digest(digest if start else Digest(), lines)
        self._grown = (format, stored, digest)
        return digest


def _whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in parts that end with a line."""
    rest = b""
    for chunk in chunks:
        lines, end, begun = chunk.rpartition(b"\n")
        if end:
            yield rest + lines + end
            rest = begun
        else:
            rest += chunk
    if rest:
        yield rest


def _path_of(value: Any) -> bytes:
    """Return the path of an item of a snapshot."""
    path: bytes = value if isinstance(value, bytes) else value.path
    return path.rstrip(b"/")


def _message(before: Checkpoint, after: Checkpoint, written: bytes) -> bytes:
    """Return the message of an edited checkpoint, with trailers that others added to the old
    one.
    """
    text = message(after)
    own_trailers = {match[1] for match in TRAILER.finditer(message(before))}
    others = [
        m[0]
        for m in TRAILER.finditer(written.decode("utf-8", "replace"))
        if m[1] not in own_trailers
    ]
    return (text + "".join(f"{line}\n" for line in others)).encode("utf-8", "replace")
