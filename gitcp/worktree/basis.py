"""What decides over a snapshot besides the files themselves: settings, limits, and the rules kept
outside the tree.

Read anew at every scan, by content: these files are few and small, and a stat could not tell a
change made in the same tick. What is remembered of a scan holds only as long as its basis is the
same.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, NamedTuple

from gitcp.git import damage

if TYPE_CHECKING:
    from pathlib import Path

    from gitcp.git.repo import Repository

SYSTEM_ATTRIBUTES = "/etc/gitattributes"

_DECIDING = ("core.filemode", "core.ignorecase")
_CONVERTING = ("core.autocrlf", "core.eol")


class Basis(NamedTuple):
    """`excludes_file` and `info_exclude` are contents (None: no such file), `words` the attributes
    named outside the tree. `place` says which tree this is, `decisions` what is captured,
    `contents` what a file's blob is.
    """

    excludes_file: bytes | None
    info_exclude: bytes | None
    ignore_case: bool
    file_mode: bool
    umask: int
    words: frozenset[str]
    place: tuple[bytes, int, int]
    decisions: tuple[str, ...]
    contents: tuple[str, ...]


def basis_of(repo: Repository, settings: tuple[object, ...]) -> Basis:
    """The basis of a scan of `repo`; `settings` are what the caller adds to the decisions."""
    excludes_file, info_exclude = excludes(repo)
    attributes = [_content(path) for path in _attribute_files(repo)]
    config = repo.config
    mask = os.umask(0o077)
    os.umask(mask)
    root = os.stat(repo.root)
    found = damage.content(repo.common_dir)
    # what is remembered may name objects that are not there
    damaged = [_digest(found)] if found else []
    filters = sorted(f"{key}={value}" for key, value in config.items() if key.startswith("filter."))
    return Basis(
        excludes_file=excludes_file,
        info_exclude=info_exclude,
        ignore_case=repo.is_set("core.ignorecase", default=False),
        file_mode=repo.is_set("core.filemode", default=True),
        umask=mask,
        words=_words(attributes),
        place=(os.fsencode(repo.root), root.st_dev, root.st_ino),
        decisions=(
            repr((settings, mask, [config.get(key) for key in _DECIDING])),
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
    # most people have no attributes outside a repository
    from gitcp.worktree.attributes import words_in

    return frozenset(word for content in contents if content for word in words_in(content))


def excludes(repo: Repository) -> tuple[bytes | None, bytes | None]:
    """The contents of core.excludesFile and of info/exclude, None where there is no such file."""
    return _content(_setting(repo, "core.excludesfile", "ignore")), _content(
        repo.common_dir / "info" / "exclude"
    )


def files(repo: Repository) -> list[str]:
    """The files outside the working tree whose contents are part of the basis, whether or not they
    are there.
    """
    places = [_setting(repo, "core.excludesfile", "ignore"), *_attribute_files(repo)]
    return [str(place) for place in places if place is not None]


def _attribute_files(repo: Repository) -> list[Path | str | None]:
    """The files of attributes outside the working tree."""
    system = None if repo.host.env.get("GIT_ATTR_NOSYSTEM") else SYSTEM_ATTRIBUTES
    user = _setting(repo, "core.attributesfile", "attributes")
    return [system, user, repo.common_dir / "info" / "attributes"]


def _setting(repo: Repository, key: str, name: str) -> str | None:
    """The file that a setting names, or the one git takes without it: `name` in the user's git
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
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def _digest(content: bytes | None) -> str:
    return "" if content is None else hashlib.sha1(content, usedforsecurity=False).hexdigest()
