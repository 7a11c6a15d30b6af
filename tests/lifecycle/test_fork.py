"""`gitcp fork`: a second session from one checkpoint, with a conversation, files and a branch of
its own.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from back import last, save
from talk import SESSION, Talk

from gitcp.errors import BadValue, GitcpError, Refused, StoreDamaged
from gitcp.history import show
from gitcp.history.sessions import listing
from gitcp.lifecycle import check
from gitcp.lifecycle import fork as op
from gitcp.lifecycle.fork import Forked, ForkRequest
from gitcp.model import Checkpoint

from driver import Project
from samples import open_store


@pytest.fixture
def talk(project: Project) -> Talk:
    """A project with two checkpoints of an agent's session, and work that went on since."""
    project.write("app.py", "print(1)\n")
    project.write("run", "#!/bin/sh\n", mode=0o700)
    project.commit()
    talk = Talk(project)
    talk.say("add a column", "done")
    project.gitcp("save", "first", "--fact", "db=sqlite", check=0)
    project.write("app.py", "print(2)\n")
    project.write("new.py", "pass\n")
    talk.say("more", "more is done")
    project.gitcp("save", "second", check=0)
    talk.say("unsaved", "yes")
    project.write("unsaved.py", "pass\n")
    return talk


def fork(project: Project, point: Checkpoint, **fields: object) -> Forked:
    return op.fork(open_store(project), ForkRequest(point, project.root, **fields))  # type: ignore[arg-type]


def numbered(project: Project, id: str) -> Checkpoint:
    store = open_store(project)
    session, _, number = id.partition("@")
    return next(
        store.read(s.commit)
        for s in store.history(store.sessions()[session])
        if s.id.number == int(number)
    )


def test_a_fork_does_not_move_the_next_save(project: Project, talk: Talk) -> None:
    """Long after the agent's last word the copy is the newest conversation here: the next save goes
    where the last one went, until somebody continues the fork.
    """
    project.gitcp("save", "third", check=0)
    earlier = time.time() - 3600
    os.utime(talk.path, (earlier, earlier))
    forked = project.json("fork", "--name", "side")
    current = [each for each in project.json_lines("sessions") if each["current"]]
    assert [each["session"] for each in current] == [SESSION[:8]]
    assert project.json("status")["session"] == SESSION[:8]
    project.write("app.py", "print(3)\n")
    assert project.json("save", "fourth")["checkpoint"]["session"] == SESSION[:8]

    copy = Path(os.fsdecode(forked["resume"]["path"]))
    later = time.time() + 60
    os.utime(copy, (later, later))
    project.write("app.py", "print(4)\n")
    assert project.json("save", "fifth")["checkpoint"]["session"] == "side"


@pytest.mark.parametrize("given", [(), ("--session", "shop")])
def test_a_fork_without_an_agent(project: Project, given: tuple[str, ...]) -> None:
    """Also without a conversation; status, sessions, log and save agree on where work goes on."""
    project.write("a", "1\n")
    made = project.json("save", "one", *given)["checkpoint"]["session"]
    project.gitcp("fork", "--name", "side", check=0)
    for _ in range(2):
        assert project.json("status")["session"] == made
        assert [s["session"] for s in project.json_lines("sessions") if s["current"]] == [made]
        assert project.json_lines("log")[0]["session"] == made
        project.write("a", f"{time.time()}\n")
        assert project.json("save")["checkpoint"]["session"] == made


def problems(project: Project) -> list[str]:
    return [problem.what for problem in check.check(open_store(project)).problems]


def test_fork(project: Project, talk: Talk) -> None:
    """The new session begins with what the fork point says, after it; nothing else of the project
    changes.
    """
    point, before, said = numbered(project, "e7baae82@1"), project.files(), talk.path.read_bytes()

    with project.guard():
        made = fork(project, point, name="other").checkpoint

    assert (str(made.id), made.parent, made.forked_from) == ("other@2", point.commit, point.id)
    assert (made.snapshot, made.note.facts) == (point.snapshot, {"db": "sqlite"})
    assert made.conversation == point.conversation
    assert "Gitcp-Forked-From: e7baae82@1" in project.git(
        "log", "-1", "--format=%B", "refs/gitcp/sessions/other"
    )
    assert (
        project.git("log", "--format=%s", "refs/gitcp/sessions/other")
        == "forked from e7baae82@1\nfirst"
    )
    assert project.files() == before
    assert talk.path.read_bytes() == said
    assert problems(project) == []


