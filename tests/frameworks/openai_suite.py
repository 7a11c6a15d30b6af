"""The suite of the OpenAI Agents SDK with GitSession: tests of sessions, of their compaction and
encryption, and of runs with a session.

SQLiteSession becomes GitSession, as does the session in a list that the suite has for its runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import agents
from agents.items import TResponseInputItem
from agents.memory import sqlite_session
from suites import new_repository, select

from gitcp.integrations.thread import StreamContent, encode, parsed
from gitcp.model import MAIN
from gitcp.openai_agents import GitSession

# First, so that it goes on to ask only the SDK's own SQLiteSession for a private method.
import_module("agents.extensions.memory.encrypt_session")
lists = import_module("tests.utils.simple_session")

SESSIONS = ("SQLiteSession(", "SimpleListSession(", "CountingSession(", "IdStrippingSession(")
OTHERS = ("async-sqlite", "fakeredis", "sqlalchemy")
"""Sessions that are not replaced."""

ABOUT_SESSIONS = {"deferred_session_writes", "memory"}

LEFT_OUT = {
    "looks into SQLite: its tables, connections, locks or transactions": (
        "test_cancelled_suffix_transaction_settles_before_newer_append "
        "test_encrypted_pop_authentication_is_atomic_with_concurrent_mutations "
        "test_encrypted_pop_wrong_key_preserves_row_identity "
        "test_failed_encrypted_suffix_transaction_preserves_original_tokens "
        "test_handoff_resume_after_cancelled_compaction_commits "
        "test_settled_clear_failure_invalidates_response_chain "
        "test_settled_pop_failure_invalidates_response_chain "
        "test_sqlite_session_close_closes_worker_thread_connections "
        "test_sqlite_session_close_retries_quarantined_connection "
        "test_sqlite_session_closes_retired_connections_before_the_next_allocation "
        "test_sqlite_session_failed_add_items_releases_write_lock "
        "test_sqlite_session_failed_clear_session_rolls_back "
        "test_sqlite_session_failed_pop_item_releases_write_lock "
        "test_sqlite_session_file_lock_is_shared_across_instances "
        "test_sqlite_session_get_items_limit_skips_corrupt_newest_rows "
        "test_sqlite_session_get_items_session_settings_limit_skips_corrupt_rows "
        "test_sqlite_session_keeps_connections_of_live_worker_threads "
        "test_sqlite_session_pop_item_returns_none_after_dropping_only_corrupt_rows "
        "test_sqlite_session_pop_item_skips_corrupt_most_recent "
        "test_sqlite_session_post_commit_cancellation_propagates_after_known_outcome "
        "test_sqlite_session_reaps_connections_from_exited_worker_threads "
        "test_sqlite_session_rollback_failure_evicts_connection "
        "test_suffix_transaction_rolls_back_failed_insert"
    ).split(),
    "the SDK asks only its own SQLiteSession to check an encrypted item before it removes it": (
        "test_encrypted_pop_cancellation_waits_for_authentication_rollback "
        "test_encrypted_pop_rechecks_authentication_after_expired_tail "
        "test_encrypted_pop_wrong_key_preserves_recoverable_history"
    ).split(),
}


class SQLiteSession(GitSession):
    """GitSession, made as an SQLiteSession is."""

    def __init__(
        self,
        session_id: str,
        db_path: str | Path = ":memory:",
        sessions_table: str = "",
        messages_table: str = "",
        session_settings: Any = None,
    ) -> None:
        self.db_path = db_path
        root = None if str(db_path) == ":memory:" else f"{db_path}.git"
        super().__init__(session_id, new_repository(root), session_settings=session_settings)


class ListSession:
    """What the suite's session in a list does, on a GitSession."""

    def __init__(
        self, session_id: str = "test", history: Sequence[TResponseInputItem] | None = None
    ) -> None:
        self.session_id = session_id
        self._git = SQLiteSession(session_id)
        self._ignore_ids_for_matching = False
        if history:
            self._git._thread().change(lambda _: {MAIN: StreamContent(encode(history))})

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        return await self._git.get_items(limit)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        await self._git.add_items(items)

    async def pop_item(self) -> TResponseInputItem | None:
        return await self._git.pop_item()

    async def clear_session(self) -> None:
        await self._git.clear_session()

    @property
    def saved_items(self) -> list[TResponseInputItem]:
        return parsed(self._git._thread().contents().read())

    _items = saved_items


for module in (agents, agents.memory, sqlite_session):
    vars(module)["SQLiteSession"] = SQLiteSession
# in place, as other sessions of the suite are derived from it
for member in "__init__ get_items add_items pop_item clear_session saved_items _items".split():
    setattr(lists.SimpleListSession, member, vars(ListSession)[member])


def _is_relevant(item: Any) -> bool:
    source = inspect.getsource(item.function)
    if any(name in source + item.name for name in OTHERS):
        return False
    return not ABOUT_SESSIONS.isdisjoint(item.path.parts) or any(
        name in source for name in SESSIONS
    )


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Keep the tests that have a session."""
    select(config, items, _is_relevant, LEFT_OUT)
