"""Check the installation: programs, enabled agents, hook errors, the store; suggest what to run
next.

Reads only. Agents are only asked for their version.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

from gitcp import adapters, clock, humanize, installed
from gitcp.adapters.base import Found
from gitcp.agents import KNOWN, KnownAgent
from gitcp.automation.install import command, plan, targets, trial
from gitcp.automation.install.plan import Scope
from gitcp.automation.install.targets import home, program
from gitcp.automation.watching import inotify
from gitcp.errors import GitcpError, GitFailed, Refused
from gitcp.fastpath import watched
from gitcp.git import process, shared, verify, worktrees
from gitcp.git.fsync import open_own
from gitcp.history import sessions
from gitcp.history.sessions import UnknownRecords
from gitcp.model import RESERVED, Host
from gitcp.policy import events
from gitcp.restoring import placing
from gitcp.saving import quarantine
from gitcp.saving import session as session_op
from gitcp.sharing import push_queue
from gitcp.state import journal, push_policy, settings, state_commands
from gitcp.state.hook_failures import Failing
from gitcp.store import METADATA, Store
from gitcp.value import Value, replace

FORMAT = "--format=%(objectname) %(*objectname) %(refname)"
SENT = {"refs/heads/": "git push --all", "refs/tags/": "git push --tags"}
"""Where git's own refs are, and what sends all of them."""

MOST = 20

SHOWN = 5
TAIL = 1 << 16
PATIENCE = 20
MOST_SESSIONS = 20
"""Sessions whose conversations are looked through."""

CURRENT, OLD, NO, PLUGIN = "yes", "old", "no", "plugin"

LEAST_FREE = 64 << 20
"""Bytes that must be free where checkpoints are."""

LARGE = 64 << 10
"""Minimum size in bytes of a transcript that must have a message."""

NEWER = "a newer gitcp may know them: "

LEAST_GIT = (2, 31)
"""The oldest git with all options that gitcp uses; the newest option is `rev-list --disk-usage`."""


class Problem(Value):
    """A problem, and a command that helps."""

    what: str
    hint: str


class AgentHealth(Value):
    """One agent: program and version, whether it is enabled in the project and for the
    user, and when a hook last saved.
    """

    target: KnownAgent
    program: str | None
    version: str | None
    project: str
    user: str
    last_hook: datetime | None


class StoreHealth(Value):
    """The repository's store: its size, whether a restore was interrupted, and the agents' records
    that gitcp does not know.
    """

    root: Path
    sessions: int
    checkpoints: int
    unfinished: bool
    unknown: tuple[UnknownRecords, ...] = ()


class Health(Value):
    """The result of all checks. `store` is None outside a repository, `log` has the hooks' last
    errors.
    """

    program: str | None
    git: str | None
    agents: tuple[AgentHealth, ...]
    store: StoreHealth | None
    log: tuple[str, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]


def examine(
    store: Store | None,
    cwd: Path,
    host: Host,
    failing: Failing | None = None,
    error: GitcpError | None = None,
) -> Health:
    """Check everything, for an agent started in `cwd`. Expected failures are not raised but listed
    as problems.

    `failing` are the failed saves of hooks, `error` is why the repository cannot be opened.
    """
    gitcp = command.on_path(host)
    git_path = shutil.which("git", path=host.env.get("PATH", os.defpath))
    git = _version(git_path, host)
    errors = (failing, None if git_path is None else error)  # without git it says no more
    problems = [Problem(str(each), each.hint) for each in errors if each is not None]
    problems += _program_problems(gitcp, git_path, git)
    agents = tuple(_agents(store, host))
    for agent in agents:
        problems += _agent_problems(agent, store, host, gitcp)
    root = None if store is None else store.repo.root
    problems += (Problem(each.what, each.hint) for each in plan.silent(root, cwd, host))
    problems += (Problem(what, hint) for what, hint in adapters.problems(host))
    notes: list[str] = []
    store_health = None if store is None else _in_store(store, agents, problems, notes)
    warning = command.only_here(host)
    return Health(
        program=gitcp,
        git=git,
        agents=agents,
        store=store_health,
        log=() if store is None else _log(store),
        problems=tuple(problems),
        notes=tuple(filter(None, (warning, *notes))),
    )


