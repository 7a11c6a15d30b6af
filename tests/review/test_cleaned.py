"""`gitcp publish`: files that git filters are as git would commit them, or there is no branch."""

from __future__ import annotations

import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest
from kinds import IS_OWN_STORE
from tokens import tokens

from driver import Project

PLAIN = "topsecret"
TOKEN = tokens()["github-token"]

pytestmark = pytest.mark.skipif(IS_OWN_STORE, reason="without git, nothing is committed")


def configure(project: Project, clean: str, smudge: str = "cat") -> None:
    """Configure the filter x, for files that end in .x."""
    project.git("config", "--global", "filter.x.clean", clean)
    project.git("config", "--global", "filter.x.smudge", smudge)
    project.write(".gitattributes", "*.x filter=x\n")


@pytest.fixture
def crypt(project: Project) -> Project:
    """A project with a filter that encrypts, and a committed file."""
    configure(project, "tr a-z n-za-m", "tr a-z n-za-m")
    project.write("s.x", f"{PLAIN} one\n")
    project.write("a.txt", "one\n")
    project.commit()
    return project


def publish(project: Project, *options: str, code: int = 0) -> str:
    done = project.gitcp("publish", "--branch", "pub", "--yes", *options, check=code)
    return done.out + done.err


def test_encrypted(crypt: Project) -> None:
    """The branch has what `git add` stores, of changed and new files, also with a token in them:
    that does not leave; the index, the files and the settings are as before.
    """
    crypt.write("s.x", f"{PLAIN} two {TOKEN}\n")
    crypt.write('odd [*]\\"é.x', f"{PLAIN}\n")
    crypt.gitcp("save", "two", check=0)
    plan = crypt.json("publish", "--branch", "pub", "--dry-run")
    assert plan["filtered"] == ['odd [*]\\"é.x', "s.x"]
    with crypt.guard():
        shown = crypt.gitcp("publish", "--branch", "pub", "--dry-run", check=0).out
    assert "as git commits it: s.x  (filter x)" in shown
    publish(crypt)
    assert PLAIN not in crypt.git("log", "-p", "--text", "pub")
    crypt.git("add", "--all")
    assert crypt.git("write-tree") == crypt.git("rev-parse", "pub^{tree}")
    assert crypt.git("fsck", "--strict", "--no-dangling", "--no-progress") == ""


def with_output(project: Project) -> None:
    """Commit a notebook and a text, and save both changed, the notebook in its output alone."""
    project.write("n.x", "cell\noutput 1\n")
    project.write("a.txt", "one\n")
    project.commit()
    project.write("n.x", "cell\noutput 2\n")
    project.write("a.txt", "two\n")
    project.gitcp("save", "two", check=0)


def test_unchanged_for_git(project: Project) -> None:
    """A filter that drops output: what git sees unchanged is unchanged in the branch."""
    configure(project, "sed s/output.*/output/")
    with_output(project)
    project.write("n.x", "cell\noutput 3\n")
    project.gitcp("save", "only output", check=0)
    publish(project)
    assert project.git("diff", "--name-only", "main", "pub") == "a.txt"
    assert project.git("rev-list", "--count", "main..pub") == "1"


def test_set_in_the_repository(project: Project, tmp_path: Path) -> None:
    """A filter in .git/config, as git-crypt and nbstripout put it there, is run where the user's
    git has followed it, and not in a copy: an archive has such a file as well.
    """
    project.git("config", "filter.x.clean", f"tee {tmp_path}/ran | sed s/output.*/output/")
    project.write(".gitattributes", "*.x filter=x\n")
    with_output(project)
    ran = tmp_path / "ran"
    ran.unlink()
    shutil.copytree(project.root, tmp_path / "copy", symlinks=True)
    copy = Project(tmp_path / "copy")
    refused = publish(copy, code=12)
    assert "the filter x is set in this repository's own configuration" in refused
    assert "no file here shows that git has used it" in refused
    assert not ran.exists()
    assert "pub" not in copy.git("branch")
    subprocess.run(["git", "status"], cwd=copy.root, check=True, capture_output=True)
    for where in project, copy:
        publish(where)
        assert where.git("diff", "--name-only", "main", "pub") == "a.txt"


def test_set_in_the_repository_and_of_one_size(crypt: Project) -> None:
    """What a filter encrypts to as many bytes shows that it has run, too."""
    crypt.git("config", "--global", "--remove-section", "filter.x")
    crypt.git("config", "filter.x.clean", "tr a-z n-za-m")
    crypt.write("new.x", f"{PLAIN}\n")
    crypt.gitcp("save", "new", check=0)
    publish(crypt)
    assert crypt.git("show", "pub:new.x") == "gbcfrperg"


