"""The page of tokens: sums, bars of what was kept and of what was taken back, and costs."""

from __future__ import annotations

from gitcp.adapters.base import Usage
from gitcp.history.prices import Price
from gitcp.history.tokens import Request
from gitcp.review.pages.tokens import render

MILLION = 1_000_000
PRICES = {"opus": Price(5.0, 25.0, 0.5, 6.25)}


def used(
    key: str, session: str, *, model: str = "opus", taken_back: bool = False, phase: str = "unknown"
) -> Request:
    usage = Usage(key, model, MILLION, 0, time="2026-11-02T09:00:00Z")
    return Request(usage, session, "claude-code", "main", phase, taken_back)


def test_page() -> None:
    """Half of the longest bar was taken back; names are text, never HTML."""
    page = render([used("a", "<b>"), used("b", "<b>", taken_back=True), used("c", "two")], PRICES)
    assert "3,000,000" in page
    assert "33.3 %" in page
    assert '<rect width="50.0" height="8"/><rect class="files" x="50.0" width="50.0"' in page
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "$15.00" in page


def test_unknown_cost() -> None:
    """One request without a price leaves the sum unknown."""
    page = render([used("a", "one"), used("b", "two", model="gpt")], PRICES)
    assert "<dt>—</dt><dd>cost</dd>" in page
    assert "$5.00" in page


def test_nothing() -> None:
    """Without requests there is a page all the same."""
    assert "<dt>0</dt>" in render([], {})


def test_phases() -> None:
    """Phases have a section if there are any."""
    assert "Phases" not in render([used("a", "one")], {})
    page = render([used("a", "one"), used("b", "one", phase="plan")], {})
    assert "Phases" in page
    assert "plan" in page
