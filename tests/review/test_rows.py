"""The rows of a page: calls with their results, and the markup of agents."""

from __future__ import annotations

import pytest

from gitcp.adapters.base import Message
from gitcp.review.pages.text import Part, parts, prompts, rows


def call(id: str | None) -> Message:
    """A call of a tool."""
    return Message("assistant", "{}", tool="Bash", call=id)


def result(id: str | None, text: str = "out") -> Message:
    """What a call gave back."""
    return Message("tool", text, tool="Bash", call=id)


def test_a_call_and_its_result_are_one_row() -> None:
    """By their id, whatever stands between; every message is in exactly one row."""
    said = Message("assistant", "I run both.")
    messages = [call("a"), call("b"), said, result("b", "2"), result("a", "1"), result("c")]

    made = rows(messages)
    assert [(row.message, row.result) for row in made] == [
        (messages[0], messages[4]),
        (messages[1], messages[3]),
        (said, None),
        (messages[5], None),
    ]


def test_without_ids_nothing_is_joined() -> None:
    """Nor a second result of one call: nothing is guessed, and nothing is dropped."""
    messages = [call(None), result(None), call("a"), result("a"), result("a", "again")]
    made = rows(messages)

    assert [row.result for row in made] == [None, None, messages[3], None]
    assert len(made) == 4


def test_prompts_are_numbered() -> None:
    """The numbers are those of the page's anchors."""
    messages = [Message("user", "one"), call("a"), Message("user", "two")]
    assert [row.prompt for row in rows(messages)] == [1, 0, 2]
    assert prompts(messages) == [(1, "one"), (2, "two")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", [Part("", "plain")]),
        ("", []),
        ("a <b>bold</b> claim", [Part("", "a <b>bold</b> claim")]),
        (
            "<command-name>/clear</command-name>\n<command-args></command-args>",
            [Part("Command", "/clear")],
        ),
        (
            "Do it.\n<system-reminder>\nBe brief.\n</system-reminder>",
            [Part("", "Do it."), Part("Reminder", "Be brief.")],
        ),
        ("<command-name>/x", [Part("", "<command-name>/x")]),
    ],
)
def test_markup(text: str, expected: list[Part]) -> None:
    """What an agent's program puts into a prompt is named; anything else stays as it is."""
    assert parts(text) == expected
