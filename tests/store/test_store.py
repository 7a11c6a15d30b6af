"""The store: a checkpoint becomes a commit that git understands, and becomes the same checkpoint
again.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from kinds import FORMAT

import gitcp
from gitcp.errors import DiskFull, Refused, StoreBusy, StoreDamaged
from gitcp.git import refs, trees
from gitcp.git.repo import Repository
from gitcp.model import (
    EXECUTABLE,
    FILE,
    GITLINK,
    SYMLINK,
    Agent,
    Base,
    Checkpoint,
    CheckpointId,
    Entry,
    Handoff,
    Host,
    IndexEntry,
    Note,
    Oid,
    Skip,
    SkipReason,
    Snapshot,
    Trigger,
)
from gitcp.store import Store, message, one_line, signature, subject
from gitcp.value import replace

from driver import Project
from samples import START, open_store, plain, save, talk


@pytest.fixture
def store(project: Project) -> Store:
    return open_store(project)


def full(store: Store, **fields: Any) -> Checkpoint:
    """A checkpoint with files of every kind, staged and conflicting entries, and a conversation."""
    objects = store.objects
    blob = [objects.writer.write_blob(b"%d\n" % n) for n in range(4)]
    tree = trees.build(
        objects.writer,
        trees.nest(
            {
                b"a.txt": Entry(FILE, blob[0]),
                b"bin/run": Entry(EXECUTABLE, blob[1]),
                b"link": Entry(SYMLINK, blob[2]),
                b"vendor": Entry(GITLINK, Oid("5" * FORMAT.digits)),
                b"odd \xff\n": Entry(FILE, blob[3]),
            }
        ),
    )
    made = plain(
        agent=Agent("claude-code", "5e55-10n", "2.1", "model"),
        note=Note(
            "a label", "build", "an objective", {"k": "v"}, Handoff("task", ("d",)), {"record": "7"}
        ),
        trigger=Trigger.TURN,
        snapshot=Snapshot(
            tree,
            Base(Oid("b" * FORMAT.digits), "main"),
            5,
            (Skip(b"big", SkipReason.TOO_LARGE),),
            staged=(
                IndexEntry(b"bin/run", FILE, blob[2]),
                IndexEntry(b"new", FILE, blob[3], intent_to_add=True),
            ),
            conflicts=(
                IndexEntry(b"a.txt", FILE, blob[1], 2),
                IndexEntry(b"a.txt", FILE, blob[2], 3),
            ),
        ),
        conversation=talk(store, {"main": b"{}\n", "agents/one": b"[]\n"}),
        changed=3,
        restored_from=CheckpointId("alpha", 2),
        forked_from=CheckpointId("beta", 9),
    )
    return replace(made, **fields)


def put(store: Store, checkpoint: Checkpoint) -> Checkpoint:
    made = store.commit(checkpoint, "# readme\n")
    store.advance(made)
    return made


# ---------------------------------------------------------------- a checkpoint is a commit


def test_what_is_committed_is_read_back(project: Project, store: Store) -> None:
    """Everything a checkpoint says comes back, from the same process and from another, loose and
    packed.
    """
    with project.guard():
        made = put(store, full(store))
    assert made.commit != made.root
    for reader in (store, open_store(project)):
        assert reader.read(made.commit) == made

    project.git("gc", "--quiet")
    assert open_store(project).read(made.commit) == made


def test_the_tree_is_the_files_and_a_directory_of_ours(project: Project, store: Store) -> None:
    """git shows the working tree's files where they are, and everything else below .gitcp."""
    made = put(store, full(store))
    ref = refs.SESSIONS + "alpha"
    listed = project.git(
        "-c", "core.quotePath=true", "ls-tree", "-r", "--name-only", ref
    ).splitlines()

    assert listed == [
        ".gitcp/README.md",
        ".gitcp/checkpoint.json",
        ".gitcp/conflicts/2/a.txt",
        ".gitcp/conflicts/3/a.txt",
        ".gitcp/conversation/agents/one/a/000000000000.jsonl",
        ".gitcp/conversation/main/a/000000000000.jsonl",
        ".gitcp/staged/bin/run",
        "a.txt",
        "bin/run",
        "link",
        r'"odd \377\n"',
        "vendor",
    ]
    assert project.git("show", f"{ref}:.gitcp/README.md") == "# readme"
    assert project.git("show", f"{ref}:.gitcp/staged/bin/run") == "2"
    modes = project.git("ls-tree", "-r", ref, "bin/run", "link", "vendor", "a.txt").splitlines()
    assert [line.split()[0] for line in modes] == ["100644", "100755", "120000", "160000"]
    assert project.git("rev-parse", f"{ref}^{{tree}}") == made.root


