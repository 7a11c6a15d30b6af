"""Read objects with git: one `git cat-file --batch` for a repository, started by the first read and
used for all that follow.

git knows its own packs best: their deltas, their formats, the copies that are left of what is
damaged. A damaged pack that crashes it crashes only that process. Its answers are checked against
the object's name, so an older process can give nothing wrong; and what an older one does not have
is asked of a new one, which sees what the repository is now.

Threads that read at the same time use a process each, and a forked child none of its parent's. None
outlives the reader, `close` or the program: it is ended and waited for. If the program is killed,
git ends with its pipe.
"""

from __future__ import annotations

import atexit
import io
import os
import select
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from signal import SIGHUP, SIGINT, SIGKILL, SIGTERM
from typing import Any

from gitcp.errors import GitFailed, StoreDamaged
from gitcp.git import process
from gitcp.git.object_format import MOST_WHOLE, ObjectFormat, format_of, is_name_of
from gitcp.model import Oid

CHUNK = 1 << 20
MOST_AT_ONCE = 64 << 20
"""No more bytes than these are reserved for what git announces, which may be damaged."""

MOST_IDLE = 8
"""So many processes wait for requests at most."""

STALL = 5000
"""Milliseconds within an answer after which a process gets no other request. If it is only slow,
its answer becomes complete all the same.
"""

KINDS = {kind.encode(): kind for kind in ("blob", "commit", "tag", "tree")}
COMMAND = ("-c", f"core.bigFileThreshold={MOST_WHOLE}", "cat-file", "--batch")
"""Blobs above the threshold are streamed by git too, unless they are deltas, instead of being held
in memory.
"""

ENDED_BY_OTHERS = frozenset((-SIGHUP, -SIGINT, -SIGKILL, -SIGTERM))
"""Exit codes that say nothing about the object: Ctrl-C reaches git, too."""


class CatFile:
    """The objects of one repository, as git reads them; threads may share it.

    `options` are those by which git finds the repository from `cwd`.
    """

    def __init__(
        self,
        options: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        object_format: ObjectFormat,
    ) -> None:
        self._args = (*options, *COMMAND)
        self._format = object_format
        self._cwd = cwd
        self._env = env
        self._idle: list[_Git] = []

    def __del__(self) -> None:
        self.close()

    def read(self, oid: Oid) -> tuple[str, bytes]:
        """Return an object's kind and content. Raises StoreDamaged if it is missing or its content
        does not match its name, and GitFailed if git cannot be started or was ended.
        """
        earlier = self._take()
        if earlier is not None:
            with suppress(StoreDamaged, GitFailed):
                return self._whole(earlier, oid)
        return self._whole(self._start(), oid)

    def stream(self, oid: Oid) -> Iterator[bytes]:
        """Yield a blob in chunks of at most MOST_WHOLE bytes. Raises as `read` does, possibly after
        the last chunk: all of them are invalid then.
        """
        git, (kind, size) = self._ask(oid)
        with _stopped_on_error(git):
            yield from _chunks(git, oid, kind, size)
        self._give_back(git)

    def close(self) -> None:
        """End git, if it runs. The next read starts it again."""
        while (git := self._take()) is not None:
            git.stop()

    def _take(self) -> _Git | None:
        """Return a process that waits for a request; nobody else can take it then."""
        while self._idle:
            try:
                git = self._idle.pop()
            except IndexError:  # another thread was faster
                return None
            if git.is_running:  # else the parent's, from before a fork
                return git
        return None

    def _give_back(self, git: _Git) -> None:
        """Let the next request use a process that has answered completely."""
        if len(self._idle) < MOST_IDLE and not git.is_used_up:
            self._idle.append(git)
        else:
            git.stop()

    def _start(self) -> _Git:
        return _Git(self._args, self._cwd, self._env, self._format)

    def _whole(self, git: _Git, oid: Oid) -> tuple[str, bytes]:
        with _stopped_on_error(git):
            whole = git.read(oid)
        self._give_back(git)
        return whole

    def _ask(self, oid: Oid) -> tuple[_Git, tuple[str, int]]:
        """Return a process that is about to send this object."""
        earlier = self._take()
        if earlier is not None:
            with suppress(StoreDamaged, GitFailed), _stopped_on_error(earlier):
                return earlier, earlier.ask(oid)
        git = self._start()
        with _stopped_on_error(git):
            return git, git.ask(oid)


