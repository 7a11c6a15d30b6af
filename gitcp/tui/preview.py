"""What the preview of a checkpoint shows, as blocks of lines that fold. Reads, and writes nothing.

The texts are a stranger's: they become lines here, and `gitcp.tui.lines` shows them as text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from gitcp import wire
from gitcp.errors import GitcpError
from gitcp.git import quoted
from gitcp.humanize import short
from gitcp.model import Checkpoint, Claim, Oid, Trigger
from gitcp.store import Store
from gitcp.tui.lines import Line, Part, wrapped
from gitcp.worktree.paths import display

if TYPE_CHECKING:
    from gitcp.adapters.base import Message
    from gitcp.worktree.snapshot import Limits

TABS = ("Conversation", "Changes", "Handoff", "Files")
BASES = ("parent", "now", "marked")
"""What the changes of a checkpoint are compared with."""

MOST_COLORED = 1500
"""Lines of one preview that get the colors of their language: more would slow the screen down."""

MOST_OPEN = 400
"""Changed lines up to which every file is unfolded."""

MOST_LINES = 20_000
LONG = 12
"""Lines of a message that are shown before it is unfolded."""

TABLES = b"@@ tables @@"
"""Begins what differs between two databases (gitcp.history.databases)."""

HUNK = re.compile(rb"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)")
PATHS = re.compile(rb'diff --git (?:"a/(.*)" "b/.*"|a/(.*) b/\2)')


class Block(NamedTuple):
    """A heading, and lines that are shown if it is unfolded."""

    key: str
    head: Line | None
    body: Sequence[Line] = ()
    open: bool = True


class Wanted(NamedTuple):
    """What is previewed: a checkpoint, with those folded into its row down to `oldest`. `marked` is
    the commit to compare with, `path` a file to open.
    """

    commit: str
    oldest: str
    tab: str
    width: int
    base: str = "parent"
    marked: str | None = None
    path: bytes | None = None


class Preview(NamedTuple):
    """A preview that was read: blocks, or the paths of a checkpoint."""

    wanted: Wanted
    about: str
    blocks: Sequence[Block] = ()
    paths: Sequence[bytes] | None = None


class Blocks:
    """A source of blocks; `flipped` are the keys of those that were folded or unfolded by hand."""

    def __init__(self, blocks: Sequence[Block], flipped: set[str]) -> None:
        self.blocks, self.flipped = blocks, flipped
        self._lines: list[tuple[str, Line]] = []
        for block in blocks:
            shown = list(block.body) if self.is_open(block) or block.head is None else []
            if block.head is not None:
                sign = ("  " if not block.body else "▾ " if shown else "▸ ", "dim")
                shown.insert(0, block.head._replace(left=(sign, *block.head.left)))
            self._lines += ((f"{block.key}#{number}", line) for number, line in enumerate(shown))

    def is_open(self, block: Block) -> bool:
        """Return whether the body of a block is shown."""
        return block.open != (block.key in self.flipped)

    def __len__(self) -> int:
        return len(self._lines)

    def key(self, index: int) -> str | None:
        return self._lines[index][0]

    def line(self, index: int, width: int) -> Line:  # noqa: ARG002
        return self._lines[index][1]


class Paths:
    """A source of paths."""

    def __init__(self, paths: Sequence[bytes]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def key(self, index: int) -> str | None:
        return f"path:{os.fsdecode(self.paths[index])}#"

    def line(self, index: int, width: int) -> Line:  # noqa: ARG002
        directory, slash, name = display(self.paths[index]).rpartition("/")
        return Line(((f"{directory}{slash}", "dim"), (name, "")))


def block_of(key: str | None) -> str | None:
    """Return the key of the block that a line belongs to."""
    return key.rpartition("#")[0] if key else None


def path_of(key: str | None) -> bytes | None:
    """Return the path that a line of the preview stands for."""
    block = block_of(key)
    return os.fsencode(block[5:]) if block and block.startswith("path:") else None


def read(store: Store, wanted: Wanted, limits: Limits) -> Iterator[Preview]:
    """Yield a preview; for changes and files twice, without and with the colors of the language."""
    checkpoint = store.read(Oid(wanted.commit))
    if wanted.tab == "Changes":
        yield from _changes(store, checkpoint, wanted, limits)
    elif wanted.tab == "Conversation":
        yield _conversation(store, checkpoint, wanted)
    elif wanted.tab == "Handoff":
        yield Preview(wanted, f"#{checkpoint.id.number}", _handoff(checkpoint, wanted.width))
    elif wanted.path is None:
        yield _files(store, checkpoint, wanted)
    else:
        yield from _file(store, checkpoint, wanted, wanted.path)


# ---------------------------------------------------------------- conversation


def _conversation(store: Store, checkpoint: Checkpoint, wanted: Wanted) -> Preview:
    from gitcp.history import tokens
    from gitcp.history.turns import turns  # and the adapters behind it
    from gitcp.history.usage import UsageReader

    about = f"#{checkpoint.id.number} since the checkpoint before"
    if checkpoint.conversation is None:
        return Preview(wanted, about, [_said("no conversation was saved")])
    before, parent = None, store.summary(Oid(wanted.oldest)).parent
    if parent is not None:
        with suppress(GitcpError):
            before = store.read(parent).conversation
    spent = tokens.added(UsageReader(store), checkpoint.conversation, before)
    if spent.requests:
        about = f"{about}  {short(spent.total)} tokens"
    turn = turns(store, [before, checkpoint.conversation])[1]
    blocks = list(_messages(turn.messages, wanted.width))
    if turn.back:
        blocks.insert(0, _said(f"{turn.back:,} earlier messages were taken back"))
    for aside in turn.asides:
        body = [
            line
            for block in _messages(aside.messages, wanted.width)
            for line in (*((block.head,) if block.head else ()), *block.body)
        ]
        head = Line(((f"{aside.name}: {len(aside.messages):,} messages", "head"),))
        blocks.append(Block(f"aside:{aside.name}", head, body, open=False))
    return Preview(wanted, about, blocks or [_said("no new messages")])


def _said(text: str) -> Block:
    return Block(text, None, (Line(((text, "dim"),)),))


def _messages(messages: Sequence[Message], width: int) -> Iterator[Block]:
    """Yield a block for each message; a tool's result is in the block of its call."""
    results = {
        each.call: each for each in messages if each.role == "tool" and each.call is not None
    }
    called = {each.call for each in messages if each.tool and each.role == "assistant"}
    for number, message in enumerate(messages):
        key = f"message:{number}"
        if message.role == "tool" and message.call in called and message.call is not None:
            continue
        if message.tool or message.role == "tool":
            yield _tool(key, message, results.get(message.call or ""), width)
        elif message.is_shown():
            yield _spoken(key, message, width)


