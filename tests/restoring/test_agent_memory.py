"""An agent's memory of the project goes back with its conversation, and forward with an undo; what
another session wrote there since stays.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from back import finish, kept, last, redo, restore, save, undo
from talk import SESSION, Talk

from gitcp import adapters
from gitcp.adapters import claude_code, gemini, qwen
from gitcp.adapters.base import project_root
from gitcp.errors import Refused
from gitcp.history import memory as history_memory
from gitcp.history.memory import MemoryChange
from gitcp.model import Checkpoint, Kind, Memory
from gitcp.restoring import memory as op
from gitcp.restoring import placing
from gitcp.restoring import restore as restore_op
from gitcp.restoring.plan import Kept
from gitcp.restoring.restore import RestoreRequest
from gitcp.saving import memory
from gitcp.saving import save as save_op
from gitcp.store import Store
from gitcp.value import replace

from driver import Project
from samples import open_store

SHORT = SESSION[:8]
OTHER = "0b5e55ed-5d1c-4f0a-9b3e-2c6d8f1a7b90"


class Remembered:
    """The memory that Claude Code keeps of a project, and two sessions that write to it."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.directory = claude_code.memory(project.root, open_store(project).repo.host)
        self.directory.mkdir(parents=True)
        self.own, self.other = Talk(project), Talk(project, OTHER)
        self.other.count = 20  # later

    def put(self, name: str, text: str, talk: Talk | None = None) -> None:
        """Write a file, as a session of the agent does it: with a call of its tool."""
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        if talk is not None:
            given = {"file_path": str(path), "content": text}
            call: dict[str, object] = {
                "type": "tool_use",
                "id": f"c{talk.count}",
                "name": "Write",
                "input": given,
            }
            talk.append("assistant", [call])

    def all(self) -> dict[str, str]:
        """Every file with its text."""
        paths = (path for path in self.directory.rglob("*") if path.is_file())
        return {str(path.relative_to(self.directory)): path.read_text() for path in paths}


@pytest.fixture
def remembered(project: Project) -> Remembered:
    project.write("a", "old\n")
    made = Remembered(project)
    made.own.say("one", "two")
    made.put("MEMORY.md", "- tabs, not spaces\n", made.own)
    return made


def store_of(project: Project) -> Store:
    return open_store(project)


def stored(
    project: Project, checkpoint: Checkpoint, agent: str = "claude-code"
) -> dict[str, bytes]:
    """The files of Claude Code's memory in a checkpoint."""
    reader = store_of(project).reader
    blobs = memory.files(reader, checkpoint.memory, "claude-code")
    return {path: reader.read_blob(oid) for path, oid in blobs.items()}


def test_goes_back_and_forward(project: Project, remembered: Remembered) -> None:
    """A restore puts back the memory of that moment, and removes what came later; undo and redo
    walk through it.
    """
    target = save(project, None)
    remembered.put("MEMORY.md", "- tabs, not spaces\n- the migration failed\n", remembered.own)
    remembered.put("tomorrow.md", "what happens tomorrow\n", remembered.own)
    later = remembered.all()
    with project.guard():
        report = restore(project, target)
    assert not report.failed
    assert report.memory is not None
    assert (report.memory.written, report.memory.removed) == (("MEMORY.md",), ("tomorrow.md",))
    assert remembered.all() == {"MEMORY.md": "- tabs, not spaces\n"}
    undone = undo(project)
    assert not undone.failed
    assert remembered.all() == later
    redo(project)
    assert remembered.all() == {"MEMORY.md": "- tabs, not spaces\n"}


def test_in_checkpoints(project: Project, remembered: Remembered) -> None:
    """A checkpoint has the files as they are; unchanged ones, and a save that has nothing new, cost
    nothing.
    """
    first = save(project, None)
    assert first.memory == Memory(("claude-code",), first.memory.tree if first.memory else None)
    assert stored(project, first) == {"MEMORY.md": b"- tabs, not spaces\n"}
    path = f"{first.commit}:.gitcp/memory/claude-code/MEMORY.md"
    assert project.git("cat-file", "blob", path) == "- tabs, not spaces"
    second = save(project, None)
    assert second.memory == first.memory
    remembered.put("MEMORY.md", "changed\n")
    request = save_op.SaveRequest(project.root)
    saved = save_op.save(open_store(project), request)
    assert saved.saved, "a change of the memory alone is one"
    assert not save_op.save(open_store(project), request).saved


