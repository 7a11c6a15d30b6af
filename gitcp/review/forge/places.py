"""Find the pull or merge request of a CI job from the variables that GitHub and GitLab set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

from gitcp import regular, wire
from gitcp.errors import BadValue
from gitcp.value import Value

PULL = re.compile(r"refs/pull/([1-9][0-9]{0,9})/")
REPOSITORY = re.compile(r"[\w-]+/(?!\.{1,2}$)[\w.-]+", re.ASCII)
ACTIONS = "github-actions[bot]"
LARGEST_EVENT = 16 << 20


class PullRequest(Value):
    """A pull or merge request, and the API paths to use.

    `name` is for people. `comments` lists and creates comments; `comment` plus an id is one of
    them, changed with `method`. `reviews` lists reviews, "" if the forge has none. `nobody` is the
    comments' author if the token has no user.
    """

    name: str
    api: str
    headers: Mapping[str, str]
    comments: str
    comment: str
    method: str
    reviews: str
    nobody: str


def find(env: Mapping[str, str]) -> PullRequest:
    """Return the pull or merge request of this CI job.

    Raises BadValue if there is none, or no token.
    """
    if env.get("GITLAB_CI"):
        return _gitlab(env)
    if env.get("GITHUB_REPOSITORY"):
        return _github(env)
    raise BadValue(
        "not a GitHub or GitLab CI job; nothing was posted", hint="gitcp review -o review.md"
    )


def _github(env: Mapping[str, str]) -> PullRequest:
    repository, number = env["GITHUB_REPOSITORY"], _number(env)
    if not REPOSITORY.fullmatch(repository) or number is None:
        raise BadValue("this job does not run for a pull request; nothing was posted")
    token = _token(env, "GITHUB_TOKEN", "GH_TOKEN")
    return PullRequest(
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
    match = PULL.match(env.get("GITHUB_REF", ""))
    if match is not None:
        return int(match[1])
    try:
        with regular.opened(env.get("GITHUB_EVENT_PATH", "")) as file:
            event = wire.loads(file.read(LARGEST_EVENT))
    except (OSError, ValueError):
        return None
    pull = event.get("pull_request") if isinstance(event, dict) else None
    number = pull.get("number") if isinstance(pull, dict) else None
    return number if isinstance(number, int) else None


def _gitlab(env: Mapping[str, str]) -> PullRequest:
    project, number = env.get("CI_PROJECT_ID", ""), env.get("CI_MERGE_REQUEST_IID", "")
    api = env.get("CI_API_V4_URL", "")
    if not (project and number.isdecimal() and api):
        raise BadValue("this job does not run for a merge request; nothing was posted")
    token = _token(env, "GITLAB_TOKEN")
    notes = f"/projects/{quote(project, safe='')}/merge_requests/{number}/notes"
    return PullRequest(
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
    token = next((env[name] for name in names if env.get(name)), "")
    if not token.isascii() or not token.isprintable():
        raise BadValue(f"{names[0]} is not a valid token; nothing was posted")
    if not token:
        raise BadValue(f"{names[0]} is not set; nothing was posted", hint=f"set {names[0]}")
    return token
