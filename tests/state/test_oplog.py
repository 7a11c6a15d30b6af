"""The operation log: what was done besides saving, in order, whatever crashes or writes beside
it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from back import redo, restore, save, undo
from hypothesis import given
from hypothesis import strategies as st

from gitcp import wire
from gitcp.codec import Invalid
from gitcp.model import CheckpointId
from gitcp.state import oplog
from gitcp.state.extent import Extent
from gitcp.state.oplog import Operation
from gitcp.state.undo_stack import MOST, UndoState, replay
from gitcp.value import replace

from driver import SOURCE, Project
from samples import START, open_store


def operation(number: int, what: str, **fields: Any) -> Operation:
    """An operation that says nothing."""
    return Operation(**{"number": number, "time": START, "what": what, "summary": "", **fields})


def log_of(project: Project) -> Path:
    """Where the log lies."""
    return project.git_dir / "gitcp/oplog"


def test_restores_are_logged(project: Project) -> None:
    """A restore, its undo and its redo are in the log, the last two with the operation that they
    are of.
    """
    project.write("a", "one\n")
    first = save(project)
    project.write("a", "two\n")
    restore(project, first)
    undo(project)
    redo(project)

    found = oplog.entries(open_store(project).repo)

    assert [(each.number, each.what, each.of) for each in found] == [
        (1, "restore", None),
        (2, "undo", 1),
        (3, "redo", 1),
    ]
    assert found[0].summary == "to work@1"
    assert found[0].checkpoints[0] == first.id


def test_a_restore_that_did_nothing_is_not_logged(project: Project) -> None:
    """Where everything was as wanted there is nothing to undo, and nothing in the log."""
    project.write("a", "one\n")
    first = save(project)

    restore(project, first)

    assert oplog.entries(open_store(project).repo) == ()


def test_command(project: Project) -> None:
    """`gitcp log --operations` lists the operations, the last one first; `--json` prints each with
    all its keys.
    """
    project.write("a", "one\n")
    project.gitcp("save", "one", "--session", "work", check=0)
    project.write("a", "two\n")
    project.gitcp("restore", "1", "--session", "work", "--yes", check=0)
    project.gitcp("undo", "--yes", check=0)

    with project.guard():
        shown = project.gitcp("oplog", check=0).out.splitlines()
        printed = project.json_lines("oplog")

    assert [line.split()[0] for line in shown[1:]] == ["2", "1"]
    assert "undo of 1" in shown[1]
    assert "restore" in shown[2]
    assert "to work@1" in shown[2]
    assert [each["number"] for each in printed] == [2, 1]
    assert [each["number"] for each in project.json_lines("oplog", "-n", "1")] == [2]
    assert printed[0]["of"] == 1
    assert printed[1]["checkpoints"][0] == "work@1"


def test_an_empty_log(project: Project) -> None:
    """Where nothing was done nothing is listed, and no file is made."""
    assert project.gitcp("oplog", check=0).out == ""
    assert not log_of(project).exists()


def test_damaged_lines_are_passed_over(project: Project) -> None:
    """Garbage, a cut-off last line, and lines of another shape hide no other line; numbers go
    on.
    """
    repo = open_store(project).repo
    oplog.record(repo, "fork", "one")
    with log_of(project).open("ab") as file:
        file.write(
            b"\xff\xfe\n[]\n{}\n"
            b'{"number":"x"}\n'
            b'{"number":9,"time":"2026-11-02","what":"a","said":""}\n'
        )
        file.write(b'{"number": 2, "ti')
    oplog.record(repo, "fork", "two")

    found = oplog.entries(repo)

    assert [(each.number, each.summary) for each in found] == [(1, "one"), (2, "two")]


def test_nothing_is_rewritten(project: Project) -> None:
    """The log is only appended to: what stands in it stays, byte for byte."""
    repo = open_store(project).repo
    oplog.record(repo, "fork", "one")
    before = log_of(project).read_bytes()
    oplog.record(repo, "revert", "two \ud800")

    after = log_of(project).read_bytes()

    assert after.startswith(before)
    assert after.count(b"\n") == 2
    assert log_of(project).stat().st_mode & 0o777 == 0o600


def test_the_number_behind_a_long_line(project: Project) -> None:
    """The last number is found where the last line is longer than what is read at first."""
    repo = open_store(project).repo
    ids = tuple(CheckpointId("alpha", number) for number in range(1, 20_001))
    oplog.record(repo, "fork", "long", checkpoints=ids)

    assert oplog.record(repo, "fork", "next").number == 2
    assert oplog.entries(repo)[0].checkpoints == ids


def test_a_long_log(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was done from a number on is as in the whole log; of that the end alone is read, where
    it is enough.
    """
    repo = open_store(project).repo
    done = [
        operation(n, "prune", summary="x" * 100, dropped={"alpha": ((n, n),)})
        for n in range(1, 1001)
    ]
    project.write(
        ".git/gitcp/oplog",
        b"".join(wire.dumps(oplog.encode(each), small=True) + b"\n" for each in done),
    )
    whole = oplog.entries(repo)
    assert whole == tuple(done)
    read: list[bytes] = []
    decode = oplog._decode

    def counted(line: bytes) -> Operation | None:
        read.append(line)
        return decode(line)

    monkeypatch.setattr(oplog, "_decode", counted)

    assert oplog.last_number(repo) == 1000
    assert oplog.since(repo, 990) == whole[989:]
    assert len(read) < 1000
    assert oplog.since(repo, 7) == whole[6:]
    assert oplog.since(repo, 1001) == ()


