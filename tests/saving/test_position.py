"""A position is saved with the files it depends on, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import programs
import pytest

import gitcp
from gitcp.errors import BadValue, Refused

from driver import Project

LIMIT = 1000


@pytest.fixture
def session(project: Project) -> gitcp.Session:
    """A session of a project where untracked files of over 1000 bytes are left out."""
    project.write("a.txt", "one\n")
    project.commit()
    project.git("config", "gitcp.maxFileSize", str(LIMIT))
    return gitcp.open(project.root).session("work")


def saved_size(project: Project, revision: str, path: str) -> int:
    """The size of a file in a checkpoint."""
    found = gitcp.open(project.root).file(revision, path)
    assert isinstance(found, bytes)
    return len(found)


def test_growing_file(session: gitcp.Session, project: Project) -> None:
    """A file that grows over the limit: the position is refused, with the fix, and nothing is
    saved; named as an output, it is in the checkpoint.
    """
    project.write("out.csv", "x" * 900)
    session.save(position={"record": 9})
    project.write("out.csv", "x" * 1200)
    before = session.opened.store().tip("work")

    with (
        project.guard(),
        pytest.raises(Refused, match=r"out.csv changed, but would not be in the c"),
    ):
        session.save(position={"record": 12})
    assert session.opened.store().tip("work") == before
    assert session.position == {"record": 9}
    refused = project.gitcp("save", "--session", "work", "--position", "record=12", check=12)
    assert "(too-large, 1200 bytes): the position was not saved, and nothing changed" in refused.err
    assert "--produces out.csv, in Python outputs=['out.csv']" in refused.err

    with project.guard():
        session.save(position={"record": 12}, outputs="out.csv")
    assert saved_size(project, "work", "out.csv") == 1200
    project.write("out.csv", "x" * 1500)
    project.gitcp("save", "--session", "work", "--position", "record=15", check=0)
    assert saved_size(project, "work", "out.csv") == 1500


def test_shell(session: gitcp.Session, project: Project) -> None:
    """The same from a shell: what the hint says works."""
    project.write("out.csv", "x" * 1200)
    project.gitcp(
        "save", "--session", "s", "--position", "record=1", "--produces", "out.csv", check=0
    )
    assert saved_size(project, "s", "out.csv") == 1200
    assert project.gitcp("save", "--produces", "../x", check=2).err.startswith("error: ")


def test_files_that_are_not_its_own(session: gitcp.Session, project: Project) -> None:
    """A large file that was there before and has not changed does not get in the way; without an
    earlier checkpoint nobody knows, and an ignored one is nobody's.
    """
    project.write("data.bin", "x" * 5000)
    with pytest.raises(Refused, match=r"data.bin changed"):
        session.save(position={"record": 1})
    assert session.resume() is None
    os.utime(project.root / "data.bin", (1, 1))
    session.save(position={"record": 1})
    project.write("data.bin", "y" * 5000)
    os.utime(project.root / "data.bin", (1, 4_000_000_000))
    with pytest.raises(Refused, match=r"data.bin changed"):
        session.save(position={"record": 2})
    session.save("without a position")
    project.write(f"{project.git_dir}/info/exclude", "/data.bin\n")
    session.save(position={"record": 2})


def test_outputs_are_kept(session: gitcp.Session, project: Project) -> None:
    """An output is captured by every later snapshot, whoever takes it, and goes back with a
    restore; ignored ones, and those with odd names, too.
    """
    project.write(".gitignore", "build/\n")
    names = ["build/deep/out [1].csv", "big.csv", "späte *?.csv", "a\\b.csv"]
    for name in names:
        project.write(name, "x" * 2000)
    session.save(position={"record": 1}, outputs=names)
    project.write("build/other.txt", "ignored\n")
    for name in names:
        project.write(name, "x" * 3000)
    project.gitcp("save", "--session", "other", check=0)

    assert [saved_size(project, "other", name) for name in names] == [3000] * 4
    assert "build/other.txt" not in project.gitcp("show", "other", "--files", check=0).out
    assert project.gitcp("diff", "work", check=0).out.count("x") > 0
    session.resume()
    assert [len(project.read(name)) for name in names] == [2000] * 4
    gitcp.open(project.root).undo()
    assert [len(project.read(name)) for name in names] == [3000] * 4


def test_grown_before_it_was_saved(session: gitcp.Session, project: Project) -> None:
    """An output that was small when it was named, and passed the limit before the next save, goes
    back with a resume; so does one that was named before anything was saved.
    """
    assert session.resume(outputs="new.csv") is None
    project.write("new.csv", "x" * 2000)
    session.resume()
    assert not project.root.joinpath("new.csv").exists()
    project.write("out.csv", "x" * 900)
    session.save(position={"record": 9}, outputs="out.csv")
    project.write("out.csv", "x" * 1200)
    session.resume()
    assert len(project.read("out.csv")) == 900
    gitcp.open(project.root).undo()
    assert len(project.read("out.csv")) == 1200


def test_resume_without_its_files(session: gitcp.Session, project: Project) -> None:
    """A file that was not named and passed the limit since is not in any checkpoint: a resume
    would leave it as it is, and is refused, with the fix.
    """
    project.write("out.csv", "x" * 900)
    project.write("data.bin", "x" * 5000)
    os.utime(project.root / "data.bin", (1, 1))
    session.save()
    session.save(position={"record": 9}, force=True)
    project.write("out.csv", "x" * 1200)
    with (
        project.guard(),
        pytest.raises(Refused, match=r"out.csv changed, but work@2 does not have"),
    ):
        session.resume()
    assert session.resume(outputs=["out.csv"]) is not None
    assert len(project.read("out.csv")) == 900
    assert len(project.read("data.bin")) == 5000


def test_elsewhere(session: gitcp.Session, project: Project) -> None:
    """Restored where the working tree's list is not, an output is captured from then on."""
    project.write("big.csv", "x" * 2000)
    session.save(position={"record": 1}, outputs=["big.csv"])
    Path(project.git_dir, "gitcp/outputs").unlink()
    project.write("big.csv", "x" * 2500)

    session.resume()
    assert len(project.read("big.csv")) == 2000
    project.write("big.csv", "x" * 2600)
    session.resume()
    assert len(project.read("big.csv")) == 2000
    assert saved_size(project, "work", "big.csv") == 2000


