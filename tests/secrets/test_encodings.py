"""Secrets that were written in another way: found where they stand, taken out whole, and JSON stays
JSON.
"""

from __future__ import annotations

import base64
import json
import random
import time
from collections.abc import Callable
from itertools import count
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokens import ALNUM, HEX, drawn, in_context, tokens

from gitcp.secrets.encodings import BESIDE, FARTHEST, blanked, controls, in_base64, unescaped
from gitcp.secrets.scan import fingerprint, redact, scan

KINDS = tokens()
TOKEN = KINDS["github-token"]
NAME = "github-token"
SGR = "[01;31m"
ESCAPES = (
    "\x1b",
    "^[",
    "\\u001b",
    "\\u001B",
    "\\x1b",
    "\\x1B",
    "\\033",
    "\\33",
    "\\e",
    "\\E",
    "\\u{1b}",
    "\\\\u001b",
    "\\\\\\\\033",
)
SEQUENCES = (SGR, "[K", "[0m", "[38;5;196m", "[38:2:1:2:3m", "[?25h", "[1 q", "(B")

NUMBERS = count()
"""Names for what has none."""

Encoder = Callable[[str], str]


def b64(text: str) -> str:
    """Base64 of a text."""
    return base64.b64encode(text.encode()).decode()


def url64(text: str) -> str:
    """The same as URLs have it, without what fills it up."""
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def wrapped(text: str, width: int = 76, end: str = "\n") -> str:
    """Base64 in lines."""
    whole = b64(text)
    return end.join(whole[place : place + width] for place in range(0, len(whole), width))


def found_in(text: str | bytes) -> list[tuple[str, bytes]]:
    """The rules and the texts of what is found."""
    return [
        (each.rule, each.text) for each in scan(text.encode() if isinstance(text, str) else text)
    ]


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("sequence", SEQUENCES)
def test_after_color(escape: str, sequence: str) -> None:
    """A token right after a control sequence is found, and only the token is taken out."""
    before, after = f"a.txt:7:key{escape}{sequence}{escape}[K", f"{escape}[m{escape}[K rest"
    text = (before + TOKEN + after).encode()

    assert found_in(text) == [(NAME, TOKEN.encode())]
    assert redact(text) == f"{before}[REDACTED:{NAME}]{after}".encode()


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("place", [1, 4, 5, 20, 39])
def test_color_inside(escape: str, place: int) -> None:
    """A token with a color code in it is found, and taken out with it."""
    inside = TOKEN[:place] + escape + SGR + escape + "[K" + TOKEN[place:]
    text = f"x {inside} y".encode()

    assert found_in(text) == [(NAME, TOKEN.encode())]
    assert redact(text) == f"x [REDACTED:{NAME}] y".encode()


def test_every_kind_colored() -> None:
    """What `grep --color` shows of every kind of token is found, raw and in JSON that stands in
    JSON.
    """
    for kind, token in KINDS.items():
        line = f"src/a.py:3:\x1b{SGR}\x1b[K{token}\x1b[m\x1b[K"
        for text in (line, json.dumps({"a": line}), json.dumps({"a": json.dumps({"b": line})})):
            assert [rule for rule, _ in found_in(text)] == [kind], (kind, text)
            assert token.encode() not in redact(text.encode())


def test_colored_names() -> None:
    """What a name calls a secret is found where the name has another color."""
    for text in (
        "\x1b[36mDB_PASSWORD\x1b[0m=\x1b[32mKq7mX9vB!x\x1b[0m",
        '\x1b[34;1m"password"\x1b[0m\x1b[1;39m:\x1b[0m \x1b[0;32m"Kq7mX9vB!x"\x1b[0m',
        json.dumps("DB_\x1b[01;31m\x1b[KPASSWORD\x1b[m\x1b[K=Kq7mX9vB!x"),
    ):
        assert found_in(text) == [("password", b"Kq7mX9vB!x")], text
        assert b"Kq7m" not in redact(text.encode())


