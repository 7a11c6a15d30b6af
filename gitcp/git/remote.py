"""Other repositories, accessed with `git` and the user's own credentials: list, push and fetch
refs.

Only named refs are pushed or fetched, no hook runs, and none of git's own refs or files is written:
no FETCH_HEAD, no tracking branch, no tag.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from gitcp import progress
from gitcp.discovery import STORE
from gitcp.errors import GitcpError, GitFailed, Refused
from gitcp.git import process
from gitcp.git.object_format import FORMATS
from gitcp.git.refs import HEX, PREFIX
from gitcp.git.repo import Repository
from gitcp.model import Oid

AT_ONCE = 100
"""Maximum number of refs in one push."""

FEW = 5
"""Number of refs in one push that every host allows."""

PEELED = "^{}"
"""Suffix of the name under which a remote lists the target of a tag."""

OTHER_FORMAT = (
    "does not support this repository's hash algorithm",
    "mismatched algorithms",
    "unexpected capabilities^{}",
)
"""git's messages when the other repository has another object format."""

FETCHED = re.compile(r"refs/[^\x00-\x20\x7f~^:?*\[\\]+\Z")
"""A name by which a ref is fetched."""

LONGEST = 500
"""Maximum characters of a remote's message that are shown."""

CHECKED = (
    "-c",
    "fetch.fsckObjects=true",
    "-c",
    "transfer.fsckObjects=true",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=0",
)
NAMED_ONLY = ("--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--refmap=")


class RemoteUpdate(NamedTuple):
    """A ref of the remote to move: its new value (None: delete it), and the value it must still
    have (None: must not exist).
    """

    ref: str
    new: Oid | None
    old: Oid | None


def listed(repo: Repository, remote: str, pattern: str = PREFIX + "*") -> dict[str, Oid]:
    """Return the matching refs of a remote by name. Raises GitFailed with git's message."""
    return {
        name: oid
        for name, oid in peeled(repo, remote, pattern).items()
        if not name.endswith(PEELED)
    }


def peeled(repo: Repository, remote: str, *patterns: str) -> dict[str, Oid]:
    """Return the refs of a remote that match a pattern, with the targets of annotated tags as
    `NAME^{}`; bundles do not list those.
    """
    targets = {}
    with _formats_compared(repo):
        output = process.run(
            (*repo.git_options, "ls-remote", *_served(remote), "--", remote, *patterns),
            cwd=str(repo.root),
            env=_environment(repo, remote),
            connects=True,
        )
    for line in output.decode("utf-8", "replace").splitlines():
        oid, _, name = line.partition("\t")
        if HEX.match(oid):
            targets[name] = Oid(oid)
            if len(oid) != repo.object_format.digits:
                raise _other_format(repo)
    return targets


@contextmanager
def _formats_compared(repo: Repository) -> Iterator[None]:
    """Convert git's errors for a remote with another object format."""
    try:
        yield
    except GitFailed as error:
        if any(words in str(error) for words in OTHER_FORMAT):
            raise _other_format(repo) from None
        raise


def _other_format(repo: Repository) -> Refused:
    own = repo.object_format
    other = next(each for each in FORMATS.values() if each != own)
    return Refused(
        f"the remote names its objects by {other.title}, and this repository by {own.title}: git "
        "cannot exchange objects between them; nothing was sent or fetched",
        hint=f"git init --bare --object-format={own.name} ../checkpoints.git",
    )


def send(repo: Repository, remote: str, updates: Sequence[RemoteUpdate]) -> dict[str, str]:
    """Push each ref, in one push, only if it still has its old value. Return the rejected refs with
    reasons.

    Raises GitFailed if the remote cannot be reached.
    """
    leases = [f"--force-with-lease={update.ref}:{update.old or ''}" for update in updates]
    specs = [f"{update.new or ''}:{update.ref}" for update in updates]
    options = (
        "--porcelain",
        *(["--progress"] if progress.is_shown() else []),
        "--no-verify",
        "--no-follow-tags",
        "--recurse-submodules=no",
        "--no-signed",
    )
    # With `push.pushOption` set, a push failed where the remote takes none, or told the forge what
    # was meant for the user's own pushes.
    args = ("-c", "push.pushOption=", "push", *options, *leases, "--", remote, *specs)
    with _formats_compared(repo):
        out, err = _talk(repo, remote, args, accept=(0, 1))
    states = dict(_states(out.decode("utf-8", "replace")))
    if not states:
        raise GitFailed(f"the remote {remote} could not be reached: nothing was sent")
    why = _explained(err.decode("utf-8", "replace"))
    answers = {update.ref: states.get(update.ref, "no answer") for update in updates}
    return {ref: state + why for ref, state in answers.items() if state}


def _talk(
    repo: Repository, remote: str, args: Sequence[str], accept: Sequence[int] = (0,)
) -> tuple[bytes, bytes]:
    """Run a command that contacts a remote and return its stdout and stderr. Reports progress if it
    is shown.
    """
    run = process.run_with_progress if progress.is_shown() else process.run_with_stderr
    return run(
        (*repo.git_options, *args),
        cwd=str(repo.root),
        env=_environment(repo, remote),
        accept=accept,
        connects=True,
    )


