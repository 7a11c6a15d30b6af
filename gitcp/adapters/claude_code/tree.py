"""The tree of a Claude Code transcript. What counts is the branch of the last message, back to the
last compaction. Parallel calls fork it, so the other lines of the same answer, and their results,
belong to it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gitcp.adapters import base
from gitcp.adapters.claude_code import TURNS

Node = dict[str, Any]


def tree_of(records: Iterable[Node]) -> tuple[list[Node], str | None, str | None]:
    """Return the lines of the tree, the title, and the version. Of lines with one id, the last
    counts.
    """
    nodes: dict[str, Node] = {}
    title = version = None
    for fields in records:
        uuid = base.string(fields, "uuid")
        version = base.string(fields, "version") or version
        title = base.string(fields, "customTitle") or title or base.string(fields, "aiTitle")
        if uuid is not None:
            nodes[uuid] = fields
    return list(nodes.values()), title, version


def branch_of(nodes: list[Node]) -> list[Node]:
    """Return the messages on the branch of the last one, in file order, since the last
    compaction.
    """
    return [
        nodes[n]
        for n in sorted(on_branch(nodes))
        if nodes[n].get("type") in TURNS or is_boundary(nodes[n])
    ]


def on_branch(nodes: list[Node]) -> set[int]:
    """Return the positions of all lines on the branch of the last message."""
    by_id = {node["uuid"]: n for n, node in enumerate(nodes)}
    chain = set(_ancestors(nodes, by_id))
    answers = {answer_id(nodes[n]) for n in chain} - {None}
    chain |= {
        n
        for n, node in enumerate(nodes)
        if answer_id(node) in answers and not node.get("isSidechain")
    }
    calls = {call for n in chain for call in part_ids(nodes[n], "tool_use", "id")}
    have = {call for n in chain for call in part_ids(nodes[n], "tool_result", "tool_use_id")}
    missing = calls - have
    for n, node in enumerate(nodes if missing else ()):
        results = part_ids(node, "tool_result", "tool_use_id") if n not in chain else ()
        if not missing.isdisjoint(results) and not node.get("isSidechain"):
            chain.add(n)
            missing.difference_update(results)
    return chain


def _ancestors(nodes: list[Node], by_id: dict[str, int]) -> Iterator[int]:
    """Yield the positions from the last message back to the root, or to the last compaction.

    A parent that is missing is the line before; if no line has a parent, so is every parent.
    """
    main = [n for n, node in enumerate(nodes) if not node.get("isSidechain")]
    turns = [n for n in main if nodes[n].get("type") in TURNS]
    unchained = len(turns) > 1 and not any(base.string(nodes[n], "parentUuid") for n in main)
    before = dict(zip(main[1:], main, strict=False))
    at: int | None = turns[-1] if turns else None
    seen: set[int] = set()
    while at is not None and at not in seen:
        seen.add(at)
        yield at
        parent = base.string(nodes[at], "parentUuid")
        if is_boundary(nodes[at]):
            return
        if parent is None:
            at = before.get(at) if unchained else None
        else:
            at = by_id.get(parent, before.get(at))


def is_turn(node: Node) -> bool:
    """Return whether a line is a message of the conversation itself, not of a sub-agent."""
    return node.get("type") in TURNS and not node.get("isSidechain")


def is_boundary(node: Node) -> bool:
    """Return whether a line is a compaction."""
    return node.get("type") == "system" and node.get("subtype") == "compact_boundary"


def answer_id(node: Node) -> str | None:
    """Return the id of the answer that a line is part of; None for anything but an answer."""
    return base.string(base.message_of(node), "id") if node.get("type") == "assistant" else None


def part_ids(node: Node, kind: str, field: str) -> list[str]:
    """Return the ids in a field of the parts of one kind."""
    parts = base.objects(base.message_of(node).get("content"))
    return [str(part.get(field)) for part in parts if part.get("type") == kind]
