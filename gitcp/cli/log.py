"""`gitcp log`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from datetime import datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gitcp import humanize
from gitcp.cli import filters, rendering
from gitcp.cli.context import Context
from gitcp.cli.options import (
    LOOKED,
    NUMBER,
    PATHS,
    PHASE,
    WORDS,
    Command,
    json_option,
    rare,
    session_option,
)
from gitcp.cli.output import BOLD, CYAN, DIM, GREEN, PLAIN, RED, YELLOW, Part, Styled
from gitcp.errors import BadValue, GitcpError
from gitcp.fastpath import answer, hook_memo
from gitcp.history import rows as rows_of
from gitcp.history.diff import compare, files_of, is_below, tree_before_commit
from gitcp.history.folding import FoldedRow, fold
from gitcp.history.log import LogRow, Selection, graph, line, lines, select
from gitcp.history.rows import Counted, title
from gitcp.model import Oid, Trigger
from gitcp.state import latest
from gitcp.store import BEFORE_PROMPTS, NO_LABEL, Summary, is_generated
from gitcp.value import Value, replace

if TYPE_CHECKING:
    from gitcp.cli.table import TableColumn
    from gitcp.history.tokens import TokenCounter

UNLIMITED = 10_000
"""Columns if the output is not a terminal."""

ORIGINS = (
    ("Gitcp-Restored-From", "restored from"),
    ("Gitcp-Forked-From", "forked from"),
    ("Gitcp-Reverted", "reverted"),
)

CHUNK = 500
TABLE_ROWS = 20
HELP = "gitcp log -h"
HERE = "  = files here"
"""Marks the newest checkpoint whose files are those of the working tree."""

UNDRAWN = ("table", "reverse", "stat", "patch", "name_only", "name_status", "tokens", "as_json")

T = TypeVar("T")


class Options(Value):
    """What was typed."""

    paths: tuple[bytes, ...]
    revision: str | None
    limit: int | None
    since: str | None
    until: str | None
    grep: str | None
    phase: str | None
    session: str | None
    everything: bool
    reverse: bool
    graph: bool
    table: bool
    oneline: bool
    steps: bool
    tokens: bool
    stat: bool
    patch: bool
    name_only: bool
    name_status: bool
    author: str | None
    containing: str | None
    as_json: bool


@click.command(cls=Command, rest=PATHS)
@click.argument("revision", type=LOOKED, required=False, metavar="[REV|A..B]")
@click.option("-n", "limit", type=NUMBER, metavar="N", help="limit the number of rows")
@click.option("--since", type=WORDS, metavar="TIME", help="only checkpoints made at TIME or later")
@rare(
    click.option("--until", type=WORDS, metavar="TIME", help="only checkpoints of TIME or earlier")
)
@click.option(
    "--grep",
    type=WORDS,
    metavar="REGEX",
    help="only checkpoints whose subject matches, ignoring case",
)
@rare(click.option("--phase", type=PHASE, metavar="NAME", help="only checkpoints of this phase"))
@rare(session_option)
@click.option("--all", "everything", is_flag=True, help="show all sessions")
@rare(click.option("--reverse", is_flag=True, help="oldest first"))
@rare(click.option("--graph", is_flag=True, help="draw sessions and forks"))
@rare(click.option("--table", is_flag=True, help="a table, newest last (the last 20, or -n)"))
@click.option("--oneline", is_flag=True, help="one line for every checkpoint")
@rare(
    click.option(
        "--all-steps",
        "steps",
        is_flag=True,
        help="a row for every automatic step and every restore",
    )
)
@rare(click.option("--tokens", is_flag=True, help="show the tokens that each row used"))
@rare(click.option("--stat", is_flag=True, help="show the number of changed lines in each file"))
@click.option("-p", "--patch", is_flag=True, help="show the changes as a patch")
@rare(click.option("--name-only", is_flag=True, help="show the changed paths"))
@rare(click.option("--name-status", is_flag=True, help="show the changed paths and how"))
@rare(
    click.option(
        "--author", type=WORDS, metavar="TEXT", help="only if the author or agent contains TEXT"
    )
)
@rare(
    click.option(
        "-S",
        "containing",
        type=WORDS,
        metavar="TEXT",
        help="only if the number of TEXT in a file changed",
    )
)
@json_option
@click.pass_obj
def command(context: Context, /, **values: Any) -> None:
    """Show checkpoints or operations, newest first

    Lists the current session, or the checkpoints up to REV, or those after A up to B. With PATH,
    only those that changed it.

      gitcp log -5 --oneline
      gitcp log --since "yesterday 09:00" --grep migration
      gitcp log before-migration..@ --stat
      gitcp log src/app.py
    """
    given = Options(**values)
    context = context.context_for(given.revision or "")
    given = replace(given, paths=context.inside(given.paths))
    after, tips = _tips(context, given)
    selection = _selection(context, given, after)
    if given.graph and (selection.filters or any(getattr(given, name) for name in UNDRAWN)):
        raise BadValue(
            "--graph can only be combined with -n, --all and a revision",
            hint=HELP,
        )
    if given.tokens and given.oneline and not given.as_json:
        raise BadValue("--tokens and --oneline cannot be used together", hint=HELP)
    if given.phase is not None:
        _mention_phases(context, tips, given.phase)
    with nullcontext() if given.as_json else context.output.paged(context.core_pager):
        _show(context, tips, selection, given)


def _mention_phases(context: Context, tips: Sequence[Oid], phase: str) -> None:
    """Print the phases there are if no checkpoint is of this one."""
    if next(iter(select(context.store, tips, Selection(phase=phase, limit=1))), None) is not None:
        return
    summaries = select(context.store, tips, Selection())
    phases = dict.fromkeys(each.trailers.get("Gitcp-Phase", "") for each in summaries)
    names = ", ".join(filter(None, phases)) or "none"
    context.output.say(f"note: no checkpoint is of phase {phase!r}; phases: {names}")


def _show(context: Context, tips: list[Oid], selection: Selection, given: Options) -> None:
    store = context.store
    if given.graph:
        _draw(context, graph(store, tips, selection.limit))
    elif given.as_json:
        summaries = _ordered(select(store, tips, _table_limit(selection, given)), given)
        _print_json(context, summaries, _counter(context, given) if given.tokens else None)
    elif given.table:
        _print_table(context, tips, selection, given)
    elif given.oneline and not _shows_changes(given):
        _print_lines(context, _ordered(lines(store, tips, selection), given))
    else:
        _print(context, tips, selection, given)


def _shows_changes(given: Options) -> bool:
    """Return whether each row is followed by what changed."""
    return given.stat or given.patch or given.name_only or given.name_status


def _ordered(rows: Iterable[T], given: Options) -> Iterable[T]:
    return reversed(list(rows)) if given.reverse or given.table else rows


def _tips(context: Context, given: Options) -> tuple[Oid | None, list[Oid]]:
    """Return the checkpoint after which rows begin, None for the first, and those they end with."""
    if given.everything:
        if given.revision:
            raise BadValue("--all and a revision cannot be used together", hint=HELP)
        return None, context.readable_tips()
    after, last = context.ends(given.revision or "@", given.session)
    return after, [last]


def _selection(context: Context, given: Options, after: Oid | None) -> Selection:
    if given.containing == "":  # git ends with a BUG and SIGABRT
        raise BadValue("TEXT of -S is empty: nothing to search for", hint=HELP)
    return Selection(
        after=after,
        limit=given.limit,
        since=filters.time(context, given.since, end=False),
        until=filters.time(context, given.until, end=True),
        grep=filters.pattern(given.grep, HELP),
        phase=given.phase,
        paths=given.paths,
        author=given.author,
        containing=given.containing,
    )


def _print_json(
    context: Context, summaries: Iterable[Summary], counter: TokenCounter | None
) -> None:
    for summary in summaries:
        from gitcp import documents  # only for programs

        checkpoint = context.store.read(summary.commit)
        fields = documents.checkpoint(checkpoint, context.tags.get(checkpoint.commit, ()))
        if counter is not None:
            added = counter.of_row(FoldedRow(summary))
            fields["tokens_added"] = added and added.document()
        context.output.document(documents.document("checkpoint", fields))


def _print_lines(context: Context, rows: Iterable[LogRow]) -> None:
    """Print one line per checkpoint. Without color in chunks, which makes long lists faster."""
    output, none = context.output, rendering.decoration(())
    names: dict[str, Styled] = {
        commit: rendering.decoration(tags) for commit, tags in context.shown_tags.items()
    }
    if output.colour:
        for each in rows:
            id = context.id_of(Oid(each.commit), each.id)
            output.line(Styled(id, YELLOW), names.get(each.commit, none), " ", each.subject)
        return
    texts = (
        f"{context.id_of(Oid(commit), f'{session}@{number}')}{names.get(commit, none).text} "
        f"{subject}"
        for commit, subject, session, number in rows
    )
    chunk: list[str] = []
    try:
        for text in texts:
            chunk.append(text)
            if len(chunk) == CHUNK:
                output.line("\n".join(chunk))
                chunk.clear()
    finally:  # where a chain is damaged, what can be read is listed first
        if chunk:
            output.line("\n".join(chunk))


def _draw(context: Context, rows: Iterable[tuple[str, LogRow | None]]) -> None:
    trees = _worktrees(context)
    for drawing, summary in rows:
        if summary is None:
            context.output.line(drawing)
        else:
            commit = Oid(summary.commit)
            names = rendering.decoration(context.shown_tags.get(commit, ()))
            id = Styled(context.id_of(commit, summary.id), YELLOW)
            tree = Styled(trees.get(commit, ""), CYAN)
            context.output.line(drawing, id, names, tree, " ", summary.subject)


def _worktrees(context: Context) -> dict[Oid, str]:
    """The other working trees, as they are shown beside the last checkpoint of their session."""
    from gitcp.saving import session

    sessions = context.store.sessions()
    return {
        sessions[name]: f" (worktree: {', '.join(map(context.shown_path, paths))})"
        for name, paths in session.in_worktrees(context.store).items()
        if name in sessions
    }


def _print(context: Context, tips: Sequence[Oid], selection: Selection, given: Options) -> None:
    """Print rows. The limit counts rows, not the steps folded into them."""
    rows = _rows(context, tips, selection, given)
    by_id = given.everything or context.is_elsewhere()
    current = None if by_id else context.current(None)
    folded = 0
    shown = _ordered(islice(rows, selection.limit), given)
    if given.oneline:
        for row in shown:
            _print_lines(context, [line(row.newest)])
            _print_texts(context, row, given)
        return
    view = View(context, current, _counter(context, given), _tree_here(context))
    for number, page in enumerate(rows_of.pages(context.store, shown, given.paths)):
        if not number and page:
            _print_header(context, tips, given)
        if _shows_changes(given):
            _print_changes(context, view, page, given, first=not number)
        else:
            view.show(page)
        folded += sum(len(counted.row.folded) for counted in page)
    _mention_folded(context, folded)


def _print_header(context: Context, tips: Sequence[Oid], given: Options) -> None:
    """Print the session that the numbers below are of."""
    if given.everything:
        return
    last = context.store.summary(tips[0])
    agent = last.trailers.get("Gitcp-Agent")
    context.output.line(Styled(f"session {last.id.session}{f' ({agent})' if agent else ''}", DIM))
    context.mention_elsewhere(given.revision or "@", given.session)


def _tree_here(context: Context) -> Oid | None:
    """Return the tree of the current files if they are those of the last checkpoint here. None for
    a program, which need not wait for that check. To hash what did change would take seconds.
    """
    store = context.store
    last = latest.known(store) if context.output.terminal else None
    look = answer.look_at(str(store.repo.root), str(store.repo.git_dir))
    if last is None or not hook_memo.is_as_scanned(look):
        return None
    with suppress(GitcpError):
        return files_of(store, store.summary(last.commit).root)
    return None


def _print_changes(
    context: Context, view: View, page: Iterable[Counted], given: Options, *, first: bool
) -> None:
    """Print rows with their stat and patch, an empty line between two of them."""
    for counted in page:
        if not first:
            context.output.line()
        first = False
        view.show([counted])
        _print_texts(context, counted.row, given)


def _rows(
    context: Context, tips: Sequence[Oid], selection: Selection, given: Options
) -> Iterator[FoldedRow]:
    summaries = select(context.store, tips, replace(selection, limit=None))
    if given.steps or given.oneline:
        return map(FoldedRow, summaries)
    return fold(summaries, context.shown_tags)


def _table_limit(selection: Selection, given: Options) -> Selection:
    """The selection with the limit that a table has where none was given."""
    if given.table and selection.limit is None:
        return replace(selection, limit=TABLE_ROWS)
    return selection


def _mention_folded(context: Context, folded: int) -> None:
    if folded and context.output.terminal:
        steps = humanize.count(folded, "step")
        context.output.line(Styled(f"{steps} not shown: gitcp log --all-steps", DIM))


def _print_texts(context: Context, row: FoldedRow, given: Options) -> None:
    for text in filter(None, _texts(context, row, given)):
        context.output.line()
        rendering.patch(context.output, text)
    if given.stat:
        _print_others(context, row, given.paths)


def _print_others(context: Context, row: FoldedRow, paths: Sequence[bytes]) -> None:
    """Print who else changed the files of a row, or those below `paths`."""
    from gitcp.history import authors  # few rows are of files that others changed

    ends = (context.store.read(each.commit) for each in (row.oldest, row.newest))
    claims = authors.since_parent(context.store, *ends)
    claims = {path: claim for path, claim in claims.items() if is_below(path, paths)}
    rendering.others(context.output, authors.others(claims, row.newest.id.session))


def _texts(context: Context, row: FoldedRow, given: Options) -> Iterator[bytes]:
    """Yield the requested stat and patch of a row."""
    if not _shows_changes(given):
        return
    before = tree_before_commit(context.store, row.oldest)
    difference = compare(context.store, before, row.newest.root, given.paths)
    width = context.output.width
    if given.stat:
        yield difference.text(f"--stat={width}" if width else "--stat")
    if given.name_only:
        yield difference.text("--name-only")
    if given.name_status:
        yield difference.text("--name-status")
    if given.patch:
        yield difference.text()


def _print_table(
    context: Context, tips: Sequence[Oid], selection: Selection, given: Options
) -> None:
    """The newest row comes last, nearest to where you type."""
    from gitcp.cli.table import show  # only for a table

    most = _table_limit(selection, given).limit or 0
    rows = list(islice(_rows(context, tips, selection, given), most + 1))
    older, rows = rows[most:], rows[:most][::-1]
    now, tokens = context.host.now(), _counter(context, given)
    counts = chain.from_iterable(rows_of.pages(context.store, rows, given.paths))
    whole = given.everything or given.revision or "/" in context.viewed_session(given.session)
    cells = (
        (
            context.id_of(row.newest.commit, row.newest.id) if whole else str(row.newest.id.number),
            humanize.ago(row.newest.created, now),
            row.newest.trailers.get("Gitcp-Trigger", ""),
            str(counted.files),
            row.newest.trailers.get("Gitcp-Messages", ""),
            rendering.short_tokens(tokens.of_row(row)) if tokens else "",
            f"+{len(row.folded)}" if row.folded else "",
            ", ".join(context.shown_tags.get(row.newest.commit, ())),
            rows_of.title(row.newest),
        )
        for row, counted in zip(rows, counts, strict=True)
    )
    show(context.output, _table_columns(whole=bool(whole)), cells)
    _mention_folded(context, sum(len(row.folded) for row in rows))
    if older and context.output.terminal:
        more = f"older checkpoints: gitcp log --table -n {most * 5 or TABLE_ROWS}"
        context.output.line(Styled(more, DIM))


def _table_columns(*, whole: bool) -> tuple[TableColumn, ...]:
    """Return the columns of the table; with `whole` ids instead of numbers."""
    from gitcp.cli.table import TableColumn  # only for a table

    return (
        TableColumn("id" if whole else "#", YELLOW, right=not whole),
        TableColumn("when"),
        TableColumn("trigger", DIM),
        TableColumn("files", right=True),
        TableColumn("messages", right=True),
        TableColumn("tokens", right=True),
        TableColumn("steps", DIM, right=True),
        TableColumn("tags", YELLOW),
        TableColumn("subject", cut=True),
    )


def _counter(context: Context, given: Options) -> TokenCounter | None:
    """Return what counts the tokens of rows: all that were asked for, else as many as take no time,
    on a terminal with room for them.
    """
    if not given.tokens and (context.output.width or 0) < rendering.WIDE:
        return None
    from gitcp.history.tokens import TokenCounter  # reads conversations

    return TokenCounter(context.store, is_limited=not given.tokens)


class View:
    """Prints rows of two lines. Checkpoints of the session `current` are shown by number only. The
    newest one with the tree `here` is marked.
    """

    def __init__(
        self,
        context: Context,
        current: str | None,
        tokens: TokenCounter | None = None,
        here: Oid | None = None,
    ) -> None:
        self._context = context
        self._current = current
        self._here = here
        self._now = context.host.now()
        self._width = context.output.width or UNLIMITED
        self._tokens = tokens
        self._indent = 0

    def show(self, rows: Iterable[Counted]) -> None:
        """Print rows, all with one write."""
        self._context.output.text("".join(map(self._text, rows)))

    def _text(self, counted: Counted) -> str:
        """Return the two lines of a row."""
        context, summary = self._context, counted.row.newest
        id = context.id_of(summary.commit, summary.id)
        if id == f"{self._current}@{summary.id.number}":
            id = str(summary.id.number)
        self._indent = max(self._indent, len(id) + 2)
        tags = rendering.decoration(context.shown_tags.get(summary.commit, ()))
        mark = self._mark(summary)
        room = self._width - self._indent - len(tags.text) - len(mark.text)
        title = _title(summary, room)
        head = context.output.joined((Styled(id.ljust(self._indent), YELLOW), title, tags, mark))
        tokens = rendering.short_tokens(self._tokens.of_row(counted.row)) if self._tokens else ""
        details = context.output.joined([*_details(counted, self._now, tokens)])
        return f"{head}\n{' ' * self._indent}{details}\n"

    def _mark(self, summary: Summary) -> Styled:
        if self._here is None or files_of(self._context.store, summary.root) != self._here:
            return Styled("", CYAN)
        self._here = None
        return Styled(HERE, CYAN)


def _title(summary: Summary, room: int) -> Styled:
    """The title, cut to fit; a label is bold."""
    text = title(summary)
    if text in (NO_LABEL, BEFORE_PROMPTS):
        return Styled(text, DIM)
    return Styled(humanize.cut(text, room), PLAIN if is_generated(summary) else BOLD)


def _details(counted: Counted, now: datetime, tokens: str) -> Iterator[Part]:
    yield from _extent(counted)
    summary, trailer = counted.row.newest, counted.row.newest.trailers.get
    trigger, phase = trailer("Gitcp-Trigger", ""), trailer("Gitcp-Phase")
    facts = [
        humanize.ago(summary.created, now),
        trailer("Gitcp-Agent", ""),
        "" if trigger == Trigger.MANUAL or summary.subject.startswith("restored ") else trigger,
        f"phase {phase}" if phase else "",
        *_origins(summary),
        f"{tokens} tokens" if tokens else "",
        f"{trailer('Gitcp-Skipped')} not captured" if trailer("Gitcp-Skipped") else "",
        f"state {trailer('Gitcp-States')}" if trailer("Gitcp-States") else "",
    ]
    yield Styled("".join(f", {fact}" for fact in facts if fact), DIM)
    if counted.row.folded:
        yield Styled(f", +{humanize.count(len(counted.row.folded), 'step')}", DIM)


def _extent(counted: Counted) -> Iterator[Part]:
    """Yield `3 files +12 -4`, without line counts if they are unknown."""
    total = counted.total
    yield counted.extent
    if total and total.added:
        yield Styled(f" +{total.added:,}", GREEN)
    if total and total.removed:
        yield Styled(f" -{total.removed:,}", RED)


def _origins(summary: Summary) -> Iterator[str]:
    """Yield the origin of a checkpoint, unless its subject contains it."""
    origins = [(words, summary.trailers.get(trailer)) for trailer, words in ORIGINS]
    if any(origin for _, origin in origins) and not is_generated(summary):
        yield from (f"{words} {origin}" for words, origin in origins if origin)
