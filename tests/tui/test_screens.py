"""Whole screens, compared with readable files: UPDATE_SCREENS=1 writes them anew.

A screen is its text, and the same in each theme and without color: those differ in styles only.
"""

from __future__ import annotations

import pytest
from screens import Seen, golden, watched
from shop import Shop, furnished

from driver import Project

SIZES = {"80x24": (80, 24), "100x30": (100, 30), "120x40": (120, 40), "200x60": (200, 60)}
SCREENS: dict[str, tuple[str, ...]] = {
    "start": (),
    "conversation": ("j", "left_square_bracket"),
    "handoff": ("j", "j", "right_square_bracket"),
    "files": ("left_square_bracket", "left_square_bracket"),
    "unfolded": ("j", "j", "enter", "j"),
    "sessions": ("1", "j"),
    "search": ("slash", *"driver"),
    "everywhere": ("1", "slash", *"rewriting"),
    "restore": ("G", "r"),
    "keys": ("question_mark",),
    "acts": ("colon", *"tag"),
}


@pytest.fixture
def shop(project: Project) -> Shop:
    """A shop with a history."""
    return furnished(project)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", SCREENS)
def test_screen(shop: Shop, name: str, size: str) -> None:
    """A screen is as it was looked at, in every size."""

    async def look(seen: Seen) -> None:
        await seen.press(*SCREENS[name])
        if name == "restore":
            await seen.until("y apply")
        golden(seen.text(), f"{name}-{size}")

    watched(shop, look, SIZES[size])


@pytest.mark.parametrize("size", SIZES)
def test_colors(shop: Shop, size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dark, light and without color have the same text; NO_COLOR paints none."""
    texts, colors = [], []

    async def look(seen: Seen) -> None:
        texts.append(seen.text())
        colors.append(seen.colors())

    watched(shop, look, SIZES[size], light=False)
    watched(shop, look, SIZES[size], light=True)
    monkeypatch.setenv("NO_COLOR", "1")
    watched(shop, look, SIZES[size])

    assert len(set(texts)) == 1
    assert colors[0] >= {"green", "cyan"}
    assert colors[1] >= {"green", "cyan"}
    assert colors[2] <= {"default"}
