"""Git's settings as git itself resolves them, cached until a file they come from changes.

`git config` implements every rule (includes, conditions, precedence), but starting it costs as much
as checking a thousand files. So its output is cached in `<git dir>/gitcp/config`, with fingerprints
of all files involved. Unexpected content means asking git again.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from gitcp import clock, fingerprint, regular, trusted_cache
from gitcp.errors import Refused
from gitcp.fingerprint import CTIME, Fingerprint
from gitcp.git import shared
from gitcp.git.fsync import make_own_directory, replace_cache

NAME = "config"
SHARED = "core.sharedrepository"
SYSTEM = "/etc/gitconfig"
SETTLED_NS = 2_000_000_000
"""A file younger than this many nanoseconds may change without a new timestamp; then nothing is
cached.
"""

NO_FILE = "ref: refs/heads/.invalid"
"""What the file HEAD says where refs are not in files."""

SECTION = re.compile(r"\s*\[([^]]*)\]")
COMMENT = re.compile("[#;]")

WANTED = ("author.", "core.", "extensions.", "filter.", "gitcp.", "i18n.", "user.")
"""The settings that gitcp uses. Others may contain secrets (http.extraHeader) and are not
stored.
"""

PERSONAL = ("system", "global", "command")
"""The scopes of settings that no repository brings."""

OWN_SETTING = "core.fsmonitor\nfalse"
"""What gitcp adds to each command of git's (gitcp.git.process.SAFE), as `git config` lists it."""

Files = list[tuple[str, Fingerprint | None]]


class ConfigScope(NamedTuple):
    """What determines the settings: a repository's directories, the environment, and a function
    that runs git there.
    """

    root: Path
    git_dir: Path
    common_dir: Path
    env: Mapping[str, str]
    ask: Callable[..., bytes]


def load(repo: ConfigScope) -> dict[str, str]:
    """Return the settings that gitcp uses: section and key in lower case, the last value wins.
    Raises GitFailed.
    """
    key = _environment_key(repo)
    cached = _remembered(repo.git_dir / "gitcp" / NAME)
    if cached is not None and cached[0] == key and fingerprint.are_unchanged(cached[1]):
        shared.learn(repo.common_dir, cached[2].get(SHARED))
        return cached[2]
    settings, read, included = _asked(repo)
    if os.path.realpath(repo.common_dir / "config") not in read:
        # git config ignores a repository it cannot use; rev-parse reports why
        repo.ask("rev-parse", "--git-dir")
    shared.learn(repo.common_dir, settings.get(SHARED))
    # also those that git would read if they existed
    files = fingerprint.each(sorted(_places(repo) | read | included))
    _remember(repo, key, files, settings)
    return settings


def asked(repo: ConfigScope) -> dict[str, str]:
    """Return the settings as git reads them now, and remember nothing. Raises GitFailed."""
    return _asked(repo)[0]


def last_known(git_dir: Path) -> dict[str, str] | None:
    """Return the settings as they were read last, from files that may have changed since; None if
    nothing is cached.
    """
    cached = _remembered(git_dir / "gitcp" / NAME)
    return cached[2] if cached else None


def _asked(repo: ConfigScope) -> tuple[dict[str, str], set[str], set[str]]:
    """Return the settings, the files that git read, and those that they include."""
    for file in sorted(_places(repo)):  # git would wait for a named pipe without end
        refuse_pipe(file)
    output = repo.ask("config", "--list", "-z", "--includes", "--show-origin").decode(
        "utf-8", "surrogateescape"
    )
    fields = output.split("\0")
    origins, items = fields[0:-1:2], fields[1::2]
    settings = dict(
        _setting(item) for item in items if item.lower().startswith(WANTED) and item != OWN_SETTING
    )
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
    return settings, read, included


def extensions(common_dir: Path) -> dict[str, str]:
    """Return the `extensions` of a repository, in lower case: what git must know to use it. Read
    from its own file, which alone counts for git; an older git only says that one is unknown.
    """
    try:
        text = regular.content(common_dir / "config").decode("utf-8", "surrogateescape")
    except OSError:
        text = ""
    if not any(word in text.lower() for word in ("repositoryformatversion", "extensions")):
        return _inferred(common_dir)
    values, section = {}, ""
    for line in text.splitlines() if "extensions" in text.lower() else ():
        match = SECTION.match(line)
        section = match[1].strip().lower() if match else section
        key, equals, value = line[match.end() if match else 0 :].partition("=")
        if section == "extensions" and equals:
            values[key.strip().lower()] = COMMENT.split(value)[0].strip(' \t"').lower()
    return values


