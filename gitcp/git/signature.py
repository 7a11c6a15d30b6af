"""Who made a commit and when, as git writes it down."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from gitcp.errors import StoreDamaged
from gitcp.git.repo import Repository

FALLBACK_NAME = "gitcp"
FALLBACK_EMAIL = "gitcp@localhost"


def signature(repo: Repository, time: datetime) -> str:
    """`Name <email> seconds zone`: the user where git knows one, else a fixed one. Never asks,
    never fails.
    """
    env, config = repo.host.env, repo.config
    name = env.get("GIT_AUTHOR_NAME") or config.get("author.name") or config.get("user.name")
    email = env.get("GIT_AUTHOR_EMAIL") or config.get("author.email") or config.get("user.email")
    clean = (re.sub(r"[\x00-\x1f<>\x7f]", "", text or "").strip() for text in (name, email))
    first, second = clean
    offset = int((time.utcoffset() or timedelta()).total_seconds()) // 60
    zone = f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02d}{abs(offset) % 60:02d}"
    return f"{first or FALLBACK_NAME} <{second or FALLBACK_EMAIL}> {int(time.timestamp())} {zone}"


def time_of(author: bytes) -> datetime:
    """When a commit was made, by its author line. Raises StoreDamaged if that cannot be read."""
    try:
        seconds, zone = author.rpartition(b"> ")[2].split(b" ")
        minutes = int(zone[1:3]) * 60 + int(zone[3:5])
        sign = -1 if zone[:1] == b"-" else 1
        return datetime.fromtimestamp(int(seconds), timezone(timedelta(minutes=sign * minutes)))
    except (ValueError, OverflowError, OSError):
        raise StoreDamaged("a checkpoint's commit has no time that can be read") from None
