"""What `gitcp import --all` costs on a machine full of transcripts: time, disk, and a search in
what was stored. The transcripts are made here, as repetitive as real ones: compressed at git's
lowest level, they take a quarter of their size. Each row has its limit; one that is not kept ends
the benchmark with exit code 1.

    python tests/benchmarks/adopting.py [MEBIBYTES [PROJECTS [DIRECTORY]]]

1000 MiB of one project, in a temporary directory, where nothing else is said.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

SOURCE = Path(__file__).parents[2]
LARGEST = 8 << 20
TYPICAL = 12.2
"""The natural logarithm of a typical transcript's size in bytes: 200 KB, some are of many MB."""

NEEDLE, HAYSTACK = "quillwort", "the"
"""A word that occurs in few conversations, and one that is in most of them."""

FIELD = "parentUuid"
"""The name of a field, which is on most lines and in no message."""


class Writer:
    """Writes text as agents do: prose of common words, and the same files read again and again."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        letters = "etaoinshrdlucmfwypvbgk"
        lengths = range(2, 12)
        self._words = [
            "".join(self.chance.choices(letters, k=self.chance.choice(lengths)))
            for _ in range(20_000)
        ]
        weights = [(rank + 1) ** -1.15 for rank in range(len(self._words))]
        self._pool = self.chance.choices(self._words, weights, k=400_000)
        self._files = [self._file() for _ in range(300)]
        self._clock = datetime(2026, 9, 1, tzinfo=UTC)

    def time(self) -> str:
        """A time, later than the one before."""
        self._clock += timedelta(milliseconds=self.chance.randrange(1, 4000))
        return self._clock.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def prose(self, words: int) -> str:
        """Some words."""
        start = self.chance.randrange(len(self._pool) - words)
        text = self._pool[start : start + words]
        if self.chance.random() < 0.00001:
            text[0] = NEEDLE
        if self.chance.random() < 0.05:
            text[-1] = HAYSTACK
        return " ".join(text)

    def file(self) -> str:
        """A file of a project, slightly changed since."""
        lines = self.chance.choice(self._files).copy()
        lines[self.chance.randrange(len(lines))] = f"    {self.prose(6)}"
        return "\n".join(lines)

    def id(self) -> str:
        """An id that does not occur elsewhere."""
        return str(UUID(int=self.chance.getrandbits(128), version=4))

    def _file(self) -> list[str]:
        count = self.chance.randrange(20, 200)
        lines = [f"    {self.prose(self.chance.randrange(2, 10))}" for _ in range(count // 2)]
        return self.chance.choices(lines, k=count)


class Limit(NamedTuple):
    """What a step may take at most for each GiB of transcripts: seconds of processor time on one
    core, and MiB of memory however much there is.
    """

    seconds: float
    memory: float = 200


LIMITS = {
    "first run": Limit(120),
    "second run": Limit(3),
    "search": Limit(2),
    "search for a common word": Limit(2),
    "search for what is nowhere": Limit(2),
    "search for the name of a field": Limit(2),
}
"""The first run is to take a minute on two cores; the others do not depend on the size."""

DISK = 0.35
"""What is stored, the index for a search included, by the size of the transcripts."""

exceeded: list[str] = []


def judge(name: str, value: float, most: float, unit: str = "") -> str:
    """Return a value with its limit, and note it if it is above."""
    if value > most:
        exceeded.append(name)
    return f"{value:.2f}{unit} (limit {most:g}{unit}){' EXCEEDED' if value > most else ''}"


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Make the machine, adopt twice, search."""
    size, projects, directory, *_ = (*sys.argv[1:], *("1000", "1", "")[len(sys.argv) - 1 :], "")
    if directory:
        measure(Path(directory), int(size), int(projects))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            measure(Path(temporary), int(size), int(projects))
    if exceeded:
        sys.exit(f"above the limit: {', '.join(exceeded)}")


def measure(root: Path, mebibytes: int, projects: int) -> None:
    """Print what each step costs."""
    home = root / "home"
    if not home.exists():
        make(root, mebibytes << 20, projects)
    kept = sum(path.stat().st_size for path in home.rglob("*.jsonl"))
    count = sum(1 for _ in home.rglob("*.jsonl"))
    say(f"{count:,} transcripts, {kept >> 20:,} MiB")
    env = {**os.environ, "HOME": str(home), "PYTHONPATH": str(SOURCE)}
    for name in ("first run", "second run"):
        report(name, ["adopt", "--all", "--yes"], root, env, kept)
    stores = [*root.glob("projects/*/.git"), home / ".local/share/gitcp"]
    index = root / "projects/0/.git/gitcp/search"
    wait_for(index)
    searches = (NEEDLE, HAYSTACK, "zebrafishes", FIELD)
    for word, name in zip(searches, list(LIMITS)[2:], strict=True):
        report(name, ["find", word], root / "projects/0", env, kept)
    size = sum(path.stat().st_size for path in index.glob("*"))
    stored = sum(p.stat().st_size for store in stores for p in store.rglob("*") if p.is_file())
    ratio = judge("disk", stored / kept, DISK)
    say(f"disk: {stored >> 20:,} MiB, {ratio} of the transcripts; index: {size >> 20:,} MiB")


def wait_for(index: Path) -> None:
    """Wait until the background process has not written to the index for a while."""
    for _ in range(600):
        times = [path.stat().st_mtime for path in index.glob("*")]
        if times and time.time() - max(times) > 15:
            return
        time.sleep(1)