def _inferred(common_dir: Path) -> dict[str, str]:
    """Return the extensions of a repository whose own configuration is lost, by its files."""
    inferred = {}
    if os.path.exists(common_dir / "reftable" / "tables.list"):
        inferred["refstorage"] = "reftable"
    packs = common_dir.glob("objects/pack/pack-*.idx")
    loose = common_dir.glob("objects/[0-9a-f][0-9a-f]/*")
    names = (*islice(packs, 1), *islice(loose, 1))
    if any(len(path.stem.removeprefix("pack-")) in (62, 64) for path in names):
        inferred["objectformat"] = "sha256"
    return inferred


def canonical(name: str) -> str:
    """Return the name of a setting as `load` has it: all but a subsection in lower case."""
    section, _, rest = name.partition(".")
    sub, dot, key = rest.rpartition(".")
    return f"{section.lower()}.{sub}{dot}{key.lower()}"


def personal(ask: Callable[..., bytes], name: str) -> str | None:
    """Return a setting as the user's or the system's files or the environment give it, None if they
    do not. What a repository's own files say does not count: a stranger may have written them. Asks
    git, since the answer decides what is run.
    """
    values = personal_values(ask, name)
    return values[-1] if values else None


def personal_values(ask: Callable[..., bytes], name: str) -> tuple[str, ...]:
    """Return all values that `personal` chooses from."""
    listing = ask("config", "-z", "--show-scope", "--includes", "--get-all", name, accept=(0, 1))
    fields = listing.decode("utf-8", "surrogateescape").split("\0")
    return tuple(
        value
        for scope, value in zip(fields[0:-1:2], fields[1::2], strict=True)
        if scope in PERSONAL
    )


def files(git_dir: Path) -> list[str]:
    """Return the cached files that the settings depend on, existing or not."""
    cached = _remembered(git_dir / "gitcp" / NAME)
    return [path for path, _ in cached[1]] if cached else []


def fingerprints(git_dir: Path) -> Files:
    """Return those files with their fingerprints when the settings were read; none if nothing is
    cached.
    """
    cached = _remembered(git_dir / "gitcp" / NAME)
    return cached[1] if cached else []


def _setting(item: str) -> tuple[str, str]:
    key, newline, value = item.partition("\n")
    return key, value if newline else "true"


def _included(repo: ConfigScope, source: str, item: str) -> str | None:
    """Return the file that an include setting names, even if it is missing or conditional."""
    key, value = _setting(item)
    # A file that git includes, created later, had no effect: what it ignored was saved.
    if not (key.startswith(("include.", "includeif.")) and key.endswith(".path")):
        return None
    if value.startswith("~/"):
        value = os.path.join(repo.env.get("HOME", ""), value[2:])
    return os.path.realpath(os.path.join(os.path.dirname(source), value))


def _environment_key(repo: ConfigScope) -> list[str]:
    """Return what the settings depend on besides files: the location, the environment, and the
    branch (for conditional includes).
    """
    keys = [key for key in repo.env if key.startswith("GIT_CONFIG") or key in _PLACES]
    env = [f"{key}={repo.env[key]}" for key in sorted(keys)]  # to read all of it takes longer
    try:
        head = regular.content(repo.git_dir / "HEAD").decode("utf-8", "surrogateescape")
    except OSError:
        head = ""
    if head.strip() == NO_FILE:
        head += str(fingerprint.at(f"{repo.git_dir}/reftable/tables.list"))
    digest = hashlib.sha1("\0".join(env).encode("utf-8", "surrogateescape"), usedforsecurity=False)
    return [str(repo.git_dir), head, digest.hexdigest()]


_PLACES = ("HOME", "XDG_CONFIG_HOME")


def refuse_pipe(path: str) -> None:
    """Raise Refused if a file that git reads is a named pipe."""
    if regular.is_pipe(path):
        raise Refused(
            f"{path} is a named pipe: git would wait for it without end. Nothing was changed",
            hint=f"ls -l {shared.quoted(path)}",
        )


def _places(repo: ConfigScope) -> set[str]:
    """Return the files in which git looks for settings."""
    env = repo.env
    home = env.get("HOME", "")
    return {
        env.get("GIT_CONFIG_SYSTEM", SYSTEM),
        env.get("GIT_CONFIG_GLOBAL", os.path.join(home, ".gitconfig")),
        os.path.join(env.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "git", "config"),
        str(repo.common_dir / "config"),
        str(repo.git_dir / "config.worktree"),
    }


def _remembered(path: Path) -> tuple[list[str], Files, dict[str, str]] | None:
    cached: tuple[list[str], Files, dict[str, str]] | None = trusted_cache.load(str(path))
    return cached


def _remember(repo: ConfigScope, key: list[str], files: Files, settings: dict[str, str]) -> None:
    newest_allowed = clock.nanoseconds() - SETTLED_NS
    if any(seen is not None and seen[CTIME] > newest_allowed for _, seen in files):
        return
    directory = repo.git_dir / "gitcp"
    if directory.is_symlink():
        return
    try:
        make_own_directory(directory)
        replace_cache(directory / NAME, (key, files, settings))
    except (OSError, ValueError):
        return
