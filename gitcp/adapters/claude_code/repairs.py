"""Plan the repairs of a transcript of which Claude Code would lose a part.

The first pass remembers a number for each line, so that a healthy transcript costs little. Only one
that may be damaged is read again, as an outline without texts, on which each repair is planned.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from gitcp import wire
from gitcp.adapters import base, mending
from gitcp.adapters.base import Stored
from gitcp.adapters.claude_code import NAME, SUBAGENT
from gitcp.adapters.claude_code.tree import (
    Node,
    answer_id,
    branch_of,
    is_boundary,
    is_turn,
    on_branch,
    part_ids,
)
from gitcp.adapters.conversion import Ids
from gitcp.adapters.mending import Edit, Faults, Plan, Record, Transcript
from gitcp.dialogue import UNANSWERED
from gitcp.model import MAIN, Stream

UNCHAINED = "messages without a parent (chained)"
UNLINKED = "messages whose parent is missing (linked to the one before)"
DUPLICATES = "messages with the id of another one (given their own, or left out if the same)"
OTHERS = "messages of an interleaved second process (left out)"
UNANSWERED_CALLS = "calls without a result (answered as interrupted)"

FORK = "fork-context-ref"
"""Type of the line that names what a forked sub-agent's transcript continues."""

PART = ("type", "id", "tool_use_id")
OUTLINE = ("uuid", "parentUuid", "type", "subtype", "isMeta")


class _Repair(NamedTuple):
    """What is repaired, how often, and how."""

    what: str
    number: int
    edit: Edit


def mend(transcript: Transcript, stored: Stored, stream: Stream) -> Plan:  # noqa: ARG001
    """Plan the repairs of what Claude Code itself loses, or of what its provider refuses.

    In a sub-agent's transcript, all lines are of a side chain, which is what counts there. One
    process writes it. A fork answers calls of the transcript that it was forked from.
    """
    is_main = stream.name == MAIN
    if not is_main and SUBAGENT.fullmatch(stream.place.rpartition("/")[2]) is None:
        return [], Counter()  # the log of a workflow
    edits: list[Edit] = []
    faults: Faults = Counter()
    if not _may_be_damaged(transcript, is_main=is_main):
        return edits, faults
    steps = STEPS if is_main else AGENT_STEPS
    if not is_main and any(node.get("type") == FORK for _, node in transcript):
        steps = FORK_STEPS
    fields = (*OUTLINE, "isSidechain") if is_main else OUTLINE
    outline = [_outline(node, fields) for _, node in transcript if base.string(node, "uuid")]
    for step in steps:
        repair = step(outline)
        if repair is not None:
            edits.append(repair.edit)
            faults[repair.what] = repair.number
            outline = [node for _, node in repair.edit((b"", node) for node in outline)]
    return edits, faults


def _outline(node: Node, names: tuple[str, ...]) -> Node:
    """Return these fields of a line, and its message without its texts."""
    message = base.message_of(node)
    fields = {name: _interned(node[name]) for name in names if name in node}
    parts = [
        {name: _interned(part[name]) for name in PART if name in part}
        for part in base.objects(message.get("content"))
    ]
    kept: Node = {"content": parts} if parts else {}
    if message.get("id"):
        kept["id"] = _interned(message["id"])
    if kept:
        fields["message"] = kept
    fields["sum"] = hash(wire.dumps(message))
    return fields


def _interned(value: Any) -> Any:
    """Return a value, and for equal texts the same object: each id is on several lines."""
    return sys.intern(value) if type(value) is str else value


# ---------------------------------------------------------------- first pass


def _may_be_damaged(transcript: Transcript, *, is_main: bool) -> bool:
    """Return whether a repair may be necessary. Reads the transcript to its end."""
    turns, running = _Turns(), set[str]()
    suspicious, chained, count = False, False, 0
    for _, node in transcript:
        if base.string(node, "uuid") is None:
            continue
        count += 1
        chained = chained or bool(node.get("parentUuid", "none is named"))
        if is_main and node.get("isSidechain"):
            continue
        suspicious = suspicious or turns.knows(node["uuid"])
        suspicious = suspicious or not turns.knows(base.string(node, "parentUuid"))
        turns.add(node)
        running.update(part_ids(node, "tool_use", "id"))
        for id in part_ids(node, "tool_result", "tool_use_id"):
            suspicious = suspicious or id not in running
            running.discard(id)
    return suspicious or turns.alternate or bool(running) or (count > 2 and not chained)


