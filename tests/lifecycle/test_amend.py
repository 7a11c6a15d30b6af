"""`gitcp save --amend -m LABEL`: the last checkpoint gets another label; nothing else changes."""

from __future__ import annotations

import pytest
from pruned import fork, grow

from gitcp.errors import RevisionNotFound
from gitcp.lifecycle.amend import amend
from gitcp.lifecycle.check import check
from gitcp.state import tag

from driver import Project
from samples import START, open_store


def test_the_label_alone(project: Project) -> None:
    """Id, files, conversation and parent stay; tags and forks follow; the chain is whole."""
    store = open_store(project)
    last = grow(store, "alpha", 3)[-1]
    fork(store, "beta", last)
    grow(store, "beta", 2)
    tag.create(store, "works", last, text="fine", force=False, now=START)

    before, after = amend(open_store(project), "alpha", "says it better")

    store = open_store(project)
    assert (before.note.label, after.note.label) == (last.note.label, "says it better")
    assert (after.id, after.snapshot, after.conversation, after.parent, after.created) == (
        last.id,
        last.snapshot,
        last.conversation,
        last.parent,
        last.created,
    )
    assert after.commit == store.tip("alpha") != last.commit
    assert project.git("rev-parse", "refs/gitcp/tags/works^{commit}") == after.commit
    tip = store.tip("beta")
    assert tip is not None
    chain = [node.commit for node in store.history(tip)]
    assert (len(chain), after.commit in chain, last.commit in chain) == (6, True, False)
    assert check(store).ok


def test_what_was_dropped_comes_back(project: Project) -> None:
    """A prune can be undone though the label of what it kept was changed since; so can a delete of
    the session, taken over from elsewhere and changed since. Everywhere it has the new label.
    """
    store = open_store(project)
    chain = grow(store, "alpha", 4)
    project.gitcp("prune", "--session", "alpha", "--keep-last", "2", "--yes", check=0)
    project.gitcp("save", "--amend", "-m", "better", "--session", "alpha", check=0)
    assert project.gitcp("undo", check=0).out.startswith("restored 2 checkpoints")
    project.gitcp("delete", "alpha", "--yes", check=0)
    project.git("update-ref", "refs/gitcp/sessions/alpha", chain[1].commit)
    project.gitcp("save", "--amend", "-m", "second", "--session", "alpha", check=0)
    project.gitcp("undo", check=0)

    labels = [(each["number"], each["label"]) for each in project.json_lines("log", "alpha@")]
    assert labels == [(4, "better"), (3, None), (2, "second"), (1, None)]
    assert check(open_store(project)).ok


def test_no_such_session(project: Project) -> None:
    """A session without a checkpoint is named."""
    with pytest.raises(RevisionNotFound, match="session nobody has no checkpoint"):
        amend(open_store(project), "nobody", "label")


def test_command(project: Project) -> None:
    """As typed: what it would do, what it did, and that nothing was saved; only a label changes."""
    project.write("a", "1\n")
    project.gitcp("save", "frist", "--session", "one", check=0)
    project.write("a", "2\n")
    planned = project.gitcp("save", "--amend", "-m", "first", "--dry-run", check=0).out
    assert project.json("save", "--amend", "-m", "first", "--dry-run")["label"] == "first"
    assert project.gitcp("log", "--oneline", check=0).out == "one@1 frist\n"
    done = project.gitcp("save", "--amend", "-m", "first", check=0).out
    refused = [
        project.gitcp("save", "--amend", *more, check=2).err
        for more in (
            (),
            ("-m", "x", "--fact", "a=b"),
            ("-m", "x", "--tag", "t"),
            ("-m", "x", "--state"),
        )
    ]

    assert planned == "would change the label of one@1 from 'frist' to 'first'\n"
    assert done == 'amended one@1 "first", before "frist"\n'
    assert project.gitcp("log", "--oneline", check=0).out == "one@1 first\n"
    assert project.gitcp("diff", "@", "--name-only", check=0).out == "a\n"
    for error in refused:
        assert error == (
            "error: --amend changes only the label, and needs one: nothing was changed\n"
            "hint: gitcp save --amend -m LABEL\n"
        )
