"""`gitcp doctor`: what is in place, what is not, and what to type next."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from talk import Talk

from gitcp.automation.install import command, health, trial
from gitcp.model import CheckpointId
from gitcp.policy import events
from gitcp.state import journal, settings
from gitcp.state.extent import Extent

from driver import SOURCE, Project
from samples import open_store


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A PATH with the system's programs, gitcp, and a Claude Code that can say its version."""
    bin = tmp_path / "bin"
    bin.mkdir()
    script(bin / "gitcp", f'exec {sys.executable} -m gitcp "$@"')
    script(bin / "claude", "echo '2.1.0 (Claude Code)'")
    monkeypatch.setenv("PATH", f"{bin}:/usr/local/bin:/usr/bin:/bin")
    return bin


def script(path: Path, text: str) -> None:
    """Write a program."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def doctor(project: Project, code: int) -> Any:
    """What it says to programs, and to people without failing."""
    assert project.gitcp("doctor", check=code).out
    return json.loads(project.gitcp("doctor", "--json", check=code).out)


def contents(directory: Path) -> dict[Path, bytes]:
    """Every file below a directory."""
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def trusts(project: Project, home: Path, level: str = "trusted") -> None:
    """Tell Codex whether it may run a project's hooks."""
    config = home / ".codex/config.toml"
    place = os.path.realpath(project.root)
    text = re.sub(rf'\n?\[projects."{re.escape(place)}"\]\n.*\n', "", config.read_text())
    config.write_text(f'{text}\n[projects."{place}"]\ntrust_level = "{level}"\n')


def test_a_checkpoint_that_git_sends(project: Project) -> None:
    """What rewrites history makes a tag of git's from one of gitcp's: it is named, with the command
    that removes it. A published branch and other tags are none.
    """
    project.write("a", "one\n")
    project.commit()
    project.git("tag", "v1")
    project.write("a", "two\n")
    project.gitcp("save", check=0)
    project.gitcp("tag", "t1", "-m", "a message", check=0)
    project.gitcp("publish", "--branch", "published", "--yes", check=0)
    assert doctor(project, 0)["problems"] == []

    exported = project.git("fast-export", "--all", "--signed-tags=strip").encode()
    project.git("fast-import", "--force", "--quiet", input=exported)
    project.git("branch", "kept", "refs/gitcp/tags/t1^{commit}")

    problems = doctor(project, 1)["problems"]
    assert [each["hint"] for each in problems] == [
        "git update-ref -d refs/heads/kept",
        "git update-ref -d refs/tags/refs/gitcp/tags/t1",
    ]
    assert "git push --tags sends its files and conversation" in problems[1]["what"]
    for each in problems:
        project.git(*each["hint"].split()[1:])
    assert doctor(project, 0)["problems"] == []
    project.gitcp("check", check=0)


def test_only_here(project: Project, tmp_path: Path) -> None:
    """A note, no problem, that checkpoints are lost with .git, until a remote gets them."""
    project.write("a", "one\n")
    project.commit()
    assert not any("deletes them, too" in note for note in doctor(project, 0)["notes"])
    project.gitcp("save", check=0)
    assert any("deletes them, too" in note for note in doctor(project, 0)["notes"])

    project.git("init", "-q", "--bare", str(tmp_path / "hub.git"))
    project.git("remote", "add", "hub", str(tmp_path / "hub.git"))
    project.gitcp("remote", "add", "hub", "--push", "always", check=0)

    assert not any("deletes them, too" in note for note in doctor(project, 0)["notes"])


def test_all_is_well(project: Project) -> None:
    """An agent that is enabled, a hook that saved: no problem; nothing is changed by looking."""
    project.gitcp("save", check=0)
    project.gitcp("enable", "claude", "--yes", check=0)
    project.write(project.git_dir / "gitcp/hooked/claude-code.e7baae82", "")
    os.utime(project.path(project.git_dir / "gitcp/hooked/claude-code.e7baae82"), (0, 1795000000))
    before, state = project.files(), contents(project.git_dir)

    with project.guard():
        said = doctor(project, 0)
    assert contents(project.git_dir) == state

    assert said["agents"] == [
        {
            "agent": "claude",
            "program": str(project.root.parent / "bin" / "claude"),
            "version": "2.1.0 (Claude Code)",
            "project": "yes",
            "user": "no",
            "last_hook": "2026-11-18T11:06:40Z",
        }
    ]
    assert (said["sessions"], said["checkpoints"], said["problems"]) == (1, 1, [])
    assert said["git"].startswith("git version")
    assert project.files() == before
    assert "no problems" in project.gitcp("doctor").out


