"""Who changed what, where agents and a person work in one tree: real hooks, interleaved."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from agents_at_work import ALPHA, BETA, AgentAtWork, Codex
from talk import Talk

from gitcp.history import authors
from gitcp.model import NOBODY, Claim
from gitcp.tui.preview import Wanted, read
from gitcp.worktree.snapshot import Limits

from driver import Project
from samples import open_store


@pytest.fixture
def crowd(project: Project) -> tuple[AgentAtWork, Codex]:
    """A session of Claude Code and one of Codex in one tree, each with a checkpoint."""
    for name in ("a", "b", "c", "d"):
        project.write(name, f"{name}\n")
    project.commit()
    agents = AgentAtWork(project, ALPHA), Codex(project, BETA)
    for agent in agents:
        agent.prompt()
        agent.stop()
    return agents


Claims = dict[str, tuple[set[str], set[str]]]


def by(project: Project, agent: AgentAtWork) -> Claims:
    """Who changed the paths of a session's checkpoints, each since its parent: surely, perhaps."""
    store = open_store(project)
    chain = list(store.readable(store.tip(agent.name)))[::-1]
    claims: dict[bytes, Claim] = {}
    for summary in chain:
        for path, claim in authors.changed_by(store, store.read(summary.commit)).items():
            claims[path] = claims[path].joined(claim) if path in claims else claim
    return {p.decode(): (set(claim.sessions), set(claim.possible)) for p, claim in claims.items()}


def test_edits_of_two(project: Project, crowd: tuple[AgentAtWork, Codex]) -> None:
    """Each edit is its agent's, whoever saves first, and a person's is nobody's."""
    alpha, beta = crowd
    with project.guard():
        alpha.prompt()
        beta.prompt()
        with beta.tool("apply_patch", {"command": beta.patch("b", "beta")}):
            project.write("b", "beta")
            alpha.edits("a", "alpha")
        project.write("c", "a person")
        beta.stop()
        alpha.stop()

    known: Claims = {"a": ({ALPHA[:8]}, set()), "b": ({BETA[:8]}, set()), "c": ({NOBODY}, set())}
    assert by(project, alpha) == known
    assert by(project, beta) == known


def test_commands(project: Project, crowd: tuple[AgentAtWork, Codex]) -> None:
    """What changes while a command runs is its agent's; while two run, either's; between, a
    person's.
    """
    alpha, beta = crowd
    alpha.prompt()
    with alpha.shell():
        project.write("made", "alpha")
        project.write("dir/made", "alpha")
        os.rename(project.path("a"), project.path("moved"))
    project.write("c", "a person")
    with beta.shell("sed -i s/b/B/ b"):
        project.write("b", "beta")
    with alpha.shell("make"), beta.shell("make"):
        project.write("d", "one of them")
    beta.stop()
    alpha.stop()

    one, other = {alpha.name}, {beta.name}
    assert by(project, alpha) == {
        "made": (one, set()),
        "dir/made": (one, set()),
        "moved": (one, set()),
        "a": (one, set()),
        "b": (other, set()),
        "c": ({NOBODY}, set()),
        "d": (set(), one | other),
    }


def test_deleted(project: Project, crowd: tuple[AgentAtWork, Codex]) -> None:
    """A command that deletes is its agent's, since the files were looked at before it, and what
    was deleted before was saved.
    """
    alpha, beta = crowd
    alpha.prompt()
    with alpha.shell("rm a"):
        project.remove("a")
    assert by(project, alpha) == {"a": ({alpha.name}, set())}

    project.remove("b")
    with beta.shell("python clean.py"):
        project.remove("c")
    assert by(project, beta) == {
        "a": ({alpha.name}, set()),
        "b": ({NOBODY}, set()),
        "c": ({beta.name}, set()),
    }


def test_edited_again(project: Project, crowd: tuple[AgentAtWork, Codex]) -> None:
    """A file that an agent edited, and a person after it, is both's; so with two agents."""
    alpha, beta = crowd
    alpha.prompt()
    with alpha.tool("Edit", alpha.replacing("a", "alpha")):
        project.write("a", "alpha")
        beta.edits("b", "beta")
        with alpha.tool("Write", {"file_path": "b", "content": "alpha, too"}):
            project.write("b", "alpha, too")
    project.write("a", "a person")
    alpha.stop()

    assert by(project, alpha)["a"] == ({alpha.name, NOBODY}, set())
    assert by(project, alpha)["b"] == ({alpha.name, beta.name}, set())


