"""How this copy of gitcp was installed, and the command line that installs an extra or a newer one.

A name that works for one copy fails or installs something else for another one: the tool (pip, uv,
`uv tool`, pipx) is recorded in the environment, the source (an index, a directory, a repository) in
PEP 610's `direct_url.json`.
"""

from __future__ import annotations

import json  # noqa: TID251 -- a file of Python's, and every module may print a hint
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

NAME = "gitcp-checkpoints"
UV_TOOL, PIPX = "uv-receipt.toml", "pipx_metadata.json"
"""The file in an environment that says which tool made it."""
EXTRAS = {
    UV_TOOL: re.compile(rf'name = "{NAME}", extras = \[([^]]*)\]'),
    PIPX: re.compile(r'"package_or_url": "[^"[]*\[([^]]*)\]'),
}
"""Where these files list the extras that were installed with the tool."""
PINNED = re.compile(r"v?[0-9][\w.-]*|[0-9a-f]{7,64}")
"""A revision that no newer commit ever has: a version or a commit."""


def install_extra(extra: str) -> str:
    """Return the command line that adds an extra to this copy."""
    return _here().install_extra(extra)


@cache
def upgrade() -> str:
    """Return the command line that replaces this copy by a newer one."""
    return _here().upgrade()


def _here() -> Copy:
    return Copy(Path(__file__).parent, Path(sys.prefix), sys.executable or "python3", sys.path)


class Copy(NamedTuple):
    """An installed gitcp: its package directory, the root and the interpreter of its Python
    environment, and where Python looks for modules.
    """

    package: Path
    prefix: Path
    python: str
    search: Sequence[str]

    def install_extra(self, extra: str) -> str:
        """Return the command line that adds an extra."""
        source, *options = self._wanted()
        extras = {*self._extras(), extra}
        return shlex.join([*self._installer(), *options, _requirement(source, extras)])

    def upgrade(self) -> str:
        """Return the command line that installs a newer gitcp from the same source. FILE and URL
        stand for a newer archive.
        """
        source, *options = self._wanted(newer=True)
        spec = _requirement(source, self._extras())
        command = shlex.join([*self._installer(upgrade=True), *options, spec])
        if not (Path(source) / ".git").exists():
            return command
        pull = shlex.join(["git", "-C", source, "pull"])
        return pull if options else f"{pull} && {command}"

    def _installer(self, *, upgrade: bool = False) -> list[str]:
        """Return the command that installed this copy, up to its options."""
        if (self.prefix / UV_TOOL).is_file():
            return ["uv", "tool", "install", *(["--reinstall"] if upgrade else [])]
        if (self.prefix / PIPX).is_file():
            return ["pipx", "install", "--force"]
        more = ["--upgrade"] if upgrade else []
        known = self._metadata()
        if known is not None and (known.read_text("INSTALLER") or "").strip() == "uv":
            return ["uv", "pip", "install", "--python", self.python, *more]
        return [self.python, "-m", "pip", "install", *more]

    def _wanted(self, *, newer: bool = False) -> tuple[str, ...]:
        """Return what to install, and options for it: the name in the index, a URL, or an absolute
        path. With `newer`, nothing that stays as it is.
        """
        known = self._metadata()
        if known is None:  # run from its directory
            is_project = (self.package.parent / "pyproject.toml").is_file()
            return (str(self.package.parent), "--editable") if is_project else (NAME,)
        origin = _origin(known)
        url = origin.get("url", "")
        if vcs := origin.get("vcs_info"):
            revision = vcs.get("requested_revision")
            is_kept = revision and not (newer and PINNED.fullmatch(revision))
            return (f"{vcs['vcs']}+{url}{f'@{revision}' if is_kept else ''}",)
        if url.startswith("file:"):
            is_archive = newer and "archive_info" in origin
            source = "FILE" if is_archive else _path(url)
            return (source, "--editable") if _is_editable(origin) else (source,)
        return ((url and newer and "URL") or url or NAME,)

    def _metadata(self) -> metadata.Distribution | None:
        """Return the metadata of this copy; None if it has none, as in a checkout that was not
        installed.
        """
        where = [str(self.package.parent), *self.search]
        for known in metadata.distributions(name=NAME, path=where):
            origin = _origin(known)
            root = _path(origin["url"]) if _is_editable(origin) else str(known.locate_file(""))
            if Path(root).resolve() == self.package.parent.resolve():
                return known
        return None

    def _extras(self) -> set[str]:
        """Return the extras that the tool would remove unless it is given them again."""
        for name, pattern in EXTRAS.items():
            file = self.prefix / name
            listed = pattern.search(file.read_text("utf-8")) if file.is_file() else None
            if listed:
                return set(re.findall(r"[\w-]+", listed[1]))
        return set()


def _origin(known: metadata.Distribution) -> dict[str, Any]:
    """Return PEP 610's record of where a distribution came from; {} if it came from an index."""
    text = known.read_text("direct_url.json")
    origin: dict[str, Any] = json.loads(text) if text else {}
    return origin


def _is_editable(origin: dict[str, Any]) -> bool:
    return bool(origin.get("dir_info", {}).get("editable"))


def _requirement(source: str, extras: Iterable[str]) -> str:
    """Return a source with extras, as pip, uv and pipx read it."""
    listed = ",".join(sorted(extras))
    added = f"[{listed}]" if listed else ""
    return f"{NAME}{added} @ {source}" if "://" in source else source + added


def _path(url: str) -> str:
    return url2pathname(urlsplit(url).path)
