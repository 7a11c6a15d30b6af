"""A repository opened by a program, with the methods to save and to prepare a restore."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypedDict

from gitcp import agents, wire
from gitcp.api import pushed
from gitcp.api.checked import checked, require
from gitcp.errors import BadValue, GitcpError, RevisionNotFound
from gitcp.git.growing import GrowingSum
from gitcp.git.repo import Repository
from gitcp.history import here, revisions
from gitcp.lifecycle import housekeeping
from gitcp.model import Agent, Checkpoint, CheckpointId, Handoff, Host, Note, Oid, Trigger
from gitcp.restoring import restore
from gitcp.restoring.message import Rewound
from gitcp.saving import recorded, save
from gitcp.saving import session as session_op
from gitcp.saving.save import Saved, SaveRequest
from gitcp.state import rewrite, settings
from gitcp.store import Store, Summary
from gitcp.value import EMPTY, replace
from gitcp.worktree.given import encoded, encoded_path

OnePath = str | bytes | os.PathLike[str]
"""A path relative to the repository's root, or an absolute one in it."""

Paths = OnePath | Iterable[OnePath]
"""One such path, or several."""

Texts = str | Iterable[str]
"""One text, or several."""

Files = str | bytes | os.PathLike[str] | Iterable[str | bytes | os.PathLike[str]]
"""One file, or several."""


class SaveOptions(TypedDict, total=False):
    """The options of Opened.save, but for its session."""

    conversation: pushed.Pushed | None
    agent: Agent | str | None
    format: str | None
    phase: str | None
    objective: str | None
    facts: Mapping[str, object]
    position: Mapping[str, object]
    handoff: Handoff | None
    compensate: Texts
    trigger: str
    tags: Texts
    include: Texts
    outputs: Files
    appends: Files
    force: bool


