"""The real Claude Agent SDK with the real Claude Code, offline: rewound by gitcp, and by its own
`rewind_files`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage, UserMessage
from real_agents import CLAUDE, in_order

from gitcp.claude import GitSessionStore, options

from driver import Project
from scripted_model import ScriptedModel, Step, said

pytestmark = pytest.mark.skipif(
    not CLAUDE.exists(), reason=f"needs Claude Code (npm) in {CLAUDE.parents[2]}"
)

SHELL = "printf 'by the shell\\n' > by_shell.txt; echo two >> a.txt"


def common(home: Path, model: ScriptedModel) -> dict[str, Any]:
    """What both runs are given: the real agent, offline, in a home of its own, that says the uuids
    of messages.
    """
    env = {
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "IS_SANDBOX": "1",
        "ANTHROPIC_API_KEY": "not-a-key",
        "ANTHROPIC_BASE_URL": model.url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "NO_PROXY": "127.0.0.1",
    }
    said_by_user = {"replay-user-messages": None}
    return {
        "env": env,
        "cli_path": CLAUDE,
        "permission_mode": "bypassPermissions",
        "extra_args": said_by_user,
    }


async def ask(client: ClaudeSDKClient, prompt: str) -> tuple[str, str]:
    """One turn; the session's id and the uuid of the message that began it."""
    await client.query(prompt)
    message, session = "", ""
    async for each in client.receive_response():
        if isinstance(each, UserMessage) and not message:
            message = each.uuid or ""
        if isinstance(each, ResultMessage):
            assert not each.is_error, each.result
            session = each.session_id
    return session, message


def steps(project: Project) -> tuple[Step, ...]:
    """Two turns: the edit tool makes a file; then the shell changes one and makes another, and the
    tool a third.
    """
    write = {"file_path": str(project.root / "first.txt"), "content": "by the tool\n"}
    again = {"file_path": str(project.root / "second.txt"), "content": "by the tool\n"}
    return (
        {"tool": "Write", "input": write},
        {"text": "Written."},
        {"tool": "Bash", "input": {"command": SHELL}},
        {"tool": "Write", "input": again},
        {"text": "Changed."},
    )


@pytest.fixture
def begun(project: Project) -> Project:
    """A project with one file."""
    project.write("a.txt", "one\n")
    project.commit()
    return project


def test_rewind_knows_the_shell(begun: Project, tmp_path: Path) -> None:
    """Each turn is a checkpoint; a rewind takes back what the shell did, and the agent forgets the
    turn.
    """

    async def both_turns() -> tuple[GitSessionStore, str, str]:
        with ScriptedModel(*steps(begun)) as model:
            given = options(begun.root, **common(tmp_path / "home", model))
            async with ClaudeSDKClient(given) as client:
                await ask(client, "first: write a file")
                session, message = await ask(client, "second: use the shell")
            assert isinstance(given.session_store, GitSessionStore)
            return given.session_store, session, message

    async def third_turn(session: str) -> list[str]:
        with ScriptedModel({"text": "Again."}) as model:
            given = options(begun.root, resume=session, **common(tmp_path / "home", model))
            async with ClaudeSDKClient(given) as client:
                assert (await ask(client, "third: another way"))[0] == session
            return said(model.requests[0])

    with begun.guard():
        store, session, message = asyncio.run(both_turns())
    turns = [s for s in store.checkpoints.log() if s.trailers["Gitcp-Trigger"] == "turn"]
    # What the agent writes when all is said may come by itself.
    changed = [
        files for turn in turns if "(0 changed)" not in (files := turn.trailers["Gitcp-Files"])
    ]
    assert changed == ["4 (3 changed)", "2 (1 changed)"]

    report = asyncio.run(store.rewind(session, message))

    assert not report.failed
    assert {name: file.data for name, file in begun.files().items()} == {
        b"a.txt": b"one\n",
        b"first.txt": b"by the tool\n",
    }
    heard = asyncio.run(third_turn(session))
    assert in_order(["first: write a file", "Written.", "third: another way"], heard)
    assert not any("second: use the shell" in text for text in heard)


def test_goes_on_from_the_beginning(begun: Project, tmp_path: Path) -> None:
    """Rewound in the stream, and to the first prompt: the session is resumed by its id and as the
    newest one, and the model hears nothing of what was taken back.
    """
    risky = {"command": "echo danger > danger.txt"}
    store = GitSessionStore(begun.root)

    async def stopped() -> tuple[str, str]:
        steps = ({"tool": "Bash", "input": risky}, {"text": "Done."})
        with ScriptedModel(*steps) as model:
            given = options(begun.root, session_store=store, **common(tmp_path / "home", model))
            async with ClaudeSDKClient(given) as client:
                await client.query("first: risky")
                message = session = ""
                async for each in client.receive_response():
                    if isinstance(each, UserMessage) and not message:
                        message = each.uuid or ""
                    if isinstance(each, UserMessage) and begun.root.joinpath("danger.txt").exists():
                        assert (await store.rewind(session, message)).removed == (b"danger.txt",)
                    session = getattr(each, "session_id", None) or session
            return session, message

    async def next_turn(prompt: str, **resumed: Any) -> tuple[str, list[str]]:
        with ScriptedModel({"text": f"To {prompt}."}) as model:
            given = options(begun.root, **resumed, **common(tmp_path / "home", model))
            async with ClaudeSDKClient(given) as client:
                session, _ = await ask(client, prompt)
            return session, said(model.requests[0])

    session, message = asyncio.run(stopped())
    assert not begun.root.joinpath("danger.txt").exists()
    asyncio.run(store.rewind(session, message))
    heard: list[str] = []
    ways: list[dict[str, Any]] = [
        {"session_id": session},
        {"resume": session},
        {"continue_conversation": True},
    ]
    for number, resumed in enumerate(ways):
        same, heard = asyncio.run(next_turn(f"way {number}", **resumed))
        assert same == session
    assert in_order(["way 0", "To way 0.", "way 1", "To way 1.", "way 2"], heard)
    assert not any("risky" in text for text in heard)


def test_its_own_rewind_misses_the_shell(begun: Project, tmp_path: Path) -> None:
    """Side by side: the SDK's `rewind_files` takes back the edit tool's file and leaves what the
    shell did.
    """

    async def both_turns() -> None:
        with ScriptedModel(*steps(begun)) as model:
            given = ClaudeAgentOptions(
                cwd=begun.root, enable_file_checkpointing=True, **common(tmp_path / "home", model)
            )
            async with ClaudeSDKClient(given) as client:
                await ask(client, "first: write a file")
                _, message = await ask(client, "second: use the shell")
                await client.rewind_files(message)

    asyncio.run(both_turns())

    files = {name: file.data for name, file in begun.files().items()}
    assert b"second.txt" not in files
    assert files[b"by_shell.txt"] == b"by the shell\n"
    assert files[b"a.txt"] == b"one\ntwo\n"
