"""The interface, as a person uses it: keys are pressed, the screen and the files are compared."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing

import pytest
from agents_at_work import BETA, AgentAtWork
from screens import Seen, watched
from shop import Shop, furnished
from textual.events import Key

from gitcp.tui import keys
from gitcp.tui.acts import Console, Proposal
from gitcp.tui.dialogs import Act, PlanDialog

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

    watched(shop, look, (140, 40))


def test_two_panes(shop: Shop) -> None:
    """Below 140 columns a list and the preview have half of the width each; `1` shows the sessions
    in place of the preview.
    """

    async def look(seen: Seen) -> None:
        shown = {pane: seen.panes._pane(pane).region.width for pane in keys.PANES}
        assert shown == {"sessions": 0, "timeline": 50, "preview": 50}
        await seen.press("1")
        shown = {pane: seen.panes._pane(pane).region.width for pane in keys.PANES}
        assert shown == {"sessions": 40, "timeline": 60, "preview": 0}
        await seen.press("2")
        assert "3 Conversation" in seen.text()

    watched(shop, look, (100, 30))


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
        assert "gitcp undo" in await seen.until("y apply")
        await seen.pilot.press("y")
        await seen.until("U redoes it")

    with shop.project.guard():
        watched(shop, restore)
    assert shop.project.files() == before


def test_undo_over_later_changes(shop: Shop) -> None:
    """`u` refuses to undo what was written since, in as many lines as it takes; `W` shows the plan
    that does.
    """
    before = shop.project.files()

    async def undo(seen: Seen) -> None:
        await seen.press("G", "r")
        await seen.until("y apply")
        await seen.pilot.press("y")
        await seen.until("u undoes it")
        shop.project.write("app/shop.py", "rewritten\n")
        await seen.pilot.press("u")
        await seen.until("changed since and cannot be merged")
        await seen.press("escape")
        assert "changed since and cannot be merged" in seen.text()
        await seen.pilot.press("W")
        assert "gitcp undo --whole-tree" in await seen.until("y apply")
        await seen.pilot.press("y")
        await seen.until("U redoes it")

    with shop.project.guard():
        watched(shop, undo)
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
    skipped = ("quit", "resume", "browse")

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


def test_bisect(shop: Shop) -> None:
    """Space marks the good one, `B` on the bad one asks for the command; the answer stays."""

    async def act(seen: Seen) -> None:
        await seen.press("G", "space", "g", "B")
        await seen.press(
            *"grep", "space", *"-q", "space", *"sqlite", "space", *"app/shop.py", "enter"
        )
        assert "-- grep -q sqlite app/shop.py" in await seen.until("y apply")
        await seen.pilot.press("y")
        assert "@6 is the first on which" in await seen.until("is the first on")

    with shop.project.guard():
        watched(shop, act)


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
            await seen.press("slash")
            await seen.write(words)
            text = await seen.until("1 match")
            assert found in text, words
            await seen.press("escape")
        assert "before migration" in seen.text()

    watched(shop, search)


def test_search_of_all_sessions(shop: Shop) -> None:
    """From the list of sessions, `/` searches all of them: it shows those that match, with what
    matches, and of one that is opened the checkpoints that do.
    """
    names = shop.store.sessions()
    assert len(names) > 1

    async def search(seen: Seen) -> None:
        await seen.press("1", "slash")
        await seen.write("rewriting")
        text = await seen.until(f"1 of {len(names)}")
        assert "all sessions" not in text  # the hint, once there is text
        sessions = seen.panes.sessions
        assert {each.name for each in sessions.matching} == set(sessions._matches) < set(names)
        shown = [sessions.line(n, 60).left[-1][0] for n in range(len(sessions))]
        assert any("Rewriting db.py" in line for line in shown)
        await seen.press("enter", "g", "enter")
        assert "1 match" in seen.text()
        assert seen.panes._focused == "timeline"
        await seen.press("escape")
        assert "match" not in seen.text()
        assert len(sessions.matching) == len(sessions.known) == len(names)

        await seen.press("1", "slash")
        await seen.write("nowhere at all")
        await seen.until("no session matches")
        await seen.press("escape", "2", "slash")
        await seen.write("driver")
        assert "2 match" in seen.text()
        assert len(seen.panes.sessions.matching) == len(names)

    watched(shop, search)


def test_matches(shop: Shop) -> None:
    """`n` and `N` go through what was searched last, in the timeline and in the preview, also after
    the search was closed.
    """

    async def look(seen: Seen) -> None:
        timeline, preview = seen.panes._pane("timeline"), seen.panes._pane("preview")

        def here() -> str:
            summary = seen.panes.summary
            assert summary is not None
            return summary.subject

        await seen.press("n")
        assert "no match here: / searches" in seen.text()
        await seen.press("slash", *"driver", "enter", "escape", "g", "n")
        rows = [timeline.key]
        assert "driver" in here()
        for _ in range(6):
            await seen.press("n")
            assert "driver" in here()
            rows.append(timeline.key)
        assert len(set(rows)) > 1
        await seen.press("N")
        assert timeline.key == rows[-2]
        while "first put the driver" not in here():
            await seen.press("n")
        await seen.press("left_square_bracket", "3", "G", "n")
        line = preview.source.line(preview.cursor, 80)
        assert "driver" in "".join(text for text, _ in line.left).lower()
        before = preview.cursor
        await seen.press("n", "N")
        assert preview.cursor == before

    watched(shop, look)


def test_delete(shop: Shop) -> None:
    """`x` deletes one checkpoint after its plan, and `u` brings it back; a needed one stays."""
    before = shop.project.git("for-each-ref", "refs/gitcp/sessions")

    async def delete(seen: Seen) -> None:
        await seen.press("j", "j", "x")
        text = await seen.until("y apply")
        assert "gitcp delete e7baae82@5" in text
        assert "delete checkpoint e7baae82@5" in text
        await seen.pilot.press("y")
        await seen.until("deleted checkpoint e7baae82@5")
        assert shop.project.git("for-each-ref", "refs/gitcp/sessions") != before
        await seen.pilot.press("u")
        text = await seen.until("y apply")
        assert "restore 1 checkpoint from the trash: e7baae82@5" in text
        await seen.pilot.press("y")
        await seen.until("restored 1 checkpoint")
        await seen.press("escape")
        await seen.press("G", "x")
        await seen.until("e7baae82@1 is kept: tag v1")
        assert "y apply" not in seen.text()

    with shop.project.guard():
        watched(shop, delete)
    assert shop.project.git("for-each-ref", "refs/gitcp/sessions") == before


def test_nothing_to_restore(shop: Shop) -> None:
    """A plan that would change nothing cannot be applied."""
    refs = shop.project.git("for-each-ref")

    async def restore(seen: Seen) -> None:
        await seen.press("r", "f")
        await seen.until("nothing to restore: everything already matches it")
        assert "y apply" not in seen.text()
        await seen.press("y", "escape")

    with shop.project.guard():
        watched(shop, restore)
    assert shop.project.git("for-each-ref") == refs


def test_trust(shop: Shop) -> None:
    """A checkpoint from another repository is restored after `T`, which the plan then shows."""
    other = Project(shop.project.root.parent / "other")
    other.write("mine.txt", "mine\n")
    other.commit("mine")
    other.gitcp("remote", "hub", str(shop.project.root), check=0)
    other.gitcp("fetch", check=0)
    fetched = Shop(other)

    async def restore(seen: Seen) -> None:
        seen.panes.choose("hub/e7baae82")
        await seen.settle()
        await seen.press("G", "r", "f")
        await seen.until("y apply")
        await seen.pilot.press("y")
        text = await seen.until("T trust it")
        assert "is not from this repository" in text
        assert not other.root.joinpath("schema.sql").exists()
        await seen.pilot.press("T")
        text = await seen.until("y apply")
        assert "gitcp restore --trust hub/e7baae82@1 --files" in text
        await seen.pilot.press("y")
        await seen.until("u undoes it")

    with other.guard():
        watched(fetched, restore)
    assert other.root.joinpath("schema.sql").exists()


def test_shared(shop: Shop) -> None:
    """Where another agent is at work, the plan asks whose changes to undo before it can be
    applied.
    """
    other = AgentAtWork(shop.project, BETA)
    other.prompt()
    other.edits("beta.txt", "beta\n")

    async def restore(seen: Seen) -> None:
        seen.panes.choose("e7baae82")
        await seen.settle()
        await seen.press("G", "r", "f")
        text = await seen.until("m only its changes")
        assert "changed by sessions at work" in text
        assert "y apply" not in text
        await seen.pilot.press("y", "m")
        text = await seen.until("nothing to restore")
        assert "gitcp restore --mine e7baae82@1 --files" in text
        await seen.pilot.press("f")
        await seen.until("a everything")
        await seen.pilot.press("a")
        text = await seen.until("y apply")
        assert "gitcp restore --whole-tree e7baae82@1 --files" in text
        await seen.pilot.press("y")
        await seen.until("u undoes it")

    watched(shop, restore)
    assert not shop.project.root.joinpath("beta.txt").exists()


@pytest.mark.parametrize("typed", [("r", "escape"), ("G", "r", "escape"), ("v", "q")])
def test_typed_ahead(shop: Shop, typed: tuple[str, ...]) -> None:
    """A plan that is closed before it is shown leaves no command behind that waits for an
    answer.
    """
    before, refs = shop.project.files(), shop.project.git("for-each-ref")

    async def leave(seen: Seen) -> None:
        for key in typed:  # not by the pilot, which waits after each
            seen.app.post_message(Key(key, key if len(key) == 1 else None))
        await seen.settle()
        for _ in range(250):
            if not any(isinstance(each, Act) for each in threading.enumerate()):
                break
            await seen.pilot.pause(0.02)
        assert not any(isinstance(each, Act) for each in threading.enumerate())
        assert len(seen.app.screen_stack) == 1

    with shop.project.guard():
        watched(shop, leave)
    assert shop.project.files() == before
    assert shop.project.git("for-each-ref") == refs


def test_questions(shop: Shop) -> None:
    """A command that asks more than whether to carry out its plan: each question is shown, and
    answered by itself.
    """
    answers: list[bool] = []

    def perform(args: Sequence[str], console: Console) -> int:
        for line, question in (
            ("changed by sessions at work", "Restore only what this session changed?"),
            ("", "Restore everything, also what they changed?"),
            ("the plan", "Restore?"),
        ):
            console.line(line)
            answers.append(console.ask(question))
        return 0

    async def answer(seen: Seen) -> None:
        for keys_and_words in (
            (("n", "Restore everything"), ("y", "y apply"), ("y", "Restore it")),
            (("y", "Restore everything"), ("escape", "")),
        ):
            seen.panes._open(PlanDialog(perform, Proposal("Restore it", ("x",), asks=True)))
            text = await seen.until("Restore only what this session changed?")
            assert "y yes  n no" in text
            assert "y apply" not in text
            for key, words in keys_and_words:
                await seen.pilot.press(key)
                await seen.until(words)
            await seen.gone("the plan")
            await seen.settle()

    watched(shop, answer)
    assert answers == [False, True, True, True, False, False]


def test_mouse(shop: Shop) -> None:
    """A click moves the cursor, a second one opens; a click in another pane goes there."""

    async def click(seen: Seen) -> None:
        timeline, preview = seen.panes._pane("timeline"), seen.panes._pane("preview")
        first = timeline.key
        row = next(n for n in range(1, 20) if timeline.source.key(n) not in (None, first))
        await seen.pilot.click("#timeline", offset=(4, row + 1))
        await seen.settle()
        assert timeline.key == timeline.source.key(row)
        assert timeline.has_focus
        await seen.pilot.click("#timeline", offset=(4, 1))  # a heading: nothing
        await seen.settle()
        assert timeline.key == timeline.source.key(row)
        await seen.pilot.click("#preview", offset=(4, 1))
        await seen.settle()
        assert preview.has_focus
        session = seen.panes.timeline.session
        await seen.pilot.click("#sessions", offset=(4, 3))
        await seen.until("2 Timeline claude-code asyncpg")
        assert seen.panes._pane("sessions").has_focus
        assert seen.panes.timeline.session != session

    watched(shop, click, (140, 40))


def test_database(shop: Shop) -> None:
    """What a migration changed of a database is listed by table and column, and nothing is cut off
    where it differs.
    """
    path = shop.project.root / "shop.db"
    long = ", ".join(f"column_with_a_long_name_{number} text" for number in range(9))
    for label, *statements in (
        ("first", f"create table users (id integer primary key, {long})"),
        ("migrated", "alter table users add column mail text", "create table orders (n int)"),
    ):
        with closing(sqlite3.connect(path)) as database:
            for statement in statements:
                database.execute(statement)
            database.commit()
        shop.project.gitcp("save", label, check=0)

    async def look(seen: Seen) -> None:
        text = await seen.until("shop.db  database")
        lines = [line.rpartition("││")[2].strip("│▌ ") for line in text.splitlines()]
        start = lines.index("▾ shop.db  database")
        assert lines[start + 1 : start + 6] == [
            "@@ tables",
            "+ orders: 0 rows",
            "+   n int",
            "users: 0 rows",
            "+   mail text",
        ]

    watched(shop, look)
