"""Checkpoints for the Claude Agent SDK: the transcript and the files of each turn in one commit.

    from gitcp.claude import options

    async for message in query(prompt="…", options=options("/path/to/repository")):
        ...

`GitSessionStore` is a session store for the SDK: each append to a transcript is a checkpoint that
includes the current files. `options` adds a hook that also saves when a prompt arrives, before the
agent acts on it; `GitSessionStore.rewind` restores that state. The SDK's own file checkpoints only
track its edit tools, and cannot be combined with a session store.

The sessions are Claude Code sessions: `gitcp log`, `gitcp restore` and `claude --resume` work.
"""

from __future__ import annotations

import os
import re
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from gitcp.integrations.extras import missing

try:
    from anyio import to_thread
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

from gitcp import api, wire
from gitcp.adapters import base, claude_code
from gitcp.api.opened import Opened, numbered
from gitcp.errors import BadValue, GitcpError, NotTrusted, RevisionNotFound
from gitcp.integrations.thread import (
    LOCK,
    Changes,
    StreamContent,
    Thread,
    ThreadContents,
    encode,
    open_for_restore,
    parsed,
)
from gitcp.lifecycle import delete
from gitcp.model import MAIN, Agent, Checkpoint, Host, Oid, Trigger
from gitcp.restoring import restore, restore_notice
from gitcp.restoring.message import Rewound, before_message
from gitcp.restoring.restore import Report
from gitcp.saving import session as session_op
from gitcp.state.steps import only
from gitcp.store import Store, Summary, one_line
from gitcp.value import replace

PROMPT = "prompt"
"""The position key with the agent's id of the prompt that a checkpoint was made for."""

WRITTEN = "written"
"""The position key with the time of an append, in milliseconds."""

BELOW = f"{claude_code.SESSION}/"
LINES = ".jsonl"

FOREIGN = re.compile(r"\.[0-9a-f]{8}\Z")
"""Suffix of session names that belong to other projects than this directory."""


