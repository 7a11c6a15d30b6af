"""Which request a CI job is about, and how its forge is asked: GitHub and GitLab, by the variables
that each sets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from gitcp import wire
from gitcp.errors import BadValue
from gitcp.value import Value

PULL = re.compile(r"refs/pull/([1-9][0-9]{0,9})/")
REPOSITORY = re.compile(r"[\w-]+/(?!\.{1,2}$)[\w.-]+", re.ASCII)
ACTIONS = "github-actions[bot]"
LARGEST_EVENT = 16 << 20


class Place(Value):
    """A pull or merge request, and the paths of the API around it.

    `name` is for people. `comments` lists and makes comments, `comment` is one of them, changed by
    `method`. `reviews` lists reviews, "" where the forge has none. `nobody` is who we are where the
    token does not say.
    """

    name: str
    api: str
    headers: Mapping[str, str]
    comments: str
    comment: str
    method: str
    reviews: str
    nobody: str


def find(env: Mapping[str, str]) -> Place:
    """The request that this job is about. Raises BadValue where it is about none, or there is no
    token.
    """
    if env.get("GITLAB_CI"):
        return _gitlab(env)
    if env.get("GITHUB_REPOSITORY"):
        return _github(env)
    raise BadValue(
        "this is no job of GitHub or GitLab: nothing was posted", hint="gitcp review -o review.md"
    )


def _github(env: Mapping[str, str]) -> Place:
    repository, number = env["GITHUB_REPOSITORY"], _number(env)
    if not REPOSITORY.fullmatch(repository) or number is None:
        raise BadValue("this job is about no pull request: nothing was posted")
    token = _token(env, "GITHUB_TOKEN", "GH_TOKEN")
    return Place(
        name=f"{repository}#{number}",
        api=env.get("GITHUB_API_URL") or "https://api.github.com",
        headers={"Authorization": f"Bearer {token}", "X-GitHub-Api-Version": "2022-11-28"},
        comments=f"/repos/{repository}/issues/{number}/comments",
        comment=f"/repos/{repository}/issues/comments/",
        method="PATCH",
        reviews=f"/repos/{repository}/pulls/{number}/reviews",
        nobody=ACTIONS,
    )


def _number(env: Mapping[str, str]) -> int | None:
    found = PULL.match(env.get("GITHUB_REF", ""))
    if found is not None:
        return int(found[1])
    try:
        with Path(env.get("GITHUB_EVENT_PATH", "")).open("rb") as file:
            event = wire.loads(file.read(LARGEST_EVENT))
    except (OSError, ValueError):
        return None
    pull = event.get("pull_request") if isinstance(event, dict) else None
    number = pull.get("number") if isinstance(pull, dict) else None
    return number if isinstance(number, int) else None


def _gitlab(env: Mapping[str, str]) -> Place:
    project, number = env.get("CI_PROJECT_ID", ""), env.get("CI_MERGE_REQUEST_IID", "")
    api = env.get("CI_API_V4_URL", "")
    if not (project and number.isdecimal() and api):
        raise BadValue("this job is about no merge request: nothing was posted")
    token = _token(env, "GITLAB_TOKEN")
    notes = f"/projects/{quote(project, safe='')}/merge_requests/{number}/notes"
    return Place(
        name=f"{env.get('CI_PROJECT_PATH') or project}!{number}",
        api=api,
        headers={"PRIVATE-TOKEN": token},
        comments=notes,
        comment=notes + "/",
        method="PUT",
        reviews="",
        nobody="",
    )


def _token(env: Mapping[str, str], *names: str) -> str:
    found = next((env[name] for name in names if env.get(name)), "")
    if not found.isascii() or not found.isprintable():
        raise BadValue(f"{names[0]} holds no token: nothing was posted")
    if not found:
        raise BadValue("there is no token: nothing was posted", hint=f"set {names[0]}")
    return found
