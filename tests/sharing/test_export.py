"""`gitcp export`: a session or a conversation as a file for others, without secrets unless they are
allowed.
"""

from __future__ import annotations

import base64
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from dialogues import AGENTS
from markdown_it import MarkdownIt
from talk import Talk
from tokens import tokens

from gitcp import adapters
from gitcp.adapters import base
from gitcp.adapters.base import Image, Message
from gitcp.model import Agent
from gitcp.secrets.scan import fingerprint
from gitcp.sharing import markdown, trajectory

from driver import SOURCE, Project
from samples import open_store, plain, save

TOKEN = tokens()["github-token"]
ID = fingerprint("github-token", TOKEN.encode())


@pytest.fixture
def spoken(project: Project) -> Project:
    """A project with two checkpoints of an agent's session e7baae82, the second one tagged."""
    project.write("a.txt", "one\n")
    project.commit()
    talk = Talk(project)
    talk.say("Make it work.", "It works.")
    project.gitcp("save", "one", "--phase", "build", "--objective", "speed", check=0)
    project.write("a.txt", "two\n")
    talk.say("Faster.", "It is faster.")
    project.gitcp("save", "two", "--tag", "good", check=0)
    return project


def test_bundle(spoken: Project, tmp_path: Path) -> None:
    """A bundle is one that git reads: the session up to the revision, with the tags on it,
    whole.
    """
    with spoken.guard():
        said = spoken.gitcp("export", "-o", "../all.bundle", check=0).out
        spoken.gitcp("export", "1", "-o", "../first.bundle", check=0)
    assert re.fullmatch(
        r"exported e7baae82@2 to \.\./all\.bundle  \(2 checkpoints, [\d,]+ bytes\)\n", said
    )
    for name, refs in (
        ("all", ["sessions/e7baae82", "tags/good"]),
        ("first", ["sessions/e7baae82"]),
    ):
        bare = tmp_path / f"{name}.git"
        subprocess.run(["git", "init", "--quiet", "--bare", bare], check=True)
        fetch = [
            "git",
            "-c",
            "fetch.fsckObjects=true",
            "fetch",
            "--quiet",
            f"../{name}.bundle",
            "refs/*:refs/*",
        ]
        subprocess.run(fetch, cwd=bare, check=True)
        listed = subprocess.run(
            ["git", "for-each-ref", "--format=%(refname)"],
            cwd=bare,
            capture_output=True,
            check=True,
        )
        assert listed.stdout.decode().split() == [f"refs/gitcp/{ref}" for ref in refs]
    spoken.git("bundle", "verify", "../all.bundle")


def test_transcript(spoken: Project, sealed: Path) -> None:
    """A transcript is the agent's file, byte for byte."""
    (path,) = sealed.glob(".claude/projects/*/*.jsonl")
    spoken.gitcp("export", "--format", "transcript", "-o", "../talk", check=0)

    assert spoken.read("../talk") == path.read_bytes()
    assert spoken.read("../talk").startswith(
        spoken.gitcp("export", "1", "-f", "transcript").out.encode()
    )
    assert (
        "it has: main" in spoken.gitcp("export", "-f", "transcript", "--stream", "no", check=16).err
    )


def test_json(spoken: Project) -> None:
    """JSON is the checkpoint as `show --json` has it, with its messages and metadata, and without
    who changed which file, agents' memories, and tokens.
    """
    document = json.loads(spoken.gitcp("export", "1", "--format", "json", check=0).out)
    shown = spoken.json("show", "1")
    shown.pop("changes")
    shown.pop("memory")
    shown.pop("tokens")

    assert {key: document[key] for key in shown if key != "schema"} == {
        k: v for k, v in shown.items() if k != "schema"
    }
    assert next(iter(document)) == "schema"
    assert document["schema"] == "gitcp.export/1"
    assert [(m["role"], m["content"]) for m in document["messages"]] == [
        ("user", "Make it work."),
        ("assistant", "It works."),
    ]
    assert document["metadata"] == {
        "savedAt": shown["created"],
        "phase": "build",
        "objective": "speed",
    }


