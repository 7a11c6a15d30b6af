"""The text of a patch, as git writes it → values: files, hunks, runs of lines. Pure.

A hunk says how long it is, so what stands in it is never taken for a header. What is not understood
is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from gitcp.value import Value, replace
from gitcp.worktree.paths import display

HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)", re.DOTALL)
ESCAPE = re.compile(rb'\\([0-7]{3}|[abfnrtv"\\])')
ESCAPES = {
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
}


class Run(Value):
    """Lines that follow each other and fared alike: `sign` is "+", "-" or " ". `text` has them
    without signs.
    """

    sign: str
    text: str

    @property
    def lines(self) -> int:
        return self.text.count("\n") + 1


class Hunk(Value):
    """A part of a file: where it begins before and after, the heading that git gives it, and its
    lines.
    """

    old: int
    new: int
    heading: str
    runs: tuple[Run, ...]


class FilePatch(Value):
    """What happened to one file. `path` and `origin` (where it was moved from, else "") are as they
    are shown.

    `kind` is "added", "deleted", "moved", "copied" or "modified". `notes` are what no hunk shows:
    modes, binary.
    """

    path: str
    kind: str = "modified"
    origin: str = ""
    notes: tuple[str, ...] = ()
    hunks: tuple[Hunk, ...] = ()

    @property
    def added(self) -> int:
        return self._count("+")

    @property
    def removed(self) -> int:
        return self._count("-")

    def _count(self, sign: str) -> int:
        return sum(run.lines for hunk in self.hunks for run in hunk.runs if run.sign == sign)


def parse(patch: bytes) -> tuple[FilePatch, ...]:
    """The files of a patch, in its order."""
    lines = patch.split(b"\n")
    found: list[FilePatch] = []
    place = 0
    while place < len(lines):
        line = lines[place]
        place += 1
        if line.startswith(b"diff --git "):
            found.append(FilePatch(_both(line[11:])))
        elif found and (match := HUNK.fullmatch(line)):
            end = _end(lines, place, int(match[2] or 1), int(match[4] or 1))
            hunk = Hunk(
                int(match[1]), int(match[3]), _text(match[5]), tuple(_runs(lines[place:end]))
            )
            found[-1] = replace(found[-1], hunks=(*found[-1].hunks, hunk))
            place = end
        elif found:
            found[-1] = _with_header(found[-1], line)
    return tuple(found)


def _end(lines: list[bytes], place: int, old: int, new: int) -> int:
    """Where a hunk ends that has so many lines of before and of after."""
    while place < len(lines) and (old > 0 or new > 0 or lines[place][:1] == b"\\"):
        sign = lines[place][:1]
        old -= sign in (b" ", b"-")
        new -= sign in (b" ", b"+")
        place += 1
    return place


def _runs(lines: list[bytes]) -> Iterator[Run]:
    for sign, found in groupby(
        (line for line in lines if line[:1] != b"\\"), key=lambda line: line[:1]
    ):
        yield Run(sign.decode("ascii", "replace"), "\n".join(_text(line[1:]) for line in found))


def _with_header(file: FilePatch, line: bytes) -> FilePatch:
    """What one line between the head of a file and its hunks adds."""
    for start, kind in ((b"new file mode ", "added"), (b"deleted file mode ", "deleted")):
        if line.startswith(start):
            special = {b"120000": "a link", b"160000": "a submodule"}.get(line[len(start) :])
            return replace(file, kind=kind, notes=(*file.notes, special) if special else file.notes)
    for start, kind in ((b"rename", "moved"), (b"copy", "copied")):
        if line.startswith(start + b" from "):
            return replace(file, kind=kind, origin=_shown(line[len(start) + 6 :]))
        if line.startswith(start + b" to "):
            return replace(file, path=_shown(line[len(start) + 4 :]))
    if line.startswith((b"--- ", b"+++ ")) and line[4:] != b"/dev/null":
        return replace(file, path=_shown(line[4:].removesuffix(b"\t"), strip=True))
    if line.startswith((b"old mode ", b"new mode ")):
        return replace(file, notes=(*file.notes, _text(line)))
    return (
        replace(file, notes=(*file.notes, "binary")) if line.startswith(b"Binary files ") else file
    )


def _both(names: bytes) -> str:
    """The path in `a/x b/x`, which names it twice unless it was moved; other lines then say
    more.
    """
    return _shown(names[: len(names) // 2], strip=True)


def _shown(name: bytes, *, strip: bool = False) -> str:
    if name[:1] == b'"':
        name = ESCAPE.sub(_unescaped, name[1:].removesuffix(b'"'))
    return display(name[2:] if strip else name)


def _unescaped(match: re.Match[bytes]) -> bytes:
    found = match[1]
    return bytes([int(found, 8) & 0xFF]) if found.isdigit() else ESCAPES.get(found, found)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "backslashreplace")