def test_every_store_reads_the_files(project: Project, store: Store) -> None:
    """The tree of the files alone is not stored; whoever has a checkpoint can read it, by any
    store.
    """
    project.write("a.txt", "one\n")
    project.write("d/b.txt", "two\n")
    made = gitcp.open(project.root).save(session="alpha").checkpoint

    for checkpoint in (made, store.read(made.commit)):
        other = open_store(project).reader
        assert not other.exists(checkpoint.snapshot.tree)
        files = [path for path, _ in trees.walk(other, checkpoint.snapshot.tree)]
        assert files == [b"a.txt", b"d/b.txt"]


def test_git_reads_the_commit(project: Project, store: Store) -> None:
    """Subject, times, parents and trailers are what git's own log shows."""
    when = datetime(2026, 11, 20, 17, 0, 5, tzinfo=timezone(timedelta(hours=-3, minutes=-30)))
    first = put(store, full(store, created=when))
    second = put(store, full(store, id=CheckpointId("alpha", 2), parent=first.commit))
    ref = refs.SESSIONS + "alpha"

    assert (
        project.git("log", "--format=%H %P", ref)
        == f"{second.commit} {first.commit}\n{first.commit} "
    )
    assert project.git("log", "--format=%s %aI", f"{ref}~1") == "a label 2026-11-20T17:00:05-03:30"
    trailers = (
        project.git("log", "--format=%(trailers:only,unfold)", f"{ref}~1").strip().splitlines()
    )
    assert trailers == [
        "Gitcp-Format: 1",
        "Gitcp-Session: alpha",
        "Gitcp-Number: 1",
        "Gitcp-Trigger: turn",
        "Gitcp-Agent: claude-code",
        "Gitcp-Agent-Session: 5e55-10n",
        "Gitcp-Phase: build",
        f"Gitcp-Base: {'b' * FORMAT.digits}",
        "Gitcp-Messages: 2",
        "Gitcp-Files: 5 (3 changed)",
        "Gitcp-Skipped: 1",
        "Gitcp-Restored-From: alpha@2",
        "Gitcp-Forked-From: beta@9",
        "Gitcp-Position: record=7",
    ]
    raw = project.git("log", "-1", "--format=%B", f"{ref}~1")
    parsed = project.git("interpret-trailers", "--parse", input=raw.encode()).splitlines()
    assert parsed == trailers


def test_plain_git_restores_from_it(project: Project, store: Store) -> None:
    """`git restore -s` and `git diff` work on a checkpoint as on any commit."""
    project.write("a.txt", "before\n")
    project.commit()
    save(store, "alpha", {b"a.txt": b"after\n"})
    project.git("restore", "-s", refs.SESSIONS + "alpha", "--", "a.txt")

    assert project.read("a.txt") == b"after\n"
    assert "+after" in project.git("diff", "HEAD", refs.SESSIONS + "alpha", "--", "a.txt")


def test_the_same_checkpoint_is_the_same_commit(store: Store, project: Project) -> None:
    """Nothing but the checkpoint decides about its bytes."""
    one = store.commit(full(store), "readme")
    two = open_store(project).commit(full(open_store(project)), "readme")

    assert one == two


def test_nothing_is_seen_before_the_ref_moves(project: Project, store: Store) -> None:
    """A commit that no ref names is no checkpoint yet; moving the ref makes it one, from its parent
    only.
    """
    first = store.commit(full(store), "")
    assert store.sessions() == {}
    assert store.tip("alpha") is None
    store.advance(first)
    assert store.sessions() == {"alpha": first.commit}

    other = store.commit(full(store, created=START + timedelta(days=1)), "")
    with pytest.raises(StoreBusy, match="alpha@1"):
        store.advance(other)
    assert store.tip("alpha") == first.commit


