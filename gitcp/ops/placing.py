"""Puts a stored conversation back where its agent resumes it. The adapter plans, this writes; nothing is cut short."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gitcp import adapters
from gitcp.adapters.base import Placement, Reader, Stored, Write
from gitcp.conversation import segments
from gitcp.durable import sync_directory
from gitcp.errors import GitcpError, Refused
from gitcp.model import Agent, Conversation
from gitcp.ops.conversation import stored
from gitcp.ops.plan import Kept
from gitcp.store import Store
from gitcp.value import Value, replace

TEMPORARY = ".gitcp-tmp-"


class Placed(Value):
    """Where a conversation goes: whose, under which of the agent's session ids, and the command that continues it."""

    agent: str
    messages: int
    placement: Placement

    @property
    def session_id(self) -> str | None:
        """The agent's session id that will hold the conversation; None where there is no agent to resume."""
        return self.placement.session_id

    @property
    def command(self) -> tuple[str, ...]:
        """The command that continues the agent; empty where there is none."""
        return self.placement.command

    @property
    def prepare(self) -> tuple[tuple[str, ...], ...]:
        """The commands that must be run before that one."""
        return self.placement.prepare

    @property
    def path(self) -> Path | None:
        """The main file."""
        return self.placement.files[0].path if self.placement.files else None

    @property
    def changes(self) -> bool:
        """Whether anything is to be written at all."""
        return any(write.how != "same" for write in self.placement.files)


def plan(
    store: Store, conversation: Conversation, agent: Agent | None, cwd: Path, known: Sequence[str | None] = ()
) -> Placed:
    """Where the conversation would go. Reads the agent's files, writes nothing.

    Under its own id, else under one of the `known` ids if that has it already, or a beginning of it, else under a new
    one. Raises what the adapter's `place` does.
    """
    name = agent.name if agent else "generic"
    adapter = adapters.load_or_generic(name)
    what = _what(store, conversation, agent or Agent("generic"))
    for new_id in filter(None, known):
        with suppress(Refused):
            return Placed(name, conversation.digest.messages, adapter.place(what, cwd, store.repo.host, new_id=new_id))
    import uuid  # two milliseconds: asks which system this is

    placement = adapter.place(what, cwd, store.repo.host, new_id=str(uuid.uuid4()))
    return Placed(name, conversation.digest.messages, placement)


def plan_copy(store: Store, conversation: Conversation, agent: Agent, cwd: Path, new_id: str) -> Placed | None:
    """Where a copy of the conversation would go, under an id of its own; None if no agent can continue it."""
    adapter = adapters.load_or_generic(agent.name)
    what = _what(store, conversation, replace(agent, session_id=None))

    placement = adapter.place(what, cwd, store.repo.host, new_id=new_id) if adapter.NAME != "generic" else None
    if placement is None or placement.session_id is None:
        return None
    return Placed(agent.name, conversation.digest.messages, placement)


def write(placed: Placed) -> Kept | None:
    """Write what is not there yet; what could not be written and why, None if all is there.

    An existing file is only ever added to; a new one appears whole, with mode 0600. A file that changed since the plan
    was made is left as it is. The main file comes last, since it is what the agent looks for.
    """
    for item in reversed(placed.placement.files):
        try:
            if item.how == "append":
                _append(item)
            elif item.how == "create":
                _create(item)
        except (GitcpError, OSError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            return Kept(os.fsencode(item.path), f"the conversation is not restored: {reason}", missing=True)
    return None


def sweep(placed: Placed) -> None:
    """Remove the unfinished files that an interrupted `write` left."""
    for directory in {item.path.parent for item in placed.placement.files}:
        for path in directory.glob(f"{TEMPORARY}*"):
            path.unlink(missing_ok=True)


def _what(store: Store, conversation: Conversation, agent: Agent) -> Stored:
    streams = tuple((stream, _reader(store, conversation, stream.name)) for stream in conversation.streams)
    return Stored(agent, streams, store.repo.state_dir / "restored")


def _reader(store: Store, conversation: Conversation, name: str) -> Reader:
    return lambda: segments.content(store.objects, stored(store, conversation, name))


def _append(item: Write) -> None:
    """Complete a file that is a beginning of what was stored. The agent may have it open: it is not replaced, and
    nothing it adds at the same moment is overwritten.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    with open(os.open(item.path, flags), "ab", buffering=0) as file:
        if os.fstat(file.fileno()).st_size != item.skip:
            raise Refused(f"{item.path} changed meanwhile: it was left as it is")
        seen = 0
        for chunk in item.content():
            rest = memoryview(chunk)[max(0, item.skip - seen) :]
            seen += len(chunk)
            while rest:
                rest = rest[file.write(rest) or 0 :]
        os.fsync(file.fileno())
        if os.fstat(file.fileno()).st_size != seen:
            raise Refused(f"something else was written to {item.path} at the same time")


def _create(item: Write) -> None:
    _make_private(item.path.parent)
    temporary = item.path.with_name(f"{TEMPORARY}{os.urandom(16).hex()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "wb") as file:
            file.writelines(item.content())
            file.flush()
            os.fsync(file.fileno())
        _name(temporary, item.path)
    except FileExistsError:
        raise Refused(f"{item.path} appeared meanwhile: it was left as it is") from None
    finally:
        with suppress(OSError):  # its directory could not even be entered
            temporary.unlink(missing_ok=True)
    sync_directory(item.path.parent)


def _make_private(directory: Path) -> None:
    """Make a directory and those above it, as far as they are missing, for the user alone."""
    if not directory.is_dir():
        _make_private(directory.parent)
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)


def _name(temporary: Path, path: Path) -> None:
    """Give a finished file its name, without replacing another."""
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP):
            raise
        # A file system without hard links: take the name first, then fill it at once.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
        os.replace(temporary, path)
