"""The suite of the Claude Agent SDK with GitSessionStore in the place of its store in memory: every
test of the modules that have a store.
"""

from __future__ import annotations

from typing import Any

import claude_agent_sdk
from claude_agent_sdk._internal import session_store
from suites import new_repository, select

from gitcp.claude import GitSessionStore
from gitcp.lifecycle import delete

LEFT_OUT = {
    "sets the times of a store in memory": (
        "test_continue_picks_most_recent "
        "test_continue_skips_sidechain_sessions "
        "test_continue_tie_break_is_deterministic"
    ).split(),
    "waits no longer than a store in memory takes": (
        "test_cancelled_after_mkdtemp_cleans_temp_dir "
        "test_eager_flush_mode_appends_per_frame_before_result "
        "test_eager_mode_flushes_per_frame "
        "test_gap_fill_bounded_concurrency "
        "test_load_concurrency_is_bounded"
    ).split(),
}


class InMemorySessionStore(GitSessionStore):
    """GitSessionStore, with what the SDK's store shows to tests."""

    def __init__(self) -> None:
        super().__init__(new_repository())

    def get_entries(self, key: Any) -> list[Any]:
        """The entries of a transcript."""
        return list(self._load(key) or ())

    @property
    def size(self) -> int:
        """How many sessions there are."""
        return len(self.checkpoints.store().sessions())

    def clear(self) -> None:
        """Delete all sessions."""
        for name in self.checkpoints.store().sessions():
            delete.delete(self.checkpoints.store(), name)


for module in (claude_agent_sdk, session_store):
    vars(module)["InMemorySessionStore"] = InMemorySessionStore


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Keep all tests."""
    select(config, items, lambda _: True, LEFT_OUT)
