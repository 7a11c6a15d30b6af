"""Read from the output of test programs whether tests passed. Loaded only after a test command.

Passed needs a summary that says so. A failure is also seen by the lines that a runner prints only
on failure. Everything else is unknown: `pytest | tail -3` may show anything but a summary.
"""

from __future__ import annotations

import re

PASSED, FAILED, NOTHING = "passed", "failed", "nothing"

HIDDEN, LINE, END, ALL = -1, 0, 1, 2
"""How much of an output is known to be shown: nothing for sure, some lines, its end, everything."""

EXUNIT = (
    r"^ *(?:\d+ doctests?, )?(?:\d+ propert\w+, )?(?P<good>\d+) tests?, (?P<bad>\d+) failures?"
    r"(?P<list>[, (].*)?$"
)
MINITEST = (
    r"^(?P<good>\d+) (?:runs|tests), \d+ assertions, (?P<bad>\d+) failures, (?P<bad2>\d+) errors\b"
)
SUMMARIES: tuple[tuple[int, str], ...] = (
    # pytest; the list has "failed", "error" and others only if there are any
    (LINE, r"^=* ?(?P<list>\d+ [a-z][a-z0-9, ]*) in [\d.]+ ?s(?:econds)?(?: \([\d:]+\))?(?: =+)?$"),
    # unittest: `OK` alone does not tell whether there was a test
    (LINE, r"^Ran (?P<good>\d+) tests? in [\d.]+s\n\n*OK\b"),
    # jest and vitest: a file that does not load fails without a failed test
    (LINE, r"^Test Suites: +(?P<list>.*) total\nTests: +(?P<list2>.*) total$"),
    (END, r"^ *Test Files +(?P<list>.*)\n *Tests +(?P<list2>.*)$"),
    # mocha: the failing ones come after the passing ones, if there are any
    (END, r"^ *(?P<list>\d+ passing) \(.*\)$"),
    # node --test, tape
    (LINE, r"^[#ℹ] pass (?P<good>\d+)\n[#ℹ] fail (?P<bad>\d+)\n[#ℹ] cancelled (?P<bad2>\d+)$"),
    (LINE, r"^# pass +(?P<good>\d+)\n\n*# ok$"),
    # bun, deno, ava
    (LINE, r"^ *(?P<good>\d+) pass\n(?: *\d+ (?:skip|todo|filtered out)\n)* *(?P<bad>\d+) fail$"),
    (LINE, r"^(?:ok|FAILED) \| (?P<good>\d+) passed(?: \(.*?\))? \| (?P<bad>\d+) failed\b"),
    (ALL, r"^ *(?P<good>\d+) tests? passed$"),
    # playwright: the passed ones come last
    (ALL, r"^ +(?P<good>\d+) passed \([\d.]+m?[smh]\)$"),
    (END, r"(?<=\n\n) +(?P<good>\d+) passed \([\d.]+m?[smh]\)$"),
    (LINE, r"^Running (?P<good>\d+) tests? using [^\0]*?^ +(?P=good) passed \([\d.]+m?[smh]\)$"),
    (LINE, r"^ *\S? *All specs passed! +\S+ +(?P<good>\d+)\b"),
    (LINE, r"\bExecuted (?P<good>\d+) of (?P=good) SUCCESS\b"),
    # go test: one line for each package, and `FAIL` at the end
    (END, r"^ok  \t\S+\t(?:[\d.]+s|\(cached\))(?:\tcoverage: .*)?$"),
    (LINE, r"^DONE (?P<good>\d+) tests?(?:, (?P<list>.*))? in [\d.]+s$"),
    # cargo test: one line for each binary; nextest
    (END, r"^test result: \w+\. (?P<good>\d+) passed; (?P<bad>\d+) failed;"),
    (LINE, r"^ *Summary \[ *[\d.]+s\] (?P<run>\d+) tests? run: (?P<list>\d+ .*)$"),
    # rspec; bats, ExUnit; minitest
    (LINE, r"^(?P<good>\d+) examples?, (?P<bad>\d+) failures?(?P<list>, .*)?$"),
    (LINE, EXUNIT),
    (LINE, MINITEST),
    # phpunit, pest
    (LINE, r"^OK \((?P<good>\d+) tests?, \d+ assertions?\)$"),
    (LINE, r"^OK, but .*\nTests: (?P<good>\d+), Assertions: \d+"),
    (LINE, r"^ *Tests: +(?P<list>\d.*) \(\d+ assertions?\)$"),
    # dotnet: by project, or in all
    (ALL, r"^Passed! +- Failed: +(?P<bad>\d+), Passed: +(?P<good>\d+),"),
    (LINE, r"^Test summary: total: \d+, failed: (?P<bad>\d+), succeeded: (?P<good>\d+)\b"),
    (ALL, r"^Test Run Successful\.\nTotal tests: (?P<good>\d+)$"),
    # ctest, prove, meson, bazel, tox, nox
    (LINE, r"^100% tests passed, (?P<bad>\d+) tests? failed out of (?P<good>\d+)$"),
    (LINE, r"^Result: PASS$"),
    (END, r"^Ok: +(?P<good>\d+) *$"),
    (LINE, r"^Executed \d+ out of (?P<good>\d+) tests?: (?P=good) tests? pass(?:es)?\.$"),
    (LINE, r"^ *congratulations :\) \([\d.]+ seconds\)$"),
    (ALL, r"^nox > (?:\* )?\S+: success$"),
    # swift, xcodebuild, dart, sbt, zig
    (
        LINE,
        r"^[ \t]*Executed (?P<good>\d+) tests?, with (?:\d+ tests? skipped and )?(?P<bad>\d+) fail",
    ),
    (LINE, r"^\S+ Test run with (?P<good>\d+) tests?.* passed after [\d.]+ seconds\.$"),
    (LINE, r"^\*\* TEST SUCCEEDED \*\*"),
    (LINE, r"^(?:\d\d:\d\d \+(?P<good>\d+).*: )?All tests passed!$"),
    (ALL, r"^\[info\] Passed: Total (?P<good>\d+), Failed (?P<bad>\d+), Errors (?P<bad2>\d+)\b"),
    (LINE, r"^All (?P<good>\d+) tests passed\.$"),
)
"""How much of the output must be visible for a line to mean that everything passed, and its form.

Counts are in groups: `good` and `bad`, or a `list` as in "1 failed, 2 passed".
"""

