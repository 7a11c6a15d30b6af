"""One comment of ours in a request: found by its mark and its author, made once, then changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gitcp.errors import GitcpError
from gitcp.review.forge.client import Client, Denied, Unsure
from gitcp.review.forge.places import Place
from gitcp.value import Value

TRIES = 3


class Comment(Value):
    """A comment that is there."""

    id: int
    body: str
    url: str


class Posted(Value):
    """What was done: `action` is "created", "updated" or "unchanged"."""

    action: str
    url: str


class Thread:
    """The comments of one request. `is_ours` says whether a text has our mark."""

    def __init__(
        self, place: Place, sleep: Callable[[float], None], is_ours: Callable[[str], bool]
    ) -> None:
        self._place = place
        self._client = Client(place.api, place.headers, sleep)
        self._is_ours = is_ours

    def find(self) -> Comment | None:
        """Our comment, the first if there are several. What others wrote is not ours, whatever it
        says.
        """
        me = self._me()
        for fields in self._client.pages(self._place.comments):
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
        """The commit that a person reviewed last, None where the forge does not say."""
        if not self._place.reviews:
            return None
        found = [
            each for each in self._client.pages(self._place.reviews) if each.get("submitted_at")
        ]
        people = [each for each in found if not _author(each).endswith("[bot]")]
        commit = people[-1].get("commit_id") if people else None
        return commit if isinstance(commit, str) else None

    def put(self, body: str, found: Comment | None) -> Posted:
        """Change our comment to `body`, or make it. Raises Denied, GitcpError."""
        for _ in range(TRIES):
            if found is not None:
                return self._change(found, body)
            try:
                made = self._client.call("POST", self._place.comments, {"body": body})
                return Posted("created", _url(made.fields))
            except Unsure:
                found = self.find()  # it may be there all the same, and two are one too many
        raise GitcpError(
            f"{self._place.name} could not be commented on: the forge fails", hint="try again later"
        )

    def _change(self, found: Comment, body: str) -> Posted:
        if found.body.replace("\r\n", "\n").strip() == body.strip():
            return Posted("unchanged", found.url)
        made = self._client.call(
            self._place.method, f"{self._place.comment}{found.id}", {"body": body}
        )
        return Posted("updated", _url(made.fields) or found.url)

    def _me(self) -> str:
        try:
            answer = self._client.call("GET", "/user")
        except Denied:  # the token of a job is nobody's
            return self._place.nobody
        return _name(answer.fields)


def _author(fields: dict[str, Any]) -> str:
    return _name(fields.get("user") or fields.get("author"))


def _name(user: Any) -> str:
    """GitHub calls it login, GitLab username."""
    found = (user.get("login") or user.get("username")) if isinstance(user, dict) else None
    return found if isinstance(found, str) else ""


def _url(fields: Any) -> str:
    found = fields.get("html_url") if isinstance(fields, dict) else None
    return found if isinstance(found, str) else ""
