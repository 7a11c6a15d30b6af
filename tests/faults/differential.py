"""Random operations in repositories as people have them, each judged by a witness that shares
nothing with gitcp.

A life is one repository and so many operations; all of it follows from its seed. What people do in
between is in work.py, what is seen in witness.py, what must be so in verdicts.py.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from faults import process, verdicts, witness
from faults.verdicts import Beside, Held, Move
from faults.witness import Commit, Disk, Git, Seen
from faults.work import Tree, User, Work

CODES = frozenset((0, 3, 12))
"""The exit codes that most of this may end with: done, done in part, refused."""

NO_SUCH = 16
KILLED = -signal.SIGKILL
PRIVATE = re.compile(r"/worktrees/[^/]+/.*Permission denied")
"""In the error of a command that must look at all linked working trees, where git made one for its
owner alone.
"""
NAMES = ("one", "two", "three")
SESSIONS, TAGS = "refs/gitcp/sessions/", "refs/gitcp/tags/"
RESTORE, DROP = "restore", "drop"
"""The two kinds of operation that `undo` goes back over."""
REFUSED = (
    "is another session's now",
    "was deleted since, by operation",
    "needed now or already gone",
    "has new checkpoints",
)
"""What undo and redo may say to a drop, where somebody else went on in the meantime."""

SESSION_ID = re.compile(rb'"sessionId": ?"[^"]*"')
TORN = "torn lines (left out)"
"""What a restore says of the only damage that agents of a life do to their transcripts."""

AT_WORK = "this would also undo changes of"
"""What going back over changes of other sessions at work says, unless it is told to."""

DELETED = re.compile(r"session (\S+) is already deleted")
"""What redo of a delete may say, where that is so."""

DOINGS = {
    "save": 40,
    "restore": 24,
    "undo": 16,
    "redo": 9,
    "rollback": 4,
    "revert": 4,
    "killed": 6,
    "hook": 4,
    "fork": 2,
    "prune": 3,
    "delete": 2,
    "tag": 1,
    "elsewhere": 2,
    "worktree": 1,
}


OPERATIONS = 50
"""Of gitcp, in one life."""

SHARED = 4
"""One of so many seeds is a repository that two users share."""


LAZY = (
    "orjson",
    "unicodedata",
    "_strptime",
    "encodings.ascii",
    "encodings.latin_1",
    "encodings.idna",
    "multiprocessing.synchronize",
)
"""What is loaded on the way, perhaps from where another user may not read."""


class Lived(NamedTuple):
    """How a life went: how often each thing was done, and which promise was broken ("": none)."""

    seed: int
    ends: Counter[str]
    broken: str


class Picture(NamedTuple):
    """Everything that may change: the working tree, the other ones, what is git's, agents' files,
    refs.
    """

    seen: Seen
    others: dict[Path, Disk]
    owned: dict[str, bytes]
    talks: dict[str, bytes]
    refs: dict[str, str]


class Outcome(NamedTuple):
    """One run of gitcp: how it ended, what it printed, what was before and after, which checkpoints
    are new.
    """

    code: int
    out: str
    err: str
    before: Picture
    after: Picture
    new: list[Held]

    @property
    def report(self) -> dict[str, Any]:
        """The JSON that it printed."""
        found: dict[str, Any] = json.loads(self.out)
        return found

    @property
    def disks(self) -> tuple[Disk, Disk]:
        """The working tree before and after."""
        return self.before.seen.disk, self.after.seen.disk


class Life(Work):
    """One repository, from its first commit to its last operation."""

    def __init__(self, place: Path, seed: int, *, shared: bool = False) -> None:
        ctypes.CDLL(None).prctl(process.SUBREAPER, 1, 0, 0, 0)
        self.held: dict[str, Held] = {}
        self.there: dict[str, Commit] = {}
        self.wrote: dict[str, set[bytes]] = {}
        """What restores changed, by their safety checkpoints: who goes back there takes it back,
        ignored or not.
        """
        self.forks: dict[str, str] = {}
        """Where each fork began, by its first checkpoint."""
        self.last: tuple[int, Tree, Picture] | None = None
        self.become = process.forked
        self.beyond: frozenset[bytes] = frozenset()
        self.private = {12} if shared else set()
        super().__init__(place, seed, shared=shared)

    def live(self, operations: int) -> None:
        """So many operations, with work in between; at the end everything must be sound."""
        for number in range(1, operations + 1):
            self.step()
            if number % 10 == 0 or number == operations:
                self.trees[0].git.fsck()
        self.gitcp(self.trees[0], "check", codes={0})

    def step(self) -> None:
        """A little work, then one operation."""
        for _ in range(self.chance.choice((0, 0, 1, 1, 2, 3, 5))):
            tree = self.some_tree()
            self.gits(tree) if self.chance.random() < 0.15 else self.edit(tree)
        name = (
            "save"
            if not self.there
            else self.chance.choices(list(DOINGS), list(DOINGS.values()))[0]
        )
        self.beyond = frozenset()
        getattr(self, name)(self.some_tree())
        self.ends[name] += 1

    # ------------------------------------------------------------ one run

    def picture(self, tree: Tree) -> Picture:
        """All that is there. What was seen after the last run is so until somebody does
        something.
        """
        if self.last is not None and self.last[:2] == (len(self.steps), tree):
            return self.last[2]
        others = {other.root: witness.look(other.root) for other in self.trees if other is not tree}
        talks = {
            path: data for user in self.users for path, data in witness.talks(user.home).items()
        }
        return Picture(
            tree.look(), others, witness.owned(self.trees[0].root / ".git"), talks, tree.git.refs()
        )

    def gitcp(
        self,
        tree: Tree,
        *args: str | bytes,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        input: bytes = b"",
        kill: float | None = None,
        codes: Collection[int] = CODES,
        making: bool = False,
    ) -> Outcome:
        """Run gitcp, and judge what always must be so. With `making`, git may get a new working
        tree or branch.
        """
        before = self.picture(tree)
        words = " ".join(repr(os.fsdecode(arg)) for arg in args)
        self.did(
            tree,
            f"{cwd or ''} {dict(env or {})} gitcp {words} "
            f"{f'killed after {kill:.3f}' if kill else ''}",
        )
        run = self.become(args)

        def become() -> None:
            tree.user.become()
            run()

        others = process.children()
        done = process.run(
            become, cwd or tree.root, {**tree.user.env, **(env or {})}, input, kill=kill
        )
        process.reap(others)
        self.steps[-1] += f" -> {done.code} {done.err[-300:]}"
        after = self.picture(tree)
        self.last = (len(self.steps), tree, after)
        assert "Traceback" not in done.out + done.err, done
        assert done.code in codes or (kill is not None and done.code == KILLED), done
        outcome = Outcome(*done, before, after, [])
        self._insist_on_all(outcome, making=making)
        outcome.new.extend(self._new(tree, outcome))
        return outcome

    def _insist_on_all(self, outcome: Outcome, *, making: bool) -> None:
        """Nothing but gitcp's own is changed, nor what an agent wrote."""
        before, after = outcome.before, outcome.after
        differing = {
            n
            for n in before.owned.keys() | after.owned.keys()
            if before.owned.get(n) != after.owned.get(n)
        }
        changed = {n for n in differing if not making or n in before.owned}
        assert not changed, f"not gitcp's to change: {sorted(changed)}"
        for root, disk in before.others.items():
            verdicts.unchanged(disk, after.others[root])
        for path, data in before.talks.items():
            assert after.talks.get(path, b"").startswith(data), (
                f"the agent's own file was changed: {path}"
            )

    def _new(self, tree: Tree, outcome: Outcome) -> list[Held]:
        """The checkpoints that are new, each compared with what was there when it was made; the
        others are there.
        """
        refs = outcome.after.refs
        if outcome.before.refs == refs:
            return []
        self.there = tree.git.history(
            oid for name, oid in refs.items() if name.startswith((SESSIONS, TAGS))
        )
        everything = tree.git.history(
            oid for name, oid in refs.items() if name.startswith("refs/gitcp/")
        )
        for id, old in self.held.items():
            assert id in everything, f"{id} is gone"
            assert everything[id].tree == old.about.tree, f"{id} has another tree"
        unknown = [about for id, about in self.there.items() if id not in self.held]
        for about in reversed(unknown):
            self.held[about.id] = self._held(tree, about, outcome, everything)
        return [self.held[about.id] for about in unknown]

    def _held(
        self, tree: Tree, about: Commit, outcome: Outcome, everything: Mapping[str, Commit]
    ) -> Held:
        stored = tree.git.read(about.commit)
        origin = stored.meta.get("forked_from")
        if origin is not None:
            self.forks[about.id] = origin
            # An undo of a prune gives what was saved since another parent, and so another commit.
            assert stored.entries == tree.git.read(everything[origin].commit).entries, (
                f"{about.id}, not {origin}"
            )
            return self.held[origin]._replace(about=about, talk=stored.talk)
        seen = outcome.before.seen if about.trigger == "before-restore" else outcome.after.seen
        return verdicts.held(about, stored, seen, self.beside(tree.user), self.beyond)

    def _leaves_files(self, outcome: Outcome) -> None:
        verdicts.unchanged(*outcome.disks)

    # ------------------------------------------------------------ saving

    def save(self, tree: Tree) -> None:
        """Save as people and agents do."""
        chance = self.chance
        args = ["save", "--json"]
        env, cwd, codes = {}, tree.directory(chance.choice(("", "", "", "sub", "d"))), {0}
        how = chance.choice(("named", "agent", "agent", "any"))
        if how == "named":
            args += ["--session", chance.choice(NAMES)]
        elif how == "agent":
            agent = self.agent(tree)
            agent.say(torn=chance.random() < 0.2)
            self.did(tree, f"{agent.id} speaks")
            env, cwd = agent.env, agent.cwd
        else:
            codes = {0, NO_SUCH}  # two conversations could be meant
        args += [f"label {self.count}"] * (chance.random() < 0.15) + ["--force"] * (
            chance.random() < 0.1
        )
        outcome = self.gitcp(tree, *args, cwd=cwd, env=env, codes=codes)
        self._leaves_files(outcome)
        if outcome.code == 0:
            self._saved(outcome)

    def _saved(self, outcome: Outcome) -> None:
        """What was said is so: a checkpoint was made, or there was one of just this."""
        report = outcome.report
        one = self.held[report["checkpoint"]["id"]]
        assert outcome.new == ([one] if report["saved"] else []), report
        if not report["saved"]:
            verdicts.is_held(one, outcome.after.seen)
        self._insist_on_talk(one, outcome)

    def _insist_on_talk(self, one: Held, outcome: Outcome) -> None:
        """The conversation is the agent's file, but for a line that is being written."""
        data = one.talk.get("main")
        if one.agent is None or data is None:
            return
        files = [
            found for path, found in outcome.before.talks.items() if Path(path).stem == one.agent
        ]
        rests = [found[len(data) :] for found in files if found.startswith(data)]
        carried = any(
            other.talk.get("main") == data for id, other in self.held.items() if id != one.about.id
        )
        assert any(b"\n" not in rest for rest in rests) or (self.shared and carried), (
            f"{one.about.id}: not what {one.agent} said"
        )

    def hook(self, tree: Tree) -> None:
        """An agent calls at the end of a turn, or before a prompt: then its session has what is
        there.
        """
        agent = self.agent(tree)
        agent.say(torn=False)
        self.did(tree, f"{agent.id} speaks")
        fields = {"session_id": agent.id, "cwd": str(agent.cwd), "transcript_path": str(agent.path)}
        event = self.chance.choice(("Stop", "UserPromptSubmit"))
        given = json.dumps({**fields, "hook_event_name": event, "prompt": "go on"}).encode()
        outcome = self.gitcp(
            tree, "hook", "claude", event, cwd=agent.cwd, env=agent.env, input=given, codes={0}
        )
        self._leaves_files(outcome)
        assert any(
            one.agent == agent.id and verdicts.has(one, outcome.after.seen)
            for one in self.held.values()
        ), event

    # ------------------------------------------------------------ going back

    def target(self) -> tuple[Held, str]:
        """Some checkpoint, mostly one of the last, and what it is called."""
        known = [self.held[id] for id in self.held if id in self.there]
        one = self.chance.choice(known[-8:] if self.chance.random() < 0.7 else known)
        tip = self.trees[0].git.refs().get(SESSIONS + one.about.id.rpartition("@")[0])
        is_in_its_own = tip is not None and one.about.id in self.trees[0].git.history([tip])
        return one, one.about.id if is_in_its_own else self.there[one.about.id].commit

    def restore(self, tree: Tree) -> None:
        """Restore a checkpoint, whole or in part."""
        chance = self.chance
        target, name = self.target()
        args: list[str | bytes] = ["restore", name, "--yes", "--json"]
        how = chance.choice(("all",) * 6 + ("--files", "--conversation", "path", "path"))
        scope: tuple[bytes, ...] = ()
        if how == "path" and target.files:
            path = chance.choice(sorted(target.files))
            scope = (chance.choice((path, *witness.parents(path))),)
            args += ["--", *scope]
        elif how.startswith("--"):
            args.append(how)
        self.beyond = frozenset(self.wrote.get(target.about.id, ()))
        outcome = self._back(
            tree, *args, cwd=tree.directory("" if scope else chance.choice(("", "", "sub")))
        )
        move = self.restored(tree, outcome, target, scope, only_talk=how == "--conversation")
        if move is not None and outcome.report["checkpoint"] is not None:
            self.done(tree, RESTORE, move)

    def _back(
        self,
        tree: Tree,
        *args: str | bytes,
        cwd: Path | None = None,
        codes: Collection[int] = CODES,
    ) -> Outcome:
        """Go back, also over changes of other sessions at work: that is refused once, and changes
        nothing, then it is told to.
        """
        outcome = self.gitcp(tree, *args, cwd=cwd, codes=codes)
        if outcome.code != 12 or AT_WORK not in outcome.err:
            return outcome
        self.ends["refused: others at work"] += 1
        self._leaves_files(outcome)
        before, after = outcome.before, outcome.after
        assert (before.refs, before.talks) == (after.refs, after.talks), outcome.err
        outcome = self.gitcp(tree, args[0], "--whole-tree", *args[1:], cwd=cwd, codes=codes)
        assert AT_WORK not in outcome.err, outcome.err
        return outcome

    def done(self, tree: Tree, kind: str, what: object) -> None:
        """Note what `undo` would go back over."""
        tree.done.append((kind, what))
        tree.undone = [each for each in tree.undone if each[0] != kind]

    def restored(
        self,
        tree: Tree,
        outcome: Outcome,
        target: Held,
        scope: tuple[bytes, ...] = (),
        *,
        only_talk: bool = False,
        undoing: Move | None = None,
    ) -> Move | None:
        """Judge a restore; what it changed, None if it was refused or had nothing to do."""
        if outcome.code not in {0, 3}:
            self._leaves_files(outcome)
            return None
        report = outcome.report
        captured = self._captured(outcome, is_restore=undoing is None)
        if only_talk:
            self._leaves_files(outcome)
        else:
            verdict = verdicts.Restored(
                target, outcome.before.seen, outcome.after.seen, report, scope
            )
            rules = partial(self.rules, tree.user)
            verdict.insist(captured, rules, undoing, self.wrote.get(target.about.id, ()))
        assert outcome.code == 0 or report["kept"], report
        self._resumes(outcome, target)
        if report["safety"] is None:
            return None
        return self._moved(outcome, scope, only_talk=only_talk)

    def _captured(self, outcome: Outcome, *, is_restore: bool) -> Collection[bytes]:
        """What the safety checkpoint has; where nothing was to be done, and nothing was, what one
        would have.
        """
        report, seen = outcome.report, outcome.before.seen
        if report["safety"] is not None:
            safety = self.held[report["safety"]]
            verdicts.is_held(safety, seen, self.beyond)
            return safety.files.keys()
        assert is_restore, f"no safety checkpoint: {report}"
        assert report["checkpoint"] is None, f"no safety checkpoint: {report}"
        assert not outcome.new, f"no safety checkpoint: {report}"
        self._leaves_files(outcome)
        return {path for path in seen.visible.wanted if not verdicts.large(path, seen)}

    def _moved(
        self,
        outcome: Outcome,
        scope: tuple[bytes, ...] = (),
        *,
        only_talk: bool = False,
        merged: bool = False,
    ) -> Move:
        move = Move(outcome.report["safety"], *outcome.disks, scope, only_talk, merged)
        self._leads_back(move)
        return move

    def _leads_back(self, move: Move) -> None:
        """Note what a restore changed by its safety checkpoint."""
        self.wrote.setdefault(move.back, set()).update(verdicts.changed(move))

    def _resumes(self, outcome: Outcome, target: Held) -> None:
        """What an agent goes on with is a stored conversation, to the byte; of one that is
        damaged, a repaired copy.
        """
        changed = {
            path: d
            for path, d in outcome.after.talks.items()
            if outcome.before.talks.get(path) != d
        }
        stored = [data for one in (target, *outcome.new) for data in one.talk.values()]
        resume = outcome.report["resume"]
        repaired = resume["repaired"] if resume else {}
        for path, data in changed.items():
            copied = any(is_copy(data, one, repaired) for one in stored)
            assert copied, f"no stored conversation: {path}"
        if (
            resume
            and resume.get("path")
            and outcome.report["conversation"]
            and "main" in target.talk
        ):
            copy = outcome.after.talks[resume["path"]]
            assert is_copy(copy, target.talk["main"], repaired), resume

    def beside(self, user: User) -> Beside:
        """The ignore rules for a user that are in no tree, as they are now."""
        exclude, excludes_file = self.trees[0].root / ".git/info/exclude", user.home / "excludes"
        return Beside(
            exclude.read_bytes(), excludes_file.read_bytes() if excludes_file.exists() else b"", {}
        )

    def rules(
        self, user: User, target: Held, paths: Collection[bytes]
    ) -> tuple[frozenset[bytes], frozenset[bytes]]:
        """Which of these the ignore files in a checkpoint cover; a directory has a slash at its
        end.

        First those that they cover with the rules beside it as they are now and as they were, then
        those with either.
        """
        if not paths:
            return frozenset(), frozenset()
        now, then = (
            self._ignored(user, target, paths, beside)
            for beside in (self.beside(user), target.beside)
        )
        return now & then, now | then

    def _ignored(
        self, user: User, target: Held, paths: Collection[bytes], beside: Beside
    ) -> frozenset[bytes]:
        place = self.place / "rules"
        shutil.rmtree(place, ignore_errors=True)
        for path in (b"", *paths):
            if path == b"" or path.endswith(b"/"):
                os.makedirs(os.path.join(os.fsencode(place), path), exist_ok=True)
        git = Git(place, user.home)
        git.run("init", "--quiet")
        place.joinpath(".git/info/exclude").write_bytes(beside.exclude)
        place.joinpath(".git/excludes").write_bytes(beside.excludes_file)
        git.run("config", "core.excludesFile", str(place / ".git/excludes"))
        held = {path: item.data for path, item in target.files.items() if item.kind == "file"}
        for path, data in {**beside.files, **held}.items():
            if os.path.basename(path) == b".gitignore":
                full = os.path.join(os.fsencode(place), path)
                os.makedirs(os.path.dirname(full), exist_ok=True)
                Path(os.fsdecode(full)).write_bytes(data)
        return git.ignored(path.rstrip(b"/") for path in paths)

    def rollback(self, tree: Tree) -> None:
        """Go back to the last checkpoint, whichever it says that is."""
        self.beyond = frozenset(path for paths in self.wrote.values() for path in paths)
        outcome = self._back(tree, "rollback", "--yes", "--json", codes=CODES | {NO_SUCH})
        self._went_back(tree, outcome)

    def _went_back(self, tree: Tree, outcome: Outcome) -> None:
        if outcome.code not in {0, 3}:
            self._leaves_files(outcome)
            return
        move = self.restored(tree, outcome, self.held[outcome.report["target"]])
        if outcome.report["checkpoint"] is not None:
            self.done(tree, RESTORE, move)

    def revert(self, tree: Tree) -> None:
        """Take back what one checkpoint changed. What git's merge makes of lines is not judged."""
        _, name = self.target()
        outcome = self.gitcp(tree, "revert", name, "--yes", "--json", codes=CODES | {2})
        if outcome.code not in {0, 3}:
            self._leaves_files(outcome)
            return
        report, (before, after) = outcome.report, outcome.disks
        verdicts.is_held(self.held[report["safety"]], outcome.before.seen, self.beyond)
        verdicts.only_said(before, after, report)
        if report["checkpoint"] is not None:
            scope = tuple(sorted(verdicts.said(report)))
            self.done(tree, RESTORE, self._moved(outcome, scope, merged=True))

    # ------------------------------------------------------------ undo and redo

    def undo(self, tree: Tree) -> None:
        """Undo what was done last here."""
        self._walk(tree, "undo", tree.done, tree.undone)

    def redo(self, tree: Tree) -> None:
        """Redo what was undone last here."""
        self._walk(tree, "redo", tree.undone, tree.done)

    def _walk(
        self, tree: Tree, step: str, done: list[tuple[str, Any]], undone: list[tuple[str, Any]]
    ) -> None:
        was = frozenset(self.there)
        self.beyond = verdicts.written(done, self.picture(tree).seen.disk, is_known=tree.is_known)
        outcome = self._back(
            tree, step, "--yes", "--whole-tree", "--json", codes=CODES | {NO_SUCH} | self.private
        )
        if outcome.code not in {0, 3}:
            self._leaves_files(outcome)
            lost = not done or (done[-1][0] == RESTORE and done[-1][1].back not in self.there)
            refused = any(reason in outcome.err for reason in REFUSED)
            refused |= self._is_private(tree, outcome)
            said = DELETED.search(outcome.err)
            refused |= said is not None and SESSIONS + said[1] not in outcome.after.refs
            assert lost or refused, f"{step} refused: {outcome.err}"
            return
        if not done:
            assert not tree.is_known, f"{step} of nothing: {outcome.out}"
            undone.append(self._unknown(outcome, was ^ self.there.keys()))
            return
        kind, what = done.pop()
        if kind == DROP:
            self._leaves_files(outcome)
            gone, there = was - self.there.keys(), self.there.keys() - was
            # A chain comes back whole, with what another drop took of it meanwhile.
            wrong = gone | (what - self.there.keys()) if step == "undo" else there | (gone - what)
            assert not wrong, f"{step} of a drop: {sorted(wrong)}"
            left = what & self.there.keys() - self._needed(tree, outcome)
            assert step == "undo" or not left, f"{step} of a drop: {sorted(left)} not dropped"
            # another drop may have been quicker with some
            undone.append((kind, what if step == "undo" else gone))
            return
        report = outcome.report
        assert report["target"] == what.back, f"{step} goes to {report['target']}, not {what.back}"
        verdicts.undone(
            what, *outcome.disks, {witness.path_of(one["path"]) for one in report["kept"]}
        )
        undone.append((RESTORE, self._inverse(tree, outcome, what)))

    def _is_private(self, tree: Tree, outcome: Outcome) -> bool:
        """Whether it was refused because of another user's working tree, which is private."""
        told = PRIVATE.search(outcome.err)
        return told is not None and not self._sees_every_head(tree.user)

    def _needed(self, tree: Tree, outcome: Outcome) -> set[str]:
        """What redo of a drop may leave: the ends of sessions, what has a tag, where a fork began,
        what was there before a restore; of a session that is gone, what others still reach.
        """
        refs = outcome.after.refs
        tips = {
            tree.git.run("rev-parse", f"{name}^{{commit}}").decode().strip()
            for name in refs
            if name.startswith((SESSIONS, TAGS))
        }
        named = {id for id, about in self.there.items() if about.commit in tips}
        shared = {id for id in self.there if SESSIONS + id.rpartition("@")[0] not in refs}
        begun = {origin for id, origin in self.forks.items() if id in self.there}
        return named | shared | begun | self.wrote.keys()

    def _unknown(self, outcome: Outcome, dropped: frozenset[str]) -> tuple[str, Any]:
        """Judge what was undone or redone where it is not known what it was. What would do the
        opposite.
        """
        report = outcome.report
        if "safety" not in report:
            self._leaves_files(outcome)
            return DROP, dropped
        verdicts.is_held(self.held[report["safety"]], outcome.before.seen, self.beyond)
        verdicts.only_said(*outcome.disks, report)
        return RESTORE, self._moved(outcome, merged=True)

    def _inverse(self, tree: Tree, outcome: Outcome, move: Move) -> Move:
        if move.merged:
            verdicts.only_said(*outcome.disks, outcome.report)
            return self._moved(outcome, move.scope, merged=True)
        target = self.held[move.back]
        inverse = self.restored(
            tree, outcome, target, move.scope, only_talk=move.only_talk, undoing=move
        )
        assert inverse is not None
        return inverse

    # ------------------------------------------------------------ dropping, forking

    def prune(self, tree: Tree) -> None:
        """Drop old checkpoints: they are in the trash."""
        self._drop(tree, "prune", "--keep-last", str(self.chance.randrange(1, 6)))

    def delete(self, tree: Tree) -> None:
        """Drop a session."""
        names = sorted(
            name.removeprefix(SESSIONS) for name in tree.git.refs() if name.startswith(SESSIONS)
        )
        if len(names) > 1:
            self._drop(tree, "delete", self.chance.choice(names))

    def _drop(self, tree: Tree, *args: str) -> None:
        was = self.there.keys()
        outcome = self.gitcp(tree, *args, "--yes", "--json", codes={0} | self.private)
        self._leaves_files(outcome)
        assert not outcome.new, args
        assert outcome.code == 0 or self._is_private(tree, outcome), outcome
        if outcome.before.refs != outcome.after.refs:
            self.done(tree, DROP, frozenset(was - self.there.keys()))

    def tag(self, tree: Tree) -> None:
        """Name a checkpoint."""
        self.count += 1
        self._leaves_files(self.gitcp(tree, "tag", f"t{self.count}", self.target()[1], codes={0}))

    def fork(self, tree: Tree) -> None:
        """Begin a session at a checkpoint, perhaps with a working tree of its own."""
        target, name = self.target()
        self.count += 1
        args = ["fork", name, "--name", f"fork{self.count}", "--json"]
        place = self.place / f"trees/{self.count}"
        if len(self.trees) < 3 and self.chance.random() < 0.5:
            args += ["--worktree", str(place)]
        outcome = self.gitcp(tree, *args, making=True, codes=CODES)
        self._leaves_files(outcome)
        if place.exists():
            self.trees.append(Tree(place, tree.user))
            verdicts.brought(target, witness.look(place), tree.user.umask)

    def worktree(self, tree: Tree) -> None:
        """git's own linked working trees come and go."""
        if len(self.trees) < 3:
            self.add_tree(self.chance.choice(self.users))
        elif tree is not self.trees[0]:
            main = Tree(self.trees[0].root, tree.user)
            self.sh(main, "git", "worktree", "remove", "--force", "--force", str(tree.root))
            self.trees.remove(tree)

    def elsewhere(self, tree: Tree) -> None:
        """Write a checkpoint into a new directory: its files are those that were saved, to the
        byte.
        """
        target, name = self.target()
        self.count += 1
        place = tree.user.home / f"out{self.count}"
        outcome = self.gitcp(tree, "restore", name, "--to", str(place), codes={0})
        self._leaves_files(outcome)
        verdicts.brought(target, witness.look(place), tree.user.umask)
        shutil.rmtree(place)

    # ------------------------------------------------------------ kills

    def killed(self, tree: Tree) -> None:
        """Kill a save or a restore at any moment. What it left is finished, or taken back."""
        target, name = self.target()
        after = self.chance.uniform(0.005, 0.12)
        if self.chance.random() < 0.3:
            self._leaves_files(
                self.gitcp(tree, "save", "--session", self.chance.choice(NAMES), kill=after)
            )
            return
        self.beyond = frozenset(self.wrote.get(target.about.id, ()))
        args = ("restore", name, "--files", "--whole-tree", "--yes", "--json")
        begun = self.gitcp(tree, *args, kill=after)
        if begun.code == KILLED:
            self.recover(tree, begun, target, forward=self.chance.random() < 0.5)
            return
        move = self.restored(tree, begun, target)
        if move is not None and begun.report["checkpoint"] is not None:
            self.done(tree, RESTORE, move)

    def recover(self, tree: Tree, begun: Outcome, target: Held, *, forward: bool) -> None:
        """Continue a restore that was killed, or abort it. Whoever goes back to what it began with
        takes back what it wrote, ignored or not.
        """
        beyond = self.beyond
        end = self._recovered(tree, begun, target, forward=forward)
        for one in self._safeties(begun, beyond):
            self._leads_back(Move(one.about.id, begun.disks[0], end))

    def _safeties(self, begun: Outcome, beyond: Collection[bytes]) -> list[Held]:
        """The safety checkpoint of a restore that told nobody which it is: what holds just what was
        there.
        """
        known = (self.held[id] for id in self.there)
        return [one for one in known if verdicts.has(one, begun.before.seen, beyond)]

    def _recovered(self, tree: Tree, begun: Outcome, target: Held, *, forward: bool) -> Disk:
        """The next command says so; then `--continue` or `--abort` goes all the way. Return the
        working tree as it is then.
        """
        status = self.gitcp(tree, "status", codes={0})
        self.beyond = frozenset(begun.disks[1].items)
        done = self.gitcp(
            tree, "restore", "--continue" if forward else "--abort", "--yes", "--json", codes=CODES
        )
        tree.done, tree.undone, tree.is_known = [], [], False
        self.ends[
            "killed, "
            + ("not begun or done" if done.code == 12 else "continued" if forward else "aborted")
        ] += 1
        if done.code == 12:  # it had not begun, or was finished
            if not witness.differing(begun.disks[0].items, begun.disks[1].items):
                return done.disks[1]
            verdicts.came(target, begun.before.seen, done.disks[1], tree.user.umask)
        elif forward:
            verdicts.came(target, begun.before.seen, done.disks[1], tree.user.umask)
        else:
            verdicts.undone(Move("", *begun.disks), begun.disks[1], done.disks[1], ())
            self._leads_back(Move(done.report["safety"], *done.disks))
        assert done.code == 12 or "--continue" in status.out + status.err, status
        return done.disks[1]


