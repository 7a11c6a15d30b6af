"""Everything that can go wrong and is expected to.

    GitcpError                     1   failed
    ├── BadValue                   2   an argument or a file given by the user is not usable
    ├── RepositoryNotFound        10   no repository here, or one gitcp does not work in
    ├── StoreBusy                 11   another process holds the store, or won every race
    ├── Refused                   12   would lose work, or needs --yes
    ├── StoreDamaged              13   an object is missing or does not hold what its id says
    │   └── FormatTooNew          13   written by a newer gitcp
    ├── NotTrusted                14   came from somebody else and was not released with --trust
    ├── SecretsFound              15   something that leaves the machine holds secrets
    ├── RevisionNotFound          16   no such checkpoint
    │   └── RevisionAmbiguous     16   more than one; lists the candidates
    ├── DiskFull                  17
    ├── ConversationUnreadable     1   the agent's files are missing or cannot be read
    └── GitFailed                  1   a `git` command failed; carries what it said

A message says what happened, to what, and what was not changed. `hint` is the next command to type.
The numbers are exit codes; only `gitcp.cli.failure` turns one into the other.
"""

from __future__ import annotations


class GitcpError(Exception):
    """Any expected failure: `str(error)` for people, `hint` what to type next ("" where there is
    nothing).

    `candidates` are lines that belong to it: what could have been meant, what was found.
    """

    def __init__(self, message: str, candidates: tuple[str, ...] = (), *, hint: str = "") -> None:
        super().__init__(message)
        self.candidates = candidates
        self.hint = hint


class BadValue(GitcpError):
    """A value from the user (argument, configuration, payload) that cannot be used."""


class RepositoryNotFound(GitcpError):
    """There is no git repository here, or it is of a kind gitcp cannot work in."""


class StoreBusy(GitcpError):
    """Another process holds the lock or kept winning the compare-and-swap."""


class Refused(GitcpError):
    """The action could lose work, or needs a confirmation that was not given."""


class StoreDamaged(GitcpError):
    """A stored object is missing, unreadable or not what its id says. `objects` names those that it
    is about.
    """

    objects: tuple[str, ...] = ()


class FormatTooNew(StoreDamaged):
    """A checkpoint written in a format this version does not know."""


class NotTrusted(GitcpError):
    """A checkpoint of foreign origin was not released with --trust."""


class SecretsFound(GitcpError):
    """Something about to leave the machine holds secrets."""


class RevisionNotFound(GitcpError):
    """No checkpoint is meant by this revision."""


class RevisionAmbiguous(RevisionNotFound):
    """More than one checkpoint is meant; `candidates` lists them, newest first."""


class DiskFull(GitcpError):
    """The disk or the quota is full; nothing was half written."""


class ConversationUnreadable(GitcpError):
    """The agent's transcript is missing or cannot be read."""


class GitFailed(GitcpError):
    """A `git` command ended with an error."""
