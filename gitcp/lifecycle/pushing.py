"""Start the pushes that the user consented to, after a save or a tag. Nobody waits for them.

A save looks at one directory. The process that pushes finds by itself what is to be sent
(gitcp.sharing.push_queue), so that nothing depends on a line that a killed save did not write.
"""

from __future__ import annotations

import os
from contextlib import suppress

from gitcp.errors import GitcpError
from gitcp.git import refs
from gitcp.lifecycle import background
from gitcp.store import Store

PROGRAM = "gitcp.sharing.push_worker"


def start(store: Store) -> None:
    """Start a process for each remote for which something may be due and none is running. Errors
    are ignored: the checkpoint exists, and the next save tries again.
    """
    repo = store.repo
    if not os.path.exists(f"{repo.common_dir}/gitcp/push"):
        return
    from gitcp.state import push_policy  # most users push by hand

    with suppress(GitcpError, OSError):
        for consent in push_policy.listing(repo):
            is_due = consent.policy is push_policy.PushPolicy.ALWAYS or _has_new_tag(
                store, consent.remote
            )
            if is_due and not push_policy.is_pushing(repo, consent.remote):
                task = {"remote": consent.remote, "now": repo.host.now().isoformat()}
                background.start(repo, PROGRAM, task)


def _has_new_tag(store: Store, remote: str) -> bool:
    own, sent = f"{refs.REMOTES}{remote}/tags/", store.repo.refs.list(f"{refs.REMOTES}{remote}/")
    tags = store.repo.refs.list(refs.TAGS)
    return any(sent.get(own + ref.removeprefix(refs.TAGS)) != oid for ref, oid in tags.items())