def lived(seed: int, until: float, most: int) -> Lived:
    """One life from its first commit to its last operation, unless it is too late. What is broken
    stays on the disk.
    """
    if time.monotonic() > until:
        return Lived(seed, Counter({"out of time": 1}), "")
    for name in LAZY:
        import_module(name)
    place = Path(os.path.realpath(tempfile.mkdtemp(prefix=f"gitcp-life-{seed}-")))
    life = Life(place, seed, shared=seed % SHARED == 0 and os.geteuid() == 0)
    try:
        life.live(min(most, OPERATIONS))
    except Exception as error:  # a promise was broken, or something came that nobody expects
        place.joinpath("steps").write_text("\n".join(life.steps), errors="backslashreplace")
        found = f"{type(error).__name__}: {str(error)[:2000]}"
        return Lived(seed, life.ends, f"BROKEN: {found}\nleft to be looked at: {place}")
    shutil.rmtree(place)
    return Lived(seed, life.ends, "")


def table(ends: Counter[str]) -> str:
    """How often each thing was done."""
    ours = {name: count for name, count in ends.items() if name in DOINGS}
    others = {name: count for name, count in ends.items() if name not in DOINGS}
    rows = (
        f"{count:6} {name}"
        for part in (ours, others)
        for name, count in sorted(part.items(), key=lambda e: -e[1])
    )
    return "\n".join((*rows, f"{sum(ours.values())} operations of gitcp"))


def is_copy(data: bytes, stored: bytes, repaired: Mapping[str, int]) -> bool:
    """Whether it is this conversation, perhaps under another id, without the torn lines that were
    said to be left out.
    """
    lines = stored.splitlines(keepends=True)
    whole = [line for line in lines if _is_json(line)] if repaired else lines
    torn = {TORN: len(lines) - len(whole)} if repaired else {}
    return torn == repaired and SESSION_ID.sub(b"", data) == SESSION_ID.sub(b"", b"".join(whole))


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
