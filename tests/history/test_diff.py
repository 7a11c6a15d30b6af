"""`gitcp diff`: between two checkpoints, and between one and what is there now."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from talk import Talk

from driver import Project


@pytest.fixture
def worked(project: Project) -> Project:
    """Two checkpoints, and work since the second."""
    project.write("app.py", "one\ntwo\nthree\n")
    project.write("src/logo.bin", bytes(range(256)))
    project.write("run.sh", "#!/bin/sh\n")
    project.write("gone.txt", "gone\n")
    project.commit()
    Talk(project).say("add a column", "done")
    project.gitcp("save", "first", check=0)
    project.write("app.py", "one\n2\nthree\n")
    project.write("src/new.py", "new\n")
    project.gitcp("save", "second", check=0)
    project.write("src/logo.bin", bytes(range(255, -1, -1)))
    os.chmod(project.path("run.sh"), 0o755)
    project.remove("gone.txt")
    project.write("odd \x1b\n\udcff", "odd\n")
    project.symlink("link", "app.py")
    return project


def stored(project: Project) -> set[str]:
    """Every file of the store, and what refs there are."""
    objects = {str(path) for path in (project.git_dir / "objects").rglob("*")}
    return objects | {project.git("for-each-ref")}


def test_between_two(worked: Project) -> None:
    """The patch between two checkpoints is git's between two commits of these files."""
    said = worked.gitcp("diff", "1", "2", check=0).out

    assert said.splitlines()[:8] == [
        "diff --git a/app.py b/app.py",
        said.splitlines()[1],
        "--- a/app.py",
        "+++ b/app.py",
        "@@ -1,3 +1,3 @@",
        " one",
        "-two",
        "+2",
    ]
    assert ".gitcp" not in said
    assert worked.gitcp("diff", "1..2", check=0).out == said
    assert worked.gitcp("diff", "2", "2", check=0).out == ""


def test_against_now(worked: Project) -> None:
    """Everything that changed since is in the patch, whatever its name and kind, and nothing goes
    to the store.
    """
    before = stored(worked)
    said = worked.gitcp("diff", check=0).out
    names = worked.gitcp("diff", "--name-only", check=0).out.splitlines()

    assert names == ["gone.txt", "link", "odd \\x1b\\n\\xff", "run.sh", "src/logo.bin"]
    assert "deleted file mode 100644" in said
    assert "new file mode 120000" in said
    assert "old mode 100644\nnew mode 100755" in said
    assert "Binary files a/src/logo.bin and b/src/logo.bin differ" in said
    assert '"b/odd \\033\\n\\377"' in said
    assert stored(worked) == before


def test_patch_can_be_applied(worked: Project, tmp_path: Path) -> None:
    """A patch that is piped makes one state out of the other: git applies it."""
    os.unlink(worked.path("src/logo.bin"))
    worked.write("src/logo.bin", bytes(range(256)))
    worked.write("crlf \x1b.txt", b"a\r\nb\x1b\x9b\xff\r\n")
    patch = worked.gitcp("diff", check=0).out
    worked.gitcp("restore", "2", "--to", "../was", check=0)
    was = Project(tmp_path / "was")
    was.git("apply", "--whitespace=nowarn", "-", input=patch.encode("utf-8", "surrogateescape"))

    assert was.files() == worked.files()


def test_stat(worked: Project) -> None:
    """--stat is git's."""
    said = worked.gitcp("diff", "1", "2", "--stat", check=0).out

    assert said.splitlines()[-1] == " 2 files changed, 2 insertions(+), 1 deletion(-)"
    assert (
        worked.gitcp("diff", "--stat", check=0).out.splitlines()[-1].startswith(" 5 files changed")
    )


def test_paths(worked: Project) -> None:
    """Paths limit it, counted from where one stands; a path that is a pattern elsewhere is just a
    path.
    """
    src = worked.root / "src"
    worked.write("*", "star\n")

    assert worked.gitcp(
        "diff", "1", "--name-only", "--", ".", cwd=src, check=0
    ).out.splitlines() == [
        "src/logo.bin",
        "src/new.py",
    ]
    assert worked.gitcp("diff", "--name-only", "--", "..", cwd=src, check=0).out.count("\n") == 6
    assert worked.gitcp("diff", "--", "*", check=0).out.count("diff --git") == 1
    assert worked.gitcp("diff", "--", "nothing", check=0).out == ""


