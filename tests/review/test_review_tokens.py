"""The tokens behind a change: of its checkpoints, and apart those that a restore took back."""

from __future__ import annotations

from gitcp.lifecycle.fork import ForkRequest, fork
from gitcp.model import Oid, Trigger
from gitcp.policy.settings import Settings
from gitcp.review import review as op
from gitcp.review.pages import comment
from gitcp.review.review import ReviewRange, ReviewTokens, Story
from gitcp.store import Store

from driver import Project
from samples import answers, open_store, save


def told(store: Store, project: Project, session: str | None = None) -> Story:
    base, head = (Oid(project.git("rev-parse", name)) for name in ("main", "HEAD"))
    return op.build(store, ReviewRange(base, head, session), Settings())


def worked(project: Project) -> Store:
    """Work before a change, then an attempt that was taken back, and one that was committed."""
    project.write("a.txt", "0\n")
    project.commit("begin")
    project.git("checkout", "--quiet", "-b", "topic")
    store = open_store(project)
    files = [{b"a.txt": b"%d\n" % n} for n in range(6)]
    save(store, "alpha", files[1], answers("a"))
    save(store, "alpha", files[2], answers("a", "b", "c"), trigger=Trigger.BEFORE_RESTORE)
    save(store, "alpha", files[1], answers("a"), trigger=Trigger.RESTORE)
    save(store, "alpha", files[3], answers("a", "d"))
    project.write("a.txt", "3\n")
    project.commit("three")
    save(store, "alpha", files[4], answers("a", "d", "e"))
    return store


def test_split(project: Project) -> None:
    """What came after the change is not counted; what was taken back is counted apart."""
    story = told(worked(project), project)
    assert story.tokens == ReviewTokens(4, 40, 20)
    assert "Tokens: 40 in 4 requests: 20 for what was kept, 20 for attempts that were" in (
        comment.render(story)
    )


def test_session(project: Project) -> None:
    """A session counts as a whole, a fork with what it was forked from; one without requests has
    no numbers.
    """
    store = worked(project)
    tip = store.tip("alpha")
    assert tip
    fork(store, ForkRequest(store.read(tip), project.root, "other"))
    store = open_store(project)
    save(store, "other", streams=answers("a", "d", "e", "f", "g"))
    assert told(store, project, "other").tokens == ReviewTokens(7, 70, 20)
    save(store, "silent", streams={"main": b"{}\n"})
    assert told(store, project, "silent").tokens is None
