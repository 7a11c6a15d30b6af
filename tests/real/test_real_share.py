"""Two homes, two clones and a bare remote: what one real Claude Code began, another continues,
without the secret.
"""

from __future__ import annotations

import json
import subprocess
import uuid
from pathlib import Path

import pytest
from real_agents import CLAUDE, claude, in_order
from tokens import tokens

from driver import Project
from scripted_model import ScriptedModel, said

pytestmark = pytest.mark.skipif(
    not CLAUDE.exists(), reason=f"needs Claude Code (npm) in {CLAUDE.parents[2]}"
)

TOKEN = tokens()["github-token"]


def test_handed_over(project: Project, tmp_path: Path) -> None:
    """Save, push a redacted copy, fetch elsewhere, review, restore in another home: the agent knows
    all but the key.
    """
    hub, home, session = tmp_path / "hub.git", tmp_path / "ada", str(uuid.uuid4())
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", hub], check=True)
    project.write("a.txt", "one\n")
    base = project.commit()
    made = {
        "tool": "Write",
        "input": {"file_path": str(project.root / "by_tool.txt"), "content": "made\n"},
    }
    with ScriptedModel(made, {"text": "Written by tool."}) as model:
        claude(
            home,
            project.root,
            model,
            "--session-id",
            session,
            f"first: write a file, my key is {TOKEN}",
        )
    ada = {"HOME": str(home)}
    project.gitcp("save", "handed over", env=ada, check=0)
    project.commit("the change")
    project.git("push", "--quiet", str(hub), "main")
    project.gitcp("remote", "hub", str(hub), env=ada, check=0)
    assert project.gitcp("push", "hub", env=ada).code == 15
    project.gitcp("push", "hub", "--redact", env=ada, check=0)

    there, other = tmp_path / "bob", tmp_path / "elsewhere"
    bob = {"HOME": str(there)}
    there.mkdir()
    subprocess.run(["git", "clone", "--quiet", hub, other], check=True)
    clone = Project(other)
    clone.gitcp("remote", "origin", env=bob, check=0)
    assert "fetched origin/" in clone.gitcp("fetch", env=bob, check=0).out
    assert (
        "first: write a file, my key is [REDACTED:github-token]"
        in clone.gitcp("review", f"{base}..HEAD", env=bob, check=0).out
    )
    assert clone.gitcp("restore", f"origin/{session[:8]}", "--yes", env=bob).code == 14
    restored = clone.gitcp(
        "restore", f"origin/{session[:8]}", "--yes", "--trust", "--json", env=bob, check=0
    )
    assert clone.read("by_tool.txt") == b"made\n"
    with ScriptedModel({"text": "Going on."}) as model:
        claude(
            there, other, model, *json.loads(restored.out)["resume"]["command"][1:], "second: go on"
        )

    heard = said(model.requests[0])
    told = [
        "first: write a file, my key is [REDACTED:github-token]",
        "Write",
        "Written by tool.",
        "second: go on",
    ]
    assert in_order(told, heard), heard
    for place in (there, other, hub):
        assert not any(
            TOKEN.encode() in path.read_bytes() for path in place.rglob("*") if path.is_file()
        )
