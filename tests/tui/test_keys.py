"""The keys: one table for the bindings, the footer, the help and docs/interface.md."""

from __future__ import annotations

import re

from gitcp.tui import keys
from gitcp.tui.app import Panes

from driver import SOURCE

ROW = re.compile(r"\| ((?:`[^`]+` ?)+)\| ([^|]+) \|(?: `([^`]*)` \|)?")


def test_page() -> None:
    """docs/interface.md has every key, with what it does, and no other."""
    page = SOURCE.joinpath("docs/interface.md").read_text("utf-8").partition("## Keys")[2]
    shown = [
        (found[1].replace("`", "").strip(), found[2], found[3] or "")
        for line in page.splitlines()
        if (found := ROW.fullmatch(line))
    ]

    table = (*keys.KEYS, *keys.PLAN, *keys.SCOPES, keys.TRUST)
    assert shown == [
        (key.written, _said(key), key.command if key in keys.ACTS else "") for key in table
    ]


def _said(key: keys.Key) -> str:
    where = "" if len(key.panes) == len(keys.PANES) else f" ({', '.join(key.panes)})"
    return f"{key.about}{where}"


def test_each_key_acts() -> None:
    """Every key has an action of the screen, and no pane has a key twice."""
    for key in keys.KEYS:
        assert hasattr(Panes, f"action_{key.action.partition('(')[0]}"), key
    for pane in keys.PANES:
        names = [name for key in keys.of_pane(pane) for name in key.names.split(",")]
        assert len(names) == len(set(names)), pane
