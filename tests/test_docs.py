"""The documentation is true: what it shows is run, what it lists is compared with the code, what it
links to is there.

UPDATE_DOCS=1 rewrites what a page shows as output where that is not what was printed. Look at the
difference it makes.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import shutil
import sqlite3
import subprocess
import time
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from pages import ANYTHING, Sandbox, Typed, agrees, blocks, typed
from recorded_by_entire import IDS, branch, layout, sharded
from talk import Talk
from test_described import kimi_session
from tokens import tokens

import gitcp
from gitcp import adapters, errors, store, wire
from gitcp.automation.watching.watcher import Stop, watcher
from gitcp.cli import failure, rendering
from gitcp.cli.commands import COMMANDS, FORMS, LINES, MORE
from gitcp.cli.context import Context
from gitcp.cli.main import root
from gitcp.conversation import segments
from gitcp.history import dates
from gitcp.history.states import MOST_COMPARED
from gitcp.history.tokens import LISTED, MOST_ROWS
from gitcp.model import (
    Agent,
    Authors,
    Base,
    CheckpointId,
    Claim,
    CommandState,
    Conversation,
    Conversion,
    Digest,
    Handoff,
    IndexEntry,
    LastMessage,
    Memory,
    NestedRepository,
    Note,
    Oid,
    Run,
    Skip,
    SkipReason,
    Snapshot,
    Span,
    State,
    States,
    StepName,
    Stream,
    Submodule,
    Trigger,
    Unlocked,
)
from gitcp.restoring import states as restoring
from gitcp.saving import memory
from gitcp.saving.save import IN_A_HOOK
from gitcp.secrets.scan import fingerprint
from gitcp.state import settings
from gitcp.state import state_commands as states
from gitcp.value import replace

from driver import SOURCE, Project
from samples import open_store, plain

UPDATE = bool(os.environ.get("UPDATE_DOCS"))
PAGES = [SOURCE / "README.md", *sorted(SOURCE.joinpath("docs").glob("*.md"))]
PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)

NOT_RUN_HERE = {
    "README.md": [
        "uv tool install . && gitcp demo",
        "python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/gitcp demo",
        "bash .ci/run",
    ],
    "docs/contributing.md": [
        "bash .ci/run",
        "python3 -m venv .venv && .venv/bin/pip install -e '.[test]'",
        "pytest -n 2 -m unit && ruff check && ruff format && mypy && lint-imports",
        "PYTHONPATH=.:tests python tests/data/formats/v1/make.py",
    ],
}
"""What stands in `sh` blocks: it installs, or rewrites files of the checkout: for a new machine."""

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
TEST = re.compile(r"`(test_\w+)`")
NAME = re.compile(r"`([a-z_]+(?:\.[A-Za-z_]+)+)`")
ROW = re.compile(r"^\| (.+) \|$", re.MULTILINE)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
GENERATED = re.compile(r"(<!-- help: [^\n]* -->\n).*?(<!-- /help -->)", re.DOTALL)


def text_of(name: str) -> str:
    """A page's text, without what stands in code blocks."""
    return re.sub(
        r"^```.*?^```$",
        "",
        SOURCE.joinpath(name).read_text("utf-8"),
        flags=re.DOTALL | re.MULTILINE,
    )


def section(page: str, heading: str) -> str:
    """What stands below a heading, up to the next one of the same rank or above."""
    text = text_of(page)
    found = re.search(rf"^(#+) {re.escape(heading)}$", text, re.MULTILINE)
    assert found, f"{page} has no heading {heading!r}"
    return re.split(rf"^#{{1,{len(found[1])}}} ", text[found.end() :], flags=re.MULTILINE)[0]


def table(text: str) -> list[list[str]]:
    """The cells of every table row, without headings and rules."""
    rows = [[cell.strip() for cell in row.split(" | ")] for row in ROW.findall(text)]
    return [row for row in rows if not set(row[0]) <= set("-: |")]


def names(cell: str) -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`]+)`", cell)


# ---------------------------------------------------------------- what is shown is run


