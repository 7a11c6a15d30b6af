"""Tokens of sessions: each request once, and those apart that a restore took back."""

from __future__ import annotations

import json

from gitcp.history import tokens
from gitcp.history.tokens import Tokens
from gitcp.history.usage import UsageReader
from gitcp.lifecycle.fork import ForkRequest, fork
from gitcp.model import Agent, Base, Trigger
from gitcp.store import Store
from gitcp.value import replace

from driver import Project
from samples import open_store, save


def stream(*ids: str) -> dict[str, bytes]:
    """A transcript with these answers, of ten tokens each."""
    return {"main": b"".join(map(_answer, ids))}


def _answer(id: str) -> bytes:
    usage = {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 7}
    message = {"id": id, "model": f"model-{id[0]}", "usage": usage}
    fields = {"type": "assistant", "timestamp": f"2026-11-0{id[1]}T09:00:00Z", "message": message}
    return json.dumps(fields).encode() + b"\n"


def counted(store: Store, by: str = "session") -> dict[str, Tokens]:
    return tokens.counted(tokens.of_sessions(store, store.sessions()).values(), by)


def test_once(project: Project) -> None:
    """A conversation that grows is counted at its end, with its sub-agents."""
    store = open_store(project)
    save(store, "alpha", streams=stream("a1"))
    save(store, "alpha", streams={**stream("a1", "a2"), "agents/x": _answer("b2")})
    assert counted(store) == {"alpha": Tokens(3, 3, 6, 21)}
    assert counted(store, "model") == {
        "model-a": Tokens(2, 2, 4, 14),
        "model-b": Tokens(1, 1, 2, 7),
    }
    assert list(counted(store, "day")) == ["2026-11-01", "2026-11-02"]
    assert list(counted(store, "agent")) == ["claude-code"]
    assert list(counted(store, "branch")) == ["main"]


def test_abandoned(project: Project) -> None:
    """Turns that a restore took back are counted, and counted apart; those that came again are
    not.
    """
    store = open_store(project)
    save(store, "alpha", streams=stream("a1"))
    save(store, "alpha", streams=stream("a1", "a2"))
    save(store, "alpha", streams=stream("a1", "a2", "a3"), trigger=Trigger.BEFORE_RESTORE)
    save(store, "alpha", streams=stream("a1"), trigger=Trigger.RESTORE)
    save(store, "alpha", streams=stream("a1", "a4"))
    assert counted(store) == {"alpha": Tokens(4, 4, 8, 28, abandoned=20)}


def test_places(project: Project) -> None:
    """A request belongs to the branch and the phase of the checkpoint that saved it first, and one
    of an earlier conversation of the session counts, too.
    """
    store = open_store(project)
    save(store, "alpha", streams=stream("a1"), phase="plan")
    save(store, "alpha", streams=stream("a1", "a2"), phase="build")
    main = save(store, "alpha", streams=stream("a1", "a2", "a3"), phase="build").snapshot
    work = replace(main, base=Base(None, "work"))
    save(store, "alpha", streams=stream("a1", "a2", "a3", "a4"), snapshot=work)
    other = Agent("claude-code", "0the", "2.1", "model")
    save(store, "alpha", streams=stream("a5"), snapshot=work, agent=other)
    by_phase = {name: each.requests for name, each in counted(store, "phase").items()}
    assert by_phase == {"build": 2, "unknown": 2, "plan": 1}
    by_branch = {name: each.requests for name, each in counted(store, "branch").items()}
    assert by_branch == {"main": 3, "work": 2}
    assert counted(store)["alpha"].abandoned == 0


def test_added(project: Project) -> None:
    """What a checkpoint adds are the requests that the one before it has not."""
    store = open_store(project)
    first = save(store, "alpha", streams=stream("a1"))
    second = save(store, "alpha", streams={**stream("a1", "a2"), "agents/x": _answer("b2")})
    reader = UsageReader(store)
    assert tokens.added(reader, second.conversation, first.conversation) == Tokens(2, 2, 4, 14)
    assert tokens.added(reader, first.conversation, second.conversation) == Tokens()
    assert tokens.added(reader, first.conversation, None) == Tokens(1, 1, 2, 7)
    assert tokens.added(reader, None, first.conversation) == Tokens()


def test_fork(project: Project) -> None:
    """What two sessions share belongs to the older one."""
    store = open_store(project)
    point = save(store, "alpha", streams=stream("a1", "a2"))
    fork(store, ForkRequest(point, project.root, "other"))
    save(open_store(project), "other", streams=stream("a1", "a2", "a3"))
    assert counted(open_store(project)) == {
        "alpha": Tokens(2, 2, 4, 14),
        "other": Tokens(1, 1, 2, 7),
    }


def test_no_conversation(project: Project) -> None:
    """A session of files alone has none."""
    store = open_store(project)
    save(store, "alpha")
    assert counted(store) == {}


def test_context(project: Project) -> None:
    """What the last request read is read again; nothing is said where nothing is recorded."""
    store = open_store(project)
    told = save(store, "alpha", streams={**stream("a1", "a2"), "agents/x": _answer("b2")})
    silent = save(store, "beta", streams={"main": b"{}\n"})
    contexts = [
        tokens.context(store, each.conversation) if each.conversation else None
        for each in (told, silent)
    ]
    assert contexts == [8, 0]