def test_conversation_is_copied(project: Project, talk: Talk) -> None:
    """The copy lies where the agent resumes it under an id of its own, and what is said there goes
    to the fork.
    """
    made = project.json("fork", "1")
    path = Path(made["resume"]["path"])
    copy = made["resume"]["session_id"]

    assert made["resume"]["command"] == ["claude", "--resume", copy]
    assert copy != SESSION
    assert made["session"] == copy[:8]
    assert path == talk.path.with_name(f"{copy}.jsonl")
    store = open_store(project)
    assert path.read_bytes() == b"".join(
        show.stream(store, numbered(project, "e7baae82@1"), "main")
    )

    saved = project.json("save", "--session", made["session"])["checkpoint"]
    env = {"CLAUDE_CODE_SESSION_ID": copy}
    Talk(project, copy).say("in the fork")
    by_fork = project.gitcp("save", "--json", env=env, check=0).out
    by_old = project.gitcp("save", "--json", env={"CLAUDE_CODE_SESSION_ID": SESSION}, check=0).out

    assert saved["id"] == f"{made['session']}@3"
    assert f'"id":"{made["session"]}@4"' in by_fork
    assert '"id":"e7baae82@3"' in by_old


def test_worktree(project: Project, talk: Talk) -> None:
    """A working tree of its own has the files of the fork point, byte for byte, on its own branch,
    and saves there go to the fork.
    """
    head = project.git("rev-parse", "HEAD")
    there = project.root.parent / "there"
    made = project.json("fork", "2", "--worktree", "../there", "--branch", "side", "--name", "side")
    other = Project(there)

    assert made["worktree"] == str(there)
    assert set(other.files()) == {b"app.py", b"run", b"new.py"}
    assert other.read("app.py") == b"print(2)\n"
    assert other.files()[b"run"].mode == 0o700
    assert other.git("branch", "--show-current") == "side"
    assert other.git("rev-parse", "HEAD") == head
    assert other.git("status", "--short") == " M app.py\n?? new.py"
    assert project.git("branch", "--show-current") == "main"
    assert project.read("unsaved.py") == b"pass\n"
    assert Path(made["resume"]["path"]).parent.name.endswith("-there")
    assert other.json("save", "--force")["checkpoint"]["id"] == "side@4"
    assert project.json("save")["checkpoint"]["id"] == "e7baae82@3"
    assert project.json_lines("diff", "side", "e7baae82@2") == []
    assert project.git("fsck", "--strict", "--no-dangling") == ""


def test_worktree_without_an_agent(project: Project) -> None:
    """Where no agent says which session is meant, saves in the fork's working tree go to the fork
    all the same.
    """
    project.write("a", "1\n")
    project.commit()
    project.gitcp("save", check=0)
    made = project.json("fork", "--worktree", "../there", "--name", "plan-b")
    other = Project(project.root.parent / "there")
    other.write("a", "2\n")

    assert made["resume"] is None
    assert other.git("branch", "--show-current") == ""
    assert other.json("save")["checkpoint"]["id"] == "plan-b@3"
    assert project.json("status")["session"].startswith("manual-")


def test_hooks_and_filters_stay_asleep(project: Project) -> None:
    """Neither the user's hooks nor a filter runs when a working tree is made."""
    project.write("a", "1\n")
    project.write(".gitattributes", "a filter=trap\n")
    project.commit()
    project.gitcp("save", check=0)
    trap = project.root.parent / "ran"
    project.write(
        f"{project.git_dir}/hooks/post-checkout", f"#!/bin/sh\ntouch '{trap}'\n", mode=0o755
    )
    project.git("config", "filter.trap.smudge", f"touch '{trap}'")

    project.gitcp("fork", "--worktree", "../there", check=0)

    assert (project.root.parent / "there" / "a").read_bytes() == b"1\n"
    assert not trap.exists()


def test_branch_alone(project: Project, talk: Talk) -> None:
    """--branch without --worktree makes the branch where the checkpoint stood, and HEAD stays."""
    base = project.git("rev-parse", "HEAD")
    project.commit("later")

    said = project.gitcp("fork", "1", "--branch", "side", check=0).out

    assert "created branch side; HEAD is unchanged" in said
    assert project.git("rev-parse", "side") == base
    assert project.git("branch", "--show-current") == "main"


def test_refused(project: Project, talk: Talk) -> None:
    """What exists already is not taken over, and nothing is left behind."""
    point = numbered(project, "e7baae82@1")
    project.git("branch", "taken")
    there, full = project.root.parent / "there", project.root.parent / "full"
    full.mkdir()
    full.joinpath("file").touch()
    known = set(os.listdir(talk.path.parent))
    cases: list[tuple[dict[str, object], type[GitcpError], str]] = [
        ({"name": "e7baae82"}, Refused, "session e7baae82 already exists"),
        ({"name": "a/b"}, BadValue, "cannot be the name of a session"),
        ({"worktree": there, "branch": "taken"}, Refused, "branch taken already exists"),
        ({"worktree": there, "branch": "a..b"}, BadValue, "cannot be the name of a branch"),
        ({"worktree": full}, Refused, "is not an empty directory"),
    ]
    with project.guard():
        for fields, kind, what in cases:
            with pytest.raises(kind, match=what):
                fork(project, point, **fields)
        project.gitcp("fork", "9", check=16)
        project.gitcp("fork", "--worktree", "", check=2)

    assert not there.exists()
    assert set(os.listdir(talk.path.parent)) == known
    assert set(open_store(project).sessions()) == {"e7baae82"}