def _program_problems(
    gitcp: str | None, git_path: str | None, git: str | None
) -> Iterator[Problem]:
    if gitcp is None:
        yield Problem("gitcp is not on your PATH, so no agent can run it", command.fix())
    if git_path is None:
        yield Problem("git is not on your PATH; most commands and hooks fail", "install git")
    elif git is None:
        yield Problem(f"{git_path} does not work; most commands and hooks fail", "git --version")
    elif _is_old(git):
        least = ".".join(map(str, LEAST_GIT))
        yield Problem(
            f"{git} is older than {least}; some commands will fail",
            f"install git {least} or later",
        )


def _in_store(
    store: Store, agents: Iterable[AgentHealth], problems: list[Problem], notes: list[str]
) -> StoreHealth | None:
    """Return the state of the store, and list what is broken in it and around it."""
    health = None
    with _listing(problems):
        health = _store(store, problems)
    with _listing(problems):
        problems += _not_understood(store)
    with _listing(problems):
        problems += _full(store)
    with _listing(problems):
        problems += _all_off(store, agents)
    with _listing(problems):
        problems += _states(store)
    with _listing(problems):
        problems += _not_pushed(store)
    with _listing(problems):
        notes += _uncovered(agents, store, store.repo.host)
    with _listing(problems):
        notes += _watched(store)
    with _listing(problems):
        unknown = tuple(sessions.unknown(store))
        notes += (f"{each}; {NEWER}{installed.upgrade()}" for each in unknown)
        health = replace(health, unknown=unknown) if health is not None else None
    with _listing(problems):
        notes += _only_here(store)
    with _listing(problems):
        problems += (Problem(what, hint) for what, hint in _outside_refs(store))
    problems += (Problem(fault.what, fault.hint) for fault in store.repo.faults)
    return health


@contextlib.contextmanager
def _listing(problems: list[Problem]) -> Iterator[None]:
    """List an error as a problem, and go on: whoever looks for what is broken needs all of it."""
    try:
        yield
    except (GitcpError, OSError) as error:
        problems.append(Problem(str(error), getattr(error, "hint", "")))


def _not_understood(store: Store) -> Iterator[Problem]:
    """Yield each agent whose newest transcript of this directory is large and has no message that
    gitcp can read, probably since it has another format.
    """
    newest: dict[str, Found] = {}
    for conversation in adapters.find_all(store.repo.root, store.repo.host):
        newest.setdefault(conversation.agent, conversation)
    for conversation in newest.values():
        is_large = os.path.isfile(conversation.path) and conversation.path.stat().st_size >= LARGE
        if is_large and adapters.last_message(conversation) is None:
            yield Problem(
                f"gitcp finds no message in {conversation.path}, of {conversation.agent}: the "
                "format may be newer than this gitcp, which saves the file as it is",
                installed.upgrade(),
            )


def _full(store: Store) -> Iterator[Problem]:
    """Yield that there is hardly any room for checkpoints."""
    free = shutil.disk_usage(store.repo.common_dir).free
    if free < LEAST_FREE:
        yield Problem(
            f"{humanize.size(free)} left on the disk of {store.repo.common_dir}: saves may fail",
            "gitcp sessions --size",
        )


def _all_off(store: Store, agents: Iterable[AgentHealth]) -> Iterator[Problem]:
    """Yield that the settings let no hook save, if agents are enabled."""
    off = settings.policy(store.repo, []).off
    is_enabled = any((each.project, each.user) != (NO, NO) for each in agents)
    if is_enabled and off >= settings.SECTIONS["triggers"].keys():
        yield Problem(
            "hooks save nothing: the settings turn off every trigger",
            f"git config {settings.in_git('triggers', 'turn')} true",
        )


def _not_pushed(store: Store) -> Iterator[Problem]:
    """Yield each remote that was to get checkpoints in the background, and gets none."""
    for state in push_queue.states(store):
        if state.problem:
            name = state.consent.remote
            yield Problem(f"no checkpoints are pushed to {name}: {state.why}", state.command)


