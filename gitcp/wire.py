"""JSON: `checkpoint.json`, format 1 or 2, and the output of `--json`. Sole user of orjson and json.

Empty values are omitted. Unknown fields are kept in `Checkpoint.extra` and written back.
An unknown format is an error.

Saves use Python's own json: orjson, used for output, takes longer to load.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from gitcp.errors import BadValue, FormatTooNew, StoreDamaged
from gitcp.model import (
    Agent,
    Authors,
    Base,
    Checkpoint,
    CheckpointId,
    Claim,
    Conversation,
    Conversion,
    Digest,
    Handoff,
    IndexEntry,
    LastMessage,
    NestedRepository,
    Note,
    Oid,
    Run,
    Skip,
    SkipReason,
    Snapshot,
    Span,
    State,
    StepName,
    Stream,
    Submodule,
    Trigger,
)
from gitcp.schema import CHECKPOINT, ID, misfit

FORMAT = 2
"""The newest format. It differs from the first in files stored as segments alone."""

READABLE = range(1, FORMAT + 1)
KNOWN = frozenset(CHECKPOINT)
LISTS = ("decisions", "failed", "next", "active")
NO_HANDOFF = Handoff()
MARKS = ("intent_to_add", "skip_worktree", "assume_unchanged")

NESTED, DEEPEST = 200, 250
"""How often lists and dicts may be nested in a value that is given, and in a document around it:
whoever walks through one may call itself.
"""

Json = dict[str, Any]


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


# ---------------------------------------------------------------- checkpoint.json


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Encode `checkpoint.json`: "format" first, then sorted keys, indented. Deterministic.

    Raises BadValue for a value that could not be decoded again.
    """
    fields = _present(
        {
            "session": checkpoint.id.session,
            "number": checkpoint.id.number,
            "created": encode_time(checkpoint.created),
            "trigger": checkpoint.trigger.value,
            "agent": _encode_agent(checkpoint.agent),
            "base": _encode_base(checkpoint.snapshot.base),
            "files": encode_snapshot(checkpoint.snapshot),
            "changed": checkpoint.changed,
            "conversation": _encode_conversation(checkpoint.conversation),
            "restored_from": str(checkpoint.restored_from) if checkpoint.restored_from else None,
            "forked_from": str(checkpoint.forked_from) if checkpoint.forked_from else None,
            "run": _encode_run(checkpoint.run),
            "step": _present(checkpoint.step._asdict()) if checkpoint.step else None,
            "compensated": dict(checkpoint.compensated),
            "reverted": str(checkpoint.reverted) if checkpoint.reverted else None,
            "authors": _encode_authors(checkpoint.authors),
            **encode_note(checkpoint.note),
            "state": {"key": checkpoint.state.key} if checkpoint.state else None,
        }
    )
    if field := misfit(fields):
        raise BadValue(f"invalid {field} in {checkpoint.id}; no checkpoint was made")
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
        fields = _checkpoint_fields(data, commit)
        return Checkpoint(
            id=CheckpointId(fields["session"], fields["number"]),
            commit=commit,
            root=root,
            parent=parent,
            created=decode_time(fields["created"]),
            trigger=Trigger(fields["trigger"]),
            agent=_decode_agent(fields.get("agent")),
            note=decode_note(fields),
            snapshot=decode_snapshot(fields.get("files", {}), fields.get("base", {}), tree),
            conversation=_decode_conversation(fields, reserved.get(b"conversation")),
            changed=fields["changed"],
            restored_from=parse_id(fields.get("restored_from")),
            forked_from=parse_id(fields.get("forked_from")),
            run=_decode_run(fields.get("run")),
            step=_decode_step(fields.get("step")),
            state=State(reserved[b"state"], fields["state"]["key"]) if "state" in fields else None,
            steps=reserved.get(b"steps"),
            compensated=fields.get("compensated", {}),
            reverted=Span.parse(fields.get("reverted")),
            authors=_decode_authors(fields.get("authors")),
            extra={key: value for key, value in fields.items() if key not in KNOWN},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"the metadata of checkpoint {commit[:10]} is damaged: {error!r}"
        raise StoreDamaged(problem, hint="gitcp check") from None


def _checkpoint_fields(data: bytes, commit: Oid) -> dict[str, Any]:
    """Parse `checkpoint.json`. Raises FormatTooNew, ValueError if it does not fit the schema."""
    fields: dict[str, Any] = loads(data)
    field = misfit(fields)
    has_format = not field or not misfit(fields, {"format": CHECKPOINT["format"]})
    if has_format and fields["format"] not in READABLE:
        raise FormatTooNew(
            f"checkpoint {commit[:10]} has format {fields['format']}; this gitcp reads up to "
            f"{FORMAT}",
            hint="pip install --upgrade gitcp-checkpoints",
        )
    if field:
        raise ValueError(f"invalid {field}")
    return fields


def parse_id(text: str | None) -> CheckpointId | None:
    """Parse `SESSION@NUMBER`; None for None. Raises ValueError and TypeError."""
    if text is None:
        return None
    if not ID.fullmatch(text):
        raise ValueError(f"invalid id {text!r}")
    session, _, number = text.rpartition("@")
    return CheckpointId(session, int(number))


def _present(fields: Json) -> Json:
    return {key: value for key, value in fields.items() if value or value == 0}


def _encode_agent(agent: Agent | None) -> Json | None:
    if agent is None:
        return None
    return _present(
        {
            "name": agent.name,
            "session_id": agent.session_id,
            "version": agent.version,
            "model": agent.model,
        }
    )


def _decode_agent(fields: Json | None) -> Agent | None:
    if fields is None:
        return None
    return Agent(
        fields["name"], fields.get("session_id"), fields.get("version"), fields.get("model")
    )


def _encode_base(base: Base) -> Json:
    return _present({name: getattr(base, name) for name in Base.fields})


def _encode_run(run: Run | None) -> Json | None:
    if run is None:
        return None
    fields = {"command": list(run.command), "milliseconds": run.milliseconds, "output": run.output}
    return _present({**fields, "exit_code": run.code})


def _decode_run(fields: Json | None) -> Run | None:
    if fields is None:
        return None
    command, code = tuple(fields.get("command", ())), fields.get("exit_code")
    return Run(command, code, fields.get("milliseconds", 0), fields.get("output", ""))


def _decode_step(fields: Json | None) -> StepName | None:
    return StepName(fields.get("name", ""), fields.get("key", "")) if fields is not None else None


def _encode_authors(authors: Authors | None) -> Json | None:
    """Encode the claims, those of equal content together."""
    if authors is None:
        return None
    paths: dict[Claim, list[bytes]] = {}
    for path, claim in sorted(authors.claims.items()):
        paths.setdefault(claim, []).append(path)
    others = [
        _present({**encode_claim(claim), "paths": _paths(those)}) for claim, those in paths.items()
    ]
    previous = str(authors.previous) if authors.previous else None
    return _present({"own": authors.own, "others": others, "previous": previous})


def encode_claim(claim: Claim) -> Json:
    """Encode who changed a path: two lists of session names, "" for nobody known."""
    return {"sessions": sorted(claim.sessions), "possible": sorted(claim.possible)}


def _decode_authors(fields: Json | None) -> Authors | None:
    if fields is None:
        return None
    claims = {
        decode_path(path): Claim(
            frozenset(group.get("sessions", ())), frozenset(group.get("possible", ()))
        )
        for group in fields.get("others", ())
        for path in group.get("paths", ())
    }
    return Authors(fields.get("own", 0), claims, parse_id(fields.get("previous")))


def encode_note(note: Note) -> Json:
    handoff = note.handoff
    return {
        "label": note.label,
        "phase": note.phase,
        "objective": note.objective,
        "facts": dict(note.facts),
        "position": position_texts(note.position),
        "position_json": sorted(k for k, v in note.position.items() if not isinstance(v, str)),
        "position_from": str(note.position_from) if note.position_from else None,
        "compensations": list(note.compensations),
        "handoff": {
            **({} if handoff.task is None else {"task": handoff.task}),
            **_present({name: list(getattr(handoff, name)) for name in LISTS}),
        },
    }


def position_texts(position: Mapping[str, Any]) -> dict[str, str]:
    """Return a position as text: what is no text is JSON."""
    return {
        key: value if isinstance(value, str) else dumps(value, small=True).decode("ascii")
        for key, value in position.items()
    }


def _decode_position(fields: Json) -> Json:
    """Return a position as it was given. A value that was redacted may be JSON no longer."""
    position: Json = dict(fields.get("position", {}))
    for key in fields.get("position_json", ()):
        with suppress(KeyError, ValueError):
            position[key] = loads(position[key].encode("utf-8"))
    return position


def decode_note(fields: Json) -> Note:
    handoff = fields.get("handoff")
    return Note(
        label=fields.get("label"),
        phase=fields.get("phase"),
        objective=fields.get("objective"),
        facts=fields.get("facts", {}),
        handoff=_decode_handoff(handoff) if handoff else NO_HANDOFF,
        position=_decode_position(fields),
        position_from=parse_id(fields.get("position_from")),
        compensations=tuple(fields.get("compensations", ())),
    )


def _decode_handoff(fields: Json) -> Handoff:
    return Handoff(fields.get("task"), *(tuple(fields.get(name, ())) for name in LISTS))


def _paths(paths: Iterable[bytes]) -> list[str | dict[str, str]]:
    return [encode_path(path) for path in paths]


def encode_skip(skip: Skip) -> Json:
    """Encode a skipped path with its reason."""
    return _present(
        {"path": encode_path(skip.path), "reason": skip.reason.value, "detail": skip.detail}
    )


def _decode_skip(fields: Json) -> Skip:
    return Skip(decode_path(fields["path"]), SkipReason(fields["reason"]), fields.get("detail", ""))


def encode_snapshot(snapshot: Snapshot) -> Json:
    """Encode a snapshot without its tree and base."""
    return _present(
        {
            "total": snapshot.total or None,
            "skipped": [encode_skip(skip) for skip in snapshot.skipped],
            "raw": _paths(snapshot.raw),
            "converted": [_encode_conversion(c) for c in snapshot.converted],
            "empty_directories": _paths(snapshot.empty_directories),
            "modes": [
                {"path": encode_path(p), "mode": f"{m:04o}"}
                for p, m in sorted(snapshot.modes.items())
            ],
            "submodules": [
                {"path": encode_path(s.path), "commit": s.commit} for s in snapshot.submodules
            ],
            "nested": [
                _present({"path": encode_path(n.path), "head": n.head}) for n in snapshot.nested
            ],
            "absent": _paths(snapshot.absent),
            "staged": [_encode_index_entry(e) for e in snapshot.staged],
            "untracked": _paths(snapshot.untracked),
            "conflicts": [_encode_index_entry(e) for e in snapshot.conflicts],
            "outputs": _paths(snapshot.outputs),
        }
    )


def decode_snapshot(fields: Json, base: Json, tree: Oid) -> Snapshot:
    """Decode a snapshot with this tree and base. Raises KeyError, TypeError or ValueError."""
    known = Base(*(base.get(name) for name in Base.fields))
    lists = {name: LISTINGS[name](value) for name, value in fields.items() if name in LISTINGS}
    return Snapshot(tree=tree, base=known, total=fields.get("total", 0), **lists)


def _encode_conversion(conversion: Conversion) -> Json:
    fields = {
        "path": encode_path(conversion.path),
        "eol": conversion.eol,
        "encoding": conversion.encoding,
    }
    flags = {name: getattr(conversion, name) or None for name in ("ident", "lfs", "segments")}
    return _present({**fields, **flags})


def _decode_conversion(fields: Json) -> Conversion:
    return Conversion(
        decode_path(fields["path"]),
        fields.get("eol", ""),
        fields.get("ident", False),
        fields.get("encoding", ""),
        fields.get("lfs", False),
        fields.get("segments", False),
    )


def _encode_index_entry(entry: IndexEntry) -> Json:
    return _present(
        {
            "path": encode_path(entry.path),
            "mode": f"{entry.mode:06o}",
            "oid": entry.oid,
            "stage": entry.stage or None,
            **{name: getattr(entry, name) or None for name in MARKS},
        }
    )


def _decode_submodule(fields: Json) -> Submodule:
    return Submodule(decode_path(fields["path"]), fields["commit"])


def _decode_nested(fields: Json) -> NestedRepository:
    return NestedRepository(decode_path(fields["path"]), fields.get("head"))


def _decode_modes(values: Iterable[Json]) -> dict[bytes, int]:
    return {decode_path(each["path"]): int(each["mode"], 8) for each in values}


def _decode_index_entry(fields: Json) -> IndexEntry:
    marks = {name: fields.get(name, False) for name in MARKS}
    entry = (
        decode_path(fields["path"]),
        int(fields["mode"], 8),
        fields["oid"],
        fields.get("stage", 0),
    )
    return IndexEntry(*entry, **marks)


def _each(decode: Callable[[Any], Any]) -> Callable[[Iterable[Any]], tuple[Any, ...]]:
    """Return a function that decodes the items of a list."""
    return lambda values: tuple(map(decode, values))


LISTINGS: dict[str, Callable[[Any], Any]] = {
    "skipped": _each(_decode_skip),
    "raw": _each(decode_path),
    "converted": _each(_decode_conversion),
    "empty_directories": _each(decode_path),
    "modes": _decode_modes,
    "submodules": _each(_decode_submodule),
    "nested": _each(_decode_nested),
    "absent": _each(decode_path),
    "staged": _each(_decode_index_entry),
    "untracked": _each(decode_path),
    "conflicts": _each(_decode_index_entry),
    "outputs": _each(decode_path),
}
"""How the fields of a snapshot are decoded that most checkpoints do not have."""


def _encode_conversation(conversation: Conversation | None) -> Json | None:
    if conversation is None:
        return None
    digest = conversation.digest
    last = digest.last_message
    return _present(
        {
            "format": conversation.format,
            "messages": digest.messages,
            "last_message": _present({"role": last.role, "text": last.text, "id": last.id})
            if last
            else None,
            "last_prompt": digest.last_prompt,
            "title": digest.title,
            "directory": None
            if conversation.directory is None
            else encode_path(conversation.directory or b"."),
            "worktree": conversation.worktree,
            "streams": [
                _present(
                    {
                        "name": s.name,
                        "bytes": s.bytes,
                        "sha256": s.sha256,
                        "place": s.place,
                        "torn": s.torn or None,
                    }
                )
                for s in conversation.streams
            ],
        }
    )


def _decode_conversation(whole: Json, tree: Oid | None) -> Conversation | None:
    fields = whole.get("conversation")
    if fields is None:
        return None
    agent = _decode_agent(whole.get("agent"))
    if tree is None:
        raise ValueError("the conversation's tree is missing")
    last = fields.get("last_message")
    return Conversation(
        format=fields["format"],
        tree=tree,
        streams=tuple(
            Stream(s["name"], s.get("bytes", 0), s["sha256"], s.get("place", ""), s.get("torn", 0))
            for s in fields.get("streams", ())
        ),
        digest=Digest(
            messages=fields.get("messages", 0),
            last_message=LastMessage(last.get("role", ""), last.get("text", ""), last.get("id"))
            if last
            else None,
            last_prompt=fields.get("last_prompt"),
            title=fields.get("title"),
            version=agent.version if agent else None,
            model=agent.model if agent else None,
        ),
        directory=_decode_directory(fields.get("directory")),
        worktree=fields.get("worktree"),
    )


def _decode_directory(value: str | Mapping[str, str] | None) -> bytes | None:
    path = None if value is None else decode_path(value)
    return b"" if path == b"." else path
