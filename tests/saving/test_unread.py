"""A conversation that cannot be read never costs the files: a save keeps what is stored of it, and
says so.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import transcripts

from gitcp.automation.hook import HookEvent, record
from gitcp.errors import ConversationUnreadable
from gitcp.history import show
from gitcp.model import Agent, Trigger
from gitcp.restoring.request import RestoreRequest
from gitcp.restoring.restore import restore
from gitcp.saving.save import Saved, SaveRequest, save

from driver import Project
from samples import open_store

AGENTS = ("claude-code", "codex", "copilot", "gemini", "opencode")
FILES = tuple(agent for agent in AGENTS if agent != "opencode")
DATABASE = Path(".local/share/opencode/opencode.db")


@pytest.fixture
def home() -> Path:
    return Path(os.environ["HOME"])


class Talking:
    """A project whose agent has a conversation that is saved once."""

    def __init__(self, project: Project, home: Path, agent: str) -> None:
        self.project, self.agent, self.home = project, agent, home
        self.id = transcripts.write(agent, home, project.root)
        project.write("work.txt", "one\n")
        self.store = open_store(project)
        self.first = self.save().checkpoint
        assert self.first.agent is not None
        assert self.first.agent.session_id == self.id
        assert self.first.conversation is not None

    def save(self, **given: Any) -> Saved:
        return save(open_store(self.project), SaveRequest(self.project.root, **given))

    def hook(self) -> Saved:
        event = HookEvent(self.project.root, self.agent, self.id, Trigger.TURN, patience=0.0)
        saved = record(open_store(self.project), event)
        assert saved is not None
        return saved

    def main(self) -> Path:
        """The file with the conversation."""
        if self.agent == "opencode":
            return self.home / DATABASE
        matching = [
            path
            for path in self.home.rglob("*.jsonl")
            if self.id in str(path) or path.stem.endswith(self.id[:8])
        ]
        return min(matching, key=lambda path: len(path.parts))

    def check_kept(self, saved: Saved) -> None:
        """The files are saved, and the conversation is that of the first checkpoint."""
        assert saved.saved
        checkpoint = saved.checkpoint
        assert checkpoint.id.session == self.first.id.session
        assert checkpoint.snapshot.tree != self.first.snapshot.tree
        assert checkpoint.conversation == self.first.conversation
        assert checkpoint.agent == self.first.agent


@pytest.fixture(params=AGENTS)
def talking(request: pytest.FixtureRequest, project: Project, home: Path) -> Talking:
    talking = Talking(project, home, request.param)
    project.write("work.txt", "two\n")
    return talking


@pytest.fixture
def forbid(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, int], None]:
    """Let no file at or beside a path be opened, with this error; root may read what has no
    permission.
    """

    def begin(path: Path, number: int) -> None:
        plain_open, plain_os_open = open, os.open
        connect = sqlite3.connect

        def check(name: Any) -> None:
            if isinstance(name, (str, bytes, os.PathLike)) and os.fsdecode(name) == str(path):
                raise OSError(number, os.strerror(number), str(path))

        def opened(name: Any, *args: Any, **given: Any) -> Any:
            check(name)
            return plain_open(name, *args, **given)

        def os_opened(name: Any, *args: Any, **given: Any) -> Any:
            check(name)
            return plain_os_open(name, *args, **given)

        def connected(name: str, *args: Any, **given: Any) -> Any:
            if str(path) in name:
                raise sqlite3.OperationalError("unable to open database file")
            return connect(name, *args, **given)

        monkeypatch.setattr("builtins.open", opened)
        monkeypatch.setattr(os, "open", os_opened)
        monkeypatch.setattr(sqlite3, "connect", connected)

    return begin


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
@pytest.mark.parametrize("by_hook", [False, True])
def test_unreadable(
    talking: Talking, forbid: Callable[[Path, int], None], number: int, by_hook: bool
) -> None:
    """No permission, or a disk that fails: the files are saved, by a command and by a hook."""
    path = talking.main()
    forbid(path, number)

    saved = talking.hook() if by_hook else talking.save()

    talking.check_kept(saved)
    assert saved.unread is not None
    assert str(path) in saved.unread.what
    assert saved.unread.what.endswith("the conversation of the last checkpoint was kept")


@pytest.mark.parametrize("damage", ["directory", "garbage", "gone"])
@pytest.mark.parametrize("by_hook", [False, True])
def test_something_else_in_its_place(talking: Talking, damage: str, by_hook: bool) -> None:
    """A directory, something that is no transcript, or nothing: the files are saved, and the
    conversation stays in the session. What a file contains is stored as it is.
    """
    path = talking.main()
    path.unlink()
    if damage == "directory":
        path.mkdir()
    elif damage == "garbage":
        path.write_bytes(b"\x00\xff no transcript\n" * 500)

    saved = talking.hook() if by_hook else talking.save()

    assert saved.saved
    assert saved.checkpoint.snapshot.tree != talking.first.snapshot.tree
    if by_hook:
        assert saved.checkpoint.id.session == talking.first.id.session
    if by_hook and damage != "garbage":
        assert saved.checkpoint.conversation == talking.first.conversation
    if talking.agent == "opencode" and damage != "gone":
        talking.check_kept(saved)
        assert str(path) in str(saved.unread)
    stored = talking.store.read(talking.first.commit)
    assert stored.conversation is not None
    assert list(show.messages(talking.store, stored.conversation))


def test_a_read_that_fails(project: Project, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fails in the middle of the transcript."""
    talking = Talking(project, home, "claude-code")
    project.write("work.txt", "two\n")
    path = talking.main()
    with path.open("a") as file:
        file.write("{}\n" * 100_000)
    plain, size = os.pread, talking.first.conversation and talking.first.conversation.streams[0]
    assert size

    def failing(descriptor: int, count: int, offset: int) -> bytes:
        if offset >= size.bytes and os.readlink(f"/proc/self/fd/{descriptor}") == str(path):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return plain(descriptor, count, offset)

    monkeypatch.setattr(os, "pread", failing)
    saved = talking.save()

    talking.check_kept(saved)
    assert "cannot be read (Input/output error)" in str(saved.unread)


