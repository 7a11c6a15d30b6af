"""What of a stranger's checkpoint could act is named before it is restored."""

from __future__ import annotations

from gitcp.agents import KNOWN
from gitcp.restoring import trust

from driver import Project
from samples import open_store, save


def test_what_agents_run_is_named(project: Project) -> None:
    """Where agents look for hooks, extensions and skills in a project, whoever wrote them: Copilot
    CLI's hooks, of all, were not named.
    """
    paths = {
        f"{known.project}/{piece.target}{'' if '.' in piece.target else '/x.md'}".encode()
        for known in KNOWN
        if known.hooks.events
        for piece in known.pieces
    }
    assert {b".github/hooks/gitcp.json", b".pi/extensions/gitcp.js"} <= paths
    store = open_store(project)
    made = save(store, "s", dict.fromkeys(paths, b"{}\n"))
    named = {path for path, _ in trust.acting(store, made)}

    assert paths <= named
