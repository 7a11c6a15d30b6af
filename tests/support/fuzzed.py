"""What gitcp reads and did not write, or cannot be sure that it did: a way to read each, and real
examples to spoil.

`TARGETS` has for each kind a function of bytes. It may give back anything, raise a GitcpError, or
one of what it says that it raises; nothing else may come of it, however the bytes were made.
`spoil` makes bytes of an example.
"""

from __future__ import annotations

import json
import marshal
import random
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from gitcp import adapters, jsonc, trusted_cache, wire
from gitcp.agents import SAVED
from gitcp.conversation import segments
from gitcp.fastpath import nodes
from gitcp.git import bundle, index, trees
from gitcp.git.object_format import SHA1
from gitcp.history import dates, revisions
from gitcp.lifecycle import auto_retention
from gitcp.model import CheckpointId, Digest, Note, Oid
from gitcp.policy import events, outcome, payload, risk, shell, triggers
from gitcp.policy.settings import Settings
from gitcp.restoring import restore_notice
from gitcp.retention import Limits
from gitcp.running import transaction
from gitcp.secrets import scan
from gitcp.sharing import importing
from gitcp.state import extent as extents
from gitcp.state import journal, note, oplog, rewrite, settings
from gitcp.state.extent import Extent
from gitcp.state.oplog import Operation
from gitcp.store import parse_summary
from gitcp.worktree import attributes
from gitcp.worktree.ignore import Ignore
from gitcp.worktree.state import docket as docket_of

from driver import Project
from samples import open_store, plain

OID = Oid("1" * 40)
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DEEP = 100_000

AGENTS = (*SAVED, "generic")
LINES = (
    (
        b'{"type":"user","uuid":"u1","sessionId":"s","message":{"role":"user","content":"hello"},"timestamp":"2026-01-01"}\n'
        b'{"type":"assistant","message":{"role":"assistant","model":"m","content":[{"type":"text","text":"hi"},'
        b'{"type":"tool_use","name":"Bash","input":{"command":"ls"}}]}}\n'
    ),
    (
        b'{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"s","cwd":"/","cli_version":"1"}}\n'
        b'{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}}\n'
        b'{"type":"event_msg","payload":{"type":"user_message","message":"x"}}\n'
    ),
    b'{"sessionId":"s","messages":[{"id":"1","type":"user","content":"x"},{"type":"gemini","content":[{"text":"y"}]}]}',
    b'{"info":{"id":"ses_1","title":"t"},"messages":[{"info":{"role":"user","id":"m"},"parts":[{"type":"text"}]}]}\n',
    b'{"type":"session.start","data":{"sessionId":"s"}}\n{"type":"user.message","data":{"content":"x"},"id":"1"}\n',
    b'{"role":"user","content":"x","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}\n',
)
PAYLOADS = (
    (
        b'{"session_id":"s","transcript_path":"/t","cwd":"/","hook_event_name":"PostToolUse","tool_name":"Bash",'
        b'"tool_input":{"command":"rm -rf x && git reset --hard"},"tool_response":{"exit_code":1,"stdout":"FAILED"}}'  # noqa: E501
    ),
    b'{"sessionId":"s","toolName":"edit","toolArgs":"{\\"path\\":\\"a\\"}","toolResult":{"resultType":"failure"}}',
    b'{"tool_calls":[{"tool_name":"Write","tool_input":{"file_path":"a","content":"x"}}],"trigger":"manual"}',
)
NAMES = (
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "UserPromptSubmit",
    "Stop",
    "SessionStart",
    "AfterTool",
)


class Target(NamedTuple):
    """How to read it, what it looks like, and what besides a GitcpError its own words say that it
    raises.
    """

    read: Callable[[bytes], object]
    examples: Sequence[bytes]
    raises: tuple[type[Exception], ...] = ()


# ---------------------------------------------------------------- spoiling

ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    2**63,
    10**400,
    1e308,
    "",
    "\0",
    "\ud800",
    "../..",
    "@",
    [],
    {},
    [[]],
    {"": {}},
)


