"""What was proved with which real agent: the table in agents.md, made of the cases of the tests in
this directory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import test_real_converting
import test_real_mending
from test_real_recovery import COMMANDS, REAL, REWOUND
from test_real_sub_agents import SPAWNING

from gitcp.adapters import known
from gitcp.agents import recorded

from driver import SOURCE

EACH = frozenset(recorded(real.name) for real in REAL)
BY_HAND = EACH | {"cline", "kimi"}
EARLIER = {
    "claude-code": "test_real_claude",
    "codex": "test_real_codex",
    "copilot": "test_real_copilot",
    "gemini": "test_real_gemini",
    "kimi": "test_real_kimi",
    "opencode": "test_real_opencode",
} | dict.fromkeys(REWOUND, "test_real_recovery")
"""The tests that go back to before a prompt, and look at what is sent then."""

SUB_AGENTS = {
    "claude-code": "test_real_mending",
    "cline": "test_real_cline",
    "codex": "test_real_mending",
    "openclaw": "test_real_openclaw",
} | dict.fromkeys(map(recorded, SPAWNING), "test_real_sub_agents")
"""The tests that save a session of which a sub-agent is a part."""

CONVERTED = {name for pair in test_real_converting.PAIRS for name in pair} | {"openclaw"}
MENDED = frozenset(agent for agent, _ in test_real_mending.CASES)
TYPED = {"copilot"}
"""The agents of which a slash command is typed in a terminal, in a test of their own."""

COLUMNS: Mapping[str, frozenset[str]] = {
    "in place": BY_HAND,
    "empty home, other path": BY_HAND,
    "earlier prompt": frozenset(EARLIER),
    "hooks": EACH,
    "slash commands": frozenset(map(recorded, COMMANDS)) | TYPED,
    "sub-agents": frozenset(SUB_AGENTS),
    "converted": frozenset(CONVERTED),
    "damaged": MENDED,
}
UPDATE = bool(os.environ.get("UPDATE_DOCS"))
PACKAGES = re.compile(r"^    (\w+)=\S+@([\d.]+)$", re.MULTILINE)


def test_the_table_in_the_guide() -> None:
    """The versions are those that `.ci` installs, and a cell is what a test does."""
    ci = "".join((SOURCE / ".ci" / name).read_text("utf-8") for name in ("run", "full"))
    pins = dict(PACKAGES.findall(ci))
    versions = {recorded(name): version for name, version in pins.items()}
    names = ("agent", "version", *COLUMNS, "tokens")
    rows = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for adapter in known():
        cells = ["yes" if adapter.name in proved else "" for proved in COLUMNS.values()]
        cells.append("yes" if "tokens" in adapter.abilities else "")
        version = versions.get(adapter.name, "not run")
        rows.append(f"| {' | '.join((adapter.title, version, *cells))} |")
    path = SOURCE / "docs" / "agents.md"
    head, mark, rest = path.read_text("utf-8").partition("<!-- proofs -->\n")
    shown, end, after = rest.partition("<!-- end of proofs -->")
    made = "\n" + "\n".join(rows) + "\n\n"
    if UPDATE:
        path.write_text(f"{head}{mark}{made}{end}{after}", "utf-8")
    else:
        assert shown == made


def test_what_goes_back_is_a_test() -> None:
    """Each agent named above has a test that goes back to before a prompt."""
    for module in EARLIER.values():
        text = (SOURCE / "tests" / "real" / f"{module}.py").read_text("utf-8")
        assert "forgets_the_second" in text or "--message" in text, module


def test_what_is_typed_is_a_test() -> None:
    """Each agent named above has a test that types its slash command."""
    for name in TYPED:
        text = (SOURCE / "tests" / "real" / f"test_real_{name}.py").read_text("utf-8")
        assert "def test_a_slash_command" in text, name


def test_what_has_sub_agents_is_a_test() -> None:
    """Each agent named above has a test with a real sub-agent, and what it says."""
    for module in SUB_AGENTS.values():
        text = (SOURCE / "tests" / "real" / f"{module}.py").read_text("utf-8")
        assert "INNER" in text, module
        assert "REPORT" in text, module
