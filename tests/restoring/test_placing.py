"""The conversation comes back where its agent resumes it, and nothing that the agent has is cut
short or lost.
"""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import pytest
from back import kept, last, restore, save, undo
from talk import SESSION, Talk

from gitcp.adapters.base import Placement, Write
from gitcp.git.objects import Objects
from gitcp.model import Checkpoint
from gitcp.restoring import placing
from gitcp.restoring.placing import Placed
from gitcp.saving import save as save_op

from driver import Project
from samples import open_store

SHORT = SESSION[:8]


@pytest.fixture
def talk(project: Project) -> Talk:
    """A conversation of two messages, and a file."""
    project.write("a", "old\n")
    talk = Talk(project)
    talk.say("one", "two")
    return talk


def placed_by(project: Project, target: Checkpoint) -> Placed:
    """Restore under guard; what was placed."""
    with project.guard():
        report = restore(project, target)
    assert not report.failed, report.kept
    assert report.placed is not None
    return report.placed


def others(talk: Talk) -> list[Path]:
    """The agent's other files for this directory."""
    return sorted(path for path in talk.path.parent.iterdir() if path != talk.path)


def test_same(project: Project, talk: Talk) -> None:
    """A transcript that says just what was stored is not touched, and is resumed under its own
    id.
    """
    target = save(project, None)
    project.write("a", "new\n")
    before = talk.path.stat()

    placed = placed_by(project, target)

    after = talk.path.stat()
    assert placed.command == ("claude", "--resume", SESSION)
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert others(talk) == []


@pytest.mark.parametrize("cut", [0, 1, 100, -1])
def test_shorter(project: Project, talk: Talk, cut: int) -> None:
    """A transcript that is a beginning of what was stored is completed in place, wherever it
    ends.
    """
    target = save(project, None)
    whole = talk.path.read_bytes()
    talk.path.write_bytes(whole[:cut])
    inode = talk.path.stat().st_ino

    placed = placed_by(project, target)

    assert placed.session_id == SESSION
    assert talk.path.read_bytes() == whole
    assert talk.path.stat().st_ino == inode
    assert others(talk) == []


def test_longer(project: Project, talk: Talk) -> None:
    """A transcript that went on stays as it is; what was stored goes under a new id, readable by
    the user alone.
    """
    target = save(project, None)
    before = talk.path.read_bytes()
    talk.say("three", "four")
    whole = talk.path.read_bytes()

    placed = placed_by(project, target)

    assert placed.session_id not in (None, SESSION)
    assert placed.command == ("claude", "--resume", placed.session_id)
    assert talk.path.read_bytes() == whole
    assert placed.path is not None
    assert others(talk) == [placed.path]
    assert placed.path.read_bytes() == before
    assert stat.S_IMODE(placed.path.stat().st_mode) == 0o600
    assert SESSION in placed.placement.note


def test_diverged(project: Project, talk: Talk) -> None:
    """A transcript that says something else stays as it is."""
    target = save(project, None)
    before = talk.path.read_bytes()
    talk.path.write_bytes(before.replace(b"one", b"ONE"))

    placed = placed_by(project, target)

    assert talk.path.read_bytes() == before.replace(b"one", b"ONE")
    assert placed.path is not None
    assert placed.path.read_bytes() == before


def test_gone(project: Project, talk: Talk) -> None:
    """A transcript that is not there is made anew under its own id, with private directories where
    they are missing.
    """
    target = save(project, None)
    whole = talk.path.read_bytes()
    projects = talk.path.parent.parent
    talk.path.unlink()
    talk.path.parent.rmdir()
    projects.rmdir()
    projects.parent.rmdir()

    placed = placed_by(project, target)

    assert placed.session_id == SESSION
    assert talk.path.read_bytes() == whole
    for directory in (talk.path.parent, projects, projects.parent):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_link_is_not_followed(project: Project, talk: Talk) -> None:
    """A transcript that has become a link is neither read nor written through."""
    target = save(project, None)
    elsewhere = project.root.parent / "elsewhere"
    elsewhere.write_bytes(b"")
    talk.path.unlink()
    talk.path.symlink_to(elsewhere)

    placed = placed_by(project, target)

    assert placed.session_id != SESSION
    assert elsewhere.read_bytes() == b""
    assert talk.path.is_symlink()


def test_restoring_twice_makes_one_new_session(project: Project, talk: Talk) -> None:
    """The same checkpoint restored again finds the conversation where it put it the first time."""
    target = save(project, None)
    talk.say("three", "four")
    first = placed_by(project, target)
    project.write("a", "new\n")

    assert placed_by(project, target).session_id == first.session_id
    assert len(others(talk)) == 1