def test_json(worked: Project) -> None:
    """One object a line: path, kind, and what it was and is."""
    found = {str(change["path"]): change for change in worked.json_lines("diff")}
    gone, run = found["gone.txt"], found["run.sh"]

    assert list(gone) == [
        "schema",
        "path",
        "kind",
        "old",
        "new",
        "by",
        "tables",
        "state",
        "problem",
    ]
    assert (gone["schema"], gone["kind"], gone["new"]) == ("gitcp.diff/1", "deleted", None)
    assert gone["old"] == {"mode": "100644", "oid": worked.git("rev-parse", "HEAD:gone.txt")}
    assert (run["kind"], run["new"]["mode"]) == ("mode", "100755")
    assert "{'base64': 'b2RkIBsK/w=='}" in found
    assert {change["kind"] for change in worked.json_lines("diff", "1", "2")} == {
        "added",
        "modified",
    }


def test_exit_code(worked: Project) -> None:
    """--exit-code tells whether anything differs, in every form."""
    for form in ((), ("--stat",), ("--name-only",), ("--json",)):
        worked.gitcp("diff", "--exit-code", *form, check=1)
        worked.gitcp("diff", "2", "2", "--exit-code", *form, check=0)
    worked.gitcp("diff", check=0)


def test_conversation(worked: Project) -> None:
    """--conversation shows the messages that only one side has, of the stored ones or the agent's
    of now.
    """
    talk = Talk(worked)
    talk.count = 2
    talk.say("now \x1b[2Jbreak\nit", "broken")
    said = worked.gitcp("diff", "--conversation", check=0).out

    assert said == "+ user: now ^[[2Jbreak\n+ it\n+ assistant: broken\n"
    worked.gitcp("save", check=0)
    assert worked.gitcp("diff", "3", "1", "--conversation", check=0).out == said.replace("+ ", "- ")
    assert worked.gitcp("diff", "--conversation", "--exit-code", check=0).out == ""
    found = worked.json_lines("diff", "1", "@", "--conversation")
    assert [(message["kind"], message["role"], message["id"]) for message in found] == [
        ("added", "user", "u3"),
        ("added", "assistant", "u4"),
    ]


def test_rewrites_in_place(worked: Project) -> None:
    """A same-size edit right after a save is seen."""
    worked.gitcp("save", check=0)
    worked.write("app.py", "one\n3\nthree\n")

    assert worked.gitcp("diff", check=0).out.splitlines()[-4:] == [" one", "-2", "+3", " three"]


def test_first_checkpoint_without_a_commit(project: Project) -> None:
    """Where there is no commit to compare with, everything is new."""
    project.write("a", "x\n")
    project.gitcp("save", check=0)
    said = project.gitcp("log", "-p", check=0).out

    assert "new file mode 100644" in said
    assert said.endswith("+x\n")


NAMES = st.binary(min_size=1, max_size=6).filter(
    lambda name: not {b"/"[0], 0} & set(name) and name not in (b".", b"..")
)
CONTENTS = st.one_of(st.none(), st.binary(max_size=12))


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(NAMES, st.tuples(CONTENTS, CONTENTS), min_size=1, max_size=6))
def test_any_files(
    tmp_path_factory: pytest.TempPathFactory,
    changes: dict[bytes, tuple[bytes | None, bytes | None]],
) -> None:
    """Against now, the paths and the patch are those that git finds between two trees, for any
    names and contents.
    """
    project = Project(tmp_path_factory.mktemp("any") / "p")
    changes = {b"d/" + name: pair for name, pair in changes.items() if name.lower() != b".git"}
    project.write("always", "x")
    trees = []
    for side in (0, 1):
        for name, pair in changes.items():
            content = pair[side]
            if content is not None:
                project.write(name, content)
            elif os.path.lexists(project.path(name)):
                project.remove(name)
        if side == 0:
            project.gitcp("save", check=0)
        project.git("add", "--all", "--force", ":(exclude).gitcp")
        trees.append(project.git("write-tree"))
    expected = subprocess.run(
        ["git", *project.where, "diff", *trees], cwd=project.root, capture_output=True, check=True
    ).stdout

    assert project.gitcp("diff", check=0).out.encode("utf-8", "surrogateescape") == expected
