"""The shape of the house: who imports whom, how large things grow, what a name may be, what is
shipped.

And whether the tests stand on firm ground: that they are sealed off, and that `Project.guard` sees
what it must.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import gitcp

from driver import SOURCE, Project

MODULES = sorted(path.relative_to(SOURCE) for path in SOURCE.glob("gitcp/**/*.py"))
TEST_MODULES = sorted(path.relative_to(SOURCE) for path in SOURCE.glob("tests/**/*.py"))

LONGEST_FUNCTION = 40
SMALL = 40
LARGEST_FIRST_STAGE = 1_200

FORBIDDEN_MODULES = {"common", "helper", "helpers", "manager", "misc", "util", "utils"}
RENAMED_MODULES = set(
    "ahead aside book brought disk dropping durable foreign kept leaving linked part serving shape "
    "telling trailing untold words".split()
)
"""What modules were once called, that nobody could guess: each has its standard name now."""

FORBIDDEN_LOCALS = {"found", "held", "place", "said"}
"""Names that tell what was done to get a value, or that it is somewhere, and not what it is."""

FORBIDDEN_CLASS = re.compile(r"Manager|Helper|Util")
FORBIDDEN_FUNCTION = re.compile(r"_?(get|handle|process|do)_")
# click asks a group for its commands under the first, agent frameworks ask for what they keep under
# the others.
NAMED_BY_OTHERS = set(
    "_get_compaction_snapshot get_command get_default_screen get_help_option get_items get_latest "
    "get_next_version get_run get_session get_tool_effect get_tuple get_user_state".split()
)

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

STRAYS = {
    "a module without a place": ("gitcp/utils.py", "", "gitcp.utils"),
    "an import that points up": (
        "gitcp/errors.py",
        "import gitcp.store",
        "gitcp.errors -> gitcp.store",
    ),
    "a look past the command line": (
        "gitcp/history/stray.py",
        "import rich",
        "gitcp.history.stray -> rich",
    ),
    "a second JSON codec": ("gitcp/store.py", "import orjson", "gitcp.store -> orjson"),
}


GUARDED = (
    ("add", "file"),
    ("commit", "--all", "--message", "more"),
    ("stash",),
    ("tag", "v1"),
    ("checkout", "--detach"),
    ("config", "user.name", "somebody"),
    ("update-index", "--assume-unchanged", "file"),
    ("pack-refs", "--all"),
)


def definitions(module: Path) -> Iterator[Definition]:
    """Every function and class of a module, at any depth."""
    for node in ast.walk(ast.parse(SOURCE.joinpath(module).read_bytes())):
        if isinstance(node, Definition):
            yield node


def lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    """Run the import linter over the package in `tree`; writes nothing."""
    code = (
        "import sys; from importlinter.cli import lint_imports_command as main; main(sys.argv[1:])"
    )
    return subprocess.run(
        [sys.executable, "-c", code, "--no-cache", "--no-logo"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        encoding="utf-8",
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of what is shipped, with its rules: to be broken, or built where a build may leave
    things behind.
    """
    for name in ("gitcp", "hooks", "docs/man"):
        shutil.copytree(
            SOURCE / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ("LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(SOURCE / name, tmp_path)
    return tmp_path


def test_layers() -> None:
    """Imports only point down, and each library has one user."""
    done = lint_imports(SOURCE)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("stray", STRAYS)
def test_stray(copy: Path, stray: str) -> None:
    """The layers are enforced: each kind of breach is found, and named."""
    path, line, named = STRAYS[stray]
    with copy.joinpath(path).open("a") as module:
        module.write(f"\n{line}\n")

    done = lint_imports(copy)

    assert done.returncode == 1, done.stdout + done.stderr
    assert named in done.stdout


def documented(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many lines the docstring of a function takes."""
    first = node.body[0]
    is_text = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
    return (first.end_lineno or 0) - first.lineno + 1 if is_text else 0


def test_function_sizes() -> None:
    """No function is longer than a screen; what its docstring takes is not counted."""
    sizes = {
        f"{module}:{node.lineno} {node.name}": (node.end_lineno or 0)
        - node.lineno
        + 1
        - documented(node)
        for module in MODULES
        for node in definitions(module)
        if not isinstance(node, ast.ClassDef)
    }

    too_long = {name: size for name, size in sizes.items() if size > LONGEST_FUNCTION}
    assert sizes
    assert not too_long, too_long


def test_small_modules() -> None:
    """A module of under forty lines that one other module alone imports is a part of that one.

    Commands are imported by their names, from a table.
    """
    names = {
        ".".join(module.with_suffix("").parts).removesuffix(".__init__"): module
        for module in MODULES
    }
    users: dict[str, set[str]] = {name: set() for name in names}
    for name, module in names.items():
        for node in ast.walk(ast.parse(SOURCE.joinpath(module).read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                for used in (node.module, *(f"{node.module}.{each.name}" for each in node.names)):
                    users.get(used, set()).add(name)

    small = {
        name
        for name, module in names.items()
        if module.name != "__init__.py" and _lines(module) < SMALL
    }
    assert {name for name in small if len(users[name] - {name}) == 1} == set()


def test_first_stage() -> None:
    """What answers "nothing changed" stays small: it is loaded by each save and each hook."""
    modules = [module for module in MODULES if module.parts[:2] == ("gitcp", "fastpath")]

    assert 0 < sum(map(_lines, modules)) <= LARGEST_FIRST_STAGE


def _lines(module: Path) -> int:
    return SOURCE.joinpath(module).read_bytes().count(b"\n")


ONE_OF_EACH: dict[str, tuple[str, tuple[str, ...]]] = {
    "files are written and named by gitcp.git.fsync.replacing": (
        r"os\.(replace|rename)\(|O_CREAT|mkstemp|NamedTemporaryFile",
        (
            # git's own objects, refs and index
            "git/fsync git/held git/loose git/packs git/refs restoring/index",
            # the working tree
            "worktree/directories worktree/writer",
            # a file that has its bytes already; one that is deleted when it was read
            "sharing/importing",
            # a log to which hooks append, before anything is loaded
            "state/tool_log",
            # a socket, and an empty file for a moment; a cache of the first stage's
            "automation/watching/watcher fastpath/watched",
            # the key of these caches
            "user_state",
        ),
    ),
    "a file is told from what it was by gitcp.fingerprint": (
        r"\.st_[mc]time_ns",
        (
            "fingerprint",
            # git's format
            "git/index",
            # one number for each path and directory of a scan, which is what a look compares
            "fastpath/stat_check worktree/reading worktree/records worktree/scan worktree/blobs",
            # a script that imports nothing
            "worktree/sqlite_locks",
            # other names of one file
            "restoring/apply",
            # when a file changed, beside when a tool ran
            "saving/authors",
        ),
    ),
    "nothing is changed that outlives a call": (r"(?m)^\s+global \w", ()),
    "typing is imported by all but what a save or a hook loads first": (
        r"(?m)^TYPE_CHECKING = False",
        (
            "__init__",
            "worktree/sqlite_locks",
            "agents clock fingerprint regular state_files trusted_cache user_state",
            "fastpath/answer fastpath/hook_memo fastpath/nodes fastpath/stat_check",
            "fastpath/watch_ipc fastpath/watched",
            "policy/edited policy/events policy/outcome policy/patterns policy/risk",
            "policy/triggers",
            # an event that only adds a line to a log, and what waits for a save
            "cli/background hooks/limits hooks/handler",
            "state/hook_failures state/tool_log state/turn_start",
            "git/fsync git/process git/shared",
        ),
    ),
}


@pytest.mark.parametrize("rule", ONE_OF_EACH)
def test_one_of_each(rule: str) -> None:
    """What everything uses is done in one place; those who must do it otherwise are listed, and
    still do.
    """
    pattern, allowed = ONE_OF_EACH[rule]
    found = {
        str(module.relative_to("gitcp").with_suffix(""))
        for module in MODULES
        if re.search(pattern, SOURCE.joinpath(module).read_text("utf-8"))
    }

    assert found == set(" ".join(allowed).split())


def test_names() -> None:
    """A name says what a thing is or does: nothing helps, manages, handles or processes."""
    wrong = [str(module) for module in MODULES + TEST_MODULES if module.stem in FORBIDDEN_MODULES]
    wrong += [str(module) for module in MODULES if module.stem in RENAMED_MODULES]
    for module in MODULES:
        for node in definitions(module):
            forbidden = (
                FORBIDDEN_CLASS.search
                if isinstance(node, ast.ClassDef)
                else FORBIDDEN_FUNCTION.match
            )
            if forbidden(node.name) and node.name not in NAMED_BY_OTHERS:
                wrong.append(f"{module}:{node.lineno} {node.name}")

    assert not wrong, wrong


def test_local_names() -> None:
    """A local name says what its value is. Adapters have a value that is called Found."""
    wrong = [
        f"{module}:{line} {name}"
        for module in MODULES
        for name, line in _local_names(ast.parse(SOURCE.joinpath(module).read_bytes()))
        if name in FORBIDDEN_LOCALS - ({"found"} if _has_found(module) else set())
    ]

    assert not wrong, wrong


def _has_found(module: Path) -> bool:
    return "adapters" in module.parts or module.stem == "conformance"


def _local_names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The parameters and variables of every function, with their lines."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id, node.lineno
                elif isinstance(node, ast.arg):
                    yield node.arg, node.lineno


@pytest.mark.parametrize("modules", [MODULES, TEST_MODULES], ids=["gitcp", "tests"])
def test_said(modules: list[Path]) -> None:
    """Every module says what it is, every public class and every test says what it does."""
    mute = [
        str(module)
        for module in modules
        if not _is_said(ast.parse(SOURCE.joinpath(module).read_bytes()))
    ]
    for module in modules:
        for node in definitions(module):
            must = isinstance(node, ast.ClassDef) and not node.name.startswith("_")
            if (must or node.name.startswith("test_")) and not _is_said(node):
                mute.append(f"{module}:{node.lineno} {node.name}")

    assert not mute, mute


def test_import_is_light() -> None:
    """Importing gitcp imports none of the libraries that cost start-up."""
    code = (
        "import sys, gitcp; print(*sorted({'click', 'rich', 'orjson', 'jinja2'} & "
        "set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=SOURCE,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )

    assert done.stdout.strip() == ""


def test_wheel(copy: Path) -> None:
    """The wheel holds the package, its type marker, the hooks with their bytes and modes, the man
    page, and nothing else of ours.
    """
    made = copy / "made"
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
    built = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", made, copy],
        capture_output=True,
        encoding="utf-8",
    )
    assert built.returncode == 0, built.stdout + built.stderr

    wheel = zipfile.ZipFile(made / f"gitcp_checkpoints-{gitcp.__version__}-py3-none-any.whl")
    shipped = {
        entry.filename: entry for entry in wheel.infolist() if ".dist-info/" not in entry.filename
    }

    hooks = {
        f"gitcp/_hooks/{path.relative_to(copy / 'hooks')}": path for path in _files(copy / "hooks")
    }
    package = {str(path.relative_to(copy)): path for path in _files(copy / "gitcp")}
    assert "gitcp/_hooks/README.md" in shipped
    assert "gitcp/py.typed" in shipped
    man = {
        f"gitcp_checkpoints-{gitcp.__version__}.data/data/share/man/man1/{name}"
        for name in ("gitcp.1", "git-gitcp.1")
    }
    assert shipped.keys() == hooks.keys() | package.keys() | man
    for name, path in hooks.items():
        assert wheel.read(name) == path.read_bytes(), name
        assert shipped[name].external_attr >> 16 & 0o111 == path.stat().st_mode & 0o111, name


def test_seal(sealed: Path) -> None:
    """A test has a home of its own, nothing of an outer git or agent, and no network."""
    foreign = [
        name
        for name in os.environ
        if name.startswith(("CLAUDE", "CODEX", "GEMINI", "AI_AGENT", "XDG_RUNTIME"))
    ]

    assert Path.home() == sealed
    assert list(sealed.iterdir()) == [sealed / ".gitconfig"]
    assert "GIT_DIR" not in os.environ
    assert not foreign, foreign
    with socket.socket() as outward, pytest.raises(AssertionError, match="network"):
        outward.connect(("192.0.2.1", 80))


@pytest.mark.parametrize("command", GUARDED, ids=" ".join)
def test_guard_notices(project: Project, command: tuple[str, ...]) -> None:
    """Whatever changes something of git's that is not gitcp's does not pass the guard."""
    project.write("file", "one")
    project.commit()
    project.write("file", "two")

    with pytest.raises(AssertionError, match="not gitcp's to change"), project.guard():
        project.git(*command)


def test_guard_lets_pass(project: Project) -> None:
    """gitcp's own refs, in whatever form, its directory, new objects and edited files pass the
    guard.
    """
    project.write("file", "one")
    commit = project.commit()

    with project.guard():
        project.git("update-ref", "refs/gitcp/sessions/s", commit)
        project.write(project.git_dir / "gitcp/current", "anything")
        project.write("file", "two")
        project.git("hash-object", "-w", "file")


def test_guard_wants_a_sound_store(project: Project) -> None:
    """A ref of gitcp's without its commit does not pass the guard."""
    project.commit()

    with pytest.raises(AssertionError, match="fsck"), project.guard():
        project.write(project.git_dir / "refs/gitcp/sessions/s", "1" * 40 + "\n")


def test_project_shows_everything(project: Project) -> None:
    """`files` tells contents, modes, links, odd names and empty directories apart, and leaves out
    `.git`.
    """
    project.write(b"odd\n\xff/run", b"\0", mode=0o755)
    project.symlink("link", "nowhere")
    os.mkdir(project.path("empty"))

    assert project.files() == {
        b"empty": ("directory", 0o755, b""),
        b"link": ("symlink", 0, b"nowhere"),
        b"odd\n\xff": ("directory", 0o755, b""),
        b"odd\n\xff/run": ("file", 0o755, b"\0"),
    }


def _files(directory: Path) -> Iterator[Path]:
    return (path for path in directory.rglob("*") if path.is_file())


def _is_said(node: Definition | ast.Module) -> bool:
    return bool(ast.get_docstring(node))