# ---------------------------------------------------------------- who, and in which words


def identity(project: Project, tmp_path: Path, env: dict[str, str]) -> str:
    host = Host(env={**os.environ, **env}, home=tmp_path, now=lambda: START)
    return signature(Repository.open(project.root, host), START).rpartition(">")[0] + ">"


def test_who_made_it(project: Project, tmp_path: Path) -> None:
    """The user git knows, from the environment before the settings; a fixed one where git knows
    none.
    """
    assert identity(project, tmp_path, {}) == "gitcp <gitcp@localhost>"

    project.git("config", "user.name", "Ann O. Nym")
    assert identity(project, tmp_path, {}) == "Ann O. Nym <gitcp@localhost>"
    project.git("config", "user.email", "ann@example.org")
    project.git("config", "author.name", "Ann Author")
    assert identity(project, tmp_path, {}) == "Ann Author <ann@example.org>"
    env = {"GIT_AUTHOR_NAME": "Env", "GIT_AUTHOR_EMAIL": "env@example.org"}
    assert identity(project, tmp_path, env) == "Env <env@example.org>"


@pytest.mark.parametrize(
    "name", ["", " ", "<>", "a <b> c", "x\ny", "\x00", "\udcff", "é", ".", "a" * 500]
)
def test_any_name_gives_a_sound_commit(project: Project, name: str) -> None:
    """Whatever git's settings say, the commit is sound."""
    text = name.replace("\n", "\\n").replace("\0", "")
    with project.git_dir.joinpath("config").open(
        "a", encoding="utf-8", errors="surrogateescape"
    ) as file:
        file.write(f'[user]\n\tname = "{text}"\n\temail = "{text}"\n')
    store = open_store(project)
    made = put(store, full(store))

    assert project.git("fsck", "--strict", "--no-dangling") == ""
    assert store.summary(made.commit).id == made.id


@pytest.mark.parametrize(
    ("note", "prompt", "expected"),
    [
        (Note("a label"), "a prompt", "a label"),
        (Note("two\nlines\tand\x1b[31m more"), None, "two lines and [31m more"),
        (Note("x" * 300), None, "x" * 199 + "…"),
        (Note(" \n "), "what the user asked\nfor", "turn: what the user asked for"),
        (Note(), None, "(no label)"),
        (Note(), "x" * 99, "turn: " + "x" * 59 + "…"),
        (Note("é✓漢字🙂"), None, "é✓漢字🙂"),
    ],
)
def test_subjects(
    project: Project, store: Store, note: Note, prompt: str | None, expected: str
) -> None:
    """A label on one line, or a line made from the trigger and the last prompt; git and we read the
    same.
    """
    conversation = talk(store, {"main": b"{}\n"})
    conversation = replace(conversation, digest=replace(conversation.digest, last_prompt=prompt))
    made = put(
        store,
        full(store, note=note, conversation=conversation, restored_from=None, forked_from=None),
    )

    assert subject(made) == expected
    assert store.summary(made.commit).subject == expected
    assert [s.subject for s in store.history(made.commit)] == [expected]
    assert project.git("log", "-1", "--format=%s", made.commit) == expected


FORGED = (
    "Gitcp-Session: evil",
    "x\n\nGitcp-Session: evil\nGitcp-Number: 9",
    "x\nGitcp-Number: 9",
    "\r\rGitcp-Number: 9",
    "x\x85\x85Gitcp-Number: 9\u2028\u2029\x0b\x0c\x1c",
    "x\x00\x01\nGitcp-Number: 9\x00",
    "---\nGitcp-Number: 9",
    "\x01\n" + "a" * FORMAT.digits + "\x00",
)


