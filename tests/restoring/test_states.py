"""States outside the files, such as a database: the user's commands save and restore them."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import pytest
from back import finish, redo, restore, save, undo

from gitcp.conversation import segments
from gitcp.errors import DiskFull, GitcpError, Refused, StoreDamaged
from gitcp.git import trees
from gitcp.model import Checkpoint, CommandState, Trigger
from gitcp.restoring import restore as restore_op
from gitcp.restoring import restore_notice, trust
from gitcp.restoring import states as op
from gitcp.restoring.restore import RestoreRequest
from gitcp.saving import save as save_op
from gitcp.saving import states
from gitcp.saving.save import Saved
from gitcp.state import state_commands
from gitcp.value import replace

from driver import Project
from samples import open_store

OWN_CONFIGURATION = "is set in this repository's own configuration"


class Server:
    """What a database server keeps, as a file outside of the project, and the commands for it."""

    def __init__(self, project: Project, path: Path) -> None:
        self.project, self.path = project, path
        path.write_text("row 1\n")
        self.set(save=f"cat '{path}'", restore=f"cat > '{path}'")

    def set(self, name: str = "db", *, where: str = "--global", **values: str) -> None:
        for key, value in values.items():
            self.project.git("config", where, f"gitcp.state.{name}.{key}", value)

    @property
    def rows(self) -> str:
        return self.path.read_text()


@pytest.fixture
def server(project: Project, tmp_path: Path) -> Server:
    project.write("a", "old\n")
    return Server(project, tmp_path / "rows")


def saved(project: Project, **fields: Any) -> Saved:
    """Save what is due, as `gitcp save` does."""
    request = save_op.SaveRequest(project.root, session="work", due_states=True, **fields)
    return save_op.save(open_store(project), request)


def state_of(checkpoint: Checkpoint, name: str = "db") -> CommandState:
    assert checkpoint.states is not None
    return next(each for each in checkpoint.states.each if each.name == name)


def content(project: Project, checkpoint: Checkpoint, name: str = "db") -> bytes:
    store = open_store(project)
    assert checkpoint.states is not None
    stored = states.stored(store.reader, checkpoint.states, state_of(checkpoint, name))
    return b"".join(store.reader.read_blob(each.oid) for each in stored)


def test_goes_back_and_forward(project: Project, server: Server) -> None:
    """A restore gives the content to the user's command; undo and redo walk through it."""
    target = saved(project).checkpoint
    assert content(project, target) == b"row 1\n"
    server.path.write_text("")
    project.write("a", "new\n")
    with project.guard():
        report = restore(project, target, state=True)
    assert not report.failed
    assert [each.name for each in report.states] == ["db"]
    assert (server.rows, project.read("a")) == ("row 1\n", b"old\n")
    undone = undo(project, state=True)
    assert not undone.failed
    assert (server.rows, project.read("a")) == ("", b"new\n")
    redo(project, state=True)
    assert (server.rows, project.read("a")) == ("row 1\n", b"old\n")


def test_only_when_asked(project: Project, server: Server) -> None:
    """Neither a restore nor an undo runs a command by itself, and an undo of a restore without the
    state leaves it.
    """
    target = saved(project).checkpoint
    server.path.write_text("row 2\n")
    project.write("a", "new\n")
    restore(project, target)
    assert server.rows == "row 2\n"
    undo(project, state=True)
    assert server.rows == "row 2\n"
    restore(project, target, state=True)
    undo(project)
    assert (server.rows, project.read("a")) == ("row 1\n", b"new\n")


def test_when(project: Project, server: Server) -> None:
    """Manual saves and milestones by default, never a prompt; before a risky change if set."""
    assert saved(project).checkpoint.states is not None
    for number, trigger in enumerate((Trigger.PROMPT, Trigger.TURN, Trigger.BEFORE_RISKY_CHANGE)):
        project.write("a", f"{number}\n")
        assert saved(project, trigger=trigger).checkpoint.states is None
    assert saved(project, trigger=Trigger.TURN, tags=("v1",)).checkpoint.states is not None
    server.set(when="before-risky-change")
    assert saved(project, force=True).checkpoint.states is None
    risky = saved(project, trigger=Trigger.BEFORE_RISKY_CHANGE)
    assert risky.saved, "the state is a change of its own"
    assert content(project, risky.checkpoint) == b"row 1\n"
    server.set(when="sometimes")
    wrong = saved(project, force=True)
    assert "'sometimes', which is none of manual" in state_of(wrong.checkpoint).missing