@pytest.mark.parametrize(
    "write",
    [
        lambda t: "".join(f"\\u{ord(c):04x}" for c in t),
        lambda t: "".join(f"\\x{ord(c):02X}" for c in t),
        lambda t: "".join(f"%{ord(c):02X}" for c in t),
        lambda t: "".join(f"%25{ord(c):02x}" for c in t),
        lambda t: t.replace("_", "%5F"),
        lambda t: t.replace("_", "\\u005f"),
        lambda t: t.replace("_", "\\\\u005f"),
        lambda t: t.replace("_", "\\u005cu005f"),
        lambda t: t.replace("_", "%255f"),
    ],
    ids=lambda _: str(next(NUMBERS)),
)
def test_escaped(write: Encoder) -> None:
    """A token of which characters are escaped is found by its ID, and taken out as it was
    written.
    """
    written = write(TOKEN)
    text = f"key={written}&page=2".encode()

    assert found_in(text) == [(NAME, TOKEN.encode())]
    assert redact(text) == f"key=[REDACTED:{NAME}]&page=2".encode()


@pytest.mark.parametrize(
    "write",
    [
        b64,
        url64,
        wrapped,
        lambda t: wrapped("some text before it, and more of it " + t, 64, "\r\n"),
        lambda t: wrapped((t + " ") * 3, 50),
        lambda t: b64(b64("in " + t)),
        lambda t: url64(json.dumps({"password": t, "n": 1})),
        lambda t: b64("é " * 20 + t + " é" * 20),
        lambda t: quote(b64("?>>" + t), safe=""),
        lambda t: b64(quote("/ " + t)),
    ],
    ids=lambda _: str(next(NUMBERS)),
)
def test_base64(write: Encoder) -> None:
    """A token in base64 is found, however the base64 is written; after it is taken out nothing is
    found.
    """
    for kind, token in KINDS.items():
        for before in ("", "x", "ab"):
            text = json.dumps({"a": write(before + (" " if before else "") + token), "b": 1})
            assert {rule for rule, _ in found_in(text)} == {kind}, (kind, text)
            clean = redact(text.encode())
            assert scan(clean) == (), kind
            assert json.loads(clean)["b"] == 1


