"""What tokens cost: by the user's prices alone, and unknown where there is none."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gitcp.adapters.base import Usage
from gitcp.errors import BadValue
from gitcp.history.prices import Price, cost, costs, load, path
from gitcp.history.tokens import Request
from gitcp.model import Host

MILLION = 1_000_000
PRICES = {
    "opus-*": Price(5.0, 25.0, 0.5, None),
    "opus-4": Price(1.0, 2.0, 3.0, 4.0),
}


def host(home: Path, **env: str) -> Host:
    return Host(env, home, lambda: datetime(2026, 11, 2, tzinfo=UTC))


def test_cost() -> None:
    """An exact name comes before a pattern; every kind that was used needs its price."""
    assert cost(Usage("a", "opus-5", MILLION, 2 * MILLION, MILLION), PRICES) == 55.5
    assert cost(Usage("a", "opus-4", MILLION, MILLION, MILLION, MILLION), PRICES) == 10.0
    assert cost(Usage("a", "opus-5", 1, 1, 1, 1), PRICES) is None
    assert cost(Usage("a", "gpt", 1, 1), PRICES) is None
    assert cost(Usage("a", "gpt", 1, 1, cost=0.25), PRICES) == 0.25


def test_sums() -> None:
    """One unknown cost makes the sum unknown."""
    used = [
        Request(Usage("a", "opus-5", MILLION, 0), "one", "x", "main", "build", is_abandoned=False),
        Request(Usage("b", "gpt", MILLION, 0), "one", "x", "main", "build", is_abandoned=False),
        Request(Usage("c", "opus-5", MILLION, 0), "two", "x", "main", "build", is_abandoned=True),
    ]
    assert costs(used, "session", PRICES) == {"one": None, "two": 5.0}
    assert costs(used, "model", PRICES) == {"opus-5": 10.0, "gpt": None}


def test_file(tmp_path: Path) -> None:
    """It is in the user's configuration; without it, there are no prices."""
    assert load(host(tmp_path)) == {}
    elsewhere = host(tmp_path, XDG_CONFIG_HOME=str(tmp_path / "conf"))
    assert path(elsewhere) == tmp_path / "conf/gitcp/prices.toml"
    assert path(host(tmp_path, XDG_CONFIG_HOME="relative")) == path(host(tmp_path))
    _write(tmp_path, '["opus-*"]\ninput = 5\noutput = 25.0\n')
    assert load(host(tmp_path)) == {"opus-*": Price(5, 25.0, None, None)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[opus", "prices.toml cannot be read"),
        ("opus = 3", "opus is no table"),
        ("[opus]\nprice = 3", "'price', which is none of input"),
        ("[opus]\ninput = '3'", "input of opus is no price"),
        ("[opus]\ninput = -1", "input of opus is no price"),
        ("[opus]\ninput = nan", "input of opus is no price"),
        ("[opus]\ninput = true", "input of opus is no price"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, message: str) -> None:
    """A mistake is named, and nothing is counted with half of the prices."""
    _write(tmp_path, text)
    with pytest.raises(BadValue, match=message):
        load(host(tmp_path))


def _write(home: Path, text: str) -> None:
    file = path(host(home))
    file.parent.mkdir(parents=True)
    file.write_text(text)
