"""`gitcp review`."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import click

from gitcp import wire
from gitcp.cli import objects
from gitcp.cli.context import Context
from gitcp.cli.options import WORDS, Command, json_option, pass_context
from gitcp.errors import BadValue, SecretsFound
from gitcp.ops import links, secrets, settings
from gitcp.ops import review as op
from gitcp.ops.review import Asked, Step, Story

KINDS = (".md", ".html", ".json")


@click.command(cls=Command)
@click.argument("commits", required=False, type=WORDS, metavar="[BASE..HEAD]")
@click.option(
    "-o", "files", multiple=True, metavar="FILE", type=click.Path(), help="write .md, .html or .json (can be repeated)"
)
@click.option("--since", metavar="COMMIT", type=WORDS, help="say what is new since COMMIT was reviewed")
@click.option(
    "--max-bytes",
    metavar="N",
    type=click.IntRange(min=2000),
    default=60_000,
    help="the most that Markdown may take (60000)",
)
@click.option("--session", metavar="SESSION", type=WORDS, help="tell this session, or REMOTE/SESSION, and all of it")
@click.option("--redact", is_flag=True, help="leave secrets out of what is written")
@click.option(
    "--allow", multiple=True, metavar="ID", type=WORDS, help="let this secret pass, this time (can be repeated)"
)
@json_option
@pass_context
def command(context: Context, /, **given: Any) -> None:
    """Tell how commits came about: prompts, attempts, tests, files

    For the reviewer of a branch: the checkpoints that led to its commits, yours and those that were fetched. Commits
    are known again after an amend, a rebase or a squash. Without BASE..HEAD, what the branch has beyond its upstream,
    or beyond main; where it has nothing, the session. Markdown is printed, unless files are named.

      gitcp review
      gitcp review main..HEAD -o review.html
      gitcp review --session origin/e7baae82
      gitcp review main.. --since 3f0c9a1b22 -o review.md -o review.html
    """
    story = _clean(context, _told(context, given), given)
    if given["as_json"]:
        context.output.document(objects.document("review", fields(story)))
    elif not given["files"]:
        context.output.data(_markdown(story, given["max_bytes"]))
    for name in given["files"]:
        _write(context.cwd / name, _made(story, name, given["max_bytes"]))
        context.output.say(f"wrote {name}")


def _told(context: Context, given: dict[str, Any]) -> Story:
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
    asked = Asked(base=base or (head if session else None), head=head, session=session, reviewed=reviewed)
    return op.tell(store, asked, settings.policy(store.repo))


def _session(context: Context, name: str) -> str:
    return name if "/" in name else context.session(name)


def _clean(context: Context, story: Story, given: dict[str, Any]) -> Story:
    """What may leave. Raises SecretsFound where something in it may not."""
    allowed = settings.allowed_secrets(context.store.repo) | set(given["allow"])
    if given["redact"]:
        clean: Story = op.rewritten(story, partial(secrets.redacted, allowed=allowed))
        return clean
    found = secrets.in_text("\n".join(op.texts(story)).encode("utf-8", "replace"), "review", allowed=allowed)
    if found:
        raise SecretsFound(
            f"{len({each.id for each in found})} secrets found: nothing was written",
            tuple(dict.fromkeys(f"{each.id}  {each.rule}  {each.excerpt}" for each in found)),
            hint="--redact  leaves them out, --allow ID  lets one pass that is none",
        )
    return story


def _made(story: Story, name: str, most: int) -> bytes:
    match os.path.splitext(name)[1]:
        case ".md":
            return _markdown(story, most)
        case ".html":
            from gitcp.pages import review  # jinja2: only for a page

            return review.render(story).encode("utf-8", "replace")
        case ".json":
            return wire.dumps(objects.document("review", fields(story))) + b"\n"
    raise BadValue(f"{name} ends in none of {', '.join(KINDS)}: it was not written")


def _markdown(story: Story, most: int) -> bytes:
    from gitcp.pages import comment

    return comment.render(story, most).encode("utf-8", "replace")


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise BadValue(f"{path} cannot be written: {error.strerror}") from None


def fields(story: Story) -> wire.Json:
    """A story for programs."""
    since = story.since
    return {
        "base": story.base,
        "head": story.head,
        "branch": story.branch,
        "commits": [
            {"commit": t.commit, "subject": t.subject, "how": t.how or None, "checkpoints": list(t.checkpoints)}
            for t in story.commits
        ],
        "steps": [_step(step) for step in story.steps],
        "since": {
            "reviewed": since.reviewed,
            "known": since.known,
            "commits": [{"commit": m.commit, "subject": m.subject, "state": m.state} for m in since.commits],
            "files": [{"path": wire.encode_path(d.path), "more": d.more, "less": d.less} for d in since.files],
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
            {"command": ran.command, "test": ran.is_test, "failed": ran.failed, "said": ran.said or None}
            for ran in step.activity.commands
        ],
        "decided": list(step.decided),
        "failed": list(step.failed),
        "run": {"command": step.run[0], "exit_code": step.run[1]} if step.run else None,
        "files": [
            {"path": wire.encode_path(f.path), "kind": f.kind, "added": f.added, "removed": f.removed}
            for f in step.files
        ],
        "commits": list(step.commits),
    }
