"""`gitcp run`: the command is run as if by itself, and what it did is recorded; what failed goes
back.
"""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from terminal import on_terminal

from driver import SOURCE, Project

SCRIPT = "echo x > a.txt; rm b.txt; mkdir d; echo z > d/z; exit 7"


@pytest.fixture
def shop(project: Project) -> Project:
    """A project with a commit and an untracked file."""
    project.write("a.txt", "one\n")
    project.commit()
    project.write("b.txt", "two\n", mode=0o755)
    return project


def effects(project: Project) -> list[str]:
    """The lines that compensations wrote, outside of the project."""
    path = project.root.parent / "effects"
    return path.read_text().splitlines() if path.exists() else []


def start(project: Project, *args: str) -> subprocess.Popen[bytes]:
    """Start `gitcp ARGS`."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "gitcp", *args],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until it holds, with a generous deadline."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def last_number(project: Project) -> int:
    """The number of the last checkpoint."""
    return int(project.json("show", "@")["number"])


# ---------------------------------------------------------------- what it runs


def test_success(shop: Project) -> None:
    """Output, errors and exit code are the command's; a checkpoint before and one after say what
    was run.
    """
    with shop.guard():
        done = shop.gitcp(
            "run", "build", "--", "sh", "-c", "echo out; echo err >&2; echo made > made.txt"
        )

    assert (done.code, done.out) == (0, "out\n")
    assert "err\n" in done.err
    before, after = shop.json("show", "@~1"), shop.json("show", "@")
    assert (before["label"], before["trigger"], before["run"]) == (
        "before build",
        "before-risky-change",
        None,
    )
    assert (after["label"], after["files"]["changed"]) == ("build", 1)
    run = after["run"]
    assert (run["exit_code"], sorted(run["output"].split())) == (0, ["err", "out"])
    assert run["command"][:2] == ["sh", "-c"]
    assert "exit code 0" in shop.gitcp("show", check=0).out


def test_failure_without_rollback(shop: Project) -> None:
    """The exit code is passed on, what was tried is written down, and the files stay as they
    are.
    """
    done = shop.gitcp(
        "run", "build", "--compensate", "echo undone >> ../effects", "--", "sh", "-c", SCRIPT
    )

    assert (done.code, shop.read("a.txt")) == (7, b"x\n")
    assert effects(shop) == []
    shown = shop.json("show", "@")
    assert shown["label"] == "build: failed"
    (failed,) = shown["handoff"]["failed"]
    assert failed.startswith("build: sh -c echo x > a.txt")
    assert "exited with 7" in failed
    assert "gitcp restore" in done.err


def test_rollback_in_part(shop: Project) -> None:
    """What was not captured is not removed for what was, and then it is not said that the files are
    back.
    """
    shop.write(".gitignore", "*.log\n")
    script = "rm a.txt; mkdir a.txt; echo x > a.txt/kept.log; exit 7"
    done = shop.gitcp("run", "try", "--rollback", "--", "sh", "-c", script)

    assert done.code == 7
    assert "restored some files of" in done.err
    assert "a.txt/kept.log is not captured" in done.err
    assert shop.read("a.txt/kept.log") == b"x\n"


def test_rollback(shop: Project) -> None:
    """Files go back byte for byte, and only those that changed; compensations run once, the last
    one first.
    """
    shop.write("same.txt", "same\n")
    files, inode = shop.files(), os.stat(shop.path("same.txt")).st_ino
    compensations = (
        "--compensate",
        "echo first >> ../effects",
        "--compensate",
        "echo second >> ../effects",
    )

    with shop.guard():
        done = shop.gitcp(
            "run",
            "try",
            "--rollback",
            *compensations,
            "--",
            "sh",
            "-c",
            f"echo no disk >&2; {SCRIPT}",
        )

    assert done.code == 7
    assert shop.files() == files
    assert os.stat(shop.path("same.txt")).st_ino == inode
    assert effects(shop) == ["second", "first"]
    shown = shop.json("show", "@")
    assert (shown["trigger"], shown["restored_from"]) == (
        "restore",
        shop.json("show", ":/before try")["id"],
    )
    assert shown["handoff"]["failed"][0].endswith("no disk")
    listed = shop.json("compensate", "--list")["compensations"]
    assert [(each["command"], each["outcome"]) for each in listed] == [
        ("echo second >> ../effects", "done"),
        ("echo first >> ../effects", "done"),
    ]
    assert shop.gitcp("undo", "--yes").code == 0
    assert shop.read("a.txt") == b"x\n"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["no-such-program"], 127),
        (["."], 126),
        (["sh", "-c", "kill -KILL $$"], 137),
        (["sh", "-c", "kill -TERM $$"], 143),
        (["sh", "-c", "exit 255"], 255),
    ],
    ids=["missing", "directory", "killed", "terminated", "255"],
)
def test_exit_codes(shop: Project, command: list[str], code: int) -> None:
    """An end that a shell would report, as a shell reports it."""
    assert shop.gitcp("run", "it", "--rollback", "--", *command).code == code
    assert shop.json("show", ":/failed")["run"]["exit_code"] == code


def test_nested(shop: Project) -> None:
    """What succeeded inside of what fails is compensated and goes back with it, also where the
    session was named.
    """
    files = shop.files()
    inner = (
        f"{sys.executable} -P -m gitcp run inner --compensate 'echo inner >> ../effects' -- sh -c "
        "'echo i > i.txt'"
    )
    save = f"{sys.executable} -P -m gitcp save effect --compensate 'echo saved >> ../effects'"
    outer = ("--session", "work", "--rollback", "--compensate", "echo outer >> ../effects")

    done = shop.gitcp("run", "outer", *outer, "--", "sh", "-c", f"{inner} && {save} && exit 5")

    assert done.code == 5, done
    assert shop.files() == files
    assert effects(shop) == ["saved", "inner", "outer"]
    assert [line["session"] for line in shop.json_lines("sessions")] == ["work"]


def test_what_it_leaves_running(shop: Project) -> None:
    """A command that leaves something running in the background, with our pipes, is over when it is
    over.
    """
    begun = time.monotonic()
    done = shop.gitcp("run", "serve", "--", "sh", "-c", "sleep 60 & echo started", check=0)

    assert done.out == "started\n"
    assert time.monotonic() - begun < 50


def test_much_output(shop: Project) -> None:
    """Everything is passed through, byte for byte; only the end is kept."""
    program = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 4000 + b'\\nthe end\\n')"
    done = subprocess.run(
        [sys.executable, "-P", "-m", "gitcp", "run", "much", "--", sys.executable, "-c", program],
        cwd=shop.root,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )

    assert done.stdout == bytes(range(256)) * 4000 + b"\nthe end\n"
    kept = shop.json("show", "@")["run"]["output"]
    assert kept.endswith("the end")
    assert len(kept) <= 4100


def test_input(shop: Project) -> None:
    """The command reads what we are given to read."""
    assert shop.gitcp("run", "copy", "--", "cat", input="typed\n", check=0).out == "typed\n"


def test_no_secrets(shop: Project) -> None:
    """Neither the environment nor the tokens in it are written down, in whatever the command says
    or is given.
    """
    env = {
        "SHOP_TOKEN": "hunter2-hunter2",
        "LESS_KNOWN": "not-a-secret",
        "GIT_AUTHOR_NAME": "A U Thor",
    }
    script = (
        "echo $SHOP_TOKEN; echo https://ada:pass@example.org/x; echo "
        "ghp_abcdefghijklmnopqrstuvwxyz0123; exit 1"
    )
    shop.gitcp(
        "run", "leak", "--rollback", "--", "sh", "-c", script, "hunter2-hunter2", env=env, check=1
    )

    stored = shop.git("cat-file", "--batch-all-objects", "--batch")
    assert "leak: failed" in stored
    for secret in ("hunter2", "ada:pass", "ghp_abc", "not-a-secret"):
        assert secret not in stored.replace(script, ""), secret
    assert "***@example.org" in shop.json("show", ":/failed")["run"]["output"]


def test_json(shop: Project) -> None:
    """With --json one document is on stdout, and the command's output among the talk."""
    done = shop.gitcp(
        "run",
        "try",
        "--rollback",
        "--compensate",
        "true",
        "--json",
        "--",
        "sh",
        "-c",
        f"echo hi; {SCRIPT}",
    )
    document = json.loads(done.out)

    assert done.code == 7
    assert "hi\n" in done.err
    assert (document["schema"], document["ok"], document["run"]["exit_code"]) == (
        "gitcp.run/1",
        False,
        7,
    )
    assert (document["written"], document["removed"]) == (["a.txt", "b.txt"], ["d/z"])
    assert [each["outcome"] for each in document["compensations"]] == ["done"]
    assert json.loads(shop.gitcp("run", "fine", "--json", "--", "true", check=0).out)["ok"]