def test_many_writers(project: Project) -> None:
    """Processes that write at once lose no line, and no number is given twice."""
    program = (
        "import os; from pathlib import Path; from datetime import UTC, datetime\n"
        "from gitcp.git.repo import Repository; from gitcp.model import Host; from gitcp.state "
        "import oplog\n"
        "repo = Repository.open(Path.cwd(), Host(os.environ, Path(os.environ['HOME']), lambda: "
        "datetime.now(UTC)))\n"
        "for n in range(10): oplog.record(repo, 'fork', str(n))\n"
    )
    command = [sys.executable, "-P", "-c", program]
    running = [subprocess.Popen(command, cwd=project.root, env=_env()) for _ in range(4)]

    assert [each.wait() for each in running] == [0] * 4
    found = oplog.entries(open_store(project).repo)
    assert [each.number for each in found] == list(range(1, 41))


def _env() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE)}


PATHS = st.lists(st.binary(min_size=1), max_size=2).map(tuple)
EXTENTS = st.builds(
    Extent,
    st.booleans(),
    st.booleans(),
    st.booleans(),
    PATHS,
    PATHS,
    st.sampled_from(["", "0a1b"]),
    st.lists(st.tuples(st.binary(min_size=1), st.integers(0, 0o7777)), max_size=2).map(tuple),
    st.sampled_from(["", "0a1b"]),
)


@given(
    st.builds(
        Operation,
        number=st.integers(1, 10**9),
        # hypothesis wants it bare
        time=st.datetimes(min_value=datetime(2000, 1, 1)).map(lambda t: t.replace(tzinfo=UTC)),  # noqa: DTZ001
        what=st.sampled_from(["restore", "prune", "fork"]),
        summary=st.text(),
        worktree=st.none() | st.just("other"),
        checkpoints=st.lists(st.builds(CheckpointId, st.just("alpha"), st.integers(1, 99))).map(
            tuple
        ),
        trash=st.none() | st.just("20261102T090000Z"),
        dropped=st.dictionaries(
            st.just("alpha"),
            st.lists(st.tuples(st.integers(1, 10**18), st.integers(1, 10**18)), min_size=1).map(
                tuple
            ),
        ),
        of=st.none() | st.integers(1, 99),
        automatic=st.booleans(),
        safety=st.none() | st.just(CheckpointId("alpha", 3)),
        extent=st.none() | EXTENTS,
        key=st.sampled_from(["", "0a1b"]),
        aborted=st.booleans(),
        place=st.sampled_from(["", "2c3d"]),
    )
)
def test_round_trip(given_operation: Operation) -> None:
    """What is written is what is read, on one line."""
    line = wire.dumps(oplog.encode(given_operation))

    assert b"\n" not in line
    assert oplog.decode(json.loads(line)) == given_operation


