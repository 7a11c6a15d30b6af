"""`gitcp review`."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import click

from gitcp import wire
from gitcp.cli import objects, output_file
from gitcp.cli.context import Context
from gitcp.cli.options import WORDS, Command, json_option, pass_context
from gitcp.errors import BadValue
from gitcp.model import Oid
from gitcp.review import links
from gitcp.review import review as op
from gitcp.review.review import Asked, Step, Story
from gitcp.secrets import checkpoint_scan
from gitcp.state import settings

KINDS = (".md", ".html", ".json")
HEX = re.compile(r"[0-9a-f]{40}")


@click.command(cls=Command)
@click.argument("commits", required=False, type=WORDS, metavar="[BASE..HEAD]")
@click.option(
    "-o",
    "files",
    multiple=True,
    metavar="FILE",
    type=click.Path(),
    help="write .md, .html or .json (can be repeated)",
)
@click.option(
    "--since", metavar="COMMIT", type=WORDS, help="say what is new since COMMIT was reviewed"
)
@click.option("--force", is_flag=True, help="replace FILE if it exists")
@click.option(
    "--post", is_flag=True, help="in a CI job: keep one comment on its pull or merge request"
)
@click.option(
    "--dry-run", "-n", is_flag=True, help="with --post: print the comment, and write nothing"
)
@click.option(
    "--max-bytes",
    metavar="N",
    type=click.IntRange(min=2000),
    default=60_000,
    help="the most that Markdown may take (60000)",
)
@click.option(
    "--session",
    metavar="SESSION",
    type=WORDS,
    help="tell this session, or REMOTE/SESSION, and all of it",
)
@click.option("--redact", is_flag=True, help="leave secrets out of what is written")
@click.option(
    "--allow",
    multiple=True,
    metavar="ID",
    type=WORDS,
    help="let this secret pass, this time (can be repeated)",
)
@json_option
@pass_context
def command(context: Context, /, **given: Any) -> None:
    """Tell how commits came about: prompts, attempts, tests, files

    For the reviewer of a branch: the checkpoints that led to its commits, yours and those that were
    fetched. Commits are known again after an amend, a rebase or a squash. Without BASE..HEAD, what
    the branch has beyond its upstream, or beyond main; where it has nothing, the session. Markdown
    is printed, unless files are named.

      gitcp review
      gitcp review main..HEAD -o review.html
      gitcp review --session origin/e7baae82
      gitcp review main.. --since 3f0c9a1b22 -o review.md -o review.html
    """
    if given["dry_run"] and not given["post"]:
        raise click.UsageError("--dry-run says what --post would do: give both")
    if given["post"] and given["as_json"]:
        raise click.UsageError(
            "--post says where the comment is, and --json prints the story: give one"
        )
    for name in given["files"]:
        _check(context.cwd / name, force=given["force"])
    thread = _Thread(context) if given["post"] else None
    story = _clean(context, _told(context, given, thread), given)
    for name in given["files"]:
        output_file.write(
            context.cwd / name, _made(story, name, given["max_bytes"]), force=given["force"]
        )
        context.output.say(f"wrote {name}")
    if thread is not None:
        thread.put(_markdown(story, given["max_bytes"]).decode(), dry=given["dry_run"])
    elif given["as_json"]:
        context.output.document(objects.document("review", fields(story)))
    elif not given["files"]:
        context.output.data(_markdown(story, given["max_bytes"]))


class _Thread:
    """The comments of the request that this job is about, and the one of ours among them."""

    def __init__(self, context: Context) -> None:
        from gitcp.review.forge.places import find  # HTTP: only to post
        from gitcp.review.forge.post import Thread
        from gitcp.review.pages.comment import marked

        self._output = context.output
        self._place = find(context.host.env)
        self._thread = Thread(self._place, time.sleep, lambda text: marked(text) is not None)
        self._found = self._thread.find()
        self.mark = marked(self._found.body) if self._found else None

    def reviewed(self) -> str | None:
        """The head that was reviewed last: by a person, else told by our comment."""
        return self._thread.reviewed() or (self.mark.head if self.mark else None)

    def put(self, body: str, *, dry: bool) -> None:
        """Write the comment, or say what would be written."""
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


def _told(context: Context, given: dict[str, Any], thread: _Thread | None) -> Story:
    store = context.store
    base, head = links.between(store.repo, given["commits"])
    session = given["session"] and _session(context, given["session"])
    if session is None and given["commits"] is None and base in (None, head):
        session = context.current(None)
    reviewed = None
    if given["since"]:
        reviewed = links.commit(store.repo, given["since"])
        if reviewed is None:
            raise BadValue(f"{given['since']} names no commit here", hint="git fetch")
    seen = (thread.mark.checkpoint or None) if thread is not None and thread.mark else None
    if thread is not None and reviewed is None:
        reviewed = _hex(thread.reviewed())
    asked = Asked(base or (head if session else None), head, session, reviewed, seen)
    return op.tell(store, asked, settings.policy(store.repo))


def _hex(text: str | None) -> Oid | None:
    """What a forge says may be anything."""
    return Oid(text) if text is not None and HEX.fullmatch(text) else None


def _session(context: Context, name: str) -> str:
    return name if "/" in name else context.session(name)


def _clean(context: Context, story: Story, given: dict[str, Any]) -> Story:
    """What may leave. Raises SecretsFound where something in it may not."""
    allowed = settings.allowed_secrets(context.store.repo) | set(given["allow"])
    text = "\n".join(op.texts(story)).encode("utf-8", "replace")
    sieve = checkpoint_scan.sieve(context.store, (), allowed, [text])
    if given["redact"]:
        checkpoint_scan.require_placed(sieve)
        clean: Story = op.rewritten(story, checkpoint_scan.Cleaner(sieve, [text]).cleaned)
        return clean
    found = checkpoint_scan.in_text(text, "review", sieve=sieve)
    if found:
        raise checkpoint_scan.refused(found)
    return story


def _made(story: Story, name: str, most: int) -> bytes:
    match os.path.splitext(name)[1]:
        case ".md":
            return _markdown(story, most)
        case ".html":
            from gitcp.review.pages import review  # jinja2: only for a page

            return review.render(story).encode("utf-8", "replace")
        case ".json":
            return wire.dumps(objects.document("review", fields(story))) + b"\n"
    raise AssertionError(name)


def _markdown(story: Story, most: int) -> bytes:
    from gitcp.review.pages import comment

    return comment.render(story, most).encode("utf-8", "replace")


def _check(path: Path, *, force: bool) -> None:
    if path.suffix not in KINDS:
        raise BadValue(f"{path.name} ends in none of {', '.join(KINDS)}: nothing was written")
    output_file.require_free(path, force=force)


def fields(story: Story) -> wire.Json:
    """A story for programs."""
    since = story.since
    return {
        "base": story.base,
        "head": story.head,
        "branch": story.branch,
        "commits": [
            {
                "commit": t.commit,
                "subject": t.subject,
                "how": t.how or None,
                "checkpoints": list(t.checkpoints),
            }
            for t in story.commits
        ],
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


def _step(step: Step) -> wire.Json:
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
            }
            for f in step.files
        ],
        "commits": list(step.commits),
    }
