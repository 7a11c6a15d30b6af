"""A real Chromium, without a screen, driven over a pipe by the DevTools protocol: no port, no
further library.

It is Debian's `chromium`, or what CHROMIUM names. Where there is none, `CHROMIUM` is None, and
tests are skipped.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
PATIENCE = 60.0
KEYS = {"Enter": 13, "Escape": 27}

OPTIONS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",  # the tests run as root in a container
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--password-store=basic",
    "about:blank",
)


class Browser:
    """One browser with one page. `events` are all that it reported since `open`."""

    def __init__(self, home: Path) -> None:
        assert CHROMIUM is not None
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        self._rest = b""
        self._count = 0
        self.events: list[dict[str, Any]] = []
        # The browser reads from descriptor 3 and writes to 4, whatever they are numbered here.
        script = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, CHROMIUM, f"--user-data-dir={home / 'profile'}", *OPTIONS],
            env={**os.environ, "HOME": str(home)},
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._session: str | None = None
        targets = self.send("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def close(self) -> None:
        """End the browser and everything that it started."""
        os.close(self._out)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._in)

    # ------------------------------------------------------------ the protocol

    def send(self, method: str, **params: Any) -> Any:
        """Send one command, and wait for what it gives back."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        return next(self._answers(self._count, method))

    def _answers(self, number: int, method: str) -> Iterator[Any]:
        for message in self._messages():
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message['error']}"
                yield message["result"]
            elif "method" in message:
                self.events.append(message)

    def _messages(self) -> Iterator[dict[str, Any]]:
        deadline = time.monotonic() + PATIENCE
        while True:
            while b"\0" in self._rest:
                message, _, self._rest = self._rest.partition(b"\0")
                yield json.loads(message)
            left = deadline - time.monotonic()
            assert left > 0, "the browser does not answer"
            if select.select([self._in], [], [], left)[0]:
                data = os.read(self._in, 1 << 20)
                assert data, "the browser is gone"
                self._rest += data

    def named(self, *methods: str) -> list[dict[str, Any]]:
        """What was reported under these names since `open`."""
        self.run("0")  # what happened before this was answered was reported before
        return [event["params"] for event in self.events if event["method"] in methods]

    def spent(self) -> float:
        """Seconds of processor time that the processes which draw pages have used, by Linux's
        count.
        """
        ticks = 0
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if b"--type=renderer" in place.joinpath("cmdline").read_bytes():
                    fields = place.joinpath("stat").read_text().rpartition(")")[2].split()
                    ticks += (
                        sum(map(int, fields[11:13])) if int(fields[2]) == self._process.pid else 0
                    )
            except OSError:
                continue  # it ended meanwhile
        return ticks / os.sysconf("SC_CLK_TCK")

    # ------------------------------------------------------------ the page

    def open(self, page: Path) -> None:
        """Go to a file, and wait until it is whole."""
        self.events.clear()
        # the page before this one, which may have had the same name
        self.run("globalThis.PASSED = 1")
        self.send("Page.navigate", url=page.as_uri())
        self.until(
            "typeof PASSED === 'undefined' && document.readyState === 'complete' && "
            "location.protocol === 'file:'"
        )

    def run(self, expression: str) -> Any:
        """What an expression gives in the page; a promise is waited for."""
        done = self.send(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression is true in the page."""
        deadline = time.monotonic() + PATIENCE
        while not self.run(f"Boolean({expression})"):
            assert time.monotonic() < deadline, f"it never came: {expression}"
            time.sleep(0.02)

    def press(self, *keys: str) -> None:
        """Press keys, one after another."""
        for key in keys:
            fields: dict[str, Any] = {"key": key}
            if key in KEYS:
                fields |= {"windowsVirtualKeyCode": KEYS[key], "code": key}
            text = {"Enter": {"text": "\r"}}.get(key, {} if key in KEYS else {"text": key})
            self.send("Input.dispatchKeyEvent", type="keyDown", **fields, **text)
            self.send("Input.dispatchKeyEvent", type="keyUp", **fields)

    def resize(self, width: int, height: int) -> None:
        """Have a window of this size."""
        mobile = width < 600
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=mobile,
        )

    def prefer(self, scheme: str, media: str = "") -> None:
        """Prefer light or dark; `media` is "print" or ""."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.send("Emulation.setEmulatedMedia", media=media, features=features)

    def picture(self, file: Path) -> None:
        """Write what is seen as a PNG."""
        file.write_bytes(base64.b64decode(self.send("Page.captureScreenshot")["data"]))
