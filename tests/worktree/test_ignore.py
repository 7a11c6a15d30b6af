"""The ignore rules, held against git itself: what it lists as untracked is what must be visible
here.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitcp.worktree.ignore import Ignore

Tree = dict[bytes, "bytes | Tree"]
"""A directory: a file's content, or a directory below it. `LINK` is a symbolic link to the
directory above.
"""

LINK = b"\0link"


class Oracle:
    """A real repository whose working tree and rules are replaced for each question."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.top = 0
        self.git("init", "-q", "--bare", os.fspath(place / "git"))

    def git(self, *args: str) -> bytes:
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        env |= {
            "HOME": os.fspath(self.place),
            "XDG_CONFIG_HOME": os.fspath(self.place),
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        return subprocess.run(
            ["git", *args], env=env, cwd=self.place, check=True, stdout=subprocess.PIPE
        ).stdout

    def visible(
        self, tree: Tree, info: bytes | None, excludes: bytes | None, ignore_case: bool
    ) -> set[bytes]:
        """The untracked files that git shows."""
        self.top += 1
        top = os.fsencode(self.place) + b"/%d" % self.top
        write(top, tree)
        place(self.place / "git" / "info" / "exclude", info)
        place(self.place / "excludes", excludes)
        listing = self.git(
            f"--git-dir={self.place / 'git'}",
            f"--work-tree={os.fsdecode(top)}",
            *("-c", "core.bare=false", "-c", f"core.excludesFile={self.place / 'excludes'}"),
            *("-c", f"core.ignoreCase={'true' if ignore_case else 'false'}"),
            *("ls-files", "-z", "--others", "--exclude-standard"),
        )
        return set(listing.split(b"\0")[:-1])


def place(path: Path, content: bytes | None) -> None:
    path.unlink(missing_ok=True)
    if content is not None:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)


def write(top: bytes, tree: Tree) -> None:
    os.mkdir(top)
    for name, content in tree.items():
        if isinstance(content, dict):
            write(top + b"/" + name, content)
        elif content == LINK:
            os.symlink(b"..", top + b"/" + name)
        else:
            with open(top + b"/" + name, "wb") as file:
                file.write(content)


def gitignore(tree: Tree) -> bytes | None:
    content = tree.get(b".gitignore")
    return content if isinstance(content, bytes) and content != LINK else None


def root(tree: Tree, info: bytes | None, excludes: bytes | None, ignore_case: bool) -> Ignore:
    return Ignore.root(
        excludes_file=excludes,
        info_exclude=info,
        gitignore=gitignore(tree),
        ignore_case=ignore_case,
    )


def walk(tree: Tree, ignore: Ignore, above: bytes = b"") -> Iterator[bytes]:
    """The files that a walker sees that stays out of ignored directories."""
    for name, content in tree.items():
        is_directory = isinstance(content, dict)
        if ignore.ignores(name, is_directory):
            continue
        if isinstance(content, dict):
            yield from walk(content, ignore.enter(name, gitignore(content)), above + name + b"/")
        else:
            yield above + name


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    return Oracle(tmp_path_factory.mktemp("oracle"))


# ---------------------------------------------------------------- any rules, any tree