def _only_here(store: Store) -> Iterator[str]:
    """Yield that checkpoints are in the git directory only, which agents delete now and then."""
    if store.sessions() and not push_policy.listing(store.repo):
        yield (
            f"no remote gets checkpoints by itself: what deletes {store.repo.common_dir} deletes "
            "them, too: gitcp remote add NAME --push always"
        )


def _states(store: Store) -> Iterator[Problem]:
    """Yield each state outside the files whose command is not run, is not there, or failed last."""
    name = session_op.current(store, None)
    tip = store.tip(name) if name else None
    last = store.read(tip).states if tip else None
    failed = {state.name: state.missing for state in (last.each if last else ()) if state.missing}
    for each in state_commands.listing(store.repo):
        setting = f"git config --global {state_commands.PREFIX}{each.name}.save COMMAND"
        if each.refused:
            shown = "git config --show-origin --get-regexp '^gitcp[.]state[.]'"
            yield Problem(
                f"state {each.name!r}: {each.refused}",
                state_commands.ALLOW if each.allowable else shown,
            )
        elif not each.save:
            yield Problem(f"state {each.name}: no command saves it", setting)
        elif missing := state_commands.missing_program(store.repo, each.save):
            yield Problem(f"state {each.name} cannot be saved: no program {missing!r}", setting)
        elif each.name in failed:
            why = failed[each.name]
            yield Problem(f"state {each.name} was not saved last: {why}", "gitcp doctor --state")


def _watched(store: Store) -> Iterator[str]:
    """Yield what watches the working tree, and whether `gitcp watch` could watch all of it."""
    git_dir = str(store.repo.git_dir)
    # What is remembered of a watcher outlives it: `doctor` said days later that it watches.
    known, answer = watched.load(git_dir), watched.ask(git_dir, watched.NO_TOKEN)
    if answer is not None:
        is_doubted = (
            known is not None
            and known.missed is not None
            and watched.instance(known.token) == watched.instance(answer.token)
        )
        trust = ", not trusted: it did not report a change" if is_doubted else ""
        yield f"the files are watched by {watched.WATCHER}{trust}"
    most = inotify.most_watches()
    tracked = store.repo.git("ls-files", "-z").split(b"\0") if most is not None else []
    directories = len({path.rpartition(b"/")[0] for path in tracked})
    if most is not None and directories > most:
        yield (
            f"gitcp watch cannot watch {directories:,} directories, the system allows {most:,}: "
            f"{inotify.RAISE}"
        )


def _is_old(git: str) -> bool:
    """Return whether git's version output is below the minimum; False if it has no version."""
    match = re.search(r"(\d+)\.(\d+)", git)
    return match is not None and (int(match[1]), int(match[2])) < LEAST_GIT


def _agents(store: Store | None, host: Host) -> Iterator[AgentHealth]:
    """Yield the agents with hooks that are installed, or that gitcp is set up for."""
    root = None if store is None else store.repo.root
    for target in (target for target in KNOWN if target.hooks.events):
        path = program(target, host)
        project = NO if store is None else _state(target, Scope(store.repo.root, user=False), host)
        user = _state(target, Scope(None, user=True), host)
        if user == NO and targets.has_plugin(target, root, host):
            user = PLUGIN
        if path or (project, user) != (NO, NO) or os.path.isdir(home(target, host)):
            yield AgentHealth(
                target, path, _version(path, host), project, user, _last_hook(target, store)
            )


def _state(target: KnownAgent, scope: Scope, host: Host) -> str:
    """Return whether an agent is enabled in a scope, and with this version's files."""
    if not plan.is_enabled(target, scope, host):
        return NO
    return OLD if plan.enable((target,), scope, host).changes else CURRENT


