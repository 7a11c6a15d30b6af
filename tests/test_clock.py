"""gitcp works on a machine whose clock is far off, and with files of any time."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kinds import IS_OWN_STORE

from gitcp import clock

from driver import SOURCE, Project

FAR = ["1601-01-02", "1901-01-01", "1969-12-31", "2039-01-01", "2263-01-01", "2500-01-01"]

FAKE = """
import os, time

FAR, REAL = float(os.environ["FAR"]), (5, time.CLOCK_REALTIME)
exact, started = time.clock_gettime, time.monotonic()

def clock_gettime(clock):
    return FAR + time.monotonic() - started if clock in REAL else exact(clock)

def fitting(nanoseconds):
    if abs(nanoseconds) >= 2**63:
        raise OverflowError("timestamp too large to convert to C _PyTime_t")
    return nanoseconds

time.clock_gettime = clock_gettime
time.clock_gettime_ns = lambda clock: fitting(int(clock_gettime(clock) * 10**9))
time.time_ns = lambda: time.clock_gettime_ns(time.CLOCK_REALTIME)
time.time = lambda: time.time_ns() / 10**9
"""
"""A `sitecustomize` by which a process sees another time, and fails where Python does."""


def test_time_of_files(tmp_path: Path) -> None:
    """What is changed after the clock was read has no earlier time: the exact clock is ahead."""
    for number in range(200):
        before = clock.of_files()
        path = tmp_path / str(number)
        path.touch()
        assert path.stat().st_ctime_ns >= before


@pytest.mark.parametrize("seconds", [-(10**15), -(2**62), 2**62, 10**15])
def test_beyond_all_years(seconds: int) -> None:
    """A time that has no year of four digits is the nearest that has one."""
    assert clock.local(seconds).year in {1000, 1001, 9998, 9999}


def test_local() -> None:
    """The local time is the one that Python gives."""
    assert clock.local(86_400.5) == datetime(1970, 1, 2, 0, 0, 0, 500_000, UTC)
    assert abs(clock.now().timestamp() - datetime.now(UTC).timestamp()) < 60


@pytest.mark.parametrize("date", FAR)
def test_far_off(project: Project, tmp_path: Path, date: str) -> None:
    """Whatever the clock says, files are saved, listed and restored, and git finds no fault."""
    site = tmp_path / "site"
    site.mkdir()
    site.joinpath("sitecustomize.py").write_text(FAKE)
    far = datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp()
    env = {"PYTHONPATH": f"{site}:{SOURCE}", "FAR": str(far)}
    project.write("a", "one\n")
    project.commit()
    project.gitcp("save", "before", check=0)
    project.write("a", "two\n")
    event = {"session_id": "s", "cwd": str(project.root), "hook_event_name": "Stop"}
    for typed in (
        ("save", "then"),
        ("log",),
        ("log", "--json"),
        ("status",),
        ("show",),
        ("restore", "1", "--yes"),
        ("undo", "--yes"),
        ("sessions",),
        ("diff", "1", "2"),
        ("oplog",),
        ("stats",),
        ("adopt", "--dry-run"),
        ("prune", "--keep-last", "1", "--dry-run"),
    ):
        project.gitcp(*typed, env=env, check=0)
    project.write("a", "three\n")
    done = project.gitcp("hook", "claude", "Stop", input=str(event).replace("'", '"'), env=env)
    assert (done.code, done.err) == (0, "")
    assert "\n1  (no label)\n" in project.gitcp("log", check=0).out
    assert project.gitcp("doctor", env=env).code == project.gitcp("doctor").code
    if not IS_OWN_STORE:
        assert project.git("fsck", "--strict", "--no-dangling", "--no-progress") == ""


@pytest.mark.parametrize("year", [1, 1900, 2263, 9999, 30_000])
def test_files_of_any_time(project: Project, year: int) -> None:
    """Files, and an agent's conversation, that were given a time far off."""
    at = (year - 1970) * 31_556_952 * 10**9
    project.write("a", "one\n")
    project.commit()
    transcript = Path(os.environ["HOME"], ".claude/projects/x/a.jsonl")
    transcript.parent.mkdir(parents=True)
    line = '{"type":"user","sessionId":"a","cwd":"%s","message":{"role":"user","content":"Hi"}}\n'
    transcript.write_text(line % project.root)
    for path in (project.root / "a", transcript):
        os.utime(path, ns=(at, at))
    for typed in (("save", "x"), ("status",), ("adopt", "--dry-run"), ("adopt", "--yes"), ("log",)):
        project.gitcp(*typed, check=0)
        project.gitcp(*typed, "--json")


def test_times_of_transcripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A time without a zone is in UTC, whatever zone the machine is in; what is no time is none."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        for text in ("1970-01-01T00:01:00.5", "1970-01-01T00:01:00.5Z", "1970-01-01T01:01:00.5+01"):
            assert clock.parsed(text) == 60.5
    finally:
        monkeypatch.undo()
        time.tzset()
    assert [clock.parsed(text) for text in ("", None, "yesterday", "0000-13-01")] == [None] * 4