def test_a_person_saves(project: Project, crowd: tuple[AgentAtWork, Codex]) -> None:
    """In a session without an agent, what no agent did is its own."""
    alpha, _ = crowd
    with alpha.tool("Edit", alpha.replacing("a", "alpha")):
        project.write("a", "alpha")
        project.write("c", "a person")
        project.gitcp("save", "by hand", "--session", "mine", check=0)
    store = open_store(project)
    tip = store.tip("mine")
    assert tip is not None
    claims = authors.changed_by(store, store.read(tip))
    assert claims[b"a"] == Claim(frozenset({alpha.name}))
    assert claims[b"c"] == Claim(frozenset({"mine"}))


def test_shown(project: Project, crowd: tuple[AgentAtWork, Codex]) -> None:
    """`show`, `log --stat`, `diff` and `why` name who else changed a file, and JSON all of them."""
    alpha, beta = crowd
    alpha.prompt("Make it work.")
    with alpha.tool("Edit", alpha.replacing("a", "alpha\n")):
        project.write("a", "alpha\n")
        project.write("b", "b\na person\n")
        beta.edits("c", "beta\n")
    alpha.edits("b", "b\na person\nalpha\n")
    alpha.stop()

    def out(*args: str) -> str:
        return project.gitcp(*args, check=0).out

    changed = "Changed (3)\n  M  a\n  M  b  unclaimed\n  M  c  by bbbbbbbb\n"
    assert changed in out("show", "aaaaaaaa@3")
    others = "Changed by others\n  b  by aaaaaaaa and someone else\n  c  by bbbbbbbb\n"
    assert others in out("log", "--stat")
    assert others in out("diff", "aaaaaaaa@1", "aaaaaaaa@5", "--stat")
    assert "Changed by" not in out("diff", "aaaaaaaa@1", "aaaaaaaa@5")
    by = {each["path"]: each["by"]["sessions"] for each in show_json(project)}
    assert by == {"a": [alpha.name], "b": [""], "c": [beta.name]}
    assert previewed(project, alpha) == {
        "path:a": "a",
        "path:b": "b  by aaaaaaaa and someone else",
        "path:c": "c  by bbbbbbbb",
    }


def previewed(project: Project, agent: AgentAtWork) -> dict[str, str]:
    """The headings of files in the interface's preview of a row of checkpoints."""
    store = open_store(project)
    tip = store.tip(agent.name)
    assert tip is not None
    newest = store.read(tip)
    commits = {s.id.number: s.commit for s in store.readable(tip)}
    wanted = Wanted(newest.commit, commits[3], "Changes", 80)
    shown = next(read(store, wanted, Limits()))
    assert shown.blocks
    return {
        block.key: "".join(text for text, _ in block.head[0])
        for block in shown.blocks
        if block.head is not None
    }


def show_json(project: Project) -> Any:
    """The changes of a checkpoint, which `diff --json` has too."""
    diff = project.json_lines("diff", "aaaaaaaa@2", "aaaaaaaa@3")
    changes = project.json("show", "aaaaaaaa@3")["changes"]
    assert [each["by"] for each in changes] == [each["by"] for each in diff]
    return changes


def test_why(project: Project, crowd: tuple[AgentAtWork, Codex]) -> None:
    """A line is explained by who wrote it, whatever session saved it first."""
    alpha, beta = crowd
    alpha.prompt("Make it work.")
    with alpha.tool("Edit", alpha.replacing("a", "alpha\nbeta\n")):
        project.write("b", "b\na person\n")
        beta.edits("b", "b\na person\nbeta\n")
        project.write("c", "c\na person\n")
        beta.edits("a", "beta\n")
        project.write("a", "beta\nalpha\n")
    alpha.stop()

    def lines(place: str) -> list[str]:
        return project.gitcp("why", place, "--session", alpha.name, check=0).out.splitlines()

    assert lines("a:1")[1].startswith("added by bbbbbbbb@4")
    assert lines("a:2")[1].startswith("added by aaaaaaaa@3")
    assert lines("a:2")[2] == "written by aaaaaaaa, perhaps someone else"  # while it ran
    assert lines("a:2")[3] == "prompt: Make it work."
    assert lines("c:2")[2].startswith("unclaimed: ")
    assert lines("b:1")[1].startswith("there since the session's first checkpoint, ")
    assert project.json("why", "a:1", "--session", alpha.name)["by"] == {
        "sessions": [beta.name],
        "possible": [],
    }
    assert lines("a")[1].endswith("  by aaaaaaaa and bbbbbbbb, perhaps someone else")


