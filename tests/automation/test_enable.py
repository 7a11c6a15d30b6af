"""`gitcp enable` and `gitcp disable`, as a person types them: what is changed, what is left, what
is said.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from terminal import on_terminal

from gitcp.agents import KNOWN
from gitcp.automation.install import files, plan, shipped, targets
from gitcp.automation.install.plan import apply
from gitcp.model import Host

from driver import SOURCE, File, Project

EVERY = tuple(agent.command for agent in KNOWN)
HOOKED = ("claude", "codex", "gemini", "opencode", "copilot", "cursor")
SETTINGS = {
    "claude": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
    "cursor": ".cursor/hooks.json",
}
MINE = '{\n\t// mine\n\t"model": "opus",\n\t"hooks": {"Stop": [ {"hooks": []} ],}, // yes\n}'


def everything(directory: Path) -> dict[bytes, File]:
    """Every file below a directory that is no repository's own, nor gitcp's own state."""
    found = Project.__new__(Project)
    found.root, found.git_dir = directory, directory / ".git"
    files = found.files().items()
    return {path: file for path, file in files if not {b".git", b".local"} & {*path.split(b"/")}}


def fields(project: Project, *args: str, code: int = 0) -> Any:
    """What a command prints for programs."""
    return json.loads(project.gitcp(*args, "--json", check=code).out)


def program(path: Path) -> Path:
    """Write a program that does nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def no_agents(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A PATH with the system's programs, gitcp and no agent; a directory on it for those that a
    test wants.
    """
    bin = tmp_path / "bin"
    bin.mkdir()
    program(bin / "gitcp")
    monkeypatch.setenv("PATH", f"{bin}:/usr/local/bin:/usr/bin:/bin")
    return bin


@pytest.mark.parametrize("scope", [(), ("--user",)], ids=["project", "user"])
def test_there_and_back(project: Project, sealed: Path, scope: tuple[str, ...]) -> None:
    """Every agent is set up and taken back: afterwards each file, here and at home, is as it
    was.
    """
    project.write(".claude/settings.json", MINE)
    project.write("AGENTS.md", "# Mine")
    for name in (".claude/settings.json", ".gemini/settings.json", ".codex/hooks.json"):
        (sealed / name).parent.mkdir(exist_ok=True)
        (sealed / name).write_text(MINE)
    (sealed / ".codex/config.toml").write_text('model = "m"  # mine')
    before = project.files(), everything(sealed)
    names = EVERY if not scope else (*HOOKED, "openclaw")

    with project.guard():
        done = fields(project, "enable", *names, *scope, "--yes")
        enabled = project.files(), everything(sealed)
        again = fields(project, "enable", *names, *scope, "--yes")
        undone = fields(project, "disable", *scope, "--yes")

    assert [step["agent"] for step in done["agents"]] == list(names)
    assert all(step["changes"] and not step["left"] for step in done["agents"])
    assert not any(step["changes"] for step in again["agents"])
    assert {step["agent"] for step in undone["agents"]} == set(names)
    assert enabled != before
    here, home = project.files(), everything(sealed)
    assert (here if scope else _files(here)) == (before[0] if scope else _files(before[0]))
    assert _files(home) == _files(before[1])


def _files(found: dict[bytes, File]) -> dict[bytes, File]:
    return {path: file for path, file in found.items() if file.kind != "directory"}


@pytest.mark.parametrize("agent", HOOKED)
def test_every_hook_calls_gitcp(project: Project, agent: str) -> None:
    """Each hook is one call of `gitcp hook` that names its agent and its event, and ends well
    without gitcp.
    """
    fields(project, "enable", agent, "--yes")

    calls = dict(_calls(project, agent))

    assert len(calls) >= 6
    for event, command in calls.items():
        assert re.search(rf"\bgitcp hook {agent} {re.escape(event)}(?= |$)", command), command
        if agent != "opencode":
            done = subprocess.run(
                ["/bin/sh", "-c", command], env={"PATH": "/nowhere"}, capture_output=True
            )
            assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def _calls(project: Project, agent: str) -> list[tuple[str, str]]:
    if agent == "opencode":
        text = project.read(".opencode/plugin/gitcp.js").decode()
        events = set(re.findall(r'call(?:AtOnce)?\("([\w.]+)"', text))
        assert '? "kilo" : "opencode"' in text
        assert '"gitcp", ["hook", agent, event]' in text
        return [(event, f"gitcp hook opencode {event}") for event in events]
    path = SETTINGS.get(agent, ".github/hooks/gitcp.json")
    events = json.loads(project.read(path))["hooks"]
    hooks = [(e, h) for e, groups in events.items() for g in groups for h in g.get("hooks", [g])]
    return [(event, hook.get("command") or hook["bash"]) for event, hook in hooks]


def test_time_limits(project: Project) -> None:
    """Gemini counts in milliseconds, Codex gives the end of a session three seconds, Claude Code
    must be told.
    """
    fields(project, "enable", "claude", "codex", "gemini", "--yes")

    limits = {
        agent: {
            event: group["hooks"][0]["timeout"]
            for event, (group,) in json.loads(project.read(path))["hooks"].items()
        }
        for agent, path in SETTINGS.items()
        if agent != "cursor"  # its hooks are in no groups
    }

    assert set(limits["gemini"].values()) == {5000, 8000, 13000}
    assert limits["codex"]["SessionEnd"] == 3
    assert limits["claude"]["SessionEnd"] == 5


def test_codex_is_told_to_trust(project: Project, sealed: Path) -> None:
    """Codex's own configuration gets a digest for each hook, under the path of the file that it is
    in.
    """
    done = fields(project, "enable", "codex", "--yes")

    (step,) = done["agents"]
    config = tomllib.loads((sealed / ".codex/config.toml").read_text())
    hooks = json.loads(project.read(".codex/hooks.json"))["hooks"]
    assert len(config["hooks"]["state"]) == len(hooks)
    assert all(
        key.startswith(f"{os.path.realpath(project.root)}/.codex/hooks.json:")
        for key in config["hooks"]["state"]
    )
    assert any("trust the project" in note for note in step["notes"])


@pytest.mark.parametrize(
    ("agent", "directory", "ending", "names"),
    [
        ("claude", ".claude/commands", ".md", ()),
        ("gemini", ".gemini/commands", ".toml", ("checkpoint",)),
        ("opencode", ".opencode/command", ".md", ("checkpoint",)),
    ],
)
def test_slash_commands_have_the_names_people_know(
    project: Project, agent: str, directory: str, ending: str, names: tuple[str, ...]
) -> None:
    """Without a prefix where the agent has none of that name, with it always. The user's own
    command stays, also when it mentions gitcp, and is no failure.
    """
    mine = f"{directory}/restore{ending}"
    project.write(mine, "run gitcp restore my way\n")

    (done,) = fields(project, "enable", agent, "--yes")["agents"]

    found = {Path(os.fsdecode(path)) for path in project.files()}
    short = {path.stem for path in found if path.parent == Path(directory) and path.suffix}
    prefixed = {path.stem for path in found if path.parent == Path(directory, "gitcp")}
    every = {"checkpoint", "checkpoints", "prune", "restore", "rollback"}
    assert (short, prefixed) == (every - {"checkpoint"} | {*names}, every)
    assert any("kept your own /restore" in note for note in done["notes"])
    assert done["left"] == []
    fields(project, "disable", agent, "--yes")
    assert {path for path in project.files() if path.endswith(ending.encode())} == {mine.encode()}
    assert project.read(mine) == b"run gitcp restore my way\n"


def test_no_slash_command_may_restore_or_prune_unasked() -> None:
    """What Claude Code runs without asking only saves, lists and shows."""
    allowed = {
        words
        for name in shipped.below("claude/commands")
        for words in re.findall(
            r"Bash\((.*?):\*\)", shipped.read(f"claude/commands/{name}").decode()
        )
    }

    assert allowed == {
        "gitcp list",
        "gitcp delete --old --dry-run",
        "gitcp restore --dry-run",
        "gitcp rollback --dry-run",
        "gitcp save",
        "gitcp show",
    }


@pytest.mark.parametrize("verb", ["restore", "rollback", "prune"])
def test_a_dry_run_with_yes_changes_nothing(project: Project, verb: str) -> None:
    """A dry run that Claude Code may do without asking stays one, whatever follows."""
    project.write("a.txt", "one\n")
    project.gitcp("save", "one", check=0)
    project.write("a.txt", "two\n")
    project.gitcp("save", "two", check=0)
    before = project.files(), project.gitcp("list", "--json", check=0).out

    more = ["--keep-last", "1"] if verb == "prune" else ["1"] if verb == "restore" else []
    project.gitcp(verb, "--dry-run", *more, "--yes")

    assert (project.files(), project.gitcp("list", "--json", check=0).out) == before


def test_an_older_version_is_replaced(project: Project) -> None:
    """What an earlier gitcp put there is replaced, what the user put beside it stays."""
    project.write(".claude/settings.json", MINE)
    fields(project, "enable", "claude", "--yes")
    new = project.files()
    project.write(
        ".claude/settings.json",
        project.read(".claude/settings.json").replace(b"2>/dev/null", b"--old"),
    )
    project.write(".claude/skills/gitcp/SKILL.md", "an older text of gitcp\n")

    done = fields(project, "enable", "claude", "--yes")

    assert [change["kind"] for change in done["agents"][0]["changes"]] == ["changed", "changed"]
    assert project.files() == new
    fields(project, "disable", "--yes")
    assert project.read(".claude/settings.json").decode() == MINE


# ---------------------------------------------------------------- which agents, and asking


def test_what_is_installed_is_found(project: Project, sealed: Path, no_agents: Path) -> None:
    """Without a name, those are set up whose program or directory is here; if there is none, it is
    said.
    """
    assert "no agent with hooks is installed" in project.gitcp("enable", check=2).err
    (sealed / ".gemini").mkdir()
    program(no_agents / "codex")

    found = fields(project, "enable", "--dry-run")

    assert [step["agent"] for step in found["agents"]] == ["codex", "gemini"]
    assert not any("not on your PATH" in note for note in found["agents"][0]["notes"])
    assert any("gemini is not on your PATH" in note for note in found["agents"][1]["notes"])


def test_nothing_happens_unasked(project: Project) -> None:
    """Without a terminal it needs --yes; the plan is said, and a dry run shows it with every line
    that would change.
    """
    project.write(".claude/settings.json", MINE)
    before = project.files()

    refused = project.gitcp("enable", "claude", check=12)
    shown = project.gitcp("enable", "claude", "--dry-run", check=0)

    assert "nothing was changed" in refused.err
    assert "hint: gitcp enable claude --yes" in refused.err
    assert "+" in shown.out
    assert "gitcp hook claude SessionEnd" in shown.out
    assert ".claude/skills/gitcp/SKILL.md" in shown.out
    assert project.files() == before


def test_a_person_is_asked(project: Project) -> None:
    """On a terminal the plan is shown and asked for; a bare return means no."""
    before = project.files()

    refused = on_terminal(project, "enable", "claude", typed="\n")
    assert (refused.code, project.files()) == (12, before)
    agreed = on_terminal(project, "enable", "claude", typed="y\n")

    assert agreed.code == 0
    assert "Enable? [y/N]" in refused.out
    assert "not enabled: nothing was changed" in refused.out
    assert b".claude/settings.json" in project.files()
    assert agreed.out.count(".claude/settings.json") == 1, agreed.out  # the plan, not a second list
    assert "restart running sessions to apply this" in agreed.out


def test_names(project: Project, tmp_path: Path) -> None:
    """An agent that is not known is an error; so is a scope that an agent does not have."""
    assert "nobody" in project.gitcp("enable", "nobody", check=2).err
    assert (
        "only be enabled in a project"
        in project.gitcp("enable", "agents-md", "--user", "--yes", check=2).err
    )
    elsewhere = tmp_path / "no-repository"
    elsewhere.mkdir()
    assert project.gitcp("enable", "claude", "--yes", cwd=elsewhere).code == 10
    assert project.gitcp("enable", "claude", "--yes", "--user", cwd=elsewhere, check=0).err == ""
    assert "gitcp is not set up here" in project.gitcp("disable", check=0).out


@pytest.mark.parametrize(
    ("typed", "agent"),
    [
        ("claude", "claude"),
        ("claude-code", "claude"),
        ("Claude", "claude"),
        ("codex", "codex"),
        ("codex-cli", "codex"),
        ("openai-codex", "codex"),
        ("gemini", "gemini"),
        ("gemini-cli", "gemini"),
        ("opencode", "opencode"),
        ("copilot", "copilot"),
        ("copilot-cli", "copilot"),
        ("github-copilot", "copilot"),
        ("AGENTS.md", "agents-md"),
    ],
)
def test_every_name_people_use(project: Project, typed: str, agent: str) -> None:
    """`enable` and `disable` know an agent by each of its names."""
    (done,) = fields(project, "enable", typed, "--yes")["agents"]
    (undone,) = fields(project, "disable", typed, "--yes")["agents"]

    assert (done["agent"], undone["agent"]) == (agent, agent)
    assert len(done["changes"]) == len(undone["changes"]) > 0


@pytest.mark.parametrize("verb", ["enable", "disable"])
def test_an_unknown_name_lists_the_agents(project: Project, verb: str) -> None:
    """A name that no agent has is answered with those that there are."""
    assert f"'nobody' is not one of {', '.join(targets.NAMES)}" in (
        project.gitcp(verb, "nobody", check=2).err
    )


# ---------------------------------------------------------------- gitcp itself on PATH


@pytest.mark.parametrize("agent", [*HOOKED, "git", "agents-md"])
@pytest.mark.parametrize("option", ["--yes", "--dry-run"])
def test_without_gitcp_on_path_nothing_is_installed(
    project: Project, sealed: Path, no_agents: Path, agent: str, option: str
) -> None:
    """A hook that nobody can run does nothing, silently: enable refuses, with the fix."""
    (no_agents / "gitcp").unlink()
    before = project.files(), everything(sealed)

    refused = project.gitcp("enable", agent, option, check=2)

    assert "error: gitcp is not on your PATH" in refused.err
    assert "nothing was changed" in refused.err
    assert (project.files(), everything(sealed)) == before


def test_the_fix_works_as_pasted(project: Project, no_agents: Path, tmp_path: Path) -> None:
    """The hint puts the gitcp that runs on PATH, also from a directory with a space in its name."""
    (no_agents / "gitcp").unlink()
    mine = tmp_path / "my programs" / "gitcp"
    mine.parent.mkdir()
    mine.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(SOURCE)!r})\n"
        "from gitcp.__main__ import main\nmain()\n"
    )
    mine.chmod(0o755)

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=project.root, capture_output=True, text=True)

    refused = run(str(mine), "enable", "claude", "--yes")
    checked = run(str(mine), "doctor", "--json")
    (hint,) = re.findall(r"hint: (.*)", refused.stderr)
    pasted = run("/bin/sh", "-c", f"{hint}\ngitcp enable claude --yes")

    assert refused.returncode == 2
    assert [problem["hint"] for problem in json.loads(checked.stdout)["problems"]] == [hint]
    assert pasted.returncode == 0, pasted.stderr
    assert b"gitcp hook claude" in project.read(".claude/settings.json")


def test_gitcp_in_an_active_virtual_environment(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents started elsewhere do not have its PATH: enable and doctor say so."""
    own = program(tmp_path / "venv/bin/gitcp")
    monkeypatch.setenv("PATH", f"{own.parent}:/usr/local/bin:/usr/bin:/bin")
    assert not _warned(project)

    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))

    assert _warned(project)