@PAGE
def test_shown_is_printed(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command of a page is run, in order, and prints what the page shows; every Python block
    ends well.
    """
    text = page.read_text("utf-8")
    sandbox = Sandbox(tmp_path / "ada", monkeypatch)
    wrong: list[tuple[Typed, list[str]]] = []
    for block in blocks(text):
        if block.kind == "console":
            wrong += _wrong(sandbox, typed(block), page)
        elif block.kind == "python":
            sandbox.python("\n".join(block.lines))
        elif block.kind == "json":
            json.loads("\n".join(block.lines))
        elif block.kind in ("scene", "run", "agent", "saved"):
            sandbox.follow(block)

    if wrong and UPDATE:
        page.write_text(_corrected(text, wrong), "utf-8")
    assert not wrong, "\n".join(
        f"{page.name}:{t.start}: $ {t.command}\n" + "\n".join(lines) for t, lines in wrong
    )


def test_python_blocks_stand_alone(
    tmp_path: Path, sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every block of python.md can be pasted by itself, in any repository, with or without an
    agent.
    """
    sandbox = Sandbox(tmp_path / "ada", monkeypatch)
    text = SOURCE.joinpath("docs/python.md").read_text("utf-8")
    programs = ["\n".join(block.lines) for block in blocks(text) if block.kind == "python"]

    assert len(programs) >= 6
    for number, program in enumerate(programs):
        sandbox.cwd = Project(tmp_path / f"repository{number}").root
        sandbox.python(program)


def _wrong(
    sandbox: Sandbox, commands: list[Typed], page: Path
) -> Iterator[tuple[Typed, list[str]]]:
    for number, each in enumerate(commands):
        printed = sandbox.run(each.command)
        if not agrees(each.shown, printed):
            yield each, printed
        following = commands[number + 1].command if number + 1 < len(commands) else ""
        said = any(line.startswith("error: ") for line in printed)
        where = f"{page.name}:{each.start}: $ {each.command}"
        assert not any("internal error" in line for line in printed), f"{where}: {printed}"
        assert sandbox.code == 0 or said or "$?" in following, (
            f"{where} ended with {sandbox.code}: {printed}"
        )


def _corrected(text: str, wrong: list[tuple[Typed, list[str]]]) -> str:
    lines = text.split("\n")
    for each, printed in reversed(wrong):
        if ANYTHING not in each.shown:
            lines[each.start : each.end] = [line.rstrip() for line in printed]
    return "\n".join(lines)


def test_not_run() -> None:
    """The only commands of the documentation that are not run here are those that install, and they
    are known.
    """
    found: dict[str, list[str]] = {}
    for page in PAGES:
        lines = [
            line
            for block in blocks(page.read_text("utf-8"))
            if block.kind == "sh"
            for line in block.lines
        ]
        if lines:
            found[page.relative_to(SOURCE).as_posix()] = lines
    for measured in ("docs/performance.md", "docs/reliability.md"):  # they take hours
        found.pop(measured, None)

    assert found == NOT_RUN_HERE
    assert (SOURCE / ".ci/run").exists()


@PAGE
def test_blocks_are_judged(page: Path) -> None:
    """No block is of a kind that nobody looks at: what is not a program is `text` or a format that
    is parsed.
    """
    kinds = {block.kind for block in blocks(page.read_text("utf-8"))}

    assert kinds <= {
        "console",
        "python",
        "sh",
        "json",
        "toml",
        "text",
        "scene",
        "run",
        "agent",
        "saved",
        # tests/real/test_real_typescript.py runs them.
        *(["typescript"] if page.stem == "typescript" else ()),
    }


@PAGE
def test_no_machine(page: Path) -> None:
    """A page names no path of the machine that it was made on."""
    text = page.read_text("utf-8")

    assert not re.findall(
        r"/(?:tmp|root|work|private|var)/[\w.-]+(?!\.)", text.replace("/tmp/demo", "")
    )


# ---------------------------------------------------------------- links and names


@PAGE
def test_links(page: Path) -> None:
    """Every link between pages leads to a file that is there, and to a heading in it."""
    targets = [link for link in LINK.findall(page.read_text("utf-8")) if "://" not in link]
    for target in targets:
        path, _, anchor = target.partition("#")
        found = page.parent / path if path else page

        assert found.exists(), target
        assert not anchor or anchor in _anchors(found), target


def _anchors(page: Path) -> set[str]:
    headings = HEADING.findall(
        re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_found() -> None:
    """Every page is linked from the first one."""
    linked = set(LINK.findall(text_of("docs/index.md")))

    assert {page.name for page in PAGES[1:]} - {"index.md"} <= linked


GUIDES = (
    "save-and-restore",
    "agents",
    "go-back",
    "several-agents",
    "share-and-review",
    "team",
    "programs",
    "operate",
    "without-git",
)


@pytest.mark.parametrize("name", GUIDES)
def test_guides_are_short(name: str) -> None:
    """A guide says first what the reader can do afterwards, shows it, in at most 150 lines."""
    text = SOURCE.joinpath(f"docs/{name}.md").read_text("utf-8")

    assert len(text.splitlines()) <= 150
    assert re.match(r"# .+\n\nThis guide shows you how to ", text)
    assert any(block.kind == "console" for block in blocks(text))
    assert f"({name}.md)" in section("docs/index.md", "Guides")


@PAGE
def test_tests_exist(page: Path) -> None:
    """A test that a page names is there."""
    defined = set()
    for module in SOURCE.joinpath("tests").rglob("test_*.py"):
        defined |= {
            module.stem,
            *re.findall(r"^def (test_\w+)", module.read_text("utf-8"), re.MULTILINE),
        }

    assert set(TEST.findall(text_of(str(page.relative_to(SOURCE))))) - defined == set()


@pytest.mark.parametrize("page", ["architecture", "contributing", "security", "tutorial"])
def test_names_exist(page: str) -> None:
    """A module, class or function of gitcp that a page for people names is there."""
    tops = {path.stem for path in SOURCE.joinpath("gitcp").iterdir()}
    found = [
        name for name in NAME.findall(text_of(f"docs/{page}.md")) if name.split(".")[0] in tops
    ]

    assert [name for name in found if not _resolves(name)] == []


def _resolves(name: str) -> bool:
    parts = name.split(".")
    for split in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(["gitcp", *parts[:split]]))
        except ModuleNotFoundError:
            continue
        for part in parts[split:]:
            value = getattr(value, part, None)
        return value is not None
    return False


def test_architecture_names_functions() -> None:
    """The steps of a save and of a restore name functions, and those are there (see above)."""
    for heading in ("One save, step by step", "One restore, step by step"):
        found = NAME.findall(section("docs/architecture.md", heading))

        assert len(found) >= 8, heading
        assert all(map(_resolves, found)), [name for name in found if not _resolves(name)]


# ---------------------------------------------------------------- the command line


COMMON = re.compile(
    r"^  (--json|-h, --help|--session SESSION) +(print JSON|show this help|use this session .*)\n",
    re.MULTILINE,
)
"""Lines that many commands have, which cli.md says once."""

OPTION = re.compile(r"^(  -\S.*?) {2,}(\S.*\n(?: {8,}\S.*\n)*)", re.MULTILINE)
"""An option, and what the help says about it."""


def helps() -> str:
    """The usage, the first sentence and the options of every command, as cli.md has them: without
    descriptions of options that are repeated.
    """
    parts = []
    described: dict[str, str] = {}
    for group, commands in {**COMMANDS, "For setup and programs": MORE}.items():
        parts.append(f"## {group}\n")
        for name in commands:
            forms = [form for form in FORMS if form.split()[0] == name]
            for each in (name, *forms):
                shown = OPTION.sub(partial(_once, described), COMMON.sub("", _help(*each.split())))
                for word in ("Usage: ", " [OPTIONS]", "Options:\n"):
                    shown = shown.replace(word, "", 1)
                usage, line, *rest = shown.strip().split("\n\n")
                shown = "\n\n".join(
                    [usage, line, *(part for part in rest if part.startswith("  -"))]
                ).removeprefix(f"gitcp {each}\n")
                parts.append(f"### gitcp {each}\n\n```text\n{shown.strip()}\n```\n")
    return "\n".join(parts)


def _once(described: dict[str, str], option: re.Match[str]) -> str:
    """The option, without its description if the nearest command above has the same."""
    name, said = option[1], " ".join(option[2].split())
    if described.get(name) == said:
        return f"{name}\n"
    described[name] = said
    return option[0]


def _help(*command: str) -> str:
    done = CliRunner().invoke(
        root, [*command, "--help"], prog_name="gitcp", obj=Context(command), terminal_width=100
    )
    assert done.exit_code == 0, done.output
    return done.output


def test_help_pages() -> None:
    """cli.md holds the usage and the options of every command, however the lines are broken."""
    page = SOURCE / "docs/cli.md"
    text = page.read_text("utf-8")
    made = GENERATED.sub(lambda match: f"{match[1]}\n{helps()}\n{match[2]}", text)

    if UPDATE:
        page.write_text(made, "utf-8")
    assert GENERATED.search(text)
    assert text.split() == made.split()


METHODS = re.compile(r"(<!-- methods: [^\n]* -->\n).*?(<!-- /methods -->)", re.DOTALL)


def methods() -> str:
    """The public methods of the API as a table: each call, and the first sentence about it."""
    tables = []
    for title, cls in (("Checkpoints", gitcp.Checkpoints), ("Session", gitcp.Session)):
        tables.append(f"| `gitcp.{title}` | what it does |\n|---|---|")
        for name, method in inspect.getmembers(cls, inspect.isfunction):
            if name.startswith("_") or name in {"request", "repository", "store"}:
                continue
            paragraph = (inspect.getdoc(method) or "").split("\n\n")[0].replace("\n", " ")
            sentence = re.split(r"(?<=\.) (?=[A-Z])", paragraph)[0].removesuffix(".")
            what = f"{sentence[0].lower()}{sentence[1:]}"
            given = ", ".join(map(_parameter, [*inspect.signature(method).parameters.values()][1:]))
            tables.append(f"| `{name}({given})` | {what} |")
        tables.append("")
    return "\n".join(tables)


def _parameter(parameter: inspect.Parameter) -> str:
    if parameter.kind is parameter.VAR_KEYWORD:
        return "…"
    is_named = parameter.kind is parameter.KEYWORD_ONLY
    return f"{parameter.name}=" if is_named else parameter.name


def test_methods() -> None:
    """The page lists every public method with its parameters, as its docstring describes it."""
    page = SOURCE / "docs/python.md"
    text = page.read_text("utf-8")
    made = METHODS.sub(lambda match: f"{match[1]}\n{methods()}\n{match[2]}", text)

    if UPDATE:
        page.write_text(made, "utf-8")
    assert METHODS.search(text)
    assert text.split() == made.split()


def man_page() -> str:
    """The help of every command as a man page: `git help gitcp`."""
    parts = [
        f'.TH GITCP 1 "" "gitcp {gitcp.__version__}"',
        ".SH NAME\ngitcp \\- checkpoints of a coding agent's work: files and conversation",
        ".SH SYNOPSIS\n.B gitcp\n[OPTIONS] COMMAND [ARGS]\n.br\n.B git gitcp",
        "[OPTIONS] COMMAND [ARGS]",
        f".SH DESCRIPTION\n{_verbatim(_help())}",
    ]
    for group, commands in {**COMMANDS, "For setup and programs": MORE}.items():
        parts.append(f'.SH "{group.upper()}"')
        for name in commands:
            for each in (name, *(form for form in FORMS if form.split()[0] == name)):
                parts.append(f'.SS "gitcp {each}"\n{_verbatim(_help(*each.split()))}')
    return "\n".join(parts) + "\n"


def _verbatim(text: str) -> str:
    """Lines as they are, in roff."""
    lines = text.rstrip().replace("\\", "\\e").replace("-", "\\-").splitlines()
    shown = (f"\\&{line}" if line.startswith((".", "'")) else line for line in lines)
    return "\n".join([".nf", *shown, ".fi"])


def test_man_page() -> None:
    """The man page has the help of every command as it is printed; a man program finds nothing
    wrong with it.
    """
    page = SOURCE / "docs/man/gitcp.1"
    made = man_page()
    if UPDATE:
        page.write_text(made, "utf-8")
    assert page.read_text("utf-8").split() == made.split()
    assert SOURCE.joinpath("docs/man/git-gitcp.1").read_text() == ".so man1/gitcp.1\n"
    if shutil.which("groff"):
        done = subprocess.run(
            ["groff", "-k", "-man", "-Tutf8", "-ww", page], capture_output=True, check=True
        )
        assert done.stderr == b""


@pytest.mark.parametrize("command", [*LINES, *FORMS])
def test_every_command_says_what_it_does(command: str) -> None:
    """A command's help begins with its line of the table, says every option, and shows how it is
    typed.
    """
    found = root.get_command(click.Context(root), command)

    assert found is not None
    line = FORMS[command].summary if command in FORMS else LINES[command]
    assert line in " ".join(_help(*command.split()).split())
    assert f"gitcp {command}" in (found.help or "") + (found.callback.__doc__ or "")
    assert [
        option.name
        for option in found.params
        if isinstance(option, click.Option) and not option.help
    ] == []


def test_settings() -> None:
    """Every setting that is read is in cli.md, under both of its names."""
    rows = [names(" ".join(row[:2])) for row in table(section("docs/cli.md", "Settings"))]
    shown = {row[1]: row[0] for row in rows if len(row) == 2}
    read = [
        (part, key)
        for part in settings.SECTIONS
        if part != "triggers"
        for key in settings.SECTIONS[part]
    ]

    assert shown == {key: settings.in_git(part, key) for part, key in read}


def test_times() -> None:
    """Every time that cli.md shows is one that is understood."""
    shown = [text for text in names(section("docs/cli.md", "Times")) if not text.startswith("--")]

    assert len(shown) >= 8
    for text in shown:
        dates.parse(text, datetime(2026, 11, 20, 18, 0, tzinfo=UTC), end=True)


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("memory", f"more than {adapters.MOST_REMEMBERED:,} files, and files above "),
        ("memory", f"files above {memory.LARGEST >> 20} MiB"),
        ("state", f"all `save` commands together have {IN_A_HOOK:g} seconds"),
        ("state", f"`restore` may take {restoring.LONGEST // 60} minutes | `{states.TIMEOUT}s` |"),
        ("state", f"how much it may write | `{states.LARGEST >> 30}g` |"),
        ("state", f"in pieces of {segments.LARGEST >> 10} KiB"),
        ("state", f"texts of up to {MOST_COMPARED >> 10} KiB"),
        ("tokens", f"On a terminal of {rendering.WIDE} columns or more, `gitcp log`"),
        ("tokens", f"a list reads at most {LISTED >> 20} MiB"),
        ("tokens", f"counts at most {MOST_ROWS} rows"),
    ],
)
def test_numbers(page: str, text: str) -> None:
    """A limit that a page names is the one that the code has."""
    assert text in " ".join(text_of(f"docs/{page}.md").split())


