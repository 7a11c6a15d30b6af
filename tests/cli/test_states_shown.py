"""States outside the files in what commands print, ask, send and remove."""

from __future__ import annotations

import json
import os
import random
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from terminal import SGR, on_terminal

import gitcp
from gitcp.errors import BadValue
from gitcp.history.memory import DAMAGED
from gitcp.history.states import MOST_COMPARED
from gitcp.model import Oid
from gitcp.secrets import checkpoint_scan

from driver import SOURCE, Project
from samples import open_store

TOKEN = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z5A"
PLACE = ".gitcp/states/db"


@pytest.fixture
def rows(project: Project) -> Path:
    """What a database keeps, with commands that save and restore it."""
    project.write("a", "1\n")
    path = Path(os.environ["HOME"]) / "rows"
    path.write_text("row 1\n")
    project.git("config", "--global", "gitcp.state.db.save", "cat ~/rows")
    project.git("config", "--global", "gitcp.state.db.restore", "cat > ~/rows")
    return path


def tip(project: Project) -> Oid:
    (commit,) = open_store(project).sessions().values()
    return commit


def test_shown(project: Project, rows: Path) -> None:
    """`save`, `log`, `show`, `status` and their JSON say what is saved, and what is not and why."""
    said = project.gitcp("save", "one", "--session", "s", check=0).out
    assert "state: db  6 bytes\n" in said
    assert ", state db\n" in project.gitcp("log", check=0).out
    assert "State (1)\n  db  6 bytes, saved in " in project.gitcp("show", check=0).out
    (state,) = project.json("show")["states"]
    assert (state["name"], state["bytes"], state["exit_code"]) == ("db", 6, 0)
    assert "State         db: last saved in s@1\n" in project.gitcp("status", check=0).out
    (listed,) = project.json("status")["states"]
    assert (listed["save"], listed["when"], listed["last"]) == ("cat ~/rows", ["manual"], "s@1")
    (known,) = gitcp.open(project.root).states()
    assert (known.name, str(known.last), known.problem) == ("db", "s@1", "")

    rows.unlink()
    said = project.gitcp("save", "two", check=0).out
    assert "not saved: state db: its command ended with exit code 1: cat: " in said
    assert "db  not saved: its command ended with exit code 1\n" in project.gitcp("show").out
    assert ", state db" not in project.gitcp("log", "-n", "1", check=0).out
    assert "state db was not saved last: its command ended with" in project.gitcp("doctor").out
    project.git("config", "--global", "gitcp.state.db.save", "PGUSER=a no-such-program | cat")
    assert "state db cannot be saved: no program 'no-such-program'" in project.gitcp("doctor").out


def test_unchanged_is_no_answer(project: Project, rows: Path) -> None:
    """No save answers that nothing changed without running the command."""
    project.git("config", "--global", "gitcp.interval", "1h")
    for _ in range(3):
        project.gitcp("save", "--session", "s", check=0)
    rows.write_text("row 2\n")
    assert project.gitcp("save", "--session", "s", check=0).out.startswith("saved s@2")


def test_asked(project: Project, rows: Path) -> None:
    """On a terminal, a restore and its undo ask for the state by itself; --yes does not answer."""
    project.gitcp("save", "one", "--session", "s", check=0)
    project.write("a", "2\n")
    rows.write_text("row 2\n")
    refused = on_terminal(project, "restore", "1", typed="n\ny\n")
    text = SGR.sub("", refused.out)
    assert (
        "state db of the checkpoint (6 bytes) would be given to your command: cat > ~/rows" in text
    )
    assert (refused.code, rows.read_text(), project.read("a")) == (0, "row 2\n", b"1\n")
    assert "undo with: gitcp undo\n" in text
    project.gitcp("undo", "--yes", check=0)
    said = project.gitcp("restore", "1", "--yes", check=0).out
    assert "state db stays as it is; to restore: gitcp restore s@1 --state" in said
    project.gitcp("undo", "--yes", check=0)
    done = on_terminal(project, "restore", "1", typed="y\ny\n")
    assert (done.code, rows.read_text()) == (0, "row 1\n")
    assert "undo with: gitcp undo --state" in SGR.sub("", done.out)
    plan = project.json("undo", "--dry-run", "--state")["states"]
    assert [(each["name"], each["command"], each["bytes"]) for each in plan] == [
        ("db", "cat > ~/rows", 6)
    ]
    project.gitcp("undo", "--yes", "--state", check=0)
    assert (rows.read_text(), project.read("a")) == ("row 2\n", b"2\n")


