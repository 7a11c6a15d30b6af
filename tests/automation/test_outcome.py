"""What is known of tests that ran: passed on evidence only, failed, or unknown. The outputs are
those of the programs themselves.
"""

from __future__ import annotations

import time

import pytest

from gitcp.policy import outcome
from gitcp.policy.events import EventCall
from gitcp.policy.settings import Settings

WORDS = {True: "failed", False: "passed", None: "unknown"}


def told(command: object, output: object, *, failed: bool = False, **given: object) -> str:
    """What is known of a test command with this output."""
    call = EventCall({"tool": "Bash", "args": {"command": command, **given}}, failed=failed)
    call.output = output
    assert outcome.is_test(call, Settings())
    return WORDS[outcome.failed(call, Settings())]


JEST = "Test Suites: 1 passed, 1 total\nTests:       2 passed, 2 total\nSnapshots:   0 total\n"
JEST_FAILED = "Test Suites: 1 failed, 1 of 2 total\nTests:       2 passed, 2 total\n"
VITEST = "\x1b[2m Test Files \x1b[22m \x1b[32m1 passed\x1b[39m (1)\n      Tests  2 passed (2)\n"
NODE = "# tests 2\n# suites 0\n# pass {}\n# fail {}\n# cancelled 0\n# skipped 0\n# todo 0\n"
CARGO = "test result: ok. {} passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n"
SUREFIRE = "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0\n"
DOTNET = "Passed!  - Failed:     0, Passed:     3, Skipped:     0, Total:     3 - x.dll\n"
XUNIT = "Failed!  - Failed:     1, Passed:     2, Skipped:     0, Total:     3 - x.dll\n"


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("python -m pytest -q 2>&1 | tail -3", "..   [100%]\n2 passed in 0.05s"),
        ("pytest", "====== 2 passed, 1 warning in 61.10s (0:01:01) ======"),
        ("pytest -q | tail -1", "3 passed, 1 skipped, 2 xfailed, 4 subtests passed in 0.05s"),
        ("python -m unittest 2>&1 | tail", "Ran 2 tests in 0.001s\n\nOK\n"),
        ("python manage.py test | cat", "Ran 2 tests in 0.001s\n\nOK (skipped=1)\nDestroying\n"),
        ("npx jest 2>&1 | tail -5", JEST),
        ("npm test 2>&1 | tail -5", JEST),
        ("npx vitest run | tail -5", VITEST),
        ("npx mocha | tail", "  2 passing (4ms)\n\n"),
        ("node --test | tail -8", NODE.format(2, 0)),
        ("node --test | tail -8", NODE.format(2, 0).replace("#", "ℹ")),
        ("npx tape t.js | tail -5", "# tests 2\n# pass  2\n\n# ok\n"),
        ("bun test | tail -4", " 3 pass\n 1 skip\n 0 fail\nRan 3 tests across 1 files. [9.00ms]"),
        ("deno test | tail -1", "ok | 3 passed | 0 failed (12ms)"),
        ("npx ava", "  ✔ a\n  ─\n\n  2 tests passed\n"),
        ("npx playwright test", "Running 2 tests using 1 worker\n  ✓  1 a\n\n  2 passed (3.7s)\n"),
        ("npx playwright test | tail -3", "  ✓  2 a.spec.js › b (1ms)\n\n  2 passed (3.7s)"),
        ("go test ./... | tail -3", "?   \tx/a\t[no test files]\nok  \tx/b\t0.004s"),
        ("go test ./...", "ok  \tx/a\t(cached)\nok  \tx/b\t0.1s\tcoverage: 50.0% of statements\n"),
        ("gotestsum", "DONE 3 tests, 1 skipped in 0.105s\n"),
        ("cargo test 2>&1 | tail -30", CARGO.format(2) + "   Doc-tests x\n\n" + CARGO.format(0)),
        ("cargo nextest run | tail -1", "     Summary [   0.02s] 3 tests run: 3 passed, 0 skipped"),
        ("mvn -B test | tail", SUREFIRE + "[INFO] ----\n[INFO] BUILD SUCCESS\n[INFO] ----"),
        ("./gradlew test | tail -3", "BUILD SUCCESSFUL in 4s\n3 actionable tasks: 3 executed"),
        (
            "bundle exec rspec | tail -2",
            "Finished in 0.01 seconds\n3 examples, 0 failures, 1 pending",
        ),
        ("vendor/bin/phpunit | tail -2", "\nOK (3 tests, 5 assertions)"),
        ("phpunit", "OK, but some tests were skipped!\nTests: 3, Assertions: 2, Skipped: 1.\n"),
        ("./vendor/bin/pest", "  Tests:    3 passed (5 assertions)\n  Duration: 0.10s\n"),
        ("dotnet test", DOTNET),
        (
            "dotnet test",
            "Test summary: total: 3, failed: 0, succeeded: 3, skipped: 0, duration: 1s",
        ),
        (
            "ctest | tail",
            "100% tests passed, 0 tests failed out of 2\n\nTotal Test time = 0.01 sec",
        ),
        ("bats .", "1..2\nok 1 a\nok 2 b # skip\n"),
        ("bats --pretty .", "\n2 tests, 0 failures, 1 skipped\n\n"),
        ("prove -l t | tail -1", "Result: PASS"),
        ("mix test | tail", "Finished in 0.04 seconds\n1 doctest, 3 tests, 0 failures\n"),
        ("rails test", "3 runs, 4 assertions, 0 failures, 0 errors, 0 skips\n"),
        ("make test | tail -2", "2 passed in 0.05s"),
        ("tox | tail -2", "  py312: OK (1.2 seconds)\n  congratulations :) (1.3 seconds)"),
        ("swift test", "Executed 3 tests, with 0 failures (0 unexpected) in 0.1 (0.1) seconds"),
        ("bazel test //... | tail -1", "Executed 1 out of 2 tests: 2 tests pass."),
        ("pytest", "Output: 2 passed in 0.05s"),
    ],
)
def test_passed_by_a_summary(command: str, output: str) -> None:
    """The summary of a runner that has passed tests and no failed ones is evidence."""
    assert told(command, output) == "passed"


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("pytest -q 2>&1 | tail -3", "=== short test summary info ===\n1 error in 0.05s"),
        ("pytest -q 2>&1 | tail -3", "FAILED tests/t.py::test_x - assert 1 == 2"),
        ("pytest -q 2>&1 | grep FAILED", "FAILED tests/t.py::x"),
        ("pytest -q 2>&1 | tail -3", "ERROR tests/t.py - ModuleNotFoundError: No module named 'x'"),
        ("pytest -q 2>&1 | tail -1", "1 failed, 2 passed in 0.05s"),
        ("python -m pytest -q | tail -3", "/usr/bin/python: No module named pytest"),
        ("pytest -q | tail -3", "bash: line 1: pytest: command not found"),
        ("pytest nowhere | tail -3", "no tests ran in 0.0s\nERROR: file or directory not found: n"),
        ("python -m unittest 2>&1 | tail -1", "FAILED (failures=1, errors=1)"),
        ("npx jest 2>&1 | tail -5", JEST_FAILED),
        ("npx jest | head -1", "FAIL ./a.test.js"),
        ("npx vitest run | tail -8", VITEST + "     Errors  1 error\n"),
        ("npx mocha | tail -20", "  1 passing (4ms)\n  1 failing\n\n  1) b:\n"),
        ("node --test | tail -8", NODE.format(1, 1)),
        ("npx playwright test | tail -4", "  1 failed\n    a.spec.js:2:18 › b ──\n  1 passed (4s)"),
        ("npx ava | tail -2", "  ─\n\n  1 test failed"),
        ("go test ./... | tail -3", "FAIL\tx/a\t0.1s\nok  \tx/b\t0.1s\nFAIL"),
        ("go test ./... | tail -3", "FAIL\tx/a [build failed]\nok  \tx/b\t0.1s\nFAIL"),
        ("cargo test | tail -4", "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured"),
        ("cargo test 2>&1 | tail -1", "error: could not compile `x` (lib test) due to 1 error"),
        ("cargo nextest run | tail -1", "  Summary [ 0.02s] 2/9 tests run: 1 passed, 1 failed"),
        ("mvn test | tail", SUREFIRE + "[INFO] BUILD FAILURE\n"),
        ("mvn test | grep run:", "[ERROR] Tests run: 3, Failures: 0, Errors: 1, Skipped: 0"),
        ("gradle test | tail", "> Task :test FAILED\n\nBUILD FAILED in 3s\n"),
        ("rspec | tail -1", "0 examples, 0 failures, 1 error occurred outside of examples"),
        ("phpunit | tail -3", "FAILURES!\nTests: 3, Assertions: 3, Failures: 1."),
        ("dotnet test | tail -3", XUNIT + DOTNET),
        ("ctest | tail -6", "50% tests passed, 1 tests failed out of 2\n"),
        ("bats . | tail -3", "1..2\nok 1 a\nnot ok 2 b\n"),
        ("prove | tail -1", "Result: FAIL"),
        ("mix test | tail -1", "3 tests, 0 failures, 1 invalid"),
        ("rails test | tail -1", "3 runs, 4 assertions, 0 failures, 1 errors, 0 skips"),
        ("make test | tail -2", "2 passed in 0.05s\nmake: *** [Makefile:3: test] Error 1"),
        ("npm test | tail -2", 'npm error Missing script: "test"'),
        ("pytest -q; echo done", "1 failed in 0.05s\ndone"),
        ("npm test", "Exit code: 0\n" + JEST_FAILED),
    ],
)
def test_failed_by_what_was_printed(command: str, output: str) -> None:
    """A failure is seen whatever the exit code is: that of a pipe is its last command's."""
    assert told(command, output) == "failed"
    assert told(command, f"Exit code: 0\nOutput:\n{output}\n") == "failed" or "|" not in command


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("pytest -q 2>&1 | tail -3", ""),
        ("pytest -q 2>&1 | tail -3", "\nno tests ran in 0.05s"),
        ("pytest -q 2>&1 | tail -3", "Exit code: 0\nno tests ran in 0.05s"),
        ("pytest -q", "Exit code: 0\n\n3 deselected in 0.05s"),
        ("pytest -qq | tail -3", "..F   [100%]"),
        ("pytest -q | head -3", "tests/t.py::test_a PASSED"),
        ("pytest -q || true", "Exit code: 0\n"),
        ("pytest -q; echo exit code: $?", "exit code: 0"),
        ("test -e done || pytest -q", "Exit code: 0\n"),
        ("true || (cd x && pytest -q)", "Exit code: 0\n"),
        ("pytest -q &", "Exit code: 0\n"),
        ("! pytest -q", "Exit code: 0\n"),
        ("if pytest -q; then echo ok; fi", "Exit code: 0\nok"),
        ("python -m unittest | tail -1", "OK"),
        ("python -m unittest", "Exit code: 0\nRan 0 tests in 0.000s\n\nOK"),
        ("npx jest | grep Tests:", "Tests:       2 passed, 2 total"),
        ("npx vitest run | grep pass", VITEST),
        ("npx mocha | head -3", "  2 passing (4ms)"),
        ("npx playwright test | tail -1", "  1 passed (4.7s)"),
        ("go test ./... | grep ok", "ok  \tx/b\t0.1s"),
        ("go test ./...", "?   \tx/a\t[no test files]"),
        ("cargo test | tail -3", CARGO.format(0)),
        ("cargo test | grep 'ok.'", CARGO.format(2)),
        ("mvn test | tail", "[INFO] No tests to run.\n[INFO] BUILD SUCCESS"),
        ("mvn install -DskipTests && mvn test -DskipTests", "Exit code: 0\nBUILD SUCCESS"),
        ("gradle test", "> Task :test NO-SOURCE\n\nBUILD SUCCESSFUL in 1s"),
        ("dotnet test | tail -1", DOTNET),
        ("ctest", "No tests were found!!!"),
        ("prove -v | tail -2", "1..2\nok 2 - b"),
        ("make test | grep passed", "2 passed in 0.05s"),
        ("pytest -q | tail -1; npm test | tail -1", "2 passed in 0.05s"),
        ("pytest --collect-only -q", "Exit code: 0\n3 tests collected in 0.01s"),
        ("pytest --version", "Exit code: 0\npytest 9.0.1"),
        ("make && make test", "Exit code: 2\ncc: error"),
        ("pytest -q && ./deploy", "Exit code: 1\nno route to host"),
        ("timeout 9 bash -c 'pytest -q | tail -3'", "Exit code: 0\n"),
        (["bash", "-lc", "pytest -q | tail -3"], "Exit code: 0\n"),
    ],
)
def test_unknown(command: object, output: str) -> None:
    """Without evidence nothing is known: neither an empty output nor another command's exit code
    is one.
    """
    assert told(command, output) == "unknown"


