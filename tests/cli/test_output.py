"""What reaches the terminal: text, our own colours, and nothing that was stored as more than
text.
"""

from __future__ import annotations

import io
import re
import sys
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from terminal import SGR

from gitcp import humanize, readme
from gitcp.cli import rendering, table
from gitcp.cli.output import PLAIN, RED, Output, Styled
from gitcp.cli.table import TableColumn
from gitcp.safe import flat, safe

ACTED_ON = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode's categories of what is not shown but does something."""

ARABIC_SIGNS = {
    chr(code)
    for code in (*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD)
}
EGYPTIAN = {chr(code) for code in (*range(0x13430, 0x13440), *range(0x1BCA0, 0x1BCA4))}
SHOWN = ARABIC_SIGNS | EGYPTIAN
"""Of the category Cf, and yet visible signs, or parts of a script."""

NOW = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)

everything = st.text(st.characters(exclude_categories=()))
"""Any text, with lone surrogates, controls and all."""


class Captured:
    """An Output whose stdout is kept."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, env: Mapping[str, str], encoding: str = "utf-8"
    ) -> None:
        self._bytes = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(self._bytes, encoding=encoding))
        self.output = Output(env)

    @property
    def text(self) -> str:
        """What was written, and forget it."""
        sys.stdout.flush()
        found = self._bytes.getvalue().decode("utf-8", "surrogateescape")
        self._bytes.seek(0)
        self._bytes.truncate()
        return found


def acted_on(text: str) -> list[str]:
    """The characters of `text` that a terminal would act on."""
    return [
        char
        for char in text
        if char not in "\n\u200c\u200d"
        and char not in SHOWN
        and unicodedata.category(char) in ACTED_ON
    ]


@given(everything)
def test_safe_text(text: str) -> None:
    """No control, direction or invisible character is left, whatever the text; line feeds are."""
    shown = safe(text)

    assert acted_on(shown) == []
    assert shown.count("\n") == text.count("\n")


@pytest.mark.parametrize(
    "text",
    [
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u0646\u06cc\u0645\u200c x",
        "USB\u200c\u0647\u0627",
        "\u0915\u094d\u200d\u0937",
        "\U0001f469\u200d\U0001f4bb",
        "\u2764\ufe0f\u200d\U0001f525",
    ],
)
def test_joiners(text: str) -> None:
    """Joiners are text: in Persian, in Hindi, beside a Latin word, in emoji. That holds on a
    terminal and in a README.
    """
    assert safe(text) == text
    assert readme.code(text) == f"`{text}`"


@given(
    st.text(
        st.characters(
            categories=("L", "M", "N", "P", "S"),
            exclude_characters="\\\u034f\u115f\u1160\u17b4\u17b5"
            "\u180b\u180c\u180d\u180f\u3164\uffa0",
        )
    )
)
def test_ordinary_text(text: str) -> None:
    """Letters, marks, numbers and signs of any script are shown as they are."""
    found = "".join(char for char in text if not 0xE0000 <= ord(char) <= 0xE0FFF)

    assert safe(found) == found


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "^[[2J"),
        ("\x00\x07\r\x7f", "^@^G^M^?"),
        ("\x9b31m", "\\x9b31m"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u200bb", "a\\u200bb"),
        ("\udcff", "\\xff"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("a\tb", "a       b"),
        ("two\nlines", "two\nlines"),
        ("ad\u200dmin\u200c", "ad\\u200dmin\\u200c"),
        ("\u200c\u202e\u200da", "\\u200c\\u202e\\u200da"),
        ("\u0628\u200c\u200c\u200c\u0628", "\u0628\u200c\\u200c\u200c\u0628"),
    ],
)
def test_escapes(text: str, shown: str) -> None:
    """What is escaped is shown as caret, byte or code point."""
    assert safe(text) == shown


@given(everything)
def test_flat_text(text: str) -> None:
    """A cell is one line, and safe."""
    shown = flat(text)

    assert "\n" not in shown
    assert acted_on(shown) == []


@given(st.lists(st.tuples(everything, st.booleans())))
def test_only_our_colours(parts: list[tuple[str, bool]]) -> None:
    """With colours on, the escape sequences written are those of the styled parts, two each, and no
    other.
    """
    with pytest.MonkeyPatch.context() as monkeypatch:
        captured = Captured(monkeypatch, {"FORCE_COLOR": "1"})
        captured.output.line(*(Styled(text, RED) if styled else text for text, styled in parts))
        text = captured.text

    expected = sum(2 for part, styled in parts if styled and part)
    assert len(SGR.findall(text)) == text.count("\x1b") == expected
    assert acted_on(SGR.sub("", text)) == []


@given(st.binary())
def test_patch_in_colour(content: bytes) -> None:
    """A patch that is looked at is safe, whatever the files hold."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        captured = Captured(monkeypatch, {"FORCE_COLOR": "1"})
        rendering.patch(
            captured.output,
            b"diff --git a/f b/f\n@@ -1 +1 @@\n+" + content.replace(b"\n", b"\n+") + b"\n",
        )
        text = captured.text

    assert acted_on(SGR.sub("", text)) == []


