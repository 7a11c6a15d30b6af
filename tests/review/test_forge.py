"""`gitcp review --post`: one comment on a request of GitHub and GitLab, whatever servers do; and
the CI templates.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

import pytest
from forges import BOT, Fault, Forge, served
from talk import Talk

from gitcp.errors import BadValue, GitcpError
from gitcp.review.forge import places
from gitcp.review.forge.client import LONGEST_WAIT, Client, Denied
from gitcp.review.forge.post import CommentThread
from gitcp.review.pages.comment import marked

from driver import SOURCE, Project

MARK = "<!-- gitcp:review v1 head= checkpoint= -->"
NONE: dict[str, str] = {}


@pytest.fixture(params=["github", "gitlab"])
def forge(request: pytest.FixtureRequest) -> Iterator[Forge]:
    """A forge that lets us write."""
    with served(request.param) as found:
        found.user = None if found.kind == "github" else "project_7_bot"
        yield found


@pytest.fixture
def github() -> Iterator[Forge]:
    """A GitHub."""
    with served("github") as found:
        yield found


class Clock:
    """Takes the place of sleeping: what was waited."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    def sleep(self, seconds: float) -> None:
        """Wait not at all."""
        self.waited.append(seconds)


def thread(forge: Forge, clock: Clock | None = None) -> CommentThread:
    """The comments of the request, as a job sees them."""
    return CommentThread(
        places.find(forge.env()), (clock or Clock()).sleep, lambda text: marked(text) is not None
    )


def put(forge: Forge, body: str, clock: Clock | None = None) -> str:
    """Find our comment and write it; what was done."""
    found = thread(forge, clock)
    return found.put(body, found.find()).action


def writes(forge: Forge) -> list[str]:
    """The methods of what was asked, but for looking."""
    return [method for method, _, _ in forge.asked if method != "GET"]


# ---------------------------------------------------------------- one comment


def test_one_comment(forge: Forge) -> None:
    """It is made, then changed, and left alone where it says the same; with the token, and nothing
    else.
    """
    assert put(forge, f"{MARK}\none") == "created"
    assert put(forge, f"{MARK}\ntwo") == "updated"
    forge.comments[0]["body"] = f"{MARK}\r\ntwo"
    assert put(forge, f"{MARK}\ntwo\n") == "unchanged"

    assert [comment["body"] for comment in forge.comments] == [f"{MARK}\r\ntwo"]
    assert writes(forge) == ["POST", "PATCH" if forge.kind == "github" else "PUT"]
    assert {token for _, _, token in forge.asked} <= {"Bearer job-token", "project-token"}


@pytest.mark.parametrize("largest", [100, 20])
def test_pages(forge: Forge, largest: int) -> None:
    """It is found behind 230 others, also where the server's pages are smaller than what was asked
    for.
    """
    forge.largest_page = largest
    for number in range(230):
        forge.say("somebody", f"comment {number}")
    ours = forge.say(forge.user or BOT, f"{MARK}\nold")

    assert put(forge, f"{MARK}\nnew") == "updated"
    assert ours["body"] == f"{MARK}\nnew"
    assert len(forge.comments) == 231


def test_only_ours(forge: Forge) -> None:
    """Somebody else's comment is not touched though it begins with our mark; nor ours that does
    not.
    """
    forge.say("somebody", f"{MARK}\nmine!")
    forge.say(forge.user or BOT, f"> {MARK}\nquoted")

    assert put(forge, f"{MARK}\nstory") == "created"
    assert [comment["body"][:6] for comment in forge.comments[:2]] == [
        f"{MARK}"[:6],
        f"> {MARK}"[:6],
    ]


# ---------------------------------------------------------------- what servers do


