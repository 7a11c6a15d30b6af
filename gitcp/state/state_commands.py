"""The commands by which the user saves and restores a state outside the files, such as a database:
git config `gitcp.state.NAME.save`, `.restore`, `.when`, `.timeout` and `.maxSize`.

They are followed where the user's own configuration sets them. An archive can bring the
configuration of a repository, so commands in that are run only after the user allowed them, once
for each repository (gitcp.git.records). No checkpoint has a command, nor has `.gitcp.toml`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from gitcp import wire
from gitcp.errors import BadValue, GitcpError
from gitcp.git import process, records
from gitcp.git.repo import Repository
from gitcp.model import Trigger
from gitcp.state import masking, settings
from gitcp.value import Value

if TYPE_CHECKING:
    from subprocess import Popen

PREFIX = "gitcp.state."
NAME = "state-commands"
"""The record of the commands that the user allowed."""

TIMEOUT = 60
LARGEST = 1 << 30
MANUAL, RISKY, NEVER = Trigger.MANUAL.value, Trigger.BEFORE_RISKY_CHANGE.value, "never"
LIMITS = ("when", "timeout", "maxSize")
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
POLL = 0.02
LONGEST_WAIT = 0.2
IN_PIPE = 1 << 20
"""Bytes: the most that a pipe holds."""

SAID, MOST_SAID = 4096, 1 << 20
"""Bytes at the end of what a command says that are looked at, and after which the rest is cut."""

LINES = 3
"""Lines at the end of what a command says that are shown."""

GUARD = 'read -r group && { read -r end || kill -s KILL -- "-$group"; }'
"""A shell script that kills a process group when its standard input is closed without a word."""

LEFT_WRITING = "a process that its command left running was still writing it"
UNSAID = (
    "its command is set in this repository's own configuration, which may be a stranger's, and "
    "was not run"
)
ALLOW = "gitcp save --state"
"""Asks for the commands that this repository's own configuration sets, and runs them."""


class StateCommand(Value):
    """How the user saves and restores a state: shell commands, "" for none.

    `when` are the saves that it is a part of, `timeout` the seconds that `save` may take, `largest`
    the bytes that it may write. `refused` is why no command is run, "" if they are; `allowable` if
    that is for want of the user's word alone.
    """

    name: str
    save: str = ""
    restore: str = ""
    when: tuple[str, ...] = (MANUAL,)
    timeout: int = TIMEOUT
    largest: int = LARGEST
    refused: str = ""
    allowable: bool = False

    @property
    def is_named_well(self) -> bool:
        """Whether a checkpoint can have a state of this name."""
        return wire.STATE.fullmatch(self.name) is not None

    @property
    def digest(self) -> str:
        """What the user allows: these commands under this name, with these limits."""
        text = "\0".join((self.name, self.save, self.restore, *self.limits))
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()

    @property
    def limits(self) -> tuple[str, ...]:
        """The settings beside the commands that are not the default, in words."""
        when = ", ".join(self.when) or NEVER
        return (
            *([f"when: {when}"] if when != MANUAL else []),
            *([f"timeout: {self.timeout:,} seconds"] if self.timeout != TIMEOUT else []),
            *([f"maxSize: {self.largest:,} bytes"] if self.largest != LARGEST else []),
        )

    @property
    def id(self) -> str:
        """What names these commands to the user: other commands have another ID."""
        return self.digest[:12]

    def is_due(self, trigger: Trigger, *, tagged: bool = False) -> bool:
        """Return whether a save has this state: a tag makes every save a milestone."""
        return trigger.value in self.when or (tagged and MANUAL in self.when)


def listing(repo: Repository) -> tuple[StateCommand, ...]:
    """Return what is configured, by name. A mistake in it is the reason why it is not run."""
    given: dict[str, dict[str, str]] = {}
    for key, value in repo.config.items():
        name, dot, field = key.removeprefix(PREFIX).rpartition(".")
        if key.startswith(PREFIX) and dot:
            given.setdefault(name, {})[field] = value
    if not given:
        return ()
    allowed = _allowed(repo)
    return tuple(_command(repo, name, given[name], allowed) for name in sorted(given))


def may_be_due(repo: Repository, trigger: Trigger) -> bool:
    """Return whether a save for this reason may have a state. Runs nothing, asks git nothing."""
    return any(key.startswith(PREFIX) for key in repo.config) and any(
        each.is_due(trigger) for each in listing(repo)
    )


def named(repo: Repository, name: str) -> StateCommand | None:
    """Return the commands of a state, None if none are configured."""
    return next((each for each in listing(repo) if each.name == name), None)


