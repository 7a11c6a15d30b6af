"""The frameworks' own test suites, with gitcp in the place of their storage.

The table in docs/frameworks.md is what a run of whole suites got (SUITES=whole); UPDATE_DOCS=1
writes it.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from suites import (
    HERE,
    PREFIX,
    SAMPLE,
    SUITES,
    WHOLE,
    WITHOUT_TESTS,
    Outcome,
    Suite,
    packages,
)

from driver import SOURCE

pytestmark = pytest.mark.full

PAGE = SOURCE / "docs/frameworks.md"
UPDATE = bool(os.environ.get("UPDATE_DOCS"))
ROWS = re.compile(r"(?m)^\| (?P<name>[^|]+) \| `(?P<package>[\w-]+) (?P<version>[\w.]+)` \|.*\n")


def run(suite: Suite, scratch: Path) -> Outcome:
    """Run a suite in a process of its own."""
    report = scratch / "report.xml"
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (suite.root, HERE, SOURCE, packages()))),
        "TMPDIR": str(scratch),
        "NO_DOCKER": "true",
        SAMPLE: "1" if WHOLE else str(suite.sample),
    }
    options = ["-q", "-p", suite.plugin, "-p", "no:cacheprovider", "--tb=short"]
    options += ["-o", "addopts=", "-o", "pythonpath=", f"--rootdir={suite.root}"]
    options += ["-n", "0", f"--junitxml={report}", *suite.paths]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", *options],
        cwd=suite.root,
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stdout[-4000:] + done.stderr[-4000:]
    if done.returncode:
        sys.stdout.write(done.stdout[-20_000:])
    return _outcome(report)


def _outcome(report: Path) -> Outcome:
    cases = [case for case in ET.parse(report).iter("testcase") if case.get("classname")]
    failed = tuple(
        f"{case.get('classname')}::{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    )
    found = [case.find("skipped") for case in cases]
    reasons = Counter(each.get("message") or "" for each in found if each is not None)
    return Outcome(len(cases) - reasons.total(), failed, reasons)


def row(suite: Suite, outcome: Outcome) -> str:
    """The row of the table."""
    passed = outcome.run - len(outcome.failed)
    return (
        f"| {suite.name} | `{suite.package} {suite.version}` | {outcome.run:,} | {passed:,} |"
        f" {sum(outcome.skipped.values()) or ''} |\n"
    )


def written() -> Iterator[re.Match[str]]:
    """The rows of the table in the page."""
    return ROWS.finditer(PAGE.read_text("utf-8"))


def write(suite: Suite, line: str) -> None:
    """Replace the row of a suite. Other suites may be doing the same."""
    with PAGE.open("r+", encoding="utf-8") as page:
        fcntl.flock(page, fcntl.LOCK_EX)
        text = page.read()
        [found] = [each for each in ROWS.finditer(text) if each["package"] == suite.package]
        page.seek(0)
        page.write(text[: found.start()] + line + text[found.end() :])
        page.truncate()


@pytest.mark.parametrize("suite", SUITES, ids=[suite.package for suite in SUITES])
def test_suite(suite: Suite, tmp_path: Path) -> None:
    """Every test that is run passes, and the table says what was run and what was not."""
    if not suite.root.exists() or not packages().exists():
        pytest.skip(f"no {suite.root.name} in {PREFIX}: python tests/frameworks/suites.py")

    outcome = run(suite, tmp_path)

    assert outcome.failed == ()
    if suite.sample > 1 and not WHOLE:
        assert outcome.run > 200
        return
    line = row(suite, outcome)
    if UPDATE:
        write(suite, line)
    assert [each[0] for each in written() if each["package"] == suite.package] == [line]


def test_table() -> None:
    """The table has a row for each framework, with the installed version."""
    expected = {suite.package: suite.version for suite in SUITES}
    expected |= {package: version(package) for package in WITHOUT_TESTS}

    assert {each["package"]: each["version"] for each in written()} == expected
