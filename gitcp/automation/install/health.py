"""Whether everything is in place: what is installed, what is enabled where, whether hooks ran, what
to type next.

Looks only. Agents are asked for their version, nothing else of theirs is run.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from gitcp.automation.install import plan
from gitcp.automation.install.agents import TARGETS, Target, home, program
from gitcp.automation.install.plan import Scope
from gitcp.errors import GitcpError, Refused
from gitcp.git import process, shared, verify
from gitcp.git.fsync import open_own
from gitcp.history import sessions
from gitcp.model import Host
from gitcp.policy import events
from gitcp.saving import quarantine
from gitcp.state import journal
from gitcp.store import Store
from gitcp.value import Value

SHOWN = 5
TAIL = 1 << 16
PATIENCE = 20

CURRENT, OLD, NO = "yes", "old", "no"

LEAST_GIT = (2, 31)
"""The first git that has all options which gitcp uses; the newest is `rev-list --disk-usage`."""


class Problem(Value):
    """Something that is not as it should be, and what to type next."""

    what: str
    hint: str


class AgentHealth(Value):
    """One agent: its program and version, whether it is enabled here and at home, and when a hook
    of it last saved.
    """

    target: Target
    program: str | None
    version: str | None
    project: str
    user: str
    last_hook: datetime | None


class StoreHealth(Value):
    """The repository's store: how much is in it, and whether a restore was interrupted."""

    root: Path
    sessions: int
    checkpoints: int
    unfinished: bool


class Health(Value):
    """Everything that was looked at. `store` is None where there is no repository, `log` the hooks'
    last errors.
    """

    program: str | None
    git: str | None
    agents: tuple[AgentHealth, ...]
    store: StoreHealth | None
    log: tuple[str, ...]
    problems: tuple[Problem, ...]


def examine(store: Store | None, host: Host) -> Health:
    """Look at everything. Raises nothing that is expected to go wrong: that is a problem, and
    listed.
    """
    problems: list[Problem] = []
    gitcp = shutil.which("gitcp", path=host.env.get("PATH", os.defpath))
    if gitcp is None:
        problems.append(
            Problem(
                "gitcp is not on your PATH: hooks cannot call it",
                "put the directory that gitcp is in on PATH",
            )
        )
    git = _version(shutil.which("git", path=host.env.get("PATH", os.defpath)), host)
    if git is not None and _is_old(git):
        least = ".".join(map(str, LEAST_GIT))
        problems.append(
            Problem(
                f"{git} is older than {least}: some commands fail", f"install git {least} or later"
            )
        )
    agents = tuple(_agents(store, host))
    for agent in agents:
        problems += _agent_problems(agent, store, host)
    found = None if store is None else _store(store, problems)
    return Health(gitcp, git, agents, found, () if store is None else _log(store), tuple(problems))


def _is_old(git: str) -> bool:
    """Whether what git says of its version is below what gitcp needs; what says nothing of one is
    not.
    """
    found = re.search(r"(\d+)\.(\d+)", git)
    return found is not None and (int(found[1]), int(found[2])) < LEAST_GIT


def _agents(store: Store | None, host: Host) -> Iterator[AgentHealth]:
    """The agents with hooks that are installed, or that something of gitcp's is set up for."""
    for target in (target for target in TARGETS if not target.asked):
        found = program(target, host)
        project = NO if store is None else _state(target, Scope(store.repo.root, user=False), host)
        user = _state(target, Scope(None, user=True), host)
        if found or (project, user) != (NO, NO) or home(target, host).is_dir():
            yield AgentHealth(
                target, found, _version(found, host), project, user, _last_hook(target, store)
            )


def _state(target: Target, scope: Scope, host: Host) -> str:
    """Whether an agent is enabled in a scope, and as this gitcp would do it."""
    if not plan.disable((target,), scope, host).changes:
        return NO
    return OLD if plan.enable((target,), scope, host).changes else CURRENT


def _agent_problems(agent: AgentHealth, store: Store | None, host: Host) -> Iterator[Problem]:
    name, title = agent.target.name, agent.target.title
    for state, option in ((agent.project, ""), (agent.user, " --user")):
        if state == OLD:
            yield Problem(
                f"{title}: what is set up is not what this gitcp sets up",
                f"gitcp enable {name}{option}",
            )
    if NO not in (agent.project, agent.user):
        yield Problem(
            f"{title} is enabled here and at home: each hook runs twice", f"gitcp disable {name}"
        )
    scopes = [Scope(None, user=True)] if agent.user != NO else []
    scopes += (
        [Scope(store.repo.root, user=False)] if store is not None and agent.project != NO else []
    )
    for scope in scopes:
        for left in plan.enable((agent.target,), scope, host).left:
            yield Problem(f"{title}: {left.path}: {left.why}", f"mend {left.path}")


def _last_hook(target: Target, store: Store | None) -> datetime | None:
    if store is None:
        return None
    directory = store.repo.git_dir / "gitcp" / events.HOOKED
    times = [0.0]
    with contextlib.suppress(OSError):
        for path in directory.iterdir():
            if path.name.startswith(f"{events.AGENTS.get(target.name, target.name)}."):
                times.append(path.stat().st_mtime)
    return datetime.fromtimestamp(max(times), UTC) if max(times) else None


def _store(store: Store, problems: list[Problem]) -> StoreHealth:
    hidden = verify.unshared(store.repo)
    if hidden is not None:
        problems.append(
            Problem(
                f"{hidden.place} {hidden.what}", shared.fix(store.repo.common_dir / hidden.place)
            )
        )
    try:
        found, damaged = sessions.listing(store)
    except Refused as error:
        problems.append(Problem(str(error), error.hint))
        found, damaged = (), ()
    problems += [
        Problem(f"session {name} cannot be read: {error}", "gitcp check") for name, error in damaged
    ]
    problems += [
        Problem(line, "gitcp check  (gitcp prune removes it from the trash)")
        for line in quarantine.pending(store)
    ]
    unfinished = False
    try:
        unfinished = journal.unfinished(store.repo) is not None
    except GitcpError as error:
        problems.append(Problem(str(error), error.hint))
    if unfinished:
        problems.append(
            Problem("a restore was interrupted here", "gitcp restore --continue  (or --abort)")
        )
    return StoreHealth(
        store.repo.root, len(found), sum(session.count for session in found), unfinished
    )


def _log(store: Store) -> tuple[str, ...]:
    """The last lines of what went wrong in hooks."""
    try:
        with open(open_own(store.repo.git_dir / "gitcp" / events.LOG), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            return tuple(file.read().decode("utf-8", "replace").splitlines()[-SHOWN:])
    except OSError:
        return ()


def _version(path: str | None, host: Host) -> str | None:
    """What a program says of its version, in one line; None if it says nothing in time."""
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, "--version"],
            env=process.scrubbed(host.env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=PATIENCE,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = done.stdout.decode("utf-8", "replace").strip().splitlines()
    return said[0] if said and done.returncode == 0 else None
