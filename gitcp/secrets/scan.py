"""Find and redact the secrets in bytes.

Tokens are searched only in runs of at least 20 token characters: finding the runs takes 1 ms
per MB, trying each rule everywhere takes 1 s. Re-encoded data (terminal colors, escapes,
base64) is decoded and scanned too.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from itertools import accumulate, chain
from typing import NamedTuple

from gitcp.secrets import encodings, named, values
from gitcp.secrets.encodings import Reading, backslashes
from gitcp.secrets.rules import BEFORE_RUN, CONTEXTS, IN_RUNS, TOKENS, Rule
from gitcp.secrets.values import is_password, is_real, looks_random

RUN = 20
IN_RUN, OUTSIDE = b"x", b"."
RUN_BYTES = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.+/")
CLASSES = bytes(IN_RUN[0] if byte in RUN_BYTES else OUTSIDE[0] for byte in range(256))

Span = tuple[str, int, int]
"""A rule with the start and end offset of its match."""

BASE64 = re.compile(rb"[A-Za-z0-9+/_-]+={0,2}")
BEFORE_ESCAPE = b"\\%"
SHORTEST_MARKED = 32
LONGEST_MARK = 32
LONGEST_KEY = 4000
FERNET = 43
ASANA = re.compile(rb"[0-9a-f]{32}")
KEY_TYPE = re.compile(rb"kty\\*\"[ \t]{0,4}:[ \t]{0,4}\\*\"(?P<type>RSA|EC|OKP|oct)")
DIGIT = re.compile(rb"[0-9]")
NEON = b"npg_"
PERCENT = re.compile(rb"%[0-9A-Fa-f]{2}")
IN_JSON = re.compile(rb"u[0-9a-fA-F]{4}|[\"/bfnrt]")

DEPTH = 3
"""Maximum levels of encoding, e.g. JSON in base64 in JSON."""

WEAK = frozenset(
    "named-secret password url-password url-token bearer-token command-password pgpass-password "
    "azure-signature jwk-private-key".split()
)
"""Rules based on context. A match of another rule at the same place is preferred."""

EDITION = 3
"""Increased whenever the scan finds more with the same rules."""


class Secret(NamedTuple):
    """One secret: its rule, its start and end offset, and its decoded text."""

    rule: str
    start: int
    end: int
    text: bytes


def _by_prefix() -> dict[bytes, tuple[Rule, ...]]:
    """Return the rules to try at each prefix: its own, and those of shorter prefixes of it."""
    prefixes = {literal for rule in TOKENS for literal in rule.literals}
    return {
        prefix: tuple(
            rule for rule in TOKENS if any(prefix.startswith(literal) for literal in rule.literals)
        )
        for prefix in prefixes
    }


BY_PREFIX = _by_prefix()


def _trie(prefixes: Iterable[bytes]) -> bytes:
    """Return a pattern for all prefixes, grouped by first byte: most positions fail after one
    comparison.
    """
    by_first: dict[bytes, list[bytes]] = {}
    for prefix in sorted(prefixes, key=lambda p: (-len(p), p)):
        by_first.setdefault(prefix[:1], []).append(re.escape(prefix[1:]))
    return b"|".join(first + b"(?:" + b"|".join(rest) + b")" for first, rest in by_first.items())


PREFIX = re.compile(rb"[^A-Za-z0-9](?=(" + _trie(BY_PREFIX) + b"))")
"""Consumes only the character before the prefix, since that can be the last one of the previous
match.
"""


def _by_literals() -> dict[tuple[bytes, ...], list[Rule]]:
    """Return the context rules by their literals, so that each literal is searched once."""
    grouped: dict[tuple[bytes, ...], list[Rule]] = {}
    for rule in CONTEXTS:
        grouped.setdefault(rule.literals, []).append(rule)
    return grouped


BY_LITERALS = _by_literals()
FINDERS = {
    rule.literals: re.compile(
        re.escape(rule.literals[0][:1])
        + b"(?:"
        + b"|".join(re.escape(literal[1:]) for literal in rule.literals)
        + b")"
    )
    for rule in (*CONTEXTS, *IN_RUNS)
    if len(rule.literals) > 1
}

ESCAPES = {
    b"\\": re.compile(rb"u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[0-7]{1,3}|[nrtbfave]"),
    b"%": re.compile(rb"(?:25)*[0-9a-fA-F]{2}"),
}
"""The rest of an escape at the start of a run, by the character before the run."""
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
            BEFORE_RUN.pattern,
        ]
    ).encode()
).hexdigest()
"""Changes with the rules, so that clean objects are scanned again."""


def scan(data: bytes, literals: Iterable[tuple[str, bytes]] = ()) -> tuple[Secret, ...]:
    """Return the secrets in `data`, in order, without overlaps.

    `literals` are additional (rule, text) pairs to find verbatim.
    """
    matches = sorted(
        (_trim_escapes(data, each) for each in _drop_enclosing(_secrets(data, DEPTH))),
        key=lambda secret: (secret.start, secret.rule in WEAK, -secret.end),
    )
    exact = list(_exact(data, literals))
    matches = sorted([*matches, *exact], key=lambda secret: secret.start) if exact else matches
    separate: list[Secret] = []
    for secret in matches:
        if not separate or secret.start >= separate[-1].end:
            separate.append(secret)
        elif exact and secret.end > separate[-1].end:
            whole = data[
                separate[-1].start : secret.end
            ]  # both, since no part of either may be left
            separate[-1] = separate[-1]._replace(end=secret.end, text=whole)
        elif secret.end > separate[-1].end and secret.rule not in WEAK:
            separate.append(secret._replace(start=separate[-1].end))
    return tuple(separate)


def _drop_enclosing(matches: Iterable[Secret]) -> list[Secret]:
    """Drop base64 values that are only secret by their name, if a secret was found inside them."""
    matches = list(matches)
    starts = sorted(secret.start for secret in matches if secret.rule not in WEAK)
    return [
        secret
        for secret in matches
        if secret.rule not in WEAK
        or not BASE64.fullmatch(secret.text)
        or bisect_left(starts, secret.end) == bisect_left(starts, secret.start)
    ]


def _exact(data: bytes, known: Iterable[tuple[str, bytes]]) -> Iterator[Secret]:
    for rule, text in known:
        at = data.find(text)
        while at >= 0:
            yield Secret(rule, at, at + len(text), text)
            at = data.find(text, at + len(text))


def _trim_escapes(data: bytes, secret: Secret) -> Secret:
    """Exclude half an escape at either end of a secret: redacting it would break JSON."""
    start, end = secret.start, secret.end
    if backslashes(data, start) % 2 and (match := IN_JSON.match(data, start)) is not None:
        start = match.end()
    if backslashes(data, end) % 2:
        end -= 1
    return secret._replace(start=start, end=end) if start < end else secret


def redact(
    data: bytes,
    should_redact: Callable[[Secret, bytes], bool] = lambda _secret, _text: True,
    literals: Iterable[tuple[str, bytes]] = (),
) -> bytes:
    """Replace every secret for which `should_redact` is true by `[REDACTED:rule]`. JSON and paths
    stay valid. `literals` are as for `scan`.
    """
    parts, at = [], 0
    for secret in scan(data, literals):
        if should_redact(secret, secret.text):
            parts += [data[at : secret.start], b"[REDACTED:%s]" % secret.rule.encode()]
            at = secret.end
    return b"".join([*parts, data[at:]]) if parts else data


def fingerprint(rule: str, text: bytes) -> str:
    """Return the ID of a secret, 12 hex digits. Tokens cannot be derived from it;
    weak passwords can be guessed.
    """
    return sha256(b"gitcp secret\0%s\0%s" % (rule.encode(), text)).hexdigest()[:12]


def masked(text: bytes) -> str:
    """Return an excerpt that may be shown: the first bytes, and the length."""
    return f"{text[: shown(text)].decode('ascii', 'replace')}… ({len(text)} bytes)"


def shown(text: bytes) -> int:
    """Return how many bytes of a secret may be shown."""
    return min(6, len(text) // 4)


def _secrets(data: bytes, depth: int) -> Iterator[Secret]:
    """Yield all matches, unordered, with duplicates. `depth` limits the levels of decoding."""
    controls = encodings.controls(data)
    visible = encodings.blanked(data, controls)
    runs = _runs(visible)
    joined = _joined(visible, runs)
    spans = chain(
        _tokens(visible, joined),
        _in_context(visible, joined),
        named.values(visible),
        named.command_passwords(visible),
        _after_marks(visible, runs),
    )
    yield from (Secret(rule, start, end, visible[start:end]) for rule, start, end in spans)
    if depth:
        unescaped = encodings.together(encodings.unescaped(data, controls))
        for reading in chain(
            [unescaped] if unescaped.text else [],
            encodings.in_base64(visible, runs),
            encodings.unpacked(visible, runs),
        ):
            for secret in _secrets(reading.text, depth - 1):
                start, end = reading.span(secret.start, secret.end)
                yield secret._replace(start=start, end=end)


def _runs(data: bytes) -> list[tuple[int, int]]:
    """Return the spans of runs of token characters that are long enough for a token."""
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
    """Join the runs with spaces. A run that starts with the rest of an escape is included twice.

    Runs without a capital or a digit are words or paths, and are left out.
    """
    spans = [
        (start, end)
        for start, end in runs
        if not (run := data[start:end]).islower() or DIGIT.search(run)
    ]
    spans = sorted([*spans, *_after_escapes(data, spans)])
    at = list(accumulate([1 + end - start for start, end in spans], initial=0))
    text = b" ".join([b"", *[data[start:end] for start, end in spans]])
    return Reading(text, at[:-1], [start - 1 for start, _ in spans], {})


def _after_escapes(data: bytes, runs: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the runs that start with the rest of an escape, without it."""
    for start, end in [run for run in runs if run[0] and data[run[0] - 1] in BEFORE_ESCAPE]:
        escape = ESCAPES[data[start - 1 : start]].match(data, start)
        if escape is not None:
            yield escape.end(), end