def test_base64_alone() -> None:
    """Of base64 the characters that hold the token are taken out, and no others."""
    for shift in range(3):
        before, after = "user" + "x" * shift + ":", " and the rest of the text"
        whole = b64(before + TOKEN + after)
        clean = redact(whole.encode()).decode()
        start, end = whole.index(clean.split("[")[0]), clean.rindex("]")

        head, tail = clean[: clean.index("[")], clean[end + 1 :]
        assert start == 0
        assert whole.startswith(head)
        assert whole.endswith(tail)
        assert len(head) == len(before) * 8 // 6
        assert len(whole) - len(tail) == -(-(len(before) + len(TOKEN)) * 8 // 6)


def test_wrapped_in_json() -> None:
    """Lines of base64 in JSON are one text, and stay JSON."""
    text = json.dumps({"a": "-\n" + wrapped("Authorization: token " + TOKEN + " ") + "\n-", "b": 2})

    clean = json.loads(redact(text.encode()))

    assert found_in(text) == [(NAME, TOKEN.encode())]
    assert clean["b"] == 2
    assert clean["a"].startswith("-\n")
    assert clean["a"].endswith("\n-")


def test_base64_below_base64() -> None:
    """After base64 in several lines the next one is read as well, however soon it comes."""
    other = KINDS["npm-token"]
    text = (
        f"{wrapped('some text in front of ' + TOKEN + ' and after it')}\n\n{b64('in ' + other)}\n"
    )

    assert found_in(text) == [(NAME, TOKEN.encode()), ("npm-token", other.encode())]


def test_shortest_base64() -> None:
    """Base64 of eighteen bytes is looked through, of seventeen it is not: too many words would look
    like it.
    """
    assert found_in(f"x {b64('PASSWORD=Kq7mX9vB!')} y") == [("password", b"Kq7mX9vB!")]
    assert found_in(f"x {b64('PASSWORD=Kq7mX9v!')} y") == []


def test_same_id() -> None:
    """A secret has one ID, however it is written."""
    forms = (TOKEN, b64(TOKEN), quote(TOKEN).replace("_", "%5F"), TOKEN[:9] + "\x1b[m" + TOKEN[9:])

    assert {fingerprint(s.rule, s.text) for form in forms for s in scan(form.encode())} == {
        fingerprint(NAME, TOKEN.encode())
    }


@pytest.mark.parametrize("kind", in_context())
def test_context_in_base64(kind: str) -> None:
    """What its surroundings give away is found in base64 with them: a private key in a kubeconfig,
    say.
    """
    before, secret, after = in_context()[kind]
    text = f"    blob: {b64('# ' + before + secret + after)}\n    other: 1\n"

    assert kind in {rule for rule, _ in found_in(text)}
    assert scan(redact(text.encode())) == ()


def test_json_stays_json() -> None:
    """A key that was cut short within an escape, and a token behind one, leave JSON whole."""
    key = in_context()["private-key"][1][:400]
    for text in (
        f'say "{key}',
        f'{key}"',
        f"{key}\\",
        f"\u2028{TOKEN}\u2028",
        f"\b{TOKEN}\f",
        f'"{TOKEN}"',
        "\n" + b64(f"in {TOKEN}"),
    ):
        for line in (json.dumps({"a": text}), json.dumps({"a": json.dumps({"b": text})})):
            clean = redact(line.encode())
            assert b"REDACTED" in clean, line
            assert "REDACTED" in json.loads(clean)["a"]


def test_after_a_backslash() -> None:
    """A token after a backslash is found whether the backslash escapes its first letter or not."""
    token = KINDS["npm-token"]

    assert found_in("C:\\" + token) == [("npm-token", token.encode())]
    assert (
        redact(json.dumps({"a": "C:\\" + token}).encode()) == b'{"a": "C:\\\\[REDACTED:npm-token]"}'
    )
    assert json.loads(redact(b'{"a": "C:\\%s"}' % token.encode())) == {
        "a": "C:\n[REDACTED:npm-token]"
    }


@pytest.mark.parametrize("count", [1, 63, 65, 127, 129, 1023, 100_001])
def test_after_many_backslashes(count: int) -> None:
    """However many there are, JSON stays JSON: half an escape is not taken out with a token."""
    escapes = "\\" * count
    for token in (KINDS["npm-token"], KINDS["nvidia-key"]):
        clean = redact(f'{{"a": "{escapes}{token}", "b": "{token}{escapes}n"}}'.encode())
        assert b"REDACTED" in clean
        assert set(json.loads(clean)) == {"a", "b"}, token


def test_not_text() -> None:
    """Base64 of what is no text, words, paths and hashes are not decoded."""
    source = random.Random(3)
    noise = base64.b64encode(source.randbytes(90_000))

    assert list(in_base64(noise, [(0, len(noise))])) == []
    for text in (
        b"usr/lib/python/dist-packages/Something/Else",
        b"aGVsbG8",
        HEX.encode() * 4,
        b"A" * 400,
    ):
        assert list(in_base64(text, [(0, len(text))])) == []
    for word in (b"agca" * 7, b"CHRS" * 7):  # in letters of one case, whatever comes after it
        assert list(in_base64(word + b" Rest", [(0, len(word))])) == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: base64.b64encode(random.Random(4).randbytes(3 << 20)),
        lambda: base64.b64encode(b"some text that goes on and on, " * 100_000),
        lambda: base64.encodebytes(b"some text that goes on and on, " * 100_000),
        lambda: base64.b64encode(
            base64.b64encode(base64.b64encode(base64.b64encode(b"text upon text " * 80_000)))
        ),
        lambda: base64.b64encode((TOKEN.encode() + b" ") * 20_000),
        lambda: b"%41" * 400_000,
        lambda: b"\\u0041" * 200_000,
        lambda: b"\\\\\\\\" * 300_000,
        lambda: b"\x1b[m" * 400_000,
        lambda: b"a\\u001b[32m" * 100_000,
        lambda: b"YWJj" * 5 * 60_000,
        lambda: (b"YWJj" * 7 + b"\n") * 40_000,
        lambda: (b"YWJj" * 5 + b"!" + b"YWJj" * 7) * 25_000,
        lambda: b"\\/" * 500_000,
    ],
    ids=lambda _: str(next(NUMBERS)),
)
def test_bounded(make: Callable[[], bytes]) -> None:
    """Megabytes of what is encoded are read in time that grows with their size: seconds, where a
    square takes hours.
    """
    data = make()

    start = time.process_time()
    scan(data)

    assert time.process_time() - start < 30


