"""Report the progress that git prints on stderr as gitcp's progress."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, NamedTuple

from gitcp import progress

LINE = re.compile(
    r"(?:remote: )?(?P<name>[A-Z][a-z]+ [a-z]+): +\d+% \((?P<done>\d+)/(?P<total>\d+)\)"
    r"(?:, (?P<size>[\d.]+ [A-Za-z]+)(?: \| (?P<rate>[\d.]+ [A-Za-z]+/s))?)?"
)
"""Matches `Writing objects:  45% (450/1000), 10.00 MiB | 2.00 MiB/s`."""


class ProgressStep(NamedTuple):
    """One of git's progress lines; `detail` is the amount transferred and its rate."""

    name: str
    done: int
    total: int
    detail: str


def parse(line: str) -> ProgressStep | None:
    """Return the progress in a line of git's stderr, None if the line is a message."""
    match = LINE.match(line)
    if match is None:
        return None
    detail = ", ".join(filter(None, (match["size"], match["rate"])))
    return ProgressStep(match["name"].lower(), int(match["done"]), int(match["total"]), detail)


def report(stderr: IO[bytes]) -> bytes:
    """Read all of git's stderr, report its progress, and return everything else."""
    messages = []
    task: progress.Task | None = None
    name, done = "", 0
    for line in _lines(stderr):
        step = parse(line.decode("utf-8", "replace"))
        if step is None:
            messages.append(line + b"\n")
            continue
        if task is None or step.name != name:
            if task is not None:
                task.end()
            task, name, done = progress.begin(step.name, "objects", step.total), step.name, 0
        task.advance(step.done - done)
        task.detail(step.detail)
        done = step.done
    if task is not None:
        task.end()
    return b"".join(messages)


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield lines as they arrive; git ends overwritten ones with a carriage return."""
    rest = b""
    while chunk := stream.read1(4096):  # type: ignore[attr-defined]
        *lines, rest = re.split(rb"[\r\n]", rest + chunk)
        yield from filter(None, lines)
    if rest:
        yield rest
