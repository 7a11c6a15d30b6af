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
    found = stats(context.store)
    if as_json:
        context.output.document(objects.document("stats", _fields(found)))
        return
    for title, text in _rows(found):
        context.output.line(f"{title:<15}{text}")
    for each in found.largest:
        versions = humanize.count(each.versions, "version")
        context.output.line(
            f"  {humanize.size(each.bytes):>10}  {display(each.path)}  ({versions})"
        )


def _rows(found: Stats) -> list[tuple[str, str]]:
    checkpoints = humanize.count(found.checkpoints, "checkpoint")
    rows = [
        (
            "checkpoints",
            (
                f"{checkpoints} in {humanize.count(found.sessions, 'session')}, "
                f"{humanize.count(found.tags, 'tag')}"
            ),
        ),
        (
            "size",
            (
                f"{humanize.size(found.bytes)}, including conversations "
                f"{humanize.size(found.conversations)}"
            ),
        ),
        ("shared", f"{humanize.size(found.shared)} with the project's own history"),
        (
            "last 7 days",
            f"{humanize.count(found.recent, 'checkpoint')}, {humanize.size(found.recent_bytes)}",
        ),
        (
            "trash",
            (
                f"{humanize.count(found.trash, 'entry', 'entries')}, "
                f"{humanize.size(found.trash_bytes)}"
            ),
        ),
        (
            "gitcp prune",
            (
                f"would drop {found.prune:,} and free {humanize.size(found.prune_bytes)} when the "
                "trash expires"
            ),
        ),
    ]
    return [*rows, ("largest", "")] if found.largest else rows


def _fields(found: Stats) -> wire.Json:
    return {
        "sessions": found.sessions,
        "checkpoints": found.checkpoints,
        "tags": found.tags,
        "bytes": found.bytes,
        "shared": found.shared,
        "conversations": found.conversations,
        "recent": {"checkpoints": found.recent, "bytes": found.recent_bytes},
        "trash": {"entries": found.trash, "bytes": found.trash_bytes},
        "prune": {"checkpoints": found.prune, "bytes": found.prune_bytes},
        "largest": [
            {"path": wire.encode_path(each.path), "bytes": each.bytes, "versions": each.versions}
            for each in found.largest
        ],
    }