# ---------------------------------------------------------------- scripting.md


def test_exit_codes() -> None:
    """Every exit code and every error is in scripting.md, each error beside its code."""
    rows = table(section("docs/scripting.md", "Exit codes"))
    shown = {int(names(row[0])[0]): set(names(row[1])) for row in rows if names(row[0])}
    expected: dict[int, set[str]] = {0: set(), failure.IN_PART: set(), failure.NOBODY_READS: set()}
    for kind in _error_classes():
        expected.setdefault(failure.describe(_made(kind)).code, set()).add(kind.__name__)
    expected[failure.CODES[KeyboardInterrupt]] = set()

    assert shown == expected
    assert set(failure.CODES.values()) <= shown.keys()


def _error_classes() -> list[type[errors.GitcpError]]:
    found = [value for _, value in inspect.getmembers(errors, inspect.isclass)]
    return [value for value in found if issubclass(value, errors.GitcpError)]


def _made(kind: type[errors.GitcpError]) -> errors.GitcpError:
    return kind("it failed", ()) if kind is errors.RevisionAmbiguous else kind("it failed")


def test_schemas(project: Project) -> None:
    """Every key of every document that is printed is in scripting.md, and no other."""
    text = text_of("docs/scripting.md")
    shown = _shown(SOURCE.joinpath("docs/scripting.md").read_text("utf-8"))
    printed = _printed(project)
    printed["gitcp.export/1"] -= printed["gitcp.checkpoint/1"] - {"schema"}
    named = re.compile(r'documents\.document\(\s*"([a-z-]+)"')
    code = "".join(path.read_text("utf-8") for path in SOURCE.glob("gitcp/cli/*.py"))
    assert {f"gitcp.{name}/1" for name in named.findall(code)} <= shown.keys()

    assert {schema: sorted(keys) for schema, keys in shown.items()} == {
        s: sorted(k) for s, k in printed.items()
    }
    assert "an unknown code is a failure" in text.lower()


