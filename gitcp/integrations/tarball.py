"""Store a sandbox's tar archive as a tree and a list, so that unchanged files cost nothing.

The tree has every regular file and symbolic link with a name that is valid in a working tree.
The list has one line per member, in order, with what a tree cannot represent: directories,
owners, times, exact modes. The bytes of files that cannot be in a tree (`.git`, duplicate
names) are concatenated in `rest`.
"""

from __future__ import annotations

import io
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any

from gitcp.git import trees
from gitcp.git.reader import ObjectReader
from gitcp.git.writer import ObjectWriter
from gitcp.model import EXECUTABLE, FILE, SYMLINK, Entry, Oid
from gitcp.value import Value
from gitcp.worktree.paths import problem

FIELDS = ("name", "mode", "uid", "gid", "uname", "gname", "mtime", "size", "linkname")


class Unpacked(Value):
    """A stored archive. `files` is the number of paths in the tree."""

    tree: Oid
    files: int
    lines: tuple[dict[str, Any], ...]
    rest: bytes


def unpack(writer: ObjectWriter, archive: IO[bytes]) -> Unpacked:
    """Store an archive's files. Writes to `writer`, which the caller flushes. Raises
    tarfile.TarError.
    """
    with tarfile.open(fileobj=archive, mode="r:*") as tar:
        members = tar.getmembers()
        storable = _storable(members)
        entries: dict[bytes, Entry] = {}
        lines, rest = [], bytearray()
        for member in members:
            line = _line(member)
            path = _path(member)
            if path in storable:
                entries[path] = _entry(writer, tar, member)
            elif member.isreg():
                line["at"] = len(rest)
                rest += _content(tar, member)
            lines.append(line)
    return Unpacked(
        trees.build(writer, trees.nest(entries)), len(entries), tuple(lines), bytes(rest)
    )


def pack(
    reader: ObjectReader,
    tree: Oid,
    lines: Iterable[Mapping[str, Any]],
    rest: bytes,
    archive: IO[bytes],
) -> None:
    """Write the archive for a tree, a list and the rest."""
    entries = dict(trees.walk(reader, tree))
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
                data = reader.read_blob(entries[_path(member)].oid) if member.isreg() else b""
            tar.addfile(member, io.BytesIO(data))


def _storable(members: list[tarfile.TarInfo]) -> frozenset[bytes]:
    """Return the paths of members that a tree can have: unique, and not below another file."""
    counts = Counter(_path(member) for member in members)
    leaves = {_path(member) for member in members if not member.isdir()}
    folders = {parent for path in counts for parent in _parents(path)}
    candidates = {_path(member) for member in members if member.isreg() or member.issym()}
    return frozenset(
        path
        for path in candidates
        if counts[path] == 1
        and path not in folders
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


def _entry(writer: ObjectWriter, tar: tarfile.TarFile, member: tarfile.TarInfo) -> Entry:
    if member.issym():
        return Entry(SYMLINK, writer.write_blob(member.linkname.encode("utf-8", "surrogateescape")))
    return Entry(
        EXECUTABLE if member.mode & 0o100 else FILE,
        writer.write_blob(_content(tar, member)),
    )


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    return file.read() if file is not None else b""


def _line(member: tarfile.TarInfo) -> dict[str, Any]:
    fields = {field: getattr(member, field) for field in FIELDS}
    kind = tarfile.REGTYPE if member.issparse() else member.type
    return {**fields, "type": kind.decode("latin-1"), "pax": dict(member.pax_headers)}
