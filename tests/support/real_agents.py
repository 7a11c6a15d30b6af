"""Runs real agents once each, headless and offline, against a scripted model, in a home of their
own.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import uuid
from pathlib import Path
from typing import Any

from driver import Project
from scripted_model import ScriptedModel

PREFIX = Path(os.environ.get("AGENTS_PREFIX", Path.home() / ".cache/agents"))
CLAUDE = PREFIX / "claude/node_modules/.bin/claude"
CLINE = PREFIX / "cline/node_modules/.bin/cline"
CODEX = PREFIX / "codex/node_modules/.bin/codex"
COPILOT = PREFIX / "copilot/node_modules/.bin/copilot"
GEMINI = PREFIX / "gemini/node_modules/.bin/gemini"
OPENCLAW = PREFIX / "openclaw/node_modules/.bin/openclaw"
OPENCODE = PREFIX / "opencode/node_modules/.bin/opencode"
PI = PREFIX / "pi/node_modules/.bin/pi"
KILO = PREFIX / "kilo/node_modules/.bin/kilo"
KIMI = PREFIX / "kimi/node_modules/.bin/kimi"
QWEN = PREFIX / "qwen/node_modules/.bin/qwen"
NODE = PREFIX / "node/node_modules/.bin/node"
"""A Node.js for those that need a newer one than others do: Pi, Kimi Code and OpenClaw."""

CLAUDE_HEADLESS = ("-p", "--output-format", "json", "--permission-mode", "bypassPermissions")

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

CODEX_END = "# What follows was written by others.\n"

OPENCODE_LIBRARIES = {"@opencode-ai/plugin": "*", "@kilocode/plugin": "*"}
OPENCODE_FETCHED = {"packages": {"": {"dependencies": OPENCODE_LIBRARIES}}}

OFFLINE = {
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1",
}
"""Whatever is not loopback goes to a proxy that is not there."""

GEMINI_SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
}

QWEN_SETTINGS = {
    "security": {"auth": {"selectedType": "openai"}},
    "general": {"enableAutoUpdate": False},
    "memory": {"enableManagedAutoMemory": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
}


def run(home: Path, cwd: Path, command: list[str], env: dict[str, str]) -> str:
    """Run an agent to its end; what it printed. It must succeed."""
    home.mkdir(exist_ok=True)
    done = subprocess.run(
        command,
        cwd=cwd,
        env={"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", **OFFLINE, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


def claude(home: Path, cwd: Path, model: ScriptedModel, *args: str) -> str:
    """Run `claude -p ARGS`; the id of the session."""
    command = [str(CLAUDE), *CLAUDE_HEADLESS, *args]
    session_id: str = json.loads(run(home, cwd, command, claude_environment(model)))["session_id"]
    return session_id


def claude_environment(model: ScriptedModel) -> dict[str, str]:
    """What Claude Code is to find in its environment, so that it speaks to this model and to nobody
    else.
    """
    return {
        "IS_SANDBOX": "1",
        "ANTHROPIC_API_KEY": "not-a-key",
        "ANTHROPIC_BASE_URL": model.url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "ENABLE_TOOL_SEARCH": "false",  # every tool is in the request, with its description
    }


def codex(home: Path, cwd: Path, model: ScriptedModel, *args: str) -> str:
    """Run `codex exec ARGS`; the id of the thread."""
    settings = home / ".codex" / "config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    ours = CODEX_SETTINGS.format(url=model.url)
    theirs = settings.read_text().rpartition(CODEX_END)[2] if settings.exists() else ""
    settings.write_text(ours + CODEX_END + theirs)
    command = [str(CODEX), "exec", *args[:-1], "--json", "--skip-git-repo-check", args[-1]]
    said = run(home, cwd, command, {"SCRIPTED_KEY": "not-a-key"})
    thread = re.search(r'"thread_id":"([^"]+)"', said)
    assert thread, said
    return thread[1]


def copilot(home: Path, cwd: Path, model: ScriptedModel, *args: str) -> None:
    """Run `copilot ARGS -p PROMPT`; the prompt is the last of the arguments."""
    run(
        home,
        cwd,
        [str(COPILOT), "--allow-all-tools", "--allow-all-paths", *args[:-1], "-p", args[-1]],
        copilot_environment(model),
    )


def copilot_environment(model: ScriptedModel) -> dict[str, str]:
    """What Copilot CLI is to find in its environment, so that it speaks to this model alone."""
    return {
        "COPILOT_OFFLINE": "true",
        "COPILOT_AUTO_UPDATE": "false",
        "COPILOT_PROVIDER_TYPE": "anthropic",
        "COPILOT_PROVIDER_BASE_URL": model.url,
        "COPILOT_PROVIDER_API_KEY": "not-a-key",
        "COPILOT_MODEL": "claude-sonnet-4-20250514",
    }


def copilot_run(home: Path, cwd: Path, model: ScriptedModel, *args: str) -> str:
    """Run `copilot ARGS -p PROMPT`, in a session of its own unless it is to resume one; the id of
    the session.
    """
    resumed = [arg.removeprefix("--resume=") for arg in args if arg.startswith("--resume=")]
    session_id = resumed[0] if resumed else str(uuid.uuid4())
    copilot(home, cwd, model, *([] if resumed else ["--session-id", session_id]), *args)
    return session_id


def gemini(home: Path, cwd: Path, model: ScriptedModel, *args: str) -> str:
    """Run `gemini ARGS --prompt PROMPT`; the prompt is the last of the arguments. The id of the
    session.
    """
    settings = home / ".gemini" / "settings.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps(GEMINI_SETTINGS))
    env = {
        "GEMINI_API_KEY": "not-a-key",
        "GOOGLE_GEMINI_BASE_URL": model.url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "NO_BROWSER": "1",
        "TERM": "xterm",
    }
    command = [str(GEMINI), "--yolo", "--output-format", "json", "--model", "gemini-2.5-pro"]
    session_id: str = json.loads(run(home, cwd, [*command, *args[:-1], "--prompt", args[-1]], env))[
        "session_id"
    ]
    return session_id


def opencode(home: Path, cwd: Path, model: ScriptedModel, *args: str) -> str:
    """Run `opencode ARGS`; what it printed."""
    return run(home, cwd, [str(OPENCODE), *args], opencode_environment(home, model))


def kilo(home: Path, cwd: Path, model: ScriptedModel, *args: str) -> str:
    """Run `kilo ARGS`; what it printed."""
    return run(home, cwd, [str(KILO), *args], opencode_environment(home, model, "kilo"))


def opencode_environment(
    home: Path, model: ScriptedModel, name: str = "opencode"
) -> dict[str, str]:
    """What opencode, or Kilo, is to find in its environment, so that it speaks to this model; its
    settings are written.
    """
    settings = home / ".config" / name / f"{name}.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps(_opencode_settings(model.url)))
    # what it would fetch, and wait for a minute offline
    settings.with_name("node_modules").mkdir(exist_ok=True)
    settings.with_name("package-lock.json").write_text(json.dumps(OPENCODE_FETCHED))
    without = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "SHARE")
    env = {f"{name.upper()}_DISABLE_{what}": "1" for what in without}
    return {**env, "TERM": "xterm", "npm_config_fetch_retries": "0"}


def opencode_run(home: Path, cwd: Path, model: ScriptedModel, *args: str) -> str:
    """Run `opencode run ARGS`; the id of the session."""
    return _session_named(opencode(home, cwd, model, "run", "--format", "json", *args))


def kilo_run(home: Path, cwd: Path, model: ScriptedModel, *args: str) -> str:
    """Run `kilo run ARGS`; the id of the session."""
    return _session_named(kilo(home, cwd, model, "run", "--format", "json", *args))


def _session_named(said: str) -> str:
    session_id: str = json.loads(said.splitlines()[0])["sessionID"]
    return session_id


def _opencode_settings(url: str) -> dict[str, Any]:
    """Settings that know one model, the scripted one."""
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "scripted",
        "options": {"baseURL": f"{url}/v1", "apiKey": "not-a-key"},
        "models": {
            "m": {"name": "m", "tool_call": True, "limit": {"context": 200000, "output": 8000}}
        },
    }
    return {
        "model": "scripted/m",
        "small_model": "scripted/m",
        "enabled_providers": ["scripted"],
        "provider": {"scripted": provider},
        "permission": "allow",
        "autoupdate": False,
        "share": "disabled",
    }


PI_MODEL = {
    "id": "m",
    "name": "m",
    "reasoning": False,
    "input": ["text", "image"],
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    "contextWindow": 128000,
    "maxTokens": 8000,
}


def pi(home: Path, cwd: Path, model: ScriptedModel, *args: str) -> str:
    """Run `pi ARGS -p PROMPT`, in a project that it trusts; the prompt is the last of the
    arguments. The id of the session.
    """
    settings = home / ".pi" / "agent" / "models.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    provider = {
        "baseUrl": f"{model.url}/v1",
        "api": "openai-completions",
        "apiKey": "not-a-key",
        "models": [PI_MODEL],
    }
    settings.write_text(json.dumps({"providers": {"scripted": provider}}))
    command = [str(NODE), str(PI), "--approve", "--provider", "scripted", "--model", "m"]
    env = {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}
    command += ["--mode", "json", "-p", *args]
    said = run(home, cwd, command, env)
    session_id: str = json.loads(said.splitlines()[0])["id"]
    return session_id


def qwen(home: Path, cwd: Path, model: ScriptedModel, *args: str) -> str:
    """Run `qwen ARGS -p PROMPT`; the prompt is the last of the arguments. The id of the session."""
    settings = home / ".qwen" / "settings.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    if not settings.exists():
        settings.write_text(json.dumps(QWEN_SETTINGS))
    env = {
        "OPENAI_API_KEY": "not-a-key",
        "OPENAI_BASE_URL": f"{model.url}/v1",
        "OPENAI_MODEL": "qwen-vl-max",
        "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1",
    }
    command = [str(QWEN), "--yolo", "--output-format", "json", *args[:-1], "-p", args[-1]]
    said = json.loads(run(home, cwd, command, env))
    session_id: str = next(each["session_id"] for each in said if each.get("session_id"))
    return session_id


KIMI_SETTINGS = """\
default_model = "m"
default_permission_mode = "yolo"
telemetry = false
[providers.scripted]
type = "openai"
base_url = "{url}/v1"
api_key = "not-a-key"
[models.m]
provider = "scripted"
model = "m"
max_context_size = 100000
"""


def kimi(home: Path, cwd: Path, model: ScriptedModel, *args: str) -> str:
    """Run `kimi ARGS -p PROMPT`; the prompt is the last of the arguments. The id of the session."""
    settings = home / ".kimi-code" / "config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(KIMI_SETTINGS.format(url=model.url))
    command = [str(NODE), str(KIMI), *args[:-1], "-p", args[-1], "--output-format", "stream-json"]
    said = run(home, cwd, command, {"KIMI_CODE_NO_AUTO_UPDATE": "1"})
    records = (json.loads(line) for line in said.splitlines() if line.startswith("{"))
    session_id: str = next(each["session_id"] for each in records if "session_id" in each)
    return session_id


def cline_environment(home: Path, model: ScriptedModel) -> dict[str, str]:
    """What Cline CLI is to find in its environment; its settings are written. In its sandbox it
    starts no service that outlives it.
    """
    settings = home / ".cline" / "data" / "settings" / "providers.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    chosen = {"apiKey": "not-a-key", "model": "m", "baseUrl": f"{model.url}/v1"}
    provider = {
        "settings": {"provider": "openai-compatible", **chosen},
        "updatedAt": "2026-11-28T12:00:00.000Z",
        "tokenSource": "manual",
    }
    known = {"openai-compatible": provider}
    document = {"version": 1, "lastUsedProvider": "openai-compatible", "providers": known}
    settings.write_text(json.dumps({**document, "modes": {}}))
    return {"CLINE_SANDBOX": "1", "CLINE_SANDBOX_DATA_DIR": str(home / ".cline" / "data")}


def cline(home: Path, cwd: Path, model: ScriptedModel, prompt: str) -> str:
    """Run `cline PROMPT`; the id of the session, the newest one."""
    run(home, cwd, [str(CLINE), "--json", prompt], cline_environment(home, model))
    return max(path.name for path in home.glob(".cline/data/sessions/*"))


def in_order(needles: list[str], hay: list[str]) -> bool:
    """Whether each needle is found in some element, one after the other."""
    rest = iter(hay)
    return all(any(needle in text for text in rest) for needle in needles)


def clone(project: Project, directory: Path) -> Project:
    """Another repository at another path, with the checkpoints."""
    subprocess.run(["git", "clone", "--quiet", str(project.git_dir), str(directory)], check=True)
    subprocess.run(
        ["git", "fetch", "--quiet", "origin", "refs/gitcp/*:refs/gitcp/*"],
        cwd=directory,
        check=True,
    )
    return Project(directory)


def save(project: Project, home: Path, label: str) -> Any:
    """Save with this home; the checkpoint."""
    said = project.gitcp("save", label, "--json", env={"HOME": str(home)}, check=0).out
    return json.loads(said)["checkpoint"]


def sub_agents(checkpoint: Any) -> list[str]:
    """The sub-agents whose conversations a checkpoint has, beside that of its session."""
    streams = (each["name"] for each in checkpoint["conversation"]["streams"])
    return [name for name in streams if name.startswith("agents/")]


def restore(project: Project, home: Path, *args: str) -> Any:
    """Restore with this home; the report."""
    return json.loads(
        project.gitcp("restore", *args, "--yes", "--json", env={"HOME": str(home)}, check=0).out
    )
