"""The inputs of a snapshot besides the files: settings, limits, and rules kept outside the working
tree.

Read by content at every scan: these files are few and small, and their timestamps cannot show a
change within one clock tick. A remembered scan is valid only while its basis is unchanged.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, NamedTuple

from gitcp import regular
from gitcp.git import damage

if TYPE_CHECKING:
    from pathlib import Path

    from gitcp.git.repo import Repository

SYSTEM_ATTRIBUTES = "/etc/gitattributes"

_DECIDING = ("core.filemode", "core.ignorecase", "core.symlinks")
_RULES = "sidecars of databases"  # what older versions decided otherwise, to be scanned again
_CONVERTING = ("core.autocrlf", "core.eol")


class ScanInputs(NamedTuple):
    """`excludes_file` and `info_exclude` are file contents (None if missing), `words` the
    attributes named outside the working tree. `place` identifies the working tree, `decisions`
    determine which files are captured, `contents` determine the blob of a file.
    """

    excludes_file: bytes | None
    info_exclude: bytes | None
    ignore_case: bool
    file_mode: bool
    symlinks: bool
    umask: int
    words: frozenset[str]
    place: tuple[bytes, int, int]
    decisions: tuple[str, ...]
    contents: tuple[str, ...]


def basis_of(repo: Repository, settings: tuple[object, ...]) -> ScanInputs:
    """Return the basis of a scan of `repo`. `settings` are the caller's additions to
    `decisions`.
    """
    excludes_file, info_exclude = excludes(repo)
    attributes = [_content(path) for path in _attribute_files(repo)]
    config = repo.config
    mask = os.umask(0o077)
    os.umask(mask)
    root = os.stat(repo.root)
    damage_record = damage.content(repo.common_dir)
    # a remembered scan may name damaged objects
    damaged = [_digest(damage_record)] if damage_record else []
    filters = sorted(f"{key}={value}" for key, value in config.items() if key.startswith("filter."))
    return ScanInputs(
        excludes_file=excludes_file,
        info_exclude=info_exclude,
        ignore_case=repo.is_set("core.ignorecase", default=False),
        file_mode=repo.is_set("core.filemode", default=True),
        symlinks=repo.is_set("core.symlinks", default=True),
        umask=mask,
        words=_words(attributes),
        place=(os.fsencode(repo.root), root.st_dev, root.st_ino),
        decisions=(
            repr((settings, mask, [config.get(key) for key in _DECIDING], _RULES)),
            *(_digest(content) for content in (excludes_file, info_exclude)),
        ),
        contents=(
            repr([config.get(key) for key in _CONVERTING]),
            *filters,
            *map(_digest, attributes),
            *damaged,
        ),
    )


def _words(contents: list[bytes | None]) -> frozenset[str]:
    if not any(contents):
        return frozenset()
    # rarely needed: few users have attributes outside a repository
    from gitcp.worktree.attributes import conversion_words

    return frozenset(word for content in contents if content for word in conversion_words(content))


def excludes(repo: Repository) -> tuple[bytes | None, bytes | None]:
    """Return the contents of core.excludesFile and of info/exclude, None for a missing file."""
    return _content(_setting(repo, "core.excludesfile", "ignore")), _content(
        repo.common_dir / "info" / "exclude"
    )


def files(repo: Repository) -> list[str]:
    """Return the paths outside the working tree whose contents belong to the basis, existing or
    not.
    """
    paths = [_setting(repo, "core.excludesfile", "ignore"), *_attribute_files(repo)]
    return [str(path) for path in paths if path is not None]


def _attribute_files(repo: Repository) -> list[Path | str | None]:
    """Return the attribute files outside the working tree."""
    system = None if repo.host.env.get("GIT_ATTR_NOSYSTEM") else SYSTEM_ATTRIBUTES
    user = _setting(repo, "core.attributesfile", "attributes")
    return [system, user, repo.common_dir / "info" / "attributes"]


def _setting(repo: Repository, key: str, name: str) -> str | None:
    """Return the file that a setting names, else git's default: `name` in the user's git
    directory.
    """
    value = repo.config.get(key)
    home = repo.host.env.get("HOME") or str(repo.host.home)
    if value is None:
        base = repo.host.env.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
        return os.path.join(base, "git", name)
    if value.startswith("~/"):
        return os.path.join(home, value[2:])
    return os.path.join(str(repo.root), value) if value else None


def _content(path: Path | str | None) -> bytes | None:
    if path is None:
        return None
    try:
        with regular.opened(path) as file:
            return file.read(regular.MOST)
    except OSError:
        return None


def _digest(content: bytes | None) -> str:
    return "" if content is None else hashlib.sha1(content, usedforsecurity=False).hexdigest()
