"""Going back where two agents work in one tree, as their hooks and their user see it: a restore
spares what the other one changed, or says so and refuses.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from agents_at_work import ALPHA, BETA, AgentAtWork, Codex
from back import contents
from talk import Talk
from terminal import on_terminal

import gitcp
from gitcp.errors import DiskFull, OthersAffected
from gitcp.model import CheckpointId
from gitcp.restoring import apply
from gitcp.restoring import restore as op
from gitcp.restoring.request import RestoreRequest

from driver import Project
from samples import open_store

LINES = [f"line {n}\n" for n in range(20)]


def lines(**changed: str) -> str:
    """The file that both edit, with other lines: `l3` is the fourth one."""
    return "".join(changed.get(f"l{n}", line) for n, line in enumerate(LINES))


class Pair:
    """Claude Code edited line 3 and made `alpha`; Codex edited line 15, and made `beta` in a
    shell.
    """

    def __init__(self, project: Project) -> None:
        self.project = project
        self.alpha, self.beta = AgentAtWork(project, ALPHA), Codex(project, BETA)
        self.alpha.prompt("one")
        self.alpha.edits("app", lines(l3="alpha\n"))
        self.alpha.edits("alpha", "alpha\n")
        self.beta.prompt("two")
        self.beta.edits("app", lines(l3="alpha\n", l15="beta\n"))
        with self.beta.shell():
            project.write("beta", "beta\n")

    def told(self, session: AgentAtWork) -> str:
        """What an agent is told at its next prompt, "" for nothing."""
        known = {"session_id": session.session, "cwd": str(self.project.root), "prompt": "go on"}
        name = "UserPromptSubmit"
        out = self.project.gitcp("hook", session.agent, name, input=json.dumps(known), check=0).out
        text: str = json.loads(out)["hookSpecificOutput"]["additionalContext"] if out else ""
        return text


@pytest.fixture
def pair(project: Project) -> Pair:
    project.write("app", lines())
    project.commit()
    return Pair(project)


START = f"{ALPHA[:8]}@1"
AFFECTED = [{"session": BETA[:8], "paths": ["app", "beta"]}]


def test_refused(pair: Pair) -> None:
    """A plan shows what the other one changed; a restore past it is refused and changes nothing."""
    project = pair.project
    plan = project.json("restore", START, "--dry-run")
    assert plan["others"] == [{**AFFECTED[0], "agent": "codex", "live": True}]
    shown = project.gitcp("restore", START, "--dry-run", check=0).out
    assert "changed by sessions at work, and undone as well\n    bbbbbbbb (codex)\n" in shown
    refs, before = project.git("for-each-ref"), project.files()
    for options in ((), ("--yes",), ("--yes", "--json"), ("--files",)):
        with project.guard():
            refused = project.gitcp("restore", START, *options, check=12)
        assert "bbbbbbbb (codex): app, beta" in refused.err
        assert f"{' '.join(('gitcp restore', START, *options))} --mine" in refused.err
    failure = json.loads(project.gitcp("restore", START, "--yes", "--json").err)
    assert (failure["code"], failure["sessions"]) == (12, AFFECTED)
    with pytest.raises(OthersAffected) as error:
        gitcp.open(project.root).restore(START)
    assert error.value.sessions == ((BETA[:8], (b"app", b"beta")),)
    assert (project.files(), project.git("for-each-ref")) == (before, refs)
    api = gitcp.open(project.root)
    assert [each.session for each in api.plan(START).others] == [BETA[:8]]
    assert api.restore(START, mine=True).removed_text == ("alpha",)
    assert api.undo(mine=True).written_text == ("alpha", "app")
    assert project.files() == before


def test_mine(pair: Pair) -> None:
    """Only its own changes go, line by line; the other one is told which file changed; undo returns
    every byte.
    """
    project = pair.project
    before = project.files()
    with project.guard():
        done = json.loads(project.gitcp("restore", START, "--mine", "--yes", "--json", check=0).out)
    assert (done["written"], done["removed"], done["conflicts"]) == (["app"], ["alpha"], [])
    assert project.read("app").decode() == lines(l15="beta\n")
    assert project.read("beta") == b"beta\n"
    told = pair.told(pair.beta)
    assert told.startswith(f"gitcp: a restore in session {ALPHA[:8]} changed files that you had")
    assert "Read them again first: app\n" in told
    assert pair.told(pair.beta) == ""

    with project.guard():
        project.gitcp("undo", "--yes", "--mine", check=0)
    assert project.files() == before


def test_undo_after_the_other_went_on(pair: Pair) -> None:
    """Undo of a restore that another agent built upon keeps that, line by line, and so does redo:
    neither asks for an option.
    """
    project = pair.project
    project.gitcp("restore", START, "--mine", "--yes", check=0)
    pair.told(pair.beta)
    pair.beta.edits("app", lines(l15="beta\n", l9="more\n"))
    project.gitcp("undo", "--yes", check=0)
    assert project.read("app").decode() == lines(l3="alpha\n", l9="more\n", l15="beta\n")
    assert project.read("alpha") == b"alpha\n"
    project.gitcp("redo", "--yes", check=0)
    assert project.read("app").decode() == lines(l9="more\n", l15="beta\n")


def test_redo_of_an_undo_in_another_session(project: Project) -> None:
    """Redo right after undo works, whichever session recorded the undo, and with any option."""
    project.write("f", "1\n")
    project.commit()
    one, two = AgentAtWork(project, ALPHA), Codex(project, BETA)
    one.prompt("write")
    one.edits("f", "2\n")
    project.gitcp("save", "--session", ALPHA[:8], check=0)
    project.gitcp("restore", f"{ALPHA[:8]}@1", "--yes", "--", "f", check=0)
    assert project.read("f") == b"1\n"
    two.prompt("elsewhere")
    two.edits("g", "new\n")
    for options in ((), ("--mine",), ("--whole-tree",)):
        project.gitcp("undo", "--yes", check=0)
        assert (project.read("f"), project.read("g")) == (b"2\n", b"new\n")
        project.gitcp("redo", "--yes", *options, check=0)
        assert (project.read("f"), project.read("g")) == (b"1\n", b"new\n")


def test_whole_tree(pair: Pair) -> None:
    """Said so, everything goes back; the other one is told both files."""
    project = pair.project
    project.gitcp("restore", START, "--whole-tree", "--yes", check=0)
    assert set(project.files()) == {b"app"}
    assert "again first: app, beta\n" in pair.told(pair.beta)


def test_own_agent_in_mid_turn(project: Project) -> None:
    """Until its turn ends, a restore names the agent whose own session it restores, asked or not;
    to that agent itself it says nothing.
    """
    project.write("a", "1\n")
    agent = AgentAtWork(project, ALPHA)
    agent.prompt()
    agent.stop()
    agent.prompt()
    with agent.shell():
        project.write("a", "2\n")
        words = f"in mid-turn, as its hooks tell: claude-code in session {agent.name} (begun "
        assert words in project.gitcp("restore", "1", "--dry-run", check=0).out
        assert words in project.gitcp("restore", "1", "--yes", check=0).err
        for command in (("undo", "--yes"), ("restore", "1", "--dry-run"), ("redo", "--yes")):
            (turn,) = json.loads(project.gitcp(*command, "--json", check=0).out)["turns"]
            assert (turn["session"], turn["agent"]) == (agent.name, "claude-code")
            assert turn["began"] <= turn["last"]
        own = {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": ALPHA}
        assert "mid-turn" not in project.gitcp("undo", "--yes", env=own, check=0).err
        agent.stop()
    # the call ended after its turn
    assert "mid-turn" not in project.gitcp("restore", "1", "--yes", check=0).err


def test_an_agent_without_hooks(project: Project) -> None:
    """Without hooks, a conversation with a new message is in mid-turn, unless that is an answer.
    One that a restore put back has none.
    """
    project.write("a", "1\n")
    talk = Talk(project, ALPHA)
    talk.say("one", "done")
    project.gitcp("save", check=0)
    project.write("a", "2\n")
    assert "mid-turn" not in project.gitcp("restore", "1", "--yes", check=0).err
    (tree,) = project.json_lines("sessions", "--worktrees")
    assert not tree["sessions"][0]["running"]
    talk.say("two", at=datetime.now(UTC))
    project.write("a", "3\n")
    words = "in mid-turn, as its conversation tells: claude-code in session aaaaaaaa (last message "
    assert words in project.gitcp("restore", "1", "--dry-run", check=0).out
    (turn,) = json.loads(project.gitcp("restore", "1", "--yes", "--json", check=0).out)["turns"]
    assert turn["began"] is None
    (tree,) = project.json_lines("sessions", "--worktrees")
    assert tree["sessions"][0]["running"]
    talk.say("done", at=datetime.now(UTC))
    assert "mid-turn" not in project.gitcp("undo", "--yes", check=0).err


@pytest.mark.parametrize("option", ["--dry-run", "--yes"])
def test_revert_in_mid_turn(project: Project, option: str) -> None:
    """A revert names an agent in mid-turn as a restore does."""
    project.write("a", "1\n")
    agent = AgentAtWork(project, ALPHA)
    agent.prompt()
    with agent.shell():
        project.write("a", "2\n")
    agent.stop()
    agent.prompt()
    done = project.gitcp("revert", "2", option, check=0)
    assert "1 file" in done.out
    words = f"in mid-turn, as its hooks tell: claude-code in session {agent.name} (begun "
    assert words in done.out + done.err


@pytest.mark.parametrize("ended", [False, True])
def test_json_names_them(pair: Pair, *, ended: bool) -> None:
    """A restore says whose changes it undid, as its plan does, also of agents that have ended. Its
    undo undoes nobody else's.
    """
    project = pair.project
    if ended:
        for session in (pair.alpha, pair.beta):
            known = {"session_id": session.session, "cwd": str(project.root)}
            project.gitcp("hook", session.agent, "SessionEnd", input=json.dumps(known), check=0)
    other = {**AFFECTED[0], "agent": "codex", "live": not ended}
    options = ("--whole-tree",) * (not ended)
    assert project.json("restore", START, "--yes", *options)["others"] == [other]
    assert project.json("undo", "--yes", *options)["others"] == []


def test_conflict(pair: Pair) -> None:
    """Lines that both changed are a conflict: nothing is done, or markers are written."""
    project = pair.project
    pair.beta.edits("app", lines(l3="both\n", l15="beta\n"))
    before = project.files()
    with project.guard():
        refused = project.gitcp("restore", START, "--mine", "--yes", check=12).err
    assert "app  (the same lines changed since)" in refused
    assert project.files() == before
    project.gitcp("restore", START, "--mine", "--yes", "--", "alpha", check=0)
    assert project.files().keys() == before.keys() - {b"alpha"}
    project.gitcp("restore", START, "--mine", "--markers", "--yes", check=3)
    assert "<<<<<<< app (now)\nboth\n" in project.read("app").decode()


def test_rollback_and_revert(pair: Pair) -> None:
    """Rollback and revert of one session alone."""
    project = pair.project
    given = ("--session", pair.alpha.name, "--yes")
    assert "bbbbbbbb" in project.gitcp("rollback", *given, check=12).err
    project.gitcp("rollback", "--mine", *given, check=0)
    assert project.read("app").decode() == lines(l15="beta\n")
    project.gitcp("undo", "--yes", check=0)
    project.gitcp("revert", f"{pair.alpha.name}@1..{pair.alpha.name}@3", "--mine", "--yes", check=0)
    assert project.read("app").decode() == lines(l15="beta\n")
    assert b"alpha" not in project.files()


def test_asked(pair: Pair) -> None:
    """On a terminal it asks which."""
    project = pair.project
    said = on_terminal(project, "restore", START, typed="y\ny\n").out
    assert "Restore only what this session changed?" in said
    assert project.read("app").decode() == lines(l15="beta\n")


@pytest.mark.parametrize("forward", [True, False])
def test_interrupted(pair: Pair, monkeypatch: pytest.MonkeyPatch, forward: bool) -> None:
    """One that was cut off in the middle is finished as planned, or taken back, byte for byte,
    whatever the others have saved since.
    """
    project, store = pair.project, open_store(pair.project)
    project.write("later", "a person's\n")
    before = contents(project)
    target = store.find(CheckpointId(ALPHA[:8], 1))
    assert target is not None
    request = RestoreRequest(store.read(target), project.root, conversation=False, mine=True)

    def cut_off(*_: object) -> None:
        raise DiskFull("full")

    with monkeypatch.context() as patch:
        patch.setattr(apply._Work, "_place", cut_off)
        with pytest.raises(DiskFull):
            op.restore(store, request)
    pair.beta.edits("beta", "more\n")
    with project.guard():
        project.gitcp("restore", "--continue" if forward else "--abort", check=0)
    wanted = dict(before) | {b"beta": before[b"beta"]._replace(data=b"more\n")}
    if forward:
        del wanted[b"alpha"]
        wanted[b"app"] = before[b"app"]._replace(data=lines(l15="beta\n").encode())
    assert contents(project) == wanted


def test_a_person(pair: Pair) -> None:
    """The session of a person, who saves without an agent: what nobody else did is theirs."""
    project = pair.project
    project.gitcp("save", "--session", "mine", check=0)
    project.write("app", lines(l3="alpha\n", l7="by hand\n", l15="beta\n"))
    project.write("hand", "by hand\n")
    project.gitcp("save", "--session", "mine", check=0)
    pair.beta.edits("app", lines(l3="alpha\n", l7="by hand\n", l11="more\n", l15="beta\n"))
    project.write("hand", "by hand, unsaved\n")
    project.gitcp("restore", "mine@1", "--mine", "--yes", check=0)
    assert project.read("app").decode() == lines(l3="alpha\n", l11="more\n", l15="beta\n")
    assert b"hand" not in project.files()


@pytest.mark.parametrize(
    "options",
    [("--markers",), ("--mine", "--whole-tree"), ("--mine", "--to", "x"), ("--mine", "--index")],
)
def test_options(project: Project, options: tuple[str, ...]) -> None:
    """Options that make no sense together are refused."""
    project.write("a", "a\n")
    project.gitcp("save", check=0)
    assert "error: --" in project.gitcp("restore", *options, "--yes", check=2).err