def test_excludes(project: Project, rows: Path) -> None:
    """What restores a part, or elsewhere, restores no state."""
    project.gitcp("save", "one", "--session", "s", check=0)
    for words in (("a",), ("--mine",), ("--to", "../x"), ("--worktree", "../x")):
        refused = project.gitcp("restore", "1", "--state", "--yes", *words, check=2)
        assert "--state and " in refused.err
    checkpoints = gitcp.open(project.root)
    with pytest.raises(BadValue, match="state="):
        checkpoints.restore("1", state=True, to="../x")
    with pytest.raises(BadValue, match="state="):
        checkpoints.restore("1", state=True, paths="a")
    report = checkpoints.restore("1", state=True)
    assert [each.is_current for each in report.states] == [True]


def test_own_configuration(project: Project, rows: Path) -> None:
    """Commands of the repository's own configuration are run only once the user agreed to exactly
    these: `save --state` once showed and ran them in one breath.
    """
    project.git("config", "--global", "--remove-section", "gitcp.state.db")
    project.git("config", "gitcp.state.db.save", "touch ~/ran; cat ~/rows")
    project.git("config", "gitcp.state.db.restore", "cat > ~/rows")
    ran = rows.with_name("ran")
    said = project.gitcp("save", "one", check=0).out
    assert "is set in this repository's own configuration" in said
    assert said.endswith("if they are yours, run them with: gitcp save --state\n")
    assert "gitcp save --state" in project.gitcp("doctor", check=1).out
    assert project.json("save", "--state", "--dry-run")["states"] == []
    planned = project.gitcp("save", "--state", "--dry-run", "--force").out
    assert "would first ask whether to allow the commands of: db\n" in planned
    before = tip(project)
    refused = project.gitcp("save", "my label", "--state", check=12).err
    assert "    saved by: touch ~/ran; cat ~/rows\n    restored by: cat > ~/rows\n" in refused
    assert "no command was run, and nothing was saved" in refused
    declined = SGR.sub("", on_terminal(project, "save", "--state", typed="n\n").out)
    assert "saved by: touch ~/ran; cat ~/rows" in declined
    assert (tip(project), ran.exists()) == (before, False)

    *_, hint = refused.strip().splitlines()
    assert hint.startswith("hint: gitcp save 'my label' --state --allow ")
    words = shlex.split(hint.removeprefix("hint: gitcp "))
    project.git("config", "gitcp.state.db.restore", "cat > ~/elsewhere")
    assert "has the ID" in project.gitcp(*words, check=2).err
    project.git("config", "gitcp.state.db.restore", "cat > ~/rows")
    assert "state: db  6 bytes" in project.gitcp(*words, check=0).out
    assert ran.exists()
    assert project.gitcp("save", "three", "--state", check=0).err == ""
    assert project.json("save", "--state", "--dry-run")["states"] == ["db"]
    project.git("config", "gitcp.state.db.save", "echo other")
    project.gitcp("save", "--state", check=12)
    said = SGR.sub("", on_terminal(project, "save", "--state", typed="y\n").out)
    assert "state: db  6 bytes" in said
    assert project.gitcp("save", "--state", check=0).err == ""
    project.git("config", "gitcp.state.db.save", "touch ~/ran\n    saved by: true")
    spoofed = project.gitcp("save", "--state", check=12).err
    assert "    saved by: touch ~/ran\n    |     saved by: true\n" in spoofed
    lone = project.gitcp("save", "lab el", "--allow", "1", check=2).err
    assert lone.endswith("hint: gitcp save 'lab el' --allow 1 --state\n")
    for words in (["--allow=1"], ["--dry-run", "--allow", "1"]):
        unknown = project.gitcp("save", "lab el", "--state", *words, check=2).err
        assert "has the ID 1: nothing was run or saved\n" in unknown
        left = shlex.join(["gitcp", "save", "lab el", "--state", *words]).partition(" --allow")[0]
        assert unknown.endswith(f"hint: {left}\n")
    project.git("config", "--unset", "gitcp.state.db.save")
    assert "no command saves a state" in project.gitcp("save", "--state", check=2).err


