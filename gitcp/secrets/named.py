"""Find values with a name that marks them as secret: `DB_PASSWORD=…`, `"apiKey":
"…"`, `token: …`, `--api-key …`.

The name alone is not enough: the value must look random, or like a password if the name says
password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from gitcp.secrets.values import (
    CACHED,
    PLACEHOLDER,
    UUID,
    holds_password,
    is_password,
    is_real,
    kinds,
    looks_random,
)

LITERALS = (b"token", b"secret", b"pass", b"pwd", b"key", b"credential", b"auth", b"_pat")
"""Searched in the lowercased data."""

BEFORE = 48
HEAD = re.compile(rb"[A-Za-z0-9_.-]*\Z")
VALUE = rb"[^\s\"'`\\<>(){}\[\],;|&$]"
QUOTED = rb"[^\s\"'`\\<>{}]"
TYPED = rb": ?[A-Za-z&'][A-Za-z0-9_&'.<> |?\[\]]{0,30}? ?=(?!=)"
ASSIGNED = re.compile(
    rb"(?P<rest>[A-Za-z0-9_-]{0,20}+)(?:\\*[\"'`])?\]?"
    rb"(?:[ \t]{0,8}(?:"
    + TYPED
    + rb"|:=|=>|[?|]{0,2}=(?!=)|[:>])|(?P<space>(?:\s|\\+[nrt]){1,12}))[ \t]{0,8}"
    rb"(?:[bBfFrRuU]{1,2}(?=\\*[\"']))?(?P<quote>\\*[\"'`])?"
    rb"(?:(?P<scheme>[Bb]asic|[Bb]earer|[Tt]oken|[Bb]ot) )?"
    rb"(?P<secret>(?(quote)" + QUOTED + rb"{8,1000}|" + VALUE + rb"{8,1000}))"
)
NETRC = re.compile(rb"login(?:\s|\\+[nrt]){1,12}[^\s\"'`\\]{1,200}(?:\s|\\+[nrt]){1,12}\Z")
LONGEST_LOGIN = 240
KINDS = (
    ("password", re.compile(rb"passw(?:or)?d|passphrase|pwd")),
    ("auth", re.compile(rb"auth(?:ori[sz]ation)?$")),
    ("aws", re.compile(rb"secret_?(?:access_?)?key$")),
    ("azure", re.compile(rb"(?:account|shared_?access)_?key$")),
)
IS_SECRET = re.compile(
    rb"token|secret|credential|passw|passphrase|pwd|_pat$|(?:^|[_.-])auth(?:ori[sz]ation)?$"
    rb"|(?:api|access|private|secret|sign(?:ing)?|encrypt(?:ion)?|auth|service|account|licen[sc]e|master|consumer|app"
    rb"|application|client|deploy|admin|shared|webhook|session|storage|function|subscription|ingest|root|hmac|bot|integration"
    rb"|security|server|write|read|user|org)[_.-]?key"
)
IS_OTHER = re.compile(
    rb"(?:(?<![a-z])(?:id|ur[li]|dir|ttl|version|arn|length|len|size|count|limit|index|format|prefix|suffix|regex|pattern"
    rb"|expir[a-z]*|at|algorithm|alg|class|field|column|ref|label|digest|checksum|sha\d*|fingerprint|hint|thumbprint|kid"
    rb"|offset|header|endpoint|status|scope|template|code|author|authority)|name|type|path|file|hash)s?$"
    rb"|public|tokeniz|tokenis"
    rb"|(?:next|page|continuation|sync|delta|resume|skip|marker|cancel(?:lation)?|request|change|lock|idempotency)"
    rb"[a-z_.-]{0,8}token"
)
NO_SECRET = re.compile(
    rb"_?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)+\.?|_[A-Za-z_]+"
    rb"|arn:.*|\d{4}-\d\d-\d\d[T ]?[0-9:.Z+-]*|(?:/[A-Za-z0-9_.-]+)+/?"
)
"""An identifier, a resource name, a time, or a path."""

LOWER_TO_UPPER = re.compile(rb"(?<=[a-z0-9])(?=[A-Z])")
AWS_SECRET = re.compile(rb"[A-Za-z0-9+/]{40}")
AZURE_KEY = re.compile(rb"[A-Za-z0-9+/]{42,86}={1,2}")
LEAST_RANDOM = 16


def values(data: bytes) -> Iterator[tuple[str, int, int]]:
    """Yield rule and span of each value with such a name, unordered."""
    lower = data.lower()
    for literal in LITERALS:
        at = lower.find(literal)
        while at >= 0:
            end = at + len(literal)
            match = ASSIGNED.match(data, end)
            if match is not None and (rule := _rule_for(data, at, end, match)) is not None:
                yield rule, *match.span("secret")
            at = lower.find(literal, end)


def _rule_for(data: bytes, start: int, end: int, match: re.Match[bytes]) -> str | None:
    """Return the rule that makes a named value a secret, None if none does."""
    before, value = _name_start(data, start), match["secret"]
    is_code = match["quote"] is None and data[match.end() : match.end() + 1] in (b"(", b"[")
    kind = (
        None
        if is_code or NO_SECRET.fullmatch(value)
        else _name_kind(before + data[start:end] + match["rest"])
    )
    if match["space"] is not None and not before.startswith(b"--"):
        is_netrc = kind == "password" and NETRC.search(data, max(0, start - LONGEST_LOGIN), start)
        return "netrc-password" if is_netrc and not PLACEHOLDER.search(value) else None
    if kind == "auth" and match["scheme"] is not None:
        return _header_rule(match["scheme"].lower(), value)
    return kind and _rule(kind, value)


def _name_start(data: bytes, start: int) -> bytes:
    """Return the start of the name, without the `n` of an escaped line feed."""
    head = HEAD.search(data, max(0, start - BEFORE), start)
    assert head is not None
    return head[0][1:] if data[head.start() - 1 : head.start()] == b"\\" else head[0]


@lru_cache(CACHED)
def _name_kind(name: bytes) -> str | None:
    """Return what a name says about its value: "password", "auth", "aws", "azure", "secret" or
    None.
    """
    words = LOWER_TO_UPPER.sub(b"_", name).lower()
    if IS_OTHER.search(words) or not IS_SECRET.search(words):
        return None
    return next((kind for kind, pattern in KINDS if pattern.search(words)), "secret")


def _header_rule(scheme: bytes, value: bytes) -> str | None:
    """Return the rule for the value after the scheme of a header."""
    if scheme == b"basic":
        return "basic-auth" if holds_password(value) else None
    return "bearer-token" if len(value) >= LEAST_RANDOM and looks_random(value) else None


def _rule(kind: str, value: bytes) -> str | None:
    if kind == "password" and len(value) <= 128 and is_password(value) and len(kinds(value)) >= 3:
        return "password"
    if kind == "aws" and AWS_SECRET.fullmatch(value) and is_real(value):
        return "aws-secret-key"
    if kind == "azure" and AZURE_KEY.fullmatch(value) and is_real(value):
        return "azure-storage-key"
    if kind in ("auth", "password") and holds_password(value):
        return "registry-auth"
    if UUID.fullmatch(value):
        return "named-secret" if is_real(value) else None
    return "named-secret" if len(value) >= LEAST_RANDOM and looks_random(value) else None