def test_output_that_cannot_be_saved(session: gitcp.Session, project: Project) -> None:
    """An output that is a link, a directory or outside is refused; one that is not written yet is
    not.
    """
    project.write("dir/x.txt", "x")
    os.symlink("/etc/passwd", project.root / "link.csv")
    for name in ("dir", "link.csv"):
        with pytest.raises(BadValue, match=rf"output {name} is not a file, but a "):
            session.save(position={"record": 1}, outputs=[name])
    with pytest.raises(BadValue, match="is not a file in"):
        session.save(outputs="../x")
    project.write(".gitcp/x.csv", "x")
    with pytest.raises(BadValue, match=r"output .gitcp/x.csv cannot be saved"):
        session.save(outputs=".gitcp/x.csv")
    assert session.last is None
    session.save(position={"record": 1}, outputs=["later.csv"])


def test_files_of_steps(session: gitcp.Session, project: Project) -> None:
    """The files that a step names are its outputs."""
    session.step("load", lambda: project.write("big.csv", "x" * 2000), files="big.csv")

    assert saved_size(project, "work", "big.csv") == 2000


BATCH = """
    import random
    session = checkpoints.session("batch")
    session.resume()
    start, end, stop = int(session.position.get("record", 0)), 4000, int(sys.argv[1])
    with open("out.txt", "ab", buffering=0) as out:
        for record in range(start, end):
            if record == stop:
                os.kill(os.getpid(), signal.SIGKILL)
            out.write(b"%d\\n" % record)
            if record % 200 == 199:
                session.save(position={"record": record + 1}, outputs="out.txt")
"""


