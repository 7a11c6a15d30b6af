"""git's settings as git itself resolves them, remembered until a file they come from changes.

`git config` knows every rule (includes, conditions, precedence); starting it costs as much as
looking at a thousand files. So its answer is kept in `<git dir>/gitcp/config`, with what stat said
of every file that had a part in it. It is a cache: anything unexpected in it means asking git
again.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from gitcp.fastpath import trusted_cache
from gitcp.git import shared
from gitcp.git.fsync import make_own_directory, replace_cache

NAME = "config"
SHARED = "core.sharedrepository"
SYSTEM = "/etc/gitconfig"
SETTLED_NS = 2_000_000_000
"""A file younger than this may change again without its stat telling; then nothing is remembered.
"""

WANTED = ("author.", "core.", "extensions.", "filter.", "gitcp.", "i18n.", "user.")
"""What gitcp asks for. Others may hold secrets (http.extraHeader), which are not ours to keep."""

Files = list[tuple[str, tuple[int, ...] | None]]


class Place(NamedTuple):
    """Whose settings: a repository's directories, the environment, and how git is asked there."""

    root: Path
    git_dir: Path
    common_dir: Path
    env: Mapping[str, str]
    ask: Callable[..., bytes]


def load(repo: Place) -> dict[str, str]:
    """The settings gitcp asks for: lower-case section and key, the last value wins. Raises
    GitFailed if git cannot.
    """
    decided = _decided(repo)
    known = _remembered(repo.git_dir / "gitcp" / NAME)
    if (
        known is not None
        and known[0] == decided
        and all(_stat(path) == found for path, found in known[1])
    ):
        shared.learn(repo.common_dir, known[2].get(SHARED))
        return known[2]
    listed = repo.ask("config", "--list", "-z", "--includes", "--show-origin").decode(
        "utf-8", "surrogateescape"
    )
    fields = listed.split("\0")
    origins, items = fields[0:-1:2], fields[1::2]
    settings = dict(_setting(item) for item in items if item.lower().startswith(WANTED))
    sources = [
        os.path.join(repo.root, origin[5:]) if origin.startswith("file:") else ""
        for origin in origins
    ]
    read = {os.path.realpath(source) for source in sources if source}
    included = {
        path
        for source, item in zip(sources, items, strict=True)
        if (path := _included(repo, source, item))
    }
    if os.path.realpath(repo.common_dir / "config") not in read:
        # git passes over a repository it cannot use; here it says why
        repo.ask("rev-parse", "--git-dir")
    shared.learn(repo.common_dir, settings.get(SHARED))
    _remember(repo, decided, _files(repo, read | included), settings)
    return settings


def files(git_dir: Path) -> list[str]:
    """The files that decide over the settings, whether or not they are there; as far as they are
    remembered.
    """
    known = _remembered(git_dir / "gitcp" / NAME)
    return [path for path, _ in known[1]] if known else []


def stamps(git_dir: Path) -> Files:
    """The same files with what stat said of each when the settings were read; none if nothing is
    remembered.
    """
    known = _remembered(git_dir / "gitcp" / NAME)
    return known[1] if known else []


def _setting(item: str) -> tuple[str, str]:
    key, newline, value = item.partition("\n")
    return key, value if newline else "true"


def _included(repo: Place, source: str, item: str) -> str | None:
    """The file that a setting includes, which need not be there yet, or only under a condition."""
    key, value = _setting(item)
    if not (key.startswith(("include.", "includeif.")) and key.endswith(".path")):
        return None
    if value.startswith("~/"):
        value = os.path.join(repo.env.get("HOME", ""), value[2:])
    return os.path.realpath(os.path.join(os.path.dirname(source), value))


def _decided(repo: Place) -> list[str]:
    """What besides files decides: where we are, the environment, the branch (for conditional
    includes).
    """
    env = [
        f"{k}={v}"
        for k, v in sorted(repo.env.items())
        if k.startswith("GIT_CONFIG") or k in _PLACES
    ]
    try:
        head = (repo.git_dir / "HEAD").read_text("utf-8", "surrogateescape")
    except OSError:
        head = ""
    digest = hashlib.sha1("\0".join(env).encode("utf-8", "surrogateescape"), usedforsecurity=False)
    return [str(repo.git_dir), head, digest.hexdigest()]


_PLACES = ("HOME", "XDG_CONFIG_HOME")


def _files(repo: Place, read: set[str]) -> Files:
    """The files that were read, and those that would be if they were there."""
    env = repo.env
    home = env.get("HOME", "")
    places = {
        env.get("GIT_CONFIG_SYSTEM", SYSTEM),
        env.get("GIT_CONFIG_GLOBAL", os.path.join(home, ".gitconfig")),
        os.path.join(env.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "git", "config"),
        str(repo.common_dir / "config"),
        str(repo.git_dir / "config.worktree"),
    }
    return [(path, _stat(path)) for path in sorted(places | read)]


def _stat(path: str) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _remembered(path: Path) -> tuple[list[str], Files, dict[str, str]] | None:
    found: tuple[list[str], Files, dict[str, str]] | None = trusted_cache.load(str(path))
    return found


def _remember(repo: Place, decided: list[str], files: Files, settings: dict[str, str]) -> None:
    young = time.time_ns() - SETTLED_NS
    if any(found is not None and found[-1] > young for _, found in files):
        return
    directory = repo.git_dir / "gitcp"
    if directory.is_symlink():
        return
    try:
        make_own_directory(directory)
        replace_cache(directory / NAME, (decided, files, settings))
    except (OSError, ValueError):
        return