class _Turns:
    """The turns of the main conversation: a prompt with what follows. Shows whether two processes
    wrote them.

    One process ends a turn before it begins another, and goes on with a branch that it has left
    once at most: when the user resumes that one. Two processes write in the middle of each other's
    turns, or go on with their branches again and again.
    """

    def __init__(self) -> None:
        self._turns: dict[int, int] = {}
        self._before = [0]
        self._answers: list[str | None] = [None]
        self._continued = [False]
        self._current = self._first = self._returns = 0

    @property
    def alternate(self) -> bool:
        """Whether branches were written in turn."""
        return self._returns > 1

    def knows(self, uuid: str | None) -> bool:
        """Return whether this may be an earlier line; None is one."""
        return uuid is None or hash(uuid) in self._turns

    def add(self, node: Node) -> None:
        """Add a line."""
        turn = self._turns.get(hash(base.string(node, "parentUuid")), self._current)
        turn = self._current if turn < self._first else turn
        if is_boundary(node):
            turn = self._current = self._first = self._begin(0)
        elif _is_prompt(node):
            turn = self._begin(turn)
        self._turns[hash(node["uuid"])] = turn
        answer = answer_id(node)
        if answer is not None:
            self._answered(turn, answer)

    def _begin(self, before: int) -> int:
        self._before.append(before)
        self._answers.append(None)
        self._continued.append(False)
        return len(self._before) - 1

    def _answered(self, turn: int, answer: str) -> None:
        last = self._answers[turn]
        if last is None:
            before = self._answered_before(turn)
            if before:
                self._returns += before != self._current and not self._continued[before]
                self._continued[before] = True
        elif turn != self._current and answer != last:
            self._returns += 2  # in the middle of a turn
        self._answers[turn], self._current = answer, turn

    def _answered_before(self, turn: int) -> int:
        """Return the closest turn before it that has an answer; 0 if there is none."""
        turn = self._before[turn]
        while turn and self._answers[turn] is None:
            turn = self._before[turn]
        return turn


def _is_prompt(node: Node) -> bool:
    typed = node.get("type") == "user" and not node.get("isMeta")
    return typed and not part_ids(node, "tool_result", "tool_use_id")


# ---------------------------------------------------------------- links


def _distinct(nodes: list[Node]) -> _Repair | None:
    """Give each message its own id: of two with one id, Claude Code knows only the last. The same
    with the same parent is no damage.
    """
    first: dict[str, Node] = {}
    count: Counter[str] = Counter()
    new: dict[tuple[str, int], str | None] = {}
    for node in nodes:
        uuid = node["uuid"]
        count[uuid] += 1
        if is_boundary(node):
            first.clear()
        other = first.setdefault(uuid, node)
        if node.get("isSidechain") or other.get("parentUuid") == node.get("parentUuid"):
            continue
        same = other["sum"] == node["sum"]
        new[uuid, count[uuid]] = None if same else Ids(NAME, uuid, str(count[uuid])).next()
    return _Repair(DUPLICATES, len(new), lambda each: _renamed(each, new)) if new else None


def _renamed(records: Iterator[Record], new: dict[tuple[str, int], str | None]) -> Iterator[Record]:
    """Yield the records with these ids, by the former one and how often it was there; those with
    None are left out. Each parent is the last message before with that id.
    """
    count: Counter[str] = Counter()
    repeated = {uuid for uuid, _ in new}
    current: dict[str, str] = {}
    for text, fields in records:
        uuid, parent = base.string(fields, "uuid") or "", base.string(fields, "parentUuid") or ""
        changes = {"parentUuid": current[parent]} if parent in current else {}
        if uuid in repeated:
            count[uuid] += 1
            new_id = new.get((uuid, count[uuid]), uuid)
            if new_id is None:
                continue
            if new_id != uuid:
                changes["uuid"] = current[uuid] = new_id
        yield mending.record({**fields, **changes}) if changes else (text, fields)


def _linked(nodes: list[Node]) -> _Repair | None:
    """Link a message whose parent is missing to the one before, as Claude Code does; former
    versions lost what was before. A transcript may begin with such messages.
    """
    known = {node["uuid"] for node in nodes}
    parents: dict[str, str] = {}
    before = None
    for node in nodes:
        if node.get("isSidechain"):
            continue
        if before is not None and (base.string(node, "parentUuid") or before) not in known:
            parents[node["uuid"]] = before
        before = node["uuid"]
    return _Repair(UNLINKED, len(parents), lambda each: _moved(each, parents)) if parents else None


def _chained(nodes: list[Node]) -> _Repair | None:
    """Chain messages of which none has a parent: Claude Code would send only the last one."""
    if len(nodes) < 3 or any(node.get("parentUuid", "none is named") for node in nodes):
        return None
    main = [node["uuid"] for node in nodes if not node.get("isSidechain")]
    parents = dict(zip(main[1:], main, strict=False))
    return _Repair(UNCHAINED, len(nodes) - 1, lambda each: _moved(each, parents))


def _moved(records: Iterator[Record], parents: dict[str, str]) -> Iterator[Record]:
    for text, fields in records:
        parent = parents.get(base.string(fields, "uuid") or "")
        yield mending.record({**fields, "parentUuid": parent}) if parent else (text, fields)


# ---------------------------------------------------------------- two processes


