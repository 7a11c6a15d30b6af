"""Plan what setting up or removing an agent changes, file by file, and apply it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from copy import copy
from pathlib import Path

from gitcp.agents import KNOWN, KnownAgent, Piece
from gitcp.automation.install import command, files, scripts, shipped, targets, trust
from gitcp.automation.install.files import (
    FileState,
    NoSpace,
    Unusable,
    appended,
    cut,
    prune_directories,
    read_state,
    replace,
)
from gitcp.automation.install.targets import GIT, home, program
from gitcp.errors import BadValue
from gitcp.model import Host
from gitcp.value import Value

TRUST = "config.toml"
MARK = b"gitcp"
INSTALLED = b"installed by gitcp enable"
"""In gitcp's slash commands. Your own may mention gitcp too."""

NOT_RESUMED = (
    "its conversations are saved, but not restored into it: gitcp resume --with claude "
    "continues one"
)
SECTION = re.compile(r"(?ms)^(?:\r?\n)?<!-- gitcp: begin.*?<!-- gitcp: end -->[ \t]*(?:\r?\n|\Z)")


class Scope(Value):
    """Where agents are set up: in the project at `root`, or (`user`) in the
    home directory, for all projects.

    `hooks` is git's hooks directory of the project, None if other projects share it.
    """

    root: Path | None
    user: bool
    hooks: Path | None = None


class InstallChange(Value):
    """One file to change: its current state, and its new content (None: it is removed).

    Directories that become empty are removed, except `keep` and above. `runs` makes it executable.
    """

    path: Path
    seen: FileState
    after: bytes | None
    keep: Path
    runs: bool = False

    @property
    def kind(self) -> str:
        if self.after is None:
            return "removed"
        return "new" if self.seen.data is None else "changed"


class Left(Value):
    """A file that is not changed, and why; `full` if because the disk is full."""

    path: Path
    why: str
    full: bool = False


class AgentPlan(Value):
    """The changes for one agent, the files that cannot be changed, and notes for the user."""

    target: KnownAgent
    changes: tuple[InstallChange, ...]
    left: tuple[Left, ...]
    notes: tuple[str, ...]


class InstallPlan(Value):
    """The changes, by agent."""

    scope: Scope
    steps: tuple[AgentPlan, ...]

    @property
    def changes(self) -> tuple[InstallChange, ...]:
        return tuple(change for step in self.steps for change in step.changes)

    @property
    def left(self) -> tuple[Left, ...]:
        return tuple(left for step in self.steps for left in step.left)


def enable(targets: tuple[KnownAgent, ...], scope: Scope, host: Host) -> InstallPlan:
    """Plan the installation. Raises BadValue for an agent that is not supported in this scope."""
    return InstallPlan(
        scope, tuple(_Planner(target, scope, host, on=True).step() for target in targets)
    )


def disable(targets: tuple[KnownAgent, ...], scope: Scope, host: Host) -> InstallPlan:
    """Plan the removal, for agents that have anything installed.

    Raises BadValue for an agent that is not supported in this scope.
    """
    steps = (_Planner(target, scope, host, on=False).step() for target in targets)
    return InstallPlan(scope, tuple(step for step in steps if step.changes or step.left))


def is_enabled(target: KnownAgent, scope: Scope, host: Host) -> bool:
    """Return whether anything of gitcp's is set up for an agent."""
    return bool(disable((target,), scope, host).changes)


def enabled(root: Path | None, host: Host) -> tuple[KnownAgent, ...]:
    """Return the agents whose hooks are installed, in the project at `root`, for the user, or as
    a plugin.
    """
    scopes = [Scope(None, user=True), *([Scope(root, user=False)] if root is not None else [])]
    with_hooks = (target for target in KNOWN if target.hooks.events)
    return tuple(
        target
        for target in with_hooks
        if any(is_enabled(_only_hooks(target), scope, host) for scope in scopes)
        or targets.has_plugin(target, root, host)
    )