def _warned(project: Project) -> bool:
    said = "only while a virtual environment is active"
    (step,) = fields(project, "enable", "claude", "--dry-run")["agents"]
    found = [
        any(said in note for note in notes)
        for notes in (step["notes"], fields(project, "doctor")["notes"])
    ]
    assert found[0] == found[1] == (said in project.gitcp("doctor").out)
    return found[0]


def test_homes_that_are_elsewhere(project: Project, tmp_path: Path) -> None:
    """The variables by which the agents find their directories are obeyed."""
    variables = {
        "CLAUDE_CONFIG_DIR": "c",
        "CODEX_HOME": "x",
        "COPILOT_HOME": "p",
        "GEMINI_CLI_HOME": "m",
        "XDG_CONFIG_HOME": "g",
    }
    env = {name: str(tmp_path / place) for name, place in variables.items()}

    project.gitcp(
        "enable",
        "claude",
        "codex",
        "copilot",
        "gemini",
        "opencode",
        "--user",
        "--yes",
        env=env,
        check=0,
    )

    for name in (
        "c/settings.json",
        "x/hooks.json",
        "x/config.toml",
        "p/hooks/gitcp.json",
        "g/opencode/plugin/gitcp.js",
    ):
        assert (tmp_path / name).is_file(), name


# ---------------------------------------------------------------- what is left as it is


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"hooks": }', "invalid JSON in line 1"),
        (b'{\n"a": "\xff"}', "not UTF-8"),
        (b"", "the file is empty"),
        (b'{"hooks": 7}', "hooks is not an object"),
        (b'{"hooks": {"Stop": 7}}', "hooks.Stop is not an array"),
    ],
)
def test_settings_that_cannot_be_read(project: Project, content: bytes, said: str) -> None:
    """Settings in which something is wrong are left as they are, and that is said; the rest is
    done.
    """
    project.write(".claude/settings.json", content)

    done = project.gitcp("enable", "claude", "--yes", check=3)

    assert re.search(rf"left +\.claude/settings\.json: .*{re.escape(said)}", done.out)
    assert project.read(".claude/settings.json") == content
    assert project.read(".claude/skills/gitcp/SKILL.md")
    project.gitcp("disable", "claude", "--yes")
    assert project.read(".claude/settings.json") == content


