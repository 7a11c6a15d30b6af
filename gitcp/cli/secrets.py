"""`gitcp secrets`."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from gitcp import humanize, wire
from gitcp.cli import objects
from gitcp.cli.context import Context
from gitcp.cli.options import (
    REVISION,
    WORDS,
    argument,
    flag,
    json_option,
    option,
    session_option,
    takes,
)
from gitcp.cli.output import RED, YELLOW, Styled
from gitcp.errors import BadValue, GitFailed, SecretsFound
from gitcp.model import Oid
from gitcp.secrets import checkpoint_scan as op
from gitcp.secrets.checkpoint_scan import Finding
from gitcp.state import settings
from gitcp.store import Store
from gitcp.worktree.paths import display


@takes(
    argument("revision", REVISION, required=False, metavar="[REV]"),
    flag("--all", target="every", help="scan all sessions"),
    option(
        "--allow",
        target="allow",
        multiple=True,
        metavar="ID",
        kind=WORDS,
        help="allow this secret from now on (repeatable)",
    ),
    session_option,
    json_option,
)
def command(context: Context, /, **given: Any) -> None:
    """List secrets in checkpoints: tokens, keys, passwords

    Scans the files, conversation, messages and names of one checkpoint, or of the whole session.
    Changes nothing. Push, export and publish scan again and stop at a secret. Exit code 15: secrets
    were found.

      gitcp secrets
      gitcp secrets 12
      gitcp secrets --allow 3f0c9a1b22d4
    """
    if given["allow"]:
        _allow(context, given["allow"], as_json=given["as_json"])
        return
    findings = op.findings(
        context.store, _commits(context, given), settings.allowed_secrets(context.store.repo)
    )
    for finding in findings:
        if given["as_json"]:
            context.output.document(objects.document("finding", fields(finding)))
        else:
            show(context, finding)
    if findings:
        raise SecretsFound(
            f"{humanize.count(len({f.id for f in findings}), 'secret')} found. Nothing was sent, "
            "nothing was changed",
            hint="gitcp secrets --allow ID",
        )
    if not given["as_json"]:
        context.output.line("no secrets found")


def _commits(context: Context, given: dict[str, Any]) -> list[Oid]:
    if given["revision"] is not None:
        if given["every"]:
            raise BadValue("REV and --all cannot be used together", hint="gitcp secrets -h")
        return [context.checkpoint(given["revision"], given["session"]).commit]
    store = context.store
    if not given["every"]:
        return _chain(store, store.tip(context.session(given["session"])))
    tips = store.sessions().values()
    with suppress(GitFailed):
        return store.commits(tips)
    return [commit for tip in tips for commit in _chain(store, tip)]  # raises for what is damaged


def _chain(store: Store, tip: Oid | None) -> list[Oid]:
    """Return the checkpoints of a session, oldest first. Raises StoreDamaged."""
    return [summary.commit for summary in reversed(list(store.history(tip)))] if tip else []


def _allow(context: Context, ids: tuple[str, ...], *, as_json: bool) -> None:
    for id in ids:
        if len(id) != 12 or not set(id) <= set("0123456789abcdef"):
            raise BadValue(
                f"{id!r} is not the ID of a secret: nothing was changed", hint="gitcp secrets"
            )
    for id in ids:
        settings.allow_secret(context.store.repo, id)
        if as_json:
            context.output.document(objects.document("allowed", {"id": id}))
        else:
            context.output.line(f"allowed {id} in this repository (git config gitcp.allowSecrets)")


def fields(finding: Finding) -> wire.Json:
    """Return the fields of a finding."""
    return {
        "id": finding.id,
        "rule": finding.rule,
        "excerpt": finding.excerpt,
        "place": finding.place,
        "path": wire.encode_path(finding.path) if finding.path else None,
        "line": finding.line,
        "checkpoint": str(finding.checkpoint) if finding.checkpoint else None,
    }


def show(context: Context, finding: Finding) -> None:
    """Print a finding on one line, for people."""
    context.output.line(*described(finding))


def described(finding: Finding) -> tuple[str | Styled, ...]:
    """Return the description of a finding."""
    where = f"{display(finding.path)}:{finding.line}" if finding.path else f"line {finding.line}"
    return (
        Styled(finding.id, YELLOW),
        "  ",
        Styled(finding.rule, RED),
        f"  {finding.excerpt}  in {finding.checkpoint}, {finding.place} {where}",
    )
