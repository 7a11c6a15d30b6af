"""The stat fingerprint tells a file from what it was, whichever way it changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gitcp import fingerprint

pytestmark = pytest.mark.unit


def rewritten(path: Path) -> None:
    """Of the same size, and with the same mtime."""
    before = path.stat()
    path.write_bytes(b"other")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replaced(path: Path) -> None:
    path.with_name("new").write_bytes(b"bytes")
    path.with_name("new").rename(path)


CHANGES: dict[str, Callable[[Path], object]] = {
    "grown": lambda path: path.write_bytes(b"more bytes"),
    "rewritten": rewritten,
    "replaced": replaced,
    "executable": lambda path: path.chmod(0o755),
    "dated": lambda path: os.utime(path, ns=(0, 0)),
    "gone": Path.unlink,
}


@pytest.mark.parametrize("how", CHANGES)
def test_every_change_shows(tmp_path: Path, how: str) -> None:
    """Reading alone does not."""
    path = tmp_path / "file"
    path.write_bytes(b"bytes")
    # long ago, so that the next change is stamped later than this one
    os.utime(path, ns=(0, 10**18))
    before = fingerprint.at(str(path))
    path.read_bytes()
    assert before is not None
    assert fingerprint.at(str(path)) == before == fingerprint.of(path.stat())

    while fingerprint.at(str(path)) == before:
        CHANGES[how](path)


def test_fields(tmp_path: Path) -> None:
    """Whoever asks for one of them gets that one."""
    (tmp_path / "file").write_bytes(b"bytes")
    status, found = os.stat(tmp_path / "file"), fingerprint.at(str(tmp_path / "file"))

    assert found is not None
    assert found[fingerprint.SIZE] == status.st_size == 5
    assert found[fingerprint.MTIME] == status.st_mtime_ns
    assert found[fingerprint.CTIME] == status.st_ctime_ns


@pytest.mark.parametrize("path", ["gone", "file/below", "nul\0", "a" * 300])
def test_no_file(tmp_path: Path, path: str) -> None:
    """None, whatever the reason; never an error."""
    (tmp_path / "file").write_bytes(b"bytes")

    assert fingerprint.at(f"{tmp_path}/{path}") is None
