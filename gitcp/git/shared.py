"""Permissions in a repository that several users share (`core.sharedRepository`), as git itself
gives them.

A ref, an object or a lock that only its maker can read is worse than none: the `git gc` of another
member sees no ref and deletes what it names. `learn` is told what a repository's setting says when
it is opened; after that every writer below gives what it made to `adjust`, whatever the umask.
Where nothing is shared, nothing is changed.

Caches stay private: they are marshalled, and nobody may be able to write what another user reads
(gitcp.fastpath.trusted_cache).
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GROUP, EVERYBODY = 0o660, 0o664
NAMED = {"umask": 0, "group": GROUP, "all": EVERYBODY, "world": EVERYBODY, "everybody": EVERYBODY}
NUMBERED = {0: 0, 1: GROUP, 2: EVERYBODY}
"""What old versions of git wrote, and `git init --shared` still does."""

PRIVATE = frozenset(
    {"worktree-state", "unchanged", "config", "policy", "index", "scan", "incoming", "view"}
)
"""What in gitcp's directory is for one user alone, by the part of the name before its first dot."""

EACH = frozenset({"hooked", "aside"})
"""Directories in which every user has private files; the directory itself is everybody's."""

_settings: dict[str, int] = {}
"""The setting of each repository that this process opened, by its common git directory."""


class NotShared(PermissionError):
    """Other members could not read what was made or is to be used, and nothing that we may do
    changes that.
    """


def learn(common_dir: str | Path, setting: str | None) -> None:
    """Remember what `core.sharedRepository` says of a repository (None: it is not set)."""
    _settings[os.fspath(common_dir)] = parse(setting)


def parse(setting: str | None) -> int:
    """The permissions that a setting grants: to be added to the umask's, or instead of them where
    negative.
    """
    if setting is None:
        return 0
    if setting in NAMED:
        return NAMED[setting]
    try:
        bits = int(setting, 8)
    except ValueError:
        return GROUP if setting.lower() in ("true", "yes", "on") else 0
    if bits in NUMBERED:
        return NUMBERED[bits]
    return -(bits & 0o666) if bits & 0o600 == 0o600 else 0


def of(path: str | Path) -> int:
    """The setting of the repository that `path` lies in, 0 where it is not shared."""
    place = os.fspath(path)
    while any(_settings.values()):
        if place in _settings:
            return _settings[place]
        above = os.path.dirname(place)
        if above == place:
            break
        place = above
    return 0


def wanted(mode: int, setting: int) -> int:
    """The permissions for something that has `mode` now (of `os.stat`), in a repository with this
    setting.
    """
    bits = stat.S_IMODE(mode)
    if not setting:
        return bits
    granted = abs(setting)
    if not bits & stat.S_IWUSR:
        granted &= ~0o222
    if bits & stat.S_IXUSR:
        granted |= (granted & 0o444) >> 2
    bits = (bits & ~0o777 | granted) if setting < 0 else bits | granted
    if stat.S_ISDIR(mode):
        bits |= (bits & 0o444) >> 2
        if bits & 0o060:
            bits |= stat.S_ISGID
    return bits


def make_directory(path: str) -> None:
    """Make one of gitcp's directories, or find it, where nobody has asked git for its settings: if
    the one above is shared as git shares directories, this one is, too. Raises OSError.
    """
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    above = os.stat(os.path.dirname(path)).st_mode
    if above & stat.S_ISGID and above & stat.S_IWGRP:
        os.chmod(path, stat.S_ISGID | 0o770)


def object_mode(mode: int, path: str | Path) -> int:
    """The permissions of an object or a pack that will be at `path`; `mode` is what the umask left
    it when made.

    Where nothing is shared everybody may read it, whatever the umask: who gets that far may share
    the repository.
    """
    setting = of(path)
    return wanted(stat.S_IFREG | mode & 0o444, setting) if setting else 0o444


def adjust(path: str | Path) -> None:
    """Give a file or directory that was just made the permissions that other members need.

    Something that was there before is repaired, if it is ours. Raises NotShared where others could
    not read it all the same, since it is another user's or the file system knows no permissions;
    and OSError.
    """
    setting = of(path)
    if setting:
        _adjust(os.fspath(path), setting)
        if _is_hidden(os.lstat(path), setting):
            raise NotShared(
                errno.EPERM,
                "the other members of this shared repository could not read it",
                str(path),
            )


def share(descriptor: int, path: str | Path) -> None:
    """Give a file that is being written, and will be at `path`, these permissions. Raises
    NotShared, OSError.
    """
    setting = of(path)
    if setting:
        bits = wanted(os.fstat(descriptor).st_mode, setting)
        with suppress(OSError):
            os.fchmod(descriptor, bits)
        if _is_hidden(os.fstat(descriptor), setting):
            raise NotShared(
                errno.EPERM,
                "the other members of this shared repository could not read it",
                str(path),
            )


def repair(directory: str | Path) -> None:
    """Give everything below a directory of gitcp's, as far as it is ours, the permissions that
    others need.
    """
    setting = of(directory)
    for path in unshared(directory) if setting else ():
        _adjust(path, setting)


def unshared(directory: str | Path) -> Iterator[str]:
    """What other members of a shared repository cannot use, at and below a directory; its own path
    first.

    A caller that repairs each path it is given is also shown what only then can be read.
    """
    setting = of(directory)
    if not setting:
        return
    try:
        status = os.lstat(directory)
    except OSError:
        return
    if stat.S_IMODE(status.st_mode) != wanted(status.st_mode, setting) and not stat.S_ISLNK(
        status.st_mode
    ):
        yield os.fspath(directory)
    if not stat.S_ISDIR(status.st_mode):
        return
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return
    inside = os.path.basename(directory)
    for name in names:
        if name.endswith(".lock"):
            continue  # its mode says whose it is (gitcp.git.refs.OURS)
        if inside not in EACH and not (inside == "gitcp" and name.partition(".")[0] in PRIVATE):
            yield from unshared(os.path.join(directory, name))


def fix(directory: str | Path) -> str:
    """The command by which whoever may lets others into a directory; empty where the repository is
    not shared.
    """
    setting = of(directory)
    others = ",o+rX" if abs(setting) & 0o004 else ""
    group = "ug+rwX" if abs(setting) & 0o020 else "u+rwX,g+rX"
    return f"sudo chmod -R {group}{others} {quoted(os.fspath(directory))}" if setting else ""


def quoted(path: str) -> str:
    """A path as a shell reads it."""
    import shlex  # only where something went wrong

    return shlex.quote(path)


def _adjust(path: str, setting: int) -> None:
    status = os.lstat(path)
    bits = wanted(status.st_mode, setting)
    if stat.S_ISLNK(status.st_mode) or bits == stat.S_IMODE(status.st_mode):
        return
    try:
        os.chmod(path, bits)
    except OSError:
        # another user's, or a file system without permissions: what counts is what it has now
        return


def _is_hidden(status: os.stat_result, setting: int) -> bool:
    """Whether somebody who may write here, and so delete what no ref names, could not read it."""
    writers = wanted(stat.S_IFREG | 0o600, setting) & 0o022
    return bool(writers << 1 & ~status.st_mode)