class GitSessionStore(SessionStore):
    """A session store that saves to the repository around `path`, the agent's working directory.

    Safe to use from several tasks, threads and processes. Raises what `gitcp.open` raises.
    """

    def __init__(self, path: str | os.PathLike[str] = ".", *, host: Host | None = None) -> None:
        self.checkpoints = api.open(path, host=host)
        self.project_key = project_key_for_directory(self.checkpoints.path)
        self._folded: dict[str, tuple[int, str, SessionSummaryEntry | None]] = {}
        self._transcripts: dict[str, str] = {}
        """Where the agent writes the transcript of each session with a turn in this process."""

    # ------------------------------------------------------------ the SDK's protocol

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Append to a transcript, in one checkpoint with the current files. Entries
        with a known uuid are skipped.
        """
        if entries:
            await to_thread.run_sync(self._append, key, entries)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the entries of a transcript, None if it was never written. A session that was
        rewound to its beginning has one entry, of the type "system", so that the agent resumes it.
        """
        return await to_thread.run_sync(self._load, key)

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project. For this directory, includes those saved by `gitcp`
        and fetched ones, which `load` returns after `gitcp restore REMOTE/SESSION --trust`.
        """
        sessions = await to_thread.run_sync(lambda: list(self._sessions(project_key)))
        return [
            {"session_id": session_id, "mtime": _mtime(contents)}
            for session_id, contents in sessions
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the SDK's summary of each session. A session is read
        completely once, then incrementally.
        """
        return await to_thread.run_sync(
            lambda: [self._summary(*each) for each in self._sessions(project_key)]
        )

    async def delete(self, key: SessionKey) -> None:
        """Move a session to the trash (`gitcp undo` restores it); with a
        subpath, remove that transcript.
        """
        await to_thread.run_sync(self._delete, key)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of a session: the transcripts of its sub-agents."""
        return await to_thread.run_sync(self._subkeys, key)

    # ------------------------------------------------------------ going back

    async def rewind(
        self, session_id: str, message: str, *, whole_tree: bool = False, files_only: bool = False
    ) -> Report:
        """Restore the state before a user message: the transcript, and the files that the session
        changed. What others changed since stays; with `whole_tree`, all files are restored. With
        `files_only`, the transcript stays.

        `message` is the uuid of a prompt, or of a tool's result if a checkpoint was made right
        before it: options with session_store_flush="eager" make them. The current state is saved
        first; `undo` restores it. While a turn runs, its own prompt can be named as well.
        The session keeps its id: resume it to continue. Raises RevisionNotFound; OthersAffected if
        others changed the same lines; and Refused as a restore does. Nothing was changed then.
        """
        rewind = partial(
            self._rewind, session_id, message, whole_tree=whole_tree, files_only=files_only
        )
        return await to_thread.run_sync(rewind)

    async def undo(self, session_id: str) -> Report:
        """Undo the session's last rewind, files and transcript. Raises Refused if there is none, or
        if something else was restored or deleted since.
        """
        return await to_thread.run_sync(self._undo, session_id)

    def resuming(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return options that resume a session where `session_id` names one that was rewound to
        its beginning: the agent refuses an id that it has used. Raises NotTrusted if the session to
        resume was only fetched.
        """
        chosen = given.get("session_id")
        if given.get("resume"):
            self._check_trusted(given["resume"])
        elif chosen and (name := self._find(self.project_key, chosen)):
            thread = self._named(name)
            if _is_rewound(thread) and not _has_messages(parsed(thread.contents().read())):
                return {**given, "session_id": None, "resume": chosen}
        return given

    # ------------------------------------------------------------ hooks

    async def prompted(
        self, payload: Any, _tool_use_id: str | None = None, _context: Any = None
    ) -> Any:
        """Callback of UserPromptSubmit: save the files before the agent acts on the prompt.

        Never fails the agent: errors are shown to the user.
        """
        try:
            context = await to_thread.run_sync(self._prompted, payload)
        except GitcpError as failed:
            return {"systemMessage": f"gitcp: no checkpoint was made before this prompt: {failed}"}
        output = {"hookEventName": "UserPromptSubmit", "additionalContext": context}
        return {"hookSpecificOutput": output} if context else {}

    # ------------------------------------------------------------ synchronous

    def _append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        path = _place(key.get("subpath"))
        if path is None:
            raise BadValue(
                f"invalid transcript subpath {str(key.get('subpath'))[:80]!r}; nothing was saved"
            )
        stream = _stream(key.get("subpath"))

        def added(contents: ThreadContents) -> Changes | None:
            existing = contents.read(stream)
            new = list(_new_entries(parsed(existing), entries))
            return {stream: StreamContent(existing + encode(new), path)} if new else None

        written = {WRITTEN: str(int(self.checkpoints.host.now().timestamp() * 1000))}
        thread = self._thread(key["project_key"], key["session_id"])
        thread.change(added, position=written)

    def _load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        name = self._find(key["project_key"], key["session_id"])
        if name is None:
            return None
        thread = self._named(name)
        stream = _stream(key.get("subpath"))
        entries = parsed(thread.contents().read(stream))
        if stream == MAIN and not _has_messages(entries) and _is_rewound(thread):
            entries.append(self._beginning(key["session_id"]))
        return entries or None

    def _beginning(self, session_id: str) -> SessionStoreEntry:
        """Return the entry by which the agent finds a conversation without messages, to resume it.
        The model does not see it.
        """
        beginning: Any = {
            "type": "system",
            "subtype": "informational",
            "content": "rewound to the beginning",
            "level": "info",
            "isMeta": True,
            "isSidechain": False,
            "uuid": str(uuid.uuid5(uuid.NAMESPACE_OID, session_id)),
            "parentUuid": None,
            "sessionId": session_id,
            "timestamp": f"{self.checkpoints.host.now():%Y-%m-%dT%H:%M:%S.000Z}",
            "cwd": str(self.checkpoints.path),
        }
        return beginning  # type: ignore[no-any-return]

    def _sessions(self, project_key: str) -> Iterator[tuple[str, ThreadContents]]:
        """Yield the sessions of a project that have a transcript, by the agent's id; then those
        that were only fetched.
        """
        store = self.checkpoints.store()
        listed = set()
        fetched = store.fetched() if project_key == self.project_key else {}
        for tip in (*self._project_sessions(store, project_key).values(), *fetched.values()):
            contents = ThreadContents(store, store.read(tip))
            agent = contents.checkpoint.agent if contents.checkpoint else None
            if agent is None or agent.name != claude_code.NAME or not agent.session_id:
                continue
            has_transcript = any(
                stream.name == MAIN and stream.bytes for stream in contents.streams
            )
            rewound = contents.checkpoint and contents.checkpoint.trigger is Trigger.RESTORE
            if (has_transcript or rewound) and agent.session_id not in listed:
                listed.add(agent.session_id)
                yield agent.session_id, contents

    def _summary(self, session_id: str, contents: ThreadContents) -> SessionSummaryEntry:
        assert contents.checkpoint is not None
        name, data = contents.checkpoint.id.session, contents.read()
        size, checksum, folded = self._folded.get(name, (0, "", None))
        if sha256(data[:size]).hexdigest() != checksum:
            size, folded = 0, None
        key: SessionKey = {"project_key": self.project_key, "session_id": session_id}
        summary = fold_session_summary(folded, key, parsed(data[size:]))
        summary["mtime"] = _mtime(contents)
        self._folded[name] = len(data), sha256(data).hexdigest(), summary
        return summary

    def _delete(self, key: SessionKey) -> None:
        name = self._find(key["project_key"], key["session_id"])
        if name is None:
            return
        if not key.get("subpath"):
            delete.delete(self.checkpoints.store(), name)
            return
        stream = _stream(key.get("subpath"))
        thread = self._thread(key["project_key"], key["session_id"])
        thread.change(
            lambda contents: (
                {stream: None} if any(each.name == stream for each in contents.streams) else None
            )
        )

    def _subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        name = self._find(key["project_key"], key["session_id"])
        contents = self._named(name).contents() if name else None
        paths = [stream.place for stream in contents.streams] if contents else []
        return [
            path[len(BELOW) : -len(LINES)]
            for path in paths
            if path.startswith(BELOW) and path.endswith(LINES)
        ]

    def _prompted(self, payload: Any) -> str | None:
        session_id = payload["session_id"]
        self._transcripts[session_id] = payload["transcript_path"]
        thread = self._thread(Path(payload["transcript_path"]).parent.name, session_id)
        prompt = payload.get("prompt_id")
        notice = restore_notice.take(self.checkpoints.store(), claude_code.NAME, session_id)
        thread.note(Trigger.PROMPT, {PROMPT: prompt} if prompt else {})
        return notice

    # ------------------------------------------------------------ rewinding

    def _rewind(
        self, session_id: str, message: str, *, whole_tree: bool, files_only: bool
    ) -> Report:
        with self._open_session(session_id) as (opened, name):
            store = opened.store()
            target, rewound = self._before(store, name, session_id, message)
            request = opened.request(
                store,
                target,
                whole_tree=whole_tree,
                conversation=rewound is not None and not files_only,
                program=name,
            )
            return restore.restore(store, replace(request, rewound=rewound))

    def _before(
        self, store: Store, name: str, session_id: str, message: str
    ) -> tuple[Checkpoint, Rewound | None]:
        """Return the checkpoint before a message, and the conversation up to it: None for the
        prompt of a turn that runs, before which the stored conversation ends. Raises
        RevisionNotFound.
        """
        try:
            target, rewound = before_message(store, name, message)
        except RevisionNotFound as error:
            running = self._before_running(name, session_id, message)
            if running is not None:
                return running, None
            raise RevisionNotFound(
                f"{error}; nothing was changed. While its turn runs, only its prompt is known, or "
                'with session_store_flush="eager" every message',
                hint='pass session_store_flush="eager" to options',
            ) from None
        lines = self._lines(name, message)
        if not _is_result(lines[-1]):
            return self._before_prompt(name, lines[-1]) or target, rewound
        _check_one_moment(target, rewound, message, lines)
        return target, rewound

    def _before_running(self, name: str, session_id: str, message: str) -> Checkpoint | None:
        """Return the checkpoint made when the prompt of a turn arrived that runs now: the agent has
        written the prompt to its transcript, and the SDK appends it at the end of the turn.
        """
        with suppress(KeyError, OSError):
            for line in reversed(Path(self._transcripts[session_id]).read_bytes().splitlines()):
                with suppress(ValueError, AttributeError):  # the last line may be cut off
                    entry = wire.loads(line)
                    if entry.get("uuid") == message:
                        return None if _is_result(entry) else self._before_prompt(name, entry)
        return None

    def _undo(self, session_id: str) -> Report:
        with self._open_session(session_id) as (opened, name):
            store = opened.store()
            return restore.undo(
                store, lambda id: opened.request(store, numbered(store, id)), session=name
            )

    @contextmanager
    def _open_session(self, session_id: str) -> Iterator[tuple[Opened, str]]:
        """Yield the repository prepared for a restore. The SDK only reads transcripts from the
        store, so the restored one is written to a temporary agent home, under the session's own id.
        """
        name = self._find(self.project_key, session_id)
        if name is None:
            self._check_trusted(session_id)
            raise session_op.unknown(session_id, "nothing was changed")
        with (
            tempfile.TemporaryDirectory(prefix="gitcp-") as home,
            only(self.checkpoints.store(), name, LOCK),
        ):
            yield open_for_restore(self.checkpoints, name, {"CLAUDE_CONFIG_DIR": home}), name

    def _lines(self, name: str, message: str) -> list[Any]:
        """Return the newest transcript that has a message, up to this."""
        for contents in self._named(name).history():
            lines = parsed(contents.read())
            for number, line in enumerate(lines):
                if line.get("uuid") == message:
                    return lines[: number + 1]
        return [{}]

    def _before_prompt(self, name: str, line: Any) -> Checkpoint | None:
        """Return the checkpoint made when a prompt arrived, by the agent's id of the prompt."""
        prompt = line.get("promptId")
        if not prompt:
            return None
        for contents in self._named(name).history():
            checkpoint = contents.checkpoint
            if (
                checkpoint is not None
                and checkpoint.trigger is Trigger.PROMPT
                and checkpoint.note.position.get(PROMPT) == prompt
            ):
                return checkpoint
        return None

    # ------------------------------------------------------------ names

    def _named(self, name: str) -> Thread:
        """Return a gitcp session to read."""
        return Thread(self.checkpoints, name, Agent(claude_code.NAME))

    def _check_trusted(self, session_id: str) -> None:
        """Raise NotTrusted if a session was only fetched."""
        store = self.checkpoints.store()
        if self._find(self.project_key, session_id) is not None:
            return
        for name, tip in store.fetched().items():
            if _belongs_to(store, store.summary(tip), session_id):
                raise NotTrusted(
                    f"session {session_id} is not from this repository; nothing was changed",
                    hint=f"gitcp restore {name} --trust",
                )

    def _thread(self, project_key: str, session_id: str) -> Thread:
        """Return the gitcp session of an agent's session, a new one if there is none."""
        name = self._find(project_key, session_id)
        if name is None:
            new = self._new_name(project_key, session_id)
            # The short name may just have been taken by another process, for the same session.
            name = self._find(project_key, session_id) or new
        return Thread(self.checkpoints, name, Agent(claude_code.NAME, session_id), claude_code.NAME)

    def _new_name(self, project_key: str, session_id: str) -> str:
        if project_key == self.project_key:
            return session_op.new_name(self.checkpoints.store(), session_id)
        compact = re.sub(r"[^A-Za-z0-9]", "", session_id)[:60] or "session"
        hash_suffix = (
            "" if compact == session_id else f"-{sha256(session_id.encode()).hexdigest()[:8]}"
        )
        return f"{compact}{hash_suffix}{self._suffix(project_key)}"

    def _find(self, project_key: str, session_id: str) -> str | None:
        """Return the gitcp session of an agent's session, by its last
        checkpoint, else by an earlier one.
        """
        store = self.checkpoints.store()
        names = self._project_sessions(store, project_key)
        compact = re.sub(r"[^A-Za-z0-9]", "", session_id)
        candidates = [name for name in names if compact.startswith(name)]
        by_tip = (
            name
            for name in (*candidates, *names)
            if _belongs_to(store, store.summary(names[name]), session_id)
        )
        by_chain = (
            n
            for n in candidates
            if any(_belongs_to(store, s, session_id) for s in store.history(names[n]))
        )
        return next(by_tip, None) or next(by_chain, None)

    def _project_sessions(self, store: Store, project_key: str) -> dict[str, Oid]:
        suffix = self._suffix(project_key)
        return {
            name: tip
            for name, tip in store.sessions().items()
            if (name.endswith(suffix) if suffix else not FOREIGN.search(name))
        }

    def _suffix(self, project_key: str) -> str:
        """Return the suffix of session names that belong to another project than this directory."""
        return (
            ""
            if project_key == self.project_key
            else f".{sha256(project_key.encode()).hexdigest()[:8]}"
        )


