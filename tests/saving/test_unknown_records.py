"""Records of kinds that an adapter does not know are saved, and people are told: by the save that
meets them first, and by whoever looks for what is wrong.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path

import pytest
import transcripts

from gitcp import adapters
from gitcp.adapters.base import MOST_UNKNOWN
from gitcp.model import Digest
from gitcp.saving.save import SaveRequest, save

from driver import Project
from samples import open_store

KIND = "of-next-year"
RECORDS = {
    "claude-code": {"type": KIND},
    "codex": {"type": "response_item", "payload": {"type": KIND}},
    "gemini": {"type": KIND, "id": "n"},
    "opencode": {"info": {"role": "user"}, "parts": [{"type": "text"}, {"type": KIND}]},
    "copilot": {"type": KIND, "id": "n"},
    "pi": {"type": KIND, "id": "n"},
    "qwen": {"type": KIND, "uuid": "n"},
}


@pytest.mark.parametrize("agent", RECORDS)
def test_each_adapter_notices(agent: str) -> None:
    """Once, in the order of their first, and a few of many; broken lines are none."""
    digest = adapters.load(agent).digest
    line = json.dumps(RECORDS[agent]).encode()

    assert digest(Digest(), [line, b"{half", b"", line]).unknown == (KIND,)
    many = [line.replace(KIND.encode(), b"kind-%03d" % number) for number in range(99)]
    assert len(digest(Digest(), many).unknown) == MOST_UNKNOWN


def test_who_is_told(project: Project) -> None:
    """`save` once, then `status`, `doctor`, `doctor --store` and programs; the bytes are kept."""
    home = Path(os.environ["HOME"])
    id = transcripts.write("claude-code", home, project.root)
    assert not project.gitcp("save", "as it is known", check=0).err
    path = next(home.rglob(f"{id}.jsonl"))
    with path.open("ab") as file:
        file.write(b'{"type":"vote","sessionId":"%s","payload":{"up":1}}\n' % id.encode())
    sentence = (
        "wrote records of kinds that this gitcp does not know (vote): they are saved byte for byte,"
        " and not shown"
    )

    first = project.gitcp("save", "one", check=0)
    assert first.err.startswith("note: Claude Code 2.1.")
    assert sentence in first.err
    project.write("a", "changed")
    assert not project.gitcp("save", "two", check=0).err
    for typed in ("status", "doctor", "doctor --store"):
        assert sentence in project.gitcp(*typed.split()).out, typed
    assert "\nRecords       Claude Code 2.1." in project.gitcp("status").out, "said it twice"
    (unknown,) = json.loads(project.gitcp("doctor", "--json").out)["unknown"]
    assert unknown.pop("version").startswith("2.1.")
    assert unknown == {"agent": "claude-code", "kinds": ["vote"], "sessions": 1}
    conversation = json.loads(project.gitcp("show", "--json", check=0).out)["conversation"]
    assert conversation["unknown"] == ["vote"]
    assert conversation["sha256"] == sha256(path.read_bytes()).hexdigest()


def test_what_a_program_gets(project: Project) -> None:
    """The kinds that are new in the session."""
    home = Path(os.environ["HOME"])
    id = transcripts.write("claude-code", home, project.root)
    path = next(home.rglob(f"{id}.jsonl"))
    for kinds in (("vote",), (), ("vote", "poll")):
        with path.open("ab") as file:
            file.writelines(b'{"type":"%s"}\n' % kind.encode() for kind in kinds)
        project.write("a", str(kinds))
        saved = save(open_store(project), SaveRequest(project.root))
        new = tuple(kind for kind in kinds if (kind, len(kinds)) != ("vote", 2))
        assert saved.unknown == new
        assert saved.to_json()["unknown"] == list(new)