def test_a_sub_agent_that_cannot_be_read(
    project: Project, home: Path, forbid: Callable[[Path, int], None]
) -> None:
    """The rest of the conversation is saved, and what is stored of the sub-agent is kept."""
    talking = Talking(project, home, "claude-code")
    project.write("work.txt", "two\n")
    (agent,) = home.rglob("subagents/agent-*.jsonl")
    new = agent.with_name("agent-new.jsonl")
    new.write_bytes(agent.read_bytes())
    with talking.main().open("a") as file:
        file.write('{"type":"progress"}\n')
    forbid(agent, errno.EACCES)

    saved = talking.save()

    before, after = talking.first.conversation, saved.checkpoint.conversation
    assert before is not None
    assert after is not None
    old, now = ({stream.name: stream for stream in each.streams} for each in (before, after))
    name = next(name for name in old if name.startswith("agents/"))
    assert now[name] == old[name]
    assert now["main"].bytes == old["main"].bytes + 20
    assert set(now) - set(old) == {"agents/new"}
    assert str(agent) in str(saved.unread)
    assert "the rest of the conversation was saved" in str(saved.unread)

    forbid(new, errno.EACCES)
    again = talking.save(force=True).checkpoint.conversation
    assert again is not None
    assert {stream.name for stream in again.streams} == set(now)


def test_the_first_save(project: Project, home: Path, forbid: Callable[[Path, int], None]) -> None:
    """Without a conversation of before, there are only the files, under the agent's name."""
    id = transcripts.write("claude-code", home, project.root)
    project.write("work.txt", "one\n")
    (path,) = home.rglob(f"{id}.jsonl")
    forbid(path, errno.EACCES)

    saved = save(open_store(project), SaveRequest(project.root))

    assert (saved.saved, saved.checkpoint.conversation) == (True, None)
    assert saved.checkpoint.agent == Agent("claude-code", id)
    assert str(saved.unread).startswith(f"conversation {path} cannot be read (Permission denied)")
    assert "only the files were saved" in str(saved.unread)


