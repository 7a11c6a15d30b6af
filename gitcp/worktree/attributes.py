"""Git attributes that change a file's bytes, read with `git check-attr` only where needed.

Most repositories have no attribute that could change a file, and most files could not be changed by
the existing ones. A search for a few words in the attribute files and in the file's bytes shows
both without starting a process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gitcp.git.repo import Repository

UNSPECIFIED = "unspecified"
NAMES = ("text", "eol", "crlf", "ident", "filter", "working-tree-encoding")

_WORD = re.compile(
    rb"(?:^|[\s!-])(text|binary|eol|crlf|ident|filter|working-tree-encoding)(?=[\s=]|$)"
)


def conversion_words(content: bytes) -> set[str]:
    """Return the byte-changing attributes named in an attributes file. "binary" counts as "text":
    it is git's alias for -text.
    """
    return {
        "text" if word == b"binary" else word.decode("ascii") for word in _WORD.findall(content)
    }


def autocrlf_of(config: Mapping[str, str]) -> str:
    """Return core.autocrlf as "", "true" or "input"."""
    value = config.get("core.autocrlf", "").lower()
    return (
        "" if value in ("", "false", "no", "off", "0") else "input" if value == "input" else "true"
    )


class Attributes(NamedTuple):
    """The byte-changing attributes of a path, as `git check-attr` prints them."""

    text: str = UNSPECIFIED
    eol: str = UNSPECIFIED
    crlf: str = UNSPECIFIED
    ident: str = UNSPECIFIED
    filter: str = UNSPECIFIED
    encoding: str = UNSPECIFIED

    @property
    def driver(self) -> str:
        """Return the name of the filter driver, "" if there is none."""
        return "" if self.filter in (UNSPECIFIED, "set", "unset") else self.filter


class ConversionHints:
    """Decide which files might have a blob other than their own bytes. `words` grows as attribute
    files are read.
    """

    def __init__(self, repo: Repository, words: Iterable[str]) -> None:
        self._repo = repo
        self.words = set(words)
        self._autocrlf = autocrlf_of(repo.config)
        self._eol = repo.config.get("core.eol", "").lower() == "crlf"

    def may_convert_any(self) -> bool:
        """Return whether any file at all could be converted."""
        return bool(self.words or self._autocrlf)

    def may_convert(self, data: bytes) -> bool:
        """Return whether a file with these bytes could be converted, on save or on checkout."""
        words = self.words
        if "filter" in words:
            return True
        if not data or not self.may_convert_any():
            return False
        if "working-tree-encoding" in words:
            return True
        if "ident" in words and b"$Id" in data:
            return True
        may_add_crlf = (
            self._autocrlf == "true" or self._eol or not words.isdisjoint(("eol", "crlf"))
        )
        return b"\n" in data if may_add_crlf else b"\r\n" in data

    def ask(self, paths: list[bytes]) -> list[Attributes]:
        """Return the attributes of each path, in order. Raises GitFailed."""
        if not self.words:
            return [Attributes()] * len(paths)
        output = self._repo.git(
            "check-attr", "-z", "--stdin", *NAMES, input=b"\0".join(paths) + b"\0"
        )
        values = output.decode("utf-8", "surrogateescape").split("\0")[2::3]
        return [
            Attributes(*values[start : start + len(NAMES)])
            for start in range(0, len(values), len(NAMES))
        ]