def _only_hooks(target: KnownAgent) -> KnownAgent:
    """Return an agent with the first of its pieces, its hooks. To look for all takes 50 ms."""
    hooks = copy(target)
    hooks.pieces = target.pieces[:1]
    return hooks


class Silent(Value):
    """Why an agent that is enabled saves nothing where somebody works, and what helps."""

    what: str
    hint: str


def silent(root: Path | None, cwd: Path, host: Host) -> Iterator[Silent]:
    """Yield the agents that are enabled, for the project at `root` or for the user, and would run
    no hooks if they were started in `cwd`. Of other agents only the settings are read.
    """
    user = Scope(None, user=True)
    for target in KNOWN:
        off = targets.off(target, root, host)
        below = root is not None and target.reads_start and cwd != root
        unread = "" if root is None else targets.unread(target, root, host)
        if off is None and not below and not unread:
            continue
        hooks = _only_hooks(target)
        for_user = is_enabled(hooks, user, host) or targets.has_plugin(target, root, host)
        in_project = root is not None and is_enabled(hooks, Scope(root, user=False), host)
        if off is not None and (for_user or in_project):
            yield Silent(f"{target.title} {off.reason}", off.hint)
        elif unread and in_project and not for_user:
            yield Silent(
                f"{target.title} runs no hooks of this project, so nothing is saved: {unread}",
                f"gitcp enable {target.command} --user",
            )
        elif (
            below
            and in_project
            and not for_user
            and not is_enabled(hooks, Scope(cwd, user=False), host)
        ):
            yield Silent(
                f"{target.title} saves nothing if it is started in {cwd}: it reads a project's "
                f"settings only where it is started, and they are in {root}",
                f"gitcp enable {target.command} --user",
            )


def directory(target: KnownAgent, scope: Scope, host: Host) -> Path:
    """Return the agent's directory in a scope. Raises BadValue if it has none."""
    if scope.user:
        if not target.home:
            raise BadValue(
                f"{target.title} can only be enabled in a project",
                hint=f"gitcp enable {target.command}",
            )
        return home(target, host)
    if target == GIT:
        if scope.hooks is None:
            raise BadValue(
                "git's hooks directory (core.hooksPath) is outside this project and shared with "
                "other projects"
            )
        return scope.hooks
    assert scope.root is not None
    return scope.root / target.project