def _shown(page: str) -> dict[str, set[str]]:
    """The keys that the blocks of scripting.md list, by schema: `name{}` is an object that is
    listed once, `A = B without key` has the keys of B.
    """
    listed: dict[str, set[str]] = {}
    above: list[tuple[int, str]] = []
    for line in (line for block in blocks(page) if block.kind == "text" for line in block.lines):
        cell = line.strip().partition("  ")[0]
        if not line.startswith(" "):
            name, _, same = cell.partition(" = ")
            keys = listed[name] = {"schema"} if name.startswith("gitcp.") else set()
            like, _, without = same.partition(" without ")
            keys |= {key for key in listed.get(like, set()) if key.split(".")[0] != without}
            above = []
            continue
        depth = len(line) - len(line.lstrip())
        above = [each for each in above if each[0] < depth]
        prefix = "".join(f"{parent}." for _, parent in above)
        for key in cell.split():
            keys |= {f"{prefix}{key.removesuffix('{}')}"}
            keys |= {f"{prefix}{key[:-2]}.{inner}" for inner in listed.get(key, ())}
            above = [each for each in above if each[0] < depth] + [(depth, key)]
    return {name: keys for name, keys in listed.items() if name.startswith("gitcp.")}


def _faulty(project: Project) -> str:
    """What is printed where git's index is broken, a hook could not save, and hooks are off."""
    faulty = Project(project.root.parent / "faulty")
    faulty.commit()
    faulty.git_dir.joinpath("index").write_bytes(b"")
    saved = faulty.gitcp("save", "--json").out
    talk, refs = Talk(faulty, "fa17ed00-0000-4000-8000-000000000000"), faulty.git_dir / "refs/gitcp"
    talk.say("Go on.", "I go on.")
    faulty.write("a.txt", "a\n")
    moved = refs.rename(refs.with_name("moved"))
    refs.touch()
    event = {"session_id": talk.session, "transcript_path": str(talk.path), "cwd": str(faulty.root)}
    faulty.gitcp("hook", "claude", "Stop", input=json.dumps(event))
    refs.unlink()
    moved.rename(refs)
    faulty.gitcp("enable", "claude", "--yes", check=0)
    faulty.write(".claude/settings.local.json", '{"disableAllHooks": true}')
    return saved + faulty.gitcp("status", "--json").out


