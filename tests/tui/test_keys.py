"""The keys: one table for the bindings, the footer, the help and docs/interface.md."""

from __future__ import annotations

import re

from gitcp.review.pages.view import HELP
from gitcp.tui import keys
from gitcp.tui.app import Panes

from driver import SOURCE

ROW = re.compile(r"\| ((?:`[^`]+` ?)+)\| ([^|]+) \|(?: `([^`]*)` \|)?")


def test_page() -> None:
    """docs/interface.md has the keys that look and act, with what they do, and no other."""
    page = SOURCE.joinpath("docs/interface.md").read_text("utf-8").partition("## Keys")[2]
    shown = [
        (found[1].replace("`", "").strip(), found[2], found[3] or "")
        for line in page.splitlines()
        if (found := ROW.fullmatch(line))
    ]

    rows = [
        (key.written, _said(key), key.command if key in keys.ACTS else "")
        for key in (*keys.LOOKING, *keys.ACTS)
    ]
    assert shown == rows


def test_one_scheme() -> None:
    """What both the interface and the page of `gitcp view` do has the same key in both."""
    of_page = {name: what for names, what in HELP for name in names}
    same = {
        "j": "next",
        "k": "previous",
        "g": "first",
        "G": "last",
        "/": "search",
        "?": "every key",
    }
    same |= {"n": "next match", "N": "previous match"}
    ours = {key.written.split(" ")[0]: key.about for key in keys.KEYS}
    for name, words in same.items():
        assert words.split()[0] in ours[name]
        assert words.split()[0] in of_page[name]


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