def _of_one_process(nodes: list[Node]) -> _Repair | None:
    """Leave out what is not on the branch of the last message, if two processes wrote it."""
    turns = _Turns()
    for node in nodes:
        if not node.get("isSidechain"):
            turns.add(node)
    if not turns.alternate:
        return None
    branch = on_branch(nodes)
    start = next((n for n in sorted(branch) if is_boundary(nodes[n])), -1)
    others = [
        node
        for n, node in enumerate(nodes)
        if n > start and n not in branch and not node.get("isSidechain")
    ]
    left_out, count = {node["uuid"] for node in others}, sum(map(is_turn, others))

    def without(records: Iterator[Record]) -> Iterator[Record]:
        return (each for each in records if base.string(each[1], "uuid") not in left_out)

    return _Repair(OTHERS, count, without) if count else None


# ---------------------------------------------------------------- calls and results


def _called(nodes: list[Node]) -> _Repair | None:
    """Keep results without a call as text: Claude's API refuses them."""
    calls = {id for node in nodes for id in part_ids(node, "tool_use", "id")}
    results = chain.from_iterable(
        part_ids(node, "tool_result", "tool_use_id")
        for node in nodes
        if not node.get("isSidechain")
    )
    lost = set(results) - calls
    return _Repair(mending.ORPHANS, len(lost), lambda each: _as_text(each, lost)) if lost else None


def _as_text(records: Iterator[Record], lost: set[str]) -> Iterator[Record]:
    for text, fields in records:
        ids = part_ids(fields, "tool_result", "tool_use_id")
        if not lost.intersection(ids):
            yield text, fields
            continue
        message = base.message_of(fields)
        parts = base.objects(message.get("content"))
        content = [new for part in parts for new in _shown(part, lost)]
        node = {name: fields[name] for name in fields if name != "toolUseResult"}
        node |= {"message": {**message, "content": content}}
        yield mending.record(node if len(ids) < len(parts) else {**node, "isMeta": True})


def _shown(part: dict[str, Any], lost: set[str]) -> list[dict[str, Any]]:
    """Return a result without a call as text and files; anything else as it is."""
    if part.get("type") != "tool_result" or str(part.get("tool_use_id")) not in lost:
        return [part]
    content = part.get("content")
    text = {"type": "text", "text": content}
    parts = [text] if isinstance(content, str) and content else base.objects(content)
    return [{"type": "text", "text": mending.LOST}, *parts]


def _answered(nodes: list[Node]) -> _Repair | None:
    """Answer calls that never were: of a message with such a call, Claude Code sends nothing."""
    missing = _never_answered(nodes)
    if not missing:
        return None
    count = sum(map(len, missing.values()))
    return _Repair(UNANSWERED_CALLS, count, lambda each: _with_results(each, missing))


def _never_answered(nodes: list[Node]) -> dict[str, list[str]]:
    """Return the calls on the last branch that have no result although the conversation has gone
    on, by the id of their line. What still runs at the end is none of these.
    """
    branch = branch_of(nodes)
    answered = {id for node in branch for id in part_ids(node, "tool_result", "tool_use_id")}
    missing: dict[str, list[str]] = {}
    gone_on: set[str | None] = set()
    for node in reversed(branch):
        calls = [id for id in part_ids(node, "tool_use", "id") if id not in answered]
        if calls and gone_on - {answer_id(node)}:
            missing[str(node["uuid"])] = calls
        if not part_ids(node, "tool_result", "tool_use_id"):
            gone_on.add(answer_id(node))
    return missing


def _with_results(records: Iterator[Record], missing: dict[str, list[str]]) -> Iterator[Record]:
    """Yield the records, with a result for each of these calls between its line and the next."""
    moved: dict[str | None, str] = {}
    for text, fields in records:
        parent, uuid = base.string(fields, "parentUuid"), base.string(fields, "uuid")
        moved_to = {"parentUuid": moved[parent]} if parent in moved else {}
        yield mending.record({**fields, **moved_to}) if moved_to else (text, fields)
        if uuid in missing and uuid not in moved:
            results = [
                {"type": "tool_result", "tool_use_id": id, "content": UNANSWERED, "is_error": True}
                for id in missing[str(uuid)]
            ]
            new = Ids(NAME, str(uuid)).next()
            node = {**fields, "type": "user", "uuid": new, "parentUuid": uuid}
            yield mending.record({**node, "message": {"role": "user", "content": results}})
            moved[uuid] = new


STEPS: tuple[Callable[[list[Node]], _Repair | None], ...] = (
    _distinct,
    _linked,
    _chained,
    _of_one_process,
    _called,
    _answered,
)
"""The repairs, each planned on what the one before leaves."""

AGENT_STEPS = tuple(step for step in STEPS if step is not _of_one_process)
FORK_STEPS = tuple(step for step in AGENT_STEPS if step is not _called)
