"""Git's ignore rules for untracked names: `.gitignore`, `info/exclude` and `core.excludesFile`; and
include patterns, which say what is captured all the same.

Takes the contents of those files and answers for one name at a time. It reads no files: the walker
passes every directory's `.gitignore` to `enter` and never enters ignored directories. Therefore, as
in git, a file below an ignored directory cannot be re-included.

libgit2's matcher is not used because it differs from git: it loses negations in nested files, and
files with them. This one follows git's own command, including its oddities; the tests compare it
with `git ls-files`.

A rule becomes a dictionary entry if possible (`name`, `*.ext`, `dir/name`), else a regular
expression, compiled when a name first contains the rule's longest literal: most never are.

Include patterns have the syntax of ignore patterns. One without a slash is matched in every
directory that is entered; one with a slash also makes the scan enter the ignored directories that
it names literally.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

_BOM = b"\xef\xbb\xbf"
_SLASH = ord("/")


class Ignore:
    """The ignore rules in force inside one directory. Immutable: `enter` returns a new value."""

    __slots__ = ("_fold", "_levels")

    def __init__(self, levels: tuple[tuple[_Rules, bytes], ...], fold: bool) -> None:
        # Highest precedence first: each rules file with the path from its directory to this one
        # ("" or ending in "/").
        self._levels = levels
        self._fold = fold

    @classmethod
    def root(
        cls,
        *,
        excludes_file: bytes | None,
        info_exclude: bytes | None,
        gitignore: bytes | None,
        ignore_case: bool = False,
    ) -> Ignore:
        """Return the rules at the root of a working tree.

        Takes the contents of `core.excludesFile`, `$GIT_DIR/info/exclude` and the root
        `.gitignore`, None for a missing file, and git's `core.ignoreCase`. All bytes are accepted:
        patterns that are invalid for git match nothing.
        """
        contents = (gitignore, info_exclude, excludes_file)
        return cls(
            tuple((_Rules(content, ignore_case), b"") for content in contents if content),
            ignore_case,
        )

    def enter(self, name: bytes, gitignore: bytes | None) -> Ignore:
        """Return the rules inside the subdirectory `name`, whose `.gitignore` has this content
        (None if missing).

        As git does, pass None for a `.gitignore` that is a symbolic link.
        """
        step = (name.lower() if self._fold else name) + b"/"
        levels = tuple([(rules, path + step) for rules, path in self._levels])
        if gitignore:
            levels = ((_Rules(gitignore, self._fold), b""), *levels)
        return Ignore(levels, self._fold)

    def ignores(self, name: bytes, is_directory: bool) -> bool:
        """Return whether the entry `name` of this directory is ignored, given that the directory
        itself is not.

        A symbolic link is not a directory, whatever it points to.
        """
        if self._fold:
            name = name.lower()
        for rules, path in self._levels:
            rank = rules.table(is_directory).rank(path, name)
            if rank:
                return rank & 1 == 1
        return False


class _Rules:
    """One rules file, parsed on first use."""

    __slots__ = ("_content", "_directories", "_files", "_fold", "_parsed")

    def __init__(self, content: bytes, fold: bool) -> None:
        self._content = content
        self._fold = fold
        self._parsed: list[_Rule] | None = None
        self._files: _Table | None = None
        self._directories: _Table | None = None

    def table(self, is_directory: bool) -> _Table:
        """Return the rules that can apply to a directory, or to anything else."""
        table = self._directories if is_directory else self._files
        return table or self._build(is_directory)

    def _build(self, is_directory: bool) -> _Table:
        if self._parsed is None:
            self._parsed = _parse(self._content, self._fold)
        if is_directory:
            self._directories = table = _Table(self._parsed)
        else:
            self._files = table = _Table(
                [rule for rule in self._parsed if not rule.only_directories]
            )
        return table


class _Table:
    """The rules of one file, indexed for lookup; the highest matching rank decides."""

    __slots__ = ("extensions", "names", "paths", "wild_names", "wild_paths")

    def __init__(self, rules: list[_Rule]) -> None:
        self.names: dict[bytes, int] = {}
        self.extensions: dict[bytes, int] = {}
        self.paths: dict[bytes, dict[bytes, int]] = {}
        self.wild_names: list[_Rule] = []
        self.wild_paths: list[_Rule] = []
        for rule in rules:  # in the order of the file, so a later line overwrites
            self._add(rule)
        self.wild_names.reverse()
        self.wild_paths.reverse()

    def _add(self, rule: _Rule) -> None:
        pattern, rank = rule.pattern, rule.rank
        if rule.literal == len(pattern):
            if rule.is_path:
                parent, slash, name = pattern.rpartition(b"/")
                self.paths.setdefault(parent + slash, {})[name] = rank
            else:
                self.names[pattern] = rank
        elif rule.is_path:
            self.wild_paths.append(rule)
        elif (
            pattern.startswith(b"*.")
            and pattern.count(b".") == 1
            and _plain(pattern, 1) == len(pattern)
        ):
            self.extensions[pattern[1:]] = rank
        else:
            self.wild_names.append(rule)

    def rank(self, path: bytes, name: bytes) -> int:
        """Return the rank of the last rule that matches `name` in the directory `path` ("" or
        ending in "/"), 0 for none.
        """
        best = self.names.get(name, 0)
        if self.paths and (ranks := self.paths.get(path)) is not None:
            best = max(best, ranks.get(name, 0))
        if self.extensions and (dot := name.rfind(b".")) >= 0:
            best = max(best, self.extensions.get(name[dot:], 0))
        if self.wild_names:
            best = _last_match(self.wild_names, name, best)
        if self.wild_paths:
            best = _last_match(self.wild_paths, path + name, best)
        return best


def _last_match(rules: list[_Rule], text: bytes, best: int) -> int:
    for rule in rules:
        if rule.needs in text:
            if rule.rank < best:
                return best
            if rule.matches(text):
                return rule.rank
    return best


class _Rule:
    """One line. `rank` grows with the line number and is odd if the line ignores, even if it
    re-includes.

    `literal` is the length of the part before the first special character, `is_path` means that the
    pattern is matched against the path from its file's directory instead of the name alone, and
    `needs` is a substring that every matching text contains.
    """

    __slots__ = (
        "_fold",
        "_regex",
        "is_path",
        "literal",
        "needs",
        "only_directories",
        "pattern",
        "rank",
    )

    def __init__(
        self, pattern: bytes, rank: int, *, is_path: bool, only_directories: bool, fold: bool
    ) -> None:
        # An escaped or bracketed capital keeps its own meaning even when case is ignored.
        self.pattern = (
            pattern.lower() if fold and b"\\" not in pattern and b"[" not in pattern else pattern
        )
        self.rank = rank
        self.is_path = is_path
        self.only_directories = only_directories
        self.literal = _plain(pattern, 0)
        wild = self.literal < len(pattern)
        self.needs = _longest_literal(pattern.lower() if fold else pattern) if wild else pattern
        self._fold = fold
        self._regex: re.Pattern[bytes] | None = None

    def matches(self, text: bytes) -> bool:
        regex = self._regex
        if regex is None:
            regex = self._regex = re.compile(
                _regex(self.pattern, self.literal, self._fold), re.DOTALL
            )
        return regex.fullmatch(text) is not None


# ---------------------------------------------------------------- lines


def _parse(content: bytes, fold: bool) -> list[_Rule]:
    rules: list[_Rule] = []
    for line in content.removeprefix(_BOM).split(b"\n"):
        if line.startswith(b"#"):
            continue
        text = _without_trailing_spaces(line.removesuffix(b"\r").partition(b"\0")[0])
        is_negated = text.startswith(b"!")
        pattern = text[1:] if is_negated else text
        only_directories = pattern.endswith(b"/")
        pattern = pattern[:-1] if only_directories else pattern
        is_path = b"/" in pattern
        pattern = pattern.removeprefix(b"/")
        if pattern.startswith(b"**/") and b"/" not in pattern[3:]:
            pattern, is_path = pattern[3:], False  # means the same, and is looked up faster
        if pattern:
            rank = 2 * len(rules) + (2 if is_negated else 3)
            rules.append(
                _Rule(pattern, rank, is_path=is_path, only_directories=only_directories, fold=fold)
            )
    return rules


def _without_trailing_spaces(line: bytes) -> bytes:
    """Strip trailing spaces, except the first one after an unescaped backslash."""
    if not line.endswith(b" "):
        return line
    stripped = line.rstrip(b" ")
    backslashes = len(stripped) - len(stripped.rstrip(b"\\"))
    return line[: len(stripped) + backslashes % 2]


def _plain(pattern: bytes, start: int) -> int:
    """Return the index of the first special character from `start` on, or the pattern's length."""
    for at in range(start, len(pattern)):
        if pattern[at] in b"*?[\\":
            return at
    return len(pattern)


