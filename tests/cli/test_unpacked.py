"""A directory from an archive, with a git directory that a stranger prepared: no command runs a
program of its settings, connects to an address, or sends anything; saving works as anywhere.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
import zlib
from pathlib import Path
from typing import NamedTuple

import launch
import named_programs
import pytest
from named_programs import Marks
from terminal import on_terminal

from gitcp.cli.commands import FORMS, NAMES

from driver import Project

ID = "aaaaaaaa-1111-2222-3333-aaaaaaaaaaaa"

TRIED: dict[str, tuple[str, ...]] = {
    "save": ("save one --session s", "save two --session s --include *", "save --force"),
    "log": ("log", "log -p", "log --stat", "log --graph --all", "log --table"),
    "show": ("show s@1", "show @:a", "show s@1 --conversation", "show s@1 --files"),
    "diff": ("diff", "diff --stat", "diff s@1 s@2", "diff s@1 s@2 --stat"),
    "status": ("status",),
    "adapters": ("adapters",),
    "adapters check": ("adapters check kimi",),
    "sessions": ("sessions", "sessions --worktrees"),
    "why": ("why a", "why a:1"),
    "find": ("find old", "find -E --in prompts,answers,files o.d"),
    "log --operations": ("log --operations",),
    "sessions --size": ("sessions --size",),
    "sessions --tokens": ("sessions --tokens",),
    "bisect": ("bisect run --session s -- false",),
    "restore": (
        "restore s@1 --state --yes --whole-tree",
        "restore s@1 --yes --whole-tree",
        "restore s@1 --to ../out --yes",
        "restore s@1 --index --yes --whole-tree",
    ),
    "rollback": ("rollback --yes --whole-tree",),
    "undo": ("undo --whole-tree --yes",),
    "redo": ("redo --whole-tree --yes",),
    "revert": ("revert s@2 --yes",),
    "resume": ("resume s@1 --print",),
    "tag": ("tag t1", "tag"),
    "note": ("note --task x", "note --edit", "note --show"),
    "run": ("run x -- true", "run --recover", "run x --rollback -- false"),
    "run --compensations": ("run --compensations --list",),
    "view": ("view s -o ../v.html",),
    "export": (
        "export s --allow-filtered -o ../x.bundle",
        "export s -f json",
        "export s -f markdown",
    ),
    "import": ("import ../x.bundle", "import --dry-run"),
    "review": ("review --session s -o ../r.md", "review base..main -o ../r2.md"),
    "publish": (
        "publish s@2 --branch pub --yes",
        "publish s@2 --branch pub --redact --force --yes",
    ),
    "push --scan": ("push --scan", "push --scan --all"),
    "doctor --store": ("doctor --store", "doctor --store --all"),
    "doctor --state": ("doctor --state",),
    "fork": ("fork s@1 --name f", "fork s@1 --worktree ../forked"),
    "fork --remove": ("fork --remove ../forked",),
    "sessions rename": ("sessions rename f g",),
    "delete": ("delete g --yes",),
    "purge": ("purge --text nothing-like-this --yes",),
    "delete --old": ("delete --old --keep-last 1 --yes",),
    "remote": ("remote",),
    "enable": ("enable claude --dry-run", "enable claude --yes"),
    "disable": ("disable claude --yes",),
    "init": ("init",),
    "doctor": ("doctor",),
    "mcp": ("mcp",),
    "completion": ("completion bash",),
    "help": ("help save", "help --all"),
}
ENDED = {
    "adapters check kimi": 2,  # there is no such file
    "bisect run --session s -- false": 12,
    "revert s@2 --yes": 12,  # it was changed again
    "restore s@1 --state --yes --whole-tree": 12,  # no command of the user's
    "resume s@1 --print": 1,  # nobody's conversation
    "run --recover": 12,  # there is none
    "run x --rollback -- false": 1,
    "doctor": 1,
    "doctor --state": 1,  # as above: the command is a stranger's
}
"""The exit codes of those that do not end with 0."""

ELSEWHERE = {"ui", "watch", "push", "fetch", "hook", "demo"}
"""Tried below; `demo` works in a directory of its own."""

PROMISOR = """
[core]
	repositoryFormatVersion = 1
[extensions]
	partialClone = origin
[remote "origin"]
	promisor = true
	partialclonefilter = blob:none