@pytest.mark.parametrize(
    ("command", "success", "failure"),
    [
        ("./run-tests.sh", "passed", "failed"),
        ("cd x && FOO=1 make check 2>&1", "passed", "failed"),
        ("(cd x && make check)", "passed", "failed"),
        ("cd x || exit 1; make check", "passed", "failed"),
        ("ls; make check", "passed", "failed"),
        ("make check\n", "passed", "failed"),
        ("time make check", "passed", "failed"),
        ("bash -lc 'make check'", "passed", "failed"),
        ("set -o pipefail; make check | tail -3", "passed", "failed"),
        ("bash -o pipefail -c 'make check | tee log'", "passed", "failed"),
        ("make check && git commit -m x", "passed", "unknown"),
        ("make && make check", "passed", "unknown"),
        ("make check | tail -3", "unknown", "unknown"),
        ("make check; echo", "unknown", "unknown"),
        ("make check || make check", "unknown", "unknown"),
        ("docker exec c sh -c 'make check | tail'", "unknown", "unknown"),
    ],
)
def test_exit_codes(command: str, success: str, failure: str) -> None:
    """The exit code counts where it is that of the tests."""
    for output in ("Exit code: {}\nOutput:\nx\n", "x\n<exited with exit code {}>"):
        assert told(command, output.format(0)) == success
        assert told(command, output.format(1)) == failure
    assert told(command, {"output": "x", "metadata": {"exit": 1}}) == failure
    assert told(command, "x", failed=True) == failure


@pytest.mark.parametrize(
    "text", ["\n", "1 a, ", "Executed 1 of 1 ", "ok 1\n", " \n\t", "Tests: 1 "]
)
def test_long_outputs(text: str) -> None:
    """Reading any output takes a moment: a hook waits for it."""
    start = time.process_time()
    told("pytest | tail", text * (outcome.TAIL // len(text)))
    assert time.process_time() - start < 3


def test_no_run() -> None:
    """A command that did not run, or runs in the background, has no result."""
    rejected = "The user doesn't want to proceed with this tool use. The tool use was rejected"
    assert told("pytest", rejected, failed=True) == "unknown"
    assert told("pytest", "Exit code: 0\nstarted", run_in_background=True) == "unknown"
    assert told("pytest", "Traceback", failed=True) == "failed"