NAMES = st.sampled_from(
    [
        *rb"a b ab aa ba c A aB a.o b.o a.b.o .o A.O x.log abab a-b 1 A_Z z abc abcb".split(),
        *rb"* ** a* ? [a] [ ] a] \ a\ \a !a #a ! # - ^ :".split(),
        *(b" ", b"a ", b" a", b"a  ", b"a\r", b"a\n", b"\t", b"a\t"),
        *(b"\xff", b"a\xff", b"\xc3\xa9", b"\xef\xbb\xbfa"),
    ]
)
BITS = st.sampled_from(
    [
        *rb"a a b b c ab A B .o . - ^ : ! #".split(),
        *rb"* * * ** *** ? / / / **/ /** /**/ */ \ \* \a \A \/".split(),
        *rb"[ab] [!a] [^b] [a-c] [A-B] [B] [a- [ ] []] []a-] [!]] [\]] [/] [a/b] [\a-\c] [a-\ [--a] [c-a]".split(),  # noqa: E501
        *rb"[[:alpha:]] [[:upper:]x] [![:lower:]] [[:space:]] [[:punct:]] [[:digit:]-a]".split(),
        *rb"[[:foo:]] [[:alpha] [[:] [[::]]".split(),
        *(b" ", b"\\ ", b"\r", b"\0", b"\t", b"\xff", b"\xc3\xa9"),
    ]
)
PATTERNS = st.one_of(
    NAMES,
    st.lists(BITS, min_size=1, max_size=5).map(b"".join),
    st.lists(NAMES | BITS, max_size=3).map(b"/".join),
)
LINES = st.builds(
    lambda start, pattern, end: start + pattern + end,
    st.sampled_from(
        [b"", b"", b"", b"", b"!", b"!", b"/", b"!/", b"\\", b"#", b"**/", b"/**/", b" "]
    ),
    PATTERNS,
    st.sampled_from(
        [
            b"",
            b"",
            b"",
            b"",
            b"/",
            b"/",
            b"/**",
            b"/*",
            b" ",
            b"  ",
            b"\\ ",
            b"\\  ",
            b"\\",
            b"\r",
            b" \r",
            b"/ ",
        ]
    ),
)
RULES = st.binary(max_size=40) | st.builds(
    lambda bom, lines, end: bom + b"\n".join(lines) + end,
    st.sampled_from([b"", b"", b"", b"\xef\xbb\xbf"]),
    st.lists(LINES, min_size=1, max_size=6),
    st.sampled_from([b"", b"\n", b"\r\n", b"\n\n", b"\r"]),
)