def test_a_file_given_by_hand(
    project: Project, home: Path, forbid: Callable[[Path, int], None]
) -> None:
    """Whoever names a file wants that one: nothing is saved without it."""
    project.write("work.txt", "one\n")
    project.write("talk.txt", "hello\n")
    path = project.root / "talk.txt"
    store = open_store(project)
    with pytest.raises(ConversationUnreadable, match="nothing was saved"):
        save(store, SaveRequest(project.root, conversation=project.root / "none.txt"))
    transcripts.write("claude-code", home, project.root)
    (path,) = home.rglob(f"{transcripts.SESSION}.jsonl")
    forbid(path, errno.EACCES)
    with pytest.raises(ConversationUnreadable, match="denied"):
        save(store, SaveRequest(project.root, agent="claude-code", conversation=path))
    assert not store.sessions()


def test_restore(talking: Talking, forbid: Callable[[Path, int], None]) -> None:
    """The current files are saved, then restored; an unreadable conversation is kept."""
    forbid(talking.main(), errno.EIO)
    store = open_store(talking.project)
    request = RestoreRequest(talking.first, talking.project.root, conversation=False)

    report = restore(store, request)

    assert talking.project.read("work.txt") == b"one\n"
    assert report.safety is not None
    commit = store.find(report.safety)
    assert commit is not None
    assert store.read(commit).conversation == talking.first.conversation
    assert any("the current conversation is not saved" in each.reason for each in report.kept)


# ---------------------------------------------------------------- what people and agents are told


def torn(path: Path) -> None:
    """Write nothing over the page with the messages of a database."""
    content = path.read_bytes()
    at = content.rindex(b'"role": "user"') // 4096 * 4096
    path.write_bytes(content[:at] + bytes(4096) + content[at + 4096 :])


def test_what_a_command_says(project: Project, home: Path) -> None:
    """What could not be read, what was saved instead, and what to run; and the exit code of work
    that is done in part.
    """
    talking = Talking(project, home, "opencode")
    project.write("work.txt", "two\n")
    torn(talking.main())
    why = f"cannot read {talking.main()}: database disk image is malformed"
    note = f"note: {why}; the conversation of the last checkpoint was kept\nhint: gitcp doctor\n"

    done = project.gitcp("save", "second", check=3)
    assert done.err == note
    assert "1 file changed" in done.out
    again = project.gitcp("save", check=3)
    assert again.err == note
    assert "nothing changed" in again.out
    fields = json.loads(project.gitcp("save", "--force", "--json", check=3).out)
    assert fields["unread"] == f"{why}; the conversation of the last checkpoint was kept"
    assert "sqlite3 -readonly" in project.gitcp("doctor", check=1).out
    ran = project.gitcp("run", "work", "--", "true", check=0)
    assert why in ran.err


def test_what_an_agent_is_told(project: Project, home: Path) -> None:
    """A hook leaves word for the agent, once until the conversation can be read."""
    talking = Talking(project, home, "opencode")
    path = talking.main()
    whole = path.read_bytes()

    def hook(event: str) -> str:
        payload = json.dumps({"session_id": talking.id, "cwd": str(project.root)})
        return project.gitcp("hook", "opencode", event, input=payload, check=0).out

    def turn(text: str) -> None:
        before = open_store(project).sessions()
        project.write("work.txt", text)
        hook("session.idle")
        until(lambda: open_store(project).sessions() != before)  # it saves in the background

    def until(is_done: Callable[[], object]) -> None:
        for _ in range(600):
            if is_done():
                return
            time.sleep(0.1)
        raise AssertionError("it did not happen")

    def told() -> str:
        until((project.git_dir / "gitcp" / "notice").exists)
        return str(json.loads(hook("chat.message"))["hookSpecificOutput"]["additionalContext"])

    turn("two\n")
    assert hook("chat.message") == ""
    torn(path)
    turn("three\n")
    context = told()
    assert context.startswith(f"gitcp: cannot read {path}: database disk image is malformed; ")
    assert context.endswith("was kept; gitcp doctor. Tell the user.")
    turn("four\n")
    assert hook("chat.message") == ""
    assert f"cannot read {path}" in project.gitcp("doctor", check=1).out
    path.write_bytes(whole)
    turn("five\n")
    until(lambda: not (project.git_dir / "gitcp" / "unread").exists())
    torn(path)
    turn("six\n")
    assert "Tell the user." in told()
    assert len(project.json_lines("log")) == 6
