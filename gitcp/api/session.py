"""One session of a program: its position, and steps that are done once."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gitcp.api.opened import Opened, numbered, within_limits
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
    """A line of checkpoints that belongs to a program, under a name of its choosing. No agent is
    asked for anything.

    `with` saves what is there when the block ends well; when it does not, the files stay as they
    are.
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
        """Where the last checkpoint says that the program stands; empty before the first."""
        last = self.last
        return last.note.position if last else {}

    def save(self, label: str | None = None, **given: Any) -> Saved:
        """Save into this session: see Checkpoints.save."""
        return self.opened.save(label, session=self.name, **given)

    def resume(self) -> Report | None:
        """Bring the files back to the last checkpoint, as they must be for a program to go on from
        its position.

        What a crash left behind is saved first, and a restore that was interrupted is finished. A
        checkpoint that was only made to be safe (before a restore) is passed over. Where there is
        none yet, what is there now is saved as the beginning, and None is returned.
        """
        store = self.opened.store()
        if journal.unfinished(store.repo) is not None:
            restore.finish(
                store, lambda id: self.opened.request(store, numbered(store, id)), forward=True
            )
        target = self._settled(store)
        if target is None:
            self.save(f"the beginning of {self.name}")
            return None
        return restore.restore(store, self.opened.request(store, target))

    def _settled(self, store: Store) -> Checkpoint | None:
        """The last checkpoint that somebody meant to make."""
        tip = store.tip(self.name)
        safety = Trigger.BEFORE_RESTORE.value
        history = store.history(tip) if tip else iter(())
        found = next((s.commit for s in history if s.trailers.get("Gitcp-Trigger") != safety), None)
        return store.read(found) if found else None

    # ------------------------------------------------------------ steps

    def step(self, name: str, do: Callable[[], Any] | None = None, *, key: str = "") -> Any:
        """The result of a step: the recorded one if it was done before, else what `do` gives back,
        now recorded.

        `name` and `key` together say which step it is. The result, a JSON value, and the files that
        the step wrote are in one checkpoint. Of several threads or processes that come to the same
        step, one does it and the others get its result. A crash before it is recorded means that it
        is done again. Without `do` only what is recorded is given back. Raises RevisionNotFound if
        that is nothing, BadValue if the result is not JSON.
        """
        known = self._recorded(name, key)
        if known is None and do is None:
            raise RevisionNotFound(
                f"step {name!r} of session {self.name} was not done yet", hint="give what it does"
            )
        if known is None:
            with only(self.opened.store(), self.name, steps.place(name, key)):
                known = self._recorded(name, key) or [self._done(name, key, do)]
        return known[0]

    def _recorded(self, name: str, key: str) -> Any:
        store = self.opened.store()
        tip = store.tip(self.name)
        return steps.found(store, store.read(tip).steps, name, key) if tip else None

    def _done(self, name: str, key: str, do: Callable[[], Any] | None) -> Any:
        assert do is not None
        result = steps.encode(name, key, do())
        store = self.opened.store()
        request = save.Request(
            cwd=self.opened.path,
            limits=settings.limits(store.repo),
            choice=Choice(self.name, None, GIVEN),
            results=(result,),
        )
        within_limits(store, save.save(store, request))
        return steps.decode(result)


@contextmanager
def only(store: Store, session: str, digest: str) -> Iterator[None]:
    """Be the only one at a part of a session. The system gives the lock back when its holder
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
    """A descriptor of the locked file that is at `path` now: who waited may have got one that was
    removed.
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
