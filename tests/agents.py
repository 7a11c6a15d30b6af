"""Runs real agents once each, headless and offline, against a scripted model, in a home of their own."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from driver import Project
from scripted_model import ScriptedModel

PREFIX = Path(os.environ.get("AGENTS_PREFIX", Path.home() / ".cache/agents"))
CODEX = PREFIX / "codex/node_modules/.bin/codex"
COPILOT = PREFIX / "copilot/node_modules/.bin/copilot"

CODEX_SETTINGS = """\
model = "gpt-5.5"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 0
stream_max_retries = 0
supports_websockets = false
[analytics]
enabled = false
[otel]
exporter = "none"
"""


def run(home: Path, cwd: Path, command: list[str], env: dict[str, str]) -> str:
    """Run an agent to its end; what it printed. It must succeed."""
    home.mkdir(exist_ok=True)
    # Whatever is not loopback goes to a proxy that is not there.
    offline = {"HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(
        command,
        cwd=cwd,
        env={"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", **offline, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


def codex(home: Path, cwd: Path, model: ScriptedModel, *args: str) -> str:
    """Run `codex exec ARGS`; the id of the thread."""
    settings = home / ".codex" / "config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(CODEX_SETTINGS.format(url=model.url))
    command = [str(CODEX), "exec", *args[:-1], "--json", "--skip-git-repo-check", args[-1]]
    said = run(home, cwd, command, {"SCRIPTED_KEY": "not-a-key"})
    thread = re.search(r'"thread_id":"([^"]+)"', said)
    assert thread, said
    return thread[1]


def copilot(home: Path, cwd: Path, model: ScriptedModel, *args: str) -> None:
    """Run `copilot ARGS -p PROMPT`; the prompt is the last of the arguments."""
    env = {
        "COPILOT_OFFLINE": "true",
        "COPILOT_AUTO_UPDATE": "false",
        "COPILOT_PROVIDER_TYPE": "anthropic",
        "COPILOT_PROVIDER_BASE_URL": model.url,
        "COPILOT_PROVIDER_API_KEY": "not-a-key",
        "COPILOT_MODEL": "claude-sonnet-4-20250514",
    }
    run(home, cwd, [str(COPILOT), "--allow-all-tools", "--allow-all-paths", *args[:-1], "-p", args[-1]], env)


def in_order(needles: list[str], hay: list[str]) -> bool:
    """Whether each needle is found in some element, one after the other."""
    rest = iter(hay)
    return all(any(needle in text for text in rest) for needle in needles)


def clone(project: Project, directory: Path) -> Project:
    """Another repository at another path, with the checkpoints."""
    subprocess.run(["git", "clone", "--quiet", str(project.root), str(directory)], check=True)
    subprocess.run(["git", "fetch", "--quiet", "origin", "refs/gitcp/*:refs/gitcp/*"], cwd=directory, check=True)
    return Project(directory)
