"""Our own adapters do what every adapter must, and what does not is found out."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest
import test_adapter_claude_code as claude_lines
import test_adapter_codex as codex_lines
import test_adapter_copilot as copilot_lines
import test_adapter_gemini as gemini_lines
import test_adapter_opencode as opencode_rows

from gitcp.adapters import claude_code, codex, copilot, gemini
from gitcp.adapters.base import Adapter, Found
from gitcp.adapters.opencode import ADAPTER as OPENCODE
from gitcp.conformance import AdapterConformance
from gitcp.model import Digest

from driver import SOURCE, Project


class TestClaudeCode(AdapterConformance):
    """Transcripts in the shape that Claude Code writes."""

    adapter = claude_code

    def begin(self, home: Path, cwd: Path, prompts: Sequence[str]) -> None:
        said = [
            line
            for number, prompt in enumerate(prompts)
            for line in (
                claude_lines.user(f"u{number}", prompt, cwd=str(cwd)),
                claude_lines.assistant(f"a{number}", claude_lines.said(f"Answer {number}.")),
            )
        ]
        claude_lines.put(home, claude_lines.named(cwd), str(uuid4()), *said)


class TestCodex(AdapterConformance):
    """Rollouts in the shape that Codex writes."""

    adapter = codex

    def begin(self, home: Path, cwd: Path, prompts: Sequence[str]) -> None:
        thread = str(uuid4())
        said = [
            line
            for number, prompt in enumerate(prompts)
            for line in (
                codex_lines.said("user", prompt, f"m{number}"),
                codex_lines.said("assistant", f"Answer {number}.", f"a{number}"),
            )
        ]
        codex_lines.put(home, thread, codex_lines.meta(thread, str(cwd)), *said)


class TestCopilot(AdapterConformance):
    """Events in the shape that Copilot writes."""

    adapter = copilot

    def begin(self, home: Path, cwd: Path, prompts: Sequence[str]) -> None:
        session_id = str(uuid4())
        said = [
            line
            for number, prompt in enumerate(prompts)
            for line in (
                copilot_lines.event("user.message", f"u{number}", content=prompt),
                copilot_lines.event("assistant.message", f"a{number}", content=f"Answer {number}."),
            )
        ]
        copilot_lines.put(
            home, session_id, copilot_lines.start(str(cwd), session_id), *said, works=str(cwd)
        )


class TestGemini(AdapterConformance):
    """Chats in the shape that Gemini CLI writes. A copy goes beside what is there:
    test_adapter_gemini.py has that.
    """

    adapter = gemini
    test_place_over_the_same = None  # type: ignore[assignment]
    test_place_over_a_beginning = None  # type: ignore[assignment]

    def begin(self, home: Path, cwd: Path, prompts: Sequence[str]) -> None:
        session_id = str(uuid4())
        said = [
            gemini_lines.line(**gemini_lines.message(kind, f"{kind[0]}{number}", text))
            for number, prompt in enumerate(prompts)
            for kind, text in (("user", prompt), ("gemini", f"Answer {number}."))
        ]
        gemini_lines.own(home, cwd)
        name = f"session-{gemini_lines.TIME}-{session_id[:8]}.jsonl"
        gemini_lines.put(home, gemini_lines.head(session_id) + b"".join(said), name)


class TestOpencode(AdapterConformance):
    """Rows in the shape that opencode writes. What is put back, opencode imports:
    test_adapter_opencode.py has that.
    """

    adapter = OPENCODE
    test_place_in_an_empty_home = None  # type: ignore[assignment]
    test_place_over_the_same = None  # type: ignore[assignment]
    test_place_over_a_beginning = None  # type: ignore[assignment]
    test_going_back = None  # type: ignore[assignment]
    test_a_copy = None  # type: ignore[assignment]
    test_hostile_places_are_refused = None  # type: ignore[assignment]

    def begin(self, home: Path, cwd: Path, prompts: Sequence[str]) -> None:
        database = opencode_rows.Database(home)
        session_id = f"ses_{uuid4().hex[:26]}"
        database.session(cwd, session_id, updated=1000 + database.count)
        for number, prompt in enumerate(prompts):
            database.say("user", opencode_rows.text(prompt), session_id=session_id)
            database.say(
                "assistant", opencode_rows.text(f"Answer {number}."), session_id=session_id
            )


# --------------------------------------------------------------- that the suite finds what is wrong


def broken(**functions: Any) -> Adapter:
    """Codex's adapter, with some functions of another kind."""
    names = (
        "NAME",
        "before",
        "capture",
        "digest",
        "find",
        "messages",
        "place",
        "running",
        "watched",
    )
    return cast(
        "Adapter", SimpleNamespace(**{name: getattr(codex, name) for name in names} | functions)
    )


