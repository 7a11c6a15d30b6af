"""The interface on a screen of a given size, without a terminal; what it shows, as text."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from shop import Shop
from textual.events import Key
from textual.pilot import Pilot

from gitcp.cli import ui
from gitcp.cli.context import Context
from gitcp.tui.app import Interface, Panes

UPDATE = "UPDATE_SCREENS" in os.environ
"""Read before the environment is sealed."""

Act = Callable[["Seen"], Awaitable[Any]]


class Seen:
    """The interface, and a hand that types; after each key it waits until nothing is read."""

    def __init__(self, app: Interface, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    @property
    def panes(self) -> Panes:
        """The screen below any dialog."""
        panes = self.app.screen_stack[0]
        assert isinstance(panes, Panes)
        return panes

    async def settle(self) -> None:
        """Wait until everything that was asked for is shown."""
        quiet = 0
        while quiet < 2:
            # the pilot waits for the messages of the screen on top alone
            await self.pilot.pause(0.005 if len(self.app.screen_stack) == 1 else 0.02)
            quiet = quiet + 1 if self.panes.idle else 0

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            # The pilot's own `press` waits twice for an idle processor: 40 ms and more a key.
            self.app.post_message(Key(key, " " if key == "space" else None))
            await self.settle()

    async def write(self, text: str) -> None:
        """Type a text without waiting between its letters."""
        for letter in text:
            self.app.post_message(Key("space" if letter == " " else letter, letter))
        await self.settle()

    async def until(self, words: str) -> str:
        """Wait until the screen has these words, and return it."""
        for _ in range(500):
            if words in self.text():
                await self.settle()
                return self.text()
            await self.pilot.pause(0.02)
        raise AssertionError(f"{words!r} is not on the screen:\n{self.text()}")

    async def gone(self, words: str) -> None:
        """Wait until the screen no longer has these words."""
        for _ in range(500):
            if words not in self.text():
                return
            await self.pilot.pause(0.02)
        raise AssertionError(f"{words!r} is still on the screen:\n{self.text()}")

    def text(self) -> str:
        """The screen, one line a row."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(part.text for part in strip).rstrip() for strip in strips)

    def colors(self) -> set[str]:
        """The names of the colors of the text that is painted, as the terminal gets them."""
        styles = [
            part.style
            for strip in self.app.screen._compositor.render_strips()
            for part in strip
            if part.style is not None
        ]
        return {style.color.name for style in styles if style.color is not None}


def watched(shop: Shop, act: Act, size: tuple[int, int] = (120, 40), **more: Any) -> None:
    """Run the interface in the shop, and `act` on it."""

    async def main() -> None:
        context = Context(())
        context.host, context.directory = shop.host, os.fspath(shop.project.root)
        app = Interface(ui.given_by(context, None), **more)
        async with app.run_test(size=size) as pilot:
            seen = Seen(app, pilot)
            await seen.settle()
            await act(seen)

    asyncio.run(main())


def golden(text: str, name: str) -> None:
    """Compare a screen with tests/tui/screens/NAME.txt; UPDATE_SCREENS=1 writes it."""
    file = Path(__file__).parents[1] / "tui" / "screens" / f"{name}.txt"
    if UPDATE:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text + "\n", "utf-8")
    assert text + "\n" == file.read_text("utf-8")
