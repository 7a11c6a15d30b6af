"""`gitcp review`: which commits came from which checkpoints, what is told of them, and that nothing
in it is alive.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hooked import Hooks, hooks
from markdown_it import MarkdownIt
from markdown_it.token import Token
from talk import Talk
from tokens import tokens

from gitcp.history.activity import Activity, CommandRun
from gitcp.history.diffstat import FileStat
from gitcp.review import review as op
from gitcp.review.interdiff import CommitStatus, FileDelta, Since
from gitcp.review.pages import comment
from gitcp.review.pages import review as page
from gitcp.review.patches import FilePatch, Hunk, Run
from gitcp.review.review import ReviewedCommit, ReviewStep, Story
from gitcp.review.sources import SourcedDiff, SourcedFile
from gitcp.secrets.scan import fingerprint
from gitcp.value import replace

from driver import Project

TOKEN = tokens()["github-token"]
LINES = 40


def text(**changed: str) -> str:
    """A file of forty lines; `l3="x"` says another third one."""
    return "".join(changed.get(f"l{n}", f"line {n}") + "\n" for n in range(LINES))


class Work(Talk):
    """An agent at work on a branch: each step is a prompt, changed files, a checkpoint."""

    def __init__(self, project: Project) -> None:
        super().__init__(project)
        self.project = project

    def step(self, label: str, *options: str, **files: str) -> None:
        """Change files (`a_py` is a.py) and save."""
        self.say(f"Please do {label}.", f"I did {label}.")
        for name, content in files.items():
            self.project.write(name.replace("_", "."), content)
        self.project.gitcp("save", label, *options, check=0)


@pytest.fixture
def work(project: Project) -> Work:
    """A project with a commit on main, and a branch `topic` that is about to be worked on."""
    project.write("a.py", text())
    project.write("b.py", text())
    project.commit("begin")
    project.git("checkout", "--quiet", "-b", "topic")
    return Work(project)


def linked(project: Project, *args: str) -> dict[str, tuple[str | None, list[str]]]:
    """Each commit's link and checkpoints (their numbers), by subject."""
    told = project.json("review", *args)["commits"]
    return {
        t["subject"]: (t["how"], [id.rpartition("@")[2] for id in t["checkpoints"]]) for t in told
    }


# ---------------------------------------------------------------- links


def test_commits(work: Work) -> None:
    """A commit is linked to the checkpoints in which its content came about, and to no other; some
    to none.
    """
    project = work.project
    work.step("one", a_py=text(l3="one"))
    project.commit("first")
    work.step("two", a_py=text(l3="one", l9="two"))
    work.step("three", b_py=text(l3="three"))
    project.commit("second")
    project.write("by-hand", "nobody saw it\n")
    project.commit("third")

    with project.guard():
        found = linked(project)

    assert found == {"first": ("tree", ["1"]), "second": ("tree", ["2", "3"]), "third": (None, [])}


def test_restored_by_another_session(work: Work) -> None:
    """A session that only restored another one's files did not write them, though it is older."""
    project = work.project
    project.write("elsewhere", "beta's\n")
    project.gitcp("save", "--session", "beta", check=0)
    work.step("one", a_py=text(l3="one"))
    project.write("a.py", text())
    beta = {"GITCP_SESSION": "beta"}
    project.gitcp("save", env=beta, check=0)
    project.gitcp("restore", "e7baae82@1", "--yes", "--", "a.py", env=beta, check=0)
    project.git("add", "a.py")
    project.git("commit", "--quiet", "-m", "first")

    (told,) = project.json("review")["commits"]
    assert told["checkpoints"] == ["e7baae82@1"]


