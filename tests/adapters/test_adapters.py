"""The table of adapters: which are loaded, and when; and those that other packages bring."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
from capturing import host

from gitcp import adapters
from gitcp.adapters import described
from gitcp.adapters.base import Adapter
from gitcp.agents import SAVED, KnownAgent
from gitcp.errors import BadValue
from gitcp.fastpath import answer
from gitcp.value import replace

from driver import SOURCE, Project

LOADED = """
import sys
sys.argv = ["gitcp", "save"]
import os
def leave(code):
    print(json.dumps([code, sorted(name for name in sys.modules if name.startswith("gitcp.adapters."))]))
    sys.stdout.flush()
    os.kill(os.getpid(), 9)
os._exit = leave
import json
from gitcp.__main__ import main
main()
"""  # noqa: E501
ALWAYS = {
    f"gitcp.adapters.{name}"
    for name in ("base", "described", "directories", "generic", "installed", "long_lines", "names")
}

OTHER = '''
"""An agent that keeps each session in a file of its directory `.other`."""
from gitcp.adapters.base import Found
from gitcp.adapters.generic import before, digest, messages, place, watched
from gitcp.model import Agent, Capture, Source
NAME = "other"
def find(cwd, host):
    paths = sorted((host.home / ".other").glob("*.jsonl"))
    return tuple(Found(NAME, path.stem, path, path.stat().st_mtime) for path in paths)
def running(host):
    return host.env.get("OTHER_SESSION")
def capture(found):
    return Capture(Agent(NAME, found.session_id), NAME, (Source("main", path=found.path, live=True),))
'''  # noqa: E501


def loaded_by_a_save(project: Project, env: Mapping[str, str] | None = None) -> set[str]:
    """The adapters that a save imports, beside those that belong to no agent; a package and its
    modules are one.
    """
    done = subprocess.run(
        [sys.executable, "-c", LOADED],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(SOURCE), **(env or {})},
        capture_output=True,
        text=True,
    )
    code, names = json.loads(done.stdout.splitlines()[-1])
    assert code == 0, done
    return {".".join(name.split(".")[:3]) for name in names} - ALWAYS


def test_a_save_loads_no_adapter_of_an_absent_agent(project: Project, sealed: Path) -> None:
    """Without an agent's directory, and without its variables, its module is not imported; with
    either it is.
    """
    project.write("a.txt", "one\n")
    assert loaded_by_a_save(project) == set()
    known = SAVED["claude-code"]
    assert loaded_by_a_save(project, {known.variables[0]: "/nowhere"}) == {
        known.transcripts.package
    }
    sealed.joinpath(known.directory).mkdir(parents=True)
    assert loaded_by_a_save(project) == {known.transcripts.package}


@pytest.mark.parametrize("known", SAVED.values(), ids=lambda known: known.name)
def test_each_agent_is_asked_where_it_is(
    known: KnownAgent, tmp_path: Path, project: Project
) -> None:
    """Each by its directory and by each of its variables, which others may have, too; nobody else
    is.
    """
    asked = partial(adapters.find_all, project.root)
    for variable in known.variables:
        assert names_loaded(
            partial(asked, replace(host(), home=tmp_path, env={variable: "/nowhere"}))
        ) == [each.name for each in SAVED.values() if variable in each.variables]
    tmp_path.joinpath(known.directory).mkdir(parents=True)
    assert names_loaded(partial(asked, replace(host(), home=tmp_path, env={}))) == [known.name]


def names_loaded(ask: Callable[[], object]) -> list[str]:
    """The adapters that are asked for meanwhile."""
    loaded: list[str] = []
    load = adapters.load

    def noted(name: str) -> Adapter:
        loaded.append(name)
        return load(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adapters, "load", noted)
        ask()
    return loaded


def test_the_quick_answer_knows_the_variables() -> None:
    """What decides whether an adapter is asked decides whether a save may be answered from
    memory.
    """
    named = [variable for known in SAVED.values() for variable in known.variables]
    named += [variable for _, variable in described.SHIPPED.values() if variable]

    assert named
    assert all(variable.startswith(answer.DECIDING) for variable in named)


def test_a_new_agent_ends_the_quick_answer(project: Project, sealed: Path) -> None:
    """The directories of agents that were never here are watched."""
    watched = adapters.watched(project.root, host())

    assert watched
    assert {sealed / known.directory for known in SAVED.values()} <= set(watched)


# ---------------------------------------------------------------- other packages'


def install(directory: Path, entry: str = "other = other_agent", module: str = OTHER) -> None:
    """A package in `directory` that brings an adapter."""
    info = directory / "other-1.0.dist-info"
    info.mkdir(parents=True)
    info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    info.joinpath("entry_points.txt").write_text(
        f"[console_scripts]\nx = y:z\n\n[gitcp.adapters]\n{entry}\n"
    )
    directory.joinpath("other_agent.py").write_text(module)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Where the other package is installed."""
    return tmp_path / "site"