def test_lines_of_others_stay(project: Project, remembered: Remembered) -> None:
    """A line that another session wrote since stays, and is named with its session; one of this
    session's goes, also if the other one wrote the file again with it.
    """
    target = save(project, None)
    mine = "- tabs, not spaces\n- mine: the cache is broken\n"
    remembered.put("MEMORY.md", mine, remembered.own)
    remembered.put("MEMORY.md", f"{mine}- theirs: port 8000\n", remembered.other)
    remembered.put("theirs.md", "# Theirs\n\nall of it\n", remembered.other)
    report = restore(project, target)
    assert report.memory is not None
    assert remembered.all() == {
        "MEMORY.md": "- tabs, not spaces\n- theirs: port 8000\n",
        "theirs.md": "# Theirs\n\nall of it\n",
    }
    assert report.memory.kept == (
        ("MEMORY.md", "- theirs: port 8000", OTHER),
        ("theirs.md", "# Theirs", OTHER),
        ("theirs.md", "all of it", OTHER),
    )
    undo(project)
    assert remembered.all()["MEMORY.md"] == f"{mine}- theirs: port 8000\n"


def test_written_by_a_shell(project: Project, remembered: Remembered) -> None:
    """A line that another session's shell appended is its own as well."""
    target = save(project, None)
    remembered.put("MEMORY.md", "- tabs, not spaces\n- port 8000\n- by nobody known\n")
    remembered.other.run("echo '- port 8000' >> memory/MEMORY.md", "")
    restore(project, target)
    assert remembered.all() == {"MEMORY.md": "- tabs, not spaces\n- port 8000\n"}


def test_only_with_its_conversation(project: Project, remembered: Remembered) -> None:
    """The files alone, a path, and a restore that is told so leave the memory, and so does undoing
    one.
    """
    target = save(project, None)
    project.write("a", "new\n")
    remembered.put("MEMORY.md", "later\n", remembered.own)
    remembered.own.say("three")
    for fields in ({"conversation": False}, {"memory": ""}):
        report = restore(project, target, **fields)
        assert report.memory is None
        assert remembered.all() == {"MEMORY.md": "later\n"}
        remembered.put("MEMORY.md", "even later\n")
        undo(project)
        assert remembered.all() == {"MEMORY.md": "even later\n"}
        remembered.put("MEMORY.md", "later\n")


def test_saved_without(project: Project, remembered: Remembered) -> None:
    """A checkpoint that has no memory at all, as those of earlier versions, changes none."""
    target = save(project, None)
    remembered.put("MEMORY.md", "later\n")
    request = RestoreRequest(target, project.root)
    old = RestoreRequest(replace(target, memory=None), project.root)
    store = store_of(project)
    assert op.plan(store, old) is None
    assert op.plan(store, request)


def test_without_the_agents_conversation(project: Project, remembered: Remembered) -> None:
    """The safety checkpoint has the memory although the last session here is no agent's."""
    target = save(project, None)
    remembered.put("later.md", "later\n", remembered.own)
    remembered.own.path.unlink()
    save(project, "manual")
    report = restore(project, target)
    assert not report.failed
    assert remembered.all() == {"MEMORY.md": "- tabs, not spaces\n"}
    undo(project)
    assert remembered.all()["later.md"] == "later\n"


def test_changed_meanwhile(project: Project, remembered: Remembered) -> None:
    """What the agent writes after the plan was shown stops the restore; what it writes after the
    safety checkpoint is kept.
    """
    target = save(project, None)
    remembered.put("MEMORY.md", "later\n", remembered.own)
    store, request = store_of(project), RestoreRequest(target, project.root)
    agreed = restore_op.plan(store, request)
    remembered.put("MEMORY.md", "later still\n")
    with pytest.raises(Refused, match="after the plan was shown"):
        restore_op.restore(store, request, agreed)
    planned = op.plan(store, request)
    assert planned is not None
    safety = save(project, None)
    remembered.put("MEMORY.md", "at the last moment\n")
    left = op.write(store, planned, safety)
    assert [one.reason for one in left] == ["not restored: it changed in the meantime and was kept"]
    assert remembered.all() == {"MEMORY.md": "at the last moment\n"}


