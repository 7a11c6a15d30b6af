"""Damage never stops saving, whichever object or ref of a session is damaged, and what is saved
then is whole.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from test_hook import Claude, log_of

from gitcp.git import damage, refs
from gitcp.git.trees import walk
from gitcp.lifecycle.check import check
from gitcp.model import Checkpoint, Note
from gitcp.saving.save import Saved, SaveRequest, save
from gitcp.state import oplog, trash

from driver import Project
from samples import open_store

ALPHA, BETA = "alpha", "beta"

WAYS = {
    "bit": lambda data: (
        data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 4]) + data[len(data) // 2 + 1 :]
    ),
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda _: b"",
    "gone": None,
}


class Shop:
    """A project with two sessions of three checkpoints each, put back to how it was before each
    case.
    """

    def __init__(self, project: Project, kept: Path) -> None:
        self.project, self._kept = project, kept
        self.talk = project.root.parent / "talk.jsonl"
        for name in ("base", "src/lib/one", "src/two", "doc/three"):
            project.write(name, f"{name} of the first commit\n")
        project.commit()
        project.write("staged", "staged\n")
        project.git("add", "staged")
        for number in range(3):
            project.write("src/two", f"two {number}\n")
            project.write("staged", f"worked on {number}\n")
            self.say(number)
            for session in (ALPHA, BETA):
                self.save(session)
        project.loosen()
        shutil.copytree(project.root, kept, symlinks=True)
        listed = project.git(
            "rev-list", "--objects", "--no-object-names", f"{refs.SESSIONS}{ALPHA}"
        ).split()
        staged = {
            line.split()[1]
            for line in project.git("ls-files", "--stage", "staged", "src/two").splitlines()
        }
        # what is staged is in no file that could be read again
        self.objects = sorted({*listed} - staged)
        self.files = project.files()

    def say(self, number: int) -> None:
        """The conversation goes on."""
        line = json.dumps({"role": "user", "content": f"message {number} " + "x" * 5000})
        with self.talk.open("a") as file:
            file.write(line + "\n")

    def put_back(self) -> None:
        """As it was, whatever was done."""
        shutil.rmtree(self.project.root)
        shutil.copytree(self._kept, self.project.root, symlinks=True)

    def damage(self, oid: str, way: str) -> None:
        """Damage one object."""
        self.spoil(self.project.git_dir / "objects" / oid[:2] / oid[2:], way)

    def spoil(self, path: Path, way: str) -> None:
        """Damage one file."""
        change, data = WAYS[way], path.read_bytes()
        path.unlink()
        if change is not None:
            path.write_bytes(change(data))

    def save(self, session: str, **fields: object) -> Saved:
        """Save as a process of its own would."""
        request = SaveRequest(
            cwd=self.project.root,
            session=session,
            conversation=self.talk,
            **fields,  # type: ignore[arg-type]
        )
        return save(open_store(self.project), request)

    def broken(self) -> set[str]:
        """The checkpoints that something is wrong with."""
        return {
            id for problem in check(open_store(self.project)).problems for id in problem.checkpoints
        }

    def held(self, made: Checkpoint) -> tuple[dict[bytes, bytes], bytes]:
        """What a checkpoint has of the files, and of the conversation."""
        store = open_store(self.project)
        made = store.read(made.commit)
        held = {
            path: store.reader.read_blob(entry.oid)
            for path, entry in walk(store.reader, made.snapshot.tree)
        }
        assert made.conversation is not None
        talk = b"".join(
            store.reader.read_blob(e.oid) for _, e in walk(store.reader, made.conversation.tree)
        )
        return held, talk

    def on_disk(self) -> tuple[dict[bytes, bytes], bytes]:
        """What there is to be saved."""
        files = self.project.files().items()
        return {
            path: file.data for path, file in files if file.kind == "file"
        }, self.talk.read_bytes()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    place = tmp_path_factory.mktemp("shop")
    return Shop(Project(place / "project"), place / "kept")


@pytest.mark.parametrize("changes", [False, True], ids=["same files", "a file changed"])
@pytest.mark.parametrize("way", WAYS)
def test_every_object(shop: Shop, way: str, changes: bool) -> None:
    """A save after damage succeeds for every session. The next one after a check is whole and has
    every file.
    """
    for oid in shop.objects[changes + 2 * (way in ("bit", "gone")) :: 3]:
        shop.put_back()
        shop.damage(oid, way)
        if changes:
            shop.project.write("doc/new", "new\n")
        assert shop.save(BETA, note=Note(label="go on")).saved
        made = shop.save(ALPHA, note=Note(label="go on"))
        assert made.saved, oid
        if str(made.checkpoint.id) in shop.broken():  # what no save reads, a check finds
            assert oid in damage.known(shop.project.git_dir)
            made = shop.save(ALPHA)
            shop.save(BETA)
        assert str(made.checkpoint.id) not in shop.broken(), oid
        assert shop.held(made.checkpoint) == shop.on_disk(), oid


def part(shop: Shop, place: str) -> str:
    """The object that stands at a place of alpha's last checkpoint."""
    return shop.project.git("rev-parse", f"{refs.SESSIONS}{ALPHA}{place}")


