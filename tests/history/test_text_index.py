"""The index of words: a search finds the same with it and without, and it is never trusted."""

from __future__ import annotations

import os
import random
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import transcripts
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from talk import Talk

from gitcp.history import find as find_module
from gitcp.history import show
from gitcp.history.find import find, index_conversations
from gitcp.history.matching import Hit, Matcher, Matches, Needle, searched_text
from gitcp.history.text_index import WORD, TextIndex
from gitcp.model import Oid
from gitcp.store import Store

from driver import Project
from samples import open_store

WORDS = ("parser", "dates", "month", "refused", "connection", "Größe", "naïve", "a1b2c3", "x")


def searched(store: Store, text: str, index: TextIndex | None, **how: bool) -> list[Hit]:
    """What a search finds in all sessions."""
    return find(store, store.sessions().values(), Needle(text, **how), index=index).hits


def test_the_same(project: Project) -> None:
    """Any part of any text is found with the index as without, in any case and across blanks."""
    chance = random.Random(1)
    for number in range(12):
        talk = Talk(project, f"{number:08x}-5d1c-4f0a-9b3e-2c6d8f1a7b90")
        for _ in range(20):
            talk.say(*(" ".join(chance.choices(WORDS, k=8)) for _ in range(2)))
    project.gitcp("adopt", "--yes", check=0)
    store = open_store(project)
    index = TextIndex(store.repo)
    index_conversations(store, index)

    for text in (
        "parser",
        "arse",
        "dates month",
        "tes mon",
        "Größe",
        "ïve x",
        "zebra",
        "2c3",
        "DATES",
    ):
        for ignore_case in (False, True):
            with_index = searched(store, text, index, ignore_case=ignore_case)
            assert with_index == searched(store, text, None, ignore_case=ignore_case), text
    assert searched(store, "par[s]er", index, regex=True)
    assert index.missing == 0


def test_a_page(project: Project) -> None:
    """The first hits are those of the whole list, also where an older conversation has them, and
    older conversations are not read for them.
    """
    chance = random.Random(2)
    talks = [Talk(project, f"{number:08x}-5d1c-4f0a-9b3e-2c6d8f1a7b90") for number in range(9)]
    for number, talk in enumerate(talks):
        for _ in range(chance.randrange(1, 6)):
            talk.say(*(" ".join(chance.choices(WORDS[:5], k=4)) for _ in range(2)))
        if number % 3 == 2:  # a fork has what the one before it has, under its own name
            talk.path.write_bytes(talks[number - 1].path.read_bytes() + talk.path.read_bytes())
        os.utime(talk.path, (1_700_000_000 + number,) * 2)
    project.gitcp("adopt", "--yes", check=0)
    store = open_store(project)
    index = TextIndex(store.repo)
    index_conversations(store, index)
    tips = list(store.sessions().values())

    for text in ("parser", "month refused", "dates", "nowhere"):
        everything = find(store, tips, Needle(text), index=index).hits
        assert everything == searched(store, text, None)
        for limit in range(1, len(everything) + 2):
            page = find(store, tips, Needle(text), index=index, limit=limit)
            assert page.hits == everything[:limit]
            assert bool(page.more) or limit >= len(everything)