def test_limits(forge: Forge) -> None:
    """Limits are waited for as long as the server says, by its own clock, if that is not too
    long.
    """
    clock = Clock()
    now = datetime(2026, 11, 21, 16, tzinfo=UTC)
    reset = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(now.timestamp()) + 10)}
    forge.faults = [
        Fault("GET", 429, {"Retry-After": "7"}),
        Fault("GET", 403, {"Retry-After": "3"}),
        Fault("GET", 403, {**reset, "Date": format_datetime(now, usegmt=True)}),
        Fault("POST", 429, NONE),
    ]

    assert put(forge, MARK, clock) == "created"
    assert clock.waited[:3] == [7, 3, 11]
    assert len(clock.waited) == 4


@pytest.mark.parametrize(
    "headers",
    [{"Retry-After": "3600"}, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "nonsense"}],
)
def test_long_limits(forge: Forge, headers: dict[str, str]) -> None:
    """A limit of an hour is not waited for, and is said."""
    clock = Clock()
    forge.faults = [Fault("POST", 403, headers)]

    with pytest.raises(GitcpError, match="rate limited"):
        put(forge, MARK, clock)
    assert clock.waited == []
    assert forge.comments == []


def test_failing(forge: Forge) -> None:
    """A server that fails or breaks off is asked again, but not for ever."""
    clock = Clock()
    forge.faults = [
        Fault("GET", 502, NONE),
        Fault("GET", 0, NONE),
        Fault("GET", 503, {"Retry-After": "2"}),
    ]
    assert put(forge, MARK, clock) == "created"
    assert len(clock.waited) == 3
    assert max(clock.waited) <= LONGEST_WAIT

    forge.faults = [Fault("GET", 500, NONE)] * 9
    with pytest.raises(GitcpError, match="500"):
        put(forge, MARK, clock)


@pytest.mark.parametrize("status", [0, 502])
@pytest.mark.parametrize("late", [True, False])
def test_never_twice(forge: Forge, status: int, late: bool) -> None:
    """Where it is not known whether a comment was made, it is looked for first: there is one in the
    end.
    """
    forge.faults = [Fault("POST", status, NONE, late)]

    assert put(forge, f"{MARK}\nstory") == ("unchanged" if late else "created")
    assert [comment["body"] for comment in forge.comments] == [f"{MARK}\nstory"]


def test_denied(forge: Forge) -> None:
    """A job that may not write is told so; a text that is too long too. Neither is tried again."""
    forge.writable = False
    with pytest.raises(Denied, match="403 Resource not accessible"):
        put(forge, MARK)
    forge.writable = True
    with pytest.raises(GitcpError, match="422 Body is too long"):
        put(forge, MARK + "x" * 65536)
    assert writes(forge) == ["POST", "POST"]


def test_token_stays(github: Forge) -> None:
    """No redirect is followed, and no token goes over a line that others can read."""
    with served("github") as other:
        github.faults = [Fault("GET", 307, {"Location": f"{other.url}/user"})]
        with pytest.raises(GitcpError, match="307"):
            put(github, MARK)
        assert other.asked == []
    for url in ("http://api.example.org", "ftp://x", "file:///etc/passwd", "api.example.org"):
        with pytest.raises(BadValue, match="is not https"):
            Client(url, {}, Clock().sleep)


def test_nobody_there() -> None:
    """A server that does not answer is given up."""
    clock = Clock()
    client = Client("http://127.0.0.1:1", {}, clock.sleep)

    with pytest.raises(GitcpError, match="cannot reach"):
        client.call("GET", "/user")
    assert len(clock.waited) == 4


def test_places(tmp_path: Path) -> None:
    """Which request a job is about; and what is said where it is about none."""
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 12}}))
    env = {"GITHUB_REPOSITORY": "team/shop", "GITHUB_TOKEN": "t"}
    assert places.find({**env, "GITHUB_EVENT_PATH": str(event)}).name == "team/shop#12"
    assert places.find({**env, "GITHUB_REF": "refs/pull/3/merge"}).api == "https://api.github.com"
    group = {
        "GITLAB_CI": "1",
        "CI_PROJECT_ID": "a/b",
        "CI_MERGE_REQUEST_IID": "4",
        "GITLAB_TOKEN": "t",
    }
    assert (
        places.find({**group, "CI_API_V4_URL": "https://x/api/v4"}).comments
        == "/projects/a%2Fb/merge_requests/4/notes"
    )
    for wrong in (
        {},
        env,
        {**env, "GITHUB_REPOSITORY": "../x", "GITHUB_REF": "refs/pull/3/"},
        group,
    ):
        with pytest.raises(BadValue, match="nothing was posted"):
            places.find(wrong)
    for token in ("", "a\nb"):
        with pytest.raises(BadValue, match="nothing was posted"):
            places.find({**env, "GITHUB_REF": "refs/pull/3/merge", "GITHUB_TOKEN": token})


