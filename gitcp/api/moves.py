"""Forks, rollbacks, reverts and prunes. Each method is a request to one operation."""

from __future__ import annotations

import os
from datetime import timedelta

from gitcp.api.checked import checked
from gitcp.api.opened import Opened, Paths, Texts, limited, texts_of
from gitcp.errors import Refused
from gitcp.history import here
from gitcp.lifecycle import fork, prune
from gitcp.lifecycle.prune import PruneRequest
from gitcp.restoring import restore, revert, rollback, trust
from gitcp.restoring.planned import RestorePlan, RollbackChoice
from gitcp.restoring.request import RestoreRequest
from gitcp.restoring.restore import Report
from gitcp.retention import Policy
from gitcp.running import steps
from gitcp.running.compensate import LIMIT, Outcome, chosen
from gitcp.saving import session as session_op
from gitcp.state import effects as recorded
from gitcp.state import settings, trash
from gitcp.state.effects import Effect
from gitcp.store import Store
from gitcp.value import replace
from gitcp.worktree.paths import display


class Moves(Opened):
    """The methods that change sessions, or revert a part of one."""

    @checked("nothing was changed")
    def fork(
        self,
        revision: str = "@",
        *,
        session: str | None = None,
        name: str | None = None,
        worktree: str | os.PathLike[str] | None = None,
        branch: str | None = None,
        trust: bool = False,
    ) -> fork.Forked:
        """Start a new session at a checkpoint, in a new git working tree if `worktree` is given, a
        directory relative to the one that was opened.

        Raises Refused for a name that is taken, and NotTrusted for a checkpoint from
        another repository without `trust`.
        """
        store = self.store()
        point = self._read(store, revision, session)
        directory = fork.new_directory(self.path, worktree)
        return fork.fork(store, fork.ForkRequest(point, self.path, name, directory, branch, trust))

    @checked("nothing was changed")
    def plan_revert(
        self,
        revision: str,
        *,
        session: str | None = None,
        paths: Paths | None = None,
        mine: bool = False,
    ) -> revert.RevertPlan:
        """Return what `revert` would do now, with its conflicts. `revision` is
        a checkpoint or a range `A..B`. With `mine`, it undoes only what the session changed.
        """
        store = self.store()
        current = session_op.current(store, session)
        within = current if session is not None else None
        here.require(store, self.path, session, revision)
        target, before = revert.resolve_step(store, revision, current, within)
        limits = settings.limits(store.repo)
        request = RestoreRequest(
            target,
            self.path,
            conversation=False,
            paths=limited(store.repo, paths),
            limits=limits,
            reverted=before,
            mine=mine,
        )
        return revert.plan(store, request)

    @checked("nothing was changed")
    def revert(self, agreed: revert.RevertPlan, *, keep: bool = False) -> Report:
        """Revert what is planned, keeping all later changes; the current state is saved first.

        Raises Refused, with nothing changed, if the plan has conflicts (with `keep`, conflicting
        paths are kept) or the files have changed since it was made.
        """
        if agreed.conflicts and not keep:
            conflicting = ", ".join(display(conflict.path) for conflict in agreed.conflicts[:3])
            raise Refused(
                f"later changes conflict with the revert in {conflicting}; nothing was changed"
            )
        return revert.revert(self.store(), agreed)

    @checked("nothing was changed")
    def plan_rollback(self, *, session: str | None = None, mine: bool = False) -> RestorePlan:
        """Return what `rollback` would do now; `choice` says which checkpoint and why."""
        store = self.store()
        request, choice = self._rollback(store, session, mine=mine, whole_tree=False)
        return replace(restore.plan(store, request), choice=choice)

    @checked("nothing was changed")
    def rollback(
        self, *, session: str | None = None, mine: bool = False, whole_tree: bool = False
    ) -> Report:
        """Restore the state before the last prompt that changed files, or without prompts the last
        checkpoint that differs from the files.

        The current state is saved first. Raises Refused if there is none, and otherwise as
        `restore`; `choice` of the report says why it was this checkpoint.
        """
        store = self.store()
        request, choice = self._rollback(store, session, mine=mine, whole_tree=whole_tree)
        return replace(restore.restore(store, request), choice=choice)

    def _rollback(
        self, store: Store, session: str | None, *, mine: bool, whole_tree: bool
    ) -> tuple[RestoreRequest, RollbackChoice]:
        name = self._session_here(store, session)
        limits = settings.limits(store.repo)
        choice = rollback.required(store, name, self.path, limits, mine=mine)
        target = store.read(choice.point.commit)
        return self.request(store, target, mine=mine, whole_tree=whole_tree), choice

    @checked("nothing was run")
    def effects(
        self, revision: str | None = None, *, session: str | None = None
    ) -> tuple[Effect, ...]:
        """Return the effects outside of the files that were recorded after a checkpoint, or in all
        of the session, newest first: `command` undoes one, and `outcome` is None if it has not run.
        """
        store = self.store()
        return self._effects(store, revision, session)[1]

    def _effects(
        self, store: Store, revision: str | None, session: str | None
    ) -> tuple[str | None, tuple[Effect, ...]]:
        target = self._read(store, revision, session) if revision is not None else None
        name = target.id.session if target else session_op.current(store, session)
        return name, recorded.after(store, target, name) if name else ()

    @checked("nothing was run")
    def compensate(
        self,
        revision: str | None = None,
        *,
        session: str | None = None,
        keys: Texts = (),
        limit: float = LIMIT,
    ) -> tuple[Outcome, ...]:
        """Run the compensations that were recorded after a checkpoint, or in all of the session,
        and have not run; newest first. `keys` runs only these.

        Each runs at most once, and a command is killed after `limit` seconds. The files stay as
        they are, and a step whose effect was undone runs again. Raises RevisionNotFound for an
        unknown key, Refused for one that has run, and NotTrusted for a checkpoint of another
        repository.
        """
        store = self.store()
        name, known = self._effects(store, revision, session)
        if revision is not None:
            trust.admit(store, self._read(store, revision, session), trusted=False)
        wanted = texts_of("keys", keys)
        open_ones = [effect for effect in known if effect.outcome is None]
        outcomes = []
        for effect in chosen(known, wanted) if wanted else open_ones:
            steps.outdate(store, effect.id.session, effect)
            outcomes.append(steps.undo_recorded(store, name or "", effect, limit=limit))
        return tuple(outcomes)

    @checked("nothing was changed")
    def plan_prune(
        self,
        policy: Policy | None = None,
        *,
        session: str | None = None,
        expire: timedelta = trash.KEPT_FOR,
    ) -> prune.PrunePlan:
        """Return what `prune` would drop, with reasons. Without a policy the last ten are kept.
        Raises RevisionNotFound for a session that does not exist.
        """
        store = self.store()
        return prune.plan(store, _pruning(store, policy, session, expire))

    @checked("nothing was changed")
    def prune(
        self,
        policy: Policy | None = None,
        *,
        session: str | None = None,
        expire: timedelta = trash.KEPT_FOR,
        agreed: prune.PrunePlan | None = None,
    ) -> prune.PruneReport:
        """Drop what the policy does not keep; with `agreed`, only what that plan drops.

        Dropped checkpoints go to the trash; `gitcp undo` restores them. Raises BadValue
        for a policy that keeps nothing, and RevisionNotFound for a session that does not exist.
        """
        store = self.store()
        return prune.prune(store, _pruning(store, policy, session, expire), agreed)


def _pruning(
    store: Store, policy: Policy | None, session: str | None, expire: timedelta
) -> PruneRequest:
    """Return the request for a policy. Raises RevisionNotFound for a session that does not exist:
    nothing was dropped from a misspelled one, and nothing said so.
    """
    name = None if session is None else session_op.expand(store, session)
    return PruneRequest(Policy() if policy is None else policy, name, expire)