SPENT = {"id": "m1", "model": "opus", "usage": {"input_tokens": 1, "output_tokens": 2}}


def _bisected(project: Project) -> str:
    """What is printed of the checkpoint that made a command fail, and of its conversation."""
    tried = Project(project.root.parent / "tried")
    for content in ("good", "bad"):
        tried.write("a.txt", content)
        tried.gitcp("save", check=0)
    searched = tried.gitcp("bisect", "run", "--json", "grep", "-q", "good", "a.txt", check=0).out
    talk = Talk(tried, "b15ec700-0000-4000-8000-000000000000")
    talk.say("Go on.")
    with talk.path.open("a") as file:
        file.write(json.dumps({"type": "assistant", "uuid": "a1", "message": SPENT}) + "\n")
        file.write('{"type": "of-next-year"}\n')
    tried.gitcp("save", check=0)
    counted = [("stats", "--tokens"), ("show",), ("sessions",), ("log", "--tokens"), ("doctor",)]
    return searched + "".join(tried.gitcp(*each, "--json").out for each in counted)


def _reviewed(project: Project) -> str:
    """What a review prints, and an export: a branch with two commits, of which one is new; an image
    in the talk.
    """
    branch = Project(project.root.parent / "branch")
    branch.commit()
    branch.git("checkout", "--quiet", "-b", "topic")
    reviewed = branch.commit("first")
    talk = Talk(branch, "0e71e355-0000-4000-8000-000000000000")
    talk.say("Run the tests.")
    talk.run("pytest", "1 passed in 0.1s")
    image = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    seen = {"type": "tool_result", "tool_use_id": "x", "is_error": True, "content": [image]}
    with talk.path.open("a", encoding="utf-8") as file:
        for role, more in (("user", {"content": [seen]}), ("assistant", SPENT)):
            message = {"role": role, **more}
            file.write(json.dumps({"type": role, "uuid": role, "message": message}) + "\n")
    branch.gitcp("run", "tests", "--", "sh", "-c", "echo a > a.txt", check=0)
    branch.commit("second")
    exported = branch.gitcp("export", "-f", "json", check=0).out
    return exported + branch.gitcp("review", "main..", "--since", reviewed, "--json", check=0).out


def _shared(project: Project) -> str:
    """What the commands print that exchange checkpoints, with one thing refused."""
    hub = Project(project.root.parent / "hub")
    printed = [project.gitcp("remote", "hub", str(hub.root), "--json", check=0).out]
    hub.write(hub.git_dir / "hooks/update", '#!/bin/sh\ncase "$1" in *tags*) exit 1; esac\n', 0o755)
    session = ("--session", "e7baae82")
    for command in (
        ("push", "--dry-run"),
        ("push", "--allow", fingerprint("npm-token", tokens()["npm-token"].encode())),
    ):
        printed.append(project.gitcp(*command, *session, "--json").out)
    printed.append(project.gitcp("fetch", "--json", check=0).out)
    hub.write(hub.git_dir / "hooks/update", "#!/bin/sh\nexit 1\n", 0o755)
    printed.append(project.gitcp("push", "--delete", "--json", "--yes", "hub", "e7baae82").out)
    printed.append(project.gitcp("export", "-f", "json", *session, check=0).out)
    printed.append(project.gitcp("export", "-o", "../x.json", "--json", *session, check=0).out)
    printed.append(project.gitcp("import", "../x.json", "--json", check=0).out)
    allowed = ("--allow", fingerprint("npm-token", tokens()["npm-token"].encode()))
    for how in ("--dry-run", "--yes"):
        printed.append(
            project.gitcp(
                "publish", "--branch", "x", how, *allowed, *session, "--json", check=0
            ).out
        )
    gone = project.root.parent / "gone.git"
    gone.mkdir()
    project.gitcp("remote", "gone", "../gone.git", "--push", "always", check=0)
    gone.rmdir()
    printed.append(project.gitcp("save", "--dry-run", "--json", check=0).out)
    project.gitcp("save", "--force", "--session", "waits", check=0)
    printed.append(project.gitcp("status", "--json", check=0).out)
    project.gitcp("remote", "gone", "--off", check=0)
    return "".join(printed)


def _rolled_back(project: Project) -> list[str]:
    """What a rollback prints where there is more than one state to go back to, in a repository of
    its own.
    """
    other = Project(project.root.parent / "rolled-back")
    for text in "abc":
        other.write("a.txt", text)
        other.gitcp("save", text, check=0)
    printed = [other.gitcp("diff", "1", "2", "--json", check=0).out]
    ways = ("--dry-run", "--yes")
    return printed + [other.gitcp("rollback", how, "--json", check=0).out for how in ways]


