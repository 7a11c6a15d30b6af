"""What agents compressed, or wrote in a format that they have given up: stored byte for byte, read
like any other conversation where it can be, and resumed by the agent after a restore.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import kept_talks
import pytest
import zstandard

from gitcp import installed
from gitcp.cli.failure import IN_PART

from driver import SOURCE, Project


def adopt(project: Project, *options: str, env: dict[str, str] | None = None) -> Any:
    """Adopt; the one result."""
    results = project.gitcp("adopt", "--yes", "--json", *options, env=env, check=0).out
    (result,) = json.loads(results)["adopted"]
    return result


def one(home: Path, pattern: str) -> Path:
    """The one file that matches."""
    (path,) = home.glob(pattern)
    return path


# ---------------------------------------------------------------- Gemini CLI

CHATS = ".gemini/tmp/*/chats/session-*"


@pytest.fixture(params=[None, 2], ids=["on one line", "indented"])
def document(project: Project, sealed: Path, request: pytest.FixtureRequest) -> Path:
    """A chat as Gemini CLI wrote it until it wrote lines."""
    kept_talks.begin("gemini", project.root, "an old question")
    path = one(sealed, CHATS)
    head, *messages = map(json.loads, path.read_bytes().splitlines())
    path.unlink()
    path = path.with_suffix(".json")
    path.write_text(json.dumps({**head, "messages": messages}, indent=request.param))
    return path


def test_a_document_is_restored(project: Project, sealed: Path, document: Path) -> None:
    """It is found, shown, and comes back byte for byte, under a name that Gemini CLI resumes."""
    data, head = document.read_bytes(), json.loads(document.read_bytes())
    with project.guard():
        result = adopt(project)
    document.unlink()

    assert result["agent_session"] == head["sessionId"]
    assert result["id"] in project.gitcp("find", "old question", check=0).out
    assert project.json("show", result["id"])["conversation"]["messages"] == 2
    resume = project.json("restore", result["id"], "--yes")["resume"]
    assert resume["command"] == ["gemini", "--resume", head["sessionId"]]
    assert resume["repaired"] == {}
    restored = one(sealed, CHATS)
    assert restored.read_bytes() == data
    assert restored.name.endswith(f"-{head['sessionId']}.json")
    assert not any(each["id"] for each in project.json("adopt", "--yes")["adopted"])


def test_a_document_that_was_continued(project: Project, sealed: Path, document: Path) -> None:
    """Gemini CLI goes on in a chat of lines beside it: that is the session's next checkpoint, and
    the document comes back as a copy in lines, under an id of its own.
    """
    first = adopt(project)
    chat = json.loads(document.read_bytes())
    messages = chat.pop("messages")
    more = {"id": "u9", "timestamp": chat["startTime"], "type": "user", "content": "and then?"}
    lines = [chat, {"$set": {"messages": messages}}, more]
    document.with_suffix(".jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    second = adopt(project)

    assert second["id"] == first["id"].replace("@1", "@2")
    assert project.json("show", second["id"])["conversation"]["messages"] == 3
    resume = project.json("restore", first["id"], "--yes")["resume"]
    assert resume["session_id"] != chat["sessionId"]
    copy = one(sealed, f".gemini/tmp/*/chats/*{resume['session_id']}.jsonl")
    assert json.loads(copy.read_bytes().splitlines()[1])["$set"]["messages"] == messages


# ---------------------------------------------------------------- Codex

ROLLOUTS = ".codex/sessions/*/*/*/rollout-*"


@pytest.fixture
def rollout(project: Project, sealed: Path) -> bytes:
    """What is in a rollout that Codex compressed."""
    kept_talks.begin("codex", project.root, "a compressed question")
    path = one(sealed, ROLLOUTS)
    data = path.read_bytes()
    path.with_name(f"{path.name}.zst").write_bytes(zstandard.compress(data))
    path.unlink()
    return data


@pytest.fixture
def no_module(tmp_path: Path) -> dict[str, str]:
    """An environment in which no module decompresses."""
    directory = tmp_path / "without"
    for package in ("compression", "zstandard"):
        (directory / package).mkdir(parents=True)
        (directory / package / "__init__.py").write_text("raise ImportError")
    return {"PYTHONPATH": f"{directory}:{SOURCE}"}


def test_a_compressed_rollout(project: Project, sealed: Path, rollout: bytes) -> None:
    """It is stored as it was before, found, and not written again where it is intact."""
    with project.guard():
        result = adopt(project)

    assert result["id"] in project.gitcp("find", "compressed question", check=0).out
    resume = project.json("restore", result["id"], "--yes")["resume"]
    assert resume["session_id"] == result["agent_session"]
    packed = one(sealed, ROLLOUTS)
    assert packed.suffix == ".zst"
    packed.unlink()
    project.gitcp("restore", result["id"], "--yes", check=0)
    assert one(sealed, ROLLOUTS).read_bytes() == rollout


def test_a_compressed_sub_agent(project: Project, sealed: Path, rollout: bytes) -> None:
    """It is stored with the thread that started it, not as a conversation of its own."""
    packed = one(sealed, ROLLOUTS)
    thread = packed.name.removesuffix(".jsonl.zst")[-36:]
    other = "0" * 8 + thread[8:]
    data = rollout.replace(thread.encode(), other.encode())
    meta = json.loads(data.splitlines()[0])
    meta["payload"] |= {"session_id": thread, "thread_source": "subagent"}
    data = json.dumps(meta).encode() + b"\n" + b"\n".join(data.splitlines()[1:]) + b"\n"
    packed.with_name(packed.name.replace(thread, other)).write_bytes(zstandard.compress(data))

    result = adopt(project)

    assert result["agent_session"] == thread
    streams = project.json("show", result["id"])["conversation"]["streams"]
    assert {stream["name"] for stream in streams} == {"main", f"agents/{other}"}


def test_what_nothing_decompresses(
    project: Project, sealed: Path, rollout: bytes, no_module: dict[str, str]
) -> None:
    """Without a module it is named as skipped; --all stores its bytes, and they come back."""
    packed = one(sealed, ROLLOUTS)
    data = packed.read_bytes()
    skipped = project.gitcp("adopt", "--yes", env=no_module, check=0)
    wanted = f"compressed by Codex; to read it: {installed.install_extra('zstd')}\n"
    assert wanted in skipped.err
    result = adopt(project, "--all", env=no_module)

    packed.unlink()
    restore = ("restore", result["id"], "--yes", "--json")
    restored = project.gitcp(*restore, cwd=Path(result["store"]), env=no_module, check=0)
    assert json.loads(restored.out)["resume"]["session_id"] == result["agent_session"]
    packed = one(sealed, ROLLOUTS)
    assert packed.read_bytes() == data
    assert zstandard.decompress(data) == rollout
    again = project.gitcp("adopt", "--all", "--yes", "--json", env=no_module, check=0)
    assert not any(each["id"] for each in json.loads(again.out)["adopted"])


def test_a_compressed_rollout_that_is_damaged(project: Project, sealed: Path) -> None:
    """It is treated as one that nothing decompresses; another file is not overwritten by it."""
    kept_talks.begin("codex", project.root)
    path = one(sealed, ROLLOUTS)
    damaged = path.with_name(f"{path.name}.zst")
    damaged.write_bytes(zstandard.compress(path.read_bytes())[:-20])
    path.unlink()
    skipped = project.gitcp("adopt", "--yes", check=0).err
    assert ": compressed by Codex, and damaged\n" in skipped
    result = adopt(project, "--all")
    damaged.write_bytes(b"something else")

    refused = project.gitcp("restore", result["id"], "--yes", cwd=Path(result["store"]))

    assert refused.code != 0
    assert "already exists with other content" in refused.err
    assert damaged.read_bytes() == b"something else"


# ---------------------------------------------------------------- opencode


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_truncated_database(project: Project, sealed: Path, everywhere: bool) -> None:
    """Half of opencode's database is named with what SQLite says; the others' are stored."""
    kept_talks.begin_all(project.root, ["codex", "opencode"])
    path = sealed / ".local/share/opencode/opencode.db"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    done = project.gitcp("adopt", "--yes", *(["--all"] if everywhere else []))

    assert done.code == (IN_PART if everywhere else 0)
    assert "stored 1 conversation" in done.out
    assert "malformed" in done.err
    assert "Traceback" not in done.err


# ---------------------------------------------------------------- earlier versions


def test_a_rollout_of_bare_items(project: Project, sealed: Path) -> None:
    """Codex once wrote items without records: they are found, shown, and restored in records, as
    Codex needs them.
    """
    thread = "01980000-1111-7222-8333-444455556666"
    time = "2025-08-20T13:20:47.060Z"
    where = f"<environment_context>\n  <cwd>{project.root}</cwd>\n</environment_context>"
    items: list[dict[str, Any]] = [
        {"id": thread, "timestamp": time, "instructions": "y" * 9000, "git": {"branch": "main"}},
        {"record_type": "state"},
        *(
            {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}
            for role, text in (("user", where), ("user", "a bare prompt"), ("assistant", "yes"))
        ),
    ]
    path = sealed / f".codex/sessions/2025/08/20/rollout-2025-08-20T13-20-47-{thread}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(item) + "\n" for item in items))

    result = adopt(project)

    assert result["id"] in project.gitcp("find", "bare prompt", check=0).out
    assert project.json("show", result["id"])["conversation"]["messages"] == 2
    path.unlink()
    resume = project.json("restore", result["id"], "--yes")["resume"]
    assert list(resume["repaired"].values()) == [4]
    records = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [each["type"] for each in records] == ["session_meta", *["response_item"] * 3]
    assert {each["timestamp"] for each in records} == {time}
    assert records[0]["payload"]["id"] == thread
    assert records[0]["payload"]["cwd"] == str(project.root)


def test_sub_agents_beside_the_transcript(project: Project, sealed: Path) -> None:
    """Claude Code once kept them there: they are stored with their session, and come back where
    they are today; one without a session is named.
    """
    kept_talks.begin("claude-code", project.root)
    transcript = one(sealed, ".claude/projects/*/*.jsonl")
    for name, session in (("agent-0a1b", transcript.stem), ("agent-2c3d", "gone")):
        line = {"type": "user", "sessionId": session, "isSidechain": True, "uuid": name}
        line |= {"message": {"role": "user", "content": f"a zebra for {name}"}}
        transcript.with_name(f"{name}.jsonl").write_text(json.dumps(line) + "\n")
    data = transcript.with_name("agent-0a1b.jsonl").read_bytes()

    done = project.gitcp("adopt", "--yes", check=0)

    assert "not read: 1 file of claude-code" in done.err
    assert "zebra" in project.gitcp("find", "a zebra for agent-0a1b", check=0).out
    for path in transcript.parent.glob("*.jsonl"):
        path.unlink()
    project.gitcp("restore", "1", "--yes", check=0)
    assert one(sealed, ".claude/projects/*/*/subagents/agent-0a1b.jsonl").read_bytes() == data


def test_a_project_directory_named_by_its_hash(
    project: Project, sealed: Path, document: Path
) -> None:
    """Gemini CLI once named directories by the SHA-256 of the working directory's path."""
    name = sha256(os.fsencode(os.path.realpath(project.root))).hexdigest()
    directory = document.parent.parent.rename(sealed / ".gemini/tmp" / name)
    (directory / ".project_root").unlink(missing_ok=True)
    (sealed / ".gemini/projects.json").unlink(missing_ok=True)

    assert adopt(project)["id"]
    assert project.json("save", "one")["checkpoint"]["conversation"]["messages"] == 2


OLD = {
    "codex": ".codex/sessions/rollout-2025-05-01-1.json",
    "copilot": ".copilot/history-session-state/session_1_2.json",
    "gemini": ".gemini/tmp/shop/checkpoint-mine.json",
    "opencode": ".local/share/opencode/storage/session/global/ses_1.json",
}


def test_files_that_nothing_reads(project: Project, sealed: Path) -> None:
    """They are named with their agent, in words and in JSON, unless another agent was asked for."""
    for path in OLD.values():
        (sealed / path).parent.mkdir(parents=True)
        (sealed / path).write_text("{}")

    plan = project.json("adopt", "--dry-run")
    lines = project.gitcp("adopt", "--dry-run", check=0).out

    assert {each["agent"]: each["path"] for each in plan["skipped"]} == {
        agent: str(sealed / path) for agent, path in OLD.items()
    }
    assert all(f"not read: 1 file of {agent} in {sealed}" in lines for agent in OLD)
    assert "gemini" not in project.gitcp("adopt", "-n", "--agent", "codex", check=0).out
