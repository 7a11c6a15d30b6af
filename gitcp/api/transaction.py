"""`with checkpoints.transaction("…")`: on failure, restore files and run compensations."""

from __future__ import annotations

import time
import traceback
from types import TracebackType
from typing import Self

from gitcp.api.checked import checked
from gitcp.api.opened import Opened, Texts, exact, start_housekeeping, texts_of
from gitcp.errors import GitcpError
from gitcp.model import CheckpointId, Note, Run
from gitcp.running import transaction
from gitcp.running.compensate import LIMIT
from gitcp.running.transaction import Failure, OpenTransaction
from gitcp.saving import save
from gitcp.saving.session import GIVEN, Choice
from gitcp.state import settings
from gitcp.state.masking import masked


class TransactionBlock:
    """A transaction, usable once. After a failure, `failure` describes what was done.

    The exception propagates. If the rollback or a checkpoint fails, a GitcpError is raised from it,
    and the transaction is finished when the next one starts, or by `gitcp run --recover`.
    """

    def __init__(
        self,
        opened: Opened,
        label: str,
        *,
        session: str | None = None,
        rollback: bool = True,
        compensate: Texts = (),
        limit: float = LIMIT,
    ) -> None:
        self.failure: Failure | None = None
        self._opened = opened
        self._limit = limit
        self._transaction: OpenTransaction | None = None
        self._started = 0.0
        self._request = transaction.TransactionRequest(
            cwd=opened.path,
            label=label,
            rollback=rollback,
            compensations=texts_of("compensate", compensate),
            choice=None if session is None else Choice(exact(opened, session), None, GIVEN),
        )

    @property
    def before(self) -> CheckpointId:
        """The checkpoint made at the start."""
        return self._open().transaction.before

    @checked("nothing was saved")
    def compensate(self, command: str) -> None:
        """Record a command that undoes an effect outside the files. Best called before the
        effect.
        """
        store = self._opened.store()
        request = save.SaveRequest(
            cwd=self._opened.path,
            note=Note(compensations=(command,)),
            session=self.before.session,
            limits=settings.limits(store.repo),
        )
        save.save(store, request)

    def __enter__(self) -> Self:
        store = self._opened.store()
        transaction.recover(store, limit=self._limit)
        self._transaction = transaction.begin(store, self._request)
        self._started = time.monotonic()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        store, opened = self._opened.store(), self._open()
        milliseconds = int((time.monotonic() - self._started) * 1000)
        if error is None:
            transaction.succeed(store, opened, Run((), 0, milliseconds))
        else:
            message = "".join(traceback.format_exception_only(error)).rstrip()
            run = Run((), None, milliseconds, masked(message, self._opened.host.env))
            self.failure = transaction.fail(store, opened, run, limit=self._limit)
        start_housekeeping(store, self.before)

    def _open(self) -> OpenTransaction:
        if self._transaction is None:
            raise GitcpError("the transaction has not started; use it with `with`")
        return self._transaction
