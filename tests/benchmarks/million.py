"""A repository of any number of tiny files, ten a directory, made in a minute: `git fast-import`
makes its objects, and its files are written beside.

    python tests/benchmarks/million.py DIR [DIRECTORIES]        100,000 directories unless said
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

FILES = 10
"""Files in a directory, of 8 bytes each."""


def furnish(root: Path, directories: int, env: Mapping[str, str]) -> Path:
    """Make the repository at `root`, with everything committed and in a fresh index."""
    root.mkdir(parents=True)
    for args in (("init", "-q"), ("symbolic-ref", "HEAD", "refs/heads/main")):
        subprocess.run(["git", *args], cwd=root, env=env, check=True)
    importing = ("git", "-c", "core.compression=0", "fast-import", "--quiet", "--depth=0")
    with subprocess.Popen(importing, cwd=root, env=env, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        with process.stdin as stream:
            stream.write(
                b"commit refs/heads/main\ncommitter A <a@b> 1700000000 +0000\ndata 3\nall\n"
            )
            for path, data in _files(directories):
                _write(os.fsencode(root) + b"/" + path, data)
                stream.write(b"M 100644 inline %s\ndata %d\n%s\n" % (path, len(data), data))
    if process.returncode:
        raise SystemExit("git fast-import failed")
    for args in (("read-tree", "HEAD"), ("update-index", "-q", "--refresh")):
        subprocess.run(["git", *args], cwd=root, env=env, check=True)
    return root


def _files(directories: int) -> Iterator[tuple[bytes, bytes]]:
    for number in range(directories * FILES):
        directory = number // FILES
        parts = directory // 1000, directory // 100 % 10, directory % 100
        yield b"part%d/group%d/module%d/file%d.txt" % (*parts, number % FILES), b"%07d\n" % number


def _write(path: bytes, data: bytes) -> None:
    if path.endswith(b"/file0.txt"):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb", buffering=0) as file:
        file.write(data)


if __name__ == "__main__":
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
    furnish(Path(sys.argv[1]), count, os.environ)