def test_own_limits(project: Project, rows: Path) -> None:
    """What a repository says of when its command runs, how long and how much, is shown and allowed
    with it: one that was allowed for manual saves ran before each risky change.
    """
    project.git("config", "--global", "--remove-section", "gitcp.state.db")
    project.git("config", "gitcp.state.db.save", "touch ~/ran; cat ~/rows")
    asked = project.gitcp("save", "--state", check=12).err
    assert not any(word in asked for word in ("when:", "timeout:", "maxSize:"))
    project.gitcp(*shlex.split(asked.rpartition("hint: gitcp ")[2]), check=0)
    for key, value, shown in (
        ("when", "before-risky-change", "when: before-risky-change"),
        ("timeout", "2h", "timeout: 7,200 seconds"),
        ("maxSize", "4g", "maxSize: 4,294,967,296 bytes"),
    ):
        rows.with_name("ran").unlink(missing_ok=True)
        project.git("config", f"gitcp.state.db.{key}", value)
        project.gitcp("save", "--trigger", "before-risky-change", "--force", check=0)
        asked = project.gitcp("save", "--state", check=12).err
        assert f"    {shown}\n" in asked
        assert not rows.with_name("ran").exists()
        project.gitcp(*shlex.split(asked.rpartition("hint: gitcp ")[2]), check=0)
        assert rows.with_name("ran").exists()


def test_not_restored(project: Project, rows: Path) -> None:
    """A state that is not restored is said once, with what an undo does to it."""
    project.gitcp("save", "one", "--session", "s", check=0)
    project.write("a", "2\n")
    rows.write_text("row 2\n")
    project.gitcp("restore", "1", "--yes", check=0)
    for words, last in ((("undo",), "restore to undo"), (("redo",), "undo to redo")):
        note = f"note: the {last} changed no state, and --state changes none\n"
        assert project.gitcp(*words, "--state", "--dry-run", check=0).err == note
        assert project.gitcp(*words, "--state", "--yes", check=0).err == note
    project.gitcp("undo", "--yes", check=0)
    project.git("config", "--global", "gitcp.state.db.restore", "echo broken >&2; exit 4")
    failed = project.gitcp("restore", "1", "--state", "--yes", check=3).out
    why = "its command ended with exit code 4: broken"
    assert failed.count(why) == 1
    assert f"  state db not restored: {why}\n" in failed
    assert "undo with: gitcp undo --state\n" in failed
    project.git("config", "--global", "gitcp.state.db.restore", "cat > ~/rows")
    project.gitcp("undo", "--state", "--yes", check=0)
    project.git("config", "--global", "gitcp.state.db.restore", "exit 4")
    report = project.gitcp("restore", "1", "--state", "--yes", "--json", check=3).out
    document = json.loads(report)
    assert [each["failure"] for each in document["states"]] == [why.partition(":")[0]]
    assert document["kept"] == []
    project.gitcp("undo", "--yes", check=0)
    project.git("config", "--global", "gitcp.state.db.save", "exit 1")
    project.git("config", "--global", "gitcp.state.db.restore", "cat > ~/rows")
    lost = project.gitcp("restore", "1", "--state", "--force", "--yes", check=0).out
    assert "    its content before the restore is not saved\n" in lost
    assert "undo with: gitcp undo\n" in lost
    project.gitcp("undo", "--yes", check=0)
    assert (rows.read_text(), project.read("a")) == ("row 1\n", b"2\n")


