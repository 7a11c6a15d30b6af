"""Mask secrets in the output of a command before it is recorded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

TAIL = 4000
"""Characters of output that are recorded."""

SHORTEST = 6
SECRET = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE|_KEY$|^KEY$|_PAT$|AUTH(?!OR)",
    re.IGNORECASE,
)
KNOWN = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abpr]-[\w-]{10,}"
    r"|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{5,})"
)
IN_ADDRESS = re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")
MASK = "***"


def masked(text: str, env: Mapping[str, str]) -> str:
    """Return `text` without the values of variables named like secrets, known kinds of tokens, and
    passwords in URLs.
    """
    values = {
        value for name, value in env.items() if len(value) >= SHORTEST and SECRET.search(name)
    }
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, MASK)
    return IN_ADDRESS.sub(MASK, KNOWN.sub(MASK, text))


def tail(output: bytes, env: Mapping[str, str]) -> str:
    """Return the end of a command's output, masked, without terminal colors and control
    characters.
    """
    text = masked(output.decode("utf-8", "replace"), env)
    text = re.sub(
        r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)|\r(?=\n)", "", text
    )
    text = re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", "", text).rstrip()
    return text if len(text) <= TAIL else "…" + text[-TAIL:].partition("\n")[2]


def command(arguments: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command's arguments, masked for recording."""
    encodable = (
        argument.encode("utf-8", "backslashreplace").decode("utf-8") for argument in arguments
    )
    return tuple(masked(argument, env) for argument in encodable)