def _tokens(data: bytes, joined: Reading) -> Iterator[Span]:
    """Yield the tokens in runs. A token starts at a word boundary or right after an escape."""
    past, last = 0, 0
    for match in PREFIX.finditer(joined.text):
        begin = joined.where(match.start(1))
        # The same run again, without the rest of an escape: a longer match is possible.
        if begin < last:
            past = 0
        last = begin
        if begin < past:
            continue
        if (longest := _longest(data, begin, match[1])) is not None:
            # Skip placeholders as a whole: their parts match too.
            rule, past, is_drawn = longest
            if is_drawn:
                yield rule, begin, past


def _longest(data: bytes, begin: int, prefix: bytes) -> tuple[str, int, bool] | None:
    """Return the rule with the longest match at `begin`, its end, and whether the match is real."""
    longest, end = None, begin
    for rule in BY_PREFIX[prefix]:
        match = rule.pattern.match(data, begin)
        if match is not None and match.end() > end:
            longest, end = rule, match.end()
    if longest is None:
        return None
    body = data[begin + len(prefix) : end]
    return longest.name, end, looks_random(body) if longest.random else is_real(body)


def _in_context(data: bytes, joined: Reading) -> Iterator[Span]:
    for literals, rules in BY_LITERALS.items():
        past = dict.fromkeys(rules, 0)
        for at in _positions(data, literals):
            for rule in rules:
                if at < max(rule.back, past[rule]):
                    continue
                match = rule.pattern.match(data, at - rule.back)
                if match is not None and _is_plausible(rule.name, match):
                    yield rule.name, *match.span("secret")
                    past[rule] = match.end() - 1
    for rule in IN_RUNS:
        for mark in _positions(joined.text, rule.literals):
            start = mark - rule.back
            if rule.back and (start < 1 or joined.text[start - 1 : start].isalnum()):
                continue
            match = rule.pattern.match(data, joined.where(mark) - rule.back)
            if match is not None and is_real(match["secret"]):
                yield rule.name, *match.span("secret")


