"""Parse the reports of external scanners: which text in which file is a secret.

Supports the JSON of gitleaks (an array), trufflehog (an object per line) and
detect-secrets (without texts).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from gitcp import wire

NOT_IN_NAME = re.compile(r"[^A-Za-z0-9._-]+")


class Reported(NamedTuple):
    """One secret: file name, line, rule, and text (b"" if the scanner does not report it)."""

    file: str
    line: int
    rule: str
    text: bytes


def parse(output: bytes) -> tuple[Reported, ...]:
    """Return the findings in a report. Raises ValueError for an unknown format."""
    if not output.strip():
        return ()
    try:
        return tuple(_each(output))
    except (ValueError, AttributeError, TypeError):
        raise ValueError("unknown report format") from None


def _each(output: bytes) -> Iterator[Reported]:
    try:
        whole: Any = wire.loads(output)
    except ValueError:
        whole = [wire.loads(line) for line in output.splitlines() if line.strip()]
    if isinstance(whole, dict) and isinstance(whole.get("results"), dict):
        yield from _hashed(whole["results"])
        return
    for item in whole if isinstance(whole, list) else [whole]:
        if isinstance(item, dict) and "RuleID" in item:
            yield _reported(
                item.get("File"), item.get("StartLine"), item["RuleID"], item.get("Secret")
            )
        elif isinstance(item, dict) and "DetectorName" in item:
            location = _below(item, "SourceMetadata", "Data", "Filesystem")
            yield _reported(
                location.get("file"), location.get("line"), item["DetectorName"], item.get("Raw")
            )
        elif item is not None:
            raise ValueError


def _hashed(results: Mapping[str, Any]) -> Iterator[Reported]:
    for file, items in results.items():
        for item in items:
            yield _reported(file, item.get("line_number"), item.get("type"), "")


def _below(item: Any, *names: str) -> Mapping[str, Any]:
    for name in names:
        item = item.get(name) if isinstance(item, dict) else None
    return item if isinstance(item, dict) else {}


def _reported(file: object, line: object, rule: object, text: object) -> Reported:
    if not isinstance(file, str) or not isinstance(rule, str) or not isinstance(text, str):
        raise ValueError  # noqa: TRY004 -- it is the report that is wrong
    name = NOT_IN_NAME.sub("-", rule.lower())[:60].strip("-") or "secret"
    return Reported(
        file, line if isinstance(line, int) else 1, name, text.encode("utf-8", "surrogatepass")
    )