@pytest.mark.parametrize(
    "args",
    [
        ["run"],
        ["run", "x"],
        ["run", "x", "--"],
        ["run", "--", "true"],
        ["run", "--recover", "x", "--", "true"],
    ],
)
def test_usage(shop: Project, args: list[str]) -> None:
    """Without a label and a command nothing is saved and nothing is run."""
    assert shop.gitcp(*args).code == 2
    assert shop.git("for-each-ref", "refs/gitcp") == ""


def test_options_of_the_command(shop: Project) -> None:
    """What follows -- is the command's, whatever it looks like."""
    assert (
        shop.gitcp("run", "say", "--", "echo", "--json", "--", "-h", check=0).out
        == "--json -- -h\n"
    )


# ---------------------------------------------------------------- terminal and signals


def test_terminal(shop: Project) -> None:
    """On a terminal the command has one too, of the same size, and reads what is typed."""
    script = 'test -t 0 && test -t 1 && test -t 2 && stty size && read line && echo "<$line>"'
    done = on_terminal(shop, "run", "ask", "--", "sh", "-c", script, typed="hello\n", columns=61)

    assert done.code == 0, done
    assert "50 61\n" in done.out
    assert "<hello>\n" in done.out
    assert "<hello>" in shop.json("show", "@")["run"]["output"]


