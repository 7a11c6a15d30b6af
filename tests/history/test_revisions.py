"""Revisions: every form, what is ambiguous, and that nothing but an error comes of anything
else.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from kinds import FORMAT, in_files

from gitcp.errors import RevisionAmbiguous, RevisionNotFound
from gitcp.git import refs
from gitcp.history import revisions
from gitcp.model import CheckpointId, Oid
from gitcp.state import tag
from gitcp.store import READ_DIRECTLY, Store
from gitcp.value import replace

from driver import Project
from samples import START, open_store, save

ALPHA, BETA = "alpha-one", "beta-two"
LABELS = (
    ("Start", "plan"),
    ("Fix the parser", "build"),
    ("fix again", "build"),
    ("Tests", "check"),
)


@dataclass
class Stage:
    """Two sessions of four checkpoints each, `alpha-one` the current one, and the commits by id."""

    project: Project
    store: Store
    commits: dict[str, Oid]

    def resolve(self, text: str, current: str | None = ALPHA) -> str:
        """The id of what a revision means."""
        return str(self.store.read(revisions.resolve(self.store, text, current=current)).id)

    def fails(self, text: str, current: str | None = ALPHA) -> RevisionNotFound:
        with pytest.raises(RevisionNotFound) as caught:
            revisions.resolve(self.store, text, current=current)
        return caught.value

    def tag(self, name: str, id: str) -> None:
        tag.create(
            self.store, name, self.store.read(self.commits[id]), text=None, force=False, now=START
        )

    def old_tag(self, name: str, id: str) -> None:
        """A tag with a name that no tag can be given any more."""
        oid = self.store.write_tag(name, self.store.read(self.commits[id]), "old", START)
        assert self.store.move_ref(refs.TAGS + name, None, oid)


@pytest.fixture
def stage(project: Project) -> Stage:
    store = open_store(project)
    commits = {}
    for session, place in ((BETA, " in beta"), (ALPHA, "")):
        for label, phase in LABELS:
            made = save(store, session, label=label + place, phase=phase)
            commits[str(made.id)] = made.commit
    return Stage(project, store, commits)


FORMS = {
    "@": "alpha-one@4",
    "@~": "alpha-one@3",
    "@~0": "alpha-one@4",
    "@~2": "alpha-one@2",
    "@~1~2": "alpha-one@1",
    "2": "alpha-one@2",
    "#2": "alpha-one@2",
    "02": "alpha-one@2",
    "3~": "alpha-one@2",
    "#4~3": "alpha-one@1",
    "beta-two@2": "beta-two@2",
    "beta-two@": "beta-two@4",
    "beta-two": "beta-two@4",
    "beta-two~2": "beta-two@2",
    "beta-two@3~1": "beta-two@2",
    "beta": "beta-two@4",
    "bet": "beta-two@4",
    "bet@1": "beta-two@1",
    "bet@": "beta-two@4",
    "v1.0": "beta-two@2",
    "v1.0~1": "beta-two@1",
    ":/parser": "alpha-one@2",
    ":/FIX": "alpha-one@3",
    ":/fix~1": "alpha-one@2",
    ":/beta": "beta-two@4",
    ":/parser in beta": "beta-two@2",
}


@pytest.mark.parametrize("text", FORMS)
def test_forms(stage: Stage, text: str) -> None:
    """Each form of the grammar means the checkpoint that it says."""
    stage.tag("v1.0", "beta-two@2")

    assert stage.resolve(text) == FORMS[text]


@pytest.mark.parametrize("packed", [False, True])
def test_beginnings_of_commits(stage: Stage, packed: bool) -> None:
    """A commit's name, whole or from four digits on and in either case, means its checkpoint,
    packed or not.
    """
    if packed:
        stage.project.git("gc", "--quiet")
        stage.store = open_store(stage.project)
    for id, commit in stage.commits.items():
        assert stage.resolve(commit) == id
        assert stage.resolve(commit[:12].upper()) == id
        assert stage.resolve(f"{commit[:12]}~0", current=None) == id


def test_a_commit_must_be_a_checkpoint(stage: Stage) -> None:
    """A commit of the user's own, or one that no gitcp ref reaches, is no revision."""
    mine = stage.project.commit("mine")
    stage.fails(mine)
    stage.fails(mine[:8])

    name = refs.SESSIONS + ALPHA
    lost = stage.commits["alpha-one@4"]
    assert stage.store.move_ref(name, lost, stage.commits["alpha-one@3"])

    stage.fails(lost)
    assert stage.resolve(stage.commits["alpha-one@3"]) == "alpha-one@3"