def test_patch_into_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """A patch that goes to a program is byte for byte what git said, so that it can be applied."""
    captured = Captured(monkeypatch, {})
    rendering.patch(captured.output, b"+\x1b[2J\xff\r\n")

    assert captured.text.encode("utf-8", "surrogateescape") == b"+\x1b[2J\xff\r\n"


@pytest.mark.parametrize(
    ("env", "colours"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "0"}, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": ""}, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, True),
        ({"TERM": "xterm"}, False),
    ],
)
def test_colours_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, env: dict[str, str], colours: bool
) -> None:
    """A pipe gets colours only when they are forced; NO_COLOR wins."""
    assert Captured(monkeypatch, env).output.colour is colours


def test_a_terminal_that_knows_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the encoding cannot say is escaped, and nothing fails."""
    captured = Captured(monkeypatch, {}, encoding="ascii")
    captured.output.line("naïve — 日本")

    assert captured.text == "na\\xefve \\u2014 \\u65e5\\u672c\n"


COLUMNS = (TableColumn("#", right=True), TableColumn("empty"), TableColumn("about", cut=True))
ROWS = (
    ("1", "", "plain"),
    ("12", "", "日本語 " * 60),
    ("3", "", "[bold]x[/oops] \x1b[31m :smile: \n second line"),
)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_table_fits(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """A table is as wide as the terminal at most, counted in cells; what is cut ends in an
    ellipsis.
    """
    captured = Captured(monkeypatch, {"COLUMNS": str(width)})
    table.show(captured.output, COLUMNS, ROWS)
    lines = captured.text.splitlines()

    assert len(lines) == 1 + len(ROWS)
    assert max(map(cells, lines)) <= width
    assert lines[2].endswith("…")
    assert lines[0].split() == ["#", "about"]


def test_table_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody looks nothing is cut; markup is text, and a cell is one line."""
    captured = Captured(monkeypatch, {})
    table.show(captured.output, COLUMNS, ROWS)

    assert captured.text.splitlines() == [
        " #  about",
        " 1  plain",
        "12  " + ("日本語 " * 60).strip(),
        " 3  [bold]x[/oops] ^[[31m :smile: second line",
    ]


def cells(line: str) -> int:
    """How many columns a line takes."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in line)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "just now"),
        (1, "1 second ago"),
        (59, "59 seconds ago"),
        (60, "1 minute ago"),
        (3 * 3600 + 59, "3 hours ago"),
        (86400, "1 day ago"),
        (8 * 86400, "1 week ago"),
        (70 * 86400, "2 months ago"),
        (800 * 86400, "2 years ago"),
        (-30, "just now"),
        (-3600, "in the future"),
    ],
)
def test_ago(seconds: int, said: str) -> None:
    """A time is told by its largest unit; a clock that went wrong is said to have."""
    assert humanize.ago(NOW - timedelta(seconds=seconds), NOW) == said


@given(st.integers(0, 10**12))
def test_ago_is_always_said(seconds: int) -> None:
    """Any time in the past is so many of something ago."""
    past = NOW - timedelta(seconds=seconds % (2000 * 365 * 86400))

    assert re.fullmatch(
        r"just now|[0-9,]+ (second|minute|hour|day|week|month|year)s? ago", humanize.ago(past, NOW)
    )
    assert re.fullmatch(r"now|[0-9]{1,2}(s|m|h|d|w|mo)|[0-9]{1,4}y", humanize.age(past, NOW))
    assert humanize.age(NOW - timedelta(days=70), NOW) == "2mo"


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1,023 bytes"),
        (1024, "1.0 KiB"),
        (1 << 20, "1.0 MiB"),
        (1 << 42, "4096.0 GiB"),
    ],
)
def test_size(number: int, said: str) -> None:
    """Sizes are in the unit that fits, in steps of 1024."""
    assert humanize.size(number) == said


def test_listed() -> None:
    """A list is cut with how many more there are; one that fits is whole."""
    assert humanize.listed(["a", "b"], 2) == ["a", "b"]
    assert humanize.listed(["a", "b", "c", "d"], 2) == ["a", "b", "… and 2 more"]


@given(parts=st.lists(everything), colour=st.booleans())
def test_joined_parts_are_shown_part_by_part(parts: list[str], colour: bool) -> None:
    """What parts become does not depend on whether they are written together."""
    output = Output({"FORCE_COLOR": "1" if colour else "0"})
    styled = [Styled(part, RED if number % 2 else PLAIN) for number, part in enumerate(parts)]
    plain = [Styled("plain", RED), Styled(" text", PLAIN)]
    for each in (styled, plain):
        assert output.joined(each) == "".join(map(output.shown, each))