FAILURES = (
    # of several runners
    r"^=+ (?:FAILURES|ERRORS) =+$",
    r"^(?:FAIL|FAILED|ERROR) +\S*[\w/\\]\.\w+(?:::|:| |$)",
    r"^ *FAIL +\S",
    r"^FAIL(?:\t|$)",
    r"^not ok \d+(?!.*# *(?:TODO|SKIP))",
    r"^Bail out!",
    # pytest, unittest
    r"^!+ (?:Interrupted|stopping).* !+$",
    r"^ERROR: (?:not found|file or directory not found|usage|Wrong expression)",
    r"^INTERNALERROR>",
    r"^FAILED \((?:failures|errors|unexpected successes|skipped|expected failures)=",
    # jest, vitest, mocha, node, bun, playwright, ava, karma, cypress
    r"^Test(?: Suites|s): .*\b[1-9]\d* failed\b",
    r"^ *(?:Test Files|Tests) +.*\b[1-9]\d* failed\b",
    r"^ *(?:Type )?Errors +[1-9]\d* errors?$",
    r"^ *[1-9]\d* (?:tests? )?(?:failing|failed|fail|interrupted|did not run|errors?)$",
    r"^ *[1-9]\d* (?:uncaught exceptions?|unhandled rejections?)$",
    r"^[#ℹ] (?:fail|cancelled) +[1-9]",
    r"^Jest: .*threshold .* not met",
    r"\bExecuted \d+ of \d+ [^\n]{0,80}\b[1-9]\d* FAILED",
    r"^ *\S? *[1-9]\d* of \d+ failed \(\d+%\)",
    # go, cargo
    r"^[ \t]*--- FAIL: ",
    r"^panic: ",
    r"^test result: FAILED\.",
    r"^ *Summary \[ *[\d.]+s\] \d+/\d+ tests? run: ",
    r"^error(?:\[E\d+\]|: (?:test failed|test run failed|\d+ targets? failed|could not compile))",
    # maven, gradle, xcodebuild, dotnet
    r"^(?:\[ERROR\] )?(?:\[INFO\] )?BUILD (?:FAILURE|FAILED)",
    r"\bTests run: \d+, Failures: (?:[1-9]|0, Errors: [1-9])",
    r"^> Task \S+ FAILED$",
    r"^\d+ tests? completed, [1-9]\d* failed",
    r"^\*\* (?:TEST|BUILD) FAILED \*\*",
    r"^Failed! +- Failed:",
    r"^Test Run (?:Failed|Aborted)\.",
    r"^Build FAILED\.",
    # rspec, bats, phpunit, ctest, prove, meson, bazel
    r"\b[1-9]\d* errors? occurred outside of examples",
    r"^bats warning: Executed \d+ instead of expected",
    r"^(?:FAILURES|ERRORS)!$",
    r"^Tests: \d+, Assertions: \d+.*\b(?:Errors|Failures): [1-9]",
    r"^\d+% tests passed, [1-9]\d* tests? failed out of",
    r"^Errors while running CTest",
    r"^Result: FAIL$",
    r"^(?:Fail|Timeout|Unexpected Pass): +[1-9]",
    r"^Executed \d+ out of \d+ tests?: .*\bfails?\b",
    # tox, nox, swift, dart, sbt
    r"^ *evaluation failed :\(",
    r"^nox > (?:\* \S+: failed|Session \S+ failed)",
    r"^\S+ Test run with .* failed after [\d.]+ seconds",
    r"^(?:\d\d:\d\d .*: )?Some tests failed\.$",
    r"^\[error\] (?:Failed tests:|Failed: Total )",
    r"^\[info\] \*\*\* [1-9]\d* TESTS? FAILED \*\*\*$",
    # a program of Node.js that ended with an exception
    r"^(?:\S )?[Ff]ail(?:ing|ed) tests:$",
    r"^SyntaxError: ",
    r"^Node\.js v\d+\.\d+\.\d+$",
    # what runs a runner
    r"^make(?:\[\d+\])?: \*\*\* ",
    r"^npm (?:ERR!|error) (?:Test failed|Lifecycle script|Missing script)",
    r"^(?:npm (?:ERR!|error)|error) .*\b[Cc]ommand failed",
    r"\bELIFECYCLE\b",
    r"^error: Recipe .* failed",
    r"^Script .* returned with error code [1-9]",
    # a runner that did not start
    r"^\S*python\S*: (?:No module named|can't open file) ",
    r"^(?:\S*/)?\w*sh: .*(?:not found|No such file or directory|Permission denied)",
    r"^(?:\S*/)?\w*sh: .*command not found: ",
    r"^error: (?:Failed to spawn|no such command|unrecognized subcommand)",
    r"^Error: (?:no test specified|Cannot find module)",
)
"""What runners print if and only if something failed."""

