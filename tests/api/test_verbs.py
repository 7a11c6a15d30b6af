"""The verbs of the command line as methods: the same operation, with values in and out."""

from __future__ import annotations

import inspect
import pydoc
from datetime import timedelta
from pathlib import Path

import pytest

import gitcp
from gitcp.errors import BadValue, RevisionNotFound
from gitcp.sharing import remotes

from driver import Project

TALK = [{"role": "user", "content": "Add it."}, {"role": "assistant", "content": "Done."}]
AGENT_TALK = (
    b'{"type":"user","uuid":"u-1","message":{"role":"user","content":"first prompt"}}\n'
    b'{"type":"assistant","uuid":"a-1","message":{"role":"assistant","content":[{"type":"text",'
    b'"text":"one"},{"type":"tool_use","id":"t","name":"Bash","input":{}}]}}\n'
)
LATER = b'{"type":"user","uuid":"u-2","message":{"role":"user","content":"second prompt"}}\n'


@pytest.fixture
def checkpoints(project: Project) -> gitcp.Checkpoints:
    """A project of two phases."""
    project.write("a.txt", "alpha\n")
    project.write("sub/b.txt", "beta\n")
    project.commit()
    checkpoints = gitcp.open(project.root)
    checkpoints.save("one", session="s", conversation=TALK, phase="plan", facts={"db": "sqlite"})
    project.write("a.txt", "alpha\ngamma\n")
    project.write("sub/b.txt", "delta\n")
    checkpoints.save("two", session="s", phase="build")
    return checkpoints


def test_find_and_why(checkpoints: gitcp.Checkpoints) -> None:
    """What is found is where it was added; a line and a path have their checkpoints."""
    (hit,) = checkpoints.find("gam+a", regex=True, where="files")
    assert (str(hit.summary.id), hit.where, hit.line) == ("s@2", b"a.txt", 2)
    assert checkpoints.find("SQLITE", ignore_case=True, where=["notes"])[0].kind == "note"
    assert checkpoints.find("nowhere", session="s") == ()
    for text, where in (("", ()), ("(", "files"), ("x", "letters")):
        with pytest.raises(BadValue):
            checkpoints.find(text, regex=True, where=where)

    line = checkpoints.why("a.txt", 2)
    assert line.made is not None
    assert (str(line.made.id), line.text, line.to_json()["line"]) == ("s@2", "gamma", 2)
    assert [str(each.id) for each in checkpoints.why(Path("sub/b.txt")).changed] == ["s@2", "s@1"]


def test_diff_of_paths(checkpoints: gitcp.Checkpoints) -> None:
    """`paths` limits what is compared, between checkpoints and with the files."""
    assert [each.path for each in checkpoints.diff("s@1", "s@2", paths="sub")] == [b"sub/b.txt"]
    assert [each.path for each in checkpoints.diff("s@1", paths=["a.txt"])] == [b"a.txt"]
    assert len(checkpoints.diff("s@1")) == 2


def test_messages(checkpoints: gitcp.Checkpoints) -> None:
    """Facts first, then what a program saved as it was; of an agent's transcript what was said."""
    first, *talk = checkpoints.messages("s@2")
    assert first["role"] == "user"
    assert first["content"].splitlines()[:3] == ["Facts:", "- db = sqlite", "Phase: build"]
    assert talk == checkpoints.messages("s@2", facts=False) == TALK

    checkpoints.save("c", session="c", conversation=AGENT_TALK, format="claude-code")
    assert checkpoints.messages("c") == [
        {"role": "user", "content": "first prompt"},
        {"role": "assistant", "content": "one"},
    ]


def test_note(checkpoints: gitcp.Checkpoints) -> None:
    """A note waits for the next checkpoint of the session, adds up, and can be discarded."""
    handoff = gitcp.Handoff(decisions=("one table",))
    checkpoints.note(session="s", facts={"port": 1}, handoff=handoff)
    waiting = checkpoints.note(session="s", objective="ship")

    assert waiting == checkpoints.note(session="s")
    assert (waiting.note.facts, waiting.note.objective) == ({"port": "1"}, "ship")
    assert waiting.to_json()["handoff"]["decisions"] == ["one table"]
    saved = checkpoints.save("three", session="s").checkpoint.note
    assert (saved.facts["port"], saved.handoff.decisions) == ("1", ("one table",))
    checkpoints.note(session="s", phase="x")
    assert checkpoints.note(session="s", clear=True).note == gitcp.Note()


