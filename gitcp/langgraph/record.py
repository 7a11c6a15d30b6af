"""The content of `.gitcp/state`: one record, and large values next to it in pieces.

    record.json           ids and every small value, its bytes encoded as Latin-1
    values/<name>         a large value that is one piece
    values/<name>/<n>     a large value in several pieces: joined in order, after its head

Ids are plain, and values are verbatim with their type, so that text in them can be searched and
scanned for secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple, Protocol

from gitcp import wire
from gitcp.errors import FormatTooNew, StoreDamaged
from gitcp.git import trees
from gitcp.git.objects import Objects
from gitcp.git.trees import TreeEntry
from gitcp.langgraph import pieces
from gitcp.langgraph.pieces import HEAD, ValuePiece
from gitcp.model import FILE, TREE, Entry, Oid

FORMAT = 1
NAME = b"record.json"
VALUES = b"values"
INLINE = 1024
"""Values up to this size in bytes are stored in the record."""


class TypedBytes(NamedTuple):
    """A serialized value: the serializer's type name, and the bytes."""

    type: str
    data: bytes


class StoredValue(NamedTuple):
    """A stored value. `data` is all of it, or its head if `directory` names the rest."""

    type: str
    data: bytes
    directory: str = ""
    pieces: tuple[ValuePiece, ...] = ()


class Loaded(NamedTuple):
    """A parsed record: its fields, and its values by name."""

    fields: Mapping[str, Any]
    values: Mapping[str, StoredValue]


class LastVersions(Protocol):
    """The last version of each value, whose pieces the next version shares."""

    def __getitem__(self, name: str) -> pieces.StoredValue: ...
    def __setitem__(self, name: str, value: pieces.StoredValue) -> None: ...


def store_value(
    write_blob: pieces.WriteBlob, known: dict[str, pieces.StoredValue], name: str, value: TypedBytes
) -> StoredValue:
    """Store a value: in the record if small, else in pieces shared with the version in `known`."""
    if len(value.data) <= INLINE:
        return StoredValue(value.type, value.data)
    cut = known[name] = pieces.cut(write_blob, known.get(name, pieces.NONE), value.data[HEAD:])
    return StoredValue(value.type, value.data[:HEAD], _directory(name), cut.pieces)


def files(fields: Mapping[str, Any], values: Mapping[str, TypedBytes]) -> dict[bytes, bytes] | None:
    """Return the content of a record by path, None if a value needs several pieces."""
    large = {name: value.data[HEAD:] for name, value in values.items() if len(value.data) > INLINE}
    if any(len(data) > pieces.LARGEST for data in large.values()):
        return None
    listed = {
        name: _fields(
            StoredValue(value.type, value.data[:HEAD], _directory(name), (_sized(large[name]),))
        )
        if name in large
        else _fields(StoredValue(*value))
        for name, value in values.items()
    }
    contents = {
        b"/".join((VALUES, _directory(name).encode())): data for name, data in large.items()
    }
    return {NAME: wire.dumps({"format": FORMAT, **fields, "values": listed}), **contents}


def parse_files(contents: Mapping[bytes, bytes]) -> Loaded:
    """Return the record that `files` returned the content of, with whole values."""
    fields = wire.loads(contents[NAME])
    values = {}
    for name, (type, head, *large) in fields["values"].items():
        rest = contents[b"/".join((VALUES, large[0].encode()))] if large else b""
        values[name] = StoredValue(type, head.encode("latin-1") + rest)
    return Loaded(fields, values)


def _sized(data: bytes) -> ValuePiece:
    return ValuePiece(Oid(""), len(data))


def _directory(name: str) -> str:
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def write(objects: Objects, fields: Mapping[str, Any], values: Mapping[str, StoredValue]) -> Oid:
    """Write a record and return its tree. Writes objects only."""
    listed = {name: _fields(stored) for name, stored in values.items()}
    data = wire.dumps({"format": FORMAT, **fields, "values": listed})
    entries = [TreeEntry(NAME, FILE, objects.writer.write_blob(data, new=True))]
    large = {
        stored.directory: _entry(objects, stored.pieces)
        for stored in values.values()
        if stored.directory
    }
    if large:
        inside = [TreeEntry(directory.encode(), *entry) for directory, entry in large.items()]
        entries.append(TreeEntry(VALUES, TREE, objects.writer.write_tree(inside)))
    return objects.writer.write_tree(entries)


def _entry(objects: Objects, parts: tuple[ValuePiece, ...]) -> Entry:
    if len(parts) == 1:
        return Entry(FILE, parts[0].oid)
    return Entry(
        TREE,
        objects.writer.write_tree(
            [TreeEntry(b"%06x" % n, FILE, piece.oid) for n, piece in enumerate(parts)]
        ),
    )


def _fields(stored: StoredValue) -> list[Any]:
    head = [stored.type, stored.data.decode("latin-1")]
    return (
        [*head, stored.directory, [piece.size for piece in stored.pieces]]
        if stored.directory
        else head
    )


def read(objects: Objects, tree: Oid) -> Loaded:
    """Read a record, without the content of large values. Raises StoreDamaged and FormatTooNew."""
    entry = trees.lookup(objects.reader, tree, NAME)
    if entry is None:
        raise _damaged(tree, "it has no record")
    try:
        fields = wire.loads(objects.reader.read_blob(entry.oid))
        if isinstance(fields["format"], int) and fields["format"] > FORMAT:
            raise FormatTooNew(
                f"the state has format {fields['format']}; this gitcp reads up to {FORMAT}"
            )
        values = {
            name: _read_value(objects, tree, *value_fields)
            for name, value_fields in fields["values"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(tree, repr(error)) from None
    return Loaded(fields, values)


def _read_value(
    objects: Objects,
    tree: Oid,
    type: str,
    data: str,
    directory: str = "",
    sizes: Iterable[int] = (),
) -> StoredValue:
    head = data.encode("latin-1")
    if not directory:
        return StoredValue(type, head)
    entry = trees.lookup(objects.reader, tree, VALUES + b"/" + directory.encode("ascii"))
    if entry is None:
        raise ValueError(f"value {directory} is missing")
    oids = (
        [entry.oid]
        if entry.mode != TREE
        else [each.oid for each in objects.reader.read_tree(entry.oid)]
    )
    return StoredValue(
        type,
        head,
        directory,
        tuple(ValuePiece(oid, size) for oid, size in zip(oids, sizes, strict=True)),
    )


def body(read_blob: Callable[[Oid], bytes], stored: StoredValue) -> bytes:
    """Return the bytes of a large value after its head. Raises StoreDamaged."""
    blobs = [read_blob(piece.oid) for piece in stored.pieces]
    if [len(data) for data in blobs] != [piece.size for piece in stored.pieces]:
        raise StoreDamaged(
            f"value {stored.directory} of a state does not have its recorded size",
            hint="gitcp doctor --store",
        )
    return b"".join(blobs)


def _damaged(tree: Oid, problem: str) -> StoreDamaged:
    return StoreDamaged(
        f"the state in tree {tree[:10]} is damaged: {problem}", hint="gitcp doctor --store"
    )