def test_rebased_and_squashed(work: Work) -> None:
    """Three rebased commits and a squashed one, on files that changed below them too, are all
    linked.
    """
    project = work.project
    work.step("one", a_py=text(l5="one"))
    project.commit("first")
    work.step("two", a_py=text(l5="one", l12="two"))
    project.commit("second")
    work.step("three", b_py=text(l5="three"))
    project.commit("third")
    work.step("four", b_py=text(l5="three", l14="four"), c_py="new\n")
    project.commit("fourth")
    work.step("five", b_py=text(l5="three", l14="four", l22="five"), c_py="new\nnewer\n")
    project.commit("fifth")
    project.git("reset", "--quiet", "--soft", "HEAD~2")
    project.git("commit", "--quiet", "-m", "squashed")
    project.git("checkout", "--quiet", "main")
    project.write("a.py", "above\n" + text(l30="below"))
    project.write("b.py", "above\n" + text(l30="below"))
    project.commit("upstream")
    project.git("checkout", "--quiet", "topic")
    project.git("rebase", "--quiet", "main")
    # Nothing but the branch and the checkpoints is left: what was rebased is gone.
    project.git("reflog", "expire", "--expire=now", "--all")
    project.git("gc", "--quiet", "--prune=now")

    assert linked(project, "main..topic") == {
        "first": ("patch", ["1"]),
        "second": ("patch", ["2"]),
        "third": ("patch", ["3"]),
        "squashed": ("patch", ["4", "5"]),
    }


def test_amended(work: Work) -> None:
    """A commit whose message was amended has the same content; one with more in it came from it in
    part.
    """
    project = work.project
    work.step("one", a_py=text(l3="one", l4="and more", l5="and still more"))
    project.commit("first")
    project.git("commit", "--quiet", "--amend", "-m", "first, said better")
    assert linked(project) == {"first, said better": ("tree", ["1"])}

    project.write("a.py", text(l3="one", l4="and more", l5="changed by hand"))
    project.git("commit", "--quiet", "--all", "--amend", "-m", "mended")
    assert linked(project) == {"mended": ("part", ["1"])}


def test_deleted_and_binary(work: Work) -> None:
    """A path that goes is a change too, and so is what is no text."""
    project = work.project
    project.remove("b.py")
    project.write("logo", b"\0\1")
    work.step("one")
    project.commit("first")
    project.git("checkout", "--quiet", "main")
    project.write("c.py", "upstream\n")
    project.commit("upstream")
    project.git("checkout", "--quiet", "topic")
    project.git("rebase", "--quiet", "main")

    assert linked(project, "main..") == {"first": ("tree", ["1"])}


def test_trailer(work: Work) -> None:
    """A trailer that names a checkpoint is believed before all else; one that names none is passed
    over.
    """
    work.step("one", a_py=text(l3="one"))
    work.project.write("elsewhere", "not seen\n")
    work.project.git("add", "elsewhere")
    work.project.git("commit", "--quiet", "-m", "first\n\nGitcp-Checkpoint: e7baae82@1")
    work.project.git(
        "commit", "--quiet", "--allow-empty", "-m", "second\n\nGitcp-Checkpoint: e7baae82@77"
    )

    assert linked(work.project) == {"first": ("trailer", ["1"]), "second": (None, [])}


def test_fetched(work: Work, tmp_path: Path) -> None:
    """A reviewer who has the branch and the fetched session, and nothing of the author's, sees the
    same story.
    """
    project = work.project
    subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / "hub.git"], check=True)
    work.step("one", a_py=text(l3="one"))
    project.commit("first")
    project.git("commit", "--quiet", "--amend", "-m", "first again")
    project.git("remote", "add", "origin", str(tmp_path / "hub.git"))
    project.git("push", "--quiet", "origin", "main", "topic")
    project.gitcp("remote", "origin", check=0)
    project.gitcp("push", check=0)
    told = project.json("review", "main..topic")
    reviewer = Project(tmp_path / "reviewer")
    reviewer.git(
        "fetch",
        "--quiet",
        str(tmp_path / "hub.git"),
        "topic:topic",
        "main:main",
        "--update-head-ok",
    )
    reviewer.git("checkout", "--quiet", "--force", "topic")
    reviewer.gitcp("remote", "hub", str(tmp_path / "hub.git"), check=0)
    reviewer.gitcp("fetch", check=0)

    seen = reviewer.json("review", "main..topic")

    assert seen["steps"] == told["steps"]
    assert linked(reviewer, "main..topic") == {"first again": ("tree", ["1"])}
    assert len(reviewer.json("review", "--session", "hub/e7baae82")["steps"]) == 1


