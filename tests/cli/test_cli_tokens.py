"""Tokens where checkpoints and sessions are shown: what each one's requests used."""

from __future__ import annotations

from functools import partial

import pytest

from gitcp.history import tokens

from driver import Project
from samples import answers, open_store, save

WIDE = {"COLUMNS": "150"}
stream = partial(answers, cache_read=7000)
"""A transcript with these answers, of 7,003 tokens each."""


def used(requests: int) -> dict[str, int]:
    kinds = {"input": 1, "output": 2, "cache_read": 7000, "cache_write": 0, "total": 7003}
    return {"requests": requests, **{kind: each * requests for kind, each in kinds.items()}}


@pytest.fixture
def talked(project: Project) -> Project:
    """Three checkpoints: one request, two more, and none."""
    store = open_store(project)
    save(store, "alpha", streams=stream("a"))
    save(store, "alpha", streams=stream("a", "b", "c"))
    save(store, "alpha", streams=stream("a", "b", "c"), files={b"b.txt": b"b\n"})
    return project


def test_lists(talked: Project) -> None:
    """On a wide terminal, each row has the tokens that came with it; a narrow one has no room."""
    log = talked.gitcp("log", "--session", "alpha", env=WIDE, check=0).out
    assert [" tokens" in line for line in log.splitlines()[1:]] == [
        *(False, False),
        *(False, True),
        *(False, True),
    ]
    assert "14k tokens" in log
    assert "7003 tokens" in log
    table = talked.gitcp("log", "--table", "--session", "alpha", env=WIDE, check=0).out
    assert [line.split()[7] for line in table.splitlines()[1:3]] == ["7003", "14k"], table
    sessions = talked.gitcp("sessions", env=WIDE, check=0).out
    assert "  21k  " in sessions
    assert "tokens" not in talked.gitcp("log", "--session", "alpha", check=0).out


def test_documents(talked: Project) -> None:
    """JSON has the numbers of the conversation up to there, null where none are recorded."""
    save(open_store(talked), "beta", streams={"main": b"{}\n"})
    assert talked.json("show", "alpha@1")["tokens"] == used(1)
    assert talked.json("show", "beta@1")["tokens"] is None
    sessions = talked.json_lines("sessions")
    assert {each["session"]: each["tokens"] for each in sessions} == {
        "alpha": used(3),
        "beta": None,
    }


def test_asked_for(talked: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """`log --tokens` counts every row, on a narrow terminal and for programs: none is left out
    because it was not read before.
    """
    monkeypatch.setattr(tokens, "MOST_ROWS", 1)
    monkeypatch.setattr(tokens, "LISTED", 1)
    log = talked.gitcp("log", "--session", "alpha", "--tokens", check=0).out
    assert [line.rpartition(", ")[2] for line in log.splitlines()[4::2]] == [
        "14k tokens",
        "7003 tokens",
    ]
    rows = talked.json_lines("log", "--session", "alpha", "--tokens")
    assert [row["tokens_added"] for row in rows] == [None, used(2), used(1)]
    assert "tokens_added" not in talked.json_lines("log", "--session", "alpha")[0]
    talked.gitcp("log", "--oneline", "--tokens", check=2)


def test_most(talked: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing reads no more than it may: what it read is kept, and the next one goes on."""
    store = open_store(talked)
    conversation = save(store, "long", streams=stream(*(f"r{n}" for n in range(3500)))).conversation
    monkeypatch.setattr(tokens, "LISTED", 300_000)
    counts = [tokens.TokenCounter(store).of_conversation(conversation) for _ in range(2)]
    assert counts[0] is None
    assert counts[1] == tokens.of_conversation(store, conversation)
    assert counts[1].requests == 3500
