"""The Claude Agent SDK with its sessions kept as checkpoints: the SDK's own suite, and what it
leaves out.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
import time
import uuid
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    HookMatcher,
    InMemorySessionStore,
    list_sessions_from_store,
)
from claude_agent_sdk.testing import run_session_store_conformance

import gitcp
from gitcp import installed, wire
from gitcp.claude import GitSessionStore, options
from gitcp.errors import BadValue, NotTrusted, Refused, RevisionNotFound
from gitcp.model import Host

from driver import Project

SESSION = "11111111-2222-4333-8444-555555555555"
KEY: Any = {"project_key": "proj", "session_id": SESSION}


def entry(kind: str, text: str, **fields: Any) -> Any:
    """A line of a transcript."""
    message = {"role": kind, "content": text}
    return {
        "type": kind,
        "uuid": str(uuid.uuid4()),
        "timestamp": "2026-01-01T00:00:00Z",
        "message": message,
        **fields,
    }


def prompt_of(
    session_id: str, store: GitSessionStore, prompt_id: str | None = None
) -> dict[str, Any]:
    """What the SDK gives a callback when a prompt comes."""
    transcript = f"/somewhere/projects/{store.project_key}/{session_id}.jsonl"
    given = {"prompt_id": prompt_id} if prompt_id else {}
    return {
        "session_id": session_id,
        "transcript_path": transcript,
        "cwd": "/",
        "prompt": "go",
        **given,
    }


def keyed(key: Any, **fields: Any) -> Any:
    """A key with some fields of it changed."""
    return {**key, **fields}


@pytest.fixture
def store(project: Project) -> GitSessionStore:
    """A store on a repository with one commit."""
    project.write("a.txt", "one\n")
    project.commit()
    return GitSessionStore(project.root)


def test_conformance(tmp_path: Path) -> None:
    """All 14 contracts of the SDK's own suite, none left out."""
    numbers = count()

    def make() -> GitSessionStore:
        return GitSessionStore(Project(tmp_path / str(next(numbers))).root)

    asyncio.run(run_session_store_conformance(make))

    # What it does not find overridden it leaves out.
    for optional in ("list_sessions", "list_session_summaries", "delete", "list_subkeys"):
        assert optional in vars(GitSessionStore)
    assert next(numbers) > 14


def test_append_is_one_checkpoint_with_the_files(project: Project, store: GitSessionStore) -> None:
    """What was said and what is there go into one commit, in a session of Claude Code as any
    command knows it.
    """
    key: Any = {"project_key": store.project_key, "session_id": SESSION}
    project.write("a.txt", "two\n")
    with project.guard():
        asyncio.run(store.append(key, [entry("user", "go"), entry("assistant", "done")]))

    shown = store.checkpoints.show()
    assert str(shown.id) == "11111111@1"
    assert shown.conversation is not None
    assert (shown.conversation.digest.messages, shown.conversation.digest.last_prompt) == (2, "go")
    assert (shown.agent and shown.agent.name, shown.agent and shown.agent.session_id) == (
        "claude-code",
        SESSION,
    )
    assert store.checkpoints.file("@", "a.txt") == b"two\n"
    assert project.gitcp("check", check=0).err == ""


def test_known_entries_are_left_out(project: Project, store: GitSessionStore) -> None:
    """A batch that is tried again adds what is missing; lines without a uuid are always new."""
    first, second, plain = entry("user", "a"), entry("assistant", "b"), {"type": "mode"}
    for batch in ([first], [first, second, plain], [first, second], [plain, first, first]):
        asyncio.run(store.append(KEY, batch))

    assert asyncio.run(store.load(KEY)) == [first, second, plain, plain]
    assert [summary.id.number for summary in store.checkpoints.log()] == [3, 2, 1]


def test_any_text_comes_back(store: GitSessionStore) -> None:
    """Line separators, half a surrogate pair, large numbers, and names with any characters."""
    odd: Any = {"project_key": "ü/../x", "session_id": "a b/\n…" * 40}
    entries = [
        entry("user", "a\u2028b\u0085c\rd\n\0"),
        entry("user", "\ud83d"),
        entry("user", "x", n=2**70, f=0.1),
    ]
    asyncio.run(store.append(odd, entries))

    assert asyncio.run(store.load(odd)) == entries
    assert asyncio.run(store.load(keyed(odd, session_id="a b/\n…" * 41))) is None
    assert [found["session_id"] for found in asyncio.run(store.list_sessions("ü/../x"))] == [
        odd["session_id"]
    ]


