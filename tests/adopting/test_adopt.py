"""`gitcp import`: what agents keep is stored, byte for byte, once, and in the right repository."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import kept_talks
import pytest
from talk import Talk

from driver import Project


def planned(project: Project, *options: str) -> dict[str, str]:
    """The state of each conversation, by agent, as a dry run prints it."""
    document = project.json("adopt", "--dry-run", *options)
    items = [item for store in document["stores"] for item in store["conversations"]]
    return {item["agent"]: item["state"] for item in items}


def adopted(project: Project, *options: str) -> list[dict[str, Any]]:
    """What was stored, one for each checkpoint that was made."""
    results: list[dict[str, Any]] = project.json("adopt", "--yes", *options)["adopted"]
    assert all(each["failed"] is None for each in results)
    return [each for each in results if each["id"]]


def stored(project: Project, id: str) -> bytes:
    """The main stream of a session's last checkpoint."""
    ref = f"refs/gitcp/sessions/{id.partition('@')[0]}"
    tree = f"{ref}:.gitcp/conversation/main"
    names = project.git("ls-tree", "-r", "--name-only", tree).splitlines()
    return "".join(project.git("show", f"{tree}/{name}") + "\n" for name in names).encode()


def test_every_agent(project: Project) -> None:
    """A conversation of each agent becomes a session, byte for byte, and git's own things stay."""
    project.write("a.txt", "one")
    project.commit()
    kept_talks.begin_all(project.root)
    files = set(kept_talks.transcripts().values())

    with project.guard():
        results = sorted(adopted(project), key=lambda each: str(each["agent"]))

    assert [each["agent"] for each in results] == list(kept_talks.AGENTS)
    assert {stored(project, each["id"]) for each in results[:4]} == files
    assert project.gitcp("check", check=0).code == 0
    assert "a question to gemini" in project.gitcp("find", "gemini", check=0).out


def test_dry_run_changes_nothing(project: Project) -> None:
    """The plan names every agent's conversations; nothing is stored."""
    kept_talks.begin_all(project.root)

    plan = project.gitcp("adopt", "--dry-run", check=0).out

    assert all(agent in plan for agent in kept_talks.AGENTS)
    assert project.git("for-each-ref", "refs/gitcp") == ""
    assert planned(project) == dict.fromkeys(kept_talks.AGENTS, "new")


def test_needs_a_yes(project: Project) -> None:
    """Without a terminal nothing is stored unless --yes is given."""
    kept_talks.begin("codex", project.root)

    refused = project.gitcp("adopt", check=12)

    assert "nothing was stored" in refused.err
    assert project.git("for-each-ref", "refs/gitcp") == ""


def test_only_what_is_new(project: Project) -> None:
    """A second run stores nothing; one more turn is one more checkpoint of the same session."""
    talk = Talk(project)
    talk.say("hello", "Hello.")
    (first,) = adopted(project)

    assert adopted(project) == []
    talk.say("more", "More.")
    (second,) = adopted(project)

    assert (first["id"], second["id"]) == ("e7baae82@1", "e7baae82@2")
    assert stored(project, second["id"]) == talk.path.read_bytes()


def test_forgotten(project: Project, sealed: Path) -> None:
    """Without the memory, what is stored is compared, and not stored again."""
    kept_talks.begin_all(project.root)
    adopted(project)
    refs = project.git("for-each-ref", "refs/gitcp")
    shutil.rmtree(sealed / ".local/state/gitcp")

    assert adopted(project) == []
    assert project.git("for-each-ref", "refs/gitcp") == refs
    assert set(planned(project).values()) == {"stored"}


@pytest.mark.parametrize("grown", [False, True], ids=["complete", "grown"])
def test_a_saved_session(project: Project, grown: bool) -> None:
    """What a save stored is skipped, or continued; the files of the save stay what they were."""
    project.write("a.txt", "one")
    talk = Talk(project)
    talk.say("hello", "Hello.")
    project.gitcp("save", check=0)
    if grown:
        talk.say("more", "More.")

    results = adopted(project)

    assert [each["id"] for each in results] == ["e7baae82@2"] * grown
    assert len(project.json_lines("sessions")) == 1
    if grown:
        assert project.git("show", "refs/gitcp/sessions/e7baae82:a.txt") == "one"
        project.write("b.txt", "two")
        project.gitcp("save", check=0)
        assert project.json_lines("log", "@")[0]["files"]["changed"] == 1


def test_an_older_copy(project: Project) -> None:
    """A transcript with less than its session has is nothing new."""
    talk = Talk(project)
    talk.say("hello", "Hello.")
    before = talk.path.read_bytes()
    talk.say("more", "More.")
    project.gitcp("save", check=0)
    talk.path.write_bytes(before)

    assert adopted(project) == []


def test_a_rewritten_transcript(project: Project) -> None:
    """A transcript that continued otherwise is stored on top, once."""
    talk = Talk(project)
    talk.say("hello", "Hello.")
    project.gitcp("save", check=0)
    talk.path.write_bytes(b"")
    talk.say("good morning", "Good morning.", "and now?", "Now this.")

    (result,) = adopted(project)

    assert result["id"] == "e7baae82@2"
    assert stored(project, "e7baae82@2") == talk.path.read_bytes()