def test_fresh_clone(work: Work, tmp_path: Path) -> None:
    """In a clone of a pushed branch, where `main` is only the remote's and the upstream has all of
    the branch, the commits of the branch are found; and the page says what they are compared with.
    """
    project = work.project
    hub = tmp_path / "hub.git"
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", hub], check=True)
    work.step("one", a_py=text(l3="one"))
    project.commit("first")
    project.git("remote", "add", "origin", str(hub))
    project.git("push", "--quiet", "--set-upstream", "origin", "main", "topic")
    subprocess.run(
        ["git", "clone", "--quiet", "--branch=topic", hub, tmp_path / "reviewer"], check=True
    )
    reviewer = Project(tmp_path / "reviewer")

    for place, args, onto in (
        (reviewer, (), "origin/main"),
        (reviewer, ("main..HEAD",), "main"),
        (reviewer, ("main",), "main"),
        (project, (), "origin/main"),
    ):
        assert list(linked(place, *args)) == ["first"]
        assert f"\n## How `topic` was made, since `{onto}`\n" in place.gitcp("review", *args).out
    reviewer.git("update-ref", "refs/remotes/fork/main", "HEAD")
    assert "check out the full history" in reviewer.gitcp("review", "main..HEAD", check=2).err


# ---------------------------------------------------------------- what is told


def test_told(work: Work) -> None:
    """Label, trigger, prompts, decisions, failures, tools, tests and how they ended, files,
    commits: once each.
    """
    project = work.project
    work.say("Begin with the tests.")
    work.run("pytest -q", "Exit code 1\n== FAILURES ==\n1 failed in 0.1s")
    work.run("make build", None, "later")
    work.step("one", "--decided", "use a", "--failed", "b is slow", a_py=text(l3="one"))
    work.run("", "Exit code 2", "later")
    work.run("python -m pytest", "3 passed in 0.2s")
    work.step("two", "--decided", "and c", "--phase", "polish", a_py=text(l3="one", l9="two"))
    project.commit("first")

    one, two = project.json("review")["steps"]

    assert (one["id"], one["label"], one["trigger"], one["phase"]) == (
        "e7baae82@1",
        "one",
        "manual",
        None,
    )
    assert one["prompts"] == ["Begin with the tests.", "Please do one."]
    assert one["tools"] == [{"name": "Bash", "calls": 2}]
    assert one["commands"] == [
        {"command": "pytest -q", "test": True, "failed": True, "said": "1 failed in 0.1s"},
        {"command": "make build", "test": False, "failed": True, "said": None},
    ]
    assert (one["decided"], one["failed"]) == (["use a"], ["b is slow"])
    # without hooks nobody knows what the file was before the agent's command
    by = "by e7baae82, perhaps someone else"
    assert one["files"] == [
        {"path": "a.py", "kind": "modified", "added": 1, "removed": 1, "by": by}
    ]
    assert two["prompts"] == ["Please do two."]
    assert [(ran["command"], ran["failed"]) for ran in two["commands"]] == [
        ("python -m pytest", False)
    ]
    assert (two["decided"], two["failed"], two["phase"]) == (["and c"], [], "polish")
    assert one["commits"] == two["commits"] == [project.git("rev-parse", "HEAD")]


