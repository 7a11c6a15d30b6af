"""Puts a stored conversation back where its agent resumes it. The adapter plans, this writes;
nothing is cut short.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gitcp import adapters, wire
from gitcp.adapters import base
from gitcp.adapters.base import Placement, Reader, Stored, Write
from gitcp.conversation import segments
from gitcp.errors import GitcpError, Refused
from gitcp.git import shared
from gitcp.git.fsync import make_own_directory, sync_directory
from gitcp.model import Agent, Conversation
from gitcp.restoring.plan import Kept
from gitcp.saving.conversation import MAIN, below, lines, stored
from gitcp.store import Store
from gitcp.value import Value, replace
from gitcp.worktree import paths

TEMPORARY = ".gitcp-tmp-"


class Placed(Value):
    """Where a conversation goes: whose, under which of the agent's session ids, and the command
    that continues it.

    `directory` is where that command is to be run; it may not be there.
    """

    agent: str
    messages: int
    placement: Placement
    directory: Path

    @property
    def session_id(self) -> str | None:
        """The agent's session id that will hold the conversation; None where there is no agent to
        resume.
        """
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
    store: Store,
    conversation: Conversation,
    agent: Agent | None,
    cwd: Path,
    known: Sequence[str | None] = (),
    root: Path | None = None,
) -> Placed:
    """Where the conversation would go. Reads the agent's files, writes nothing.

    In the directory of the working tree `root` (this one, unless given) in which the session ran,
    or in `cwd` where that is not known. Under its own id, else under one of the `known` ids if that
    has it already, or a beginning of it, else under a new one. Raises what the adapter's `place`
    does.
    """
    name = agent.name if agent else "generic"
    adapter = adapters.load_or_generic(name)
    what = _what(store, conversation, agent or Agent("generic"))
    place = directory(store, conversation, agent, root) or cwd
    for new_id in filter(None, known):
        with suppress(Refused):
            placement = adapter.place(what, place, store.repo.host, new_id=new_id)
            return Placed(name, conversation.digest.messages, placement, place)
    import uuid  # two milliseconds: asks which system this is

    placement = adapter.place(what, place, store.repo.host, new_id=str(uuid.uuid4()))
    return Placed(name, conversation.digest.messages, placement, place)


def plan_copy(
    store: Store,
    conversation: Conversation,
    agent: Agent,
    cwd: Path,
    new_id: str,
    root: Path | None = None,
) -> Placed | None:
    """Where a copy of the conversation would go, under an id of its own; None if no agent can
    continue it.
    """
    adapter = adapters.load_or_generic(agent.name)
    what = _what(store, conversation, replace(agent, session_id=None))
    place = directory(store, conversation, agent, root) or cwd
    placement = (
        adapter.place(what, place, store.repo.host, new_id=new_id)
        if adapter.NAME != "generic"
        else None
    )
    if placement is None or placement.session_id is None:
        return None
    return Placed(agent.name, conversation.digest.messages, placement, place)


def directory(
    store: Store, conversation: Conversation, agent: Agent | None, root: Path | None = None
) -> Path | None:
    """The directory of a working tree (this one, unless `root` is given) in which the agent's
    session ran, whether or not it is there now; None where that is not known, or is no directory of
    that tree any more.
    """
    ran_in = conversation.directory
    if ran_in is None:
        ran_in = _ran_in(store, conversation, agent)
    top = os.path.realpath(root or store.repo.root)
    if not ran_in:
        return None if ran_in is None else Path(top)
    name = os.fsdecode(ran_in)
    place = os.path.join(top, name)
    # The checkpoint may be another user's, and a link may have replaced the directory: never follow
    # either blindly.
    sound = (
        paths.problem(ran_in) is None and name.isprintable() and os.path.realpath(place) == place
    )
    return Path(place) if sound else None


def _ran_in(store: Store, conversation: Conversation, agent: Agent | None) -> bytes | None:
    """Where a session ran of which its checkpoint does not say it: by what its lines say, or else
    by where the agent has it.
    """
    for line in lines(store, stored(store, conversation, MAIN)[:1]):
        cwd = _cwd_of(wire.parse_line(line) or {})
        if cwd is not None:
            ran_in = below(store.repo.root, Path(cwd))
            if ran_in is not None:
                return ran_in
            break
    found = adapters.located(agent.name, agent.session_id or "", store.repo.host) if agent else None
    with suppress(GitcpError):
        now = adapters.load(found.agent).capture(found).directory if found else None
        return below(store.repo.root, now) if now else None
    return None


def _cwd_of(fields: wire.Json) -> str | None:
    """The working directory that a line of a transcript names, in the way of any of the agents."""
    data = fields.get("data")
    context = data.get("context") if isinstance(data, dict) else None
    holders = (fields, fields.get("payload"), context)
    named = (base.string(holder, "cwd") for holder in holders if isinstance(holder, dict))
    return next((cwd for cwd in named if cwd and "\0" not in cwd), None)


def write(placed: Placed) -> Kept | None:
    """Write what is not there yet; what could not be written and why, None if all is there.

    An existing file is only ever added to; a new one appears whole, with mode 0600. A file that
    changed since the plan was made is left as it is. The main file comes last, since it is what the
    agent looks for.
    """
    for item in reversed(placed.placement.files):
        try:
            if item.how == "append":
                _append(item)
            elif item.how == "create":
                _create(item)
        except (GitcpError, OSError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            return Kept(
                os.fsencode(item.path), f"the conversation is not restored: {reason}", missing=True
            )
    return None


def sweep(placed: Placed) -> None:
    """Remove the unfinished files that an interrupted `write` left."""
    for directory in {item.path.parent for item in placed.placement.files}:
        for path in directory.glob(f"{TEMPORARY}*"):
            path.unlink(missing_ok=True)


def _what(store: Store, conversation: Conversation, agent: Agent) -> Stored:
    streams = tuple(
        (stream, _reader(store, conversation, stream.name)) for stream in conversation.streams
    )
    return Stored(agent, streams, store.repo.state_dir / "restored")


def _reader(store: Store, conversation: Conversation, name: str) -> Reader:
    return lambda: segments.content(store.objects, stored(store, conversation, name))


def _append(item: Write) -> None:
    """Complete a file that is a beginning of what was stored. The agent may have it open: it is not
    replaced, and nothing it adds at the same moment is overwritten.
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
            # where it lies with what gitcp keeps of a shared repository
            shared.share(descriptor, item.path)
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
        make_own_directory(directory)


def _name(temporary: Path, path: Path) -> None:
    """Give a finished file its name, without replacing another."""
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP):
            raise
        # A file system without hard links: take the name first, then fill it at once.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
        try:
            os.replace(temporary, path)
        except OSError:
            path.unlink()
            raise
