"""What an agent is still to be told: that files or conversation went back to a checkpoint, or that
a save found damage.

A restore leaves a small file, `<git dir>/gitcp/untold`. The next session start or prompt of the
agent takes it, and tells it once: the session that was restored, and one that happened to be
running. A hook that found its session damaged leaves `notice`, which whichever session comes next
is told, once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from gitcp import wire
from gitcp.errors import GitcpError
from gitcp.git.fsync import read_own, replace_file
from gitcp.model import Checkpoint, CheckpointId, Note
from gitcp.restoring.plan import Kept
from gitcp.store import Store
from gitcp.value import Value, replace
from gitcp.worktree.paths import display

NAME = "untold"
NOTICE = "notice"
SHOWN = 10
LONGEST_LINE = 500
LONGEST = 8000


class RestoreNotice(Value):
    """A restore to be told. `here` is the checkpoint it ended with, `safety` what was there before.

    `session_id` is the agent's session that the conversation went to (None: to none). `told` says
    that another session of the agent knows already.
    """

    target: CheckpointId
    here: CheckpointId
    safety: CheckpointId
    agent: str | None
    session_id: str | None
    kept: tuple[tuple[str, str], ...]
    told: bool = False


def leave(
    store: Store, target: Checkpoint, here: Checkpoint, safety: CheckpointId, kept: tuple[Kept, ...]
) -> None:
    """Write down that this restore is to be told. A restore is no worse for a note that cannot be
    written.
    """
    agent = here.agent
    shown = tuple((display(each.path), each.reason) for each in kept)
    notice = RestoreNotice(
        target=target.id,
        here=here.id,
        safety=safety,
        agent=agent.name if agent else None,
        session_id=agent.session_id if agent else None,
        kept=(
            *shown[:SHOWN],
            *([("…", f"{len(shown) - SHOWN} more")] if len(shown) > SHOWN else []),
        ),
    )
    with suppress(OSError):
        _write(store, notice)


def take(store: Store, agent: str, session_id: str) -> str | None:
    """The note for this session of the agent, None if there is none; it is not given to it
    again.
    """
    notice = _read(store)
    if notice is None or notice.agent not in (None, agent):
        return None
    own = notice.session_id in (None, session_id)
    if notice.told and not own:
        return None
    if not _claimed(store, NAME):
        return None
    if not own:
        _write(store, replace(notice, told=True))
    return _text(store, notice)


def leave_notice(store: Store, text: str) -> None:
    """Write down what a save in the background found, for whichever session of an agent begins or
    is prompted next.
    """
    with suppress(OSError):
        replace_file(
            store.repo.state_dir / NOTICE, text.encode("utf-8", "backslashreplace"), sync=False
        )


def take_notice(store: Store) -> str | None:
    """The notice that was left, None if there is none; it is given once."""
    try:
        text = read_own(store.repo.state_dir / NOTICE).decode("utf-8", "replace")
    except OSError:
        return None
    return _line(f"gitcp: {text}. Tell the user.") if _claimed(store, NOTICE) else None


def _claimed(store: Store, name: str) -> bool:
    """Whether it is ours to tell: of several hooks at once, one removes the file."""
    try:
        os.unlink(store.repo.state_dir / name)
    except OSError:
        return False
    return True


def _write(store: Store, notice: RestoreNotice) -> None:
    fields = {
        "schema": "gitcp.untold/1",
        **{name: getattr(notice, name) for name in RestoreNotice.fields},
    }
    ids = {name: str(fields[name]) for name in ("target", "here", "safety")}
    replace_file(store.repo.state_dir / NAME, wire.dumps({**fields, **ids}, small=True), sync=False)


def _read(store: Store) -> RestoreNotice | None:
    try:
        fields = wire.loads(read_own(store.repo.state_dir / NAME))
        target, here, safety = (_id(fields[name]) for name in ("target", "here", "safety"))
        kept = tuple((str(path), str(reason)) for path, reason in fields["kept"])
        return RestoreNotice(
            target, here, safety, fields["agent"], fields["session_id"], kept, bool(fields["told"])
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _id(text: str) -> CheckpointId:
    found = wire.parse_id(text)
    if found is None:
        raise ValueError("no id")
    return found


# ---------------------------------------------------------------- the words


def _text(store: Store, notice: RestoreNotice) -> str:
    target, before = _checkpoint(store, notice.target), _checkpoint(store, notice.safety)
    words = target.note if target else Note()
    label = f' "{words.label}"' if words.label else ""
    lines = [
        (
            f"gitcp restored checkpoint {notice.target}{label}: "
            "files may not be as you remember them, so look first."
        ),
        f"What was there before is checkpoint {notice.safety}; `gitcp undo` brings it back.",
        *said(words),
        *_failed_since(words, before),
        *_not_restored(store, notice),
    ]
    return "\n".join(map(_line, lines))[:LONGEST]


def said(note: Note) -> Iterator[str]:
    """Facts and handoff as lines, facts first."""
    handoff = note.handoff
    yield from _listed("Facts:", (f"{key} = {value}" for key, value in sorted(note.facts.items())))
    for title, value in (
        ("Phase", note.phase),
        ("Objective", note.objective),
        ("Task", handoff.task),
    ):
        if value:
            yield f"{title}: {value}"
    yield from _listed("Decided:", handoff.decisions)
    yield from _listed("Tried, and failed:", handoff.failed)
    yield from _listed("Next:", handoff.next)
    yield from _listed("Files in work:", handoff.active)


def _failed_since(words: Note, before: Checkpoint | None) -> Iterator[str]:
    """What was tried in vain after the checkpoint: it is not in its words, and need not be tried
    again.
    """
    later = before.note.handoff.failed if before else ()
    yield from _listed(
        "Tried after that checkpoint, and failed:",
        (w for w in later if w not in words.handoff.failed),
    )


def _not_restored(store: Store, notice: RestoreNotice) -> Iterator[str]:
    yield from _listed("Not restored:", (f"{path}: {reason}" for path, reason in notice.kept))
    yield from _listed(
        "Effects elsewhere that still stand, and what would undo them:", _effects(store, notice)
    )


def _effects(store: Store, notice: RestoreNotice) -> Iterator[str]:
    """The compensations recorded after the target and before the restore."""
    tip = store.tip(notice.target.session)
    for summary in store.history(tip) if tip else ():
        if summary.id.number <= notice.target.number:
            return
        if notice.here.session != notice.target.session or summary.id.number < notice.here.number:
            yield from store.read(summary.commit).note.compensations


def _listed(title: str, items: Iterable[str]) -> Iterator[str]:
    found = list(items)
    if found:
        yield title
        yield from (f"- {item}" for item in found)


def _line(text: str) -> str:
    """One line of at most so many characters, nothing in it that is not shown."""
    flat = "".join(c if c.isprintable() else " " for c in text)
    return flat if len(flat) <= LONGEST_LINE else f"{flat[:LONGEST_LINE]}…"


def _checkpoint(store: Store, id: CheckpointId) -> Checkpoint | None:
    try:
        commit = store.find(id)
        return store.read(commit) if commit else None
    except GitcpError:
        return None
