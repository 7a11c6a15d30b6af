"""The one gitcp comment on a pull request: found by marker and author, created once, then
updated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gitcp.errors import GitcpError
from gitcp.review.forge.client import Client, Denied, Unsure
from gitcp.review.forge.places import PullRequest
from gitcp.value import Value

TRIES = 3


class Comment(Value):
    """An existing comment."""

    id: int
    body: str
    url: str


class Posted(Value):
    """The result: `action` is "created", "updated" or "unchanged"."""

    action: str
    url: str


class CommentThread:
    """The comments of one pull request. `is_ours` checks a body for gitcp's marker."""

    def __init__(
        self, request: PullRequest, sleep: Callable[[float], None], is_ours: Callable[[str], bool]
    ) -> None:
        self._request = request
        self._client = Client(request.api, request.headers, sleep)
        self._is_ours = is_ours

    def find(self) -> Comment | None:
        """Return gitcp's comment, the first if there are several. Comments of other authors never
        count.
        """
        me = self._me()
        for fields in self._client.pages(self._request.comments):
            author = _author(fields)
            body, id = fields.get("body"), fields.get("id")
            if (
                isinstance(body, str)
                and isinstance(id, int)
                and author == me
                and self._is_ours(body)
            ):
                return Comment(id, body, _url(fields))
        return None

    def reviewed(self) -> str | None:
        """Return the commit of the last review by a person, None if the forge does not provide
        it.
        """
        if not self._request.reviews:
            return None
        reviews = [
            each for each in self._client.pages(self._request.reviews) if each.get("submitted_at")
        ]
        people = [each for each in reviews if not _author(each).endswith("[bot]")]
        commit = people[-1].get("commit_id") if people else None
        return commit if isinstance(commit, str) else None

    def put(self, body: str, comment: Comment | None) -> Posted:
        """Update `comment` to `body`, or create it. Raises Denied and GitcpError."""
        for _ in range(TRIES):
            if comment is not None:
                if comment.body.replace("\r\n", "\n").strip() == body.strip():
                    return Posted("unchanged", comment.url)
                path = f"{self._request.comment}{comment.id}"
                answer = self._client.call(self._request.method, path, {"body": body})
                return Posted("updated", _url(answer.fields) or comment.url)
            try:
                answer = self._client.call("POST", self._request.comments, {"body": body})
                return Posted("created", _url(answer.fields))
            except Unsure:
                comment = self.find()  # it may exist after all: never post twice
        raise GitcpError(
            f"cannot comment on {self._request.name}: the forge keeps failing",
            hint="try again later",
        )

    def _me(self) -> str:
        try:
            answer = self._client.call("GET", "/user")
        except Denied:  # a job's token has no user
            return self._request.nobody
        return _name(answer.fields)


def _author(fields: dict[str, Any]) -> str:
    return _name(fields.get("user") or fields.get("author"))


def _name(user: Any) -> str:
    """Return a user's name: `login` on GitHub, `username` on GitLab."""
    name = (user.get("login") or user.get("username")) if isinstance(user, dict) else None
    return name if isinstance(name, str) else ""


def _url(fields: Any) -> str:
    url = fields.get("html_url") if isinstance(fields, dict) else None
    return url if isinstance(url, str) else ""
