"""What other sessions changed in this working tree since a checkpoint, before a restore goes back
past it.

A restore that would change files of a live session, one whose agent is at work, is refused unless
the request is explicit. Sessions that have ended and a person's edits are only listed: the safety
checkpoint has them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta

from gitcp.errors import OthersAffected, Refused, StoreDamaged
from gitcp.git import trees
from gitcp.git.objects import Objects
from gitcp.history import authors
from gitcp.history.authors import Line, Step, Transition
from gitcp.history.live import is_live
from gitcp.model import NOBODY, Agent, CheckpointId, Trigger
from gitcp.restoring.request import RestoreRequest
from gitcp.saving import authors as deciding
from gitcp.saving import session
from gitcp.store import Store
from gitcp.value import Value, replace
from gitcp.worktree.paths import display
from gitcp.worktree.snapshot import Taken

A_DAY = timedelta(days=1)
"""Sessions without a checkpoint for longer are not at work: hooks save whatever an agent does."""

SHOWN = 5
"""Paths of a session that an error names."""


class OtherSession(Value):
    """Another session that changed paths, or may have. `live`: its agent is at work."""

    session: str
    agent: Agent | None
    live: bool
    paths: tuple[bytes, ...]


def viewer(store: Store, request: RestoreRequest) -> str:
    """Return the session whose changes are a request's own: the current one if it contains the
    target, else the target's.
    """
    if request.session is not None:
        return request.session
    current = session.current(store)
    if current == request.target.id.session:
        return current
    tip = store.tip(current) if current else None
    if current and tip and any(s.commit == request.target.commit for s in store.readable(tip)):
        return current
    return session.owner(store, request.target)


def has_live(store: Store, own: str) -> bool:
    """Return whether the agent of another session is at work."""
    since = store.repo.host.now() - A_DAY
    for name, tip in store.sessions().items():
        last = session.last_summary(store, tip) if name != own else None
        if last is not None and last.created >= since and _is_live(store, name):
            return True
    return False


def steps(store: Store, request: RestoreRequest) -> list[Step]:
    """Return what changed in this working tree since the checkpoint that a request goes back to,
    oldest first, up to the last checkpoint. Raises Refused if that is not known.
    """
    start = request.reverted or request.target
    return authors.steps_since(store, request.target.id.session, start.commit)


def unsaved(store: Store, objects: Objects, taken: Taken, own: str) -> list[Step]:
    """Return the step from the last checkpoint of this working tree to the current files, as a save
    in the session `own` would record it; nothing if there is none. `objects` can read the trees.
    Writes nothing to the store.
    """
    newest = Line(store).newest()
    if newest is None:
        return []
    before = store.read(newest)
    changes = tuple(trees.diff(objects.reader, before.snapshot.tree, taken.snapshot.tree))
    draft = replace(
        before,
        id=CheckpointId(own, before.id.number + 1),
        trigger=Trigger.BEFORE_RESTORE,
        agent=_agent(store, own),
        snapshot=taken.snapshot,
    )
    state = deciding.before(store, before)
    made = replace(draft, authors=deciding.decide(store, draft, taken, state, changes))
    return [Step(before, made, changes, is_whole=True)]


def transitions(
    store: Store, request: RestoreRequest, steps: Iterable[Step], own: str
) -> list[Transition]:
    """Return steps as the session sees them: a person's session made what nobody known did. For a
    revert, what came after the reverted step counts as another session's.
    """
    also = None if _agent(store, own) else NOBODY
    seen, is_later = [], False
    for step in steps:
        if step.before is None:
            continue
        transition = authors.transition(step, own, also)
        if is_later:
            transition = replace(transition, own=frozenset(), uncertain=frozenset())
        seen.append(transition)
        is_later |= request.reverted is not None and step.after.commit == request.target.commit
    return seen


def affected(
    store: Store, steps: Iterable[Step], own: str, paths: Collection[bytes]
) -> tuple[OtherSession, ...]:
    """Return the other sessions that changed any of these paths in the steps, or may have, the live
    ones first.
    """
    changed: dict[str, set[bytes]] = {}
    for step in steps:
        for path, claim in step.claims().items():
            if path in paths:
                for name in claim.sessions | claim.possible:
                    changed.setdefault(name, set()).add(path)
    others = [
        OtherSession(name, _agent(store, name), _is_live(store, name), tuple(sorted(changed[name])))
        for name in changed.keys() - {own, NOBODY}
    ]
    return tuple(sorted(others, key=lambda each: (not each.live, each.session)))


def require_allowed(request: RestoreRequest, others: Sequence[OtherSession]) -> None:
    """Raise OthersAffected if a restore would change files of live sessions without being told
    to.
    """
    live = [each for each in others if each.live]
    if not live or request.mine or request.whole_tree or request.reverted:
        return
    names = ", ".join(each.session for each in live)
    error = OthersAffected(
        f"this would also undo changes of {names}, at work in this directory: nothing was changed",
        tuple(described(each) for each in live),
        hint="--mine restores only this session's changes, --whole-tree restores everything",
    )
    error.sessions = tuple((each.session, each.paths) for each in live)
    raise error


def described(other: OtherSession) -> str:
    """Return a session and its paths on one line."""
    agent = f" ({other.agent.name})" if other.agent else ""
    shown = ", ".join(map(display, other.paths[:SHOWN]))
    more = f" and {len(other.paths) - SHOWN:,} more" if len(other.paths) > SHOWN else ""
    return f"{other.session}{agent}: {shown}{more}"


def _agent(store: Store, name: str) -> Agent | None:
    """Return the agent of a session, None for a person's."""
    tip = store.tip(name) if name else None
    last = session.last_summary(store, tip) if tip else None
    if last is None or not last.trailers.get("Gitcp-Agent"):
        return None
    return Agent(last.trailers["Gitcp-Agent"], last.trailers.get("Gitcp-Agent-Session"))


def _is_live(store: Store, name: str) -> bool:
    return _agent(store, name) is not None and is_live(store, name, store.repo.host.now())


def known_steps(store: Store, request: RestoreRequest) -> list[Step]:
    """Return `steps`, nothing where they are not known."""
    try:
        return steps(store, request)
    except (Refused, StoreDamaged):
        return []
