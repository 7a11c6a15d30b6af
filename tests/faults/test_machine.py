"""Any order of saves, restores, undos, forks, prunes, deletes and reverts does what the model says
(tests/support/modelled.py).

After each step the working tree, the log, the tags and everything of git's are as the model has
them. At the end the store is sound, and every checkpoint that is there gives back its files to the
byte.

With GITCP_FULL=1 in the environment 2,000 runs of 50 steps are made, else 20 of 30, always the
same ones.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from back import contents
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from modelled import Id, Kept, Model, Operation, Tree, captured, is_ignored, parents, restored
from thorough import FULL

import gitcp
from gitcp import wire
from gitcp.errors import BadValue, Refused, RevisionNotFound
from gitcp.lifecycle import delete, prune
from gitcp.model import Host
from gitcp.restoring import materialise
from gitcp.restoring import undo as undo_op
from gitcp.restoring.request import RestoreRequest
from gitcp.restoring.restore import Report
from gitcp.retention import Policy
from gitcp.state import tag, trash

from driver import Project

PARTS, RUNS, STEPS = (20, 100, 50) if FULL else (4, 5, 30)

PATHS = (
    b"a",
    b"b.txt",
    b"-rf",
    b"\xc3\xbc \n",
    b"\xff",
    b"d/e",
    b"d/f",
    b"d/g",
    b"d/g/h",
    b"d/g/i/j",
    b"e",
    b"e/k",
)
IGNORED = (b"x.ign", b"d/x.ign", b"d/g.ign")
CONTENTS = (
    b"",
    b"one\n",
    b"two\n",
    b"one\r\ntwo\r\n",
    b"\0\xff",
    b"no end",
    b"#!/bin/sh\n",
    b"long\n" * 999,
)
TARGETS = (b"a", b"d/e", b"nowhere", b"..", b"/etc/passwd")
MODES = (0o644, 0o644, 0o755, 0o600, 0o640)
TAGS = ("v1", "v2", "v3")


def template(place: Path) -> Project:
    """A repository with a commit, rules for what is ignored, and line ends that git converts."""
    project = Project(place)
    project.write(".gitignore", "*.ign\n")
    project.write(".gitattributes", "*.txt text eol=crlf\n")
    project.write("a", "one\n")
    project.write("d/e", "one\n")
    project.commit()
    return project


class Machine(RuleBasedStateMachine):
    """The real thing and the model, side by side."""

    origin: Path

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(dir=self.origin.parent))
        shutil.copytree(self.origin, self.place / "p", symlinks=True)
        self.project = Project(self.place / "p")
        self.model = Model()
        self.host = Host(dict(os.environ), Path(os.environ["HOME"]), self._now)
        self.api = gitcp.open(self.project.root, host=self.host)
        self.named = 0
        self.looked()

    def _now(self) -> datetime:
        return datetime.now(UTC) + timedelta(days=self.model.day if hasattr(self, "model") else 0)

    def looked(self) -> None:
        """The user did something: what is there now is what is to be there."""
        self.tree: Tree = contents(self.project)
        self.base = self.project.held_by_git()

    @property
    def chosen(self) -> list[Id]:
        """What can be named."""
        return sorted(self.model.reachable())

    def new_name(self, kind: str) -> str:
        """A name that was never used."""
        self.named += 1
        return f"{kind}{self.named}x"

    def new_session(self, data: st.DataObject, kind: str) -> str:
        """A name that no session has; of one that was deleted, half the time."""
        gone = sorted({id.session for id in self.model.kept} - self.model.alive.keys())
        again: bool = data.draw(st.booleans()) if gone else False
        return data.draw(st.sampled_from(gone)) if again else self.new_name(kind)

    def by_process(self, data: st.DataObject) -> bool:
        """Whether this step is to be made by a process of its own: one in some thirty, by today's
        clock.
        """
        return self.model.day == 0 and data.draw(st.integers(0, 29)) == 17

    # ------------------------------------------------------------ the user

    def edit(self, data: st.DataObject) -> None:
        """Write, link, remove."""
        for _ in range(data.draw(st.integers(1, 3))):
            path = data.draw(st.sampled_from(PATHS + IGNORED))
            self.clear(path)
            how = data.draw(
                st.sampled_from(("write", "write", "write", "remove", "link", "directory"))
            )
            if how == "write":
                self.project.write(
                    path, data.draw(st.sampled_from(CONTENTS)), data.draw(st.sampled_from(MODES))
                )
            elif how == "link":
                self.project.symlink(path, data.draw(st.sampled_from(TARGETS)))
            elif how == "directory" and not is_ignored(path):
                os.makedirs(self.project.path(path))
        self.looked()

    def clear(self, path: bytes) -> None:
        """Make room for something at this path."""
        for place in (*parents(path), path):
            full = self.project.path(place)
            in_the_way = place == path or not os.path.isdir(full) or os.path.islink(full)
            if in_the_way and os.path.lexists(full):
                self.project.remove(place)

    @rule(what=st.sampled_from(("commit", "add", "branch", 3, 8, 15)))
    def meanwhile(self, what: str | int) -> None:
        """The user's own git moves on, or days go by."""
        if isinstance(what, int):
            self.model.day += what
            return
        if what == "commit":
            self.project.commit()
        elif what == "add":
            self.project.git("add", "--all")
        else:
            self.project.git("branch", self.new_name("branch"))
        self.looked()

    # ------------------------------------------------------------ saving

    @rule(data=st.data(), fresh=st.integers(0, 5), labelled=st.booleans(), says=st.booleans())
    def work(self, data: st.DataObject, fresh: int, labelled: bool, says: bool) -> None:
        """Work, and save it."""
        self.edit(data)
        self.save(data, fresh, labelled, says)

    @rule(data=st.data())
    def work_on(self, data: st.DataObject) -> None:
        """Work for a while in one session, and save each step."""
        for _ in range(3):
            self.edit(data)
            self.save(data, 1, labelled=False, says=True)

    @rule(data=st.data(), fresh=st.integers(0, 5), labelled=st.booleans(), says=st.booleans())
    def save(self, data: st.DataObject, fresh: int, labelled: bool, says: bool) -> None:
        """Save, into a new session or one that is there, with or without something new in its
        conversation.
        """
        sessions = sorted(self.model.alive)
        name = (
            self.new_session(data, "s")
            if not sessions or fresh == 0
            else data.draw(st.sampled_from(sessions))
        )
        talk = self.model.talk(name)
        if says:
            talk = (talk or b"") + b'{"role":"user","content":"%d"}\n' % len(self.model.kept)
        label = self.new_name("label ") if labelled else None
        before = self.model.is_saved(name, self.tree, talk, self.base)
        if self.by_process(data):
            id, saved = self.save_by_process(name, label, talk if says else None)
        else:
            done = self.api.save(label, session=name, conversation=talk if says else None)
            id, saved = done.checkpoint.id, done.saved
        if before and label is None:
            assert (saved, id) == (False, self.model.tip(name))
        if not saved:
            assert label is None
            self.model.current = name
            self.stands(id, self.tree, talk)
            return
        assert id == self.model.add(name, Kept(self.tree, talk, self.base, self.model.day, label))

    def save_by_process(self, name: str, label: str | None, talk: bytes | None) -> tuple[Id, bool]:
        """The same with the command."""
        given = ("--conversation", "-") if talk is not None else ()
        words = (label,) if label else ()
        said = self.project.gitcp(
            "save", *words, "--session", name, *given, "--json", input=talk or b"", check=0
        )
        fields = json.loads(said.out)
        return Id(fields["checkpoint"]["session"], fields["checkpoint"]["number"]), fields["saved"]

    def stands(self, id: Id, tree: Tree, talk: bytes | None) -> None:
        """A checkpoint that was not made anew says what is here."""
        kept = self.model.kept[id]
        assert (captured(kept.tree), kept.talk) == (captured(tree), talk)
        assert id == self.model.tip(id.session)

    # ------------------------------------------------------------ going back

    @precondition(lambda self: self.model.alive)
    @rule(data=st.data(), talk=st.booleans())
    def restore_over(self, data: st.DataObject, talk: bool) -> None:
        """Restore over work that nobody saved."""
        self.edit(data)
        self.restore(data, talk)

    @precondition(lambda self: self.model.alive)
    @rule(data=st.data(), talk=st.booleans())
    def restore(self, data: st.DataObject, talk: bool) -> None:
        """Restore any checkpoint, with or without its conversation."""
        target = data.draw(st.sampled_from(self.chosen))
        address = self.model.address(target)
        wanted = restored(self.model.kept[target].tree, self.tree)
        if self.by_process(data):
            report = self.by_command("restore", address, *(() if talk else ("--files",)))
        else:
            report = shown(self.api.restore(address, conversation=talk))
        self.came("restore", target, wanted, report, talk=talk)

    def by_command(self, *args: str) -> dict[str, Any]:
        """What a real process says that it did."""
        fields = json.loads(self.project.gitcp(*args, "--yes", "--json", check=0).out)
        return {
            name: wire.parse_id(fields.get(name)) for name in ("target", "safety", "checkpoint")
        }

    def came(
        self,
        step: str,
        target: Id,
        wanted: Tree | None,
        report: dict[str, Id | None],
        *,
        talk: bool,
        partial: bool = False,
    ) -> None:
        """A restore was done: its safety checkpoint, its own, and the files, are as they must
        be.
        """
        was, model = self.tree, self.model
        here = model.present_session(target)
        had = model.talk(here)
        safety = report["safety"]
        if safety is None:
            brought = model.kept[target].talk if talk else None
            assert (step, report["checkpoint"], wanted) == ("restore", None, was)
            assert contents(self.project) == was
            assert brought is None or brought == had
            return
        if here in model.alive and safety in model.there and model.tip(here) == safety:
            self.stands(safety, was, had)
        else:
            kept = Kept(was, had, self.base, model.day, safety=True)
            assert safety == model.add(here, kept)
        model.current = here
        after = report["checkpoint"]
        self.tree = contents(self.project)
        if wanted is not None:
            assert self.tree == wanted
        if after is None:
            assert self.tree == was
        else:
            goes_on = model.session_after(here, target, talk=talk)
            brought = (
                model.kept[target].talk if talk and model.kept[target].talk is not None else had
            )
            assert after == model.add(goes_on, Kept(self.tree, brought, self.base, model.day))
        if after is not None or step != "restore":
            model.stepped(step, safety, after, (talk, partial, self.tree))

    @precondition(lambda self: self.model.alive)
    @rule(data=st.data())
    def revert(self, data: st.DataObject) -> None:
        """Take back one step, and keep what came after it."""
        target = data.draw(st.sampled_from(self.chosen))
        address = self.model.address(target)
        chain = self.model.chain(address.partition("@")[0])
        before = chain[chain.index(target) - 1] if chain.index(target) else None
        if before is None:
            with pytest.raises(BadValue, match="first checkpoint"):
                self.api.plan_revert(address)
            return
        plan = self.api.plan_revert(address)
        if plan.conflicts:
            with pytest.raises(Refused, match="conflict with the revert"):
                self.api.revert(plan)
            return
        base, theirs, now = (self.model.kept[target].tree, self.model.kept[before].tree, self.tree)
        report = self.api.revert(plan)
        self.came("restore", target, None, shown(report), talk=False, partial=True)
        self.merged(base, theirs, now)

    def merged(self, base: Tree, theirs: Tree, ours: Tree) -> None:
        """Files that changed on one side only are as they must be; of the others git's merge
        decides.
        """
        for path in base.keys() | theirs.keys() | ours.keys():
            sides = [side.get(path) for side in (base, theirs, ours)]
            if any(side is not None and side.kind == "directory" for side in sides) or is_ignored(
                path
            ):
                continue
            b, t, o = ((side.kind, side.data) if side else None for side in sides)
            found = self.tree.get(path)
            if t in (b, o):
                assert found is not None if o else found is None or found.kind == "directory", path
                assert not o or (found and found[::2]) == o, path
            elif b == o:
                assert (found and found[::2]) == t, path

    # ------------------------------------------------------------ undo and redo

    @rule(
        data=st.data(),
        steps=st.lists(st.sampled_from(("undo", "undo", "redo")), min_size=1, max_size=4),
    )
    def walk(self, data: st.DataObject, steps: list[str]) -> None:
        """Undo and redo a few times, perhaps with work in between."""
        for step in steps:
            if data.draw(st.integers(0, 3)) == 3:
                self.edit(data)
            self.step(data, step)

    def step(self, data: st.DataObject, step: str) -> None:
        """Undo or redo, as the command decides what is next."""
        store = self.api.store()
        real = undo_op.to_undo(store) if step == "undo" else undo_op.to_redo(store)
        meant = self.model.next(step)
        if real is not None:
            assert meant is not None
            assert real.what in (meant.kind, "redo"), (meant, real)
            self.bring_back(meant, real) if step == "undo" else self.again(meant, real)
            return
        assert meant is None or meant.kind == "restore", meant
        stack = self.model.undo if step == "undo" else self.model.redo
        if not stack:
            with pytest.raises(Refused, match=f"no .* to {step}: nothing was changed"):
                getattr(self.api, step)()
            return
        target = stack[-1]
        if not self.model.findable(target):
            with pytest.raises(RevisionNotFound):
                getattr(self.api, step)()
            return
        talk, partial, left = self.model.extents[target]
        exact = not partial or self.tree == left
        wanted = restored(self.model.kept[target].tree, self.tree) if exact else None
        by_process = self.by_process(data)
        report = (
            self.by_command(step, "--whole-tree")
            if by_process
            else shown(getattr(self.api, step)(whole_tree=True))
        )
        self.came(step, target, wanted, report, talk=talk, partial=partial)

    def bring_back(self, meant: Operation, real: Any) -> None:
        """Undo a prune or delete."""
        store, model = self.api.store(), self.model
        if all(each is not meant for each in model.trash):
            with pytest.raises(RevisionNotFound, match="not in the trash"):
                trash.bring_back(store, real)
            return
        if meant.kind == "delete" and model.is_fork(meant.session):
            with pytest.raises(Refused, match="is another session's now"):
                trash.bring_back(store, real)
            return
        trash.bring_back(store, real)
        model.bring_back(meant)
        model.walk("undo", meant.kind)

    def again(self, meant: Operation, real: Any) -> None:
        """Redo a prune or delete."""
        store, model = self.api.store(), self.model
        if meant.kind == "delete":
            if meant.session not in model.alive:
                with pytest.raises(RevisionNotFound):
                    delete.delete(store, meant.session, of=real)
                return
            if not model.only_in(meant.session) <= meant.dropped:
                with pytest.raises(Refused, match="has new checkpoints"):
                    delete.delete(store, meant.session, of=real)
                return
            delete.delete(store, meant.session, of=real)
            model.delete(meant.session, meant)
        else:
            dropped = model.unwanted(0) & meant.dropped
            if not dropped:
                with pytest.raises(Refused, match="needed now or already gone"):
                    prune.redo(store, real)
                return
            prune.redo(store, real)
            model.drop(dropped, meant)
        model.walk("redo", meant.kind)

    # ------------------------------------------------------------ names, forks, dropping

    @precondition(lambda self: self.model.alive)
    @rule(
        data=st.data(), name=st.sampled_from(TAGS), how=st.sampled_from(("tag", "force", "delete"))
    )
    def name(self, data: st.DataObject, name: str, how: str) -> None:
        """Tag a checkpoint, or take a tag away."""
        if how == "delete":
            self.untag(name)
        else:
            self.tag(data, name, how == "force")

    def tag(self, data: st.DataObject, name: str, force: bool) -> None:
        """Name a checkpoint, or another one by the same name."""
        target = data.draw(st.sampled_from(self.chosen))
        address = self.model.address(target)
        if self.model.tags.get(name, target) != target and not force:
            with pytest.raises(Refused, match="already"):
                self.api.tag(name, address)
            return
        self.api.tag(name, address, force=force)
        self.model.tags[name] = target

    def untag(self, name: str) -> None:
        """Take a name away."""
        if name not in self.model.tags:
            with pytest.raises(RevisionNotFound):
                tag.delete(self.api.store(), name)
            return
        tag.delete(self.api.store(), name)
        del self.model.tags[name]

    @precondition(lambda self: self.model.alive)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        """Begin another session at any checkpoint."""
        point = data.draw(st.sampled_from(self.chosen))
        name = self.new_session(data, "f")
        made = self.api.fork(self.model.address(point), name=name)
        assert made.checkpoint.id == self.model.fork(point, name)

    @precondition(lambda self: self.model.alive)
    @rule(last=st.integers(1, 4))
    def prune(self, last: int) -> None:
        """Keep the last few of each session."""
        dropped = self.model.unwanted(last)
        report = self.api.prune(Policy(last=last))
        assert {node.id for node, _ in report.plan.dropped} == dropped
        self.model.forget()
        if dropped:
            operation = Operation("prune")
            self.model.drop(dropped, operation)
            self.model.log(operation)

    @precondition(lambda self: len(self.model.alive) > 1)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        """Delete a session."""
        name = data.draw(st.sampled_from(sorted(self.model.alive)))
        delete.delete(self.api.store(), name)
        operation = Operation("delete")
        self.model.delete(name, operation)
        self.model.log(operation)

    # ------------------------------------------------------------ what must hold

    @invariant()
    def as_modelled(self) -> None:
        """Files, sessions, logs, tags, and everything of git's."""
        assert contents(self.project) == self.tree
        assert self.project.held_by_git() == self.base
        store = self.api.store()
        assert store.sessions().keys() == self.model.alive.keys()
        assert {name: summary.id for name, summary in tag.listing(store)} == self.model.tags
        if self.model.current in self.model.alive:
            self.logged(self.model.current)

    def logged(self, session: str) -> None:
        """The log of a session has its checkpoints, and no others."""
        assert [each.id for each in self.api.log(f"{session}@")][::-1] == self.model.chain(session)

    def teardown(self) -> None:
        """Nothing is damaged, and everything that is there can be had."""
        try:
            self.sound()
        finally:
            # a process of ours may still be tidying up
            shutil.rmtree(self.place, ignore_errors=True)

    def sound(self) -> None:
        """git and gitcp find nothing, and each checkpoint gives back its files and its
        conversation.
        """
        assert self.project.git("fsck", "--strict", "--no-dangling", "--no-progress") == ""
        if not self.model.alive:
            return
        assert not self.api.check().problems
        for session in self.model.alive:
            self.logged(session)
        for number, id in enumerate(self.chosen):
            self.comes_back(id, self.place / f"out{number}")

    def comes_back(self, id: Id, directory: Path) -> None:
        """A checkpoint restores to the byte."""
        kept, store = self.model.kept[id], self.api.store()
        found = self.api.show(self.model.address(id))
        assert (found.id, found.note.label) == (id, kept.label)
        directory.joinpath(".git").mkdir(parents=True)  # so that it is seen as a project
        materialise.materialise(
            store, RestoreRequest(found, self.project.root, conversation=False), directory
        )
        there = contents(Project(directory))
        assert there == restored(kept.tree, {})
        if kept.talk is not None:
            assert self.api.conversation(self.model.address(id)) == kept.talk


def shown(report: Report) -> dict[str, Id | None]:
    """The ids that a restore speaks of."""
    return {"target": report.target.id, "safety": report.safety, "checkpoint": report.checkpoint}


@pytest.mark.parametrize("part", range(PARTS))
def test_any_order(tmp_path: Path, part: int) -> None:
    """Whatever is done in whatever order, nothing is lost and everything is where the model has
    it.
    """
    kind: type[Machine] = type("Here", (Machine,), {"origin": template(tmp_path / "origin").root})
    options = settings(
        max_examples=RUNS,
        stateful_step_count=STEPS,
        suppress_health_check=list(HealthCheck),
        derandomize=False,  # the part decides
        print_blob=False,
        report_multiple_bugs=False,
        phases=[Phase.generate],  # a failure is shown as it was met: to shrink it would take hours
    )
    run_state_machine_as_test(seed(part)(kind), settings=options)