def _longest_literal(pattern: bytes) -> bytes:
    """Return the longest run of literal characters.

    Considers only text before the first bracket or backslash and after the last one, so that
    brackets need not be parsed. Slashes at either end are stripped: the slash of a `**/` may match
    nothing.
    """
    clear = _until(pattern, b"[\\") + b"*" + _until(pattern[::-1], b"[]\\")[::-1]
    return max([run.strip(b"/") for run in clear.replace(b"?", b"*").split(b"*")], key=len)


def _until(pattern: bytes, stops: bytes) -> bytes:
    for at, byte in enumerate(pattern):
        if byte in stops:
            return pattern[:at]
    return pattern


# ---------------------------------------------------------------- patterns

_NOTHING = rb"(?!)"
_WITHIN = rb"[^/]*"
_ACROSS = rb".*"
_DIRECTORIES = rb"(?:|.*/)"
_LEFTMOST = {_WITHIN: rb"(?>[^/]*?", _ACROSS: rb"(?>.*?", _DIRECTORIES: rb"(?>(?:|.*?/)"}


def _regex(pattern: bytes, start: int, fold: bool) -> bytes:
    """Return the regular expression, for `fullmatch` with DOTALL, equivalent to git's wildmatch.

    `start` is the end of the pattern's literal prefix. git compares the prefix separately, so a
    `**` right after it is at the beginning of the rest and spans directories. With `fold` the text
    to match is in lower case.

    The text after a star is tried only at its leftmost match (an atomic group) if another star of
    the same kind follows, because that one can absorb any difference. Without this a hostile
    pattern would take hours.
    """
    out = _Emitter()
    at = 0
    while at < len(pattern):
        special = pattern[at : at + 1] if at >= start else b""
        if special == b"*":
            at = out.stars(pattern, at, start)
        elif special == b"[":
            bracket = _bracket(pattern, at + 1, fold)
            if bracket is None:
                return _NOTHING
            members, at = bracket
            codes = b"".join(rb"\x%02x" % byte for byte in sorted(members))
            out.put(b"[" + codes + b"]" if members else _NOTHING)
        elif special == b"?":
            out.put(rb"[^/]")
            at += 1
        else:
            escaped = special == b"\\"
            at += escaped
            if at == len(pattern):
                return _NOTHING
            # An escaped capital is not folded, so it equals no byte of a folded text; git is the
            # same.
            out.byte(pattern[at : at + 1] if escaped or not fold else pattern[at : at + 1].lower())
            at += 1
    return b"".join(out.parts)