@pytest.mark.parametrize(
    "subpath",
    ["../x", "/etc/passwd", "subagents/../../x", "a/../../x", "a//x", "subagents", "nope"],
)
def test_transcript_that_would_lie_elsewhere(store: GitSessionStore, subpath: str) -> None:
    """A subpath that Claude Code has no place for is refused, and was never written."""
    with pytest.raises(BadValue, match="nothing was saved"):
        asyncio.run(store.append(keyed(KEY, subpath=subpath), [entry("user", "x")]))

    assert asyncio.run(store.load(keyed(KEY, subpath=subpath))) is None
    assert store.checkpoints.sessions() == ()


def test_transcript_beside_the_sub_agents(store: GitSessionStore) -> None:
    """Any subpath that stays below its session is kept, listed and restored; none is taken for
    another.
    """
    key: Any = {"project_key": store.project_key, "session_id": SESSION}
    subpaths = ["elsewhere/x", "subagents/x", "tool-results/x", "a/subagents/x"]
    asyncio.run(store.append(key, [entry("user", "main", uuid="m")]))
    for subpath in subpaths:
        asyncio.run(store.append(keyed(key, subpath=subpath), [entry("user", subpath)]))
    asyncio.run(store.append(key, [entry("user", "again", uuid="again")]))

    asyncio.run(store.rewind(SESSION, "again"))

    assert sorted(asyncio.run(store.list_subkeys(key))) == sorted(subpaths)
    for subpath in subpaths:
        lines: Any = asyncio.run(store.load(keyed(key, subpath=subpath)))
        assert [line["message"]["content"] for line in lines] == [subpath]
    asyncio.run(store.delete(keyed(key, subpath="elsewhere/x")))
    assert sorted(asyncio.run(store.list_subkeys(key))) == sorted(subpaths[1:])


def test_mtime(project: Project, store: GitSessionStore) -> None:
    """Sessions written within one second are in the order in which they were written, also for
    another process; a checkpoint by anybody else counts as a write.
    """
    before = int(time.time() * 1000)
    ids = [str(uuid.uuid4()) for _ in range(4)]
    keys = [{"project_key": store.project_key, "session_id": id} for id in ids]
    for key in (*keys, keys[1]):
        asyncio.run(store.append(cast("Any", key), [entry("user", "x")]))

    for one in (store, GitSessionStore(project.root)):
        mtimes = {
            found["session_id"]: found["mtime"]
            for found in asyncio.run(one.list_sessions(store.project_key))
        }
        assert sorted(ids, key=mtimes.__getitem__) == [ids[0], ids[2], ids[3], ids[1]]
        assert all(before <= mtime <= time.time() * 1000 for mtime in mtimes.values())
        summaries = asyncio.run(one.list_session_summaries(store.project_key))
        assert {each["session_id"]: each["mtime"] for each in summaries} == mtimes

    at = datetime.now().astimezone() + timedelta(seconds=5)
    later = Host(os.environ, Path(os.environ["HOME"]), lambda: at)
    name = store.checkpoints.log()[0].id.session
    saved = gitcp.open(project.root, host=later).save(session=name, force=True)
    last = max(each["mtime"] for each in asyncio.run(store.list_sessions(store.project_key)))
    assert last == int(saved.checkpoint.created.timestamp()) * 1000


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_event_loops(project: Project, store: GitSessionStore, backend: str) -> None:
    """The SDK runs on asyncio and on trio, and so does the store."""

    async def told() -> list[Any]:
        await store.append(KEY, [entry("user", "x")])
        seen: list[Any] = [await store.load(KEY), await store.list_sessions("proj")]
        seen += [await store.list_session_summaries("proj"), await store.list_subkeys(KEY)]
        await store.prompted(prompt_of(SESSION, store))
        await store.delete(KEY)
        return [bool(each) for each in seen]

    assert anyio.run(told, backend=backend) == [True, True, True, False]


