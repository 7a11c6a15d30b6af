"""The rules for secrets: formats that their issuers document, in `rules.toml` beside this module.

A token begins with a literal that only such tokens have, and goes on as `rest` says; `after` must
be before it. A context has a `pattern` around a literal, whose group "secret" is the secret. A new
rule goes there, with a sample in tests/secrets. Values that are only secret by their name are found
by gitcp.secrets.named.
"""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from typing import Any, NamedTuple

CLASS = re.compile("<([A-Z]+)>")


class Rule(NamedTuple):
    """A kind of secret: its name, the literals to search for, and the pattern to match.

    A token rule's pattern is matched at the literal; a context rule's starts `back` bytes before
    it. Its literals begin with the same byte, which makes their search fast. If `random`, the rest
    must look random too: literal and length alone also match identifiers.
    """

    name: str
    literals: tuple[bytes, ...]
    pattern: re.Pattern[bytes]
    back: int = 0
    random: bool = False


def _token(name: str, fields: dict[str, Any]) -> Rule:
    literals = tuple(begin.encode() for begin in fields["begins"].split())
    starts = b"|".join(map(re.escape, literals))
    after = b"(?<=" + _expanded(fields["after"]) + b")" if "after" in fields else b""
    pattern = after + b"(?P<secret>(?:" + starts + b")" + _expanded(fields["rest"]) + b")"
    return Rule(name, literals, re.compile(pattern), random=fields.get("random", False))


def _context(fields: dict[str, Any]) -> Rule:
    literals = tuple(fields["literals"].encode().split())
    pattern = re.compile(_expanded(fields["pattern"]))
    return Rule(fields["name"], literals, pattern, fields.get("back", 0))


def _expanded(pattern: str) -> bytes:
    """Return a pattern with the classes that it names."""
    while (whole := CLASS.sub(lambda match: _DATA["classes"][match[1]], pattern)) != pattern:
        pattern = whole
    return pattern.encode()


_DATA = tomllib.loads(files("gitcp.secrets").joinpath("rules.toml").read_text("utf-8"))

TOKENS = tuple(_token(name, fields) for name, fields in _DATA["tokens"].items())

CONTEXTS = tuple(map(_context, _DATA["contexts"]))
"""Searched everywhere."""

BEFORE_RUN = re.compile(
    rb"(?:Fernet\((?P<fernet>[bf]?\\*[\"'])"
    rb"|\"(?P<jwk>d|p|q|dp|dq|qi|k)\\*\"[ \t]{0,4}:[ \t]{0,4}\\*\""
    rb"|(?<![A-Za-z0-9/.])(?P<asana>1/1[0-9]{11,19}:))\Z"
)
"""What is right before a run of token characters that is a secret: of Fernet, of a JSON Web Key, of
Asana.
"""

IN_RUNS = tuple(map(_context, _DATA["in-runs"]))
"""Searched only in long runs of token characters. Those with `back` start at a word boundary."""
