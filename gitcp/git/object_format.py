"""The two object formats of git: how objects are hashed and named, and how long their names are.

A repository has one (`extensions.objectFormat`), found when it is opened:
`Repository.object_format`. The length of a full name tells its format, too.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from gitcp.model import Oid

if TYPE_CHECKING:
    from hashlib import _Hash

FULL_NAME = "[0-9a-f]{40}(?:[0-9a-f]{24})?"
"""A regular expression for the full name of an object in either format."""


MOST_WHOLE = 4 << 20
"""Bytes of a blob up to which it is held as a whole; larger ones are streamed."""


class ObjectFormat(NamedTuple):
    """How one repository names its objects.

    `name` is git's, `raw` the bytes of an object's name and of a checksum, `digits` the length of
    the name in hex. `empty_tree` and `empty_blob` are the names of these objects; `null` is the
    name by which git means that there is none.
    """

    name: str
    raw: int
    digits: int
    empty_tree: Oid
    empty_blob: Oid
    null: Oid

    @property
    def title(self) -> str:
        """Return the name of the hash as people write it."""
        return "SHA-256" if self.name == "sha256" else "SHA-1"

    def hasher(self, data: bytes = b"") -> _Hash:
        """Return a new hash that has seen `data`."""
        make = hashlib.sha256 if self.name == "sha256" else hashlib.sha1
        return make(data, usedforsecurity=False)

    def oid_of(self, kind: str, data: bytes | memoryview) -> Oid:
        """Return the id of an object."""
        digest = self.hasher(b"%s %d\0" % (kind.encode(), len(data)))
        digest.update(data)  # never joined: a large object would be held twice
        return Oid(digest.hexdigest())


SHA1 = ObjectFormat(
    "sha1",
    20,
    40,
    Oid("4b825dc642cb6eb9a060e54bf8d69288fbee4904"),
    Oid("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"),
    Oid("0" * 40),
)
SHA256 = ObjectFormat(
    "sha256",
    32,
    64,
    Oid("6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"),
    Oid("473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813"),
    Oid("0" * 64),
)
FORMATS = {each.name: each for each in (SHA1, SHA256)}


def is_name_of(oid: str, kind: str, data: bytes | memoryview) -> bool:
    """Return whether an object has this full name, in the format to which the name belongs."""
    return format_of(oid).oid_of(kind, data) == oid


def format_of(oid: str) -> ObjectFormat:
    """Return the format to which the full name of an object belongs."""
    return SHA256 if len(oid) == SHA256.digits else SHA1
