"""The refs of gitcp on a remote, as the remote itself lists them.

A session is at `refs/gitcp/shared/<2 hex digits>/<session>`. An older gitcp put it at
`refs/gitcp/sessions/<session>`: one that is there is still read, and continued there, so that those
who have the older gitcp see it grow. If a session is at both, the sharded ref counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from gitcp.git import remote
from gitcp.model import Oid
from gitcp.sharing.remotes import Remote
from gitcp.store import Store
from gitcp.value import EMPTY, Value

SHARD = 2
"""Hex digits of a shard: hosts are slow with thousands of refs in one directory."""


class RemoteRefs(Value):
    """What a remote lists: the ref and tip of each session, by the session's name; tags by name,
    with the commits of annotated ones by the same name; the catalogue's commit; and the flat refs
    of sessions that are sharded, too, by name.
    """

    sessions: Mapping[str, tuple[str, Oid]] = EMPTY
    tags: Mapping[str, Oid] = EMPTY
    peeled: Mapping[str, Oid] = EMPTY
    catalogue: Oid | None = None
    doubles: Mapping[str, tuple[str, Oid]] = EMPTY

    def ref(self, of: Remote, session: str) -> str:
        """Return the ref at which a session is, or belongs if the remote does not have it."""
        return self.sessions[session][0] if session in self.sessions else session_ref(of, session)

    def tip(self, session: str) -> Oid | None:
        """Return the session's tip, None if the remote does not have it."""
        return self.sessions[session][1] if session in self.sessions else None

    def refs(self, session: str) -> dict[str, Oid]:
        """Return all refs of a session, with their values."""
        listed = (self.sessions.get(session), self.doubles.get(session))
        return dict(each for each in listed if each)


def shard(session: str) -> str:
    """Return the directory of a session: the first digits of the SHA-256 of its name."""
    return sha256(session.encode("utf-8", "surrogateescape")).hexdigest()[:SHARD]


def session_ref(of: Remote, session: str) -> str:
    """Return the ref at which gitcp puts a new session on a remote."""
    return f"{of.shared}{shard(session)}/{session}"


def read(store: Store, of: Remote, url: str) -> RemoteRefs:
    """Ask a remote for its refs, in one request. Raises GitFailed, Refused."""
    listed = remote.peeled(store.repo, url, f"{of.shared}*", f"{of.flat_sessions}*", f"{of.tags}*")
    flat = {
        ref.removeprefix(of.flat_sessions): (ref, oid)
        for ref, oid in listed.items()
        if ref.startswith(of.flat_sessions) and not ref.startswith(of.shared)
    }
    sharded = _sharded(of, listed)
    tags = {
        ref.removeprefix(of.tags): oid for ref, oid in listed.items() if ref.startswith(of.tags)
    }
    names = [name for name in tags if not name.endswith(remote.PEELED)]
    return RemoteRefs(
        {**flat, **sharded},
        {name: tags[name] for name in names},
        {name: tags[name + remote.PEELED] for name in names if name + remote.PEELED in tags},
        listed.get(of.catalogue),
        {name: value for name, value in flat.items() if name in sharded},
    )


def _sharded(of: Remote, listed: Mapping[str, Oid]) -> dict[str, tuple[str, Oid]]:
    """Return the sessions that are where they belong. Others are nobody's: a name that is at two
    places would mean two sessions.
    """
    below = ((ref.rpartition("/")[2], ref, oid) for ref, oid in listed.items())
    return {name: (ref, oid) for name, ref, oid in below if ref == session_ref(of, name)}