def test_toml_that_cannot_be_read(project: Project, sealed: Path) -> None:
    """The same for Codex's configuration."""
    (sealed / ".codex").mkdir()
    (sealed / ".codex/config.toml").write_text("model = \n")

    done = fields(project, "enable", "codex", "--yes", code=3)

    (left,) = done["agents"][0]["left"]
    assert left["path"].endswith(".codex/config.toml")
    assert "invalid TOML" in left["reason"]
    assert (sealed / ".codex/config.toml").read_text() == "model = \n"


def test_read_only(project: Project) -> None:
    """A file that its owner made read-only is left, whoever runs gitcp."""
    project.write(".claude/settings.json", "{}", mode=0o444)

    done = fields(project, "enable", "claude", "--yes", code=3)

    assert done["agents"][0]["left"][0]["reason"] == "read-only"
    assert project.files()[b".claude/settings.json"] == ("file", 0o444, b"{}")


def test_a_home_that_cannot_be_written(project: Project, sealed: Path) -> None:
    """A home in which no directory can be made: it is said of each file, and nothing else
    happens.
    """
    (sealed / ".claude").write_text("a file where a directory belongs")

    done = project.gitcp("enable", "claude", "--user", "--yes", check=1)

    assert done.out.count("left") >= 3
    assert "Not a directory" in done.out
    assert re.match(
        r"error: \d+ files cannot be changed: nothing was changed\n  ~/\.claude/settings\.json: ",
        done.err,
    )
    assert (sealed / ".claude").read_text() == "a file where a directory belongs"