def _agent_problems(
    agent: AgentHealth, store: Store | None, host: Host, gitcp: str | None
) -> Iterator[Problem]:
    name, title = agent.target.command, agent.target.title
    scopes = [Scope(None, user=True)] if agent.user in (CURRENT, OLD) else []
    if store is not None and agent.project != NO:
        scopes.append(Scope(store.repo.root, user=False))
    yield from _hook_problems(agent, scopes, host, tried=gitcp is not None)
    if NO not in (agent.project, agent.user):
        where = "as a plugin" if agent.user == PLUGIN else "for the user"
        yield Problem(
            f"{title} is enabled in the project and {where}; each hook runs twice",
            f"gitcp disable {name}",
        )
    for scope in scopes:
        for left in plan.enable((agent.target,), scope, host).left:
            yield Problem(f"{title}: {left.path}: {left.why}", f"fix {left.path}")


def _hook_problems(
    agent: AgentHealth, scopes: Iterable[Scope], host: Host, *, tried: bool
) -> Iterator[Problem]:
    """Yield the hooks that do not reach gitcp, if they are `tried`, and those of another version,
    by scope.
    """
    name, title = agent.target.command, agent.target.title
    for scope in scopes:
        repair = f"gitcp enable {name}{' --user' * scope.user}"
        failed = trial.failed(agent.target, scope, host) if tried else None
        if failed is not None:
            yield Problem(
                f"{title} saves nothing: its hook in {failed.path} does not reach gitcp: "
                f"{failed.why}",
                command.fix() if failed.hook.startswith(command.NAME) else repair,
            )
        elif (agent.user if scope.user else agent.project) == OLD:
            yield Problem(f"{title}: hooks of another gitcp version are installed", repair)
    if not tried:
        return
    failed = trial.failed(agent.target, None, host) if agent.user == PLUGIN else None
    if failed is not None:
        yield Problem(
            f"{title} saves nothing: the hooks of its plugin do not reach gitcp: {failed.why}",
            command.fix(),
        )
    server = trial.stale_server(agent.target, host)
    if server is not None and (agent.project, agent.user) != (NO, NO):
        yield Problem(
            f"{title}'s app server (process {server.pid}) was started with a PATH without gitcp: "
            "what it runs saves nothing",
            server.restart,
        )


def _uncovered(agents: Iterable[AgentHealth], store: Store, host: Host) -> Iterator[str]:
    """Yield a note for each agent that is enabled in the project, but not in all its worktrees: a
    new worktree has only what is committed.
    """
    trees = [tree for tree in worktrees.linked(store.repo) if tree.there]
    for agent in agents:
        if agent.project == NO or agent.user != NO:
            continue
        without = [
            tree.path
            for tree in trees
            if _state(agent.target, Scope(tree.path, user=False), host) == NO
        ]
        if without:
            more = f" and {len(without) - 1} more" if len(without) > 1 else ""
            yield (
                f"{agent.target.title} is not enabled in the worktree {without[0]}{more}; "
                f"`gitcp enable {agent.target.command} --user` covers all"
            )


def _last_hook(target: KnownAgent, store: Store | None) -> datetime | None:
    if store is None:
        return None
    directory = store.repo.git_dir / "gitcp" / events.HOOKED
    times = [0.0]
    with contextlib.suppress(OSError):
        for path in directory.iterdir():
            if path.name.startswith(f"{target.name}."):
                times.append(path.stat().st_mtime)
    return clock.local(max(times)) if max(times) else None


def _transcript_problems(store: Store, newest: tuple[sessions.Session, ...]) -> Iterator[Problem]:
    """Yield the conversations that their agents would refuse, or lose a part of."""
    for session in newest:
        what = placing.damage(store, session.last)
        if what:
            yield Problem(
                f"the conversation of {session.last.id} is damaged: {what}; a restore repairs its "
                "copy",
                f"gitcp resume {session.last.id}",
            )