def test_restore_by_other_names(checkpoints: gitcp.Checkpoints, project: Project) -> None:
    """By phase, by time, and into a directory, which is no change of this one."""
    first = checkpoints.show("s@1")
    assert checkpoints.plan(phase="plan").target.id == first.id
    with pytest.raises(RevisionNotFound):
        checkpoints.plan(at=first.created - timedelta(days=1))
    assert str(checkpoints.plan(at="now", phase="build").target.id) == "s@2"
    with pytest.raises(BadValue, match="exclude one another"):
        checkpoints.restore("s@1", phase="plan")

    report = checkpoints.restore("s@1", to=project.root.parent / "copy")
    assert project.root.parent.joinpath("copy/a.txt").read_text() == "alpha\n"
    assert (report.safety, report.checkpoint) == (None, None)
    assert project.read("a.txt") == b"alpha\ngamma\n"
    with pytest.raises(BadValue, match="to= is a new directory"):
        checkpoints.restore("s@1", to="x", mine=True)
    checkpoints.restore(phase="plan")
    assert project.read("a.txt") == b"alpha\n"


def test_restore_before_a_message(project: Project) -> None:
    """Files and conversation of the moment before a message."""
    checkpoints = gitcp.open(project.root)
    project.write("a.txt", "1\n")
    checkpoints.save("1", session="c", conversation=AGENT_TALK, format="claude-code")
    project.write("a.txt", "2\n")
    checkpoints.save("2", session="c", conversation=AGENT_TALK + LATER, format="claude-code")

    plan = checkpoints.plan(session="c", message="u-2")
    report = checkpoints.restore(session="c", message="u-2", agreed=plan)

    assert str(report.target.id) == "c@1"
    assert project.read("a.txt") == b"1\n"
    assert checkpoints.conversation("c") == AGENT_TALK


def test_rollback(checkpoints: gitcp.Checkpoints, project: Project) -> None:
    """The last checkpoint that differs, with the reason; the plan says the same."""
    project.write("a.txt", "damage\n")
    plan = checkpoints.plan_rollback(session="s")
    report = checkpoints.rollback(session="s")

    assert plan.choice is not None
    assert plan.choice == report.choice
    assert report.to_json()["reason"] == plan.choice.why
    assert project.read("a.txt") == b"alpha\ngamma\n"


def test_push_and_fetch(checkpoints: gitcp.Checkpoints, project: Project) -> None:
    """Sessions go to a remote and come from it, verified."""
    bare = project.root.parent / "bare.git"
    project.git("init", "--bare", "-q", str(bare))
    project.git("remote", "add", "origin", str(bare))
    remotes.enable(checkpoints.store().repo, "origin", None, as_branches=False)

    report = checkpoints.push()
    again = checkpoints.push("origin", sessions="s")
    fetched = checkpoints.fetch(files=True)

    assert [item.name for item in report.sent] == ["s"]
    assert again.sent == ()
    assert report.to_json()["items"][0] == {
        "name": "s",
        "kind": "session",
        "state": "new",
        "checkpoints": 2,
        "sent": True,
    }
    assert [(one.session, one.refused) for one in fetched] == [("s", "")]
    with pytest.raises(BadValue, match="no remote"):
        checkpoints.fetch("nowhere")


def test_export_and_import(
    checkpoints: gitcp.Checkpoints, project: Project, tmp_path: Path
) -> None:
    """A bundle in another repository, and a conversation for people; never over a file."""
    bundle, page = tmp_path / "s.bundle", tmp_path / "talk.md"
    made = checkpoints.export(bundle)
    checkpoints.export(page, "s@1")

    assert (made.checkpoints, made.bytes) == (2, bundle.stat().st_size)
    assert "Add it" in page.read_text()
    with pytest.raises(gitcp.Refused, match="exists already"):
        checkpoints.export(page)
    with pytest.raises(BadValue, match="format is None"):
        checkpoints.export(tmp_path / "x.bin")
    (imported,) = gitcp.open(Project(tmp_path / "other").root).import_(bundle)
    assert imported.to_json()["checkpoints"] == 2


def test_help() -> None:
    """Values have the signature of their fields; a policy says what each means."""
    parameters = inspect.signature(gitcp.Policy).parameters
    assert {name: each.default for name, each in parameters.items()}["last"] == 10
    shown = pydoc.plain(pydoc.render_doc(gitcp.Policy))
    assert "Policy(last: 'int' = 10, within: 'timedelta | None' = None" in shown
    for field in gitcp.Policy.fields:
        assert f"`{field}`" in (gitcp.Policy.__doc__ or "")
