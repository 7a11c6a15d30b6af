"""The Claude Agent SDK, checkpointed: each turn's transcript and the files are one commit, and go
back together.

    from gitcp.claude import options

    async for message in query(prompt="…", options=options("/path/to/repository")):
        ...

`GitSessionStore` is a session store of the SDK: what the agent says is mirrored into it, and each
append is a checkpoint with the files as they are then. The hook that `options` adds says when a
prompt came, before the agent acts on it, which is where `GitSessionStore.rewind` goes back to. The
SDK's own file checkpoints know the edit tools only, and cannot be combined with a session store.

The sessions are those of Claude Code to every command: `gitcp log`, `gitcp restore`, `claude
--resume` work with them.
"""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from gitcp.integrations.extras import missing

try:
    from claude_agent_sdk import (
        ClaudeAgentOptions,
        HookMatcher,
        SessionKey,
        SessionListSubkeysKey,
        SessionStore,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
        fold_session_summary,
        project_key_for_directory,
    )
except ImportError as error:
    raise missing("gitcp.claude", "claude", error) from None

from gitcp import api
from gitcp.adapters import base, claude_code
from gitcp.api.opened import Opened, numbered
from gitcp.api.session import only
from gitcp.errors import BadValue, GitcpError, RevisionNotFound
from gitcp.integrations.thread import LOCK, Changes, Given, Held, Thread, encode, leaving, parsed
from gitcp.lifecycle import delete
from gitcp.model import Agent, Checkpoint, Host, Oid, Trigger
from gitcp.restoring import restore, restore_notice
from gitcp.restoring.message import before_message
from gitcp.restoring.restore import Report
from gitcp.saving import session as session_op
from gitcp.saving.conversation import MAIN
from gitcp.store import Store, Summary, one_line
from gitcp.value import replace

PROMPT = "prompt"
"""The position that says which prompt a checkpoint was made for: the agent's own id of it."""

BELOW = f"{claude_code.SESSION}/"
LINES = ".jsonl"

FOREIGN = re.compile(r"\.[0-9a-f]{8}\Z")
"""How the name of a session ends that belongs to another project than this directory."""


