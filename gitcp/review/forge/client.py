"""A JSON API over HTTP, with patience: limits and failing servers are waited for, and nothing is
sent anywhere else.

Of what an answer says only its fields are used. Redirects are not followed: the token would go
along.
"""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from email.message import Message
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from gitcp import __version__, wire
from gitcp.errors import BadValue, GitcpError

TRIES = 5
LONGEST_WAIT = 60.0
"""Seconds that one answer may make us wait."""

TIMEOUT = 30.0
LARGEST = 32 << 20
MOST_PAGES = 100
A_PAGE = 100
FAILING = (500, 502, 503, 504)
LOOPBACK = ("localhost", "127.0.0.1", "::1")
NEXT = re.compile(r'rel="?next"?')


class Unsure(GitcpError):
    """Something was sent, and whether it was done is not known."""


class Denied(GitcpError):
    """The forge knows what is wanted, and does not let us."""


class Answer(NamedTuple):
    """What a server answered."""

    status: int
    fields: Any
    headers: Message


class Client:
    """One API at `base`. `headers` hold the token; `sleep` waits so many seconds."""

    def __init__(
        self, base: str, headers: Mapping[str, str], sleep: Callable[[float], None]
    ) -> None:
        place = urlsplit(base)
        if place.scheme != "https" and not (place.scheme == "http" and place.hostname in LOOPBACK):
            raise BadValue(f"{base} is not https: no token goes there, and nothing was sent")
        self._base = base.rstrip("/")
        self._headers = {
            "User-Agent": f"gitcp/{__version__}",
            "Accept": "application/json",
            **headers,
        }
        self._sleep = sleep
        self._opener = urllib.request.build_opener(_NoRedirect)

    def call(self, method: str, path: str, fields: wire.Json | None = None) -> Answer:
        """Ask, and ask again where that can help. Raises Denied, Unsure (of a POST), GitcpError."""
        for left in range(TRIES - 1, -1, -1):
            try:
                answer = self._once(method, path, fields)
            except (OSError, HTTPException) as error:
                if method == "POST":
                    raise Unsure(f"{self._base} broke off: {error}") from None
                if not left:
                    raise GitcpError(
                        f"{self._base} cannot be reached: {error}", hint="try again later"
                    ) from None
                self._sleep(2.0 ** (TRIES - left))
                continue
            if answer.status < 300:
                return answer
            wait = _wait(answer, TRIES - left)
            if answer.status in FAILING and method == "POST":
                raise Unsure(f"{self._base} failed with {answer.status}")
            if wait is None or wait > LONGEST_WAIT or not left:
                raise self._failed(method, path, answer, wait)
            self._sleep(wait)
        raise AssertionError

    def pages(self, path: str) -> Iterator[wire.Json]:
        """The objects of a list, page by page."""
        for page in range(1, MOST_PAGES + 1):
            answer = self.call("GET", f"{path}?per_page={A_PAGE}&page={page}")
            found = answer.fields if isinstance(answer.fields, list) else []
            yield from (each for each in found if isinstance(each, dict))
            # A server may give fewer than were asked for, and have more.
            if not found or (
                len(found) < A_PAGE and NEXT.search(answer.headers.get("Link", "")) is None
            ):
                return

    def _once(self, method: str, path: str, fields: wire.Json | None) -> Answer:
        data = None if fields is None else wire.dumps(fields)
        headers = {
            **self._headers,
            **({"Content-Type": "application/json"} if data is not None else {}),
        }
        # see __init__
        request = urllib.request.Request(self._base + path, data, headers, method=method)  # noqa: S310
        try:
            with self._opener.open(request, timeout=TIMEOUT) as response:
                return Answer(response.status, _parsed(response.read(LARGEST)), response.headers)
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, _parsed(error.read(LARGEST)), error.headers)

    def _failed(self, method: str, path: str, answer: Answer, wait: float | None) -> GitcpError:
        said = answer.fields.get("message", "") if isinstance(answer.fields, dict) else ""
        address = self._base + path.partition("?")[0]
        what = f"{method} {address}: {answer.status} {str(said)[:200]}".rstrip()
        if wait is not None and answer.status not in FAILING:
            return GitcpError(f"too many requests: {what}", hint=f"try again in {wait:.0f} seconds")
        if answer.status in (401, 403):
            return Denied(
                f"not allowed: {what}", hint="the token must be one that may write comments"
            )
        return GitcpError(f"the forge answered {what}")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow none."""


def _parsed(data: bytes) -> Any:
    try:
        return wire.loads(data)
    except ValueError:
        return None


def _wait(answer: Answer, tried: int) -> float | None:
    """How long to wait before asking again; None where that does not help."""
    headers = answer.headers
    after = headers.get("Retry-After", "")
    if answer.status in (403, 429):
        if after.isdecimal():
            return float(after)
        if headers.get("X-RateLimit-Remaining") == "0":
            return _until(headers)
        return 2.0**tried if answer.status == 429 else None
    if answer.status in FAILING:
        return float(after) if after.isdecimal() else 2.0**tried
    return None


def _until(headers: Message) -> float:
    """The seconds until a limit ends, by the server's own clock."""
    reset = headers.get("X-RateLimit-Reset", "")
    try:
        now = parsedate_to_datetime(headers.get("Date", "")).timestamp()
    except ValueError:
        return LONGEST_WAIT + 1
    return max(1.0, float(reset) - now + 1) if reset.isdecimal() else LONGEST_WAIT + 1
