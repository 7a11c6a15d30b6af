"""What Entire recorded becomes sessions: its conversations byte for byte, with the files of the
commits that name them.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from recorded_by_entire import IDS, SESSION, branch, layout, recorded, sharded, talk

from gitcp.errors import GitFailed, RevisionNotFound
from gitcp.git import remote
from gitcp.model import Oid
from gitcp.sharing import entire, importing
from gitcp.store import Store

from driver import Project
from samples import open_store, save


def committed(project: Project, text: str, message: str) -> str:
    """Commit a file with a text."""
    project.write("a.txt", text)
    return project.commit(message)


def imported(store: Store) -> dict[str, list[tuple[str, str]]]:
    """The labels of what was imported with the texts of a.txt, oldest first, by ref."""
    result = {}
    for name, tip in store.repo.refs.list("refs/gitcp/remotes/").items():
        rows = []
        for summary in store.history(tip):
            tree = store.read(summary.commit).snapshot.tree
            blobs = {entry.name: entry.oid for entry in store.reader.read_tree(tree)}
            text = store.reader.read_blob(blobs[b"a.txt"]).decode() if b"a.txt" in blobs else ""
            rows.append((summary.subject, text))
        result[name.removeprefix("refs/gitcp/remotes/imported/sessions/")] = rows[::-1]
    return result


def run(store: Store, source: str | None = None) -> tuple[entire.EntirePlan, dict[str, str]]:
    """Import everything; return the plan, and what was refused on the way."""
    planned = entire.plan(store, source)
    _, refused = entire.apply(store, planned)
    return planned, refused


def test_files_and_conversations(project: Project) -> None:
    """Each checkpoint has the files of its commit and its transcript byte for byte; importing again
    finds nothing new, and what is new goes on top.
    """
    first, second = talk("Do it.", "Done."), talk("Do it.", "Done.", "Again.")
    committed(project, "one\n", f"First step\n\nEntire-Checkpoint: {IDS[0]}\n")
    branch(project, layout(sharded(IDS[0]), [{"transcript": [first]}]))
    store = open_store(project)
    with project.guard():
        run(store)
    committed(project, "two\n", f"Second step\n\nEntire-Checkpoint: {IDS[1]}\n")
    later = {"transcript": [second], "created_at": "2026-02-03T10:00:00Z"}
    branch(
        project,
        layout(sharded(IDS[0]), [{"transcript": [first]}]),
        layout(sharded(IDS[1]), [later]),
    )
    with project.guard():
        planned, refused = run(store)
        again, _ = run(store)

    assert (len(planned.new), planned.again, planned.refused, refused) == (1, 1, {}, {})
    assert (len(again.new), again.again) == (0, 2)
    assert imported(store) == {
        "5b1f7b0e": [
            (f"Entire {IDS[0]}: First step", "one\n"),
            (f"Entire {IDS[1]}: Second step", "two\n"),
        ]
    }
    tip = store.repo.refs.read(importing.ref_of("imported", "5b1f7b0e"))
    checkpoint = store.read(Oid(tip or ""))
    assert checkpoint.conversation is not None
    assert [s.sha256 for s in checkpoint.conversation.streams] == [sha256(second).hexdigest()]
    assert (checkpoint.changed, checkpoint.snapshot.total) == (1, 1)
    assert checkpoint.created.isoformat() == "2026-02-03T10:00:00+00:00"


def test_a_beginning(project: Project) -> None:
    """A checkpoint with fewer messages of a conversation than the one before has just those."""
    longer, shorter = talk("Do it.", "Done.", "Again.", "Done."), talk("Do it.", "Done.")
    times = [{"created_at": f"2026-02-0{day}T10:00:00Z"} for day in (1, 2)]
    texts = [{"transcript": [longer]}, {"transcript": [shorter]}]
    pairs = zip(IDS, times, texts, strict=False)
    branch(project, *(layout(sharded(id), [time | text]) for id, time, text in pairs))
    store = open_store(project)
    run(store)

    tip = store.repo.refs.read(importing.ref_of("imported", "5b1f7b0e"))
    chain = [store.read(summary.commit) for summary in store.history(Oid(tip or ""))]
    digests = [each.conversation.streams[0].sha256 for each in chain if each.conversation]
    assert digests == [sha256(text).hexdigest() for text in (shorter, longer)]


def test_squashed_rebased_lost_and_forged(project: Project) -> None:
    """Two checkpoints in one commit both have its files; of copies of a commit the oldest counts; a
    line in the body of a message names nothing, so the checkpoint claims no files, and has the tree
    of the one before.
    """
    squashed = f"Both\n\nEntire-Checkpoint: {IDS[0]}\nEntire-Checkpoint: {IDS[1]}\n"
    committed(project, "both\n", squashed)
    committed(project, "copy\n", f"Copy\n\nEntire-Checkpoint: {IDS[1]}\n")
    committed(
        project, "forged\n", f"Forged\n\nEntire-Checkpoint: {IDS[2]}\n\nbut not at the end.\n"
    )
    times = [{"created_at": f"2026-02-0{day}T10:00:00Z"} for day in (1, 2, 3)]
    branch(project, *(layout(sharded(id), [time]) for id, time in zip(IDS, times, strict=False)))
    store = open_store(project)
    planned, _ = run(store)

    assert (planned.checkpoints, planned.squashed, planned.lost) == (3, 2, 1)
    assert imported(store)["5b1f7b0e"] == [
        (f"Entire {IDS[0]}: Both", "both\n"),
        (f"Entire {IDS[1]}: Both", "both\n"),
        (f"Entire {IDS[2]}", "both\n"),
    ]
    tip = next(iter(store.repo.refs.list("refs/gitcp/remotes/").values()))
    assert not store.read(tip).snapshot.has_files
    assert "\nBase:     unknown (made without files)" in project.gitcp("show", tip, check=0).out


def test_nothing_changed_where_the_commit_is_missing(project: Project) -> None:
    """A checkpoint whose commit is not here deletes no file, and the next one adds none again."""
    committed(project, "one\n", f"First\n\nEntire-Checkpoint: {IDS[0]}\n")
    project.write("b.txt", "new\n")
    project.commit(f"Third\n\nEntire-Checkpoint: {IDS[2]}\n")
    times = [{"created_at": f"2026-02-0{day}T10:00:00Z"} for day in (1, 2, 3)]
    places = [layout(sharded(id), [time]) for id, time in zip(IDS, times, strict=False)]
    branch(project, *places[:2])
    run(open_store(project))
    branch(project, *places)
    store = open_store(project)
    run(store)

    tip = store.repo.refs.read(importing.ref_of("imported", "5b1f7b0e"))
    chain = [store.read(summary.commit) for summary in store.history(Oid(tip or ""))]
    assert [(each.changed, each.snapshot.has_files) for each in chain[:2]] == [
        (1, True),
        (0, False),
    ]
    shown = project.gitcp("log", "imported/5b1f7b0e", check=0).out
    assert f"5b1f7b0e@2  Entire {IDS[1]}\n            no files changed" in shown
    assert "b.txt +1" in shown
    why = project.gitcp("why", "a.txt", "--session", "imported/5b1f7b0e", check=0).out
    assert [line.split()[0] for line in why.splitlines()] == ["a.txt", "5b1f7b0e@1"]


def test_a_ref_for_each_checkpoint(project: Project, tmp_path: Path) -> None:
    """The newer layout is read as well, in parts, with two conversations, from another repository;
    nothing but gitcp's refs is written.
    """
    whole = talk("Do it.", "Done.", "Again.", session=SESSION)
    lines = whole.splitlines(keepends=True)
    parts = [b"".join(lines[:1]).rstrip(b"\n"), b"".join(lines[1:])]
    other = SESSION.replace("5b1f", "77aa")
    conversations: list[dict[str, Any]] = [
        {"transcript": parts},
        {"session_id": other, "transcript": [talk("Hello.", "Hi.", session=other)]},
    ]
    remote = Project(tmp_path / "remote")
    recorded(remote, f"{entire.PREFIX}Z0/{IDS[3]}", layout("", conversations))
    committed(project, "one\n", f"Step\n\nEntire-Checkpoint: {IDS[3]}\n")
    store = open_store(project)
    with project.guard():
        run(store, str(remote.root))

    assert imported(store) == {
        "5b1f7b0e": [(f"Entire {IDS[3]}: Step", "one\n")],
        "77aa7b0e": [(f"Entire {IDS[3]}/1: Step", "one\n")],
    }
    tip = store.repo.refs.read(importing.ref_of("imported", "5b1f7b0e"))
    conversation = store.read(Oid(tip or "")).conversation
    assert conversation is not None
    assert [s.sha256 for s in conversation.streams] == [sha256(whole).hexdigest()]


@pytest.mark.parametrize(
    ("spoiled", "reason"),
    [
        ({"transcript": []}, "Entire recorded no transcript"),
        ({"created_at": "yesterday"}, "its created_at is no time: 'yesterday'"),
        (
            {"transcript": [b"no conversation\n"]},
            "its transcript has no messages of an agent that gitcp knows",
        ),
    ],
    ids=["no transcript", "no time", "no conversation"],
)
def test_refused(project: Project, spoiled: dict[str, Any], reason: str) -> None:
    """What cannot be read is named with its reason, and everything else is imported."""
    project.commit()
    branch(project, layout(sharded(IDS[0]), [spoiled]), layout(sharded(IDS[1]), [{}]))
    store = open_store(project)
    planned, refused = run(store)

    reasons = planned.refused | refused
    assert reasons == {IDS[0]: reason}
    assert imported(store) == {"5b1f7b0e": [(f"Entire {IDS[1]}", "")]}


def test_hostile_metadata(project: Project) -> None:
    """A session's name from metadata is no path, and no ref elsewhere; documents that are none are
    refused.
    """
    project.commit()
    name = "../../../heads/main"
    hostile = {"session_id": name, "transcript": [talk("Do it.", "Done.", session=name)]}
    broken = layout(sharded(IDS[1]), [{}])
    broken[f"{sharded(IDS[1])}0/metadata.json"] = b"[1]"
    branch(project, layout(sharded(IDS[0]), [hostile]), broken)
    store = open_store(project)
    with project.guard():
        planned, _ = run(store)

    assert planned.refused == {IDS[1]: "its metadata.json is no object"}
    assert list(imported(store)) == ["headsmai"]


def test_imported_before(project: Project) -> None:
    """A new label makes nothing new, somebody else's label hides nothing, and a session that was
    deleted is imported again.
    """
    committed(project, "one\n", f"First step\n\nEntire-Checkpoint: {IDS[0]}\n")
    branch(project, layout(sharded(IDS[0]), [{"transcript": [talk("Do it.", "Done.")]}]))
    store = open_store(project)
    strange = save(store, "strange", label=f"Entire {IDS[0]}: mine")
    ref = "refs/gitcp/remotes/imported/sessions/strange"
    assert store.repo.refs.update(ref, strange.commit, None)
    planned, _ = run(store)
    assert (len(planned.new), planned.again) == (1, 0)
    (own,) = (name for name in store.repo.refs.list("refs/gitcp/remotes/") if name != ref)
    tip = store.repo.refs.list("refs/gitcp/remotes/")[own]
    relabeled = save(store, "other", label="another label")
    assert store.repo.refs.update(own, relabeled.commit, tip)
    planned, _ = run(open_store(project))
    assert (len(planned.new), planned.again) == (0, 1)
    project.git("update-ref", "-d", own)
    planned, _ = run(open_store(project))
    assert (len(planned.new), planned.again) == (1, 0)


def test_numbers_of_a_deleted_session(project: Project) -> None:
    """What is imported under the name of a deleted session goes on after its numbers, so that both
    can be here.
    """
    committed(project, "one\n", f"First step\n\nEntire-Checkpoint: {IDS[0]}\n")
    branch(project, layout(sharded(IDS[0]), [{"transcript": [talk("Do it.", "Done.")]}]))
    store = open_store(project)
    for _ in range(2):
        save(store, "5b1f7b0e")
    project.gitcp("delete", "5b1f7b0e", "--yes", check=0)

    run(open_store(project))

    assert project.json("show", "imported/5b1f7b0e")["id"] == "5b1f7b0e@3"
    project.gitcp("restore", "imported/5b1f7b0e", "--yes", "--trust", check=0)
    assert "5b1f7b0e@1-2\n" in project.gitcp("undo", "1", check=0).out


@pytest.mark.parametrize("content", ["no JSON", "[]", '{"entire": 1}', '{"entire": {"x": 2}}'])
def test_record_that_is_lost(project: Project, content: str) -> None:
    """Without a record, or with one that is damaged, everything is imported, and recorded anew."""
    committed(project, "one\n", f"First step\n\nEntire-Checkpoint: {IDS[0]}\n")
    branch(project, layout(sharded(IDS[0]), [{"transcript": [talk("Do it.", "Done.")]}]))
    store = open_store(project)
    run(store)
    (store.repo.store_dir / entire.FILE).write_text(content)
    planned, refused = run(store)
    assert (len(planned.new), refused) == (1, {})
    assert entire.plan(store, None).again == 1


def test_nothing_of_entire(project: Project) -> None:
    """A repository without checkpoints of Entire is said to have none, with what lists its own."""
    project.commit()
    store = open_store(project)
    for source, name, command in (
        (None, "this repository", "git branch --all --list '*entire/checkpoints/v1'"),
        (str(project.root), str(project.root), "git ls-remote"),
    ):
        with pytest.raises(RevisionNotFound, match=f"{name} has no checkpoints of E") as raised:
            entire.plan(store, source)
        assert raised.value.hint.startswith(command)


def test_command(project: Project) -> None:
    """The command shows the plan, imports, and says what has no files; the session is restored with
    --trust.
    """
    committed(project, "one\n", f"First step\n\nEntire-Checkpoint: {IDS[0]}\n")
    branch(
        project,
        layout(sharded(IDS[0]), [{}]),
        layout(sharded(IDS[2]), [{"transcript": [], "created_at": "2026-02-02T10:00:00Z"}]),
    )
    project.write("a.txt", "now\n")
    shown = project.gitcp("import", "--from", "entire", "--dry-run", check=0)
    done = project.gitcp("import", "--from", "entire", check=3)
    project.gitcp("restore", "imported/5b1f7b0e", "--trust", "--yes", check=0)

    assert shown.out.startswith("to import: 1 conversation of 1 session\n")
    assert done.out == (
        "imported 1 checkpoint in 1 session from Entire\n"
        "  2 checkpoints of Entire\n"
        "  1 of a commit that is not here: conversation only\n"
        "show: gitcp log imported/5b1f7b0e, continue: gitcp restore imported/5b1f7b0e --trust\n"
    )
    assert done.err == "not imported: 1 conversation: Entire recorded no transcript\n"
    assert (project.root / "a.txt").read_text() == "one\n"


def test_only_what_entire_recorded(project: Project) -> None:
    """Options of other imports are refused, with nothing imported."""
    project.commit()
    refused = project.gitcp("import", "--from", "entire", "--all", check=2)
    assert "--from entire imports all that Entire recorded: nothing was imported" in refused.err


def test_names_that_a_server_invents(project: Project, tmp_path: Path) -> None:
    """What a server lists as a name of a ref is no refspec: git would move a branch here."""
    remote_project = Project(tmp_path / "remote")
    remote_project.commit()
    project.commit()
    store = open_store(project)
    with project.guard(), pytest.raises(GitFailed, match="which is no ref: nothing was fetched"):
        remote.receive(
            store.repo, str(remote_project.root), ["+refs/heads/main:refs/heads/precious"]
        )
    assert "precious" not in project.git("branch", "--list")


def test_records_that_nothing_wrote(project: Project) -> None:
    """A subject with a line separator, a ref whose metadata is no JSON, and a directory with a
    number of 200 digits stop nothing.
    """
    committed(project, "one\n", f"First\u2028step\n\nEntire-Checkpoint: {IDS[0]}\n")
    files = layout(sharded(IDS[0]), [{}])
    files[f"{sharded(IDS[0])}{'9' * 200}/metadata.json"] = b"{}"
    branch(project, files)
    recorded(project, f"{entire.PREFIX}zz/{IDS[1]}", {"0/metadata.json": b"no JSON"})
    store = open_store(project)
    planned, _ = run(store)

    assert planned.refused == {IDS[1]: "its metadata.json is no JSON"}
    assert [text for _, text in imported(store)["5b1f7b0e"]] == ["one\n"]


def test_parts_that_are_one_blob(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transcript of a thousand parts that are the same blob is as large as all of them."""
    monkeypatch.setattr(importing, "LARGEST", 10_000)
    project.commit()
    part = talk("Do it.", "Done.")
    branch(project, layout(sharded(IDS[0]), [{"transcript": [part] * (10_000 // len(part) + 1)}]))

    refused = entire.plan(open_store(project), None).refused
    assert refused == {IDS[0]: "its transcript is larger than 0 GiB"}
