"""Write a stored conversation where its agent resumes it. The adapter plans, this module writes;
existing files are never shortened.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gitcp import adapters, wire
from gitcp.adapters import base
from gitcp.adapters.base import Placement, Reader, Stored, Write
from gitcp.adopting import personal
from gitcp.agents import SAVED
from gitcp.conversation import segments
from gitcp.errors import GitcpError, Refused
from gitcp.fastpath import hook_memo
from gitcp.git.fsync import make_own_directory, replacing
from gitcp.model import MAIN, Agent, Capture, Checkpoint, Conversation
from gitcp.restoring.plan import Kept
from gitcp.saving.conversation import lines, relative_directory, store_capture, stored
from gitcp.store import Store
from gitcp.value import EMPTY, Value, replace
from gitcp.worktree import paths

if TYPE_CHECKING:
    from gitcp.documents import Resume

TEMPORARY = ".gitcp-tmp-"

RECENT = 20
"""Checkpoints of a session among which that of its agent's own conversation is looked for."""


class Placed(Value):
    """Where a conversation goes: the agent, its session id, the files, and the command that resumes
    it.

    `directory` is where the command is to be run; it may not exist. `mended` is what was wrong with
    the stored conversation, by description; the checkpoint keeps it as it was. `elsewhere` says
    that the agent keeps the session in another directory, "" if it does not.
    """

    agent: str
    messages: int
    placement: Placement
    directory: Path
    mended: Mapping[str, int] = EMPTY
    elsewhere: str = ""

    @property
    def session_id(self) -> str | None:
        """The agent's session id for the conversation; None where no agent resumes it."""
        return self.placement.session_id

    @property
    def command(self) -> tuple[str, ...]:
        """The command that resumes the agent; empty if there is none."""
        return self.placement.command

    @property
    def prepare(self) -> tuple[tuple[str, ...], ...]:
        """The commands to run first."""
        return self.placement.prepare

    @property
    def path(self) -> Path | None:
        """The main file; None if there is none."""
        return self.placement.files[0].path if self.placement.files else None

    @property
    def changes(self) -> bool:
        """Whether any file is to be written."""
        return any(write.how != "same" for write in self.placement.files)

    def moves_on(self, agent: Agent | None) -> bool:
        """Return whether the conversation gets another id than it has from `agent`."""
        return agent is not None and self.session_id not in (None, agent.session_id)

    def document(self) -> Resume:
        """Return what is printed of it."""
        from gitcp import documents  # only for programs

        latest = self.placement.latest
        return documents.Resume(
            agent=self.agent,
            session_id=self.session_id,
            prepare=tuple(tuple(command) for command in self.prepare),
            command=tuple(self.command),
            directory=self.directory,
            latest=documents.Latest(latest.session_id, tuple(latest.command)) if latest else None,
            path=self.path,
            repaired=self.mended,
        )

    def to_json(self) -> dict[str, Any]:
        """Return how the agent continues, as `gitcp resume --print --json` prints it."""
        from gitcp import documents  # only for programs

        return documents.encode(self.document())


def plan(
    store: Store,
    conversation: Conversation,
    agent: Agent | None,
    cwd: Path,
    known: Sequence[str | None] = (),
    root: Path | None = None,
) -> Placed:
    """Return where the conversation would go. Reads the agent's files and writes nothing.

    The directory is the one of the working tree `root` (default: this one) in which the session
    ran, that of a session in the personal store, or `cwd` if unknown. The session id is the
    conversation's own; else one of the `known` ids whose file is a prefix of the conversation; else
    a new one. Raises what the adapter's `place` raises.
    """
    name = agent.name if agent else "generic"
    adapter = adapters.load_or_generic(name)
    stored_content, faults = adapters.mended(
        name, content(store, conversation, agent or Agent("generic"))
    )
    path = directory(store, conversation, agent, root) or _outside(store, conversation) or cwd
    for new_id in filter(None, known):
        with suppress(Refused):
            placement = adapter.place(stored_content, path, store.repo.host, new_id=new_id)
            break
    else:
        import uuid  # takes 2 ms, and is rarely needed

        placement = adapter.place(stored_content, path, store.repo.host, new_id=str(uuid.uuid4()))
    if faults and placement.note:
        placement = replace(placement, note=_repaired_note(agent, placement))
    repaired, elsewhere = _written(faults, placement), _elsewhere(store, name, agent, placement)
    return Placed(name, conversation.digest.messages, placement, path, repaired, elsewhere)


def _written(faults: Mapping[str, int], placement: Placement) -> Mapping[str, int]:
    """Return the faults without those of streams that are not written."""
    ends = tuple(f" in {name}" for name in placement.kept)
    return {what: count for what, count in faults.items() if not what.endswith(ends)}


