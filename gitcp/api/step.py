"""One call of a step: look for its result, run it, record what it returned.

`run` does that for threads. For asyncio, AsyncSession.step takes the same parts one by one, so that
no thread waits while the coroutine runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

from gitcp.api.opened import Opened, with_housekeeping
from gitcp.errors import BadValue, RevisionNotFound
from gitcp.model import StepName
from gitcp.running.steps import StepCache, StepRequest, StepVerdict, check, checksums, record
from gitcp.saving import save
from gitcp.saving.session import GIVEN, Choice
from gitcp.state import settings, steps
from gitcp.state.steps import StepResult, only, place


class StepCall:
    """A call of a step of the session with this name. `known` is what the session has read."""

    def __init__(
        self, opened: Opened, session: str, request: StepRequest, known: StepCache
    ) -> None:
        self._opened, self._session, self._known = opened, session, known
        self._request = request

    def run(self, do: Callable[[], Any]) -> Any:
        """Return the step's value: the recorded one if it is current, else that of `do`."""
        result = self.recorded()
        if result is None:
            with self.running() as running, only(self._opened.store(), self._session, self._place):
                result = self.recorded()
                if result is None:
                    running.used.update(self.named())
                    result = self.record(do(), running)
        return self.value(result)

    def recorded_value(self) -> Any:
        """Return the recorded value. Raises RevisionNotFound if the step has to run."""
        result, reasons = self._checked()
        if result is None:
            happened = f"has to run again: {', '.join(reasons)}" if reasons else "has not run yet"
            raise RevisionNotFound(
                f"step {str(self._request.step)!r} of session {self._session} {happened}",
                hint="pass the function to run",
            )
        return self.value(result)

    def recorded(self) -> StepResult | None:
        """Return the recorded result if it is current, else None."""
        return self._checked()[0]

    def _checked(self) -> tuple[StepResult | None, tuple[str, ...]]:
        """Return the recorded result if it is current, else None, and why it is not."""
        store = self._opened.store()
        result, planned = check(store, self._session, self._request, self._known)
        if planned.verdict is StepVerdict.SKIP:
            return result, ()
        return None, planned.reasons if result is not None else ()

    @contextmanager
    def running(self) -> Iterator[RunningStep]:
        """Make this the step whose dependencies are recorded. Raises BadValue if it is running
        further out already, where it would wait for itself.
        """
        step = self._request.step
        running = RunningStep((self._opened.root, self._session), step, {}, _outer.get())
        outer = running.outer
        while outer is not None:
            if (outer.session, outer.step) == (running.session, step):
                raise BadValue(
                    f"step {str(step)!r} runs inside itself: nothing was run",
                    hint="give the inner step another name or key",
                )
            outer = outer.outer
        token = _outer.set(running)
        try:
            yield running
        finally:
            _outer.reset(token)

    def named(self) -> dict[StepName, str]:
        """Return the checksums of the results of the steps that this one names."""
        store = self._opened.store()
        return checksums(store, self._session, self._request.depends, self._known)

    def record(self, value: Any, running: RunningStep) -> StepResult:
        """Save what the step returned, with its files. Raises BadValue if it is not JSON."""
        encoded = steps.encode(self._request.step, value)
        store = self._opened.store()
        result = record(store, self._request, encoded, running.used, self._known)
        saving = save.SaveRequest(
            cwd=self._opened.path,
            limits=settings.limits(store.repo),
            choice=Choice(self._session, None, GIVEN),
            outputs=self._request.files,
            promised=tuple(self._opened.promised),
            records=save.Records(step=self._request.step, results=(result,)),
            watched=True,
        )
        with_housekeeping(store, save.save(store, saving))
        return result

    def value(self, result: StepResult) -> Any:
        """Return the value of a result. The step that runs around this one depends on it."""
        outer = _outer.get()
        if outer is not None and outer.session == (self._opened.root, self._session):
            outer.used[self._request.step] = result.checksum
        return steps.decode(result)

    def lock_path(self) -> Path:
        """Return the file that whoever runs the step has locked (gitcp.state.steps.lock_now)."""
        return steps.lock_path(self._opened.store(), self._session, self._place)

    @property
    def _place(self) -> str:
        return place(self._request.step)


class RunningStep(NamedTuple):
    """A step that runs, and the checksums of the results that it has used so far."""

    session: tuple[Path, str]
    step: StepName
    used: dict[StepName, str]
    outer: RunningStep | None


_outer: ContextVar[RunningStep | None] = ContextVar("gitcp_step", default=None)
"""The step that this thread or task runs."""
