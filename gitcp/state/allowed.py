"""The secrets that may leave this repository: the answers to what a scan found, by ID.

An answer is recorded in the user's own state directory (gitcp.git.records), so that an archive
brings none, and another user's are not yours. The file of the team (`.gitcp.toml`) and the user's
own git configuration allow, too; that of the repository does not, since whoever packed an archive
may have written it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from datetime import datetime

from gitcp import wire
from gitcp.errors import BadValue, GitcpError
from gitcp.git import records
from gitcp.git.repo import Repository
from gitcp.state import settings
from gitcp.value import Value

NAME = "allowed-secrets"
ID = re.compile(r"[0-9a-f]{12}")


class AllowedSecret(Value):
    """A secret that may leave, by its ID; where that was said, and when, if it was here."""

    id: str
    source: str
    when: datetime | None = None


HERE = "here"


def ids(repo: Repository) -> frozenset[str]:
    """Return the IDs of the secrets that may leave. Raises BadValue for a mistake in the settings,
    and GitcpError if the answers cannot be read.
    """
    return frozenset(answer.id for answer in listing(repo))


def listing(repo: Repository) -> tuple[AllowedSecret, ...]:
    """Return the answers: those given here, then those of the settings. Raises as `ids`."""
    here = (AllowedSecret(id, HERE, when) for id, when in _recorded(repo).items())
    sources = settings.allowed_secrets(repo).items()
    return (*here, *(AllowedSecret(id, source) for source, named in sources for id in named))


def require(given: Iterable[str]) -> tuple[str, ...]:
    """Return the IDs as they are. Raises BadValue for what is none."""
    given = tuple(given)
    for id in given:
        if not ID.fullmatch(id):
            raise BadValue(
                f"{id!r} is not the ID of a secret: nothing was changed", hint="gitcp push --scan"
            )
    return given


def allow(repo: Repository, given: Iterable[str]) -> tuple[str, ...]:
    """Record that these secrets may leave from now on. Return those that could not leave before.
    Raises BadValue, GitcpError.
    """
    given = require(given)
    known = ids(repo)
    new = tuple(id for id in dict.fromkeys(given) if id not in known)
    if new:
        _write(repo, {**_recorded(repo), **dict.fromkeys(new, repo.host.now())})
    return new


def revoke(repo: Repository, given: Collection[str]) -> None:
    """Forget answers that were given here. Raises BadValue for one that was not, and GitcpError;
    nothing is forgotten then.
    """
    recorded = _recorded(repo)
    for id in require(given):
        if id not in recorded:
            raise _not_here(repo, id)
    _write(repo, {id: when for id, when in recorded.items() if id not in given})


def _not_here(repo: Repository, id: str) -> BadValue:
    sources = [answer.source for answer in listing(repo) if answer.id == id]
    if sources:
        where = " and ".join(sources)
        return BadValue(
            f"{id} is allowed by {where}, not here: nothing was changed",
            hint=f"remove it from {where}",
        )
    return BadValue(f"{id} is not allowed: nothing was changed", hint="gitcp push --scan --allowed")


def _recorded(repo: Repository) -> dict[str, datetime | None]:
    """Return the recorded answers. A damaged record is none: the question is asked again."""
    try:
        data = records.read(repo.common_dir, repo.host, NAME)
        answers = wire.loads(data)["allowed"] if data is not None else {}
        return {
            id: wire.decode_time(when) if when else None
            for id, when in answers.items()
            if ID.fullmatch(id)
        }
    except (OSError, GitcpError, KeyError, TypeError, ValueError, AttributeError):
        return {}


def _write(repo: Repository, answers: dict[str, datetime | None]) -> None:
    fields: wire.Json = {
        "schema": "gitcp.allowed-secrets/1",
        "allowed": {id: wire.encode_time(when) if when else None for id, when in answers.items()},
    }
    try:
        records.write(repo.common_dir, repo.host, NAME, wire.dumps(fields, small=True))
    except OSError as error:
        left = f"{error.strerror}; what is allowed was not changed"
        raise records.unwritable(repo.host, left) from None
