"""Dialogues for tests: made up, or drawn; and what of them an agent's transcript can hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from gitcp.adapters import converter
from gitcp.adapters.conversion import Target, stored
from gitcp.dialogue import Aside, Block, Call, Content, Dialogue, File, Item, Result, Text, Thinking
from gitcp.model import Agent
from gitcp.value import replace

AGENTS = ("claude-code", "codex", "copilot", "gemini", "opencode", "pi", "qwen")
PIXEL = "R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="
PICTURE = File("image/gif", PIXEL)
PAGE = File("application/pdf", "JVBERi0xLjQK", "page.pdf")

IMAGES = {"image/gif"}
FILES = {
    "claude-code": IMAGES | {"application/pdf"},
    "codex": IMAGES,
    "copilot": IMAGES,
    "gemini": IMAGES | {"application/pdf"},
    "opencode": IMAGES | {"application/pdf"},
    "pi": IMAGES,
    "qwen": IMAGES | {"application/pdf"},
}
"""The media types that each agent takes."""

WITHOUT_THINKING = {"claude-code", "opencode"}
WITHOUT_FILES_IN_RESULTS = {"copilot"}
WITHOUT_FAILURES = {"codex"}
WITHOUT_ASIDES = {"pi"}

BEGAN = datetime(2026, 11, 23, 9, 0, tzinfo=UTC)


def target(session_id: str = "5e55ed00-0000-4000-8000-000000000001", cwd: str = "/w") -> Target:
    return Target(session_id, cwd, BEGAN)


def through(agent: str, dialogue: Dialogue) -> Dialogue:
    """The dialogue, written as a transcript of this agent and read again."""
    pieces = converter(agent)
    return pieces.read(stored(pieces.write(dialogue, target()).capture))


def flat(items: Iterable[Item], agent: str | None = None) -> list[tuple[Any, ...]]:
    """What is said, in order, however it is divided into messages. With an agent: of it, what that
    agent has a place for.
    """
    entries: list[tuple[Any, ...]] = []
    for item in items:
        for entry in _entries(item, agent):
            if entries and entries[-1][0] == entry[0] and entry[0] in ("said", "thought"):
                entries[-1] = (entry[0], f"{entries[-1][1]}\n{entry[1]}")
            else:
                entries.append(entry)
    return entries


def _entries(item: Item, agent: str | None) -> Iterator[tuple[Any, ...]]:
    if item.role != "assistant":
        content = [_fit(b, agent) for b in item.blocks if isinstance(b, Text | File)]
        yield "user", *_content(content)
        return
    for block in item.blocks:
        match block:
            case Text():
                yield "said", block.text
            case Thinking():
                if agent not in WITHOUT_THINKING:
                    yield "thought", block.text
            case Call():
                failed = block.result.failed
                named = failed or agent in WITHOUT_FILES_IN_RESULTS
                parts = [_fit(part, agent, named=named) for part in block.result.content]
                kept = failed and agent not in WITHOUT_FAILURES
                arguments = json.loads(block.arguments)
                yield "called", block.id, block.name, arguments, kept, *_content(parts)


def _content(parts: list[Content]) -> tuple[str, tuple[Any, ...]]:
    texts = "\n".join(part.text for part in parts if isinstance(part, Text))
    return texts, tuple((part.media, part.data) for part in parts if isinstance(part, File))


def _fit(part: Content, agent: str | None, *, named: bool = False) -> Content:
    if isinstance(part, File) and agent and (named or part.media not in FILES[agent]):
        return Text(part.described())
    return part


# ---------------------------------------------------------------- drawn

WORDS: st.SearchStrategy[str] = st.text(
    st.characters(blacklist_categories=["Cs"]), min_size=1
).filter(lambda text: bool(text.strip()) and not text.lstrip().startswith(("<", "[", "# AGENTS")))
CONTENT = st.one_of(WORDS.map(Text), st.sampled_from([PICTURE, PAGE]))
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)
ARGUMENTS = st.dictionaries(WORDS, VALUES, max_size=3) | WORDS.map(lambda text: {"input": text})
RESULTS = st.builds(Result, st.lists(CONTENT, max_size=2).map(tuple), st.booleans())
CALLS = st.builds(
    Call,
    st.just(""),
    st.sampled_from(["Bash", "apply_patch", "mcp__x__y"]),
    ARGUMENTS.map(lambda value: json.dumps(value, ensure_ascii=False)),
    RESULTS,
)
PROMPTS = st.lists(CONTENT, min_size=1, max_size=2).map(lambda blocks: Item("user", tuple(blocks)))
BLOCKS: st.SearchStrategy[Block] = st.one_of(WORDS.map(Text), WORDS.map(Thinking), CALLS)
ANSWERS = st.lists(BLOCKS, min_size=1, max_size=4).map(
    lambda blocks: Item("assistant", tuple(blocks), model="a-model")
)
ITEMS: st.SearchStrategy[list[Item]] = st.lists(PROMPTS | ANSWERS, min_size=1, max_size=6)


@st.composite
def dialogues(draw: st.DrawFn) -> Dialogue:
    """A dialogue of any shape, with a sub-agent or none; its first message has some text."""
    items = numbered([Item("user", (Text("begin"),)), *draw(ITEMS)], "call")
    calls = [call.id for item in items for call in item.calls()]
    asides: tuple[Aside, ...] = ()
    if calls:
        has_aside: bool = draw(st.booleans())
        if has_aside:
            sub = numbered([Item("user", (Text("look"),)), *draw(ITEMS)], "sub")
            asides = (Aside("a1", sub, calls[-1]),)
    return Dialogue(Agent("made-up", "s1", "1", "a-model"), items, asides, cwd="/w")


def numbered(items: Iterable[Item], prefix: str) -> tuple[Item, ...]:
    """The items, with an id for each call."""
    count = iter(range(1000))
    return tuple(
        replace(
            item,
            blocks=tuple(
                replace(block, id=f"{prefix}_{next(count)}") if isinstance(block, Call) else block
                for block in item.blocks
            ),
        )
        for item in items
    )