def _elsewhere(store: Store, name: str, agent: Agent | None, placement: Placement) -> str:
    """Return that the agent keeps the session in another directory than the one that this shell's
    environment names, "" if it does not, or if no hook has told.
    """
    session = agent.session_id if agent else None
    record = SAVED.get(name)
    if session is None or record is None or record.transcripts.data or not placement.files:
        return ""
    known = hook_memo.last(os.fsdecode(store.repo.git_dir), name, session)
    host = store.repo.host
    here = Path(record.home_in(host.env, str(host.home)))
    with suppress(ValueError, IndexError):
        depth = len(placement.files[0].path.relative_to(here).parts)
        there = Path(known.transcript).parents[depth - 1] if known else here
        if there != here and known is not None and os.path.isfile(known.transcript):
            value = there.parent if record.below else there
            return (
                f"session {session} is in {there}, but this shell names {here}: "
                f"with {record.home_variable}={shlex.quote(str(value))}, gitcp restores it there"
            )
    return ""


def _repaired_note(agent: Agent | None, placement: Placement) -> str:
    """Return the note for a repaired copy that got a new id, since the damaged one is there."""
    return (
        f"session {agent and agent.session_id} was kept; "
        f"the restored conversation is a repaired copy: {placement.session_id}"
    )


def plan_copy(
    store: Store,
    conversation: Conversation,
    agent: Agent,
    cwd: Path,
    new_id: str,
    root: Path | None = None,
) -> Placed | None:
    """Return where a copy of the conversation would go, under the session id `new_id`; None if no
    agent can resume it.
    """
    adapter = adapters.load_or_generic(agent.name)
    stored_content = content(store, conversation, replace(agent, session_id=None))
    path = directory(store, conversation, agent, root) or cwd
    placement = (
        adapter.place(stored_content, path, store.repo.host, new_id=new_id)
        if adapter.NAME != "generic"
        else None
    )
    if placement is None or placement.session_id is None:
        return None
    return Placed(agent.name, conversation.digest.messages, placement, path)


def awaiting(store: Store, checkpoint: Checkpoint, cwd: Path) -> Placed | None:
    """Return where a restore placed the conversation of a checkpoint, if the commands that complete
    it (`prepare`) were not run yet. None if they were, if there are none, or if the agent's own
    session has other messages. Reads the agent's files and writes nothing.
    """
    conversation, agent = checkpoint.conversation, checkpoint.agent
    if conversation is None or agent is None:
        return None
    with suppress(GitcpError):
        placed = plan(store, conversation, agent, cwd)
        is_own = placed.session_id == agent.session_id
        return placed if placed.prepare and is_own and not placed.changes else None
    return None


def unimported(store: Store, name: str, capture: Capture | None, cwd: Path) -> Checkpoint | None:
    """Return the last checkpoint of a session if its agent still has to import the conversation
    that a restore placed (`awaiting`): that is the current one, not the `capture` of what the agent
    has. None if it has not, or if a recent checkpoint does not have that capture.

    Writes objects only.
    """
    tip = store.tip(name)
    if tip is None or not store.has_summary(tip) or capture is None:
        return None
    with suppress(GitcpError):
        last = store.read(tip)
        # Undo of a second restore brought back the conversation from before both: opencode had not
        # imported that of the first.
        if last.restored_from is None or awaiting(store, last, cwd) is None:
            return None
        present, _ = store_capture(store, capture, last)
        earlier = (store.read(each.commit) for each in islice(store.history(tip), 1, RECENT))
        saved = (each.conversation for each in earlier if each.conversation is not None)
        if present is not None and any(each.tree == present.tree for each in saved):
            return last
    return None


def damage(store: Store, checkpoint: Checkpoint) -> str:
    """Return what a restore would repair in its copy of a checkpoint's conversation, in words. ""
    if there is nothing, or if it cannot be read. The conversation is read line by line: memory does
    not grow with its texts.
    """
    conversation, agent = checkpoint.conversation, checkpoint.agent
    if conversation is None or agent is None:
        return ""
    with suppress(GitcpError):
        return in_words(adapters.mended(agent.name, content(store, conversation, agent))[1])
    return ""


def in_words(faults: Mapping[str, int]) -> str:
    """Return what was wrong with a transcript, with numbers."""
    return ", ".join(f"{count:,} {what}" for what, count in sorted(faults.items()))


def directory(
    store: Store, conversation: Conversation, agent: Agent | None, root: Path | None = None
) -> Path | None:
    """Return the directory of a working tree (default: this one) in which the agent's session ran,
    existing or not; None if it is unknown or no longer inside that tree.
    """
    ran_in = conversation.directory
    if ran_in is None:
        ran_in = _ran_in(store, conversation, agent)
    top = os.path.realpath(root or store.repo.root)
    if not ran_in:
        return None if ran_in is None else Path(top)
    name = os.fsdecode(ran_in)
    path = os.path.join(top, name)
    # Trust neither the path, which may come from another user, nor a symlink that has replaced the
    # directory.
    is_safe = (
        paths.problem(ran_in) is None and name.isprintable() and os.path.realpath(path) == path
    )
    return Path(path) if is_safe else None