def test_through_no_link(project: Project, remembered: Remembered, tmp_path: Path) -> None:
    """A link in the place of a directory is not followed."""
    remembered.put("topics/x.md", "x\n")
    target = save(project, None)
    outside = tmp_path / "outside"
    outside.mkdir()
    (remembered.directory / "topics" / "x.md").unlink()
    (remembered.directory / "topics").rmdir()
    (remembered.directory / "topics").symlink_to(outside)
    report = restore(project, target)
    assert report.failed
    assert "a link is in its place" in str(kept(report))
    assert not any(outside.iterdir())


def test_only_markdown(project: Project, remembered: Remembered) -> None:
    """What an agent keeps beside its notes, such as a lock, is neither saved nor removed; modes
    stay.
    """
    remembered.put("consolidation.lock", "1")
    remembered.put(".hidden.md", "1")
    os.chmod(remembered.directory / "MEMORY.md", 0o640)
    target = save(project, None)
    assert [*stored(project, target)] == ["MEMORY.md"]
    remembered.put("MEMORY.md", "later\n", remembered.own)
    restore(project, target)
    assert stat.S_IMODE((remembered.directory / "MEMORY.md").stat().st_mode) == 0o640
    assert set(remembered.all()) == {"MEMORY.md", ".hidden.md", "consolidation.lock"}


def test_of_other_agents(project: Project) -> None:
    """Gemini CLI and Qwen Code keep one for each project, too; Claude Code's is shared by linked
    working trees.
    """
    project.write("a", "1\n")
    project.git("add", "-A")
    project.commit("first")
    project.git("worktree", "add", "-q", str(project.root.parent / "beside"))
    host = open_store(project).repo.host
    root, beside = os.path.realpath(project.root), project.root.parent / "beside"
    assert project_root(beside) == project_root(project.root / "deeper") == root
    assert claude_code.memory(beside, host) == claude_code.memory(project.root, host)
    assert qwen.ADAPTER.memory(project.root, host).parts[-3:-1][0] == "projects"
    assert gemini.memory(project.root, host).parts[-3:] == ("tmp", "project", "memory")


@pytest.mark.parametrize("data", [b"", bytes(64), b"gitdir: \0\n", b"\xff\n"])
@pytest.mark.parametrize("name", ["beside/.git", "project/.git/worktrees/beside/commondir"])
def test_of_a_broken_linked_worktree(project: Project, name: str, data: bytes) -> None:
    """A file of git's that is empty or of NULs after a crash names no other root."""
    project.write("a", "1\n")
    project.commit()
    beside = project.root.parent / "beside"
    project.git("worktree", "add", "-q", str(beside))
    assert project.root.name == "project"
    project.root.parent.joinpath(name).write_bytes(data)
    assert project_root(beside) == os.path.realpath(beside)


def test_last_of_a_session(project: Project, remembered: Remembered) -> None:
    """The checkpoint that records a restore has the memory that was restored."""
    target = save(project, None)
    remembered.put("MEMORY.md", "later\n", remembered.own)
    restore(project, target)
    assert stored(project, last(project, SHORT)) == stored(project, target)


def remove_object(project: Project, oid: str) -> None:
    """Damage the repository: an object is missing."""
    project.loosen()
    project.remove(project.git_dir / f"objects/{oid[:2]}/{oid[2:]}")


def test_damaged_file(project: Project, remembered: Remembered) -> None:
    """A stored file that is damaged stays as it is now, and is named; all else is restored, and an
    undo is whole. One that is now as it was is not read.
    """
    remembered.put("damaged.md", "then\n", remembered.own)
    target = save(project, None)
    blobs = memory.files(store_of(project).reader, target.memory, "claude-code")
    remove_object(project, blobs["damaged.md"])
    plan = op.plan(store_of(project), RestoreRequest(target, project.root))
    assert plan is not None
    assert not plan
    remembered.put("damaged.md", "now\n", remembered.own)
    remembered.put("MEMORY.md", "later\n", remembered.own)
    project.write("a", "new\n")
    later = remembered.all()

    place = str(remembered.directory / "damaged.md")
    told = "not restored: its stored copy is damaged"
    planned = project.json("restore", str(target.id), "--dry-run")
    assert [(one["path"], one["reason"]) for one in planned["kept"]] == [(place, told)]
    report = restore(project, target)

    assert report.failed
    assert kept(report) == {os.fsencode(place): told}
    assert project.read("a") == b"old\n"
    assert remembered.all() == {"MEMORY.md": "- tabs, not spaces\n", "damaged.md": "now\n"}
    assert not undo(project).failed
    assert remembered.all() == later


