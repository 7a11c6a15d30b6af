"""The animation in docs/interface.md is made of real screens: UPDATE_SCREENS=1 draws it anew."""

from __future__ import annotations

import os
from pathlib import Path

from animation import Frame, drawn
from screens import UPDATE, Seen, watched
from shop import furnished

from driver import Project

FILE = Path(__file__).parents[2] / "docs" / "interface.svg"
SIZE = (100, 26)
SCRIPT = (
    ((), "gitcp", "", 2.5),
    (("j", "j"), "j: what each checkpoint changed", "", 2.5),
    (("slash", *"driver"), "/ driver: search labels, prompts, answers and paths", "", 2.5),
    (("escape", "G"), "G: the first checkpoint, from yesterday", "", 2.0),
    (("r",), "r: what a restore would do", "y apply", 3.0),
    (("y",), "y: files and conversation are back", "restored", 3.0),
    (("u",), "u: what undoing it would do", "y apply", 2.0),
    (("y",), "y: and that is undone", "redoes it", 3.0),
)
"""Keys, what is said of them, words to wait for, and seconds."""


def test_animation(project: Project) -> None:
    """Found, previewed, restored and undone, as it is seen."""
    shop = furnished(project)
    os.utime(shop.talk.path)  # the newest conversation, beyond doubt
    frames = []

    async def play(seen: Seen) -> None:
        for keys, caption, words, seconds in SCRIPT:
            await seen.press(*keys)
            await seen.until(words)
            await seen.settle()
            strips = seen.app.screen._compositor.render_strips()
            frames.append(Frame(tuple(tuple(strip) for strip in strips), seconds, caption))

    watched(shop, play, SIZE, light=False)
    made = drawn(frames, SIZE[0])
    if UPDATE:
        FILE.write_text(made, "utf-8")

    assert made == FILE.read_text("utf-8")
    assert "script" not in made
    assert "href" not in made
