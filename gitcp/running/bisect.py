"""Find the checkpoint whose changes made a command fail, by trying checkpoints in a scratch
directory.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from gitcp import progress
from gitcp.errors import BadValue, GitcpError, Refused, RevisionNotFound
from gitcp.history import authors, diff, diffstat, why
from gitcp.history.diffstat import FileStat
from gitcp.model import Checkpoint, Claim, Oid, Run
from gitcp.restoring import trust
from gitcp.restoring.scratch_tree import ScratchTree
from gitcp.running.search import (
    SKIP,
    STOP,
    Verdict,
    bounds,
    is_sound,
    lineage,
    next_try,
    verdict,
)
from gitcp.state import masking
from gitcp.store import Store, Summary
from gitcp.value import Value, replace
from gitcp.worktree.paths import display

if TYPE_CHECKING:
    from gitcp.documents import Tried

KEPT = 1 << 16
"""Bytes of the end of a command's output that are kept."""

NOT_FOUND, NOT_RUNNABLE = 127, 126

Judge = Callable[[Path], Run]
"""Judges the files in a directory: by an exit code as of a command for `git bisect run`."""


class BisectRequest(Value):
    """What to search.

    `states` are the candidates (`candidates`), `judge` is called `repeat` times for each that is
    tried, in `directory` below the scratch directory (b"": its root). `shared` are paths of the
    working tree to which the scratch directory has links.
    """

    states: tuple[Summary, ...]
    judge: Judge
    repeat: int = 1
    directory: bytes = b""
    shared: tuple[bytes, ...] = ()
    trust: bool = False


class Try(Value):
    """A checkpoint that was tried: its verdict, and each run."""

    summary: Summary
    verdict: Verdict
    runs: tuple[Run, ...]

    @property
    def disagree(self) -> bool:
        """Whether the runs do not agree: the command does not depend on the files alone."""
        return len({verdict((run.code or 0,)) for run in self.runs}) > 1

    def document(self) -> Tried:
        """Return what is printed of it."""
        from gitcp import documents  # only for programs

        codes = tuple(run.code or 0 for run in self.runs)
        milliseconds = sum(run.milliseconds for run in self.runs)
        return documents.Tried(self.summary.id, self.verdict.value, codes, milliseconds)


class Culprit(Value):
    """What a search found: the last checkpoint that passes, the first that fails after it, those
    between them that were skipped, and how many candidates there were. With none between, `files`
    are what the failing one changed, and `by` is who did.
    """

    good: Checkpoint
    bad: Checkpoint
    between: tuple[Summary, ...]
    tries: tuple[Try, ...]
    count: int
    files: tuple[FileStat, ...] = ()
    by: Claim | None = None

    @property
    def failure(self) -> Run:
        """The run on the failing checkpoint that failed."""
        tried = next(each for each in self.tries if each.summary.commit == self.bad.commit)
        return next(run for run in tried.runs if verdict((run.code or 0,)) is Verdict.BAD)

    @property
    def prompt(self) -> str | None:
        """The prompt that the failing change was made for, None if that is not known."""
        return None if self.between else why.prompt_behind(self.bad, self.by)

    def to_json(self) -> dict[str, Any]:
        """Return the fields that `gitcp bisect --json` prints."""
        from gitcp import documents  # only for programs

        return documents.encode(
            documents.Bisected(
                good=self.good.id,
                bad=self.bad.id,
                skipped=tuple(each.id for each in self.between),
                created=self.bad.created,
                prompt=self.prompt,
                by=self.by,
                files=tuple(
                    documents.FileLines(
                        each.path, each.kind, each.added, each.removed, each.by or None
                    )
                    for each in self.files
                ),
                output=self.failure.output,
                candidates=self.count,
                tries=tuple(each.document() for each in self.tries),
            )
        )


def candidates(store: Store, first: Oid | None, last: Oid) -> tuple[Summary, ...]:
    """Return the checkpoints from `first` (None: the oldest with files) to `last` in which files
    changed, oldest first, without those that a later one took back.

    Raises RevisionNotFound if `first` is not before `last`, or no file changed between them.
    """
    chain: list[Summary] = []
    is_complete = first is None
    for summary in store.history(last):
        chain.append(summary)
        if summary.commit == first:
            is_complete = True
            break
    if not is_complete and first is not None:
        ends = store.summary(first).id, store.summary(last).id
        raise RevisionNotFound(
            f"{ends[0]} is not before {ends[1]}: nothing was run",
            hint=f"gitcp log {ends[1]}",
        )
    with_files = [each for each in reversed(chain) if not diff.is_without_files(each)]
    if not with_files:
        raise RevisionNotFound(f"{chain[0].id} and those before it have no files: nothing was run")
    trees = [diff.files_of(store, each.root) for each in with_files]
    states = tuple(with_files[number] for number in lineage(trees))
    if len(states) < 2:
        raise RevisionNotFound(
            f"no file differs between {with_files[0].id} and {with_files[-1].id}: nothing was run",
            hint="gitcp log --stat",
        )
    return states


def bisect(
    store: Store, request: BisectRequest, tell: Callable[[Try], object] = lambda _: None
) -> Culprit:
    """Search for the first checkpoint that fails; `tell` is called after each try. Changes nothing
    in the working tree, and makes no checkpoint.

    Raises Refused if the first does not pass or the last does not fail, BadValue if a shared path
    does not exist, and GitcpError if a run asks to stop. At most ⌈log₂ n⌉ + 2 of n candidates are
    tried, and one more for each skipped.
    """
    states = request.states
    _require_shared(store, request.shared)
    for end in (states[0], states[-1]):
        trust.require(store, store.read(end.commit), trusted=request.trust)
    tries: dict[int, Try] = {}
    with (
        progress.task("bisecting", "tries", (len(states) - 1).bit_length() + 2) as advance,
        ScratchTree(store, request.shared) as tree,
    ):
        while (number := _next(states, tries)) is not None:
            tries[number] = _try(store, request, states[number], tree)
            advance(1)
            tell(tries[number])
    return _culprit(store, states, tries)


