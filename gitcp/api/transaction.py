"""`with checkpoints.transaction("…")`: if the block fails, files go back and compensations are
run.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from gitcp.api.opened import Opened, keep_house
from gitcp.errors import GitcpError
from gitcp.git import refs
from gitcp.model import CheckpointId, Note, Run
from gitcp.running import transaction
from gitcp.running.compensate import LIMIT
from gitcp.running.transaction import Failure, Open
from gitcp.saving import save
from gitcp.saving.session import GIVEN, Choice
from gitcp.state import settings
from gitcp.state.masking import masked
from gitcp.store import Store


class TransactionBlock:
    """One transaction, used once. Where it failed, `failure` says afterwards what was done about
    it.

    The exception goes on its way. If files cannot go back, or a checkpoint cannot be made, a
    GitcpError is raised from it, and the transaction is finished when the next one begins, or by
    `gitcp run --recover`.
    """

    def __init__(
        self,
        opened: Opened,
        label: str,
        *,
        session: str | None = None,
        rollback: bool = True,
        compensate: Sequence[str] = (),
        limit: float = LIMIT,
    ) -> None:
        self.failure: Failure | None = None
        self._opened = opened
        self._limit = limit
        self._held: Open | None = None
        self._begun = 0.0
        self._request = transaction.Request(
            cwd=opened.path,
            label=label,
            rollback=rollback,
            compensations=tuple(compensate),
            choice=None
            if session is None
            else Choice(refs.check_name(session, "session"), None, GIVEN),
        )

    @property
    def before(self) -> CheckpointId:
        """The checkpoint that was made at the beginning."""
        return self._open().transaction.before

    def compensate(self, command: str) -> None:
        """Record what would undo something that was just done outside of the files. Before doing it
        is safer still.
        """
        store = self._opened.store()
        request = save.Request(
            cwd=self._opened.path,
            note=Note(compensations=(command,)),
            session=self.before.session,
            limits=settings.limits(store.repo),
        )
        save.save(store, request)

    def __enter__(self) -> Self:
        store = self._opened.store()
        transaction.recover(store, limit=self._limit)
        self._held = transaction.begin(store, self._request)
        self._begun = time.monotonic()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        store = self._opened.store()
        self._end(store, error)
        keep_house(store, self.before)

    def _end(self, store: Store, error: BaseException | None) -> None:
        held, took = self._open(), int((time.monotonic() - self._begun) * 1000)
        if error is None:
            transaction.succeed(store, held, Run((), 0, took))
            return
        said = "".join(traceback.format_exception_only(error)).rstrip()
        run = Run((), None, took, masked(said, self._opened.host.env))
        self.failure = transaction.fail(store, held, run, limit=self._limit)

    def _open(self) -> Open:
        if self._held is None:
            raise GitcpError("the transaction was not begun: use it with `with`")
        return self._held
