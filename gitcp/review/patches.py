"""Parse git's patch format into files, hunks and runs of lines. Pure.

A hunk header states the number of lines, so file content is never mistaken for a header. Unknown
lines are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from gitcp.git import quoted
from gitcp.value import Value, replace
from gitcp.worktree.paths import display

HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)", re.DOTALL)


class Run(Value):
    """Consecutive lines with the same sign: "+", "-" or " ". `text` has them without the signs."""

    sign: str
    text: str

    @property
    def lines(self) -> int:
        return self.text.count("\n") + 1


class Hunk(Value):
    """One hunk: first line before and after, git's section heading, and the lines."""

    old: int
    new: int
    heading: str
    runs: tuple[Run, ...]


class FilePatch(Value):
    """The changes to one file. `path` and `origin` (the old path of a rename or copy, else "") are
    formatted for display.

    `kind` is "added", "deleted", "moved", "copied" or "modified". `notes` has what no hunk shows:
    mode changes, "binary".
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
    """Return the files of a patch, in order."""
    lines = patch.split(b"\n")
    files: list[FilePatch] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if line.startswith(b"diff --git "):
            names = line[11:]  # `a/x b/x`; for a rename, later header lines override it
            files.append(FilePatch(_shown(names[: len(names) // 2], strip=True)))
        elif files and (match := HUNK.fullmatch(line)):
            end = _end(lines, at, int(match[2] or 1), int(match[4] or 1))
            hunk = Hunk(
                int(match[1]), int(match[3]), decoded(match[5]), tuple(_runs(lines[at:end]))
            )
            files[-1] = replace(files[-1], hunks=(*files[-1].hunks, hunk))
            at = end
        elif files:
            files[-1] = _with_header(files[-1], line)
    return tuple(files)


def _end(lines: list[bytes], at: int, old: int, new: int) -> int:
    """Return the index of the line after a hunk with `old` lines before and `new` lines after."""
    while at < len(lines) and (old > 0 or new > 0 or lines[at][:1] == b"\\"):
        sign = lines[at][:1]
        old -= sign in (b" ", b"-")
        new -= sign in (b" ", b"+")
        at += 1
    return at


def _runs(lines: list[bytes]) -> Iterator[Run]:
    for sign, group in groupby(
        (line for line in lines if line[:1] != b"\\"), key=lambda line: line[:1]
    ):
        yield Run(sign.decode("ascii", "replace"), "\n".join(decoded(line[1:]) for line in group))


def _with_header(file: FilePatch, line: bytes) -> FilePatch:
    """Return `file` updated from one extended header line."""
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
        return replace(file, notes=(*file.notes, decoded(line)))
    return (
        replace(file, notes=(*file.notes, "binary")) if line.startswith(b"Binary files ") else file
    )


def _shown(name: bytes, *, strip: bool = False) -> str:
    if name[:1] == b'"':
        name = quoted.unescape(name[1:].removesuffix(b'"'))
    return display(name[2:] if strip else name)


def decoded(line: bytes) -> str:
    """Return a line of a file as text; bytes that are not UTF-8 become escapes."""
    return line.decode("utf-8", "backslashreplace")