def options(path: str | os.PathLike[str] = ".", **given: Any) -> ClaudeAgentOptions:
    """Return SDK options that save each turn to the repository around `path`.

    `given` are other options; hooks in them are kept. The agent works in `path`. The store is in
    `session_store`: `options(…).session_store.rewind(…)`. A `session_id` that was rewound to its
    beginning is resumed. Raises NotTrusted for one to resume that was only fetched.
    """
    store = given.pop("session_store", None) or GitSessionStore(path)
    given = store.resuming(given)
    hooks = dict(given.pop("hooks", None) or {})
    hooks["UserPromptSubmit"] = [
        *hooks.get("UserPromptSubmit", ()),
        HookMatcher(hooks=[store.prompted]),
    ]
    return ClaudeAgentOptions(
        **{"cwd": store.checkpoints.path, **given}, session_store=store, hooks=hooks
    )


def _new_entries(
    existing: list[Any], entries: Iterable[SessionStoreEntry]
) -> Iterator[SessionStoreEntry]:
    """Yield the entries with an unknown uuid, or without one."""
    uuids = {entry.get("uuid") for entry in existing}
    for entry in entries:
        uuid = entry.get("uuid")
        if uuid is None or uuid not in uuids:
            uuids.add(uuid)
            yield entry


def _place(subpath: str | None) -> str | None:
    """Return Claude Code's path for a transcript; None for an invalid subpath."""
    path = f"{BELOW}{subpath}{LINES}" if subpath else f"{claude_code.SESSION}{LINES}"
    parts = base.place_parts(path)
    return path if parts is not None and (not subpath or len(parts) > 2) else None


