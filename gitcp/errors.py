"""Expected errors, with their exit codes.

    GitcpError                     1   failed
    ├── BadValue                   2   invalid argument or input file (a ValueError)
    ├── RepositoryNotFound        10   no repository, or an unsupported one (a LookupError)
    ├── StoreBusy                 11   the store is locked, or other processes won every race
    ├── Refused                   12   would lose work, or needs --yes
    │   ├── AlreadyExists         12   a name or directory is taken (a FileExistsError)
    │   └── OthersAffected        12   would change files that live sessions changed
    ├── StoreDamaged              13   an object is missing or does not match its id
    │   └── FormatTooNew          13   written by a newer gitcp
    ├── NotTrusted                14   comes from another repository and needs --trust
    ├── SecretsFound              15   data that leaves the machine contains secrets
    │   └── FilteredFiles         15   or the plain text of files that git filters in commits
    ├── RevisionNotFound          16   no such checkpoint (a LookupError)
    │   └── RevisionAmbiguous     16   more than one; lists the candidates
    ├── DiskFull                  17
    ├── ConversationUnreadable     1   the agent's files are missing or unreadable
    ├── IndexUnreadable            1   git's index cannot be read
    └── GitFailed                  1   a `git` command failed; has its output

A message states what failed, on what, that nothing was changed, and what else can be done. `hint`
is a command to run next, with nothing after it: it is pasted, and run by programs. Only
`gitcp.cli.failure` converts errors to exit codes.
"""

from __future__ import annotations


class GitcpError(Exception):
    """An expected failure: `str(error)` for people, `hint` is a command to run next, or "".

    `candidates` are additional lines, such as possible matches or findings. `suggestion` works in
    place of `argument`, "" if unknown. `option` are the words to add to the command line, () if
    that does not help.
    """

    argument = ""
    suggestion = ""
    option: tuple[str, ...] = ()

    def __init__(self, message: str, candidates: tuple[str, ...] = (), *, hint: str = "") -> None:
        super().__init__(message)
        self.candidates = candidates
        self.hint = hint


class BadValue(GitcpError, ValueError):
    """An invalid value from the user: an argument, a setting, a payload."""


class RepositoryNotFound(GitcpError, LookupError):
    """There is no git repository here, or one that gitcp does not support."""


class StoreBusy(GitcpError):
    """The store is locked by another process, or other processes won every race."""


class Refused(GitcpError):
    """The action could lose work, or needs a confirmation."""


class AlreadyExists(Refused, FileExistsError):
    """A session, tag, branch or directory with this name exists already."""


class OthersAffected(Refused):
    """A restore would change files that other sessions changed whose agents are at work. `sessions`
    are their names with the paths.
    """

    sessions: tuple[tuple[str, tuple[bytes, ...]], ...] = ()


class StoreDamaged(GitcpError):
    """A stored object is missing, unreadable, or does not match its id. `objects` are their ids."""

    objects: tuple[str, ...] = ()


class FormatTooNew(StoreDamaged):
    """A checkpoint in a format that this version does not know. The hint upgrades gitcp."""

    def __init__(self, message: str, candidates: tuple[str, ...] = ()) -> None:
        from gitcp import installed  # rarely

        super().__init__(message, candidates, hint=installed.upgrade())


class NotTrusted(GitcpError):
    """A checkpoint from another repository needs --trust."""


class SecretsFound(GitcpError):
    """Data about to leave the machine contains secrets."""


class FilteredFiles(SecretsFound):
    """Files about to leave the machine are not as git would commit them: a filter changes them."""


class RevisionNotFound(GitcpError, LookupError):
    """No checkpoint matches the revision."""


class RevisionAmbiguous(RevisionNotFound):
    """More than one checkpoint matches; `candidates` lists them, newest first."""


class DiskFull(GitcpError):
    """The disk or quota is full. Nothing is left half written."""


class ConversationUnreadable(GitcpError):
    """The agent's transcript is missing or unreadable. `stream` is the part of the conversation
    that cannot be read: the main one, or a sub-agent's.
    """

    stream = "main"


class IndexUnreadable(GitcpError):
    """Git's index is damaged or cannot be read. `what` is the reason alone."""

    what = ""


class GitFailed(GitcpError):
    """A `git` command failed."""
