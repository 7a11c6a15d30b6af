"""Tests that every adapter must pass. Run them with pytest on yours.

    from gitcp.conformance import AdapterConformance

    class TestMine(AdapterConformance):
        adapter = mine

        def begin(self, home, cwd, prompts):
            …

They do not need the agent itself. Whether its own resume works must be tested with the agent.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from uuid import uuid4

from gitcp import fingerprint
from gitcp.adapters import base
from gitcp.adapters.base import Adapter, Found, Message, Placement, Reader, Stored
from gitcp.errors import GitcpError
from gitcp.fingerprint import Fingerprint
from gitcp.model import MAIN, Agent, Capture, Digest, Host, Source, Stream
from gitcp.value import replace

PROMPTS = ("the first prompt", "the second prompt: größer, 漢字", "the third prompt")
NEW = "99999999-8888-4777-8666-555555555555"
COPY = "77777777-8888-4777-8666-555555555555"
FUNCTIONS = ("before", "capture", "digest", "find", "messages", "place", "running", "watched")
ODD_LINES = (
    b"\n",
    b"not json\n",
    b"\xff\xfe\0\n",
    b"[1,2]\n",
    b"{}\n",
    b'{"type":"of-next-year","x":{}}\n',
    b'{"torn":',
)
ODD_IDS = ("", ".", "..", "../x", "a/b", "/etc/passwd", "*", "-rf", "x\0", "x\n", "é", "x" * 65)
ODD_PLACES = ("/etc/passwd", "../../../../evil", "a/../../../../evil", "x\0", "")


class AdapterConformance(ABC):
    """Subclass it, set the adapter, and implement `begin`."""

    adapter: Adapter
    prompts: Sequence[str] = PROMPTS

    @abstractmethod
    def begin(self, home: Path, cwd: Path, prompts: Sequence[str]) -> None:
        """Write the files below `home` that the agent leaves after a session in `cwd` with these
        prompts, each answered. Two calls make two sessions.
        """

    # ------------------------------------------------------------ finding

    def test_it_is_an_adapter(self) -> None:
        """The adapter has a valid name and every function of the protocol."""
        assert base.SESSION_ID.fullmatch(self.adapter.NAME)
        assert [name for name in FUNCTIONS if not callable(getattr(self.adapter, name, None))] == []

    def test_where_the_agent_never_was(self, tmp_path: Path) -> None:
        """Without any session nothing is found, watched paths are absolute, and nothing is
        written.
        """
        host, cwd = _host(tmp_path), _project(tmp_path)
        before = _files(tmp_path)

        assert self.adapter.find(cwd, host) == ()
        assert self.adapter.running(host) is None
        assert all(path.is_absolute() for path in self.adapter.watched(cwd, host))
        assert _files(tmp_path) == before

    def test_a_session_is_found(self, tmp_path: Path) -> None:
        """A session is found from its directory and subdirectories, with a
        valid id, and not from elsewhere.
        """
        host, cwd = _host(tmp_path), _project(tmp_path)
        session = self._new_session(tmp_path)
        below, elsewhere = cwd / "src", _project(tmp_path, "elsewhere")
        below.mkdir()

        assert session.agent == self.adapter.NAME
        assert base.SESSION_ID.fullmatch(session.session_id)
        assert session.path.is_file()
        assert session.modified > 0
        assert self.adapter.find(below, host) == (session,)
        assert self.adapter.find(elsewhere, host) == ()

    def test_a_second_session(self, tmp_path: Path) -> None:
        """Both sessions are found, newest first, and a watched path has changed."""
        host, cwd = _host(tmp_path), _project(tmp_path)
        first = self._new_session(tmp_path)
        before = _fingerprints(self.adapter.watched(cwd, host))
        self.begin(host.home, cwd, self.prompts[:1])
        sessions = self.adapter.find(cwd, host)

        assert len({session.session_id for session in sessions}) == 2
        assert first.session_id in {session.session_id for session in sessions}
        assert [session.modified for session in sessions] == sorted(
            (s.modified for s in sessions), reverse=True
        )
        assert _fingerprints(before) != before

    def test_a_session_that_goes_on_is_noticed(self, tmp_path: Path) -> None:
        """A watched path changes when the main file grows."""
        host, cwd = _host(tmp_path), _project(tmp_path)
        session = self._new_session(tmp_path)
        before = _fingerprints(self.adapter.watched(cwd, host))
        with session.path.open("ab") as file:
            file.write(b"{}\n")

        assert _fingerprints(before) != before

    # ------------------------------------------------------------ reading

    def test_capture(self, tmp_path: Path) -> None:
        """Streams have valid names and paths, the main one first; capturing twice gives the
        same.
        """
        session = self._new_session(tmp_path)
        before = _files(tmp_path)
        capture = self.adapter.capture(session)
        names = [source.name for source in capture.sources]

        assert (capture.format, names[0]) == (self.adapter.NAME, MAIN)
        assert capture.agent == Agent(self.adapter.NAME, session.session_id)
        assert len(set(names)) == len(names)
        assert all(base.STREAM_PART.fullmatch(part) for name in names for part in name.split("/"))
        assert all(source.place.isprintable() for source in capture.sources)
        assert self.adapter.capture(session) == capture
        assert _files(tmp_path) == before

    def test_digest(self, tmp_path: Path) -> None:
        """The digest has the last prompt, and does not depend on where it was interrupted."""
        lines = self._lines(self._new_session(tmp_path))
        whole = self.adapter.digest(Digest(), lines)

        assert whole.last_prompt == self.prompts[-1]
        assert whole.messages >= 2 * len(self.prompts)
        assert whole.last_message is not None
        for size in range(len(lines)):
            before = self.adapter.digest(Digest(), lines[:size])
            assert self.adapter.digest(before, lines[size:]) == whole

    def test_messages(self, tmp_path: Path) -> None:
        """Prompts are shown in order with distinct ids, and an answer comes last."""
        shown = list(self.adapter.messages(self._lines(self._new_session(tmp_path))))
        typed = _typed(shown)

        assert [message.text for message in typed] == list(self.prompts)
        assert len({message.id for message in typed} - {None}) == len(self.prompts)
        assert shown[-1].role == "assistant"
        assert all(message.text for message in shown)

    def test_before_a_message(self, tmp_path: Path) -> None:
        """A conversation cut before a prompt has all earlier prompts and no later ones."""
        lines = self._lines(self._new_session(tmp_path))
        data = b"".join(lines)
        for number, message in enumerate(_typed(self.adapter.messages(lines))):
            offset = self.adapter.before(lines, message.id or "")
            assert offset is not None
            assert (
                self.adapter.before([line.rstrip(b"\n") for line in lines], message.id or "")
                == offset
            )
            assert data[:offset].endswith(b"\n") or not offset
            earlier = self.adapter.messages(base.lines([data[:offset]]))
            assert [m.text for m in _typed(earlier)] == list(self.prompts[:number])
        assert self.adapter.before(lines, "no such message") is None

    def test_odd_lines_are_passed_over(self, tmp_path: Path) -> None:
        """Broken and unknown lines are skipped."""
        lines = self._lines(self._new_session(tmp_path))
        odd = [line for pair in zip(lines, ODD_LINES * len(lines), strict=False) for line in pair]

        assert self.adapter.digest(Digest(), odd).last_prompt == self.prompts[-1]
        assert _typed(self.adapter.messages(odd)) == _typed(self.adapter.messages(lines))
        assert self.adapter.before(odd, "no such message") is None
        assert self.adapter.digest(Digest(), ODD_LINES).last_prompt is None

    # ------------------------------------------------------------ placing

    def test_place_in_an_empty_home(self, tmp_path: Path) -> None:
        """The session is placed under its own id, verbatim, where the agent
        finds it. Planning writes nothing.
        """
        host, cwd = _host(tmp_path), _project(tmp_path)
        source = self._new_session(tmp_path)
        stored = self._stored(source)
        other_host = replace(host, home=tmp_path / "another home")
        before = _files(tmp_path)
        placement = self.adapter.place(stored, cwd, other_host, new_id=NEW)

        assert _files(tmp_path) == before
        _apply(placement)
        assert placement.session_id == source.session_id
        assert any(source.session_id in word for word in placement.command)
        assert placement.files[0].path.read_bytes() == b"".join(stored.streams[0][1]())
        assert all(other_host.home in write.path.parents for write in placement.files)
        assert [session.session_id for session in self.adapter.find(cwd, other_host)] == [
            source.session_id
        ]
        assert self._read(other_host, cwd, source.session_id) == list(self.prompts)

    def test_place_over_the_same(self, tmp_path: Path) -> None:
        """An identical file is kept."""
        host, cwd = _host(tmp_path), _project(tmp_path)
        session = self._new_session(tmp_path)
        placement = self.adapter.place(self._stored(session), cwd, host, new_id=NEW)

        assert placement.session_id == session.session_id
        assert {write.how for write in placement.files} == {"same"}

    def test_place_over_a_beginning(self, tmp_path: Path) -> None:
        """A main file that is a prefix is completed."""
        host, cwd = _host(tmp_path), _project(tmp_path)
        session = self._new_session(tmp_path)
        stored, whole = self._stored(session), session.path.read_bytes()
        session.path.write_bytes(whole[: len(whole) // 2])
        placement = self.adapter.place(stored, cwd, host, new_id=NEW)

        assert placement.session_id == session.session_id
        assert (placement.files[0].how, placement.files[0].skip) == ("append", len(whole) // 2)
        _apply(placement)
        assert session.path.read_bytes() == whole

    def test_going_back(self, tmp_path: Path) -> None:
        """An earlier state of a session that continued is placed under the new id;
        existing files are not changed.
        """
        host, cwd = _host(tmp_path), _project(tmp_path)
        session = self._new_session(tmp_path)
        lines, before = self._lines(session), _files(tmp_path)
        last = _typed(self.adapter.messages(lines))[-1]
        cut = b"".join(lines)[: self.adapter.before(lines, last.id or "")]
        stored = self._stored(session, cut)
        placement = self.adapter.place(stored, cwd, host, new_id=NEW)
        _apply(placement)

        assert placement.session_id == NEW
        assert any(NEW in word for word in placement.command)
        assert session.session_id in placement.note
        assert before.items() <= _files(tmp_path).items()
        assert self._read(host, cwd, NEW) == list(self.prompts[:-1])
        again = self.adapter.place(stored, cwd, host, new_id=NEW)
        assert {write.how for write in again.files} == {"same"}

    def test_a_copy(self, tmp_path: Path) -> None:
        """A conversation without an id is placed under the new one, next to the original."""
        host, cwd = _host(tmp_path), _project(tmp_path)
        session = self._new_session(tmp_path)
        before = _files(tmp_path)
        stored = replace(self._stored(session), agent=Agent(self.adapter.NAME))
        placement = self.adapter.place(stored, cwd, host, new_id=COPY)
        _apply(placement)

        assert placement.session_id == COPY
        assert before.items() <= _files(tmp_path).items()
        assert self._read(host, cwd, COPY) == list(self.prompts)
        assert {s.session_id for s in self.adapter.find(cwd, host)} == {session.session_id, COPY}

    def test_hostile_ids_are_refused(self, tmp_path: Path) -> None:
        """A stored id never becomes a path unless it is a safe name."""
        host, cwd = _host(tmp_path), _project(tmp_path)
        stored = self._stored(self._new_session(tmp_path))
        for odd in ODD_IDS:
            lying = replace(stored, agent=Agent(self.adapter.NAME, odd))
            assert _is_refused(partial(self.adapter.place, lying, cwd, host, new_id=NEW)), odd

    def test_hostile_places_are_refused(self, tmp_path: Path) -> None:
        """A stored path never leads outside the home directory."""
        host, cwd = _host(tmp_path), _project(tmp_path)
        stored = self._stored(self._new_session(tmp_path))
        for odd in ODD_PLACES:
            stream = Stream("agents/x", 4, sha256(b"evil").hexdigest(), odd)
            lying = replace(stored, streams=(*stored.streams, (stream, lambda: iter([b"evil"]))))
            assert _is_refused(partial(self.adapter.place, lying, cwd, host, new_id=NEW)), odd

    # ------------------------------------------------------------ helpers

    def _new_session(self, tmp_path: Path) -> Found:
        host, cwd = _host(tmp_path), _project(tmp_path)
        self.begin(host.home, cwd, self.prompts)
        (session,) = self.adapter.find(cwd, host)
        return session

    def _lines(self, found: Found) -> list[bytes]:
        return list(base.lines([_bytes(self.adapter.capture(found).sources[0])]))

    def _stored(self, found: Found, main: bytes | None = None) -> Stored:
        """Return a session as a checkpoint stores it; `main` replaces its main stream."""
        return stored(self.adapter.capture(found), main)

    def _read(self, host: Host, cwd: Path, session_id: str) -> list[str]:
        """Return the prompts of a placed session."""
        session = next(s for s in self.adapter.find(cwd, host) if s.session_id == session_id)
        return [message.text for message in _typed(self.adapter.messages(self._lines(session)))]


def stored(capture: Capture, main: bytes | None = None) -> Stored:
    """Return a captured conversation as a checkpoint stores it; `main` replaces its main stream."""
    streams = []
    for source in capture.sources:
        data = main if main is not None and source.name == MAIN else _bytes(source)
        stream = Stream(source.name, len(data), sha256(data).hexdigest(), source.place)
        streams.append((stream, _reader(data)))
    return Stored(capture.agent or Agent(capture.format), tuple(streams))


def _host(tmp_path: Path, env: Mapping[str, str] | None = None) -> Host:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    return Host(env or {}, home, lambda: datetime(2026, 11, 21, 12, 0, tzinfo=UTC))


def _project(tmp_path: Path, name: str = "a project") -> Path:
    path = tmp_path / name
    path.joinpath(".git").mkdir(parents=True, exist_ok=True)
    return path


def _files(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def _fingerprints(paths: Iterable[Path]) -> dict[Path, Fingerprint | None]:
    """Return a fingerprint of each path, None if it does not exist."""
    return {path: fingerprint.at(str(path)) for path in paths}


def _typed(shown: Sequence[Message] | Iterator[Message]) -> list[Message]:
    return [message for message in shown if message.role == "user"]


def _bytes(source: Source) -> bytes:
    if source.data is not None:
        return source.data
    assert source.path is not None
    return source.path.read_bytes()


def _reader(data: bytes) -> Reader:
    return lambda: (data[start : start + 1000] for start in range(0, len(data), 1000))


def _apply(placement: Placement) -> None:
    """Write a placement as gitcp does."""
    for write in placement.files:
        data = b"".join(write.content())
        write.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if write.how == "create":
            with write.path.open("xb") as file:
                file.write(data)
        elif write.how == "append":
            with write.path.open("ab") as file:
                file.write(data[write.skip :])
        write.path.chmod(0o600)


def _is_refused(attempt: partial[Placement]) -> bool:
    """Return whether placing raises a GitcpError."""
    try:
        attempt()
    except GitcpError:
        return True
    return False


# ---------------------------------------------------------------- a sample

NEEDS_LINES = frozenset(
    ("digest", "before_a_message", "odd_lines_are_passed_over", "place_over_a_beginning")
)
"""What cannot be said of a conversation that is one document."""
NEEDS_PROMPTS = frozenset(("before_a_message", "going_back"))
"""What cannot be tried with a single prompt."""

ADVICE = {
    "a_session_is_found": "check home, transcript, slug and [cwd]",
    "messages": "check the [[message]] of role user (its id, too), and that an answer is shown",
    "digest": "check the [[message]] of role user",
    "before_a_message": "set id in the [[message]] of role user; [prompt] says where a turn begins",
    "place_in_an_empty_home": "check transcript, about, [session] and [cwd]",
    "going_back": "set id in the [[message]] of role user, and check [session]",
    "a_copy": "check [session]: a copy must have its own id wherever the agent looks for it",
}


class Outcome(NamedTuple):
    """How a test ended: what it is about, and "ok", "failed" or "does not apply". `advice` is what
    to look at if it failed, or why it does not apply.
    """

    about: str
    result: str
    advice: str = ""


def try_sample(adapter: Adapter, sample: Found, *, is_document: bool) -> Iterator[Outcome]:
    """Yield how each test ends with copies of one session, which `adapter.place` makes in
    directories of their own. `is_document`: its main file is not made of lines.
    """
    suite = _Sampled(adapter, sample)
    for name in (name for name in dir(suite) if name.startswith("test_")):
        test = getattr(suite, name)
        about = " ".join((test.__doc__ or name).split())
        short = name.removeprefix("test_")
        if is_document and short in NEEDS_LINES | NEEDS_PROMPTS:
            yield Outcome(about, SKIPPED, "the conversation is one document, not lines")
        elif len(suite.prompts) < 2 and short in NEEDS_PROMPTS:
            yield Outcome(about, SKIPPED, "the sample has fewer than two prompts")
        else:
            yield Outcome(about, *_tried(test, ADVICE.get(short, "")))


PASSED, FAILED, SKIPPED = "ok", "failed", "does not apply"


def _tried(test: Callable[..., None], advice: str) -> tuple[str, str]:
    with TemporaryDirectory() as scratch:
        directory = Path(os.path.realpath(scratch))
        try:
            test(*[directory] * (test.__code__.co_argcount - 1))
        except Exception as error:  # noqa: BLE001 -- whatever an adapter does wrong
            reason = "" if isinstance(error, AssertionError) else str(error)
            return FAILED, "; ".join(filter(None, (reason, advice)))
    return PASSED, ""


class _Sampled(AdapterConformance):
    """The tests, with copies of one session."""

    def __init__(self, adapter: Adapter, sample: Found) -> None:
        self.adapter = adapter
        self._stored_sample = self._stored(sample)
        self.prompts = [each.text for each in _typed(adapter.messages(self._lines(sample)))]

    def begin(self, home: Path, cwd: Path, prompts: Sequence[str]) -> None:  # noqa: ARG002
        """Place a copy of the sample."""
        host = Host({}, home, lambda: datetime(2026, 11, 21, 12, 0, tzinfo=UTC))
        stored = replace(self._stored_sample, agent=Agent(self.adapter.NAME))
        _apply(self.adapter.place(stored, cwd, host, new_id=str(uuid4())))
