"""Include patterns: which ignored files are captured anyway.

They use the syntax of ignore patterns with the opposite meaning. A pattern without a slash is
matched in every directory that is entered; one with a slash also makes the scan enter the ignored
directories that it names literally.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from gitcp.worktree.ignore import Ignore


class Include:
    """The include patterns of one scan. `leading` are directories entered because a pattern names
    them, ignored or not.
    """

    def __init__(self, patterns: Sequence[str], *, ignore_case: bool) -> None:
        lines = [os.fsencode(pattern) for pattern in patterns]
        root = Ignore.root(
            excludes_file=None,
            info_exclude=None,
            gitignore=b"\n".join(lines) or None,
            ignore_case=ignore_case,
        )
        self._rules = {b"": root}
        self._any = bool(lines)
        self.leading = frozenset(directory for line in lines for directory in _leading(line))

    def takes(self, directory: bytes, name: bytes, *, is_directory: bool) -> bool:
        """Return whether the entry `name` of `directory` is captured (for a directory: with
        everything below).
        """
        return self._any and self._rules_in(directory).ignores(name, is_directory)

    def _rules_in(self, directory: bytes) -> Ignore:
        names = []
        while directory not in self._rules:
            directory, _, name = directory.rpartition(b"/")
            names.append(name)
        for name in reversed(names):
            rules = self._rules[directory].enter(name, None)
            directory = directory + b"/" + name if directory else name
            self._rules[directory] = rules
        return self._rules[directory]


def _leading(pattern: bytes) -> list[bytes]:
    """Return the directories that a pattern names literally, outermost first."""
    parts = pattern.strip().strip(b"/").split(b"/")[:-1]
    literal = []
    for part in parts:
        if not part or any(wild in part for wild in (b"*", b"?", b"[", b"\\")):
            break
        literal.append(part)
    return [b"/".join(literal[: count + 1]) for count in range(len(literal))]
