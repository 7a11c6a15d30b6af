"""Judge values: whether a text looks random, is a placeholder, or could be a password.

Only called for text with a name or format of a secret. Randomness alone is never a reason:
transcripts are full of hashes.
"""

from __future__ import annotations

import re
from binascii import Error, a2b_base64
from functools import lru_cache
from itertools import pairwise

CACHED = 4096
WORDLIKE = 0.35
"""Minimum share of common letter pairs in words. In random letters it is 0.1, in words 0.8."""

FEWEST_KINDS = 6
FEWEST_RANDOM = 8
SHORTEST_HEX = 20
HEX = re.compile(rb"[0-9a-fA-F]+")

SIGNS = b"!#$%&*+=?@^~-_()"
FEWEST_SIGNS = 5
FORMATTED = re.compile(rb"%[sd(]|\$\{|://|[A-Za-z]{9}")
"""A template, a URL or a word."""

PLACEHOLDER = re.compile(
    rb"(?i)example|placeholder|redacted|changeme|change[_-]me|your[_-]|dummy|xxxxx|\*\*\*|\.\.\.|00000000|12345678"
    rb"|abcdefgh|not[_-]?a[_-]?real|fake|sample|insert[_-]|replace[_-]"
    rb"|2yotnfzfej|tgzv3jokf0|splxlobezq|45ghiukldj|9djdj82h48|kkk9d7dh3k|dpf43f3p2l|hh5s93j4hd|hdhd0244k9|nnch734d00|pfkkdhi9sl"
    rb"|gx1fbat3bv|7fjfp0zbr1"
)
"""The last two lines are the example tokens of the OAuth RFCs (5849, 6749, 6750, 7009)."""

NAMED_VALUE = re.compile(
    rb"[a-z]+(?:[_.-][A-Za-z]+)*\d{0,2}|[A-Z]+(?:_[A-Z]+)*\d{0,2}|[A-Za-z.]+(?:[A-Z][a-z]+)+\d{0,2}"
)
UUID = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
USER_AND_PASSWORD = re.compile(
    rb"(?P<user>[\x21-\x39\x3b-\x7e]{0,200}):(?P<password>[\x21-\x7e]{4,200})"
)
NEIGHBORS = frozenset(
    (
        "ac ad ai al am an ar as at be ca ce ch ck cl co ct cu da de di do ea ec ed ee ef el em en "
        "ep er es et ex "
        "fi fo ge ha he hi ho ic if il im in io is it ke la le li ll lo ls lu ma me mo mp na nc nd "
        "ne ng no ns nt "
        "ob oc od of om on op or os ot ou pa pe pl po pp pr pt ra re ri ro rr rs rt se si so sp ss "
        "st su ta te th "
        "ti tl to tr ts tu ty ue ul um un up ur us ut va ve vi wi wo xt"
    ).split()
)
"""Letter pairs that are common in words."""

CASE_GROWS = re.compile(r"[a-z][A-Z]")
COUNTED = frozenset(f"{digit}{digit + step}" for digit in range(10) for step in (-1, 1))
"""Digit pairs that occur in counting."""


@lru_cache(CACHED)
def looks_random(text: bytes) -> bool:
    """Return whether a text looks random: letters with digits, or mixed case, without words.

    Unreliable below sixteen bytes.
    """
    if len(set(text)) < FEWEST_RANDOM or PLACEHOLDER.search(text):
        return False
    if len(text) < SHORTEST_HEX and HEX.fullmatch(text):
        return False
    has_digit, has_letter = re.search(rb"\d", text), re.search(rb"[A-Za-z]", text)
    is_mixed = len(re.findall(rb"[a-z][A-Z]", text)) >= 3
    if not has_letter or not (has_digit or is_mixed):
        return False
    pairs = [pair for pair in map("".join, pairwise(text.decode("latin-1"))) if pair.isalnum()]
    wordlike = sum(pair.lower() in NEIGHBORS and not CASE_GROWS.match(pair) for pair in pairs)
    regular = sum(pair[0] == pair[1] or pair in COUNTED for pair in pairs)
    # Without digits it may be an identifier; require more randomness.
    most = (WORDLIKE if has_digit else WORDLIKE / 2) * len(pairs)
    return len(pairs) * 3 >= len(text) * 2 and wordlike <= most and regular * 3 <= len(pairs)


def looks_generated(text: bytes) -> bool:
    """Return whether a text is drawn from letters, digits and signs, as a key of Django's is."""
    signs = {byte for byte in text if byte in SIGNS}
    return (
        len(text) >= SHORTEST_HEX
        and len(signs) >= FEWEST_SIGNS
        and len(set(text)) >= 2 * FEWEST_RANDOM
        and len(kinds(text)) >= 3
        and not PLACEHOLDER.search(text)
        and not FORMATTED.search(text)
    )


def is_password(text: bytes) -> bool:
    """Return whether a short text is more likely a password than a word, an identifier or a
    placeholder.
    """
    mixed = len(kinds(text)) >= 2
    return (
        mixed
        and len(set(text)) >= 5
        and not PLACEHOLDER.search(text)
        and not NAMED_VALUE.fullmatch(text)
    )


def kinds(text: bytes) -> frozenset[str]:
    """Return the kinds of characters in a text."""
    return frozenset(map(_kind, text))


def _kind(byte: int) -> str:
    if 48 <= byte <= 57:
        return "digit"
    if 65 <= byte <= 90:
        return "upper"
    return "lower" if 97 <= byte <= 122 else "sign"


def is_real(body: bytes) -> bool:
    """Return whether this is not a placeholder from documentation."""
    return len(set(body)) >= FEWEST_KINDS and PLACEHOLDER.search(body) is None


def holds_password(text: bytes) -> bool:
    """Return whether base64 decodes to `user:password`, as in registry and basic authentication."""
    try:
        match = USER_AND_PASSWORD.fullmatch(a2b_base64(text, strict_mode=True))
    except Error:
        return False
    return (
        match is not None and match["user"] != match["password"] and is_password(match["password"])
    )