def test_without_hooks(project: Project) -> None:
    """Where hooks say nothing, the transcripts do: an edit names its path, a command has its time;
    what neither explains is unclaimed.
    """
    for name in ("a", "b", "c"):
        project.write(name, f"{name}\n")
    project.commit()
    talk = Talk(project, ALPHA)
    talk.say("Begin.", "I begin.")
    project.gitcp("save", check=0)
    began = datetime.now(UTC).isoformat()
    project.write("a", "alpha\n")
    project.write("b", "alpha, too\n")
    changed = os.stat(project.path("b")).st_ctime_ns // 1_000_000  # as agents cut times
    ended = datetime.fromtimestamp(changed / 1000, UTC).isoformat(timespec="milliseconds")
    time.sleep(0.02)
    project.write("c", "a person\n")
    calls = (("Edit", {"file_path": str(project.root / "a")}), ("Bash", {"command": "make b"}))
    with talk.path.open("a") as file:
        for name, fields in calls:
            used = {"type": "tool_use", "id": name, "name": name, "input": fields}
            result = {"type": "tool_result", "tool_use_id": name, "content": "ok"}
            for role, at, part in (("assistant", began, used), ("user", ended, result)):
                line = {"type": role, "uuid": role + name, "timestamp": at, "sessionId": ALPHA}
                file.write(
                    json.dumps({**line, "message": {"role": role, "content": [part]}}) + "\n"
                )
    project.gitcp("save", check=0)

    by = {each["path"]: each["by"]["sessions"] for each in project.json("show")["changes"]}
    assert by == {"a": [ALPHA[:8]], "b": [ALPHA[:8]], "c": [""]}


def test_reviewed(project: Project, crowd: tuple[AgentAtWork, Codex]) -> None:
    """A review names the other session that changed a file of a checkpoint."""
    alpha, beta = crowd
    project.git("checkout", "--quiet", "-b", "topic")
    with beta.shell():
        project.write("a", "beta\n")
        alpha.edits("b", "alpha\n")
    project.commit("both")
    steps = project.json("review", "main..topic")["steps"]
    by = {step["id"]: {f["path"]: f["by"] for f in step["files"]} for step in steps}
    assert by["aaaaaaaa@3"] == {"a": "by bbbbbbbb or someone else", "b": ""}


# ---------------------------------------------------------------- a person in mid-turn


def lines(project: Project, path: str, *texts: str) -> None:
    """Write a file of twenty lines, with these at the end."""
    project.write(path, "".join(f"{n}\n" for n in range(20)) + "".join(f"{t}\n" for t in texts))


def edit(project: Project, path: str) -> dict[str, str]:
    """The input of an edit that adds a line before the first."""
    place = str(project.root / path)
    return {"file_path": place, "old_string": "0\n1\n", "new_string": "alpha\n0\n1\n"}


def add(project: Project, path: str, text: str, *, first: bool = False) -> None:
    """Add a line to a file, as the last or as the first."""
    old = (project.root / path).read_text()
    project.write(path, f"{text}\n{old}" if first else f"{old}{text}\n")


@pytest.fixture
def alone(project: Project) -> AgentAtWork:
    """A session of Claude Code that has a checkpoint of the files `a` and `b`."""
    for name in ("a", "b"):
        lines(project, name)
    project.commit()
    alpha = AgentAtWork(project, ALPHA)
    alpha.prompt()
    alpha.stop()
    alpha.prompt()
    return alpha


def undone(project: Project, path: str) -> tuple[bool, bool]:
    """What `--mine` leaves of a path: the person's line, and the agent's."""
    args = ("restore", "aaaaaaaa@1", "--mine", "--yes", "--files", "--", path)
    project.gitcp(*args)
    text = (project.root / path).read_text()
    return "person\n" in text, "alpha\n" in text


@pytest.mark.parametrize("tool", ["Edit", "Write", "Bash"])
def test_a_person_before(project: Project, alone: AgentAtWork, tool: str) -> None:
    """What a person changed before an agent's edit or command is saved before it, as the
    person's.
    """
    add(project, "a", "person")
    after = "alpha\n" + (project.root / "a").read_text()
    place = {"file_path": str(project.root / "a")}
    fields = {"Edit": edit(project, "a"), "Write": {**place, "content": after}}
    with alone.tool(tool, fields.get(tool, {"command": "make"})):
        project.write("a", after)
    with alone.tool("Edit", edit(project, "b")):  # of which the person changed nothing
        add(project, "b", "alpha", first=True)

    assert by(project, alone) == {
        "a": ({alone.name, NOBODY}, set()),
        "b": ({alone.name}, set()),
    }
    assert undone(project, "a") == (True, False)
    assert undone(project, "b") == (False, False)