def _spoken(key: str, message: Message, width: int) -> Block:
    role = {"user": "accent", "assistant": "bold"}.get(message.role, "dim")
    head = Line(((message.role, role),), ((_time(message.time), "dim"),))
    text_role = "dim" if message.role in ("thinking", "system", "summary") else ""
    body = [*_body(message.text, width, text_role), Line(())]
    return Block(key, head, body, open=message.role in ("user", "assistant"))


def _tool(key: str, call: Message, result: Message | None, width: int) -> Block:
    failed = call.failed or (result is not None and result.failed)
    first = _gist(call.text).strip().partition("\n")[0]
    about = ((f" {first}", "dim"),)
    state = (("failed ", "error"),) if failed else ()
    body = [*_body(call.text, width, "dim")]
    if result is not None and result.text.strip():
        body += [Line((("  result", "head"),)), *_body(result.text, width, "")]
    return Block(key, Line(((call.tool or "tool", "head"), *about), state), body, open=False)


def _gist(text: str) -> str:
    """Return what a call is about: the first text of its input, as its command or path."""
    try:
        parsed = wire.loads(text.encode("utf-8", "replace"))
    except ValueError:
        return text
    values = parsed.values() if isinstance(parsed, dict) else ()
    return next((value for value in values if isinstance(value, str)), text)