def _set_up(project: Project) -> list[str]:
    """What is printed about stores, descriptions of agents, and what Entire recorded."""
    own = Project(project.root.parent / "own", own_store=True)
    texts = [own.gitcp("init", "--json", check=0).out]
    own.write("a.txt", "a\n")
    own.gitcp("save", check=0)
    own = Project(own.root, own_store=False)
    texts.append(own.gitcp("init", "--join", "--json", check=0).out)
    texts.append(own.gitcp("adapters", "--json", check=0).out)
    kimi_session(Path(os.environ["HOME"]), own.root, ["one", "two"])
    described = str(SOURCE / "gitcp/adapters/described/kimi.toml")
    texts.append(own.gitcp("adapters", "check", described, "--json", check=0).out)
    branch(own, layout(sharded(IDS[0]), [{}]))
    texts.append(own.gitcp("import", "--from", "entire", "--dry-run", "--json", check=0).out)
    return texts


def _adopted(project: Project) -> list[str]:
    """What is printed about conversations that agents keep, also those that cannot be stored."""
    other = Project(project.root.parent / "kept")
    Talk(other).say("Begin.", "I begin.")
    gone = Project(project.root.parent / "gone" / "kept")
    Talk(gone, "11111111-5d1c-4f0a-9b3e-2c6d8f1a7b90").say("Begin.", "I begin.")
    shutil.rmtree(gone.root.parent)
    database = Path(os.environ["HOME"], ".local/share/opencode/opencode.db")
    database.parent.mkdir(parents=True)
    database.write_text("no database")
    how = ("--dry-run", "--yes")
    return [other.gitcp("adopt", each, "--json", check=0).out for each in how]


def _watched(project: Project) -> str:
    """What `status` prints while somebody watches."""
    watching = watcher(open_store(project).repo, 1000, lambda: (), Stop())
    project.gitcp("save", "--force", check=0)
    printed = project.gitcp("status", "--json", check=0).out
    watching.close()
    return printed


def _worktrees(project: Project) -> list[str]:
    """What is printed about a worktree that is listed, removed and restored."""
    project.git("worktree", "add", "--quiet", "--detach", "../another")
    tree = Project(project.root.parent / "another")
    tree.write(".gitignore", "*.log\n")
    tree.write("left.log", "ignored\n")
    tree.gitcp("save", "--session", "another", check=0)
    commands = (
        ("sessions", "--worktrees"),
        ("worktree", "remove", "--force", "../another"),
        ("restore", "another@1", "--worktree", "../another"),
    )
    return [project.gitcp(*command, "--json", check=0).out for command in commands]


@contextmanager
def _locked_database(path: Path) -> Iterator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as app:
        app.execute("create table t(a)")
        app.execute("begin exclusive")
        yield


def _printed(project: Project) -> dict[str, set[str]]:
    """The keys of the documents that the commands print, by schema; `a.b` for the key b of the
    object a.
    """
    project.write("a.txt", "a\n")
    project.write("b.log", "saved, and then ignored\n")
    project.commit()
    os.mkfifo(project.path("pipe"))
    talk = Talk(project)
    talk.say("Begin.", "I begin.")
    os.utime(talk.path, (0, 0))
    texts = [project.gitcp(each, "--json").out for each in ("status", "doctor")]
    talk.say("Now.", "Now.")
    noted = (
        "--fact",
        "a=b",
        "--task",
        "t",
        "--decided",
        "d",
        "--position",
        "p=1",
        "--compensate",
        "c",
        "--tag",
        "x",
    )
    _write_wrong_settings(project)
    inner = Project(project.root / "inner")
    inner.write("new.txt", "in no commit\n")
    with _locked_database(project.root / "app.db"):
        texts += [project.gitcp("save", "one", *noted, "--json", check=0).out]
    shutil.rmtree(inner.root)
    texts.append(
        project.gitcp(
            "run", "x", "--rollback", "--compensate", "c", "--json", "--", "mkfifo", "a.txt"
        ).out
    )
    project.write("a.txt", "b\n")
    project.write("b.log", "not to be captured\n")
    project.write(".gitignore", "*.log\n")
    project.git("rm", "--quiet", "--cached", "b.log")
    talk.say("Go on.", "I go on.")
    texts += _rolled_back(project)
    for command in (
        ("fork", "--worktree", "../fork"),
        ("diff",),
        ("diff", "--conversation"),
        ("status",),
        ("restore", "1", "--dry-run", "--state"),
        ("restore", "1", "--yes", "--state"),
        ("revert", "3", "--dry-run"),
        ("revert", "3", "--yes"),
        ("log",),
        ("sessions",),
        ("find", "on"),
        ("why", "a.txt:1"),
        ("why", "b.log"),
        ("resume", "--print"),
        ("note", "--fact", "k=v", "--session", "later"),
        ("oplog",),
        ("stats",),
        ("view",),
        ("tag",),
        ("check",),
        ("doctor", "--state"),
        ("enable", "claude", "codex", "--yes"),
        ("save",),
        ("why", ".codex/hooks.json:1"),
        ("save", "--force"),
        ("save", "--force"),
        ("prune", "--keep-last", "1", "--dry-run"),
        ("prune", "--keep-last", "1", "--yes"),
        ("delete", "e7baae82", "--dry-run"),
        ("delete", "e7baae82", "--yes"),
        ("undo",),
        ("rename", "e7baae82", "renamed"),
        ("rename", "renamed", "e7baae82"),
        ("purge", "--path", "b.log", "--dry-run"),
        ("purge", "--path", "b.log", "--yes"),
    ):
        done = project.gitcp(*command, "--json")
        assert done.code in (0, failure.IN_PART), done
        texts.append(done.out)
    texts.append(_watched(project))
    texts += [*_adopted(project), *_set_up(project)]
    texts += _worktrees(project)
    texts.append(project.gitcp("doctor", "--json", check=1).out)
    texts.append(project.gitcp("compensate", "--list", "--json", check=0).out)
    gitcp.open(project.root).session("steps").step("load", lambda: 1)
    texts.append(project.gitcp("show", "steps", "--json", check=0).out)
    texts.append(project.gitcp("run", "--plan", "--session", "steps", "--json", check=0).out)
    for path in ("", ".gitcp/README.md"):
        texts.append(project.gitcp("show", f"steps:{path}", "--json", check=0).out)
    project.write("a.txt", tokens()["npm-token"])
    project.gitcp("save", check=0)
    texts.append(project.gitcp("secrets", "--json", check=15).out)
    texts += [_shared(project), _reviewed(project), _faulty(project), _bisected(project)]
    answered = project.gitcp("secrets", "--allowed", "--json", check=0).out
    ids = [json.loads(line)["id"] for line in answered.splitlines()]
    texts += [answered, project.gitcp("secrets", "--revoke", ids[0], "--json", check=0).out]
    texts.append(project.gitcp("secrets", "--allow", ids[0], "--json").out)
    texts.append(project.gitcp("show", "nothing", "--json", check=16).err)
    _damage(project, "refs/gitcp/sessions/e7baae82:.gitcp/checkpoint.json")
    texts.append(project.gitcp("check", "--json", check=13).out)
    found: dict[str, set[str]] = {}
    for line in "".join(texts).splitlines():
        document = json.loads(line)
        found.setdefault(document["schema"], set()).update(_keys(document))
    return found