def allow(repo: Repository, commands: Iterable[StateCommand]) -> None:
    """Record that these commands may run in this repository. Raises GitcpError."""
    known = _allowed(repo)
    new = {each.digest for each in commands} - known
    if not new:
        return
    fields = {"schema": "gitcp.state-commands/1", "allowed": sorted(known | new)}
    try:
        records.write(repo.common_dir, repo.host, NAME, wire.dumps(fields, small=True))
    except OSError as error:
        left = f"{error.strerror}; the commands were not allowed"
        raise records.unwritable(repo.host, left) from None


def _allowed(repo: Repository) -> set[str]:
    """Return the digests of the commands that may run. A damaged record allows none."""
    try:
        data = records.read(repo.common_dir, repo.host, NAME)
        answers: Any = wire.loads(data)["allowed"] if data is not None else ()
        return {each for each in answers if isinstance(each, str)}
    except (OSError, GitcpError, KeyError, TypeError, ValueError):
        return set()


def _command(
    repo: Repository, name: str, fields: Mapping[str, str], allowed: set[str]
) -> StateCommand:
    save, restore = fields.get("save", ""), fields.get("restore", "")
    is_personal = _is_personal(repo, name, fields)
    if is_personal:
        # An archive's configuration let the user's own command run at every risky change.
        asked = {field: repo.personal(f"{PREFIX}{name}.{field}") for field in LIMITS}
        fields = {field.lower(): value for field, value in asked.items() if value is not None}
    refused = ""
    values: dict[str, Any] = {}
    try:
        values = _values(name, fields)
    except BadValue as error:
        refused = f"{error}"
    command = StateCommand(name, save, restore, refused=refused, **values)
    if refused or command.digest in allowed or is_personal:
        return command
    return StateCommand(name, save, restore, refused=UNSAID, allowable=True, **values)


def _is_personal(repo: Repository, name: str, fields: Mapping[str, str]) -> bool:
    """Return whether the user's own configuration says all that would be run."""
    return all(
        repo.personal(f"{PREFIX}{name}.{field}") == fields[field]
        for field in ("save", "restore")
        if fields.get(field)
    )