@pytest.mark.parametrize("text", FORGED, ids=ascii)
def test_words_cannot_forge_trailers(project: Project, store: Store, text: str) -> None:
    """Wherever they stand, words of people and agents stay words: the id is what the store says."""
    conversation = talk(store, {"main": b"{}\n"})
    conversation = replace(conversation, digest=replace(conversation.digest, last_prompt=text))
    for number, (label, agent) in enumerate(
        ((text, None), (None, Agent(text, text, text, text))), 1
    ):
        checkpoint = full(
            store,
            id=CheckpointId("alpha", number),
            parent=store.tip("alpha"),
            note=Note(label, text, text, {text: text}),
            agent=agent,
            conversation=conversation,
            snapshot=replace(full(store).snapshot, base=Base(Oid("b" * FORMAT.digits), text, text)),
        )
        made = put(store, checkpoint)

        assert store.summary(made.commit).id == CheckpointId("alpha", number)
        assert [s.id.number for s in store.history(made.commit)] == list(range(number, 0, -1))
        for name, value in (("Session", "alpha"), ("Number", str(number))):
            assert (
                project.git(
                    "log", "-1", f"--format=%(trailers:key=Gitcp-{name},valueonly)", made.commit
                ).strip()
                == value
            )
        assert store.read(made.commit).id == CheckpointId("alpha", number)
    assert project.git("fsck", "--strict", "--no-dangling") == ""


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(label=st.text(st.characters()), phase=st.text(max_size=20), session_id=st.text(max_size=20))
@example(label="\udcff", phase="\ud83d", session_id="\udcff\n\nGitcp-Number: 3")
def test_any_words_make_a_checkpoint(store: Store, label: str, phase: str, session_id: str) -> None:
    """Whatever the words, the checkpoint can be made, listed and read."""
    made = store.commit(
        full(store, note=Note(label, phase), agent=Agent("claude-code", session_id)), ""
    )

    assert store.summary(made.commit).id == made.id
    assert next(store.history(made.commit)).trailers == store.summary(made.commit).trailers
    assert store.read(made.commit).id == made.id


@given(st.text(), st.integers(1, 50))
def test_one_line(text: str, most: int) -> None:
    """One line, no longer than asked for, without control characters, and the same when done
    again.
    """
    line = one_line(text, most)

    assert len(line) <= most
    assert line.splitlines() in ([], [line])
    assert line == line.strip()
    assert one_line(line, most) == line


def test_settings_of_the_user_do_not_change_what_is_read(project: Project, store: Store) -> None:
    """Encodings, signatures, aliases and formats set for git's log leave the history as it is."""
    made = put(store, full(store, note=Note("é✓")))
    for name, value in (
        ("i18n.logOutputEncoding", "ISO-8859-1"),
        ("i18n.commitEncoding", "ISO-8859-1"),
        ("log.showSignature", "true"),
        ("log.date", "relative"),
        ("format.pretty", "oneline"),
        ("color.ui", "always"),
        ("core.abbrev", "4"),
    ):
        project.git("config", name, value)
    reader = open_store(project)

    assert [(s.subject, s.created) for s in reader.history(made.commit)] == [("é✓", made.created)]


# ---------------------------------------------------------------- history


def test_history_and_summaries_agree(store: Store) -> None:
    """A listing by git and one commit by commit say the same, newest first, as many as asked
    for.
    """
    commits = [save(store, "alpha", label=f"step {n}", phase="build").commit for n in range(5)]
    listed = list(store.history(commits[-1]))

    assert [s.commit for s in listed] == commits[::-1]
    assert listed == [store.summary(commit) for commit in commits[::-1]]
    assert [s.commit for s in store.history(commits[-1], limit=2)] == commits[:2:-1]
    assert [s.created for s in listed] == sorted((s.created for s in listed), reverse=True)


@pytest.mark.parametrize("packed", [False, True])
def test_read_all(project: Project, packed: bool) -> None:
    """Checkpoints that are read together are those that are read one by one, damage included."""
    store = open_store(project)
    for number in range(5):
        streams = {"main": b"prompt %d" % number} if number % 2 else None
        save(store, "many", {b"f": b"%d\n" % number}, streams)
    if packed:
        project.git("repack", "-adq")
    tip = store.sessions()["many"]
    expected = [open_store(project).read(each.commit) for each in store.history(tip)]

    fresh = open_store(project)
    assert list(fresh.read_all(fresh.history(tip))) == expected
    summaries = list(store.history(tip))
    broken = replace(summaries[2], root=FORMAT.empty_tree)
    with pytest.raises(StoreDamaged, match="has no checkpoint"):
        list(fresh.read_all([*summaries[:2], broken]))


