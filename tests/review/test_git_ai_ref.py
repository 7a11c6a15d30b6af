"""Where the notes of Git AI are written, and where not."""

from __future__ import annotations

import pytest

from gitcp.errors import Refused
from gitcp.review import git_ai

from driver import Project
from samples import START, open_store


def test_a_symbolic_ref_is_not_followed(project: Project) -> None:
    """In an archive the ref of the notes led to the branch: it is as it was."""
    project.write("a", "1")
    project.commit()
    head = project.git("rev-parse", "HEAD").strip()
    project.git("symbolic-ref", git_ai.REF, "refs/heads/main")
    branch = project.git("rev-parse", "refs/heads/main").strip()
    with pytest.raises(Refused, match="is a symbolic ref"):
        git_ai.write(open_store(project), {}, START)
    assert project.git("rev-parse", "HEAD").strip() == head
    assert project.git("rev-parse", "refs/heads/main").strip() == branch
    project.git("symbolic-ref", "--delete", git_ai.REF)
