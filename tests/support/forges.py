"""Forges on loopback, as far as comments go: they page, limit, refuse and fail like the real
ones.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

COMMENTS = re.compile(
    r"/repos/[\w.-]+/[\w.-]+/issues/5/comments|/projects/7/merge_requests/5/notes"
)
COMMENT = re.compile(
    r"(?:/repos/[\w.-]+/[\w.-]+/issues/comments|/projects/7/merge_requests/5/notes)/(\d+)"
)
REVIEWS = re.compile(r"/repos/[\w.-]+/[\w.-]+/pulls/5/reviews")
BOT = "github-actions[bot]"


class Fault(NamedTuple):
    """What is answered in place of the next request with this method: a status (0: the connection
    ends) and headers.

    `late`: it is answered after the request was carried out.
    """

    method: str
    status: int
    headers: dict[str, str]
    late: bool = False


class Forge:
    """A server: its comments, who asks, what goes wrong next, and what it was asked."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.url = ""
        self.comments: list[dict[str, Any]] = []
        self.reviews: list[dict[str, Any]] = []
        self.faults: list[Fault] = []
        self.asked: list[tuple[str, str, str]] = []
        self.largest_page = 100
        self.user: str | None = None
        self.writable = True

    def say(self, author: str, body: str) -> dict[str, Any]:
        """A comment more."""
        number = len(self.comments) + 1
        who = {"login": author} if self.kind == "github" else {"username": author}
        made = {"id": number, "body": body, ("user" if self.kind == "github" else "author"): who}
        if self.kind == "github":
            made["html_url"] = f"https://forge.example/5#{number}"
        self.comments.append(made)
        return made

    def env(self) -> dict[str, str]:
        """What a job of this forge finds in its environment."""
        if self.kind == "github":
            return {
                "GITHUB_REPOSITORY": "team/shop",
                "GITHUB_REF": "refs/pull/5/merge",
                "GITHUB_API_URL": self.url,
                "GITHUB_TOKEN": "job-token",
            }
        return {
            "GITLAB_CI": "true",
            "CI_API_V4_URL": self.url,
            "CI_PROJECT_ID": "7",
            "CI_PROJECT_PATH": "team/shop",
            "CI_MERGE_REQUEST_IID": "5",
            "GITLAB_TOKEN": "project-token",
        }

    # ------------------------------------------------------------ what it answers

    def answer(self, method: str, target: str, sent: Any) -> tuple[int, Any, dict[str, str]]:
        """Status, document, headers."""
        path, query = urlsplit(target).path, parse_qs(urlsplit(target).query)
        if path == "/user":
            return (
                (200, self._me(), {})
                if self.user
                else (403, {"message": "Resource not accessible by integration"}, {})
            )
        if COMMENTS.fullmatch(path) and method == "GET":
            return self._page(self.comments, query)
        if REVIEWS.fullmatch(path):
            return self._page(self.reviews, query)
        if not self.writable:
            return 403, {"message": "Resource not accessible by integration"}, {}
        if len(sent["body"]) > 65536:
            return 422, {"message": "Body is too long (maximum is 65536 characters)"}, {}
        if COMMENTS.fullmatch(path) and method == "POST":
            return 201, self.say(self.user or BOT, sent["body"]), {}
        found = COMMENT.fullmatch(path)
        if found and method == ("PATCH" if self.kind == "github" else "PUT"):
            comment = self.comments[int(found[1]) - 1]
            comment["body"] = sent["body"]
            return 200, comment, {}
        return 404, {"message": "Not Found"}, {}

    def _me(self) -> dict[str, str]:
        return {"login" if self.kind == "github" else "username": self.user or ""}

    def _page(
        self, found: list[dict[str, Any]], query: dict[str, list[str]]
    ) -> tuple[int, Any, dict[str, str]]:
        size = min(int(query.get("per_page", ["30"])[0]), self.largest_page)
        page = int(query.get("page", ["1"])[0])
        more = len(found) > page * size
        link = {"Link": f'<{self.url}/elsewhere?page={page + 1}>; rel="next"'} if more else {}
        return 200, found[(page - 1) * size : page * size], link


@contextmanager
def served(kind: str) -> Iterator[Forge]:
    """A forge that listens."""
    forge = Forge(kind)

    class Handler(BaseHTTPRequestHandler):
        """Hands every request to the forge, or to the fault that is next."""

        def serve(self) -> None:
            sent = json.loads(
                self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null"
            )
            token = self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN") or ""
            forge.asked.append((self.command, self.path, token))
            fault = next((fault for fault in forge.faults if fault.method == self.command), None)
            if fault is not None:
                forge.faults.remove(fault)
            if fault is None or fault.late:
                status, fields, headers = forge.answer(self.command, self.path, sent)
            if fault is not None:
                status, fields, headers = fault.status, {"message": "no"}, fault.headers
            if status:
                self.respond(status, json.dumps(fields).encode(), headers)
            self.close_connection = True

        do_GET = do_POST = do_PUT = do_PATCH = serve  # noqa: N815 -- http.server's

        def respond(self, status: int, data: bytes, headers: dict[str, str]) -> None:
            self.send_response_only(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    forge.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield forge
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
