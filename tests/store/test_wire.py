"""`checkpoint.json`: what is written is read back, what is not known survives, and what is garbage
is said to be.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gitcp import installed, wire
from gitcp.errors import BadValue, FormatTooNew, StoreDamaged
from gitcp.model import (
    EXECUTABLE,
    FILE,
    SYMLINK,
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
    Skip,
    SkipReason,
    Snapshot,
    Stream,
    Submodule,
    Trigger,
)
from gitcp.value import replace

from samples import UNKNOWN, plain

COMMIT, ROOT, PARENT, TREE, STREAMS = (Oid(digit * 40) for digit in "abcde")


def decode(data: bytes) -> Checkpoint:
    return wire.decode_checkpoint(
        data,
        commit=COMMIT,
        root=ROOT,
        parent=PARENT,
        tree=TREE,
        reserved={b"conversation": STREAMS},
    )


# ---------------------------------------------------------------- every field

text = st.text(max_size=20)
some = st.text(min_size=1, max_size=20)
maybe = st.none() | some
oids = st.text("0123456789abcdef", min_size=40, max_size=40).map(Oid)
paths = st.binary(min_size=1, max_size=20)
sizes = st.integers(0, 1 << 50)
names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,30}", fullmatch=True)
ids = st.builds(CheckpointId, names, st.integers(1, 10**9))
modes = st.sampled_from((FILE, EXECUTABLE, SYMLINK))
pairs = st.dictionaries(text, text, max_size=4)


def tuples(of: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(of, max_size=3).map(tuple)


index_entries = st.builds(
    IndexEntry, paths, modes, oids, st.integers(0, 3), st.booleans(), st.booleans(), st.booleans()
)
snapshots = st.builds(
    Snapshot,
    tree=st.just(TREE),
    base=st.builds(Base, st.none() | oids, maybe, maybe),
    total=sizes,
    skipped=tuples(st.builds(Skip, paths, st.sampled_from(SkipReason), text)),
    raw=tuples(paths),
    converted=tuples(
        st.builds(
            Conversion, paths, st.sampled_from(("", "crlf")), st.booleans(), text, st.booleans()
        )
    ),
    empty_directories=tuples(paths),
    modes=st.dictionaries(paths, st.integers(0, 0o7777), max_size=3),
    submodules=tuples(st.builds(Submodule, paths, oids)),
    nested=tuples(st.builds(NestedRepository, paths, st.none() | oids)),
    absent=tuples(paths),
    staged=tuples(index_entries),
    untracked=tuples(paths),
    conflicts=tuples(index_entries),
)
agents = st.builds(Agent, some, maybe, maybe, maybe)
notes = st.builds(
    Note,
    maybe,
    maybe,
    maybe,
    pairs,
    st.builds(Handoff, maybe, tuples(text), tuples(text), tuples(text), tuples(text)),
    pairs,
    tuples(text),
    st.none() | ids,
)


claims = st.builds(Claim, st.frozensets(names | st.just("")), st.frozensets(names | st.just("")))
authors = st.builds(Authors, sizes, st.dictionaries(paths, claims, max_size=3), st.none() | ids)


@st.composite
def checkpoints(draw: st.DrawFn) -> Checkpoint:
    """Any checkpoint. A conversation's version and model are its agent's."""
    agent = draw(st.none() | agents)
    digest = st.builds(
        Digest,
        sizes,
        st.none() | st.builds(LastMessage, some, text, maybe),
        maybe,
        maybe,
        st.just(agent and agent.version),
        st.just(agent and agent.model),
    )
    streams = tuples(st.builds(Stream, some, sizes, some, text, sizes))
    return Checkpoint(
        id=draw(ids),
        commit=COMMIT,
        root=ROOT,
        parent=PARENT,
        created=draw(
            st.datetimes(datetime(1970, 1, 2), datetime(9000, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
        ).replace(microsecond=0),
        trigger=draw(st.sampled_from(Trigger)),
        agent=agent,
        note=draw(notes),
        snapshot=draw(snapshots),
        conversation=draw(
            st.none() | st.builds(Conversation, some, st.just(STREAMS), streams, digest)
        ),
        changed=draw(sizes),
        restored_from=draw(st.none() | ids),
        forked_from=draw(st.none() | ids),
        authors=draw(st.none() | authors),
        extra=draw(
            st.dictionaries(some.filter(lambda key: key not in wire.KNOWN), values, max_size=3)
        ),
    )


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.faults
@settings(max_examples=300)
@given(checkpoints())
@example(
    plain(commit=COMMIT, root=ROOT, parent=PARENT, snapshot=Snapshot(TREE, Base(None, None), 0))
)
def test_what_is_written_is_read_back(checkpoint: Checkpoint) -> None:
    """Every field of every value comes back as it was, and gives the same bytes again."""
    data = wire.encode_checkpoint(checkpoint)

    assert decode(data) == checkpoint
    assert wire.encode_checkpoint(decode(data)) == data


def test_the_format_is_first_and_the_rest_in_order() -> None:
    """People and other programs read it too: indented, the format first, then keys by name, one
    final line end.
    """
    data = wire.encode_checkpoint(
        plain(note=Note(label="é", facts={"b": "2", "a": "1"}), extra={"zz": 1, "aa": 2})
    )
    fields = json.loads(data)

    assert data.startswith(b'{\n  "format": 1,\n  "aa": 2,\n')
    assert list(fields)[1:] == sorted(list(fields)[1:])
    assert list(fields["facts"]) == ["a", "b"]
    assert data.endswith(b"\n}\n")
    assert "é".encode() in data


def test_the_same_content_is_the_same_bytes() -> None:
    """In whatever order a mapping was filled, and in whatever zone the time was told."""
    one = plain(
        note=Note(facts={"a": "1", "b": "2"}, position={"x": "1", "y": "2"}),
        extra={"p": {"b": 1, "a": 2}},
    )
    two = plain(
        note=Note(facts={"b": "2", "a": "1"}, position={"y": "2", "x": "1"}),
        extra={"p": {"a": 2, "b": 1}},
    )
    two = replace(two, created=two.created.astimezone(timezone(timedelta(hours=-5))))

    assert wire.encode_checkpoint(one) == wire.encode_checkpoint(two)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


@given(values)
def test_indented_as_python_does_it(value: Any) -> None:
    """Sorted, two blanks a level, text as it is: whatever the value, it is what Python's own module
    makes of it.
    """
    data = wire.encode_checkpoint(plain(extra={"later": value}))
    fields = json.loads(data)

    assert fields.pop("format") == 1
    body = json.dumps(fields, ensure_ascii=False, sort_keys=True, indent=2)
    assert data == f'{{\n  "format": 1,\n{body[2:]}\n'.encode("utf-8", "backslashreplace")


def test_what_is_absent_costs_nothing() -> None:
    """A checkpoint about which there is little to say is a few hundred bytes."""
    data = wire.encode_checkpoint(plain())

    assert len(data) < 250
    assert b"null" not in data


# ---------------------------------------------------------------- other versions


@given(st.dictionaries(some.filter(lambda key: key not in wire.KNOWN), values, max_size=5))
@example({"empty": None, "list": [], "text": "", "object": {}, "zero": 0, "no": False})
def test_unknown_fields_survive(fields: dict[str, Any]) -> None:
    """What a later version adds is kept and written back, whatever it is."""
    data = json.loads(wire.encode_checkpoint(plain()))
    found = decode(json.dumps({**data, **fields}).encode())

    assert found.extra == fields
    assert json.loads(wire.encode_checkpoint(found)) == {**data, **fields}


@pytest.mark.parametrize("number", [3, 4, 999, 2**40])
def test_a_later_format_is_refused_by_name(number: int) -> None:
    """A format that this version does not know is named, with what to do."""
    data = wire.encode_checkpoint(plain()).replace(b'"format": 1', b'"format": %d' % number)
    with pytest.raises(FormatTooNew, match=re.escape(COMMIT[:10])) as caught:
        decode(data)

    assert f"format {number};" in str(caught.value)
    assert caught.value.hint == installed.upgrade()


@pytest.mark.parametrize("text", ["0", "-1", '"1"', "1.5", "null", "[]", "{}", "true"])
def test_a_format_that_is_none_is_damage(text: str) -> None:
    """What is no format at all is not taken for a later one."""
    data = wire.encode_checkpoint(plain()).replace(b'"format": 1', b'"format": ' + text.encode())
    with pytest.raises(StoreDamaged) as caught:
        decode(data)

    assert not isinstance(caught.value, FormatTooNew)


# ---------------------------------------------------------------- garbage


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"1",
        b'"x"',
        b"\xff",
        b"{",
        b'{"format": 1}',
        b"[" * 10**5,
        b'{"a":' * 10**5,
        b"\0",
    ],
    ids=lambda data: repr(data[:12]),
)
def test_garbage_is_damage(data: bytes) -> None:
    """What is no checkpoint is said to be damaged, and which one, without a traceback."""
    with pytest.raises(StoreDamaged, match=re.escape(COMMIT[:10])) as caught:
        decode(data)

    assert caught.value.hint == "gitcp doctor --store"


FULL = replace(
    plain(),
    agent=Agent("claude-code", "5e55", "2", "m"),
    note=Note(
        "l",
        "p",
        "o",
        {"k": "v"},
        Handoff("t", ("d",), ("f",), ("n",), ("a",)),
        {"x": "1"},
        ("c",),
        CheckpointId("s", 1),
    ),
    snapshot=Snapshot(
        TREE,
        Base(COMMIT, "main", "merge"),
        3,
        (Skip(b"s", SkipReason.SPECIAL, "d"),),
        (b"r",),
        (Conversion(b"c", "crlf", True, "utf-16", True),),
        (b"e",),
        {b"m": 0o600},
        (Submodule(b"u", COMMIT),),
        (NestedRepository(b"n", COMMIT),),
        (b"a",),
        (IndexEntry(b"i", FILE, COMMIT, 0, True, True, True),),
        (b"t",),
        (IndexEntry(b"i", FILE, COMMIT, 1),),
    ),
    conversation=Conversation(
        "claude-code",
        STREAMS,
        (Stream("main", 1, "0" * 64, "p", 1),),
        Digest(1, LastMessage("user", "t", "i"), "p", "t"),
    ),
    restored_from=CheckpointId("s", 1),
    forked_from=CheckpointId("s", 1),
)


def places(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where in a document there is a value."""
    found = [here] if here else []
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return found + [place for key, inner in items for place in places(inner, (*here, key))]