def test_a_change_of_its_own(project: Project, server: Server) -> None:
    """A state alone is a reason for a checkpoint, and an unchanged one is none."""
    assert saved(project).saved
    assert not saved(project).saved
    server.path.write_text("row 2\n")
    assert saved(project).saved


@pytest.mark.parametrize(
    ("command", "code", "why"),
    [
        ("echo half; echo 'no password=hunter2' >&2; exit 3", 3, "ended with exit code 3"),
        ("sleep 30", None, "did not end within 0 seconds"),
        ("yes", None, "it is larger than 1.0 KiB"),
        ("no-such-program", 127, "ended with exit code 127"),
    ],
)
def test_cannot_be_saved(
    project: Project, server: Server, command: str, code: int | None, why: str
) -> None:
    """A command that fails, or takes too long or too much, never fails the save: the checkpoint
    says so, without what the command said.
    """
    server.set(save=command, maxSize="1k", timeout="0" if "sleep" in command else "9")
    done = saved(project)
    state = state_of(done.checkpoint)
    assert done.saved
    assert (state.code, state.bytes) == (code, 0)
    assert why in state.missing
    assert why in done.missing_states[0]
    text = project.git("show", f"{done.checkpoint.commit}:.gitcp/checkpoint.json")
    assert "hunter2" not in text
    assert str(command) not in text
    assert "hunter2" in done.missing_states[0] or code != 3
    with pytest.raises(Refused, match="does not have it"):
        restore(project, done.checkpoint, state=True)


def test_repository_does_not_name_commands(project: Project, server: Server) -> None:
    """What an archive can bring is not run: neither the repository's own configuration, unless the
    user allowed exactly that, nor a file of the working tree.
    """
    mark = server.path.with_name("ran")
    project.git("config", "--global", "--remove-section", "gitcp.state.db")
    project.write(".gitcp.toml", f'[state.db]\nsave = "touch {mark}"\n')
    assert saved(project).checkpoint.states is None
    server.set(where="--local", save=f"touch '{mark}'", restore="cat")
    refused = saved(project, force=True)
    assert OWN_CONFIGURATION in state_of(refused.checkpoint).missing
    assert refused.allowable
    assert not mark.exists()
    (command,) = state_commands.listing(open_store(project).repo)
    state_commands.allow(open_store(project).repo, [command])
    assert not state_of(saved(project).checkpoint).missing
    assert mark.exists()
    mark.unlink()
    server.set(where="--local", restore="cat >&2")  # another command is another word
    assert OWN_CONFIGURATION in state_of(saved(project, force=True).checkpoint).missing
    assert not mark.exists()


def test_restored_by_the_users_command_alone(project: Project, server: Server) -> None:
    """Without a command of that name for both ways, nothing is restored, and the hint says why."""
    target = saved(project).checkpoint
    for missing, hint in (("restore", "gitcp.state.db.restore"), ("save", "gitcp.state.db.save")):
        server.set(save="cat /dev/null", restore="cat")
        project.git("config", "--global", "--unset", f"gitcp.state.db.{missing}")
        with pytest.raises(Refused, match="cannot be restored") as refused:
            restore(project, target, state=True)
        assert hint in refused.value.hint
    assert not op.offered(open_store(project), RestoreRequest(target, project.root))
    later = save(project)
    with pytest.raises(Refused, match="has no state") as refused:
        restore(project, later, state=True)
    assert refused.value.hint == f"gitcp restore {target.id} --state"


def test_offered(project: Project, server: Server) -> None:
    """The plan of a restore that was not asked for states names those that stay, and its report."""
    target = saved(project).checkpoint
    store, request = open_store(project), RestoreRequest(target, project.root)
    plan = restore_op.plan(store, request)
    assert [each.name for each in plan.offered] == ["db"]
    stays = f"  state db stays as it is; to restore: gitcp restore {target.id} --state"
    assert stays in str(plan).splitlines()
    assert (plan.to_json()["states"], plan.to_json()["offered_states"]) == ([], ["db"])
    report = restore_op.restore(store, request, plan)
    assert report.to_json()["offered_states"] == ["db"]
    asked = restore_op.plan(store, replace(request, state=True))
    assert (asked.offered, [each.name for each in asked.states]) == ((), ["db"])


