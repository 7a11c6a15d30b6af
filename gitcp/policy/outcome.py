"""Detect whether a tool call ran tests, and whether they failed."""

from __future__ import annotations

from gitcp.policy import patterns, risk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from gitcp.policy.events import Call
    from gitcp.policy.settings import Settings

COMMANDS = tuple(
    line.strip()
    for line in """
    pytest, py.test, python* -m pytest*, python* -m unittest*, python* *manage.py test, tox, nox,
    npm test, npm t, npm run *test*, npm run *check*, yarn *test*, pnpm *test*, bun *test*, bun
    test, deno test, jest, vitest, mocha, ava, playwright test, cypress run, karma start, go test,
    gotestsum, cargo test, cargo nextest, make *test*, make *check*, just *test*, just *check*, mvn
    *test*, mvn *verify*, mvnw *test*, mvnw *verify*, gradle *test*, gradle *check*, gradlew *test*,
    gradlew *check*, rspec, rake test*, rake spec*, rails test*, phpunit, pest, composer test,
    dotnet test, ctest, meson test, ninja *test*, bazel test, sbt *test*, mix test, swift test, zig
    build test, bats, flutter test, dart test, xcodebuild test, hatch test, runtests*, run_tests*,
    run-tests*, test.sh, tests.sh
    """.replace("\n", " ").split(",")
)
"""The built-in test commands, as patterns (gitcp.policy.patterns)."""

CODES = ("exit_code", "exitCode", "exit", "returncode", "code", "status")
CODE_WORDS = ("exit code", "exited with code", "exited with exit code", "exit status")
FAILED = (
    " failed in ",
    " failed, ",
    "=== failures ===",
    "=== errors ===",
    "failed (failures=",
    "failed (errors=",
    "test result: failed",
    "tests failed",
    "test failed",
    "failing tests",
    "\nfail\t",
    "--- fail:",
    "failures!",
    "build failure",
    "tests: fail",
    " failing\n",
)
"""Output of test programs on failure, in lower case."""

DEEPEST = 4
TAIL = 20_000


def is_failed_test(call: Call, settings: Settings) -> bool:
    """Return whether it was a test command that failed."""
    return is_test(call, settings) and has_failed(call)


def is_test(call: Call, settings: Settings) -> bool:
    """Return whether the command runs tests."""
    return any(
        patterns.applies(command, COMMANDS, settings.tests) for command in risk.in_shell(call)
    )


def has_failed(call: Call) -> bool:
    """Return whether tests failed: by the exit code if the agent reports it, else by the output."""
    code = exit_code(call.output)
    if call.failed or code is not None:
        return call.failed or code != 0
    if isinstance(call.output, dict) and (
        call.output.get("is_error") or call.output.get("resultType") == "failure"
    ):
        return True
    text = "\n".join(_texts(call.output, 0))[-TAIL:].lower() + "\n"
    return any(sign in text for sign in FAILED)


def exit_code(output: object) -> int | None:
    """Return the exit code in a tool's output: a field, or a number in the text; None if there is
    none.
    """
    if isinstance(output, dict):
        code = next((output[n] for n in CODES if type(output.get(n)) is int), None)
        inner = output.get("metadata")
        if isinstance(code, int) or not isinstance(inner, dict):
            return code if isinstance(code, int) else _code_in_text("\n".join(_texts(output, 0)))
        return exit_code(inner)
    return _code_in_text("\n".join(_texts(output, 0)))


def _code_in_text(text: str) -> int | None:
    """Return the number after the last `exit code` or similar, near the start or end of a text."""
    ends = (text[:400] + "\n" + text[-400:]).lower()
    for words in CODE_WORDS:
        _, separator, rest = ends.rpartition(words)
        digits = rest.lstrip(" :=")[:4] if separator else ""
        number = digits[: len(digits) - len(digits.lstrip("0123456789"))]
        if number:
            return int(number)
    return None


def _texts(value: object, depth: int) -> Iterator[str]:
    """Yield every text in a value, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list) and depth < DEEPEST:
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each, depth + 1)