class _Planner:
    """Plans one agent: installs if `on`, else removes everything of gitcp's."""

    def __init__(self, target: KnownAgent, scope: Scope, host: Host, *, on: bool) -> None:
        self._target, self._scope, self._host, self._on = target, scope, host, on
        self._base = directory(target, scope, host)
        self._within = None if scope.user or target == GIT else scope.root
        self._changes: list[InstallChange] = []
        self._left: list[Left] = []
        self._notes: list[str] = []

    def step(self) -> AgentPlan:
        pieces = (each for each in self._target.pieces if not (each.local and self._scope.user))
        for piece in pieces:
            for name in shipped.below(piece.source):
                if name not in piece.without:
                    self._plan(piece, name)
        is_saved = bool(self._target.transcripts.package)
        if self._on and self._target.note and not (self._scope.user and is_saved):
            self._notes.append(self._target.note)
        if self._on and is_saved and not self._target.transcripts.resumes:
            self._notes.append(NOT_RESUMED)
        if self._on and self._target.reads_start and not self._scope.user:
            name = self._target.command
            self._notes.append(
                f"does not read this if started in a subdirectory: gitcp enable {name} --user"
            )
        if self._on:
            self._note_program()
            self._note_switch()
        return AgentPlan(self._target, tuple(self._changes), tuple(self._left), tuple(self._notes))

    def _plan(self, piece: Piece, name: str) -> None:
        content, ending = shipped.rewritten(
            piece.form, shipped.read(f"{piece.source}/{name}".rstrip("/"))
        )
        path = self._base / piece.target / name
        path = path.with_suffix(ending) if ending else path
        try:
            seen = read_state(path, self._within)
            if piece.shared and seen.data is not None and INSTALLED not in seen.data:
                if self._on:
                    self._notes.append(f"kept your own /{path.stem}; gitcp's has the prefix gitcp")
                return
            after = {
                "merge": self._merge,
                "copy": self._copy,
                "section": self._section,
                "script": self._script,
            }[piece.how](seen, content)
        except (BadValue, Unusable) as error:
            self._left.append(Left(path, str(error)))
            return
        self._change(path, seen, after, runs=piece.how == "script")
        if self._target.trusting and piece.how == "merge":
            self._trust(path, after)

    def _change(
        self, path: Path, seen: FileState, after: bytes | None, *, runs: bool = False
    ) -> None:
        if after != seen.data:
            self._changes.append(InstallChange(path, seen, after, self._within or self._base, runs))

    def _merge(self, seen: FileState, content: bytes) -> bytes | None:
        text = _text(seen)
        if text is not None and not text.strip():
            raise BadValue("the file is empty, which is not valid JSON; write {} to it")
        if not self._on:
            return _bytes(files.removed(text, self._target.command) or None) if text else None
        wanted, version = files.groups(content), files.version(content)
        return _bytes(files.merged(text or "", wanted, self._target.command, version))

    def _copy(self, seen: FileState, content: bytes) -> bytes | None:
        if seen.data is not None and MARK not in seen.data:
            raise BadValue("not created by gitcp")
        return content if self._on else None

    def _section(self, seen: FileState, content: bytes) -> bytes | None:
        text = _text(seen)
        bare = None if text is None else cut(text, SECTION, lambda _: True)
        if bare is not None and "<!-- gitcp: begin" in bare:
            raise BadValue(
                "the end marker of gitcp's section is missing; fix or remove the section"
            )
        return _bytes(appended(bare, content.decode("utf-8")) if self._on else bare)

    def _script(self, seen: FileState, content: bytes) -> bytes | None:
        text, script = _text(seen), content.decode("utf-8")
        if not self._on:
            return _bytes(scripts.removed(text, script)) if text is not None else None
        if text is not None and not os.access(seen.target, os.X_OK) and text.startswith("#!"):
            raise BadValue("not executable, so git does not run it; chmod +x it, or remove it")
        return _bytes(scripts.merged(text, script))

    def _trust(self, hooks: Path, after: bytes | None) -> None:
        """Add the hooks' digests to Codex's configuration: it runs only trusted hooks."""
        path = home(self._target, self._host) / TRUST
        key = str(hooks)
        try:
            seen = read_state(path, None)
            text = _text(seen)
            if not self._on:
                updated = trust.distrusted(text, key)
            else:
                assert after is not None
                updated = trust.trusted(
                    text, trust.needed(after.decode("utf-8"), key, self._target.command), key
                )
        except (BadValue, Unusable) as error:
            self._left.append(Left(path, str(error)))
            return
        self._change(path, seen, _bytes(updated))
        if (
            self._on
            and not self._scope.user
            and not trust.project_trusted(updated or "", str(self._scope.root))
        ):
            self._notes.append(
                "runs a project's hooks only if you trust the project; it asks when started there"
            )

    def _note_switch(self) -> None:
        off = targets.off(self._target, self._scope.root, self._host)
        if off is not None:
            self._notes.append(off.reason)

    def _note_program(self) -> None:
        if self._target.program and program(self._target, self._host) is None:
            self._notes.append(f"{self._target.program} is not on your PATH")
        if warning := command.only_here(self._host):
            self._notes.append(warning)


def _text(seen: FileState) -> str | None:
    try:
        return None if seen.data is None else seen.data.decode("utf-8")
    except UnicodeDecodeError:
        raise BadValue("not UTF-8") from None


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8")


# ------------------------------------------------------------ apply


class InstallReport(Value):
    """What was changed, and what was not."""

    done: tuple[InstallChange, ...]
    left: tuple[Left, ...]


def apply(plan: InstallPlan) -> InstallReport:
    """Change the files, each atomically and only if it is as the plan saw it."""
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
    return InstallReport(tuple(done), tuple(left))