def _require_shared(store: Store, paths: Sequence[bytes]) -> None:
    root = os.fsencode(store.repo.root)
    missing = next((p for p in paths if not os.path.lexists(os.path.join(root, p))), None)
    if missing is not None:
        raise BadValue(f"{display(missing)} does not exist, and cannot be shared: nothing was run")


def _next(states: Sequence[Summary], tries: dict[int, Try]) -> int | None:
    return next_try(len(states), {number: each.verdict for number, each in tries.items()})


def _try(store: Store, request: BisectRequest, summary: Summary, tree: ScratchTree) -> Try:
    tree.write(store.read(summary.commit))
    directory = tree.root.joinpath(os.fsdecode(request.directory))
    directory.mkdir(parents=True, exist_ok=True)
    runs: list[Run] = []
    for _ in range(request.repeat):
        run = request.judge(directory)
        # named as they are in the working tree, the same at each try
        run = replace(run, output=run.output.replace(f"{tree.root}{os.sep}", ""))
        runs.append(run)
        if run.code is None or run.code >= STOP:
            raise GitcpError(
                f"the command ended with exit code {run.code} on {summary.id}, which stops the "
                "search: nothing was changed",
                hint=f"exit with 1 where it fails, {SKIP} where it cannot tell",
            )
    return Try(summary, verdict([run.code or 0 for run in runs]), tuple(runs))


def _culprit(store: Store, states: tuple[Summary, ...], tries: dict[int, Try]) -> Culprit:
    verdicts = {number: each.verdict for number, each in tries.items()}
    if not is_sound(len(states), verdicts):
        raise _unsound(tries[0], tries[len(states) - 1])
    good, bad = bounds(len(states), verdicts)
    old, new = (store.read(states[number].commit) for number in (good, bad))
    between, claims = states[good + 1 : bad], authors.changed_by(store, new)
    return Culprit(
        good=old,
        bad=new,
        between=between,
        tries=tuple(tries.values()),
        count=len(states),
        files=() if between else _files(store, old, new, claims),
        by=reduce(Claim.joined, claims.values()) if claims and not between else None,
    )


def _files(
    store: Store, old: Checkpoint, new: Checkpoint, claims: Mapping[bytes, Claim]
) -> tuple[FileStat, ...]:
    by = authors.others(claims, new.id.session)
    return tuple(
        replace(each, by=str(by.get(each.path, "")))
        for each in diffstat.between(store, old.root, new.root)
    )


def _unsound(first: Try, last: Try) -> Refused:
    """Return the error for ends between which there is nothing to search."""
    start, end = first.summary.id, last.summary.id
    ways = first.verdict, last.verdict
    if Verdict.SKIPPED in ways:
        skipped = start if first.verdict is Verdict.SKIPPED else end
        option = "--from" if skipped == start else "--to"
        what = f"the command cannot judge {skipped} (exit code {SKIP}); name another with {option}"
    elif ways == (Verdict.GOOD, Verdict.GOOD):
        what = f"the command passes on {start} and on {end}: neither is broken; name one on "
        what += "which it fails with --to"
    elif ways == (Verdict.BAD, Verdict.BAD):
        what = f"the command fails on {end}, and already on {start}; name one on which it "
        what += "passes with --from"
    else:
        what = f"the command fails on {start} and passes on {end}: that one is not broken; name "
        what += "one that passes with --from, and one that fails with --to"
    error = Refused(what, hint=f"gitcp log {end}")
    tried = last if first.verdict is Verdict.GOOD else first
    run = next((each for each in tried.runs if each.code), None)
    error.candidates = tuple(run.output.splitlines()[-5:]) if run else ()
    return error


# ---------------------------------------------------------------- commands


def by_command(store: Store, command: Sequence[str], prepare: str = "") -> Judge:
    """Return the judge that runs `prepare` with `sh`, if given, and then a command, both in the
    directory, without input and with the user's environment. Where `prepare` fails, the state is
    skipped.

    Raises BadValue if there is no such program.
    """
    env = store.repo.host.env
    program = command[0]
    if os.sep not in program and shutil.which(program, path=env.get("PATH")) is None:
        raise BadValue(f"{program}: command not found; nothing was run")

    def judge(directory: Path) -> Run:
        if prepare:
            run = _run(("sh", "-c", prepare), directory, env)
            if run.code is None or run.code >= STOP:
                return run
            if run.code:
                return Run(run.command, SKIP, run.milliseconds, run.output)
        return _run(command, directory, env)

    return judge


def _run(command: Sequence[str], directory: Path, env: Mapping[str, str]) -> Run:
    """Run a command to its end, and return how it ended, as a shell reports it."""
    words = tuple(command)
    begun = time.monotonic()
    # not a pipe: what the command leaves running would keep it open
    with TemporaryFile() as output:
        try:
            code = subprocess.run(
                words,
                cwd=directory,
                env={**env, "PWD": os.fspath(directory)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=False,
            ).returncode
        except OSError as error:
            output.write(f"{words[0]}: {error.strerror}\n".encode())
            code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_RUNNABLE
        milliseconds = int((time.monotonic() - begun) * 1000)
        output.seek(max(output.seek(0, os.SEEK_END) - KEPT, 0))
        text = masking.tail(output.read(), env)
    return Run(words, code if code >= 0 else STOP - code, milliseconds, text)
