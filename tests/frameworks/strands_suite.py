"""The suite of Strands Agents with GitStorage in the place of its storages in memory and in files:
every test of the modules that have a storage.
"""

from __future__ import annotations

import os
from typing import Any

import strands.storage
from strands.storage import in_memory_storage, local_file_storage
from suites import new_repository, select

from gitcp.strands import GitStorage

LEFT_OUT = {
    "looks into a storage in files: its files, errors of the system, or a sandbox": (
        "test_delete_error_raises_storage_error "
        "test_for_sandbox_drops_host_fs_strategy_with_warning "
        "test_for_sandbox_preserves_search_strategy "
        "test_for_sandbox_returns_new_if_different "
        "test_for_sandbox_returns_self_if_same "
        "test_list_error_raises_storage_error "
        "test_namespace_preserves_for_sandbox "
        "test_namespace_returns_local_file_storage "
        "test_normpath_prevents_trailing_slash_in_namespace "
        "test_read_error_raises_storage_error "
        "test_rejects_host_fs_strategy_with_sandbox "
        "test_sandbox_binary_round_trip "
        "test_sandbox_delete "
        "test_sandbox_list "
        "test_sandbox_list_nested "
        "test_sandbox_write_skips_indexing "
        "test_write_atomic_cleanup_on_replace_failure "
        "test_write_creates_directories "
        "test_write_error_raises_storage_error"
    ).split(),
    "counts warnings, which Python shows again after a program was started": [
        "test_warns_only_once_across_instances"
    ],
    "looks into a storage in memory, or expects it to be forgotten with the process": (
        "test_ephemeral_detection_survives_namespacing "
        "test_false_with_namespaced_in_memory_storage "
        "test_immutable_snapshot_includes_stash "
        "test_namespace_preserves_search_strategy "
        "test_save_includes_inline_stash_for_ephemeral_storage "
        "test_save_omits_stash_when_empty "
        "test_skips_keys_where_read_returns_none"
    ).split(),
}


class InMemoryStorage(GitStorage):
    """GitStorage, made as the storage in memory is."""

    def __init__(self, *, search_strategy: Any = None) -> None:
        super().__init__(new_repository(), search_strategy=search_strategy)


class LocalFileStorage(GitStorage):
    """GitStorage, made as the storage in files is."""

    def __init__(
        self, base_dir: str = "./.strands/", *, sandbox: Any = None, search_strategy: Any = None
    ) -> None:
        root = new_repository(f"{os.path.normpath(base_dir)}.git")
        super().__init__(root, search_strategy=search_strategy)


for module in (strands.storage, in_memory_storage):
    vars(module)["InMemoryStorage"] = InMemoryStorage
for module in (strands.storage, local_file_storage):
    vars(module)["LocalFileStorage"] = LocalFileStorage


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Keep all tests."""
    select(config, items, lambda _: True, LEFT_OUT)