PLACES = places(json.loads(wire.encode_checkpoint(FULL)))


def changed(place: tuple[Any, ...], value: object) -> bytes:
    document = json.loads(wire.encode_checkpoint(FULL))
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return json.dumps(document).encode()


def is_well_typed(checkpoint: Checkpoint) -> bool:
    """Whether the values are of the types that the model declares, as far as others would
    stumble.
    """
    note, snapshot, conversation = checkpoint.note, checkpoint.snapshot, checkpoint.conversation
    strings = [
        checkpoint.id.session,
        *filter(
            None, (note.label, note.phase, note.objective, note.handoff.task, *note.handoff.active)
        ),
        *note.facts,
        *note.facts.values(),
        *wire.position_texts(note.position).values(),
        *note.compensations,
        *([note.position_from.session] if note.position_from else []),
        *note.handoff.decisions,
        *note.handoff.failed,
        *note.handoff.next,
        *(skip.detail for skip in snapshot.skipped),
        *(entry.oid for entry in (*snapshot.staged, *snapshot.conflicts)),
        *(
            part
            for part in (snapshot.base.commit, snapshot.base.branch, snapshot.base.operation)
            if part is not None
        ),
    ]
    numbers = [checkpoint.id.number, checkpoint.changed, snapshot.total]
    if conversation is not None:
        digest = conversation.digest
        strings += [part for s in conversation.streams for part in (s.name, s.sha256, s.place)]
        strings += [
            part
            for part in (digest.last_prompt, digest.title, conversation.format)
            if part is not None
        ]
        strings += (
            [digest.last_message.role, digest.last_message.text] if digest.last_message else []
        )
        numbers += [
            digest.messages,
            *(part for s in conversation.streams for part in (s.bytes, s.torn)),
        ]
    if checkpoint.agent is not None:
        agent = checkpoint.agent
        strings += [
            part
            for part in (agent.name, agent.session_id, agent.version, agent.model)
            if part is not None
        ]
    return all(type(s) is str for s in strings) and all(type(n) is int and n >= 0 for n in numbers)


