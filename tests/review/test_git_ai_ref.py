"""Where the notes of Git AI are written, and where not."""

from __future__ import annotations

import pytest

from gitcp.errors import Refused, StoreBusy
from gitcp.model import Oid
from gitcp.review import git_ai
from gitcp.store import Store

from driver import Project
from samples import open_store


def test_a_symbolic_ref_is_not_followed(project: Project) -> None:
    """In an archive the ref of the notes led to the branch: it is as it was, and a dry run says so,
    too.
    """
    project.write("a", "1")
    project.commit()
    project.git("branch", "base")
    project.write("a", "2")
    project.commit()
    branch = project.git("rev-parse", "HEAD").strip()
    project.git("symbolic-ref", git_ai.REF, project.git("symbolic-ref", "HEAD").strip())
    for dry in ((), ("--dry-run",)):
        done = project.gitcp("export", "--as", "git-ai", "base..", *dry, check=12)
        assert f"git symbolic-ref --delete {git_ai.REF}" in done.err
    with pytest.raises(Refused, match="is a symbolic ref"):
        git_ai.check_ref(open_store(project))
    assert project.git("rev-parse", "HEAD").strip() == branch
    project.git("symbolic-ref", "--delete", git_ai.REF)


@pytest.mark.parametrize("has_notes", [False, True])
def test_a_note_written_meanwhile_is_kept(
    project: Project, monkeypatch: pytest.MonkeyPatch, *, has_notes: bool
) -> None:
    """Git AI writes a note after gitcp read which there are: it stays, the other one is added."""
    commits = []
    for text in "abc":
        project.write("a", text)
        commits.append(Oid(project.commit()))
    if has_notes:
        project.git("notes", "--ref=ai", "add", "-m", "old", commits[2])
    store = open_store(project)
    noted, others = git_ai.noted, iter(["theirs"])

    def then_another_writes(store: Store) -> frozenset[Oid]:
        known = noted(store)
        for text in others:
            project.git("notes", "--ref=ai", "add", "-m", text, commits[0])
        return known

    monkeypatch.setattr(git_ai, "noted", then_another_writes)
    notes = dict.fromkeys(commits[:2], "ours")
    added = git_ai.add(store, notes, store.repo.host.now())
    shown = [project.git("notes", "--ref=ai", "show", commit).strip() for commit in commits[:2]]
    assert (shown, [*added.commits]) == (["theirs", "ours"], [commits[1]])
    assert (added.after, added.before) == (
        git_ai.tip(store),
        Oid(project.git("rev-parse", "refs/notes/ai^")),
    )


def test_a_ref_that_never_rests(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written over it."""
    project.write("a", "1")
    first = Oid(project.commit())
    project.write("a", "2")
    other = project.commit()
    store = open_store(project)
    noted = git_ai.noted

    def then_another_writes(store: Store) -> frozenset[Oid]:
        known = noted(store)
        project.git("notes", "--ref=ai", "append", "-m", "more", other)
        return known

    monkeypatch.setattr(git_ai, "noted", then_another_writes)
    with pytest.raises(StoreBusy, match="nothing was written"):
        git_ai.add(store, {first: "ours"}, store.repo.host.now())
    assert first not in noted(store)