def cells(project: Project, *args: str) -> list[str]:
    """The column of tests in the comment, a cell for each commit."""
    project.gitcp("review", *args, "-o", "../cells.md", "--force", check=0)
    table = (project.root.parent / "cells.md").read_text("utf-8").splitlines()
    rows = [line for line in table if re.match(r"\| [0-9a-f]{10} \|", line)]
    return [row.split(" | ")[-1].strip(" |") for row in rows]


def test_tests_of_a_commit(work: Work) -> None:
    """With hooks, the checkpoint with a commit's content is the one before the tests ran: their
    result is the commit's until something else is edited, and that of earlier content is not.
    """
    project = work.project

    def edit(call: Hooks, path: str, content: str) -> None:
        given = {"file_path": str(project.root / path), "content": content}
        used: dict[str, object] = {"type": "tool_use", "id": content, "name": "Write"}
        work.append("assistant", [{**used, "input": given}])
        project.write(path, content)
        call(work.session, "PostToolUse", tool_name="Write", tool_input=given, tool_use_id=content)

    def run(call: Hooks, command: str, output: str) -> None:
        work.run(command, output)
        given = {"command": command}
        call(work.session, "PostToolUse", tool_name="Bash", tool_input=given)

    with hooks(project) as call:
        work.say("Please do it.")
        edit(call, "a.py", text(l3="one"))
        run(call, "pytest -q", "Exit code 1\n1 failed in 0.1s")
        edit(call, "a.py", text(l3="two"))
        project.write("__pycache__/a.pyc", "x")
        run(call, "pytest -q 2>&1 | tail -1", "3 passed in 0.1s")
        project.git("add", "a.py")
        project.git("commit", "--quiet", "-m", "first")
        run(call, "git commit -m first", "")
        edit(call, "b.py", text(l3="three"))
        run(call, "pytest -q 2>&1 | tail -1", "1 error in 0.1s")
        project.git("commit", "--quiet", "-a", "-m", "second")
        edit(call, "b.py", text(l3="four"))
        run(call, "pytest -q 2>&1 | tail -1", "")
        project.git("commit", "--quiet", "-a", "-m", "third")
        edit(call, "b.py", text(l3="five"))
        project.git("commit", "--quiet", "-a", "-m", "fourth")
        call(work.session, "Stop")

    assert cells(project) == ["passed", "failed", "result unknown", ""]


def test_tests_after_the_last_checkpoint_of_a_change(work: Work) -> None:
    """A run after the last checkpoint with changes counts, though that is not in the story."""
    project = work.project
    work.step("one", a_py=text(l3="one"))
    work.run("pytest", "3 passed in 0.1s")
    work.step("after the tests")
    work.run("pytest", "1 failed in 0.1s")
    work.step("other content", a_py=text(l3="two"))
    project.write("a.py", text(l3="one"))
    project.commit("first")

    assert cells(project) == ["passed"]


def test_commands_at_once(work: Work) -> None:
    """A command ended as the result with its id says, whichever came first; two that say the same
    are two.
    """
    project = work.project
    for call, command in (
        ("A", "pytest -q"),
        ("B", "python -m pytest"),
        ("C", "make"),
        ("D", "make"),
    ):
        work.run(command, None, call)
    work.run("", "Exit code 1\n1 failed in 0.1s", "B")
    work.step("one", a_py=text(l3="one"))
    work.run("", "3 passed in 0.2s", "A")
    work.run("", "Exit code 0", "B")
    work.run("", "Exit code 0", "of no call")
    same = [{"type": "tool_result", "tool_use_id": call, "content": "Exit code 2"} for call in "CD"]
    with work.path.open("a", encoding="utf-8") as file:
        file.write(
            json.dumps(
                {"type": "user", "uuid": "both", "message": {"role": "user", "content": same}}
            )
            + "\n"
        )
    work.step("two", a_py=text(l3="one", l9="two"))
    project.commit("first")

    one, two = project.json("review")["steps"]

    assert [(ran["command"], ran["failed"]) for ran in one["commands"]] == [
        ("pytest -q", False),
        ("python -m pytest", True),
        ("make", True),
        ("make", True),
    ]
    assert two["commands"] == []