@pytest.mark.faults
@settings(max_examples=600)
@given(st.sampled_from(PLACES), values)
@example(("session",), "../../heads/main")
@example(("session",), "")
@example(("session",), "a/b")
@example(("number",), 0)
@example(("number",), True)
@example(("number",), "7")
@example(("conversation", "streams", 0, "name"), "../x")
@example(("restored_from",), "s")
@example(("facts",), {"": None})
@example(("restored_from",), "s@" + "9" * 5000)
def test_a_changed_value_is_read_or_is_damage(place: tuple[Any, ...], value: object) -> None:
    """Whatever stands in whatever place: a checkpoint whose values are what they should be, or
    StoreDamaged.
    """
    try:
        found = decode(changed(place, value))
    except StoreDamaged:
        return

    assert is_well_typed(found)
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}", found.id.session)
    assert found.id.number > 0


OIDS = [place for place in PLACES if place[-1] in ("commit", "head", "oid", "mode")]


@pytest.mark.parametrize("value", ["", "x", "--upload-pack=x", "HEAD", "1" * 39, "1" * 41, "1\n"])
@pytest.mark.parametrize("place", OIDS, ids=lambda place: ".".join(map(str, place)))
def test_an_oid_that_is_none_is_damage(place: tuple[Any, ...], value: str) -> None:
    """An object id or a mode that somebody forged never becomes an argument of git's: a base
    "x" once ended `show` in a ValueError.
    """
    with pytest.raises(StoreDamaged):
        decode(changed(place, value))