def test_at_work(project: Project, rows: Path) -> None:
    """A restore whose command takes its time is at work, and was not interrupted."""
    project.gitcp("save", "one", "--session", "s", check=0)
    rows.write_text("row 2\n")
    begun, go = rows.with_name("begun"), rows.with_name("go")
    waits = "touch ~/begun; while [ ! -e ~/go ]; do sleep 0.05; done; cat > ~/rows"
    project.git("config", "--global", "gitcp.state.db.restore", waits)
    command = [sys.executable, "-P", "-m", "gitcp", "restore", "1", "--state", "--yes"]
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(command, cwd=project.root, env=env) as restoring:
        while not begun.exists() and restoring.poll() is None:
            time.sleep(0.05)
        looked, fields = project.gitcp("status"), project.json("status")
        go.touch()
    assert looked.err == "note: another gitcp process is restoring s@1 here\n"
    assert fields["unfinished"] is None
    assert (restoring.returncode, rows.read_text()) == (0, "row 1\n")


def test_diff(project: Project, rows: Path) -> None:
    """`diff` names the states that two checkpoints have with another content: text line by line."""
    for number, data in enumerate((b"row 1\nrow 2\n", b"row 1\nrow 3\n", b"\0", b"\0")):
        rows.write_bytes(data)
        project.gitcp("save", str(number), "--force", "--session", "s", check=0)
    assert (
        project.gitcp("diff", "1", "2").out == "state db  12 bytes -> 12 bytes\n- row 2\n+ row 3\n"
    )
    stat = project.gitcp("diff", "1", "2", "--stat", "--exit-code", check=1).out
    assert stat == "state db  12 bytes -> 12 bytes  +1 -1\n"
    assert project.gitcp("diff", "1", "2", "--name-only").out == f"{PLACE}\n"
    assert project.gitcp("diff", "2", "3").out == "state db  12 bytes -> 1 byte\n"
    (line,) = project.json_lines("diff", "2", "3")
    assert (line["path"], line["kind"], line["state"]["name"]) == (PLACE, "modified", "db")
    assert (line["state"]["old"]["bytes"], line["state"]["new"]["bytes"]) == (12, 1)
    for words in (("3", "4"), ("1", "2", "--", "a")):
        assert project.gitcp("diff", *words, "--exit-code", check=0).out == ""
    rows.write_text("row\n" * (MOST_COMPARED // 4 + 1))
    project.gitcp("save", "large", check=0)
    assert project.gitcp("diff", "1", "5").out == "state db  12 bytes -> 256.0 KiB\n"


def test_diff_as_git(project: Project, rows: Path) -> None:
    """With git's options, a state has a row of their form, or none; it is a path like others."""
    for data in (b"row 1\n", b"row 2\nrow 3\n", b"\0"):
        rows.write_bytes(data)
        project.gitcp("save", "--session", "s", check=0)
    for options, row in (
        (("--name-status",), f"M\t{PLACE}\n"),
        (("--numstat",), f"2\t1\t{PLACE}\n"),
        (("--shortstat",), ""),
        (("--name-status", "--", PLACE), f"M\t{PLACE}\n"),
        (("--name-only", "--", ".gitcp/states"), f"{PLACE}\n"),
        (("--name-only", "--", ".gitcp/memory"), ""),
    ):
        assert project.gitcp("diff", "1", "2", *options, check=0).out == row, options
    assert project.gitcp("diff", "2", "3", "--numstat").out == f"-\t-\t{PLACE}\n"


def test_diff_of_many_lines(project: Project, rows: Path) -> None:
    """A state of many short lines is compared in no time: difflib took minutes."""
    generator = random.Random(1)
    for _ in range(2):
        lines = [f"{generator.randrange(110)}\n" for _ in range(80_000)]
        rows.write_text("".join(lines))
        project.gitcp("save", "--session", "s", check=0)
    began = time.monotonic()
    said = project.gitcp("diff", "1", "2", "--numstat").out
    assert time.monotonic() - began < 30
    added, removed, _ = said.split("\t")
    assert added == removed
    assert 0 < int(added) < 80_000


def test_diff_damaged(project: Project, rows: Path) -> None:
    """A state whose content is damaged is modified, and both outputs say that it is damaged."""
    for data in ("row 1\n", "row 2\n"):
        rows.write_text(data)
        project.gitcp("save", "--session", "s", check=0)
    segment = project.git("ls-tree", "-r", "--object-only", tip(project), PLACE).strip()
    path = project.git_dir / "objects" / segment[:2] / segment[2:]
    path.chmod(0o644)
    path.write_bytes(b"damaged")
    (line,) = project.json_lines("diff", "1", "2")
    assert (line["kind"], bool(line["old"]), bool(line["new"])) == ("modified", True, True)
    assert line["state"]["problem"] == DAMAGED
    assert project.gitcp("diff", "1", "2").out == f"state db  6 bytes -> 6 bytes: {DAMAGED}\n"


def test_tried(project: Project, rows: Path) -> None:
    """`doctor --state` runs what a save would run, and stores nothing: a program that is there may
    fail all the same. What the user did not allow is not run.
    """
    project.gitcp("save", "one", "--session", "s", check=0)
    rows.write_text("row 22\n")
    before = tip(project)
    said = project.gitcp("doctor", "--state", check=0).out
    assert said.startswith("state db: 7 bytes in 0.")
    assert tip(project) == before
    project.git("config", "gitcp.state.theirs.save", "touch ~/ran")
    project.git("config", "--global", "gitcp.state.db.save", "cat ~/no-such-rows")
    tried = project.gitcp("doctor", "--state", check=1).out
    assert "problem  state db: its command ended with exit code 1: cat: " in tried
    assert "problem  state theirs: its command is set in this repository's own" in tried
    assert "         gitcp save --state\n" in tried
    assert not rows.with_name("ran").exists()
    fields = json.loads(project.gitcp("doctor", "--state", "--json", check=1).out)["states"]
    assert [(each["name"], each["exit_code"]) for each in fields] == [("db", 1), ("theirs", None)]


def test_leaves_only_when_clean(project: Project, rows: Path) -> None:
    """A secret in it is found before anything leaves; purge and a redaction drop the whole state,
    also one that is cut into pieces.
    """
    lines = [os.urandom(40).hex() for _ in range(8000)]
    rows.write_text("\n".join([*lines, f"token {TOKEN}", *lines]))
    project.gitcp("save", "one", "--session", "s", check=0)
    found = checkpoint_scan.findings(open_store(project), [tip(project)])
    assert {(each.place, each.path.startswith(PLACE.encode())) for each in found} == {
        ("state", True)
    }
    bundle = project.root.parent / "x.bundle"
    project.gitcp("export", "--format", "bundle", "-o", str(bundle), check=15)
    project.gitcp("doctor", "--store", check=0)
    project.gitcp("purge", "--text", "-", "--yes", input=TOKEN, check=0)
    (state,) = project.json("show")["states"]
    assert state["missing"] == "it contained text that was purged or redacted"
    assert not project.git("ls-tree", "-r", tip(project), PLACE)
    project.gitcp("doctor", "--store", check=0)
    project.gitcp("export", "--format", "bundle", "-o", str(bundle), check=0)


def test_from_elsewhere(project: Project, rows: Path, tmp_path: Path) -> None:
    """A fetched state is verified, and given to no command before it is trusted."""
    project.gitcp("save", "one", "--session", "s", check=0)
    bundle = tmp_path / "x.bundle"
    project.gitcp("export", "--format", "bundle", "-o", str(bundle), check=0)
    other = Project(tmp_path / "other")
    other.write("a", "1\n")
    other.commit()
    other.gitcp("import", str(bundle), check=0)
    rows.write_text("row 2\n")
    revision = "imported/s@1"
    refused = other.gitcp("restore", revision, "--state", "--yes")
    assert refused.code != 0
    assert f"{PLACE}  content that --state would give to your own command" in refused.err
    assert rows.read_text() == "row 2\n"
    other.gitcp("restore", revision, "--state", "--yes", "--trust", check=0)
    assert rows.read_text() == "row 1\n"