def test_what_is_not_json_is_refused(store: GitSessionStore) -> None:
    """An entry that JSON cannot hold leaves no checkpoint."""
    with pytest.raises(BadValue, match="as JSON"):
        asyncio.run(store.append(KEY, [entry("user", "x", thing=object())]))

    assert store.checkpoints.sessions() == ()


def _append_many(root: Path, name: str, numbers: range) -> None:
    store = GitSessionStore(root)
    for number in numbers:
        asyncio.run(store.append(KEY, [entry("user", f"{name} {number}", n=number, by=name)]))


def test_writers_at_once_lose_nothing(project: Project, store: GitSessionStore) -> None:
    """Two processes append to one session that none of them made: all is there, each one's in its
    order.
    """
    context = multiprocessing.get_context("spawn")
    started = [
        context.Process(target=_append_many, args=(project.root, name, range(6))) for name in "ab"
    ]
    for process in started:
        process.start()
    for process in started:
        process.join()
    assert [process.exitcode for process in started] == [0, 0]

    loaded: Any = asyncio.run(store.load(KEY))
    assert [[line["n"] for line in loaded if line["by"] == name] for name in "ab"] == [
        [0, 1, 2, 3, 4, 5]
    ] * 2
    assert len(loaded) == 12
    assert len(store.checkpoints.sessions()) == 1


def test_summaries_are_those_of_the_sdk(store: GitSessionStore) -> None:
    """Title, first prompt and the rest are what its in-memory store says, also after a change and a
    rewind.
    """
    theirs = InMemorySessionStore()
    key: Any = {"project_key": store.project_key, "session_id": SESSION}
    batches = [
        [entry("user", "go"), {"type": "custom-title", "customTitle": "T"}],
        [entry("assistant", "done")],
    ]

    for batch in batches:
        for each in (store, theirs):
            asyncio.run(each.append(key, batch))
        ours, other = (
            asyncio.run(each.list_session_summaries(store.project_key)) for each in (store, theirs)
        )
        assert [found["data"] for found in ours] == [found["data"] for found in other]
    asyncio.run(store.rewind(SESSION, batches[0][0]["uuid"]))

    (empty,) = asyncio.run(store.list_session_summaries(store.project_key))
    assert empty["session_id"] == SESSION
    assert not empty["data"].get("first_prompt")


# ---------------------------------------------------------------- going back


def turns(project: Project, store: GitSessionStore, prompt_ids: bool) -> list[str]:
    """Two turns, between which the user edits; what was asked, as uuids of the messages."""
    key: Any = {"project_key": store.project_key, "session_id": SESSION}
    asked = []
    for number in (1, 2):
        project.write("notes.txt", f"by hand before {number}\n")
        prompt_id = f"prompt-{number}" if prompt_ids else None
        asyncio.run(store.prompted(prompt_of(SESSION, store, prompt_id)))
        project.write("a.txt", f"by the agent, turn {number}\n")
        project.write(f"new{number}.txt", "made\n")
        line = entry("user", f"ask {number}", **({"promptId": prompt_id} if prompt_id else {}))
        asyncio.run(store.append(key, [line, entry("assistant", f"done {number}")]))
        sub = keyed(key, subpath=f"subagents/agent-{number}")
        asyncio.run(store.append(sub, [entry("user", "help")]))
        asked.append(line["uuid"])
    return asked


@pytest.mark.parametrize("prompt_ids", [True, False])
def test_rewind(project: Project, store: GitSessionStore, prompt_ids: bool, sealed: Path) -> None:
    """Files go back to when the message came, hand-made changes included; so does the transcript,
    under its own id.
    """
    key: Any = {"project_key": store.project_key, "session_id": SESSION}
    asked = turns(project, store, prompt_ids)
    after = project.files()
    whole: Any = asyncio.run(store.load(key))

    with project.guard():
        report = asyncio.run(store.rewind(SESSION, asked[1]))

    assert not report.failed
    assert project.read("notes.txt") == b"by hand before 2\n"
    assert project.read("a.txt") == b"by the agent, turn 1\n"
    assert b"new2.txt" not in project.files()
    assert asyncio.run(store.load(key)) == whole[:2]
    assert [
        found["session_id"] for found in asyncio.run(store.list_sessions(store.project_key))
    ] == [SESSION]
    assert not sealed.joinpath(".claude").exists()

    asyncio.run(store.undo(SESSION))

    assert project.files() == after
    assert asyncio.run(store.load(key)) == whole