def _stream(subpath: str | None) -> str:
    if not subpath:
        return MAIN
    kind, _, relative = subpath.partition("/")
    if kind not in claude_code.BESIDE:
        return f"others/{sha256(subpath.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
    return claude_code.stream_name(kind, f"{relative}{LINES}")


def _mtime(contents: ThreadContents) -> int:
    """Return when a session was last written, in milliseconds: as recorded with an append; for
    another checkpoint with the precision of a second.
    """
    assert contents.checkpoint is not None
    second = int(contents.checkpoint.created.timestamp())
    written = contents.checkpoint.note.position.get(WRITTEN, "")
    recorded = int(written) if written.isascii() and written.isdigit() else 0
    return recorded if recorded // 1000 == second else second * 1000


def _belongs_to(store: Store, summary: Summary, session_id: str) -> bool:
    """Return whether a checkpoint belongs to this session of the agent. The commit's trailer can be
    truncated; the metadata is exact.
    """
    recorded = (summary.trailers.get("Gitcp-Agent"), summary.trailers.get("Gitcp-Agent-Session"))
    if recorded != (claude_code.NAME, one_line(session_id, 200)):
        return False
    agent = store.read(summary.commit).agent if recorded[1] != session_id else None
    return agent is None or agent.session_id == session_id


