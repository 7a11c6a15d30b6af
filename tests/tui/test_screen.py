"""The interface, as a person uses it: keys are pressed, the screen and the files are compared."""

from __future__ import annotations

import pytest
from screens import Seen, watched
from shop import Shop, furnished

from driver import Project


@pytest.fixture
def shop(project: Project) -> Shop:
    """A shop with a history."""
    return furnished(project)


def test_three_panes(shop: Shop) -> None:
    """Sessions, timeline and preview of the newest checkpoint are there after the start."""

    async def look(seen: Seen) -> None:
        text = seen.text()
        for words in ("1 Sessions 2", "2 Timeline claude-code", "driver in place", "fork asyncpg"):
            assert words in text
        assert "phase: design" in text
        assert "Übersicht" in text

    watched(shop, look)


def test_restore_and_undo(shop: Shop) -> None:
    """The plan is shown, `y` applies it, `u` undoes it: byte for byte."""
    before = shop.project.files()

    async def restore(seen: Seen) -> None:
        await seen.press("G", "r")
        text = await seen.until("y apply")
        assert "gitcp restore e7baae82@1" in text
        assert shop.project.files() == before
        await seen.pilot.press("y")
        await seen.until("u undoes it")
        assert shop.project.files() != before
        assert not shop.project.root.joinpath("db.py").exists()
        await seen.pilot.press("u")
        await seen.until("U redoes it")

    with shop.project.guard():
        watched(shop, restore)
    assert shop.project.files() == before


def test_declined(shop: Shop) -> None:
    """Esc at the plan changes nothing."""
    before, log = shop.project.files(), shop.project.git("for-each-ref")

    async def decline(seen: Seen) -> None:
        await seen.press("G", "r")
        await seen.until("y apply")
        await seen.press("escape")
        assert "y apply" not in seen.text()

    watched(shop, decline)
    assert shop.project.files() == before
    assert shop.project.git("for-each-ref") == log
