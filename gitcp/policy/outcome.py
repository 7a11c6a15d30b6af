"""Detect whether a tool call ran tests, and whether they failed."""

from __future__ import annotations

from gitcp.policy import patterns, risk, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from gitcp.policy.events import EventCall
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
    run-tests*, test.sh, tests.sh, node --test, prove, tape, tap, coverage run -m pytest*, coverage
    run -m unittest*, php* artisan test, stack test, cabal test, lein test, nx *test*, turbo *test*,
    ng test
    """.replace("\n", " ").split(",")
)
"""The built-in test commands, as patterns (gitcp.policy.patterns)."""

LISTING = tuple(
    line.strip()
    for line in """
    * --version, * --help, pytest -h, * --collect-only, * --co, * --fixtures, * --setup-plan,
    * --listTests, * --list, * --list-tests, cargo nextest list, go -list, * --no-run, ctest -N,
    * --show-only, make -n, * --dry-run, * -DskipTests*, * -Dmaven.test.skip*, gradle* -x test
    """.replace("\n", " ").split(",")
)
"""Test commands that run no tests."""

CODES = ("exit_code", "exitCode", "exit", "returncode", "code", "status")
NOT_RUN = (
    *("doesn't want to proceed", "interrupted by user", "haven't granted", "requires approval"),
    *("rejected", "denied", "aborted", "cancelled", "blocked"),
)
"""How agents say, first of all, that a command did not run, in lower case."""

BACKGROUND = ("run_in_background", "is_background", "background")

HARMLESS = frozenset(
    "cd pushd export source . set mkdir true : pwd echo printf unset ulimit".split()
)
"""Programs before tests that are not the reason why `PROGRAM && TESTS` fails."""

WRAPPERS = frozenset(
    "make just npm yarn pnpm bun tox nox ninja task composer rake turbo nx".split()
)
"""Programs that may run more than one runner, so that one summary is not all."""

SHOWING = frozenset("tee cat echo printf true : exit sleep date pwd cd".split())
"""Programs after tests that hide nothing of their output."""

PIPES = frozenset(("|", "|&"))
DEEPEST = 4
TAIL = 20_000


def is_failed_test(call: EventCall, settings: Settings) -> bool:
    """Return whether it was a test command that failed."""
    return is_test(call, settings) and failed(call, settings) is True


def is_test(call: EventCall, settings: Settings) -> bool:
    """Return whether the command runs tests."""
    return any(_runs_tests(command, settings) for command in risk.in_shell(call))


def failed(call: EventCall, settings: Settings) -> bool | None:
    """Return whether the tests of a test command failed: None if that is unknown.

    The exit code counts if it is that of the tests: `pytest | tail` and `pytest; true` have that of
    the last command. Passed takes evidence: that exit code, or the summary of a known runner.
    """
    from gitcp.policy import test_output  # regular expressions: not for each hook

    tests = _Tests(call, settings)
    text = "\n".join(_texts(call.output, 0))[-TAIL:]
    if tests.listed or any(call.input.get(name) is True for name in BACKGROUND):
        return None
    code = exit_code(call.output)
    if code is None and has_error(call):
        if any(words in text[:300].lower() for words in NOT_RUN):
            return None
        code = 1
    output = test_output.TestOutput(text, tests.visible)
    if code == 0 and tests.decide_success:
        return output.failed or (None if output.nothing and not output.passed else False)
    if code and tests.decide_failure:
        return True
    if output.failed or output.signs:
        return True
    return False if output.passed >= tests.count else None


def has_error(call: EventCall) -> bool:
    """Return whether the agent says that the call failed."""
    output = call.output if isinstance(call.output, dict) else {}
    return bool(call.failed or output.get("is_error") or output.get("resultType") == "failure")


def exit_code(output: object) -> int | None:
    """Return the exit code in a tool's output: a field, or a number in the text; None if there is
    none.
    """
    from gitcp.policy import test_output

    if isinstance(output, dict):
        code = next((output[n] for n in CODES if type(output.get(n)) is int), None)
        inner = output.get("metadata")
        if isinstance(code, int):
            return code
        if isinstance(inner, dict):
            return exit_code(inner)
    return test_output.exit_code("\n".join(_texts(output, 0)))


class _Tests:
    """What a command line says of the tests in it.

    `count` is the number of test commands, and `listed` whether one of them runs no tests. If the
    exit code is 0, the tests passed if they `decide_success`; if it is another, they failed if they
    `decide_failure`. `visible` is how much of their output is shown (gitcp.policy.test_output).
    """

    def __init__(self, call: EventCall, settings: Settings) -> None:
        parts = _parts(call)
        runs = [[c for c in part.runs() if _runs_tests(c, settings)] for part in parts]
        at = [number for number, tests in enumerate(runs) if tests]
        self.count = len(at)
        tests = [test for part_tests in runs for test in part_tests]
        self.listed = any(patterns.matches(test, option) for test in tests for option in LISTING)
        first, last = (at[0], at[-1]) if at else (0, len(parts) - 1)
        # `pytest -q | tail -3` ended with 0 whatever pytest said, and counted as passed.
        piped = any("pipefail" in part.words for part in parts[:first])
        after = {operator for part in parts[first:-1] for operator in part.after}
        final = set(parts[-1].after) if parts else set()
        self.decide_success = (
            not any(part.is_structure() for part in parts)
            and after <= {"&&", "(", ")", *(PIPES if piped else ())}
            and final.isdisjoint({"&", "||", *PIPES})
            and not _is_alternative(parts[:first])
        )
        programs = {part.program for part in parts[last + 1 :]}
        self.decide_failure = (
            self.decide_success
            and {operator for part in parts[last:-1] for operator in part.after} <= PIPES
            and programs <= {"tail", "head", *SHOWING}
            and all("&&" not in part.after or part.program in HARMLESS for part in parts[:first])
        )
        self.visible = _visible(programs, wrapped=any(test.program in WRAPPERS for test in tests))


def _is_alternative(before: list[shell.ShellCommand]) -> bool:
    """Return whether the command after these may not run though the whole succeeds."""
    for part in reversed(before):
        if "||" in part.after:
            return True
        if "&&" not in part.after:
            return False
    return False


def _parts(call: EventCall) -> list[shell.ShellCommand]:
    """Return the commands of a command line in order, with those of scripts given to a shell in
    their places.
    """
    words = call.input.get("command")
    if isinstance(words, list):
        return _flat([shell.ShellCommand([word for word in words if isinstance(word, str)])], 0)
    return _flat(shell.sequence(call.text("command", "cmd", "script")), 0)


def _flat(parts: list[shell.ShellCommand], depth: int) -> list[shell.ShellCommand]:
    flat = []
    for part in parts:
        script = next(filter(None, (command.script() for command in part.runs())), "")
        inner = _flat(shell.sequence(script), depth + 1) if script and depth < DEEPEST else []
        if inner and "pipefail" in part.words:
            flat.append(shell.ShellCommand(["set", "-o", "pipefail"]))
        flat += inner or [part]
        if inner:
            flat[-1].after += part.after
    return flat


def _runs_tests(command: shell.ShellCommand, settings: Settings) -> bool:
    return patterns.applies(command, COMMANDS, settings.tests)


def _visible(after: set[str], *, wrapped: bool) -> int:
    """Return how much of the output is shown, where these programs come after the tests."""
    from gitcp.policy.test_output import ALL, END, HIDDEN, LINE

    hiding = after - SHOWING
    if hiding <= {"tail"}:
        return END if hiding else ALL
    return HIDDEN if wrapped else LINE


def _texts(value: object, depth: int) -> Iterator[str]:
    """Yield every text in a value, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list) and depth < DEEPEST:
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each, depth + 1)