class _Git:
    """One running process. Who gets an error from it stops it."""

    def __init__(
        self,
        args: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        object_format: ObjectFormat,
    ) -> None:
        self._messages = process.scratch()
        try:
            self._process = process.start(args, cwd=cwd, env=env, messages=self._messages)
        except BaseException:
            self._messages.close()
            raise
        requests, answers = self._process.stdin, self._process.stdout
        assert isinstance(requests, io.FileIO)
        assert isinstance(answers, io.FileIO)
        self._requests = requests
        self._pipe = _Answers(answers, self._ask_no_more)
        self._answers = io.BufferedReader(self._pipe, process.READ)
        self.is_used_up = False
        self.is_running = True
        _running.add(self)
        with _stopped_on_error(self):
            self._greet(args, object_format.empty_tree)

    def _greet(self, args: Sequence[str], known: Oid) -> None:
        """Ask for the empty tree first, which is `known` everywhere: a repository in which git does
        not work is not one with a missing object.
        """
        try:
            _, size = self.ask(known)
            self._pipe.patience = None  # however slow it starts
            self.content(known, size)
        except StoreDamaged:
            code = self._process.wait()
            self._messages.seek(0)
            raise process.failed(args, code, self._messages.read()) from None

    def ask(self, oid: Oid) -> tuple[str, int]:
        """Request an object, and return its kind and size. Raises StoreDamaged if it is missing or
        unreadable.
        """
        with suppress(BrokenPipeError):  # it has ended: there is no answer then
            self._requests.write(f"{oid}\n".encode("ascii"))
        return self._answer(oid)

    def read(self, oid: Oid) -> tuple[str, bytes]:
        """Request an object, and return its kind and content. Raises StoreDamaged if it is missing
        or does not match its name.
        """
        kind, size = self.ask(oid)
        data = self.content(oid, size)
        if not is_name_of(oid, kind, data):
            raise _damaged(oid)
        return kind, data

    def _answer(self, oid: Oid) -> tuple[str, int]:
        self._pipe.patience = None  # git answers or ends
        line = self._answers.readline()
        if not line.endswith(b"\n"):
            raise self._ended(oid)
        words = line.split()
        if words == [oid.encode(), b"missing"]:
            raise StoreDamaged(f"object {oid} is missing", hint="gitcp doctor --store")
        if len(words) != 3 or words[0] != oid.encode() or not words[2].isdigit():
            raise _damaged(oid)
        kind = KINDS.get(words[1])
        if kind is None:
            raise _damaged(oid)
        self._pipe.patience = STALL
        return kind, int(words[2])

    def content(self, oid: Oid, size: int) -> bytes:
        """Return the content of the object that was asked for: all `size` bytes that are left."""
        is_likely = size <= MOST_AT_ONCE
        data = self._answers.read(size) if is_likely else b"".join(self.parts(oid, size))
        end = self._answers.read(1)
        if not end:
            raise self._ended(oid)
        if end != b"\n":
            raise _damaged(oid)
        return data

    def parts(self, oid: Oid, size: int) -> Iterator[bytes]:
        """Yield the next `size` bytes of its content in chunks."""
        while size:
            data = self._answers.read(min(CHUNK, size))
            if not data:
                raise self._ended(oid)
            size -= len(data)
            yield data

    def _ask_no_more(self) -> None:
        """Let git end after the current answer, which then ends, too, however long it was to be."""
        self.is_used_up = True
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, self._requests.fileno(), inheritable=False)
        os.close(nowhere)

    def stop(self) -> None:
        """End the process, whatever it does: it only reads."""
        if self.is_running:
            self.is_running = False
            _running.discard(self)
            self._process.kill()
            self._process.wait()
            self._requests.close()
            self._answers.close()
            self._messages.close()

    def leave_to_parent(self) -> None:
        """In a forked child: give up our ends of the pipes, or git would not see that the parent
        has closed its own. They stay valid descriptors: objects that somebody may still use have
        their numbers.
        """
        self.is_running = False
        self._process.returncode = 0  # it is not ours to wait for
        nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for file in (self._requests, self._answers):
            os.dup2(nowhere, file.fileno(), inheritable=False)
        os.close(nowhere)

    def _ended(self, oid: Oid) -> GitFailed | StoreDamaged:
        """Return the error for an answer that was cut off at this object."""
        if not self.is_running:
            return GitFailed(f"git was closed while it read object {oid}")
        code = self._process.wait()
        if code in ENDED_BY_OTHERS:
            return GitFailed(f"git was ended (exit code {code}) while it read object {oid}")
        return _damaged(oid)


class _Answers(io.RawIOBase):
    """What a process writes. `stalled` is called when nothing has come for `patience` milliseconds.

    Where one copy of an object is damaged and another is not, git may announce the length of the
    first and send the second.
    """

    def __init__(self, pipe: io.FileIO, stalled: Callable[[], None]) -> None:
        self.patience: int | None = None
        self._pipe = pipe
        self._stalled = stalled
        self._poll = select.poll()
        self._poll.register(pipe, select.POLLIN)

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._pipe.fileno()

    def readinto(self, buffer: Any) -> int | None:
        if not self._poll.poll(self.patience):
            self._stalled()
        return self._pipe.readinto(buffer)

    def close(self) -> None:
        super().close()
        self._pipe.close()


class _stopped_on_error:  # noqa: N801 -- reads as a statement
    """Stop a process after any error, also an interrupt: half an answer may be left in it."""

    def __init__(self, git: _Git) -> None:
        self._git = git

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._git.stop()


def _chunks(git: _Git, oid: Oid, kind: str, size: int) -> Iterator[bytes]:
    """Yield the content of the object that git is about to send, and check it, after the last chunk
    at the latest.
    """
    if kind != "blob":
        raise StoreDamaged(f"object {oid} is a {kind}, not a blob", hint="gitcp doctor --store")
    if size <= MOST_WHOLE:
        data = git.content(oid, size)
        if not is_name_of(oid, "blob", data):
            raise _damaged(oid)
        yield data
        return
    digest = format_of(oid).hasher(b"blob %d\0" % size)
    for chunk in git.parts(oid, size):
        digest.update(chunk)
        yield chunk
    if git.content(oid, 0) or digest.hexdigest() != oid:
        raise _damaged(oid)


def _damaged(oid: Oid) -> StoreDamaged:
    return StoreDamaged(
        f"object {oid} is damaged: its content does not match its name", hint="gitcp doctor --store"
    )


_running: set[_Git] = set()


def stop_all() -> None:
    """End every process that still runs; for who leaves with `os._exit`."""
    for git in list(_running):
        git.stop()


def _leave_to_parent() -> None:
    while _running:
        _running.pop().leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parent)
atexit.register(stop_all)
