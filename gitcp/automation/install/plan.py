"""What setting an agent up, or taking it back, would change: decided file by file, nothing done."""

from __future__ import annotations

import os
import re
from pathlib import Path

from gitcp.automation.install import merging, scripts, shipped, trust
from gitcp.automation.install.agents import GIT, Piece, Target, home, program
from gitcp.automation.install.appending import appended, cut
from gitcp.automation.install.files import NoSpace, Seen, Unusable, look, prune_directories, replace
from gitcp.errors import BadValue
from gitcp.model import Host
from gitcp.value import Value

TRUST = "config.toml"
MARK = b"gitcp"
SECTION = re.compile(r"(?ms)^(?:\r?\n)?<!-- gitcp: begin.*?<!-- gitcp: end -->[ \t]*(?:\r?\n|\Z)")


class Scope(Value):
    """Where agents are set up: in the project at `root`, or (`user`) in the home, for every
    project.

    `hooks` is where git looks for the hooks of the project, None where other projects have them
    too.
    """

    root: Path | None
    user: bool
    hooks: Path | None = None


class Change(Value):
    """One file that changes: how it was seen, and what it becomes (None: it goes).

    Directories that are empty then go with it, but none at or above `keep`. `runs`: it is a
    program.
    """

    path: Path
    seen: Seen
    after: bytes | None
    keep: Path
    runs: bool = False

    @property
    def kind(self) -> str:
        if self.after is None:
            return "removed"
        return "new" if self.seen.data is None else "changed"


class Left(Value):
    """A file that is left as it is, and why; whether it is because the disk is `full`."""

    path: Path
    why: str
    full: bool = False


class Step(Value):
    """What is to be done for one agent, what cannot be, and what the person should know."""

    target: Target
    changes: tuple[Change, ...]
    left: tuple[Left, ...]
    notes: tuple[str, ...]


class Plan(Value):
    """What is to be done, agent by agent."""

    scope: Scope
    steps: tuple[Step, ...]

    @property
    def changes(self) -> tuple[Change, ...]:
        return tuple(change for step in self.steps for change in step.changes)

    @property
    def left(self) -> tuple[Left, ...]:
        return tuple(left for step in self.steps for left in step.left)


def enable(targets: tuple[Target, ...], scope: Scope, host: Host) -> Plan:
    """What would be put where. Raises BadValue for an agent that is not set up in this scope."""
    return Plan(scope, tuple(_Planner(target, scope, host, on=True).step() for target in targets))


def disable(targets: tuple[Target, ...], scope: Scope, host: Host) -> Plan:
    """What would be taken away again, of agents that there is something of.

    Raises BadValue for an agent that is not set up in this scope.
    """
    steps = (_Planner(target, scope, host, on=False).step() for target in targets)
    return Plan(scope, tuple(step for step in steps if step.changes or step.left))


def directory(target: Target, scope: Scope, host: Host) -> Path:
    """The agent's directory in a scope. Raises BadValue if it has none there."""
    if scope.user:
        if not target.home:
            raise BadValue(
                f"{target.title} is set up in a project only", hint=f"gitcp enable {target.name}"
            )
        return home(target, host)
    if target == GIT:
        if scope.hooks is None:
            raise BadValue(
                "git's hooks lie outside of this project (core.hooksPath): other projects have "
                "them too"
            )
        return scope.hooks
    assert scope.root is not None
    return scope.root / target.project


