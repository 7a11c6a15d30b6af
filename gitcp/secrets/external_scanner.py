"""Runs the secret scanner that the user set, over what is to leave. It fails loudly: what was not
scanned stays here.

The pieces are laid into a directory of ours as files with numbers for names, so that nothing in a
checkpoint can be a setting of the scanner. It runs in that directory, and what it reports on its
output is read.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gitcp.errors import GitcpError
from gitcp.git import process
from gitcp.git.repo import Repository
from gitcp.secrets import external_report
from gitcp.secrets.external_report import Reported
from gitcp.state.settings import Scanner
from gitcp.value import Value

DIRECTORY = "scan"
LARGEST_REPORT = 64 << 20
UNSET = "git config --unset gitcp.secretScanner"


class Known(Value):
    """A secret that the scanner found: its rule and its text, which is looked for in all that
    leaves.

    Where the text is not known, or does not stand there as it is, `piece` is the SHA-256 of what
    holds it; else b"".
    """

    rule: str
    text: bytes
    piece: bytes = b""
    line: int = 1

    @property
    def mark(self) -> bytes:
        """What its ID is made of."""
        return self.text or b"%d %s" % (self.line, self.piece)


class Pieces:
    """What is to be scanned, as files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._count = 0

    def add(self, data: bytes) -> None:
        """One piece more."""
        if data:
            self._path(self._count).write_bytes(data)
            self._count += 1

    def scan(self, scanner: Scanner, repo: Repository) -> tuple[Known, ...]:
        """What the scanner finds in them. Raises GitcpError where it fails, or cannot be
        understood.
        """
        if not self._count:
            return ()
        output = _run(scanner, self._directory / "files", repo)
        try:
            reported = external_report.parse(output)
        except ValueError:
            raise _failed(scanner, "did not report what it found as JSON that is known") from None
        return tuple(dict.fromkeys(self._known(scanner, each) for each in reported))

    def _path(self, number: int) -> Path:
        return self._directory / "files" / f"{number:07d}.txt"

    def _known(self, scanner: Scanner, found: Reported) -> Known:
        stem = Path(found.file).stem
        if not stem.isdecimal() or int(stem) >= self._count:
            raise _failed(scanner, "reported a file that it was not given")
        data = self._path(int(stem)).read_bytes()
        if found.text and found.text in data:
            return Known(found.rule, found.text)
        digest = hashlib.sha256(data).digest()
        return Known(found.rule, found.text, digest, found.line)


@contextmanager
def pieces(repo: Repository) -> Iterator[Pieces]:
    """A place for pieces, empty, and gone afterwards."""
    for left in repo.store_dir.glob(f"{DIRECTORY}.*"):
        if not is_running(left.suffix[1:]):
            shutil.rmtree(left, ignore_errors=True)
    directory = repo.store_dir / f"{DIRECTORY}.{os.getpid()}"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(mode=0o700)
    try:
        (directory / "files").mkdir()
        yield Pieces(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def is_running(pid: str) -> bool:
    """Whether the process is there that a temporary file is called after."""
    try:
        os.kill(int(pid), 0)
    except (ValueError, OverflowError, ProcessLookupError):
        return False
    except PermissionError:
        pass
    return True


def _run(scanner: Scanner, directory: Path, repo: Repository) -> bytes:
    """Run the scanner in `directory`; its output."""
    said, report = directory.with_name("said"), directory.with_name("report")
    with said.open("wb") as errors, report.open("wb") as output:
        try:
            child = subprocess.Popen(
                scanner.command,
                cwd=directory,
                env=process.scrubbed(repo.host.env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as error:
            raise _failed(scanner, f"could not be run: {error.strerror}") from None
        try:
            code = child.wait(scanner.limit)
        except subprocess.TimeoutExpired:
            raise _failed(
                scanner, f"was not done after {scanner.limit} seconds", timeout=True
            ) from None
        finally:
            with suppress(ProcessLookupError, PermissionError):  # also what it left running
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    if code or report.stat().st_size > LARGEST_REPORT:
        text = said.read_bytes()[-400:].decode("utf-8", "replace").strip()
        raise _failed(scanner, f"ended with {code}" + (f": {text}" if text else ""))
    return report.read_bytes()


def _failed(scanner: Scanner, why: str, *, timeout: bool = False) -> GitcpError:
    hint = (
        "git config gitcp.secretScannerTimeout 20m"
        if timeout
        else f"mend it, or go without it: {UNSET}"
    )
    return GitcpError(
        f"the secret scanner {scanner.command[0]!r} {why}. Nothing left this machine", hint=hint
    )
