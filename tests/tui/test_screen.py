"""The interface, as a person uses it: keys are pressed, the screen and the files are compared."""

from __future__ import annotations

import pytest
from screens import Seen, watched
from shop import Shop, furnished

from gitcp.tui import keys

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


def test_every_key(shop: Shop) -> None:
    """Every key of every pane does something that ends, and nothing is changed without a plan."""
    before, refs = shop.project.files(), shop.project.git("for-each-ref")
    skipped = ("quit", "resume", "undo", "redo", "browse")

    async def press(seen: Seen) -> None:
        for number, pane in enumerate(keys.PANES, 1):
            for key in keys.of_pane(pane):
                if key.action in skipped:
                    continue
                for name in key.names.split(","):
                    await seen.press(str(number), name)
                    while len(seen.app.screen_stack) > 1:
                        await seen.press("escape")
                    await seen.press("escape", "escape")

    with shop.project.guard():
        watched(shop, press, (120, 30))
    assert shop.project.files() == before
    assert shop.project.git("for-each-ref") == refs


def test_acts(shop: Shop) -> None:
    """Tag, fork, save, note and drop: each shows its command, and `y` runs it."""

    async def act(seen: Seen) -> None:
        for typed, command, said in (
            (("t", *"good", "enter"), "gitcp tag good e7baae82@7", "good"),
            (("f", *"other", "enter"), "gitcp fork e7baae82@7 --name other", "other"),
            (("s", *"now", "enter"), "gitcp save now", "now"),
            (("a", *"decided: x", "enter"), "gitcp note --decided x", "x"),
        ):
            await seen.press(*("space" if key == " " else key for key in typed))
            text = await seen.until("y apply")
            assert command in text
            await seen.pilot.press("y")
            await seen.gone("y apply")
            assert said in seen.text()

    with shop.project.guard():
        watched(shop, act)
    sessions = shop.project.git("for-each-ref", "--format=%(refname)", "refs/gitcp")
    assert "refs/gitcp/tags/good" in sessions
    assert "refs/gitcp/sessions/other" in sessions


def test_one_file(shop: Shop) -> None:
    """`r` on a file of the preview restores that file only."""
    shop.project.write("db.py", "broken\n")
    shop.project.write("README.md", "mine\n")

    async def restore(seen: Seen) -> None:
        await seen.press("j", "j", "3", "r")
        text = await seen.until("y apply")
        assert "gitcp restore e7baae82@5 -- db.py" in text
        await seen.pilot.press("y")
        await seen.until("u undoes it")

    watched(shop, restore)
    assert shop.project.read("db.py").startswith(b"import psycopg")
    assert shop.project.read("README.md") == b"mine\n"


def test_search(shop: Shop) -> None:
    """Labels and prompts are found at once, answers and paths after a moment; filters combine."""

    async def search(seen: Seen) -> None:
        for words, found in (
            ("migration", "before migration"),
            ("wrap connect", "first put the driver"),
            ("docs/", "driver in place"),
            ("tag:works", "driver in place"),
            ("trigger:turn phase:build update", "update the docs"),
            ("tag:v1 schema", "before migration"),
        ):
            await seen.press("slash", *("space" if key == " " else key for key in words))
            text = await seen.until("1 match")
            assert found in text, words
            await seen.press("escape")
        assert "before migration" in seen.text()

    watched(shop, search)