def test_no_files(project: Project) -> None:
    """An adopted checkpoint claims no files: it restores the conversation, and refuses files."""
    project.write("a.txt", "one")
    project.commit()
    talk = Talk(project)
    talk.say("hello", "Hello.")
    adopted(project)
    data = talk.path.read_bytes()
    talk.path.unlink()
    before = project.files()

    for arguments in (("--files",), ("--", "a.txt"), ("--to", "elsewhere"), ("--index",)):
        refused = project.gitcp("restore", "e7baae82@1", *arguments, check=12)
        assert "has no files" in refused.err
    assert "has no files" in project.gitcp("diff", "e7baae82@1", check=12).err
    assert project.files() == before

    project.gitcp("restore", "e7baae82@1", "--yes", check=0)

    assert project.files() == before
    assert talk.path.read_bytes() == data


def test_no_file_seems_to_have_changed(project: Project) -> None:
    """Nothing shows the files as deleted by an adopted conversation, or as added after it."""
    project.write("a.txt", "one\n")
    log = project.commit()
    talk = Talk(project)
    talk.say("hello", "Hello.")
    os.utime(talk.path, (2_000_000_000, 2_000_000_000))
    adopted(project)
    assert project.json_lines("log", "@")[0]["base"] == log
    project.write("b.txt", "two\n")
    project.gitcp("save", "later", check=0)

    for command in (("log",), ("log", "--stat"), ("review",), ("show", "@"), ("show", "@~1")):
        said = project.gitcp(*command, check=0).out
        assert "a.txt" not in said
        assert "2 files" not in said
    plan = project.json("publish", "@", "--branch", "b", "--dry-run")
    assert [each["files"] for each in plan["commits"]][:1] == [1]


def test_nothing_said(project: Project) -> None:
    """A transcript without a message is no conversation."""
    talk = Talk(project)
    talk.path.write_text(json.dumps({"type": "summary", "cwd": str(talk.cwd)}) + "\n")

    assert adopted(project) == []
    assert planned(project) == {"claude-code": "empty"}


def test_the_base(project: Project) -> None:
    """The commit of the time is named: HEAD's, as the reflog has it."""
    first = project.commit("one")
    talk = Talk(project)
    talk.say("hello", "Hello.")
    log = project.git_dir / "logs/HEAD"
    lines = log.read_text()
    project.commit("two")
    log.write_text(log.read_text().replace(lines, lines.replace(" +0000\t", " +0000\t")))
    moment = int(lines.split("> ")[1].split(" ")[0])
    os.utime(talk.path, (moment, moment))
    second = log.read_text().splitlines()[1]
    later = second.replace(f"> {second.split('> ')[1].split(' ')[0]}", f"> {moment + 60}")
    log.write_text(lines + later + "\n")

    (result,) = adopted(project)

    assert project.json_lines("log", result["id"])[0]["base"] == first


def test_since_and_agent(project: Project) -> None:
    """A plan can be limited to an agent, and to what was written lately."""
    kept_talks.begin_all(project.root)
    Talk(project).say("hello", "Hello.")

    assert planned(project, "--agent", "codex") == {"codex": "new"}
    assert planned(project, "--since", "1 hour ago") == {"claude-code": "new"}


@pytest.mark.parametrize("agent", kept_talks.AGENTS)
def test_before_a_prompt(project: Project, agent: str) -> None:
    """The one checkpoint leads to before every prompt whose id the agent wrote."""
    kept_talks.begin(agent, project.root, "first", "second")
    (result,) = adopted(project)
    shown = project.gitcp("show", result["id"], "--conversation", check=0).out
    *_, id = (line.split()[-1] for line in shown.splitlines() if line.startswith("user "))
    session = result["id"].partition("@")[0]

    report = project.json("restore", "--session", session, "--message", id, "--yes")

    assert report["conversation"]["messages"] == 2
    assert report["conversation"]["last_message"]["text"] == "Answer 0."


def test_a_deleted_session(project: Project) -> None:
    """A session that was deleted is adopted again, under numbers that were never used."""
    Talk(project).say("hello", "Hello.")
    adopted(project)
    project.gitcp("delete", "e7baae82", "--yes", check=0)

    (result,) = adopted(project)

    assert result["id"] == "e7baae82@2"


@pytest.mark.parametrize("goes_on", [False, True])
def test_all_after_a_rename(project: Project, tmp_path: Path, goes_on: bool) -> None:
    """What a renamed repository has adopted is its own from anywhere, and what is new of it."""
    gone, elsewhere = tmp_path / "gone", tmp_path / "elsewhere"
    elsewhere.mkdir()
    kept_talks.begin("claude-code", gone)
    assert adopted(project, "--from", str(gone))
    if goes_on:
        (path,) = kept_talks.transcripts()
        path.write_bytes(path.read_bytes() + path.read_bytes().splitlines(keepends=True)[-1])

    done = project.gitcp("adopt", "--all", "--yes", "--json", cwd=elsewhere, check=0)

    results = [each for each in json.loads(done.out)["adopted"] if each["id"]]
    assert [each["store"] for each in results] == [str(project.root)] * goes_on
