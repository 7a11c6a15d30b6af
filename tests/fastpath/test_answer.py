"""The first stage says "nothing changed" without loading anything, and only where the command would
say it too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gitcp.adapters import claude_code

from driver import SOURCE, Project

SESSION = "11111111-2222-4333-8444-555555555555"
LINE = (
    b'{"type":"user","uuid":"u%d","sessionId":"%s","message":{"role":"user","content":"hello"}}\n'
)


def transcript(project: Project) -> Path:
    """Where the agent keeps its session of this project."""
    home = Path(os.environ["HOME"])
    return (
        home
        / ".claude/projects"
        / claude_code.directory_name(str(project.root))
        / f"{SESSION}.jsonl"
    )


@pytest.fixture
def remembered(project: Project) -> Project:
    """A project with a conversation, saved, in which the first stage answers."""
    project.write("a.txt", "one\n")
    project.write("dir/b.txt", "two\n")
    project.write(".gitignore", "*.log\n")
    project.commit()
    path = transcript(project)
    path.parent.mkdir(parents=True)
    path.write_bytes(LINE % (1, SESSION.encode()))
    project.gitcp("save", check=0)
    for _ in range(5):
        time.sleep(0.05)
        project.gitcp("save", check=0)
    assert (project.git_dir / "gitcp/unchanged").exists()
    assert not loads_click(project)
    return project


def loads_click(project: Project, *options: str) -> bool:
    """Whether `gitcp save` gets as far as the command line proper."""
    command = [sys.executable, "-X", "importtime", "-m", "gitcp", "save", *options]
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        command, cwd=project.root, env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(("nothing changed since ", "saved ", "{")) or {
        "-q",
        "--quiet",
    } & {*options}
    return any(
        line.rpartition("|")[2].strip() in ("click", "gitcp.saving.save")
        for line in done.stderr.splitlines()
    )


def test_what_is_loaded() -> None:
    """The first stage, for saves and for hooks, loads what it is made of and little else; the
    protocol of watchers is no part of it where nothing watches.
    """
    code = "import sys; from gitcp.fastpath import hook_memo; print(*sys.modules)"
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"import sys; sys.path.insert(0, {str(SOURCE)!r}); {code}",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split())

    packages = {name.removeprefix("gitcp.") for name in loaded if name.startswith("gitcp.")}
    assert not {"re", "socket", "struct", "subprocess", "typing"} & loaded
    assert {name for name in packages if not name.startswith(("fastpath", "policy"))} == {
        *("agents", "clock", "discovery", "fingerprint", "regular", "trusted_cache", "user_state"),
    }
    assert not {"fastpath.mounts", "fastpath.watch_ipc"} & packages


OPTIONS = [
    ("-q",),
    ("--session", "11111111"),
    ("--session=11111111", "--quiet"),
    ("--conversation", "talk.jsonl", "--session", "talk"),
    ("--fact", "database=sqlite", "--phase", "plan"),
    ("--include", "*.log", "--agent", "claude-code"),
    ("--json",),
]


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_whatever_the_options(remembered: Project, options: tuple[str, ...]) -> None:
    """The same options are answered the same way, without loading anything; other ones are not, and
    no change is.
    """
    remembered.write("talk.jsonl", LINE % (1, SESSION.encode()))
    remembered.gitcp("save", *options, check=0)
    for _ in range(3):
        time.sleep(0.05)
        slow = remembered.gitcp("save", *options, check=0)
    assert not loads_click(remembered, *options)
    assert remembered.gitcp("save", *options, check=0) == slow

    assert loads_click(remembered, *options, "--position", "record=7")
    assert loads_click(remembered, *options, "a label")
    same_size(remembered)
    assert loads_click(remembered, *options)
    last = remembered.json("show", *(("talk",) if "talk" in options else ()))
    assert last["files"]["changed"] == 1


def test_json_names_the_tags(remembered: Project) -> None:
    """A document says which tags a checkpoint has now, also after one was made or removed."""
    for _ in range(3):
        time.sleep(0.05)
        remembered.gitcp("save", "--json", check=0)
    assert not loads_click(remembered, "--json")

    remembered.gitcp("tag", "works", check=0)
    with_tag = remembered.json("save")["checkpoint"]["tags"]
    remembered.gitcp("tag", "--delete", "works", check=0)
    without = remembered.json("save")["checkpoint"]["tags"]

    assert (with_tag, without) == (["works"], [])


@pytest.mark.parametrize("options", [("--force",), ("--tag", "again"), ("a label",)])
def test_what_makes_a_checkpoint_each_time(remembered: Project, options: tuple[str, ...]) -> None:
    """Nothing of it is ever answered for."""
    for number in range(3):
        tagged = [f"{word}-{number}" if word == "again" else word for word in options]
        assert remembered.gitcp("save", *tagged, check=0).out.startswith("saved ")
        time.sleep(0.05)


def test_a_file_given_by_hand_that_goes_on(remembered: Project) -> None:
    """Also where it is replaced by one of the same size, and where it goes."""
    talk = remembered.root.parent / "talk.jsonl"
    talk.write_bytes(LINE % (1, SESSION.encode()))
    save = ("save", "--session", "talk", "--conversation", str(talk))
    for _ in range(4):
        time.sleep(0.05)
        remembered.gitcp(*save, check=0)
    assert not loads_click(remembered, *save[1:])
    other = talk.with_name("other")
    other.write_bytes(LINE % (2, SESSION.encode()))
    other.rename(talk)
    assert remembered.gitcp(*save, check=0).out.startswith("saved talk@2")
    talk.unlink()
    assert remembered.gitcp(*save).code != 0


def test_what_is_left_out_is_said_each_time(remembered: Project) -> None:
    """Also where nothing is loaded."""
    os.mkfifo(remembered.root / "pipe")
    for _ in range(4):
        time.sleep(0.05)
        said = remembered.gitcp("save", check=0).out
    assert "not saved: pipe" in said
    assert not loads_click(remembered)
    assert remembered.gitcp("save", check=0).out == said


ONCE = """
import sys
from gitcp.worktree import snapshot
def again(*_):
    raise AssertionError("the tree is looked at a second time")
