"""`gitcp doctor`."""

from __future__ import annotations

import click

from gitcp import __version__, discovery, documents, humanize, wire
from gitcp.adopting.sweeps import Sweep, due
from gitcp.automation.install.health import AgentHealth, Health, examine
from gitcp.cli import deletions
from gitcp.cli.context import Context
from gitcp.cli.failure import end
from gitcp.cli.options import Command, json_option
from gitcp.cli.output import DIM, GREEN, RED, YELLOW, Styled
from gitcp.errors import GitcpError, RepositoryNotFound
from gitcp.state import hook_failures
from gitcp.store import Store
from gitcp.wire import Json


@click.command(cls=Command)
@json_option
@click.pass_obj
def command(context: Context, *, as_json: bool) -> None:
    """Check the installation, or every checkpoint

    Shows where agents are enabled, when a hook last saved here, recent errors of hooks, and what to
    run next. Changes nothing. Exit code 1: there is a problem.

      gitcp doctor
      gitcp doctor --store
      gitcp doctor --state
    """
    context.shows_faults = True
    store, error = _opened(context)
    health = examine(store, context.cwd, context.host, _failing(context), error)
    soon = _due(context, store)
    if as_json:
        deleted = deletions.fields(soon)
        fields = {**_fields(health), "deleted_soon": deleted}
        context.output.document(documents.document("doctor", fields))
    else:
        _print(context, health, soon)
    end(1 if health.problems else 0)


def _opened(context: Context) -> tuple[Store | None, GitcpError | None]:
    """Return the store, or why there is none; neither outside a repository."""
    try:
        return context.store, None
    except RepositoryNotFound as error:
        directory = str(context.cwd)
        is_broken = discovery.discover(directory) or discovery.unusable(directory)
        return None, error if is_broken else None
    except GitcpError as error:
        return None, error


def _failing(context: Context) -> hook_failures.Failing | None:
    """Return the failed saves of hooks here, also where the repository cannot be opened."""
    directory, host = str(context.cwd), context.host
    root, git_dir = discovery.discover(directory) or (discovery.unusable(directory), "")
    files = hook_failures.places(root, git_dir, host.env, str(host.home)) if root else ()
    return hook_failures.read(files)


def _due(context: Context, store: Store | None) -> tuple[Sweep, ...]:
    try:
        return due(store, context.cwd, context.host) if store else ()
    except GitcpError:
        return ()  # git does not work, which is among the problems


def _print(context: Context, health: Health, soon: tuple[Sweep, ...]) -> None:
    from gitcp.cli.table import TableColumn, show  # only for a table

    line = context.output.line
    line(f"gitcp {__version__}, ", health.git or "no git")
    if health.store is None:
        line("no repository here")
    else:
        sessions, checkpoints = health.store.sessions, health.store.checkpoints
        line(
            f"{humanize.count(sessions, 'session')}, {humanize.count(checkpoints, 'checkpoint')} "
            f"in {health.store.root}"
        )
    if health.agents:
        names = ("agent", "version", "project", "user", "last hook save")
        show(
            context.output,
            tuple(map(TableColumn, names)),
            (_row(context, agent) for agent in health.agents),
        )
    else:
        line("no agent with hooks is installed")
    for logged in health.log:
        line(Styled("hook.log  ", DIM), logged)
    for note in health.notes:
        line("note  ", note)
    for warning in deletions.lines(soon, context.host.now()):
        line("note  ", warning)
    for problem in health.problems:
        line(Styled("problem  ", RED), problem.what)
        line("         ", Styled(problem.hint, YELLOW))
    if not health.problems:
        line(Styled("no problems", GREEN), _next(health))


def _row(context: Context, agent: AgentHealth) -> tuple[str, ...]:
    saved = humanize.ago(agent.last_hook, context.host.now()) if agent.last_hook else "never"
    return agent.target.title, agent.version or "not on PATH", agent.project, agent.user, saved


def _next(health: Health) -> str:
    """Return a hint if there is no problem but no agent is enabled either."""
    if not health.agents or any(
        agent.project != "no" or agent.user != "no" for agent in health.agents
    ):
        return ""
    return "; no agent is enabled: gitcp enable"


def _fields(health: Health) -> Json:
    store = health.store
    return {
        "version": __version__,
        "program": health.program,
        "git": health.git,
        "repository": None if store is None else str(store.root),
        "sessions": store.sessions if store else 0,
        "checkpoints": store.checkpoints if store else 0,
        "unfinished": bool(store and store.unfinished),
        "unknown": [each.to_json() for each in store.unknown] if store else [],
        "agents": [
            {
                "agent": agent.target.command,
                "program": agent.program,
                "version": agent.version,
                "project": agent.project,
                "user": agent.user,
                "last_hook": wire.encode_time(agent.last_hook) if agent.last_hook else None,
            }
            for agent in health.agents
        ],
        "log": list(health.log),
        "problems": [{"what": problem.what, "hint": problem.hint} for problem in health.problems],
        "notes": list(health.notes),
    }
