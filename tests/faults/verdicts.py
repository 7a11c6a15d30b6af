"""What must be so after a save, a restore, an undo: judged from what the witness saw before and
after.

Each function raises AssertionError, naming the paths, if a promise of docs/reliability.md or
docs/cli.md did not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from faults.witness import (
    FILES,
    UNFINISHED,
    Commit,
    Disk,
    Item,
    Seen,
    Stored,
    above,
    blob,
    differing,
    parents,
    path_of,
)
from faults.work import LIMIT

USUAL = (0o644, 0o664, 0o755, 0o775)
"""Permission bits that a checkpoint need not record; nor what the umask gives a new file."""


class Beside(NamedTuple):
    """The ignore rules that no checkpoint holds: of info/exclude, of core.excludesFile, of files
    that are not saved.
    """

    exclude: bytes
    excludes_file: bytes
    files: Mapping[bytes, bytes]


class Held(NamedTuple):
    """A checkpoint, and what was on the disk when it was made."""

    about: Commit
    files: dict[bytes, Item]
    modes: dict[bytes, int]
    hollow: frozenset[bytes]
    stood: frozenset[bytes]
    skipped: dict[bytes, str]
    talk: dict[str, bytes]
    agent: str | None
    beside: Beside


class Move(NamedTuple):
    """What one restore changed, and the checkpoint that leads back."""

    back: str
    before: Disk
    after: Disk
    scope: tuple[bytes, ...] = ()
    only_talk: bool = False
    merged: bool = False


Rules = Callable[[Held, Collection[bytes]], tuple[frozenset[bytes], frozenset[bytes]]]
"""Which paths the ignore rules in a checkpoint cover, with those beside it of now and of then; and
with one of them.
"""


def held(
    about: Commit, stored: Stored, seen: Seen, beside: Beside, beyond: Collection[bytes] = ()
) -> Held:
    """The checkpoint, which must hold just what git would have added of what was seen.

    What is `beyond` may be held too: an undo saves what its restore wrote, ignored or not.
    """
    disk, files = seen.disk.items, stored.meta.get("files", {})
    skipped = {
        path_of(skip["path"]).rstrip(b"/"): skip["reason"] for skip in files.get("skipped", ())
    }
    missed = {
        path
        for path in seen.visible.wanted - stored.entries.keys()
        if not _skipped(path, skipped, seen)
    }
    assert not missed, f"{about.id} lacks {sorted(missed)}"
    extra = stored.entries.keys() - seen.visible.wanted - set(beyond)
    assert not extra, f"{about.id} has what it must not have: {sorted(extra)}"
    converted = {path_of(one["path"]) for one in files.get("converted", ())}
    for path, entry in stored.entries.items():
        wanted = _entry(disk[path], converted=path in converted)
        assert entry == wanted, (
            f"{about.id} has {entry} for {path!r}, which is {wanted}: {disk[path]}"
        )
    hollow = frozenset(path_of(path) for path in files.get("empty_directories", ()))
    odd = (seen.visible.hollow ^ hollow) - {*beyond, *above(beyond)}
    assert not odd, f"{about.id}: empty directories {hollow} for {seen.visible.hollow}"
    kept = {path: disk[path] for path in stored.entries}
    modes = {path_of(one["path"]): int(one["mode"], 8) for one in files.get("modes", ())}
    for path, item in kept.items():
        fits = modes.get(path) == item.mode or (
            path not in modes and is_usual(item.mode, seen.umask)
        )
        assert fits or item.kind != "file", (
            f"{about.id}: {path!r} has {item.mode:o}, {modes.get(path)} is recorded"
        )
    agent = stored.meta.get("agent", {}).get("session_id")
    stood = frozenset(path for path in disk if directory(path, disk))
    hidden = {
        path: item.data for path, item in disk.items() if _is_rules(path, item) and path not in kept
    }
    beside = beside._replace(files=hidden)
    return Held(about, kept, modes, hollow, stood, skipped, stored.talk, agent, beside)


def _is_rules(path: bytes, item: Item) -> bool:
    return path.rpartition(b"/")[2] == b".gitignore" and item.kind == "file"


def _entry(item: Item, *, converted: bool) -> tuple[str, str]:
    if item.kind == "link":
        return "120000", blob(item.data)
    data = item.data.replace(b"\r\n", b"\n") if converted else item.data
    return "100755" if item.mode & 0o100 else "100644", blob(data)


def _skipped(path: bytes, skipped: Mapping[bytes, str], seen: Seen) -> bool:
    """Whether it was left out for a reason that is so."""
    reason = next((skipped[place] for place in (path, *parents(path)) if place in skipped), None)
    if reason == "too-large":
        return large(path, seen)
    return reason == "unreadable" and not any(
        seen.disk.items[place].mode & 0o400
        for place in (path, *parents(path))
        if place in seen.disk.items
    )


def large(path: bytes, seen: Seen) -> bool:
    """Whether a file is left out because of its size."""
    return len(seen.disk.items[path].data) > LIMIT and path not in seen.visible.tracked


def same(item: Item | None, wanted: Item | None, recorded: int | None, umask: int) -> bool:
    """Whether the bytes are the same, and the permissions those that were recorded, or else usual
    ones.
    """
    if item is None or wanted is None or item.kind != wanted.kind or item.data != wanted.data:
        return item is wanted
    if item.kind != "file" or recorded is not None:
        return item.mode == wanted.mode
    return is_usual(item.mode, umask) and item.mode & 0o100 == wanted.mode & 0o100


def is_usual(bits: int, umask: int) -> bool:
    """Whether a checkpoint need not record these permissions."""
    return bits in {*USUAL, 0o666 & ~umask, 0o777 & ~umask}


def unchanged(before: Disk, after: Disk) -> None:
    """Nothing in the working tree was touched: not even written anew."""
    differ = differing(before.items, after.items)
    assert not differ, f"changed: {tell(differ, before, after)}"
    touched = {
        path
        for path in before.stamps
        if before.items[path].kind in FILES and _touched(path, before, after)
    }
    assert not touched, f"touched: {sorted(touched)}"


def _touched(path: bytes, before: Disk, after: Disk) -> bool:
    return before.stamps.get(path) != after.stamps.get(path)


def tell(paths: Collection[bytes], *disks: Disk) -> str:
    """What a few paths were."""
    return "; ".join(
        f"{path!r}: " + " -> ".join(_told(disk.items.get(path)) for disk in disks)
        for path in sorted(paths)[:6]
    )


def _told(item: Item | None) -> str:
    return f"{item.kind} {item.mode:o} {len(item.data)} {item.data[:16]!r}" if item else "nothing"


def has(one: Held, seen: Seen, beyond: Collection[bytes] = ()) -> bool:
    """Whether a checkpoint holds what was seen; it may also hold what is `beyond`."""
    there = {path: seen.disk.items[path] for path in seen.visible.wanted if path not in one.skipped}
    there |= {
        path: seen.disk.items[path] for path in one.files.keys() & beyond if path in seen.disk.items
    }
    paths = there.keys() | one.files.keys()
    is_hollow = not (one.hollow ^ seen.visible.hollow) - {*beyond, *above(beyond)}
    return is_hollow and all(
        same(there.get(p), one.files.get(p), one.modes.get(p), seen.umask) for p in paths
    )


def is_held(one: Held, seen: Seen, beyond: Collection[bytes] = ()) -> None:
    """A checkpoint that was not made anew holds what is there."""
    differing = one.files.keys() ^ seen.visible.wanted
    assert has(one, seen, beyond), (
        f"{one.about.id} is not what is there: {tell(differing, seen.disk)}"
    )


def brought(target: Held, disk: Disk, umask: int) -> None:
    """A new directory holds just what the checkpoint holds."""
    wrong = {
        path
        for path, item in target.files.items()
        if not same(disk.items.get(path), item, target.modes.get(path), umask)
    }
    assert not wrong, f"not brought: {tell(wrong, Disk(target.files, {}), disk)}"
    extra = (
        disk.items.keys()
        - target.files.keys()
        - target.hollow
        - above([*target.files, *target.hollow])
    )
    assert not extra, f"brought too much: {sorted(extra)}"


def came(target: Held, before: Seen, disk: Disk, umask: int) -> None:
    """After a restore that was finished, each file is that of the target, but for what was not
    saved before it.
    """
    there = target.files.keys() & disk.items.keys() & before.visible.wanted
    there = {path for path in there if not large(path, before)}
    wrong = {
        path
        for path in there
        if not same(disk.items[path], target.files[path], target.modes.get(path), umask)
    }
    wrong = {path for path in wrong if disk.items[path].kind == "file"}
    assert not wrong, f"neither old nor new: {tell(wrong, Disk(target.files, {}), disk)}"
    left = {path for path in disk.items if UNFINISHED.fullmatch(path)}
    assert not left, f"left over: {sorted(left)}"


def said(report: Mapping[str, Any]) -> set[bytes]:
    """The paths that a report says were changed."""
    return {path_of(path) for name in ("written", "removed") for path in report[name]}


def only_said(before: Disk, after: Disk, report: Mapping[str, Any]) -> None:
    """Nothing else was changed than what the report says."""
    old, new = before.items, after.items
    differ = {path for path in differing(old, new) if not _but_mode(old.get(path), new.get(path))}
    files = {path for path in differ if not directory(path, old) | directory(path, new)}
    assert files <= said(report), f"not said: {tell(files - said(report), before, after)}"


class Restored:
    """A restore of `target` within `scope` (nothing: everywhere), to be judged."""

    def __init__(
        self,
        target: Held,
        before: Seen,
        after: Seen,
        report: Mapping[str, Any],
        scope: Collection[bytes] = (),
    ) -> None:
        self.target, self.scope = target, scope
        self.before, self.after = before, after
        self.old, self.new = before.disk.items, after.disk.items
        self.kept = {path_of(kept["path"]): kept["reason"] for kept in report["kept"]}
        self.report = report
        self.wanted = {path: item for path, item in target.files.items() if self._within(path)}

    def _within(self, path: bytes) -> bool:
        return not self.scope or any(
            path == top or path.startswith(top + b"/") for top in self.scope
        )

    def insist(
        self,
        captured: Collection[bytes],
        then: Rules,
        undone: Move | None = None,
        spare: Collection[bytes] = (),
    ) -> None:
        """All that must hold. `captured` is what the safety checkpoint has, `undone` what is undone
        by it.

        `spare` was made by restores from this target: it may go, ignored or not.
        """
        made = still_there(undone, self.old) if undone else set()
        surplus = {path for path in set(captured) - self.wanted.keys() if self._within(path)}
        stays = {path for path in surplus if self._skipped_then(path)} | (
            surplus & self.before.visible.ignored
        )
        hidden, perhaps = then(self.target, surplus - stays)
        spared = set(captured) - stays - perhaps
        self._came({path for path in spared if self._within(path)} | made, captured)
        self._went(
            surplus - stays - perhaps, made, (perhaps - hidden) | (set(spare) & set(captured))
        )
        self._stayed()
        self._directories(then, captured)

    def _skipped_then(self, path: bytes) -> bool:
        return any(place in self.target.skipped for place in (path, *parents(path)))

    def _came(self, spared: Collection[bytes], captured: Collection[bytes]) -> None:
        wrong = {
            path
            for path, item in self.wanted.items()
            if not same(self.new.get(path), item, self.target.modes.get(path), self.before.umask)
        }
        # What is not captured and has the very bytes is left as it is, its permissions too.
        wrong -= {
            path
            for path in wrong - set(captured)
            if _but_mode(self.old.get(path), self.wanted[path])
        }
        for path in wrong:
            is_kept = path in self.kept and self._hindered(path, spared)
            assert is_kept, (
                f"not brought back: {self._tell({path})}, wanted {_told(self.wanted[path])}, kept: "
                f"{self.kept}"
            )

    def _hindered(self, path: bytes, spared: Collection[bytes]) -> bool:
        """Whether something stands in the way that must stay."""
        around = {
            place for place in self.old if place == path or place.startswith(path + b"/")
        } | set(parents(path))
        blocking = {place for place in around - set(spared) if place in self.old}
        below = above(spared)
        return any(self.old[place].kind != "directory" or place not in below for place in blocking)

    def _went(
        self, wanted: Collection[bytes], made: Collection[bytes], spare: Collection[bytes]
    ) -> None:
        there = {path for path, item in self.old.items() if item.kind != "directory"}
        gone = {
            path for path in there if path not in self.new or self.new[path].kind == "directory"
        }
        lost = gone - {*wanted, *made, *spare}
        assert not lost, f"removed: {self._tell(lost)}"
        left = {path for path in {*wanted, *made} - gone - self.wanted.keys() if path in self.new}
        assert not left - self.kept.keys(), f"left: {self._tell(left)}"

    def _stayed(self) -> None:
        for path in self.old.keys() & self.new.keys():
            if self.old[path].kind not in FILES or self.new[path].kind not in FILES:
                continue
            wanted, recorded = self.wanted.get(path), self.target.modes.get(path)
            is_same = wanted is None or self.old[path] == wanted
            is_same &= (
                recorded is not None or wanted is None or is_usual(wanted.mode, self.before.umask)
            )
            assert not is_same or self.old[path] == self.new[path], f"changed: {self._tell({path})}"
            assert not is_same or not _touched(path, self.before.disk, self.after.disk), (
                f"touched: {path!r}"
            )
        only_said(self.before.disk, self.after.disk, self.report)

    def _directories(self, then: Rules, captured: Collection[bytes]) -> None:
        lacking = {
            path for path in self.target.hollow - self.after.visible.hollow if self._within(path)
        }
        lacking = {
            path for path in lacking if not directory(path, self.new) and path not in self.kept
        }
        assert not lacking, f"empty directories are lacking: {sorted(lacking)}"
        needed = {
            place
            for path in (*self.wanted, *self.target.hollow)
            for place in (path, *parents(path))
        }
        made = {
            path for path in self.new if directory(path, self.new) and not directory(path, self.old)
        }
        assert made <= needed, f"directories made: {sorted(made - needed)}"
        emptied = (self.before.visible.hollow | above(captured)) - above(
            self.before.visible.ignored
        )
        left = (
            self.after.visible.hollow & emptied - self.target.hollow - self.kept.keys()
            if not self.scope
            else set()
        )
        left -= above(self.target.skipped) | self.target.stood
        left -= above(self.new)  # something that is not captured is in it
        left -= then(self.target, [path + b"/" for path in left])[1]
        left = {
            path
            for path in left
            if not self._skipped_then(path) and path not in self.before.visible.ignored
        }
        assert not left, f"empty directories are left: {sorted(left)}"

    def _tell(self, paths: Collection[bytes]) -> str:
        return tell(paths, self.before.disk, self.after.disk)


def directory(path: bytes, items: Mapping[bytes, Item]) -> bool:
    """Whether it is a directory."""
    return path in items and items[path].kind == "directory"


def _but_mode(old: Item | None, new: Item | None) -> bool:
    return old is not None and new is not None and old._replace(mode=0) == new._replace(mode=0)


def changed(move: Move) -> set[bytes]:
    """Every path that a restore changed."""
    return differing(move.before.items, move.after.items)


def written(done: Sequence[tuple[str, Any]], now: Disk, *, is_known: bool) -> frozenset[bytes]:
    """What the next undo may save though it is ignored: what its restore wrote. Anything where that
    is not known.
    """
    if done and isinstance(done[-1][1], Move):
        return frozenset(changed(done[-1][1]))
    return frozenset() if is_known else frozenset(now.items)


def still_there(move: Move, now: Mapping[bytes, Item]) -> set[bytes]:
    """What a restore made where nothing was, and nobody has changed since."""
    made = move.after.items.keys() - move.before.items.keys()
    return {
        path for path in made if now.get(path) == move.after.items[path] and now[path].kind in FILES
    }


def _is_left_alone(path: bytes, move: Move, now: Disk) -> bool:
    """Whether a file is as it was before a restore: nobody changed it, nor anything that it lies
    in.
    """
    was = move.before.items[path]
    return was.kind in FILES and move.after.items.get(path) == now.items.get(path) == was


def undone(move: Move, start: Disk, end: Disk, kept: Collection[bytes]) -> None:
    """To the byte and the bit what was there before; what was changed in between, as far as it was
    not.
    """
    if not differing(start.items, move.after.items):
        wrong = differing(end.items, move.before.items)
        assert not wrong, f"not as before: {tell(wrong, move.before, move.after, end)}"
        return
    alone = (path for path in move.before.items if _is_left_alone(path, move, start))
    lost = {path for path in alone if end.items.get(path) != start.items[path]}
    assert not lost, f"not as ever: {tell(lost, move.before, end)}"
    for path in changed(move):
        if start.items.get(path) == move.after.items.get(path) and path not in kept:
            wanted = move.before.items.get(path)
            if wanted is not None and wanted.kind in FILES:
                found = end.items.get(path)
                assert found == wanted, (
                    f"not as before: {tell({path}, move.before, move.after, start, end)}"
                )
