"""Finding a checkpoint: what people type for one, by the commands that take one."""

from __future__ import annotations

import shlex
import time

import pytest
from talk import Talk

from gitcp.errors import Refused
from gitcp.saving.save import SaveRequest, save
from gitcp.state import tag

from driver import Project, Result
from samples import open_store


@pytest.fixture
def shop(project: Project) -> Project:
    """Two sessions with a label in common, and phases."""
    for number, (label, phase) in enumerate(
        (
            ("first", "plan"),
            ("before migration", "plan"),
            ("add table", "implement"),
            (None, "test"),
        )
    ):
        project.write("app.py", f"{number}\n")
        words = [label] if label else []
        project.gitcp("save", *words, "--session", "shop", "--phase", phase, check=0)
    return project


def pasted(project: Project, result: Result) -> Result:
    """Run what the last line of an error says."""
    hint = result.err.splitlines()[-1]
    assert hint.startswith("hint: gitcp ")
    return project.gitcp(*shlex.split(hint.removeprefix("hint: gitcp ")))


COMMANDS = (
    ("show",),
    ("restore", "--dry-run"),
    ("diff",),
    ("log",),
    ("fork",),
    ("tag", "x"),
    ("revert", "--dry-run"),
    ("export", "--format", "bundle"),
    ("view", "-o", "-"),
    ("why", "app.py"),
    ("secrets",),
    ("compensate", "--list"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_label_in_every_command(shop: Project, command: tuple[str, ...]) -> None:
    """The label that was just given names its checkpoint, and so does `@^` the one before."""
    for revision in ("before migration", "@^^"):
        where = 2 if command[0] == "tag" else 1
        args = [*command[:where], revision, *command[where:]]
        args = [*command, revision] if command[0] == "why" else args
        shop.gitcp(*args, check=0)


def test_a_label_of_two_sessions(shop: Project) -> None:
    """Both are listed, and the hint restores one of them; `--session` decides as well."""
    time.sleep(1.1)  # the newer one comes first, and a commit's time has whole seconds
    shop.gitcp("save", "before migration", "--session", "other", "--force", check=0)
    shop.write("app.py", "later\n")
    refused = shop.gitcp("restore", "before migration", "--yes", check=16)

    assert [line.split()[0] for line in refused.err.splitlines()[1:3]] == ["other@1", "shop@2"]
    assert 'restored other@1 "before migration"' in pasted(shop, refused).out
    said = shop.gitcp("restore", "before migration", "--session", "shop", "--yes", check=0)
    assert 'restored shop@2 "before migration"' in said.out


def test_what_a_time_means_is_said(shop: Project) -> None:
    """One line on stderr: id, label and time; `--phase` and `--at` go together."""
    for args in (("show", "now"), ("show", "@{now}"), ("restore", "now", "-n")):
        (line,) = shop.gitcp(*args, check=0).err.splitlines()
        assert line.startswith(f"{args[1]}: shop@4, 2")
    said = shop.gitcp("restore", "--phase", "plan", "--at", "now", "--yes", check=0)

    assert said.err.startswith("phase plan at 2")
    assert ': shop@2 "before migration", 2' in said.err
    assert shop.read("app.py") == b"1\n"
    unknown = shop.gitcp("restore", "--phase", "deploy", "--at", "now", check=16)
    assert "hint: its phases are: plan, test, implement" in unknown.err
    assert "no checkpoint from" in shop.gitcp("restore", "yesterday", check=16).err


def test_habits_are_answered(shop: Project) -> None:
    """What git calls its commits is answered with the command that works."""
    assert "checkpoint shop@3" in shop.gitcp("show", "HEAD~1", check=0).out
    assert shop.gitcp("show", "HEAD~2:app.py", check=0).out == "1\n"
    refused = shop.gitcp("restore", "HEAD~1", "--dry-run", check=16)
    assert "restore shop@3" in pasted(shop, refused).out
    for typed, id in (("@^2", "shop@2"), ("migration", "shop@2")):
        refused = shop.gitcp("show", typed, check=16)
        assert f"checkpoint {id}" in pasted(shop, refused).out
    assert shop.gitcp("show", "before migration:app.py", check=0).out == "1\n"


def test_a_tag_is_no_number(shop: Project) -> None:
    """`tag 12` is refused with a name that works, and `save --tag 12` saves nothing."""
    refused = shop.gitcp("tag", "12", "2", check=2)
    assert "hint: gitcp tag v12 2" in refused.err
    assert pasted(shop, refused).out == "tagged shop@2 v12\n"

    shop.write("app.py", "more\n")
    refused = shop.gitcp("save", "step 12", "--session", "shop", "--tag", "12", check=2)
    assert "hint: gitcp save 'step 12' --session shop --tag v12" in refused.err
    assert shop.json_lines("log")[0]["id"] == "shop@4"


def test_a_tag_that_exists(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A save with it saves nothing, and the hint saves with another name; where another process
    takes the name meanwhile, it is said what was saved.
    """
    shop.gitcp("tag", "works", "2", check=0)
    shop.write("app.py", "more\n")
    before = shop.git("for-each-ref", "refs/gitcp")
    refused = shop.gitcp("save", "works", "--session", "shop", "--tag", "works", check=12)
    assert "tag works already exists, on shop@2; nothing was saved" in refused.err
    assert shop.git("for-each-ref", "refs/gitcp") == before
    assert pasted(shop, refused).code == 0
    assert shop.json("show", "works-2")["id"] == "shop@5"
    refused = shop.gitcp("tag", "works", "3", check=12)
    assert pasted(shop, refused).out == "tagged shop@3 works\n"

    monkeypatch.setattr(tag, "check_free", lambda *_: None)
    with pytest.raises(Refused, match="saved shop@6, but without tag works: tag works already"):
        save(open_store(shop), SaveRequest(shop.root, session="shop", tags=("works",)))
    assert shop.json("show", "@")["id"] == "shop@6"


def test_why_a_path_is_gone(project: Project) -> None:
    """A path that was deleted is said to be, with the checkpoint that did it and the way back."""
    project.write("base.py", "0\n")
    project.write("app.py", "0\n")
    project.commit()
    project.remove("base.py")
    project.gitcp("save", "--session", "shop", check=0)
    project.remove("app.py")
    project.gitcp("save", "--session", "shop", check=0)

    said = project.gitcp("why", "app.py", check=0).out
    assert "deleted in shop@2 (gitcp restore shop@2~1 -- app.py)" in said
    assert "deleted before the first checkpoint" in project.gitcp("why", "base.py", check=0).out
    project.gitcp("restore", "shop@2~1", "--yes", "--", "app.py", check=0)
    assert project.read("app.py") == b"0\n"


def test_staged_is_what_was_staged(project: Project) -> None:
    """A file that was changed and not staged is not listed; one that was is, and so is a file that
    git knows and no commit has.
    """
    for name in ("plain.py", "staged.py"):
        project.write(name, "0\n")
    project.commit()
    project.write("new.py", "0\n")
    project.write("staged.py", "1\n")
    project.git("add", "new.py", "staged.py")
    for name in ("plain.py", "staged.py", "new.py"):
        project.write(name, "2\n")
    project.gitcp("save", check=0)

    said = project.gitcp("show", check=0).out
    assert said.endswith("Staged, differing from disk (2)\n  new.py\n  staged.py\n")


def test_a_message_that_is_shown_can_be_named(project: Project) -> None:
    """`show --conversation` prints the ids that `restore --message` takes, and no other."""
    talk = Talk(project)
    talk.say("add a column", "done", "and an index", "done too")
    project.gitcp("save", check=0)
    heads = [
        line.split()
        for line in project.gitcp("show", "--conversation", check=0).out.splitlines()
        if line.startswith(("user", "assistant"))
    ]
    assert [(head[0], head[2:]) for head in heads] == [
        ("user", ["u1"]),
        ("assistant", []),
        ("user", ["u3"]),
        ("assistant", []),
    ]
    for head in heads[::2]:
        project.gitcp("restore", "--message", head[2], "--dry-run", check=0)


@pytest.mark.parametrize("command", ["show", "restore --dry-run", "diff", "log"])
def test_a_name_that_is_a_path(shop: Project, command: str) -> None:
    """A word that is a path and a label, a tag or a session is refused with both meanings, which
    work as they are printed; `restore docs` restored everything, since a label was `docs`.
    """
    shop.write("docs/page", "one\n")
    said = shop.gitcp("save", "docs", "--session", "shop", check=0).err
    assert "note: docs is a path; it became the label of a checkpoint of all files\n" in said
    shop.gitcp("tag", "app.py", "shop@1", check=0)
    for word, id in (("docs", "shop@5"), ("app.py", "shop@1")):
        refused = shop.gitcp(*command.split(), word)
        assert refused.code == 2
        assert f"'{word}' is a path, and a name of checkpoint {id}" in refused.err
        assert f"gitcp {command} -- {word}" in refused.err
        assert f"gitcp {command} {id}" in refused.err
        assert pasted(shop, refused).code == 0
        shop.gitcp(*command.split(), id, check=0)
        shop.gitcp(*command.split(), "--", word, check=0)
    words = [*command.split(), "--session", "shop"]
    refused = shop.gitcp(words[0], "docs", *words[1:])
    assert f"hint: gitcp {shlex.join(words)} -- docs\n" in refused.err
    assert pasted(shop, refused).code == 0
    assert shop.files()[b"docs/page"].data == b"one\n"


def test_a_path_that_was_deleted(shop: Project) -> None:
    """A deleted path is found in the newest checkpoint that has it, and that is said."""
    shop.write("docs/page", "one\n")
    shop.gitcp("save", "--session", "shop", check=0)
    shop.remove("docs/page")
    shop.gitcp("save", "--session", "shop", check=0)
    for command in ("restore -n", "show", "diff"):
        said = shop.gitcp(*command.split(), "docs/page", check=0).err
        assert said.startswith("not in shop@6: docs/page; the newest that has it: shop@5, ")
    shown = shop.gitcp("log", "docs/page", check=0).out.splitlines()
    assert [line[0] for line in shown[1::2]] == ["6", "5"]
    refused = shop.gitcp("restore", "6", "--dry-run", "--", "docs/page")
    assert "docs/page is neither in shop@6 nor on disk, but in shop@5" in refused.err
    assert refused.err.splitlines()[-1] == "hint: gitcp restore shop@5 -- docs/page"
    assert pasted(shop, pasted(shop, refused)).code == 0
    assert shop.read("docs/page") == b"one\n"