@settings(max_examples=80, deadline=None)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    layers=st.lists(
        st.sampled_from(["json", "base64", "url64", "percent", "color", "lines"]), max_size=3
    ),
    seed=st.integers(0, 1000),
)
def test_layers(kind: str, layers: list[str], seed: int) -> None:
    """A token of any kind that is written in up to three ways, one in the other, is found, and gone
    when redacted.
    """
    ways: dict[str, Encoder] = {
        "json": lambda t: json.dumps({"a": t}),
        "base64": lambda t: b64("Some text: " + t),
        "url64": lambda t: url64("Some text: " + t),
        "percent": lambda t: quote(t, safe=""),
        "color": lambda t: f"\x1b[31m{t}\x1b[0m",
        "lines": lambda t: wrapped("Some text: " + t),
    }
    text = tokens(seed)[kind]
    for layer in layers:
        text = ways[layer](text)

    assert kind in {rule for rule, _ in found_in(text)}
    assert scan(redact(text.encode())) == ()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=12),
            st.sampled_from(
                [
                    TOKEN.encode(),
                    b"\\u001b[31m",
                    b"\\",
                    b"\\n",
                    b"%41",
                    b"\x1b[m",
                    b64(TOKEN).encode(),
                    b'"',
                ]
            ),
        ),
        max_size=12,
    ).map(b"".join)
)
def test_any_bytes(data: bytes) -> None:
    """Whatever the bytes are: places lie in order and in them, and what is redacted keeps all
    else.
    """
    places = [place for each in scan(data) for place in (each.start, each.end)]
    assert places == sorted(places)
    assert all(0 <= place <= len(data) for place in places)
    rest, left = redact(data), 0
    for each in scan(data):
        assert data[left : each.start] in rest
        left = each.end
    assert rest.endswith(data[left:])


@settings(max_examples=200, deadline=None)
@given(
    text=st.text(max_size=40),
    token=st.sampled_from(sorted(KINDS.values())),
    more=st.text(max_size=40),
)
def test_any_json(text: str, token: str, more: str) -> None:
    """JSON of any text around a token is JSON when it is redacted, and says the same around it."""
    for ascii_only in (True, False):
        line = json.dumps({"a": f"{text} {token} {more}"}, ensure_ascii=ascii_only)
        clean = json.loads(redact(line.encode("utf-8", "surrogatepass")))
        assert clean["a"].startswith(text + " [REDACTED:")
        assert clean["a"].endswith(" " + more)


def test_draws() -> None:
    """The made-up tokens differ, so that one is not found for another."""
    draw = drawn(9)
    assert draw(ALNUM, 40) != draw(ALNUM, 40)