def test_attempts_between(work: Work) -> None:
    """What was tried between two commits is told though nothing of it was committed; what came
    after is not.
    """
    project = work.project
    work.step("plan")
    work.step("one", a_py=text(l3="one"))
    project.commit("first")
    work.step("astray", b_py=text(l3="wrong"))
    work.step("back", b_py=text())
    work.step("right", b_py=text(l7="right"))
    project.commit("second")
    project.git("checkout", "--quiet", "main")
    work.step("something else", a_py=text(l20="else"))

    found = project.json("review", "main..topic")

    assert [step["label"] for step in found["steps"]] == ["plan", "one", "astray", "back", "right"]
    assert [len(step["commits"]) for step in found["steps"]] == [0, 1, 0, 0, 1]


def test_since(work: Work) -> None:
    """Since the last review: what is new, changed, gone; and nothing of what a rebase brought
    in.
    """
    project = work.project
    work.step("one", a_py=text(l3="one"))
    project.commit("first")
    work.step("two", b_py=text(l3="two"))
    reviewed = project.commit("second")
    project.git("checkout", "--quiet", "main")
    project.write("a.py", text(l30="upstream"))
    project.commit("upstream")
    project.git("checkout", "--quiet", "topic")
    project.git("rebase", "--quiet", "main")
    since = project.json("review", "main..", "--since", reviewed)["since"]
    assert [each["state"] for each in since["commits"]] == ["same", "same"]
    assert (since["known"], since["files"]) == (True, [])

    work.step("better", b_py=text(l3="two, but better"))
    project.git("commit", "--quiet", "--all", "--amend", "--no-edit")
    work.step("three", c_py="three\n")
    project.commit("third")
    since = project.json("review", "main..", "--since", reviewed)["since"]
    assert {each["subject"]: each["state"] for each in since["commits"]} == {
        "first": "same",
        "second": "changed",
        "third": "new",
    }
    assert since["files"] == [
        {"path": "b.py", "more": 1, "less": 1},
        {"path": "c.py", "more": 1, "less": 0},
    ]
    said = project.gitcp("review", "main..", "--since", reviewed, check=0).out
    assert "- unchanged except for a rebase: 1 commit\n" in said


def test_without_commits(work: Work) -> None:
    """Where the branch has no commit of its own, the session is told; where there is no checkpoint,
    that is said.
    """
    assert work.project.json("review")["steps"] == []
    assert (
        "No checkpoints are related to these commits." in work.project.gitcp("review", check=0).out
    )
    work.step("one", a_py=text(l3="one"))

    found = work.project.json("review")

    assert ([step["label"] for step in found["steps"]], found["commits"]) == (["one"], [])


def test_files(work: Work, tmp_path: Path) -> None:
    """The same story is the same bytes, in each form; what is no form is refused, and nothing is
    written.
    """
    project = work.project
    work.step("one", a_py=text(l3="one"))
    project.commit("first")
    for name in ("1", "2"):
        project.gitcp(
            "review",
            "-o",
            f"../{name}.md",
            "-o",
            f"../{name}.html",
            "-o",
            f"../{name}.json",
            check=0,
        )

    for kind in ("md", "html", "json"):
        assert (tmp_path / f"1.{kind}").read_bytes() == (tmp_path / f"2.{kind}").read_bytes()
    assert json.loads((tmp_path / "1.json").read_text()) == project.json("review")
    assert "must end in one of" in project.gitcp("review", "-o", "../x.pdf", check=2).err
    assert "is not a directory" in project.gitcp("review", "-o", "no/where.md", check=2).err
    assert "exists already" in project.gitcp("review", "-o", "../1.md", check=12).err
    assert not (tmp_path / "x.pdf").exists()


