"""What is offered for completion is found without asking again for each name."""

from __future__ import annotations

import os
from typing import Any

import pytest

from gitcp.cli import options
from gitcp.cli.context import Context
from gitcp.store import Store

from driver import Project
from samples import open_store, save


def test_refs_are_listed_as_often_for_many_sessions(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has its description, from refs that were listed once for all."""
    store = open_store(project)
    listed: list[int] = []
    list_refs = Store._list_refs

    def count(*given: Any) -> Any:
        listed.append(1)
        return list_refs(*given)

    monkeypatch.setattr(Store, "_list_refs", count)
    often = []
    for names in ("a", "bcdef"):
        for name in names:
            save(store, name)
        listed.clear()
        context = Context([])
        context.directory = os.fspath(project.root)
        offered = dict(options.sessions(context))
        often.append(len(listed))
    assert [*offered] == [*"abcdef"]
    assert all(offered.values())
    assert often[0] == often[1]