class Opened:
    """The base of Checkpoints and Session. Each call opens the store again, so threads can share
    it. A `with` block closes it at its end. `promised` are the files that this program said it only
    appends to.
    """

    def __init__(self, path: Path, host: Host) -> None:
        self.path = path
        self.host = host
        self._repo = Repository.open(path, host)
        self._growing_sum = GrowingSum()
        self._summaries: dict[Oid, Summary] = {}
        self.promised = set[bytes]()
        self.root = self._repo.root

    def store(self) -> Store:
        """Return a store for the calling thread, for operations without a method here. An
        interrupted prune is finished and what a framework recorded becomes checkpoints first.
        """
        store = Store(self.repository(), self._summaries)
        with suppress(GitcpError):  # what must have it finished raises this again
            rewrite.settle(store)
        recorded.commit_all(store)
        return store

    def repository(self) -> Repository:
        """Return the repository for the calling thread; for frameworks, not a public method."""
        repo = Repository.open(self.path, self.host)
        repo.read_by_libgit2()
        if repo.git_dir == self._repo.git_dir:  # else somebody made another repository there
            repo.growing_sum = self._growing_sum
            if repo.git_options == self._repo.git_options:  # else git refuses to work by now
                repo.cat_file = self._repo.cat_file
        return repo

    def close(self) -> None:
        """End the `git` process that reads objects, if one runs: about 10 MB. The next call that
        needs one starts another; none outlives this object or the program.
        """
        self._repo.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            f"{type(self).__name__} cannot be pickled or copied, it has open files: pass its path, "
            "and call gitcp.open(path) there"
        )

    def _read(self, store: Store, revision: str, session: str | None = None) -> Checkpoint:
        current = session_op.current(store, session)
        within = current if session is not None else None
        return store.read(revisions.resolve(store, revision, current=current, within=within))

    def _to_change(self, store: Store, revision: str, session: str | None) -> Checkpoint:
        """Return a checkpoint, for what changes files. Raises Refused if the revision counts in a
        session of another working tree.
        """
        checkpoint = self._read(store, revision, session)
        here.require(store, self.path, session, revision)
        return checkpoint

    def _session_here(self, store: Store, session: str | None) -> str:
        """Return the current session, for what changes files. Raises RevisionNotFound, and Refused
        if it is one of another working tree.
        """
        current = session_op.current(store, session)
        if current is None:
            raise RevisionNotFound("there is no checkpoint: nothing was changed")
        here.require_session(store, self.path, session)
        return current

    # ------------------------------------------------------------ save

    @checked("nothing was saved")
    def save(
        self,
        label: str | None = None,
        *,
        session: str | None = None,
        conversation: pushed.Pushed | None = None,
        agent: Agent | str | None = None,
        format: str | None = None,
        phase: str | None = None,
        objective: str | None = None,
        facts: Mapping[str, object] = EMPTY,
        position: Mapping[str, object] = EMPTY,
        handoff: Handoff | None = None,
        compensate: Texts = (),
        trigger: str = "manual",
        tags: Texts = (),
        include: Texts = (),
        outputs: Files = (),
        appends: Files = (),
        force: bool = False,
    ) -> Saved:
        """Save files and conversation. On any error, raises a GitcpError and makes no checkpoint.

        With `session`, the checkpoint goes to that session without looking for an agent: its
        conversation is `conversation` (bytes, a file, or streams by name), else the previous one.
        Without, works like `gitcp save`. If nothing changed, returns the last checkpoint.

        `outputs` are files that the program writes, relative to the directory that was opened: they
        are saved whatever their size, ignored or not. `appends` are those that the program only
        appends to: of a large one, a save stores what is new. From the first save that names one,
        or `resume`, the saves of this object read only its end; everybody else's read all of it.
        Raises Refused if `position` is given and another file that changed would be left out.

        Values of `position` are JSON values, and come back as they were given (tuples as lists);
        values of `facts` are stored as text.
        """
        texts, spot = {key: str(value) for key, value in facts.items()}, position_of(position)
        commands = texts_of("compensate", compensate)
        note = Note(label, phase, objective, texts, handoff_of(handoff), spot, commands)
        store, is_named = self.store(), session is not None or conversation is not None
        choice = _choice(store, session, conversation, agent, format) if is_named else None
        request = save.SaveRequest(
            cwd=self.path,
            note=note,
            trigger=_trigger(trigger),
            tags=texts_of("tags", tags),
            agent=_selected(agent),
            limits=settings.limits(store.repo, _patterns(include)),
            outputs=inside(self, outputs),
            appends=inside(self, appends),
            promised=tuple(self.promised),
            force=force,
            choice=choice,
        )
        return self._saved(store, request)

    def _saved(self, store: Store, request: SaveRequest) -> Saved:
        """Save; from then on, this object's saves rely on what it promised to append to."""
        saved = save.save(store, replace(request, watched=True, due_states=True))
        self.promised.update(request.appends)
        return save.described(store, with_housekeeping(store, saved))

    def request(
        self,
        store: Store,
        target: Checkpoint,
        *,
        files: bool = True,
        conversation: bool = True,
        memory: bool = True,
        state: bool = False,
        paths: Paths | None = None,
        mine: bool = False,
        whole_tree: bool = False,
        program: str | None = None,
        rewound: Rewound | None = None,
    ) -> restore.RestoreRequest:
        """Return the request for a restore. `paths` restores only these files, without the
        conversation; without `memory`, the agent's memory of the project is left; with
        `state`, the user's commands restore the states outside the files. `mine` and
        `whole_tree` are as for Checkpoints.restore. `program` is the session of a program that goes
        back by itself: only what it changed is undone. `rewound` is an earlier part of the
        conversation, to restore instead.
        """
        if mine and (whole_tree or not files):
            raise BadValue("mine= is about files, and excludes whole_tree=; nothing was changed")
        if state and (mine or paths is not None):
            raise BadValue(
                "state= restores all of it, and excludes mine= and paths=; nothing was changed"
            )
        return restore.RestoreRequest(
            target,
            self.path,
            files=files,
            conversation=conversation and paths is None,
            memory=None if memory else "",
            state=state,
            paths=limited(store.repo, paths),
            limits=settings.limits(store.repo),
            mine=mine,
            whole_tree=whole_tree,
            session=program,
            program=program is not None,
            rewound=rewound,
        )


def exact(opened: Opened, session: str) -> str:
    """Return the session that a save to `session` goes to. Reads refs only. Raises BadValue."""
    return session_op.exact(Store(opened.repository()), session)


def texts_of(name: str, given: Texts) -> tuple[str, ...]:
    """Return texts that a parameter has: one text is that one, and not its letters. Raises
    BadValue.
    """
    require(name, given, Texts, "nothing was saved")
    texts = (given,) if isinstance(given, str) else tuple(given)
    require(name, texts, Texts, "nothing was saved")  # also what an iterator had
    return texts


def _patterns(given: Texts) -> tuple[str, ...]:
    """Return patterns of paths. Raises BadValue for one that no path can match."""
    patterns = texts_of("include", given)
    for each in patterns:
        encoded(each, "the pattern", "nothing was saved")
    return patterns


def handoff_of(given: Handoff | None) -> Handoff:
    """Return a handoff whose entries are tuples."""
    if given is None:
        return Handoff()
    require("handoff.task", given.task, str | None, "nothing was saved")
    names = ("decisions", "failed", "next", "active")
    entries = {name: texts_of(f"handoff.{name}", getattr(given, name)) for name in names}
    return Handoff(given.task, **entries)