def test_a_commit_in_the_trash_is_found(stage: Stage) -> None:
    """What was taken away but not expired can be named by its commit, and is not in the way of
    other names.
    """
    trash = f"{refs.PREFIX}trash/20261102T0900/{BETA}"
    stage.project.git("update-ref", trash, stage.commits["beta-two@4"])
    stage.project.git("update-ref", "-d", refs.SESSIONS + BETA)

    assert stage.resolve(stage.commits["beta-two@3"][:10]) == "beta-two@3"
    stage.fails("beta-two@3")


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "~",
            "~2",
            "#",
            "#x",
            "5",
            "0",
            "#99",
            "@~4",
            "@~99",
            "2~2",
            "999999999999999999999999",
            "-1",
        ),
        *(
            "nothing",
            "nothing@1",
            "beta-two@9",
            "beta-two@x",
            "be",
            "be@1",
            "two",
            "alpha-one@@2",
            "@@",
            "@2",
            "#2@",
        ),
        *(
            "v1",
            "V1.0",
            "../heads/main",
            "beta-two/..",
            "alpha-one\n",
            "alpha-one\0",
            "\udcff",
            "²",
            "٢",
            "#٢",
        ),
        *(
            ":/",
            ":/nowhere",
            ":/nowhere~2",
            ":",
            "deadbeef",
            "0" * FORMAT.digits,
            "a" * 5000,
            "~" * 3000,
            "@" + "~1" * 3000,
        ),
    ],
    ids=lambda text: repr(text[:20]) + str(len(text)),
)
def test_not_found(stage: Stage, text: str) -> None:
    """What means nothing is no such revision, said shortly and with a next step."""
    stage.tag("v1.0", "beta-two@2")
    error = stage.fails(text)

    assert error.hint
    assert len(str(error)) < 250


def test_hints_name_what_there_is(stage: Stage) -> None:
    """An error names the closest names, the last number, or the commands that list."""
    stage.tag("before-migration", "beta-two@2")

    assert "'before-migration'" in str(stage.fails("before-migratoin"))
    assert "'beta-two'" in str(stage.fails("betta-two"))
    assert "'alpha-one'" in str(stage.fails("alpha-on3@1"))
    assert "alpha-one@4" in str(stage.fails("#12"))
    assert stage.fails("#12").hint == "gitcp log alpha-one"
    assert "gitcp log" in stage.fails("xyzzy").hint


@pytest.mark.parametrize("text", ["@", "@~1", "#2"])
def test_without_a_current_session(stage: Stage, text: str) -> None:
    """What needs a current session says so where there is none; a full id needs none."""
    error = stage.fails(text, current=None)

    assert "current session" in str(error)
    assert "gitcp sessions" in error.hint
    assert stage.resolve("alpha-one@2", current=None) == "alpha-one@2"


def test_a_current_session_that_is_gone(stage: Stage) -> None:
    """A current session without checkpoints is an error of its own, and bare digits then are no
    number.
    """
    assert "gone" in str(stage.fails("@", current="gone"))
    stage.fails("2", current="gone")