def test_links(project: Project, sealed: Path, tmp_path: Path) -> None:
    """At home, a link is followed and stays one; one that leads out of the project is not
    followed.
    """
    kept = tmp_path / "dotfiles" / "claude.json"
    kept.parent.mkdir()
    kept.write_text(MINE)
    kept.chmod(0o600)
    (sealed / ".claude").mkdir()
    (sealed / ".claude/settings.json").symlink_to(kept)
    project.symlink(".claude/settings.json", str(kept))

    done = project.gitcp("enable", "claude", "--user", "--yes", check=0)
    left = fields(project, "enable", "claude", "--yes", code=3)["agents"][0]["left"]

    assert f"(a link to {kept})" in done.out
    assert (sealed / ".claude/settings.json").is_symlink()
    assert "gitcp hook claude Stop" in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert [entry["reason"] for entry in left] == [f"points outside the project, to {kept}"]


def test_somebody_elses_file(project: Project) -> None:
    """A file at gitcp's own path that is not gitcp's is neither replaced nor removed; a pipe is not
    waited for.
    """
    project.write(".opencode/plugin/gitcp.js", "export default 1\n")
    os.makedirs(project.path(".github/hooks"))
    os.mkfifo(project.path(".github/hooks/gitcp.json"))

    left = [
        step["left"]
        for step in fields(project, "enable", "opencode", "copilot", "--yes", code=3)["agents"]
    ]
    project.gitcp("disable", "--yes", check=3)

    assert [each["reason"] for step in left for each in step] == [
        "not created by gitcp",
        "not a regular file, or too large",
    ]
    assert project.read(".opencode/plugin/gitcp.js") == b"export default 1\n"


