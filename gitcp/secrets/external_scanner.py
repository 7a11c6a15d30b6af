"""Run the user's secret scanner over data that is about to leave. If it fails, nothing leaves.

The data is written to numbered files in a directory of gitcp's, where the scanner runs, so that
nothing in a checkpoint can configure the scanner. Its report is read from its standard output.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from gitcp import wire
from gitcp.errors import GitcpError
from gitcp.git import process
from gitcp.git.fsync import is_running
from gitcp.git.repo import Repository
from gitcp.state.settings import Scanner
from gitcp.value import Value

NOT_IN_NAME = re.compile(r"[^A-Za-z0-9._-]+")

DIRECTORY = "scan"
LARGEST_REPORT = 64 << 20
UNSET = "git config --global --unset gitcp.secretScanner"


class ExternalFinding(Value):
    """A secret found by the scanner: its rule and its text, which is then
    searched in everything that leaves.

    If the text is unknown or not found verbatim, `piece` is the SHA-256 of the data it is in; else
    b"".
    """

    rule: str
    text: bytes
    piece: bytes = b""
    line: int = 1

    @property
    def mark(self) -> bytes:
        """The bytes that its ID is derived from."""
        return self.text or b"%d %s" % (self.line, self.piece)


class Pieces:
    """The files to scan."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._count = 0

    def add(self, data: bytes) -> None:
        """Add a file."""
        if data:
            self._path(self._count).write_bytes(data)
            self._count += 1

    def scan(self, scanner: Scanner, repo: Repository) -> tuple[ExternalFinding, ...]:
        """Return the scanner's findings. Raises GitcpError if it fails or its report cannot be
        parsed.
        """
        if not self._count:
            return ()
        output = _run(scanner, self._directory / "files", repo)
        try:
            reported = parse_report(output)
        except ValueError:
            raise _failed(scanner, "printed a report in an unknown format") from None
        return tuple(dict.fromkeys(self._finding(scanner, each) for each in reported))

    def _path(self, number: int) -> Path:
        return self._directory / "files" / f"{number:07d}.txt"

    def _finding(self, scanner: Scanner, reported: Reported) -> ExternalFinding:
        stem = Path(reported.file).stem
        if not stem.isdecimal() or int(stem) >= self._count:
            raise _failed(scanner, "reported an unknown file")
        data = self._path(int(stem)).read_bytes()
        if reported.text and reported.text in data:
            return ExternalFinding(reported.rule, reported.text)
        digest = hashlib.sha256(data).digest()
        return ExternalFinding(reported.rule, reported.text, digest, reported.line)


@contextmanager
def pieces(repo: Repository) -> Iterator[Pieces]:
    """Yield an empty directory for files to scan, and remove it afterwards."""
    for leftover in repo.store_dir.glob(f"{DIRECTORY}.*"):
        if not is_running(leftover.suffix[1:]):
            shutil.rmtree(leftover, ignore_errors=True)
    directory = repo.store_dir / f"{DIRECTORY}.{os.getpid()}"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(mode=0o700)
    try:
        (directory / "files").mkdir()
        yield Pieces(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _run(scanner: Scanner, directory: Path, repo: Repository) -> bytes:
    error_file, report = directory.with_name("stderr"), directory.with_name("report")
    with error_file.open("wb") as errors, report.open("wb") as output:
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
            raise _failed(scanner, f"cannot be run: {error.strerror}") from None
        try:
            code = child.wait(scanner.limit)
        except subprocess.TimeoutExpired:
            raise _failed(
                scanner, f"timed out after {scanner.limit} seconds", timeout=True
            ) from None
        finally:
            with suppress(ProcessLookupError, PermissionError):  # includes its child processes
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    if code or report.stat().st_size > LARGEST_REPORT:
        text = error_file.read_bytes()[-400:].decode("utf-8", "replace").strip()
        raise _failed(scanner, f"failed with exit code {code}" + (f": {text}" if text else ""))
    return report.read_bytes()


def _failed(scanner: Scanner, reason: str, *, timeout: bool = False) -> GitcpError:
    hint = (
        "git config --global gitcp.secretScannerTimeout 20m"
        if timeout
        else f"fix it, or remove it with: {UNSET}"
    )
    return GitcpError(
        f"secret scanner {scanner.command[0]!r} {reason}; nothing left this machine", hint=hint
    )


class Reported(NamedTuple):
    """One secret: file name, line, rule, and text (b"" if the scanner does not report it)."""

    file: str
    line: int
    rule: str
    text: bytes


def parse_report(output: bytes) -> tuple[Reported, ...]:
    """Return the findings in a report: JSON of gitleaks (an array), of trufflehog (an object per
    line), or of detect-secrets (without texts). Raises ValueError for an unknown format.
    """
    if not output.strip():
        return ()
    try:
        return tuple(_each(output))
    except (ValueError, AttributeError, TypeError):
        raise ValueError("unknown report format") from None


def _each(output: bytes) -> Iterator[Reported]:
    try:
        whole: Any = wire.loads(output)
    except ValueError:
        whole = [wire.loads(line) for line in output.splitlines() if line.strip()]
    if isinstance(whole, dict) and isinstance(whole.get("results"), dict):
        for file, items in whole["results"].items():
            for item in items:  # it has a hash of the secret only
                yield _reported(file, item.get("line_number"), item.get("type"), "")
        return
    for item in whole if isinstance(whole, list) else [whole]:
        if isinstance(item, dict) and "RuleID" in item:
            yield _reported(
                item.get("File"), item.get("StartLine"), item["RuleID"], item.get("Secret")
            )
        elif isinstance(item, dict) and "DetectorName" in item:
            location = _below(item, "SourceMetadata", "Data", "Filesystem")
            yield _reported(
                location.get("file"), location.get("line"), item["DetectorName"], item.get("Raw")
            )
        elif item is not None:
            raise ValueError


def _below(item: Any, *names: str) -> Mapping[str, Any]:
    for name in names:
        item = item.get(name) if isinstance(item, dict) else None
    return item if isinstance(item, dict) else {}


def _reported(file: object, line: object, rule: object, text: object) -> Reported:
    if not isinstance(file, str) or not isinstance(rule, str) or not isinstance(text, str):
        raise ValueError  # noqa: TRY004 -- it is the report that is wrong
    name = NOT_IN_NAME.sub("-", rule.lower())[:60].strip("-") or "secret"
    return Reported(
        file, line if isinstance(line, int) else 1, name, text.encode("utf-8", "surrogatepass")
    )