def _values(name: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings beside the commands. Raises BadValue."""
    if not wire.STATE.fullmatch(name):
        raise BadValue(
            "its name must begin with a letter or digit, and have up to 40 letters, digits, - and _"
        )
    values: dict[str, Any] = {}
    if "when" in fields:
        when = tuple(word.strip() for word in fields["when"].split(",") if word.strip())
        unknown = [word for word in when if word not in (MANUAL, RISKY, NEVER)]
        if unknown:
            raise BadValue(
                f"{PREFIX}{name}.when is {unknown[0]!r}, which is none of {MANUAL}, {RISKY}, "
                f"{NEVER}"
            )
        values["when"] = when
    if "timeout" in fields:
        values["timeout"] = settings.span(fields["timeout"], f"{PREFIX}{name}.timeout")
    if "maxsize" in fields:
        values["largest"] = settings.size(fields["maxsize"], f"{PREFIX}{name}.maxSize")
    return values


# ---------------------------------------------------------------- running


class Ended(NamedTuple):
    """How a command ended: its exit code (None: it was killed at a limit, or not started), the time
    it took, and why it failed, "" if it did not. `said` is the end of what it wrote to stderr: for
    the screen, never for a checkpoint.
    """

    code: int | None
    milliseconds: int
    failure: str
    said: str = ""

    def __str__(self) -> str:
        return f"{self.failure}: {self.said}" if self.said else self.failure


def run(
    repo: Repository,
    command: str,
    given: IO[bytes] | int,
    output: IO[bytes] | int,
    over: Callable[[float], str] = lambda _: "",
) -> Ended:
    """Run a shell command at the root of the working tree, with this file as its standard input,
    and write its standard output to that one. `over` returns why it must end after this many
    seconds, "" if it may go on.

    What it leaves running when it ends is left. Raises OSError if gitcp's own directory has no room
    for what it says.
    """
    from tempfile import TemporaryFile  # few repositories have such a command

    began = time.monotonic()
    with TemporaryFile(dir=repo.store_dir) as errors:
        fcntl.fcntl(errors, fcntl.F_SETFL, os.O_APPEND)  # where `_keep_end` cut it, it goes on

        def why(seconds: float) -> str:
            _keep_end(errors)
            return over(seconds)

        try:
            code, failure = _run(repo, command, (given, output, errors), why)
        except (OSError, ValueError) as error:
            return Ended(None, 0, f"its command cannot be run ({error})")
        taken = round((time.monotonic() - began) * 1000)
        failure = failure or _ending(code)
        words = _last_lines(repo, errors) if failure else ""
    return Ended(code if code >= 0 else None, taken, failure, words)


def _run(
    repo: Repository,
    command: str,
    files: tuple[IO[bytes] | int, IO[bytes] | int, IO[bytes]],
    over: Callable[[float], str],
) -> tuple[int, str]:
    """Run a command. Return its exit code, and why it was killed, "" if it was not."""
    import subprocess  # 4 ms, and few repositories have such a command

    output = None if isinstance(files[1], int) else files[1]
    failure = ""
    with _guarded(repo) as guard:
        child = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=repo.root,
            env=_environment(repo.host.env),
            stdin=files[0],
            stdout=subprocess.PIPE if output else files[1],
            stderr=files[2],
            start_new_session=True,
        )
        try:
            guard(child.pid)
            failure = _followed(child, output, over)
        finally:
            if child.poll() is None:
                with suppress(ProcessLookupError, PermissionError):  # includes its child processes
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
            if child.stdout:
                child.stdout.close()
    return child.returncode, failure


def _followed(child: Popen[bytes], output: IO[bytes] | None, over: Callable[[float], str]) -> str:
    """Copy what a command writes until it ends. Return why it must be killed, or why that is not
    all, "" for neither. Given the file itself, a process that it left running filled the disk.
    """
    from subprocess import TimeoutExpired

    began, failure, pause, pipe = time.monotonic(), "", POLL, child.stdout
    while child.poll() is None and not failure:
        if pipe and output and not pipe.closed:
            _copy(pipe, output, pause)
        else:
            with suppress(TimeoutExpired):
                child.wait(pause)
        pause = min(2 * pause, LONGEST_WAIT)
        failure = over(time.monotonic() - began)
    if failure or child.returncode or not (pipe and output) or pipe.closed:
        return failure
    _copy(pipe, output, 0)
    return LEFT_WRITING if not pipe.closed and _copy(pipe, output, LONGEST_WAIT) else ""


def _copy(pipe: IO[bytes], output: IO[bytes], seconds: float) -> bool:
    """Copy all that is in a pipe, or the first that comes within these seconds. Return whether
    there was something; at its end the pipe is closed. Raises GitcpError if it cannot be stored.
    """
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN)
    if not waiting.poll(1000 * seconds):
        return False
    data = os.read(pipe.fileno(), IN_PIPE)
    try:
        output.write(data)
        output.flush()
    except OSError as error:
        raise GitcpError(f"{error.strerror}") from None
    if not data:
        pipe.close()
    return bool(data)


@contextmanager
def _guarded(repo: Repository) -> Iterator[Callable[[int], None]]:
    """Yield a function to name the process group of a command, which is killed if this process dies
    before the end, whatever kills it: a hook's limit, a closed terminal, SIGKILL. No handler of
    ours could do that. The pipe to the guard is closed by the system.
    """
    import subprocess

    guard = subprocess.Popen(
        ["/bin/sh", "-c", GUARD],
        env=_environment(repo.host.env),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        start_new_session=True,
    )

    def tell(word: int | str) -> None:
        assert guard.stdin is not None
        with suppress(BrokenPipeError):  # somebody killed it: there is none then
            guard.stdin.write(f"{word}\n".encode())

    with guard:
        yield tell
        tell("ended")


def _keep_end(errors: IO[bytes]) -> None:
    """Cut what a command said to its end, so that it fills no disk."""
    size = os.fstat(errors.fileno()).st_size
    if size > MOST_SAID:
        end = os.pread(errors.fileno(), SAID, size - SAID)
        os.truncate(errors.fileno(), 0)
        os.write(errors.fileno(), end)


def _ending(code: int) -> str:
    if code < 0:
        return f"its command was killed by signal {-code}"
    return f"its command ended with exit code {code}" if code else ""


def missing_program(repo: Repository, command: str) -> str:
    """Return the program that a command begins with, if the shell does not find it; else ""."""
    import shlex  # for doctor
    import subprocess

    try:
        words = [word for word in shlex.split(command) if not ASSIGNMENT.match(word)]
    except ValueError:
        return ""
    look = ["/bin/sh", "-c", 'command -v -- "$1"', "sh", *words[:1]]
    done = subprocess.run(
        look, cwd=repo.root, env=_environment(repo.host.env), capture_output=True, check=False
    )
    return words[0] if words and done.returncode else ""


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the user's environment, without what would point git elsewhere in a hook of git's."""
    kept = process.scrubbed(env)
    return {name: value for name, value in env.items() if name in kept}


def _last_lines(repo: Repository, errors: IO[bytes]) -> str:
    """Return the last lines with words: of psql, the last one alone is a caret."""
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - SAID))
    lines = masking.tail(errors.read(), repo.host.env).splitlines()
    with_words = [line.strip() for line in lines if any(map(str.isalnum, line))]
    return "; ".join(line[:200] for line in with_words[-LINES:])