def _body(text: str, width: int, role: str) -> Iterator[Line]:
    for line in wrapped(text.rstrip("\n"), max(width - 3, 10)):
        yield Line((("  ", ""), (line, role)))


def _time(text: str | None) -> str:
    """Return the time of day in the agent's own notation, if it is ISO."""
    match = re.search(r"T(\d\d:\d\d)", text or "")
    return f" {match[1]} " if match else ""


# ---------------------------------------------------------------- changes


def _changes(
    store: Store, checkpoint: Checkpoint, wanted: Wanted, limits: Limits
) -> Iterator[Preview]:
    from gitcp.history import authors, diff, diff_now  # the whole of saving is behind it

    number, claims = f"#{checkpoint.id.number}", dict[bytes, Claim]()
    if wanted.base == "now":
        with diff_now.compare(store, checkpoint, limits, text=True) as comparison:
            patch = comparison.text("--no-renames")
        about = f"{number} → files now"
    elif wanted.base == "marked" and wanted.marked:
        other = store.read(Oid(wanted.marked))
        patch = diff.compare(store, other.root, checkpoint.root).text("--no-renames")
        about = f"marked #{other.id.number} → {number}"
        claims = authors.between(store, other, checkpoint)
    else:
        oldest = store.read(Oid(wanted.oldest))
        base = diff.tree_before(store, oldest)
        patch = diff.compare(store, base, checkpoint.root).text("--no-renames")
        about = f"{number} against its parent"
        claims = authors.since_parent(store, oldest, checkpoint)
    by = authors.others(claims, checkpoint.id.session)
    sections = [each._replace(by=str(by.get(each.path, ""))) for each in _sections(patch)]
    yield from _in_color(wanted, about, sections)


class Section(NamedTuple):
    """The part of a patch about one file: its path, its lines, and which other session made it, in
    words.
    """

    path: bytes
    lines: list[bytes]
    by: str = ""

    @property
    def is_database(self) -> bool:
        """Whether it lists tables: the file has no lines."""
        return TABLES in self.lines

    @property
    def counts(self) -> tuple[int, int]:
        """The number of lines added and removed."""
        if self.is_database:
            return 0, 0
        start = next((n for n, line in enumerate(self.lines) if line.startswith(b"@@")), None)
        hunks = self.lines[start:] if start is not None else []
        return sum(line[:1] == b"+" for line in hunks), sum(line[:1] == b"-" for line in hunks)


def _sections(patch: bytes) -> Iterator[Section]:
    section: Section | None = None
    for line in patch.split(b"\n"):
        match = PATHS.fullmatch(line) if line.startswith(b"diff --git ") else None
        if match is not None:
            if section is not None:
                yield section
            section = Section(quoted.unescape(match[1]) if match[1] is not None else match[2], [])
        elif section is not None:
            section.lines.append(line)
    if section is not None:
        yield section


def _in_color(wanted: Wanted, about: str, sections: Sequence[Section]) -> Iterator[Preview]:
    """Yield the changes plain, then with colors."""
    total = sum(len(each.lines) for each in sections)
    files = f"{len(sections):,} file{'' if len(sections) == 1 else 's'}"
    added, removed = (sum(each.counts[side] for each in sections) for side in (0, 1))
    about = f"{about}  {files} +{added:,} −{removed:,}"
    for colored in (False, True) if 0 < total <= MOST_COLORED else (False,):
        blocks = [_file_block(each, total <= MOST_OPEN, colored=colored) for each in sections]
        yield Preview(wanted, about, blocks or [_said("no files differ")])


def _file_block(section: Section, is_open: bool, *, colored: bool) -> Block:
    added, removed = section.counts
    state = "  database" if section.is_database else _state(section.lines)
    counts = ((f" +{added:,}", "added"), (f" −{removed:,} ", "removed"))
    head = Line(
        (
            (display(section.path), "bold"),
            (state, "dim"),
            *([(f"  {section.by}", "dim")] if section.by else []),
        ),
        () if section.is_database else counts,
    )
    body = list(_diff_lines(section, colored=colored))
    return Block(f"path:{os.fsdecode(section.path)}", head, body, is_open)


