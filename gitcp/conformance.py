"""What every adapter must do, as tests that pytest runs over one. Ours pass it; so should yours.

    from gitcp.conformance import AdapterConformance

    class TestMine(AdapterConformance):
        adapter = mine

        def begin(self, home, cwd, prompts):
            …

Nothing here needs the agent itself. That its own resume continues from what was placed, only the
agent can show.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path

from gitcp.adapters import base
from gitcp.adapters.base import Adapter, Found, Message, Placement, Reader, Stored
from gitcp.errors import GitcpError
from gitcp.model import Agent, Capture, Digest, Host, Source, Stream
from gitcp.value import replace

PROMPTS = ("the first prompt", "the second prompt: größer, 漢字", "the third prompt")
NEW = "99999999-8888-4777-8666-555555555555"
COPY = "77777777-8888-4777-8666-555555555555"
MAIN = "main"
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
    """Derive from it, name the adapter, and say how its agent leaves a session behind."""

    adapter: Adapter
    prompts: Sequence[str] = PROMPTS

    @abstractmethod
    def begin(self, home: Path, cwd: Path, prompts: Sequence[str]) -> None:
        """Write, below `home`, what the agent leaves behind after a session that a person began in
        `cwd` with these prompts, each answered. Called twice, it makes two sessions.
        """

    # ------------------------------------------------------------ finding

    def test_it_is_an_adapter(self) -> None:
        """It has a name that can stand in a commit, and every function of the protocol."""
        assert base.SESSION_ID.fullmatch(self.adapter.NAME)
        assert [name for name in FUNCTIONS if not callable(getattr(self.adapter, name, None))] == []

    def test_where_the_agent_never_was(self, tmp_path: Path) -> None:
        """Nothing is found, nothing runs, what is watched are absolute paths, and looking makes
        nothing.
        """
        host, cwd = _host(tmp_path), _project(tmp_path)
        before = _files(tmp_path)

        assert self.adapter.find(cwd, host) == ()
        assert self.adapter.running(host) is None
        assert all(path.is_absolute() for path in self.adapter.watched(cwd, host))
        assert _files(tmp_path) == before

    def test_a_session_is_found(self, tmp_path: Path) -> None:
        """From its directory and from below, by an id that can be a path's part; from elsewhere it
        is not.
        """
        host, cwd = _host(tmp_path), _project(tmp_path)
        found = self._begun(tmp_path)
        below, elsewhere = cwd / "src", _project(tmp_path, "elsewhere")
        below.mkdir()

        assert found.agent == self.adapter.NAME
        assert base.SESSION_ID.fullmatch(found.session_id)
        assert found.path.is_file()
        assert found.modified > 0
        assert self.adapter.find(below, host) == (found,)
        assert self.adapter.find(elsewhere, host) == ()

    def test_a_second_session(self, tmp_path: Path) -> None:
        """Both are found, the newest first, and what is watched tells that there is another."""
        host, cwd = _host(tmp_path), _project(tmp_path)
        first = self._begun(tmp_path)
        before = _stats(self.adapter.watched(cwd, host))
        self.begin(host.home, cwd, self.prompts[:1])
        found = self.adapter.find(cwd, host)

        assert len({session.session_id for session in found}) == 2
        assert first.session_id in {session.session_id for session in found}
        assert [session.modified for session in found] == sorted(
            (s.modified for s in found), reverse=True
        )
        assert _stats(list(before)) != before

    def test_a_session_that_goes_on_is_noticed(self, tmp_path: Path) -> None:
        """What is watched tells that a main file grew."""
        host, cwd = _host(tmp_path), _project(tmp_path)
        found = self._begun(tmp_path)
        before = _stats(self.adapter.watched(cwd, host))
        with found.path.open("ab") as file:
            file.write(b"{}\n")

        assert _stats(list(before)) != before

    # ------------------------------------------------------------ reading

    def test_capture(self, tmp_path: Path) -> None:
        """Streams have names and places that can be stored, the main one first; looking twice says
        the same.
        """
        found = self._begun(tmp_path)
        before = _files(tmp_path)
        capture = self.adapter.capture(found)
        names = [source.name for source in capture.sources]

        assert (capture.format, names[0]) == (self.adapter.NAME, MAIN)
        assert capture.agent == Agent(self.adapter.NAME, found.session_id)
        assert len(set(names)) == len(names)
        assert all(base.STREAM_PART.fullmatch(part) for name in names for part in name.split("/"))
        assert all(source.place.isprintable() for source in capture.sources)
        assert self.adapter.capture(found) == capture
        assert _files(tmp_path) == before

    def test_digest(self, tmp_path: Path) -> None:
        """It names the last prompt, and does not depend on where the last one stopped."""
        lines = self._lines(self._begun(tmp_path))
        whole = self.adapter.digest(Digest(), lines)

        assert whole.last_prompt == self.prompts[-1]
        assert whole.messages >= 2 * len(self.prompts)
        assert whole.last_message is not None
        for size in range(len(lines)):
            before = self.adapter.digest(Digest(), lines[:size])
            assert self.adapter.digest(before, lines[size:]) == whole

    def test_messages(self, tmp_path: Path) -> None:
        """What a person typed is shown in order, each under an id of its own, and answers in
        between.
        """
        shown = list(self.adapter.messages(self._lines(self._begun(tmp_path))))
        typed = _typed(shown)

        assert [message.text for message in typed] == list(self.prompts)
        assert len({message.id for message in typed} - {None}) == len(self.prompts)
        assert shown[-1].role == "assistant"
        assert all(message.text for message in shown)

    def test_before_a_message(self, tmp_path: Path) -> None:
        """A conversation cut before a prompt holds the earlier ones and none of the later."""
        lines = self._lines(self._begun(tmp_path))
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
        """Broken lines, and kinds of next year, hide nothing of what is around them."""
        lines = self._lines(self._begun(tmp_path))
        odd = [line for pair in zip(lines, ODD_LINES * len(lines), strict=False) for line in pair]

        assert self.adapter.digest(Digest(), odd).last_prompt == self.prompts[-1]
        assert _typed(self.adapter.messages(odd)) == _typed(self.adapter.messages(lines))
        assert self.adapter.before(odd, "no such message") is None
        assert self.adapter.digest(Digest(), ODD_LINES).last_prompt is None

    # ------------------------------------------------------------ placing

    def test_place_in_an_empty_home(self, tmp_path: Path) -> None:
        """Under its own id, byte for byte, where the agent is found to have it; deciding writes
        nothing.
        """
        host, cwd = _host(tmp_path), _project(tmp_path)
        found = self._begun(tmp_path)
        what = self._stored(found)
        there = replace(host, home=tmp_path / "another home")
        before = _files(tmp_path)
        placement = self.adapter.place(what, cwd, there, new_id=NEW)

        assert _files(tmp_path) == before
        _carry_out(placement)
        assert placement.session_id == found.session_id
        assert any(found.session_id in word for word in placement.command)
        assert placement.files[0].path.read_bytes() == b"".join(what.streams[0][1]())
        assert all(there.home in write.path.parents for write in placement.files)
        assert [session.session_id for session in self.adapter.find(cwd, there)] == [
            found.session_id
        ]
        assert self._read(there, cwd, found.session_id) == list(self.prompts)

    def test_place_over_the_same(self, tmp_path: Path) -> None:
        """What is there already is left alone."""
        host, cwd = _host(tmp_path), _project(tmp_path)
        found = self._begun(tmp_path)
        placement = self.adapter.place(self._stored(found), cwd, host, new_id=NEW)

        assert placement.session_id == found.session_id
        assert {write.how for write in placement.files} == {"same"}

    def test_place_over_a_beginning(self, tmp_path: Path) -> None:
        """A main file that stops earlier is completed from there."""
        host, cwd = _host(tmp_path), _project(tmp_path)
        found = self._begun(tmp_path)
        what, whole = self._stored(found), found.path.read_bytes()
        found.path.write_bytes(whole[: len(whole) // 2])
        placement = self.adapter.place(what, cwd, host, new_id=NEW)

        assert placement.session_id == found.session_id
        assert (placement.files[0].how, placement.files[0].skip) == ("append", len(whole) // 2)
        _carry_out(placement)
        assert found.path.read_bytes() == whole

    def test_going_back(self, tmp_path: Path) -> None:
        """An earlier state of a session that went on goes under the new id; no byte of what is
        there changes.
        """
        host, cwd = _host(tmp_path), _project(tmp_path)
        found = self._begun(tmp_path)
        lines, before = self._lines(found), _files(tmp_path)
        last = _typed(self.adapter.messages(lines))[-1]
        cut = b"".join(lines)[: self.adapter.before(lines, last.id or "")]
        what = self._stored(found, cut)
        placement = self.adapter.place(what, cwd, host, new_id=NEW)
        _carry_out(placement)

        assert placement.session_id == NEW
        assert any(NEW in word for word in placement.command)
        assert found.session_id in placement.note
        assert before.items() <= _files(tmp_path).items()
        assert self._read(host, cwd, NEW) == list(self.prompts[:-1])
        again = self.adapter.place(what, cwd, host, new_id=NEW)
        assert {write.how for write in again.files} == {"same"}

    def test_a_copy(self, tmp_path: Path) -> None:
        """A conversation without an id of its own goes under the new one, beside the one it is a
        copy of.
        """
        host, cwd = _host(tmp_path), _project(tmp_path)
        found = self._begun(tmp_path)
        before = _files(tmp_path)
        what = replace(self._stored(found), agent=Agent(self.adapter.NAME))
        placement = self.adapter.place(what, cwd, host, new_id=COPY)
        _carry_out(placement)

        assert placement.session_id == COPY
        assert before.items() <= _files(tmp_path).items()
        assert self._read(host, cwd, COPY) == list(self.prompts)
        assert {s.session_id for s in self.adapter.find(cwd, host)} == {found.session_id, COPY}

    def test_hostile_ids_are_refused(self, tmp_path: Path) -> None:
        """What a checkpoint says of an id never becomes a path unless it can only be a name."""
        host, cwd = _host(tmp_path), _project(tmp_path)
        what = self._stored(self._begun(tmp_path))
        for odd in ODD_IDS:
            lying = replace(what, agent=Agent(self.adapter.NAME, odd))
            assert _is_refused(partial(self.adapter.place, lying, cwd, host, new_id=NEW)), odd

    def test_hostile_places_are_refused(self, tmp_path: Path) -> None:
        """What a checkpoint says of a place never leads out of the home."""
        host, cwd = _host(tmp_path), _project(tmp_path)
        what = self._stored(self._begun(tmp_path))
        for odd in ODD_PLACES:
            stream = Stream("agents/x", 4, sha256(b"evil").hexdigest(), odd)
            lying = replace(what, streams=(*what.streams, (stream, lambda: iter([b"evil"]))))
            assert _is_refused(partial(self.adapter.place, lying, cwd, host, new_id=NEW)), odd

    # ------------------------------------------------------------ what the tests share

    def _begun(self, tmp_path: Path) -> Found:
        """The one session there is."""
        host, cwd = _host(tmp_path), _project(tmp_path)
        self.begin(host.home, cwd, self.prompts)
        (found,) = self.adapter.find(cwd, host)
        return found

    def _lines(self, found: Found) -> list[bytes]:
        return list(base.lines([_bytes(self.adapter.capture(found).sources[0])]))

    def _stored(self, found: Found, main: bytes | None = None) -> Stored:
        """A session as a checkpoint gives it back; `main` stands for its main stream."""
        capture: Capture = self.adapter.capture(found)
        streams = []
        for source in capture.sources:
            data = main if main is not None and source.name == MAIN else _bytes(source)
            stream = Stream(source.name, len(data), sha256(data).hexdigest(), source.place)
            streams.append((stream, _reader(data)))
        return Stored(capture.agent or Agent(self.adapter.NAME), tuple(streams))

    def _read(self, host: Host, cwd: Path, session_id: str) -> list[str]:
        """The prompts of a session that was placed."""
        found = next(s for s in self.adapter.find(cwd, host) if s.session_id == session_id)
        return [message.text for message in _typed(self.adapter.messages(self._lines(found)))]


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


def _stats(paths: Sequence[Path] | Mapping[Path, object]) -> dict[Path, object]:
    """What tells a path that changed from one that did not; None where nothing is."""
    found: dict[Path, object] = {}
    for path in paths:
        status = path.stat() if path.exists() else None
        found[path] = status and (status.st_ino, status.st_size, status.st_mtime_ns)
    return found


def _typed(shown: Sequence[Message] | Iterator[Message]) -> list[Message]:
    return [message for message in shown if message.role == "user"]


def _bytes(source: Source) -> bytes:
    if source.data is not None:
        return source.data
    assert source.path is not None
    return source.path.read_bytes()


def _reader(data: bytes) -> Reader:
    return lambda: (data[start : start + 1000] for start in range(0, len(data), 1000))


def _carry_out(placement: Placement) -> None:
    """What gitcp does with a plan."""
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


def _is_refused(place: partial[Placement]) -> bool:
    """Whether placing is an error in words."""
    try:
        place()
    except GitcpError:
        return True
    return False
