"""Other repositories, by `git` itself and with the user's own credentials: list refs, send them,
get what they reach.

Nothing is sent or fetched but what is named, no hook runs, and none of git's own refs or files is
written: no FETCH_HEAD, no tracking branch, no tag.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gitcp.errors import GitcpError, GitFailed
from gitcp.git import process
from gitcp.git.refs import HEX, PREFIX
from gitcp.git.repo import Repository
from gitcp.model import Oid

AT_ONCE = 5
"""Some hosts let one push change no more refs."""

PEELED = "^{}"
"""The end of the name by which a remote says what a tag is on."""

LONGEST = 500
"""Characters of what a remote says that are passed on."""

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
QUIET = ("--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--refmap=", "--quiet")


class Update(NamedTuple):
    """A ref of the remote to be moved: where to, and where it must still be (None: it must not
    exist).
    """

    ref: str
    new: Oid
    old: Oid | None


def listed(repo: Repository, remote: str, pattern: str = PREFIX + "*") -> dict[str, Oid]:
    """The refs of a remote that match, by name. Raises GitFailed, with what git said."""
    return {
        name: oid
        for name, oid in peeled(repo, remote, pattern).items()
        if not name.endswith(PEELED)
    }


def peeled(repo: Repository, remote: str, pattern: str) -> dict[str, Oid]:
    """The same, and beside annotated tags, as `NAME^{}`, what they are on; a bundle does not say
    that.
    """
    found = {}
    for line in (
        repo.git("ls-remote", "--", remote, pattern).decode("utf-8", "replace").splitlines()
    ):
        oid, _, name = line.partition("\t")
        if HEX.match(oid):
            found[name] = Oid(oid)
    return found


def send(repo: Repository, remote: str, updates: Sequence[Update]) -> dict[str, str]:
    """Push, each ref only if it is still where it was; what was refused, by ref, with the reason.

    Raises GitFailed if the remote could not be reached at all.
    """
    refused: dict[str, str] = {}
    for start in range(0, len(updates), AT_ONCE):
        refused |= _send(repo, remote, updates[start : start + AT_ONCE])
    return refused


def _send(repo: Repository, remote: str, updates: Sequence[Update]) -> dict[str, str]:
    leases = [f"--force-with-lease={update.ref}:{update.old or ''}" for update in updates]
    specs = [f"{update.new}:{update.ref}" for update in updates]
    options = (
        "--porcelain",
        "--no-verify",
        "--no-follow-tags",
        "--recurse-submodules=no",
        "--no-signed",
    )
    # push options are words to a forge about the user's own pushes, and some remotes take none at
    # all
    args = ("-c", "push.pushOption=", "push", *options, *leases, "--", remote, *specs)
    out, err = process.talk(
        (*repo.told, *args), cwd=str(repo.root), env=repo.host.env, accept=(0, 1)
    )
    states = dict(_states(out.decode("utf-8", "replace")))
    if not states:
        raise GitFailed(f"the remote {remote} could not be reached: nothing was sent")
    why = _explained(err.decode("utf-8", "replace"))
    found = {update.ref: states.get(update.ref, "no answer") for update in updates}
    return {ref: state + why for ref, state in found.items() if state}


def _explained(said: str) -> str:
    """What the remote says about it in its own words, in brackets: the reason is often there
    alone.
    """
    lines = (
        line.removeprefix("remote:").strip()
        for line in said.splitlines()
        if line.startswith("remote:")
    )
    text = "; ".join(filter(None, lines))
    return f" ({text[:LONGEST]})" if text else ""


def _states(said: str) -> list[tuple[str, str]]:
    r"""Each ref and why it was refused, "" where it was not: git's lines
    `FLAG\\tFROM:TO\\tSUMMARY`.
    """
    rows = [line.split("\t") for line in said.splitlines()]
    return [
        (row[1].partition(":")[2], row[2] if row[0] == "!" else "") for row in rows if len(row) == 3
    ]


def receive(repo: Repository, remote: str, names: Sequence[str]) -> None:
    """Get everything that refs of a remote reach, each object checked by git; no ref names it yet.
    Raises GitFailed.
    """
    for start in range(0, len(names), 100):
        repo.git(*CHECKED, "fetch", *QUIET, "--", remote, *names[start : start + 100])


def sizes(repo: Repository, names: Sequence[Oid]) -> dict[Oid, int]:
    """How large objects are, without reading them. Raises GitcpError for one that is missing."""
    asked = "\n".join(names).encode("ascii") + b"\n"
    answers = (
        repo.git("cat-file", "--batch-check=%(objectname) %(objectsize)", input=asked)
        .decode("ascii")
        .split("\n")
    )
    found = {}
    for answer in filter(None, answers):
        name, _, size = answer.partition(" ")
        if not size.isdecimal():
            raise GitcpError(f"object {name} did not come along: nothing of it is used")
        found[Oid(name)] = int(size)
    return found


def settings(repo: Repository) -> Mapping[str, str]:
    """git's settings of remotes, `remote.NAME.KEY` → the last value; of addresses the first, from
    which git fetches.
    """
    listed = repo.git("config", "-z", "--get-regexp", r"^remote\.", accept=(0, 1)).decode(
        "utf-8", "replace"
    )
    pairs = (item.partition("\n") for item in listed.split("\0") if item)
    found: dict[str, str] = {}
    for key, _, value in pairs:
        if not (value and found.get(key) and key.endswith((".url", ".pushurl"))):
            found[key] = value
    return found


def configure(repo: Repository, key: str, value: str | None) -> None:
    """Set a setting in this repository's config, or take it away. Raises GitFailed."""
    if value is None:
        repo.git("config", "--local", "--unset-all", key, accept=(0, 5))
    else:
        repo.git("config", "--local", "--replace-all", key, value)