def _state(lines: Sequence[bytes]) -> str:
    for start, label in ((b"new file", "  new"), (b"deleted file", "  deleted")):
        if any(line.startswith(start) for line in lines[:3]):
            return label
    return "  binary" if any(line.startswith(b"Binary") for line in lines[:4]) else ""


def _diff_lines(section: Section, *, colored: bool) -> Iterator[Line]:
    old = new = 0
    is_text = True
    texts = _colors(section, colored=colored)
    for number, raw in enumerate(section.lines[:MOST_LINES]):
        hunk = HUNK.fullmatch(raw)
        if hunk is not None:
            old, new = int(hunk[1]), int(hunk[2])
            yield Line(((f"  @@ line {new}", "head"), (hunk[3].decode("utf-8", "replace"), "dim")))
        elif raw == TABLES:
            old, new, is_text = 1, 1, False
            yield Line((("  @@ tables", "head"),))
        elif old or new:
            sign = raw[:1].decode("latin-1")
            if sign not in ("+", "-", " "):
                continue
            at = f"{new if sign != '-' else old:>5} " if is_text else " " * 6
            role = {"+": "added", "-": "removed"}.get(sign, "dim")
            text = texts.get(number) or ((raw[1:].decode("utf-8", "replace"), ""),)
            old, new = old + (sign != "+"), new + (sign != "-")
            yield Line(((at, "dim"), (f"{sign} ", role), *(_tinted(text, role))))
    if len(section.lines) > MOST_LINES:
        rest = len(section.lines) - MOST_LINES
        yield Line(((f"  … {rest:,} more lines: gitcp diff shows them", "dim"),))


def _tinted(text: Sequence[Part], role: str) -> tuple[Part, ...]:
    """Give changed text without a color of its own the color of the change."""
    if role == "dim":
        return tuple(text)
    return tuple((part, own or role) for part, own in text)


def _colors(section: Section, *, colored: bool) -> dict[int, tuple[Part, ...]]:
    """Return the parts of each line of a section, with the colors of its language."""
    if not colored:
        return {}
    places = [n for n, line in enumerate(section.lines) if line[:1] in (b"+", b"-", b" ")]
    source = [section.lines[n][1:].decode("utf-8", "replace") for n in places]
    return dict(zip(places, highlighted(section.path, source), strict=False))


def highlighted(path: bytes, lines: Sequence[str]) -> list[tuple[Part, ...]]:
    """Return lines in the colors of the language that the path's name says; plain if none."""
    lexer = _lexer(os.fsdecode(path.rpartition(b"/")[2]))
    if lexer is None:
        return [((line, ""),) for line in lines]
    done: list[tuple[Part, ...]] = []
    line: list[Part] = []
    clean = "\n".join(text.replace("\r", " ") for text in lines)
    for kind, value in lexer.get_tokens(clean):
        role = _role(str(kind))
        first, *more = value.split("\n")
        line.append((first, role))
        for part in more:
            done.append(tuple(line))
            line = [(part, role)]
    return [*done, tuple(line)][: len(lines)]