@pytest.mark.parametrize("place", PLACES, ids=lambda place: ".".join(map(str, place)))
def test_a_missing_value_is_read_or_is_damage(place: tuple[Any, ...]) -> None:
    """Whatever is left out: a checkpoint, or StoreDamaged."""
    document = json.loads(wire.encode_checkpoint(FULL))
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    del inner[place[-1]]
    try:
        found = decode(json.dumps(document).encode())
    except StoreDamaged:
        return

    assert is_well_typed(found)


@pytest.mark.parametrize("text", ["\udcff", "a\ud83db"])
def test_words_that_are_no_text(text: str) -> None:
    """Half characters (from arguments that are not UTF-8) do not keep anybody from saving."""
    data = wire.encode_checkpoint(
        replace(
            FULL,
            note=Note(text, text, text, {text: text}),
            snapshot=Snapshot(TREE, Base(None, text), 0),
        )
    )

    assert decode(data).note.label


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("note", Note(facts={"k": 7})),  # type: ignore[dict-item]
        ("note", Note(label=b"bytes")),  # type: ignore[arg-type]
        ("note", Note(handoff=Handoff(decisions=("a", None)))),  # type: ignore[arg-type]
        ("id", CheckpointId("../main", 1)),
        ("id", CheckpointId("alpha", 0)),
        ("restored_from", CheckpointId("", 1)),
        ("changed", -1),
    ],
)
def test_what_could_not_be_read_back_is_not_written(field: str, value: object) -> None:
    """A value of another type than the model says is refused when it is written, not when it is
    needed.
    """
    with pytest.raises(BadValue, match="no checkpoint was made"):
        wire.encode_checkpoint(replace(FULL, **{field: value}))


def test_a_conversation_without_its_tree() -> None:
    """Metadata that speaks of a conversation which the commit does not hold is damage."""
    with pytest.raises(StoreDamaged, match="conversation"):
        wire.decode_checkpoint(
            wire.encode_checkpoint(FULL),
            commit=COMMIT,
            root=ROOT,
            parent=None,
            tree=TREE,
            reserved={},
        )


# ---------------------------------------------------------------- the small pieces


@given(paths)
@example(b"\xff")
@example("é".encode())
@example(b'{"base64": "AA=="}')
def test_paths(path: bytes) -> None:
    """Any path comes back; what is UTF-8 stays readable."""
    value = wire.encode_path(path)

    assert wire.decode_path(value) == path
    assert wire.decode_path(json.loads(json.dumps(value))) == path
    assert isinstance(value, str) == (path.decode("utf-8", "ignore").encode() == path)


@given(
    st.datetimes(
        datetime(1000, 1, 2),  # noqa: DTZ001
        datetime(9000, 1, 1),  # noqa: DTZ001
        timezones=st.timezones() | st.just(UTC),
    )
)
def test_times(when: datetime) -> None:
    """A time comes back to the second, in UTC."""
    assert wire.decode_time(wire.encode_time(when)) == when.astimezone(UTC).replace(microsecond=0)


@pytest.mark.parametrize("text", ["s@1", "a.b-c@120"])
def test_ids(text: str) -> None:
    """An id is written as it is read."""
    assert str(wire.parse_id(text)) == text
    assert wire.parse_id(None) is None


@pytest.mark.parametrize(
    "line", [b"", b"1", b"[]", b"nope", b"\xff", b"{", b"[" * 10**5, b'{"a":' * 10**5, b"NaN"]
)
def test_a_line_that_is_no_object(line: bytes) -> None:
    """A line of a transcript that is no JSON object is none, and raises nothing."""
    assert wire.parse_line(line) is None
    assert wire.parse_line(b'{"a": 1}\r\n') == {"a": 1}


def test_unknown_is_no_oid() -> None:
    """The commit and root of a checkpoint are not written: they follow from where it lies."""
    data = wire.encode_checkpoint(plain())

    assert UNKNOWN.encode() not in data
    assert decode(data).commit == COMMIT


@pytest.mark.parametrize("key", [None, "a"], ids=["lists", "dicts"])
def test_nested(key: str | None) -> None:
    """A value may be nested as often as it says, a document around it a few times more. What is
    deeper is refused, however deep it is.
    """

    def nested(times: int) -> Any:
        value: Any = 1
        for _ in range(times):
            value = [value] if key is None else {key: value}
        return value

    assert wire.is_json(nested(wire.NESTED))
    assert wire.loads(wire.dumps(nested(wire.DEEPEST))) == nested(wire.DEEPEST)
    for times in (wire.NESTED + 1, 2000, 100_000):
        assert not wire.is_json(nested(times))
    for times in (wire.DEEPEST + 1, 100_000):
        opens, closes = (b"[", b"]") if key is None else (b'{"a":', b"}")
        with pytest.raises(ValueError, match="nested too deeply"):
            wire.loads(opens * times + b"1" + closes * times)