def test_rewind_keeps_what_others_did(project: Project, store: GitSessionStore) -> None:
    """Another session's files, made in between or afterwards, and what somebody edits between turns
    stay; what the turn left unsaved because it was stopped goes.
    """
    other = SESSION.replace("1", "2")
    asked: dict[tuple[str, int], str] = {}
    for number, session_id in ((1, SESSION), (1, other), (2, SESSION), (2, other)):
        project.write(f"mine-{number}{session_id[0]}", "by hand\n")
        key: Any = {"project_key": store.project_key, "session_id": session_id}
        asyncio.run(store.prompted(prompt_of(session_id, store, None)))
        project.write(f"{session_id[0]}{number}", "by the agent\n")
        line = entry("user", f"ask {number}")
        asyncio.run(store.append(key, [line, entry("assistant", f"done {number}")]))
        asked[session_id, number] = line["uuid"]
    project.write("notes.txt", "mine\n")
    before = project.files()

    report = asyncio.run(store.rewind(SESSION, asked[SESSION, 1]))

    with pytest.raises(Refused, match="one of session"):
        asyncio.run(store.undo(other))
    gone = {b"%s%d" % (SESSION[0].encode(), number) for number in (1, 2)}
    assert before.keys() - project.files().keys() == gone
    assert set(report.removed) == gone
    assert b"notes.txt" in report.left
    asyncio.run(store.undo(SESSION))
    assert project.files() == before

    asyncio.run(store.prompted(prompt_of(SESSION, store, None)))
    project.write("half", "by the agent, which is stopped\n")
    asyncio.run(store.rewind(SESSION, asked[SESSION, 2]))
    assert b"half" not in project.files()
    assert b"notes.txt" in project.files()


def test_rewind_to_the_result_of_a_tool(project: Project, store: GitSessionStore) -> None:
    """Files and transcript are of one moment, which each append makes known; where no checkpoint
    was made before the message, it is refused, and names the prompt.
    """
    key: Any = {"project_key": store.project_key, "session_id": SESSION}
    result: Any = [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]
    lines = [entry("user", "ask", promptId="p")]
    for number in (1, 2):
        message = {"role": "user", "content": result}
        lines += [entry("assistant", f"write {number}")]
        lines += [entry("user", "", promptId="p", message=message)]

    asyncio.run(store.prompted(prompt_of(SESSION, store, "p")))
    for number, line in enumerate(lines):
        project.write("a.txt", f"{number}\n")
        asyncio.run(store.append(key, [line]))
    for number in (4, 2):
        asyncio.run(store.rewind(SESSION, lines[number]["uuid"]))
        assert project.read("a.txt") == f"{number - 1}\n".encode()
        assert len(asyncio.run(store.load(key)) or ()) == number
    asyncio.run(store.rewind(SESSION, lines[0]["uuid"]))
    assert project.read("a.txt") == b"one\n"

    other: Any = {**key, "session_id": SESSION.replace("1", "2")}
    project.write("a.txt", "before\n")
    asyncio.run(store.prompted(prompt_of(other["session_id"], store, "p")))
    project.write("a.txt", "after\n")
    asyncio.run(store.append(other, lines))
    with pytest.raises(RevisionNotFound, match="no checkpoint was made right before") as refused:
        asyncio.run(store.rewind(other["session_id"], lines[2]["uuid"]))
    assert f"rewind to its prompt, {lines[0]['uuid']}" in refused.value.hint
    assert project.read("a.txt") == b"after\n"
    asyncio.run(store.rewind(other["session_id"], lines[0]["uuid"], files_only=True))
    assert project.read("a.txt") == b"before\n"
    assert len(asyncio.run(store.load(other)) or ()) == 5
    with pytest.raises(RevisionNotFound) as early:
        asyncio.run(store.rewind(other["session_id"], "not yet"))
    assert "session_store_flush" in early.value.hint


