"""Find checkpoints that refs outside `refs/gitcp/` name: git sends those refs like any other.

`git fast-export --all | git fast-import`, which programs that rewrite history run, makes a tag
`refs/tags/refs/gitcp/tags/NAME` of an annotated tag anywhere, so that `git push --tags` sends a
conversation.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from gitcp.errors import GitFailed
from gitcp.model import RESERVED
from gitcp.store import METADATA, Store

FORMAT = "--format=%(objectname) %(*objectname) %(refname)"
SENT = {"refs/heads/": "git push --all", "refs/tags/": "git push --tags"}
"""Where git's own refs are, and what sends all of them."""

MOST = 20


def checkpoints(store: Store) -> Iterator[tuple[str, str]]:
    """Yield the branches and tags that name a checkpoint, in words, each with a command that
    removes it. Raises GitFailed.
    """
    refs = [line.split(b" ") for line in store.repo.git("for-each-ref", FORMAT, *SENT).splitlines()]
    path = RESERVED + b"/" + METADATA
    asked = b"".join(b"%s:%s\n" % (peeled or oid, path) for oid, peeled, _ in refs)
    if not refs:
        return
    answers = store.repo.git("cat-file", "--batch-check=%(objecttype)", input=asked).splitlines()
    if len(answers) != len(refs):
        raise GitFailed("git lists the branches and tags incompletely")
    named = [
        ref[2].decode("utf-8", "replace")
        for ref, is_ in zip(refs, answers, strict=True)
        if is_ == b"blob"
    ]
    for name in named[:MOST]:
        command = next(command for prefix, command in SENT.items() if name.startswith(prefix))
        yield (
            f"{name} names a checkpoint: {command} sends its files and conversation",
            f"git update-ref -d {shlex.quote(name)}",
        )
    if len(named) > MOST:
        yield f"{len(named) - MOST} more branches and tags name checkpoints", "git for-each-ref"