@lru_cache(maxsize=64)
def _lexer(name: str) -> Any:
    from pygments.lexers import get_lexer_for_filename  # only for a diff or a file
    from pygments.util import ClassNotFound

    try:
        return get_lexer_for_filename(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


ROLES = (
    ("Token.Comment", "comment"),
    ("Token.Keyword", "keyword"),
    ("Token.Literal.String", "string"),
    ("Token.Literal.Number", "number"),
    ("Token.Name.Function", "name"),
    ("Token.Name.Class", "name"),
    ("Token.Name.Tag", "name"),
)


@lru_cache(maxsize=256)
def _role(kind: str) -> str:
    return next((role for start, role in ROLES if kind.startswith(start)), "")


# ---------------------------------------------------------------- handoff and files


def _handoff(checkpoint: Checkpoint, width: int) -> list[Block]:
    note, handoff = checkpoint.note, checkpoint.note.handoff
    texts: tuple[tuple[str, Sequence[str]], ...] = (
        ("Objective", [note.objective] if note.objective else []),
        ("Phase", [note.phase] if note.phase else []),
        ("Label", [note.label] if note.label else []),
        ("Facts", [f"{key} = {value}" for key, value in note.facts.items()]),
        ("Task", [handoff.task] if handoff.task else []),
        ("Decided", handoff.decisions),
        ("Tried and failed", handoff.failed),
        ("Next", handoff.next),
        ("Active files", handoff.active),
        ("Position", [f"{key} = {value}" for key, value in note.position.items()]),
        ("Checkpoint", list(_facts(checkpoint))),
    )
    return [_listed(title, items, width) for title, items in texts if items]


def _facts(checkpoint: Checkpoint) -> Iterator[str]:
    snapshot, agent = checkpoint.snapshot, checkpoint.agent
    yield f"{checkpoint.id}  {checkpoint.created:%Y-%m-%d %H:%M:%S %z}"
    is_manual = checkpoint.trigger is Trigger.MANUAL
    yield "saved manually" if is_manual else f"made by {checkpoint.trigger.value}"
    if agent is not None:
        yield " ".join(filter(None, (agent.name, agent.version, agent.model)))
    if snapshot.base.unknown:
        yield f"base commit unknown: {snapshot.base.unknown}"
    if snapshot.base.commit:
        yield f"on {snapshot.base.branch or 'no branch'} at {snapshot.base.commit[:10]}"
    yield f"{snapshot.total:,} files, {len(snapshot.skipped):,} not captured"
    if checkpoint.restored_from:
        yield f"restored from {checkpoint.restored_from}"
    if checkpoint.forked_from:
        yield f"forked from {checkpoint.forked_from}"
    if checkpoint.run is not None:
        yield f"ran {' '.join(checkpoint.run.command)}, exit code {checkpoint.run.code}"


def _listed(title: str, items: Sequence[str], width: int) -> Block:
    body = [line for item in items for line in _item(item, width)]
    return Block(f"note:{title}", Line(((title, "head"),)), [*body, Line(())])


def _item(text: str, width: int) -> Iterator[Line]:
    for number, line in enumerate(wrapped(text, max(width - 7, 10))):
        yield Line((("    " if number else "  · ", "dim"), (line, "")))


def _files(store: Store, checkpoint: Checkpoint, wanted: Wanted) -> Preview:
    from gitcp.history import show

    paths = list(show.paths_of(store, checkpoint))
    about = f"#{checkpoint.id.number}  {len(paths):,} files"
    if not paths:
        return Preview(wanted, about, [_said("no files")])
    return Preview(wanted, about, paths=paths)


def _file(store: Store, checkpoint: Checkpoint, wanted: Wanted, path: bytes) -> Iterator[Preview]:
    from gitcp.history import show

    data = show.file(store, checkpoint, path)
    about = f"#{checkpoint.id.number}  {display(path)}"
    if not isinstance(data, bytes):
        yield Preview(wanted, about, [_said("a directory")])
        return
    if b"\0" in data[:8000]:
        yield Preview(wanted, about, [_said(f"binary, {len(data):,} bytes")])
        return
    lines = data.decode("utf-8", "replace").split("\n")
    yield Preview(wanted, about, [_numbered(path, [((line, ""),) for line in lines])])
    if len(lines) <= MOST_COLORED:
        yield Preview(wanted, about, [_numbered(path, highlighted(path, lines))])


def _numbered(path: bytes, lines: Sequence[tuple[Part, ...]]) -> Block:
    body = [
        Line(((f"{number:>5} ", "dim"), *parts))
        for number, parts in enumerate(lines[:MOST_LINES], 1)
    ]
    if len(lines) > MOST_LINES:
        body.append(Line(((f"  … {len(lines) - MOST_LINES:,} more lines", "dim"),)))
    return Block(f"path:{os.fsdecode(path)}", None, body)