def test_refused(work: Work) -> None:
    """What names no commit or session."""
    assert "there is no commit nowhere" in work.project.gitcp("review", "nowhere..", check=2).err
    assert "nowhere is no commit" in work.project.gitcp("review", "main..nowhere", check=2).err
    assert "names no commit" in work.project.gitcp("review", "--since", "--output=x", check=2).err
    work.project.gitcp("review", "--session", "nobody", check=16)
    empty = Project(work.project.root.parent / "empty")
    assert "nothing to review" in empty.gitcp("review", check=2).err


def test_secrets(work: Work) -> None:
    """A secret in a prompt stops everything; it can be left out, or let pass."""
    project = work.project
    work.say(f"The token is {TOKEN}, use it.", "Yes.")
    work.step("one", a_py=text(l3="one"))
    project.commit("first")

    stopped = project.gitcp("review", "-o", "../r.html", check=15)

    assert TOKEN not in stopped.out + stopped.err
    assert not project.root.parent.joinpath("r.html").exists()
    redacted = project.gitcp("review", "--redact", check=0).out
    assert TOKEN not in redacted
    assert "[REDACTED:github-token]" in redacted
    assert (
        TOKEN
        in project.gitcp(
            "review", "--allow", fingerprint("github-token", TOKEN.encode()), check=0
        ).out
    )


def test_lost_objects(work: Work) -> None:
    """A base that is gone, a blob that cannot be read: less is known, and what is there is told."""
    project = work.project
    work.step("one", a_py=text(l3="one"))
    project.commit("first")
    oid = project.git("rev-parse", "main:a.py")
    project.remove(project.git_dir / f"objects/{oid[:2]}/{oid[2:]}")

    assert linked(project, "main..") == {"first": ("tree", ["1"])}
    project.gitcp("review", "main..", "-o", "../r.html", check=0)
    page = (project.root.parent / "r.html").read_text("utf-8")
    assert "Please do one." in page
    assert 'class="hunk"' not in page


# ---------------------------------------------------------------- large


def many(count: int, words: str = "words") -> Story:
    """A story of so many checkpoints."""
    ran = (
        CommandRun("pytest " + words, is_test=True, failed=True, said=words),
        CommandRun(words, failed=True),
    )
    steps = tuple(
        ReviewStep(
            id=f"alpha@{n + 1}",
            created="2026-11-02T09:00:00Z",
            title=words,
            label=words,
            trigger="manual",
            phase=words,
            agent=words,
            activity=Activity((words, words), ((words, 2),), ran),
            decided=(words,),
            failed=(words,),
            run=(words, 1),
            files=(FileStat(words.encode(), "added", 1, 0),),
            commits=("a" * 40,),
            restored_from="alpha@1",
        )
        for n in range(count)
    )
    since = Since(
        "b" * 40,
        True,
        (CommitStatus("a" * 40, words, "new"),),
        (FileDelta(words.encode(), 1, 2),),
        ("alpha@1",),
    )
    runs = (Run(" ", words), Run("+", words), Run("-", words))
    patch = FilePatch(words, "moved", words, (words,), (Hunk(1, 1, words, runs),))
    shown = SourcedDiff((SourcedFile(patch, (("alpha@1",),)),), (words.encode(),))
    return Story(
        "c" * 40,
        "d" * 40,
        words,
        (ReviewedCommit("a" * 40, words, "tree", ("alpha@1",), shown),),
        steps,
        since,
        words,
    )


@pytest.mark.parametrize("count", [1, 20, 200])
@pytest.mark.parametrize(
    "words", ["words", "é" * 5000, "\U0001f600" * 5000, "`" * 3000, "x\n" * 3000]
)
def test_fits(count: int, words: str) -> None:
    """A comment is never larger than it may be; it is cut between checkpoints, and says how many
    are missing.
    """
    story = many(count, words)
    made = comment.render(story)

    shown = made.count("<details>") - (count > 0)
    assert len(made.encode()) <= comment.MOST_BYTES
    assert made.count("<details>") == made.count("</details>")
    assert shown >= min(count, 5)
    assert (f"{count - shown} of {count} checkpoints do not fit" in made) == (shown < count)
    assert comment.marked(made) == ("d" * 40, f"alpha@{count}")


