"""What every command needs: the host, the repository, the current session, opened on first use.

Only this module reads the environment, the home directory, the clock and the working directory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gitcp import clock, user_state
from gitcp.cli.output import Output
from gitcp.errors import (
    BadValue,
    GitcpError,
    Refused,
    RevisionAmbiguous,
    RevisionNotFound,
    StoreDamaged,
)
from gitcp.model import Checkpoint, CheckpointId, Host, Oid

PATTERN = re.compile(rb"[*?[]")

if TYPE_CHECKING:
    from gitcp.fastpath.stat_check import Look
    from gitcp.git.repo import Repository
    from gitcp.store import Store
    from gitcp.worktree.snapshot import Limits


class Context:
    """One run of the command line; `look` is a scan of the working tree already in progress. In a
    process that `lives_long`, objects are read by libgit2 from the first on.
    """

    def __init__(self, arguments: Sequence[str], look: Look | None = None) -> None:
        self.arguments = tuple(arguments)
        self.look = look
        self.host = Host(os.environ, Path(os.path.expanduser("~")), clock.now)
        user_state.configure(self.host.env, str(self.host.home))
        self.output = Output(os.environ)
        self.directory = ""
        self.finishing = False
        self.shows_faults = False
        self.lives_long = False
        self.warned: set[str] = set()

    @cached_property
    def cwd(self) -> Path:
        """The directory the command runs in: the working directory, or that of `-C`."""
        try:
            return Path(os.path.realpath(self.directory, strict=True))
        except FileNotFoundError:
            what = self.directory or "the current directory"
            hint = "" if self.directory else "cd ~"
            raise BadValue(f"{what} does not exist", hint=hint) from None

    @cached_property
    def store(self) -> Store:
        """The store of the repository around `cwd`. Prints a note about an interrupted restore."""
        from gitcp.git.repo import Repository  # not for --help
        from gitcp.store import Store

        repo = Repository.open(self.cwd, self.host)
        repo.look = self.look
        if self.lives_long:
            repo.read_by_libgit2()
        store = Store(repo)
        self._finish_moves(store)
        if store.pending_log() is not None:
            from gitcp.saving import recorded  # only where a framework saves

            recorded.commit_all(store)
        if not self.finishing:
            self._mention_unfinished(store)
            self._mention_own_store(repo)
        return store

    def _mention_own_store(self, repo: Repository) -> None:
        from gitcp import discovery

        if (
            not repo.is_own
            and discovery.own_store(str(repo.root))
            and "--join" not in self.arguments
        ):
            self.output.say(
                "note: checkpoints made here before git init are in .gitcp/store.git; move them "
                "into the repository with gitcp init --join"
            )

    def _finish_moves(self, store: Store) -> None:
        """Finish an interrupted prune, delete or purge. Prints a note on success and on failure."""
        if not os.path.exists(store.repo.common_dir / "gitcp" / "moves.json"):
            return
        from gitcp.state import rewrite

        try:
            finished = rewrite.settle(store)
        except GitcpError as error:
            self.output.say("note: an interrupted operation could not be finished: ", str(error))
            return
        if finished is not None:
            self.output.say(
                f"note: an interrupted {finished.what} was finished: {finished.summary}"
            )

    def _mention_unfinished(self, store: Store) -> None:
        if not any(
            os.path.lexists(store.repo.git_dir / "gitcp" / name)
            for name in ("restore.json", "runs")
        ):
            return
        from gitcp.state import journal, run_journal

        try:
            begun = journal.unfinished(store.repo)
        except GitcpError as error:
            self.output.say("note: ", str(error))
            return
        if begun is not None and journal.is_running(store.repo):
            self.output.say(f"note: another gitcp process is restoring {begun.target} here")
        elif begun is not None:
            self.output.say(
                f"note: a restore of {begun.target} was interrupted here; finish it with "
                "gitcp restore --continue, undo it with gitcp restore --abort"
            )
        if run_journal.files(store.repo):
            self._mention_runs(store)

    def _mention_runs(self, store: Store) -> None:
        # rarely: while something is run, or after it was interrupted
        from gitcp.git.shared import quoted
        from gitcp.running import transaction
        from gitcp.state import run_journal

        for each in transaction.interrupted(store.repo):
            if not run_journal.is_recorded(store.repo, each):
                file = quoted(str(run_journal.file_of(store.repo, each)))
                self.output.say(
                    f"note: the run of {each.label} was interrupted before this directory was "
                    "moved or unpacked here; gitcp does not finish it. Look at gitcp run "
                    f"--compensations --list, then: rm {file}"
                )
                continue
            self.output.say(
                f"note: the run of {each.label} was interrupted here; finish it with "
                "gitcp run --recover"
            )

    def with_option(self, *words: str) -> str:
        """Return the running command line with an option added, as a hint."""
        import shlex  # only where something went wrong

        from gitcp.cli.commands import expanded

        given = expanded(self.arguments)
        end = given.index("--") if "--" in given else len(given)
        given[end:end] = words
        return shlex.join(["gitcp", *given])

    def interrupted(self) -> str:
        """Return the hint after ^C: empty, unless a restore was in progress."""
        from gitcp.state import journal

        try:
            begun = "store" in self.__dict__ and journal.unfinished(self.store.repo) is not None
        except GitcpError:
            return ""
        return "gitcp restore --continue" if begun else ""

    def limits(self, include: tuple[str, ...] = ()) -> Limits:
        """Return the limits of a save here. An unreadable setting has its default, with one
        warning.
        """
        from gitcp.state import settings

        mistakes: list[BadValue] = []
        limits = settings.limits(self.store.repo, include, mistakes)
        self.warn_of(mistakes)
        return limits

    def warn_of(self, mistakes: Iterable[BadValue]) -> None:
        """Print each mistake in the settings on one line of stderr, once per command."""
        for each in map(str, mistakes):
            if each not in self.warned:
                self.warned.add(each)
                self.output.say(f"warning: {each}; this setting is ignored")

    @cached_property
    def tags(self) -> dict[Oid, tuple[str, ...]]:
        """The tags of each commit."""
        from gitcp.state import tag

        return tag.by_commit(self.store)

    @cached_property
    def shown_tags(self) -> dict[Oid, tuple[str, ...]]:
        """The tags of each commit for display: fetched ones, too."""
        from gitcp.state import tag

        return tag.shown(self.store)

    @cached_property
    def _other_ids(self) -> dict[Oid, str]:
        from gitcp.history import revisions

        return revisions.other_ids(self.store) if self.store.fetched() else {}

    def id_of(self, commit: Oid, id: object) -> str:
        """Return the id to type for a checkpoint: with its remote if the id alone is another
        checkpoint.
        """
        return self._other_ids.get(commit) or str(id)

    @property
    def core_pager(self) -> str | None:
        """The pager of git's own that the user set, not a repository."""
        return self.store.repo.personal("core.pager")

    def current(self, given: str | None) -> str | None:
        """Return the current session; `given` is the value of --session."""
        from gitcp.saving import session

        return session.current(self.store, given)

    def viewed(self, given: str | None) -> str | None:
        """Return the session to show: the current one, or without local sessions the fetched one
        saved last, as `REMOTE/SESSION`.
        """
        from gitcp.history import revisions

        fetched = self.store.fetched()
        try:
            session = self.current(given)
        except RevisionAmbiguous:
            raise
        except RevisionNotFound:
            return revisions.session_named(self.store, given or "")
        if session is None and fetched:
            readable = {n: tip for n, tip in fetched.items() if self.store.has_summary(tip)}
            return max(
                readable, key=lambda n: self.store.summary(readable[n]).created, default=None
            )
        return session

    def viewed_session(self, given: str | None) -> str:
        """Return `viewed(given)`. Raises RevisionNotFound if there is none."""
        return self._existing(self.viewed(given))

    def viewed_tip(self, given: str | None) -> Oid:
        """Return the last commit of the session to show."""
        return self.ends("@", given)[1]

    def session(self, given: str | None) -> str:
        """Return the current session. Raises RevisionNotFound if there is none."""
        return self._existing(self.current(given))

    def _existing(self, session: str | None) -> str:
        if session is None:
            there = self.to_fetch()
            more = f"; to fetch those of the remote: {there}" if there else ""
            raise RevisionNotFound(f"no checkpoints yet{more}", hint="gitcp save")
        return session

    def to_fetch(self) -> str:
        """Return the command line that fetches the checkpoints of a remote; "" without a remote, or
        if some are here.
        """
        import shlex  # rarely

        from gitcp.sharing import remotes

        listed = remotes.listing(self.store.repo)
        if not listed or self.store.sessions() or self.store.fetched():
            return ""
        origin = next((each for each in listed if each.name == "origin"), listed[0])
        enable = "" if origin.enabled else f"{shlex.join(['gitcp', 'remote', origin.name])} && "
        return f"{enable}{shlex.join(['gitcp', 'fetch', origin.name])}"

    def recording_damage(self, run: Callable[[], int]) -> int:
        """Run a command. Prints a note for what it found broken of git's, and records objects that
        it could not read, so that the next save stores them again.
        """
        try:
            with self.output.progress():
                return run()
        except StoreDamaged as error:
            if error.objects and "store" in self.__dict__:
                from gitcp.git import damage

                damage.record(self.store.repo, error.objects)
            raise
        except GitcpError as error:
            self._hint_instead(error)
            raise
        finally:
            if "store" in self.__dict__ and not self.shows_faults:
                for fault in self.store.repo.faults:
                    self.output.say(f"note: {fault.what}")
                    if fault.hint:
                        self.output.say(f"hint: {fault.hint}")

    def _takes(self, option: str) -> bool:
        """Return whether the running command has an option."""
        from gitcp.cli import commands  # only where something went wrong

        name = commands.expanded(self.arguments or ("",))[0]
        if name not in commands.NAMES:
            return False
        return any(option in param.opts for param in commands.load(name).params)

    def _hint_instead(self, error: GitcpError) -> None:
        """Set the hint to the typed command, with the corrected argument or the missing option."""
        given = list(self.arguments)
        if error.option and error.option[0] not in given and self._takes(error.option[0]):
            # `run LABEL -- CMD` was told to save, and `save LABEL` lost its label
            error.hint = self.with_option(*error.option)
            return
        places = [n for n, text in enumerate(given) if error.argument in text]
        places += [n for n, text in enumerate(given) if text == error.argument]
        if "@" in error.suggestion:  # `alpha@1` is not what `alpha` meant if that is `alpha@5`
            places = [n for n in places if f"{error.argument}@" not in given[n]]
        if not error.suggestion or not places:
            return
        import shlex  # only where something went wrong

        option = places[-1]  # a label may be the same word, and comes first
        given[option] = given[option].replace(error.argument, error.suggestion, 1)
        error.hint = shlex.join(["gitcp", *given])

    def readable_tips(self) -> list[Oid]:
        """Return the last commit of every session, local before fetched ones. Prints a note for
        each one that cannot be read.
        """
        tips = []
        for name, tip in {**self.store.sessions(), **self.store.fetched()}.items():
            if self.store.has_summary(tip):
                tips.append(tip)
            else:
                self.output.say(
                    f"note: session {name} is damaged and not listed; gitcp doctor --store lists "
                    "the damaged objects"
                )
        return tips

    def checkpoint(self, revision: str, session: str | None) -> Checkpoint:
        """Return the checkpoint of a revision. For a time, prints the match on stderr."""
        from gitcp.history import revisions

        current = self.viewed(session) if revision != "@" else self.viewed_session(session)
        within = current if session is not None else None
        commit = revisions.resolve(self.store, revision, current=current, within=within)
        checkpoint = self.store.read(commit)
        if revisions.is_time(revision, self.host.now()):
            self.say_meant(revision, checkpoint)
        return checkpoint

    def to_change(self, revision: str, session: str | None) -> Checkpoint:
        """Return `checkpoint(revision, session)`, for a command that changes files here. Raises
        Refused if it counts in a session of another working tree only because this one has none.
        """
        checkpoint = self.checkpoint(revision, session)
        self.require_here(session, revision)
        return checkpoint

    def require_here(self, session: str | None, revision: str | None = None) -> None:
        """Raise Refused if a revision, or without one the current session, is of another working
        tree.
        """
        from gitcp.history import here

        if revision is None:
            here.require_session(self.store, self.cwd, session)
            return
        try:
            here.require(self.store, self.cwd, session, revision)
        except Refused as error:
            if revision not in self.arguments and not self.lives_long:  # it is the default
                error.argument = error.suggestion = ""
            raise

    def mention_elsewhere(self, revision: str, session: str | None) -> None:
        """Print a note if a revision counts in a session of another working tree."""
        tree = self._elsewhere(revision, session)
        if tree is not None:
            self.output.say(
                "note: nothing was saved in this worktree yet; "
                f"{self.current(session)} is a session of {tree}"
            )

    def is_elsewhere(self) -> bool:
        """Return whether the current session is one of another working tree."""
        return self._elsewhere("@", None) is not None

    def _elsewhere(self, revision: str, session: str | None) -> Path | None:
        """Return the working tree of the current session, as a path from here, if it is another one
        and `revision` counts in that session.
        """
        from gitcp.history import here

        tree = here.elsewhere(self.store, session, revision)
        return Path(os.path.relpath(tree, self.cwd)) if tree is not None else None

    def shown_path(self, path: Path) -> str:
        """Return a path relative to the current directory, as it is shown."""
        from gitcp.worktree.paths import display

        return display(os.fsencode(os.path.relpath(path, self.cwd)))

    def say_meant(self, what: str, checkpoint: Checkpoint) -> None:
        """Print on stderr which checkpoint a time or a phase matches."""
        from gitcp import humanize

        label = f' "{checkpoint.note.label}"' if checkpoint.note.label else ""
        self.output.say(f"{what}: {checkpoint.id}{label}, {humanize.moment(checkpoint.created)}")

    def ends(self, revision: str, session: str | None) -> tuple[Oid | None, Oid]:
        """Return the two ends of a range, like `resolve_range`. For times, prints the matches."""
        from gitcp.history import revisions

        current = self.viewed(session) if revision != "@" else self.viewed_session(session)
        within = current if session is not None else None
        ends = revisions.resolve_range(self.store, revision, current, within)
        self.say_ends(revision, ends)
        return ends

    def say_ends(self, revision: str, ends: tuple[Oid | None, Oid]) -> None:
        """Print on stderr which checkpoints the times in a revision or range match."""
        from gitcp.history import revisions

        words = ("", revision)
        if revisions.is_range(self.store, revision):
            words = revisions.split_range(revision)
        for word, commit in zip(words, ends, strict=True):
            if commit and word and revisions.is_time(word, self.host.now()):
                with suppress(StoreDamaged):  # what can be read of the chain is shown all the same
                    self.say_meant(word, self.store.read(commit))

    def context_for(self, revision: str) -> Context:
        """Return a context over sessions fetched without files if only they have `revision`, else
        this one.
        """
        if "/" not in revision:
            return self
        from gitcp.sharing import fetch

        store = fetch.find_store(self.store, revision)
        if store is None:
            return self
        from copy import copy  # a millisecond

        other = copy(self)
        other.__dict__["store"] = store
        other.__dict__.pop("tags", None)
        return other

    def split_path(self, word: str, session: str | None) -> tuple[str, bytes | None]:
        """Split `REV:PATH`, with PATH relative to the root, into the revision and the path relative
        to `cwd`, None if there is none.
        """
        from gitcp.history import revisions

        name, path = revisions.split_path(self.store, word, self.viewed(session))
        if path is None or not self.is_known(name, session):
            return word, None
        if path.startswith(("./", "../")):
            return name, os.fsencode(path)
        root = self.store.repo.root
        return name, os.fsencode(os.path.relpath(os.path.join(root, path), self.cwd))

    def having(self, checkpoint: Checkpoint, paths: tuple[bytes, ...]) -> Checkpoint:
        """Return `checkpoint`, or the newest before it that has the paths, if they are neither in
        it nor on disk. Prints which one.
        """
        from gitcp.history import history

        if not paths or any(
            os.path.lexists(os.path.join(os.fsencode(self.cwd), each)) for each in paths
        ):
            return checkpoint
        inside = self.inside(paths, checkpoint)
        if not inside or any(self._has(checkpoint, path) for path in inside):
            return checkpoint
        summary = history.newest_with(self.store, checkpoint.parent, inside)
        if summary is None:
            return checkpoint
        from gitcp.worktree.paths import display

        had = self.store.read(summary.commit)
        names = ", ".join(map(display, inside))
        them = "it" if len(inside) == 1 else "them"
        self.say_meant(f"not in {checkpoint.id}: {names}; the newest that has {them}", had)
        return had

    def is_path(self, word: str, session: str | None) -> bool:
        """Return whether a word is a path: not a revision, but a path here or in the last
        checkpoint. Raises BadValue if it is a path and a name of a checkpoint: `restore docs`
        restored all files, since a checkpoint had that label.
        """
        if word == "@" or word.isdecimal():
            return False
        is_revision = self.is_known(word, session)
        if is_revision and "@" in word:
            return False
        is_path = self._is_path(word, session)
        if is_path and is_revision:
            raise self._ambiguous(word, session)
        return is_path or (not is_revision and self._was_path(word, session))

    def _ambiguous(self, word: str, session: str | None) -> BadValue:
        import shlex  # only where something went wrong

        given = list(self.arguments)
        at = len(given) - 1 - given[::-1].index(word) if word in given else len(given)
        before, after = given[:at], given[at + 1 :]
        id = self.ends(word, session)[1]
        checkpoint = self.id_of(id, self.store.summary(id).id)
        # at the end: what is after `--` is no option any more
        dashes = [] if "--" in after else ["--"]
        path = shlex.join(["gitcp", *before, *after, *dashes, word])
        named = shlex.join(["gitcp", *before, checkpoint, *after])
        error = BadValue(f"{word!r} is a path, and a name of checkpoint {checkpoint}", hint=path)
        error.candidates = (f"{path}   (the path)", f"{named}   (the checkpoint)")
        return error

    def _is_path(self, word: str, session: str | None) -> bool:
        if os.path.lexists(self.cwd / word):
            return True
        try:
            last = self.checkpoint("@", session)
            paths = self.inside((os.fsencode(word),), last)
        except GitcpError:
            return False
        return any(self._has(last, path) for path in paths)

    def _was_path(self, word: str, session: str | None) -> bool:
        """Return whether an earlier checkpoint has a path: it was deleted since."""
        from gitcp.history import history

        try:
            last = self.checkpoint("@", session)
            paths = self.inside((os.fsencode(word),), last)
        except GitcpError:
            return False
        return bool(paths) and history.newest_with(self.store, last.parent, paths) is not None

    def is_known(self, word: str, session: str | None) -> bool:
        """Return whether a word is a revision, possibly one with several meanings."""
        from gitcp.history import revisions

        try:
            current = self.viewed(session)
        except GitcpError:  # the command says so, if it needs one
            current = None
        return revisions.is_known(self.store, word, current)

    def numbered(self, id: CheckpointId) -> Checkpoint:
        """Return the checkpoint with this id. Raises RevisionNotFound."""
        commit = self.store.find(id)
        if commit is None:
            raise RevisionNotFound(
                f"checkpoint {id} no longer exists: nothing was changed", hint="gitcp log"
            )
        return self.store.read(commit)

    def inside(self, paths: tuple[bytes, ...], *checkpoints: Checkpoint) -> tuple[bytes, ...]:
        """Convert paths relative to `cwd` to paths of the repository. Empty if one of them is its
        root.

        A path that one of the checkpoints has is that path, even if a link is on its way now. A
        pattern means the paths that match it, in one of them or here.
        """
        relative = [self._inside(path, checkpoints) for path in paths]
        if any(map(PATTERN.search, relative)):
            relative = [each for path in relative for each in self._matching(path, checkpoints)]
        return () if b"" in relative else tuple(relative)

    def _matching(self, path: bytes, checkpoints: Sequence[Checkpoint]) -> list[bytes]:
        """Return the paths that a pattern matches, as git matches it: `*` matches a slash, too."""
        repo = self.store.repo
        is_literal = any(self._has(checkpoint, path) for checkpoint in checkpoints)
        if not PATTERN.search(path) or is_literal or os.path.lexists(repo.root / os.fsdecode(path)):
            return [path]
        import fnmatch  # rarely: a shell has expanded most patterns

        from gitcp.history import show

        listed = repo.git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        paths = dict.fromkeys(filter(None, listed.split(b"\0")))
        for checkpoint in checkpoints:
            paths |= dict.fromkeys(show.paths_of(self.store, checkpoint))
        matching = fnmatch.filter(paths, path)
        if not matching:
            raise BadValue(f"no path matches {os.fsdecode(path)}: nothing was changed")
        return matching

    def _inside(self, path: bytes, checkpoints: Sequence[Checkpoint]) -> bytes:
        from gitcp.worktree import given

        repo = self.store.repo
        given.encoded_path(path, "nothing was changed")
        if path.startswith(b":/"):  # git's spelling of a path from the root
            path = os.path.join(os.fsencode(repo.root), path[2:])
        spelled = repo.spelled(self.cwd, path) if checkpoints else None
        if spelled and any(self._has(checkpoint, spelled) for checkpoint in checkpoints):
            return spelled
        relative = repo.inside(self.cwd, path)
        if relative is None:
            raise BadValue(
                f"{os.fsdecode(path)} is outside {self.store.repo.root}: nothing was changed"
            )
        return relative

    def _has(self, checkpoint: Checkpoint, path: bytes) -> bool:
        from gitcp.git import trees

        return trees.lookup(self.store.reader, checkpoint.root, path) is not None
