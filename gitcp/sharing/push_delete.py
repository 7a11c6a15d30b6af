"""Delete sessions on a remote: a plan, then one push. Nothing is deleted in this repository.

A session is deleted with its tags and its entry in the catalogue, each ref only at the value that
the plan saw. Unless forced, its checkpoints must be in this repository, so that a deletion by
mistake loses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from gitcp.errors import GitcpError, GitFailed, Refused, RevisionAmbiguous, RevisionNotFound
from gitcp.git import refs
from gitcp.git.remote import RemoteUpdate
from gitcp.model import Oid
from gitcp.secrets.checkpoint_scan import Sieve
from gitcp.sharing import catalogue, remote_refs
from gitcp.sharing.catalogue import CatalogueEntry
from gitcp.sharing.delivery import Delivery, Pace, within_rate
from gitcp.sharing.remote_refs import RemoteRefs
from gitcp.sharing.remotes import Remote
from gitcp.state import push_policy
from gitcp.store import Store, Summary
from gitcp.value import Value

NOTHING = "nothing was deleted"
KEEPING = (refs.SESSIONS, refs.REMOTES, refs.TAGS)
"""Refs that keep checkpoints until somebody deletes them: the trash is emptied by itself."""


class Deletion(Value):
    """A session to delete on a remote: its refs and tags there, with their values.

    `chain` are its checkpoints, newest first, () if they are not here, and `author` is that of the
    last one. `shared` of them stay there as part of other sessions, and so do their tags. `entry`
    is the session in the catalogue if its checkpoints are not here.
    """

    session: str
    refs: Mapping[str, Oid]
    tags: Mapping[str, Oid]
    chain: tuple[Summary, ...] = ()
    author: str = ""
    shared: int = 0
    entry: CatalogueEntry | None = None


class RemoteDeletePlan(Value):
    """The sessions that would be deleted on a remote, whose refs were `listed`."""

    remote: Remote
    listed: RemoteRefs
    deletions: tuple[Deletion, ...]


class RemoteDeleteReport(Value):
    """The deleted sessions; the refs that the remote refused to delete, with its reasons; and why
    its catalogue was not updated, "" if it was.
    """

    deleted: tuple[str, ...]
    refused: Mapping[str, str]
    catalogue: str = ""


def plan(
    store: Store, to: Remote, sessions: Iterable[str], *, force: bool = False
) -> RemoteDeletePlan:
    """Plan to delete sessions, named by unique prefixes. Writes nothing; with `force`, the objects
    of the remote's catalogue.

    Raises RevisionNotFound and RevisionAmbiguous for a name, GitFailed if the remote cannot be
    reached, and, without `force`, Refused for a session whose checkpoints are not kept here.
    """
    listed = remote_refs.read(store, to, to.destination)
    names = dict.fromkeys(_expand(to, listed, each) for each in sessions)
    chains = {name: _chain(store, listed, name) for name in names}
    unknown = [name for name in names if not chains[name]]
    if unknown and not force:
        raise _unknown(to, unknown[0])
    entries = _entries(store, to, listed) if unknown else {}
    alone = _alone(store, listed, names)
    deletions = (
        _deletion(store, listed, name, chains[name], alone, entries.get(name)) for name in names
    )
    return RemoteDeletePlan(to, listed, tuple(deletions))


def delete(store: Store, agreed: RemoteDeletePlan, pace: Pace | None = None) -> RemoteDeleteReport:
    """Delete on the remote as planned, and update its catalogue. `pace` is by default at most six
    pushes a minute.

    First records, in `<git dir>/gitcp/push`, that gitcp does not push these sessions there by
    itself. Raises GitFailed if the remote cannot be reached.
    """
    to, names = agreed.remote, [each.session for each in agreed.deletions]
    with store.lock():
        push_policy.note_deleted(store.repo, to.name, names)
    sessions = {each.session: _updates(each.refs) for each in agreed.deletions}
    tags = {name: value for each in agreed.deletions for name, value in each.tags.items()}
    delivery = Delivery(store, to, agreed.listed, Sieve(()), pace or within_rate())
    try:
        done = delivery.delete(sessions, _updates({to.tags + n: v for n, v in tags.items()}))
    finally:
        store.writer.release()
    deleted = (each.session for each in agreed.deletions if not done.refused.keys() & each.refs)
    return RemoteDeleteReport(tuple(deleted), done.refused, done.catalogue)


def _updates(values: Mapping[str, Oid]) -> list[RemoteUpdate]:
    return [RemoteUpdate(ref, None, value) for ref, value in values.items()]


def _expand(to: Remote, listed: RemoteRefs, given: str) -> str:
    matching = [name for name in listed.sessions if given and name.startswith(given)]
    if given in matching:
        return given
    if len(matching) > 1:
        raise RevisionAmbiguous(
            f"more than one session on {to.name} matches {given!r}; {NOTHING}", tuple(matching)
        )
    if not matching:
        raise RevisionNotFound(
            f"{to.name} has no session {given!r}; {NOTHING}", hint=f"gitcp fetch {to.name} --list"
        )
    return matching[0]


def _chain(store: Store, listed: RemoteRefs, session: str) -> tuple[Summary, ...]:
    """Return the checkpoints of a session on the remote, newest first, () unless refs here keep all
    that its refs there name.
    """
    tips = listed.refs(session).values()
    with suppress(GitcpError):
        if all(_is_kept(store, tip) for tip in tips):
            return tuple(store.history(listed.sessions[session][1]))
    return ()


def _is_kept(store: Store, commit: Oid) -> bool:
    if not store.reader.exists(commit):
        return False
    with suppress(GitFailed):
        return bool(store.repo.git("for-each-ref", "--count=1", f"--contains={commit}", *KEEPING))
    return False


def _unknown(to: Remote, session: str) -> Refused:
    return Refused(
        f"the checkpoints of session {session} on {to.name} are not in this repository; {NOTHING}",
        (f"to delete them there all the same: gitcp push {to.name} --delete {session} --force",),
        hint=f"gitcp fetch {to.name} {session}",
    )


def _entries(store: Store, to: Remote, listed: RemoteRefs) -> catalogue.Lines:
    """Return what the remote's catalogue says, nothing if it cannot be read."""
    with suppress(GitcpError):
        if listed.catalogue:
            entries = catalogue.fetch(store, to, to.destination, listed.catalogue)
            return {name: each for name, each in entries.items() if each.tip == listed.tip(name)}
    return {}


