"""What `gitcp save` does once its options are read. Loads no click: the plain forms come here
directly.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gitcp.cli import humanize
from gitcp.cli.context import Context
from gitcp.cli.output import BOLD, GREEN, Styled
from gitcp.errors import BadValue, GitcpError
from gitcp.lifecycle import housekeeping
from gitcp.model import Checkpoint, CheckpointId, Handoff, Note, Skip, Trigger
from gitcp.saving import unchanged
from gitcp.saving.save import Request, Saved, save
from gitcp.value import replace
from gitcp.worktree.paths import display

SHOWN = 10

DEFAULTS: Mapping[str, Any] = {
    "label": None,
    "phase": None,
    "objective": None,
    "facts": (),
    "task": None,
    "decided": (),
    "failed": (),
    "next": (),
    "active": (),
    "position": (),
    "compensate": (),
    "trigger": "manual",
    "tags": (),
    "session": None,
    "agent": None,
    "conversation": None,
    "include": (),
    "force": False,
    "quiet": False,
    "as_json": False,
}
"""Every option of `gitcp save` as it is when it is not given."""


PATIENCE = 0.5
"""Seconds for which the conversation of the agent that runs the command is waited for, where there
is none yet.
"""


def perform(context: Context, given: Mapping[str, Any]) -> None:
    """Save as the options say, and tell."""
    saved = save(context.store, _request(context, given))
    if saved.damage:
        context.output.say(f"note: {saved.damage}; gitcp check names what is damaged")
    if given["as_json"]:
        _print_json(context, saved)
    elif not given["quiet"]:
        _print(context, saved)
    if saved.saved:
        retain(context, saved.checkpoint.id)
    if not saved.saved and _is_repeatable(context, given, saved):
        said = (saved.reason, *_rest(saved))
        unchanged.remember_answer(
            context.store, saved, context.arguments[1:], "".join(f"{line}\n" for line in said)
        )


def _is_repeatable(context: Context, given: Mapping[str, Any], saved: Saved) -> bool:
    """Whether files alone decide over the answer to the same options: no pipe, no transcript that
    was looked for in vain and may turn up anywhere, no tags, which the JSON document names. A
    warning is to be printed each time.
    """
    if context.arguments[:1] != ("save",) or given["as_json"] or context.warned:
        return False
    if given["conversation"] is not None:
        return all(source.path is not None for source in saved.sources)
    agent = saved.checkpoint.agent
    return bool(saved.sources) or agent is None or agent.session_id is None


def retain(context: Context, saved: CheckpointId) -> None:
    """Begin in the background what is due after a save, and say what came of the last time. The
    save stands anyway.
    """
    try:
        housekeeping.after_save(context.store, saved)
    except GitcpError as error:
        if str(error) not in context.warned:
            context.output.say(f"note: nothing was dropped: {error}")
    said = housekeeping.take_report(context.store.repo)
    if said is not None:
        context.output.say(f"note: {said}")


def _request(context: Context, given: Mapping[str, Any]) -> Request:
    return Request(
        cwd=context.cwd,
        note=replace(note_of(given), label=given["label"], compensations=given["compensate"]),
        trigger=Trigger(given["trigger"]),
        tags=given["tags"],
        session=given["session"],
        agent=given["agent"],
        conversation=_conversation(context, given["conversation"]),
        limits=context.limits(given["include"]),
        force=given["force"],
        patience=PATIENCE,
    )


def note_of(given: Mapping[str, Any]) -> Note:
    """What the options of a note say."""
    return Note(
        phase=given["phase"],
        objective=given["objective"],
        facts=pairs(given["facts"]),
        handoff=Handoff(
            given["task"], given["decided"], given["failed"], given["next"], given["active"]
        ),
        position=pairs(given["position"]),
    )


def _conversation(context: Context, given: str | None) -> Path | bytes | None:
    if given is None:
        return None
    if given == "":
        raise BadValue(
            "--conversation names no file: nothing was saved", hint="--conversation FILE  (or -)"
        )
    return sys.stdin.buffer.read() if given == "-" else Path(os.path.join(context.cwd, given))


def _print_json(context: Context, saved: Saved) -> None:
    from gitcp.cli import objects  # only for programs

    found = objects.checkpoint(saved.checkpoint, context.tags.get(saved.checkpoint.commit, ()))
    fields = {"saved": saved.saved, "reason": saved.reason, "checkpoint": found}
    context.output.document(objects.document("save", fields))


def _print(context: Context, saved: Saved) -> None:
    output, checkpoint = context.output, saved.checkpoint
    if not saved.saved:
        output.line(saved.reason)
    else:
        label = f' "{checkpoint.note.label}"' if checkpoint.note.label else ""
        output.line(
            Styled("saved", GREEN),
            " ",
            Styled(str(checkpoint.id), BOLD),
            label,
            f"  ({_extent(checkpoint)})",
        )
    for line in _rest(saved):
        output.line(line)


def _rest(saved: Saved) -> list[str]:
    """What is said of every save, whether a checkpoint was made or not."""
    left_out = humanize.listed([said(skip) for skip in saved.taken.snapshot.skipped], SHOWN)
    return [f"conversation: {saved.why}", *(f"not saved: {line}" for line in left_out)]


def _extent(checkpoint: Checkpoint) -> str:
    files = humanize.count(checkpoint.changed, "file") + " changed"
    if checkpoint.conversation is None:
        return f"{files}, no conversation"
    return f"{files}, {humanize.count(checkpoint.conversation.digest.messages, 'message')}"


def said(skip: Skip) -> str:
    """A skipped path and why, on one line."""
    detail = f", {skip.detail}" if skip.detail else ""
    return f"{display(skip.path)}  ({skip.reason.value}{detail})"


def pairs(given: Sequence[str]) -> dict[str, str]:
    """`KEY=VALUE` options as a mapping; the last one of a key holds."""
    found = (text.partition("=") for text in given)
    return {key.strip(): value for key, _, value in found}