def test_an_exact_name_wins_over_beginnings(stage: Stage) -> None:
    """A tag or a session that is named exactly so is meant, whatever else begins so."""
    stage.tag("bet", "alpha-one@1")
    save(stage.store, "beta", label="shorter")

    assert stage.resolve("bet") == "alpha-one@1"
    assert stage.resolve("beta") == "beta@1"
    assert stage.resolve("beta@1") == "beta@1"
    assert stage.resolve("beta-") == "beta-two@4"


def test_two_sessions_that_begin_so(stage: Stage) -> None:
    """A beginning of two sessions lists both, newest first, with time and subject; as sessions
    where a number follows.
    """
    save(stage.store, "beta-three", label="other", created=START + timedelta(days=1))
    for text in ("beta", "beta@1", "beta@", "beta~1"):
        error = stage.fails(text)
        last, before = ("", "") if "@" in text else ("@1", "@4")

        assert isinstance(error, RevisionAmbiguous)
        assert error.candidates == (
            f"beta-three{last}  2026-11-03 09:00:00  other",
            f"beta-two{before}  2026-11-02 09:04:00  Tests in beta",
        )
        assert error.hint


def test_a_tag_and_a_session_of_one_name(stage: Stage) -> None:
    """Two exact meanings are ambiguous; both stay reachable by their ids."""
    stage.old_tag("beta-two", "alpha-one@1")
    error = stage.fails("beta-two")

    assert isinstance(error, RevisionAmbiguous)
    assert [line.split()[0] for line in error.candidates] == ["beta-two@4", "alpha-one@1"]
    assert stage.resolve("beta-two@") == "beta-two@4"


def test_a_tag_that_looks_like_a_number(stage: Stage) -> None:
    """A number is never shadowed: an older version could make a tag `2`, which means something
    only where there is no checkpoint 2.
    """
    stage.old_tag("2", "beta-two@1")
    stage.old_tag("77", "beta-two@1")

    assert stage.resolve("2") == "alpha-one@2"
    assert stage.resolve("#2") == "alpha-one@2"
    assert stage.resolve("77") == "beta-two@1"
    assert stage.resolve("2", current=None) == "beta-two@1"


def test_digits_are_a_number_before_they_are_a_beginning(stage: Stage) -> None:
    """Four digits are a number if the current session has it, else the beginning of a name."""
    session = save(stage.store, "98765432", label="digits")
    assert stage.resolve("9876") == str(session.id)

    save(stage.store, ALPHA, number=9876)
    assert stage.resolve("9876") == "alpha-one@9876"
    assert stage.resolve("9876", current=BETA) == str(session.id)


def test_a_beginning_of_a_session_and_of_a_commit(stage: Stage) -> None:
    """What begins both a session's name and another checkpoint's commit is ambiguous."""
    commit = stage.commits["alpha-one@2"]
    made = save(stage.store, f"{commit[:6]}-x", label="same beginning")
    error = stage.fails(commit[:6])

    assert isinstance(error, RevisionAmbiguous)
    assert {line.split()[0] for line in error.candidates} == {str(made.id), "alpha-one@2"}
    assert stage.resolve(commit[:8]) == "alpha-one@2"


def test_the_newest_subject_of_any_session(stage: Stage) -> None:
    """A text that the current session does not have is taken from where it is newest."""
    save(stage.store, "gamma", label="Parser in beta again", created=START + timedelta(days=2))

    assert stage.resolve(":/in beta") == "gamma@1"
    assert stage.resolve(":/parser") == "alpha-one@2"
    assert stage.resolve(":/parser", current="gamma") == "gamma@1"
    assert stage.resolve(":/parser", current=None) == "gamma@1"


def test_a_text_may_look_like_something_else(stage: Stage) -> None:
    """After `:/` dots, tildes and at signs are text where a subject holds them."""
    save(stage.store, ALPHA, label="from a..b to c~1 @home")
    save(stage.store, ALPHA, label="later")

    assert stage.resolve(":/a..b") == "alpha-one@5"
    assert stage.resolve(":/c~1") == "alpha-one@5"
    assert stage.resolve(":/@home~1") == "alpha-one@4"
    assert revisions.resolve_range(stage.store, ":/a..b", ALPHA)[0] is None


