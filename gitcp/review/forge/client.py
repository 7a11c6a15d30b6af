"""A JSON client for one HTTP API, with retries for rate limits and failing servers.

Redirects are not followed: the token would be sent along.
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
"""Seconds. A server that asks for a longer wait is an error."""

TIMEOUT = 30.0
LARGEST = 32 << 20
MOST_PAGES = 100
A_PAGE = 100
FAILING = (500, 502, 503, 504)
LOOPBACK = ("localhost", "127.0.0.1", "::1")
NEXT = re.compile(r'rel="?next"?')


class Unsure(GitcpError):
    """The request was sent, and may or may not have been carried out."""


class Denied(GitcpError):
    """The token does not have the permission (401 or 403)."""


class Response(NamedTuple):
    """The server's response. `fields` is the decoded JSON, None if it is not JSON."""

    status: int
    fields: Any
    headers: Message


class Client:
    """A client of the API at `base`. `headers` contain the token; `sleep` waits for seconds."""

    def __init__(
        self, base: str, headers: Mapping[str, str], sleep: Callable[[float], None]
    ) -> None:
        url = urlsplit(base)
        if url.scheme != "https" and not (url.scheme == "http" and url.hostname in LOOPBACK):
            raise BadValue(f"{base} is not https; the token was not sent")
        self._base = base.rstrip("/")
        self._headers = {
            "User-Agent": f"gitcp/{__version__}",
            "Accept": "application/json",
            **headers,
        }
        self._sleep = sleep
        self._opener = urllib.request.build_opener(_NoRedirect)

    def call(self, method: str, path: str, fields: wire.Json | None = None) -> Response:
        """Send a request, with retries, and return the response. Raises Denied, GitcpError, and
        Unsure for a POST that broke off.
        """
        for retries in range(TRIES - 1, -1, -1):
            try:
                answer = self._once(method, path, fields)
            except (OSError, HTTPException) as error:
                if method == "POST":
                    raise Unsure(f"connection to {self._base} lost: {error}") from None
                if not retries:
                    raise GitcpError(
                        f"cannot reach {self._base}: {error}", hint="try again later"
                    ) from None
                self._sleep(2.0 ** (TRIES - retries))
                continue
            if answer.status < 300:
                return answer
            wait = _wait(answer, TRIES - retries)
            if answer.status in FAILING and method == "POST":
                raise Unsure(f"{self._base} failed with {answer.status}")
            if wait is None or wait > LONGEST_WAIT or not retries:
                raise self._failed(method, path, answer, wait)
            self._sleep(wait)
        raise AssertionError

    def pages(self, path: str) -> Iterator[wire.Json]:
        """Yield the objects of a list, following its pages."""
        for page in range(1, MOST_PAGES + 1):
            answer = self.call("GET", f"{path}?per_page={A_PAGE}&page={page}")
            items = answer.fields if isinstance(answer.fields, list) else []
            yield from (each for each in items if isinstance(each, dict))
            # A page can be short and still not be the last one.
            if not items or (
                len(items) < A_PAGE and NEXT.search(answer.headers.get("Link", "")) is None
            ):
                return

    def _once(self, method: str, path: str, fields: wire.Json | None) -> Response:
        data = None if fields is None else wire.dumps(fields)
        headers = {
            **self._headers,
            **({"Content-Type": "application/json"} if data is not None else {}),
        }
        # S310: __init__ accepts https and loopback only
        request = urllib.request.Request(self._base + path, data, headers, method=method)  # noqa: S310
        try:
            with self._opener.open(request, timeout=TIMEOUT) as response:
                return Response(response.status, _parsed(response.read(LARGEST)), response.headers)
        except urllib.error.HTTPError as error:
            with error:
                return Response(error.code, _parsed(error.read(LARGEST)), error.headers)

    def _failed(self, method: str, path: str, answer: Response, wait: float | None) -> GitcpError:
        message = answer.fields.get("message", "") if isinstance(answer.fields, dict) else ""
        address = self._base + path.partition("?")[0]
        request = f"{method} {address}: {answer.status} {str(message)[:200]}".rstrip()
        if wait is not None and answer.status not in FAILING:
            return GitcpError(f"rate limited: {request}", hint=f"try again in {wait:.0f} seconds")
        if answer.status in (401, 403):
            return Denied(
                f"permission denied: {request}",
                hint="use a token that can write pull request comments",
            )
        return GitcpError(f"forge request failed: {request}")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Return None: no redirect is followed."""


def _parsed(data: bytes) -> Any:
    try:
        return wire.loads(data)
    except ValueError:
        return None


def _wait(answer: Response, tries: int) -> float | None:
    """Return the seconds to wait before a retry, None if a retry cannot help."""
    headers = answer.headers
    after = headers.get("Retry-After", "")
    if answer.status in (403, 429):
        if after.isdecimal():
            return float(after)
        if headers.get("X-RateLimit-Remaining") == "0":
            return _until(headers)
        return 2.0**tries if answer.status == 429 else None
    if answer.status in FAILING:
        return float(after) if after.isdecimal() else 2.0**tries
    return None


def _until(headers: Message) -> float:
    """Return the seconds until the rate limit ends, by the server's clock."""
    reset = headers.get("X-RateLimit-Reset", "")
    try:
        now = parsedate_to_datetime(headers.get("Date", "")).timestamp()
    except ValueError:
        return LONGEST_WAIT + 1
    return max(1.0, float(reset) - now + 1) if reset.isdecimal() else LONGEST_WAIT + 1
