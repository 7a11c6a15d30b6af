"""Programs that go back by themselves take back what they changed, and nothing that others did: a
batch that resumes, a transaction that fails or was killed, beside other programs and a person.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import programs
import pytest
from thorough import cases

import gitcp

from driver import Project

BATCH = """
    name, end, kill = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    session = checkpoints.session(name)
    session.resume()
    for record in range(session.position.get("record", 0), end):
        if record == kill:
            os.kill(os.getpid(), signal.SIGKILL)
        with open(name + ".txt", "a") as out:
            out.write(f"{record}\\n")
        if record % 10 == 9:
            session.save(position={"record": record + 1})
        time.sleep(float(sys.argv[4]))
"""


def records(count: int) -> bytes:
    """The output of a batch."""
    return b"".join(b"%d\n" % record for record in range(count))


def batch(project: Project, name: str, end: int, kill: int = -1) -> None:
    """Run a batch to its end, or to where it is killed."""
    programs.run(project, BATCH, name, str(end), str(kill), "0", code=0 if kill < 0 else -9)


@pytest.mark.parametrize("kill", [5, 37])
def test_batch_after_a_person(project: Project, kill: int) -> None:
    """A batch is killed, before its first position and after it. Somebody repairs a file and
    commits, and adds another: both stay, and each record is there once.
    """
    project.write("lib.py", "v1\n")
    project.commit()
    batch(project, "a", 100, kill)
    project.write("lib.py", "v2\n")
    project.git("add", "lib.py")
    project.git("commit", "-qm", "repair")
    project.write("notes.md", "mine\n")

    with project.guard():
        batch(project, "a", 100)

    assert (project.read("lib.py"), project.read("notes.md")) == (b"v2\n", b"mine\n")
    assert project.read("a.txt") == records(100)


def test_two_batches(project: Project) -> None:
    """One is killed and starts again while the other one runs, and after it ended: both have each
    record once.
    """
    other = programs.start(project, BATCH, "b", "60", "-1", "0.02")
    batch(project, "a", 60, 25)
    batch(project, "a", 60, 47)
    programs.ended(other)
    batch(project, "c", 20)
    batch(project, "a", 60)

    assert [project.read(name) for name in ("a.txt", "b.txt", "c.txt")] == [
        records(60),
        records(60),
        records(20),
    ]


@pytest.mark.parametrize("whole_tree", [False, True])
def test_what_a_report_says(project: Project, *, whole_tree: bool) -> None:
    """A report names what was taken back and what was left; `whole_tree` leaves nothing."""
    project.write("lib.py", "v1\n")
    batch(project, "a", 100, 37)
    project.write("lib.py", "v2\n")
    session = gitcp.open(project.root).session("a")

    report = session.resume(whole_tree=whole_tree)
    assert report is not None
    if whole_tree:
        assert (report.written_text, report.left) == (("a.txt", "lib.py"), ())
    else:
        assert (report.written_text, report.left_text) == (("a.txt",), ("lib.py",))
    assert session.position == {"record": 30}


def test_same_lines(project: Project) -> None:
    """Where a program and somebody else changed the same lines, nothing is done, and both the paths
    and the sessions are named.
    """
    with_lines = """
        session = checkpoints.session(sys.argv[1])
        session.resume()
        lines = Path("shared").read_text().splitlines()
        lines[int(sys.argv[2])] = sys.argv[3]
        Path("shared").write_text("\\n".join(lines) + "\\n")
        session.save()
        os.kill(os.getpid(), signal.SIGKILL)
    """
    resume = """
        try:
            checkpoints.session("a").resume(whole_tree="whole" in sys.argv)
        except gitcp.OthersAffected as refused:
            print(refused, refused.sessions)
    """
    project.write("shared", "1\n2\n3\n4\n5\n6\n7\n8\n")
    gitcp.open(project.root).session("a").save(position={"record": 0})
    programs.run(project, with_lines, "a", "1", "a", code=-9)
    programs.run(project, with_lines, "b", "6", "b", code=-9)
    programs.run(project, resume)
    assert project.read("shared") == b"1\n2\n3\n4\n5\n6\nb\n8\n"

    programs.run(project, with_lines, "a", "6", "a", code=-9)
    programs.run(project, with_lines, "b", "6", "other", code=-9)
    before, refs = project.files(), project.git("for-each-ref")
    refused = programs.run(project, resume)
    assert "1 path in conflict, also changed by b; nothing was changed" in refused
    assert "(('b', (b'shared',)),)" in refused
    assert (project.files(), project.git("for-each-ref")) == (before, refs)
    programs.run(project, resume, "whole")
    assert project.read("shared") == b"1\n2\n3\n4\n5\n6\nb\n8\n"


HALF = """
    with checkpoints.transaction("job", session="t"):
        Path("app.txt").write_text("half")
        Path("old.txt").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("recover", [True, False])
