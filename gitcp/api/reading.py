"""What is read of checkpoints. Each method is a request to one operation."""

from __future__ import annotations

import os
from typing import Any, overload

from gitcp.api.checked import checked
from gitcp.api.opened import (
    OnePath,
    Opened,
    Paths,
    Texts,
    limited,
    stored_path,
    stored_paths,
    texts_of,
)
from gitcp.errors import BadValue
from gitcp.history import diff, diff_now, log, revisions, sessions, show, why
from gitcp.history.find import find
from gitcp.history.matching import PLACES, Hit, needle
from gitcp.history.show import Listing
from gitcp.history.text_index import TextIndex
from gitcp.history.why import LineOrigin, PathHistory
from gitcp.lifecycle import check
from gitcp.lifecycle.check import CheckReport
from gitcp.model import MAIN, Checkpoint, FileChange
from gitcp.restoring.restore_notice import handoff_lines
from gitcp.running import bisect
from gitcp.running.bisect import BisectRequest, Culprit
from gitcp.saving import session as session_op
from gitcp.state import settings, tag
from gitcp.store import Summary
from gitcp.value import replace


class Reading(Opened):
    """The methods that only read, and run a command elsewhere."""

    @checked("nothing was read")
    def log(
        self,
        revision: str = "@",
        *,
        session: str | None = None,
        limit: int | None = None,
        phase: str | None = None,
    ) -> tuple[Summary, ...]:
        """Return summaries of the checkpoints up to a revision, or in a range `A..B`, newest
        first; empty if there are none.
        """
        if limit is not None and limit < 0:
            raise BadValue(f"limit is {limit}: nothing was read", hint="pass 0 or more, or None")
        store = self.store()
        current = session_op.current(store, session)
        if current is None and revision == "@":
            return ()
        after, tip = revisions.resolve_range(
            store, revision, current, current if session is not None else None
        )
        return tuple(log.select(store, [tip], log.Selection(after=after, limit=limit, phase=phase)))

    @checked("nothing was read")
    def show(self, revision: str = "@", *, session: str | None = None) -> Checkpoint:
        """Return one complete checkpoint. Raises RevisionNotFound and RevisionAmbiguous."""
        store = self.store()
        checkpoint = self._read(store, revision, session)
        tags = tag.by_commit(store).get(checkpoint.commit, ())
        return replace(checkpoint, tags=tuple(tags))

    @checked("nothing was read")
    def file(self, revision: str, path: OnePath, *, session: str | None = None) -> bytes | Listing:
        """Return the content of a file, or a directory's listing. `path` is relative to the
        root, which "" is.
        """
        store = self.store()
        named = stored_path(store.repo, path) if os.fspath(path) else b""
        return show.file(store, self._read(store, revision, session), named)

    @checked("nothing was read")
    def conversation(
        self, revision: str = "@", stream: str = MAIN, *, session: str | None = None
    ) -> bytes:
        """Return a stream of the conversation, verbatim. Raises RevisionNotFound if there is
        none.
        """
        store = self.store()
        return b"".join(show.stream(store, self._read(store, revision, session), stream))

    @checked("nothing was read")
    def messages(
        self, revision: str = "@", *, session: str | None = None, facts: bool = True
    ) -> list[dict[str, Any]]:
        """Return the messages to continue from: the facts and the handoff first, then the
        conversation.

        The first one has the role "user", and is left out if there are none, or without `facts`.
        Messages that a program saved come back as they were given. Of an agent's transcript, there
        is what was said: `role` "user" or "assistant", and `content`, without thinking, calls of
        tools and their results.
        """
        store = self.store()
        checkpoint = self._read(store, revision, session)
        known = "\n".join(handoff_lines(checkpoint.note)) if facts else ""
        first = [{"role": "user", "content": known}] if known else []
        if checkpoint.conversation is None:
            return first
        return [*first, *show.spoken(store, checkpoint.conversation)]

    @checked("nothing was read")
    def diff(
        self,
        old: str = "@",
        new: str | None = None,
        *,
        session: str | None = None,
        paths: Paths | None = None,
    ) -> tuple[FileChange, ...]:
        """Return the paths that differ between two checkpoints, or without `new` between one and
        the current files. `paths` limits it to these, and what is below them. States outside
        the files are no paths: compare the `states` of two checkpoints.
        """
        store = self.store()
        scope = limited(store.repo, paths)
        before = self._read(store, old, session)
        if new is not None:
            after = self._read(store, new, session)
            return diff.compare(store, before.root, after.root, scope).changes
        limits = settings.limits(store.repo)
        with diff_now.compare(store, before, limits, scope, text=False) as comparison:
            return comparison.changes

    def sessions(self) -> tuple[sessions.Session, ...]:
        """Return every readable session, most recently saved first."""
        return sessions.listing(self.store())[0]

    def check(self) -> CheckReport:
        """Verify everything that is stored. Never raises for damage, which is in the report."""
        return check.check(self.store())

    @checked("nothing was read")
    def find(
        self,
        text: str,
        *,
        where: Texts = PLACES,
        session: str | None = None,
        regex: bool = False,
        ignore_case: bool = False,
        limit: int | None = None,
    ) -> tuple[Hit, ...]:
        """Search conversations, notes and files of all checkpoints, or of one session; newest
        first.

        `where` are some of prompts, answers, tools, notes, paths and files. Raises BadValue for an
        empty text, and for what is no regular expression.
        """
        places = texts_of("where", where)
        wrong = next((each for each in places if each not in PLACES), None)
        if wrong is not None or (limit is not None and limit < 0):
            given = f"where has {wrong!r}" if wrong is not None else f"limit is {limit}"
            hint = f"pass some of {', '.join(PLACES)}, and a limit of 0 or more, or None"
            raise BadValue(f"{given}: nothing was read", hint=hint)
        store = self.store()
        known = store.sessions()
        names = [session_op.expand(store, session)] if session is not None else [*known]
        wanted = needle(text, regex=regex, ignore_case=ignore_case)
        tips = [known[name] for name in names]
        page = find(store, tips, wanted, places, TextIndex(store.repo), limit)
        return tuple(page.hits)

    @checked("nothing was run")
    def bisect(
        self,
        command: Texts,
        *,
        good: str | None = None,
        bad: str = "@",
        session: str | None = None,
        share: Paths = (),
        prepare: str = "",
        repeat: int = 1,
        trust: bool = False,
    ) -> Culprit:
        """Find the first checkpoint on which a command fails, by running it on checkpoints in a
        scratch directory. The files of the working tree are not touched.

        The command passes on `good` (by default the session's first checkpoint) and fails on `bad`;
        exit code 125 skips one. `share` are paths of the working tree that the scratch directory
        has links to, `prepare` is run with `sh` before each try, and `repeat` is how often the
        command runs on each. Raises Refused if it fails on both ends or passes on both, GitcpError
        if it ends with 128 or more, and NotTrusted.
        """
        words = texts_of("command", command)
        if not words or repeat < 1:
            given = f"repeat is {repeat}" if words else "the command is empty"
            raise BadValue(f"{given}: nothing was run", hint="pass a command, and 1 or more")
        store = self.store()
        last = self._read(store, bad, session)
        first = self._read(store, good, session).commit if good is not None else None
        request = BisectRequest(
            states=bisect.candidates(store, first, last.commit),
            judge=bisect.by_command(store, words, prepare),
            repeat=repeat,
            shared=stored_paths(store.repo, share),
            trust=trust,
        )
        return bisect.bisect(store, request)

    @overload
    def why(
        self, path: OnePath, line: int, revision: str = "@", *, session: str | None = None
    ) -> LineOrigin: ...

    @overload
    def why(
        self,
        path: OnePath,
        line: None = None,
        revision: str = "@",
        *,
        session: str | None = None,
    ) -> PathHistory: ...

    @checked("nothing was read")
    def why(
        self,
        path: OnePath,
        line: int | None = None,
        revision: str = "@",
        *,
        session: str | None = None,
    ) -> LineOrigin | PathHistory:
        """Return which checkpoint and prompt added a line of a current file, or without `line` the
        checkpoints that changed a path, and why it is in none.

        Lines count from 1. Raises BadValue if there is no such file or line.
        """
        store = self.store()
        last = self._read(store, revision, session)
        name = stored_path(store.repo, path)
        if line is None:
            return why.path(store, last, name)
        return why.line(store, last, name, line)
