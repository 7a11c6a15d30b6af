"""One call of a step: look for its result, run it, record what it returned.

`run` does that for threads. For asyncio, AsyncSession.step takes the same parts one by one, so that
no thread waits while the coroutine runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import isabstract
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from gitcp.api.opened import Opened, with_housekeeping
from gitcp.errors import BadValue, Refused, RevisionNotFound
from gitcp.model import StepName
from gitcp.running.compensate import LIMIT
from gitcp.running.steps import (
    StepCache,
    StepRequest,
    StepVerdict,
    announce,
    check,
    checksums,
    record,
    undo,
)
from gitcp.saving import save
from gitcp.saving.session import GIVEN, Choice
from gitcp.state import settings, steps
from gitcp.state.steps import StepResult, only, place
from gitcp.store import Store

SCALARS = (str, int, float, bool, NoneType)
"""What JSON has, but for lists and dicts; of these, not their subclasses."""

Encode = Callable[[Any], Any]
"""Returns the JSON value for a result, or the result for a JSON value."""


class StepCall:
    """A call of a step of the session with this name. `known` is what the session has read,
    `coding` are the functions that make a JSON value of its result, and the result of that.
    """

    def __init__(
        self,
        opened: Opened,
        session: str,
        request: StepRequest,
        known: StepCache,
        coding: tuple[Encode | None, Encode | None] = (None, None),
    ) -> None:
        self._opened, self._session, self._known = opened, session, known
        self._request = request
        self._encode, self._decode = coding

    def run(self, do: Callable[[], Any]) -> Any:
        """Return the step's value: the recorded one if it is current, else that of `do`."""
        store = self._opened.store()
        result = self.recorded(store)
        if result is None:
            self.check_type(do)
            with self.running() as running, only(store, self._session, self._place):
                result = self.recorded(store)  # another process may have run it meanwhile
                if result is None:
                    self.prepare(running, store)
                    result = self.record(do(), running)
        return self.value(result)

    def check_type(self, do: Callable[..., Any]) -> None:
        """Raise BadValue if a function says that it returns what cannot be stored."""
        if self._encode is None and (unfit := unfit_return(do)):
            raise BadValue(
                f"step {str(self._request.step)!r} returns {unfit}, which is not a JSON value: "
                "nothing was run",
                hint=steps.STORABLE,
            )

    def prepare(self, running: RunningStep, store: Store) -> None:
        """Undo what the last run did outside of the files, record what undoes this one, and what it
        depends on. The caller holds the lock.
        """
        name, request = self._session, self._request
        undo(store, name, request, self._known, limit=LIMIT)
        announce(store, name, request, self._known)
        running.used.update(checksums(store, name, request.depends, self._known))

    def recorded_value(self) -> Any:
        """Return the recorded value. Raises RevisionNotFound if the step has to run."""
        result, reasons = self._checked(self._opened.store())
        if result is None:
            happened = f"has to run again: {', '.join(reasons)}" if reasons else "has not run yet"
            raise RevisionNotFound(
                f"step {str(self._request.step)!r} of session {self._session} {happened}",
                hint="pass the function to run",
            )
        return self.value(result)

    def recorded(self, store: Store) -> StepResult | None:
        """Return the recorded result if it is current, else None."""
        return self._checked(store)[0]

    def _checked(self, store: Store) -> tuple[StepResult | None, tuple[str, ...]]:
        """Return the recorded result if it is current, else None, and why it is not."""
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

    def record(self, value: Any, running: RunningStep) -> StepResult:
        """Save what the step returned, with its files. Raises BadValue if it is not JSON; then it
        is recorded that the step was done, so that it is not done again.
        """
        refused = None
        try:
            encoded = steps.encode(self._request.step, self._encoded(value))
        except BadValue as error:
            refused, encoded = error, StepResult(self._request.step, b"null", kept=False)
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
        if refused is not None:
            raise refused
        return result

    def _encoded(self, value: Any) -> Any:
        if self._encode is None:
            return value
        try:
            return self._encode(value)
        except Exception as error:
            raise BadValue(
                f"encode of step {str(self._request.step)!r} raised {error!r}: the step was done, "
                "but its result is not kept",
                hint=f"session.invalidate({self._request.step.name!r}) lets it run again",
            ) from error

    def value(self, result: StepResult) -> Any:
        """Return the value of a result. The step that runs around this one depends on it."""
        outer = _outer.get()
        if outer is not None and outer.session == (self._opened.root, self._session):
            outer.used[self._request.step] = result.checksum
        if not result.kept:
            raise Refused(
                f"step {str(result.step)!r} was done, and its result was not kept: it is not done "
                "again",
                hint=f"session.invalidate({result.step.name!r}) lets it run again",
            )
        value = steps.decode(result)
        return value if self._decode is None else self._decode(value)

    def store(self) -> Store:
        """Return a store for the calls that read."""
        return self._opened.store()

    def lock_path(self, store: Store) -> Path:
        """Return the file that whoever runs the step has locked (gitcp.state.steps.lock_now)."""
        return steps.lock_path(store, self._session, self._place)

    @property
    def _place(self) -> str:
        return place(self._request.step)


def unfit_return(do: Callable[..., Any]) -> str | None:
    """Return the type that a function's annotation says it returns, if no value of it is JSON; None
    if one may be, or nothing is said.
    """
    try:
        hint = get_type_hints(do).get("return", Any)
    except (TypeError, NameError, AttributeError):  # no function, or a name that is not there
        return None
    return None if _is_storable(hint) else getattr(hint, "__name__", str(hint))


def _is_storable(hint: Any) -> bool:
    """Return whether a value of this type may be JSON, as far as the type says."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(map(_is_storable, inner))
    if origin in (list, tuple):
        return all(_is_storable(each) for each in inner if each is not Ellipsis)
    if origin is dict:
        return inner[0] in (str, Any) and _is_storable(inner[1])
    kind = hint if origin is None else origin
    if not isinstance(kind, type) or isabstract(kind):
        return True
    is_open = kind in (Any, object) or getattr(kind, "_is_protocol", False)
    return is_open or kind in SCALARS or issubclass(kind, list | tuple | dict)


class RunningStep(NamedTuple):
    """A step that runs, and the checksums of the results that it has used so far."""

    session: tuple[Path, str]
    step: StepName
    used: dict[StepName, str]
    outer: RunningStep | None


_outer: ContextVar[RunningStep | None] = ContextVar("gitcp_step", default=None)
"""The step that this thread or task runs."""