class GitSessionStore(SessionStore):
    """Keeps sessions of the SDK as checkpoints of the repository around `path`, the working
    directory of the agent.

    Every method can be used from several tasks, threads and processes. Raises what `gitcp.open`
    does.
    """

    def __init__(self, path: str | os.PathLike[str] = ".", *, host: Host | None = None) -> None:
        self.checkpoints = api.open(path, host=host)
        self.project_key = project_key_for_directory(self.checkpoints.path)
        self._folded: dict[str, tuple[int, str, SessionSummaryEntry | None]] = {}

    # ------------------------------------------------------------ the SDK's protocol

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Add to a transcript, in one checkpoint with the files of now. An entry whose uuid is
        there is left out.
        """
        if entries:
            await asyncio.to_thread(self._append, key, entries)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """The entries of a transcript, None if it was never written."""
        return await asyncio.to_thread(self._load, key)

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The sessions of a project; those of this directory include what `gitcp` saved or fetched
        by itself.
        """
        found = await asyncio.to_thread(lambda: list(self._sessions(project_key)))
        return [{"session_id": session_id, "mtime": _mtime(held)} for session_id, held in found]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """What the SDK shows of each session. The first time a session is read whole, then what is
        new of it.
        """
        return await asyncio.to_thread(
            lambda: [self._summary(*found) for found in self._sessions(project_key)]
        )

    async def delete(self, key: SessionKey) -> None:
        """Put a session into gitcp's trash (`gitcp undo` brings it back); with a subpath, end that
        transcript.
        """
        await asyncio.to_thread(self._delete, key)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The subpaths of a session: the transcripts of its sub-agents."""
        return await asyncio.to_thread(self._subkeys, key)

    # ------------------------------------------------------------ going back

    async def rewind(self, session_id: str, message: str) -> Report:
        """Bring back the state before a user message: the files, whatever changed them, and the
        transcript.

        `message` is the uuid of the message. What is there now is saved first, and `undo` goes back
        to it. The session keeps its id: resume it to go on from there. Raises RevisionNotFound, and
        Refused where a restore is; nothing was changed then.
        """
        return await asyncio.to_thread(self._rewind, session_id, message)

    async def undo(self, session_id: str) -> Report:
        """Take back the last rewind, files and transcript. Raises Refused if there is none."""
        return await asyncio.to_thread(self._undo, session_id)

    # ------------------------------------------------------------ hooks

    async def prompted(
        self, payload: Any, _tool_use_id: str | None = None, _context: Any = None
    ) -> Any:
        """The callback of UserPromptSubmit: a checkpoint of the files, before the agent does
        anything about the prompt.

        It never fails the agent: what went wrong is told to the user.
        """
        try:
            told = await asyncio.to_thread(self._prompted, payload)
        except GitcpError as failed:
            return {"systemMessage": f"gitcp: there is no checkpoint before this prompt: {failed}"}
        said = {"hookEventName": "UserPromptSubmit", "additionalContext": told}
        return {"hookSpecificOutput": said} if told else {}

    # ------------------------------------------------------------ the same, blocking

    def _append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        place = _place(key.get("subpath"))
        if place is None:
            raise BadValue(
                f"{str(key.get('subpath'))[:80]!r} cannot be a transcript of a session: nothing "
                "was saved"
            )
        stream = _stream(key.get("subpath"))

        def added(held: Held) -> Changes | None:
            there = held.read(stream)
            new = list(_unknown(parsed(there), entries))
            return {stream: Given(there + encode(new), place)} if new else None

        self._thread(key["project_key"], key["session_id"]).change(added)

    def _load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        held = self._held(key["project_key"], key["session_id"])
        return parsed(held.read(_stream(key.get("subpath")))) or None if held else None

    def _sessions(self, project_key: str) -> Iterator[tuple[str, Held]]:
        """The sessions of a project that have a transcript, by the id that the agent knows."""
        store = self.checkpoints.store()
        for tip in self._named(store, project_key).values():
            held = Held(store, store.read(tip))
            agent = held.checkpoint.agent if held.checkpoint else None
            written = any(stream.name == MAIN and stream.bytes for stream in held.streams)
            if (
                written
                and agent is not None
                and agent.name == claude_code.NAME
                and agent.session_id
            ):
                yield agent.session_id, held

    def _summary(self, session_id: str, held: Held) -> SessionSummaryEntry:
        assert held.checkpoint is not None
        name, data = held.checkpoint.id.session, held.read()
        size, checksum, folded = self._folded.get(name, (0, "", None))
        if sha256(data[:size]).hexdigest() != checksum:
            size, folded = 0, None
        key: SessionKey = {"project_key": self.project_key, "session_id": session_id}
        made = fold_session_summary(folded, key, parsed(data[size:]))
        made["mtime"] = _mtime(held)
        self._folded[name] = len(data), sha256(data).hexdigest(), made
        return made

    def _delete(self, key: SessionKey) -> None:
        name = self._find(key["project_key"], key["session_id"])
        if name is None:
            return
        if not key.get("subpath"):
            delete.delete(self.checkpoints.store(), name)
            return
        gone = _stream(key.get("subpath"))
        thread = self._thread(key["project_key"], key["session_id"])
        thread.change(
            lambda held: {gone: None} if any(each.name == gone for each in held.streams) else None
        )

    def _subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        held = self._held(key["project_key"], key["session_id"])
        places = [stream.place for stream in held.streams] if held else []
        return [
            place[len(BELOW) : -len(LINES)]
            for place in places
            if place.startswith(BELOW) and place.endswith(LINES)
        ]

    def _prompted(self, payload: Any) -> str | None:
        session_id = payload["session_id"]
        thread = self._thread(Path(payload["transcript_path"]).parent.name, session_id)
        prompt = payload.get("prompt_id")
        thread.note(Trigger.PROMPT, {PROMPT: prompt} if prompt else {})
        return restore_notice.take(self.checkpoints.store(), claude_code.NAME, session_id)

    # ------------------------------------------------------------ rewinding

    def _rewind(self, session_id: str, message: str) -> Report:
        with self._going_back(session_id) as (opened, name):
            store = opened.store()
            target, rewound = before_message(store, name, message)
            target = self._before_prompt(name, message) or target
            return restore.restore(store, replace(opened.request(store, target), rewound=rewound))

    def _undo(self, session_id: str) -> Report:
        with self._going_back(session_id) as (opened, _):
            store = opened.store()
            return restore.undo(store, lambda id: opened.request(store, numbered(store, id)))

    @contextmanager
    def _going_back(self, session_id: str) -> Iterator[tuple[Opened, str]]:
        """The repository as it is opened for a restore. The SDK reads transcripts from the store
        and nowhere else, so the one that goes back is laid into an agent's home that is gone
        afterwards, under the session's own id.
        """
        name = self._find(self.project_key, session_id)
        if name is None:
            raise RevisionNotFound(
                f"there is no session {session_id}: nothing was changed", hint="gitcp sessions"
            )
        with (
            tempfile.TemporaryDirectory(prefix="gitcp-") as home,
            only(self.checkpoints.store(), name, LOCK),
        ):
            yield leaving(self.checkpoints, name, {"CLAUDE_CONFIG_DIR": home}), name

    def _before_prompt(self, name: str, message: str) -> Checkpoint | None:
        """The checkpoint that was made when the message came, by the agent's own id of the
        prompt.
        """
        thread = Thread(self.checkpoints, name, Agent(claude_code.NAME))
        lines = (each for held in thread.history() for each in parsed(held.read()))
        prompt = next((each.get("promptId") for each in lines if each.get("uuid") == message), None)
        found = (
            held.checkpoint
            for held in thread.history()
            if prompt and _is_prompt(held.checkpoint, prompt)
        )
        return next(found, None)

    # ------------------------------------------------------------ names

    def _held(self, project_key: str, session_id: str) -> Held | None:
        name = self._find(project_key, session_id)
        return Thread(self.checkpoints, name, Agent(claude_code.NAME)).held() if name else None

    def _thread(self, project_key: str, session_id: str) -> Thread:
        """The session of an agent's session; a new one if it has none."""
        name = self._find(project_key, session_id)
        if name is None:
            new = self._new_name(project_key, session_id)
            # Who took the short name meanwhile may have been another process with the same session.
            name = self._find(project_key, session_id) or new
        return Thread(self.checkpoints, name, Agent(claude_code.NAME, session_id), claude_code.NAME)

    def _new_name(self, project_key: str, session_id: str) -> str:
        if project_key == self.project_key:
            return session_op.new_name(self.checkpoints.store(), session_id)
        plain = re.sub(r"[^A-Za-z0-9]", "", session_id)[:60] or "session"
        exact = "" if plain == session_id else f"-{sha256(session_id.encode()).hexdigest()[:8]}"
        return f"{plain}{exact}{self._suffix(project_key)}"

    def _find(self, project_key: str, session_id: str) -> str | None:
        """The session that holds an agent's session: by what its last checkpoint says, else by an
        earlier one.
        """
        store = self.checkpoints.store()
        names = self._named(store, project_key)
        plain = re.sub(r"[^A-Za-z0-9]", "", session_id)
        likely = [name for name in names if plain.startswith(name)]
        by_tip = (
            name
            for name in (*likely, *names)
            if _holds(store, store.summary(names[name]), session_id)
        )
        by_chain = (
            n for n in likely if any(_holds(store, s, session_id) for s in store.history(names[n]))
        )
        return next(by_tip, None) or next(by_chain, None)

    def _named(self, store: Store, project_key: str) -> dict[str, Oid]:
        """The sessions that belong to a project."""
        suffix = self._suffix(project_key)
        return {
            name: tip
            for name, tip in store.sessions().items()
            if (name.endswith(suffix) if suffix else not FOREIGN.search(name))
        }

    def _suffix(self, project_key: str) -> str:
        """What names end in of sessions that belong to another project than this directory."""
        return (
            ""
            if project_key == self.project_key
            else f".{sha256(project_key.encode()).hexdigest()[:8]}"
        )


