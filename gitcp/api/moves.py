"""Forks, reverts and prunes, as a program makes them. Thin: each method makes a request of one
operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from gitcp.api.opened import Opened
from gitcp.errors import Refused
from gitcp.history import revisions
from gitcp.lifecycle import fork, prune
from gitcp.lifecycle.prune import Request as Pruning
from gitcp.model import Checkpoint
from gitcp.restoring import revert
from gitcp.restoring.request import Request
from gitcp.restoring.restore import Report
from gitcp.retention import Policy
from gitcp.saving import session as session_op
from gitcp.state import settings, trash
from gitcp.store import Store
from gitcp.worktree.paths import display


class Moves(Opened):
    """What changes sessions, or undoes a part of one."""

    def fork(
        self,
        revision: str = "@",
        *,
        session: str | None = None,
        name: str | None = None,
        worktree: Path | None = None,
        branch: str | None = None,
        trust: bool = False,
    ) -> fork.Forked:
        """Begin a new session at a checkpoint, in a new working tree of git's if `worktree` names a
        directory.

        Raises BadValue for a name that is taken, Untrusted for a checkpoint of others without
        `trust`.
        """
        store = self.store()
        point = self._read(store, revision, session)
        return fork.fork(store, fork.Request(point, self.path, name, worktree, branch, trust))

    def plan_revert(
        self, revision: str, *, session: str | None = None, paths: Sequence[bytes] = ()
    ) -> revert.Plan:
        """What `revert` would do now, with its conflicts. `revision` is a checkpoint or a range
        `A..B`.
        """
        store = self.store()
        target, before = revert.meant(store, revision, session_op.current(store, session))
        limits = settings.limits(store.repo)
        request = Request(
            target,
            self.path,
            conversation=False,
            paths=tuple(paths),
            limits=limits,
            reverted=before,
        )
        return revert.plan(store, request)

    def revert(self, agreed: revert.Plan, *, keep: bool = False) -> Report:
        """Take back what the plan says, and keep everything later; what is there is saved first.

        Raises Refused, with nothing changed, where the plan has conflicts; with `keep` what is in
        conflict stays as it is. Also where the files are no longer those that it was made for.
        """
        if agreed.conflicts and not keep:
            named = ", ".join(display(conflict.path) for conflict in agreed.conflicts[:3])
            raise Refused(
                f"{named} changed since in a way that cannot be both: nothing was changed"
            )
        return revert.revert(self.store(), agreed)

    def plan_prune(
        self,
        policy: Policy | None = None,
        *,
        session: str | None = None,
        expire: timedelta = trash.KEPT_FOR,
    ) -> prune.Plan:
        """What `prune` would drop, with the reason for each that stays. Without a policy the last
        ten are kept.
        """
        return prune.plan(self.store(), self._pruning(policy, session, expire))

    def prune(
        self,
        policy: Policy | None = None,
        *,
        session: str | None = None,
        expire: timedelta = trash.KEPT_FOR,
        agreed: prune.Plan | None = None,
    ) -> prune.Report:
        """Drop what the policy does not keep, and of that only what was `agreed`, if a plan is
        given.

        It goes to the trash, from which `undo` on the command line brings it back. Raises BadValue
        for a policy that keeps nothing.
        """
        return prune.prune(self.store(), self._pruning(policy, session, expire), agreed)

    def _pruning(self, policy: Policy | None, session: str | None, expire: timedelta) -> Pruning:
        return Pruning(Policy() if policy is None else policy, session, expire)

    def _read(self, store: Store, revision: str, session: str | None = None) -> Checkpoint:
        return store.read(
            revisions.resolve(store, revision, current=session_op.current(store, session))
        )
