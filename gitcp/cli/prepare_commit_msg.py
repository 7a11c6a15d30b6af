"""`gitcp hook git prepare-commit-msg FILE SOURCE`: called by git, where `gitcp enable git` asked
for it.

It says nothing and ends with 0: no commit fails because of it.
"""

from __future__ import annotations

from collections.abc import Sequence

EVENT = "prepare-commit-msg"


def run(arguments: Sequence[str]) -> None:
    """Put the trailer into the message. Raises what goes wrong, which the caller lets pass."""
    name, file, source = (*arguments, "", "", "")[:3]
    if name != EVENT or not file:
        return
    from gitcp.cli.context import Context  # these only where a commit is made
    from gitcp.review import prepare_commit_msg

    context = Context(("hook",))
    context.finishing = True  # nobody reads what an interrupted restore would be said by
    prepare_commit_msg.add(context.store, context.cwd / file, source)