def _has_messages(entries: list[Any]) -> bool:
    return any(entry.get("type") in ("user", "assistant") for entry in entries)


def _is_rewound(thread: Thread) -> bool:
    """Return whether nothing was written to a session since it was restored, but prompts."""
    checkpoints = (contents.checkpoint for contents in thread.history())
    triggers = (checkpoint.trigger for checkpoint in checkpoints if checkpoint)
    return next((t for t in triggers if t is not Trigger.PROMPT), None) is Trigger.RESTORE


def _is_result(line: Any) -> bool:
    """Return whether a user's line has the result of a tool, and is no prompt."""
    content = (line.get("message") or {}).get("content")
    parts = content if isinstance(content, list) else []
    return any(isinstance(part, dict) and part.get("type") == "tool_result" for part in parts)


def _check_one_moment(target: Checkpoint, rewound: Rewound, message: str, lines: list[Any]) -> None:
    """Raise RevisionNotFound unless the transcript of a checkpoint ends right before a message: its
    files would be those of another moment.
    """
    streams = target.conversation.streams if target.conversation else ()
    ends = {stream.name: stream.bytes for stream in streams}
    if ends.get(MAIN) == {each.name: each.bytes for each in rewound.conversation.streams}[MAIN]:
        return
    prompts = [e for e in lines if e.get("type") == "user" and not _is_result(e)]
    nearest = f"rewind to its prompt, {prompts[-1].get('uuid')}, or " if prompts else ""
    raise RevisionNotFound(
        f"no checkpoint was made right before {message}, the result of a tool: nothing was changed",
        hint=f'{nearest}pass session_store_flush="eager" to options',
    )
