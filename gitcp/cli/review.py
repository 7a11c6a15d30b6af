"""`gitcp review`."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import click

from gitcp import documents, wire
from gitcp.cli import allowing
from gitcp.cli.context import Context
from gitcp.cli.options import (
    SESSION,
    WORDS,
    Command,
    Number,
    allow_option,
    json_option,
    rare,
    replace_option,
)
from gitcp.errors import BadValue
from gitcp.git.object_format import FULL_NAME
from gitcp.model import Oid
from gitcp.review import links
from gitcp.review import review as op
from gitcp.review.review import ReviewRange, ReviewStep, Story
from gitcp.secrets import checkpoint_scan
from gitcp.sharing import output_file
from gitcp.state import settings
from gitcp.value import Value

KINDS = (".md", ".html", ".json")
HEX = re.compile(FULL_NAME)


class Options(Value):
    """What was typed."""

    commits: str | None
    files: tuple[str, ...]
    since: str | None
    force: bool
    post: bool
    dry_run: bool
    max_bytes: int
    session: str | None
    redact: bool
    allow: tuple[str, ...]
    as_json: bool


@click.command(cls=Command)
@click.argument("commits", type=WORDS, required=False, metavar="[BASE..HEAD]")
@click.option(
    "-o", "files", metavar="FILE", multiple=True, help="write .md, .html or .json (repeatable)"
)
@click.option(
    "--since", type=WORDS, metavar="COMMIT", help="show what is new since COMMIT was reviewed"
)
@rare(replace_option)
@click.option("--post", is_flag=True, help="in CI: update the comment on the pull or merge request")
@click.option("--dry-run", "-n", is_flag=True, help="with --post: print the comment, post nothing")
@rare(
    click.option(
        "--max-bytes",
        type=Number(2000),
        metavar="N",
        default=60_000,
        help="size limit of the Markdown (60000)",
    )
)
@click.option(
    "--session", type=SESSION, metavar="SESSION", help="explain all of SESSION or REMOTE/SESSION"
)
@rare(click.option("--redact", is_flag=True, help="redact secrets in the output"))
@rare(allow_option)
@json_option
@click.pass_obj
def command(context: Context, /, **values: Any) -> None:
    """Explain how commits were made: prompts, attempts, tests

    Shows the checkpoints behind a branch's commits, including fetched ones, even after an amend,
    rebase or squash. Without BASE..HEAD: the commits missing from the upstream or the default
    branch, or else the session. Prints Markdown unless -o is given.

      gitcp review
      gitcp review main..HEAD -o review.html
      gitcp review main.. --since 3f0c9a1b22 -o review.md -o review.html
    """
    given = Options(**values)
    if given.dry_run and not given.post:
        raise BadValue("--dry-run needs --post", hint="gitcp review -h")
    if given.post and given.as_json:
        raise BadValue(
            "--post and --json cannot be used together",
            hint="gitcp review -h",
        )
    for name in given.files:
        _check(context, name, force=given.force)
    thread = _Thread(context) if given.post else None
    story = _clean(context, _told(context, given, thread), given)
    if there := context.to_fetch():
        context.output.say(f"note: no checkpoints are here; those of the remote: {there}")
    for name in given.files:
        output_file.write(
            context.cwd / name, [_made(story, name, given.max_bytes)], force=given.force
        )
        context.output.say(f"wrote {name}")
    if thread is not None:
        thread.put(_markdown(story, given.max_bytes).decode(), dry=given.dry_run)
    elif given.as_json:
        context.output.document(documents.document("review", fields(story)))
    elif not given.files and context.output.terminal:
        context.output.data(_terminal(story))
    elif not given.files:
        context.output.data(_markdown(story, given.max_bytes))


class _Thread:
    """The comments of the pull request of this job, and gitcp's own among them."""

    def __init__(self, context: Context) -> None:
        from gitcp.review.forge.places import find  # HTTP: only to post
        from gitcp.review.forge.post import CommentThread
        from gitcp.review.pages.comment import marked

        self._output = context.output
        self._place = find(context.host.env)
        self._thread = CommentThread(self._place, time.sleep, lambda text: marked(text) is not None)
        self._found = self._thread.find()
        self.mark = marked(self._found.body) if self._found else None

    def reviewed(self) -> str | None:
        """Return the head that was reviewed last: by a person, else named by gitcp's comment."""
        return self._thread.reviewed() or (self.mark.head if self.mark else None)

    def put(self, body: str, *, dry: bool) -> None:
        """Write the comment, or print what would be written."""
        size = f"({len(body.encode()):,} bytes)"
        if dry:
            self._output.data(body.encode())
            self._output.say(
                f"would {'update' if self._found else 'create'} a comment on {self._place.name} "
                f"{size}"
            )
            return
        done = self._thread.put(body, self._found)
        self._output.line(
            f"{done.action} the comment on {self._place.name} {size} {done.url}".rstrip()
        )


