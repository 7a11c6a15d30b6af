"""`gitcp sessions`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import click

from gitcp import documents, humanize, wire
from gitcp.cli import filters, rendering
from gitcp.cli.agent_names import RECORDED_NAME
from gitcp.cli.context import Context
from gitcp.cli.options import NUMBER, WORDS, Command, json_option, rare, session_option
from gitcp.cli.output import DIM, YELLOW, Styled
from gitcp.errors import BadValue
from gitcp.history import sessions as op
from gitcp.history.sessions import Session, SessionSelection

if TYPE_CHECKING:
    from gitcp.history.worktrees import Worktree

HELP = "gitcp sessions -h"


@click.command(cls=Command)
@click.option("-n", "limit", type=NUMBER, metavar="N", help="limit the number shown")
@click.option("--agent", type=RECORDED_NAME, metavar="NAME", help="only sessions of this agent")
@click.option("--since", type=WORDS, metavar="TIME", help="only sessions saved at TIME or later")
@click.option(
    "--grep", type=WORDS, metavar="REGEX", help="only if name, title or last prompt matches"
)
@rare(click.option("--fetched", is_flag=True, help="list only fetched and imported sessions"))
@click.option(
    "--worktrees", is_flag=True, help="list worktrees, also removed ones, with their sessions"
)
@rare(session_option)
@json_option
@click.pass_obj
def command(
    context: Context,
    limit: int | None,
    agent: str | None,
    since: str | None,
    grep: str | None,
    session: str | None,
    *,
    fetched: bool,
    worktrees: bool,
    as_json: bool,
) -> None:
    """List sessions, their size, or worktrees; rename one

    Most recently saved first. Fetched sessions are named REMOTE/SESSION and not listed if you have
    all of their checkpoints.

      gitcp sessions
      gitcp sessions --agent codex --since yesterday
      gitcp sessions --size
      gitcp sessions rename e7ba postgres
    """
    if worktrees:
        others = {"--agent": agent, "--since": since, "--grep": grep, "--fetched": fetched}
        _worktrees(context, limit, others, as_json=as_json)
        return
    wanted = SessionSelection(
        agent, filters.time(context, since, end=False), filters.pattern(grep, HELP)
    )
    tips = context.store.fetched() if fetched else op.all_sessions(context.store)
    sessions, damaged = op.listing(context.store, tips)
    for name, error in damaged:
        context.output.say(f"note: session {name} cannot be read: {error}")
    matching = tuple(filter(wanted.matches, sessions))
    chosen = matching[:limit]
    if agent and not any(each.last.agent and each.last.agent.name == agent for each in sessions):
        names = sorted({each.last.agent.name for each in sessions if each.last.agent})
        context.output.say(f"note: no session of {agent}; agents: {', '.join(names) or 'none'}")
    current = context.viewed(session)
    if as_json:
        _print_json(context, chosen, current)
    else:
        _print(context, chosen, current)
        _print_total(context, chosen, len(matching))


def _worktrees(
    context: Context, limit: int | None, others: Mapping[str, object], *, as_json: bool
) -> None:
    from gitcp.history import worktrees

    given = [name for name, value in others.items() if value]
    if given:
        raise BadValue(f"{given[0]} and --worktrees cannot be used together", hint=HELP)
    trees = worktrees.listing(context.store)[:limit]
    if not as_json:
        _print_worktrees(context, trees)
        return
    for each in trees:
        context.output.document(_worktree_document(context, each))


def _print_json(context: Context, sessions: tuple[Session, ...], current: str | None) -> None:
    from gitcp.history.tokens import TokenCounter

    counter = TokenCounter(context.store)
    for each in sessions:
        tokens = counter.of_conversation(each.last.conversation)
        named: wire.Json = {"session": each.name, "current": each.name == current}
        fields = {**named, **each.to_json(), "tokens": tokens and tokens.document()}
        context.output.document(documents.document("session", fields))


def _print(context: Context, sessions: tuple[Session, ...], current: str | None) -> None:
    from gitcp.cli.table import TableColumn, show  # only for a table
    from gitcp.history.tokens import TokenCounter

    counter = TokenCounter(context.store)
    columns = (
        TableColumn(""),
        TableColumn("session", YELLOW),
        TableColumn("agent", DIM),
        TableColumn("checkpoints", right=True),
        TableColumn("last saved"),
        TableColumn("", DIM),
        TableColumn("tokens", right=True),
        TableColumn("forked from"),
        TableColumn("tags", YELLOW, cut=True),
        TableColumn("about", cut=True),
        TableColumn("last prompt", cut=True),
    )
    now = context.host.now()
    is_wide = (context.output.width or 0) >= rendering.WIDE
    rows = (
        (
            "*" if session.name == current else "",
            session.name,
            session.last.agent.name if session.last.agent else "",
            str(session.count),
            humanize.ago(session.last.created, now),
            f"{session.last.created.astimezone():%Y-%m-%d %H:%M}" if is_wide else "",
            rendering.short_tokens(counter.of_conversation(session.last.conversation))
            if is_wide
            else "",
            session.forked_from or "",
            ", ".join(session.tags),
            session.title,
            session.last_prompt if session.last_prompt != session.title else "",
        )
        for session in sessions
    )
    show(context.output, columns, rows)


def _print_total(context: Context, shown: tuple[Session, ...], matching: int) -> None:
    if not shown:
        return
    of = f"{len(shown):,} of " if len(shown) < matching else ""
    checkpoints = humanize.count(sum(session.count for session in shown), "checkpoint")
    total = f"{of}{humanize.count(matching, 'session')}, {checkpoints}"
    context.output.line(Styled(total, DIM))


def _worktree_document(context: Context, tree: Worktree) -> wire.Json:
    base = tree.last.snapshot.base if tree.last else None
    fields: wire.Json = {
        "worktree": tree.name,
        "path": documents.path(tree.path),
        "state": tree.presence.value,
        "current": tree.path == context.store.repo.root,
        "locked": tree.locked,
        "branch": tree.branch,
        "base": base.commit if base else None,
        "unsaved": tree.unsaved,
        "sessions": [_worktree_session(each, tree) for each in tree.sessions],
    }
    return documents.document("worktree", fields)


def _worktree_session(session: Session, tree: Worktree) -> wire.Json:
    return {
        "session": session.name,
        "agent": documents.agent(session.last.agent),
        "running": session.name in tree.running,
        "title": session.title or None,
        "checkpoints": session.count,
        "last": str(session.last.id),
        "saved": wire.encode_time(session.last.created),
    }


def _print_worktrees(context: Context, trees: Iterable[Worktree]) -> None:
    """Print one row for each session, under its worktree, and for each worktree without any."""
    from gitcp.cli.table import TableColumn, show  # only for a table

    columns = (
        TableColumn(""),
        TableColumn("worktree"),
        TableColumn("state"),
        TableColumn("branch", cut=True),
        TableColumn("unsaved", right=True),
        TableColumn("last", YELLOW),
        TableColumn("agent", DIM),
        TableColumn("saved"),
        TableColumn("about", cut=True),
    )
    rows = (row for tree in trees for row in _worktree_rows(context, tree))
    show(context.output, columns, rows)


def _worktree_rows(context: Context, tree: Worktree) -> Iterator[tuple[str, ...]]:
    here = "*" if tree.path == context.store.repo.root else ""
    unsaved = "" if tree.unsaved is None else str(tree.unsaved or "-")
    head = (
        here,
        f"({tree.name})" if tree.path is None else context.shown_path(tree.path),
        _worktree_state(tree),
        tree.branch or "(detached)",
        unsaved,
    )
    for session in tree.sessions or (None,):
        yield (*head, *_session_cells(context, session))
        head = ("", "", "", "", "")


def _session_cells(context: Context, session: Session | None) -> tuple[str, ...]:
    if session is None:
        return ("", "", "", "")
    agent = session.last.agent.name if session.last.agent else ""
    saved = humanize.ago(session.last.created, context.host.now())
    return (str(session.last.id), agent, saved, session.title)


def _worktree_state(tree: Worktree) -> str:
    from gitcp.history.worktrees import Presence

    if tree.presence is not Presence.THERE:
        return tree.presence.value
    return "running" if tree.running else "locked" if tree.locked else "there"
