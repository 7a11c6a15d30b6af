"""Map errors to exit codes and two lines on stderr. Only this module knows the exit codes.

A user sees no traceback; an internal error tells how to get one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from gitcp import errors, wire
from gitcp.git.fsync import FULL
from gitcp.safe import safe

if TYPE_CHECKING:
    from typing import NoReturn

CODES: dict[type[BaseException], int] = {
    errors.GitcpError: 1,
    errors.BadValue: 2,
    errors.RepositoryNotFound: 10,
    errors.StoreBusy: 11,
    errors.Refused: 12,
    errors.StoreDamaged: 13,
    errors.NotTrusted: 14,
    errors.SecretsFound: 15,
    errors.RevisionNotFound: 16,
    errors.DiskFull: 17,
    KeyboardInterrupt: 130,
}
"""A class that is not listed has the code of its nearest listed base class."""

IN_PART = 3
NOBODY_READS = 141
"""The exit code that a shell reports for SIGPIPE."""


class Failure(NamedTuple):
    """What to print for an error: exit code, message, hint and candidates. `sessions` are those
    that it is about, with their paths.
    """

    code: int
    message: str
    hint: str = ""
    candidates: tuple[str, ...] = ()
    sessions: tuple[tuple[str, tuple[bytes, ...]], ...] = ()


class NotWritten(Exception):
    """A command's output could not be written, for the reason `error`. What the command did before
    is kept.
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def writing() -> Iterator[None]:
    """Convert an OSError of writing to stdout to NotWritten. BrokenPipeError passes through."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise NotWritten(error) from None


class Ended(Exception):
    """Ends the command with an exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def end(code: int) -> NoReturn:
    """End the running command with this exit code."""
    raise Ended(code)


def guarded(
    run: Callable[[], int], env: Mapping[str, str], *, as_json: bool, interrupted: Callable[[], str]
) -> int:
    """Call `run` and return its exit code. Prints errors on stderr and returns their code.

    `interrupted` returns the hint for an unfinished restore, "" if there is none.
    """
    try:
        code = _code_of(run)
        with writing():
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        _stop_writing()
        return NOBODY_READS
    except KeyboardInterrupt:
        failure = _interrupted(interrupted())
    except Exception as error:  # noqa: BLE001 -- this is the last place that sees it
        failure = _interrupted(interrupted()) if _is_click(error, "Abort") else describe(error)
        if failure.code == CODES[errors.DiskFull]:
            failure = failure._replace(
                hint=", then ".join(filter(None, (failure.hint, interrupted())))
            )
        if env.get("GITCP_DEBUG"):
            import traceback  # only for whoever asked

            traceback.print_exc()
    _stop_writing()  # output that cannot be written must not keep the error from being said
    try:
        if failure.code == CODES[KeyboardInterrupt] and sys.stderr.isatty():
            sys.stderr.write("\n")  # after the terminal's own ^C
        tell(failure, as_json=as_json)
    except (OSError, ValueError):
        _stop_writing()  # stderr or stdout is full or gone: the exit code still says it
    return failure.code


def _code_of(run: Callable[[], int]) -> int:
    try:
        return run()
    except Ended as ended:
        return ended.code


def _interrupted(hint: str) -> Failure:
    what = "interrupted: no partial result was left behind"
    if hint:
        what = "interrupted: finish the restore, or undo it with gitcp restore --abort"
    return Failure(CODES[KeyboardInterrupt], what, hint)


def _is_click(error: Exception, name: str) -> bool:
    """Return whether `error` is click's class `name`, without importing click."""
    click = sys.modules.get("click")
    return click is not None and isinstance(error, getattr(click, name))


def describe(error: Exception) -> Failure:
    """Return what to print for an error."""
    if isinstance(error, errors.GitcpError):
        code = next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)
        sessions = error.sessions if isinstance(error, errors.OthersAffected) else ()
        return Failure(code, str(error), error.hint, error.candidates, sessions)
    if _is_click(error, "ClickException"):
        context = getattr(error, "ctx", None)
        hint = f"{context.command_path} -h" if context else "gitcp -h"
        if _is_click(error, "NoSuchOption"):
            _leave_nearly_the_same(error)
        message: str = error.format_message()  # type: ignore[attr-defined]
        return Failure(CODES[errors.BadValue], message.rstrip("."), hint)
    if isinstance(error, NotWritten):
        return _not_written(error.error)
    if isinstance(error, OSError) and error.errno in FULL:
        return Failure(
            CODES[errors.DiskFull],
            "the disk is full",
            "free some space, then see what was saved: gitcp log",
        )
    if isinstance(error, OSError) and error.strerror:
        where = (
            f" ({os.fsdecode(error.filename)})" if isinstance(error.filename, str | bytes) else ""
        )
        return Failure(1, f"{error.strerror}{where}")
    if isinstance(error, MemoryError):
        return Failure(1, "out of memory: no checkpoint was made")
    shown = f"{type(error).__name__}: {error}".rstrip(": ")
    return Failure(1, f"internal error: {shown}", "set GITCP_DEBUG=1 and run it again to see where")


def _leave_nearly_the_same(error: Any) -> None:
    """Remove what click suggests for an option that does not exist, unless it is a misspelled one:
    "--author" was said to mean "--patch".
    """
    from difflib import get_close_matches  # only on the way to an error

    from gitcp.cli.habits import SIMILAR

    known = {each.lstrip("-"): each for each in error.possibilities or ()}
    close = get_close_matches(error.option_name.lstrip("-"), known, cutoff=SIMILAR)
    error.possibilities = [known[each] for each in close]


def _not_written(error: OSError) -> Failure:
    if error.errno in FULL:
        what = (
            "the disk is full: the output could not be written. What the command did before is kept"
        )
        return Failure(CODES[errors.DiskFull], what, "free some space")
    what = f"the output could not be written: {error.strerror}. What the command did before is kept"
    return Failure(1, what)


def tell(failure: Failure, *, as_json: bool) -> None:
    """Print a failure on stderr: for people, or as one line of JSON."""
    if as_json:
        fields = {
            "schema": "gitcp.error/1",
            "code": failure.code,
            "message": _utf8(failure.message),
            "hint": _utf8(failure.hint),
            "candidates": [_utf8(candidate) for candidate in failure.candidates],
            "sessions": [
                {"session": session, "paths": [wire.encode_path(path) for path in paths]}
                for session, paths in failure.sessions
            ],
        }
        text = wire.dumps(fields).decode()
    else:
        lines = [
            f"error: {failure.message}",
            *(f"  {candidate}" for candidate in failure.candidates),
        ]
        lines += [f"hint: {failure.hint}"] if failure.hint else []
        text = "\n".join(map(safe, lines))
    sys.stderr.buffer.write(
        (text + "\n").encode(sys.stderr.encoding or "utf-8", "backslashreplace")
    )
    sys.stderr.flush()


def _utf8(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _stop_writing() -> None:
    """Discard buffered output that cannot be written, so that Python does not report it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):  # it is closed
                os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
