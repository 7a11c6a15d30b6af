"""Checkpoints for Google's Agent Development Kit: each session event is a commit with the files.

    from gitcp.adk import GitSessionService

    Runner(app_name="shop", agent=agent, session_service=GitSessionService("/path/to/repository"))

An ADK session is a gitcp session. Its first line is the initial state, each further one an event,
with its text for display. The current state is the initial one with the events' changes applied.
Shared state (`app:`, `user:`) is stored in separate sessions, one per app and one per user.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote, unquote

from gitcp.integrations.extras import missing

try:
    from google.adk.errors._stale_session_error import StaleSessionError
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.errors.session_not_found_error import SessionNotFoundError
    from google.adk.events import Event
    from google.adk.sessions import BaseSessionService, Session, State
    from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
    from pydantic_core import PydanticSerializationError, to_jsonable_python
except ImportError as error:
    raise missing("gitcp.adk", "adk", error) from None

from gitcp import api
from gitcp.errors import BadValue
from gitcp.integrations.thread import (
    Changes,
    StreamContent,
    Thread,
    ThreadContents,
    encode,
    parsed,
    session_name,
)
from gitcp.lifecycle import delete
from gitcp.model import MAIN, Agent, Host, Trigger

AGENT = "google-adk"
SHARED = "google-adk-state"
Fields = dict[str, Any]


class GitSessionService(BaseSessionService):
    """Stores ADK sessions in the repository around `path`, with the files at each event.

    Safe to share between tasks and threads; other processes may write the same sessions.
    Raises what `gitcp.open` raises.
    """

    def __init__(self, path: str | os.PathLike[str] = ".", *, host: Host | None = None) -> None:
        self.checkpoints = api.open(path, host=host)

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: Fields | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Create a session. Raises AlreadyExistsError, and BadValue for a
        state that JSON cannot represent.
        """
        id = (session_id or "").strip() or str(uuid.uuid4())
        return await asyncio.to_thread(self._create, (app_name, user_id, id), state or {})

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Return a session with the events that `config` selects; None if it does not exist."""
        return await asyncio.to_thread(self._get, (app_name, user_id, session_id.strip()), config)

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """Return the sessions of an app, or of one of its users, without
        events, ordered by last update.
        """
        sessions = await asyncio.to_thread(lambda: list(self._listed(app_name, user_id)))
        return ListSessionsResponse(
            sessions=sorted(sessions, key=lambda s: (s.last_update_time, s.user_id, s.id))
        )

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Move a session to the trash; `gitcp undo` restores it."""
        await asyncio.to_thread(self._delete, (app_name, user_id, session_id.strip()))

    async def get_user_state(self, *, app_name: str, user_id: str) -> Fields:
        """Return the state shared by a user's sessions, without the prefix."""
        return await asyncio.to_thread(self._shared, app_name, user_id)

    async def append_event(self, session: Session, event: Event) -> Event:
        """Save an event, in one checkpoint with the current files. A known event is not saved
        again.

        Raises SessionNotFoundError, StaleSessionError if another program changed the session, and
        BadValue for a state that JSON cannot represent; nothing was saved then.
        """
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        if await asyncio.to_thread(self._append, session, event):
            session.last_update_time = event.timestamp
            self._commit_event_to_session(session, event)
        return event

    # ------------------------------------------------------------ synchronous

    def _create(self, key: tuple[str, str, str], state: Fields) -> Session:
        session_state, shared = _split(_jsonable(state))

        def begun(contents: ThreadContents) -> Changes:
            if contents.read():
                raise AlreadyExistsError(f"Session with id {key[2]} already exists.")
            return {
                MAIN: StreamContent(
                    encode(
                        [{"state": session_state, "time": self.checkpoints.host.now().timestamp()}]
                    )
                )
            }

        self._share(key, shared)
        self._thread(key).change(begun, trigger=Trigger.MANUAL)
        session = self._read(self._thread(key), key)
        assert session is not None
        return session

    def _append(self, session: Session, event: Event) -> bool:
        key = (session.app_name, session.user_id, session.id)
        _, shared = _split(_jsonable(event.actions.state_delta))
        fields = event.model_dump(mode="json", exclude_none=True)

        def added(contents: ThreadContents) -> Changes | None:
            lines = parsed(contents.read())
            if not lines:
                raise SessionNotFoundError(f"Session {session.id} not found.")
            if any(line.get("event") == fields for line in lines[1:]):
                return None
            if _time(lines) > session.last_update_time:
                raise StaleSessionError(
                    f"session {session.id} changed in the meantime; the event was not saved. Read "
                    "the session again"
                )
            self._share(key, shared)
            return {MAIN: StreamContent(contents.read() + encode([_line(event, fields)]))}

        trigger = Trigger.TOOLS if event.get_function_responses() else Trigger.TURN
        position = {"event": event.id, "invocation": event.invocation_id}
        return self._thread(key).change(added, trigger=trigger, position=position) is not None

    def _get(self, key: tuple[str, str, str], config: GetSessionConfig | None) -> Session | None:
        session = self._read(self._thread(key), key)
        if session is None or config is None:
            return session
        if config.num_recent_events is not None:
            session.events = session.events[
                max(0, len(session.events) - config.num_recent_events) :
            ]
        if config.after_timestamp is not None:
            early = [
                n
                for n, event in enumerate(session.events, 1)
                if event.timestamp < config.after_timestamp
            ]
            session.events = session.events[max(early, default=0) :]
        return session

    def _read(self, thread: Thread, key: tuple[str, str, str]) -> Session | None:
        lines = parsed(thread.contents().read())
        if not lines:
            return None
        events = [Event.model_validate(line["event"]) for line in lines[1:]]
        app, user, id = key
        state = dict(lines[0]["state"])
        for event in events:
            state |= _split(event.actions.state_delta)[0]
        state |= {State.APP_PREFIX + name: value for name, value in self._shared(app).items()}
        state |= {
            State.USER_PREFIX + name: value for name, value in self._shared(app, user).items()
        }
        return Session(
            id=id,
            app_name=app,
            user_id=user,
            state=state,
            events=events,
            last_update_time=_time(lines),
        )

    def _listed(self, app: str, user: str | None) -> Iterator[Session]:
        prefix = [app] if user is None else [app, user]
        store = self.checkpoints.store()
        for name, tip in store.sessions().items():
            agent = store.read(tip).agent
            if agent is None or agent.name != AGENT or not agent.session_id:
                continue
            key = [unquote(part, errors="surrogatepass") for part in agent.session_id.split("/")]
            if key[: len(prefix)] == prefix and len(key) == 3:
                session = self._read(
                    Thread(self.checkpoints, name, agent), (key[0], key[1], key[2])
                )
                if session is not None:
                    yield session.model_copy(update={"events": []})

    def _delete(self, key: tuple[str, str, str]) -> None:
        store, name = self.checkpoints.store(), self._thread(key).name
        if store.tip(name) is not None:
            delete.delete(store, name)

    def _thread(self, key: tuple[str, ...], agent: str = AGENT) -> Thread:
        id = "/".join(quote(part.encode("utf-8", "surrogatepass"), safe="") for part in key)
        name = session_name("/".join((*key, "") if agent == AGENT else ("adk", "state", *key)))
        return Thread(self.checkpoints, name, Agent(agent, id))

    # ------------------------------------------------------------ shared state

    def _shared(self, *key: str) -> Fields:
        return next(iter(parsed(self._thread(key, SHARED).contents().read())), {})

    def _share(self, key: tuple[str, str, str], shared: Mapping[str, Fields]) -> None:
        for scope, delta in shared.items():
            if delta:
                thread = self._thread(key[:1] if scope == State.APP_PREFIX else key[:2], SHARED)
                thread.change(partial(_with, delta))