def spoil(example: bytes, chance: random.Random) -> bytes:
    """Bytes like the example, and wrong: in a value, in a few bytes, in their order, or
    altogether.
    """
    how = chance.randrange(10)
    if how < 4 and (found := _reshaped(example, chance)) is not None:
        return found
    if how == 4:
        return chance.randbytes(chance.randrange(200))
    data = bytearray(example)
    for _ in range(chance.choice((1, 1, 2, 8, 40))):
        _CHANGES[chance.randrange(len(_CHANGES))](data, chance)
    return bytes(data)


def _flip(data: bytearray, chance: random.Random) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _put(data: bytearray, chance: random.Random) -> None:
    piece = chance.choice(
        (
            b"\0",
            b"\xff" * 4,
            b"\x7f\xff\xff\xff",
            b"\n",
            b'"',
            b"\\",
            b"{[",
            b"-1",
            b"9" * 30,
            b"\xc3",
        )
    )
    at = chance.randrange(len(data) + 1)
    data[at : at + chance.choice((0, len(piece)))] = piece


def _cut(data: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(data) + 1)
    del data[start : start + chance.choice((1, 4, 64, len(data)))]


def _again(data: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(data) + 1)
    data[start:start] = data[start : start + chance.randrange(1, 64)] * chance.choice((1, 2, 50))


_CHANGES = (_flip, _flip, _put, _put, _cut, _again)


def _reshaped(example: bytes, chance: random.Random) -> bytes | None:
    """The same JSON with another value, or another key, somewhere; None where the example holds no
    JSON.
    """
    lines = example.splitlines()
    try:
        values = [json.loads(line) for line in lines] if len(lines) > 1 else [json.loads(example)]
    except ValueError:
        try:
            values = [json.loads(example)]
        except ValueError:
            return None
    place = chance.randrange(len(values)) if values else 0
    values[place : place + 1] = [_changed(value, chance) for value in values[place : place + 1]]
    return b"\n".join(json.dumps(value).encode() for value in values) + b"\n"


def _changed(value: Any, chance: random.Random) -> Any:
    inside = (
        [*value]
        if isinstance(value, dict)
        else [*range(len(value))]
        if isinstance(value, list)
        else []
    )
    if not inside or chance.random() < 0.15:
        return chance.choice(ODD)
    key = chance.choice(inside)
    if isinstance(value, dict) and chance.random() < 0.1:
        return {name: each for name, each in value.items() if name != key}
    changed = _changed(value[key], chance)
    if isinstance(value, dict):
        return {**value, key: changed}
    return [changed if place == key else each for place, each in enumerate(value)]


def nested() -> Iterator[bytes]:
    """JSON without end: arrays, objects, and both, closed and not."""
    yield b"[" * DEEP
    yield b"[" * DEEP + b"]" * DEEP
    yield b'{"a":' * DEEP + b"1" + b"}" * DEEP
    yield b'{"message":{"content":' + b"[" * DEEP + b"]" * DEEP + b"}}\n"
    yield b'{"a":[' * DEEP


# ---------------------------------------------------------------- reading


def _metadata(data: bytes) -> object:
    return wire.decode_checkpoint(data, commit=OID, root=OID, parent=None, tree=OID, reserved={})


def _commit(data: bytes) -> object:
    return parse_summary(OID, data)


def _transcript(agent: str) -> Callable[[bytes], object]:
    adapter = adapters.load(agent)

    def read(data: bytes) -> object:
        lines = data.splitlines(keepends=True)
        return (
            adapter.digest(Digest(), lines),
            list(adapter.messages(lines)),
            adapter.before(lines, "u1"),
        )

    return read


def _hooked(data: bytes) -> object:
    fields = payload.fields(data.decode("utf-8", "replace"))
    found: list[object] = []
    for agent in SAVED:
        for name in NAMES:
            event = events.read(agent, name, fields)
            if event is not None:
                found.append(
                    [triggers.is_idle(event), triggers.decide(event, Settings(), 5.0, lambda _: 9)]
                )
                found += [
                    (
                        risk.is_risky(call, Settings(), lambda _: 9),
                        outcome.is_failed_test(call, Settings()),
                    )
                    for call in event.calls
                ]
    return found