def test_files(spoken: Project, tmp_path: Path) -> None:
    """A file is written whole, for the user alone, over no other file unless told so; its ending
    says the format.
    """
    spoken.gitcp("export", "-o", "../talk.md", check=0)
    path = tmp_path / "talk.md"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "It is faster." in path.read_text()

    path.write_text("mine")
    assert "--force" in spoken.gitcp("export", "-o", "../talk.md", check=12).err
    assert path.read_text() == "mine"
    document = spoken.json("export", "-o", "../talk.md", "--force", "--session", "e7baae82")
    assert (document["format"], document["bytes"]) == ("markdown", path.stat().st_size)
    for arguments in (
        ("-o", "../no/talk.md"),
        ("-o", ".."),
        ("-o", "../talk.xyz"),
        ("--json", "-f", "json"),
        (),
        ("-f", "pdf"),
    ):
        assert "Traceback" not in spoken.gitcp("export", *arguments, check=2).err
    refused = spoken.gitcp("export", "-f", "json", "-o", "../traces/", check=2).err
    assert "traces is not a directory: nothing was written" in refused
    assert f"hint: mkdir -p {spoken.root}/../traces\n" in refused
    assert sorted(os.listdir(tmp_path)) == ["project", "talk.md"]
    (tmp_path / "traces").mkdir()
    spoken.gitcp("export", "-f", "json", "-o", "../traces/", check=0)
    assert os.listdir(tmp_path / "traces") == ["e7baae82.json"]


def test_nothing_said(project: Project) -> None:
    """Without a conversation there is only a bundle."""
    project.write("a.txt", "a\n")
    project.gitcp("save", check=0)

    for form in ("json", "markdown", "atif", "sts", "transcript"):
        assert "no conversation" in project.gitcp("export", "-f", form, check=16).err
    project.gitcp("export", "-o", "../x.bundle", check=0)


# ---------------------------------------------------------------- secrets


@pytest.mark.parametrize("form", ["bundle", "json", "transcript", "markdown", "atif", "sts"])
def test_secrets(spoken: Project, form: str) -> None:
    """With a secret nothing is written; redacted it is not in it; allowed it is."""
    talk = Talk(spoken)
    talk.say(f"Use {TOKEN} for it.", "Yes.")
    spoken.write("env", f"KEY={TOKEN}\n")
    spoken.gitcp("save", f"with {TOKEN}", check=0)
    refused = spoken.gitcp("export", "-f", form, "-o", "../out", check=15)
    assert ID in refused.err
    assert TOKEN not in refused.err
    assert not os.path.exists(spoken.path("../out"))

    with spoken.guard():
        spoken.gitcp("export", "-f", form, "-o", "../out", "--redact", check=0)
    spoken.gitcp("export", "-f", form, "-o", "../whole", "--allow", ID, check=0)
    if form != "bundle":
        assert TOKEN.encode() not in spoken.read("../out")
        assert TOKEN.encode() in spoken.read("../whole")
    assert TOKEN in spoken.gitcp("show", "@:env", check=0).out


def test_redacted_bundle(spoken: Project, tmp_path: Path) -> None:
    """In a redacted bundle ids, tags and what holds no secret are as they were, and every
    checkpoint is whole.
    """
    token = tokens()["npm-token"]
    Talk(spoken).say(f"Use {TOKEN} for it.", "Yes.")
    spoken.write("env", f"KEY={TOKEN}\n")
    spoken.git("add", "env")
    spoken.write("env", f"KEY={token}\n")
    spoken.gitcp("save", "three", "--fact", f"key={TOKEN}", "--tag", "leak", check=0)
    spoken.write("env", "KEY=\n")
    spoken.gitcp("save", "four", check=0)
    spoken.gitcp("export", "-o", "../out.bundle", "--redact", check=0)

    other = Project(tmp_path / "other")
    other.git("fetch", "--quiet", "../out.bundle", "refs/*:refs/*")
    other.gitcp("check", check=0)
    theirs, ours = (p.json_lines("log", "e7baae82") for p in (other, spoken))
    assert [c["id"] for c in theirs] == [c["id"] for c in ours]
    assert [c["commit"] for c in theirs][2:] == [c["commit"] for c in ours][2:]
    assert other.gitcp("show", "leak:env", check=0).out == "KEY=[REDACTED:npm-token]\n"
    assert "[REDACTED:github-token]" in other.gitcp("show", "leak:.gitcp/staged/env", check=0).out
    everything = other.git("cat-file", "--batch-all-objects", "--batch")
    assert TOKEN not in everything
    assert token not in everything
    assert (
        "Use [REDACTED:github-token] for it."
        in other.gitcp("export", "e7baae82", "-f", "json", check=0).out
    )