def _write_wrong_settings(project: Project) -> None:
    """An agent's settings that cannot be read, and commands for a state."""
    project.write(".claude/settings.json", "no JSON")
    for key in ("save", "restore"):
        project.git("config", "--global", f"gitcp.state.db.{key}", "cat /dev/null")


def _damage(project: Project, name: str) -> None:
    oid = project.git("rev-parse", name)
    path = project.path(project.git_dir / f"objects/{oid[:2]}/{oid[2:]}")
    os.chmod(path, 0o644)
    Path(os.fsdecode(path)).write_bytes(b"damaged")


FREE = ("facts", "position", "compensated")
"""Objects whose keys are the user's."""

SAME = {"findings", "known", "redacted", "checkpoint", "last", "report"}
"""Objects that are documents of their own, described once."""


def _keys(document: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in document.items():
        yield prefix + key
        items = value if isinstance(value, list) else [value]
        if key in FREE or (key in SAME and document.get("schema") != "gitcp.tag/1"):
            continue
        for item in items:
            if isinstance(item, dict):
                yield from _keys(item, f"{prefix}{key}.")


# ---------------------------------------------------------------- format.md


def test_metadata_fields() -> None:
    """Every field that is written into checkpoint.json is in format.md, and no other."""
    written = json.loads(wire.encode_checkpoint(everything()))
    page = SOURCE.joinpath("docs/format.md").read_text("utf-8").partition("## checkpoint.json\n")[2]
    rows = page.partition("```text\n")[2].partition("```")[0].splitlines()
    shown = [
        name for row in rows if not row.startswith(" ") for name in row.partition("  ")[0].split()
    ]

    assert sorted(shown) == sorted(set(_fields(written)))


def _fields(value: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, inner in value.items():
        yield prefix + key
        for item in inner if isinstance(inner, list) else ():
            if isinstance(item, dict) and item.keys() != {"base64"}:
                yield from _fields(item, f"{prefix}{key}[].")
        if isinstance(inner, dict) and key not in FREE:
            yield from _fields(inner, f"{prefix}{key}.")


def test_trailers() -> None:
    """Every trailer that is written is in format.md, and no other."""
    whole = everything()
    own = replace(whole, note=replace(whole.note, position_from=None))  # it sets the position
    written = re.findall(r"^(Gitcp-[A-Za-z-]+): ", store.message(own), re.MULTILINE)
    rows = table(section("docs/format.md", "The commit"))

    assert sorted(name for row in rows for name in names(row[0])) == sorted(written)


def test_reasons_and_triggers() -> None:
    """Every reason for leaving a path out, and every trigger, is explained in format.md."""
    explained = set(names(text_of("docs/format.md")))

    assert {reason.value for reason in SkipReason} <= explained
    assert {trigger.value for trigger in Trigger} <= explained


def test_invariants_have_tests() -> None:
    """Every invariant of the format is numbered, says must or should, and names the test that
    breaks when it does.
    """
    text = section("docs/format.md", "Invariants")
    items = re.findall(r"^(\d+)\. (.*?)(?=^\d+\. |\Z)", text, re.DOTALL | re.MULTILINE)

    assert [int(number) for number, _ in items] == list(range(1, len(items) + 1))
    assert len(items) >= 10
    assert [body for _, body in items if not re.search(r"\*(must|should)( not)?\*", body)] == []
    assert [body for _, body in items if not TEST.search(body)] == []


def everything() -> Any:
    """A checkpoint that has something to say in every field."""
    oid, odd = Oid("1" * 40), b"caf\xe9"
    snapshot = Snapshot(
        tree=oid,
        base=Base(oid, "main", "merge", "empty"),
        total=1,
        skipped=(Skip(b"pipe", SkipReason.SPECIAL, "a FIFO"),),
        raw=(odd,),
        converted=(
            Conversion(b"a", "crlf", ident=True, encoding="utf-16", lfs=True, segments=True),
        ),
        empty_directories=(b"empty",),
        modes={b"key": 0o600},
        submodules=(Submodule(b"module", oid),),
        nested=(NestedRepository(b"vendor", oid),),
        absent=(b"far",),
        staged=(IndexEntry(b"a", 0o100644, oid, intent_to_add=True),),
        untracked=(b"new",),
        conflicts=(IndexEntry(b"b", 0o100644, oid, 1),),
        outputs=(b"out",),
        unlocked=(Unlocked(b"app.db", "python (pid 1)"),),
    )
    digest = Digest(
        2, LastMessage("user", "text", "m1"), "prompt", "title", "2.1", "model", ("new",)
    )
    return replace(
        plain(),
        agent=Agent("claude-code", "5e55", "2.1", "model"),
        note=Note(
            "l",
            "p",
            "o",
            {"a": "b"},
            Handoff("t", ("d",), ("f",), ("n",), ("a",)),
            {"p": 1},
            ("c",),
            CheckpointId("alpha", 1),
        ),
        snapshot=snapshot,
        conversation=Conversation(
            "claude-code", oid, (Stream("main", 1, "2" * 64, "place", 3),), digest, b"web", "topic"
        ),
        changed=1,
        restored_from=CheckpointId("alpha", 1),
        forked_from=CheckpointId("alpha", 1),
        run=Run(("make",), 2, 1500, "no rule"),
        step=StepName("load", "ada"),
        state=State(Oid("f" * 40), "put/t//1//"),
        memory=Memory(("claude-code",), oid, (b"claude-code/big.md",)),
        states=States((CommandState("db", 1, "3" * 64, 4, 0), CommandState("q", missing="m")), oid),
        compensated={"alpha@1:0": "done"},
        reverted=Span(CheckpointId("alpha", 1), CheckpointId("alpha", 2)),
        authors=Authors(
            1, {b"a": Claim(frozenset({"beta"}), frozenset({"alpha"}))}, CheckpointId("beta", 1)
        ),
    )


# ---------------------------------------------------------------- changelog.md


def test_this_version_is_in_the_changelog() -> None:
    """The version that this copy tells has a heading with its date, and so has every other one."""
    project = tomllib.loads(SOURCE.joinpath("pyproject.toml").read_text("utf-8"))["project"]
    headings = re.findall(r"^## (?!Unreleased$)(.*)$", text_of("docs/changelog.md"), re.MULTILINE)

    assert project["version"] == gitcp.__version__
    assert gitcp.__version__ in [heading.split()[0] for heading in headings]
    for heading in headings:
        assert date.fromisoformat(heading.partition(" – ")[2]) <= datetime.now(UTC).date()


# ---------------------------------------------------------------- architecture.md, glossary.md


def test_layers_are_shown() -> None:
    """The layers in architecture.md are those that the import linter enforces, as far as there is
    something in them.
    """
    rules = tomllib.loads(SOURCE.joinpath("pyproject.toml").read_text("utf-8"))["tool"][
        "importlinter"
    ]["contracts"]
    layers = next(rule["layers"] for rule in rules if rule["name"] == "Imports only point down")
    rows = [names(row[0]) for row in table(section("docs/architecture.md", "Packages"))]

    assert list(existing(rows)) == list(existing(re.findall(r"\w+", layer) for layer in layers))
    assert {name for row in rows for name in row} <= {
        name for layer in layers for name in re.findall(r"\w+", layer)
    }


def existing(rows: Iterable[list[str]]) -> Iterator[list[str]]:
    """The names of each row that are modules by now; no empty rows."""
    package = SOURCE / "gitcp"
    for row in rows:
        modules = [
            name for name in row if (package / name).is_dir() or (package / f"{name}.py").exists()
        ]
        if modules:
            yield modules


def test_environment_is_not_recorded(project: Project) -> None:
    """security.md: whatever is in the environment, gitcp writes none of it down."""
    keys = (
        "ANTHROPIC_API_KEY",
        "CLAUDE_TOKEN",
        "GEMINI_API_KEY",
        "GIT_CONFIG_VALUE_0",
        "GITHUB_TOKEN",
    )
    setting = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "http.extraHeader"}
    env = {name: f"secret-{name}" for name in keys} | setting
    project.write("a.txt", "a\n")
    project.gitcp("save", env=env, check=0)
    time.sleep(2.5)  # what is younger may change unseen, and is not remembered
    for command in ("save", "save", "status"):
        project.gitcp(command, env=env, check=0)

    kept = [path for path in project.git_dir.joinpath("gitcp").iterdir() if path.is_file()]
    assert kept
    assert [path.name for path in kept if b"secret-" in path.read_bytes()] == []
    assert "secret-" not in project.git("cat-file", "--batch-all-objects", "--batch")


def test_each_word_is_defined_once() -> None:
    """The glossary has one entry a word, in order, and no two words have the same meaning."""
    rows = [row for row in table(text_of("docs/glossary.md")) if names(row[0])]
    words = [row[0].strip("`") for row in rows]
    meanings = [row[1] for row in rows]

    assert words == sorted(set(words))
    assert all(meanings)
    assert len(set(meanings)) == len(meanings)


def test_words_are_used() -> None:
    """Every word of the glossary is a word of the code or of the other pages: no second
    language.
    """
    words = [names(row[0]) for row in table(text_of("docs/glossary.md"))]
    others = [page for page in PAGES if page.name != "glossary.md"] + sorted(
        SOURCE.joinpath("gitcp").rglob("*.py")
    )
    used = "\n".join(page.read_text("utf-8") for page in others).lower()
    flat = [word for row in words for word in row]

    assert len(flat) > 20
    assert [word for word in flat if not re.search(rf"\b{re.escape(word)}", used)] == []