def test_marks() -> None:
    """Only a comment that begins with our mark is one of ours."""
    assert comment.marked("hello <!-- gitcp:review v1 head= checkpoint= -->") is None
    assert comment.marked("<!-- gitcp:review v1 head=x checkpoint=y -->") is None
    assert comment.marked(comment.render(replace(many(0), head=None))) == (None, "")


def test_little_before_the_fold() -> None:
    """What is seen of a comment without unfolding is at most 25 lines, whatever the size."""
    story = many(40)
    commits = tuple(replace(story.commits[0], commit=f"{n:040x}") for n in range(40))
    for told in (story, replace(story, commits=commits)):
        before = comment.render(told).partition("<details>")[0].strip().splitlines()
        assert len(before) <= 25
        assert "Objective: `words`" in before
        assert "Request: `words`" in before
    assert "and 30 more commits" in before


def test_terminal() -> None:
    """On a terminal there is no HTML, and everything that a comment has."""
    made = comment.terminal(many(3))
    assert not re.search(r"<[a-z/!]", made)
    for each in (
        "Objective: `words`",
        "#### `alpha@3` `words`, `words` +1 −0",
        "- failed: `pytest words`",
    ):
        assert each in made


# ---------------------------------------------------------------- nothing in it is alive

PAYLOADS = (
    "<script>evil()</script>",
    "</pre></code></details><script>evil()</script>",
    "<img src=x onerror=evil()>",
    "![x](https://evil.example/x.png)",
    "[x](javascript:evil())",
    "<https://evil.example>",
    "https://evil.example/?q=1",
    "@everyone and @org/team",
    "#1 and org/repo#2 and GH-3 and !4",
    "```\n# head\n```\n@everyone",
    "~~~\n<b>bold</b>",
    "`` ` `` `@everyone`",
    "</summary><b>x</b>",
    "--> <script>evil()</script> <!--",
    "| a | b |\n|---|---|",
    "[ref]: https://evil.example\n[ref]",
    "<style>*{display:none}</style>",
    "{{ 7*7 }} {% raw %}",
    "\x1b[2J\x1b]0;evil\x07",
    "\u202eevil\u202c \u200bx",
    "&lt;script&gt; &#64;everyone",
    "\r\n\r\n<b>x</b>",
    "<a href=//evil.example>x</a>",
    "$$\\href{javascript:evil()}{x}$$",
)
OURS = re.compile(
    r"<!-- gitcp:review v1 head=[0-9a-f]* checkpoint=\S* -->\n?|</details>\n?"
    r"|<details><summary>[\d,]+ checkpoints?</summary>\n?"
    r"|<details><summary><code>[^<>]*</code> <code>[^<>]*</code>"
    r"(?:, <code>[^<>]*</code>)?[\w ,+−]*</summary>\n?"
)


def walk(found: list[Token]) -> list[Token]:
    """Every token, those inside of others too."""
    return [each for token in found for each in (token, *walk(token.children or []))]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_nothing_lives_in_the_comment(payload: str) -> None:
    """What somebody wrote is code, whatever it is: no HTML but ours, no link, no image, nothing in
    plain text.
    """
    made = comment.render(many(2, payload))

    found = walk(MarkdownIt("commonmark", {"html": True}).enable("table").parse(made))
    kinds = {token.type for token in found}
    assert not kinds & {"link_open", "image", "html_inline", "blockquote_open"}
    cells = [token.type for token in found if token.type in ("table_open", "tr_open", "td_open")]
    assert Counter(cells) == {"table_open": 1, "tr_open": 2, "td_open": 4}
    assert all(OURS.fullmatch(token.content) for token in found if token.type == "html_block")
    plain = "\n".join(token.content for token in found if token.type == "text")
    assert not re.search(r"[<>@#|!`\[\]\x1b\u202e\u200b]|evil|everyone", plain), plain
    assert "\x1b" not in made
    assert "\u202e" not in made