def test_secret_in_a_path(spoken: Project) -> None:
    """A secret in the name of a path is replaced there too, as a push does it."""
    spoken.write(f"{TOKEN}.txt", "x")
    spoken.gitcp("save", check=0)

    spoken.gitcp("export", "-o", "../x.bundle", "--redact", check=0)

    other = Project(spoken.root.parent / "other")
    other.git("fetch", "--quiet", "../x.bundle", "refs/*:refs/*")
    other.gitcp("check", check=0)
    assert TOKEN not in other.git("ls-tree", "-r", "refs/gitcp/sessions/e7baae82")
    assert other.gitcp("show", "e7baae82@3:[REDACTED:github-token].txt", check=0).out == "x"


def test_secret_across_segments(project: Project) -> None:
    """A secret that lies in two segments of a conversation is replaced as one, and what follows is
    where it was.
    """
    store = open_store(project)
    head = b"x " * (128 * 1024 - 10)
    talk = {"main": head + TOKEN.encode() + b" tail\n" + b"more\n" * 9}
    save(store, "alpha", {b"a": b"a"}, talk)
    save(store, "alpha", {b"a": b"b"}, {"main": talk["main"] + b"and more\n"})
    project.gitcp("export", "alpha", "-o", "../x.bundle", "--redact", check=0)

    other = Project(project.root.parent / "other")
    other.git("fetch", "--quiet", "../x.bundle", "refs/*:refs/*")
    other.gitcp("check", check=0)
    said = other.gitcp("export", "alpha", "-f", "transcript", check=0).out.encode()
    assert said == head + b"[REDACTED:github-token] tail\n" + b"more\n" * 9 + b"and more\n"


# ---------------------------------------------------------------- trajectories

TALK = (
    Message("system", "You are."),
    Message("user", "Go.", time="2026-11-02T09:01:00Z"),
    Message("thinking", "Hm."),
    Message("assistant", "I look.", time="yesterday"),
    Message("assistant", '{"path":"a"}', tool="Read"),
    Message("assistant", "not JSON", tool="Read"),
    Message("tool", "first", tool="Read"),
    Message("tool", "second", tool="Read"),
    Message("assistant", "Done."),
    Message("tool", "of nobody", tool="Write"),
)


def is_content(value: Any) -> bool:
    """Whether it is a text, or parts: texts, and images by path."""
    return isinstance(value, str) or all(map(is_part, value))


def is_part(part: dict[str, Any]) -> bool:
    """Whether it is a text alone, or an image with its type and path alone."""
    if part["type"] == "text":
        return part.keys() == {"type", "text"} and isinstance(part["text"], str)
    types = ("image/png", "image/jpeg", "image/gif", "image/webp")
    source = part["source"]
    plain_image = part.keys() == {"type", "source"} and source.keys() == {"media_type", "path"}
    return part["type"] == "image" and plain_image and source["media_type"] in types


def problems(document: dict[str, Any]) -> list[str]:
    """What is wrong with a trajectory by the rules of the format: fields, order, and what answers
    what.
    """
    steps = document["steps"]
    wrong = [f"step {n}" for n, step in enumerate(steps, 1) if step["step_id"] != n]
    allowed = {
        "step_id",
        "timestamp",
        "source",
        "message",
        "reasoning_content",
        "tool_calls",
        "observation",
    }
    for step in steps:
        wrong += [f"field {key}" for key in step.keys() - allowed]
        if step["source"] not in ("system", "user", "agent") or not is_content(step["message"]):
            wrong.append(f"step {step['step_id']}: source or message")
        if step["source"] != "agent" and {"reasoning_content", "tool_calls"} & step.keys():
            wrong.append(f"step {step['step_id']}: only an agent thinks and calls")
        calls = {call["tool_call_id"]: call for call in step.get("tool_calls", [])}
        wrong += [
            f"arguments of {id}"
            for id, call in calls.items()
            if not isinstance(call["arguments"], dict)
        ]
        answered = [
            r.get("source_call_id") for r in step.get("observation", {"results": []})["results"]
        ]
        contents = [r["content"] for r in step.get("observation", {"results": []})["results"]]
        wrong += [f"content {value!r}" for value in contents if not is_content(value)]
        wrong += [f"{id} answers nothing" for id in answered if id is not None and id not in calls]
    return wrong