def test_find(store: Store) -> None:
    """A checkpoint is found by session and number; another is not."""
    commits = [save(store, "alpha", number=n).commit for n in (1, 2, 7)]

    assert [store.find(CheckpointId("alpha", n)) for n in (1, 2, 7)] == commits
    assert store.find(CheckpointId("alpha", 3)) is None
    assert store.find(CheckpointId("beta", 1)) is None


# ---------------------------------------------------------------- what is no checkpoint


def commit_object(store: Store, text: str | bytes) -> Oid:
    data = text.encode() if isinstance(text, str) else text
    oid = store.writer.write("commit", data)
    store.writer.flush()
    return oid


HEAD = f"tree {FORMAT.empty_tree}\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\n"
GOOD = "x\n\nGitcp-Session: alpha\nGitcp-Number: 1\n"


AFTER = HEAD.partition("\n")[2]
"""A commit's head without its tree."""

NONE = {
    "no trailers": f"{HEAD}\nno trailers\n",
    "no number": f"{HEAD}\nx\n\nGitcp-Session: alpha\n",
    "no session": f"{HEAD}\nx\n\nGitcp-Number: 1\n",
    "two parents": f"tree {FORMAT.empty_tree}\nparent {'1' * FORMAT.digits}\nparent {'2' * FORMAT.digits}\n{AFTER}\n{GOOD}",  # noqa: E501
    "no tree": f"{AFTER}\n{GOOD}",
    "no author": f"tree {FORMAT.empty_tree}\n\n{GOOD}",
    "a tree that is no text": f"tree é\n{AFTER}\n{GOOD}",
    "a tree that is no name": f"tree {'g' * FORMAT.digits}\n{AFTER}\n{GOOD}",
    "a parent that is no name": f"tree {FORMAT.empty_tree}\nparent short\n{AFTER}\n{GOOD}",
    "nothing": "",
    "empty lines": "\n\n",
    **{
        f"number {n[:9]!a}": f"{HEAD}\nx\n\nGitcp-Session: alpha\nGitcp-Number: {n}\n"
        for n in ("0", "-1", "x", "1.0", "²", "٢", "1" * 5000)
    },
    **{
        f"session {s!a}": f"{HEAD}\nx\n\nGitcp-Session: {s}\nGitcp-Number: 1\n"
        for s in ("../main", "a/b", "", " ", "-x", "a b", "é")
    },
    **{
        f"time {when[:9]!r}": f"tree {FORMAT.empty_tree}\nauthor a <a> {when}\ncommitter a <a> {when}\n\n{GOOD}"  # noqa: E501
        for when in (
            "",
            "x",
            "1",
            "1 x",
            f"{10**30} +0000",
            "1 +9999",
            "1 +",
            "99999999999999 +0000",
        )
    },
}


@pytest.mark.parametrize("text", NONE.values(), ids=NONE)
def test_commits_that_are_no_checkpoints(store: Store, text: str) -> None:
    """A commit that is none of ours, or is made to look like one, is said to be none, whoever reads
    it how.
    """
    commit = commit_object(store, text)
    with pytest.raises(StoreDamaged):
        store.summary(commit)
    with pytest.raises(StoreDamaged):
        store.read(commit)


@pytest.mark.parametrize(
    "body",
    ["x\x01\ny", "x\x01\n\x01\n", f"{GOOD[:-1]}\x01\nb\n", f"{GOOD[:-1]}\x01\n\x01\n"],
    ids=ascii,
)
def test_a_message_that_upsets_a_listing(store: Store, body: str) -> None:
    """A foreign message that holds our separators is listed, or refused; never a traceback."""
    commit = commit_object(store, f"{HEAD}\n{body}\n\nGitcp-Session: alpha\nGitcp-Number: 1\n")
    try:
        found = [s.id for s in store.history(commit)]
    except StoreDamaged:
        found = [store.summary(commit).id]

    assert found == [CheckpointId("alpha", 1)]


