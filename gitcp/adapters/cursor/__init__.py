"""Cursor, the editor and its command line: a transcript for each conversation below
`~/.cursor/projects`, in a directory for each place where it was opened.

    <projects>/<directory>/agent-transcripts/<id>/<id>.jsonl            append-only
    <projects>/<directory>/agent-transcripts/<id>/subagents/<id>.jsonl
    <projects>/<directory>/agent-transcripts/<id>.jsonl                 earlier versions of the CLI
    <projects>/<directory>/.workspace-trusted                           names the directory

Lines have a role and blocks of content, but no ids, no times, and mostly no results of tools.
Cursor itself reads its databases and never a transcript, so no conversation is placed for it. It
was not run: this follows its documentation, and what other programs read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from gitcp import wire
from gitcp.adapters import base, directories, generic
from gitcp.adapters.base import Found, Message, Placement, Stored
from gitcp.adapters.session_files import SessionFiles
from gitcp.model import MAIN, Agent, Capture, Host, Source

OTHER = re.compile(r"[^A-Za-z0-9]+")
LONGEST = 92
"""Characters of a directory's name; of a longer one the beginning and a checksum are there."""
QUERY = re.compile(r"<user_query>\s*(.*?)\s*</user_query>", re.DOTALL)
"""What somebody typed, among what the editor adds."""


class Cursor(SessionFiles):
    """Cursor's conversations."""

    NAME = "cursor"
    id_field = ""
    in_each_line = False
    latest = ()
    below = "agent-transcripts"
    kinds = frozenset(("message", "turn_ended"))

    # ------------------------------------------------------------ finding

    def directory(self, cwd: str, host: Host) -> Path:
        """Return the directory of a working directory. Several can have the same."""
        name = OTHER.sub("-", cwd).strip("-")
        if len(name) > LONGEST:
            checksum = sha256(cwd.encode("utf-8", "surrogateescape")).hexdigest()
            name = f"{name[:84]}-{checksum[:7]}"
        return _projects(host) / name

    def files(self, host: Host) -> Iterable[Path]:
        """Return all transcripts."""
        found = (
            path
            for pattern in ("*/agent-transcripts/*.jsonl", "*/agent-transcripts/*/*.jsonl")
            for path in base.glob(_projects(host), pattern)
        )
        return [path for path in found if _is_main(path)]

    def files_of(self, cwd: str, host: Host) -> Iterable[Path]:
        """Return the transcripts that may be of sessions started in `cwd`, a real path."""
        chats = self.directory(cwd, host) / self.below
        found = (path for name in ("*.jsonl", "*/*.jsonl") for path in base.glob(chats, name))
        return [path for path in found if _is_main(path)]

    def cwd_of(self, path: Path) -> str | None:
        """Return the directory in which a conversation was held, None if no file names it."""
        trusted = base.settings(_chats(path).parent / ".workspace-trusted")
        named = base.string(trusted, "workspacePath")
        return directories.real(named) if named else None

    def is_of(self, path: Path, roots: set[str]) -> bool:
        """Return whether a transcript in the directory of one of these is of it."""
        cwd = self.cwd_of(path)
        return cwd is None or cwd in roots

    def beside(self, path: Path) -> Iterable[Path]:
        """Return the transcripts of sub-agents."""
        if path.parent.name != path.stem:
            return ()
        agents = base.glob(path.parent / "subagents", "*.jsonl")
        return [each for each in agents if base.found(self.NAME, "", each)]

    def watched(self, cwd: Path, host: Host) -> tuple[Path, ...]:
        """Return the directories of this directory's sessions, and their files."""
        chats = [self.directory(root, host) / self.below for root in sorted(base.roots(cwd))]
        below = [path for directory in chats for path in base.glob(directory, "*")]
        return (*super().watched(cwd, host), *below)

    def command(self, session_id: str) -> tuple[str, ...]:  # noqa: ARG002
        """Return no command: a conversation that was placed cannot be resumed."""
        return ()

    # ------------------------------------------------------------ reading

    def capture(self, found: Found) -> Capture:
        """Capture a transcript, and those of its sub-agents."""
        sources = [Source(MAIN, path=found.path, live=True, place=found.path.name)]
        sources += (
            Source(f"agents/{path.stem}", path=path, live=True, place=path.name)
            for path in sorted(self.beside(found.path))
            if base.STREAM_PART.fullmatch(path.stem)
        )
        cwd = self.cwd_of(found.path)
        agent = Agent(self.NAME, found.session_id)
        return Capture(agent, self.NAME, tuple(sources), Path(cwd) if cwd else None)

    def kind_of(self, fields: dict[str, Any]) -> object:
        """Return the kind of a line: those with messages have a role and no type."""
        return "message" if "role" in fields else fields.get("type")

    def parts(self, fields: dict[str, Any]) -> Iterator[Message]:
        """Yield what a line shows."""
        role = fields.get("role")
        content = base.message_of(fields).get("content")
        if role not in ("user", "assistant"):
            return
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        for block in base.objects(content):
            yield from _shown(str(role), block)

    # ------------------------------------------------------------ placing

    # the protocol's
    def place(self, stored: Stored, cwd: Path, host: Host, *, new_id: str) -> Placement:  # noqa: ARG002
        """Put the conversation where people can read it: Cursor imports none."""
        return generic.set_aside(stored, "Cursor cannot import this conversation; it")


def typed(text: str) -> str:
    """Return what somebody typed, of the text of a user's message."""
    queries = QUERY.findall(text)
    return "\n".join(queries) if queries else text


def _projects(host: Host) -> Path:
    return host.home / ".cursor" / "projects"


def _chats(path: Path) -> Path:
    """Return the directory of all transcripts, given one of them."""
    return path.parents[path.parent.name == path.stem]


def _is_main(path: Path) -> bool:
    return _chats(path).name == Cursor.below


def _shown(role: str, block: dict[str, Any]) -> Iterator[Message]:
    match block.get("type"):
        case "text":
            text = base.string(block, "text") or ""
            yield Message(role, typed(text) if role == "user" else text)
        case "thinking":
            yield Message("thinking", base.string(block, "thinking") or "")
        case "tool_use":
            given = wire.dumps(block.get("input")).decode().strip()
            name, id = base.string(block, "name") or "?", base.string(block, "id")
            yield Message(role, given, tool=name, call=id)
        case "tool_result":
            id = base.string(block, "tool_use_id")
            failed = block.get("is_error") is True
            text = base.text_of(block.get("content"))
            yield Message("tool", text, tool="?", call=id, failed=failed)


ADAPTER = Cursor()
