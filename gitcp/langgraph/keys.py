"""Map LangGraph's identifiers to git's: thread ids to session names, keys to trailers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from gitcp.errors import BadValue, StoreDamaged

PREFIX = "langgraph-"
PLAIN = re.compile(r"[a-z0-9](?:[a-z0-9_]|-(?![0-9a-f]{12}\Z)|\.(?![.]|lock)){0,79}(?<!\.)")

PUT, WRITES, COPY = "put", "writes", "copy"


class CommitKey(NamedTuple):
    """What a commit contains: a checkpoint of a thread (`put`), writes to one (`writes`), or a
    mark that the thread is a copy.

    `parent` and `run` are those of a checkpoint, "" if it has none.
    """

    kind: str
    thread: str
    ns: str = ""
    id: str = ""
    parent: str = ""
    run: str = ""

    def __str__(self) -> str:
        return "/".join(quote(part.encode("utf-8", "surrogatepass"), safe="") for part in self)


def parse_key(text: str) -> CommitKey:
    """Parse `str(key)`. Raises StoreDamaged."""
    parts = [unquote(part, errors="surrogatepass") for part in text.split("/")]
    if len(parts) != len(CommitKey._fields) or parts[0] not in (PUT, WRITES, COPY):
        raise StoreDamaged(
            f"invalid key {text[:80]!r} of a LangGraph checkpoint", hint="gitcp doctor --store"
        )
    return CommitKey(*parts)


def session_name(thread: str) -> str:
    """Return the session of a thread: its id if valid as a name on any file
    system, else a name derived from it.
    """
    if PLAIN.fullmatch(thread):
        return PREFIX + thread
    digest = sha256(thread.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    slug = re.sub(r"[^a-z0-9]+", "-", thread.lower())[:40].strip("-")
    return f"{PREFIX}{slug}-{digest}" if slug else PREFIX + digest


class Requested(NamedTuple):
    """What a config requests. `ns` and `id` are None if it does not specify them."""

    thread: str
    ns: str | None
    id: str | None


def requested(config: Mapping[str, Any]) -> Requested:
    """Return what a config requests. Raises BadValue without a thread id."""
    configurable = config.get("configurable") or {}
    thread = configurable.get("thread_id")
    if thread is None or thread == "":
        raise BadValue(
            "the config has no thread_id", hint='pass {"configurable": {"thread_id": "..."}}'
        )
    ns = configurable.get("checkpoint_ns")
    return Requested(str(thread), None if ns is None else str(ns), checkpoint_id(config))


def checkpoint_id(config: Mapping[str, Any]) -> str | None:
    """Return the checkpoint id in a config, None if it has none."""
    id = (config.get("configurable") or {}).get("checkpoint_id")
    return str(id) if id else None


def config_of(thread: str, ns: str, id: str) -> dict[str, Any]:
    """The config that names one checkpoint."""
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": id}}
