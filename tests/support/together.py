"""Several authors in one working tree, as a model: what each changes, line by line, and what
remains without the changes of one.

The model knows more than gitcp can see: who wrote each line. It needs neither a repository nor a
merge.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from gitcp.model import EXECUTABLE, FILE, SYMLINK

MINE = "mine"
OTHERS = ("second", "third", "person")
START = 6
"""Files at the start; each has LINES lines."""

LINES = 24
CONFLICT = "conflict"

Act = Callable[[str, bytes], set[bytes]]
File = tuple[int, bytes]
Files = dict[bytes, File]


class Edit(NamedTuple):
    """A new text of a line, None where it was removed."""

    author: str
    text: bytes | None


class Line:
    """A place in a file: its text at first (None: inserted since) and each edit of it."""

    def __init__(self, text: bytes | None, edits: list[Edit]) -> None:
        self.first, self.edits = text, edits

    @property
    def text(self) -> bytes | None:
        return self.edits[-1].text if self.edits else self.first

    def copy(self) -> Line:
        """The line at the start of another file."""
        return Line(self.text, [])

    def whole(self) -> Line:
        return Line(self.first, list(self.edits))


class Event(NamedTuple):
    """What an author did to a path, the file before and after, and its lines before."""

    author: str
    before: File | None
    after: File | None
    by_line: bool
    lines: list[Line]


class Tree:
    """The files, and what happened to each path."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.count = 0
        self.lines: dict[bytes, list[Line]] = {}
        self.other: Files = {}
        self.modes: dict[bytes, int] = {}
        self.events: dict[bytes, list[Event]] = {}
        for number in range(START):
            path = b"f%d" % number if number % 2 else b"d%d/f" % number
            self.lines[path] = [Line(self._new(b"start"), []) for _ in range(LINES)]
        self.start = self.files()
        self.first_lines = {path: list(lines) for path, lines in self.lines.items()}

    def _new(self, author: bytes) -> bytes:
        self.count += 1
        return b"%s %d\n" % (author, self.count)

    def file(self, path: bytes) -> File | None:
        """The file at a path now."""
        if path in self.other:
            return self.other[path]
        if path not in self.lines:
            return None
        text = b"".join(line.text for line in self.lines[path] if line.text is not None)
        return self.modes.get(path, FILE), text

    def files(self) -> Files:
        """Every file now."""
        found = {path: self.file(path) for path in (*self.lines, *self.other)}
        return {path: file for path, file in found.items() if file is not None}

    # ------------------------------------------------------------ going back

    def copied(self) -> Tree:
        """The files and their story as they are now."""
        return copy.deepcopy(self)

    def differing(self, then: Tree) -> set[bytes]:
        """The paths whose files differ from those of a copy."""
        paths = self.files().keys() | then.files().keys()
        return {path for path in paths if self.file(path) != then.file(path)}

    def go_back(self, then: Tree, paths: Iterable[bytes]) -> None:
        """Give paths the files and the story that they have in a copy."""
        of_then: Any
        for path in paths:
            for kind in ("lines", "other", "modes", "events"):
                of_now, of_then = getattr(self, kind), getattr(then, kind)
                of_now.pop(path, None)
                if path in of_then:
                    of_now[path] = copy.deepcopy(of_then[path])

    # ------------------------------------------------------------ what authors do

    def act(self, author: str, *, modes: bool) -> set[bytes]:
        """Do something as `author`; the paths that changed. `modes`: it may be a mode."""
        there = sorted(self.files())
        acts: list[Act] = [self._edit] * 8
        acts += [self._create, self._replace, self._remove, self._rename]
        acts += [self._mode] * modes
        act = self.dice.choice(acts) if there else self._create
        path = self.dice.choice(there) if there else b""
        return self._recorded(act, author, path, by_line=act in (self._edit, self._mode))

    def edit(self, author: str, path: bytes) -> set[bytes]:
        """Change lines of this path as `author`; the paths that changed."""
        return self._recorded(self._edit, author, path, by_line=path in self.lines)

    def replace_line(self, author: str, path: bytes, line: Line, text: bytes) -> set[bytes]:
        """Change one line of a path as `author`; the paths that changed."""

        def act(author: str, path: bytes) -> set[bytes]:
            now = next(each for each in self.lines[path] if each.edits is line.edits)
            now.edits.append(Edit(author, text))
            return {path}

        return self._recorded(act, author, path, by_line=True)

    def _recorded(self, act: Act, author: str, path: bytes, *, by_line: bool) -> set[bytes]:
        before = self.files()
        lines = {path: [line.whole() for line in each] for path, each in self.lines.items()}
        touched = act(author, path)
        after = self.files()
        changed = {each for each in touched if before.get(each) != after.get(each)}
        for each in changed:
            event = Event(author, before.get(each), after.get(each), by_line, lines.get(each, []))
            self.events.setdefault(each, []).append(event)
        return changed

    def _edit(self, author: str, path: bytes) -> set[bytes]:
        """Change, remove or insert one to three lines."""
        if path not in self.lines:
            return self._replace(author, path)
        lines = self.lines[path]
        at = self.dice.randrange(len(lines) + 1)
        kind = self.dice.randrange(3)
        for offset in range(self.dice.randint(1, 3)):
            if kind == 0:
                lines.insert(at, Line(None, [Edit(author, self._new(author.encode()))]))
            elif at + offset < len(lines) and lines[at + offset].text is not None:
                text = self._new(author.encode()) if kind == 1 else None
                lines[at + offset].edits.append(Edit(author, text))
        return {path}

    def _mode(self, author: str, path: bytes) -> set[bytes]:
        if path in self.lines:
            executable = self.modes.get(path) == EXECUTABLE
            self.modes[path] = FILE if executable else EXECUTABLE
        return {path}

    def _replace(self, author: str, path: bytes) -> set[bytes]:
        """Put something without lines there: bytes, or a link."""
        file = self.file(path)
        assert file is not None
        self._drop(path)
        data = b"\0" + self._new(author.encode())
        link = file[0] == SYMLINK or self.dice.random() < 0.5
        self.other[path] = (SYMLINK, b"to-%d" % self.count) if link else (file[0], data)
        return {path}

    def _remove(self, author: str, path: bytes) -> set[bytes]:
        self._drop(path)
        return {path}

    def _create(self, author: str, path: bytes) -> set[bytes]:
        gone = [path for path in self.events if self.file(path) is None]
        goal = self.dice.choice(gone) if gone and self.dice.random() < 0.5 else self._free()
        new = [self._new(author.encode()) for _ in range(6)]
        self.lines[goal] = [Line(None, [Edit(author, text)]) for text in new]
        return {goal}

    def _rename(self, author: str, path: bytes) -> set[bytes]:
        goal = self._free()
        if path in self.lines:
            self.lines[goal] = [line.copy() for line in self.lines[path]]
            if path in self.modes:
                self.modes[goal] = self.modes[path]
        else:
            self.other[goal] = self.other[path]
        self._drop(path)
        return {path, goal}

    def _drop(self, path: bytes) -> None:
        for kind in (self.lines, self.other, self.modes):
            kind.pop(path, None)

    def _free(self) -> bytes:
        self.count += 1
        return b"%s%d" % (self.dice.choice((b"n", b"e/n", b"d0/n")), self.count)

    # ------------------------------------------------------------ what must be left

    def without_mine(self, path: bytes) -> File | str | None:
        """The file without my changes, CONFLICT where that is not defined."""
        events, now, lines = self._reduced(path), self.file(path), self.lines.get(path, [])
        while events and events[-1].author == MINE:  # nothing of others after it
            now, lines = events[-1].before, events[-1].lines
            events = events[:-1]
        mine = [n for n, event in enumerate(events) if event.author == MINE]
        if not mine:
            return now
        before = events[mine[0]].before
        whole = max((n for n, event in enumerate(events) if not event.by_line), default=-1)
        if whole < mine[0] and before is not None and now is not None:
            return _by_line(events, lines, before[0])
        if any(event.before is None for event in events[mine[-1] + 1 :]):
            return now  # another file, of which nothing is mine
        if now is None or before is None:
            return None if now is before else CONFLICT
        if now[0] != SYMLINK and all(_is_mode(events[n]) for n in mine):
            return _mode_of_others(events, before[0]), now[1]
        return CONFLICT

    def _reduced(self, path: bytes) -> list[Event]:
        """What happened, without what cancels out: what I undid, or others among them."""
        reduced: list[Event] = []
        for event in self.events.get(path, ()):
            reduced.append(event)
            for n in range(len(reduced)):
                run = reduced[n:]
                same = len({each.author == MINE for each in run}) == 1
                if same and run[0].before == run[-1].after:
                    del reduced[n:]
                    break
        return reduced

    def is_apart(self, path: bytes) -> bool:
        """Whether the lines of a path that I changed are three lines from those of others."""
        if path not in self.first_lines or not all(e.by_line for e in self.events.get(path, ())):
            return False
        touched = [{edit.author == MINE for edit in line.edits} for line in self.lines[path]]
        near = [set().union(*touched[max(n - 3, 0) : n + 4]) for n in range(len(touched))]
        return all(len(authors) < 2 for authors in near)


