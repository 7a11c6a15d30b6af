"""The answers to what a scan found: remembered, listed, revoked, and nobody else's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tokens import tokens

from gitcp.secrets.scan import fingerprint

from driver import Project

TOKEN = tokens()["github-token"]
ID = fingerprint("github-token", TOKEN.encode())


@pytest.fixture
def leaky(project: Project) -> Project:
    """A project with a checkpoint that has a secret."""
    project.write("a.txt", "one\n")
    project.commit()
    project.write("env", f"A={TOKEN}\n")
    project.gitcp("save", "one", check=0)
    return project


def test_an_answer_is_remembered(leaky: Project) -> None:
    """One that was given to a command holds for every command, is listed, and can be revoked; it
    holds no secret, and a dry run gives none.
    """
    leaky.gitcp("export", "-f", "bundle", "-o", "../x", check=15)
    done = leaky.gitcp("export", "-f", "bundle", "-o", "../x", "--allow", ID, check=0)
    assert f"to ask again: gitcp push --scan --revoke {ID}" in done.err
    assert "no secrets found" in leaky.gitcp("secrets", check=0).out
    leaky.gitcp("publish", "--branch", "topic", "--yes", check=0)

    listed = leaky.gitcp("secrets", "--allowed", check=0).out
    assert listed.startswith(f"{ID}  allowed here, ")
    (document,) = map(json.loads, leaky.gitcp("secrets", "--allowed", "--json").out.splitlines())
    assert (document["schema"], document["id"], document["source"]) == (
        "gitcp.allowed/1",
        ID,
        "here",
    )

    assert leaky.gitcp("secrets", "--revoke", ID, check=0).out == f"{ID} is no longer allowed\n"
    leaky.gitcp("secrets", check=15)
    assert "is not allowed" in leaky.gitcp("secrets", "--revoke", ID, check=2).err
    assert leaky.gitcp("secrets", "--allowed", check=0).out == "no secrets are allowed\n"
    leaky.gitcp("publish", "--branch", "o", "--dry-run", "--allow", ID, check=0)
    assert leaky.gitcp("secrets", "--allowed", check=0).out == "no secrets are allowed\n"


def test_the_file_of_the_team(leaky: Project) -> None:
    """What the team allows is listed with its file, and cannot be revoked here."""
    leaky.write(".gitcp.toml", f'[secrets]\nallow_secrets = ["{ID}"]\n')
    assert leaky.gitcp("secrets", "--allowed").out == f"{ID}  allowed by .gitcp.toml\n"
    refused = leaky.gitcp("secrets", "--revoke", ID, check=2).err
    assert f"{ID} is allowed by .gitcp.toml, not here: nothing was changed" in refused


def test_an_unpacked_answer(leaky: Project, tmp_path: Path) -> None:
    """What an archive brings allows nothing: neither the git directory's files nor its
    configuration. The user's own configuration does.
    """
    leaky.gitcp("secrets", "--allow", ID, check=0)
    shutil.copytree(leaky.root, tmp_path / "unpacked", symlinks=True)
    unpacked = Project(tmp_path / "unpacked")
    unpacked.git("config", "gitcp.allowSecrets", ID)
    unpacked.gitcp("secrets", check=15)
    unpacked.git("config", "--unset", "gitcp.allowSecrets")
    unpacked.git("config", "--global", "gitcp.allowSecrets", ID)
    unpacked.gitcp("secrets", check=0)
    assert "by git config --global gitcp.allowSecrets" in unpacked.gitcp("secrets", "--allowed").out