NO_TESTS = (
    r"^=* ?no tests (?:ran|collected)\b",
    r"^=* ?(?:\d+ (?:deselected|skipped|warnings?),? ?)+in [\d.]+s",
    r"^(?:NO TESTS RAN|No tests executed!)",
    r"^(?:Error: )?No tests? (?:files? )?found",
    r"^Ran 0 tests in ",
    r"^ok  \t.*\[no tests to run\]$",
    r"^\?  .*\[no test files\]$",
    r"^Result: NOTESTS$",
    r"^No tests (?:were found!!!|ran\.|to run\.)",
    r"^\[INFO\] (?:No tests to run\.|Tests are skipped\.)$",
    r"^> Task \S*:test (?:NO-SOURCE|SKIPPED)$",
    r"^1\.\.0\b",
)
BUILT = r"^(?:\[INFO\] )?BUILD SUCCESS(?:FUL in .*)?$"
"""How maven and gradle end, also without any test."""

BUILT_TESTS = r"\bTests run: [1-9]|^> Task \S*:test(?: UP-TO-DATE| FROM-CACHE)?$"
BAD_WORDS = frozenset(
    "failed failure failures fail error errors invalid timed interrupted exec".split()
)
GOOD_WORDS = frozenset("passed passing pass succeeded".split())
COUNT = re.compile(r"(\d+)\)? (?:subtests? )?([a-z]+)")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\].*?(?:\x07|\x1b\\)")
LABEL = re.compile(r"^(?:Output|Stdout|Stderr): (?=\S)", re.MULTILINE)
SPACE = re.compile(r"[ \t]+$", re.MULTILINE)
PLAN = re.compile(r"^1\.\.([1-9]\d*)$", re.MULTILINE)
POINT = re.compile(r"^(?:not )?ok \d+\b", re.MULTILINE)