RANGES = {
    "1..3": ("alpha-one@1", "alpha-one@3"),
    "@~2..": ("alpha-one@2", "alpha-one@4"),
    "..@~1": (None, "alpha-one@3"),
    "..": (None, "alpha-one@4"),
    "@": (None, "alpha-one@4"),
    "v1.0..v1.1": ("beta-two@2", "beta-two@3"),
    "bet@1..bet": ("beta-two@1", "beta-two@4"),
    "1..:/again": ("alpha-one@1", "alpha-one@3"),
    ":/parser..:/tests": ("alpha-one@2", "alpha-one@4"),
}


@pytest.mark.parametrize("text", RANGES)
def test_ranges(stage: Stage, text: str) -> None:
    """A range has two ends, either of which may be left out."""
    stage.tag("v1.0", "beta-two@2")
    stage.tag("v1.1", "beta-two@3")
    first, last = revisions.resolve_range(stage.store, text, ALPHA)

    assert (first and str(stage.store.read(first).id), str(stage.store.read(last).id)) == RANGES[
        text
    ]


@pytest.mark.parametrize("text", ["1..99", "99..", "..99", "1...3", "1..2..3", "nothing", "1..\0"])
def test_ranges_not_found(stage: Stage, text: str) -> None:
    """An end that means nothing makes the range mean nothing."""
    with pytest.raises(RevisionNotFound):
        revisions.resolve_range(stage.store, text, ALPHA)


def test_at_a_time(stage: Stage) -> None:
    """The newest checkpoint at or before a time; none before the first."""
    for minutes, id in ((2, "alpha-one@2"), (2.5, "alpha-one@2"), (99, "alpha-one@4")):
        commit = revisions.newest(stage.store, ALPHA, until=START + timedelta(minutes=minutes))
        assert commit == stage.commits[id]

    with pytest.raises(RevisionNotFound, match="alpha-one") as caught:
        revisions.newest(stage.store, ALPHA, until=START)
    assert "2026-11-02 09:01:00" in caught.value.hint


def test_at_a_time_when_the_clock_went_back(stage: Stage) -> None:
    """Order is the chain's: of the checkpoints at or before a time, the last in the chain is
    meant.
    """
    back = save(stage.store, ALPHA, created=START + timedelta(minutes=2, seconds=30))

    until = START + timedelta(minutes=3)
    assert revisions.newest(stage.store, ALPHA, until=until) == back.commit


def test_in_a_phase(stage: Stage) -> None:
    """The newest checkpoint of a phase; an unknown phase names those there are."""
    newest = revisions.newest
    assert newest(stage.store, ALPHA, phase="build") == stage.commits["alpha-one@3"]
    assert newest(stage.store, BETA, phase=" plan ") == stage.commits["beta-two@1"]

    with pytest.raises(RevisionNotFound) as caught:
        newest(stage.store, ALPHA, phase="design")
    assert caught.value.hint == "its phases are: check, build, plan"


def test_in_a_phase_at_a_time(stage: Stage) -> None:
    """Both together: the newest checkpoint of the phase that was made by then."""
    until = START + timedelta(minutes=2)
    found = revisions.newest(stage.store, ALPHA, until=until, phase="build")
    assert found == stage.commits["alpha-one@2"]

    with pytest.raises(
        RevisionNotFound, match="of phase 'check' from 2026-11-02 09:02:00"
    ) as caught:
        revisions.newest(stage.store, ALPHA, until=until, phase="check")
    assert "alpha-one@1" in caught.value.hint
    with pytest.raises(RevisionNotFound) as caught:
        revisions.newest(stage.store, ALPHA, until=until, phase="design")
    assert caught.value.hint == "its phases are: check, build, plan"