def report(
    name: str, command: list[str], cwd: Path, env: Mapping[str, str], transcripts: int
) -> None:
    """Run gitcp and print what it took."""
    start = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "gitcp", *command], cwd=cwd, env=env, stdout=out
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        lines = out.seek(0) or sum(1 for _ in out)
    assert process.returncode == 0, command
    took, limit = time.perf_counter() - start, LIMITS[name]
    seconds = limit.seconds * (max(1, transcripts / (1 << 30)) if name == "first run" else 1)
    processor = judge(name, usage.ru_utime + usage.ru_stime, seconds, " s")
    memory = judge(f"{name}: memory", usage.ru_maxrss / 1024, limit.memory, " MiB")
    say(f"{name}: {took:.1f} s; processor {processor}; memory {memory}; {lines:,} lines printed")


# ---------------------------------------------------------------- the machine


def make(root: Path, size: int, count: int) -> None:
    """Make projects, and transcripts of this many bytes in all, most of them of Claude Code."""
    writer = Writer(1)
    projects = [root / "projects" / str(number) for number in range(count)]
    for project in projects:
        project.mkdir(parents=True)
        subprocess.run(["git", "init", "--quiet", str(project)], check=True)
    while size > 0:
        # one project has most of the work
        project = projects[min(int(writer.chance.expovariate(0.5)), count - 1)]
        agent = writer.chance.choices((claude, codex, copilot), (6, 2, 1))[0]
        length = min(int(writer.chance.lognormvariate(TYPICAL, 1.3)), LARGEST)
        path, lines = agent(writer, root / "home", project)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for line in lines:
                file.write(json.dumps(line).encode() + b"\n")
                if file.tell() >= length:
                    break
            size -= file.tell()
        age = writer.chance.random() * 60 * 86400
        os.utime(path, (time.time() - age, time.time() - age))


def claude(writer: Writer, home: Path, cwd: Path) -> tuple[Path, Iterator[object]]:
    """A conversation of Claude Code."""
    session, name = writer.id(), "".join(c if c.isalnum() else "-" for c in str(cwd))
    common = {"sessionId": session, "cwd": str(cwd), "version": "2.1.0", "gitBranch": "main"}

    def lines() -> Iterator[object]:
        parent = None
        while True:
            for role, content in turn(writer):
                uuid = writer.id()
                message = {"role": role, "content": content}
                fields = {"parentUuid": parent, "type": role, "message": message, "uuid": uuid}
                yield {**fields, **common, "timestamp": writer.time()}
                parent = uuid

    return home / ".claude/projects" / name / f"{session}.jsonl", lines()


def turn(writer: Writer) -> Iterator[tuple[str, object]]:
    """A prompt, calls with their results, and an answer, as Claude Code writes them."""
    yield "user", writer.prose(writer.chance.randrange(5, 60))
    for _ in range(writer.chance.randrange(1, 8)):
        call = f"toolu_{writer.id()[:24]}"
        arguments = {"file_path": f"/src/{writer.prose(1)}.py"}
        yield "assistant", [{"type": "tool_use", "id": call, "name": "Read", "input": arguments}]
        yield "user", [{"type": "tool_result", "tool_use_id": call, "content": writer.file()}]
    yield "assistant", [{"type": "text", "text": writer.prose(writer.chance.randrange(20, 200))}]


def codex(writer: Writer, home: Path, cwd: Path) -> tuple[Path, Iterator[object]]:
    """A thread of Codex."""
    thread = writer.id()

    def lines() -> Iterator[object]:
        meta = {"session_id": thread, "id": thread, "cwd": str(cwd), "cli_version": "0.169.0"}
        yield {"timestamp": writer.time(), "type": "session_meta", "payload": meta}
        while True:
            for kind, fields in items(writer):
                payload = {"type": kind, **fields}
                yield {"timestamp": writer.time(), "type": "response_item", "payload": payload}

    day = home / ".codex/sessions/2026/11/02"
    return day / f"rollout-2026-11-02T09-01-00-{thread}.jsonl", lines()


def items(writer: Writer) -> Iterator[tuple[str, dict[str, object]]]:
    """A prompt, a call with its result, and an answer, as Codex writes them."""
    prompt = [{"type": "input_text", "text": writer.prose(30)}]
    yield "message", {"role": "user", "content": prompt}
    call = writer.id()
    arguments = json.dumps({"cmd": f"cat {writer.prose(1)}.py"})
    yield "function_call", {"name": "exec_command", "call_id": call, "arguments": arguments}
    yield "function_call_output", {"call_id": call, "output": writer.file()}
    answer = [{"type": "output_text", "text": writer.prose(80)}]
    yield "message", {"role": "assistant", "content": answer}


def copilot(writer: Writer, home: Path, cwd: Path) -> tuple[Path, Iterator[object]]:
    """A session of Copilot CLI."""
    session = writer.id()

    def lines() -> Iterator[object]:
        context = {"cwd": str(cwd), "gitRoot": str(cwd)}
        yield event(writer, "session.start", sessionId=session, context=context)
        while True:
            yield event(writer, "user.message", content=writer.prose(30))
            call = {"toolCallId": writer.id(), "name": "view", "arguments": {"path": "a.py"}}
            yield event(writer, "assistant.message", content="", toolRequests=[call])
            result = {"content": writer.file()}
            yield event(
                writer, "tool.execution_complete", toolCallId=call["toolCallId"], result=result
            )
            yield event(writer, "assistant.message", content=writer.prose(80))

    return home / ".copilot/session-state" / session / "events.jsonl", lines()


def event(writer: Writer, kind: str, **data: object) -> dict[str, object]:
    """One event of Copilot CLI."""
    return {"type": kind, "id": writer.id(), "timestamp": writer.time(), "data": data}


if __name__ == "__main__":
    main()