class _Emitter:
    """The regular expression so far, with the index of the last star of each kind."""

    __slots__ = ("deep", "parts", "shallow")

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.shallow = -1  # the last star within this path component
        self.deep = -1  # the last `**` that spans directories

    def put(self, part: bytes) -> None:
        self.parts.append(part)

    def byte(self, byte: bytes) -> None:
        if byte == b"/":
            self.shallow = -1
        self.put(rb"\x%02x" % ord(byte))

    def stars(self, pattern: bytes, at: int, start: int) -> int:
        """Add the stars at `at`; return the index after them (and after the slash of a `**/`)."""
        end = at
        while pattern[end : end + 1] == b"*":
            end += 1
        opens = at == start or pattern[at - 1] == _SLASH
        closes = end == len(pattern) or pattern.startswith((b"/", b"\\/"), end)
        if end - at == 1 or not (opens and closes):
            self.shallow = self._star(self.shallow, _WITHIN)
        elif pattern.startswith(b"/", end):
            self.deep = self._star(self.deep, _DIRECTORIES)
            end += 1
        else:
            self.deep = self._star(self.deep, _ACROSS)
        return end

    def _star(self, last: int, star: bytes) -> int:
        if last >= 0:
            self.parts[last] = _LEFTMOST[self.parts[last]]
            self.parts.append(b")")
        self.parts.append(star)
        return len(self.parts) - 1