PARTS = {
    "commit": "",
    "tree": "^{tree}",
    ".gitcp": ":.gitcp",
    "metadata": ":.gitcp/checkpoint.json",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("where", PARTS)
def test_a_new_chain(shop: Shop, where: str, way: str) -> None:
    """Where the last checkpoint cannot be read, a chain begins whose numbers are new; the old one
    is in the trash.
    """
    shop.put_back()
    tip = part(shop, "")
    shop.damage(part(shop, PARTS[where]), way)

    made = shop.save(ALPHA)

    assert made.checkpoint.parent is None
    assert made.checkpoint.id.number == 4
    assert "session alpha was damaged" in made.damage
    store = open_store(shop.project)
    kept = {oid for entry in trash.entries(store) for oid in entry.sessions.values()}
    assert tip in kept
    if where == "commit":
        assert [each.id.number for oid in kept for each in store.readable(oid)] == [2, 1]
    assert {"alpha@3", "alpha@"} & shop.broken()
    assert not shop.save(ALPHA).damage
    assert shop.save(ALPHA, note=Note(label="more")).checkpoint.id.number == 5


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 41, b"garbage\n"], ids=["empty", "zeros", "garbage"]
)
@pytest.mark.parametrize("packed", [False, True], ids=["loose", "packed below"])
def test_a_ref_of_garbage(shop: Shop, content: bytes, packed: bool) -> None:
    """A ref without a name in it, as a power cut leaves it: its commits are found again, and no
    number comes twice.
    """
    shop.put_back()
    tip = part(shop, "")
    if packed:
        shop.project.git("pack-refs", "--all")
    ref = shop.project.git_dir / refs.SESSIONS / ALPHA
    ref.parent.mkdir(parents=True, exist_ok=True)
    ref.write_bytes(content)

    assert shop.save(BETA, note=Note(label="beta goes on")).saved
    made = shop.save(ALPHA)

    assert made.checkpoint.parent is None
    assert made.checkpoint.id.number > 3
    store = open_store(shop.project)
    assert tip in {oid for entry in trash.entries(store) for oid in entry.sessions.values()}
    assert not shop.broken()


def test_both_are_joined(shop: Shop) -> None:
    """Undo by its number puts the old chain, as far as it can be read, before the new one."""
    shop.put_back()
    oid = part(shop, "^{tree}")
    path = shop.project.git_dir / "objects" / oid[:2] / oid[2:]
    whole = path.read_bytes()
    shop.damage(oid, "gone")
    shop.save(ALPHA)
    [operation] = oplog.entries(open_store(shop.project).repo)

    shop.project.gitcp("undo", str(operation.number), "--yes", check=0)

    path.write_bytes(whole)
    store = open_store(shop.project)
    assert [each.id.number for each in store.history(store.sessions()[ALPHA])] == [4, 3, 2, 1]
    assert check(store).ok


def test_what_was_purged_stays_away(shop: Shop) -> None:
    """A commit that no ref reaches is not put back where something was purged."""
    shop.put_back()
    shop.project.gitcp("purge", "--text", "worked on", "--yes", check=0)
    shop.project.git_dir.joinpath(refs.SESSIONS, ALPHA).write_bytes(b"")

    made = shop.save(ALPHA)

    assert made.checkpoint.id.number > 1
    assert not trash.entries(open_store(shop.project))


@pytest.mark.parametrize("where", [*PARTS, "ref"])
def test_delete_and_prune(shop: Shop, where: str) -> None:
    """Both work on a store with damage: prune leaves the damaged session alone, delete removes
    it.
    """
    shop.put_back()
    if where == "ref":
        shop.spoil(shop.project.git_dir / refs.SESSIONS / ALPHA, "empty")
    else:
        shop.damage(part(shop, PARTS[where]), "gone")
    project = shop.project

    pruned = project.gitcp("prune", "--keep-last", "1", "--yes", check=0)
    store = open_store(project)
    assert [each.id.number for each in store.history(store.sessions()[BETA])] == [3]
    project.gitcp("delete", ALPHA, "--yes", check=0)
    assert set(open_store(project).sessions()) == {BETA}
    project.gitcp("prune", "--keep-last", "1", "--expire", "0h", "--yes", check=0)
    assert check(open_store(project)).ok
    if where in ("commit", "ref"):
        assert "session alpha is damaged" in pruned.err


