"""The README of a checkpoint: what it says, how small it is, and that nothing in it is alive."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kinds import FORMAT
from markdown_it import MarkdownIt
from markdown_it.token import Token

from gitcp import readme
from gitcp.model import (
    EXECUTABLE,
    FILE,
    SYMLINK,
    Agent,
    Base,
    Checkpoint,
    CheckpointId,
    Conversation,
    Digest,
    Entry,
    FileChange,
    Handoff,
    LastMessage,
    Note,
    Oid,
    Skip,
    SkipReason,
    Snapshot,
    Stream,
)
from gitcp.value import replace

from samples import plain

A, B = Entry(FILE, Oid("a" * FORMAT.digits)), Entry(FILE, Oid("b" * FORMAT.digits))
CHANGES = (
    FileChange(b"src/new.py", None, A),
    FileChange(b"src/app.py", A, B),
    FileChange(b"old.py", A, None),
    FileChange(b"run.sh", A, Entry(EXECUTABLE, A.oid)),
    FileChange(b"link", A, Entry(SYMLINK, B.oid)),
)


def full(text: str = "words", path: bytes = b"path", **fields: Any) -> Checkpoint:
    """A checkpoint in which everything that can be said is said, always with the same words."""
    made = plain(
        "e7baae82",
        12,
        agent=Agent("claude-code", "5e55", text, text),
        note=Note(
            text,
            text,
            text,
            {text: text},
            Handoff(text, (text,), (text,), (text,), (text,)),
            {text: text},
        ),
        snapshot=Snapshot(
            Oid("c" * FORMAT.digits),
            Base(Oid("d" * FORMAT.digits), text, text),
            42,
            (Skip(path, SkipReason.TOO_LARGE, text),),
        ),
        conversation=Conversation(
            "claude-code",
            Oid("e" * FORMAT.digits),
            (Stream("main", 1234, "0" * 64),),
            Digest(7, LastMessage(text, text, "m1"), text, text),
        ),
        restored_from=CheckpointId("e7baae82", 3),
        forked_from=CheckpointId("0ther", 9),
    )
    return replace(made, **fields)


# ---------------------------------------------------------------- what it says


def test_a_full_one() -> None:
    """Everything a reader wants is there, in the order of interest, and the way back is the last
    line.
    """
    note = Note(
        "add e-mail column",
        "migration",
        "users get mail",
        {"tests": "green", "db": "sqlite"},
        Handoff(
            "write the migration",
            ("keep SQLite",),
            ("alter table in place",),
            ("run it",),
            ("schema.sql",),
        ),
        {"record": "7000000"},
    )
    snapshot = Snapshot(
        Oid("c" * FORMAT.digits),
        Base(Oid("d" * FORMAT.digits), "main"),
        42,
        (Skip(b"big.bin", SkipReason.TOO_LARGE, "9 GB"),),
    )
    digest = Digest(7, LastMessage("assistant", "Done.\nAll tests pass."), "Add a column")
    talk = Conversation(
        "claude-code", Oid("e" * FORMAT.digits), (Stream("main", 1234, "0" * 64),), digest
    )
    agent = Agent("claude-code", "5e55", "2.1", "large")
    checkpoint = full(
        note=note,
        snapshot=snapshot,
        conversation=talk,
        agent=agent,
        restored_from=None,
        forked_from=None,
    )

    assert readme.render(checkpoint, CHANGES) == EXPECTED


EXPECTED = """\
# `add e-mail column`

Checkpoint `e7baae82@12`, 2026-11-02T09:12:00Z, manual, on `main`, at `dddddddddd`\x20\x20
Agent: `claude-code` `2.1` `large`

Phase: `migration`\x20\x20
Objective: `users get mail`\x20\x20
Position: `record=7000000`

## Facts

- `db`: `sqlite`
- `tests`: `green`

## Handoff

Task: `write the migration`

Decided:

- `keep SQLite`

Tried and failed:

- `alter table in place`

Next:

- `run it`

Active files:

- `schema.sql`

## Files

5 changed of 42.

- added: `src/new.py`
- modified: `src/app.py`
- deleted: `old.py`
- mode: `run.sh`
- type: `link`

Not captured (1):

- `big.bin`: too-large, `9 GB`

## Conversation

7 messages, 1234 bytes.

Last prompt:

```text
Add a column
```

Last message, from `assistant`:

```text
Done.
All tests pass.
```

