"""Every figure of docs/performance.md, measured against git in the same run.

    python tests/benchmarks/run.py                         on made-up trees python
    tests/benchmarks/run.py --tree DIR [--tree DIR]  on clones of yours (they are copied) python
    tests/benchmarks/run.py --growing DIR            with the growing versions of one transcript

Prints one row a figure: ours, git's, the ratio, and what it may be at most. Ends with 1 if one is
over.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import interface
import million
import stores
from measure import (
    Pair,
    Spent,
    Timing,
    command,
    in_turn,
    peak_memory,
    processed,
    spent,
    spent_in_median,
    timed,
)

SOURCE = Path(__file__).parents[2]
IDENTITY = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@b",
}


LAUNCHER = """import sys
from gitcp.__main__ import main
if __name__ == '__main__':
    sys.argv[0] = sys.argv[0].removesuffix('.exe')
    sys.exit(main())
"""
"""What pip and uv write. A pip older than 25 imports `re` there as well, which is none of ours."""


class Row(NamedTuple):
    """One figure."""

    name: str
    ours: str
    theirs: str
    value: float
    limit: float

    def __str__(self) -> str:
        verdict = "" if self.value <= self.limit else "  OVER"
        return (
            f"{self.name:58} {self.ours:>11} {self.theirs:>11} {self.value:7.2f}  <= "
            f"{self.limit:.2f}{verdict}"
        )


class Bench:
    """A scratch directory with a home of its own, and how gitcp and git are run in it."""

    def __init__(self, scratch: Path, runs: int) -> None:
        self.scratch = scratch
        self.runs = runs
        home = scratch / "home"
        home.mkdir()
        self.env = {"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8", **IDENTITY}
        launcher = scratch / "gitcp"
        launcher.write_text(LAUNCHER)
        self.program = [sys.executable, str(launcher)]
        if not Path(sys.executable).with_name("gitcp").exists():
            self.env["PYTHONPATH"] = str(SOURCE)

    def gitcp(self, repo: Path, *args: str) -> Callable[[], None]:
        """A gitcp command as an action."""
        return command([*self.program, *args], repo, self.env)  # type: ignore[return-value]

    def git(self, repo: Path, *args: str) -> Callable[[], None]:
        """A git command as an action."""
        return command(["git", *args], repo, self.env)  # type: ignore[return-value]

    def shadow(self, repo: Path) -> Callable[[], None]:
        """What a shell script would do: a kept private index, add, write-tree, commit-tree,
        update-ref.
        """
        index = self.scratch / f"{repo.name}.index"
        shutil.copy(repo / ".git/index", index)
        script = (
            "t=$(git add -A && git write-tree) && c=$(git commit-tree -m x $t) && git update-ref "
            "refs/shadow $c"
        )
        return command(["sh", "-c", script], repo, {**self.env, "GIT_INDEX_FILE": str(index)})  # type: ignore[return-value]


def row(name: str, pair: Pair, limit: float) -> Row:
    return Row(
        name,
        f"{pair.ours.median * 1000:.0f} ms",
        f"{pair.theirs.median * 1000:.0f} ms",
        pair.ratio,
        limit,
    )


# ---------------------------------------------------------------- trees


def made_up(root: Path, files: int) -> Path:
    """A repository of `files` files, six a directory, like the real ones in shape."""
    rng = random.Random(files)
    for number in range(files):
        directory = root / f"part{number % 40}" / f"module{number // 240}" / f"d{number // 6 % 7}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"file{number}.txt").write_bytes(
            rng.randbytes(rng.randrange(200, 3000)).hex().encode()
        )
    return root


def copied(bench: Bench, source: Path, prefix: str) -> Path:
    target = bench.scratch / f"{prefix}-{source.name}"
    subprocess.run(
        ["git", "clone", "-q", "--no-hardlinks", source, target], check=True, env=bench.env
    )
    return target


def trees(
    bench: Bench, given: list[Path], sizes: list[int], prefix: str = "tree"
) -> Iterator[Path]:
    if given:
        yield from (copied(bench, path, prefix) for path in given)
        return
    for size in sizes:
        root = made_up(bench.scratch / f"{prefix}{size}", size)
        for args in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "all")):
            bench.git(root, *args)()
        yield root


def tracked(bench: Bench, repo: Path) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=repo, env=bench.env, capture_output=True, check=True
    ).stdout
    found = [repo / os.fsdecode(name) for name in listed.split(b"\0") if name]
    # rules cost a whole scan: a row of its own
    ordinary = (path for path in found if not path.name.startswith(".git"))
    return [path for path in ordinary if path.is_file() and not path.is_symlink()]


# ---------------------------------------------------------------- figures


def saving(bench: Bench, repo: Path) -> Iterator[Row]:
    """Nothing changed against `git status`; one file changed against the shadow sequence."""
    files = tracked(bench, repo)
    bench.gitcp(repo, "save", "first")()
    label = f"{len(files):,} files"
    pair = in_turn(bench.gitcp(repo, "save"), bench.git(repo, "status", "--porcelain"), bench.runs)
    yield row(f"save, nothing changed, {label} / git status", pair, _limit(files, 1.4))
    rng = random.Random(1)

    def touch() -> None:
        with rng.choice(files).open("ab") as file:
            file.write(b"x\n")

    pair = in_turn(bench.gitcp(repo, "save"), bench.shadow(repo), bench.runs, before=touch)
    yield row(f"save, one file changed, {label} / shadow sequence", pair, _limit(files, 1.8))


def _limit(files: Sequence[Path], most: float) -> float:
    """What a save may cost among so many files: `most` for a few, less than git for many."""
    return 0.8 if len(files) > 150_000 else 1.0 if len(files) > 30_000 else most


def creating(bench: Bench, repo: Path) -> Iterator[Row]:
    """1,000 new files against the shadow sequence. Each of the two finds those made for the other
    as well.
    """
    numbers = iter(range(1_000_000))
    rng = random.Random(6)

    def create() -> None:
        for number in (next(numbers) for _ in range(500)):
            directory = repo / f"new{number // 50}"
            directory.mkdir(exist_ok=True)
            (directory / f"file{number}.txt").write_bytes(
                rng.randbytes(rng.randrange(200, 2000)).hex().encode()
            )

    files = len(tracked(bench, repo))
    pair = in_turn(bench.gitcp(repo, "save"), bench.shadow(repo), min(bench.runs, 5), before=create)
    yield row(f"save, 1,000 new files beside {files:,} / shadow sequence", pair, 0.8)


def beginning(bench: Bench, repo: Path) -> Iterator[Row]:
    """The first save: where git has every object, and where it has none. Against `git add -A` on
    the same files.
    """
    files = len(tracked(bench, repo))
    clean = bench.scratch / "clean"
    bench.git(bench.scratch, "clone", "-q", "--no-hardlinks", str(repo), str(clean))()
    time.sleep(3)  # of files as young as its index, git's index proves nothing

    def forget() -> None:
        shutil.rmtree(clean / ".git/gitcp", ignore_errors=True)
        shutil.rmtree(clean / ".git/refs/gitcp", ignore_errors=True)

    pair = in_turn(bench.gitcp(clean, "save"), bench.git(clean, "add", "-A"), 3, before=forget)
    yield row(f"first save of a clean checkout, {files:,} files / git add -A", pair, 3.0)

    def empty() -> None:
        shutil.rmtree(clean / ".git")
        bench.git(clean, "init", "-q")()

    pair = in_turn(bench.gitcp(clean, "save"), bench.git(clean, "add", "-A"), 3, before=empty)
    yield row(f"first save, every object new, {files:,} files / git add -A", pair, 0.4)
    shutil.rmtree(clean)


def rules(bench: Bench, repo: Path) -> Iterator[Row]:
    """A `.gitignore` changed: everything is looked at anew. Against the shadow sequence; no limit
    is promised.
    """
    ignore = repo / ".gitignore"

    def change() -> None:
        with ignore.open("ab") as file:
            file.write(b"nothing-of-this-name\n")

    pair = in_turn(bench.gitcp(repo, "save"), bench.shadow(repo), 3, before=change)
    yield row(
        f"save, .gitignore changed, {len(tracked(bench, repo)):,} files / shadow sequence",
        pair,
        float("inf"),
    )


def restoring(bench: Bench, repo: Path) -> Iterator[Row]:
    """Files changed, brought back, whole commands: against `git restore` of the same, and against
    the same steps by git: commit the changes, restore the files, commit the result.
    """
    files = tracked(bench, repo)
    bench.git(repo, "checkout", "-q", "-f", "HEAD")()
    bench.gitcp(repo, "save", "clean", "--tag", "clean")()
    args = ("restore", "clean", "--yes", "--files")
    save = bench.shadow(repo)
    restore = bench.git(repo, "restore", ".")

    def save_restore_save() -> None:
        save()
        restore()
        save()

    for count, limit, limit_of_three in (
        (1, float("inf"), float("inf")),
        (100, 2.5, 1.0),
        (5000, 2.0, 1.7),
    ):

        def change(count: int = count) -> None:
            for path in random.Random(2).sample(files, min(count, len(files))):
                with path.open("ab") as file:
                    file.write(b"changed %d\n" % time.time_ns())  # no object of it is there yet

        runs = bench.runs if count < 1000 else min(bench.runs, 3)
        ours, name = bench.gitcp(repo, *args), f"restore of {count:,} of {len(files):,} files"
        yield row(f"{name} / git restore", in_turn(ours, restore, runs, change), limit)
        pair = in_turn(ours, save_restore_save, runs, change)
        yield row(f"{name} / git commit, restore, commit", pair, limit_of_three)
    change(5000)
    peak = peak_memory([*bench.program, "-C", str(repo), *args], repo, bench.env) / 1e6
    yield Row("memory of a restore of 5,000", f"{peak:.0f} MB", "120 MB", peak / 120, 1.0)


def listing(bench: Bench) -> Iterator[Row]:
    """A chain of 10,000 checkpoints."""
    repo = bench.scratch / "long"
    repo.mkdir()
    bench.git(repo, "init", "-q")()
    parts = []
    for number in range(1, 10_001):
        trailers = (
            f"Gitcp-Format: 1\nGitcp-Session: long\nGitcp-Number: {number}\nGitcp-Trigger: manual\n"
        )
        message = f"checkpoint {number}\n\n{trailers}"
        parts.append(
            f"commit refs/gitcp/sessions/long\ncommitter A <a@b> {1_700_000_000 + number} +0000\n"
        )
        parts.append(f"data {len(message)}\n{message}\n")
    subprocess.run(
        ["git", "fast-import", "--quiet"],
        cwd=repo,
        env=bench.env,
        input="".join(parts).encode(),
        check=True,
    )
    ours = bench.gitcp(repo, "log", "--oneline", "--session", "long")
    pair = in_turn(
        ours, bench.git(repo, "log", "--oneline", "refs/gitcp/sessions/long"), bench.runs
    )
    yield row("log --oneline, 10,000 checkpoints / git log --oneline", pair, 2.0)
    page = bench.gitcp(repo, "log", "-n", "20", "--session", "long")
    pair = in_turn(page, command([sys.executable, "-c", "pass"], repo, bench.env), bench.runs)
    yield row("log -n 20, 10,000 checkpoints / python -c pass", pair, 6.0)
    small = bench.scratch / "looked-at"  # commits alone, as above, are not enough to be shown
    small.mkdir()
    bench.git(small, "init", "-q")()
    (small / "a.txt").write_text("a\n")
    bench.gitcp(small, "save", "--session", "long")()
    for looked in ("show", "status"):
        ours = bench.gitcp(small, looked, "--session", "long")
        pair = in_turn(ours, command([sys.executable, "-c", "pass"], small, bench.env), bench.runs)
        yield row(f"{looked} / python -c pass", pair, 6.0)


GROWING = """
import gitcp, os, time
block = b"".join(b"%d\\n" % (number * 7919 % 999983) for number in range(160_000))[: 1 << 20]
with open("out.csv", "wb") as out:
    for _ in range(1024):
        out.write(block)
