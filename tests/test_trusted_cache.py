"""What gitcp keeps as marshalled values is believed only if this user wrote it, nobody else could,
and it is whole.
"""

from __future__ import annotations

import marshal
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from capturing import Camera
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitcp import trusted_cache, user_state
from gitcp.fastpath.stat_check import Look
from gitcp.git.fsync import replace_cache

from driver import Project

VALUE = ("text", b"bytes", [1, 2, None], {"key": (1.5, True)})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that is to be believed."""
    path = tmp_path / "kept"
    replace_cache(str(path), VALUE)
    return path


def test_kept(file: Path) -> None:
    """What was put there comes back, and is readable by its owner alone."""
    assert trusted_cache.load(str(file)) == VALUE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_others_could_write(file: Path, mode: int) -> None:
    """A file that others may write to is as good as none."""
    file.chmod(mode)

    assert trusted_cache.load(str(file)) is None


def test_another_owner(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of another user is as good as none, for root too."""
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)

    assert trusted_cache.load(str(file)) is None


def test_no_file(file: Path, tmp_path: Path) -> None:
    """Neither links nor pipes nor directories are read, and none of them holds anybody up."""
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(file)
    os.mkfifo(pipe, 0o600)

    assert [
        trusted_cache.load(str(path)) for path in (link, pipe, tmp_path, tmp_path / "nothing")
    ] == [None] * 4


@pytest.mark.parametrize(
    "body",
    [b"[\xff\xff\xff\x7f", b"(\xff\xff\xff\x7f", b"r\x00\x00\x00\x00", b"[\x01\0\0\0" * 9999],
)
def test_made_to_crash(file: Path, body: bytes) -> None:
    """Marshalled bytes that ask for gigabytes, or nest without end, are not looked at: nothing
    vouches for them.
    """
    for data in (
        body,
        trusted_cache.MAGIC + body,
        trusted_cache.MAGIC + len(body).to_bytes(4, "big") + b"\0\0\0\0" + body,
    ):
        file.write_bytes(data)

        assert trusted_cache.load(str(file)) is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged(file: Path, data: st.DataObject) -> None:
    """With any byte changed, or any end cut off, nothing is believed."""
    replace_cache(str(file), VALUE)
    whole = file.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[at]))
    cut = data.draw(st.booleans())
    file.write_bytes(whole[:at] if cut else whole[:at] + bytes([byte]) + whole[at + 1 :])

    assert trusted_cache.load(str(file)) is None


def test_another_python(file: Path) -> None:
    """What another version of Python marshalled is not read."""
    file.write_bytes(file.read_bytes().replace(b"cpython", b"jython2"))

    assert trusted_cache.load(str(file)) is None


def test_forged(file: Path, tmp_path: Path) -> None:
    """What is not sealed, or sealed with another key or for another place, is not believed, though
    this user owns it: whoever unpacks an archive owns what is in it.
    """
    whole = file.read_bytes()
    (elsewhere := tmp_path / "elsewhere").mkdir()
    for path, data in (
        (file, trusted_cache.dump(VALUE)),
        (file, trusted_cache.dump(VALUE) + bytes(trusted_cache.SEAL)),
        (file.with_name("other"), whole),
        (elsewhere / file.name, whole),
    ):
        path.write_bytes(data)
        path.chmod(0o600)

        assert trusted_cache.load(str(path)) is None

    file.write_bytes(whole)
    assert trusted_cache.load(str(file)) == VALUE
    key = Path(user_state.directory(os.environ, os.environ["HOME"])) / user_state.KEY
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    key.write_bytes(os.urandom(user_state.KEY_BYTES))
    assert trusted_cache.load(str(file)) is None


def test_another_directory_in_its_place(file: Path, tmp_path: Path) -> None:
    """A directory of the same name is another one."""
    whole = file.read_bytes()
    file.parent.rename(tmp_path.with_name("before"))
    tmp_path.mkdir()
    file.write_bytes(whole)
    file.chmod(0o600)

    assert trusted_cache.load(str(file)) is None


def test_a_key_that_is_damaged(file: Path) -> None:
    """It is replaced by the next write."""
    key = Path(user_state.directory(os.environ, os.environ["HOME"])) / user_state.KEY
    key.write_bytes(b"short")
    assert trusted_cache.load(str(file)) is None

    replace_cache(str(file), VALUE)

    assert trusted_cache.load(str(file)) == VALUE


@pytest.mark.parametrize("name", ["worktree-state", "unchanged", "config"])
def test_planted(project: Project, name: str, tmp_path: Path) -> None:
    """A save goes on as if nothing were there when somebody else can write to what it keeps, or
    wrote nonsense.
    """
    project.write("a", "one\n")
    project.gitcp("save", check=0)
    path = project.git_dir / "gitcp" / name
    before: Any = path.read_bytes() if path.exists() else b""
    for data, mode in (
        (before, 0o666),
        (marshal.dumps(("planted", [])), 0o600),
        (b"\xff" * 99, 0o600),
    ):
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        path.chmod(mode)
        project.write("a", f"{mode} {len(data)}\n")

        said = project.gitcp("save", "again", check=0)

        assert "saved" in said.out
        assert project.git("show", f"{project.json('show')['commit']}:a") == f"{mode} {len(data)}"


def test_state_that_others_could_write(project: Project) -> None:
    """The state file of a working tree is no exception."""
    project.write("a", "one\n")
    camera = Camera(project)
    camera.take()
    assert Look(b"", str(camera.state)).load().head

    camera.state.chmod(0o620)

    with pytest.raises(PermissionError):
        Look(b"", str(camera.state)).load()
    camera.take()
    assert stat.S_IMODE(camera.state.stat().st_mode) == 0o600