def test_trajectory() -> None:
    """Thinking, calls and results are one step of the agent's; a result belongs to its call; times
    are times.
    """
    document = trajectory.render(plain(agent=Agent("codex", "5e55", None, "model")), TALK)
    steps = document["steps"]

    assert problems(document) == []
    assert document["schema_version"] == "ATIF-v1.7"
    assert document["session_id"] == "5e55"
    assert document["agent"] == {"name": "codex", "version": "unknown", "model_name": "model"}
    assert [step["source"] for step in steps] == ["system", "user", "agent", "agent", "system"]
    assert (steps[2]["reasoning_content"], steps[2]["message"]) == ("Hm.", "I look.")
    assert [c["arguments"] for c in steps[2]["tool_calls"]] == [
        {"path": "a"},
        {"input": "not JSON"},
    ]
    assert [r["content"] for r in steps[2]["observation"]["results"]] == ["first", "second"]
    assert [step.get("timestamp") for step in steps[:3]] == [None, "2026-11-02T09:01:00Z", None]


def line(**fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def claude_part(role: str, **part: Any) -> bytes:
    return line(type=role, uuid="u", message={"role": role, "content": [part]})


def codex_item(**payload: Any) -> bytes:
    return line(timestamp="2026-11-02T09:01:00Z", type="response_item", payload=payload)


def gemini_answer(id: str, response: dict[str, str]) -> dict[str, Any]:
    return {"functionResponse": {"id": id, "name": "Read", "response": response}}


def opencode_part(id: str, status: str, answer: dict[str, Any]) -> dict[str, Any]:
    state = {"status": status, "input": {"path": id.lower()}, **answer}
    return {"type": "tool", "tool": "Read", "callID": id, "state": state}


BOTH = [{"toolCallId": id, "name": "Read", "arguments": {"path": id.lower()}} for id in "AB"]
REVERSED: dict[str, list[bytes]] = {
    "claude-code": [
        claude_part("assistant", type="tool_use", id="A", name="Read", input={"path": "a"}),
        claude_part("assistant", type="tool_use", id="B", name="Read", input={"path": "b"}),
        claude_part("user", type="tool_result", tool_use_id="B", content="of b", is_error=True),
        claude_part("user", type="tool_result", tool_use_id="A", content="of a"),
    ],
    "codex": [
        codex_item(type="function_call", call_id="A", name="Read", arguments='{"path":"a"}'),
        codex_item(type="function_call", call_id="B", name="Read", arguments='{"path":"b"}'),
        codex_item(
            type="function_call_output", call_id="B", output={"content": "of b", "success": False}
        ),
        codex_item(type="function_call_output", call_id="A", output="of a"),
    ],
    "copilot": [
        line(type="assistant.message", id="m", data={"content": "", "toolRequests": BOTH}),
        line(
            type="tool.execution_complete",
            id="b",
            data={"toolCallId": "B", "success": False, "result": "of b"},
        ),
        line(
            type="tool.execution_complete",
            id="a",
            data={"toolCallId": "A", "success": True, "result": "of a"},
        ),
    ],
    "gemini": [
        line(
            id="1",
            type="gemini",
            content="",
            toolCalls=[{"id": id, "name": "Read", "args": {"path": id.lower()}} for id in "AB"],
        ),
        line(
            id="2",
            type="user",
            content=[gemini_answer("B", {"error": "of b"}), gemini_answer("A", {"output": "of a"})],
        ),
    ],
    "opencode": [
        line(
            info={"role": "assistant", "id": "m"},
            parts=[
                opencode_part("B", "error", {"error": "of b"}),
                opencode_part("A", "completed", {"output": "of a"}),
            ],
        )
    ],
}
"""Two calls of one tool at once, by every agent: the second one answers first, where there is an
order, and fails.
"""


@pytest.mark.parametrize("agent", sorted(REVERSED))
def test_a_result_belongs_to_the_call_that_it_names(agent: str) -> None:
    """Results of calls made at once arrive in any order; each is its call's, and an error is
    one.
    """
    messages = list(adapters.load(agent).messages(REVERSED[agent]))
    document = trajectory.render(plain(), messages)

    assert problems(document) == []
    steps = document["steps"]
    calls = {
        call["tool_call_id"]: call["arguments"]
        for step in steps
        for call in step.get("tool_calls", [])
    }
    results = [
        result for step in steps for result in step.get("observation", {"results": []})["results"]
    ]
    assert calls == {"A": {"path": "a"}, "B": {"path": "b"}}
    found = {
        result.get("source_call_id"): (result["content"], result.get("extra")) for result in results
    }
    assert found == {"A": ("of a", None), "B": ("of b", {"error": True})}
    assert len(results) == 2
    assert {message.call for message in messages if message.tool} == {"A", "B"}


def test_every_call_has_one_result() -> None:
    """A late result goes back to its call; a second one and one of no call stand alone; a call
    without one says so.
    """
    talk = (
        Message("assistant", '{"n":1}', tool="Read", call="A"),
        Message("assistant", '{"n":2}', tool="Read", call="B"),
        Message("assistant", "Meanwhile."),
        Message("tool", "late", tool="Read", call="A"),
        Message("tool", "again", tool="Read", call="A"),
        Message("tool", "of nobody", tool="Read", call="C"),
        Message("assistant", '{"n":3}', tool="Read", call="A"),
        Message("tool", "third", tool="Read", call="A"),
    )
    document = trajectory.render(plain(), talk)

    assert problems(document) == []
    results = [
        r for step in document["steps"] for r in step.get("observation", {"results": []})["results"]
    ]
    assert [(r.get("source_call_id"), r["content"], r.get("extra")) for r in results] == [
        ("A", "late", None),
        ("B", "", {"missing": True}),
        (None, "again", None),
        (None, "of nobody", None),
        ("A-again", "third", None),
    ]


PNG = base64.b64encode(bytes(1000)).decode()
WEB = "https://example.com/a.png"
OPENCODE_PNG = {"type": "file", "mime": "image/png", "url": f"data:image/png;base64,{PNG}"}
GEMINI_PNG = {"inlineData": {"mimeType": "image/png", "data": PNG}}
PICTURED: dict[str, list[bytes]] = {
    "claude-code": [
        claude_part(
            "user", type="image", source={"type": "base64", "media_type": "image/png", "data": PNG}
        ),
        claude_part("user", type="image", source={"type": "url", "url": WEB}),
        claude_part("assistant", type="tool_use", id="A", name="Read", input={}),
        claude_part(
            "user",
            type="tool_result",
            tool_use_id="A",
            content=[
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": PNG},
                }
            ],
        ),
    ],
    "codex": [
        codex_item(
            type="message",
            role="user",
            content=[
                {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
                {"type": "input_image", "image_url": WEB},
            ],
        ),
        codex_item(type="function_call", call_id="A", name="Read", arguments="{}"),
        codex_item(
            type="function_call_output",
            call_id="A",
            output=[{"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}],
        ),
    ],
    "copilot": [
        line(
            type="user.message",
            id="u",
            data={
                "content": "",
                "attachments": [
                    {"type": "blob", "data": PNG, "mimeType": "image/png"},
                    {"type": "file", "path": WEB},
                    {"type": "file", "path": "/notes.txt"},
                ],
            },
        ),
        line(type="assistant.message", id="m", data={"content": "", "toolRequests": BOTH[:1]}),
        line(
            type="tool.execution_complete",
            id="a",
            data={
                "toolCallId": "A",
                "success": True,
                "result": {
                    "content": "",
                    "contents": [{"type": "image", "data": PNG, "mimeType": "image/png"}],
                },
            },
        ),
    ],
    "gemini": [
        line(
            id="1",
            type="user",
            content=[
                GEMINI_PNG,
                {"fileData": {"mimeType": "image/png", "fileUri": WEB}},
                {"text": ""},
            ],
        ),
        line(
            id="2",
            type="gemini",
            content="",
            toolCalls=[
                {
                    "id": "A",
                    "name": "Read",
                    "args": {},
                    "result": [gemini_answer("A", {}), GEMINI_PNG],
                }
            ],
        ),
    ],
    "opencode": [
        line(info={"role": "user", "id": "u"}, parts=[OPENCODE_PNG, {**OPENCODE_PNG, "url": WEB}]),
        line(
            info={"role": "assistant", "id": "m"},
            parts=[opencode_part("A", "completed", {"output": "", "attachments": [OPENCODE_PNG]})],
        ),
    ],
}
"""A prompt with two images, one of them by its address, and a result that is one, by every agent.
"""


@pytest.mark.parametrize("agent", sorted(PICTURED))
def test_no_image_is_left_out(agent: str) -> None:
    """A trajectory names each image where it stands: by its path, or by type and size; none of its
    bytes is in it.
    """
    messages = list(adapters.load(agent).messages(PICTURED[agent]))
    kept, place = Image("image/png", PNG), Image("image/png", place=WEB)
    asked = [image for message in messages if message.role == "user" for image in message.images]
    given = [message for message in messages if message.role == "tool"]

    assert asked == [kept, place]
    assert [(message.call, message.images) for message in given] == [("A", (kept,))]
    assert all(message.text for message in messages)
    document = trajectory.render(plain(), messages)
    assert problems(document) == []
    said = json.dumps(document)
    assert said.count("[image: image/png, 1,000 bytes]") == 2
    assert (
        said.count(
            json.dumps({"type": "image", "source": {"media_type": "image/png", "path": WEB}})
        )
        == 1
    )
    assert PNG[:50] not in said


def test_images_beside_words() -> None:
    """Words stay before their images; what no path can name is a text."""
    images = (Image("image/svg+xml", place="a.svg"), Image("image"))
    (step,) = trajectory.render(plain(), [Message("user", "Look:", images=images)])["steps"]
    assert step["message"] == "Look:\n[image: image/svg+xml, a.svg]\n[image: image]"

    (step,) = trajectory.render(
        plain(), [Message("user", "Look:", images=(base.image_at("/a.JPG?x=1"),))]
    )["steps"]
    path = {"type": "image", "source": {"media_type": "image/jpeg", "path": "/a.JPG?x=1"}}
    assert step["message"] == [{"type": "text", "text": "Look:"}, path]


def test_images_in_json(spoken: Project) -> None:
    """The JSON export has the bytes of each image, as its agent keeps them."""
    with Talk(spoken).path.open("ab") as file:
        file.writelines(PICTURED["claude-code"])
    spoken.gitcp("save", "seen", check=0)
    messages = json.loads(spoken.gitcp("export", "-f", "json", check=0).out)["messages"][4:]

    kept = {"mediaType": "image/png", "bytes": 1000, "data": PNG, "path": None}
    place = {"mediaType": "image/png", "bytes": None, "data": None, "path": WEB}
    assert [message.get("images") for message in messages] == [[kept], [place], None, [kept]]


EMPTY: dict[str, list[bytes]] = {
    "claude-code": [
        claude_part("assistant", type="tool_use", id="A", name="Bash", input={}),
        claude_part("user", type="tool_result", tool_use_id="A", content=""),
    ],
    "codex": [
        codex_item(type="function_call", call_id="A", name="shell", arguments="{}"),
        codex_item(type="function_call_output", call_id="A", output=""),
    ],
    "copilot": [
        line(type="assistant.message", id="m", data={"content": "", "toolRequests": BOTH[:1]}),
        line(
            type="tool.execution_complete",
            id="a",
            data={"toolCallId": "A", "success": True, "result": ""},
        ),
    ],
    "opencode": [
        line(
            info={"role": "assistant", "id": "m"},
            parts=[opencode_part("A", "completed", {"output": ""})],
        ),
    ],
}


@pytest.mark.parametrize("agent", sorted(EMPTY))
def test_a_result_that_says_nothing_is_one(agent: str) -> None:
    """A call that gave back nothing has ended: it is not one that nothing answered."""
    (step,) = trajectory.render(plain(), adapters.load(agent).messages(EMPTY[agent]))["steps"]

    assert step["observation"]["results"] == [{"source_call_id": "A", "content": ""}]


def test_why_a_call_failed() -> None:
    """Copilot CLI keeps the reason of a failed call in a field of its own; opencode's call that
    runs has no result.
    """
    error = {"toolCallId": "A", "success": False, "error": {"message": "no such file"}}
    copilot = [*EMPTY["copilot"][:1], line(type="tool.execution_complete", id="a", data=error)]
    (step,) = trajectory.render(plain(), adapters.load("copilot").messages(copilot))["steps"]
    failed = {"source_call_id": "A", "content": "no such file", "extra": {"error": True}}
    assert step["observation"]["results"] == [failed]

    runs = [line(info={"role": "assistant", "id": "m"}, parts=[opencode_part("A", "running", {})])]
    (step,) = trajectory.render(plain(), adapters.load("opencode").messages(runs))["steps"]
    assert step["observation"]["results"] == [
        {"source_call_id": "A", "content": "", "extra": {"missing": True}}
    ]


def test_trajectory_of_a_session(spoken: Project) -> None:
    """A session's trajectory says which checkpoint it is of."""
    document = json.loads(spoken.gitcp("export", "-f", "atif", check=0).out)

    assert problems(document) == []
    assert document["extra"]["checkpoint"] == "e7baae82@2"
    assert document["extra"]["commit"] == spoken.git("rev-parse", "refs/gitcp/sessions/e7baae82")
    assert [step["message"] for step in document["steps"]][:2] == ["Make it work.", "It works."]


# ---------------------------------------------------------------- Markdown

HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![x](https://evil.example/x.png)",
    "[x](javascript:alert(1))",
    "[x]: https://evil.example",
    "<https://evil.example>",
    "https://evil.example www.evil.example",
    "# heading",
    "- list\n* list\n1. list\n+ list",
    "a\n===\nb\n---",
    "> quote",
    "`code` ``` <b>x</b>",
    "```\n</details><script>1</script>\n```",
    "```html\n<b>never closed",
    "~~~\n```\n<b>\n~~~\n<i>",
    "    indented",
    "| a | b |\n|---|---|\n| <b> | x |",
    "&lt;b&gt; &#60;b&#62;",
    "</details><b>",
    "\x1b[31mred\x1b[0m \u202e right to left",
    "$x$ ^y^ ~~z~~ __b__ **b**",
    "@everyone #1 !2",
)
TAGS = {"h1", "h2", "p", "br", "code", "pre", "details", "summary"}


@pytest.mark.parametrize("role", ["user", "assistant", "tool", "thinking", "<b>x"])
def test_hostile_markdown(role: str) -> None:
    """Whatever was said, a forge shows it as text: no markup, no link, no image, no control
    character.
    """
    said = [
        Message(role, text, tool=tool) for text in HOSTILE for tool in (None, "<script>x</script>")
    ]
    page = b"".join(markdown.render(plain(), said)).decode()
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(page)
    shown = re.sub(r"<pre>.*?</pre>|<code>.*?</code>", "", html, flags=re.DOTALL)

    assert set(re.findall(r"</?([a-zA-Z0-9!]+)", shown)) <= TAGS
    assert html.count("<details>") == html.count("</details>")
    assert "\x1b" not in page
    assert "\u202e" not in page
    outside = re.sub(r"^(`{3,})text$.*?^\1$", "", page, flags=re.MULTILINE | re.DOTALL)
    assert not re.search(r"[a-z]://|www\.", outside)


def test_markdown_reads_well() -> None:
    """Ordinary text is as it was written: paragraphs, and code as code."""
    said = [
        Message("user", "Make it work, please (soon)."),
        Message("assistant", "Done:\n\n```py\nx = 1 < 2\n```\nEnd."),
    ]
    page = b"".join(markdown.render(plain(), said)).decode()

    assert page.endswith(
        "## User\n\nMake it work, please (soon).\n\n## Agent\n\nDone:\n\n```text\nx = 1 < "
        "2\n```\n\nEnd.\n"
    )


# ---------------------------------------------------------------- for another agent

SPOKEN = ("Make it work.", "It works.", "Faster.", "It is faster.")


@pytest.mark.parametrize("agent", [agent for agent in AGENTS if agent != "claude-code"])
def test_as_another_agent(spoken: Project, agent: str) -> None:
    """Every message, in order, in a transcript of that agent, with the note at its head."""
    spoken.gitcp("save", "three", "--fact", "budget=2s", "--decided", "no cache", check=0)
    with spoken.guard():
        done = spoken.gitcp("export", "--as", agent, "-o", "../it", "--json", check=0)
    made = json.loads(done.out)
    assert made["format"] == "transcript"
    assert made["converted"]["from"]["agent"] == "claude-code"
    assert made["converted"]["to"]["agent"] == agent
    assert (made["converted"]["messages"], made["converted"]["omitted"]) == (4, {})

    whole = (spoken.root.parent / "it").read_text()
    places = [whole.index(text) for text in ("budget = 2s", "no cache", *SPOKEN)]
    assert places == sorted(places)


def test_what_a_conversion_leaves_out_is_listed(spoken: Project) -> None:
    """Beside the transcript; and a secret stops it."""
    Talk(spoken).think("a thought")
    spoken.gitcp("save", check=0)
    done = spoken.gitcp("export", "--as", "opencode", check=0)
    assert done.err == (
        "converted 4 messages from Claude Code to opencode\n  not included: 1 thinking\n"
    )
    assert json.loads(done.out)["info"]["id"].startswith("ses_")

    Talk(spoken).say(f"The key is {TOKEN}.")
    spoken.gitcp("save", check=None)
    refused = spoken.gitcp("export", "--as", "codex", check=15)
    redacted = spoken.gitcp("export", "--as", "codex", "--redact", check=0)
    assert TOKEN not in refused.out + redacted.out
    assert "[REDACTED:github-token]" in redacted.out


def test_what_cannot_be_converted(spoken: Project) -> None:
    """To the same agent, to one that is unknown, in another format, or without a conversation."""
    with spoken.guard():
        same = spoken.gitcp("export", "--as", "claude-code", check=12)
        assert "is Claude Code's already; nothing was converted" in same.err
        spoken.gitcp("export", "--as", "cursor", check=2)
        spoken.gitcp("export", "--as", "codex", "-f", "atif", check=2)
    save(open_store(spoken), "alone")
    spoken.gitcp("export", "alone", "--as", "codex", check=16)


PEAK = """
import resource, subprocess, sys
subprocess.run([sys.executable, *sys.argv[1:]], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""A small process between, because a fork of a large one counts as large."""


@pytest.mark.parametrize("form", ["markdown", "transcript"])
def test_little_memory(project: Project, form: str) -> None:
    """A long conversation is read, scanned and written part by part."""
    peaks = []
    content = "words of a person, and some more of them than a line of a page usually has\n" * 1500
    line = {"type": "user", "message": {"role": "user", "content": content}}
    for name, prompts in (("short", 1), ("long", 320)):
        lines = (json.dumps({**line, "uuid": f"{n}", "sessionId": name}) for n in range(prompts))
        (project.root / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        given = ("--session", name, "--conversation", f"{name}.jsonl", "--agent", "claude-code")
        project.gitcp("save", name, *given, check=0)
        args = ["-P", "-m", "gitcp", "export", f"{name}@1", "-f", form, "-o", f"{name}.{form}"]
        done = subprocess.run(
            [sys.executable, "-c", PEAK, *args],
            cwd=project.root,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            capture_output=True,
            check=True,
        )
        peaks.append(int(done.stdout.split()[-1]) << 10)
    size = (project.root / f"long.{form}").stat().st_size
    assert size > 16 << 20
    assert peaks[1] - peaks[0] < size
