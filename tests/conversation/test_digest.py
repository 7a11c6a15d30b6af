"""What listings show of a conversation is taken further from save to save, however the file was cut
between them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

import gitcp
from gitcp import adapters
from gitcp.adapters import generic
from gitcp.conversation.segments import LARGEST
from gitcp.model import Digest
from gitcp.saving import conversation

from driver import Project
from samples import open_store, plain


def line(number: int, size: int = 0) -> bytes:
    """A message."""
    role = "user" if number % 2 else "assistant"
    return json.dumps(
        {"role": role, "content": f"message {number} " + "x" * size, "id": f"m{number}"}
    ).encode()


def counted(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The lines that are digested from now on."""
    read: list[bytes] = []

    def digest(before: Digest, lines: Iterable[bytes]) -> Digest:
        taken = list(lines)
        read.extend(taken)
        return generic.digest(before, taken)

    monkeypatch.setattr(adapters, "for_format", lambda _: SimpleNamespace(digest=digest))
    return read


@pytest.mark.parametrize("end", [b"\n", b""], ids=["finished", "torn"])
@pytest.mark.parametrize("cut", [0, 9], ids=["whole line", "half a line"])
def test_each_save_reads_what_is_new(
    project: Project, monkeypatch: pytest.MonkeyPatch, end: bytes, cut: int
) -> None:
    """Also where the file ends within a line, or in one without a line feed: and as if all were
    read at once.
    """
    read = counted(monkeypatch)
    store, parent, text = open_store(project), None, b""
    for number in range(60):
        text += (b"\n" if text and not end else b"") + line(number, 2000) + end
        data = text[: len(text) - cut]
        read.clear()
        kept, _ = conversation.store_capture(store, generic.from_bytes(data), parent)
        assert kept is not None
        assert kept.digest == generic.digest(Digest(), data.split(b"\n"))
        # before that, half a line may be the rest of a document
        assert sum(map(len, read)) < 3 * 2100 or number < 40
        parent = plain("talk", number + 1, conversation=kept)
    read.clear()
    again, _ = conversation.store_capture(store, generic.from_bytes(data), parent)
    store.writer.discard()
    assert again == kept
    assert b"".join(read) == b""


@pytest.mark.parametrize("seed", range(30))
def test_however_it_was_cut(project: Project, seed: int) -> None:
    """Lines that are values of their own before they go on, blank ones, carriage returns, long
    ones, documents.
    """
    rng = Random(seed)
    parts = [line(n, rng.choice((0, 10, LARGEST))) for n in range(6)]
    parts += [
        b"{}",
        b"3",
        b"[",
        b"",
        b"not JSON",
        b'{"role":"user","content":"a"} {"role":"user"}',
        line(7) + b"\r",
    ]
    rng.shuffle(parts)
    first = rng.choice((b"", b'{"messages": [', b"[\n"))
    text = (
        first + rng.choice((b"\n", b"\r\n", b",\n")).join(parts) + rng.choice((b"", b"\n", b"]}"))
    )
    ends = {rng.randrange(1, len(text)) for _ in range(12)} | {
        text.find(b"\n", rng.randrange(len(text))) for _ in "12"
    }
    store, parent = open_store(project), None
    for end in [*sorted(ends - {-1, 0}), len(text), len(text)]:
        capture = generic.from_bytes(text[:end])
        kept, _ = conversation.store_capture(store, capture, parent)
        assert kept is not None
        assert kept.digest == generic.digest(Digest(), text[:end].split(b"\n")), (
            end,
            capture.format,
        )
        parent = plain("talk", 1, conversation=kept)
    store.writer.discard()


def test_by_the_command(project: Project, tmp_path: Path) -> None:
    """A transcript that never ends in a line feed counts right from save to save."""
    talk = tmp_path / "talk.jsonl"
    for number in range(1, 6):
        talk.write_bytes(b"\n".join(line(each) for each in range(number)))
        project.gitcp("save", "--session", "talk", "--conversation", str(talk), check=0)
        assert project.json("show", "talk")["conversation"]["messages"] == number
    assert gitcp.open(project.root).conversation("talk") == talk.read_bytes()