def test_nothing_enabled(project: Project, tmp_path: Path, programs: Path) -> None:
    """Where no agent is enabled, it says how; outside of a repository it works too."""
    assert "gitcp enable" in project.gitcp("doctor", check=0).out
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert "no repository here" in project.gitcp("doctor", cwd=elsewhere, check=0).out
    (programs / "claude").unlink()
    assert "no agent with hooks is installed" in project.gitcp("doctor", check=0).out


def test_where_nothing_is_saved(
    project: Project, sealed: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project that Codex does not trust, a transcript in an unknown format, a full disk, no git:
    each is named.
    """
    project.gitcp("save", check=0)
    talk = Talk(project)
    talk.path.write_text('{"kind": "of tomorrow"}\n' * 4000)
    (programs / "codex").symlink_to("claude")
    project.gitcp("enable", "codex", "--yes", check=0)
    trusts(project, sealed)
    (unknown,) = (each["what"] for each in doctor(project, 1)["problems"])
    assert unknown.startswith(f"gitcp finds no message in {talk.path}, of claude-code")
    talk.path.unlink()
    project.gitcp("disable", "codex", "--yes", check=0)

    store = open_store(project)
    monkeypatch.setattr(health, "LEAST_FREE", 1 << 62)
    (problem,) = health.examine(store, project.root, store.repo.host).problems
    assert "saves may fail" in problem.what
    assert "git is not on your PATH" in str([*health._program_problems("gitcp", None, None)])


def test_a_project_without_trust(project: Project, sealed: Path, programs: Path) -> None:
    """Codex runs a project's hooks if the user has said that they trust it, in a linked worktree
    those of the main one. As seen with Codex 0.169.
    """
    project.write("a", "1\n")
    project.commit()
    (programs / "codex").symlink_to("claude")
    place = project.root.parent / "tree"
    project.git("worktree", "add", "--quiet", "--detach", str(place))
    tree = Project(place)
    for root in (project, tree):
        root.gitcp("enable", "codex", "--yes", check=0)
        (problem,) = doctor(root, 1)["problems"]
        config = sealed / ".codex/config.toml"
        asked = f"{config} does not say that you trust it; Codex asks when it is started there"
        assert problem["what"].endswith(f"so nothing is saved: {asked}")
        assert problem["hint"] == "gitcp enable codex --user"
    trusts(project, sealed)
    assert doctor(project, 0)["problems"] == doctor(tree, 0)["problems"] == []
    project.gitcp("disable", "codex", "--yes", check=0)
    (problem,) = doctor(tree, 1)["problems"]
    assert f"in a linked worktree it runs those of {project.root}, which" in problem["what"]
    tree.gitcp("enable", "codex", "--user", "--yes", check=0)
    tree.gitcp("disable", "codex", "--yes", check=0)
    assert doctor(tree, 0)["problems"] == []
    trusts(project, sealed, "untrusted")
    tree.gitcp("disable", "codex", "--user", "--yes", check=0)
    project.gitcp("enable", "codex", "--yes", check=0)
    (problem,) = doctor(project, 1)["problems"]
    assert problem["what"].endswith(f"{config} says that you do not trust it")


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("echo 'No module named gitcp' >&2; exit 1", "No module named gitcp"),
        ("exit 3", "it ended with exit code 3"),
        ("exit 0", "it answered nothing, as another program or an older gitcp does"),
        ("sleep 60", "no answer within 1 seconds"),
    ],
)
def test_hooks_that_do_not_reach_gitcp(
    project: Project, programs: Path, monkeypatch: pytest.MonkeyPatch, program: str, why: str
) -> None:
    """The installed command hides its errors: doctor runs it, and says what is behind."""
    project.gitcp("enable", "claude", "copilot", "gemini", "opencode", "--yes", check=0)
    store = open_store(project)
    assert health.examine(store, project.root, store.repo.host).problems == ()
    script(programs / "gitcp", program)
    monkeypatch.setattr(trial, "PATIENCE", 1)
    problems = health.examine(store, project.root, store.repo.host).problems
    settings = project.root / ".claude/settings.json"
    said = f"Claude Code saves nothing: its hook in {settings} does not reach gitcp: {why}"
    assert (problems[0].what, problems[0].hint) == (said, command.fix())
    assert len(problems) == 4


def test_hooks_with_a_path(project: Project, sealed: Path, programs: Path) -> None:
    """A gitcp that is gone is not one of another version. In a project's settings, which come with
    it, nothing but gitcp's own command is run.
    """
    settings = sealed / ".claude/settings.json"
    project.gitcp("enable", "claude", "--user", "--yes", check=0)
    gone = settings.read_text().replace("gitcp hook", "/gone/bin/gitcp hook")
    settings.write_text(gone)
    (problem,) = doctor(project, 1)["problems"]
    assert problem["what"].startswith(f"Claude Code saves nothing: its hook in {settings} does not")
    assert "/gone/bin/gitcp: not found" in problem["what"]
    assert problem["hint"] == "gitcp enable claude --user"
    project.gitcp("enable", "claude", "--user", "--yes", check=0)

    ran = project.root.parent / "ran"
    script(programs / "evil", f"touch {ran}")
    project.gitcp("disable", "claude", "--user", "--yes", check=0)
    project.gitcp("enable", "claude", "--yes", check=0)
    evil = project.read(".claude/settings.json").replace(b"gitcp hook", b"evil; gitcp hook")
    project.write(".claude/settings.json", evil)
    doctor(project, 1)
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(evil.decode())
    doctor(project, 1)
    assert not ran.exists()


def test_a_server_with_an_old_path(project: Project, sealed: Path, programs: Path) -> None:
    """Codex's app server keeps the PATH of its start. As Codex 0.169 notes it."""
    (programs / "codex").symlink_to("claude")
    project.gitcp("enable", "codex", "--yes", check=0)
    trusts(project, sealed)
    noted = sealed / ".codex/app-server-daemon/daemon.pid"
    noted.parent.mkdir()
    for path, number in (("/usr/bin:/bin", 1), (f"{programs}:/usr/bin", 0)):
        with subprocess.Popen(["/bin/sleep", "60"], env={"PATH": path}) as server:
            stat = Path("/proc", str(server.pid), "stat").read_text().rpartition(")")[2].split()
            for ticks in (int(stat[19]), 7):
                identity = {"bootId": "b", "startTicks": ticks}
                noted.write_text(json.dumps({"pid": server.pid, "processIdentity": identity}))
                is_known = ticks != 7
                problems = doctor(project, number * is_known)["problems"]
                said = [
                    f"(process {server.pid}) was started with a PATH without gitcp" in str(problems)
                ]
                assert said == [bool(number * is_known)]
            server.kill()


def test_what_is_exported_turns_no_hook_off(project: Project) -> None:
    """The variable that doctor sets counts where doctor runs a hook, and nowhere else."""
    project.write("a", "1\n")
    payload = json.dumps({"session_id": "e7baae82", "cwd": str(project.root), "prompt": "go"})
    env = {events.TRIAL: "1"}
    project.gitcp("hook", "claude", "UserPromptSubmit", input=payload, env=env, check=0)
    assert "\n1  " in project.gitcp("log", check=0).out


def test_every_trigger_is_off(project: Project) -> None:
    """Hooks that may save nothing are named."""
    project.gitcp("enable", "claude", "--yes", check=0)
    assert doctor(project, 0)["problems"] == []
    for name in settings.SECTIONS["triggers"]:
        project.git("config", f"gitcp.trigger.{name}", "false")
    (problem,) = doctor(project, 1)["problems"]
    assert problem["what"] == "hooks save nothing: the settings turn off every trigger"
    project.git(*problem["hint"].split()[1:])
    assert doctor(project, 0)["problems"] == []


def test_the_plugin(project: Project, sealed: Path, programs: Path) -> None:
    """Claude Code's plugin is at work without `gitcp enable`, and twice with it."""
    settings = sealed / ".claude/settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text('{"enabledPlugins": {"gitcp@team": true}}')
    assert project.gitcp("doctor", check=0).out.endswith("no problems\n")
    assert [each["user"] for each in doctor(project, 0)["agents"]] == ["plugin"]
    project.gitcp("enable", "claude", "--yes", check=0)
    (problem,) = doctor(project, 1)["problems"]
    assert problem["hint"] == "gitcp disable claude"
    project.gitcp("disable", "claude", "--yes", check=0)
    settings.write_text('{"enabledPlugins": {"gitcp@team": true}, "disableAllHooks": true}')
    (problem,) = doctor(project, 1)["problems"]
    assert "Claude Code runs no hooks, so nothing is saved" in problem["what"]
    assert "runs no hooks" in project.gitcp("status", check=0).out
    script(programs / "gitcp", "exit 1")
    assert "the hooks of its plugin do not reach gitcp" in str(doctor(project, 1)["problems"])


def test_what_is_wrong(project: Project, sealed: Path, programs: Path) -> None:
    """Hooks of an older version, enabled twice, settings that broke, no gitcp on the PATH: each
    with what to type.
    """
    project.gitcp("enable", "claude", "codex", "--yes", check=0)
    project.gitcp("enable", "claude", "--user", "--yes", check=0)
    project.write(
        ".claude/settings.json",
        project.read(".claude/settings.json").replace(b'"timeout": 5', b'"timeout": 6'),
    )
    (sealed / ".codex/config.toml").write_text("")
    (sealed / ".claude/settings.json").write_text("{")
    (programs / "gitcp").unlink()

    said = doctor(project, 1)

    problems = {problem["what"]: problem["hint"] for problem in said["problems"]}
    assert next(iter(problems.values())).startswith("export PATH=")
    assert list(problems.values())[1:] == [
        "gitcp enable claude",
        "gitcp disable claude",
        f"fix {sealed}/.claude/settings.json",
        "gitcp enable codex",
        "gitcp enable codex --user",
    ]
    assert [(agent["project"], agent["user"]) for agent in said["agents"]] == [
        ("old", "yes"),
        ("old", "no"),
    ]
    assert "not on your PATH" in project.gitcp("enable", "claude", "--yes", check=2).err
    script(programs / "gitcp", f'exec {sys.executable} -m gitcp "$@"')
    project.gitcp("enable", "claude", "codex", "--yes", check=0)
    assert len(doctor(project, 1)["problems"]) == 3


def test_hooks_that_failed(project: Project) -> None:
    """The last of what went wrong in hooks is shown, as text and nothing more."""
    project.write(
        ".git/gitcp/hook.log",
        "".join(f"2026-11-21T00:00:0{n}Z codex Stop -: \x1b[31m{n}\n" for n in range(9)),
    )

    said = doctor(project, 0)

    assert len(said["log"]) == 5
    assert said["log"][-1].endswith("8")
    assert "\x1b" not in project.gitcp("doctor").out


def test_an_interrupted_restore(project: Project) -> None:
    """A restore that stopped half-way is a problem."""
    id = CheckpointId("s", 1)
    journal.begin(open_store(project).repo, journal.Unfinished(id, id, (), Extent()))

    said = doctor(project, 1)

    assert said["unfinished"]
    assert any("restore --continue" in problem["hint"] for problem in said["problems"])


def test_an_agent_that_hangs_or_fails(project: Project, programs: Path) -> None:
    """An agent that cannot say its version has none."""
    (programs / "claude").write_text("#!/bin/sh\necho oops\nexit 3\n")

    assert doctor(project, 0)["agents"][0]["version"] is None


@pytest.mark.parametrize(
    ("git", "code"), [("2.30.9", 1), ("1.9", 1), ("2.31.0", 0), ("10.2", 0), ("unheard of", 0)]
)
def test_an_old_git(project: Project, programs: Path, git: str, code: int) -> None:
    """The version that the documentation names is the least one."""
    real = shutil.which("git")
    (programs / "git").write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "git version {git}" || exec {real} "$@"\n'
    )
    (programs / "git").chmod(0o755)

    said = [problem["hint"] for problem in doctor(project, code)["problems"]]

    assert said == ["install git 2.31 or later"][:code]
    assert "git 2.31" in (SOURCE / "README.md").read_text()


def test_worktrees_without_hooks(project: Project, tmp_path: Path) -> None:
    """A worktree that lacks the project's hooks is named, with what covers all; not where they are
    committed or the user's.
    """
    project.commit()
    project.gitcp("enable", "claude", "--yes", check=0)
    project.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "tree"))
    said = doctor(project, 0)["notes"]

    assert any(
        f"not enabled in the worktree {tmp_path / 'tree'}" in note and "--user" in note
        for note in said
    ), said
    project.commit()
    project.git("-C", str(tmp_path / "tree"), "checkout", "--quiet", "--detach", "main")
    assert not any("not enabled in the worktree" in note for note in doctor(project, 0)["notes"])