def test_older_conversations_are_not_read(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once there are enough hits, no older conversation is read."""
    for number in range(30):
        talk = Talk(project, f"{number:08x}-5d1c-4f0a-9b3e-2c6d8f1a7b90")
        talk.say(f"the parser, part{number}", f"Done{number}.")
        own = talk.path.read_text("utf-8").replace('"u1"', f'"id{number}"')
        talk.path.write_text(own, "utf-8")
        os.utime(talk.path, (1_700_000_000 + number,) * 2)
    project.gitcp("adopt", "--yes", check=0)
    store = open_store(project)
    index = TextIndex(store.repo)
    index_conversations(store, index)
    read = 0
    matched = Matcher.in_content

    def in_content(matcher: Matcher, commit: Oid, path: bytes, data: bytes) -> Matches:
        nonlocal read
        read += 1
        return matched(matcher, commit, path, data)

    monkeypatch.setattr(Matcher, "in_content", in_content)
    tips = list(store.sessions().values())
    page = find(store, tips, Needle("parser"), ("prompts",), index, 5)

    assert [hit.text for hit in page.hits] == [f"the parser, part{n}" for n in range(29, 24, -1)]
    assert (page.more, read) == (25, 5)


def test_what_is_not_indexed_is_read(project: Project) -> None:
    """A session that was stored since is searched as well."""
    talk = Talk(project)
    talk.say("hello", "Hello.")
    project.gitcp("save", check=0)
    store = open_store(project)
    index_conversations(store, TextIndex(store.repo))
    talk.say("the zebra", "Which?")
    project.gitcp("save", check=0)

    index = TextIndex(store.repo)
    hits = searched(open_store(project), "zebra", index)

    assert [hit.text for hit in hits] == ["the zebra"]
    assert index.missing > 0


@pytest.mark.parametrize("damage", [b"", b"no database", None])
def test_a_damaged_index(project: Project, damage: bytes | None) -> None:
    """A damaged index is no obstacle: everything is read, and the next run builds it again."""
    Talk(project).say("the zebra", "Which?")
    project.gitcp("save", check=0)
    store = open_store(project)
    index = TextIndex(store.repo)
    index_conversations(store, index)
    data = index.path.read_bytes()
    index.path.write_bytes(data[: len(data) // 2] if damage is None else damage)

    assert len(searched(store, "zebra", TextIndex(store.repo))) == 1
    index_conversations(store, TextIndex(store.repo))
    assert len(searched(store, "zebra", TextIndex(store.repo))) == 1


def test_a_purge_drops_it(project: Project) -> None:
    """No word of what was purged stays in the index."""
    Talk(project).say("my password is quillwort", "Thank you.")
    project.gitcp("save", check=0)
    store = open_store(project)
    index = TextIndex(store.repo)
    index_conversations(store, index)
    with closing(sqlite3.connect(index.path)) as database:  # in the file, words share beginnings
        terms = database.execute("select term from terms where term = 'quillwort'")
        assert terms.fetchall() == [("quillwort",)]

    project.gitcp("purge", "--text", "quillwort", "--yes", check=0)

    assert not index.path.exists()
    assert not any(b"quillwort" in p.read_bytes() for p in project.git_dir.glob("gitcp/**/*.*"))


def test_only_for_the_user(project: Project) -> None:
    """The index has words of conversations: nobody else may read it."""
    Talk(project).say("hello", "Hello.")
    project.gitcp("save", check=0)
    store = open_store(project)
    index_conversations(store, TextIndex(store.repo))

    path = TextIndex(store.repo).path
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0


# ---------------------------------------------------------------- segments


def named(number: int) -> Oid:
    """The name of a segment."""
    return Oid(f"{number:040x}")


def filled(path: Path, segments: Iterable[bytes]) -> TextIndex:
    """An index of these segments, in a repository of its own."""
    project = Project(path)
    index = TextIndex(open_store(project).repo)
    texts = (searched_text("jsonl", b"main", data) for data in segments)
    index.add((named(number), text) for number, text in enumerate(texts) if text is not None)
    return index


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.text("abXY 9é\\", min_size=0, max_size=30), max_size=6),
    st.text("abXY9", max_size=5),
)
def test_no_match_is_lost(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], word: str
) -> None:
    """A segment that has the text is never among those that cannot have it."""
    segments = [f"{line}\n".encode() for line in lines]
    index = filled(tmp_path_factory.mktemp("index") / "p", segments)
    needle = Needle(word, ignore_case=True)

    excluded = index.without(needle.words, map(named, range(len(segments))))

    for number, data in enumerate(segments):
        if word.lower().encode() in data.lower():
            assert named(number) not in excluded


def test_words_that_are_cut(tmp_path: Path) -> None:
    """A segment that ends within a word, or has a long run of data, is always read."""
    index = filled(tmp_path / "p", [b"par", b"x" * 129 + b"\n", b"other\n"])

    assert index.without([b"parser"], map(named, range(3))) == {named(2)}


@pytest.mark.parametrize(
    "field",
    [
        b'"signature":"%s=="',
        b'"encrypted_content": "%s"',
        b'"reasoningOpaque":"%s"',
        b'"source":{"type":"base64","media_type":"image/png","data":"%s"}',
        b'"image_url":"data:image/png;base64,%s"',
    ],
)
def test_sealed_data_is_no_text(tmp_path: Path, field: bytes) -> None:
    """A segment with sealed thinking or an image is indexed by its other words."""
    segment = b'{"text":"parser",' + field % (b"Zm9v" * 99) + b"}\n"
    index = filled(tmp_path / "p", [segment])

    assert index.without([b"parser"], [named(0)]) == frozenset()
    assert index.without([b"dates"], [named(0)]) == {named(0)}


def test_too_common(tmp_path: Path) -> None:
    """A part of very many words, or a very short one, excludes nothing."""
    segments = [b"".join(b"ab%d " % n for n in range(600)) + b"\n", b"nothing\n"]
    index = filled(tmp_path / "p", segments)

    assert index.without([b"ab"], map(named, range(2))) == frozenset()
    assert index.without([], map(named, range(2))) == frozenset()
    assert index.without([b"ab599"], map(named, range(2))) == {named(1)}


@pytest.mark.parametrize("agent", ["claude-code", "codex", "copilot", "gemini", "opencode"])
def test_every_agent(project: Project, sealed: Path, agent: str) -> None:
    """Whatever is shown of a conversation is found with the index as without, whole or in part."""
    transcripts.write(agent, sealed, project.root)
    project.gitcp("save", check=0)
    store = open_store(project)
    index_conversations(store, TextIndex(store.repo))
    (tip,) = store.sessions().values()
    conversation = store.read(tip).conversation
    assert conversation is not None
    texts = [message.text for message in show.messages(store, conversation)]
    words = {word for text in texts for word in re.findall(r"[A-Za-z0-9]{3,}", text)}
    assert len(words) > 10

    for word in sorted(words):
        for part in (word, word[1:], word[:-1]):
            index = TextIndex(store.repo)
            assert searched(store, part, index) == searched(store, part, None), part
            assert index.missing == 0


@pytest.mark.parametrize("agent", ["claude-code", "codex", "copilot", "opencode"])
def test_what_no_message_has_is_not_read(
    project: Project, sealed: Path, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    """The names of an agent's fields, its ids and settings are no words of the conversation: no
    search finds them, and none reads a conversation for them.
    """
    transcripts.write(agent, sealed, project.root)
    project.gitcp("save", check=0)
    store = open_store(project)
    index_conversations(store, TextIndex(store.repo))
    field = {
        "claude-code": "parentUuid",
        "codex": "session_meta",
        "copilot": "toolRequests",
        "opencode": "sessionID",
    }
    word = field[agent]
    assert not searched(store, word, None)
    read: list[bytes] = []
    matched = Matcher.in_content

    def in_content(matcher: Matcher, commit: Oid, path: bytes, data: bytes) -> Matches:
        read.append(path)
        return matched(matcher, commit, path, data)

    monkeypatch.setattr(Matcher, "in_content", in_content)
    assert not searched(store, word, TextIndex(store.repo))
    assert not [path for path in read if b"/conversation/main/" in path]


def test_a_search_writes_nothing(project: Project) -> None:
    """A search only reads: it makes no index, which a repository that is mounted read-only could
    not have. A damaged index is left to the next run that adds to it.
    """
    Talk(project).say("the zebra", "Which?")
    project.gitcp("save", check=0)
    store = open_store(project)
    tips = list(store.sessions().values())

    index = TextIndex(store.repo)
    assert len(find(store, tips, Needle("zebra"), index=index, limit=1).hits) == 1
    assert not index.path.parent.exists()

    index_conversations(store, index)
    index.path.write_bytes(b"")
    assert len(find(store, tips, Needle("zebra"), index=index, limit=1).hits) == 1
    assert index.path.read_bytes() == b""


def test_the_index_of_an_older_version_is_removed(project: Project) -> None:
    """Nothing would read it again, and nothing else would delete it."""
    Talk(project).say("the zebra", "Which?")
    project.gitcp("save", check=0)
    store = open_store(project)
    index = TextIndex(store.repo)
    index.path.parent.mkdir()
    former = index.path.with_name("words-1.sqlite")
    former.write_bytes(b"former")

    index_conversations(store, index)

    assert index.path.exists()
    assert not former.exists()


def test_a_conversation_with_many_hits(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many messages match, what they have is looked for in one pass, not in one for each:
    23,000 hits in 45 MB took ten minutes.
    """
    for number in range(2):
        talk = Talk(project, f"{number:08x}-5d1c-4f0a-9b3e-2c6d8f1a7b90")
        for turn in range(150):
            talk.say(f"zebra {number} {turn}", f"the zebra {turn} of {number}")
    project.gitcp("adopt", "--yes", check=0)
    store = open_store(project)
    index = TextIndex(store.repo)
    index_conversations(store, index)
    passes, word = [], WORD

    class Counted:
        """The pattern of a word; notes how much it is asked to look through."""

        findall = staticmethod(word.findall)

        @staticmethod
        def finditer(content: bytes) -> Iterator[re.Match[bytes]]:
            passes.append(len(content))
            return word.finditer(content)

    monkeypatch.setattr(find_module, "WORD", Counted)
    hits = find(store, store.sessions().values(), Needle("zebra"), index=index, limit=1000).hits

    assert len(hits) == 600
    assert len(passes) == 1