def test_a_section_without_its_end(project: Project) -> None:
    """A section whose end somebody removed is not guessed."""
    project.write("AGENTS.md", "a\n\n<!-- gitcp: begin -->\nb\n")

    fields(project, "enable", "agents-md", "--yes", code=1)
    fields(project, "disable", "agents-md", "--yes", code=1)
    assert "AGENTS.md: " in project.gitcp("disable", "agents-md", "--yes", check=1).err

    assert project.read("AGENTS.md") == b"a\n\n<!-- gitcp: begin -->\nb\n"


FULL = """
import errno, os
from gitcp import __main__

def fsync(descriptor):
    raise OSError(errno.ENOSPC, "No space left on device")

os.fsync = fsync
__main__.main()
"""


@pytest.mark.parametrize("verb", ["enable", "disable"])
def test_a_full_disk(project: Project, sealed: Path, verb: str) -> None:
    """A disk on which no file can be written is said on stderr, with the exit code of a full
    disk.
    """
    (sealed / ".claude").mkdir()
    settings = sealed / ".claude/settings.json"
    settings.write_text(MINE)
    if verb == "disable":
        project.gitcp("enable", "claude", "--user", "--yes", check=0)
        for own in (".claude/skills", ".claude/commands"):
            shutil.rmtree(sealed / own)
    before = everything(sealed)

    command = [sys.executable, "-P", "-c", FULL, verb, "claude", "--user", "--yes"]
    done = subprocess.run(
        command,
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
    )

    assert done.returncode == 17, done
    assert done.stderr.startswith(
        b"error: the disk is full: nothing was changed\n  ~/.claude/settings.json: "
    )
    assert b"No space left on device\nhint: free some space\n" in done.stderr
    assert b"left" in done.stdout
    assert {
        path: file for path, file in everything(sealed).items() if file.kind != "directory"
    } == {path: file for path, file in before.items() if file.kind != "directory"}


