"""Trust: a checkpoint from another repository acts on this machine only after the user agreed,
having seen what in it could act.

A checkpoint is foreign while no session of this repository has it. Looking at it needs no trust;
restoring it, forking from it and writing it anywhere does.
"""

from __future__ import annotations

from gitcp.agents import KNOWN
from gitcp.errors import NotTrusted, Refused, StoreBusy
from gitcp.git import refs, trees
from gitcp.model import RESERVED, Checkpoint, Oid
from gitcp.state import numbers
from gitcp.store import MEMORY, STATES, Store
from gitcp.worktree import paths

ACTING_DIRECTORIES = frozenset(
    b".agents .copilot .aider .vscode .idea .husky .githooks .devcontainer .circleci .zed "
    b".fleet".split()
) | {
    agent.project.encode()
    for agent in KNOWN
    # what of .github acts is named below
    if agent.project.startswith(".") and agent.project not in (".", ".github")
}
ACTING_FILES = frozenset(
    b".envrc .mcp.json .gitmodules .gitattributes .pre-commit-config.yaml .gitlab-ci.yml AGENTS.md "
    b"CLAUDE.md GEMINI.md QWEN.md .cursorrules .npmrc .yarnrc.yml .gitcp.toml Jenkinsfile Makefile "
    b"makefile conftest.py sitecustomize.py".split()
)
ACTING_PLACES = (
    *(b".github/workflows/", b".github/actions/", b".github/copilot-instructions.md"),
    *(b".github/hooks/", b".github/skills/", b".github/copilot/"),
)

DUMPED = "content that --state would give to your own command"
REMEMBERED = "memory that your agent reads in every session"


def is_foreign(store: Store, checkpoint: Checkpoint) -> bool:
    """Return whether no session of this repository has this checkpoint."""
    return not store.holds(checkpoint.commit)


def require(store: Store, checkpoint: Checkpoint, *, trusted: bool) -> None:
    """Raise NotTrusted for a foreign checkpoint, listing what could act on this machine, unless
    `trusted`.
    """
    if trusted or not is_foreign(store, checkpoint):
        return
    active = acting(store, checkpoint)
    lines = tuple(f"{paths.display(path)}  {why}" for path, why in active[:20])
    more = (f"… and {len(active) - 20:,} more",) if len(active) > 20 else ()
    dangers = ["its conversation can steer your agent"] * (checkpoint.conversation is not None)
    dangers += ["these of its files can run code here"] * bool(active)
    warning = " and ".join(dangers)
    raise NotTrusted(
        f"{checkpoint.id} is not from this repository: nothing was changed. If you trust it, "
        "repeat the command with --trust" + (f": {warning}" if warning else ""),
        (*lines, *more),
        hint=f"gitcp show {checkpoint.commit[:10]}",
    )


def command(command: str, store: Store, checkpoint: Checkpoint) -> str:
    """Return a command of gitcp's that takes a checkpoint, as a hint: a foreign one by its commit,
    since an own session may have its name, and with what it needs.
    """
    if is_foreign(store, checkpoint):
        return f"gitcp {command} {checkpoint.commit[:10]} --trust"
    return f"gitcp {command} {checkpoint.id}"


def acting(store: Store, checkpoint: Checkpoint) -> list[tuple[bytes, str]]:
    """Return the paths of a checkpoint that can make a program act, with the reason."""
    active = _remembered(store, checkpoint)
    directories: dict[bytes, set[bytes]] = {}
    for path, _ in trees.walk(store.reader, checkpoint.snapshot.tree):
        why = _acts(path)
        if why:
            active.append((path, why))
        parent, _, last = path.rpartition(b"/")
        directories.setdefault(parent, set()).add(last)
        if b"/objects/" in path or b"/refs/" in path:
            top = path.split(b"/objects/" if b"/objects/" in path else b"/refs/")[0]
            directories.setdefault(top, set()).add(b"objects")
    bare_repositories = [
        d
        for d, names in directories.items()
        if b"HEAD" in names and names & {b"objects", b"config"}
    ]
    return [
        *active,
        *(
            (directory, "a git repository without a working tree")
            for directory in bare_repositories
        ),
    ]


def _remembered(store: Store, checkpoint: Checkpoint) -> list[tuple[bytes, str]]:
    """Return the files of agents' memories, which a restore of the conversation writes, and the
    states that a restore may give to a command.
    """
    tree = checkpoint.memory.tree if checkpoint.memory else None
    top = b"/".join((RESERVED, MEMORY, b""))
    walked = trees.walk(store.reader, tree) if tree else ()
    stored = checkpoint.states.stored if checkpoint.states else ()
    dumped = (b"/".join((RESERVED, STATES, state.name.encode())) for state in stored)
    return [*((top + path, REMEMBERED) for path, _ in walked), *((path, DUMPED) for path in dumped)]


def _acts(path: bytes) -> str:
    *above, last = path.split(b"/")
    if ACTING_DIRECTORIES.intersection(above):
        return "settings of an agent, editor or hook"
    if last in ACTING_FILES or any(part in path for part in ACTING_PLACES):
        return "read or run automatically by tools"
    return ""


def admit(store: Store, checkpoint: Checkpoint, *, trusted: bool) -> None:
    """Make the session of a trusted foreign checkpoint a session of this repository, so that it can
    continue.

    Does nothing for one that is not foreign. Writes one ref, and the numbers that it goes on with.
    Raises NotTrusted, and Refused if a session of that name has diverged here.
    """
    if not is_foreign(store, checkpoint):
        return
    require(store, checkpoint, trusted=trusted)
    session = checkpoint.id.session
    tip = _fetched_tip(store, checkpoint)
    with store.lock():
        old = store.tip(session)
        if old is not None and old not in {summary.commit for summary in store.history(tip)}:
            raise Refused(
                f"session {session} has diverged here, and sessions are never merged: nothing "
                "was changed",
                hint=f"gitcp fork {checkpoint.commit[:10]} --trust",
            )
        # A deleted session was taken over as it had been pushed, and gave the numbers of what was
        # in the trash again, which could not be brought back any more.
        numbers.stand_at(store, {session: tip})
        if not store.repo.refs.update(refs.SESSIONS + session, tip, old):
            raise StoreBusy(f"session {session} changed at the same time: nothing was changed here")


def _fetched_tip(store: Store, checkpoint: Checkpoint) -> Oid:
    """Return the last checkpoint of the fetched session that has this one; the checkpoint itself if
    none has it, or if two remotes continue it differently, since trusting one is not trusting the
    other.
    """
    remote_refs = store.repo.refs.list(refs.REMOTES).items()
    tips = {tip for ref, tip in remote_refs if ref.endswith("/sessions/" + checkpoint.id.session)}
    holders = {
        tip
        for tip in tips
        if any(summary.commit == checkpoint.commit for summary in store.history(tip))
    }
    return holders.pop() if len(holders) == 1 else checkpoint.commit
