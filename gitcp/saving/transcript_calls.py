"""Tool calls as transcripts have them, for sessions whose hooks report none.

A call begins when the agent asks for it and ends with its result, so it includes the time in which
the user was asked. Calls without a time are of no use here.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator

from gitcp import adapters, clock, regular, wire
from gitcp.adapters.base import Found, Message
from gitcp.errors import GitcpError
from gitcp.policy.events import EventCall
from gitcp.state import tool_log
from gitcp.state.tool_log import LoggedCall, changed_paths
from gitcp.store import Store

TAIL = 1 << 20
"""Bytes at the end of a transcript that are read."""

MILLISECOND = 1_000_000
"""Agents cut times to milliseconds: a call may have ended so many nanoseconds after its time."""


def lines(store: Store, since: int, logged: Collection[tuple[str, str]]) -> Iterator[LoggedCall]:
    """Yield the tool calls of this directory's conversations that were written to after `since`
    (nanoseconds), as lines of the log, except of sessions whose hooks `logged` theirs.
    """
    repo = store.repo
    for conversation in adapters.find_all(repo.root, repo.host):
        key = (conversation.agent, conversation.session_id)
        if key not in logged and conversation.modified * 1e9 >= since:
            yield from _calls(conversation, _messages(conversation), os.path.realpath(repo.root))


def _messages(conversation: Found) -> Iterable[Message]:
    """Return the last messages of a conversation; none if they are in no file of their own."""
    try:
        sources = adapters.load(conversation.agent).capture(conversation).sources
        path = next(source.path for source in sources if source.path is not None)
        with regular.opened(path) as file:
            start = max(0, os.fstat(file.fileno()).st_size - TAIL)
            file.seek(start)
            tail = file.read(TAIL).split(b"\n")[1 if start else 0 :]
        return list(adapters.for_format(conversation.agent).messages(tail))
    except (GitcpError, OSError, StopIteration):
        return ()


def _calls(conversation: Found, messages: Iterable[Message], root: str) -> Iterator[LoggedCall]:
    key = (conversation.agent, conversation.session_id)
    named: dict[str | None, tuple[bytes, ...] | None] = {}
    for message in messages:
        seconds = clock.parsed(message.time)
        if seconds is None or (not message.tool and message.call is None):
            continue
        time = int(seconds * 1e9)
        call = message.call or ""
        if message.role == "assistant" and message.tool:
            paths = _paths(message, root)
            if paths != ():
                named[message.call] = paths
                yield LoggedCall(tool_log.BEGIN, time, key, call, paths)
        elif message.role == "tool" and message.call in named:
            mark = tool_log.FAILED if message.failed else tool_log.DONE
            yield LoggedCall(mark, time + MILLISECOND, key, call, named.pop(message.call))


def _paths(message: Message, root: str) -> tuple[bytes, ...] | None:
    """Return the paths in the working tree that a call changes; None if it may change any."""
    fields = wire.parse_line(message.text.encode("utf-8", "replace"))
    call = EventCall({"tool": message.tool, "args": fields if fields is not None else message.text})
    try:
        paths = changed_paths(call)
        inside = [tool_log.relative(path, root, root) for path in paths or ()]
    except ValueError:
        return ()
    return None if paths is None else tuple(filter(None, inside))