def directories(below: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return trees(st.one_of(st.sampled_from([b"", b"", LINK]), below, below))


def trees(entries: st.SearchStrategy[bytes | Tree]) -> st.SearchStrategy[Tree]:
    return st.builds(
        lambda files, rules: files | ({} if rules is None else {b".gitignore": rules}),
        st.dictionaries(NAMES, entries, max_size=7),
        st.none() | RULES,
    )


TREES = directories(directories(directories(trees(st.just(b"")))))


any_name = pytest.mark.skipif(
    sys.platform != "linux", reason="needs a file system that takes any bytes as a name"
)


@any_name
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(tree=TREES, info=st.none() | RULES, excludes=st.none() | RULES, ignore_case=st.booleans())
def test_any_rules(
    oracle: Oracle, tree: Tree, info: bytes | None, excludes: bytes | None, ignore_case: bool
) -> None:
    """Whatever the rules and the tree, exactly the files that git lists as untracked are
    visible.
    """
    expected = oracle.visible(tree, info, excludes, ignore_case)

    assert expected == set(walk(tree, root(tree, info, excludes, ignore_case)))


@any_name
@pytest.mark.parametrize("ignore_case", [False, True])
def test_every_byte_in_every_class(oracle: Oracle, ignore_case: bool) -> None:
    """POSIX classes, ranges and their negations take the same bytes as git's."""
    classes = (
        b"alnum alpha blank cntrl digit graph lower print punct space upper xdigit word".split()
    )
    patterns = [b"[%s[:%s:]]" % (sign, name) for name in classes for sign in (b"", b"!")]
    patterns += [
        b"[%c-%c]" % pair
        for pair in ((1, 255), (b"A", b"Z"), (b"Z", b"a"), (b"^", b"b"), (b"-", b"."))
    ]
    names: Tree = {bytes([byte]): b"" for byte in range(1, 256) if byte not in b"./"}
    tree: Tree = {
        b"%d" % at: names | {b".gitignore": pattern} for at, pattern in enumerate(patterns)
    }

    expected = oracle.visible(tree, None, None, ignore_case)

    assert expected == set(walk(tree, root(tree, None, None, ignore_case)))


# ---------------------------------------------------------------- named cases


class Case(NamedTuple):
    """Rules by the directory they stand in, the paths that exist, and those among them that are
    ignored.
    """

    rules: dict[str, str]
    paths: str
    ignored: str
    ignore_case: bool = False
    info: str | None = None
    excludes: str | None = None


CASES = {
    "a name matches at every depth": Case({"": "x"}, "x a/x a/b/x xx", "x a/x a/b/x"),
    "an extension": Case({"": "*.o"}, "a.o .o a.b.o a.o.c s/a.o o", "a.o .o a.b.o s/a.o"),
    "an extension of two parts": Case(
        {"": "*.tar.gz\n*.b*"}, "a.tar.gz a.gz .tar.gz tar.gz a.bz", "a.tar.gz .tar.gz a.bz"
    ),
    "the last line that matches decides": Case(
        {"": "*.o\n!a.o\nb/a.o"}, "a.o b/a.o c/a.o c/b.o", "b/a.o c/b.o"
    ),
    "an earlier negation loses": Case({"": "!a.o\n*.o"}, "a.o", "a.o"),
    "the last of the wildcards that match decides": Case(
        {"": "b/a*\n!b/ab*\nb/abc*"}, "b/a b/ab b/abc", "b/a b/abc"
    ),
    "a nested file is stronger": Case(
        {"": "*.log", "a": "!x.log"}, "x.log a/x.log a/y.log", "x.log a/y.log"
    ),
    "a nested negation reaches further down": Case(
        {"": "*.log", "a": "!x.log"}, "a/b/x.log a/b/y.log", "a/b/y.log"
    ),
    "a nested negation without a rule of its own": Case(
        {"": "*.o", "s": "!a.o"}, "s/a.o s/b.o", "s/b.o"
    ),
    "a nested file against info/exclude": Case({"s": "!a.o"}, "s/a.o a.o", "a.o", info="*.o"),
    "what lies in an ignored directory stays ignored": Case({"": "d/\n!d/x"}, "d/x d/y", "d/x d/y"),
    "what lies in a directory whose files are ignored can come back": Case(
        {"": "d/*\n!d/x"}, "d/x d/y", "d/y"
    ),
    "rules in an ignored directory are not read": Case({"": "d", "d": "!x"}, "d/x", "d/x"),
    "all but one directory": Case({"": "/*\n!/src"}, "a b/c src/d src/e/f", "a b/c"),
    "a leading slash anchors": Case({"": "/x"}, "x a/x", "x"),
    "a slash within anchors": Case({"": "a/x"}, "a/x b/a/x", "a/x"),
    "an anchor belongs to the file's directory": Case(
        {"a": "/x\nb/y"}, "x a/x a/b/x a/b/y b/y", "a/x a/b/y"
    ),
    "a trailing slash means directories": Case({"": "x/"}, "x a/x/y b/xx", "a/x/y"),
    "a link to a directory is none": Case({"": "l/\nm"}, "l@ m@", "m@"),
    "a star stays in its component": Case({"": "a/*.c"}, "a/x.c a/b/x.c", "a/x.c"),
    "a star takes a leading dot": Case({"": "*"}, ".a b/.c", ".a b/.c"),
    "a question mark is one byte, not a slash": Case(
        {"": "a?b\n/c?d"}, "axb ab c/d cxd axxb", "axb cxd"
    ),
    "two stars first": Case({"": "**/b/c"}, "b/c a/b/c x/a/b/c c", "b/c a/b/c x/a/b/c"),
    "two stars last": Case({"": "a/**"}, "a/b a/c/d b/a/x", "a/b a/c/d"),
    "two stars between": Case({"": "a/**/b"}, "a/b a/x/b a/x/y/b a/xb", "a/b a/x/b a/x/y/b"),
    "two stars twice": Case(
        {"": "**/a/**/b"}, "a/b x/a/b x/a/y/b a/y/b/z y/b", "a/b x/a/b x/a/y/b a/y/b/z"
    ),
    "two stars over a line end in a name": Case({"": "a/**/b"}, "a/x\ny/b|a/x\nb", "a/x\ny/b|"),
    "two stars and an escaped slash span one directory at least": Case(
        {"": "**\\/x"}, "x a/x a/b/x y", "a/x a/b/x"
    ),
    "stars of both kinds": Case({"": "*a/**/b*c"}, "xa/b/bc xa/bd a/bc xb/bc", "xa/b/bc a/bc"),
    "two stars in a name are one": Case(
        {"": "a**c\n/d/e**f"}, "abc d/e/f d/exf d/ex/yf", "abc d/exf"
    ),
    "two stars after a literal beginning": Case(
        {"": "/a**/b"}, "ab axx/b a/b a/x/b cab", "ab axx/b a/b a/x/b"
    ),
    "two stars in the root file see nested paths": Case(
        {"": "x/**/y"}, "x/y x/a/y a/x/y", "x/y x/a/y"
    ),
    "three stars": Case({"": "a/***/b"}, "a/b a/c/d/b", "a/b a/c/d/b"),
    "a bracket": Case({"": "[ab]c"}, "ac bc cc [ab]c", "ac bc"),
    "a negated bracket, both ways": Case({"": "[!a]x\n[^b]y"}, "ax bx ay by", "bx ay"),
    "a range": Case({"": "[b-d]"}, "a b d e -", "b d"),
    "a range of classes": Case({"": "x[[:digit:][:upper:]]"}, "x1 xA xa", "x1 xA"),
    "a range ends at its end": Case({"": "[a-c-e]"}, "a b c d e -", "a b c e -"),
    "a class begins no range": Case({"": "[0[:alpha:]-z]"}, "0 5 b - z", "0 b - z"),
    "what looks like a class": Case({"": "[[:]x\n[[:y]z"}, "[x :x x :z yz [z", "[x :x :z yz [z"),
    "a closing bracket first": Case({"": "[]a]x"}, "]x ax bx", "]x ax"),
    "a dash at either end": Case({"": "[a-]x\n[-b]y"}, "ax -x ay by -y", "ax -x by -y"),
    "a backslash in a bracket": Case({"": "[\\]a]x"}, "]x ax \\x", "]x ax"),
    "an unclosed bracket matches nothing": Case(
        {"": "[a\nx[[:alpha:]\n[[:alpha--"}, "[a a xa x[[:alpha:] :alpha--", ""
    ),
    "an unknown class matches nothing": Case({"": "[[:word:]]\n[a[:word:]]"}, "a w", ""),
    "no bracket takes a slash": Case({"": "a[/]b\nc[!x]d"}, "a/b c/d czd", "czd"),
    "a comment, and a name that begins like one": Case(
        {"": "#a\n\\#b\n #c"}, "#a|#b|a|b| #c|c", "#b| #c"
    ),
    "an exclamation mark, escaped": Case({"": "\\!a"}, "!a a", "!a"),
    "an escaped star": Case({"": "a\\*"}, "a* ab", "a*"),
    "a backslash at the end matches nothing": Case({"": "a\\"}, "a a\\", ""),
    "trailing spaces": Case({"": "a  \nb\\ \nc\\  "}, "a|a |b|b |c|c |c  ", "a|b |c "),
    "a leading space counts": Case({"": " a"}, " a|a", " a|"),
    "a tab is no space": Case({"": "a\t"}, "a|a\t", "a\t|"),
    "line ends of Windows": Case({"": "a\r\n*.o\r\nd/\r\n\r\nc"}, "a x.o d/x c", "a x.o d/x c"),
    "one carriage return of two": Case({"": "a\r\r\n"}, "a|a\r", "a\r|"),
    "a byte order mark": Case({"": "\ufeffa\n\ufeffb"}, "a b \ufeffa \ufeffb", "a \ufeffb"),
    "no line end": Case({"": "a\nb"}, "a b c", "a b"),
    "a line ends at a zero byte": Case({"": "a\0b\nc"}, "a b ab c", "a c"),
    "lines without a pattern": Case({"": "\n \n/\n!\n!/\n//\n#"}, "a b/c", ""),
    "two slashes match nothing": Case({"": "a//\n//b\na//c"}, "a/c b", ""),
    "bytes that are not UTF-8": Case(
        {"": "a\udcff\n[\udcfe]"}, "a\udcff a \udcfe \udcff", "a\udcff \udcfe"
    ),
    "info/exclude is stronger than core.excludesFile": Case(
        {}, "a.o b.o", "b.o", info="!a.o", excludes="*.o"
    ),
    "core.excludesFile alone, anchored at the root": Case({}, "x a/x", "x", excludes="/x"),
    "the root file is stronger than info/exclude": Case({"": "!a.o"}, "a.o b.o", "b.o", info="*.o"),
    "case counts": Case({"": "*.TXT\nAb\n/C/d"}, "a.txt ab c/d a.TXT Ab C/d", "a.TXT Ab C/d"),
    "case ignored": Case(
        {"": "*.TXT\nAb\n/C/d\n*X?"}, "a.txt aB c/D xy c/e", "a.txt aB c/D xy", True
    ),
    "case ignored in what lies below": Case({"": "Dir/*/f"}, "dIR/x/F d/x/f", "dIR/x/F", True),
    "case ignored and a capital in brackets": Case(
        {"": "[A]1\n[B-C]2\n[[:upper:]]3"}, "a1 A1 b2 C2 a3 4", "b2 C2 a3", True
    ),
    "case ignored and an escaped capital": Case({"": "\\A\n\\b"}, "a A b B", "b B", True),
}


def split(paths: str) -> list[bytes]:
    """The paths of a case; parted by "|" where one holds a space."""
    parts = paths.split("|") if "|" in paths else paths.split()
    return [os.fsencode(part.encode("utf-8", "surrogateescape")) for part in parts if part]


def build(case: Case) -> Tree:
    tree: Tree = {}
    contents = {directory + "/.gitignore": rules for directory, rules in case.rules.items()}
    files = [
        (os.fsencode(path).removeprefix(b"/"), os.fsencode(rules))
        for path, rules in contents.items()
    ]
    for path, content in files + [
        (path.rstrip(b"@"), LINK if path.endswith(b"@") else b"") for path in split(case.paths)
    ]:
        *parents, name = path.split(b"/")
        here = tree
        for parent in parents:
            below = here.setdefault(parent, {})
            assert isinstance(below, dict), f"{path!r} needs a directory where there is a file"
            here = below
        here[name] = content
    return tree


@any_name
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_case(oracle: Oracle, case: Case) -> None:
    """The case's ignored paths are ignored and no others, here and by git."""
    tree = build(case)
    info, excludes = (
        None if text is None else text.encode() for text in (case.info, case.excludes)
    )

    mine = set(walk(tree, root(tree, info, excludes, case.ignore_case)))

    paths = {path.rstrip(b"@") for path in split(case.paths)}
    rules = {path for path in mine if path.rpartition(b"/")[2] == b".gitignore"}
    assert {path.rstrip(b"@") for path in split(case.ignored)} == paths - mine
    assert oracle.visible(tree, info, excludes, case.ignore_case) - rules == mine - rules


# ---------------------------------------------------------------- the value


def test_entering_changes_nothing() -> None:
    """A value that was entered from answers as before, and its sub-directories do not know of each
    other.
    """
    top = Ignore.root(excludes_file=None, info_exclude=None, gitignore=b"*.o\n/x")
    one, two = top.enter(b"one", b"!a.o\n/y"), top.enter(b"two", None)

    assert [top.ignores(name, False) for name in (b"a.o", b"x", b"y")] == [True, True, False]
    assert [one.ignores(name, False) for name in (b"a.o", b"x", b"y")] == [False, False, True]
    assert [two.ignores(name, False) for name in (b"a.o", b"x", b"y")] == [True, False, False]


def test_no_rules() -> None:
    """Without any rules nothing is ignored."""
    ignore = Ignore.root(excludes_file=None, info_exclude=b"", gitignore=None).enter(b"a", b"")

    assert not ignore.ignores(b"x", False)
    assert not ignore.ignores(b"x", True)


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Fails the test when the body takes longer."""

    def late(number: int, frame: FrameType | None) -> None:
        pytest.fail(f"not done after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (b"a*" * 60 + b"b", b"a" * 250),
        (b"*a" * 60 + b"?[b]", b"a" * 250),
        (b"/x/" + b"*[a]" * 60 + b"b", b"x/" + b"a" * 250),
        (b"**/a/" * 40 + b"b", b"a/" * 200 + b"bc"),
        (b"x/" + b"**/*a*a*/" * 20 + b"b", b"x/" + b"aaaaaa/" * 200 + b"c"),
    ],
)
def test_hostile_pattern_is_quick(pattern: bytes, path: bytes) -> None:
    """A pattern with many stars is answered at once, where trying every split would take longer
    than we live.
    """
    ignore = Ignore.root(excludes_file=None, info_exclude=None, gitignore=pattern)
    *parents, name = path.split(b"/")
    for parent in parents:
        ignore = ignore.enter(parent, None)

    with at_most(5):
        assert not ignore.ignores(name, False)
        assert not ignore.ignores(name, True)


def test_plain_rules_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, extensions, paths, and wildcards whose literal part is absent, need no expression."""
    compiled: list[bytes] = []
    compile_ = re.compile

    def record(pattern: bytes, flags: re.RegexFlag) -> re.Pattern[bytes]:
        compiled.append(pattern)
        return compile_(pattern, flags)

    monkeypatch.setattr(re, "compile", record)
    rules = b"*.o\nbuild/\n/a/b\n*.py[cod]"
    ignore = Ignore.root(excludes_file=None, info_exclude=None, gitignore=rules)

    assert ignore.ignores(b"a.o", False)
    assert ignore.ignores(b"build", True)
    assert not ignore.enter(b"a", None).ignores(b"c", False)
    assert ignore.enter(b"a", None).ignores(b"b", False)
    assert compiled == []
    assert ignore.ignores(b"a.pyc", False)
    assert len(compiled) == 1