@pytest.mark.parametrize("how", ["set since", "changes nothing", "converted", "autocrlf"])
def test_no_sign_of_a_run(project: Project, tmp_path: Path, how: str) -> None:
    """Where the index does not show that git has run the repository's filter, it is not run: also
    if git converted the files itself.
    """
    clean = f"touch {tmp_path}/ran; cat"
    project.write(".gitattributes", "*.x filter=x" + " text eol=crlf\n" * (how == "converted"))
    project.write("a.txt", "one\n")
    project.write("n.x", "one\r\n")
    if how == "autocrlf":
        project.git("config", "core.autocrlf", "true")
    if how == "changes nothing":
        project.git("config", "filter.x.clean", clean)
    project.commit()
    project.git("config", "filter.x.clean", clean)
    (tmp_path / "ran").unlink(missing_ok=True)
    project.write("n.x", "two\r\n")
    project.gitcp("save", "two", check=0)
    refused = publish(project, code=12)
    assert "no file here shows that git has used it" in refused
    assert not (tmp_path / "ran").exists()
    set_globally = refused.partition("if it is yours: ")[2].strip()
    subprocess.run(["sh", "-c", set_globally], cwd=project.root, check=True)
    publish(project)
    assert (tmp_path / "ran").exists()


def test_another_result_each_time(project: Project) -> None:
    """An unchanged file stays as it is committed, though its filter never gives the same twice."""
    configure(project, "sh -c 'date +%N; cat'", "sed 1d")
    project.write("s.x", "one\n")
    project.write("a.txt", "one\n")
    project.commit()
    project.write("a.txt", "two\n")
    project.gitcp("save", "two", check=0)
    publish(project)
    assert project.git("diff", "--name-only", "main", "pub") == "a.txt"


@pytest.mark.parametrize("how", ["fails", "not required", "missing", "not configured"])
def test_no_branch_without_the_filter(crypt: Project, how: str) -> None:
    """Where the filter fails there is no branch, also where git would commit the plain text."""
    crypt.write("s.x", f"{PLAIN} two\n")
    crypt.gitcp("save", "two", check=0)
    if how == "not configured":
        crypt.git("config", "--global", "--remove-section", "filter.x")
    else:
        crypt.git(
            "config", "--global", "filter.x.required", "false" if how == "not required" else "true"
        )
        crypt.git(
            "config",
            "--global",
            "filter.x.clean",
            "no-such-program" if how == "missing" else "false",
        )
    with crypt.guard():
        refused = publish(crypt, code=12)
    assert "  s.x  (filter x: " in refused
    assert "no branch was created" in refused
    assert "pub" not in crypt.git("branch")


@pytest.mark.parametrize("where", ["removed", "by another directory", "named since"])
def test_attributes_of_the_checkpoint(crypt: Project, where: str) -> None:
    """The attributes are those of the checkpoint, whatever the working tree has by now; a filter
    that they name today encrypts older checkpoints too.
    """
    crypt.write("sub/t.y", f"{PLAIN} two\n")
    if where == "by another directory":
        crypt.write("sub/.gitattributes", "*.y filter=x\n")
    elif where == "removed":
        crypt.write(".gitattributes", "*.[xy] filter=x\n")
    crypt.gitcp("save", "two", check=0)
    if where == "named since":
        crypt.write(".gitattributes", "*.y filter=x\n")
    else:
        crypt.git("rm", "--quiet", "--cached", ".gitattributes")
        crypt.remove(".gitattributes")
        crypt.git("config", "--global", "core.attributesFile", str(crypt.root / "mine"))
        crypt.write("sub/.gitattributes", "*.txt text\n")
    publish(crypt)
    assert PLAIN not in crypt.git("show", "pub:sub/t.y")
    assert crypt.git("show", "pub:sub/t.y") == "gbcfrperg gjb"


def test_attributes_of_the_base(project: Project) -> None:
    """On a base that encrypts, what the session brings is encrypted too."""
    project.write("a.txt", "one\n")
    project.commit()
    project.write("s.x", f"{PLAIN}\n")
    project.gitcp("save", "one", check=0)
    project.git("checkout", "--quiet", "-b", "other")
    configure(project, "tr a-z n-za-m", "tr a-z n-za-m")
    project.git("add", ".gitattributes")
    project.git("commit", "--quiet", "-m", "encrypt")
    project.git("checkout", "--quiet", "main")
    publish(project, "--base", "other")
    assert PLAIN not in project.git("show", "pub:s.x")


def test_pointers_of_lfs(project: Project) -> None:
    """A file that is stored as its pointer stays one, and the filter is not asked."""
    content = b"movie\n"
    digest = sha256(content).hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize 6\n"
    project.write(f".git/lfs/objects/{digest[:2]}/{digest[2:4]}/{digest}", content)
    project.write(".gitattributes", "*.mov filter=lfs\n")
    project.write("a.txt", "one\n")
    project.commit()
    project.write("m.mov", pointer)
    project.git("-c", "filter.lfs.clean=", "add", "m.mov")
    project.write("m.mov", content)
    project.git("config", "--global", "filter.lfs.clean", "false")
    project.git("config", "--global", "filter.lfs.required", "true")
    project.gitcp("save", "one", check=0)
    publish(project)
    assert project.git("show", "pub:m.mov") == pointer.strip()


def test_redacted(project: Project) -> None:
    """What is scanned is what leaves: after a filter that encrypts nothing."""
    configure(project, "sed s/output.*/output/")
    project.write("n.x", "cell\n")
    project.commit()
    project.write("n.x", f"{TOKEN}\noutput {TOKEN}\n")
    project.gitcp("save", "one", check=0)
    assert "n.x, line 1" in publish(project, code=15)
    publish(project, "--redact")
    assert project.git("show", "pub:n.x") == "[REDACTED:github-token]\noutput"
