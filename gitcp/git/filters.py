"""Ask git which filter its attributes name for a path, and let git run that filter.

To ask runs nothing. `clean` and `smudged` run a program of the user's, as `git add` does: they are
for `publish` alone, which the user typed, and for no save, restore or push.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gitcp import regular
from gitcp.errors import GitFailed, Refused
from gitcp.git import config, index, process
from gitcp.git.index import Noted
from gitcp.git.repo import Repository
from gitcp.model import Oid, path_text

NONE = frozenset({b"", b"unspecified", b"set", b"unset"})
"""Values of the attribute that name no filter."""

PROGRAMS = ("clean", "smudge", "process")
"""The settings of a filter that name programs."""

CONVERTING = ("text", "crlf", "eol", "ident", "working-tree-encoding")
"""The attributes by which git itself converts a file."""

NEVER = ("false", "no", "off", "0", "")
"""Values of core.autocrlf by which it converts nothing."""

ATTRIBUTES = b".gitattributes"

GLOBBING = re.compile(rb"[*?\[\\]")
QUOTED = re.compile(rb'[\x00-\x1f"\\]')


def named(
    repo: Repository, files: Mapping[bytes, Oid] | None, paths: Iterable[bytes]
) -> dict[bytes, str]:
    """Return the filters that attributes name for paths, without the paths that have none.

    By these attribute files, given by path, or by the working tree's (None), and always by
    `info/attributes` and `core.attributesFile`. Raises GitFailed.
    """
    request = b"\0".join(paths) + b"\0"
    if files is None:
        return _parsed(repo.git("check-attr", "-z", "--stdin", "filter", input=request))
    with _index_of(repo, files) as other:
        return _parsed(
            other.git("check-attr", "--cached", "-z", "--stdin", "filter", input=request)
        )


def _parsed(output: bytes) -> dict[bytes, str]:
    fields = output.split(b"\0")
    values = zip(fields[0:-1:3], fields[2::3], strict=True)
    return {path: path_text(value) for path, value in values if value not in NONE}


@contextmanager
def _index_of(repo: Repository, files: Mapping[bytes, Oid]) -> Iterator[Repository]:
    """Yield the repository with an index that has these files only: git reads attributes from there
    whatever the working tree has. An older git cannot read them from a tree.
    """
    import copy

    with tempfile.TemporaryDirectory(prefix="attributes-", dir=repo.state_dir) as directory:
        other = copy.copy(repo)
        other.index = Path(directory, "index")
        lines = b"".join(b"100644 %s\t%s\0" % (o.encode(), path) for path, o in files.items())
        # a split index would write into the git directory
        split = ("-c", "core.splitIndex=false")
        other.git(*split, "update-index", "-z", "--index-info", input=lines)
        yield other


def require_users_own(repo: Repository, drivers: Iterable[str]) -> None:
    """Raise Refused if a filter's programs are named by the repository's own configuration alone,
    which an archive can bring, unless the user's git has run the filter here before.
    """
    for driver in drivers:
        names = [f"filter.{driver}.{key}" for key in PROGRAMS]
        values = {name: repo.config.get(config.canonical(name)) for name in names}
        own = {name: value for name, value in values.items() if value != repo.personal(name)}
        if own and not _has_run(repo, driver):
            commands = [
                shlex.join(("git", "config", "--global", name, value or ""))
                for name, value in own.items()
            ]
            raise Refused(
                f"the filter {driver} is set in this repository's own configuration, which may be "
                "a stranger's, and no file here shows that git has used it: it was not run, and no "
                "branch was created",
                hint=f"if it is yours: {' && '.join(commands)}",
            )


def _has_run(repo: Repository, driver: str) -> bool:
    """Return whether the index shows that git has run a filter in this place: git wrote it here,
    and the blob of a file that nothing else converts is not the file as it was.
    """
    noted = index.noted(repo)
    if not any(each.is_current for each in noted.values()):
        return False  # it came with the files
    if repo.config.get("core.autocrlf", "false") not in NEVER:
        return False
    request = b"\0".join(noted) + b"\0"
    output = repo.git("check-attr", "-z", "--stdin", "filter", *CONVERTING, input=request)
    attributes: dict[bytes, set[bytes]] = {}
    fields = output.split(b"\0")
    for path, name, value in zip(fields[0:-1:3], fields[1::3], fields[2::3], strict=True):
        if value not in NONE:
            attributes.setdefault(path, set()).add(name + b"=" + value)
    alone = {b"filter=" + os.fsencode(driver)}
    filtered = [path for path, set_here in attributes.items() if set_here == alone]
    blobs = "\n".join(noted[path].blob for path in filtered).encode("ascii")
    sizes = repo.git("cat-file", "--batch-check=%(objectsize)", input=blobs).split(b"\n")
    return any(
        size.isdigit() and (int(size) != noted[path].size or _differs(repo, path, noted[path]))
        for path, size in zip(filtered, sizes, strict=False)
    )


def _differs(repo: Repository, path: bytes, noted: Noted) -> bool:
    """Return whether a file, unchanged since git looked at it, has other bytes than its blob."""
    if not noted.is_current:
        return False
    try:
        data = regular.content(os.path.join(os.fsencode(repo.root), path))
    except OSError:
        return False
    return repo.object_format.oid_of("blob", data) != noted.blob


def clean(repo: Repository, path: bytes, data: bytes, driver: str) -> Oid:
    """Return the blob that git stores for a file with these bytes whose attributes name the filter
    `driver`. Runs the filter and writes the blob. Raises GitFailed if there is no such filter, or
    it fails, also if it is not `required`: without it, the bytes would leave as they are.
    """
    with _forced(repo, path, driver) as settings:
        arguments = ("hash-object", "-w", "--stdin", b"--path=" + path)
        return Oid(_run(repo, settings, *arguments, input=data).decode("ascii").strip())


def smudged(repo: Repository, path: bytes, oid: Oid, driver: str) -> bytes:
    """Return the bytes that git's checkout makes of a blob by the filter `driver`. Runs the filter.
    Raises GitFailed.
    """
    with _forced(repo, path, driver) as settings:
        return _run(repo, settings, "cat-file", "--filters", b"--path=" + path, oid)


def _run(
    repo: Repository, settings: Mapping[str, str], *args: str | bytes, input: bytes = b""
) -> bytes:
    env = repo.host.env
    return process.run(
        (*repo.git_options, *args),
        cwd=str(repo.root),
        env=process.configured(env, settings),
        input=input,
        extra={"LC_ALL": env.get("LC_ALL", "")},  # some filters sort, or match letters
    )


@contextmanager
def _forced(repo: Repository, path: bytes, driver: str) -> Iterator[dict[str, str]]:
    """Yield the settings with which git uses this filter for the path, whatever the attributes in
    the working tree are by now. Raises GitFailed if they name another one.
    """
    settings = {f"filter.{driver}.required": "true", "core.fsync": "loose-object"}
    here = named(repo, None, [path]).get(path)
    if here == driver:
        yield settings
        return
    with tempfile.TemporaryDirectory(prefix="attributes-", dir=repo.state_dir) as directory:
        file = Path(directory, "attributes")
        line = b'"%s" filter=%s\n' % (_pattern(path), os.fsencode(driver))
        file.write_bytes(_own_attributes(repo) + b"\n" + line)
        settings["core.attributesFile"] = str(file)
        request = path + b"\0"
        asked = _run(repo, settings, "check-attr", "-z", "--stdin", "filter", input=request)
        if _parsed(asked).get(path) != driver:
            raise GitFailed(f"the attributes in the working tree name {here or 'no filter'}")
        yield settings


def _own_attributes(repo: Repository) -> bytes:
    """Return the content of the user's own attributes file, which the setting would replace."""
    env, configured = repo.host.env, repo.config.get("core.attributesfile")
    default = Path(env.get("XDG_CONFIG_HOME") or repo.host.home / ".config", "git", "attributes")
    path = Path(configured).expanduser() if configured else default
    try:
        return Path(repo.root, path).read_bytes()
    except OSError:
        return b""


def _pattern(path: bytes) -> bytes:
    """Return the pattern of exactly this path, quoted for an attributes file."""
    pattern = b"/" + GLOBBING.sub(rb"\\\g<0>", path)
    return QUOTED.sub(lambda match: b"\\%03o" % match[0][0], pattern)