def test_a_commit_without_metadata(store: Store) -> None:
    """Trailers alone are no checkpoint."""
    commit = commit_object(store, f"{HEAD}\n{GOOD}")
    assert store.summary(commit).id == CheckpointId("alpha", 1)
    with pytest.raises(StoreDamaged, match=r"checkpoint\.json"):
        store.read(commit)


@pytest.mark.parametrize("kind", ["blob", "tree", "tag"])
def test_an_object_that_is_no_commit(store: Store, kind: str) -> None:
    """A blob, a tree or a tag is no checkpoint."""
    oid = store.writer.write(kind, b"" if kind == "tree" else b"x")
    store.writer.flush()
    for attempt in (store.read, store.summary):
        with pytest.raises(StoreDamaged):
            attempt(Oid("1" * FORMAT.digits) if kind == "tree" else oid)


@pytest.mark.parametrize("data", [b"", b"x", b"object \xff", b"object short\n", b"tree 1\n"])
def test_a_tag_that_is_none(store: Store, data: bytes) -> None:
    """A tag object that names nothing is damage, and says which."""
    oid = store.writer.write("tag", data)
    store.writer.flush()
    with pytest.raises(StoreDamaged, match=oid[:10]):
        store.peel(oid)


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ENOSPC, DiskFull), (errno.EDQUOT, DiskFull), (errno.EROFS, Refused)]
)
def test_no_place_for_the_lock(
    project: Project, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception]
) -> None:
    """The very first command of a repository says why it cannot write: a full disk is one, and
    nothing else is.
    """

    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    store = open_store(project)
    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(kind, match=f"{os.strerror(number)}; nothing was changed"), store.lock():
        pass


# ---------------------------------------------------------------- many at a time


def save_many(root: Path, times: int) -> None:
    """Save again and again into one session, as a process of its own."""
    store = open_store(Project(root))
    for number in range(times):
        with store.lock():
            tip = store.tip("alpha")
            parent = store.read(tip) if tip else None
            draft = plain(
                number=parent.id.number + 1 if parent else 1,
                parent=tip,
                note=Note(f"{os.getpid()} {number}"),
            )
            store.advance(store.commit(draft, "readme"))


@pytest.mark.faults
def test_eight_processes_save_into_one_session(project: Project) -> None:
    """8 processes of 25 saves each make 200 checkpoints, numbered without gap, while git packs refs
    and objects.
    """
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=save_many, args=(project.root, 25)) for _ in range(8)]
    for worker in workers:
        worker.start()
    packed = 0
    while any(worker.is_alive() for worker in workers) and packed < 200:
        project.git("pack-refs", "--all", "--prune", check=False)
        project.git("repack", "-dq", check=False)
        packed += 1
    for worker in workers:
        worker.join(120)
    store = open_store(project)
    listed = list(store.history(store.tip("alpha") or Oid("")))

    assert [worker.exitcode for worker in workers] == [0] * 8
    assert packed > 2
    assert [s.id.number for s in listed] == list(range(200, 0, -1))
    assert len({s.subject for s in listed}) == 200
    assert project.git("fsck", "--strict", "--no-dangling") == ""


def test_the_message_of_a_bare_checkpoint() -> None:
    """What there is nothing to say about has no trailer."""
    assert message(plain()) == (
        "(no label)\n\nGitcp-Format: 1\nGitcp-Session: alpha\nGitcp-Number: 1\nGitcp-Trigger: "
        "manual\n"
        "Gitcp-Files: 0 (0 changed)\n"
    )
    assert plain().created.tzinfo is UTC


def test_commits_that_sessions_hold(store: Store) -> None:
    """A commit is held by any session that reaches it, however far back, and whatever its date;
    one of no session is not, and neither is one that does not exist.
    """
    made = [
        save(store, session, created=START - timedelta(days=900 * number))
        for number in range(6)
        for session in ("one", "other")
    ]
    assert all(store.holds(checkpoint.commit) for checkpoint in made)
    assert not store.holds(made[0].root)

    assert store.repo.refs.delete(refs.SESSIONS + "one", made[-2].commit)
    assert not store.holds(made[0].commit)
    assert store.holds(made[1].commit)
    assert not store.holds(Oid("1" * FORMAT.digits))
