"""What Entire records, as its branch and its refs have it."""

from __future__ import annotations

import json
from typing import Any

from gitcp.sharing import entire

from driver import Project

IDS = ("0a1b2c3d4e5f", "0a1b2c3d4e60", "ffee00112233", "01JABCDEFGHJKMNPQRSTVWXYZ0")
SESSION = "5b1f7b0e-1111-4222-8333-444455556666"


def talk(*turns: str, session: str = SESSION) -> bytes:
    """A conversation of Claude Code."""
    lines = []
    for number, text in enumerate(turns):
        role = ("user", "assistant")[number % 2]
        message = {"role": role, "content": text}
        lines.append(
            {
                "type": role,
                "uuid": f"00000000-0000-4000-8000-{number:012}",
                "parentUuid": f"00000000-0000-4000-8000-{number - 1:012}" if number else None,
                "sessionId": session,
                "timestamp": f"2026-02-0{number + 1}T10:00:00Z",
                "cwd": "/somewhere",
                "message": message,
            }
        )
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def recorded(project: Project, ref: str, layout: dict[str, bytes]) -> None:
    """Let a ref name a commit with these files, and no parent."""
    stream = [f"commit {ref}\ncommitter entire <e@example.org> 1 +0000\ndata 0\n".encode()]
    for path, content in layout.items():
        stream.append(f"M 100644 inline {path}\ndata {len(content)}\n".encode() + content + b"\n")
    project.git("fast-import", "--quiet", "--force", input=b"".join(stream))


def layout(base: str, conversations: list[dict[str, Any]]) -> dict[str, bytes]:
    """The files of one checkpoint below `base`; "transcript" of a conversation may be in parts."""
    id = base.replace("/", "") or IDS[3]
    files = {f"{base}metadata.json": json.dumps({"checkpoint_id": id}).encode()}
    for number, fields in enumerate(conversations):
        parts = fields.pop("transcript", [talk("Do it.", "Done.")])
        for part, data in enumerate(parts):
            name = f"full.jsonl.{part:03}" if part else "full.jsonl"
            files[f"{base}{number}/{name}"] = data
        defaults = {"session_id": SESSION, "created_at": "2026-02-01T10:00:00.5Z", "branch": "main"}
        files[f"{base}{number}/metadata.json"] = json.dumps(defaults | fields).encode()
    return files


def branch(project: Project, *layouts: dict[str, bytes]) -> None:
    """Put checkpoints on Entire's branch."""
    files = {path: data for each in layouts for path, data in each.items()}
    recorded(project, f"refs/heads/{entire.BRANCH}", files)


def sharded(id: str) -> str:
    """Where the branch has a checkpoint."""
    return f"{id[:2]}/{id[2:]}/"