def test_transaction_after_a_person(project: Project, *, recover: bool) -> None:
    """What somebody did after a program was killed in a transaction stays when it is rolled
    back.
    """
    project.write("lib.py", "v1\n")
    project.write("old.txt", "old\n")
    project.commit()
    programs.run(project, HALF, code=-9)
    project.write("lib.py", "v2\n")
    project.write("notes.md", "mine\n")

    if recover:
        project.gitcp("run", "--recover", check=0)
    else:
        programs.run(project, "with checkpoints.transaction('next', session='t'): pass")

    assert not project.root.joinpath("app.txt").exists()
    assert [project.read(name) for name in ("lib.py", "notes.md", "old.txt")] == [
        b"v2\n",
        b"mine\n",
        b"old\n",
    ]


def test_transactions_side_by_side(project: Project) -> None:
    """A transaction that fails keeps what another program's has done, or is doing."""
    project.write("a.txt", "one\n")
    project.commit()
    good = """
        with checkpoints.transaction("good", session=sys.argv[1]):
            Path(sys.argv[1]).write_text("good")
            print("begun", flush=True)
            while sys.argv[2] == "wait" and not Path("bad.txt").exists():
                time.sleep(0.01)
            time.sleep(0.2 if sys.argv[2] == "wait" else 0)
    """
    bad = """
        with checkpoints.transaction("bad", session="bad"):
            while not Path("done").exists():
                time.sleep(0.01)
            Path("bad.txt").write_text("bad")
            assert not "this"
    """
    doing = programs.start(project, good, "doing", "wait")
    assert doing.stdout is not None
    assert doing.stdout.readline() == b"begun\n"
    failing = programs.start(project, bad)
    while not gitcp.open(project.root).store().tip("bad"):
        time.sleep(0.01)
    programs.run(project, good, "done", "")
    programs.ended(failing, 1)
    programs.ended(doing)

    assert set(project.files()) == {b"a.txt", b"done", b"doing"}


def test_children_are_a_part(project: Project) -> None:
    """What a process did that a program started in a transaction goes back with it, in whichever
    session.
    """
    child = """
        import subprocess
        inner = "import gitcp; from pathlib import Path; s = gitcp.open().session('inner');"
        inner += "s.step('one', lambda: Path('one').write_text('1'))"
        with checkpoints.transaction("outer", session="outer"):
            subprocess.run([sys.executable, "-P", "-c", inner], check=True)
            assert not "this"
    """
    programs.run(project, child, code=1)
    assert not project.root.joinpath("one").exists()


