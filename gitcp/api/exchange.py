"""What leaves the repository, and what comes in. Each method is a request to one operation."""

from __future__ import annotations

import os
from pathlib import Path

from gitcp import documents
from gitcp.api.checked import checked
from gitcp.api.opened import Opened, Texts, texts_of
from gitcp.errors import BadValue
from gitcp.model import MAIN
from gitcp.saving import session as session_op
from gitcp.sharing import export, fetch, importing, output_file, push, remotes
from gitcp.sharing.export import ExportedFile, ExportRequest, Format
from gitcp.sharing.fetch import Fetched
from gitcp.sharing.importing import Imported, ImportRequest
from gitcp.sharing.push import PushReport
from gitcp.state import allowed, settings, tag
from gitcp.store import Store
from gitcp.worktree.given import encoded


class Exchange(Opened):
    """The methods that send and fetch checkpoints, or write and read files of them."""

    @checked("nothing was sent")
    def push(
        self,
        remote: str | None = None,
        *,
        sessions: Texts = (),
        everything: bool = False,
        allow: Texts = (),
        redact: bool = False,
        force: bool = False,
    ) -> PushReport:
        """Send sessions and their tags to a remote, by default the current session to the only
        remote that is enabled.

        With `everything`, all sessions. Raises SecretsFound, with nothing sent, unless the IDs of
        the secrets are in `allow`, or a copy without them is sent (`redact`); FilteredFiles;
        Refused for a session that the remote has otherwise, unless it was pruned or purged here
        (`force`); and GitFailed if the remote cannot be reached.
        """
        store, names = self.store(), texts_of("sessions", sessions)
        to = remotes.choose(store.repo, remote)
        if names and everything:
            raise BadValue("sessions= and everything= exclude one another; nothing was sent")
        plan = push.plan(
            store,
            to,
            self._pushed(store, names, everything=everything),
            self._allowed(store, allow),
            force=force,
            redacted=redact,
        )
        report = push.push(store, plan)
        push.require_accepted(report)
        return report

    def _pushed(self, store: Store, names: tuple[str, ...], *, everything: bool) -> list[str]:
        if everything:
            return sorted(store.sessions())
        if names:
            return list(dict.fromkeys(session_op.expand(store, name) for name in names))
        current = session_op.current(store)
        if current is None:
            raise BadValue("there is no session: nothing was sent", hint="gitcp save")
        return [current]

    def _allowed(self, store: Store, allow: Texts) -> frozenset[str]:
        """Return the IDs of the secrets that may leave: what the user allows, and in this call."""
        return allowed.ids(store.repo) | frozenset(allowed.require(texts_of("allow", allow)))

    @checked("nothing was fetched")
    def fetch(
        self, remote: str | None = None, *, sessions: Texts = (), files: bool = True
    ) -> tuple[Fetched, ...]:
        """Fetch sessions from a remote, by default all of them; they are verified, and named
        `REMOTE/SESSION`.

        Without `files`, their contents are not downloaded. Your own sessions are unchanged. Raises
        StoreDamaged if none of them is intact, and GitFailed if the remote cannot be reached.
        """
        store, names = self.store(), texts_of("sessions", sessions)
        source = remotes.choose(store.repo, remote)
        receive = fetch.fetch if files else fetch.fetch_part
        fetched = receive(store, source, names)
        fetch.require_accepted(source, fetched)
        return fetched

    @checked("nothing was written")
    def export(
        self,
        file: str | os.PathLike[str],
        revision: str = "@",
        *,
        session: str | None = None,
        format: str | None = None,
        agent: str | None = None,
        stream: str = MAIN,
        allow: Texts = (),
        redact: bool = False,
        force: bool = False,
    ) -> ExportedFile:
        """Write a session (a bundle) or a conversation to a file, whole or not at all.

        `format` is bundle, json, transcript, markdown or atif, by default by the file's ending:
        .bundle, .json, .jsonl, .md. `agent` converts the transcript for another agent. Raises
        SecretsFound, with nothing written, unless the IDs are in `allow`, or `redact` replaces
        them; and Refused if the file exists, unless `force`.
        """
        encoded(file, "the file", "nothing was written")
        store, path = self.store(), Path(os.path.join(self.path, file))
        request = ExportRequest(
            checkpoint=self._read(store, revision, session),
            format=_format(path, format, agent),
            stream=stream,
            allowed=self._allowed(store, allow),
            redact=redact,
            agent=agent,
        )
        output_file.chosen(Path(self.path), os.fspath(file), force=force)
        tags = tag.by_commit(store).get(request.checkpoint.commit, ())
        fields = documents.document("export", documents.checkpoint(request.checkpoint, tags))
        return export.write(request, export.export(store, request, fields), path, force=force)

    @checked("nothing was imported")
    def import_(
        self, file: str | os.PathLike[str], *, agent: str | None = None
    ) -> tuple[Imported, ...]:
        """Import a bundle, JSON messages or a transcript; what comes in is verified, and named
        `imported/SESSION`.

        `agent` is the agent whose transcript it is, by default detected. Raises BadValue for a file
        that is none of these, and StoreDamaged if nothing of it is intact.
        """
        store, path = self.store(), Path(os.path.join(self.path, file))
        imports = importing.import_file(
            store, ImportRequest(path, agent, settings.limits(store.repo))
        )
        importing.require_accepted(imports)
        return imports


def _format(path: Path, given: str | None, agent: str | None) -> Format:
    names = ", ".join(each.value for each in Format)
    try:
        form = Format(given) if given is not None else export.format_of(path)
    except ValueError:
        form = None
    if form is None and given is None and agent is not None:
        form = Format.TRANSCRIPT
    if form is None or (agent is not None and form is not Format.TRANSCRIPT):
        raise BadValue(
            f"format is {given!r} for {path.name!r}: nothing was written",
            hint=f"pass one of {names}; with agent=, transcript",
        )
    return form