def test_an_exact_label_means_its_newest_checkpoint(stage: Stage) -> None:
    """A label as it was given is a revision, and nothing in it is taken apart."""
    save(stage.store, ALPHA, label="before migration")
    save(stage.store, ALPHA, label="a..b, c~1: x@home/y ^")
    save(stage.store, ALPHA, label="before migration")
    save(stage.store, ALPHA, label="before migration of users")

    assert stage.resolve("before migration") == "alpha-one@7"
    assert stage.resolve("before  migration\n") == "alpha-one@7"
    assert stage.resolve("before migration~1") == "alpha-one@6"
    assert stage.resolve("before migration", current=BETA) == "alpha-one@7"
    assert stage.resolve("before migration", current=None) == "alpha-one@7"
    assert stage.resolve("a..b, c~1: x@home/y ^") == "alpha-one@6"
    assert revisions.resolve_range(stage.store, "a..b, c~1: x@home/y ^", ALPHA)[0] is None
    assert stage.fails("before Migration").suggestion == ":/before Migration"


def test_a_label_of_two_sessions_is_refused(stage: Stage) -> None:
    """Each of the candidates can be typed; a session that is named has its own."""
    save(stage.store, ALPHA, label="before migration")
    save(stage.store, BETA, label="before migration", created=START + timedelta(days=1))
    error = stage.fails("before migration")

    assert isinstance(error, RevisionAmbiguous)
    ids = [line.split()[0] for line in error.candidates]
    assert ids == ["beta-two@5", "alpha-one@5"]
    assert [stage.resolve(id) for id in ids] == ids
    assert error.suggestion == "beta-two@5"
    commit = revisions.resolve(stage.store, "before migration", current=ALPHA, within=BETA)
    assert str(stage.store.read(commit).id) == "beta-two@5"


def test_names_come_before_labels(stage: Stage) -> None:
    """A number, an id, a session and a tag mean themselves, whatever is labelled so."""
    stage.tag("works", "alpha-one@1")
    for label in ("2", "beta-two@1", "beta-two", "works", "@", "@~1"):
        save(stage.store, ALPHA, label=label)

    assert stage.resolve("2") == "alpha-one@2"
    assert stage.resolve("beta-two@1") == "beta-two@1"
    assert stage.resolve("beta-two") == "beta-two@4"
    assert stage.resolve("works") == "alpha-one@1"
    assert stage.resolve("@") == "alpha-one@10"
    assert stage.resolve("@~1") == "alpha-one@9"


def test_a_label_comes_before_the_beginning_of_a_commit(stage: Stage) -> None:
    """What is somebody's label is not taken for digits of a commit, or for a time."""
    digits = stage.commits["alpha-one@2"][:6]
    made = [
        str(save(stage.store, ALPHA, label=label).id) for label in (digits, "yesterday", "noon")
    ]

    assert [stage.resolve(label) for label in (digits, "yesterday", "noon")] == made


def test_text_prefers_labels(stage: Stage) -> None:
    """`:/` finds a label before a newer subject that gitcp made of something else."""
    labelled = save(stage.store, ALPHA, label="before the migration")
    point = stage.store.read(stage.commits["alpha-one@2"])
    made = save(stage.store, ALPHA, restored_from=point.id._replace(session="migration-two"))

    assert stage.resolve(":/migration") == str(labelled.id)
    assert stage.resolve(":/restored migration") == str(made.id)


HABITS = {
    "@^": "alpha-one@3",
    "@^^": "alpha-one@2",
    "@^1": "alpha-one@3",
    "@^~1": "alpha-one@2",
    "3^": "alpha-one@2",
    "@-": "alpha-one@3",
    "@--": "alpha-one@2",
    "beta-two@-": "beta-two@3",
    "latest": "alpha-one@4",
    "latest~1": "alpha-one@3",
}
ANSWERED = {
    "HEAD": "@",
    "HEAD~1": "@~1",
    "HEAD^^": "@^^",
    "head~2": "@~2",
    "@2": "2",
    "@^2": "@~2",
    "@{2}": "@~2",
    "beta-two@{2}": "beta-two@~2",
    "~2": "@~2",
    "^": "@^",
    "parser": ":/parser",
}