# ---------------------------------------------------------------- brackets


def _bracket(pattern: bytes, at: int, fold: bool) -> tuple[frozenset[int], int] | None:
    """Return the byte set of the bracket expression whose "[" ends at `at`, and the index after its
    "]".

    Return None if it is malformed: then the whole pattern matches nothing. A slash never matches.
    """
    negated = pattern.startswith((b"!", b"^"), at)
    at += negated
    byte_set: set[int] = set()
    low = 0  # what a "-" would make a range from
    start = at
    while at == start or not pattern.startswith(b"]", at):
        if pattern.startswith(b"[:", at) and (closing := _class_end(pattern, at)) != 0:
            members = _class(pattern[at + 2 : closing - 1], fold) if closing > 0 else None
            if members is None:
                return None
            byte_set |= members
            low, at = 0, closing + 1
            continue
        is_range = low > 0 and pattern.startswith(b"-", at) and not pattern.startswith(b"]", at + 1)
        at += is_range
        at += pattern.startswith(b"\\", at)
        if at >= len(pattern):
            return None
        byte = pattern[at]
        byte_set |= _range(low, byte, fold) if is_range else {byte}
        low = 0 if is_range else byte
        at += 1
    return frozenset((set(range(1, 256)) - byte_set if negated else byte_set) - {_SLASH}), at + 1


def _range(low: int, high: int, fold: bool) -> set[int]:
    members = set(range(low, high + 1))
    return members | set(bytes(members).lower()) if fold else members


def _class_end(pattern: bytes, at: int) -> int:
    """The index of the "]" of the `[:name:]` at `at`; 0 where this is no such thing, -1 where no
    "]" follows.
    """
    end = pattern.find(b"]", at + 2)
    if end < 0:
        return -1
    return end if end > at + 2 and pattern[end - 1] == ord(":") else 0


def _class(name: bytes, fold: bool) -> set[int] | None:
    """Return the members of a POSIX class as git defines it (ASCII; vertical tab and form feed are
    not spaces).
    """
    upper, lower, digit, graph = (
        set(range(*span)) for span in ((65, 91), (97, 123), (48, 58), (33, 127))
    )
    classes = {
        b"alnum": upper | lower | digit,
        b"alpha": upper | lower,
        b"blank": set(b" \t"),
        b"cntrl": {*range(32), 127},
        b"digit": digit,
        b"graph": graph,
        b"lower": lower,
        b"print": graph | {32},
        b"punct": graph - upper - lower - digit,
        b"space": set(b" \t\n\r"),
        b"upper": upper | lower if fold else upper,
        b"xdigit": digit | set(b"abcdefABCDEF"),
    }
    return classes.get(name)


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
