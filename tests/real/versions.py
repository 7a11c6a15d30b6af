"""What differs between versions of real agents: the kinds of records that each writes in one and
the same session, as a table in docs/adapters.md.

    python tests/real/versions.py DIRECTORY...

A directory is one that npm installed a version into, called after the agent, such as `pi` or
`pi-1.5.2`. Run by `.ci/full`, which fails if the table
is another one then; with UPDATE_DOCS=1 it is written anew.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

SOURCE = Path(__file__).parents[2]
sys.path[:0] = [str(SOURCE), *(str(SOURCE / "tests" / name) for name in ("", "support", "real"))]

import real_agents  # noqa: E402
import test_real_recovery as recovery  # noqa: E402

PAGE = SOURCE / "docs" / "adapters.md"
BEGIN, END = "<!-- versions -->\n", "<!-- end of versions -->"


class Tried(NamedTuple):
    """An agent that is tried at several versions: the package, and where its transcripts are."""

    title: str
    package: str
    transcripts: str


AGENTS = {
    "claude": Tried("Claude Code", "@anthropic-ai/claude-code", ".claude/projects/*/*.jsonl"),
    "codex": Tried("Codex", "@openai/codex", ".codex/sessions/**/*.jsonl"),
    "pi": Tried("Pi", "@earendil-works/pi-coding-agent", ".pi/agent/sessions/*/*.jsonl"),
}


def kinds(agent: str, installed: Path) -> set[str]:
    """The kinds of records that an agent writes in a session with a call."""
    real = next(each for each in recovery.REAL if each.name == agent)
    setattr(real_agents, agent.upper(), installed / "node_modules" / ".bin" / agent)
    with tempfile.TemporaryDirectory() as directory:
        home, project = Path(directory, "home"), Path(directory, "project")
        project.mkdir()
        edit = real.edit(str(project / "by_tool.txt"))
        with real.model(edit, {"text": "Done."}) as model:
            real.turn(home, project, model, "write a file")
        return {
            kind
            for path in home.glob(AGENTS[agent].transcripts)
            for line in path.read_text("utf-8").splitlines()
            for kind in _kinds(json.loads(line))
        }


def _kinds(record: dict[str, Any]) -> Iterator[str]:
    inner = (record.get(name) for name in ("payload", "attachment"))
    below = [each.get("type") for each in inner if isinstance(each, dict)]
    for part in (*below, record.get("subtype")):
        if isinstance(part, str):
            yield f"{record.get('type')}/{part}"
    yield str(record.get("type"))


def version(agent: str, installed: Path) -> str:
    """The version that is installed in a directory."""
    path = installed / "node_modules" / AGENTS[agent].package / "package.json"
    named: str = json.loads(path.read_bytes())["version"]
    return named


def rows(agent: str, directories: list[Path]) -> Iterator[str]:
    """A row for each version after the first: what it writes and the one before did not, and what
    it does not write any more.
    """
    by_version = {version(agent, each): kinds(agent, each) for each in directories}
    order = sorted(by_version, key=lambda name: [int(part) for part in name.split(".")])
    for old, new in pairwise(order):
        more, less = by_version[new] - by_version[old], by_version[old] - by_version[new]
        cells = (AGENTS[agent].title, old, new, _listed(more), _listed(less))
        yield f"| {' | '.join(cells)} |"


def _listed(names: set[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names)) or "none"


def main(arguments: list[str]) -> int:
    """Make the table, and compare it or write it."""
    installed: dict[str, list[Path]] = {}
    for directory in map(Path, arguments):
        installed.setdefault(directory.name.partition("-")[0], []).append(directory)
    table = ["| agent | from | to | new kinds of records | not any more |", "|---|---|---|---|---|"]
    for agent, directories in installed.items():
        table += rows(agent, directories)
    made = "\n" + "\n".join(table) + "\n\n"
    head, mark, rest = PAGE.read_text("utf-8").partition(BEGIN)
    shown, end, after = rest.partition(END)
    print(made)
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(f"{head}{mark}{made}{end}{after}", "utf-8")
        return 0
    return 0 if shown == made else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
