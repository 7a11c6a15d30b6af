"""What tokens cost, by the prices that the user wrote down; there are no others.

    $XDG_CONFIG_HOME/gitcp/prices.toml    else ~/.config/gitcp/prices.toml

A table for each model, by its name or a pattern, with US dollars for a million tokens:

    ["claude-opus-*"]
    input = 5.0
    output = 25.0
    cache_read = 0.5
    cache_write = 6.25
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from gitcp import user_state
from gitcp.adapters.base import Usage
from gitcp.errors import BadValue
from gitcp.history.tokens import Request
from gitcp.model import Host

KINDS = ("input", "output", "cache_read", "cache_write")
MILLION = 1_000_000


class Price(NamedTuple):
    """US dollars for a million tokens of each kind; None if the user gave none."""

    input: float | None
    output: float | None
    cache_read: float | None
    cache_write: float | None


Prices = Mapping[str, Price]
"""By the name of a model, or a pattern: the first that matches counts, a name before patterns."""


def path(host: Host) -> Path:
    """Return the file with the user's prices, existing or not."""
    return Path(user_state.config(host.env, str(host.home)), "prices.toml")


def load(host: Host) -> Prices:
    """Return the user's prices, none without a file. Raises BadValue if it cannot be read."""
    file = path(host)
    try:
        document = tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadValue(f"{file} cannot be read: {error}") from None
    return {model: _price(file, model, fields) for model, fields in document.items()}


def _price(file: Path, model: str, fields: Any) -> Price:
    if not isinstance(fields, dict):
        raise BadValue(f"{file}: {model} is no table of {', '.join(KINDS)}")
    unknown = next((name for name in fields if name not in KINDS), None)
    if unknown is not None:
        raise BadValue(f"{file}: {model} has {unknown!r}, which is none of {', '.join(KINDS)}")
    for name, value in fields.items():
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not 0 <= value < MILLION
        ):
            raise BadValue(f"{file}: {name} of {model} is no price in US dollars")
    return Price(*(fields.get(name) for name in KINDS))


def cost(usage: Usage, prices: Prices) -> float | None:
    """Return the US dollars that a request cost: what the agent reported, else by the prices; None
    if that is not known.
    """
    if usage.cost is not None:
        return usage.cost
    patterns = (price for name, price in prices.items() if fnmatchcase(usage.model, name))
    price = prices.get(usage.model) or next(patterns, None)
    if price is None:
        return None
    spent = (usage.input, usage.output, usage.cache_read, usage.cache_write)
    parts = [(tokens, each) for tokens, each in zip(spent, price, strict=True) if tokens]
    if any(each is None for _, each in parts):
        return None
    return sum(tokens * (each or 0.0) for tokens, each in parts) / MILLION


def costs(requests: Iterable[Request], by: str, prices: Prices) -> dict[str, float | None]:
    """Return the sums by session, day, …, None where the cost of one of the requests is not
    known.
    """
    sums: dict[str, float | None] = {}
    for each in requests:
        name = each.under(by)
        before, more = sums.get(name, 0.0), cost(each.usage, prices)
        sums[name] = None if before is None or more is None else before + more
    return sums