def test_rewind_to_the_beginning(project: Project, store: GitSessionStore) -> None:
    """Before the first message there is a line by which the agent finds the session, until it
    writes: resumed by its id, as the newest, and as an id that the agent has used.
    """
    key: Any = {"project_key": store.project_key, "session_id": SESSION}
    asked = turns(project, store, prompt_ids=True)
    asyncio.run(store.rewind(SESSION, asked[0]))
    assert project.read("a.txt") == b"one\n"
    (beginning,) = cast(Any, asyncio.run(store.load(key)))
    assert (beginning["type"], beginning["sessionId"]) == ("system", SESSION)
    (listed,) = asyncio.run(store.list_sessions(store.project_key))
    assert listed["session_id"] == SESSION
    resumed = options(store.checkpoints.path, session_store=store, session_id=SESSION)
    assert (resumed.session_id, resumed.resume) == (None, SESSION)
    asyncio.run(store.prompted(prompt_of(SESSION, store, "unanswered")))
    assert len(asyncio.run(store.load(key)) or ()) == 1

    again = [entry("user", "another way")]
    asyncio.run(store.append(key, again))

    assert asyncio.run(store.load(key)) == again
    assert len(store.checkpoints.sessions()) == 1


def test_rewind_while_the_turn_runs(
    project: Project, store: GitSessionStore, tmp_path: Path
) -> None:
    """The prompt of a turn whose transcript the SDK appends at its end: the files are those from
    before it, and what was stored stays.
    """
    key: Any = {"project_key": store.project_key, "session_id": SESSION}
    turns(project, store, prompt_ids=True)
    before, stored = project.files(), asyncio.run(store.load(key))
    prompt, cut_off = entry("user", "risky", promptId="p3"), b'{"type":'
    transcript = tmp_path / store.project_key / "written.jsonl"
    transcript.parent.mkdir()
    transcript.write_bytes(wire.dumps(prompt) + b"\n" + cut_off)
    asyncio.run(
        store.prompted(
            {**prompt_of(SESSION, store, "p3"), "transcript_path": os.fspath(transcript)}
        )
    )
    project.write("a.txt", "danger\n")
    project.write("danger.txt", "danger\n")

    asyncio.run(store.rewind(SESSION, prompt["uuid"]))

    assert project.files() == before
    assert asyncio.run(store.load(key)) == stored
    with pytest.raises(RevisionNotFound, match='session_store_flush="eager"'):
        asyncio.run(store.rewind(SESSION, "the result of a tool"))


def fetched_clone(project: Project, tmp_path: Path) -> Project:
    """A clone of a project with its fetched sessions, still without files."""
    project.git("init", "--bare", "-q", str(tmp_path / "hub.git"))
    project.git("remote", "add", "origin", str(tmp_path / "hub.git"))
    project.git("push", "-q", "origin", "HEAD")
    project.gitcp("remote", "origin", check=0)
    project.gitcp("push", check=0)
    clone = Project(tmp_path / "clone")
    clone.git("remote", "add", "origin", str(tmp_path / "hub.git"))
    clone.gitcp("remote", "origin", check=0)
    clone.gitcp("fetch", check=0)
    return clone


def test_fetched_sessions(project: Project, store: GitSessionStore, tmp_path: Path) -> None:
    """A clone lists what it fetched; to continue it needs the user's word, as on the command line,
    and the error has the command.
    """
    key: Any = {"project_key": store.project_key, "session_id": SESSION}
    asked = turns(project, store, prompt_ids=True)
    clone = fetched_clone(project, tmp_path)
    clone.git("pull", "-q", "origin", project.git("branch", "--show-current").strip())
    there = GitSessionStore(clone.root)
    theirs: Any = {**key, "project_key": there.project_key}

    def listed() -> list[str]:
        found = asyncio.run(there.list_sessions(there.project_key))
        return [each["session_id"] for each in found]

    assert listed() == [SESSION]
    assert asyncio.run(there.load(theirs)) is None
    for attempt in (
        lambda: asyncio.run(there.rewind(SESSION, asked[1])),
        lambda: options(clone.root, resume=SESSION),
    ):
        with pytest.raises(NotTrusted) as refused:
            attempt()
    clone.gitcp(*refused.value.hint.split()[1:], "--yes", check=0)

    assert asyncio.run(there.load(theirs)) == asyncio.run(store.load(key))
    assert listed() == [SESSION]
    assert options(clone.root, resume=SESSION).resume == SESSION


