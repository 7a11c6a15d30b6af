"""Permissions in a repository shared by several users (`core.sharedRepository`), following git.

A ref, object or lock that only its creator can read is worse than none: another member's `git gc`
does not see the ref and deletes its objects. `learn` stores a repository's setting when it is
opened; afterwards every writer passes what it created to `adjust`, whatever the umask. In an
unshared repository nothing is changed.

What root makes belongs to the owner of the directory that it is in, shared or not: an agent that
runs as root in a container would otherwise lock the owner of the repository out.

Caches stay private: they are marshaled, and nobody may write what another user reads
(gitcp.trusted_cache).
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from gitcp import state_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GROUP, EVERYBODY = 0o660, 0o664
NAMED = {"umask": 0, "group": GROUP, "all": EVERYBODY, "world": EVERYBODY, "everybody": EVERYBODY}
NUMBERED = {0: 0, 1: GROUP, 2: EVERYBODY}
"""The values that old versions of git wrote, and `git init --shared` still writes."""

PRIVATE = frozenset(state_files.named(is_private=True))
EACH = frozenset(state_files.named(has_private=True))

_settings: dict[str, int] = {}
"""The setting of each repository that this process opened, by its common git directory. Learned
anew whenever one is opened, and forgotten by nobody: who writes an object or a ref knows its path,
and must not be able to leave the setting out.
"""


class NotShared(PermissionError):
    """Other members cannot read a path, and we may not change that."""


def learn(common_dir: str | Path, setting: str | None) -> None:
    """Remember the `core.sharedRepository` setting of a repository (None: not set)."""
    _settings[os.fspath(common_dir)] = parse(setting)


def parse(setting: str | None) -> int:
    """Return the permissions that a setting grants: added to the umask's, or replacing them if
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
    """Return the setting of the repository that contains `path`, 0 if it is not shared."""
    directory = os.fspath(path)
    while any(_settings.values()):
        if directory in _settings:
            return _settings[directory]
        above = os.path.dirname(directory)
        if above == directory:
            break
        directory = above
    return 0


def wanted(mode: int, setting: int) -> int:
    """Return the permissions for something with mode `mode` (of `os.stat`), in a repository with
    this setting.
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


def give(descriptor: int, directory: str | int) -> None:
    """Give a file or directory that this process has just made to the owner of the directory that
    it is in, if this is root. `directory` is a path or a descriptor. Never raises: what cannot be
    given away stays root's.

    Takes a descriptor, since a name may be a link to something else by now.
    """
    if os.geteuid():
        return
    with suppress(OSError):
        above, made = os.stat(directory or os.curdir), os.fstat(descriptor)
        if made.st_uid == 0 and (above.st_uid, above.st_gid) != (made.st_uid, made.st_gid):
            # What root made in a container, its owner could neither save nor restore after it.
            os.fchown(descriptor, above.st_uid, above.st_gid)


def give_directory(path: str | Path) -> None:
    """Give a directory that was just made to the owner of the one above, if this is root."""
    if os.geteuid():
        return
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            give(descriptor, os.path.dirname(path))
        finally:
            os.close(descriptor)


def make_directory(path: str) -> None:
    """Create one of gitcp's directories if missing, without reading git's settings: it is shared if
    its parent is. Raises OSError.
    """
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    give_directory(path)
    if _is_for_a_group(os.path.dirname(path)):
        os.chmod(path, stat.S_ISGID | 0o770)


def share_like_directory(descriptor: int, path: str) -> None:
    """Let other members use a file that was just made at `path`, without reading git's settings: it
    is shared if its directory is. Raises OSError.
    """
    give(descriptor, os.path.dirname(path))
    if _is_for_a_group(os.path.dirname(path)):
        os.fchmod(descriptor, stat.S_IMODE(os.fstat(descriptor).st_mode) | GROUP)


def _is_for_a_group(directory: str) -> bool:
    mode = os.stat(directory).st_mode
    return bool(mode & stat.S_ISGID and mode & stat.S_IWGRP)


def object_mode(mode: int, path: str | Path) -> int:
    """Return the permissions of an object or pack at `path`; `mode` is its mode after the umask.

    In an unshared repository everybody may read it, whatever the umask: access is controlled by the
    directories above.
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
    give(descriptor, os.path.dirname(path))
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
    for name in names:
        if name.endswith(".lock"):
            continue  # its mode says whose it is (gitcp.git.refs.OURS)
        if not _is_private(os.path.join(directory, name)):
            yield from unshared(os.path.join(directory, name))


def fix(directory: str | Path) -> str:
    """The command by which whoever may lets this user into a directory: as its owner if it is in a
    directory of theirs, as a member of a shared repository; empty if there is none.
    """
    setting = of(directory)
    if not setting and _is_foreign_in_ours(os.fspath(directory)):
        return f"sudo chown -R {user()} {quoted(os.fspath(directory))}"
    others = ",o+rX" if abs(setting) & 0o004 else ""
    group = "ug+rwX" if abs(setting) & 0o020 else "u+rwX,g+rX"
    return f"sudo chmod -R {group}{others} {quoted(os.fspath(directory))}" if setting else ""


def user() -> str:
    """Return the name of the user that runs this, or the number of one without a name."""
    import pwd  # only where something went wrong

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def foreign(directory: str | Path) -> Iterator[str]:
    """Yield what belongs to others at and below a directory that is in one of this user's: what
    root left there. Such things are listed in directories that can be listed only.
    """
    ahead = [os.fspath(directory)] if os.geteuid() else []
    while ahead:
        path = ahead.pop()
        try:
            status = os.lstat(path)
            names = os.listdir(path) if stat.S_ISDIR(status.st_mode) else []
        except OSError:
            names = []
        else:
            if status.st_uid != os.geteuid() and not _is_private(path):
                yield path
        ahead += [os.path.join(path, name) for name in names]


def _is_private(path: str) -> bool:
    """Return whether a path is a cache of one user, which another one's takes the place of."""
    directory, name = os.path.split(path)
    inside = os.path.basename(directory)
    return inside in EACH or (inside == "gitcp" and state_files.of(name) in PRIVATE)


def _is_foreign_in_ours(directory: str) -> bool:
    """Return whether something in a directory, or above and in one of ours, belongs to others."""
    with suppress(OSError):
        for _ in range(4):
            if os.stat(directory).st_uid == os.geteuid():
                return next(foreign(directory), None) is not None
            above = os.path.dirname(directory)
            if os.stat(above).st_uid == os.geteuid():
                return True
            directory = above
    return False


def quoted(path: str) -> str:
    """Return a path quoted for the shell."""
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
    """Return whether a user who may write here, and so delete unreferenced objects, could not read
    it.
    """
    writers = wanted(stat.S_IFREG | 0o600, setting) & 0o022
    return bool(writers << 1 & ~status.st_mode)