def _text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: read(data.decode("utf-8", "surrogateescape"))


def _state(data: bytes) -> object:
    with tempfile.NamedTemporaryFile() as file:
        # sealed, for what is behind the seal is to be read
        file.write(trusted_cache.beginning(file.name, make=True) + data[trusted_cache.BEGINNING :])
        file.flush()
        try:
            return [path for path, _ in nodes.opened(file.name).walk()]
        except nodes.Damaged:
            return None


def _ignore(data: bytes) -> object:
    rules = Ignore.root(excludes_file=None, info_exclude=data, gitignore=data).enter(b"sub", data)
    return [
        rules.ignores(name, is_directory=False) for name in (b"a", b"build", b"x" * 200, b"\xff")
    ]


def in_memory() -> dict[str, Target]:
    """What is read from bytes alone."""
    metadata = wire.encode_checkpoint(plain(note=Note("label", "phase", facts={"a": "b"})))
    commit = (
        b"tree 1111111111111111111111111111111111111111\nparent "
        b"2222222222222222222222222222222222222222\n"
        b"author A <a@b> 1700000000 +0000\ncommitter A <a@b> 1700000000 +0000\n\nlabel\n\n"
        b"Gitcp-Format: 1\nGitcp-Session: s\nGitcp-Number: 12\nGitcp-Trigger: manual\nGitcp-Files: "
        b"3 (1 changed)\n"
    )
    transcripts = {f"transcript of {agent}": Target(_transcript(agent), LINES) for agent in AGENTS}
    node = marshal.dumps((1, 2, [], [], {}, ()))
    at = trusted_cache.BEGINNING
    head = marshal.dumps(((b"/",), b"t", (at, len(node), zlib.crc32(node), 1, 0, 0, b"")))
    docket = docket_of(at + len(node), head)
    state = trusted_cache.MAGIC + bytes(trusted_cache.SEAL) + node + head + docket
    return {
        "metadata": Target(_metadata, (metadata,)),
        "commit": Target(_commit, (commit,)),
        **transcripts,
        "hook payload": Target(_hooked, PAYLOADS),
        "date": Target(
            _text(lambda text: dates.parse(text, NOW, end=False)),
            (b"yesterday 17:00", b"2026-01-01T10:00Z"),
        ),
        "length": Target(_text(dates.parse_length), (b"3 days", b"24h", b"2w")),
        "shell command": Target(
            _text(shell.commands),
            (b"bash -c 'rm -rf \"$x\" && (git reset --hard; a | b)' <<E\nx\nE\n",),
        ),
        "tree": Target(
            lambda data: trees.parse(data, SHA1),
            (b"100644 a\0" + b"1" * 20 + b"40000 b\0" + b"2" * 20,),
        ),
        "state file": Target(_state, (state,)),
        "note": Target(_text(note.read), (b"task: x\ndecided:\n- a\nfacts:\n  a = b\n",)),
        "settings of an agent": Target(
            _text(jsonc.parse),
            (b'{// c\n"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]},}',),
        ),
        "secrets": Target(
            scan.scan,
            (b'token = "ghp_' + b"a1B2" * 9 + b'"\npassword: hunter22\n-----BEGIN KEY-----\n',),
        ),
        "attributes": Target(
            attributes.conversion_words, (b"*.txt text eol=crlf filter=lfs -diff\n[attr]a b\n",)
        ),
        "ignore rules": Target(_ignore, (b"*.o\n!/a/**/b\n[a-z]*\\ \n**/x/\n[[:alpha:]]?\n",)),
    }