To go back: `gitcp restore e7baae82@12`
"""


def test_a_bare_one() -> None:
    """What there is nothing to say about is not there."""
    assert readme.render(plain("s", 1), ()) == (
        "# `(no label)`\n\nCheckpoint `s@1`, 2026-11-02T09:01:00Z, manual, on `main`\n\n"
        "## Files\n\n0 changed of 0.\n\nTo go back: `gitcp restore s@1`\n"
    )


def test_it_is_small() -> None:
    """About a kilobyte as a rule, and never more than a few, however much there is to say."""
    assert len(EXPECTED) < 1024

    words = "word " * 10_000
    many = tuple(f"{n} {words}" for n in range(1000))
    note = Note(
        words, words, words, dict.fromkeys(many, words), Handoff(words, many, many, many, many), {}
    )
    skips = tuple(Skip(b"%d" % n * 500, SkipReason.TOO_MANY, words) for n in range(1000))
    changes = [FileChange(b"d/%04d" % n * 500, None, A) for n in range(1000)]
    talk = replace(full().conversation, digest=Digest(9, LastMessage("user", words * 9), words * 9))  # type: ignore[type-var]
    text = readme.render(
        full(words, note=note, snapshot=replace(full().snapshot, skipped=skips), conversation=talk),
        changes,
    )

    assert len(text) < 30_000


def test_long_lists_say_how_much_is_left_out() -> None:
    """20 paths by kind, 10 skips, 8 items of each list: and how many more there are."""
    changes = [FileChange(b"%03d" % n, None if n % 2 else A, B) for n in range(50)]
    skips = tuple(Skip(b"skip%02d" % n, SkipReason.TOO_LARGE) for n in range(13))
    handoff = Handoff(
        None, tuple(f"decided{n}" for n in range(11)), (), tuple(f"next{n}" for n in range(9))
    )
    checkpoint = plain(
        note=Note(handoff=handoff),
        snapshot=Snapshot(Oid("c" * FORMAT.digits), Base(None, None), 99, skips),
    )
    text = readme.render(checkpoint, changes)

    assert text.count("- added: ") == 20
    assert "- modified" not in text
    assert "50 changed of 99.\n\n- added: `001`\n" in text
    assert "- and 30 more\n\nNot captured (13):\n\n- `skip00`: too-large\n" in text
    assert "- `skip09`: too-large\n- and 3 more\n" in text
    assert "- `decided10`\n- and 3 more\n" in text
    assert "`decided2`" not in text
    assert "- `next0`\n" in text
    assert "- `next7`\n- and 1 more\n" in text


def test_the_same_text_every_time() -> None:
    """The order in which facts were given does not matter; nothing else than the checkpoint
    does.
    """
    one = plain(note=Note(facts={"a": "1", "b": "2"}, position={"x": "1", "y": "2"}))
    two = plain(note=Note(facts={"b": "2", "a": "1"}, position={"y": "2", "x": "1"}))

    assert readme.render(one, CHANGES) == readme.render(two, CHANGES[::-1])


# ---------------------------------------------------------------- nothing is alive


HOSTILE = (
    *(
        "<script>alert(1)</script>",
        "<!-- x -->",
        "<img src=x onerror=y>",
        "&lt;b&gt;",
        "<https://evil.example>",
    ),
    *(
        "![x](https://evil.example/x.png)",
        "[x](javascript:alert(1))",
        "https://evil.example www.evil.example a@b.c",
    ),
    *(
        "@everyone",
        "#12",
        "org/repo#12",
        "GH-12",
        "d" * FORMAT.digits,
        ":tada:",
        "$`x`$",
        "\\`",
        "`",
        "``",
        "```",
        "````\n# x",
    ),
    *(
        "` <b> `",
        " `",
        "` ",
        "a\n# heading",
        "a\n\n- item\n\n    code",
        "|a|b|\n|-|-|",
        "***",
        "===",
        "a  \nb",
        "~~~",
    ),
    *(
        "```\n<script>\n```",
        "text\n```text\n",
        "```` ` ````",
        "> quote",
        "1. one",
        "[x]: http://evil.example",
        "[^1]: y",
    ),
    *(
        "\x1b[31mred\x1b[0m",
        "\x1b]0;title\x07",
        "\u202eevil",
        "\u2066x\u2069",
        "a\u200bb",
        "\x9b31m",
        "\0",
        "\x7f",
    ),
    *(
        "\udcff",
        "\ud83d",
        "\r\n",
        "\r",
        "\x0b\x0c",
        "\u2028\u2029",
        "\x85",
        "\ufeff",
        "\t",
        "",
        " ",
        "\n",
        "é✓漢字🙂",
    ),
)

WORDS = re.compile(
    r"Checkpoint|manual|on|at|in the middle of a|Agent:|Phase:|Objective:|Position:|Restored "
    r"from:|Forked from:|Facts|"
    r"Handoff|Task:|Decided:|Tried and failed:|Next:|Active files:|Files|Conversation|Last "
    r"prompt:|Last message, from|"
    r"To go back:|Not captured \(\d+\):|\d+ changed of \d+\.|\d+ messages, \d+ bytes\.|"
    r"(added|modified|deleted|mode|type):|and \d+ "
    r"more|too-large|\(empty\)|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|[,:]"
)


def is_inert(text: str) -> bool:
    """Whether nothing is left when our own words and what stands in code are taken away."""
    tokens = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)
    return all(_is_ours(token) for block in tokens for token in (block, *(block.children or ())))


def _is_ours(token: Token) -> bool:
    if token.type == "text":
        return not WORDS.sub("", token.content).strip()
    return token.type in {
        *(
            "heading_open",
            "heading_close",
            "paragraph_open",
            "paragraph_close",
            "bullet_list_open",
            "bullet_list_close",
        ),
        *(
            "list_item_open",
            "list_item_close",
            "inline",
            "code_inline",
            "fence",
            "hardbreak",
            "softbreak",
        ),
    }


@pytest.mark.parametrize(
    "text",
    ["# <b>x</b>", "![x](y)", "[x](y)", "<https://a.b>", "x", "* * *", "|a|\n|-|\n|b|", "~~a~~"],
)
def test_the_judge_sees_what_is_alive(text: str) -> None:
    """The test below could fail: HTML, links, images, rules, tables and foreign words are not
    inert.
    """
    assert not is_inert(text)


texts = st.sampled_from(HOSTILE) | st.text() | st.text("`~ \n<>@#[]()!|\\-*_a\u202e\x1b")


@pytest.mark.faults
@settings(max_examples=300)
@given(text=texts | st.lists(texts).map("".join), path=st.binary(min_size=1))
@example(text="`" * 500 + " x " + "`" * 499, path=b"`a` <b>\n\xff")
@example(text="```\n" * 100, path=b"\xe2\x80\xae")
def test_whatever_is_said_is_only_text(text: str, path: bytes) -> None:
    """What people, agents and files bring stays in code, unseen characters are shown, and the frame
    stands.
    """
    checkpoint = full(text, path)
    shown = readme.render(checkpoint, (FileChange(path, None, A),))

    assert is_inert(shown)
    assert all(char in "\n\u200c\u200d" or char.isprintable() for char in shown)
    assert shown.encode("utf-8").decode("utf-8") == shown
    assert shown.endswith("\n\nTo go back: `gitcp restore e7baae82@12`\n")
    assert headings(shown) == [
        "Facts",
        *(["Handoff"] if checkpoint.note.handoff else []),
        "Files",
        "Conversation",
    ]


def headings(text: str) -> list[str]:
    tokens = MarkdownIt("commonmark").parse(text)
    return [
        after.content
        for token, after in pairwise(tokens)
        if token.type == "heading_open" and token.tag == "h2"
    ]


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_words(text: str) -> None:
    """The known tricks of Markdown, forges and terminals stay what they are: words."""
    shown = readme.render(
        full(text, text.encode("utf-8", "surrogateescape") if text != "\ud83d" else b"x"), ()
    )

    assert is_inert(shown)
    assert all(char in "\n\u200c\u200d" or char.isprintable() for char in shown)


def test_words_come_back_as_they_were() -> None:
    """What stands in code is what was said, backticks and all."""
    for text in ("a `b` c", "``", "x`", "`x", "<b> & @all #1", "é✓漢字", r"back\slash", "a|b"):
        tokens = MarkdownIt("commonmark").parse(readme.render(plain(note=Note(objective=text)), ()))
        codes = [
            child.content
            for token in tokens
            for child in token.children or ()
            if child.type == "code_inline"
        ]

        assert text in codes


def test_what_cannot_be_seen_is_shown() -> None:
    """Controls, direction marks and bytes that are no text appear as escapes."""
    note = Note(objective="a\x1b[31m\u202eb", facts={"k": "\udcff"})
    shown = readme.render(plain(note=note), (FileChange(b"x\xff\n\x07", None, A),))

    assert r"`a\x1b[31m\u202eb`" in shown
    assert r"`k`: `\udcff`" in shown
    assert r"added: `x\xff \x07`" in shown