class Seen(HTMLParser):
    """The tags of a page, and their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def tags(made: str) -> list[tuple[str, dict[str, str | None]]]:
    """The tags of a page."""
    seen = Seen()
    seen.feed(made)
    return seen.tags


@pytest.mark.parametrize("payload", PAYLOADS)
def test_nothing_lives_in_the_page(payload: str) -> None:
    """The page has the tags that it has without what somebody wrote, and asks for nothing."""
    made = page.render(many(2, payload))

    found, plain = tags(made), tags(page.render(many(2)))
    assert found == plain
    assert not {tag for tag, _ in found} & {
        "script",
        "img",
        "iframe",
        "link",
        "object",
        "form",
        "base",
    }
    assert all((attrs.get("href") or "#").startswith("#") for _, attrs in found)
    assert not any(name.startswith("on") or name == "src" for _, attrs in found for name in attrs)
    assert "\x1b" not in made
    assert "\u202e" not in made


def test_policy() -> None:
    """The page's own policy lets nothing be loaded, and its style is the one that is allowed."""
    made = page.render(many(1))
    policy = next(attrs["content"] for tag, attrs in tags(made) if attrs.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert made.count("<style>") == 1


def test_hostile_conversation(work: Work, tmp_path: Path) -> None:
    """The same from a real conversation: a prompt, a command, a label, a path, a branch, a commit's
    subject.
    """
    project, evil = work.project, "<script>evil()</script> @everyone \x1b[31m"
    work.say(evil, evil)
    work.run(f"pytest {evil}", f"Exit code 1\n{evil}")
    project.write(b"<img src=x>\n\xff@x", "x\n")
    work.step(evil.replace("\x1b", ""), "--decided", evil, a_py=text(l3="one"))
    project.commit(evil)
    project.git("checkout", "--quiet", "-b", "@<b>x")

    project.gitcp("review", "main..", "-o", "../r.html", "-o", "../r.md", check=0)

    made = (tmp_path / "r.html").read_text()
    assert "script" not in {tag for tag, _ in tags(made)}
    assert "&lt;script&gt;evil()" in made
    found = walk(MarkdownIt("commonmark", {"html": True}).parse((tmp_path / "r.md").read_text()))
    assert all(OURS.fullmatch(token.content) for token in found if token.type == "html_block")
    assert not any("everyone" in token.content for token in found if token.type == "text")


def test_every_text_is_scanned() -> None:
    """Whatever a story says is among its texts, and is rewritten with it: no field is forgotten."""
    story = many(2, "secret-word")

    def change(data: bytes) -> bytes:
        return data.replace(b"secret-word", b"gone")

    changed = op.rewritten(story, change)
    assert sum("secret-word" in each for each in op.texts(story)) >= 25
    assert "secret-word" not in repr(changed)
    assert changed == op.rewritten(many(2, "gone"), bytes)


def told(project: Project) -> Any:
    """The story as programs get it."""
    return project.json("review", "main..")


def test_shallow(work: Work, tmp_path: Path) -> None:
    """A clone without the history says that it needs it, or tells what it can."""
    work.step("one", a_py=text(l3="one"))
    work.project.commit("first")
    source = f"file://{work.project.root}"
    subprocess.run(
        ["git", "clone", "--quiet", "--depth=1", "--branch=topic", source, tmp_path / "shallow"],
        check=True,
    )
    shallow = Project(tmp_path / "shallow")

    assert "check out the full history" in shallow.gitcp("review", "main..", check=2).err
    shutil.rmtree(tmp_path / "shallow")
    assert len(told(work.project)["steps"]) == 1