def _told(context: Context, given: Options, thread: _Thread | None) -> Story:
    store = context.store
    base, head, branch, onto = links.between(store.repo, given.commits)
    session = given.session
    if session and "/" not in session:
        session = context.session(session)
    if session is None and given.commits is None and base in (None, head):
        session = context.current(None)
    reviewed = None
    if given.since:
        reviewed = links.commit(store.repo, given.since)
        if reviewed is None:
            raise BadValue(f"{given.since} names no commit here", hint="git fetch")
    seen = (thread.mark.checkpoint or None) if thread is not None and thread.mark else None
    if thread is not None and reviewed is None:
        reviewed = _hex(thread.reviewed())
    start = base or (head if session else None)
    asked = ReviewRange(start, head, session, reviewed, seen, branch, onto)
    diffs = any(name.endswith(".html") for name in given.files)
    return op.build(store, asked, settings.policy(store.repo), diffs=diffs)


def _hex(text: str | None) -> Oid | None:
    """Return the object id that a forge sent, None if its text is no object id."""
    return Oid(text) if text is not None and HEX.fullmatch(text) else None


def _clean(context: Context, story: Story, given: Options) -> Story:
    """Return the story without secrets. Raises SecretsFound unless they are redacted or allowed."""
    allowed = allowing.answered(context, given.allow, dry_run=given.dry_run)
    text = "\n".join(op.texts(story)).encode("utf-8", "replace")
    sieve = checkpoint_scan.sieve(context.store, (), allowed, [text])
    if given.redact:
        checkpoint_scan.require_redactable(sieve)
        clean: Story = op.rewritten(story, checkpoint_scan.Cleaner(sieve, [text]).cleaned)
        return clean
    secrets = checkpoint_scan.in_text(text, "review", sieve=sieve)
    if secrets:
        raise checkpoint_scan.refused(secrets)
    return story


def _made(story: Story, name: str, most: int) -> bytes:
    match os.path.splitext(name)[1]:
        case ".md":
            return _markdown(story, most)
        case ".html":
            from gitcp.review.pages import review  # jinja2: only for a page

            return review.render(story).encode("utf-8", "replace")
        case ".json":
            return wire.dumps(documents.document("review", fields(story))) + b"\n"
    raise AssertionError(name)


def _markdown(story: Story, most: int) -> bytes:
    from gitcp.review.pages import comment

    return comment.render(story, most).encode("utf-8", "replace")


def _terminal(story: Story) -> bytes:
    from gitcp.review.pages import comment

    return comment.terminal(story).encode("utf-8", "replace")


def _check(context: Context, name: str, *, force: bool) -> None:
    if Path(name).suffix not in KINDS:
        raise BadValue(f"{name} must end in one of {', '.join(KINDS)}: nothing was written")
    output_file.chosen(context.cwd, name, force=force)


def fields(story: Story) -> wire.Json:
    since = story.since
    return {
        "base": story.base,
        "head": story.head,
        "branch": story.branch,
        "objective": story.objective or None,
        "commits": [
            {
                "commit": t.commit,
                "subject": t.subject,
                "how": t.how or None,
                "checkpoints": list(t.checkpoints),
            }
            for t in story.commits
        ],
        "tokens": {name: getattr(story.tokens, name) for name in story.tokens.fields}
        if story.tokens
        else None,
        "steps": [_step(step) for step in story.steps],
        "since": {
            "reviewed": since.reviewed,
            "known": since.known,
            "commits": [
                {"commit": m.commit, "subject": m.subject, "state": m.state} for m in since.commits
            ],
            "files": [
                {"path": wire.encode_path(d.path), "more": d.more, "less": d.less}
                for d in since.files
            ],
            "steps": list(since.steps) if since.steps is not None else None,
        }
        if since
        else None,
    }


def _step(step: ReviewStep) -> wire.Json:
    return {
        "id": step.id,
        "created": step.created,
        "title": step.title,
        "label": step.label or None,
        "trigger": step.trigger,
        "phase": step.phase or None,
        "agent": step.agent or None,
        "prompts": list(step.activity.prompts),
        "tools": [{"name": name, "calls": count} for name, count in step.activity.tools],
        "commands": [
            {
                "command": ran.command,
                "test": ran.is_test,
                "failed": ran.failed,
                "said": ran.said or None,
            }
            for ran in step.activity.commands
        ],
        "decided": list(step.decided),
        "failed": list(step.failed),
        "run": {"command": step.run[0], "exit_code": step.run[1]} if step.run else None,
        "files": [
            {
                "path": wire.encode_path(f.path),
                "kind": f.kind,
                "added": f.added,
                "removed": f.removed,
                "by": f.by,
            }
            for f in step.files
        ],
        "commits": list(step.commits),
        "restored_from": step.restored_from or None,
    }
