"""Bytes → the secrets in them, by the rules, and the same bytes with each of them replaced.

Tokens are looked for only in runs of twenty and more of the bytes that tokens are made of: mapping
all others to one byte and finding such runs costs a thousandth of a second a megabyte, where trying
each rule everywhere costs a second. What was written in another way (terminal colors, escapes,
base64) is read back and looked through as well.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from itertools import chain
from typing import NamedTuple

from gitcp.secrets import encodings, named, values
from gitcp.secrets.encodings import Reading, backslashes
from gitcp.secrets.rules import CONTEXTS, IN_RUNS, TOKENS, Rule
from gitcp.secrets.values import is_password, is_real, looks_random

RUN = 20
IN_RUN, OUTSIDE = b"x", b"."
RUN_BYTES = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.+/")
CLASSES = bytes(IN_RUN[0] if byte in RUN_BYTES else OUTSIDE[0] for byte in range(256))

Place = tuple[str, int, int]
"""A rule, and where in the bytes it found something: from, to."""

BASE64 = re.compile(rb"[A-Za-z0-9+/_-]+={0,2}")
BEFORE_ESCAPE = b"\\%"
IN_JSON = re.compile(rb"u[0-9a-fA-F]{4}|[\"/bfnrt]")

DEPTH = 3
"""How often something may have been written in another way: JSON in base64 in JSON."""

WEAK = frozenset({"named-secret", "password", "url-password", "bearer-token"})
"""Rules that go by surroundings. Where another rule found something, it says better what it is."""

EDITION = 2
"""Goes up whenever the scan finds more with the same rules."""


class Secret(NamedTuple):
    """One secret: the rule that found it, where it begins and ends, and what it is: decoded, if it
    was encoded.
    """

    rule: str
    start: int
    end: int
    text: bytes


def _by_prefix() -> dict[bytes, tuple[Rule, ...]]:
    """The rules to try where a prefix stands: its own, and those of prefixes that it begins
    with.
    """
    prefixes = {literal for rule in TOKENS for literal in rule.literals}
    return {
        prefix: tuple(
            rule for rule in TOKENS if any(prefix.startswith(literal) for literal in rule.literals)
        )
        for prefix in prefixes
    }


BY_PREFIX = _by_prefix()


def _trie(prefixes: Iterable[bytes]) -> bytes:
    """A pattern of all prefixes, sorted under their first bytes: most places are given up after one
    comparison.
    """
    below: dict[bytes, list[bytes]] = {}
    for prefix in sorted(prefixes, key=lambda p: (-len(p), p)):
        below.setdefault(prefix[:1], []).append(re.escape(prefix[1:]))
    return b"|".join(first + b"(?:" + b"|".join(rest) + b")" for first, rest in below.items())


PREFIX = re.compile(rb"[^A-Za-z0-9](?=(" + _trie(BY_PREFIX) + b"))")
"""Nothing is consumed but what is before it: the sign at its end may be what stands before the
next.
"""

ESCAPES = {
    b"\\": re.compile(rb"u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[0-7]{1,3}|[nrtbfave]"),
    b"%": re.compile(rb"(?:25)*[0-9a-fA-F]{2}"),
}
"""What an escape leaves at the front of a run that it stands before."""
PATTERNS = [
    each.pattern
    for module in (encodings, named, values)
    for each in vars(module).values()
    if isinstance(each, re.Pattern)
]
VERSION = sha256(
    repr(
        [
            EDITION,
            [(*r[:2], r[2].pattern, *r[3:]) for r in (*TOKENS, *CONTEXTS, *IN_RUNS)],
            PATTERNS,
        ]
    ).encode()
).hexdigest()
"""Changes with the rules: what was found clean by others is scanned again."""


def scan(data: bytes, known: Iterable[tuple[str, bytes]] = ()) -> tuple[Secret, ...]:
    """The secrets in `data`, in order; none overlaps another.

    `known` are others that are looked for as they are, with the name of the rule that found them.
    """
    found = sorted(
        (_kept_whole(data, each) for each in _without_shells(_found(data, DEPTH))),
        key=lambda secret: (secret.start, secret.rule in WEAK, -secret.end),
    )
    given = list(_given(data, known))
    found = sorted([*found, *given], key=lambda secret: secret.start) if given else found
    apart: list[Secret] = []
    for secret in found:
        if not apart or secret.start >= apart[-1].end:
            apart.append(secret)
        elif given and secret.end > apart[-1].end:
            whole = data[apart[-1].start : secret.end]  # both, since no part of either may be left
            apart[-1] = apart[-1]._replace(end=secret.end, text=whole)
        elif secret.end > apart[-1].end and secret.rule not in WEAK:
            apart.append(secret._replace(start=apart[-1].end))
    return tuple(apart)


def _without_shells(found: Iterable[Secret]) -> list[Secret]:
    """What was found, but for base64 that only its name calls secret, if a secret was found in
    it.
    """
    found = list(found)
    starts = sorted(secret.start for secret in found if secret.rule not in WEAK)
    return [
        secret
        for secret in found
        if secret.rule not in WEAK
        or not BASE64.fullmatch(secret.text)
        or bisect_left(starts, secret.end) == bisect_left(starts, secret.start)
    ]


def _given(data: bytes, known: Iterable[tuple[str, bytes]]) -> Iterator[Secret]:
    for rule, text in known:
        place = data.find(text)
        while place >= 0:
            yield Secret(rule, place, place + len(text), text)
            place = data.find(text, place + len(text))


def _kept_whole(data: bytes, secret: Secret) -> Secret:
    """The secret without a part of an escape at its ends, which would be no JSON without the other
    part.
    """
    start, end = secret.start, secret.end
    if backslashes(data, start) % 2 and (match := IN_JSON.match(data, start)) is not None:
        start = match.end()
    if backslashes(data, end) % 2:
        end -= 1
    return secret._replace(start=start, end=end) if start < end else secret


def redact(
    data: bytes,
    wanted: Callable[[Secret, bytes], bool] = lambda _secret, _text: True,
    known: Iterable[tuple[str, bytes]] = (),
) -> bytes:
    """`data` with `[REDACTED:rule]` for every secret that is `wanted`. JSON and paths stay what
    they are.
    """
    parts, place = [], 0
    for secret in scan(data, known):
        if wanted(secret, secret.text):
            parts += [data[place : secret.start], b"[REDACTED:%s]" % secret.rule.encode()]
            place = secret.end
    return b"".join([*parts, data[place:]]) if parts else data


def fingerprint(rule: str, text: bytes) -> str:
    """The ID of a secret, the same wherever it stands. It tells nothing of a token; a weak password
    can be guessed.
    """
    return sha256(b"gitcp secret\0%s\0%s" % (rule.encode(), text)).hexdigest()[:12]


def masked(text: bytes) -> str:
    """What may be shown of a secret: how it begins, and how long it is."""
    return f"{text[: shown(text)].decode('ascii', 'replace')}… ({len(text)} bytes)"


def shown(text: bytes) -> int:
    """How many bytes of a secret may be shown."""
    return min(6, len(text) // 4)


def _found(data: bytes, depth: int) -> Iterator[Secret]:
    """All that is found, in no order, also twice. `depth` is how often what was encoded is
    decoded.
    """
    controls = encodings.controls(data)
    plain = encodings.blanked(data, controls)
    runs = _runs(plain)
    joined = _joined(plain, runs)
    places = chain(_tokens(plain, joined), _in_context(plain, joined), named.found(plain))
    yield from (Secret(rule, start, end, plain[start:end]) for rule, start, end in places)
    if depth:
        for reading in chain(encodings.unescaped(data, controls), encodings.in_base64(plain, runs)):
            for secret in _found(reading.text, depth - 1):
                start, end = reading.span(secret.start, secret.end)
                yield secret._replace(start=start, end=end)


def _runs(data: bytes) -> list[tuple[int, int]]:
    """Where runs of the bytes of tokens begin and end that are long enough for one."""
    classes, needle = data.translate(CLASSES), IN_RUN * RUN
    runs = []
    start = classes.find(needle)
    while start >= 0:
        end = classes.find(OUTSIDE, start + RUN)
        end = end if end >= 0 else len(data)
        runs.append((start, end))
        start = classes.find(needle, end)
    return runs


def _joined(data: bytes, runs: Iterable[tuple[int, int]]) -> Reading:
    """The runs one after another, each after a space. Where the rest of an escape begins one, it is
    there twice.
    """
    parts, at, place = [], list[int](), list[int]()
    length = 0
    for start, end in runs:
        starts = [start]
        if start and data[start - 1] in BEFORE_ESCAPE:
            escape = ESCAPES[data[start - 1 : start]].match(data, start)
            starts += [escape.end()] if escape is not None else []
        for each in starts:
            parts.append(data[each:end])
            at.append(length)
            place.append(each - 1)
            length += 1 + end - each
    return Reading(b" " + b" ".join(parts), at, place, {})


def _tokens(data: bytes, joined: Reading) -> Iterator[Place]:
    """The tokens in runs. None begins inside a word, unless what is before it is the end of an
    escape.
    """
    past, last = 0, 0
    for found in PREFIX.finditer(joined.text):
        begin = joined.where(found.start(1))
        # the rest of an escape has ended: what begins here may be longer than what it hid
        if begin < last:
            past = 0
        last = begin
        if begin < past:
            continue
        if (longest := _longest(data, begin, found[1])) is not None:
            # also past a placeholder: it may begin again in every part of it
            rule, past, is_drawn = longest
            if is_drawn:
                yield rule, begin, past


def _longest(data: bytes, begin: int, prefix: bytes) -> tuple[str, int, bool] | None:
    """What the rules of a prefix make of what begins here: the longest, where it ends, and whether
    it is real.
    """
    longest, end = None, begin
    for rule in BY_PREFIX[prefix]:
        match = rule.pattern.match(data, begin)
        if match is not None and match.end() > end:
            longest, end = rule, match.end()
    if longest is None:
        return None
    body = data[begin + len(prefix) : end]
    return longest.name, end, looks_random(body) if longest.random else is_real(body)


def _in_context(data: bytes, joined: Reading) -> Iterator[Place]:
    for rule in CONTEXTS:
        past = 0
        for place in _places(data, rule.literals[0]):
            match = (
                rule.pattern.match(data, place - rule.back)
                if place >= max(rule.back, past)
                else None
            )
            if match is not None and _is_plausible(rule.name, match):
                yield rule.name, *match.span("secret")
                past = match.end() - 1
    for rule in IN_RUNS:
        for mark in _places(joined.text, rule.literals[0]):
            start = mark - rule.back
            if rule.back and (start < 1 or joined.text[start - 1 : start].isalnum()):
                continue
            match = rule.pattern.match(data, joined.where(mark) - rule.back)
            if match is not None and is_real(match["secret"]):
                yield rule.name, *match.span("secret")


def _places(data: bytes, literal: bytes) -> Iterator[int]:
    place = data.find(literal)
    while place >= 0:
        yield place
        place = data.find(literal, place + 1)


def _is_plausible(rule: str, found: re.Match[bytes]) -> bool:
    if rule == "url-password":
        return is_password(found["secret"]) and found["secret"] != found["user"]
    return is_real(found["secret"])
