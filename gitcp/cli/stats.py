"""`gitcp stats`."""

from __future__ import annotations

from gitcp import wire
from gitcp.cli import humanize, objects
from gitcp.cli.context import Context
from gitcp.cli.options import json_option, session_option, takes
from gitcp.lifecycle.stats import Stats, stats
from gitcp.worktree.paths import display


@takes(
    session_option,
    json_option,
)
def command(context: Context, session: str | None, *, as_json: bool) -> None:  # noqa: ARG001
    """Show the disk usage of checkpoints

    Objects shared with the project's own history cost nothing and are counted separately. Sizes are
    as stored now; `git gc` reduces them.

      gitcp stats
      gitcp stats --json
    """
    statistics = stats(context.store)
    if as_json:
        context.output.document(objects.document("stats", _fields(statistics)))
        return
    for title, text in _rows(statistics):
        context.output.line(f"{title:<15}{text}")
    for each in statistics.largest:
        versions = humanize.count(each.versions, "version")
        context.output.line(
            f"  {humanize.size(each.bytes):>10}  {display(each.path)}  ({versions})"
        )


def _rows(statistics: Stats) -> list[tuple[str, str]]:
    count, size = humanize.count, humanize.size
    checkpoints = count(statistics.checkpoints, "checkpoint")
    sessions, tags = count(statistics.sessions, "session"), count(statistics.tags, "tag")
    conversations = size(statistics.conversations)
    recent = count(statistics.recent, "checkpoint")
    trash = count(statistics.trash, "entry", "entries")
    prune = f"would drop {statistics.prune:,} and free {size(statistics.prune_bytes)}"
    rows = [
        ("checkpoints", f"{checkpoints} in {sessions}, {tags}"),
        ("size", f"{size(statistics.bytes)}, including conversations {conversations}"),
        ("shared", f"{size(statistics.shared)} with the project's own history"),
        ("last 7 days", f"{recent}, {size(statistics.recent_bytes)}"),
        ("trash", f"{trash}, {size(statistics.trash_bytes)}"),
        ("gitcp prune", f"{prune} when the trash expires"),
    ]
    return [*rows, ("largest", "")] if statistics.largest else rows


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
    }