snapshot.compare = again
from gitcp.__main__ import main
sys.argv = ["gitcp", *sys.argv[1:]]
main()
"""


@pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="on one processor nothing is looked at ahead"
)
def test_a_file_given_by_hand_costs_no_second_look(remembered: Project) -> None:
    """What was seen while modules were loading is good for it."""
    talk = remembered.root.parent / "talk.jsonl"
    talk.write_bytes(LINE % (1, SESSION.encode()))
    same_size(remembered)
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-c", ONCE, "save", "--session", "talk", "--conversation", str(talk)]
    done = subprocess.run(command, cwd=remembered.root, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout[:6]) == (0, "saved "), done
    assert remembered.git("show", "refs/gitcp/sessions/talk:a.txt") == "two"


def same_size(project: Project) -> None:
    stat = os.stat(project.root / "a.txt")
    project.write("a.txt", "two\n")
    os.utime(project.root / "a.txt", ns=(stat.st_atime_ns, stat.st_mtime_ns))


def renamed_over(project: Project) -> None:
    project.write("x.log", "new\n")
    os.rename(project.root / "x.log", project.root / "a.txt")


def mode(project: Project) -> None:
    os.chmod(project.root / "a.txt", 0o755)


def created(project: Project) -> None:
    project.write("dir/new.txt", "new\n")


def removed(project: Project) -> None:
    project.remove("dir/b.txt")


def no_longer_ignored(project: Project) -> None:
    project.write(".gitignore", "")


def committed(project: Project) -> None:
    project.git("commit", "--quiet", "--allow-empty", "--message", "empty")


def branch(project: Project) -> None:
    project.git("symbolic-ref", "HEAD", "refs/heads/other")


def untracked_now(project: Project) -> None:
    project.git("rm", "--quiet", "--cached", "a.txt")


def a_turn(project: Project) -> None:
    with transcript(project).open("ab") as file:
        file.write(LINE % (2, SESSION.encode()))


def a_sub_agent(project: Project) -> None:
    path = transcript(project).with_suffix("") / "subagents/agent-1.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(LINE % (3, SESSION.encode()))


def excluded(project: Project) -> None:
    (project.root / "keep.log").write_text("now captured\n")
    project.git("config", "gitcp.include", "*.log")


CHANGES = [
    same_size,
    renamed_over,
    mode,
    created,
    removed,
    no_longer_ignored,
    committed,
    branch,
    untracked_now,
    a_turn,
    a_sub_agent,
    excluded,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_every_change_is_noticed(remembered: Project, change: Callable[[Project], None]) -> None:
    """Whatever a checkpoint would hold, a change to it is saved."""
    change(remembered)
    assert remembered.gitcp("save", check=0).out.startswith("saved ")


LIGHT = """
import sys
sys.argv = ["gitcp", *sys.argv[1:]]
import os
def leave(code):
    heavy = "rich orjson dataclasses asyncio gitcp.policy.triggers".split()
    heavy = set(heavy) & sys.modules.keys()
    sys.stdout.write(f"heavy: {sorted(heavy)}")
    sys.stdout.flush()
    os.kill(os.getpid(), 9)
