"""Objects that git reads for gitcp: what is large, and what this package cannot read. No library is
needed for it.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from gitcp.errors import StoreDamaged
from gitcp.git import catfile
from gitcp.git.objects import MOST_IN_MEMORY
from gitcp.git.packs import oid_of
from gitcp.model import Oid

from driver import Project
from samples import open_store

SIZES = (0, 1, 1 << 20, MOST_IN_MEMORY, MOST_IN_MEMORY + 1, MOST_IN_MEMORY + (3 << 20))


def packed(project: Project) -> dict[Oid, bytes]:
    """Blobs of many sizes, all in one pack."""
    contents = [random.Random(size).randbytes(size) for size in SIZES]
    for number, data in enumerate(contents):
        project.write(f"blob{number}", data)
    project.commit()
    project.git("repack", "-adq")
    return {oid_of("blob", data): data for data in contents}


def test_whatever_size_it_has(project: Project) -> None:
    """A packed blob comes back whole, in chunks that are bounded, and so it does from git alone."""
    expected, objects, repo = packed(project), open_store(project).objects, open_store(project).repo
    for oid, data in expected.items():
        chunks = list(objects.stream_blob(oid))
        assert b"".join(chunks) == data
        assert max(map(len, chunks), default=0) <= MOST_IN_MEMORY
        assert catfile.read(repo, oid) == ("blob", data)
        assert b"".join(catfile.stream_blob(repo, oid)) == data


def test_what_is_not_there(project: Project) -> None:
    """A missing object, and one of another kind, are said to be that."""
    packed(project)
    repo, tree = open_store(project).repo, Oid(project.git("rev-parse", "HEAD^{tree}"))
    with pytest.raises(StoreDamaged, match="is missing"):
        catfile.read(repo, Oid("1" * 40))
    with pytest.raises(StoreDamaged, match="is a tree, not a blob"):
        list(catfile.stream_blob(repo, tree))


def test_a_large_blob_that_is_damaged(project: Project) -> None:
    """What is made of it is void: an error follows the last chunk, whichever byte was changed."""
    large = max(packed(project).items(), key=lambda pair: len(pair[1]))[0]
    [index] = project.root.glob(".git/objects/pack/*.idx")
    rows = [line.split() for line in project.git("verify-pack", "-v", str(index)).splitlines()]
    [(size, start)] = [(int(row[3]), int(row[4])) for row in rows if row[0] == large]
    pack = index.with_suffix(".pack")
    pack.chmod(0o644)
    whole = pack.read_bytes()
    for place in (start + 1, start + size // 2, start + size - 1):
        pack.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        with pytest.raises(StoreDamaged, match=large):
            list(open_store(project).objects.stream_blob(large))


BROKEN = "class GitError(Exception): pass\n\nraise GitError('failed to load certificates')\n"


def test_no_library_is_needed(project: Project, tmp_path: Path) -> None:
    """Every command works where no Git library can be imported, and where there are no
    certificates.
    """
    away = tmp_path / "broken"
    for name in ("pygit2", "_pygit2", "certifi"):
        away.joinpath(name).mkdir(parents=True)
        away.joinpath(name, "__init__.py").write_text(BROKEN)
    nowhere = str(tmp_path / "nowhere")
    env = {"PYTHONPATH": f"{away}{os.pathsep}{Path(__file__).parents[2]}"}
    env |= {"SSL_CERT_FILE": nowhere, "SSL_CERT_DIR": nowhere, "GITCP_SESSION": "main"}
    large = random.Random(4).randbytes(MOST_IN_MEMORY + (1 << 20))
    project.write("large", large)
    project.write("small", "one\n")
    project.git("init", "--quiet", "--bare", f"{tmp_path}/hub.git")
    project.git("remote", "add", "hub", f"file://{tmp_path}/hub.git")
    project.gitcp("remote", "hub", env=env, check=0)
    with project.guard():
        project.gitcp("save", "one", env=env, check=0)
        project.git("repack", "-adqn")
        project.write("large", "wrecked\n")
        for command in (
            ("save", "two"),
            ("log",),
            ("list",),
            ("show", "1"),
            ("diff", "1", "2"),
            ("find", "small"),
            ("status",),
            ("sessions",),
            ("stats",),
            ("why", "small"),
            ("check",),
            ("export", f"--output={tmp_path}/one.bundle"),
            ("push", "hub"),
            ("tag", "first", "1"),
            ("fork", "1", "--name", "branch"),
            ("restore", "1", "--yes"),
            ("undo", "--yes"),
            ("redo", "--yes"),
            ("prune", "--keep-last", "1", "--yes"),
            ("doctor",),
            ("delete", "branch", "--yes"),
        ):
            said = project.gitcp(*command, env=env)
            assert "internal error" not in said.err, (command, said)
            assert said.code == 0, (command, said)
    assert project.root.joinpath("large").read_bytes() == large