def in_files(project: Project) -> dict[str, Target]:
    """What is read from a repository: a file of it is spoiled, and what reads that file is
    asked.
    """
    git_dir = project.git_dir
    ours = git_dir / "gitcp"
    store = open_store(project)

    def file(
        path: Path,
        read: Callable[[], object],
        *examples: bytes,
        raises: tuple[type[Exception], ...] = (),
    ) -> Target:
        def spoiled(data: bytes) -> object:
            before = path.read_bytes() if path.exists() else None
            path.write_bytes(data)
            try:
                return read()
            finally:
                path.write_bytes(before) if before is not None else path.unlink()

        return Target(spoiled, examples or (path.read_bytes(),), raises)

    idx = next(git_dir.glob("objects/pack/*.idx"))
    oid = project.git("rev-parse", "HEAD")
    team = b'[save]\nlimit = "10 MiB"\n[policy]\ninterval = 5\ntests = ["make"]\n[retention]\nmaxCheckpoints = 5\n'  # noqa: E501
    loose = project.root.parent / "given"
    loose.touch()

    def from_pack() -> object:
        return open_store(project).reader.read(Oid(oid))

    def due() -> object:
        limits = Limits(count=9, age=timedelta(days=1))
        return auto_retention.is_due(
            limits, auto_retention.last_scan(store.repo), CheckpointId("s", 3), NOW
        )

    tip = store.sessions()["s"]
    moved = Operation(
        1, NOW, "rename", "said", trash="t", dropped={"s": ((1, 2),)}, names=("s", "t")
    )
    moves = [["refs/gitcp/trash/t/sessions/s", None, tip], ["refs/gitcp/sessions/s", tip, None]]
    run = {
        "name": "x",
        "label": "l",
        "before": "s@1",
        "rollback": True,
        "command": ["a"],
        "order": 1,
        "failed": "s@2",
    }
    seen = {
        "limits": repr(Limits(count=9, age=timedelta(days=1))),
        "looked": "2026-11-20T12:00:00+00:00",
    }
    looked = {**seen, "sessions": {"s": [1, 1]}, "oldest": "2026-11-20T12:00:00+00:00"}
    extent = Extent(paths=(b"a",), made=(b"b",), written="0a", bits=((b"c", 0o600),), rules="0b")
    begun = {
        "target": "s@1",
        "safety": "s@1",
        "paths": ["a"],
        "key": "k",
        **extents.CODEC.encode(extent),
    }
    ours.joinpath("runs").mkdir(exist_ok=True)

    def configured() -> object:
        return (
            settings.limits(store.repo),
            settings.policy(store.repo),
            settings.retention(store.repo),
        )

    return {
        "git's index": file(git_dir / "index", lambda: index.read(store.repo)),
        "pack": file(idx.with_suffix(".pack"), from_pack),
        "pack index": file(idx, from_pack, raises=(ValueError,)),
        ".gitcp.toml": file(project.root / ".gitcp.toml", configured, team),
        "operation log": file(ours / "oplog", lambda: oplog.entries(store.repo)),
        "unfinished restore": file(
            ours / "restore.json",
            lambda: journal.unfinished(store.repo),
            json.dumps(begun).encode(),
        ),
        "moves": file(
            ours / "moves.json",
            lambda: rewrite.unfinished(store),
            json.dumps({"moves": moves, "operation": oplog.encode(moved)}).encode(),
        ),
        "run": file(
            ours / "runs/x.json",
            lambda: list(transaction.interrupted(store.repo)),
            json.dumps(run).encode(),
        ),
        "last look at the limits": file(ours / "limits.json", due, json.dumps(looked).encode()),
        "untold restore": file(ours / "untold", lambda: restore_notice.take(store, "claude", "s")),
        "waiting note": file(ours / "note", lambda: note.pending(store.repo)),
        "conversation to import": file(loose, lambda: importing.read(loose, "given", None), *LINES),
        "bundle": file(
            loose,
            lambda: bundle.check_sizes(loose, largest=1 << 20, most=1 << 22),
            bundle.write(store.repo, store.sessions()),
        ),
        "revision": Target(
            _text(lambda text: revisions.resolve(store, text, current="s")),
            (b"@~2", b"s@1", b":/label", b"12~1", b"abcd"),
        ),
        "segments": Target(
            lambda data: segments.read_segments(
                store.reader, Oid(data.hex()[:40].ljust(40, "0")), 9
            ),
            (b"1" * 20,),
        ),
    }
