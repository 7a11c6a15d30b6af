"""Bytes → the secrets in them, by the rules, and the same bytes with each of them replaced.

Tokens are looked for only in runs of twenty and more of the bytes that tokens are made of: mapping all others to one
byte and finding such runs costs a thousandth of a second a megabyte, where trying each rule everywhere costs a second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from gitcp.secrets.rules import CONTEXTS, SECRET_NAME, TOKENS, Rule

RUN = 20
IN_RUN, OUTSIDE = b"x", b"."
RUN_BYTES = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")
CLASSES = bytes(IN_RUN[0] if byte in RUN_BYTES else OUTSIDE[0] for byte in range(256))

BEFORE = 64
SEPARATORS = b" \t\"'\\`:=>"
CACHED = 4096
LONGEST_NAMED = 200

PLACEHOLDER = re.compile(
    rb"(?i)example|placeholder|redacted|changeme|change[_-]me|your[_-]|dummy|xxxxx|\*\*\*|\.\.\.|00000000|12345678"
    rb"|abcdefgh|not[_-]?a[_-]?real|fake|sample|insert[_-]|replace[_-]"
)
NAMED_VALUE = re.compile(
    rb"[a-z]+(?:[_.-][A-Za-z]+)*\d{0,2}|[A-Z]+(?:_[A-Z]+)*\d{0,2}|[A-Za-z.]+(?:[A-Z][a-z]+)+\d{0,2}"
)
UUID = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Secret(NamedTuple):
    """One secret: the rule that found it, and where it begins and ends."""

    rule: str
    start: int
    end: int


def _by_prefix() -> dict[bytes, tuple[Rule, ...]]:
    """The rules to try where a prefix stands: its own, and those of prefixes that it begins with."""
    prefixes = {literal for rule in TOKENS for literal in rule.literals}
    return {
        prefix: tuple(rule for rule in TOKENS if any(prefix.startswith(literal) for literal in rule.literals))
        for prefix in prefixes
    }


BY_PREFIX = _by_prefix()


def _trie(prefixes: Iterable[bytes]) -> bytes:
    """A pattern of all prefixes, sorted under their first bytes: most places are given up after one comparison."""
    below: dict[bytes, list[bytes]] = {}
    for prefix in sorted(prefixes, key=lambda p: (-len(p), p)):
        below.setdefault(prefix[:1], []).append(re.escape(prefix[1:]))
    return b"|".join(first + b"(?:" + b"|".join(rest) + b")" for first, rest in below.items())


PREFIX = re.compile(_trie(BY_PREFIX))
LATER_PREFIX = re.compile(rb"[_.-](" + _trie(BY_PREFIX) + b")")
ESCAPES = {b"\\": re.compile(rb"u[0-9a-fA-F]{4}|[nrtbf]"), b"%": re.compile(rb"[0-9a-fA-F]{2}")}
"""What an escape leaves at the front of a run that it stands before."""
VERSION = sha256(repr([(r.name, r.literals, r.pattern.pattern) for r in (*TOKENS, *CONTEXTS)]).encode()).hexdigest()
"""Changes with the rules: what was found clean by others is scanned again."""


def scan(data: bytes, known: Iterable[tuple[str, bytes]] = ()) -> tuple[Secret, ...]:
    """The secrets in `data`, in order; none overlaps another.

    `known` are others that are looked for as they are, with the name of the rule that found them.
    """
    found = [*_in_runs(data), *_in_context(data)]
    given = list(_given(data, known))
    found.sort(key=lambda secret: (secret.start, secret.rule == "named-secret", -secret.end))
    found = sorted([*found, *given], key=lambda secret: secret.start) if given else found
    apart: list[Secret] = []
    for secret in found:
        if not apart or secret.start >= apart[-1].end:
            apart.append(secret)
        elif given and secret.end > apart[-1].end:
            apart[-1] = apart[-1]._replace(end=secret.end)  # both, since no part of either may be left
    return tuple(apart)


def _given(data: bytes, known: Iterable[tuple[str, bytes]]) -> Iterator[Secret]:
    for rule, text in known:
        place = data.find(text)
        while place >= 0:
            yield Secret(rule, place, place + len(text))
            place = data.find(text, place + len(text))


def redact(
    data: bytes,
    wanted: Callable[[Secret, bytes], bool] = lambda _secret, _text: True,
    known: Iterable[tuple[str, bytes]] = (),
) -> bytes:
    """`data` with `[REDACTED:rule]` for every secret that is `wanted`. JSON and paths stay what they are."""
    parts, place = [], 0
    for secret in scan(data, known):
        if wanted(secret, data[secret.start : secret.end]):
            parts += [data[place : secret.start], b"[REDACTED:%s]" % secret.rule.encode()]
            place = secret.end
    return b"".join([*parts, data[place:]]) if parts else data


def fingerprint(rule: str, text: bytes) -> str:
    """The ID of a secret, the same wherever it stands. It tells nothing of a token; a weak password can be guessed."""
    return sha256(b"gitcp secret\0%s\0%s" % (rule.encode(), text)).hexdigest()[:12]


def masked(text: bytes) -> str:
    """What may be shown of a secret: how it begins, and how long it is."""
    return f"{text[: shown(text)].decode('ascii', 'replace')}… ({len(text)} bytes)"


def shown(text: bytes) -> int:
    """How many bytes of a secret may be shown."""
    return min(6, len(text) // 4)


def _in_runs(data: bytes) -> Iterator[Secret]:
    classes, needle = data.translate(CLASSES), IN_RUN * RUN
    start = classes.find(needle)
    while start >= 0:
        end = classes.find(OUTSIDE, start + RUN)
        end = end if end >= 0 else len(data)
        place = yield from _tokens(data, start, end)
        if place == start and data[start - 1] in SEPARATORS and end - start <= LONGEST_NAMED:
            yield from _named(data, start, end)
        start = classes.find(needle, max(end, place))


def _tokens(data: bytes, start: int, end: int) -> Generator[Secret, None, int]:
    """The tokens that begin in a run; returns where the last one ends (`start` where there is none).

    A token does not begin inside a word, unless what is before it is the end of an escape.
    """
    last, place = start, start
    escape = ESCAPES.get(data[start - 1 : start])
    if escape is not None and (match := escape.match(data, start)) is not None:
        place = match.end()
    found = PREFIX.match(data, place) or LATER_PREFIX.search(data, place, end)
    while found is not None:
        begin, prefix = found.span(found.lastindex or 0)[0], found[found.lastindex or 0]
        place = begin + len(prefix) - 1
        longest = _longest(data, begin, prefix)
        if longest is not None:
            place = longest.end  # also past a placeholder: it may be long, and begin again in every part of it
            if _is_real(data[begin + len(prefix) : place]):
                yield longest
                last = place
        found = LATER_PREFIX.search(data, place, end) if place < end else None
    return last


def _longest(data: bytes, begin: int, prefix: bytes) -> Secret | None:
    """What the rules of a prefix make of what begins here: the longest, if more than one fits."""
    found = None
    for rule in BY_PREFIX[prefix]:
        match = rule.pattern.match(data, begin)
        if match is not None and (found is None or match.end() > found.end):
            found = Secret(rule.name, match.start("secret"), match.end("secret"))
    return found


def _named(data: bytes, start: int, end: int) -> Iterator[Secret]:
    """A value that is called a secret by the name before it, and looks like one."""
    before = data[max(0, start - BEFORE) : start]
    name = before.rstrip(SEPARATORS)
    if not _calls_secret(name[-32:]) or not {58, 61} & set(before[len(name) :]):
        return
    value = data[start:end].rstrip(b".-_")
    digits = sum(48 <= byte <= 57 for byte in value)
    if 3 <= digits < len(value) and len(value) >= RUN and not UUID.fullmatch(value) and _is_real(value):
        yield Secret("named-secret", start, start + len(value))


@lru_cache(CACHED)
def _calls_secret(name: bytes) -> bool:
    """Remembered, since a transcript has few names and each of them often."""
    return SECRET_NAME.search(name) is not None


def _in_context(data: bytes) -> Iterator[Secret]:
    for rule in CONTEXTS:
        for literal in rule.literals:
            place = data.find(literal)
            while place >= 0:
                match = _around(data, rule, place)
                if match is not None and _is_plausible(rule.name, match):
                    yield Secret(rule.name, match.start("secret"), match.end("secret"))
                    place = max(place, match.end() - 1)
                place = data.find(literal, place + 1)


def _around(data: bytes, rule: Rule, place: int) -> re.Match[bytes] | None:
    """The rule's match that has its literal at `place`; it begins there, or a few bytes before."""
    starts = range(max(0, place - rule.back), place + 1)
    return next((match for start in starts if (match := rule.pattern.match(data, start)) is not None), None)


def _is_plausible(rule: str, match: re.Match[bytes]) -> bool:
    text = match["secret"]
    if rule == "url-password":
        return _is_password(text) and text != match["user"]
    if rule == "password":
        return _is_password(text) and len({_kind(byte) for byte in text}) >= 3
    return _is_real(text)


def _is_password(text: bytes) -> bool:
    """Whether a short text is more likely a password than a word, a name in code, or a placeholder."""
    mixed = len({_kind(byte) for byte in text}) >= 2
    return mixed and len(set(text)) >= 5 and not PLACEHOLDER.search(text) and not NAMED_VALUE.fullmatch(text)


def _kind(byte: int) -> str:
    if 48 <= byte <= 57:
        return "digit"
    if 65 <= byte <= 90:
        return "upper"
    return "lower" if 97 <= byte <= 122 else "sign"


def _is_real(body: bytes) -> bool:
    """Whether this is no placeholder of somebody's documentation."""
    return len(set(body)) >= 6 and PLACEHOLDER.search(body) is None