# ---------------------------------------------------------------- the command, and the templates


@pytest.fixture
def branch(project: Project) -> Project:
    """A branch with one commit from one checkpoint."""
    project.write("a.py", "one\n")
    project.commit()
    project.git("checkout", "--quiet", "-b", "topic")
    Talk(project).say("Make it two.", "Done.")
    project.write("a.py", "two\n")
    project.gitcp("save", "two", check=0)
    project.commit("make it two")
    return project


def test_post(forge: Forge, branch: Project) -> None:
    """A dry run writes nothing; then one comment tells the story, and at the next push what is
    new.
    """
    dry = branch.gitcp("review", "main..", "--post", "--dry-run", env=forge.env(), check=0)
    assert "would create a comment on team/shop" in dry.err
    assert "make it two" in dry.out
    assert writes(forge) == []

    said = branch.gitcp("review", "main..", "--post", env=forge.env(), check=0).out
    assert said.startswith("created the comment on team/shop")
    assert "Since the last review" not in forge.comments[0]["body"]

    branch.write("b.py", "three\n")
    branch.gitcp("save", "three", check=0)
    head = branch.commit("and three")
    branch.gitcp("review", "main..", "--post", env=forge.env(), check=0)
    body = forge.comments[0]["body"]
    assert "### Since the last review\n\n- 1 new checkpoint, the last `e7baae82@2`\n" in body
    assert f"- new: {head[:10]} `and three`" in body
    assert len(forge.comments) == 1


def test_reviewed_by_a_person(github: Forge, branch: Project) -> None:
    """What a person reviewed is the last review, not what our comment told last."""
    first = branch.git("rev-parse", "HEAD")
    branch.commit("second")
    github.reviews = [
        {"user": {"login": "ann"}, "submitted_at": "2026-11-02T09:00:00Z", "commit_id": first},
        {
            "user": {"login": "linter[bot]"},
            "submitted_at": "2026-11-02T10:00:00Z",
            "commit_id": "0" * 40,
        },
        {"user": {"login": "bob"}, "submitted_at": None, "commit_id": "x"},
    ]

    out = branch.gitcp("review", "main..", "--post", "--dry-run", env=github.env(), check=0).out

    assert "- new: " in out
    assert "- unchanged except for a rebase: 1 commit" in out


def test_post_refused(branch: Project) -> None:
    """Outside of a job, and with options that contradict each other."""
    assert "not a GitHub or GitLab CI job" in branch.gitcp("review", "--post", check=2).err
    branch.gitcp("review", "--dry-run", check=2)
    branch.gitcp("review", "--post", "--json", check=2)


