"""JSON: `checkpoint.json`, format 1 or 2, and the output of `--json`. Sole user of orjson and json.

Empty values are omitted. Unknown fields are kept in `Checkpoint.extra` and written back.
An unknown format is an error.

Saves use Python's own json: orjson, used for output, takes longer to load.
"""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from math import isfinite
from typing import Any, TypeVar

from gitcp.codec import (
    ALWAYS,
    INLINE,
    NOT_WRITTEN,
    Codec,
    FieldRule,
    Form,
    Invalid,
    array,
    number,
    text,
)
from gitcp.errors import BadValue, FormatTooNew, StoreDamaged
from gitcp.model import (
    Agent,
    AtPath,
    Authors,
    Base,
    Checkpoint,
    CheckpointId,
    Claim,
    CommandState,
    Conversation,
    Digest,
    Handoff,
    IndexEntry,
    Memory,
    Note,
    Oid,
    Run,
    Snapshot,
    Span,
    State,
    States,
)
from gitcp.value import EMPTY, Value, replace

FORMAT = 2
"""The newest format. It differs from the first in files stored as segments alone."""

READABLE = range(1, FORMAT + 1)

SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
ID = re.compile(rf"{SESSION.pattern}@[1-9][0-9]{{0,17}}")
SPAN = re.compile(rf"{ID.pattern}\.\.{ID.pattern}")
OID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
MODE = re.compile(r"[0-7]{1,6}")
STATE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
"""The name of a state that a command saves: also one of a directory, and of a trailer's words."""

# A deeper position or step result ended in RecursionError.
NESTED, DEEPEST = 200, 250
"""How often lists and dicts may be nested in a value that is given, and in a document around it:
whoever walks through one may call itself.
"""

NO_BASE = Base(None, None)

Json = dict[str, Any]
V = TypeVar("V", bound=Value)


# ---------------------------------------------------------------- JSON itself


def dumps(value: object, *, small: bool = False) -> bytes:
    """Encode a value on one line, without sorting keys. `small` values do not load orjson."""
    if not small:
        import orjson  # 20 ms

        # TypeError: a lone surrogate, which JSON can escape but UTF-8 cannot encode
        with suppress(TypeError):
            return orjson.dumps(value)
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def canonical(value: object) -> bytes:
    """Encode a value on one line, the same bytes for equal values: sorted keys, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


def is_json(value: object) -> bool:
    """Return whether a value is what JSON has: null, numbers, text, lists (or tuples), and dicts
    with text keys, nested at most NESTED times.
    """
    level: list[object] = [value]
    for _ in range(NESTED + 1):
        if not all(map(_is_of_json, level)):
            return False
        level = _inside(level)
        if not level:
            return True
    return False


def _is_of_json(value: object) -> bool:
    if isinstance(value, dict):
        return all(type(key) is str for key in value)
    if isinstance(value, list | tuple) or value is None or type(value) in (bool, int, str):
        return True
    return type(value) is float and isfinite(value)


def _inside(level: Iterable[object]) -> list[object]:
    """Return what is in the lists and dicts among these values."""
    values: list[object] = []
    for value in level:
        if isinstance(value, dict):
            values += value.values()
        elif isinstance(value, list | tuple):
            values += value
    return values


def loads(data: bytes) -> Any:
    """Decode a JSON document. Raises ValueError, also for one that is nested more than DEEPEST
    times.
    """
    try:
        value = json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if data.count(b"[") + data.count(b"{") > DEEPEST:  # few have so many
        level = [value]
        for _ in range(DEEPEST + 1):
            level = _inside(level)
        if level:
            raise ValueError("nested too deeply")
    return value


def parse_line(line: bytes) -> Json | None:
    """Decode the JSON object on a line of a transcript; None for anything
    else. Lossy: only for display.
    """
    try:
        value = json.loads(line)
        if b"\\u" in line and (b"\\ud" in line or b"\\uD" in line):
            # Lone surrogates become question marks.
            value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def end_of_value(text: str) -> int | None:
    """Return where the JSON value that a text begins with ends, None if it begins with none."""
    start = len(text) - len(text.lstrip(" \t\r\n"))
    try:
        return json.JSONDecoder().raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return None


def encode_path(path: bytes) -> str | dict[str, str]:
    """Encode a path as a string, or as {"base64": …} if it is not UTF-8."""
    try:
        return path.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": binascii.b2a_base64(path, newline=False).decode("ascii")}


def decode_path(value: str | Mapping[str, str]) -> bytes:
    """Decode a path encoded by `encode_path`."""
    return (
        value.encode("utf-8")
        if isinstance(value, str)
        else binascii.a2b_base64(value["base64"], strict_mode=True)
    )


def encode_time(time: datetime) -> str:
    """Format a time as ISO 8601 in UTC, to the second."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def decode_time(text: str) -> datetime:
    """Parse a time formatted by `encode_time`. Raises ValueError."""
    time = datetime.fromisoformat(text)
    if not text.endswith("Z") or len(text) != 20:
        raise ValueError(f"not a time: {text!r}")
    return time