session = gitcp.open(".").session("big")
session.save(position={"record": 0}, appends="out.csv")
taken = []
for number in range(5):
    time.sleep(0.1)
    with open("out.csv", "ab") as out:
        out.write(os.urandom(16) + block[16:])
    begun = time.process_time()
    session.save(position={"record": number + 1}, appends="out.csv")
    taken.append(time.process_time() - begun)
print(sorted(taken)[2])
"""


TALKING = """
import gitcp, json, random, statistics, time
open("a.txt", "w").write("a\\n")
rng, talk, taken = random.Random(4), b"", []
words = [rng.randbytes(rng.randrange(2, 6)).hex() for _ in range(2000)]
opened = gitcp.open(".")
for number in range(1500):
    for role in ("user", "assistant"):
        said = {"role": role, "content": " ".join(rng.choices(words, k=60))}
        talk += json.dumps(said).encode() + b"\\n"
    begun = time.process_time()
    opened.save(session="talk", conversation=talk, agent="made-up")
    taken.append(time.process_time() - begun)
print(statistics.median(taken[:100]), statistics.median(taken[-100:]))
"""


def growing_talk(bench: Bench) -> Iterator[Row]:
    """A conversation that a program saves after each answer, 1,500 times, in processor time."""
    repo = _small(bench, "talk")
    run = [sys.executable, "-P", "-c", TALKING]
    env = {**bench.env, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(run, cwd=repo, env=env, check=True, capture_output=True, text=True)
    first, last = (float(each) * 1000 for each in done.stdout.split())
    name = "save 1,401-1,500 of a growing conversation, library / 1-100"
    yield Row(name, f"{last:.1f} ms", f"{first:.1f} ms", last / first, 1.1)


def large_stores(bench: Bench) -> Iterator[Row]:
    """What commands take on the stores of a busy team, in processor time."""
    for name, repo in stores.furnished(bench.scratch, bench.env):
        for each in stores.figures(bench.program, repo, name, bench.env):
            value = each.seconds / each.limit
            yield Row(each.name, f"{each.seconds:.2f} s", f"{each.limit:.2f} s", value, 1.0)
        shutil.rmtree(repo)


def growing_output(bench: Bench) -> Iterator[Row]:
    """A file of 1 GB that a program appends 1 MB to, in processor time."""
    repo = bench.scratch / "output"
    repo.mkdir()
    bench.git(repo, "init", "-q")()
    run = [sys.executable, "-P", "-c", GROWING]
    env = {**bench.env, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(run, cwd=repo, env=env, check=True, capture_output=True, text=True)
    taken = float(done.stdout) * 1000
    name = "save of a position, 1 MB more of a file of 1 GB, appends="
    yield Row(name, f"{taken:.0f} ms", "100 ms", taken / 100, 1.0)
    shutil.rmtree(repo)


def looking(bench: Bench) -> Iterator[Row]:
    """The terminal interface over 10,000 checkpoints and 300 sessions, in processor time."""
    repo = bench.scratch / "many"
    interface.furnish(repo, 10_000, 300, bench.env)
    imports, paints = [], []
    for _ in range(bench.runs):
        imports.append(interface.imported("textual.app", bench.env))
        paints.append(interface.first_paint(bench.program, repo, bench.env, b"prompt number"))
    ours = statistics.median(each.processor for each in paints)
    theirs = statistics.median(imports)
    name = "ui, first paint, 10,000 checkpoints, 300 sessions / import textual.app"
    yield Row(name, f"{ours * 1000:.0f} ms", f"{theirs * 1000:.0f} ms", ours / theirs, 2.0)
    peak = max(each.memory for each in paints) / 1e6
    yield Row("memory of ui, the same", f"{peak:.0f} MB", "150 MB", peak / 150, 1.0)
    longest = interface.steps(repo).processor * 1000
    name = "ui, longest step of scrolling, filtering and searching"
    yield Row(name, f"{longest:.0f} ms", "100 ms", longest / 100, 1.0)
    page = bench.gitcp(repo, "view", "--session", "long", "-o", os.fspath(bench.scratch / "page"))
    name = "view, 10,000 checkpoints"
    taken = statistics.median(processed(page) for _ in range(bench.runs))
    yield Row(name, f"{taken:.1f} s", "5 s", taken / 5, 1.0)


FLAGS = (
    (),
    ("--quiet",),
    ("--json",),
    ("--session", "small"),
    ("--include", "*.log"),
    ("--phase", "plan"),
    ("--objective", "measure"),
    ("--fact", "a=b"),
    ("--next", "go on"),
)
"""What may be given to a save that then finds nothing to do."""


def small(bench: Bench) -> Iterator[Row]:
    """Nothing changed among 1,000 files, with each flag: what a hook costs that saves nothing."""
    repo = made_up(bench.scratch / "small", 1000)
    for args in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "all")):
        bench.git(repo, *args)()
    nothing = command([sys.executable, "-c", "pass"], repo, bench.env)
    for flags in FLAGS:
        save = bench.gitcp(repo, "save", *flags)
        for _ in range(3):
            save()
        pair = in_turn(save, nothing, bench.runs)
        shown = " ".join(("save", *flags))
        yield row(f"{shown}, nothing changed, 1,000 files / python -c pass", pair, 2.0)


def turns(bench: Bench) -> Iterator[Row]:
    """Three sessions that save in turns in one working tree, against one session that does all the
    saves, in processor time: one file changed among 1,000.
    """
    repos = [made_up(bench.scratch / name, 1000) for name in ("alone", "turns")]
    for repo in repos:
        for args in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "all")):
            bench.git(repo, *args)()
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(3 * bench.runs + 6):
        for repo, names, into in zip(repos, ("a", "abc"), taken, strict=True):
            tracked(bench, repo)[number].write_text(f"{number}\n")
            save = bench.gitcp(repo, "save", "--session", names[number % len(names)] * 8)
            seconds = processed(save)
            if number >= 6:
                into.append(seconds)
    alone, in_turns = (Timing(tuple(each)) for each in taken)
    name = "save, one file of 1,000, three sessions by turns / one session"
    yield row(name, Pair(in_turns, alone), 1.2)


def growing(bench: Bench, given: Path | None) -> Iterator[Row]:
    """A conversation that grows: bytes of all objects against the last version alone, and time from
    first to last.
    """
    versions = (
        sorted(given.iterdir()) if given else list(_made_up_versions(bench.scratch / "versions"))
    )
    repo = _small(bench, "versions-store")
    for version in versions:
        bench.gitcp(repo, "save", "--session", "grow", "--conversation", str(version))()
    last = versions[-1].read_bytes()
    alone = len(zlib.compress(last, 1))
    stored = _object_bytes(repo)
    yield Row(
        f"all objects of {len(versions)} versions / zlib of the last",
        f"{stored:,}",
        f"{alone:,}",
        stored / alone,
        1.7,
    )
    lost = sum(
        _brought_back(bench, repo, at) != version.read_bytes()
        for at, version in enumerate(versions, 1)
    )
    yield Row(
        f"of {len(versions)} versions, not restored byte for byte / none", str(lost), "0", lost, 0
    )
    repo = _small(bench, "prefix-store")
    before = _object_bytes(repo)
    times = []
    lines = last.splitlines(keepends=True)
    target = bench.scratch / "prefix.jsonl"
    for number in range(1, 501):
        target.write_bytes(b"".join(lines[: max(1, len(lines) * number // 500)]))
        times.append(
            timed(
                bench.gitcp(
                    repo, "save", "--force", "--session", "grow", "--conversation", str(target)
                )
            )
        )
    stored = _object_bytes(repo) - before
    yield Row(
        "all objects of 500 growing prefixes / zlib of the last",
        f"{stored:,}",
        f"{alone:,}",
        stored / alone,
        5.0,
    )
    first, end = sorted(times[:50])[25], sorted(times[-50:])[25]
    yield Row(
        "save 451-500 / save 1-50",
        f"{end * 1000:.0f} ms",
        f"{first * 1000:.0f} ms",
        end / first,
        1.3,
    )


def _brought_back(bench: Bench, repo: Path, number: int) -> bytes:
    """The transcript that a restore of a checkpoint writes."""
    place = bench.scratch / f"restored{number}"
    args = ("restore", f"grow@{number}", "--conversation", "--to", str(place), "--json")
    done = subprocess.run(
        [*bench.program, *args], cwd=repo, env=bench.env, capture_output=True, check=True
    )
    return Path(json.loads(done.stdout)["resume"]["path"]).read_bytes()


def memory(bench: Bench, repo: Path) -> Iterator[Row]:
    """A save of a large tree with a transcript of 100 MB, in an empty store and again."""
    transcript = bench.scratch / "large.jsonl"
    line = b'{"role":"user","content":"' + random.Random(3).randbytes(1500).hex().encode() + b'"}\n'
    with transcript.open("wb") as file:
        for _ in range(100_000_000 // len(line) + 1):
            file.write(line)
    shutil.rmtree(repo / ".git/gitcp", ignore_errors=True)
    args = [
        *bench.program,
        "-C",
        str(repo),
        "save",
        "large",
        "--session",
        "large",
        "--conversation",
        str(transcript),
    ]
    for name in ("first save", "next save"):
        peak = peak_memory(args, repo, bench.env) / 1e6
        files = len(tracked(bench, repo))
        yield Row(
            f"memory of the {name}, {files:,} files, 100 MB transcript",
            f"{peak:.0f} MB",
            "150 MB",
            peak / 150,
            1.0,
        )


def large(bench: Bench, directories: int) -> Iterator[Row]:
    """Ten tiny files in each of many directories, in processor time and by the clock: the first
    save where git has the objects, against `git add -A` into an empty index; nothing changed
    against `git status`; one file changed against the shadow sequence; both while `gitcp watch`
    runs; and with a hundredth of the tree checked out, against a repository of that size.
    """
    repo = million.furnish(bench.scratch / "large", directories, bench.env)
    label = f"{directories * million.FILES:,} files in {directories:,} directories"
    time.sleep(3)  # of files as young as its index, git's index proves nothing
    index = {**bench.env, "GIT_INDEX_FILE": str(bench.scratch / "empty.index")}
    added = spent(command(["git", "add", "-A"], repo, index))
    yield from _compared(bench, repo, f"first save, {label} / git add -A, empty index", added, 1.5)
    status = spent_in_median(bench.git(repo, "status", "--porcelain"), 3)
    yield from _compared(bench, repo, f"save, nothing changed, {label} / git status", status, 0.7)
    shadow = bench.shadow(repo)
    edit = _edits(repo)
    theirs = spent_in_median(shadow, 3, edit)
    ours = spent_in_median(bench.gitcp(repo, "save"), 3, edit)
    name = f"save, one file changed, {label} / shadow sequence"
    yield from _spent_rows(name, ours, theirs, 0.8)
    yield _untold(bench, repo)
    yield from _watched(bench, repo, label)
    yield from _sparse(bench, repo, directories)


def _edits(repo: Path) -> Callable[[], None]:
    """An action that changes one file, each time another one."""
    numbers = iter(range(1000))

    def edit() -> None:
        path = repo / f"part0/group0/module{next(numbers) % 100}/file0.txt"
        path.write_text(f"{time.time_ns()}\n")

    return edit


def _compared(bench: Bench, repo: Path, name: str, theirs: Spent, limit: float) -> Iterator[Row]:
    """A save against the time of git, and its memory."""
    measured: list[int] = []
    ours = spent(_measured_save(bench, repo, measured))
    yield from _spent_rows(name, ours, theirs, limit)
    yield _memory_row(name.partition(" /")[0], measured, 250 if name.startswith("first") else 150)


def _measured_save(bench: Bench, repo: Path, peaks: list[int]) -> Callable[[], None]:
    """A save that notes its memory."""
    args = [*bench.program, "-C", str(repo), "save", "--quiet"]
    return lambda: peaks.append(peak_memory(args, repo, bench.env))


def _spent_rows(name: str, ours: Spent, theirs: Spent, limit: float) -> Iterator[Row]:
    for kind, each, other in zip(("processor", "clock"), ours, theirs, strict=True):
        yield Row(f"{name}, {kind}", f"{each:.2f} s", f"{other:.2f} s", each / other, limit)


def _memory_row(name: str, peaks: Sequence[int], most: int) -> Row:
    peak = max(peaks) / 1e6
    return Row(f"memory of the {name}", f"{peak:.0f} MB", f"{most} MB", peak / most, 1.0)


def _untold(bench: Bench, repo: Path) -> Row:
    """The files that git lists, and that the next checkpoint neither has nor names as skipped: one
    is too large.
    """
    with repo.joinpath("part0/group1/module1/too-large").open("wb") as file:
        file.truncate(11 << 20)
    bench.gitcp(repo, "save")()
    last = json.loads(_output([*bench.program, "log", "-n", "1", "--json"], repo, bench))
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = set(_output(listing, repo, bench).split(b"\0"))
    captured = ["git", "ls-tree", "-r", "-z", "--name-only", last["commit"]]
    told = set(_output(captured, repo, bench).split(b"\0"))
    skipped = {os.fsencode(skip["path"]) for skip in last["files"]["skipped"]}
    assert skipped & listed, "nothing was skipped, so nothing was tried"
    count = len(listed - told - skipped)
    return Row("files that git lists and a checkpoint does not", f"{count}", "0", count, 0)


def _output(args: Sequence[str], repo: Path, bench: Bench) -> bytes:
    return subprocess.run(args, cwd=repo, env=bench.env, capture_output=True, check=True).stdout


def _watched(bench: Bench, repo: Path, label: str) -> Iterator[Row]:
    """Saves while `gitcp watch` runs, which never comes to save by itself."""
    watching = [*bench.program, "watch", "--quiet", "86400", "--every", "0"]
    silent = subprocess.DEVNULL
    with subprocess.Popen(
        watching, cwd=repo, env=bench.env, stdout=silent, stderr=silent
    ) as watcher:
        try:
            while not repo.joinpath(".git/gitcp/watch.ipc").exists():
                assert watcher.poll() is None, "gitcp watch ended"
                time.sleep(0.1)
            for _ in range(2):  # the first look by it is a whole one
                bench.gitcp(repo, "save")()
            for name, edit, limit in (
                (f"save, nothing changed, watched, {label}", lambda: None, 0.2),
                (f"save, one file changed, watched, {label}", _edits(repo), 0.3),
            ):
                peaks: list[int] = []
                ours = spent_in_median(_measured_save(bench, repo, peaks), 5, edit)
                yield from _spent_rows(name, ours, Spent(limit, limit), 1.0)
                yield _memory_row(name, peaks, 150)
        finally:
            watcher.terminate()


def _sparse(bench: Bench, repo: Path, directories: int) -> Iterator[Row]:
    """Saves with a hundredth of the tree checked out, by a whole and by a sparse index, against a
    repository that has nothing else.
    """
    groups = max(1, directories // 10_000)  # of a hundred directories
    small = million.furnish(bench.scratch / "checked-out", groups * 100, bench.env)
    sets = [f"part{number // 10}/group{number % 10}" for number in range(groups)]
    for index in ("--no-sparse-index", "--sparse-index"):
        bench.git(repo, "checkout", "-q", "--", ".")()
        bench.git(repo, "sparse-checkout", "set", "--cone", index, *sets)()
        time.sleep(3)
        for each in (repo, small):
            bench.gitcp(each, "save")()
        for what, edits in (
            ("nothing changed", {repo: lambda: None, small: lambda: None}),
            ("one file changed", {each: _edits(each) for each in (repo, small)}),
        ):
            ours, theirs = (
                spent_in_median(bench.gitcp(each, "save"), 5, edits[each]) for each in (repo, small)
            )
            name = f"save, {what}, sparse checkout, {index[2:]} / only these files"
            yield from _spent_rows(name, ours, theirs, 1.5)


def _small(bench: Bench, name: str) -> Path:
    repo = bench.scratch / name
    repo.mkdir()
    bench.git(repo, "init", "-q")()
    (repo / "a.txt").write_text("a\n")
    return repo


def _made_up_versions(directory: Path) -> Iterator[Path]:
    directory.mkdir()
    rng = random.Random(4)
    words = [rng.randbytes(rng.randrange(2, 6)).hex() for _ in range(2000)]
    text = b""
    for number in range(31):
        for _ in range(16 if number else 160):
            content = " ".join(rng.choices(words, k=rng.randrange(20, 600)))
            text += f'{{"role":"user","content":"{content}"}}\n'.encode()
        path = directory / f"{number:03}.jsonl"
        path.write_bytes(text)
        yield path


def _object_bytes(repo: Path) -> int:
    return sum(path.stat().st_size for path in (repo / ".git/objects").rglob("*") if path.is_file())


USUAL = ("trees", "restore", "turns", "log", "ui", "growing", "stores")
LARGE = "large"
"""Takes a quarter of an hour and 6 GB, so it runs only by name."""


def main() -> int:
    """Run what was asked for, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tree", type=Path, action="append", default=[])
    parser.add_argument("--files", type=int, action="append", help="size of a made-up tree")
    parser.add_argument("--save-only", action="store_true", help="of trees: saves alone")
    parser.add_argument("--growing", type=Path)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--only", choices=(*USUAL, LARGE), action="append")
    parser.add_argument("--directories", type=int, default=100_000, help="of --only large")
    options = parser.parse_args()
    wanted = options.only or list(USUAL)
    over = False
    with tempfile.TemporaryDirectory(prefix="gitcp-bench-") as scratch:
        bench = Bench(Path(scratch), options.runs)
        for found in _figures(bench, options, wanted):
            sys.stdout.write(f"{found}\n")
            sys.stdout.flush()
            over = over or found.value > found.limit
    return int(over)


def _figures(bench: Bench, options: argparse.Namespace, wanted: list[str]) -> Iterator[Row]:
    if "trees" in wanted:
        for repo in trees(bench, options.tree, options.files or [13_000, 57_000]):
            yield from saving(bench, repo)
            if options.save_only:
                continue
            yield from creating(bench, repo)
            yield from rules(bench, repo)
            yield from memory(bench, repo)
            yield from beginning(bench, repo)
    if "restore" in wanted:
        for repo in trees(bench, options.tree, [13_000], "restored"):
            yield from restoring(bench, repo)
    if LARGE in wanted:
        yield from large(bench, options.directories)
    if "turns" in wanted:
        yield from turns(bench)
    if "log" in wanted:
        yield from small(bench)
        yield from listing(bench)
    if "ui" in wanted:
        yield from looking(bench)
    if "growing" in wanted:
        yield from growing(bench, options.growing)
        yield from growing_talk(bench)
        yield from growing_output(bench)
    if "stores" in wanted:
        yield from large_stores(bench)


if __name__ == "__main__":
    raise SystemExit(main())
