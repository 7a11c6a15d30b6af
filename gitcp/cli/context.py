"""What every command starts from: the host, the repository, the current session. Opened when first
asked for.

The environment, the home directory, the clock and the working directory are read here and nowhere
below.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gitcp.cli.output import Output
from gitcp.errors import BadValue, GitcpError, RevisionNotFound, StoreDamaged
from gitcp.model import Checkpoint, CheckpointId, Host, Oid

if TYPE_CHECKING:
    from gitcp.store import Store
    from gitcp.worktree.snapshot import Limits


class Context:
    """One run of the command line."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.arguments = tuple(arguments)
        self.host = Host(
            os.environ, Path(os.path.expanduser("~")), lambda: datetime.now().astimezone()
        )
        self.output = Output(os.environ)
        self.directory = ""
        self.finishing = False
        self.warned: set[str] = set()

    @cached_property
    def cwd(self) -> Path:
        """Where the command runs: the working directory, or that of `-C`."""
        try:
            return Path(os.path.realpath(self.directory, strict=True))
        except FileNotFoundError:
            what = self.directory or "the current directory"
            raise BadValue(f"{what} does not exist", hint="cd to a directory that does") from None

    @cached_property
    def store(self) -> Store:
        """The store of the repository around `cwd`. Says so if a restore was interrupted there."""
        from gitcp.git.repo import Repository  # not for --help
        from gitcp.store import Store

        store = Store(Repository.open(self.cwd, self.host))
        self._finish_moves(store)
        if not self.finishing:
            self._mention_unfinished(store)
        return store

    def _finish_moves(self, store: Store) -> None:
        """Finish a prune or the like that was interrupted. What cannot be is said, and is in
        nobody's way.
        """
        if not os.path.exists(store.repo.common_dir / "gitcp" / "moves.json"):
            return
        from gitcp.state import rewrite

        try:
            with store.lock():
                found = rewrite.finish(store)
        except GitcpError as error:
            self.output.say("note: something that was interrupted is not finished: ", str(error))
            return
        if found is not None:
            self.output.say(f"note: an interrupted {found.what} was finished: {found.said}")

    def _mention_unfinished(self, store: Store) -> None:
        if not any(
            os.path.lexists(store.repo.git_dir / "gitcp" / name)
            for name in ("restore.json", "runs")
        ):
            return
        from gitcp.state import journal

        try:
            begun = journal.unfinished(store.repo)
        except GitcpError as error:
            self.output.say("note: ", str(error))
            return
        if begun is not None:
            self.output.say(
                f"note: a restore of {begun.target} was interrupted here; gitcp restore --continue "
                "finishes it, "
                "gitcp restore --abort takes it back"
            )
        if journal.runs(store.repo):
            self._mention_runs(store)

    def _mention_runs(self, store: Store) -> None:
        # rarely: while something is run, or after it was interrupted
        from gitcp.running import transaction

        for each in transaction.interrupted(store.repo):
            self.output.say(
                f"note: the run of {each.label} was interrupted here; gitcp run --recover finishes "
                "it"
            )

    def with_option(self, option: str) -> str:
        """The command that is running, with an option more: what to type next."""
        import shlex  # only where something went wrong

        given = list(self.arguments)
        given.insert(given.index("--") if "--" in given else len(given), option)
        return shlex.join(["gitcp", *given])

    def interrupted(self) -> str:
        """What to type after ^C: nothing, unless a restore was under way."""
        from gitcp.state import journal

        try:
            begun = "store" in self.__dict__ and journal.unfinished(self.store.repo) is not None
        except GitcpError:
            return ""
        return "gitcp restore --continue  (or --abort)" if begun else ""

    def limits(self, include: tuple[str, ...] = ()) -> Limits:
        """What a save takes here. A setting that cannot be read has its default, and that is said
        once.
        """
        from gitcp.state import settings

        mistakes: list[BadValue] = []
        found = settings.limits(self.store.repo, include, mistakes)
        self.warn_of(mistakes)
        return found

    def warn_of(self, mistakes: Iterable[BadValue]) -> None:
        """Print each mistake in the settings on one line of stderr, once a command."""
        for each in map(str, mistakes):
            if each not in self.warned:
                self.warned.add(each)
                self.output.say(f"warning: {each}; this setting is ignored")

    @cached_property
    def tags(self) -> dict[Oid, tuple[str, ...]]:
        """The names of tags by the commit they are on."""
        from gitcp.history import log

        return log.tags(self.store)

    @property
    def core_pager(self) -> str | None:
        """The pager that git would use here."""
        return self.store.repo.config.get("core.pager")

    def current(self, given: str | None) -> str | None:
        """The current session; `given` is what --session said."""
        from gitcp.saving import session

        return session.current(self.store, given)

    def session(self, given: str | None) -> str:
        """The current session, where there must be one."""
        found = self.current(given)
        if found is None:
            raise RevisionNotFound("there is no checkpoint here yet", hint="gitcp save")
        return found

    def noting_damage(self, run: Callable[[], int]) -> int:
        """Run a command. An object that it could not read is written down, so that the next save
        trusts it no more.
        """
        try:
            return run()
        except StoreDamaged as error:
            if error.objects and "store" in self.__dict__:
                from gitcp.git import damage

                damage.record(self.store.repo, error.objects)
            raise

    def readable_tips(self) -> list[Oid]:
        """The last commit of every session; one that cannot be read is said, and hides no other."""
        found = []
        for name, tip in self.store.sessions().items():
            if self.store.has_summary(tip):
                found.append(tip)
            else:
                self.output.say(
                    f"note: session {name} is damaged and left out; gitcp check names what cannot "
                    "be read"
                )
        return found

    def checkpoint(self, revision: str, session: str | None) -> Checkpoint:
        """The checkpoint that a revision means."""
        from gitcp.history import revisions

        current = self.current(session) if revision != "@" else self.session(session)
        return self.store.read(revisions.resolve(self.store, revision, current=current))

    def looking(self, revision: str) -> Context:
        """The same context, over what was fetched without its files, if `revision` is there
        alone.
        """
        if "/" not in revision:
            return self
        from gitcp.sharing import partial_fetch

        found = partial_fetch.beside(self.store, revision)
        if found is None:
            return self
        from copy import copy  # a millisecond

        other = copy(self)
        other.__dict__["store"] = found
        other.__dict__.pop("tags", None)
        return other

    def with_path(
        self, error: RevisionNotFound, given: Iterable[object], command: str
    ) -> RevisionNotFound:
        """The error of a revision that is not found, with the hint that it lacks its `--` where it
        names a path.
        """
        words = (word for word in given if isinstance(word, str))
        path = next((word for word in words if os.path.lexists(self.cwd / word)), None)
        if path is None or type(error) is not RevisionNotFound:
            return error
        return RevisionNotFound(str(error), hint=f"{command} -- {path}")

    def numbered(self, id: CheckpointId) -> Checkpoint:
        """The checkpoint with this id."""
        commit = self.store.find(id)
        if commit is None:
            raise RevisionNotFound(
                f"checkpoint {id} does not exist any more: nothing was changed", hint="gitcp log"
            )
        return self.store.read(commit)

    def inside(self, paths: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """Paths as given, relative to `cwd`, as paths of the repository. Empty if one of them is
        all of it.
        """
        found = tuple(map(self._inside, paths))
        return () if b"" in found else found

    def _inside(self, path: bytes) -> bytes:
        """Only the directory is resolved: the last name may be a link, and is meant itself."""
        whole = os.path.join(os.fsencode(self.cwd), path).rstrip(b"/")
        directory, name = os.path.split(whole)
        if name in (b"", b".", b".."):
            directory, name = whole, b""
        full = os.path.join(os.path.realpath(directory), name).rstrip(b"/")
        root = os.fsencode(self.store.repo.root)
        if full != root and not full.startswith(root + b"/"):
            raise BadValue(
                f"{os.fsdecode(path)} is outside of {self.store.repo.root}: nothing was changed"
            )
        return full[len(root) + 1 :]
