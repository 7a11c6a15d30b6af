"""The real Claude Code, offline: a session is exported in one home and continued in another, at
another path.
"""

from __future__ import annotations

import json
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

TOLD = ["first: write a file", "Write", "Written by tool.", "second: go on"]


def test_a_colleague_continues(project: Project, tmp_path: Path) -> None:
    """Exported without its secret, imported and trusted: the model is sent every earlier message,
    but for the secret.

    As a bundle with its files, as a transcript beside the files that are there.
    """
    project.write("a.txt", "one\n")
    project.commit()
    home, session_id, token = tmp_path / "first-home", str(uuid.uuid4()), tokens()["github-token"]
    step = {
        "tool": "Write",
        "input": {"file_path": str(project.root / "made.txt"), "content": "made\n"},
    }
    with ScriptedModel(step, {"text": "Written by tool."}) as model:
        claude(
            home,
            project.root,
            model,
            "--session-id",
            session_id,
            f"first: write a file with {token}",
        )
    project.gitcp("save", "one turn", env={"HOME": str(home)}, check=0)
    for form in ("bundle", "transcript"):
        with project.guard():
            project.gitcp(
                "export",
                "-f",
                form,
                "-o",
                f"../{form}",
                "--redact",
                env={"HOME": str(home)},
                check=0,
            )

    for form in ("bundle", "transcript"):
        there, other = {"HOME": str(tmp_path / f"home-of-{form}")}, Project(tmp_path / f"by-{form}")
        revision = json.loads(
            other.gitcp("import", f"../{form}", "--json", env=there, check=0).out
        )["revision"]
        other.gitcp("restore", revision, "--yes", env=there, check=14)
        restored = other.gitcp(
            "restore", revision, "--yes", "--trust", "--json", env=there, check=0
        )
        assert (b"made.txt" in other.files()) == (form == "bundle")
        command = json.loads(restored.out)["resume"]["command"]
        assert command == ["claude", "--resume", session_id]
        with ScriptedModel({"text": "Going on."}) as model:
            claude(Path(there["HOME"]), other.root, model, *command[1:], "second: go on")
        heard = said(model.requests[0])
        assert in_order(TOLD, heard), heard
        assert any("[REDACTED:github-token]" in text for text in heard)
        assert not any(token in text for text in heard)
