"""Print the worktrees of a repository with their sessions, as a table or as JSON."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from gitcp import humanize, wire
from gitcp.cli import objects
from gitcp.cli.context import Context
from gitcp.cli.output import DIM, YELLOW
from gitcp.history.sessions import Session
from gitcp.history.worktrees import Presence, Worktree
from gitcp.worktree.paths import display


def document(context: Context, tree: Worktree) -> wire.Json:
    """Return the JSON document of one worktree."""
    base = tree.last.snapshot.base if tree.last else None
    fields: wire.Json = {
        "worktree": tree.name,
        "path": objects.path(tree.path),
        "state": tree.presence.value,
        "current": tree.path == context.store.repo.root,
        "locked": tree.locked,
        "branch": tree.branch,
        "base": base.commit if base else None,
        "unsaved": tree.unsaved,
        "sessions": [_session(each, tree) for each in tree.sessions],
    }
    return objects.document("worktree", fields)


def _session(session: Session, tree: Worktree) -> wire.Json:
    return {
        "session": session.name,
        "agent": objects.agent(session.last.agent),
        "running": session.name in tree.running,
        "title": session.title or None,
        "checkpoints": session.count,
        "last": str(session.last.id),
        "saved": wire.encode_time(session.last.created),
    }


def show(context: Context, trees: Iterable[Worktree]) -> None:
    """Print one row for each session, under its worktree, and for each worktree without any."""
    from gitcp.cli.table import Column
    from gitcp.cli.table import show as show_table

    columns = (
        Column(""),
        Column("worktree"),
        Column("state"),
        Column("branch", cut=True),
        Column("unsaved", right=True),
        Column("last", YELLOW),
        Column("agent", DIM),
        Column("saved"),
        Column("about", cut=True),
    )
    show_table(context.output, columns, (row for tree in trees for row in _rows(context, tree)))


def _rows(context: Context, tree: Worktree) -> Iterator[tuple[str, ...]]:
    here = "*" if tree.path == context.store.repo.root else ""
    unsaved = "" if tree.unsaved is None else str(tree.unsaved or "-")
    head = (here, _place(context, tree), _state(tree), tree.branch or "(detached)", unsaved)
    for session in tree.sessions or (None,):
        yield (*head, *_cells(context, session))
        head = ("", "", "", "", "")


def _cells(context: Context, session: Session | None) -> tuple[str, ...]:
    if session is None:
        return ("", "", "", "")
    agent = session.last.agent.name if session.last.agent else ""
    saved = humanize.ago(session.last.created, context.host.now())
    return (str(session.last.id), agent, saved, session.title)


def _place(context: Context, tree: Worktree) -> str:
    if tree.path is None:
        return f"({tree.name})"
    return display(os.fsencode(os.path.relpath(tree.path, context.cwd)))


def _state(tree: Worktree) -> str:
    if tree.presence is not Presence.THERE:
        return tree.presence.value
    return "running" if tree.running else "locked" if tree.locked else "there"