def _alone(store: Store, listed: RemoteRefs, names: Collection[str]) -> frozenset[str]:
    """Return the commits of the named sessions, as far as they are here, that no session which
    stays there is known to have.
    """
    tips = [("" if name in names else "^") + tip for name, (_, tip) in listed.sessions.items()]
    revisions = "".join(f"{tip}\n" for tip in tips).encode("ascii")
    output = store.repo.git("rev-list", "--ignore-missing", "--stdin", input=revisions)
    return frozenset(output.decode("ascii").split())


def _deletion(
    store: Store,
    listed: RemoteRefs,
    name: str,
    chain: Sequence[Summary],
    alone: Collection[str],
    entry: CatalogueEntry | None,
) -> Deletion:
    commits = {node.commit for node in chain if node.commit in alone}
    tags = {
        tag: value for tag, value in listed.tags.items() if listed.peeled.get(tag, value) in commits
    }
    author = _author(store, chain[0].commit) if chain else ""
    shared = len(chain) - len(commits)
    return Deletion(name, listed.refs(name), tags, tuple(chain), author, shared, entry)


def _author(store: Store, commit: Oid) -> str:
    """Return the name of a commit's author."""
    line = re.search(rb"^author (.*) <", store.reader.read_commit(commit), re.MULTILINE)
    return line[1].decode("utf-8", "replace") if line else ""
