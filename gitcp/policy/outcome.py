"""Whether a tool ran the tests, and whether they failed."""

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
"""The built-in list. gitcp.policy.patterns says how one is read."""

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
"""What test programs print when something failed, in small letters."""

DEEPEST = 4
TAIL = 20_000


def is_failed_test(call: Call, settings: Settings) -> bool:
    """Whether it was a test command, and it failed."""
    return is_test(call, settings) and has_failed(call)


def is_test(call: Call, settings: Settings) -> bool:
    """Whether the command runs tests."""
    return any(patterns.meant(command, COMMANDS, settings.tests) for command in risk.in_shell(call))


def has_failed(call: Call) -> bool:
    """Whether tests failed. An agent that tells no exit code is known by the output."""
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
    """The exit code in what a tool gave back: a field of that name, or said in words; None where it
    says none.
    """
    if isinstance(output, dict):
        found = next((output[n] for n in CODES if type(output.get(n)) is int), None)
        inner = output.get("metadata")
        if isinstance(found, int) or not isinstance(inner, dict):
            return found if isinstance(found, int) else _said("\n".join(_texts(output, 0)))
        return exit_code(inner)
    return _said("\n".join(_texts(output, 0)))


def _said(text: str) -> int | None:
    """The number after the last `exit code` and the like, near the beginning or the end of a
    text.
    """
    ends = (text[:400] + "\n" + text[-400:]).lower()
    for words in CODE_WORDS:
        _, found, rest = ends.rpartition(words)
        digits = rest.lstrip(" :=")[:4] if found else ""
        number = digits[: len(digits) - len(digits.lstrip("0123456789"))]
        if number:
            return int(number)
    return None


def _texts(value: object, depth: int) -> Iterator[str]:
    """Every text in a value, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list) and depth < DEEPEST:
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each, depth + 1)
