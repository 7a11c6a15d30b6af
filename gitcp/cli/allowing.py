"""`--allow` of the commands that send or write, and what is said of what they let through."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gitcp import humanize
from gitcp.cli.context import Context
from gitcp.errors import BadValue, GitcpError
from gitcp.secrets.checkpoint_scan import Finding
from gitcp.state import allowed


def answered(context: Context, allow: Sequence[str], *, dry_run: bool = False) -> frozenset[str]:
    """Return the IDs of the secrets that may leave. Those of `--allow` are remembered, unless it is
    a dry run. Raises BadValue for what is no ID.
    """
    repo, named = context.store.repo, allowed.require(allow)
    before = allowed.ids(repo)
    if named and not dry_run:
        try:
            for id in allowed.allow(repo, named):
                context.output.say(
                    f"allowed {id} in this repository from now on; to ask again: "
                    f"gitcp push --scan --revoke {id}"
                )
        except BadValue:
            raise
        except GitcpError as error:
            context.output.say(f"note: --allow holds for this command only: {error}")
    return before | frozenset(named)


def say_known(
    context: Context, findings: Iterable[Finding], remotes: Sequence[str], known_by: str = ""
) -> None:
    """Say how many secrets are passed over because these remotes have them; `known_by` says how
    that is known, if they were not asked.
    """
    count = len({finding.id for finding in findings})
    if count:
        secrets, what = humanize.count(count, "secret"), "it" if count == 1 else "them"
        names, have = " and ".join(remotes), "has" if len(remotes) == 1 else "have"
        context.output.say(f"passed over {secrets}: {names} {have} {what} already{known_by}")