DIRECTORIES = """
    import shutil
    session = checkpoints.session("a")
    session.resume()
    if sys.argv[1] != "kill":
        sys.exit()
    Path("made").mkdir(exist_ok=True)
    Path("shared").chmod(0o755)
    shutil.rmtree("build", ignore_errors=True)
    os.symlink("lib.py", "link")
    os.link("lib.py", "linked")
    os.rename("old", "new")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_lies_in_directories(project: Project) -> None:
    """Of a directory that a program made, emptied or linked to, it wrote nothing that a person
    writes there, nor at the same names elsewhere; of one that it renamed, everything. Once, the
    whole of `made` was the program's, and after the removal of build/src all of src, too.
    """
    for name in ("build/src/x", "build/y", "src/x", "y", "shared/a", "old/b", "lib.py"):
        project.write(name, f"{name}\n")
    project.commit()
    assert gitcp.open(project.root).session("a").save(force=True).saved
    programs.run(project, DIRECTORIES, "kill", code=-9)
    mine = dict.fromkeys(("made/mine", "build/mine", "src/x", "y", "shared/a", "lib.py"), "mine\n")
    project.remove("lib.py")  # which is linked
    for name, text in mine.items():
        project.write(name, text)

    programs.run(project, DIRECTORIES, "go on")

    assert {name: project.read(name).decode() for name in mine} == mine
    for name in ("build/src/x", "build/y", "old/b"):
        assert project.read(name) == f"{name}\n".encode()
    assert not project.files().keys() & {b"link", b"linked", b"new/b"}


STEPS = """
    name, kind, seed, kill = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    import random
    dice = random.Random(f"{name}{seed}")
    def change(number):
        place = Path(dice.choice([name, f"{name}-dir"]))
        place.mkdir(exist_ok=True)
        file = place / f"{dice.randrange(3)}"
        if number == kill:
            file.write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
        if file.exists() and dice.random() < 0.3:
            file.unlink()
        else:
            with file.open("a") as out:
                out.write(f"{name} {number}\\n")
    if kind == "batch":
        session = checkpoints.session(name)
        session.resume()
        for number in range(session.position.get("n", 0), 9):
            change(number)
            if number % 3 == 2:
                session.save(position={"n": number + 1})
    else:
        for number in range(3):
            try:
                with checkpoints.transaction(f"{number}", session=name):
                    change(number)
                    assert number != 1, "it failed"
            except AssertionError:
                pass
"""
NAMES = {"one": "batch", "two": "batch", "three": "transactions"}


@pytest.mark.parametrize("seed", cases(map(str, range(24)), 3))
def test_random_histories(project: Project, seed: str) -> None:
    """Three programs, which are killed and start again, and a person, in any order and at once: no
    byte of the person's changes.
    """
    dice = random.Random(f"person{seed}")
    project.write("lib.py", "v1\n")
    project.commit()
    mine: dict[str, str] = {"lib.py": "v1\n"}
    for turn in range(3):
        kills = {name: dice.choice([0, 1, 4, 7]) if turn < 2 else -1 for name in NAMES}
        running = [
            programs.start(
                project,
                STEPS,
                name,
                kind,
                f"{seed}{turn if kind != 'batch' else ''}",
                str(kills[name]),
            )
            for name, kind in dice.sample(sorted(NAMES.items()), 3)
        ]
        for process in running:
            programs.ended(process, None)
            name = dice.choice(["lib.py", "notes.md", "one-dir/mine", f"new{turn}"])
            mine[name] = f"mine {turn} {dice.random()}\n"
            project.write(name, mine[name])
            if dice.random() < 0.3:
                project.git("add", "--", name)
                project.git("commit", "-qm", "by hand")
    assert {name: project.read(name).decode() for name in mine} == mine


@pytest.fixture(autouse=True)
def _no_program_left(project: Project) -> None:
    """Each test begins without programs."""
    assert not Path(project.root, ".git/gitcp/programs").exists()


def test_saved_by_somebody_before_it_is_finished(project: Project) -> None:
    """What a killed command had written goes back, though somebody has saved it since."""
    project.write("a.txt", "one\n")
    project.commit()
    killed = ("sh", "-c", "echo half > ran; kill -9 $PPID; exit 1")

    assert project.gitcp("run", "try", "--rollback", "--", *killed).code == -9
    project.gitcp("save", "mine", "--session", "other", "--force", check=0)
    project.gitcp("run", "--recover", check=0)

    assert not project.root.joinpath("ran").exists()