def test_failing_restore(project: Project, server: Server) -> None:
    """A command that fails is reported with its exit code and what it said; the way back works."""
    target = saved(project).checkpoint
    server.path.write_text("row 2\n")
    project.write("a", "new\n")
    good = f"cat > '{server.path}'"
    server.set(restore=f"head -c 3 > '{server.path}'; echo broken >&2; exit 4")
    report = restore(project, target, state=True)
    assert report.failed
    failures = [(each.name, each.failure, each.said) for each in report.states]
    assert failures == [("db", "its command ended with exit code 4", "broken")]
    assert not report.kept, "a state is among states alone"
    assert (server.rows, project.read("a")) == ("row", b"old\n")
    server.set(restore=good)
    undo(project, state=True)
    assert (server.rows, project.read("a")) == ("row 2\n", b"new\n")


def test_current_state_is_saved_first(project: Project, server: Server) -> None:
    """Where that fails, nothing is restored, unless forced; an earlier content is not taken for the
    current one.
    """
    target = saved(project).checkpoint
    project.write("a", "new\n")
    server.set(save="exit 1")
    for _ in range(2):
        with pytest.raises(Refused, match=r"cannot be saved first.*exit code 1"):
            restore(project, target, state=True)
    assert project.read("a") == b"new\n"
    server.path.write_text("row 2\n")
    report = restore(project, target, state=True, force=True)
    assert not report.failed
    assert [(each.name, each.unsaved) for each in report.states] == [("db", True)]
    assert not report.kept
    assert server.rows == "row 1\n"


def test_same_state_runs_nothing(project: Project, server: Server) -> None:
    """A state that is as in the target is left alone."""
    target = saved(project).checkpoint
    project.write("a", "new\n")
    server.set(restore="exit 9")
    report = restore(project, target, state=True)
    assert not report.failed
    assert [each.is_current for each in report.states] == [True]


def test_damaged_content(project: Project, server: Server) -> None:
    """Content that cannot be read is found before anything changes."""
    target = saved(project).checkpoint
    assert target.states is not None
    assert target.states.tree is not None
    ((_, entry),) = trees.walk(open_store(project).reader, target.states.tree)
    server.path.write_text("row 2\n")
    project.write("a", "new\n")
    save(project)
    path = project.git_dir / "objects" / entry.oid[:2] / entry.oid[2:]
    path.chmod(0o600)
    path.unlink()
    with pytest.raises(StoreDamaged):
        restore(project, target, state=True)
    assert (server.rows, project.read("a")) == ("row 2\n", b"new\n")
    again = saved(project, force=True)
    assert content(project, again.checkpoint) == b"row 2\n"


def test_small_changes_cost_little(project: Project, server: Server) -> None:
    """A dump of which a line changed, anywhere, is stored once but for the part with that line."""
    lines = [os.urandom(30).hex() for _ in range(50_000)]
    server.path.write_text("\n".join(lines))
    first = saved(project).checkpoint
    lines.insert(20_000, "one more")
    server.path.write_text("\n".join(lines))
    second = saved(project).checkpoint
    reader = open_store(project).reader

    def blobs(checkpoint: Checkpoint) -> set[str]:
        assert checkpoint.states is not None
        assert checkpoint.states.tree is not None
        return {entry.oid for _, entry in trees.walk(reader, checkpoint.states.tree)}

    assert len(blobs(second) - blobs(first)) <= 2 < len(blobs(second))