@pytest.mark.parametrize("text", HABITS)
def test_forms_of_git_jj_and_restic(stage: Stage, text: str) -> None:
    """What they write for the last one, and for the one before, is read."""
    assert stage.resolve(text) == HABITS[text]


@pytest.mark.parametrize("text", ANSWERED)
def test_what_is_not_read_is_answered_with_what_is(stage: Stage, text: str) -> None:
    """The error knows the revision that means what was probably meant."""
    error = stage.fails(text)

    assert (error.argument, error.suggestion) == (text, ANSWERED[text])
    stage.resolve(error.suggestion)


def test_times(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A time is a revision: the last checkpoint of then or before, of the current session or of one
    that is named.
    """
    later = START + timedelta(days=1, hours=3)
    host = replace(stage.store.repo.host, now=lambda: later)
    monkeypatch.setattr(stage.store.repo, "host", host)
    save(stage.store, ALPHA, label="today", created=later - timedelta(hours=1))

    for text in ("yesterday", "@{yesterday}", "last monday", "2 hours ago", "2026-11-02"):
        assert stage.resolve(text) == "alpha-one@4"
    assert stage.resolve("yesterday 09:02") == stage.resolve("yesterday at 9:02am") == "alpha-one@2"
    assert stage.resolve("@{yesterday}~1") == "alpha-one@3"
    assert stage.resolve("beta@{yesterday}") == "beta-two@4"
    assert stage.resolve("an hour ago") == "alpha-one@5"
    assert "2026-11-02 09:01:00" in stage.fails("3 days ago").hint
    assert "not a time" in str(stage.fails("@{whenever}"))
    assert [revisions.is_time(text, later) for text in ("@{now}~1", "noon", "@", "12")] == [
        True, True, False, False
    ]  # fmt: skip


PATHS = {
    "12:a": ("12", "a"),
    "2:": ("2", ""),
    ":src/a.py": ("@", "src/a.py"),
    "2:a:b": ("2", "a:b"),
    "nothing:a": ("nothing", "a"),
    ":/fix": (":/fix", None),
    "@~1": ("@~1", None),
    "fix: the parser": ("fix: the parser", None),
    "@{2026-11-02 09:02}": ("@{2026-11-02 09:02}", None),
    "@{2026-11-02 09:02}:a": ("@{2026-11-02 09:02}", "a"),
    "2026-11-02 09:02": ("2026-11-02 09:02", None),
    "2:30": ("2", "30"),
}


@pytest.mark.parametrize("text", PATHS)
def test_a_path_in_a_checkpoint(stage: Stage, text: str) -> None:
    """A colon divides revision and path, unless it belongs to a label or a time."""
    save(stage.store, ALPHA, label="fix: the parser")

    assert revisions.split_path(stage.store, text, ALPHA) == PATHS[text]


def test_numbers_with_gaps(stage: Stage) -> None:
    """Numbers are those stored, not positions: after pruning, what is gone is not found and steps
    skip it.
    """
    for number in (7, 20):
        made = save(stage.store, ALPHA, number=number)
        assert made.id == CheckpointId(ALPHA, number)

    assert stage.resolve("20") == "alpha-one@20"
    assert stage.resolve("@~1") == "alpha-one@7"
    assert stage.resolve("@~2") == "alpha-one@4"
    stage.fails("19")


def test_a_fork_goes_on_behind_its_fork_point(stage: Stage) -> None:
    """A forked session reaches the checkpoints before the fork by number, by steps and by text."""
    point = stage.store.read(stage.commits["alpha-one@2"])
    assert stage.store.move_ref(refs.SESSIONS + "forked", None, point.commit)
    save(stage.store, "forked", label="own way", forked_from=point.id)

    assert stage.resolve("forked") == "forked@3"
    assert stage.resolve("forked@1") == "alpha-one@1"
    assert stage.resolve("@~1", current="forked") == "alpha-one@2"
    assert stage.resolve("2", current="forked") == "alpha-one@2"


def test_what_was_dropped_can_come_back(project: Project) -> None:
    """A checkpoint in the trash is said to be there, and the command that is named brings it
    back.
    """
    for number in range(3):
        project.write("a", f"{number}\n")
        project.gitcp("save", "--session", ALPHA, check=0)
    project.gitcp("prune", "--keep-last", "1", "--yes", check=0)
    for text in ("2", f"{ALPHA}@2"):
        assert "it was dropped" in project.gitcp("fork", text, check=16).err
    assert "it was dropped" not in project.gitcp("show", "7", check=16).err
    (dropping,) = project.json_lines("oplog")
    project.gitcp("undo", str(dropping["number"]), "--yes", check=0)
    project.gitcp("show", "2", check=0)


@pytest.mark.parametrize("packed", [False, True])
def test_a_long_chain(project: Project, packed: bool) -> None:
    """Near and far checkpoints of a long session are found alike, packed or not."""
    store = open_store(project)
    commits = [save(store, ALPHA, label=f"step {n}.").commit for n in range(1, READ_DIRECTLY + 40)]
    if packed:
        project.git("gc", "--quiet")
        store = open_store(project)
    last = len(commits)
    for number in (1, 2, last - READ_DIRECTLY, last - READ_DIRECTLY + 1, last):
        for text in (str(number), f"@~{last - number}", f":/step {number}."):
            assert revisions.resolve(store, text, current=ALPHA) == commits[number - 1]
    assert [s.commit for s in store.history(commits[-1])] == commits[::-1]


def test_damage_further_back_is_not_in_the_way(stage: Stage) -> None:
    """An old commit that is damaged does not hide the newer checkpoints."""
    oid = stage.commits["alpha-one@1"]
    path = stage.store.repo.common_dir / "objects" / oid[:2] / oid[2:]
    path.chmod(0o644)
    path.write_bytes(b"garbage")
    stage.store = open_store(stage.project)

    assert stage.resolve("2") == "alpha-one@2"
    assert stage.resolve("@~2") == "alpha-one@2"
    assert stage.resolve(":/parser") == "alpha-one@2"


@in_files
def test_a_damaged_tag_is_not_in_the_way(stage: Stage) -> None:
    """A tag that holds garbage hinders nobody who does not name it."""
    stage.tag("v1", "alpha-one@1")
    stage.store.repo.common_dir.joinpath(refs.TAGS, "v1").write_text("garbage\n")

    assert stage.resolve("2") == "alpha-one@2"
    assert stage.resolve("beta-two") == "beta-two@4"


CURRENT = (None, ALPHA, "x")
WORDS = st.sampled_from(
    ["@", "~", "..", "#", ":/", "1", "12", "alpha", "beta-two", "v1.0", "fix", "/", " ", "\0", "é"]
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(max_size=30) | st.lists(WORDS, max_size=6).map("".join),
    current=st.sampled_from(CURRENT),
)
@example(text="@" + "~999999999" * 20, current=ALPHA)
@example(text="9" * 6000, current=ALPHA)
@example(text="@~" + "9" * 6000, current=ALPHA)
def test_any_text_resolves_or_is_refused(stage: Stage, text: str, current: str | None) -> None:
    """Whatever is typed, the answer is a checkpoint or no such revision; nothing else is raised."""
    with suppress(RevisionNotFound):
        assert revisions.resolve(stage.store, text, current=current) in stage.commits.values()
    with suppress(RevisionNotFound):
        assert revisions.resolve_range(stage.store, text, current)[1] in stage.commits.values()