class _Planner:
    """One agent's step in the making: `on` puts in, else everything of gitcp's is taken out."""

    def __init__(self, target: Target, scope: Scope, host: Host, *, on: bool) -> None:
        self._target, self._scope, self._host, self._on = target, scope, host, on
        self._base = directory(target, scope, host)
        self._within = None if scope.user or target == GIT else scope.root
        self._changes: list[Change] = []
        self._left: list[Left] = []
        self._notes: list[str] = []

    def step(self) -> Step:
        for piece in self._target.pieces:
            for name in shipped.below(piece.source):
                self._plan(piece, name)
        if self._on and self._target.note and not self._scope.user:
            self._notes.append(self._target.note)
        if self._on:
            self._note_program()
        return Step(self._target, tuple(self._changes), tuple(self._left), tuple(self._notes))

    def _plan(self, piece: Piece, name: str) -> None:
        content, ending = shipped.rewritten(
            piece.form, shipped.read(f"{piece.source}/{name}".rstrip("/"))
        )
        path = self._base / piece.target / name
        path = path.with_suffix(ending) if ending else path
        try:
            seen = look(path, self._within)
            after = {
                "merge": self._merged,
                "copy": self._copied,
                "section": self._section,
                "script": self._script,
            }[piece.how](seen, content)
        except (BadValue, Unusable) as error:
            self._left.append(Left(path, str(error)))
            return
        self._change(path, seen, after, runs=piece.how == "script")
        if self._target.trusting and piece.how == "merge":
            self._trust(path, after)

    def _change(self, path: Path, seen: Seen, after: bytes | None, *, runs: bool = False) -> None:
        if after != seen.data:
            self._changes.append(Change(path, seen, after, self._within or self._base, runs))

    def _merged(self, seen: Seen, content: bytes) -> bytes | None:
        text = _text(seen)
        if text is not None and not text.strip():
            raise BadValue("it is empty, which is no JSON: write {} into it")
        if not self._on:
            return _bytes(merging.removed(text, self._target.name) or None) if text else None
        wanted = merging.groups(content)
        return _bytes(merging.merged(text or "", wanted, self._target.name))

    def _copied(self, seen: Seen, content: bytes) -> bytes | None:
        if seen.data is not None and MARK not in seen.data:
            raise BadValue("it is not gitcp's")
        return content if self._on else None

    def _section(self, seen: Seen, content: bytes) -> bytes | None:
        text = _text(seen)
        bare = None if text is None else cut(text, SECTION, lambda _: True)
        if bare is not None and "<!-- gitcp: begin" in bare:
            raise BadValue(
                "the end of gitcp's section is not there: mend or remove the section by hand"
            )
        return _bytes(appended(bare, content.decode("utf-8")) if self._on else bare)

    def _script(self, seen: Seen, content: bytes) -> bytes | None:
        text, script = _text(seen), content.decode("utf-8")
        if not self._on:
            return _bytes(scripts.removed(text, script)) if text is not None else None
        if text is not None and not os.access(seen.target, os.X_OK) and text.startswith("#!"):
            raise BadValue(
                "git does not run it, as it is not executable: chmod +x it, or remove it"
            )
        return _bytes(scripts.merged(text, script))

    def _trust(self, hooks: Path, after: bytes | None) -> None:
        """Codex runs only what its own configuration says is trusted."""
        path = home(self._target, self._host) / TRUST
        key = str(hooks)
        try:
            seen = look(path, None)
            text = _text(seen)
            if not self._on:
                made = trust.distrusted(text, key)
            else:
                assert after is not None
                made = trust.trusted(
                    text, trust.needed(after.decode("utf-8"), key, self._target.name), key
                )
        except (BadValue, Unusable) as error:
            self._left.append(Left(path, str(error)))
            return
        self._change(path, seen, _bytes(made))
        if (
            self._on
            and not self._scope.user
            and not trust.project_trusted(made or "", str(self._scope.root))
        ):
            self._notes.append(
                "it reads a project's hooks once you trust the project: it asks when it is started "
                "there"
            )

    def _note_program(self) -> None:
        if self._target.program and program(self._target, self._host) is None:
            self._notes.append(f"{self._target.program} is not on your PATH")


def _text(seen: Seen) -> str | None:
    try:
        return None if seen.data is None else seen.data.decode("utf-8")
    except UnicodeDecodeError:
        raise BadValue("it is not UTF-8") from None


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8")


# ------------------------------------------------------------ apply


class Report(Value):
    """What was done, and what was left as it is."""

    done: tuple[Change, ...]
    left: tuple[Left, ...]


def apply(plan: Plan) -> Report:
    """Change the files. Each is replaced whole, and only if it still is as the plan saw it."""
    done, left = [], list(plan.left)
    for change in plan.changes:
        try:
            replace(change.seen, change.after, runs=change.runs)
        except Unusable as error:
            left.append(Left(change.path, str(error), full=isinstance(error, NoSpace)))
            continue
        done.append(change)
        if change.after is None:
            prune_directories(change.path.parent, change.keep)
    return Report(tuple(done), tuple(left))