@pytest.mark.parametrize("where", [*PARTS, "ref"])
def test_others_go_on(shop: Shop, where: str) -> None:
    """Whatever is damaged of one session, every command works for another one, and says what is
    damaged.
    """
    shop.put_back()
    if where == "ref":
        shop.spoil(shop.project.git_dir / refs.SESSIONS / ALPHA, "empty")
    else:
        shop.damage(part(shop, PARTS[where]), "gone")
    project, beta = shop.project, ("--session", BETA)
    for command in (
        ("log", *beta),
        ("log", "--all"),
        ("list", *beta),
        ("sessions",),
        ("status",),
        ("find", "message"),
        ("stats",),
        ("show", "beta@2"),
        ("secrets", *beta),
        ("tag", "here", "beta@1"),
        ("export", "beta", "-o", f"{project.root.parent}/beta.json", "--force"),
        ("fork", "beta@1", "--name", "branch"),
        ("rename", "branch", "other"),
        ("restore", "beta@1", "--yes"),
        ("undo", "--yes"),
        ("save", "on", *beta),
    ):
        said = project.gitcp(*command)
        assert said.code == 0, (command, said)


def test_told_once(shop: Shop) -> None:
    """A save says that the session was damaged; status and doctor go on saying it until it is
    forgotten.
    """
    shop.put_back()
    shop.damage(part(shop, ""), "gone")
    args = ("save", "--session", ALPHA)

    first, second = shop.project.gitcp(*args, check=0), shop.project.gitcp(*args, check=0)

    assert "session alpha was damaged" in first.err
    assert "damaged" not in second.err
    assert "session alpha was damaged" in shop.project.gitcp("status", check=0).out
    assert "session alpha was damaged" in shop.project.gitcp("doctor").out
    shop.project.gitcp("prune", "--expire", "0h", "--yes", check=0)
    assert "damaged" not in shop.project.gitcp("status", check=0).out


@pytest.mark.parametrize("way", ["cut", "empty", "gone"])
def test_files_are_read_again(shop: Shop, way: str) -> None:
    """What a check found missing is stored anew by the next save, so that older checkpoints are
    whole again.
    """
    names = ("HEAD:src/lib/one", "HEAD:src/lib", ":.gitcp/conversation/main/a/000000000000.jsonl")
    for name in names:
        shop.put_back()
        shop.save(ALPHA)  # what this scan saw is remembered of this copy
        oid = shop.project.git(
            "rev-parse", name if name.startswith("HEAD") else f"{refs.SESSIONS}{ALPHA}{name}"
        )
        shop.damage(oid, way)
        assert shop.project.gitcp("check").code == 13

        shop.project.gitcp("save", "--session", ALPHA, "--conversation", str(shop.talk), check=0)

        assert shop.project.gitcp("check").code == 0, name
        assert not damage.known(shop.project.git_dir)


def test_a_reader_finds_it(shop: Shop) -> None:
    """The same after a restore that found it, and after a command that could not show it."""
    for command in (("restore", "alpha@1", "--yes"), ("show", "alpha@3:src/lib/one")):
        shop.put_back()
        shop.save(ALPHA)
        shop.damage(shop.project.git("rev-parse", "HEAD:src/lib/one"), "gone")
        if command[0] == "restore":
            one = shop.project.read("src/lib/one")
            shop.project.write("src/lib/one", "other\n")
        assert shop.project.gitcp(*command).code == 13
        if command[0] == "restore":
            shop.project.write("src/lib/one", one)
        shop.project.gitcp("save", "--session", ALPHA, check=0)
        assert shop.project.gitcp("check").code == 0, command


def test_a_hook(project: Project) -> None:
    """A hook saves into a damaged session too. It tells the agent at its next prompt, once, and
    writes it down.
    """
    project.write("a.txt", "one\n")
    project.commit()
    agent = Claude(project)
    agent.turn("first")
    [name] = open_store(project).sessions()
    tip = project.git("rev-parse", f"{refs.SESSIONS}{name}")
    project.loosen()
    project.git_dir.joinpath("objects", tip[:2], tip[2:]).unlink()
    project.write("a.txt", "two\n")
    agent.says("assistant", "Changed a.txt.")

    assert agent.calls("Stop", check=False, last_assistant_message="Changed a.txt.") == ""
    told = agent.calls("UserPromptSubmit", check=False, prompt="go on")
    again = agent.calls("UserPromptSubmit", check=False, prompt="and on")

    [made] = open_store(project).readable(open_store(project).sessions()[name])
    assert made.trailers["Gitcp-Trigger"] == "turn"
    assert (
        f"session {name} was damaged" in json.loads(told)["hookSpecificOutput"]["additionalContext"]
    )
    assert again == ""
    assert f"session {name} was damaged" in log_of(project)