def test_damaged_tree(project: Project, remembered: Remembered) -> None:
    """Of a memory whose list of files is missing nothing is restored, and nothing removed; the
    next save stores it anew, in the same session.
    """
    target = save(project, None)
    assert target.memory is not None
    assert target.memory.tree is not None
    remembered.put("MEMORY.md", "later\n", remembered.own)
    project.write("a", "new\n")
    remove_object(project, target.memory.tree)
    following = save(project, None)
    assert following.parent == target.commit
    assert stored(project, following) == {"MEMORY.md": b"later\n"}
    report = restore(project, target)
    place = os.fsencode(remembered.directory)
    assert kept(report) == {place: "not restored: its stored copy is damaged"}
    assert project.read("a") == b"old\n"
    assert remembered.all() == {"MEMORY.md": "later\n"}


def test_not_written(project: Project, remembered: Remembered, tmp_path: Path) -> None:
    """A file that cannot be written is not reported as written; nor is any if the conversation
    could not be written.
    """
    remembered.put("topics/x.md", "then\n", remembered.own)
    target = save(project, None)
    remembered.put("MEMORY.md", "later\n", remembered.own)
    (remembered.directory / "topics").rename(tmp_path / "topics")
    (remembered.directory / "topics").symlink_to(tmp_path / "topics")
    report = restore(project, target)
    assert report.memory is not None
    assert report.memory.written == ("MEMORY.md",)
    assert list(kept(report)) == [os.fsencode(remembered.directory / "topics" / "x.md")]


