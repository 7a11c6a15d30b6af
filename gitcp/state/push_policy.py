"""The user's consent to pushes in the background, one file for each remote and user; and which
sessions were deleted on a remote, for all users of the repository.

It is recorded outside of the repository (gitcp.git.records): neither the team's file nor git's
config can give it, nor an archive that brings a git directory, and in a shared repository each user
consents for themselves. It holds for the URL that the remote had. A copy in `<git dir>/gitcp/push`
allows nothing: it tells what was allowed before the directory was moved.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from gitcp import wire
from gitcp.codec import NOT_WRITTEN, Codec
from gitcp.git import locks, records, refs
from gitcp.git.fsync import make_own_directory, open_shared, read_own
from gitcp.git.repo import Repository
from gitcp.state import documents
from gitcp.value import Value

DIRECTORY = "push"
CONSENT, QUEUE, LOCK = "json", "queue", "lock"
DELETED = "deleted"

MOMENT = 1.0
"""Seconds to wait for the lock: `is_pushing` has it for an instant, a process that pushes longer.
"""


class PushPolicy(StrEnum):
    """When gitcp pushes in the background: after each save, at each new tag, or never."""

    ALWAYS = "always"
    ON_TAG = "on-tag"
    NEVER = "never"


class Consent(Value):
    """What may be pushed to a remote: by which policy, to which URL (its SHA-256), and since when.
    Older checkpoints are pushed only with newer ones of their session. `unfiltered`: also files
    that git would filter in a commit.
    """

    remote: str
    policy: PushPolicy
    url: str
    since: datetime
    unfiltered: bool = False


CODEC = Codec(wire.FORMS, {Consent: {"remote": NOT_WRITTEN}}, in_full=True)


def fingerprint(url: str) -> str:
    """Return the SHA-256 of a URL: it may contain a password."""
    return hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()


def path(repo: Repository, remote: str, kind: str) -> Path:
    """Return the path of a file of this user for a remote: CONSENT, QUEUE or LOCK."""
    return repo.common_dir / "gitcp" / DIRECTORY / f"{remote}.{os.geteuid()}.{kind}"


def read(repo: Repository, remote: str) -> Consent | None:
    """Return the consent for a remote, None if there is none, or if its record is unreadable,
    damaged, or was made for another place.
    """
    try:
        data = records.read(repo.common_dir, repo.host, _record(remote))
        return _decoded(remote, data) if data is not None else None
    except OSError:
        return None


def lapsed(repo: Repository) -> tuple[Consent, ...]:
    """Return what is said to be allowed but is not recorded, by remote: it was given before the
    directory was moved or copied, or by another user.
    """
    claims = []
    for remote in _claimed(repo):
        file = path(repo, remote, CONSENT)
        with suppress(OSError):
            claim = _decoded(remote, read_own(file))
            if claim is not None and read(repo, remote) is None:
                claims.append(claim)
    return tuple(claims)


def listing(repo: Repository) -> tuple[Consent, ...]:
    """Return this user's consents, by remote."""
    return tuple(filter(None, (read(repo, name) for name in _claimed(repo))))


def is_said(repo: Repository, remote: str) -> bool:
    """Return whether this user allowed pushes to a remote, here or where this directory was."""
    return remote in _claimed(repo)


def _claimed(repo: Repository) -> list[str]:
    """Return the remotes for which there is a file of this user, whatever it allows."""
    suffix = f".{os.geteuid()}.{CONSENT}"
    try:
        names = sorted(os.listdir(repo.common_dir / "gitcp" / DIRECTORY))
    except OSError:
        return []
    remotes = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return [name for name in remotes if refs.NAME.match(name)]


def _record(remote: str) -> str:
    return f"{DIRECTORY}/{remote}.{CONSENT}"


def _decoded(remote: str, data: bytes) -> Consent | None:
    try:
        return Consent(remote, **CODEC.decode_fields(Consent, wire.loads(data)))
    except ValueError:
        return None


def record(repo: Repository, consent: Consent) -> None:
    """Write a consent. Raises DiskFull, GitcpError."""
    fields: dict[str, object] = {"schema": "gitcp.push-consent/1", **CODEC.encode(consent)}
    make_own_directory(repo.store_dir / DIRECTORY)
    try:
        data = wire.dumps(fields, small=True)
        records.write(repo.common_dir, repo.host, _record(consent.remote), data)
    except OSError as error:
        left = f"{error.strerror}; nothing is pushed in the background"
        raise records.unwritable(repo.host, left) from None
    documents.write(path(repo, consent.remote, CONSENT), fields, private=True)


def withdraw(repo: Repository, remote: str) -> None:
    """Remove a consent and what was waiting for it. A push that is running is not stopped."""
    records.remove(repo.common_dir, repo.host, _record(remote))
    for kind in (CONSENT, QUEUE):
        with suppress(FileNotFoundError):
            path(repo, remote, kind).unlink()


def deleted(repo: Repository, remote: str) -> frozenset[str]:
    """Return the sessions that are not pushed to a remote in the background, because somebody
    deleted them there. Raises StoreDamaged.
    """
    fields = documents.read(_deleted_path(repo, remote)) or {}
    return frozenset(name for name in fields.get("sessions", ()) if isinstance(name, str))


def note_deleted(repo: Repository, remote: str, sessions: Iterable[str]) -> None:
    """Record that these sessions are deleted on a remote. The caller holds the store's lock. Raises
    DiskFull, GitcpError.
    """
    _write_deleted(repo, remote, deleted(repo, remote) | frozenset(sessions))


def note_pushed(repo: Repository, remote: str, sessions: Iterable[str]) -> None:
    """Record that somebody pushed these sessions again. The caller holds the store's lock. Raises
    StoreDamaged, DiskFull, GitcpError.
    """
    before = deleted(repo, remote)
    after = before - frozenset(sessions)
    if after != before:
        _write_deleted(repo, remote, after)


def _deleted_path(repo: Repository, remote: str) -> Path:
    return repo.common_dir / "gitcp" / DIRECTORY / f"{remote}.{DELETED}"


def _write_deleted(repo: Repository, remote: str, sessions: Iterable[str]) -> None:
    make_own_directory(repo.store_dir / DIRECTORY)
    documents.write(
        _deleted_path(repo, remote),
        {"schema": "gitcp.push-deleted/1", "sessions": sorted(sessions)},
    )


@contextmanager
def alone(repo: Repository, remote: str) -> Iterator[bool]:
    """Yield whether no other process pushes to the remote in the background; none starts before the
    block ends.
    """
    with _lock_file(repo, remote) as descriptor:
        until = time.monotonic() + MOMENT
        while not (nobody := locks.take_now(descriptor)) and time.monotonic() < until:
            time.sleep(MOMENT / 20)
        yield nobody


def is_pushing(repo: Repository, remote: str) -> bool:
    """Return whether a process pushes to the remote in the background."""
    if not path(repo, remote, LOCK).exists():
        return False
    with _lock_file(repo, remote) as descriptor:
        return not locks.take_now(descriptor, alone=False)


@contextmanager
def _lock_file(repo: Repository, remote: str) -> Iterator[int]:
    make_own_directory(repo.store_dir / DIRECTORY)
    descriptor = open_shared(path(repo, remote, LOCK), os.O_RDWR)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