def test_controls() -> None:
    """Where control sequences are: whole, with all of their backslashes, also at the beginning and
    at the end.
    """
    for escape in ESCAPES:
        for sequence in SEQUENCES:
            # looked for where others are: it comes with them
            if sequence == "(B" and escape != "\x1b":
                continue
            whole = (escape + sequence).encode()
            for before, after in ((b"", b""), (b"a", b"b"), (b"", b" x"), (b"x\n", b"")):
                data = before + whole + after
                assert controls(data) == [(len(before), len(before) + len(whole))], data
                assert blanked(data, controls(data)) == before + b" " * len(whole) + after
    assert controls(b"\\" * 90 + b"u001b[m")[0][1] == 97
    for data in (
        b"",
        b"[m",
        b"a[31m",
        b"ab[0m",
        b"x = b[3m]",
        b"u001b[m",
        b"\\n[m",
        b"(B",
        b"\\u001b",
        b"\x1b",
        b"\x1b[",
        b"\x1b[31",
        b"1b[m",
    ):
        assert controls(data) == [], data
        assert blanked(data, []) is data


ATOMS = st.sampled_from(
    [(bytes([byte]),) * 2 for byte in b"abcXYZ019_-. ;\n"]
    + [
        (b"\\u005f", b"_"),
        (b"\\\\u002D", b"-"),
        (b"%2e", b"."),
        (b"%252E", b"."),
        (b"\\x41", b"A"),
        (b"\\/", b"/"),
        (b"%41", b"A"),
    ]
    + [
        (b"\x1b[31m", b""),
        (b"\\u001b[0;1m", b""),
        (b"\\033[K", b""),
        (b"^[[m", b""),
        (b"\x1b(B", b""),
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(ATOMS, max_size=400))
def test_readings(atoms: list[tuple[bytes, bytes]]) -> None:
    """What is read has what was written, and each byte of it leads back to where it was written,
    and no further.
    """
    starts, place = {}, 0
    for written, meant in atoms:
        if meant:
            starts[place] = (place + len(written), meant)
        place += len(written)
    data = b"".join(written for written, _ in atoms)
    seen, last = set[int](), 0
    for reading in unescaped(data, controls(data)):
        for index in range(len(reading.text)):
            start, end = reading.span(index, index + 1)
            assert starts[start] == (end, reading.text[index : index + 1])
            assert start >= last
            seen.add(start)
            last = end
        assert not reading.text or reading.span(0, len(reading.text))[1] == last
    place = 0
    for written, meant in atoms:
        if written != meant:
            near = [
                each for each in starts if place - BESIDE < each < place + len(written) + BESIDE
            ]
            assert seen.issuperset(near)
        place += len(written)


def test_windows() -> None:
    """Around an escape a word is read whole, up to 4 KiB of it on each side, and nothing twice."""
    word = b"x" * 300
    for data, read in (
        (b"(" * 200 + word + b"%41" + word + b"(" * 200, word + b"A" + word),
        (word + b"%41" + word, word + b"A" + word),
        (b"(" * 200 + b"%41" + b"(" * 200, b"(" * 0 + b"A" + b"(" * 100),
        (b"%41" + b" " * 99 + b"%42", b"A" + b" " * 99 + b"B"),
    ):
        (reading,) = unescaped(data, [])
        assert reading.text.strip(b"(") == read.strip(b"("), data
    (long,) = unescaped(b"y" * 9000 + b"%41" + b"z" * 9000, [])
    assert long.text == b"y" * FARTHEST + b"A" + b"z" * FARTHEST
    far = list(unescaped(b"%41" + b" " * 500 + b"%42", []))
    assert [each.text.strip() for each in far] == [b"A", b"B"]
    assert all(each.text.count(b" ") <= BESIDE + 1 for each in far)
    touching = list(unescaped(b"%41" + b"w" * 9000 + b"%42", []))
    places = [touching[0].span(0, len(touching[0].text))[1], touching[1].span(0, 1)[0]]
    assert places == sorted(places)
    assert list(unescaped(b"no escape here", [])) == []


@settings(max_examples=300, deadline=None)
@given(
    before=st.text("ab /\n", max_size=9),
    text=st.text("abcdefghij KLMNOP0123456789{}:,-_.", min_size=24, max_size=120),
    width=st.integers(24, 80),
    end=st.sampled_from(["\n", "\r\n", "\\n", "\\r\\n", "\\\\n", "%0A", "%0D%0a"]),
)
def test_base64_places(before: str, text: str, width: int, end: str) -> None:
    """Base64 of a text is read whole, and each byte leads back to the characters that hold it."""
    whole = b64(text)
    lines = [whole[place : place + width] for place in range(0, len(whole), width)]
    if len(lines[-1]) < 4:  # a rest that could be the beginning of a word
        return
    data = f'{before}"{end.join(lines)}"'.encode()
    offset = len(before) + 1
    (reading,) = [
        each
        for each in in_base64(data, [(offset, offset + len(lines[0]))])
        if text.encode() in each.text
    ]
    for index in range(len(text)):
        at = reading.text.index(text.encode()) + index
        start, stop = reading.span(at, at + 1)
        first, last = index * 8 // 6, (index * 8 + 7) // 6
        assert start == offset + first + first // width * len(end)
        assert stop == offset + last + last // width * len(end) + 1


@pytest.mark.parametrize("gap", range(1, 9))
@pytest.mark.parametrize("more", range(4))
def test_base64_in_a_run(gap: int, more: int) -> None:
    """What is text is read where base64 of something else stands before it and after it, however
    far that goes.
    """
    data = b"YWJj" * 7 + b"/" * gap + b"YWJj" * 6 + b"A" * more
    first, second = in_base64(data, [(0, len(data))])

    assert first.text.startswith(b"abc" * 7)
    at = second.text.index(b"abc" * 6)
    assert second.span(at, at + 18) == (28 + gap, 28 + gap + 24)


def test_depth() -> None:
    """What was written in three ways one in the other is read, in four it is not: the work is
    bounded.
    """
    text = f"in {TOKEN} "
    for _ in range(3):
        text = b64(text)
    assert found_in(text) == [(NAME, TOKEN.encode())]
    assert found_in(b64(text)) == []


def test_shells() -> None:
    """Base64 in which a secret is found is no secret by its name too; what is more than that is."""
    inner = b64(f"bot:{TOKEN} ")

    assert found_in(f"API_TOKEN={inner}") == [(NAME, TOKEN.encode())]
    assert found_in(f"API_TOKEN={b64('x7' * 3 + TOKEN[::-1])}")[0][0] == "named-secret"
    assert {rule for rule, _ in found_in(f'password: "9x!{TOKEN}"')} == {"password"}
    assert redact(f'password: "9x!{TOKEN}"'.encode()) == b'password: "[REDACTED:password]"'


def test_longer_than_a_value() -> None:
    """A token that goes on where the value of a name is cut off is taken out to its end."""
    token = "bedrock-api-key-" + drawn(3)(ALNUM, 4500)
    text = f"x {TOKEN} API_TOKEN=9x!{token} y".encode()

    assert [(each.rule, each.end - each.start) for each in scan(text)] == [
        (NAME, len(TOKEN)),
        ("named-secret", 4000),
        ("bedrock-short-term-key", len(token) + 3 - 4000),
    ]
    assert (
        redact(text)
        == f"x [REDACTED:{NAME}] API_TOKEN=[REDACTED:named-secret][REDACTED:bedrock-short-term-key] y".encode()  # noqa: E501
    )


def test_one_after_another() -> None:
    """Secrets that follow each other, or overlap, are all taken out, and each place once."""
    other = KINDS["npm-token"]
    assert redact(f"{TOKEN} {other},{TOKEN}".encode()) == (
        f"[REDACTED:{NAME}] [REDACTED:npm-token],[REDACTED:{NAME}]".encode()
    )
    assert (
        redact(f"https://user:{TOKEN}@a.dev/".encode())
        == f"https://user:[REDACTED:{NAME}]@a.dev/".encode()
    )
    assert (
        redact(b"ab cd ef", literals=[("a", b"b c"), ("b", b"c"), ("c", b"cd e")])
        == b"a[REDACTED:a]f"
    )
    assert [each.text for each in scan(b"ab cd ef", [("a", b"b c"), ("c", b"cd e")])] == [b"b cd e"]