"""

EVENTS = (
    *("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PreCompact", "Stop"),
    "SessionEnd",
)


class Delivered(NamedTuple):
    """What was unpacked, and where its programs leave their marks."""

    project: Project
    marks: Marks


@pytest.fixture(params=["git", "own", "partial"])
def delivered(request: pytest.FixtureRequest, tmp_path: Path, sealed: Path) -> Delivered:
    """An unpacked directory: with `.git`; without, with a store of gitcp's; or with the `.git` of a
    partial clone that lacks objects.
    """
    origin = Project(tmp_path / "stranger", own_store=request.param == "own")
    marks = Marks(tmp_path / "marks")
    _work(origin, tmp_path)
    url = f"ext::{marks.touch('url')}"
    _consent(origin.git_dir, url)
    if request.param == "partial":
        _lose_objects(origin)
    named_programs.plant_hooks(origin.git_dir, marks)
    shutil.rmtree(sealed / ".local", ignore_errors=True)  # it is on the stranger's machine
    shutil.copytree(origin.root, tmp_path / "unpacked", symlinks=True)
    found = Project(tmp_path / "unpacked", own_store=request.param == "own")
    with found.git_dir.joinpath("config").open("a") as file:
        file.write(named_programs.config(marks, url) + '[remote "origin"]\n\tgitcp = true\n')
        file.write(PROMISOR if request.param == "partial" else "")
    return Delivered(found, marks)


def _work(origin: Project, tmp_path: Path) -> None:
    origin.write("a", "a\n" * 50)
    origin.write("b.txt", "b\r\n")
    origin.write("old", "old\n")
    origin.write(".gitattributes", named_programs.ATTRIBUTES + "*.txt text eol=crlf ident\n")
    origin.git("add", "-A")
    origin.commit("one")
    origin.git("branch", "base")
    origin.write("a", "a\n" * 51)
    origin.git("add", "-A")
    origin.commit("two")
    tmp_path.joinpath("talk.jsonl").write_text(_line("old", origin.root))
    origin.gitcp("save", "one", "--session", "s", "--conversation", "../talk.jsonl", check=0)
    origin.write("a", "a\n" * 52)
    origin.gitcp("save", "two", "--session", "s", check=0)
    # what an interrupted run would run when it is finished
    run = ("run", "x", "--rollback", "--compensate", f"touch {tmp_path}/marks/compensation")
    origin.gitcp(*run, "--session", "s", "--", "true", check=0)
    journal = {
        "schema": "gitcp.run-journal/1",
        "name": "abc",
        "label": "x",
        "before": "s@2",
        "rollback": True,
        "command": ["true"],
        "order": 1,
        "failed": None,
    }
    runs = origin.git_dir / "gitcp" / "runs"
    runs.mkdir(exist_ok=True)
    runs.joinpath("abc.json").write_text(json.dumps(journal))


def _consent(git_dir: Path, url: str) -> None:
    """Forge the consent to pushes in the background."""
    fields = {
        "schema": "gitcp.push-consent/1",
        "policy": "always",
        "url": hashlib.sha256(url.encode()).hexdigest(),
        "since": "2020-01-01T00:00:00Z",
    }
    file = git_dir / "gitcp" / "push" / f"origin.{os.geteuid()}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(fields))
    file.chmod(0o600)


def _lose_objects(origin: Project) -> None:
    for name in ("HEAD:old", "base:a"):
        oid = origin.git("rev-parse", name)
        origin.git_dir.joinpath("objects", oid[:2], oid[2:]).unlink(missing_ok=True)


def _line(text: str, directory: Path) -> str:
    """Return a line of a transcript."""
    fields = {
        "type": "user",
        "message": {"role": "user", "content": text},
        "parentUuid": None,
        "uuid": f"{zlib.crc32(text.encode()):08x}-0000-0000-0000-000000000000",
        "sessionId": ID,
        "cwd": str(directory),
        "timestamp": "2026-01-01T00:00:00.000Z",
        "version": "2.0.0",
    }
    return json.dumps(fields) + "\n"


def _hooked(project: Project, event: str) -> None:
    transcript = Path(os.environ["HOME"]) / ".claude/projects/x" / f"{ID}.jsonl"
    transcript.parent.mkdir(parents=True, exist_ok=True)
    with transcript.open("a") as file:
        file.write(_line(event, project.root))
    payload = {
        "session_id": ID,
        "transcript_path": str(transcript),
        "cwd": str(project.root),
        "hook_event_name": event,
        "prompt": "x",
        "tool_name": "Bash",
        "tool_use_id": "t",
        "tool_input": {"command": "git reset --hard"},
    }
    project.gitcp("hook", "claude", event, input=json.dumps(payload), check=0)


def test_no_setting_is_forgotten() -> None:
    """Each setting that git documents and that looks as if it named a program is tried."""
    assert named_programs.forgotten() == []


def test_no_command_is_forgotten() -> None:
    """Each command is tried."""
    assert TRIED.keys() | ELSEWHERE == {*NAMES, *FORMS}


def test_nothing_is_run(delivered: Delivered) -> None:
    """Whatever is typed, and whatever an agent's hooks save: no program of a stranger's runs."""
    project, marks = delivered
    for event in EVENTS:
        project.write("a", event)
        _hooked(project, event)
        assert not marks.left(), event
    refused = project.gitcp("secrets", "--session", "s")
    assert "gitcp.secretScanner is set in this repository's own configuration" in refused.err
    project.git("config", "--unset", "gitcp.secretScanner")
    _run_first(project, marks)
    for typed in (line for lines in TRIED.values() for line in lines):
        project.write("a", typed)
        done = project.gitcp(*typed.split(), env={"EDITOR": "true", "GIT_EDITOR": ""})
        assert not marks.left(), typed
        if "publish" in typed and not project.where:
            assert "the filter evil is set in this repository's own configuration" in done.err
        else:
            assert done.code == ENDED.get(typed, 0), (typed, done.err)
        assert "Traceback" not in done.err, (typed, done.err)
    assert "one" in project.gitcp("log", "s", check=0).out
    time.sleep(1)  # what was started in the background
    assert not marks.left()


def _run_first(project: Project, marks: Marks) -> None:
    """Try to finish the interrupted run that the archive brought, and remove it as it is said."""
    for typed in ("run x -- true", "run --recover", "run x --rollback -- false"):
        said = project.gitcp(*typed.split()).err
        assert "gitcp does not finish it" in said
        assert not marks.left(), typed
    subprocess.run(["sh", "-c", said.partition("then: ")[2].partition("\n")[0]], check=True)
    assert not list(project.git_dir.glob("gitcp/runs/*.json"))


def test_nothing_is_run_on_a_terminal(delivered: Delivered, tmp_path: Path) -> None:
    """Neither is a pager or an editor that the settings name."""
    project, marks = delivered
    env = {"PAGER": "cat", "EDITOR": "true", "GIT_EDITOR": "", "VISUAL": ""}
    for typed in ("log", "show s@1", "diff", "note --edit", "help save", "sessions", "oplog"):
        on_terminal(project, *typed.split(), env=env)
        assert not marks.left(), typed
    on_terminal(project, "ui", typed="q", env=env)
    ready = tmp_path / "ready"
    ready.touch()
    on_terminal(project, "watch", "--quiet", "0.2", interrupt=ready, env=env)
    assert not marks.left()


def test_nothing_is_sent(delivered: Delivered) -> None:
    """A store that is not recorded as the user's sends nothing, even if it is told to, and says
    how to change that. In a repository of git's, an explicit push is git's affair.
    """
    project, marks = delivered
    if not project.where:
        return
    for typed in ("push origin --yes", "fetch origin", "fetch origin --no-files"):
        refused = project.gitcp(*typed.split())
        assert refused.code
        assert "not recorded as yours" in refused.err
        assert "gitcp init --trust" in refused.err
    assert "gitcp init --trust" in project.gitcp("init", check=0).err
    assert not marks.left()


def test_where_it_is_recorded(tmp_path: Path) -> None:
    """A store that was created here can send. A copy and a moved one cannot, until told so."""
    hub = Project(tmp_path / "hub", own_store=False).git_dir
    made = Project(tmp_path / "made", own_store=True)
    made.write("a", "a\n")
    made.gitcp("save", "one", "--session", "s", check=0)
    made.gitcp("remote", "hub", str(hub), check=0)
    made.gitcp("push", "hub", "--session", "s", check=0)
    made.root.rename(tmp_path / "moved")
    shutil.copytree(tmp_path / "moved", tmp_path / "copy")
    for name in ("moved", "copy"):
        other = Project(tmp_path / name, own_store=True)
        other.gitcp("save", name, "--session", "s", check=0)
        assert "gitcp init --trust" in other.gitcp("push", "hub", "--session", "s").err

        other.gitcp("init", "--trust", check=0)

        assert "not recorded" not in other.gitcp("push", "hub", "--session", "s").err


def test_a_state_directory_that_cannot_be_written(tmp_path: Path, sealed: Path) -> None:
    """It is said; everything is saved all the same."""
    sealed.joinpath(".local").write_text("in the way")
    root = tmp_path / "project"
    root.mkdir()
    project = Project(root, own_store=False) if root.joinpath(".git").exists() else None
    assert project is None
    os.environ.pop("XDG_STATE_HOME", None)
    first = _gitcp(root, "init")
    root.joinpath("a").write_text("a\n")
    second = _gitcp(root, "save", "one")

    assert first.code == second.code == 0
    assert "cannot be written" in first.err
    assert "saved" in second.out


def _gitcp(root: Path, *args: str) -> launch.Result:
    return launch.run_gitcp(args, root, {}, b"")
