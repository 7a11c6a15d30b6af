"""Agents that a file describes: Kimi Code and Kiro CLI, whose files are shipped, and those that a
user writes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from gitcp import conformance, user_state
from gitcp.adapters import described, directories, tables
from gitcp.adapters.base import Found
from gitcp.adapters.table_adapter import TableAdapter
from gitcp.conformance import FAILED, PASSED, SKIPPED, AdapterConformance
from gitcp.errors import BadValue
from gitcp.fastpath import answer
from gitcp.model import Host

from driver import SOURCE, Project

SHIPPED = Path(described.__file__).parent
KIMI = described.read(SHIPPED / "kimi.toml")
KIRO = described.read(SHIPPED / "kiro.toml")
CLINE = described.read(SHIPPED / "cline.toml")
DOCUMENT = """\
name = "notes"
resume = ["notes", "open", "{session}"]
variable = "NOTES_SESSION"
[files]
home = ".notes"
transcript = "{session}.json"
format = "json"
records = "messages"
[session]
field = "id"
[cwd]
field = "where.cwd"
[[message]]
when = { role = ["user"] }
role = "user"
text = "content"
id = "id"
[[message]]
when = { role = "assistant" }
each = "content"
only = { type = "text" }
role = "assistant"
text = "text"
model = "model"
[[message]]
when = { role = "assistant" }
each = "content"
only = { type = "tool_use" }
role = "call"
text = "input"
tool = "name"
call = "id"
"""


def put(path: Path, *records: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(each, separators=(",", ":"), ensure_ascii=False) for each in records)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


class TestKimi(AdapterConformance):
    """Sessions in the shape that Kimi Code writes."""

    adapter = KIMI

    def begin(self, home: Path, cwd: Path, prompts: Sequence[str]) -> None:
        kimi_session(home, cwd, prompts)


class TestKiro(AdapterConformance):
    """Sessions in the shape that Kiro CLI is documented to write."""

    adapter = KIRO

    def begin(self, home: Path, cwd: Path, prompts: Sequence[str]) -> None:
        session = str(uuid4())
        path = home / ".kiro" / "sessions" / "cli" / f"{session}.jsonl"
        put(path.with_suffix(".json"), {"session_id": session, "cwd": str(cwd)})

        def said(kind: str, id: str, text: str) -> dict[str, Any]:
            content = [{"kind": "text", "data": text}]
            return {"version": "v1", "kind": kind, "data": {"message_id": id, "content": content}}

        records = [
            said(kind, f"{kind}{n}", text)
            for n, prompt in enumerate(prompts)
            for kind, text in (("Prompt", prompt), ("AssistantMessage", f"Answer {n}."))
        ]
        put(path, *records)


class TestCline(AdapterConformance):
    """Sessions in the shape that Cline CLI writes."""

    adapter = CLINE

    def begin(self, home: Path, cwd: Path, prompts: Sequence[str]) -> None:
        cline_session(home, cwd, prompts)

    # A document is written anew as a whole: nothing completes it, and it is not cut.
    test_before_a_message = test_going_back = test_place_over_a_beginning = None  # type: ignore[assignment]
    test_digest = test_odd_lines_are_passed_over = None  # type: ignore[assignment]


def cline_session(home: Path, cwd: Path, prompts: Sequence[str]) -> Path:
    """Write a session of Cline CLI's, in which each prompt is answered after a call."""
    session = f"1795895329087_{uuid4().hex[:5]}"
    path = home / ".cline" / "data" / "sessions" / session / f"{session}.messages.json"
    about = {"session_id": session, "cwd": str(cwd), "workspace_root": str(cwd)}
    put(path.with_name(f"{session}.json"), {**about, "messages_path": str(path)})
    call = {"type": "tool_use", "id": "t1", "name": "editor", "input": {"path": "a.txt"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "written", "is_error": False}
    messages = [
        {"id": f"{role}{part}{number}", "role": role, "content": [block]}
        for number, prompt in enumerate(prompts)
        for part, (role, block) in enumerate(
            [
                ("user", {"type": "text", "text": prompt}),
                ("assistant", call),
                ("user", result),
                ("assistant", {"type": "text", "text": f"Answer {number}."}),
            ]
        )
    ]
    origin = {"source": "cli", "sessionId": session}
    head = {"version": 1, "agent": "lead", "sessionId": session, "origin": origin}
    put(path, {**head, "messages": messages})
    return path


def test_cline_elsewhere(tmp_path: Path) -> None:
    """At another place its files name that one: Cline CLI reads the messages where the document
    beside says that they are.
    """
    path = cline_session(tmp_path, tmp_path / "here", ["one"])
    found = only(CLINE, tmp_path)
    there, home = tmp_path / "there", tmp_path / "home"
    stored = conformance.stored(CLINE.capture(found))
    placed = CLINE.place(stored, there, host(home), new_id=found.session_id)
    main, about = (json.loads(b"".join(each.content())) for each in placed.files)
    assert main == json.loads(path.read_bytes())
    assert placed.files[0].path == home / path.relative_to(tmp_path)
    assert about == {
        "session_id": found.session_id,
        "cwd": str(there),
        "workspace_root": str(there),
        "messages_path": str(placed.files[0].path),
    }
    copy = CLINE.place(stored, there, host(home), new_id="1795895329087_other")
    assert copy.session_id == found.session_id
    assert [each.role for each in CLINE.messages(path.read_bytes().splitlines())] == [
        *("user", "assistant", "tool", "assistant")
    ]
    moved = CLINE.find(tmp_path / "here", host(tmp_path / "x", CLINE_DIR=str(tmp_path / ".cline")))
    assert [each.session_id for each in moved] == [found.session_id]


def test_clines_sub_agents(tmp_path: Path) -> None:
    """They are saved with the session, are none of their own, and name it in a copy."""
    path = cline_session(tmp_path, tmp_path, ["one"])
    id = path.parent.name
    names = {"mode": "subagent", "sessionId": f"{id}__agent_7", "parentThreadId": id}
    document = {"agent": "subagent", "sessionId": f"{id}__agent_7", "origin": names, "messages": []}
    put(path.with_name("agent_7.messages.json"), document)
    found = only(CLINE, tmp_path)
    capture = CLINE.capture(found)
    assert [each.name for each in capture.sources] == ["main", "about", "agents/agent_7"]
    stored = conformance.stored(capture)
    path.write_text("{}")
    placed = CLINE.place(stored, tmp_path, host(tmp_path), new_id="179_new")
    copies = {each.path.name: json.loads(b"".join(each.content())) for each in placed.files}
    assert copies["179_new.messages.json"]["origin"]["sessionId"] == "179_new"
    there = {**names, "sessionId": "179_new__agent_7", "parentThreadId": "179_new"}
    assert copies["agent_7.messages.json"] == {
        **document,
        "sessionId": "179_new__agent_7",
        "origin": there,
    }


def test_a_variable_of_the_users_file_ends_the_quick_answer(
    project: Project, sealed: Path, tmp_path: Path
) -> None:
    """It moves the agent's directory: a save that had nothing to do has something then."""
    own = sealed / ".config" / "gitcp" / "adapters"
    own.mkdir(parents=True)
    text = DOCUMENT.replace("[files]\n", '[files]\nhome_variable = "JOTTER_HOME"\n')
    own.joinpath("notes.toml").write_text(text)
    project.write("a.txt", "one\n")
    project.gitcp("save", check=0)
    time.sleep(0.1)
    said = project.gitcp("save", check=0).out
    assert project.git_dir.joinpath("gitcp", answer.MEMO).exists()
    session = {"id": "s1", "where": {"cwd": str(project.root)}}
    said_there = {**session, "messages": [{"role": "user", "content": "hello", "id": "m1"}]}
    put(tmp_path / "jotter" / "s1.json", said_there)
    assert project.gitcp("save", check=0).out == said
    moved = project.gitcp("save", env={"JOTTER_HOME": str(tmp_path / "jotter")}, check=0).out
    assert "1 message" in moved


def kimi_session(home: Path, cwd: Path, prompts: Sequence[str]) -> Path:
    """Write a session of Kimi Code's, in which each prompt is answered after a call."""
    session, slug = (
        f"session_{uuid4()}",
        f"wd_{cwd.name}_{sha256(str(cwd).encode()).hexdigest()[:12]}",
    )
    directory = home / ".kimi-code" / "sessions" / slug / session
    main = directory / "agents" / "main"
    records: list[dict[str, Any]] = [
        {"type": "metadata", "protocol_version": "1.5"},
        {"type": "runtime.set_binding", "workspaceId": slug, "runtimeId": "local"},
    ]
    for number, prompt in enumerate(prompts):
        parts = [{"type": "text", "text": prompt}]
        message = {"role": "user", "content": parts, "id": f"msg_{number}"}
        told = {"type": "text", "text": f"Answer {number}."}
        call = {"toolCallId": f"t{number}", "name": "Bash", "args": {"command": "ls"}}
        records += [
            {"type": "turn.prompt", "input": parts, "turnId": number},
            {"type": "context.append_message", "message": {**message, "origin": {"kind": "user"}}},
            loop({"type": "tool.call", "uuid": f"c{number}", **call}),
            loop(
                {"type": "tool.result", "toolCallId": f"t{number}", "result": {"output": "a.txt"}}
            ),
            loop({"type": "content.part", "uuid": f"a{number}", "part": told}),
            {"type": "turn.ended", "turnId": number},
        ]
    put(main / "wire.jsonl", *records)
    agents = {"main": {"homedir": str(main), "type": "main"}}
    put(directory / "state.json", {"id": session, "cwd": str(cwd), "agents": agents})
    return main / "wire.jsonl"


def loop(event: dict[str, Any]) -> dict[str, Any]:
    return {"type": "context.append_loop_event", "event": event}


def host(home: Path, **env: str) -> Host:
    return Host(env, home, lambda: datetime(2026, 11, 28, 12, tzinfo=UTC))


def only(adapter: TableAdapter, home: Path) -> Found:
    (listed,) = adapter.list_all(host(home))
    return listed.found


def test_another_place(tmp_path: Path) -> None:
    """In another home and directory, the document beside names them, and so does the one record;
    everything else is as it was, and a cut goes before the record that begins the turn.
    """
    here, there = tmp_path / "größer", tmp_path / "there"
    path = kimi_session(tmp_path, here, ["one", "two"])
    agent = path.parents[1] / "sub" / "wire.jsonl"
    put(agent, {"type": "metadata"})
    session = only(KIMI, tmp_path)
    captured = KIMI.capture(session).sources
    assert [each.name for each in captured if not each.live] == ["about"]  # it ends anywhere
    sources = {each.name: each.place for each in captured}
    slug = path.parents[3].name
    assert sources == {
        "main": f"sessions/{slug}/session_{{session}}/agents/main/wire.jsonl",
        "about": f"sessions/{slug}/session_{{session}}/state.json",
        "agents/sub": f"sessions/{slug}/session_{{session}}/agents/sub/wire.jsonl",
    }
    lines = path.read_bytes().splitlines(keepends=True)
    assert b"".join(lines)[KIMI.before(lines, "msg_1") :].startswith(b'{"type":"turn.prompt"')

    stored = conformance.stored(KIMI.capture(session))
    placement = KIMI.place(stored, there, host(tmp_path / "other"), new_id="new")
    assert placement.command == ("kimi", "--session", f"session_{session.session_id}")
    files = {each.path.name: b"".join(each.content()) for each in placement.files[:2]}
    directory = placement.files[0].path.parents[2]
    assert directory.parent.name.startswith("wd_there_")
    assert json.loads(files["state.json"]) == {
        "id": f"session_{session.session_id}",
        "cwd": str(there),
        "agents": {"main": {"homedir": f"{directory}/agents/main", "type": "main"}},
    }
    changed = [n for n, line in enumerate(files["wire.jsonl"].splitlines(True)) if line != lines[n]]
    assert changed == [1]
    assert directory.parent.name.encode() in files["wire.jsonl"].splitlines()[1]


def test_a_document(tmp_path: Path) -> None:
    """A conversation that is one document: its records are listed in it, and a copy has another id
    and directory, in the layout that it was written in. It is not cut.
    """
    adapter = notes(tmp_path)
    call = {"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "."}}
    said = [{"type": "text", "text": "Yes."}, call]
    document = {"id": "one", "where": {"cwd": str(tmp_path)}, "messages": [
        {"role": "user", "content": "go", "id": "u1"},
        {"role": "assistant", "content": said, "model": "m", "id": "a1"},
    ]}  # fmt: skip
    path = tmp_path / ".notes" / "one.json"
    path.parent.mkdir()
    path.write_text(json.dumps(document, indent=2))
    session = only(adapter, tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    shown = [(each.role, each.text, each.tool, each.call) for each in adapter.messages(lines)]
    assert shown == [
        ("user", "go", None, None),
        ("assistant", "Yes.", None, None),
        ("assistant", '{"path":"."}', "ls", "t1"),
    ]
    assert adapter.before(lines, "u1") is None
    assert adapter.running(host(tmp_path, NOTES_SESSION="one")) == "one"
    stored = conformance.stored(adapter.capture(session))
    path.write_text("{}")
    placed = adapter.place(stored, tmp_path / "there", host(tmp_path), new_id="two")
    there = {**document, "id": "two", "where": {"cwd": str(tmp_path / "there")}}
    assert b"".join(placed.files[0].content()).decode() == json.dumps(there, indent=2)


@pytest.mark.parametrize("name", ["app[old]", "app?", "app*"])
def test_a_directory_named_like_a_pattern(tmp_path: Path, name: str) -> None:
    """Its sessions are found, with what is beside them, and not those of another that matches."""
    here = tmp_path / name
    here.mkdir()
    path = kimi_session(tmp_path, here, ["one"])
    agent = path.parents[1] / "sub" / "wire.jsonl"
    put(agent, {"type": "metadata"})
    (found,) = KIMI.find(here, host(tmp_path))
    assert found.path == path
    assert [each.name for each in KIMI.capture(found).sources] == ["main", "about", "agents/sub"]
    assert KIMI.directory(str(here), host(tmp_path)) == path.parents[3]
    assert {path.parents[n] for n in (1, 2, 3)} <= set(KIMI.watched(here, host(tmp_path)))


def test_a_name_in_a_table_is_no_pattern(tmp_path: Path) -> None:
    """A bracket in it is one."""
    adapter = notes(tmp_path, DOCUMENT.replace("{session}.json", "[a]/{session}.json"))
    for name in ("a", "[a]"):
        put(tmp_path / ".notes" / name / "one.json", {"id": "one"})
    assert list(adapter.files(host(tmp_path))) == [tmp_path / ".notes" / "[a]" / "one.json"]


@pytest.mark.parametrize("cwd", ["/\ud800x", "/\0"])
def test_a_directory_that_cannot_be(tmp_path: Path, cwd: str) -> None:
    """A session that names one ran nowhere, and the others are found; a copy names its own."""
    kimi_session(tmp_path, tmp_path / "here", ["one"])
    other = kimi_session(tmp_path, tmp_path / "here", ["one"])
    about = other.parents[2] / "state.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "cwd": cwd}))
    assert KIMI.cwd_of(other) is None
    assert len(KIMI.find(tmp_path / "here", host(tmp_path))) == 1
    (found,) = (each.found for each in KIMI.list_all(host(tmp_path)) if each.found.path == other)
    stored = conformance.stored(KIMI.capture(found))
    placed = KIMI.place(stored, tmp_path, host(tmp_path / "other"), new_id="new")
    (copy,) = (each for each in placed.files if each.path.name == "state.json")
    assert json.loads(b"".join(copy.content()))["cwd"] == str(tmp_path)


def test_lines_with_a_directory_that_cannot_be(tmp_path: Path) -> None:
    """The session ran in the one that is named after it."""
    put(tmp_path / "lines", {"cwd": "/"}, {"cwd": "/\0"}, {"cwd": str(tmp_path)})
    with (tmp_path / "lines").open("ab") as file:
        file.write(b'{"cwd":"/\\ud800x"}\n')
    name = directories.dashed(str(tmp_path.resolve()))
    assert directories.of(tmp_path / "lines", name, directories.dashed) == tmp_path.resolve()


def test_a_directory_that_is_not_utf8(tmp_path: Path) -> None:
    """It has a name too."""
    kimi_session(tmp_path, tmp_path / "here", ["one"])
    assert list(KIMI.files_of("/\udcff", host(tmp_path))) == []


def notes(directory: Path, text: str = DOCUMENT) -> TableAdapter:
    path = directory / "notes.toml"
    path.write_text(text)
    return described.read(path)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('name = "notes"', "name = 1", "name in the file is no text"),
        ('name = "notes"', 'name = "other"', "its name is 'other', so call it other.toml"),
        ('home = ".notes"', 'home = "../x"', "home = '../x' is no path below"),
        ('home = ".notes"', "", "[files] has no home"),
        ("{session}.json", "x.json", "has no {session}"),
        ('"{session}"]', '"it"]', "resume has no {session}"),
        ('format = "json"', 'format = "yaml"', "'yaml' is none of jsonl, json"),
        ('field = "id"', 'file = "about"\nfield = "id"', 'no "about"'),
        ('text = "content"', 'texts = "content"', "[[message]] has 'texts'"),
        ('role = "assistant"\ntext', 'role = "bot"\ntext', "'bot' is none of user"),
        ('[cwd]\nfield = "where.cwd"\n', "", "says in which directory"),
        ("{session}.json", "{slug}/{session}.json", "{slug} and no slug"),
        ("[files]", "[files", "cannot be read"),
        ('home = ".notes"', 'home = ".notes/{slug}"', "home = '.notes/{slug}' is used as it is"),
        ('home = ".notes"', 'home = ".notes/*"', "home = '.notes/*' is used as it is"),
        ("{session}.json", "*/{session}.json", "transcript = '*/{session}.json' has *"),
        ("{session}.json", "{time}{session}.json", "has placeholders with nothing between them"),
        ("{session}.json", "{session}-{session:.3}", "transcript = '{session}-{session:.3}' cuts"),
        ("{session}.json", "{session}/{cwd}", "transcript = '{session}/{cwd}' has {cwd}, which"),
        ("[files]", '[files]\nslug = "{sha256:{x}}"', "slug = '{sha256:{x}}' cannot be filled in"),
        ("[files]", '[files]\nslug = "{sha256:d}"', "slug = '{sha256:d}' cannot be filled in"),
        ('"{session}"]', '"{session!z}"]', "resume = '{session!z}' cannot be filled in"),
        ("[cwd]", '[cwd]\nvalue = "{cwd:d}"', "value in [cwd] = '{cwd:d}' cannot be filled in"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, old: str, new: str, says: str) -> None:
    """By what is in the file, and what it should be."""
    with pytest.raises(BadValue) as error:
        notes(tmp_path, DOCUMENT.replace(old, new, 1))
    assert says in str(error.value)
    assert "notes.toml" in str(error.value)


def test_shipped_files() -> None:
    """The homes by which a save knows whether an agent is there are those of the files."""
    read = {path.stem: tables.read(path) for path in SHIPPED.glob("*.toml")}
    assert {
        name: (table.home, table.home_variable) for name, table in read.items()
    } == described.SHIPPED


def test_a_sample_is_tried(tmp_path: Path) -> None:
    """What is missing is found with copies of a session; what cannot be tried is said."""
    kimi_session(tmp_path, tmp_path / "here", ["one", "two"])
    session = only(KIMI, tmp_path)
    outcomes = list(conformance.try_sample(KIMI, session, is_document=False))
    assert {each.result for each in outcomes} == {PASSED}

    without = SHIPPED.joinpath("kimi.toml").read_text().replace('id = "message.id"\n', "")
    path = tmp_path / "kimi.toml"
    path.write_text(without)
    failed = [
        each.advice
        for each in conformance.try_sample(described.read(path), session, is_document=False)
        if each.result == FAILED
    ]
    assert any("set id in the [[message]] of role user" in advice for advice in failed)

    kimi_session(tmp_path / "b", tmp_path / "here", ["one"])
    once = conformance.try_sample(KIMI, only(KIMI, tmp_path / "b"), is_document=False)
    assert sum(each.result == SKIPPED for each in once) == 2


def test_the_example_in_the_guide(tmp_path: Path) -> None:
    """It is a table, and nothing is missing."""
    guide = (SOURCE / "docs" / "adapters.md").read_text("utf-8")
    example = guide.partition("<!-- the table -->")[2].partition("```toml\n")[2].partition("```")[0]
    path = tmp_path / "notebook.toml"
    path.write_text(example)
    adapter = described.read(path)
    said = [
        {"id": f"{role}{number}", "role": role, "text": f"{number} größer"}
        for number in range(3)
        for role in ("user", "assistant")
    ]
    put(tmp_path / ".notebook" / "7f3c.jsonl", {"cwd": str(tmp_path)}, *said)
    outcomes = list(conformance.try_sample(adapter, only(adapter, tmp_path), is_document=False))
    assert [each for each in outcomes if each.result != PASSED] == []
    assert f"{len(outcomes)} of {len(outcomes)} tests passed" in guide


def test_a_file_of_the_user(project: Project, tmp_path: Path) -> None:
    """It is listed, tried, and its sessions are saved and restored; one in the working tree is not
    looked at, and a broken one is named and prevents nothing.
    """
    home = tmp_path / "home"
    env = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")}
    text = SHIPPED.joinpath("kimi.toml").read_text()
    mine = (
        text.replace('"kimi"', '"mine"', 1)
        .replace(".kimi-code", ".mine")
        .replace("KIMI_CODE_HOME", "MINE_HOME")
    )
    project.write(".config/gitcp/adapters/tree.toml", mine.replace('"mine"', '"tree"', 1))
    directory = home / ".config" / "gitcp" / "adapters"
    directory.mkdir(parents=True)
    directory.joinpath("mine.toml").write_text(mine)
    directory.joinpath("broken.toml").write_text("name = 3")
    kimi_session(home, project.root, ["one", "two"])
    (home / ".kimi-code").rename(home / ".mine")

    listed = json.loads(project.gitcp("adapters", "--json", env=env, check=0).out)["adapters"]
    rows = {each["name"]: each for each in listed}
    assert rows["mine"]["from"] == str(directory / "mine.toml")
    assert (rows["mine"]["save"], rows["mine"]["hooks"]) == (True, False)
    assert "name" in rows["broken"]["problem"]
    assert rows["claude-code"]["convert"]
    assert "tree" not in rows
    shown = project.gitcp("adapters", env=env, check=0).out
    assert "broken.toml" in shown

    done = project.gitcp("adapters", "check", str(directory / "mine.toml"), env=env, check=0)
    assert "17 of 17 tests passed" in done.out
    saved = json.loads(project.gitcp("save", "one", "--json", env=env, check=0).out)["checkpoint"]
    assert saved["agent"]["name"] == "mine"
    path = next(home.glob(".mine/sessions/*/*/agents/main/wire.jsonl"))
    with_document = directory / "cline.toml"
    with_document.write_text(SHIPPED.joinpath("cline.toml").read_text())
    cline_session(home, project.root, ["one", "two"])
    done = project.gitcp("adapters", "check", str(with_document), env=env, check=0)
    assert "12 of 12 tests passed, 5 do not apply" in done.out
    path.unlink()
    back = json.loads(project.gitcp("restore", "1", "--yes", "--json", env=env, check=0).out)
    assert back["resume"]["command"][:2] == ["kimi", "--session"]
    assert path.exists()


def test_where_files_of_the_user_are(tmp_path: Path) -> None:
    """In the configuration of whoever runs gitcp; without a home, nowhere."""
    before = user_state.configured()
    try:
        user_state.configure({"XDG_CONFIG_HOME": "/c"}, "/h")
        assert described.directory() == Path("/c/gitcp/adapters")
        user_state.configure({"XDG_CONFIG_HOME": "relative"}, "/h")
        assert described.directory() == Path("/h/.config/gitcp/adapters")
        user_state.configure({}, "")
        assert described.directory() is None
    finally:
        user_state.configure({"XDG_CONFIG_HOME": before.removesuffix("/gitcp")}, "")
    assert user_state.configured() == before
