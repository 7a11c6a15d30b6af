"""A program's session: its position, and steps that run once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar, Unpack, get_type_hints, overload

from gitcp.api.checked import checked, require
from gitcp.api.opened import Files, Opened, SaveOptions, inside, numbered, with_housekeeping
from gitcp.api.step import Encode, StepCall
from gitcp.model import Checkpoint, CheckpointId, StepName, Trigger
from gitcp.restoring import restore
from gitcp.restoring.restore import Report
from gitcp.running.compensate import function_name
from gitcp.running.steps import StepCache, StepPlan, StepRequest, invalidate, plan_session
from gitcp.saving import position
from gitcp.saving.save import Saved
from gitcp.state import journal, programs, steps
from gitcp.store import Store
from gitcp.value import EMPTY, replace
from gitcp.worktree import outputs as worktree_outputs

T = TypeVar("T")

Named = str | Iterable[str | tuple[str, str]]
"""Steps: a name, or several, each a name or a name with its key."""


Compensate = str | Callable[..., object] | None
"""What undoes the effect of a step: a shell command, or a function that is found by its name."""


class StepOptions(NamedTuple):
    """The options of Session.step."""

    key: str
    inputs: object
    depends: Named
    files: Files
    compensate: Compensate
    encode: Encode | None
    decode: Encode | None


class Session:
    """A session that belongs to a program, under a name of its choice. No agent is involved.

    `with` saves when the block succeeds; when it fails, the files are left as they are.
    """

    def __init__(self, opened: Opened, name: str) -> None:
        self.opened = opened
        self.name = name
        self._known = StepCache()

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
    def position(self) -> Mapping[str, Any]:
        """The position in the last checkpoint, as it was given; empty before the first."""
        last = self.last
        return last.note.position if last else {}

    def save(self, label: str | None = None, **given: Unpack[SaveOptions]) -> Saved:
        """Save to this session. See Checkpoints.save."""
        saved = self.opened.save(label, session=self.name, **given)
        if given.get("outputs") or given.get("appends"):
            self._is_writing(
                self.opened.store(), given.get("outputs", ()), given.get("appends", ())
            )
        return saved

    def _is_writing(self, store: Store, *files: Files) -> None:
        """Record that this process works in the session, and writes these files."""
        program = programs.here(store.repo, self.name) or programs.begin(store.repo, self.name)
        if program is not None:
            program.outputs |= {path for each in files for path in inside(self.opened, each)}
            program.note_paths(program.outputs)

    @checked("nothing was changed")
    def resume(
        self, *, outputs: Files = (), appends: Files = (), whole_tree: bool = False
    ) -> Report | None:
        """Restore the files that belong to the position, for the program to continue there.

        Only what this session changed is undone. What others changed since stays, and is in
        `left` of the report; where they changed the same lines, raises OthersAffected. With
        `whole_tree`, all files are restored.

        They are those of the checkpoint that set it, whatever was saved since; without a position,
        those of the last checkpoint that is not a safety checkpoint (before a restore). Results of
        steps stay. The current state is saved first, and an interrupted restore is finished. If
        there is no checkpoint yet, one is made, and None is returned. `outputs` are files that the
        program writes, `appends` those that it only appends to from now on: see Checkpoints.save.
        Raises Refused, with nothing changed, if another file that changed since is left out of
        checkpoints: it would stay as it is; and RevisionNotFound if the checkpoint that set the
        position no longer exists.
        """
        store, growing = self.opened.store(), inside(self.opened, appends)
        worktree_outputs.add(store.repo, inside(self.opened, outputs), growing)
        report = self._restore_position(store, whole_tree=whole_tree)
        self.opened.promised.update(growing)
        self._is_writing(store, outputs, appends)
        return report

    def _restore_position(self, store: Store, *, whole_tree: bool) -> Report | None:
        def request_for(target: Checkpoint) -> restore.RestoreRequest:
            return self.opened.request(store, target, whole_tree=whole_tree, program=self.name)

        if journal.unfinished(store.repo) is not None:
            restore.finish(store, lambda id: request_for(self._resumed(store, id)), forward=True)
        target = self._last_intended(store)
        if target is None:
            self.save(f"start of {self.name}")
            return None
        request = request_for(target)
        position.check_resume(store, restore.current(store, request), target)
        return restore.restore(store, request)

    def _last_intended(self, store: Store) -> Checkpoint | None:
        """Return the checkpoint that set the position; without one, the last that is not a safety
        checkpoint.
        """
        tip = store.tip(self.name)
        safety = Trigger.BEFORE_RESTORE.value
        history = store.history(tip) if tip else iter(())
        commit = next(
            (s.commit for s in history if s.trailers.get("Gitcp-Trigger") != safety), None
        )
        last = store.read(commit) if commit else None
        return self._resumed(store, last.note.position_from or last.id) if last else None

    def _resumed(self, store: Store, id: CheckpointId) -> Checkpoint:
        """Return a checkpoint with the step results that are recorded now. Raises
        RevisionNotFound.
        """
        tip, target = store.tip(self.name), numbered(store, id)
        return replace(target, steps=store.read(tip).steps) if tip else target

    # ------------------------------------------------------------ steps

    @overload
    def step(
        self,
        name: str,
        do: None = None,
        *,
        key: str = "",
        inputs: object = None,
        decode: Encode | None = None,
    ) -> Any: ...

    @overload
    def step(
        self,
        name: str,
        do: Callable[[], T],
        *,
        key: str = "",
        inputs: object = None,
        depends: Named = (),
        files: Files = (),
        compensate: Compensate = None,
        encode: Encode | None = None,
        decode: Encode | None = None,
    ) -> T: ...

    def step(
        self,
        name: str,
        do: Callable[[], T] | None = None,
        *,
        key: str = "",
        inputs: object = None,
        depends: Named = (),
        files: Files = (),
        compensate: Compensate = None,
        encode: Encode | None = None,
        decode: Encode | None = None,
    ) -> T | Any:
        """Return the result of a step: the recorded one if it is current, else that of `do`, which
        is recorded.

        `name` and `key` identify the step. Its result is a JSON value (tuples become lists), and is
        in one checkpoint with the files that the step wrote. It is current until `inputs`, a JSON
        value, or the result of a step that it depends on changes, or one of `files`, which the step
        writes, is missing or altered. Steps that `do` calls are found to be dependencies, others
        are named in `depends`, by name or as (name, key). Paths are relative to the directory that
        was opened.

        If several threads or processes reach one step, one runs it and the others get its result.
        After a crash before it is recorded, it runs again. Without `do`, only a current result is
        returned. Raises RevisionNotFound if there is none; Refused if a step in `depends` has to
        run first; BadValue if a result or input is not JSON, or a file was not written.

        `compensate` undoes the step's effect outside of the files: a shell command, or a function
        of a module, which gets the key and the result (None if the step did not end). It is
        recorded before `do` runs. Before the step runs again, it runs once, and before it those of
        the steps that depend on it, newest first; they run again, too.

        `encode` makes a JSON value of what `do` returns, `decode` makes the result of that. A
        function whose annotation says that it returns what is no JSON is not run without `encode`.
        If its value turns out to be none, the step counts as done and raises BadValue, and Refused
        from then on, until it is invalidated.
        """
        require("do", do, Callable[..., Any] | None, "nothing was run")
        options = StepOptions(key, inputs, depends, files, compensate, encode, decode)
        call = self._call(name, options, only_read=do is None)
        return call.recorded_value() if do is None else call.run(do)

    def _call(self, name: str, given: StepOptions, *, only_read: bool) -> StepCall:
        hints = _hints()
        for option, value in zip(given._fields, given, strict=True):
            require(option, value, hints[option], "nothing was run")
        require("name", name, str, "nothing was run")
        step = StepName(name, given.key)
        depends = [given.depends] if isinstance(given.depends, str) else given.depends
        compensate = given.compensate
        if callable(compensate):
            compensate = function_name(compensate)
        request = StepRequest(
            step,
            inputs=steps.inputs_checksum(step, given.inputs),
            depends=tuple(map(_step_name, depends)),
            files=inside(self.opened, given.files),
            any_inputs=only_read and given.inputs is None,
            compensate=compensate or "",
        )
        coding = given.encode, given.decode
        return StepCall(self.opened, self.name, request, self._known, coding)

    @checked("nothing was changed")
    def plan(self, inputs: Mapping[str | tuple[str, str], object] = EMPTY) -> StepPlan:
        """Return which recorded steps would run again, and why, and what would be undone first.
        Writes nothing.

        `inputs` are those that the program will pass, by name or (name, key); without them, inputs
        count as unchanged. Raises BadValue for inputs that are not JSON.
        """
        named = {_step_name(name): value for name, value in inputs.items()}
        checksums = {step: steps.inputs_checksum(step, value) for step, value in named.items()}
        return plan_session(self.opened.store(), self.name, checksums, self._known)

    @checked("nothing was changed")
    def invalidate(self, name: str, *, key: str | None = None) -> Saved:
        """Make a step run again, and what depends on it if its result changes.

        Without `key`, that is every step of this name. Saves a checkpoint. Raises RevisionNotFound
        if there is no such step.
        """
        store = self.opened.store()
        return with_housekeeping(store, invalidate(store, self.name, name, key, self._known))


@cache
def _hints() -> dict[str, Any]:
    return get_type_hints(StepOptions)


def _step_name(name: str | tuple[str, str]) -> StepName:
    return StepName(name) if isinstance(name, str) else StepName(*name)
