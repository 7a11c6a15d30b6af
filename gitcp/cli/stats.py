"""`gitcp sessions --size`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from gitcp import documents, humanize, wire
from gitcp.cli import rendering
from gitcp.cli.context import Context
from gitcp.cli.options import Command, json_option, replace_option
from gitcp.cli.output import CYAN, Styled
from gitcp.lifecycle.stats import SizeShare, Stats, stats
from gitcp.sharing import output_file
from gitcp.sharing.output_file import STDOUT
from gitcp.value import Value
from gitcp.worktree.paths import display

MOST_LARGEST = 5
MOST_PATHS = 40
MOST = 14
"""Days and sessions that are printed; the page and JSON have all of them."""

WIDTH = 24


class Options(Value):
    """What was typed."""

    file: str | None
    force: bool
    as_json: bool


@click.command(cls=Command)
@click.option("-o", "file", metavar="FILE", help="write a page with plots to FILE (- is stdout)")
@replace_option
@json_option
@click.pass_obj
def command(context: Context, /, **values: Any) -> None:
    """Show the disk usage of checkpoints

    Objects shared with the project's own history cost nothing. A day and a session are counted with
    the data that no earlier checkpoint has. `git gc` reduces sizes.

      gitcp sessions --size
      gitcp sessions --size -o stats.html
      gitcp sessions --size --json
    """
    given = Options(**values)
    if given.file not in (None, STDOUT):
        output_file.chosen(context.cwd, given.file, force=given.force)
    statistics = stats(context.store, MOST_PATHS if given.file is not None else MOST_LARGEST)
    if given.file is not None:
        from gitcp.review.pages.stats import render  # jinja2: only for the page

        rendering.write_page(context, given.file, render(statistics), force=given.force)
    elif given.as_json:
        context.output.document(documents.document("stats", _fields(statistics)))
    else:
        _print(context, statistics)


def _print(context: Context, statistics: Stats) -> None:
    for title, text in _rows(statistics):
        context.output.line(f"{title:<20}{text}")
    _print_shares(context, "growth", statistics.days[-MOST:])
    _print_shares(context, "sessions", statistics.by_session[:MOST])
    if statistics.largest:
        context.output.line("largest")
    for each in statistics.largest:
        versions = humanize.count(each.versions, "version")
        context.output.line(
            f"  {humanize.size(each.bytes):>10}  {display(each.path)}  ({versions})"
        )
    if statistics.installed:
        size = humanize.size(statistics.installed)
        context.output.line(f"  {size:>10}  in files that gitcp enable writes")


def _print_shares(context: Context, title: str, shares: Sequence[SizeShare]) -> None:
    """Print one bar for each day or session."""
    if not shares:
        return
    most = max(share.bytes for share in shares)
    room = max(len(share.name) for share in shares)
    context.output.line(title)
    for share in shares:
        bar = Styled(humanize.bar(share.bytes, most, WIDTH), CYAN)
        size, count = humanize.size(share.bytes), humanize.count(share.checkpoints, "checkpoint")
        context.output.line(f"  {size:>10}  {share.name:<{room}}  ", bar, f"  {count}")


def _rows(statistics: Stats) -> list[tuple[str, str]]:
    count, size = humanize.count, humanize.size
    checkpoints = count(statistics.checkpoints, "checkpoint")
    sessions, tags = count(statistics.sessions, "session"), count(statistics.tags, "tag")
    conversations = size(statistics.conversations)
    recent = count(statistics.recent, "checkpoint")
    trash = count(statistics.trash, "entry", "entries")
    prune = f"would drop {statistics.prune:,} and free {size(statistics.prune_bytes)}"
    prune = f"{prune} when the trash expires" if statistics.prune else "nothing to drop"
    return [
        ("checkpoints", f"{checkpoints} in {sessions}, {tags}"),
        ("size", f"{size(statistics.bytes)}, including conversations {conversations}"),
        ("shared", f"{size(statistics.shared)} with the project's own history"),
        ("last 7 days", f"{recent}, {size(statistics.recent_bytes)}"),
        ("trash", f"{trash}, {size(statistics.trash_bytes)}"),
        ("gitcp delete --old", prune),
    ]


def _fields(statistics: Stats) -> wire.Json:
    return {
        "sessions": statistics.sessions,
        "checkpoints": statistics.checkpoints,
        "tags": statistics.tags,
        "bytes": statistics.bytes,
        "shared": statistics.shared,
        "conversations": statistics.conversations,
        "recent": {"checkpoints": statistics.recent, "bytes": statistics.recent_bytes},
        "trash": {"entries": statistics.trash, "bytes": statistics.trash_bytes},
        "prune": {"checkpoints": statistics.prune, "bytes": statistics.prune_bytes},
        "largest": [
            {"path": wire.encode_path(each.path), "bytes": each.bytes, "versions": each.versions}
            for each in statistics.largest
        ],
        "installed": statistics.installed,
        "days": [
            {"date": each.name, "checkpoints": each.checkpoints, "bytes": each.bytes}
            for each in statistics.days
        ],
        "by_session": [
            {"session": each.name, "checkpoints": each.checkpoints, "bytes": each.bytes}
            for each in statistics.by_session
        ],
    }