def _ran_in(store: Store, conversation: Conversation, agent: Agent | None) -> bytes | None:
    """Return where a session ran if its checkpoint does not record it: as its first lines say, else
    as the agent's own files do.
    """
    cwd = _first_cwd(store, conversation)
    ran_in = relative_directory(store.repo.root, Path(cwd)) if cwd else None
    if ran_in is not None:
        return ran_in
    source = (
        adapters.located(agent.name, agent.session_id or "", store.repo.host) if agent else None
    )
    with suppress(GitcpError):
        current = adapters.load(source.agent).capture(source).directory if source else None
        return relative_directory(store.repo.root, current) if current else None
    return None


def _outside(store: Store, conversation: Conversation) -> Path | None:
    """Return where a session of the personal store ran, which is in no repository; None in any
    other store, or if that directory is gone.
    """
    if store.repo.root != Path(os.path.realpath(personal.place(store.repo.host))):
        return None
    cwd = _first_cwd(store, conversation)
    return Path(cwd) if cwd and os.path.isdir(cwd) else None


def _first_cwd(store: Store, conversation: Conversation) -> str | None:
    """Return the first working directory that the beginning of a conversation names."""
    beginning = lines(store, stored(store, conversation, MAIN)[:1])
    directories = (_cwd_of(wire.parse_line(line) or {}) for line in beginning)
    return next(filter(None, directories), None)


def _cwd_of(fields: wire.Json) -> str | None:
    """Return the working directory recorded in a transcript line of any agent; None if there is
    none.
    """
    data = fields.get("data")
    context = data.get("context") if isinstance(data, dict) else None
    objects = (fields, fields.get("payload"), context)
    values = (base.string(each, "cwd") for each in objects if isinstance(each, dict))
    return next((cwd for cwd in values if cwd and "\0" not in cwd), None)


def write(placed: Placed) -> Kept | None:
    """Write what is missing; return None, or the file that could not be written, with the reason.

    An existing file is only appended to; a new one appears complete, with mode 0600. A file that
    changed since the plan was made is kept. The main file is written last, since the agent looks
    for that one.
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
                os.fsencode(item.path), f"the conversation was not restored: {reason}", missing=True
            )
    return None


def sweep(placed: Placed) -> None:
    """Remove the temporary files of an interrupted `write`."""
    for directory in {item.path.parent for item in placed.placement.files}:
        for path in directory.glob(f"{TEMPORARY}*"):
            path.unlink(missing_ok=True)


def content(store: Store, conversation: Conversation, agent: Agent) -> Stored:
    """Return a conversation as an adapter takes it."""
    streams = tuple(
        (stream, _reader(store, conversation, stream.name)) for stream in conversation.streams
    )
    return Stored(agent, streams, store.repo.state_dir / "restored")


def _reader(store: Store, conversation: Conversation, name: str) -> Reader:
    return lambda: segments.content(store.reader, stored(store, conversation, name))


def _append(item: Write) -> None:
    """Append the missing part to a file that is a prefix of the stored conversation.

    The file is never replaced, since the agent may have it open. Raises Refused if the file
    changed, or if something else wrote to it at the same time.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    with open(os.open(item.path, flags), "ab", buffering=0) as file:
        if os.fstat(file.fileno()).st_size != item.skip:
            raise Refused(f"{item.path} changed in the meantime and was kept")
        length = 0
        for chunk in item.content():
            rest = memoryview(chunk)[max(0, item.skip - length) :]
            length += len(chunk)
            while rest:
                rest = rest[file.write(rest) or 0 :]
        os.fsync(file.fileno())
        if os.fstat(file.fileno()).st_size != length:
            raise Refused(f"another program wrote to {item.path} at the same time")


def _create(item: Write) -> None:
    make_private(item.path.parent)
    temporary = item.path.with_name(f"{TEMPORARY}{os.urandom(16).hex()}")
    try:
        with (
            replacing(item.path, temporary=temporary, overwrite=False) as descriptor,
            open(descriptor, "wb", closefd=False) as file,
        ):
            file.writelines(item.content())
    except FileExistsError:
        raise Refused(f"{item.path} was created in the meantime and was kept") from None


def make_private(directory: Path) -> None:
    """Create a directory and its missing parents, with access for the user only."""
    if not os.path.isdir(directory):
        make_private(directory.parent)
        make_own_directory(directory)
