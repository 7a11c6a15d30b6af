"""Whose changes a restore may undo: decided here, for the command line, the Python API, frameworks,
MCP and the terminal interface.

A user who goes back sees a plan, and decides. A restore that would change files of a live session,
one whose agent or program is at work, is refused unless the request is explicit. Sessions that have
ended and a person's edits are only listed: the safety checkpoint has them.

A program that goes back by itself undoes only what its session changed, and keeps what anybody else
did. Where both changed a path, and that cannot be merged, it is refused. It may ask for the whole
tree.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta

from gitcp import humanize
from gitcp.errors import OthersAffected, Refused, StoreDamaged
from gitcp.git import trees
from gitcp.git.objects import Objects
from gitcp.history import authors
from gitcp.history.authors import Step, Transition, WorktreeHistory
from gitcp.history.live import is_live
from gitcp.model import NOBODY, Agent, CheckpointId, Trigger
from gitcp.restoring.merge import Conflict
from gitcp.restoring.request import RestoreRequest
from gitcp.saving import authors as deciding
from gitcp.saving import session
from gitcp.state import latest, programs
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


def decided(store: Store, request: RestoreRequest) -> RestoreRequest:
    """Return a request with whose changes it undoes: those of `session`, and with `mine` no others.

    In a working tree in which nothing was ever saved, such as a new clone, a program restores all
    files: there, nobody has changed anything since its target.
    """
    request = replace(request, session=viewer(store, request))
    is_alone = request.program and not (request.whole_tree or request.undoing or request.reverted)
    if is_alone and request.files and latest.read(store.repo) is not None:
        return replace(request, mine=True)
    return request


def own_sessions(store: Store, request: RestoreRequest, own: str) -> frozenset[str]:
    """Return the sessions whose changes are a request's own. In a person's session, these are also
    what nobody is known to have done.
    """
    sessions = programs.sessions_inside(store.repo, own) | request.together
    is_person = _agent(store, own) is None and not request.program
    if is_person and not any(each.session == own for each in programs.known(store.repo)):
        sessions |= {NOBODY}
    return sessions


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
    """Return whether the agent or program of another session is at work."""
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
    try:
        is_copy = request.program or start.state is not None
        return authors.steps_since(store, request.target.id.session, start, is_copy=is_copy)
    except Refused as error:
        if not request.program:
            raise
        raise OthersAffected(
            f"{error}; with --whole-tree, all changes since are undone",
            hint=f"gitcp restore {request.target.id} --whole-tree",
        ) from error


def unsaved(store: Store, objects: Objects, taken: Taken, own: str) -> list[Step]:
    """Return the step from the last checkpoint of this working tree to the current files, as a save
    in the session `own` would record it; nothing if there is none. `objects` can read the trees.
    Writes nothing to the store.
    """
    newest = WorktreeHistory(store).newest()
    if newest is None:
        return []
    before = store.read(newest)
    changes = tuple(trees.diff(objects.reader, before.snapshot.tree, taken.snapshot.tree))
    agent = _agent(store, own)
    draft = replace(
        before,
        id=CheckpointId(own, before.id.number + 1),
        trigger=Trigger.BEFORE_RESTORE,
        agent=agent,
        conversation=before.conversation if agent else None,
        snapshot=taken.snapshot,
    )
    state = deciding.before(store, before)
    made = replace(draft, authors=deciding.decide(store, draft, taken, state, changes))
    return [Step(before, made, changes, is_whole=True)]


def transitions(
    store: Store, request: RestoreRequest, steps: Iterable[Step], own: str
) -> list[Transition]:
    """Return steps as the session sees them. For a revert, what came after the reverted step
    counts as another session's.
    """
    sessions = own_sessions(store, request, own)
    seen, is_later = [], False
    for step in steps:
        if step.before is None:
            continue
        is_dropped = step.after.authors is None or not step.is_whole
        if request.program and is_dropped and step.after.id.session in sessions:
            # Checkpoints in between were pruned, or are not in this clone: what others may have
            # done counts as the program's, or it could not resume.
            transition = authors.transition(step, sessions | step.unknown)
        else:
            transition = authors.transition(step, sessions)
        if is_later:
            transition = replace(transition, own=frozenset(), uncertain=frozenset())
        seen.append(transition)
        is_later |= request.reverted is not None and step.after.commit == request.target.commit
    return seen


def affected(
    store: Store,
    steps: Iterable[Step],
    own: frozenset[str],
    paths: Collection[bytes],
    *,
    unclaimed: bool = False,
) -> tuple[OtherSession, ...]:
    """Return the other sessions that changed any of these paths in the steps, or may have, the live
    ones first; with `unclaimed`, also the paths that nobody known changed.
    """
    changed: dict[str, set[bytes]] = {}
    for step in steps:
        for path, claim in step.claims().items():
            if path in paths:
                for name in claim.sessions | claim.possible:
                    changed.setdefault(name, set()).add(path)
    others = [
        OtherSession(name, _agent(store, name), _is_live(store, name), tuple(sorted(changed[name])))
        for name in changed.keys() - own - (set() if unclaimed else {NOBODY})
    ]
    return tuple(sorted(others, key=lambda each: (not each.live, each.session)))


def require_allowed(request: RestoreRequest, others: Sequence[OtherSession]) -> None:
    """Raise OthersAffected if a restore would change files of live sessions without being told
    to.
    """
    live = [each for each in others if each.live]
    if not live or request.mine or request.program or request.whole_tree or request.reverted:
        return
    names = ", ".join(each.session for each in live)
    error = OthersAffected(
        f"this would also undo changes of {names}, at work in this directory: nothing was changed",
        tuple(described(each) for each in live),
        hint="--mine restores only this session's changes, --whole-tree restores everything",
    )
    error.sessions = tuple((each.session, each.paths) for each in live)
    raise error


def require_merged(
    request: RestoreRequest, conflicts: Sequence[Conflict], others: Sequence[OtherSession]
) -> None:
    """Raise OthersAffected if what the session changed cannot be undone alone, unless conflicts are
    to be written as markers. `others` changed these paths as well, or may have.
    """
    if not conflicts or request.markers or request.reverted:
        return
    listed = tuple(f"{display(each.path)}  ({each.why})" for each in conflicts)
    paths = humanize.count(len(conflicts), "path")
    if request.undoing:
        command = request.undoing.command
        raise Refused(
            f"{paths} changed since and cannot be merged; nothing was changed. With --whole-tree, "
            "that is undone, too",
            listed,
            hint=f"gitcp {command} --whole-tree",
        )
    names = [each.session or "another session" for each in others]
    whose = f", also changed by {', '.join(names)}" if request.program and names else ""
    option = "--files --whole-tree" if request.program else "--mine --markers"
    otherwise = (
        "with --whole-tree, the others' changes are undone, too"
        if request.program
        else "name other paths, or write conflict markers"
    )
    error = OthersAffected(
        f"this session's changes cannot be undone alone: {paths} in conflict{whose}; nothing was "
        f"changed; {otherwise}",
        listed,
        hint=f"gitcp restore {request.target.id} {option}",
    )
    error.sessions = tuple((each.session, each.paths) for each in others)
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
    if programs.at_work(store.repo, name):
        return True
    return _agent(store, name) is not None and is_live(store, name, store.repo.host.now())


def known_steps(store: Store, request: RestoreRequest) -> list[Step]:
    """Return `steps`, nothing where they are not known."""
    try:
        return steps(store, request)
    except (Refused, StoreDamaged):
        return []
