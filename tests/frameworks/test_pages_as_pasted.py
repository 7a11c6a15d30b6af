"""The pages of frameworks as a reader pastes them: into an environment that has what the page tells
to install, and in a repository of their own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name
from pages import blocks
from test_docs import section, table

from gitcp import wire

from driver import SOURCE, Project

IMPORTED = re.compile(r"^(?:from|import) (\w+)", re.MULTILINE)


class Page(NamedTuple):
    """A page, or a section of one, and the extra that it tells to install."""

    extra: str
    programs: tuple[str, ...]


def documented() -> Iterator[Page]:
    """What the table of frameworks links to, and the page with it."""
    yield Page("", _programs("programs.md", ""))
    yield Page("mcp", _programs("mcp.md", ""))
    for _, _, extra, link in table(section("docs/programs.md", "From an agent framework")):
        target = re.search(r"\(([^)#]+)#?([^)]*)\)", link)
        if target and extra.startswith("`"):
            yield Page(extra.strip("`"), _programs(target[1], target[2]))


def _programs(page: str, anchor: str) -> tuple[str, ...]:
    text = SOURCE.joinpath("docs", page).read_text("utf-8")
    if anchor:
        parts = re.split(r"(?m)^## ", text)
        (text,) = (part for part in parts if _anchor(part.split("\n")[0]) == anchor)
    return tuple("\n".join(block.lines) for block in blocks(text) if block.kind == "python")


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")


PAGES = tuple(documented())
EACH = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.extra or "none")


@cache
def brought(requirement: str) -> frozenset[NormalizedName]:
    """The distributions that a requirement installs, by what is installed here."""
    wanted = Requirement(requirement)
    found: set[NormalizedName] = {canonicalize_name(wanted.name)}
    for each in requires(wanted.name) or ():
        needed = Requirement(each)
        extras = ("", *wanted.extras)
        if needed.marker is None or any(needed.marker.evaluate({"extra": e}) for e in extras):
            found |= brought(f"{needed.name}[{','.join(sorted(needed.extras))}]")
    return frozenset(found)


@EACH
def test_extra_brings_what_the_page_imports(page: Page) -> None:
    """What the blocks of a page import is installed with its extra."""
    project = tomllib.loads(SOURCE.joinpath("pyproject.toml").read_text("utf-8"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(extras[page.extra] if page.extra else ())]
    installed = frozenset[NormalizedName]().union(*map(brought, wanted))
    modules = {name for program in page.programs for name in IMPORTED.findall(program)}
    names = packages_distributions()

    for module in modules - sys.stdlib_module_names - {"gitcp"}:
        assert {canonicalize_name(name) for name in names[module]} & installed, module
    assert page.extra == "mcp" or "gitcp" in modules


@pytest.mark.full
@EACH
def test_fresh_environment(page: Page, tmp_path: Path) -> None:
    """Each block of a page ends well where only its extra is installed; and the server of MCP
    answers.
    """
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    programs = tmp_path / "venv/bin"
    wanted = f"{SOURCE}[{page.extra}]" if page.extra else str(SOURCE)
    subprocess.run([programs / "pip", "install", "-q", wanted], check=True)
    env = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    env.pop("PYTHONPATH", None)

    for number, program in enumerate(page.programs):
        root = Project(tmp_path / f"repository{number}").root
        done = subprocess.run(
            [programs / "python", "-c", program], cwd=root, env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    if page.extra == "mcp":
        root = Project(tmp_path / "repository").root
        asked = {"protocolVersion": "2025-06-18", "capabilities": {}}
        asked |= {"clientInfo": {"name": "test", "version": "1"}}
        call = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": asked}
        said = subprocess.run(
            [programs / "gitcp", "mcp"],
            cwd=root,
            env=env,
            input=wire.dumps(call) + b"\n",
            capture_output=True,
        )
        assert wire.loads(said.stdout)["result"]["serverInfo"]["name"] == "gitcp", said.stderr