def test_interrupt_on_terminal(shop: Project) -> None:
    """^C on the terminal is the command's; when it ends by that, it failed."""
    files = shop.files()
    script = "echo x > a.txt; sleep 100"
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-m",
            "gitcp",
            "run",
            "wait",
            "--rollback",
            "--",
            "sh",
            "-c",
            script,
        ],
        cwd=shop.root,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        # no threads here
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    os.close(theirs)
    wait_for(lambda: shop.read("a.txt") == b"x\n")
    os.write(ours, b"\x03")
    while True:
        try:
            if not os.read(ours, 4096):
                break
        except OSError:
            break
    os.close(ours)

    assert process.wait(60) == 130
    assert shop.files() == files


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals(shop: Project, number: signal.Signals) -> None:
    """A signal for us reaches the command, which may end as it likes; then its failure is dealt
    with.
    """
    files = shop.files()
    script = "trap 'echo got it; exit 9' TERM HUP; echo x > a.txt; while :; do sleep 0.05; done"
    process = start(shop, "run", "wait", "--rollback", "--", "sh", "-c", script)
    wait_for(lambda: shop.read("a.txt") == b"x\n")
    process.send_signal(number)
    out, err = process.communicate(timeout=60)

    assert process.returncode == 9, err
    assert out == b"got it\n"
    assert shop.files() == files


# ---------------------------------------------------------------- crashes


def crash(shop: Project, script: str, *options: str) -> None:
    """Kill `gitcp run` while its command runs, and then the command."""
    process = start(
        shop,
        "run",
        "crash",
        *options,
        "--",
        "sh",
        "-c",
        f"{script}; echo $$ > ../pid; exec sleep 100",
    )
    pid = shop.root.parent / "pid"
    wait_for(lambda: pid.exists() and pid.read_text().endswith("\n"))
    process.kill()
    process.communicate()
    assert "interrupted" not in shop.gitcp("status", check=0).err, (
        "what is running still was not cut off"
    )
    os.kill(int(pid.read_text()), signal.SIGKILL)
    pid.unlink()
    wait_for(lambda: "interrupted" in shop.gitcp("status", check=0).err)


def test_crash_is_found_and_finished(shop: Project) -> None:
    """A run that was killed is mentioned by every command, and finished by the next one as a
    failure.
    """
    files = shop.files()
    crash(
        shop,
        "echo x > a.txt; echo new > new.txt",
        "--rollback",
        "--compensate",
        "echo undone >> ../effects",
    )

    assert (
        "note: the run of crash was interrupted here; finish it with gitcp run --recover"
        in shop.gitcp("log").err
    )
    done = shop.gitcp("run", "next", "--", "cat", "a.txt", check=0)

    assert done.out == "one\n"
    assert "failed crash  (it was interrupted)" in done.err
    assert shop.files() == files
    assert effects(shop) == ["undone"]
    assert shop.json("show", "@")["handoff"]["failed"][0].endswith("was interrupted")
    assert "interrupted" not in shop.gitcp("log").err


def test_recover(shop: Project) -> None:
    """`gitcp run --recover` finishes it and runs nothing; where there is nothing, it says so."""
    assert shop.gitcp("run", "--recover").code == 12
    crash(shop, "echo x > a.txt")
    with shop.guard():
        done = shop.gitcp("run", "--recover", check=0)

    assert "the files are unchanged" in done.err
    assert shop.read("a.txt") == b"x\n"
    assert shop.gitcp("run", "--recover").code == 12


def test_a_run_that_reaches_out(shop: Project) -> None:
    """Which file a run is written down in is not for the file itself to say: no other one is
    removed.
    """
    shop.gitcp("save", "one", "--session", "s", check=0)
    runs = shop.git_dir / "gitcp/runs"
    runs.mkdir(exist_ok=True)
    fields = {
        "name": "../../other",
        "label": "x",
        "before": "s@1",
        "rollback": False,
        "command": [],
        "order": 1,
    }
    (runs / "x.json").write_text(json.dumps({**fields, "failed": None}))
    shop.git_dir.joinpath("other.json").write_text("mine")

    shop.gitcp("run", "--recover")

    assert shop.git_dir.joinpath("other.json").read_text() == "mine"
    assert (runs / "x.json").exists()


def test_damaged_file_of_a_run(shop: Project) -> None:
    """A file of a run that cannot be read is named, and nothing is begun over it."""
    shop.write(shop.git_dir / "gitcp/runs/x.json", "{")
    done = shop.gitcp("run", "it", "--", "touch", "ran")

    assert done.code == 13
    assert "x.json is damaged" in done.err
    assert not shop.root.joinpath("ran").exists()