def finds_everything(cwd: Path, host: Any) -> Any:
    return tuple(
        Found("codex", path.stem[28:], path, 1.0) for path in host.home.rglob("rollout-*.jsonl")
    )


def counts_calls(before: Digest, lines: Iterable[bytes]) -> Digest:
    return codex.digest(Digest(), lines)


def overwrites(stored: Any, cwd: Path, host: Any, *, new_id: str) -> Any:
    placement = codex.place(stored, cwd, host, new_id=new_id)
    for path in host.home.rglob("rollout-*.jsonl"):
        os.truncate(path, 10)
    return placement


def trusts(stored: Any, cwd: Path, host: Any, *, new_id: str) -> Any:
    return codex.place(codex_lines.stored(b"x\n"), cwd, host, new_id=new_id)


@pytest.mark.parametrize(
    ("adapter", "test"),
    [
        (broken(NAME="a/b"), "test_it_is_an_adapter"),
        (broken(watched=None), "test_it_is_an_adapter"),
        (broken(running=lambda host: "x"), "test_where_the_agent_never_was"),
        (broken(find=finds_everything), "test_a_session_is_found"),
        (broken(watched=lambda cwd, host: ()), "test_a_second_session"),
        (broken(watched=lambda cwd, host: ()), "test_a_session_that_goes_on_is_noticed"),
        (broken(digest=counts_calls), "test_digest"),
        (broken(messages=lambda lines: iter(())), "test_messages"),
        (broken(before=lambda lines, id: 0), "test_before_a_message"),
        (broken(place=overwrites), "test_going_back"),
        (broken(place=trusts), "test_hostile_ids_are_refused"),
        (broken(place=trusts), "test_hostile_places_are_refused"),
        (broken(place=trusts), "test_place_in_an_empty_home"),
    ],
)
def test_a_broken_adapter_does_not_pass(adapter: Adapter, test: str, tmp_path: Path) -> None:
    """Each of these would lose or mix up somebody's work."""
    suite: AdapterConformance = TestCodex()
    suite.adapter = adapter
    with pytest.raises((AssertionError, IndexError, ValueError)):
        getattr(suite, test)(*([] if test == "test_it_is_an_adapter" else [tmp_path]))


# ---------------------------------------------------------------- the example of the page


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """The package of docs/adapters.md, installed; its test lies beside it."""
    text = SOURCE.joinpath("docs/adapters.md").read_text("utf-8")
    adapter, entry, test = (
        re.search(rf"<!-- {which} -->\n\n```\w+\n(.*?)```", text, re.DOTALL)
        for which in ("the adapter", "the entry point", "the test")
    )
    assert adapter
    assert entry
    assert test
    points = tomllib.loads(entry[1])["project"]["entry-points"]
    site = tmp_path / "site"
    info = site / "notebook-1.0.dist-info"
    info.mkdir(parents=True)
    sections = [
        f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points[group].items())
        for group in points
    ]
    info.joinpath("entry_points.txt").write_text("\n".join(sections))
    site.joinpath("notebook_adapter.py").write_text(adapter[1])
    site.joinpath("test_notebook.py").write_text(test[1])
    return site


def test_the_example_passes(example: Path) -> None:
    """As its author would run it."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_notebook.py"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(SOURCE), str(example)))}
    done = subprocess.run(command, cwd=example, env=env, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout
    assert re.search(r"^\d\d passed", done.stdout, re.MULTILINE), done.stdout


def test_the_example_is_saved_and_restored(example: Path, project: Project, sealed: Path) -> None:
    """Its sessions are found by a save, and go back, under a new id where they went on."""
    env = {"PYTHONPATH": os.pathsep.join((str(SOURCE), str(example)))}
    chat = sealed / ".notebook" / "my-session.jsonl"
    chat.parent.mkdir()
    lines = [{"cwd": str(project.root)}, {"id": "u1", "role": "user", "text": "begin"}]
    chat.write_text("".join(json.dumps(line) + "\n" for line in lines))
    project.write("a.txt", "one\n")
    saved = json.loads(project.gitcp("save", "first", "--json", env=env, check=0).out)["checkpoint"]
    assert (saved["agent"]["name"], saved["agent"]["session_id"]) == ("notebook", "my-session")
    whole = chat.read_bytes() + b'{"id":"u2","role":"user","text":"go on"}\n'
    chat.write_bytes(whole)
    project.write("a.txt", "two\n")

    report = json.loads(
        project.gitcp("restore", saved["id"], "--yes", "--json", env=env, check=0).out
    )

    assert project.read("a.txt") == b"one\n"
    assert chat.read_bytes() == whole
    name, verb, session_id = report["resume"]["command"]
    assert (name, verb) == ("notebook", "open")
    assert whole.startswith(chat.with_name(f"{session_id}.jsonl").read_bytes())