@pytest.mark.parametrize("is_empty", [True, False])
def test_rewind_in_a_clone(
    project: Project, store: GitSessionStore, tmp_path: Path, is_empty: bool
) -> None:
    """A session that was handed over goes back as where it was made: what a person changed between
    its turns stays, also where the restore wrote every file.
    """
    asked = turns(project, store, prompt_ids=True)
    clone = fetched_clone(project, tmp_path)
    if not is_empty:
        clone.git("pull", "-q", "origin", project.git("branch", "--show-current").strip())
    there = GitSessionStore(clone.root)
    with pytest.raises(NotTrusted) as refused:
        options(clone.root, resume=SESSION)
    clone.gitcp(*refused.value.hint.split()[1:], "--yes", check=0)

    for each in (store, there):
        asyncio.run(each.rewind(SESSION, asked[0]))

    assert clone.files() == project.files()
    assert project.read("notes.txt")


def test_late_entries_do_not_move_the_prompt(project: Project, store: GitSessionStore) -> None:
    """Where the transcript comes late, as it may, the checkpoint of the prompt is the one that
    counts.
    """
    key: Any = {"project_key": store.project_key, "session_id": SESSION}
    line = entry("user", "ask", promptId="p1")
    asyncio.run(store.prompted(prompt_of(SESSION, store, "p1")))
    project.write("a.txt", "by the agent\n")
    asyncio.run(store.append(key, [{"type": "mode"}]))
    asyncio.run(store.append(key, [line]))

    asyncio.run(store.rewind(SESSION, line["uuid"]))

    assert project.read("a.txt") == b"one\n"


def test_nothing_to_rewind(project: Project, store: GitSessionStore) -> None:
    """A session or message that is not there is said, and nothing changes."""
    asked = turns(project, store, prompt_ids=True)
    before = project.files(), len(store.checkpoints.log())
    for session_id, message in ((SESSION, "no-such-message"), ("no-such-session", asked[0])):
        with pytest.raises(RevisionNotFound):
            asyncio.run(store.rewind(session_id, message))
    with pytest.raises(Refused):
        asyncio.run(store.undo(SESSION))

    assert (project.files(), len(store.checkpoints.log())) == before


# ---------------------------------------------------------------- options and hooks


def test_options_keep_what_was_given(store: GitSessionStore) -> None:
    """Hooks and settings of the program stand beside ours; a store may be shared."""
    own = HookMatcher(matcher="Bash")
    made = options(
        store.checkpoints.path, hooks={"UserPromptSubmit": [own], "Stop": [own]}, model="m"
    )

    assert isinstance(made, ClaudeAgentOptions)
    assert (made.model, made.cwd) == ("m", store.checkpoints.path)
    assert made.hooks is not None
    assert made.hooks["Stop"] == [own]
    assert made.hooks["UserPromptSubmit"][0] is own
    assert len(made.hooks["UserPromptSubmit"]) == 2
    assert options(store.checkpoints.path, session_store=store).session_store is store


def test_hook_never_fails_the_agent(project: Project, store: GitSessionStore) -> None:
    """A checkpoint that cannot be made is said to the user, and the prompt goes on."""
    project.git_dir.rename(project.root / "gone")

    said = asyncio.run(store.prompted(prompt_of(SESSION, store)))

    assert said["systemMessage"].startswith("gitcp: no checkpoint was made before this prompt")
    assert set(said) == {"systemMessage"}


def test_sdk_lists_sessions_that_gitcp_saved(project: Project, store: GitSessionStore) -> None:
    """The SDK's own functions read the store: titles and prompts, the newest session first."""
    key: Any = {"project_key": store.project_key, "session_id": SESSION}
    asyncio.run(
        store.append(key, [entry("user", "tidy up", cwd=str(project.root), sessionId=SESSION)])
    )

    (found,) = asyncio.run(list_sessions_from_store(store, directory=str(project.root)))

    assert (found.session_id, found.first_prompt) == (SESSION, "tidy up")


def test_missing_extra() -> None:
    """Without the SDK, the import says what to install."""
    program = "import sys; sys.modules['claude_agent_sdk'] = None; import gitcp.claude"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.stderr.splitlines()[-1].endswith(
        f"claude_agent_sdk: {installed.install_extra('claude')}"
    )
