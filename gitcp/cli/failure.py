"""Errors → exit codes and two lines on stderr. The only place that knows which error has which
code.

No traceback reaches a user; a mistake of ours says how to get one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from gitcp import errors, wire
from gitcp.cli.safe import safe
from gitcp.git.fsync import FULL

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
"""A class that is not listed has the code of the nearest one above it."""

IN_PART = 3
NOBODY_READS = 141
"""What a shell reports of a program that wrote where nobody reads any more."""


class Failure(NamedTuple):
    """What is said of an error: its exit code, what happened, what to type next, and what could
    have been meant.
    """

    code: int
    message: str
    hint: str = ""
    candidates: tuple[str, ...] = ()


class NotWritten(Exception):
    """What a command prints could not be written, with the system's error; what the command did
    before stands.
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def writing() -> Iterator[None]:
    """What is done inside writes to stdout, and nothing else. Raises NotWritten; BrokenPipeError is
    no failure.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise NotWritten(error) from None


class Ended(Exception):
    """A command is done, and ends with this exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def end(code: int) -> NoReturn:
    """End the command that is running, with this exit code."""
    raise Ended(code)


def guarded(
    run: Callable[[], int], env: Mapping[str, str], *, as_json: bool, interrupted: Callable[[], str]
) -> int:
    """`run`, with every error turned into its exit code and said on stderr.

    `interrupted` says how to go on where a restore stopped half-way, "" where none did.
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
            _print_traceback()
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
    what = "interrupted" if hint else "interrupted: nothing half done is left"
    return Failure(CODES[KeyboardInterrupt], what, hint)


def _is_click(error: Exception, name: str) -> bool:
    """Whether it is this error of click's; where click is not loaded (gitcp.cli.saving) there is
    none.
    """
    click = sys.modules.get("click")
    return click is not None and isinstance(error, getattr(click, name))


def describe(error: Exception) -> Failure:
    """What to say of an error."""
    if isinstance(error, errors.GitcpError):
        return Failure(_code(error), str(error), error.hint, error.candidates)
    if _is_click(error, "ClickException"):
        context = getattr(error, "ctx", None)
        hint = f"{context.command_path} -h" if context else "gitcp -h"
        said: str = error.format_message()  # type: ignore[attr-defined]
        return Failure(CODES[errors.BadValue], said.rstrip("."), hint)
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
        return Failure(1, "there is not enough memory: no checkpoint was made")
    shown = f"{type(error).__name__}: {error}".rstrip(": ")
    return Failure(1, f"internal error: {shown}", "set GITCP_DEBUG=1 and run it again to see where")


def _not_written(error: OSError) -> Failure:
    if error.errno in FULL:
        what = (
            "the disk is full: the output could not be written. What the command did before that "
            "stands"
        )
        return Failure(
            CODES[errors.DiskFull], what, "free some space, then see what was saved: gitcp log"
        )
    what = (
        f"the output could not be written: {error.strerror}. What the command did before that "
        "stands"
    )
    return Failure(1, what, "gitcp log")


def tell(failure: Failure, *, as_json: bool) -> None:
    """Say it on stderr: for people, or as one line of JSON."""
    if as_json:
        fields = {
            "schema": "gitcp.error/1",
            "code": failure.code,
            "message": _utf8(failure.message),
            "hint": _utf8(failure.hint),
            "candidates": [_utf8(candidate) for candidate in failure.candidates],
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


def _code(error: BaseException) -> int:
    return next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)


def _utf8(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _stop_writing() -> None:
    """What is still in buffers and cannot be written goes nowhere, so that nothing complains about
    it at the end.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):  # it is closed
                os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _print_traceback() -> None:
    import traceback  # only for whoever asked

    traceback.print_exc()