# ---------------------------------------------------------------- values


def parse_id(text: str | None) -> CheckpointId | None:
    """Parse `SESSION@NUMBER`; None for None. Raises ValueError and TypeError."""
    if text is None:
        return None
    if not ID.fullmatch(text):
        raise ValueError(f"invalid id {text!r}")
    session, _, number = text.rpartition("@")
    return CheckpointId(session, int(number))


def encode_claim(claim: Claim) -> Json:
    """Encode who changed a path: two lists of session names, "" for nobody known."""
    return {"sessions": sorted(claim.sessions), "possible": sorted(claim.possible)}


def position_texts(position: Mapping[str, Any]) -> dict[str, str]:
    """Return a position as text: what is no text is JSON."""
    return {
        key: value if isinstance(value, str) else dumps(value, small=True).decode("ascii")
        for key, value in position.items()
    }


class _Position(Value):
    position: Mapping[str, str] = EMPTY
    position_json: tuple[str, ...] = ()


def _encode_position(position: Mapping[str, Any]) -> Json:
    others = sorted(name for name, value in position.items() if not isinstance(value, str))
    return encode(_Position(position_texts(position), tuple(others)))


def _decode_position(fields: Json) -> Json:
    """Return a position as it was given. A value that was redacted may be JSON no longer."""
    stored = decode(_Position, fields)
    position: Json = dict(stored.position)
    for key in stored.position_json:
        with suppress(KeyError, ValueError):
            position[key] = loads(position[key].encode("utf-8"))
    return position


class _Mode(AtPath):
    mode: int


def _encode_modes(modes: Mapping[bytes, int]) -> list[Json]:
    return [encode(_Mode(path, mode)) for path, mode in sorted(modes.items())]


def _decode_modes(values: Any) -> dict[bytes, int]:
    modes: tuple[_Mode, ...] = STORED.form(tuple[_Mode, ...]).decode(values)
    return {each.path: each.mode for each in modes}


class _Claimed(Value):
    """Paths with the same claim."""

    sessions: frozenset[str]
    possible: frozenset[str]
    paths: tuple[bytes, ...]


def _encode_claims(claims: Mapping[bytes, Claim]) -> list[Json]:
    paths: dict[Claim, list[bytes]] = {}
    for path, claim in sorted(claims.items()):
        paths.setdefault(claim, []).append(path)
    return [encode(_Claimed(*claim, tuple(those))) for claim, those in paths.items()]


def _decode_claims(values: Any) -> dict[bytes, Claim]:
    groups: tuple[_Claimed, ...] = STORED.form(tuple[_Claimed, ...]).decode(values)
    return {path: Claim(each.sessions, each.possible) for each in groups for path in each.paths}


def _encode_directory(path: bytes) -> str | dict[str, str]:
    return encode_path(path or b".")


def _decode_directory(value: Any) -> bytes:
    path = decode_path(value)
    return b"" if path == b"." else path


def _octal(digits: int) -> FieldRule:
    form = text(MODE.fullmatch)
    return FieldRule(
        form=Form(lambda mode: f"{mode:0{digits}o}", lambda value: int(form.decode(value), 8))
    )


def _printed(form: Form, parse: Callable[[Any], Any]) -> Form:
    """Return the form of values that are written as `str` prints them."""
    return Form(lambda value: form.encode(str(value)), lambda value: parse(form.decode(value)))


_SESSIONS = array(text(re.compile(rf"(?:{SESSION.pattern})?").fullmatch), frozenset, sorted)

FORMS: Mapping[Any, Form] = {
    Oid: text(OID.fullmatch),
    bytes: Form(encode_path, decode_path),
    datetime: Form(encode_time, decode_time),
    CheckpointId: _printed(text(ID.fullmatch), parse_id),
    Span: _printed(text(SPAN.fullmatch), Span.parse),
}
"""How values are stored that are no records."""

STORED = Codec(
    FORMS,
    {
        Checkpoint: {
            "id": INLINE,
            "note": INLINE,
            "snapshot": FieldRule("files"),
            **dict.fromkeys(("commit", "root", "parent", "steps", "extra", "tags"), NOT_WRITTEN),
        },
        CheckpointId: {
            "session": FieldRule(form=text(SESSION.fullmatch)),
            "number": FieldRule(form=number(range(1, 10**18))),
        },
        Snapshot: {
            "tree": NOT_WRITTEN,
            "base": NOT_WRITTEN,
            "modes": FieldRule(form=Form(_encode_modes, _decode_modes)),
        },
        _Mode: {"mode": _octal(4)},
        IndexEntry: {"mode": _octal(6)},
        Conversation: {
            "tree": NOT_WRITTEN,
            "digest": INLINE,
            "directory": FieldRule(form=Form(_encode_directory, _decode_directory)),
        },
        Digest: {"messages": ALWAYS, "version": NOT_WRITTEN, "model": NOT_WRITTEN},
        Note: {
            "position": FieldRule(
                form=Form(_encode_position, _decode_position),
                inline=True,
                keys=tuple(_Position.fields),
            )
        },
        Handoff: {"task": ALWAYS},
        Run: {"code": FieldRule("exit_code", number(range(-1 << 31, 1 << 32)))},
        State: {"tree": NOT_WRITTEN},
        Memory: {"tree": NOT_WRITTEN},
        States: {"tree": NOT_WRITTEN},
        CommandState: {
            "name": FieldRule(form=text(STATE.fullmatch)),
            "code": FieldRule("exit_code", number(range(-1 << 31, 1 << 32))),
        },
        Authors: {
            "own": ALWAYS,
            "claims": FieldRule("others", Form(_encode_claims, _decode_claims)),
        },
        _Claimed: dict.fromkeys(("sessions", "possible"), FieldRule(form=_SESSIONS)),
    },
)
"""The form of what is stored. A field that is not named here is written by its type hint."""


