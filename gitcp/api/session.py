"""A program's session: its position, and steps that run once."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gitcp.api.opened import Opened, numbered, with_housekeeping
from gitcp.errors import RevisionNotFound
from gitcp.git.fsync import make_own_directory, open_shared
from gitcp.model import Checkpoint, Trigger
from gitcp.restoring import restore
from gitcp.restoring.restore import Report
from gitcp.saving import save
from gitcp.saving.save import Saved
from gitcp.saving.session import GIVEN, Choice
from gitcp.state import journal, settings, steps
from gitcp.store import Store


class Session:
    """A session that belongs to a program, under a name of its choice. No agent is involved.

    `with` saves when the block succeeds; when it fails, the files are left as they are.
    """

    def __init__(self, opened: Opened, name: str) -> None:
        self.opened = opened
        self.name = name

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if kind is None:
            self.save()

    @property
    def last(self) -> Checkpoint | None:
        """The last checkpoint, None before the first."""
        store = self.opened.store()
        tip = store.tip(self.name)
        return store.read(tip) if tip else None

    @property
    def position(self) -> Mapping[str, str]:
        """The program's position in the last checkpoint; empty before the first."""
        last = self.last
        return last.note.position if last else {}

    def save(self, label: str | None = None, **given: Any) -> Saved:
        """Save to this session. See Checkpoints.save."""
        return self.opened.save(label, session=self.name, **given)

    def resume(self) -> Report | None:
        """Restore the files of the last checkpoint, for the program to continue at its position.

        The current state is saved first, and an interrupted restore is finished. Safety
        checkpoints (before a restore) are skipped. If there is no checkpoint yet, one
        is made, and None is returned.
        """
        store = self.opened.store()
        if journal.unfinished(store.repo) is not None:
            restore.finish(
                store, lambda id: self.opened.request(store, numbered(store, id)), forward=True
            )
        target = self._last_intended(store)
        if target is None:
            self.save(f"start of {self.name}")
            return None
        return restore.restore(store, self.opened.request(store, target))

    def _last_intended(self, store: Store) -> Checkpoint | None:
        """Return the last checkpoint that is not a safety checkpoint."""
        tip = store.tip(self.name)
        safety = Trigger.BEFORE_RESTORE.value
        history = store.history(tip) if tip else iter(())
        commit = next(
            (s.commit for s in history if s.trailers.get("Gitcp-Trigger") != safety), None
        )
        return store.read(commit) if commit else None

    # ------------------------------------------------------------ steps

    def step(self, name: str, do: Callable[[], Any] | None = None, *, key: str = "") -> Any:
        """Return the result of a step: the recorded one, else that of `do`, which is recorded.

        `name` and `key` identify the step. The result, a JSON value, is in one checkpoint with the
        files that the step wrote. If several threads or processes reach the same step, one runs it
        and the others get its result. After a crash before it is recorded, it runs again. Without
        `do`, only a recorded result is returned. Raises RevisionNotFound if there is none, and
        BadValue if the result is not JSON.
        """
        recorded = self._recorded(name, key)
        if recorded is None and do is None:
            raise RevisionNotFound(
                f"step {name!r} of session {self.name} has not run yet",
                hint="pass the function to run",
            )
        if recorded is None:
            with only(self.opened.store(), self.name, steps.place(name, key)):
                recorded = self._recorded(name, key) or [self._run_step(name, key, do)]
        return recorded[0]

    def _recorded(self, name: str, key: str) -> Any:
        store = self.opened.store()
        tip = store.tip(self.name)
        return steps.lookup(store, store.read(tip).steps, name, key) if tip else None

    def _run_step(self, name: str, key: str, do: Callable[[], Any] | None) -> Any:
        assert do is not None
        result = steps.encode(name, key, do())
        store = self.opened.store()
        request = save.SaveRequest(
            cwd=self.opened.path,
            limits=settings.limits(store.repo),
            choice=Choice(self.name, None, GIVEN),
            results=(result,),
        )
        with_housekeeping(store, save.save(store, request))
        return steps.decode(result)


@contextmanager
def only(store: Store, session: str, digest: str) -> Iterator[None]:
    """Hold an exclusive lock on a part of a session. The system releases it when the process
    dies.
    """
    directory = store.repo.store_dir / "steps"
    make_own_directory(directory)
    path = directory / f"{session}.{digest[:40]}"
    descriptor = _locked(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(path: Path) -> int:
    """Return a descriptor of the locked file at `path`. The file may have been removed while
    waiting.
    """
    while True:
        descriptor = open_shared(path, os.O_RDWR)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except FileNotFoundError:
            pass
        os.close(descriptor)