os._exit = leave
from gitcp.__main__ import main
main()
"""


@pytest.mark.parametrize("args", [["save"], ["save", "a label"], ["save", "-q"]])
def test_a_plain_save_loads_nothing_heavy(project: Project, args: list[str]) -> None:
    """Nothing that takes as long as the command line's library: it is the module list that
    counts.
    """
    project.write("a.txt", "one\n")
    project.gitcp("save", check=0)
    project.write("a.txt", "two\n")
    transcript(project).parent.mkdir(parents=True)
    transcript(project).write_bytes(LINE % (1, SESSION.encode()))
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [sys.executable, "-c", LIGHT, *args],
        cwd=project.root,
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.stdout.endswith("heavy: []"), done


def test_an_error_is_said_as_ever(tmp_path: Path) -> None:
    """The short way has the exit codes and hints of the long one."""
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [sys.executable, "-m", "gitcp", "save"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (10, "")
    assert done.stderr.startswith("error: no git repository at ")


def another_session(project: Project) -> None:
    other = transcript(project).with_name("99999999-2222-4333-8444-555555555555.jsonl")
    other.write_bytes(LINE % (1, b"99999999-2222-4333-8444-555555555555"))


def test_a_second_conversation_is_noticed(remembered: Project) -> None:
    """A new candidate is not passed over because nothing else changed."""
    another_session(remembered)
    os.utime(transcript(remembered), (1, 1))
    assert "99999999@1" in remembered.gitcp("save", check=0).out


def test_another_environment_is_another_answer(remembered: Project) -> None:
    """The agent that runs us is part of the question."""
    said = remembered.gitcp("save", env={"CLAUDE_CODE_SESSION_ID": SESSION}, check=0)
    assert "claude-code is running this" in said.out


def test_an_unfinished_restore_is_still_mentioned(remembered: Project) -> None:
    """The note that other commands print is not lost."""
    fields = '{"schema":"gitcp.journal/1","target":"11111111@1","safety":"11111111@1","paths":[],'
    (remembered.git_dir / "gitcp/restore.json").write_text(
        fields + '"files":true,"conversation":true,"index":false}'
    )
    assert "restore" in remembered.gitcp("save").err


@pytest.mark.parametrize("name", ["unchanged", "worktree-state"])
@pytest.mark.parametrize("content", [None, b"", b"garbage"])
def test_without_its_files_the_command_decides(
    remembered: Project, name: str, content: bytes | None
) -> None:
    """Damaged or gone, they cost time and nothing else."""
    path = remembered.git_dir / "gitcp" / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert remembered.gitcp("save", check=0).out.startswith("nothing changed since 11111111@1")
    remembered.write("a.txt", "changed\n")
    assert remembered.gitcp("save", check=0).out.startswith("saved 11111111@2")


def test_it_says_what_the_command_says(remembered: Project) -> None:
    """The same words, and nothing with -q."""
    quick = remembered.gitcp("save", check=0).out
    (remembered.git_dir / "gitcp/unchanged").unlink()
    assert remembered.gitcp("save", check=0).out == quick
    assert remembered.gitcp("save", "-q", check=0).out == ""


@pytest.mark.parametrize("end", ["-", "/dev/stdin"])
def test_files_that_change_while_a_conversation_arrives(remembered: Project, end: str) -> None:
    """In `agent | gitcp save --conversation -` both begin at once: what the agent did until its end
    is saved.
    """
    command = [
        sys.executable,
        "-P",
        "-m",
        "gitcp",
        "save",
        "--session",
        "piped",
        "--conversation",
        end,
    ]
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(command, cwd=remembered.root, env=env, stdin=subprocess.PIPE) as saving:
        assert saving.stdin is not None
        # more than a pipe holds: it is reading
        saving.stdin.write(LINE % (4, SESSION.encode()) * 10_000)
        same_size(remembered)
        saving.stdin.close()
    assert saving.returncode == 0
    assert remembered.git("show", "refs/gitcp/sessions/piped:a.txt") == "two"