@pytest.fixture
def job(branch: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What a job has: `gitcp` on its PATH, a remote with the checkpoints, no checkpoint of its own,
    the two ends.
    """
    programs = tmp_path / "bin"
    programs.mkdir()
    launcher = f'#!/bin/sh\nPYTHONPATH="{SOURCE}" exec "{sys.executable}" -P -m gitcp "$@"\n'
    for name, text in {"gitcp": launcher, "python3": "#!/bin/sh\nexit 0\n"}.items():
        programs.joinpath(name).write_text(text)
        programs.joinpath(name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / "hub.git"], check=True)
    branch.git("remote", "add", "origin", str(tmp_path / "hub.git"))
    branch.gitcp("remote", "origin", check=0)
    branch.gitcp("push", check=0)
    branch.gitcp("remote", "origin", "--off", check=0)
    branch.gitcp("delete", "e7baae82", "--yes", check=0)
    branch.git("update-ref", "-d", "refs/gitcp/remotes/origin/sessions/e7baae82")
    return {"base": branch.git("rev-parse", "main"), "head": branch.git("rev-parse", "HEAD")}


@pytest.mark.parametrize("kind", ["own", "fork", "unreachable"])
def test_github_action(
    github: Forge, branch: Project, job: dict[str, str], tmp_path: Path, kind: str
) -> None:
    """The action's step fetches, tells in the summary and on the request; for a fork in the summary
    alone.
    """
    action = (SOURCE / "hooks/github/action.yml").read_text()
    defaults = dict(
        re.findall(r'^  (\w+):\n    description: .*\n    default: "?(\w+)"?$', action, re.MULTILINE)
    )
    (step,) = re.findall(r"^    - name: Review\n((?:      .*\n)+)", action, re.MULTILINE)
    (script,) = re.findall(r"^      run: (.*)$", step, re.MULTILINE)
    values = {
        "github.event.pull_request.base.sha": job["base"],
        "github.event.pull_request.head.sha": job["head"],
        "github.event.pull_request.head.repo.full_name": "somebody/shop"
        if kind == "fork"
        else "team/shop",
        "inputs.comment": defaults["comment"],
        "inputs.remote": "nowhere" if kind == "unreachable" else defaults["remote"],
        "inputs.token": "job-token",
    }
    env = {
        name: values[key]
        for name, key in re.findall(r"^        (\w+): \$\{\{ (\S+) \}\}$", step, re.MULTILINE)
    }
    github.writable = kind == "own"
    runner = {
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "GITHUB_ACTION_PATH": str(SOURCE / "hooks/github"),
    }

    done = subprocess.run(
        ["bash", "-c", script],
        cwd=branch.root,
        env={**os.environ, **github.env(), **env, **runner},
        capture_output=True,
        encoding="utf-8",
    )

    assert done.returncode == 0, done.stderr
    summary = (tmp_path / "summary").read_text()
    assert (tmp_path / "gitcp-review/review.html").exists()
    assert ("`e7baae82@1` (exact match)" in summary) == (kind != "unreachable")
    assert len(github.comments) == (kind == "own")
    assert ("::warning title=gitcp::" in done.stdout) == (kind == "unreachable"), done
    assert writes(github) == {"own": ["POST"], "fork": [], "unreachable": ["POST"]}[kind]


def test_action_takes_no_text_for_code() -> None:
    """No expression stands inside a script: what a branch or a title says is never run."""
    action = (SOURCE / "hooks/github/action.yml").read_text()

    scripts = re.findall(r"^ +run: .*$", action, re.MULTILINE)
    assert len(scripts) == action.count("run:") == 2
    assert not [script for script in scripts if "${{" in script]


@pytest.mark.parametrize("token", ["project-token", ""])
def test_gitlab_template(branch: Project, job: dict[str, str], token: str) -> None:
    """The job's script makes the artifact, and a note where there is a token."""
    template = (SOURCE / "hooks/gitlab/review.yml").read_text()
    (script,) = re.findall(r"^  script:\n((?:    - .*\n)+)", template, re.MULTILINE)
    (kept,) = re.findall(r"^    paths: \[(.*)\]$", template, re.MULTILINE)
    with served("gitlab") as forge:
        forge.user = "project_7_bot"
        done = subprocess.run(
            ["bash", "-e", "-c", re.sub(r"(?m)^    - ", "", script)],
            cwd=branch.root,
            env={
                **os.environ,
                **forge.env(),
                "GITLAB_TOKEN": token,
                "GITCP_RANGE": f"{job['base']}..{job['head']}",
            },
            capture_output=True,
            encoding="utf-8",
        )

    assert done.returncode == 0, done.stderr
    assert all((branch.root / path).exists() for path in kept.split(", "))
    assert [marked(comment["body"]) is not None for comment in forge.comments] == (
        [True] if token else []
    )