def test_the_new_id_stays_in_the_session(project: Project, talk: Talk) -> None:
    """What the agent says under its new id is saved in the same session, and costs what is new."""
    talk.say(*(f"a long message, number {number}: " + "x" * 2000 for number in range(200)))
    target = save(project, None)
    talk.say("three", "four")
    placed = placed_by(project, target)
    assert placed.path is not None
    assert talk.path.stat().st_size > 400_000

    with placed.path.open("ab") as file:
        file.write(
            talk.path.read_bytes().splitlines(keepends=True)[0].replace(b'"one"', b'"and on"')
        )
    new_bytes = bytes_added_by(project)

    saved = last(project, SHORT)
    assert saved.id.session == SHORT
    assert saved.agent is not None
    assert saved.agent.session_id == placed.session_id
    assert saved.conversation is not None
    assert saved.conversation.bytes == placed.path.stat().st_size
    assert new_bytes < 30_000


def bytes_added_by(project: Project) -> int:
    """Save as a user does, without naming a session; the uncompressed bytes of the objects that
    were new.
    """
    store = open_store(project)
    saved = save_op.save(store, save_op.SaveRequest(project.root))
    assert saved.saved
    objects: Objects = store.objects
    return objects.writer.new_bytes


def test_the_session_that_is_current(project: Project, talk: Talk) -> None:
    """A save goes on with the agent's session that was restored last, until another of them is
    written to again.
    """
    project.gitcp("save", "first", check=0)
    talk.say("three", "four")
    restored = project.json("restore", "1", "--yes")["resume"]["session_id"]
    assert restored != SESSION
    assert agent_saved(project) == restored
    assert project.json("undo", "--yes")["resume"]["session_id"] == SESSION
    assert agent_saved(project) == SESSION
    other = talk.path.with_name(f"{restored}.jsonl")
    with other.open("ab") as file:
        file.write(b'{"type":"user","uuid":"later"}\n')
    later = other.stat().st_mtime + 5
    os.utime(other, (later, later))
    assert agent_saved(project) == restored


OTHER = "aaaaaaaa-5d1c-4f0a-9b3e-2c6d8f1a7b90"


@pytest.mark.parametrize("restored", [SESSION, OTHER], ids=["older", "newer"])
def test_undo_beside_another_session(project: Project, talk: Talk, restored: str) -> None:
    """Of two agents at work in one directory, `undo` goes on with the one that was restored, as it
    was before.
    """
    other = Talk(project, OTHER)
    other.say("one", "two")
    for session in (SHORT, OTHER[:8]):
        project.gitcp("save", "--session", session, check=0)
    project.write("a", "new\n")
    for each in (talk, other):
        each.say("three", "four")
        project.gitcp("save", "--session", each.session[:8], check=0)
    chosen = talk if restored == SESSION else other
    chosen.say("not saved yet", "five")

    new = project.json("restore", f"{restored[:8]}@1", "--yes")["resume"]["session_id"]
    undone = project.json("undo", "--yes")

    assert new not in (SESSION, OTHER)
    assert undone["resume"]["session_id"] == restored
    assert undone["conversation"]["messages"] == 6
    assert project.read("a") == b"new\n"
    assert project.json("redo", "--yes")["resume"]["session_id"] == new


def agent_saved(project: Project) -> str:
    """The agent's session that a plain save takes."""
    checkpoint = project.json("save", "--force")["checkpoint"]
    assert checkpoint["session"] == SHORT
    session_id: str = checkpoint["agent"]["session_id"]
    return session_id


def test_subagents(project: Project, talk: Talk) -> None:
    """The sub-agents' streams come back beside the main one, under the new id where there is
    one.
    """
    beside = talk.path.with_suffix("") / "subagents"
    beside.mkdir(parents=True)
    (beside / "agent-a1.jsonl").write_text('{"type":"user"}\n')
    target = save(project, None)
    talk.say("three", "four")

    placed = placed_by(project, target)

    assert placed.path is not None
    copy = placed.path.with_suffix("") / "subagents" / "agent-a1.jsonl"
    assert copy.read_text() == '{"type":"user"}\n'
    assert [write.how for write in placed.placement.files] == ["create", "create"]


def test_generic(project: Project) -> None:
    """A conversation that no agent resumes is put in a place of its own, which is said; a second
    time it is there.
    """
    data = b'{"role":"user","content":"hello"}\nno json\xff'
    target = save(project, conversation=data)
    save(project, conversation=b'{"role":"user","content":"other"}\n')

    placed = placed_by(project, target)

    assert (placed.session_id, placed.command) == (None, ())
    assert placed.path is not None
    assert placed.path.read_bytes() == data
    assert str(placed.path) in placed.placement.note
    assert stat.S_IMODE(placed.path.stat().st_mode) == 0o600
    assert not placed_by(project, target).changes


def test_home_that_cannot_be_written(project: Project, talk: Talk) -> None:
    """Where the agent's files cannot be written, the files are restored all the same, and it is
    said what is not.
    """
    target = save(project, None)
    project.write("a", "new\n")
    talk.path.unlink()
    talk.path.parent.rmdir()
    talk.path.parent.parent.rmdir()
    talk.path.parent.parent.write_text("a file where a directory should be")

    with project.guard():
        report = restore(project, target)

    assert report.failed
    assert report.placed is None
    assert project.read("a") == b"old\n"
    assert "the conversation was not restored" in kept(report)[os.fsencode(talk.path)]
    after = last(project, SHORT)
    assert after.restored_from == target.id
    undo(project)
    assert project.read("a") == b"new\n"