def test_conversation_not_written(
    project: Project, remembered: Remembered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory stays if its conversation could not be written, and the report says so."""
    target = save(project, None)
    remembered.own.say("three")
    remembered.put("MEMORY.md", "later\n", remembered.own)
    failure = Kept(os.fsencode(remembered.own.path), "not restored: no space", missing=True)
    monkeypatch.setattr(placing, "write", lambda _: failure)
    report = restore(project, target)
    assert report.memory is None
    assert kept(report) == {
        failure.path: failure.reason,
        os.fsencode(remembered.directory): "not restored: its conversation was not",
    }
    assert remembered.all() == {"MEMORY.md": "later\n"}


def test_edited_after_a_crash(
    project: Project, remembered: Remembered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written to the memory between the crash of a restore and `--continue` is kept, and
    named; the rest is restored.
    """
    remembered.put("topic.md", "then\n", remembered.own)
    target = save(project, None)
    remembered.put("topic.md", "now\n", remembered.own)
    remembered.put("MEMORY.md", "later\n", remembered.own)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(op, "write", crash)
        with pytest.raises(KeyboardInterrupt):
            restore(project, target)
    remembered.put("MEMORY.md", "later\n- after the crash\n")
    report = finish(project, forward=True)
    place = os.fsencode(remembered.directory / "MEMORY.md")
    assert kept(report) == {place: "edited since the restore was interrupted"}
    assert report.memory is not None
    assert report.memory.written == ("topic.md",)
    assert remembered.all() == {"MEMORY.md": "later\n- after the crash\n", "topic.md": "then\n"}


def test_cannot_be_looked_at(project: Project, remembered: Remembered) -> None:
    """A directory that cannot be listed is not an empty one: the checkpoint has the memory of the
    one before, or none, and a restore removes no notes.
    """
    away = remembered.directory.with_name("away")
    remembered.directory.rename(away)
    remembered.directory.symlink_to("nowhere")
    first = save(project, None)
    assert first.memory is None
    remembered.directory.unlink()
    away.rename(remembered.directory)
    known = save(project, "known")
    remembered.directory.rename(away)
    remembered.directory.symlink_to("nowhere")
    project.write("a", "new\n")
    unseen = save(project, None)
    assert unseen.memory == known.memory
    remembered.directory.unlink()
    away.rename(remembered.directory)
    restore(project, first)
    assert remembered.all() == {"MEMORY.md": "- tabs, not spaces\n"}


@pytest.mark.parametrize("path", ["MEMORY.md", os.fsdecode(b"\xff.md")])
def test_names_of_changes(project: Project, path: str) -> None:
    """A change of any name is one of a path in the checkpoint."""
    change = MemoryChange("claude-code", path, b"old", None).as_file(open_store(project))
    assert change.path == b".gitcp/memory/claude-code/" + os.fsencode(path)


def test_what_is_not_saved_is_not_removed(project: Project, remembered: Remembered) -> None:
    """A new file that a save cannot read, or that is too large, is recorded, and no restore to
    there removes what it is later. Nor does one to a checkpoint that could not have all files.
    """
    remembered.put("large.md", "x" * (memory.LARGEST + 1))
    target = save(project, None)
    assert target.memory is not None
    assert target.memory.skipped == (b"claude-code/large.md",)
    remembered.put("large.md", "small now\n")
    remembered.put("new.md", "later\n")
    report = restore(project, target)
    assert not report.failed
    place = os.fsencode(remembered.directory / "large.md")
    assert kept(report) == {place: "the checkpoint could not save it"}
    assert remembered.all() == {"MEMORY.md": "- tabs, not spaces\n", "large.md": "small now\n"}
    listed = history_memory.listed(open_store(project), target)
    assert [(each.path, each.problem) for each in listed] == [
        ("MEMORY.md", ""),
        ("large.md", history_memory.SKIPPED),
    ]


def test_more_than_are_saved(
    project: Project, remembered: Remembered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there are too many files, those that were not saved stay."""
    monkeypatch.setattr(adapters, "MOST_REMEMBERED", 2)
    for name in ("a.md", "b.md"):
        remembered.put(name, name)
    target = save(project, None)
    (remembered.directory / "a.md").unlink()
    report = restore(project, target)
    assert not report.failed
    assert remembered.all().keys() == {"MEMORY.md", "a.md", "b.md"}


def test_damaged_copy_is_shown(project: Project, remembered: Remembered) -> None:
    """A damaged copy is named where the memory is listed and compared, and nothing else is lost."""
    remembered.put("damaged.md", "then\n", remembered.own)
    target = save(project, None)
    blobs = memory.files(store_of(project).reader, target.memory, "claude-code")
    remove_object(project, blobs["damaged.md"])
    remembered.put("damaged.md", "now\n", remembered.own)
    remembered.put("MEMORY.md", "new\n", remembered.own)
    store = store_of(project)
    listed = {each.path: each.problem for each in history_memory.listed(store, target)}
    assert listed == {"MEMORY.md": "", "damaged.md": history_memory.DAMAGED}
    changes = {each.path: each for each in history_memory.compare(store, target, None)}
    assert changes["MEMORY.md"].new == b"new\n"
    assert changes["damaged.md"].problem == history_memory.DAMAGED
    assert changes["damaged.md"].as_file(store).kind is Kind.MODIFIED
    printed = {each["path"]: each["problem"] for each in project.json_lines("diff")}
    assert printed[".gitcp/memory/claude-code/damaged.md"] == history_memory.DAMAGED


def test_larger_than_any_that_is_saved(
    project: Project, remembered: Remembered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of any size can be in a checkpoint from elsewhere: a large one is neither compared nor
    restored, and is named.
    """
    remembered.put("huge.md", "row\n" * (memory.LARGEST // 2), remembered.own)
    with monkeypatch.context() as patched:
        patched.setattr(memory, "LARGEST", 1 << 30)
        target = save(project, None)
    remembered.put("huge.md", "now\n", remembered.own)
    store, place = store_of(project), remembered.directory / "huge.md"
    problems = {each.path: each.problem for each in history_memory.listed(store, target)}
    assert problems["huge.md"] == "it has more than 1.0 MiB"
    (change,) = history_memory.compare(store, target, None)
    assert (change.old, change.problem) == (None, problems["huge.md"])
    assert history_memory.stored(store, target, "claude-code")["huge.md"] == (
        b"(it has more than 1.0 MiB)\n"
    )
    report = restore(project, target)
    assert report.failed
    assert kept(report) == {os.fsencode(place): "not restored: it has more than 1.0 MiB"}
    assert place.read_text() == "now\n"


def test_safety_checkpoint_has_what_is_overwritten(
    project: Project, remembered: Remembered
) -> None:
    """A blob that is damaged, and of which nobody knows yet, is written again before a restore
    overwrites the file that it should hold.
    """
    target = save(project, None)
    remembered.put("MEMORY.md", "precious\n", remembered.own)
    latest = save(project, None)
    blobs = memory.files(store_of(project).reader, latest.memory, "claude-code")
    remove_object(project, blobs["MEMORY.md"])
    report = restore(project, target)
    assert remembered.all() == {"MEMORY.md": "- tabs, not spaces\n"}
    assert not report.failed
    assert not undo(project).failed
    assert remembered.all() == {"MEMORY.md": "precious\n"}