def limited(repo: Repository, paths: Paths | None) -> tuple[bytes, ...]:
    """Return the paths that limit a method, as they are stored; none if all of the repository is
    meant. Raises BadValue, also for a list that is empty: it would mean everything, too.
    """
    if paths is None:
        return ()
    stored = stored_paths(repo, paths)
    if not stored:  # `restore(before, paths=refused)` with none refused restored everything
        raise BadValue(
            "paths is empty: nothing was changed", hint="pass a path, or None for all of them"
        )
    return () if b"" in stored else stored


def stored_paths(repo: Repository, paths: Paths) -> tuple[bytes, ...]:
    """Return paths as they are stored. Raises BadValue."""
    several = [paths] if isinstance(paths, str | bytes | os.PathLike) else [*paths]
    return tuple(stored_path(repo, path) for path in several)


def stored_path(repo: Repository, path: OnePath) -> bytes:
    """Return a path as it is stored: relative to the root, which is b"". Links below the root are
    not followed. Raises BadValue.
    """
    require("path", path, OnePath, "nothing was changed")
    stored = repo.spelled(repo.root, encoded_path(path, "nothing was changed"))
    if stored is None:
        raise BadValue(
            f"{os.fsdecode(path)!r} is not in {repo.root}: nothing was changed",
            hint="name files of the working tree",
        )
    return stored


def with_housekeeping(store: Store, saved: Saved) -> Saved:
    """Start housekeeping in the background if a checkpoint was made. Return `saved`."""
    if saved.saved:
        start_housekeeping(store, saved.checkpoint.id)
    return saved


def start_housekeeping(store: Store, saved: CheckpointId) -> None:
    """Start housekeeping in the background. Errors are ignored: the checkpoint exists already."""
    with suppress(GitcpError):
        housekeeping.after_save(store, saved)


def _choice(
    store: Store,
    session: str | None,
    conversation: pushed.Pushed | None,
    agent: Agent | str | None,
    format: str | None,
) -> session_op.Choice:
    if session is None:
        raise BadValue("conversation= requires session=; nothing was saved")
    capture = None if conversation is None else pushed.capture(conversation, agent, format)
    return session_op.Choice(session_op.exact(store, session), capture, session_op.GIVEN)


def _selected(agent: Agent | str | None) -> str | None:
    """Return the name by which checkpoints record the agent whose conversation is wanted."""
    if not isinstance(agent, str):
        return agent.name if agent is not None else None
    return agents.recorded(agent)


def position_of(given: Mapping[str, object]) -> dict[str, Any]:
    """Return a position as it comes back: tuples are lists. Raises BadValue for what JSON does not
    have.
    """
    for name, value in given.items():
        if type(name) is not str or not wire.is_json(value):
            raise BadValue(
                f"position {name!r} is a {type(value).__name__} that is not a JSON value; nothing "
                "was saved",
                hint="pass None, numbers, text, lists, or dicts with text keys, nested at most "
                f"{wire.NESTED} times",
            )
    position: dict[str, Any] = wire.loads(wire.dumps(dict(given)))
    return position


def _trigger(name: str) -> Trigger:
    try:
        return Trigger(name)
    except ValueError:
        names = ", ".join(trigger.value for trigger in Trigger)
        raise BadValue(
            f"unknown trigger {name!r}; nothing was saved", hint=f"use one of {names}"
        ) from None


def numbered(store: Store, id: CheckpointId) -> Checkpoint:
    """Return the checkpoint with this id. Raises RevisionNotFound."""
    commit = store.find(id)
    if commit is None:
        raise RevisionNotFound(
            f"checkpoint {id} no longer exists; nothing was changed", hint="gitcp log"
        )
    return store.read(commit)


def inside(opened: Opened, files: Files) -> tuple[bytes, ...]:
    """Return files, given relative to the directory that was opened, relative to the root. Raises
    BadValue for one outside.
    """
    given = [files] if isinstance(files, str | bytes | os.PathLike) else [*files]
    if not given:
        return ()
    repo = opened.repository()
    relative_paths: list[bytes] = []
    for path in given:
        require("path", path, OnePath, "nothing was saved")
        relative = repo.inside(opened.path, encoded(path, "the path", "nothing was saved"))
        if not relative:
            raise BadValue(
                f"{os.fsdecode(path)!r} is not a file in {opened.root}: nothing was saved",
                hint="name files of the working tree",
            )
        relative_paths.append(relative)
    return tuple(relative_paths)