def options(path: str | os.PathLike[str] = ".", **given: Any) -> ClaudeAgentOptions:
    """Options of the SDK with which every turn becomes a checkpoint of the repository around
    `path`.

    `given` are any other options; hooks among them are kept. The agent works in `path`. The store
    is in `session_store`: `options(…).session_store.rewind(…)`.
    """
    store = given.pop("session_store", None) or GitSessionStore(path)
    hooks = dict(given.pop("hooks", None) or {})
    hooks["UserPromptSubmit"] = [
        *hooks.get("UserPromptSubmit", ()),
        HookMatcher(hooks=[store.prompted]),
    ]
    return ClaudeAgentOptions(
        **{"cwd": store.checkpoints.path, **given}, session_store=store, hooks=hooks
    )


def _unknown(there: list[Any], entries: Iterable[SessionStoreEntry]) -> Iterator[SessionStoreEntry]:
    """The entries that are not there yet, by their uuid; those without one are always new."""
    known = {entry.get("uuid") for entry in there}
    for entry in entries:
        uuid = entry.get("uuid")
        if uuid is None or uuid not in known:
            known.add(uuid)
            yield entry


def _place(subpath: str | None) -> str | None:
    """Where Claude Code keeps a transcript; None for one that it would keep nowhere."""
    place = f"{BELOW}{subpath}{LINES}" if subpath else f"{claude_code.SESSION}{LINES}"
    parts = base.place_parts(place)
    kept = parts is not None and (
        not subpath or (len(parts) > 2 and parts[1] in claude_code.BESIDE)
    )
    return place if kept else None


def _stream(subpath: str | None) -> str:
    if not subpath:
        return MAIN
    kind, _, below = subpath.partition("/")
    return claude_code.stream_name(kind, f"{below}{LINES}")


def _mtime(held: Held) -> int:
    """When a session was last written, in milliseconds; a commit knows seconds."""
    assert held.checkpoint is not None
    return int(held.checkpoint.created.timestamp()) * 1000


def _holds(store: Store, summary: Summary, session_id: str) -> bool:
    """Whether a checkpoint is of this session of the agent. A commit says it on one line, the
    metadata exactly.
    """
    said = (summary.trailers.get("Gitcp-Agent"), summary.trailers.get("Gitcp-Agent-Session"))
    if said != (claude_code.NAME, one_line(session_id, 200)):
        return False
    agent = store.read(summary.commit).agent if said[1] != session_id else None
    return agent is None or agent.session_id == session_id


def _is_prompt(checkpoint: Checkpoint | None, prompt: str) -> bool:
    return (
        checkpoint is not None
        and checkpoint.trigger is Trigger.PROMPT
        and checkpoint.note.position.get(PROMPT) == prompt
    )
