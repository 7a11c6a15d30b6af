"""Recorded results of steps, which a program need not repeat. They are part of the checkpoint.

A result is stored in `.gitcp/steps/<h>/<h>/<h>/<rest>.json`, named by the checksum of the step's
name and key, one hex digit a directory, so that another result rewrites a few small trees. It is in
the same commit as the files that the step wrote, and so is restored with them. Beside the result it
has what the step depends on and what it wrote, by checksum (gitcp.running.steps compares them).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from gitcp import wire
from gitcp.errors import BadValue, StoreDamaged
from gitcp.git import trees
from gitcp.git.fsync import make_own_directory, open_shared
from gitcp.model import FILE, Entry, Oid, StepName
from gitcp.store import Store
from gitcp.value import EMPTY, Value

MOST_READ = 100_000
"""Objects of results that one reader remembers."""


STORABLE = (
    "return None, numbers, text, lists, or dicts with text keys, nested at most "
    f"{wire.NESTED} times, or pass encode= and decode="
)
"""What to do about a value that is not JSON."""


class StepResult(Value):
    """The result of a step.

    `result` is JSON. `inputs` is the checksum of the inputs, None if there are none. `depends` has
    the steps whose results were used, with the checksums of these; `files` the files that the step
    wrote, relative to the root, with the SHA-256 of their bytes. An `invalidated` result is not
    used, but compared with the next one. `compensate` is what undoes the step's effect, "" if
    nothing does. `begun` is the record of a step with an effect that has not ended. A result that
    is not `kept` is of a step that was done, and whose value could not be stored.
    """

    step: StepName
    result: bytes
    inputs: str | None = None
    depends: Mapping[StepName, str] = EMPTY
    files: Mapping[bytes, str] = EMPTY
    invalidated: bool = False
    compensate: str = ""
    begun: bool = False
    kept: bool = True

    @property
    def checksum(self) -> str:
        """The SHA-256 of what dependents see: the result and the files."""
        files = [[wire.encode_path(path), self.files[path]] for path in sorted(self.files)]
        return _checksum({"result": wire.loads(self.result), "files": files})


def place(step: StepName) -> str:
    """Return the SHA-256 in hex that identifies a step. The length of the name separates steps that
    are equal when joined.
    """
    name, key = step
    return sha256(f"{len(name)}\0{name}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()


def encode(step: StepName, result: Any) -> StepResult:
    """Return a result in its stored form; tuples become lists. Raises BadValue for a value that is
    not JSON.
    """
    if not wire.is_json(result):
        raise BadValue(
            f"the result of step {str(step)!r} is not a JSON value: the step was done, but its "
            "result is not kept",
            hint=STORABLE,
        )
    return StepResult(step, wire.dumps(result))


def decode(result: StepResult) -> Any:
    """Return the value as a later lookup will return it."""
    return wire.loads(result.result)


def inputs_checksum(step: StepName, inputs: Any) -> str | None:
    """Return the SHA-256 of the inputs' canonical JSON, None for None. Raises BadValue for a value
    that is not JSON.
    """
    if inputs is None:
        return None
    if not wire.is_json(inputs):
        raise BadValue(
            f"the inputs of step {str(step)!r} are not a JSON value: nothing was run",
            hint="pass numbers, text, lists or dicts with text keys, such as a version or a "
            "checksum of them; or make them a part of key=",
        )
    return _checksum(inputs)


class Results:
    """The results in one tree. `known` has the objects read before, by id, for the next reader."""

    def __init__(self, store: Store, tree: Oid | None, known: dict[Oid, Any]) -> None:
        if len(known) > MOST_READ:
            known.clear()
        self._store, self._tree, self._known = store, tree, known

    def find(self, step: StepName) -> StepResult | None:
        """Return the recorded result of a step, None if there is none. Raises StoreDamaged."""
        oid = self._tree
        for name in _path(step).split(b"/"):
            if oid is None:
                return None
            oid = self._entries(oid).get(name)
        return self._read(oid) if oid else None

    def __iter__(self) -> Iterator[StepResult]:
        """Yield every result."""
        if self._tree is not None:
            for _, entry in trees.walk(self._store.objects.reader, self._tree):
                yield self._read(entry.oid)

    def _entries(self, tree: Oid) -> Mapping[bytes, Oid]:
        if tree not in self._known:
            listed = self._store.reader.read_tree(tree)
            self._known[tree] = {each.name: each.oid for each in listed}
        entries: Mapping[bytes, Oid] = self._known[tree]
        return entries

    def _read(self, oid: Oid) -> StepResult:
        if oid not in self._known:
            self._known[oid] = _decode_record(self._store.reader.read_blob(oid), oid)
        result: StepResult = self._known[oid]
        return result


def add(store: Store, tree: Oid | None, result: StepResult) -> Oid:
    """Return the tree of results with one more. Writes objects only."""
    blob = store.writer.write_blob(_encode_record(result))
    return trees.put(store.objects, tree, _path(result.step), Entry(FILE, blob))


def _encode_record(result: StepResult) -> bytes:
    about: wire.Json = {"name": result.step.name, "key": result.step.key}
    if result.inputs is not None:
        about["inputs"] = result.inputs
    if result.depends:
        about["depends"] = [
            {"name": name, "key": key, "sha256": checksum}
            for (name, key), checksum in sorted(result.depends.items())
        ]
    if result.files:
        about["files"] = [
            {"path": wire.encode_path(path), "sha256": checksum}
            for path, checksum in sorted(result.files.items())
        ]
    if result.compensate:
        about["compensate"] = result.compensate
    for name, is_set in (
        ("invalidated", result.invalidated),
        ("begun", result.begun),
        ("lost", not result.kept),
    ):
        if is_set:
            about[name] = True
    return wire.dumps(about)[:-1] + b',"result":' + result.result + b"}\n"


def _decode_record(data: bytes, oid: Oid) -> StepResult:
    try:
        fields = wire.loads(data)
        return StepResult(
            StepName(fields["name"], fields["key"]),
            wire.dumps(fields["result"]),
            fields.get("inputs"),
            {StepName(d["name"], d["key"]): d["sha256"] for d in fields.get("depends", ())},
            {wire.decode_path(f["path"]): f["sha256"] for f in fields.get("files", ())},
            bool(fields.get("invalidated")),
            str(fields.get("compensate", "")),
            bool(fields.get("begun")),
            not fields.get("lost"),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StoreDamaged(
            f"object {oid}, the result of a step, cannot be read", hint="gitcp doctor --store"
        ) from None


def _checksum(value: Any) -> str:
    return sha256(wire.canonical(value)).hexdigest()


def _path(step: StepName) -> bytes:
    digest = place(step)
    return "/".join((*digest[:3], f"{digest[3:]}.json")).encode("ascii")


# ---------------------------------------------------------------- locks


@contextmanager
def only(store: Store, session: str, digest: str) -> Iterator[None]:
    """Hold an exclusive lock on a part of a session. The system releases it when the process
    dies.
    """
    path = lock_path(store, session, digest)
    descriptor = _locked(path)
    try:
        yield
    finally:
        unlock(path, descriptor)


def lock_path(store: Store, session: str, digest: str) -> Path:
    """Return the file to lock for a part of a session, in a directory that exists."""
    directory = store.repo.store_dir / "steps"
    make_own_directory(directory)
    return directory / f"{session}.{digest[:40]}"


def lock_now(path: Path) -> int | None:
    """Return a descriptor of the file, locked; None if it is locked already. Never waits."""
    descriptor = open_shared(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor if _is_there(path, descriptor) else None


def unlock(path: Path, descriptor: int) -> None:
    """Release the lock, and remove its file."""
    path.unlink(missing_ok=True)
    os.close(descriptor)


def _locked(path: Path) -> int:
    """Return a descriptor of the locked file at `path`. The file may have been removed while
    waiting.
    """
    while True:
        descriptor = open_shared(path, os.O_RDWR)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_there(path, descriptor):
            return descriptor


def _is_there(path: Path, descriptor: int) -> bool:
    """Return whether an open file is still the one at `path`; close it if not."""
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return True
    os.close(descriptor)
    return False
