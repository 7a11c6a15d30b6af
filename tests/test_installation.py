"""The hints that install something: for each way to install gitcp, the line that works there.

The environments are laid out as pip 23, uv 0.13 and pipx 1.18 leave them; each line was once run by
hand in a real one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gitcp.installed import PIPX, UV_TOOL, Copy

RECEIPT = '[tool]\nrequirements = [{{ name = "gitcp-checkpoints"{}, directory = "/src/gitcp" }}]\n'
DIRECTORY = {"url": "file:///src/my%20gitcp", "dir_info": {}}
HASH = "250577ade836b289201005eab7ff93defacf453a"


def git(revision: str = "") -> dict[str, Any]:
    asked = {"requested_revision": revision} if revision else {}
    url = "https://example.org/gitcp.git"
    return {"url": url, "vcs_info": {"vcs": "git", "commit_id": HASH, **asked}}


def installed(prefix: Path, origin: object = None, by: str = "pip") -> Copy:
    """An environment in which this copy was installed by a tool, from an origin."""
    site = prefix / "lib/python3.12/site-packages"
    dist = site / "gitcp_checkpoints-1.0.dist-info"
    dist.mkdir(parents=True)
    dist.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: gitcp-checkpoints\n")
    dist.joinpath("INSTALLER").write_text(f"{by}\n")
    if origin is not None:
        dist.joinpath("direct_url.json").write_text(json.dumps(origin))
    return Copy(site / "gitcp", prefix, "/env/bin/python", [])


@pytest.mark.parametrize(
    ("origin", "spec", "newer"),
    [
        (None, "'gitcp-checkpoints[mcp]'", "gitcp-checkpoints"),
        (DIRECTORY, "'/src/my gitcp[mcp]'", "'/src/my gitcp'"),
        (
            git("v1.0"),
            "'gitcp-checkpoints[mcp] @ git+https://example.org/gitcp.git@v1.0'",
            "'gitcp-checkpoints @ git+https://example.org/gitcp.git'",
        ),
        (
            git("next"),
            "'gitcp-checkpoints[mcp] @ git+https://example.org/gitcp.git@next'",
            "'gitcp-checkpoints @ git+https://example.org/gitcp.git@next'",
        ),
        (
            {"url": "https://example.org/g-1.0-py3-none-any.whl", "archive_info": {}},
            "'gitcp-checkpoints[mcp] @ https://example.org/g-1.0-py3-none-any.whl'",
            "URL",
        ),
        (
            {"url": "file:///tmp/g-1.0-py3-none-any.whl", "archive_info": {}},
            "'/tmp/g-1.0-py3-none-any.whl[mcp]'",
            "FILE",
        ),
    ],
)
@pytest.mark.parametrize("tool", ["pip", "uv", "uv tool", "pipx"])
def test_source(tmp_path: Path, tool: str, origin: object, spec: str, newer: str) -> None:
    """What is installed is the source that this copy is from, by the tool that installed it."""
    copy = installed(tmp_path, origin, by="pip" if tool == "pip" else "uv")
    if tool == "uv tool":
        tmp_path.joinpath(UV_TOOL).write_text(RECEIPT.format(""))
    if tool == "pipx":
        tmp_path.joinpath(PIPX).write_text('{"package_or_url": "gitcp-checkpoints"}')
    install, upgrade = {
        "pip": ("/env/bin/python -m pip install", "/env/bin/python -m pip install --upgrade"),
        "uv": (
            "uv pip install --python /env/bin/python",
            "uv pip install --python /env/bin/python --upgrade",
        ),
        "uv tool": ("uv tool install", "uv tool install --reinstall"),
        "pipx": ("pipx install --force", "pipx install --force"),
    }[tool]

    assert copy.install_extra("mcp") == f"{install} {spec}"
    assert copy.upgrade() == f"{upgrade} {newer}"


def test_other_extras_stay(tmp_path: Path) -> None:
    """uv and pipx replace what they installed: its extras are named again."""
    copy = installed(tmp_path)
    tmp_path.joinpath(PIPX).write_text('{"package_or_url": "/src/gitcp[zstd, watch]"}')
    assert copy.install_extra("mcp") == "pipx install --force 'gitcp-checkpoints[mcp,watch,zstd]'"
    tmp_path.joinpath(UV_TOOL).write_text(RECEIPT.format(', extras = ["watch"]'))
    assert copy.install_extra("mcp") == "uv tool install 'gitcp-checkpoints[mcp,watch]'"
    assert copy.upgrade() == "uv tool install --reinstall 'gitcp-checkpoints[watch]'"


def test_editable(tmp_path: Path) -> None:
    """A checkout that is installed in place, or not at all, stays one, and is upgraded by git."""
    checkout = tmp_path / "checkout"
    checkout.joinpath(".git").mkdir(parents=True)
    checkout.joinpath("pyproject.toml").touch()
    origin = {"url": checkout.as_uri(), "dir_info": {"editable": True}}
    other = installed(tmp_path / "env", origin)
    for search in ([str(other.package.parent)], []):
        copy = Copy(checkout / "gitcp", other.prefix, other.python, search)
        assert (
            copy.install_extra("mcp")
            == f"{copy.python} -m pip install --editable '{checkout}[mcp]'"
        )
        assert copy.upgrade() == f"git -C {checkout} pull"


def test_directory_with_git(tmp_path: Path) -> None:
    """A copy that was built from a checkout needs what is new there, and to be built again."""
    checkout = tmp_path / "checkout"
    checkout.joinpath(".git").mkdir(parents=True)
    copy = installed(tmp_path / "env", {"url": checkout.as_uri(), "dir_info": {}})
    tmp_path.joinpath("env", UV_TOOL).write_text(RECEIPT.format(""))
    pull = f"git -C {checkout} pull"
    assert copy.upgrade() == f"{pull} && uv tool install --reinstall {checkout}"


def test_another_copy(tmp_path: Path) -> None:
    """The record of another copy on Python's path is not this one's."""
    other = installed(tmp_path / "other", DIRECTORY)
    copy = Copy(tmp_path / "here/gitcp", tmp_path, "/env/bin/python", [str(other.package.parent)])
    assert copy.install_extra("mcp") == "/env/bin/python -m pip install 'gitcp-checkpoints[mcp]'"