@pytest.mark.parametrize(
    "changed",
    [
        {"dropped": {"alpha": [[1]]}},
        {"dropped": {"alpha": [[]]}},
        {"extent": {"files": True, "bits": [["a"]]}},
        {"of": 1e999},
    ],
    ids=str,
)
def test_rows_have_their_length(changed: dict[str, Any]) -> None:
    """A value that could not be used is refused where it is read, as for any other damage."""
    fields = {**oplog.encode(operation(1, "prune")), **changed}

    with pytest.raises(Invalid):
        oplog.decode(fields)


def restored(number: int, what: str = "restore", **fields: Any) -> Operation:
    """A restore with a safety checkpoint of its number, or the undo or redo of one."""
    return operation(number, what, safety=CheckpointId("alpha", number), **fields)


def ids(found: UndoState) -> tuple[list[int], list[int]]:
    """The numbers of the checkpoints that undo and redo go to."""
    known = found.restores
    return [id.number for id in known.undo], [id.number for id in known.redo]


def test_standing() -> None:
    """The log is replay back and forth; what was done elsewhere or by gitcp itself is nobody's last
    step here.
    """
    one, pruned = restored(1), operation(2, "prune", trash="t1")
    log = [
        one,
        pruned,
        operation(3, "prune", worktree="other"),
        operation(4, "prune", automatic=True),
    ]

    assert replay(log, None) == UndoState((one, pruned), ())
    assert replay(log, "other") == UndoState((log[2],), ())
    log.append(operation(5, "undo", of=2))
    assert replay(log, None) == UndoState((one,), (pruned,))
    log.append(restored(6, "undo", of=1))
    assert replay(log, None) == UndoState((), (pruned, replace(one, safety=log[-1].safety)))
    log.append(restored(7, "redo", of=1))
    assert replay(log, None) == UndoState((replace(one, safety=log[-1].safety),), (pruned,))
    log.append(operation(8, "redo", of=2, trash="t2"))
    assert [each.trash for each in replay(log, None).undo] == [None, "t2"]


def test_standing_after_something_new() -> None:
    """A new restore takes the place of the restores that could be redone, and leaves a prune that
    could be. One that took back what was interrupted leaves both.
    """
    log = [
        restored(1),
        operation(2, "prune"),
        operation(3, "undo", of=2),
        restored(4, "undo", of=1),
    ]

    found = replay([*log, restored(5)], None)

    assert [each.number for each in found.undo] == [5]
    assert [each.number for each in found.redo] == [2]
    aborted = replay([*log, restored(5, aborted=True)], None)
    assert [each.number for each in aborted.undo] == [5]
    assert [each.number for each in aborted.redo] == [2, 1]


def test_standing_is_bounded() -> None:
    """Only so many restores are remembered, and those the newest; so are their extents."""
    log = [operation(0, "prune"), *(restored(n, extent=Extent()) for n in range(1, 301))]

    found = replay(log, None)

    assert ids(found) == (list(range(301 - MOST, 301)), [])
    assert found.undo[0].what == "prune"
    assert set(found.extents) == set(found.restores.undo)


def test_standing_in_a_tree_of_the_same_name() -> None:
    """What was restored in a working tree that is gone is not undone in the next one of its
    name.
    """
    log = [
        restored(1, worktree="linked", place="a"),
        restored(2, worktree="linked", place="b"),
        restored(3, "undo", of=1, worktree="linked", place="a"),
    ]

    assert ids(replay(log, "linked", "b")) == ([2], [])
    assert ids(replay(log, "linked", "a")) == ([], [3])
    assert ids(replay(log, "linked", None)) == ([], [])
    assert ids(replay(log, None)) == ([], [])