def test_a_change_meanwhile(project: Project, sealed: Path) -> None:
    """A file that changed since the plan was made is left as it is now."""
    project.write(".claude/settings.json", "{}")
    scope = plan.Scope(project.root, user=False)
    made = plan.enable((targets.named("claude"),), scope, Host(os.environ, sealed, _no_clock))
    project.write(".claude/settings.json", '{"a": 1}')

    report = apply(made)

    assert [left.why for left in report.left] == ["changed in the meantime"]
    assert project.read(".claude/settings.json") == b'{"a": 1}'
    assert len(report.done) == len(made.changes) - 1


def test_a_write_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk leaves the file as it was, and nothing beside it."""
    path = tmp_path / "settings.json"
    path.write_text("{}")
    seen = files.read_state(path, None)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(files.Unusable, match="No space left"):
        files.replace(seen, b"{ }")

    assert path.read_text() == "{}"
    assert sorted(os.listdir(tmp_path)) == ["bin", "settings.json"]


def _no_clock() -> Any:
    raise AssertionError("nobody needs the time here")


# ---------------------------------------------------------------- what is shipped


def test_skill() -> None:
    """The skill is valid by its specification: https://agentskills.io/specification."""
    found = re.fullmatch(
        r"---\n(.*?)\n---\n(.*)", shipped.read("claude/skills/gitcp/SKILL.md").decode(), re.DOTALL
    )
    assert found
    head, body = found.groups()
    said = dict(line.split(": ", 1) for line in head.splitlines())

    assert said["name"] == "gitcp"
    assert 1 <= len(said["description"]) <= 1024
    assert len(said["compatibility"]) <= 500
    assert said.keys() <= {
        "name",
        "description",
        "license",
        "compatibility",
        "metadata",
        "allowed-tools",
    }
    assert len(body.splitlines()) < 500