def _is_on_disk(remote: str) -> bool:
    """Return whether this is a bundle, or a store of gitcp's in a directory that is a repository of
    git's now: reading them connects to nothing.
    """
    return os.path.isabs(remote) and (os.path.isfile(remote) or remote.endswith(STORE))


def _environment(repo: Repository, remote: str) -> Mapping[str, str]:
    """Return the environment in which git may use this remote. Raises Refused."""
    if _is_on_disk(remote):
        return {**repo.host.env, "GIT_ALLOW_PROTOCOL": "file"}
    repo.require_trusted()
    return repo.host.env


def _served(remote: str) -> tuple[str, ...]:
    """Return the options by which no setting names the program that serves what is on disk."""
    return ("--upload-pack=git-upload-pack",) if _is_on_disk(remote) else ()


def _explained(stderr: str) -> str:
    """Return the remote's own messages in parentheses: the reason is often only there."""
    lines = (
        line.removeprefix("remote:").strip()
        for line in stderr.splitlines()
        if line.startswith("remote:")
    )
    text = "; ".join(filter(None, lines))
    return f" ({text[:LONGEST]})" if text else ""


def _states(stdout: str) -> list[tuple[str, str]]:
    r"""Return each ref and why it was rejected, "" if it was not, from git's lines
    `FLAG\\tFROM:TO\\tSUMMARY`.
    """
    rows = [line.split("\t") for line in stdout.splitlines()]
    return [
        (row[1].partition(":")[2], row[2] if row[0] == "!" else "") for row in rows if len(row) == 3
    ]


def size_of(repo: Repository, updates: Sequence[RemoteUpdate]) -> int:
    """Return about how many bytes a push of these refs sends: those of its objects as they are
    stored here. Raises GitFailed.
    """
    new = [update.new for update in updates if update.new]
    old = ["^" + update.old for update in updates if update.old]
    revisions = "\n".join([*new, *old, ""]).encode("ascii")
    args = ("rev-list", "--objects", "--disk-usage", "--ignore-missing", "--stdin")
    return int(repo.git(*args, input=revisions))


def receive(
    repo: Repository,
    remote: str,
    names: Sequence[str],
    negotiation_tip: Oid | None = None,
    *,
    anew: bool = False,
) -> None:
    """Fetch everything that refs of a remote reach, each object checked by git, without creating
    refs. With `negotiation_tip`, a commit that is here, only what it does not reach is sent; with
    `anew`, also what is here, of which objects may be lost. Raises GitFailed.
    """
    for name in names:
        # A server listed `+refs/…:refs/heads/main` as a name, and git moved the branch here.
        if not FETCHED.match(name):
            raise GitFailed(f"the remote lists {name!r}, which is no ref: nothing was fetched")
    common = [f"--negotiation-tip={negotiation_tip}"] if negotiation_tip else []
    common += ["--refetch"] if anew and _can_refetch(repo) else []
    for start in range(0, len(names), 100):
        some = names[start : start + 100]
        shown = "--progress" if progress.is_shown() else "--quiet"
        with _formats_compared(repo):
            options = (shown, *NAMED_ONLY, *common, *_served(remote))
            _talk(repo, remote, (*CHECKED, "fetch", *options, "--", remote, *some))


def _can_refetch(repo: Repository) -> bool:
    """Return whether git is 2.36 or later."""
    numbers = re.search(rb"(\d+)\.(\d+)", repo.git("version"))
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= (2, 36)


def sizes(repo: Repository, names: Sequence[Oid]) -> dict[Oid, int]:
    """Return the sizes of objects in bytes, without reading them. Raises GitcpError for a missing
    one.
    """
    asked = "\n".join(names).encode("ascii") + b"\n"
    answers = (
        repo.git("cat-file", "--batch-check=%(objectname) %(objectsize)", input=asked)
        .decode("ascii")
        .split("\n")
    )
    by_oid = {}
    for answer in filter(None, answers):
        name, _, size = answer.partition(" ")
        if not size.isdecimal():
            raise GitcpError(f"the remote did not send object {name}: nothing was fetched from it")
        by_oid[Oid(name)] = int(size)
    return by_oid


def settings(repo: Repository) -> Mapping[str, str]:
    """Return git's settings of remotes, `remote.NAME.KEY` → the last value; for URLs the first,
    from which git fetches.
    """
    listed = repo.git("config", "-z", "--get-regexp", r"^remote\.", accept=(0, 1)).decode(
        "utf-8", "replace"
    )
    pairs = (item.partition("\n") for item in listed.split("\0") if item)
    values: dict[str, str] = {}
    for key, _, value in pairs:
        # git fetches from the first of several addresses; the last one was fetched from here.
        if not (value and values.get(key) and key.endswith((".url", ".pushurl"))):
            values[key] = value
    return values


def configure(repo: Repository, key: str, value: str | None) -> None:
    """Set or remove a setting in this repository's config. Raises GitFailed."""
    if value is None:
        repo.git("config", "--local", "--unset-all", key, accept=(0, 5))
    else:
        repo.git("config", "--local", "--replace-all", key, value)
