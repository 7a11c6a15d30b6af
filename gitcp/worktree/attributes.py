"""Which attributes a path has, as far as they change its bytes. `git check-attr` knows; it is asked
seldom.

Most repositories have no attribute that could change a file, and most files could not be changed by
those there are: both are seen from a few words and the file's own bytes, and then no command is
started.
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


def words_in(content: bytes) -> set[str]:
    """The attributes that change bytes and are named in a file of attributes. "binary" is git's own
    word for -text.
    """
    return {
        "text" if word == b"binary" else word.decode("ascii") for word in _WORD.findall(content)
    }


def autocrlf_of(config: Mapping[str, str]) -> str:
    """core.autocrlf as "", "true" or "input"."""
    value = config.get("core.autocrlf", "").lower()
    return (
        "" if value in ("", "false", "no", "off", "0") else "input" if value == "input" else "true"
    )


class Attributes(NamedTuple):
    """The attributes of a path that decide, as `git check-attr` prints them."""

    text: str = UNSPECIFIED
    eol: str = UNSPECIFIED
    crlf: str = UNSPECIFIED
    ident: str = UNSPECIFIED
    filter: str = UNSPECIFIED
    encoding: str = UNSPECIFIED

    @property
    def driver(self) -> str:
        """The name of the filter, "" if there is none."""
        return "" if self.filter in (UNSPECIFIED, "set", "unset") else self.filter


class ConversionHints:
    """Which files could have a blob that is not simply their bytes. `words` grows as attribute
    files are met.
    """

    def __init__(self, repo: Repository, words: Iterable[str]) -> None:
        self._repo = repo
        self.words = set(words)
        self._autocrlf = autocrlf_of(repo.config)
        self._eol = repo.config.get("core.eol", "").lower() == "crlf"

    def of_any(self) -> bool:
        """Whether any file at all could be converted."""
        return bool(self.words or self._autocrlf)

    def _outward(self) -> bool:
        return self._autocrlf == "true" or self._eol or not self.words.isdisjoint(("eol", "crlf"))

    def of(self, data: bytes) -> bool:
        """Whether a file with these bytes could be converted, there or back."""
        words = self.words
        if "filter" in words:
            return True
        if not data or not self.of_any():
            return False
        if "working-tree-encoding" in words:
            return True
        if "ident" in words and b"$Id" in data:
            return True
        return b"\n" in data if self._outward() else b"\r\n" in data

    def ask(self, paths: list[bytes]) -> list[Attributes]:
        """The attributes of each of these paths, in order. Raises GitFailed."""
        if not self.words:
            return [Attributes()] * len(paths)
        said = self._repo.git(
            "check-attr", "-z", "--stdin", *NAMES, input=b"\0".join(paths) + b"\0"
        )
        values = said.decode("utf-8", "surrogateescape").split("\0")[2::3]
        return [
            Attributes(*values[at : at + len(NAMES)]) for at in range(0, len(values), len(NAMES))
        ]