def _by_line(events: list[Event], lines: list[Line], mode: int) -> File | str:
    """The lines without mine, and the mode that somebody else set last, or `mode`."""
    texts = [without(line) for line in lines]
    if CONFLICT in texts:
        return CONFLICT
    return _mode_of_others(events, mode), b"".join(
        text for text in texts if isinstance(text, bytes)
    )


def _mode_of_others(events: list[Event], mode: int) -> int:
    """The mode that somebody else set last, else that at first; `mode` if it never changed."""
    modes: list[tuple[bool, int, int]] = []
    first = None
    for event in events:
        if event.before and event.after and event.before[0] != event.after[0]:
            is_mine, first = event.author == MINE, first or event.before[0]
            if modes and modes[-1] == (is_mine, event.after[0], event.before[0]):
                modes.pop()  # it cancels out
            else:
                modes.append((is_mine, event.before[0], event.after[0]))
    return next((after for is_mine, _, after in reversed(modes) if not is_mine), first or mode)


def _is_mode(event: Event) -> bool:
    """Whether only the mode changed."""
    before, after = event.before, event.after
    return before is not None and after is not None and before[1] == after[1]


def without(line: Line) -> bytes | str | None:
    """The text of a line without my edits, CONFLICT where somebody else edited mine."""
    edits: list[Edit] = []
    for edit in line.edits:  # successive ones of one author as one
        if edits and edits[-1].author == edit.author:
            edits.pop()
        edits.append(edit)
    last = max((n for n, edit in enumerate(edits) if edit.author != MINE), default=-1)
    if any(edit.author == MINE for edit in edits[:last]):
        return None if line.text is None and line.first is None else CONFLICT
    return edits[last].text if last >= 0 else line.first
