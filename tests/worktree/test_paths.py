"""Names only: what a tree may bring, and how a path is shown."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gitcp.errors import BadValue
from gitcp.worktree.paths import (
    DEEPEST,
    LONGEST_NAME,
    LONGEST_PATH,
    display,
    parse_display,
    problem,
)

DOT_GIT = [
    b".git",
    b".GIT",
    b".gIt",
    b"git~1",
    b"GIT~1",
    b".git.",
    b".git ",
    b".git. . .",
    b"git~1. ",
    b".git::$INDEX_ALLOCATION",
    b".GIT:stream",
    b"git~1:x",
    b".git\\config",
    b"x\\.git",
    b"x\\GIT~1 \\y",
    b"\\.git",
    ".g\u200cit".encode(),
    ".git\u200c".encode(),
    "\ufeff.GI\u202et".encode(),
    ".g\u206fit\u200d ".encode(),
]

ALLOWED = [
    b"a",
    b"src/main.py",
    b".gitignore",
    b".gitmodules",
    b".github/workflows/ci.yml",
    b".gitcp.toml",
    b"sub/.gitcp/x",
    b"sub/.gitcp/joined.git/x",
    b"store.git/x",
    b"git",
    b"git~10",
    b"x.git",
    b".git2",
    b".gi",
    b"...",
    b"..a",
    b"a/...",
    b" ",
    b"-rf",
    b"a\nb",
    b"a\\b",
    b"a:b",
    b"CON",
    b"\xff\xfe",
    b".git\xff",
    "привет/日本.txt".encode(),
    "zero\u200cwidth".encode(),
    b"a" * LONGEST_NAME,
    b"/".join([b"d"] * DEEPEST),
]


@pytest.mark.parametrize("path", ALLOWED)
def test_ordinary_and_odd_names_are_fine(path: bytes) -> None:
    """What git stores and no file system takes for .git is written, however odd."""
    assert problem(path) is None


@pytest.mark.parametrize("name", DOT_GIT)
@pytest.mark.parametrize("around", [b"%s", b"%s/config", b"sub/%s", b"sub/%s/hooks/pre-commit"])
def test_dot_git_is_refused_in_every_spelling(name: bytes, around: bytes) -> None:
    """.git in any case, as HFS+ or NTFS would read it, is refused at every depth and on every
    platform.
    """
    reason = problem(around % name)

    assert reason is not None
    assert ".git" in reason


@pytest.mark.parametrize(
    ("path", "word"),
    [
        (b"", "is empty"),
        (b"/etc/passwd", "absolute"),
        (b"/", "absolute"),
        (b"a\0b", "NUL"),
        (b"a//b", "empty component"),
        (b"a/", "empty component"),
        (b".", "component ."),
        (b"a/./b", "component ."),
        (b"..", "component .."),
        (b"../x", "component .."),
        (b"a/../../x", "component .."),
        (b"a/..", "component .."),
        (b"a/" + b"x" * (LONGEST_NAME + 1), "longer than 255"),
        (b"/".join([b"d"] * (DEEPEST + 1)), "longer than 4096"),
        (b"/".join([b"x" * 200] * 21), "longer than 4096"),
        (b".gitcp", "gitcp's own"),
        (b".gitcp/checkpoint.json", "gitcp's own"),
        (b"sub/.gitcp/store.git", "store of gitcp"),
        (b"a/b/.gitcp/store.git/config", "store of gitcp"),
        (b".GITCP/Store.git/config", "store of gitcp"),
        (b"sub/.gitcp. /store.git::$INDEX_ALLOCATION/x", "store of gitcp"),
        ("sub/.git\u200ccp/store.git/x".encode(), "store of gitcp"),
    ],
)
def test_a_bad_path_is_refused_with_its_reason(path: bytes, word: str) -> None:
    """Each kind of bad path has a reason that names it."""
    assert word in (problem(path) or "")


def test_the_longest_path_is_fine() -> None:
    """The limit itself is allowed."""
    path = b"/".join([b"x" * 240] * 17)

    assert len(path) == LONGEST_PATH
    assert problem(path) is None


PIECES = [
    b"/",
    b".",
    b"..",
    b"git",
    b"GIT",
    b"~1",
    b"\\",
    b":",
    b" ",
    b"\0",
    b"\xff",
    b"x",
    "\u200c".encode(),
    b".gitcp",
]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join))
def test_what_passes_stays_below_the_root(path: bytes) -> None:
    """Whatever passes is relative, climbs nowhere, and names .git nowhere."""
    if problem(path) is None:
        components = path.split(b"/")

        assert not {b"", b".", b"..", b".git"}.intersection(
            component.lower() for component in components
        )
        assert components[0] != b".gitcp"
        assert b"\0" not in path


@given(
    st.sampled_from([".git", "git~1"]).flatmap(
        lambda name: st.tuples(
            *(
                st.tuples(
                    st.sampled_from(["", "\u200d", "\ufeff\u202a"]), st.sampled_from([c, c.upper()])
                )
                for c in name
            )
        )
    ),
    st.sampled_from(["", " ", "..", ". .", ":", "::$INDEX_ALLOCATION", "\\x"]),
    st.sampled_from(["", "x\\", "\\"]),
)
def test_no_mixture_of_spellings_hides_dot_git(
    letters: tuple[tuple[str, str], ...], end: str, start: str
) -> None:
    """Case, ignored code points, trailing characters, streams and backslashes are seen through
    together.
    """
    name = start + "".join(ignored + letter for ignored, letter in letters) + end

    assert problem(b"a/" + name.encode() + b"/b") is not None


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (b"src/main.py", "src/main.py"),
        (b"with space", "with space"),
        ("日本/é.txt".encode(), "日本/é.txt"),
        (b"a\\b", "a\\\\b"),
        (b"a\nb\tc\rd", "a\\nb\\tc\\rd"),
        (b"\x1b[2J\x7f\x00", "\\x1b[2J\\x7f\\x00"),
        ("\u009b31m".encode(), "\\xc2\\x9b31m"),
        ("exe\u202egpj".encode(), "exe\\xe2\\x80\\xaegpj"),
        ("a\u2028b".encode(), "a\\xe2\\x80\\xa8b"),
        ("a\u200bb".encode(), "a\\xe2\\x80\\x8bb"),
        ("a\u00a0b".encode(), "a\\xc2\\xa0b"),
        (b"\xff\xc3", "\\xff\\xc3"),
        (b"\xed\xa0\x80", "\\xed\\xa0\\x80"),
        (b"", ""),
    ],
)
def test_a_path_is_shown_without_control_over_the_terminal(path: bytes, shown: str) -> None:
    """Control, C1, bidi and invisible characters, broken UTF-8 and the backslash are escaped; the
    rest stands.
    """
    assert display(path) == shown
    assert parse_display(shown) == path


@given(
    st.one_of(
        st.binary(max_size=60),
        st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")),
    )
)
@example(b"\\x41")
@example(b"\\\\n")
@example(b"\\")
def test_what_is_shown_leads_back_to_the_path(path: bytes) -> None:
    """display is printable and parse_display is its inverse, for any bytes."""
    shown = display(path)

    assert shown.isprintable()
    assert parse_display(shown) == path


def test_raw_text_from_a_command_line_is_a_path_too() -> None:
    """Undecodable argument bytes, upper-case escapes and characters that display would escape are
    taken.
    """
    assert parse_display("a\udcff") == b"a\xff"
    assert parse_display("\\xFF\\xAb") == b"\xff\xab"
    assert parse_display("a\nb") == b"a\nb"


@pytest.mark.parametrize(
    "text", ["\\", "a\\", "\\q", "\\x", "\\x4", "\\xg0", "\\x 1", "\\x+1", "\\u0041", "\ud800"]
)
def test_an_unknown_escape_is_refused(text: str) -> None:
    """An escape that display never writes is an error, not a guess."""
    with pytest.raises(BadValue, match="is not a path"):
        parse_display(text)
