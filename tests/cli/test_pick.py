"""`gitcp restore` without a revision, on a terminal: a person picks a checkpoint from a list."""

from __future__ import annotations

import re

import pytest
from terminal import SGR, on_terminal

from driver import Project, Result


@pytest.fixture
def shop(project: Project) -> Project:
    """Three checkpoints, of which one has no label, and one of a restore that is no choice."""
    for number, words in enumerate((("before migration",), (), ("a long label " * 12,)), 1):
        project.write("app.py", f"{number}\n")
        project.gitcp("save", *words, "--session", "shop", check=0)
    project.gitcp("restore", "2", "--yes", check=0)
    return project


def typed(project: Project, text: str, *args: str) -> Result:
    """Run `gitcp restore` on a terminal, where `text` is typed."""
    done = on_terminal(project, "restore", *args, typed=text, env={"GIT_PAGER": "cat"})
    return done._replace(out=SGR.sub("", done.out))


def test_pick_by_number(shop: Project) -> None:
    """The list, the diff, the plan, the question: one after the other."""
    done = typed(shop, "d 1\n1\ny\n")

    assert done.code == 0
    rows = [line for line in done.out.splitlines() if re.match(r"  \d  ", line)]
    assert [row.split()[0] for row in rows[:3]] == ["1", "2", "3"]
    assert rows[0].split("  ")[2] == "before migration"
    assert "ago" in rows[0] or "just now" in rows[0]
    assert "…" in rows[2]
    assert all(len(row) <= 80 for row in rows)
    assert "-1\n" in done.out
    assert "+2\n" in done.out
    assert 'restored shop@1 "before migration"' in done.out
    assert shop.read("app.py") == b"1\n"


@pytest.mark.parametrize("text", ["\n", "q\n", "\x04", "1\nn\n"])
def test_to_decline_is_no_error(shop: Project, text: str) -> None:
    """Nothing chosen, the end of the input, or no to the plan: nothing is changed, exit code 0."""
    before = shop.gitcp("log", "--all", "--oneline", check=0).out
    done = typed(shop, text)

    assert done.code == 0
    assert "not restored: nothing was changed" in done.out
    assert shop.read("app.py") == b"2\n"
    assert shop.gitcp("log", "--all", "--oneline", check=0).out == before


def test_any_revision_can_be_typed(shop: Project) -> None:
    """What means nothing is said, and asked again."""
    done = typed(shop, "99\nd\nbefore migration\ny\n", "--files")

    assert "has no checkpoint 99" in done.out
    assert "d NUMBER" in done.out
    assert done.code == 0
    assert shop.read("app.py") == b"1\n"


def test_nobody_is_asked_who_named_one(shop: Project) -> None:
    """With a revision, --yes or paths there is no list; nor where there is no terminal."""
    shop.write("app.py", "9\n")
    for args in (("@",), ("--dry-run",), ("--yes",), ("--", "app.py")):
        assert "Restore which?" not in typed(shop, "n\n", *args).out
    assert "Restore which?" not in shop.gitcp("restore", check=0).err


def test_prune_lists_what_goes(shop: Project) -> None:
    """Before it asks, each checkpoint that would be dropped."""
    done = on_terminal(shop, "prune", "--keep-last", "1", typed="n\n")

    assert "shop@1" in done.out.partition("Drop?")[0]
    assert "before migration" in done.out
    assert len(shop.json_lines("log")) > 3