def _store(store: Store, problems: list[Problem]) -> StoreHealth:
    unreadable = verify.unshared(store.repo)
    if unreadable is not None:
        problems.append(
            Problem(
                f"{unreadable.path} {unreadable.what}",
                shared.fix(store.repo.common_dir / unreadable.path),
            )
        )
    problems += _foreign(store)
    try:
        readable, damaged = sessions.listing(store)
    except Refused as error:
        problems.append(Problem(str(error), error.hint))
        readable, damaged = (), ()
    problems += [
        Problem(f"session {name} cannot be read: {error}", "gitcp doctor --store")
        for name, error in damaged
    ]
    problems += [
        Problem(f"{line}; gitcp delete --old removes it", "gitcp doctor --store")
        for line in quarantine.warnings(store)
    ]
    problems += _transcript_problems(store, readable[:MOST_SESSIONS])
    unfinished = False
    try:
        unfinished = journal.interrupted(store.repo) is not None
    except GitcpError as error:
        problems.append(Problem(str(error), error.hint))
    if unfinished:
        problems.append(
            Problem(
                "a restore was interrupted; gitcp restore --abort undoes it",
                "gitcp restore --continue",
            )
        )
    return StoreHealth(
        store.repo.root, len(readable), sum(session.count for session in readable), unfinished
    )


def _foreign(store: Store) -> Iterator[Problem]:
    """Yield what other users, root mostly, left in the repository of this user, whose saves fail
    there.
    """
    common_dir = store.repo.common_dir
    try:
        if os.stat(common_dir).st_uid != os.geteuid() or shared.of(common_dir):
            return
    except OSError:
        return
    objects = (path for path in (common_dir / "objects").glob("*") if path.is_dir())
    refs = (common_dir / "refs" / "gitcp", common_dir / "logs" / "refs" / "gitcp")
    places = dict.fromkeys((common_dir / "gitcp", store.repo.git_dir / "gitcp", *refs))
    foreign = [path for each in places for path in shared.foreign(each)]
    foreign += [str(path) for path in objects if path.stat().st_uid != os.geteuid()]
    shut = [path for path in foreign if not os.access(path, os.R_OK | os.W_OK)]
    if shut:
        others = f" (with {len(shut) - 1} others)" if len(shut) > 1 else ""
        yield Problem(
            f"{shut[0]}{others} belongs to another user: saves of {shared.user()} can fail",
            f"sudo chown -R {shared.user()} {shared.quoted(str(common_dir))}",
        )


def _log(store: Store) -> tuple[str, ...]:
    """Return the last errors of hooks."""
    try:
        with open(open_own(store.repo.git_dir / "gitcp" / events.LOG), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            return tuple(file.read().decode("utf-8", "replace").splitlines()[-SHOWN:])
    except OSError:
        return ()


def _version(path: str | None, host: Host) -> str | None:
    """Return the first line of `PROGRAM --version`; None if it fails or times out."""
    if path is None:
        return None
    try:
        result = subprocess.run(
            [path, "--version"],
            env=process.scrubbed(host.env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=PATIENCE,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = result.stdout.decode("utf-8", "replace").strip().splitlines()
    return lines[0] if lines and result.returncode == 0 else None


def _outside_refs(store: Store) -> Iterator[tuple[str, str]]:
    """Yield the branches and tags that name a checkpoint, in words, each with a command that
    removes it: git sends those refs like any other. `git fast-export --all | git fast-import`,
    which programs that rewrite history run, makes a tag `refs/tags/refs/gitcp/tags/NAME` of an
    annotated tag anywhere, so that `git push --tags` sends a conversation. Raises GitFailed.
    """
    refs = [line.split(b" ") for line in store.repo.git("for-each-ref", FORMAT, *SENT).splitlines()]
    path = RESERVED + b"/" + METADATA
    asked = b"".join(b"%s:%s\n" % (peeled or oid, path) for oid, peeled, _ in refs)
    if not refs:
        return
    answers = store.repo.git("cat-file", "--batch-check=%(objecttype)", input=asked).splitlines()
    if len(answers) != len(refs):
        raise GitFailed("git lists the branches and tags incompletely")
    named = [
        ref[2].decode("utf-8", "replace")
        for ref, is_ in zip(refs, answers, strict=True)
        if is_ == b"blob"
    ]
    for name in named[:MOST]:
        command = next(command for prefix, command in SENT.items() if name.startswith(prefix))
        yield (
            f"{name} names a checkpoint: {command} sends its files and conversation",
            f"git update-ref -d {shlex.quote(name)}",
        )
    if len(named) > MOST:
        yield f"{len(named) - MOST} more branches and tags name checkpoints", "git for-each-ref"
