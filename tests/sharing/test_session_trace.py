"""A conversation as a session trace: a line for the session, then its messages in order."""

from __future__ import annotations

import json

from talk import Talk
from tokens import tokens

from gitcp.adapters.base import Image, Message
from gitcp.sharing import session_trace, trajectory

from driver import Project
from samples import plain

TALK = (
    Message("system", "Be brief."),
    Message(
        "user", "Look:", time="2026-11-02T09:00:00Z", images=(Image("image/png", place="a.png"),)
    ),
    Message("thinking", "Hm."),
    Message("assistant", "I read it.", time="2026-11-02T09:00:01.5Z"),
    Message("assistant", '{"path": "a"}', tool="read", call="A"),
    Message("tool", "its text", call="A"),
    Message("tool", "from nowhere", call="B"),
    Message("assistant", "Done."),
)


def test_messages() -> None:
    """Thinking, calls and results are in their places; a result that answers nothing stands
    alone.
    """
    header, *lines = session_trace.lines(trajectory.render(plain(), TALK), "A title")
    assert (header["type"], header["id"], header["name"]) == ("session", "alpha", "A title")
    assert {line["type"] for line in lines} == {"message"}
    call = {"id": "A", "function": {"name": "read", "arguments": '{"path":"a"}'}}
    assert [line["message"] for line in lines] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Look:\n[image: a.png]", "timestamp": 1793610000000},
        {
            "role": "assistant",
            "content": "I read it.",
            "toolCalls": [call],
            "reasoningContent": "Hm.",
        },
        {"role": "tool", "content": "its text", "toolCallId": "A"},
        {"role": "tool", "content": "from nowhere"},
        {"role": "assistant", "content": "Done."},
    ]


def test_a_directory_of_them(project: Project) -> None:
    """A data set is a directory with a file for each session, without secrets."""
    directory, secret = project.root.parent / "traces", tokens()["npm-token"]
    directory.mkdir()
    for id, text in (("aaaaaaaa", "one"), ("bbbbbbbb", secret)):
        Talk(project, f"{id}-0000-4000-8000-000000000000").say(text)
        project.gitcp("save", "--session", id, check=0)
    typed = ("export", "-f", "sts", "-o", "../traces")
    said = project.gitcp(*typed, "--session", "aaaaaaaa", check=0).out
    assert said.startswith("exported aaaaaaaa@1 to ../traces/aaaaaaaa.jsonl  (")
    project.gitcp(*typed, "--session", "bbbbbbbb", check=15)
    project.gitcp(*typed, "--session", "bbbbbbbb", "--redact", check=0)
    project.gitcp(*typed, "--session", "bbbbbbbb", "--redact", check=12)
    names = sorted(each.name for each in directory.iterdir())
    assert names == ["aaaaaaaa.jsonl", "bbbbbbbb.jsonl"]
    assert secret not in "".join(each.read_text() for each in directory.iterdir())


def test_exported(project: Project) -> None:
    """The command writes a line of JSON for each."""
    Talk(project).say("Make it work.", "It works.")
    project.gitcp("save", check=0)
    lines = project.gitcp("export", "-f", "sts", check=0).out.splitlines()
    header, *messages = map(json.loads, lines)
    assert header["harness"] == "claude-code"
    assert [each["message"]["content"] for each in messages] == ["Make it work.", "It works."]