def test_no_commit_to_stand_on(project: Project) -> None:
    """Before the first commit, or when that is gone, there is no working tree to be had, and --to
    is what to type.
    """
    project.write("a", "1\n")
    point = save(project)
    with pytest.raises(Refused, match="before the first commit"):
        fork(project, point, worktree=project.root.parent / "there")

    assert str(fork(project, point).checkpoint.id) == "work-2@2"
    assert str(fork(project, point).checkpoint.id) == "work-3@2"

    gone = project.commit()
    point = save(project)
    project.git("update-ref", "-d", "HEAD")
    os.unlink(project.path(f"{project.git_dir}/objects/{gone[:2]}/{gone[2:]}"))
    with pytest.raises(Refused, match="is no longer in the repository"):
        fork(project, point, branch="side")


def test_damage_is_met_first(project: Project, talk: Talk) -> None:
    """A file that cannot be read any more ends the fork before a working tree is made."""
    point, there = numbered(project, "e7baae82@2"), project.root.parent / "there"
    oid = project.git("rev-parse", f"{point.commit}:new.py")
    os.unlink(project.path(f"{project.git_dir}/objects/{oid[:2]}/{oid[2:]}"))

    with pytest.raises(StoreDamaged, match=r"new\.py"):
        fork(project, point, worktree=there)

    assert not there.exists()
    assert set(open_store(project).sessions()) == {"e7baae82"}


def test_fork_of_a_fork(project: Project, talk: Talk) -> None:
    """Numbers go on; each session counts its own and says where it came from; git draws them as
    they are.
    """
    first = fork(project, numbered(project, "e7baae82@1"), name="b").checkpoint
    fork(project, first, name="c")
    project.gitcp("save", "--session", "c", "--force", "end of c", check=0)

    found = {s.name: (s.count, s.forked_from) for s in listing(open_store(project))[0]}
    drawn = project.gitcp("log", "--graph", "--all", check=0).out.splitlines()

    assert found == {"e7baae82": (2, None), "b": (1, "e7baae82@1"), "c": (2, "b@2")}
    assert sorted(line.lstrip("*|/\\ ") for line in drawn if "@" in line) == [
        "b@2 forked from e7baae82@1",
        "c@3 forked from b@2",
        "c@4 end of c",
        "e7baae82@1 first",
        "e7baae82@2 second",
    ]
    assert all(line.lstrip("|/\\ ")[:2] in ("* ", "") for line in drawn)
    assert last(project, "c").parent is not None
    assert problems(project) == []


def test_graph_names_working_trees(project: Project, talk: Talk) -> None:
    """Beside the last checkpoint of a session stands the other working tree that it is used in."""
    project.gitcp("fork", "1", "--worktree", "../other tree", "--name", "other", check=0)
    here = project.gitcp("log", "--graph", "--all", check=0).out
    there = project.gitcp("-C", "../other tree", "log", "--graph", "--all", check=0).out

    assert "other@2 (worktree: ../other tree) " in here
    assert here.count("worktree:") == 1
    assert "(worktree: ../project) " in there
    assert "other@2 (" not in there


def test_graph_goes_with_little(project: Project, talk: Talk) -> None:
    """The graph takes a count and a revision; what would tear holes in it is refused."""
    assert project.gitcp("log", "--graph", "-n", "1", check=0).out == "* e7baae82@2 second\n"
    for options in (("--since", "yesterday"), ("--grep", "x"), ("-p",), ("--json",), ("1..2",)):
        assert (
            "--graph can only be combined with"
            in project.gitcp("log", "--graph", *options, check=2).err
        )


def test_restore_of_a_fork(project: Project, talk: Talk) -> None:
    """Going to the fork saves what is here in the old session, and goes on in the fork, under the
    copy's id.
    """
    made = project.json("fork", "1")
    report = project.json("restore", made["checkpoint"], "--yes")

    assert project.read("app.py") == b"print(1)\n"
    assert report["safety"] == "e7baae82@3"
    assert report["checkpoint"] == f"{made['session']}@3"
    assert report["resume"]["session_id"] == made["resume"]["session_id"]


def test_merge_is_no_command(project: Project) -> None:
    """What one might look for is not there, and what to do instead is."""
    said = project.gitcp("merge", "a", "b", check=2).err

    assert "sessions are never merged" in said
    assert "gitcp restore REV PATH copies files" in said