def test_interrupted(project: Project, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore that died before the command is finished or taken back without it: the record of
    what it was to do can come with an archive, and nothing has what the state became since.
    """
    target = saved(project).checkpoint
    server.path.write_text("row 2\n")
    project.write("a", "new\n")

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    for forward, text in ((False, b"new\n"), (True, b"old\n")):
        with monkeypatch.context() as patched:
            patched.setattr(op, "restore", die)
            with pytest.raises(KeyboardInterrupt):
                restore(project, target, state=True)
        server.path.write_text("row 3, since the crash\n")
        report = finish(project, forward=forward)
        assert not report.failed
        assert (server.rows, project.read("a")) == ("row 3, since the crash\n", text)
        assert [each.name for each in report.states] == ["db"]
        assert "--state" in report.states[0].failure
        assert not report.kept
        assert report.states[0].was_run is forward, "what the hint of an undo goes by"
    server.path.write_text("half\n")
    undo(project, state=True)
    assert (server.rows, project.read("a")) == ("row 3, since the crash\n", b"new\n")


def test_files_come_before_a_slow_command(
    project: Project, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a risky change a command has a part of a hook's time, and the files have the rest:
    once what `rm -rf` removed was in no checkpoint.
    """
    monkeypatch.setattr(save_op, "IN_A_HOOK", 1.2)
    server.set(save="sleep 30", when="before-risky-change")
    server.set("other", save="sleep 30", when="before-risky-change")
    project.write("only", "here")
    began = time.monotonic()
    made = saved(project, trigger=Trigger.BEFORE_RISKY_CHANGE)
    assert time.monotonic() - began < 15
    assert all("in the time that a hook has" in each for each in made.missing_states)
    assert len(made.missing_states) == 2
    assert made.checkpoint.snapshot.total == 2


def test_a_full_disk_costs_the_state_alone(
    project: Project, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be stored of a state is missing; files and conversation are saved."""

    def full(*_: object) -> None:
        raise DiskFull("the disk is full")

    monkeypatch.setattr(segments, "cut_file", full)
    made = saved(project)
    assert made.saved
    assert state_of(made.checkpoint).missing == "it cannot be stored (the disk is full)"


def test_a_disk_that_becomes_full(project: Project) -> None:
    """The command is ended, and not said to have failed."""
    repo = open_store(project).repo
    repo.store_dir.mkdir(exist_ok=True)
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(GitcpError, match="No space"):
        state_commands.run(repo, "echo row; sleep 30", DEVNULL, full)


def test_a_name_that_no_checkpoint_can_have(project: Project, server: Server) -> None:
    """It is named and left out: a configuration that came with an archive stopped every save."""
    server.set("a b", where="--local", save="true")
    made = saved(project)
    assert content(project, made.checkpoint) == b"row 1\n"
    assert "state 'a b': its name must be" in made.missing_states[0]


def test_killed_by_itself(project: Project, server: Server) -> None:
    """A command that was killed has no exit code."""
    server.set(save="kill -9 $$")
    state = state_of(saved(project).checkpoint)
    assert (state.code, state.missing) == (None, "its command was killed by signal 9")


def test_an_undo_that_does_nothing_uses_nothing_up(project: Project, server: Server) -> None:
    """What restored a state alone is undone with --state, also after it was tried without."""
    target = saved(project).checkpoint
    server.path.write_text("row 2\n")
    restore(project, target, state=True)
    with pytest.raises(Refused, match="only states outside the files differ"):
        undo(project)
    undo(project, state=True)
    assert server.rows == "row 2\n"
    redo(project, state=True)
    assert server.rows == "row 1\n"


def test_when_is_the_users(project: Project, server: Server) -> None:
    """A repository's own configuration neither starts the user's own command nor stops it."""
    server.set(where="--local", when="manual,before-risky-change", timeout="999999999")
    project.write("a", "1")
    assert saved(project, trigger=Trigger.BEFORE_RISKY_CHANGE).checkpoint.states is None
    project.write("a", "2")
    assert content(project, saved(project).checkpoint) == b"row 1\n"


def test_a_command_that_does_not_end(
    project: Project, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is ended, and the report says so: nothing else is saved while a restore is at work."""
    target = saved(project).checkpoint
    server.path.write_text("row 2\n")
    server.set(restore="sleep 60")
    monkeypatch.setattr(op, "LONGEST", 0.2)
    report = restore(project, target, state=True)
    assert report.failed
    assert report.states[0].failure == "its command did not end within 0.2 seconds"


def test_what_the_agent_is_told(project: Project, server: Server) -> None:
    """Which states a restore changed, with the undo that includes them. Of a failure it has no word
    of the command's: what an agent is told is in the next checkpoint.
    """

    def told(**fields: Any) -> str:
        restore(project, target, state=True, **fields)
        notice = restore_notice.take(open_store(project), "claude-code", "s")
        assert notice is not None
        return notice

    target = saved(project).checkpoint
    server.path.write_text("row 2\n")
    done = told()
    assert "`gitcp undo --state` restores it." in done
    assert "\nIt also restored, outside the files: state db\n" in f"{done}\n"
    good = f"cat > '{server.path}'"
    server.path.write_text("row 2\n")
    server.set(restore="echo password=hunter2 >&2; exit 4")
    failed = told()
    assert "`gitcp undo --state` restores it." in failed
    assert failed.endswith("Not restored:\n- state db: its command ended with exit code 4")
    server.set(save="exit 1", restore=good)
    lost = told(force=True)
    assert "`gitcp undo` restores it." in lost
    assert "state db (its content before is in no checkpoint)" in lost


def test_plan_is_agreed(project: Project, server: Server) -> None:
    """A plan says what would run on what, and another command is another plan."""
    target = saved(project).checkpoint
    server.path.write_text("")
    request = RestoreRequest(target, project.root, state=True)
    plan = restore_op.plan(open_store(project), request)
    assert "state db of the checkpoint (6 bytes) would be given to your command: cat >" in str(plan)
    assert server.rows == ""
    server.set(restore="cat > /dev/null")
    with pytest.raises(Refused, match="after the plan was shown"):
        restore_op.restore(open_store(project), request, plan)
    without = restore_op.plan(open_store(project), replace(request, state=False))
    assert without.digest != plan.digest


def test_a_strangers_content(project: Project, server: Server) -> None:
    """The content of a checkpoint from elsewhere is listed among what could act."""
    target = saved(project).checkpoint
    assert (b".gitcp/states/db", trust.DUMPED) in trust.acting(open_store(project), target)


def test_what_it_says_fills_no_disk(
    project: Project, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what a command writes to standard error only the end is held, and of what a restore writes
    to standard output nothing.
    """
    largest = 0

    def look(_: float) -> str:
        nonlocal largest
        own = f"/proc/{os.getpid()}/fd"
        for number in os.listdir(own):
            with suppress(OSError):
                if "(deleted)" in os.readlink(f"{own}/{number}"):
                    largest = max(largest, os.stat(f"{own}/{number}").st_size)
        return ""

    monkeypatch.setattr(op, "_limit", look)
    target = saved(project).checkpoint
    server.path.write_text("row 2\n")
    noise = "yes | head -c 40000000; sleep 0.3"
    server.set(restore=f"{noise}; ({noise}; echo the end) >&2; exit 4")
    report = restore(project, target, state=True)
    assert report.states[0].said == "y; y; the end"
    assert largest < 16 * state_commands.MOST_SAID, "it goes on between the cut and the look"


def test_what_is_left_running(project: Project, server: Server) -> None:
    """A process that a command leaves running, with its output, is neither waited for nor ended: a
    restore may start a server.
    """
    server.set(save=f"(sleep 2; echo late >&2; echo > '{server.path}.late') & echo rows")
    began = time.monotonic()
    made = saved(project)
    assert time.monotonic() - began < 1.9
    assert content(project, made.checkpoint) == b"rows\n"
    late = server.path.with_name("rows.late")
    while not late.exists() and time.monotonic() < began + 20:
        time.sleep(0.1)
    assert late.exists()


def test_what_goes_on_writing(project: Project, server: Server) -> None:
    """A state of which a process that was left running still writes the rest is not saved; nor does
    that fill the disk: it has nowhere to write to.
    """
    loop = "while [ $((i += 1)) -lt 3000000 ]; do echo $i; done; echo > rows.end"
    script = server.path.with_name("script")
    script.write_text(f"cd '{server.path.parent}'; echo $$ > rows.id; i=0; {loop}")
    server.set(save=f"sh '{script}' & sleep 0.5; echo rows")
    made = saved(project)
    assert state_of(made.checkpoint).missing == state_commands.LEFT_WRITING
    id, began = int(server.path.with_name("rows.id").read_text()), time.monotonic()
    with suppress(ProcessLookupError):
        while time.monotonic() < began + 20:
            os.kill(id, 0)
            time.sleep(0.05)
    assert not server.path.with_name("rows.end").exists()
