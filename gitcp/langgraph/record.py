"""What lies in `.gitcp/state`: one record, and large values beside it in pieces.

    record.json               what it is, and every small value: each byte as the character with its
    number values/<n>                a large value that is one piece values/<n>/<place>        one
    that is more: joined in order, after its head

A record is made for reading too: the ids are plain, values are as the serialiser gave them, with
their type. Text in them stays text, so that a search, or a scan for secrets, finds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple, Protocol

from gitcp import wire
from gitcp.errors import FormatTooNew, StoreDamaged
from gitcp.git import trees
from gitcp.git.objects import Objects
from gitcp.git.trees import TreeEntry
from gitcp.langgraph import pieces
from gitcp.langgraph.pieces import HEAD, Piece
from gitcp.model import FILE, TREE, Entry, Oid

FORMAT = 1
NAME = b"record.json"
VALUES = b"values"
INLINE = 1024
"""A value up to this size stands in the record."""


class Typed(NamedTuple):
    """A serialised value: the serialiser's word for its type, and its bytes."""

    type: str
    data: bytes


class Held(NamedTuple):
    """A stored value. `data` is all of it, or its head where `place` names the rest."""

    type: str
    data: bytes
    place: str = ""
    pieces: tuple[Piece, ...] = ()


class Loaded(NamedTuple):
    """A record that was read: its fields, and its values by name."""

    fields: Mapping[str, Any]
    values: Mapping[str, Held]


class Known(Protocol):
    """What is remembered of a value's last version, so that the next one shares with it."""

    def __getitem__(self, name: str) -> pieces.Value: ...
    def __setitem__(self, name: str, value: pieces.Value) -> None: ...


def hold(objects: Objects, known: dict[str, pieces.Value], name: str, value: Typed) -> Held:
    """Store a value: in the record where it is small, else in pieces shared with the version that
    is `known`.
    """
    if len(value.data) <= INLINE:
        return Held(value.type, value.data)
    cut = known[name] = pieces.cut(
        partial(objects.write_blob, new=True), known.get(name, pieces.NONE), value.data[HEAD:]
    )
    place = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return Held(value.type, value.data[:HEAD], place, cut.pieces)


def write(objects: Objects, fields: Mapping[str, Any], values: Mapping[str, Held]) -> Oid:
    """The tree of a record. Writes objects only."""
    listed = {name: _fields(held) for name, held in values.items()}
    data = wire.dumps({"format": FORMAT, **fields, "values": listed})
    entries = [TreeEntry(NAME, FILE, objects.write_blob(data, new=True))]
    large = {held.place: _entry(objects, held.pieces) for held in values.values() if held.place}
    if large:
        inside = [TreeEntry(place.encode(), *entry) for place, entry in large.items()]
        entries.append(TreeEntry(VALUES, TREE, objects.write_tree(inside)))
    return objects.write_tree(entries)


def _entry(objects: Objects, found: tuple[Piece, ...]) -> Entry:
    if len(found) == 1:
        return Entry(FILE, found[0].oid)
    return Entry(
        TREE,
        objects.write_tree(
            [TreeEntry(b"%06x" % n, FILE, piece.oid) for n, piece in enumerate(found)]
        ),
    )


def _fields(held: Held) -> list[Any]:
    head = [held.type, held.data.decode("latin-1")]
    return [*head, held.place, [piece.size for piece in held.pieces]] if held.place else head


def read(objects: Objects, tree: Oid) -> Loaded:
    """A record; of large values only where they are. Raises StoreDamaged, FormatTooNew."""
    entry = trees.lookup(objects, tree, NAME)
    if entry is None:
        raise _damaged(tree, "it has no record")
    try:
        fields = wire.loads(objects.read_blob(entry.oid))
        if isinstance(fields["format"], int) and fields["format"] > FORMAT:
            raise FormatTooNew(
                f"a state is written in format {fields['format']}, this gitcp reads up to {FORMAT}",
                hint="pip install --upgrade gitcp-checkpoints",
            )
        values = {name: _held(objects, tree, *one) for name, one in fields["values"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(tree, repr(error)) from None
    return Loaded(fields, values)


def _held(
    objects: Objects, tree: Oid, type: str, data: str, place: str = "", sizes: Iterable[int] = ()
) -> Held:
    head = data.encode("latin-1")
    if not place:
        return Held(type, head)
    entry = trees.lookup(objects, tree, VALUES + b"/" + place.encode("ascii"))
    if entry is None:
        raise ValueError(f"value {place} is missing")
    oids = (
        [entry.oid] if entry.mode != TREE else [each.oid for each in objects.read_tree(entry.oid)]
    )
    return Held(
        type, head, place, tuple(Piece(oid, size) for oid, size in zip(oids, sizes, strict=True))
    )


def body(objects: Objects, held: Held) -> bytes:
    """The bytes of a large value after its head."""
    found = [objects.read_blob(piece.oid) for piece in held.pieces]
    if [len(data) for data in found] != [piece.size for piece in held.pieces]:
        raise StoreDamaged(
            f"value {held.place} of a state is not as long as its record says", hint="gitcp check"
        )
    return b"".join(found)


def _damaged(tree: Oid, what: str) -> StoreDamaged:
    return StoreDamaged(f"the state in tree {tree[:10]} is damaged: {what}", hint="gitcp check")
