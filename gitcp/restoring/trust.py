"""Trust: what somebody else made acts on this machine only after the user said so, knowing what in
it could act.

A checkpoint is foreign while no session of this repository has it. Looking at it needs no trust;
restoring it, forking from it and writing it anywhere does.
"""

from __future__ import annotations

from gitcp.errors import NotTrusted, Refused, StoreBusy
from gitcp.git import refs, trees
from gitcp.model import Checkpoint, Oid
from gitcp.restoring.request import know_files
from gitcp.store import Store
from gitcp.worktree import paths

ACTING_DIRECTORIES = frozenset(
    b".claude .codex .gemini .cursor .copilot .opencode .aider .vscode .idea .husky .githooks "
    b".devcontainer .circleci .zed .fleet".split()
)
ACTING_FILES = frozenset(
    b".envrc .mcp.json .gitmodules .gitattributes .pre-commit-config.yaml .gitlab-ci.yml AGENTS.md "
    b"CLAUDE.md GEMINI.md .cursorrules .npmrc .yarnrc.yml .gitcp.toml Jenkinsfile Makefile "
    b"makefile conftest.py sitecustomize.py".split()
)
ACTING_PLACES = (b".github/workflows/", b".github/actions/", b".github/copilot-instructions.md")


def is_foreign(store: Store, checkpoint: Checkpoint) -> bool:
    """Whether no session of this repository has this checkpoint."""
    return store.find(checkpoint.id) != checkpoint.commit and not store.holds(checkpoint.commit)


def require(store: Store, checkpoint: Checkpoint, *, trusted: bool) -> None:
    """Raise NotTrusted for a foreign checkpoint, with what in it could act on this machine, unless
    it is `trusted`.
    """
    if trusted or not is_foreign(store, checkpoint):
        return
    found = acting(store, checkpoint)
    lines = tuple(f"{paths.display(path)}  {why}" for path, why in found[:20])
    more = (f"… and {len(found) - 20:,} more",) if len(found) > 20 else ()
    what = "Its conversation would instruct your agent"
    what += "; these of its files could act on this machine" if found else ""
    raise NotTrusted(
        f"{checkpoint.id} comes from somebody else: nothing was changed. {what}",
        (*lines, *more),
        hint=(
            f"gitcp show {checkpoint.commit[:10]}, and if you trust it, the same command with "
            "--trust"
        ),
    )


def acting(store: Store, checkpoint: Checkpoint) -> list[tuple[bytes, str]]:
    """The paths of a checkpoint by which it could make a program act, with why."""
    know_files(store, checkpoint)
    found = []
    directories: dict[bytes, set[bytes]] = {}
    for path, _ in trees.walk(store.objects, checkpoint.snapshot.tree):
        why = _acts(path)
        if why:
            found.append((path, why))
        parent, _, last = path.rpartition(b"/")
        directories.setdefault(parent, set()).add(last)
        if b"/objects/" in path or b"/refs/" in path:
            top = path.split(b"/objects/" if b"/objects/" in path else b"/refs/")[0]
            directories.setdefault(top, set()).add(b"objects")
    bare = [
        d
        for d, names in directories.items()
        if b"HEAD" in names and names & {b"objects", b"config"}
    ]
    return [*found, *((directory, "a git repository without a working tree") for directory in bare)]


def _acts(path: bytes) -> str:
    *above, last = path.split(b"/")
    if ACTING_DIRECTORIES.intersection(above):
        return "settings of an agent, editor or hook"
    if last in ACTING_FILES or any(place in path for place in ACTING_PLACES):
        return "read or run by tools by itself"
    return ""


def admit(store: Store, checkpoint: Checkpoint, *, trusted: bool) -> None:
    """Make a trusted foreign checkpoint's session one of this repository, as far as it was fetched,
    so that it goes on.

    Does nothing for one that is not foreign. Writes one ref. Raises NotTrusted, and Refused if a
    session of that name went another way here.
    """
    require(store, checkpoint, trusted=trusted)
    if not is_foreign(store, checkpoint):
        return
    session = checkpoint.id.session
    tip = _fetched_tip(store, checkpoint)
    with store.lock():
        old = store.tip(session)
        if old is not None and old not in {summary.commit for summary in store.history(tip)}:
            raise Refused(
                f"session {session} went another way here, and sessions are never merged: nothing "
                "was changed",
                hint=f"gitcp fork {checkpoint.commit[:10]} --trust",
            )
        if not refs.update_ref(store.repo.common_dir, refs.SESSIONS + session, tip, old):
            raise StoreBusy(f"session {session} moved meanwhile: nothing was changed")


def _fetched_tip(store: Store, checkpoint: Checkpoint) -> Oid:
    """The end of the fetched session that has this checkpoint; itself where none has, or where two
    remotes go on from it otherwise: who is trusted with the one is not with the other.
    """
    listed = refs.list_refs(store.repo.common_dir, refs.REMOTES).items()
    tips = {tip for ref, tip in listed if ref.endswith("/sessions/" + checkpoint.id.session)}
    having = {
        tip
        for tip in tips
        if any(summary.commit == checkpoint.commit for summary in store.history(tip))
    }
    return having.pop() if len(having) == 1 else checkpoint.commit