def test_a_person_between(project: Project, alone: AgentAtWork) -> None:
    """Before the next edit of a file, and after the last one, a person's line is apart."""
    for _ in range(2):
        with alone.tool("Edit", edit(project, "a")):
            add(project, "a", "alpha", first=True)
        add(project, "a", "person")
    alone.stop()
    assert undone(project, "a") == (True, False)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("payload", ["exact", "inexact"])
def test_a_person_meanwhile(project: Project, alone: AgentAtWork, when: str, payload: str) -> None:
    """What a person writes into a file while the agent's edit of it runs makes it uncertain, also
    where the input of the edit does not fit the file.
    """
    fields = edit(project, "a")
    if payload == "inexact":
        fields |= {"old_string": "gone"}
    with alone.tool("Edit", fields):
        if when == "before":
            add(project, "a", "person")
        add(project, "a", "alpha", first=True)
        if when == "after":
            add(project, "a", "person")

    assert by(project, alone)["a"] == ({alone.name}, {NOBODY})
    assert undone(project, "a") == (True, True)


def test_a_person_where_nothing_was_saved(project: Project, alone: AgentAtWork) -> None:
    """Where saves of tools are off, or a hook did not run, it is uncertain who changed a file that
    a person changed before; a file that only the agent changed is the agent's.
    """
    project.git("config", "gitcp.trigger.tools", "false")
    add(project, "a", "person")
    with alone.tool("Edit", edit(project, "a")):
        add(project, "a", "alpha", first=True)
    for _ in range(2):
        with alone.tool("Edit", edit(project, "b")):
            add(project, "b", "alpha", first=True)
    alone.stop()
    assert by(project, alone) == {
        "a": ({alone.name}, {NOBODY}),
        "b": ({alone.name}, set()),
    }

    alone.prompt()
    lines(project, "a", "person")
    add(project, "a", "alpha", first=True)
    alone.ends({"tool_name": "Edit", "tool_input": edit(project, "a"), "tool_use_id": "late"})
    alone.stop()
    assert NOBODY in set.union(*by(project, alone)["a"])
    assert undone(project, "a") == (True, True)


def test_a_person_after_a_refusal(project: Project, alone: AgentAtWork) -> None:
    """An edit that the user refuses and makes by hand is not the agent's, also where another
    session saves meanwhile.
    """
    alone.calls(
        "PreToolUse", tool_name="Edit", tool_input=edit(project, "a"), tool_use_id="refused"
    )
    add(project, "a", "person")
    beta = Codex(project, BETA)
    beta.prompt()
    beta.edits("b", "beta\n")
    alone.stop()
    assert NOBODY in set.union(*by(project, beta)["a"])
    assert undone(project, "a") == (True, False)


def test_a_person_deletes_and_adds(project: Project, alone: AgentAtWork) -> None:
    """A file that a person removed, added, made executable or a link before an edit."""
    project.remove("a")
    with alone.tool("Write", {"file_path": str(project.root / "a"), "content": "alpha\n"}):
        project.write("a", "alpha\n")
    project.write("new", "person\n")
    with alone.tool("Edit", {"file_path": "new", "old_string": "n\n", "new_string": "n\nalpha\n"}):
        add(project, "new", "alpha")
    lines(project, "b")
    os.chmod(project.path("b"), 0o755)
    with alone.tool("Edit", edit(project, "b")):
        add(project, "b", "alpha", first=True)
    os.chmod(project.path("b"), 0o755)
    alone.stop()

    assert by(project, alone)["new"] == ({alone.name, NOBODY}, set())
    assert undone(project, "new") == (True, False)
    assert undone(project, "b") == (False, False)
    assert os.access(project.path("b"), os.X_OK)
    project.gitcp("restore", "aaaaaaaa@1", "--mine", "--yes", "--files", "--", "a", check=0)
    assert not (project.root / "a").exists()  # as the person left it


def test_no_checkpoint_before_an_edit(project: Project, crowd: tuple[AgentAtWork, Codex]) -> None:
    """An edit or a command makes none before it where nobody else changed anything, also if another
    session has saved meanwhile.
    """
    for number in range(2):
        for agent in crowd:
            agent.edits("a", f"{agent.name} {number}\n")
            with agent.shell("true"):
                pass
    saved = project.json_lines("log", "--all")
    assert [each["trigger"] for each in saved].count("tools") == 4