def with_site(site: Path) -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join((str(SOURCE), str(site)))}


def test_another_packages_agent_is_saved_by_itself(
    project: Project, site: Path, sealed: Path
) -> None:
    """Its session is found without being named, and when it runs us it comes before all others."""
    install(site)
    project.write("a.txt", "one\n")
    sealed.joinpath(".other").mkdir()
    for name in ("first111", "second22"):
        sealed.joinpath(".other", f"{name}.jsonl").write_text('{"role":"user","content":"hello"}\n')
    os.utime(sealed / ".other" / "first111.jsonl", (1, 1))

    said = project.gitcp("save", env=with_site(site), check=0).out
    assert "second22@1" in said
    assert "the newest conversation of other" in said
    project.write("a.txt", "two\n")
    said = project.gitcp("save", env={**with_site(site), "OTHER_SESSION": "first111"}, check=0).out
    assert "other is running this" in said
    assert project.json("show", "first111")["agent"]["session_id"] == "first111"


def test_a_package_that_comes_later_is_noticed(project: Project, site: Path, sealed: Path) -> None:
    """An answer from memory does not outlive a change of what is installed."""
    site.mkdir()
    project.write("a.txt", "one\n")
    sealed.joinpath(".other").mkdir()
    sealed.joinpath(".other", "first111.jsonl").write_text('{"role":"user","content":"hello"}\n')
    for _ in range(3):
        assert "first111" not in project.gitcp("save", env=with_site(site), check=0).out
    install(site)

    assert "saved first111@1" in project.gitcp("save", env=with_site(site), check=0).out


@pytest.mark.parametrize(
    ("entry", "module", "why"),
    [
        ("other = no_such_module", OTHER, "No module named"),
        ("other = other_agent:missing", OTHER, "has no attribute"),
        ("other = other_agent", "raise RuntimeError('boom')", "boom"),
        ("other = other_agent", "NAME = 'another'", "its NAME is 'another'"),
        ("other = ", OTHER, "cannot load"),
    ],
)
def test_a_broken_package_is_no_obstacle(
    project: Project, site: Path, entry: str, module: str, why: str
) -> None:
    """A save does without it; asked for by name, it is an error that says why."""
    install(site, entry, module)
    project.write("a.txt", "one\n")

    project.gitcp("save", env=with_site(site), check=0)
    refused = project.gitcp(
        "save", "--agent", "other", "--conversation", "a.txt", env=with_site(site)
    )
    assert refused.code == 2
    assert "cannot load the adapter for other" in refused.err
    assert why in refused.err


def test_entry_points_in_any_spelling(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Comments, blanks, extras and other groups are read as packaging tools write them."""
    install(
        site,
        "# a comment\n ; another\n\n other=other_agent [fast]\n[gitcp.adapters.more]\nthird = "
        "nowhere\n",
    )
    monkeypatch.syspath_prepend(str(site))

    assert adapters.load("other").NAME == "other"
    with pytest.raises(BadValue, match="no adapter for an agent called 'third'"):
        adapters.load("third")
    assert adapters.for_format("third").NAME == "generic"


def test_the_first_on_the_path_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with modules, an adapter further behind is hidden."""
    install(tmp_path / "behind", "other = no_such_module")
    install(tmp_path / "before")
    monkeypatch.syspath_prepend(str(tmp_path / "behind"))
    monkeypatch.syspath_prepend(str(tmp_path / "before"))

    assert adapters.load("other").NAME == "other"