def _after_marks(data: bytes, runs: Iterable[tuple[int, int]]) -> Iterator[Span]:
    """Yield the runs that are secrets by what is right before them."""
    for start, end in [run for run in runs if run[1] - run[0] >= SHORTEST_MARKED]:
        mark = BEFORE_RUN.search(data, max(0, start - LONGEST_MARK), start)
        if mark is None or not is_real(data[start:end]):
            continue
        if mark["fernet"] is not None:
            if end - start == FERNET and data[end : end + 1] == b"=":
                yield "fernet-key", start, end + 1
        elif mark["asana"] is not None:
            if ASANA.fullmatch(data, start, end):
                yield "asana-token", mark.start("asana"), end
        else:
            around = data[max(0, start - LONGEST_KEY) : end + LONGEST_KEY]
            kind = KEY_TYPE.search(around)
            if kind is not None and (kind["type"] == b"oct") == (mark["jwk"] == b"k"):
                yield "jwk-private-key", start, end


def _positions(data: bytes, literals: tuple[bytes, ...]) -> Iterator[int]:
    """Yield the offsets of literals, which begin with the same byte."""
    if len(literals) > 1:
        yield from (match.start() for match in FINDERS[literals].finditer(data))
        return
    at = data.find(literals[0])
    while at >= 0:
        yield at
        at = data.find(literals[0], at + 1)


def _is_plausible(rule: str, match: re.Match[bytes]) -> bool:
    secret = match["secret"]
    if rule in ("url-password", "pgpass-password"):
        return secret.startswith(NEON) or (is_password(secret) and secret != match["user"])
    if rule in ("url-token", "azure-signature"):
        return looks_random(PERCENT.sub(b"", secret))
    return is_real(secret)
