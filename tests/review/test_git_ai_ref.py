"""Where the notes of Git AI are written, and where not."""

from __future__ import annotations

import pytest

from gitcp.errors import Refused
from gitcp.review import git_ai

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