def test_killed_with_one_growing_file(session: gitcp.Session, project: Project) -> None:
    """A batch that appends to one file beyond the limit is killed at any record, and resumed: each
    record is in the file exactly once.
    """
    for stop in (0, 150, 450, 451, 1999, 2000, 3333, 3999):
        programs.run(project, BATCH, str(stop), code=-9)
    programs.run(project, BATCH, "-1")

    assert project.read("out.txt") == b"".join(b"%d\n" % record for record in range(4000))
    assert gitcp.open(project.root).check().ok


def append(project: Project, text: str) -> None:
    """Append to out.txt, as a batch does."""
    with (project.root / "out.txt").open("a") as out:
        out.write(text)


def test_resume_goes_by_the_position(session: gitcp.Session, project: Project) -> None:
    """A save without a position inherits the last one, with newer files: a resume restores those
    that the position was saved with. What a step recorded since stays recorded.
    """
    append(project, "1\n")
    set_at = session.save(position={"record": 1}).checkpoint
    append(project, "2\n")
    session.step("mail", lambda: "sent", key="2")
    append(project, "3\n")
    session.save("by hand")
    assert session.position == {"record": 1}
    assert project.json("show", "work")["position_from"] == str(set_at.id)

    report = session.resume()
    assert report is not None
    assert report.target.id == set_at.id
    assert project.read("out.txt") == b"1\n"
    assert session.position == {"record": 1}
    assert session.step("mail", key="2") == "sent"
    gitcp.open(project.root).undo()
    assert project.read("out.txt") == b"1\n2\n3\n"
    session.resume()
    assert project.read("out.txt") == b"1\n"


def test_same_position_set_again(session: gitcp.Session, project: Project) -> None:
    """The same position with newer files is a new one; without anything new nothing is saved."""
    session.save(position={"record": 1})
    append(project, "2\n")
    inherited = session.save().checkpoint
    assert inherited.note.position_from == inherited.id._replace(number=1)
    assert not session.save().saved
    again = session.save(position={"record": 1})
    assert again.saved
    assert again.checkpoint.note.position_from is None
    assert not session.save(position={"record": 1}).saved
    assert not session.save().saved
    session.resume()
    assert project.read("out.txt") == b"2\n"


def test_position_of_a_restored_line(session: gitcp.Session, project: Project) -> None:
    """After a restore of a checkpoint that inherited its position, a resume goes to the one that
    set it, not to later ones; a rename is followed.
    """
    append(project, "1\n")
    session.save(position={"record": 1})
    append(project, "2\n")
    inherited = session.save().checkpoint
    append(project, "3\n")
    session.save(position={"record": 3})
    opened = gitcp.open(project.root)
    opened.restore(str(inherited.id))
    assert project.read("out.txt") == b"1\n2\n"
    project.gitcp("rename", "work", "other", check=0)

    renamed = opened.session("other")
    renamed.resume()
    assert project.read("out.txt") == b"1\n"
    assert renamed.position == {"record": 1}


def test_position_after_a_rollback(session: gitcp.Session, project: Project) -> None:
    """A transaction that fails takes back the positions saved in it, also one set again."""
    append(project, "1\n")
    session.save(position={"record": 1})
    opened = gitcp.open(project.root)

    def work() -> None:
        with opened.transaction("risky", session="others"):
            append(project, "2\n")
            session.save(position={"record": 1})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    append(project, "4\n")
    session.resume()
    assert project.read("out.txt") == b"1\n"
    assert opened.check().ok


def test_position_is_not_pruned(session: gitcp.Session, project: Project) -> None:
    """A prune keeps the checkpoint that set the current position."""
    append(project, "1\n")
    session.save(position={"record": 1})
    for number in range(2, 6):
        append(project, f"{number}\n")
        session.save()
    project.gitcp("prune", "--keep-last", "1", "--yes", check=0)

    assert [each.id.number for each in gitcp.open(project.root).log("work")] == [5, 1]
    session.resume()
    assert project.read("out.txt") == b"1\n"
    assert session.last is not None
    assert (session.last.note.position, session.last.note.position_from) == ({"record": 1}, None)
