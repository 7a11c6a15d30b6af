"""Attributed commits as notes of Git AI (authorship/3.0.0): https://github.com/git-ai-project/git-ai.

A note lists who wrote which lines of each path, then, as JSON, the sessions. The notes of a ref are
written as one commit, and none is replaced: another writer's note may say more. That is also so
where Git AI writes at the same moment: the ref moves only from the commit whose notes were read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

from gitcp import wire
from gitcp.errors import GitFailed, Refused, StoreBusy
from gitcp.model import Oid
from gitcp.review.attribution import AttributedCommit, Part, Writer
from gitcp.store import Store, signature
from gitcp.wire import Json

REF = "refs/notes/ai"
VERSION = "authorship/3.0.0"
MESSAGE = b"Notes added by gitcp export --as git-ai\n"
TOOLS = {"claude-code": "claude", "copilot": "github-copilot-cli"}
"""What Git AI calls an agent, where gitcp calls it differently."""

DIGITS = 14
TRIES = 10


class Added(NamedTuple):
    """The commits that got a note, and REF before and after."""

    commits: frozenset[Oid]
    before: Oid | None
    after: Oid | None


def note(commit: AttributedCommit) -> str:
    """Return the note of a commit. Pure."""
    lines = []
    sessions: dict[str, Json] = {}
    for path, parts in named(commit).files.items():
        name = name_of(path) or ""
        lines.append(f'"{name}"' if " " in name else name)
        for part in parts:
            key = _session(part.writer)
            lines.append(f"  {key}::t_{part.writer.checkpoint[:DIGITS]} {_ranges(part)}")
            sessions[key] = _record(part.writer, commit.author)
    metadata = {
        "schema_version": VERSION,
        "git_ai_version": None,
        "base_commit_sha": commit.commit.oid,
        "prompts": {},
        "sessions": dict(sorted(sessions.items())),
    }
    text = wire.dumps(metadata).decode("utf-8")
    return "\n".join([*lines, "---", text])


def named(commit: AttributedCommit) -> AttributedCommit:
    """Return a commit with those of its paths that a note can name."""
    files = {path: parts for path, parts in commit.files.items() if name_of(path) is not None}
    return commit._replace(files=files)


def name_of(path: bytes) -> str | None:
    """Return a path as a note names it; None if a note cannot."""
    try:
        name = path.decode("utf-8")
    except UnicodeDecodeError:
        return None
    odd = not name.isprintable() or '"' in name or name.strip() != name or name == "---"
    return None if odd else name


def _session(writer: Writer) -> str:
    tool, id = _identity(writer)
    return f"s_{sha256(f'{tool}:{id}'.encode()).hexdigest()[:DIGITS]}"


def _identity(writer: Writer) -> tuple[str, str]:
    name = writer.agent.name
    return TOOLS.get(name, name), writer.agent.session_id or writer.session


def _record(writer: Writer, author: str) -> Json:
    tool, id = _identity(writer)
    return {
        "agent_id": {"tool": tool, "id": id, "model": writer.agent.model or "unknown"},
        "human_author": author,
        "custom_attributes": {"source": "gitcp"},
    }


def _ranges(part: Part) -> str:
    return ",".join(
        f"{first}-{last}" if first < last else str(first) for first, last in part.ranges
    )


def noted(store: Store) -> frozenset[Oid]:
    """Return the commits that have a note."""
    listed = store.repo.git("notes", f"--ref={REF}", "list", accept=(0, 1))
    return frozenset(Oid(line.split()[1]) for line in listed.decode("ascii").splitlines())


def check_ref(store: Store) -> None:
    """Raise Refused if REF is another name of another ref: in an archive it led to the branch,
    which got the notes.
    """
    if store.repo.git_once("symbolic-ref", "-q", REF, accept=(0, 1)):
        raise Refused(
            f"{REF} is a symbolic ref: nothing was written",
            hint=f"git symbolic-ref --delete {REF}",
        )


def add(store: Store, notes: Mapping[Oid, str], now: datetime) -> Added:
    """Write notes as one commit on REF, but none for a commit that has one. Raises StoreBusy if the
    ref moves all the time.
    """
    for _ in range(TRIES):
        before = tip(store)
        known = noted(store)  # after the tip: if it is newer, the ref has moved
        new = {commit: text for commit, text in notes.items() if commit not in known}
        after = _written(store, new, before, now) if new else before
        if after is not None or not new:
            return Added(frozenset(new), before, after)
    raise StoreBusy(f"{REF} moves all the time: nothing was written", hint="run it again")


def _written(
    store: Store, notes: Mapping[Oid, str], before: Oid | None, now: datetime
) -> Oid | None:
    """Write notes on top of `before` and return their commit; None if the ref is elsewhere."""
    stream = b"".join(_stream(store, notes, before, now))
    try:
        output = store.repo.git_once("fast-import", "--quiet", input=stream)
    except GitFailed:
        if tip(store) == before:
            raise
        return None
    return Oid(output.decode("ascii").strip())


def _stream(
    store: Store, notes: Mapping[Oid, str], before: Oid | None, now: datetime
) -> Iterable[bytes]:
    committer = f"committer {signature(store.repo, now)}\n".encode("utf-8", "replace")
    yield b"commit %s\nmark :1\n%s" % (REF.encode(), committer)
    yield b"data %d\n%s" % (len(MESSAGE), MESSAGE)
    if before is not None:
        yield f"from {before}\n".encode()
    for commit, text in notes.items():
        data = text.encode("utf-8", "replace")
        yield b"N inline %s\ndata %d\n%s\n" % (commit.encode(), len(data), data)
    yield b"get-mark :1\ndone\n"


def tip(store: Store) -> Oid | None:
    """Return the commit of REF, None if there is none."""
    return store.repo.refs.list("refs/notes/").get(REF)