def test_home_that_cannot_be_written_by_the_command(project: Project, talk: Talk) -> None:
    """The same by the command: exit code 3, and the file that is missing is named."""
    project.gitcp("save", "first", check=0)
    project.write("a", "new\n")
    talk.path.unlink()
    talk.path.parent.rmdir()
    talk.path.parent.parent.rmdir()
    talk.path.parent.parent.write_text("a file where a directory should be")

    done = project.gitcp("restore", "1", "--yes", check=3)

    assert str(talk.path) in done.out
    assert "claude --resume" not in done.out
    assert project.read("a") == b"old\n"


def test_live_agent(project: Project, talk: Talk) -> None:
    """An agent that writes all the time loses nothing, whichever checkpoint is restored
    meanwhile.
    """
    target = save(project, None)
    stop = threading.Event()
    written: list[bytes] = [talk.path.read_bytes()]

    def write() -> None:
        with open(talk.path, "ab", buffering=0) as file:
            while not stop.is_set():
                line = json.dumps({"type": "user", "uuid": f"w{len(written)}"}).encode() + b"\n"
                file.write(line)
                written.append(line)
                stop.wait(0.001)

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for _ in range(3):
            project.write("a", "new\n")
            report = restore(project, target)
            assert project.read("a") == b"old\n"
            assert report.placed is None or report.placed.session_id != SESSION
    finally:
        stop.set()
        writing.join()
    assert talk.path.read_bytes() == b"".join(written)


def test_append_never_overwrites(tmp_path: Path) -> None:
    """What is written to a transcript after the plan is not overwritten, and it is said that it
    changed.
    """
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"one\n")
    write = Write(path, lambda: iter([b"one\n", b"two\n"]), "append", 4)
    path.write_bytes(b"one\nlive\n")

    said = placing.write(Placed("x", 1, Placement("id", (write,), ()), tmp_path))

    assert said is not None
    assert "changed in the meantime" in said.reason
    assert path.read_bytes() == b"one\nlive\n"


def test_append_beside_a_writer(tmp_path: Path) -> None:
    """What is written in the middle of being completed stays, and it is said."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"one\n")

    def content() -> object:
        yield b"one\n"
        with path.open("ab") as file:
            file.write(b"live\n")
        yield b"two\n"

    write = Write(path, content, "append", 4)  # type: ignore[arg-type]

    said = placing.write(Placed("x", 1, Placement("id", (write,), ()), tmp_path))

    assert said is not None
    assert "at the same time" in said.reason
    assert path.read_bytes() == b"one\nlive\ntwo\n"


def test_create_never_replaces(tmp_path: Path) -> None:
    """A transcript that appears after the plan is left as it is, and nothing is left beside it."""
    path = tmp_path / "t.jsonl"
    write = Write(path, lambda: iter([b"ours\n"]), "create")
    path.write_bytes(b"theirs\n")

    said = placing.write(Placed("x", 1, Placement("id", (write,), ()), tmp_path))

    assert said is not None
    assert "was created in the meantime" in said.reason
    assert path.read_bytes() == b"theirs\n"
    assert os.listdir(tmp_path) == ["t.jsonl"]


def test_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a file system that has no hard links a transcript is made all the same, and none is
    replaced.
    """

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "t.jsonl"
    placed = Placed(
        "x", 1, Placement("id", (Write(path, lambda: iter([b"ours\n"]), "create"),), ()), tmp_path
    )

    assert placing.write(placed) is None
    assert path.read_bytes() == b"ours\n"
    path.write_bytes(b"theirs\n")
    assert placing.write(placed) is not None
    assert path.read_bytes() == b"theirs\n"
    assert os.listdir(tmp_path) == ["t.jsonl"]


def test_the_main_file_comes_last(tmp_path: Path) -> None:
    """If one of the files cannot be written there is no main file either, which an agent would
    resume.
    """
    (tmp_path / "beside").write_text("in the way")
    files = (
        Write(tmp_path / "main.jsonl", lambda: iter([b"main\n"]), "create"),
        Write(tmp_path / "beside" / "agent.jsonl", lambda: iter([b"agent\n"]), "create"),
    )

    said = placing.write(Placed("x", 1, Placement("id", files, ()), tmp_path))

    assert said is not None
    assert said.path == os.fsencode(files[1].path)
    assert os.listdir(tmp_path) == ["beside"]


def test_a_known_id_is_taken(project: Project, talk: Talk) -> None:
    """A known id whose file says something else is passed over, and a new one is made."""
    target = save(project, None)
    talk.say("three", "four")
    other = talk.path.with_name("11111111-0000-4000-8000-000000000000.jsonl")
    other.write_text("something else\n")
    store = open_store(project)
    assert target.conversation is not None

    placed = placing.plan(
        store, target.conversation, target.agent, project.root, (other.stem, None)
    )

    assert placed.session_id not in (None, SESSION, other.stem)
    assert other.read_text() == "something else\n"