CODE = re.compile(
    r"^\W?(?:(?:process|command) )?(?:exited with (?:exit )?code|exit status"
    r"|(?:shellid: \S+ completed with )?exit code)[ :=]+(-?\d+)",
    re.MULTILINE | re.IGNORECASE,
)
HEAD_LINES, TAIL_LINES = 4, 8


class TestOutput:
    """What an output says: whether a summary has failures (`failed`), whether a line of failures is
    in it (`signs`), how many summaries have only passed tests (`passed`), and whether a runner
    found `nothing` to run.
    """

    __slots__ = ("failed", "nothing", "passed", "signs")

    def __init__(self, text: str, visible: int) -> None:
        text = plain(text)
        self.failed = False
        self.passed = 0
        self.nothing = _has(NO_TESTS, text)
        for needed, pattern in SUMMARIES:
            results = [result(match) for match in re.finditer(pattern, text, re.MULTILINE)]
            self.failed = self.failed or FAILED in results
            self.nothing = self.nothing or NOTHING in results
            if visible >= needed:
                count = results.count(PASSED)
                self.passed += count if needed == LINE else min(count, 1)
        self.signs = _has(FAILURES, text)
        self.passed += _built(text, visible, self.nothing)
        self.passed += visible >= END and not self.signs and _is_whole_tap(text)


def plain(text: str) -> str:
    """Return an output without colors, carriage returns, trailing blanks and an agent's labels."""
    text = ESCAPE.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return LABEL.sub("", SPACE.sub("", text))


def exit_code(text: str) -> int | None:
    """Return the exit code that an agent wrote at the begin or the end of an output, None without
    one.
    """
    lines = text.strip().split("\n")
    match = CODE.search("\n".join(lines[:HEAD_LINES]))
    if match is None:
        match = next(reversed(list(CODE.finditer("\n".join(lines[-TAIL_LINES:])))), None)
    return int(match[1]) if match else None


def result(match: re.Match[str]) -> str:
    """Return what a summary says: `PASSED`, `FAILED`, or `NOTHING` where no test ran."""
    groups = {name: text for name, text in match.groupdict().items() if text is not None}
    numbers = {name: int(text) for name, text in groups.items() if text.isdigit()}
    counts = [
        (int(number), word)
        for name in ("list", "list2")
        for number, word in COUNT.findall(groups.get(name, ""))
    ]
    bad = numbers.get("bad", 0) + numbers.get("bad2", 0)
    if bad or any(number and word in BAD_WORDS for number, word in counts):
        return FAILED
    listed = [number for number, word in counts if word in GOOD_WORDS]
    if "good" in numbers:
        return PASSED if numbers["good"] else NOTHING
    return PASSED if sum(listed) or not groups else NOTHING


def _built(text: str, visible: int, nothing: bool) -> bool:
    """Return whether a build that runs the tests succeeded."""
    built = visible >= END and re.search(BUILT, text, re.MULTILINE)
    return bool(built) and (not nothing or _has((BUILT_TESTS,), text))


def _is_whole_tap(text: str) -> bool:
    """Return whether an output in the Test Anything Protocol has every point of its plan."""
    plans = PLAN.findall(text)
    return len(plans) == 1 and len(POINT.findall(text)) == int(plans[0])


def _has(patterns: tuple[str, ...], text: str) -> bool:
    return any(re.search(pattern, text, re.MULTILINE) for pattern in patterns)