@pytest.mark.parametrize("name", [*shipped.below("claude/commands"), "../skills/gitcp/SKILL.md"])
def test_what_agents_are_taught_exists(project: Project, name: str) -> None:
    """Every command and option of gitcp that the skill or a slash command names is there."""
    text = shipped.read(f"claude/commands/{name}").decode()
    named: dict[str, set[str]] = {}
    for command, rest in re.findall(r"(?m)(?:`|^ {4})gitcp ([a-z]+)((?:[^`\n]|\\\n)*)", text):
        named.setdefault(command, set()).update(re.findall(r"(?<= )--[a-z][a-z-]*", rest))
    assert named

    for command, options in named.items():
        help = project.gitcp(command, "-h", check=0).out
        assert options <= set(re.findall(r"--[a-z][a-z-]*", help)), command


@pytest.mark.parametrize("scope", [(), ("--user",)], ids=["project", "user"])
def test_what_is_not_saved_is_said(project: Project, scope: tuple[str, ...]) -> None:
    """Of agents that take no conversation back."""
    for agent in ("openclaw", "cursor"):
        said = project.gitcp("enable", agent, *scope, "--yes", check=0).out
        assert "its conversations are saved, but not restored into it" in said, agent


def test_what_has_no_hooks_is_said(project: Project) -> None:
    """A text for agents, and agents that a file describes: how they are saved."""
    said = project.gitcp("enable", "agents-md", "--dry-run", check=0).out
    assert "has no hooks" in said
    assert "gitcp watch" in said
    refused = project.gitcp("enable", "cline", "--yes", check=2).err
    assert "cline has no hooks to install: gitcp save and gitcp watch save" in refused


FLAT = [
    '{"version": 1}',
    '{"version": 1, "hooks": {}}\n',
    '{\n  "hooks": {},\n  "version": 1\n}\n',
    '{\n  "hooks": {\n    "stop": [{"command": "mine"}]\n  },\n  "version": 1\n}\n',
    '{"version": 1, // mine\n "hooks": {"stop": [ ],}}',
]


@pytest.mark.parametrize("text", FLAT)
def test_hooks_without_groups(text: str) -> None:
    """Those of Cursor are a list for each event; what was there is there again, byte for byte."""
    content = shipped.read("cursor/hooks.json")
    wanted, version = files.groups(content), files.version(content)
    merged = files.merged(text, wanted, "cursor", version)
    assert files.merged(merged, wanted, "cursor", version) == merged
    assert files.removed(merged, "cursor") == text


def test_a_new_file_of_hooks_without_groups() -> None:
    """It names the version of its format, which goes with the last hook: unless somebody has added
    one.
    """
    content = shipped.read("cursor/hooks.json")
    wanted, version = files.groups(content), files.version(content)
    made = files.merged("", wanted, "cursor", version)
    assert json.loads(made) == {"hooks": wanted, "version": 1}
    assert files.removed(made, "cursor") == ""
    mine = made.replace('"stop": [', '"stop": [\n      {"command": "mine"},')
    assert json.loads(files.removed(mine, "cursor")) == {
        "hooks": {"stop": [{"command": "mine"}]},
        "version": 1,
    }