def encode(value: Value) -> Json:
    """Return a value as it is stored. Raises codec.Invalid for one that could not be read back."""
    fields: Json = STORED.encode(value)
    return fields


def decode(kind: type[V], fields: Any) -> V:
    """Return the value that `encode` wrote. Raises codec.Invalid."""
    return STORED.decode(kind, fields)


def decode_snapshot(fields: Any, tree: Oid, base: Base = NO_BASE) -> Snapshot:
    """Return a snapshot with this tree and base. Raises codec.Invalid."""
    return Snapshot(tree=tree, base=base, **STORED.decode_fields(Snapshot, fields))


# ---------------------------------------------------------------- checkpoint.json


class _Head(Value):
    """What stands beside the files."""

    base: Base = NO_BASE


KNOWN = STORED.keys(Checkpoint) | {"format", "base"}


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Encode `checkpoint.json`: "format" first, then sorted keys, indented. Deterministic.

    Raises BadValue for a value that could not be decoded again.
    """
    try:
        fields = {**encode(checkpoint), **encode(_Head(checkpoint.snapshot.base))}
    except Invalid as error:
        problem = f"invalid metadata{error} in {checkpoint.id}; no checkpoint was made"
        raise BadValue(problem) from None
    text = json.dumps({**checkpoint.extra, **fields}, indent=2, sort_keys=True, ensure_ascii=False)
    body = text.encode("utf-8", "backslashreplace")
    return b'{\n  "format": %d,%s\n' % (format_of(checkpoint), body[1:])


def format_of(checkpoint: Checkpoint) -> int:
    """Return the oldest format whose readers understand a checkpoint."""
    return FORMAT if any(each.segments for each in checkpoint.snapshot.converted) else 1


def decode_checkpoint(
    data: bytes,
    *,
    commit: Oid,
    root: Oid,
    parent: Oid | None,
    tree: Oid,
    reserved: Mapping[bytes, Oid],
) -> Checkpoint:
    """Decode `checkpoint.json`. `tree` is the tree of the files, `reserved` has
    the entries of `.gitcp` by name.

    Raises FormatTooNew for an unknown format, and StoreDamaged for anything that is not a
    checkpoint.
    """
    try:
        document = loads(data)
        _check_format(document, commit)
        fields = STORED.decode_fields(Checkpoint, document)
        snapshot = Snapshot(tree=tree, base=decode(_Head, document).base, **fields.pop("snapshot"))
        parts = ("conversation", "state", "memory", "states")
        conversation, state, memory, states = map(fields.pop, parts)
        return Checkpoint(
            commit=commit,
            root=root,
            parent=parent,
            snapshot=snapshot,
            conversation=conversation
            and _conversation(conversation, reserved[b"conversation"], fields["agent"]),
            state=state and State(tree=reserved[b"state"], **state),
            memory=memory and replace(memory, tree=reserved.get(b"memory")),
            states=states and replace(states, tree=reserved.get(b"states")),
            steps=reserved.get(b"steps"),
            extra={key: value for key, value in document.items() if key not in KNOWN},
            **fields,
        )
    except (KeyError, ValueError) as error:
        what = f"invalid metadata{error}" if isinstance(error, Invalid) else repr(error)
        problem = f"the metadata of checkpoint {commit[:10]} is damaged: {what}"
        raise StoreDamaged(problem, hint="gitcp doctor --store") from None


def _check_format(document: Any, commit: Oid) -> None:
    if type(document) is not dict:
        raise Invalid
    number = document.get("format")
    if type(number) is not int or number < 1:
        raise Invalid(".format")
    if number not in READABLE:
        raise FormatTooNew(
            f"checkpoint {commit[:10]} has format {number}; this gitcp reads up to {FORMAT}"
        )


def _conversation(fields: Json, tree: Oid, agent: Agent | None) -> Conversation:
    """Return a conversation. The version and the model are in the agent's record alone."""
    digest = fields.pop("digest")
    if agent is not None:
        digest = replace(digest, version=agent.version, model=agent.model)
    return Conversation(tree=tree, digest=digest, **fields)
