"""`gitcp push --scan`."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import click

from gitcp import documents, humanize, wire
from gitcp.cli import allowing
from gitcp.cli.context import Context
from gitcp.cli.options import REVISION, WORDS, Command, json_option, session_option
from gitcp.cli.output import RED, YELLOW, Styled
from gitcp.errors import BadValue, GitFailed, SecretsFound
from gitcp.model import Oid
from gitcp.secrets import checkpoint_scan as op
from gitcp.secrets import known_secrets
from gitcp.secrets.checkpoint_scan import Finding
from gitcp.sharing import remote_haves, remotes
from gitcp.state import allowed
from gitcp.store import Store
from gitcp.value import Value
from gitcp.worktree.paths import display


class Options(Value):
    """What was typed."""

    revision: str | None
    every: bool
    allow: tuple[str, ...]
    allowed: bool
    revoke: tuple[str, ...]
    session: str | None
    as_json: bool


@click.command(cls=Command)
@click.argument("revision", type=REVISION, required=False, metavar="[REV]")
@click.option("--all", "every", is_flag=True, help="scan all sessions")
@click.option(
    "--allow",
    "allow",
    type=WORDS,
    metavar="ID",
    multiple=True,
    help="allow this secret from now on (repeatable)",
)
@click.option("--allowed", is_flag=True, help="list the secrets that are allowed")
@click.option(
    "--revoke",
    "revoke",
    type=WORDS,
    metavar="ID",
    multiple=True,
    help="no longer allow this secret (repeatable)",
)
@session_option
@json_option
@click.pass_obj
def command(context: Context, /, **values: Any) -> None:
    """List secrets in checkpoints, and send nothing

    Scans one checkpoint, or the whole session. Push, export and publish scan again and stop at a
    secret. Secrets that all enabled remotes already have are skipped. Exit code 15: secrets were
    found.

      gitcp push --scan
      gitcp push --scan 12
      gitcp push --scan --allow 3f0c9a1b22d4
    """
    given = Options(**values)
    if sum(map(bool, (given.allow, given.allowed, given.revoke))) > 1:
        raise BadValue(
            "--allow, --allowed and --revoke cannot be used together: nothing was changed",
            hint="gitcp push --scan -h",
        )
    if given.allow or given.revoke:
        _answer(context, given)
        return
    if given.allowed:
        _list(context, as_json=given.as_json)
        return
    _scan(context, given)


def _scan(context: Context, given: Options) -> None:
    """List what is found. Raises SecretsFound."""
    commits = _commits(context, given)
    search = op.search(context.store, commits, allowed.ids(context.store.repo))
    findings, known, names = _split(context, search, commits)
    for finding in findings:
        if given.as_json:
            context.output.document(documents.document("finding", finding.to_json()))
        else:
            show(context, finding)
    allowing.say_known(context, known, names, ", by the last fetch")
    if findings:
        raise SecretsFound(
            f"{humanize.count(len({f.id for f in findings}), 'secret')} found. Nothing was sent, "
            "nothing was changed",
            hint="gitcp push --scan --allow ID",
        )
    if not given.as_json:
        context.output.line("no secrets found" if not known else "no other secrets found")


def _split(
    context: Context, search: op.Search, commits: list[Oid]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...], list[str]]:
    """Return the findings that an enabled remote does not have, those that all have, and the names
    of the remotes.
    """
    store = context.store
    to = [each for each in remotes.listing(store.repo) if each.enabled] if search.findings else []
    haves = (remote_haves.at_last_fetch(store, each) for each in to)
    known = [known_secrets.ids(store, search, commits, each) for each in haves]
    everywhere = frozenset[str].intersection(*known) if known else frozenset[str]()
    return (*known_secrets.split(search.findings, everywhere), [each.name for each in to])


def _commits(context: Context, given: Options) -> list[Oid]:
    if given.revision is not None:
        if given.every:
            raise BadValue("REV and --all cannot be used together", hint="gitcp push --scan -h")
        return [context.checkpoint(given.revision, given.session).commit]
    store = context.store
    if not given.every:
        return _chain(store, store.tip(context.session(given.session)))
    tips = store.sessions().values()
    with suppress(GitFailed):
        return store.commits(tips)
    return [commit for tip in tips for commit in _chain(store, tip)]  # raises for what is damaged


def _chain(store: Store, tip: Oid | None) -> list[Oid]:
    """Return the checkpoints of a session, oldest first. Raises StoreDamaged."""
    return [summary.commit for summary in reversed(list(store.history(tip)))] if tip else []


def _answer(context: Context, given: Options) -> None:
    """Allow secrets, or revoke that."""
    repo = context.store.repo
    change = allowed.allow if given.allow else allowed.revoke
    schema = "allowed" if given.allow else "revoked"
    change(repo, given.allow or given.revoke)
    for id in given.allow or given.revoke:
        if given.as_json:
            context.output.document(documents.document(schema, {"id": id}))
        elif given.allow:
            context.output.line(f"allowed {id} in this repository, on this machine")
        elif id in allowed.ids(repo):
            sources = [each.source for each in allowed.listing(repo) if each.id == id]
            context.output.line(f"{id} is still allowed by {' and '.join(sources)}")
        else:
            context.output.line(f"{id} is no longer allowed")


def _list(context: Context, *, as_json: bool) -> None:
    answers = allowed.listing(context.store.repo)
    for each in answers:
        when = each.when
        if as_json:
            fields: wire.Json = {
                "id": each.id,
                "source": each.source,
                "when": wire.encode_time(when) if when else None,
            }
            context.output.document(documents.document("allowed", fields))
        else:
            since = f", {humanize.ago(when, context.host.now())}" if when else ""
            by = each.source if each.source == allowed.HERE else f"by {each.source}"
            context.output.line(Styled(each.id, YELLOW), f"  allowed {by}{since}")
    if not answers and not as_json:
        context.output.line("no secrets are allowed")


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
