"""Does what a plan of `gitcp.automation.install.plan` says, file by file; what cannot be done is
left, and said.
"""

from __future__ import annotations

from gitcp.automation.install import files
from gitcp.automation.install.plan import Change, Left, Plan
from gitcp.value import Value


class Report(Value):
    """What was done, and what was left as it is."""

    done: tuple[Change, ...]
    left: tuple[Left, ...]


def apply(plan: Plan) -> Report:
    """Change the files. Each is replaced whole, and only if it still is as the plan saw it."""
    done, left = [], list(plan.left)
    for change in plan.changes:
        try:
            files.replace(change.seen, change.after, runs=change.runs)
        except files.Unusable as error:
            left.append(Left(change.path, str(error), full=isinstance(error, files.NoSpace)))
            continue
        done.append(change)
        if change.after is None:
            files.prune_directories(change.path.parent, change.keep)
    return Report(tuple(done), tuple(left))
