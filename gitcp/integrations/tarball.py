"""A tar archive ⇄ a tree and a list: how a sandbox's workspace is kept, so that what did not change
costs nothing.

The tree has every ordinary file and symbolic link whose name a working tree may have, so that any
command can look at them. The list, a line for each member in the archive's order, has what a tree
cannot say: directories, owners, times, exact modes. The bytes of what cannot be in a tree (`.git`,
a name that stands twice) lie one after the other in `rest`.
"""

from __future__ import annotations

import io
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any

from gitcp.git import trees
from gitcp.git.objects import Objects
from gitcp.model import EXECUTABLE, FILE, SYMLINK, Entry, Oid
from gitcp.value import Value
from gitcp.worktree.paths import problem

FIELDS = ("name", "mode", "uid", "gid", "uname", "gname", "mtime", "size", "linkname")


class Unpacked(Value):
    """An archive as it is kept. `files` are the paths in the tree."""

    tree: Oid
    files: int
    lines: tuple[dict[str, Any], ...]
    rest: bytes


def unpack(objects: Objects, archive: IO[bytes]) -> Unpacked:
    """Store an archive's files. Writes to `objects`, which the caller flushes. Raises
    tarfile.TarError.
    """
    with tarfile.open(fileobj=archive, mode="r:*") as tar:
        members = tar.getmembers()
        fitting = _fitting(members)
        found: dict[bytes, Entry] = {}
        lines, rest = [], bytearray()
        for member in members:
            line = _line(member)
            path = _path(member)
            if path in fitting:
                found[path] = _entry(objects, tar, member)
            elif member.isreg():
                line["at"] = len(rest)
                rest += _content(tar, member)
            lines.append(line)
    return Unpacked(trees.build(objects, trees.nest(found)), len(found), tuple(lines), bytes(rest))


def pack(
    objects: Objects, tree: Oid, lines: Iterable[Mapping[str, Any]], rest: bytes, archive: IO[bytes]
) -> None:
    """Write the archive that a tree, a list and the rest stand for."""
    found = dict(trees.walk(objects, tree))
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for line in lines:
            member = tarfile.TarInfo()
            for field in FIELDS:
                setattr(member, field, line[field])
            member.type = line["type"].encode("latin-1")
            member.pax_headers = dict(line["pax"])
            if "at" in line:
                data = rest[line["at"] : line["at"] + line["size"]]
            else:
                data = objects.read_blob(found[_path(member)].oid) if member.isreg() else b""
            tar.addfile(member, io.BytesIO(data))


def _fitting(members: list[tarfile.TarInfo]) -> frozenset[bytes]:
    """The paths of members that a tree can hold: of each name one, and none that another would lie
    below.
    """
    named = Counter(_path(member) for member in members)
    leaves = {_path(member) for member in members if not member.isdir()}
    above = {parent for path in named for parent in _parents(path)}
    plain = {_path(member) for member in members if member.isreg() or member.issym()}
    return frozenset(
        path
        for path in plain
        if named[path] == 1
        and path not in above
        and leaves.isdisjoint(_parents(path))
        and problem(path) is None
    )


def _parents(path: bytes) -> Iterator[bytes]:
    while b"/" in path:
        path = path.rpartition(b"/")[0]
        yield path


def _path(member: tarfile.TarInfo) -> bytes:
    name = member.name.encode("utf-8", "surrogateescape")
    return name.removeprefix(b"./")


def _entry(objects: Objects, tar: tarfile.TarFile, member: tarfile.TarInfo) -> Entry:
    if member.issym():
        return Entry(
            SYMLINK, objects.write_blob(member.linkname.encode("utf-8", "surrogateescape"))
        )
    return Entry(
        EXECUTABLE if member.mode & 0o100 else FILE, objects.write_blob(_content(tar, member))
    )


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    return file.read() if file is not None else b""


def _line(member: tarfile.TarInfo) -> dict[str, Any]:
    fields = {field: getattr(member, field) for field in FIELDS}
    kind = tarfile.REGTYPE if member.issparse() else member.type
    return {**fields, "type": kind.decode("latin-1"), "pax": dict(member.pax_headers)}