def _with(delta: Fields, contents: ThreadContents) -> Changes:
    before: Fields = next(iter(parsed(contents.read())), {})
    return {MAIN: StreamContent(encode([before | delta]))}


def _split(state: Fields) -> tuple[Fields, dict[str, Fields]]:
    """Split a state into the session's own and the shared part, by prefix and without
    it. Temporary state is dropped.
    """
    shared: dict[str, Fields] = {State.APP_PREFIX: {}, State.USER_PREFIX: {}}
    session_state: Fields = {}
    for name, value in state.items():
        prefix = next((prefix for prefix in shared if name.startswith(prefix)), None)
        if prefix:
            shared[prefix][name.removeprefix(prefix)] = value
        elif not name.startswith(State.TEMP_PREFIX):
            session_state[name] = value
    return session_state, shared


def _jsonable(state: Fields) -> Fields:
    try:
        jsonable: Fields = to_jsonable_python(state)
    except (PydanticSerializationError, ValueError) as error:
        raise BadValue(
            f"cannot encode the state as JSON: {error}; nothing was saved",
            hint="remove the value from the state",
        ) from None
    return jsonable


def _line(event: Event, fields: Fields) -> Fields:
    parts = (event.content.parts if event.content else None) or []
    text = "\n".join(part.text for part in parts if part.text)
    return {
        "role": "user" if event.author == "user" else "assistant",
        "content": text,
        "event": fields,
    }


def _time(lines: list[Any]) -> float:
    """Return when a session was last changed."""
    return float(lines[-1]["event"]["timestamp"] if len(lines) > 1 else lines[0]["time"])
