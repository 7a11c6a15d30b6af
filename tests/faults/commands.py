"""Every command that changes something, as a scene to put faults into."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from back import contents, last
from kinds import FORMAT
from pruned import holdings, tagged
from talk import SESSION, Talk

from faults.scenes import FAR, TALK, Scene, Stage
from gitcp.git import refs, repack
from gitcp.sharing.remote_refs import shard


def _last_label(stage: Stage, session: str = TALK) -> str | None:
    return last(stage.project, session).note.label


def _is_saved(stage: Stage) -> bool:
    return _last_label(stage) == "four"


def _is_back(stage: Stage) -> bool:
    """Whether the files are those of the first checkpoint (what was never captured stays)."""
    files = contents(stage.project)
    return (
        files[b"d0/0"].data.startswith(b"first 0")
        and files[b"link"].kind == "symlink"
        and b"made/here" not in files
    )


def _is_forth(stage: Stage) -> bool:
    return stage.project.read("new/new") == b"not saved yet\n" and not _is_back(stage)


def _is_reverted(stage: Stage) -> bool:
    return stage.project.read("d2/2").startswith(b"second")


def _go_back(stage: Stage) -> None:
    stage.project.gitcp("restore", "1", "--yes", check=0)


def _make_many(stage: Stage) -> None:
    for number in range(100):
        stage.project.write(f"many/{number % 7}/{number}", f"one of many: {number}\n")


def _make_large(stage: Stage) -> None:
    """More than waits in memory for its pack, and a file that is stored in a stream; none of it
    shrinks.
    """
    chance = random.Random(1)
    for number in range(6):
        stage.project.write(f"large/{number}", chance.randbytes(300_000))
    stage.project.write("larger", chance.randbytes(3 << 20))


def _are_saved(stage: Stage) -> bool:
    return _is_saved(stage) and "many" in tagged(stage.project)


def _leave_loose(stage: Stage) -> None:
    """Let there seem to be so many loose objects that housekeeping begins with the next save."""
    found = 0
    while len(list((stage.project.git_dir / "objects" / repack.PROBED).glob("*"))) <= repack.LOOSE:
        found += 1
        content = b"%d" % found
        if FORMAT.oid_of("blob", content).startswith(repack.PROBED):
            stage.project.git("hash-object", "-w", "--stdin", input=content)


def _pruned(stage: Stage) -> bool:
    return {id.number for id in holdings(stage.project) if id.session == "beta"} == {2}


def _is_gone(stage: Stage) -> bool:
    return "beta" not in stage.store.sessions()


def _delete(stage: Stage) -> None:
    stage.project.gitcp("delete", "beta", "--yes", check=0)


def _redo(stage: Stage) -> None:
    _go_back(stage)
    stage.project.gitcp("undo", "--yes", check=0)


def _forget(stage: Stage) -> None:
    """Let there be no checkpoint yet."""
    for name in _refs(stage, stage.project.git_dir, refs.PREFIX):
        stage.project.git("update-ref", "-d", name)
    shutil.rmtree(stage.project.git_dir / "gitcp")


def _is_restored(stage: Stage) -> bool:
    return (
        str(last(stage.project, TALK).restored_from) == f"{TALK}@1"
        and not (stage.project.root / "made").exists()
    )


def _event(name: str, **fields: str) -> str:
    return json.dumps({"session_id": SESSION, "hook_event_name": name, **fields})


def _prompt(stage: Stage) -> str:
    return _event(
        "UserPromptSubmit",
        prompt="go on",
        cwd=str(stage.project.root),
        transcript_path=str(stage.talk.path),
    )


def _stop(stage: Stage) -> str:
    return _event(
        "Stop",
        last_assistant_message="six",
        cwd=str(stage.project.root),
        transcript_path=str(stage.talk.path),
    )


def _talk_unseen(stage: Stage) -> None:
    """Let the agent have a conversation that nothing saved."""
    Talk(stage.project, UNSEEN).say("hello", "Hello.")


def _triggered(trigger: str) -> Callable[[Stage], bool]:
    return lambda stage: last(stage.project, TALK).trigger == trigger


def _name_a_hub(stage: Stage) -> None:
    stage.project.git("init", "--quiet", "--bare", str(_hub(stage)))
    stage.project.gitcp("remote", "hub", str(_hub(stage)), check=0)


def _hub(stage: Stage) -> Path:
    return stage.place / FAR


def _refs(stage: Stage, git_dir: Path, prefix: str) -> dict[str, str]:
    """The refs below a prefix, however the repository stores them."""
    lines = stage.project.git(
        f"--git-dir={git_dir}", "for-each-ref", "--format=%(refname) %(objectname)", prefix
    )
    return dict(line.split(" ") for line in lines.splitlines())


def _push(stage: Stage) -> None:
    _name_a_hub(stage)
    stage.project.gitcp("push", "hub", "--session", TALK, check=0)


def _fill_a_hub(stage: Stage) -> None:
    _push(stage)
    _lose(stage)


def _lose(stage: Stage) -> None:
    """Let the session with the conversation not be here any more, nor its objects."""
    fetched = _refs(stage, stage.project.git_dir, refs.REMOTES)
    for name in (refs.SESSIONS + TALK, refs.TAGS + "v1", *fetched):
        stage.project.git("update-ref", "-d", name)
    stage.project.git("prune", "--expire=now")


def _is_sent(stage: Stage) -> bool:
    return _at_hub(stage) == stage.store.sessions()[TALK]


def _at_hub(stage: Stage) -> str | None:
    """The session with the conversation there."""
    session = f"{refs.SHARED}{shard(TALK)}/{TALK}"
    return _refs(stage, _hub(stage), session).get(session)


def _is_pushed_again(stage: Stage) -> None:
    """What was deleted there, in part or as a whole, was sent again."""
    _hub_is_whole(stage)
    assert _is_sent(stage)
    assert set(_refs(stage, _hub(stage), refs.TAGS)) == {refs.TAGS + "v1"}


def _hub_is_whole(stage: Stage) -> None:
    said = stage.project.git(
        "--git-dir", str(_hub(stage)), "fsck", "--strict", "--no-dangling", "--no-progress"
    )
    assert not said, said


def _named(remote: str) -> Callable[[Stage], bool]:
    prefix = f"{refs.REMOTES}{remote}/"
    return lambda stage: bool(_refs(stage, stage.project.git_dir, prefix))


def _export(stage: Stage) -> None:
    _make_room(stage)
    stage.project.gitcp("export", "--output", "../out/talk.bundle", check=0)
    _lose(stage)


def _make_room(stage: Stage) -> None:
    (stage.place / "out").mkdir()


def _is_exported(stage: Stage) -> bool:
    stage.project.git("bundle", "verify", "--quiet", str(stage.place / "out/talk.bundle"))
    return True


def _alone_and_whole(stage: Stage) -> None:
    assert _is_exported(stage)
    assert os.listdir(stage.place / "out") == ["talk.bundle"]


def _is_purged(stage: Stage) -> bool:
    store = stage.store
    return all(b"d0/0" not in _paths(stage, tip) for tip in store.sessions().values())


def _paths(stage: Stage, commit: str) -> bytes:
    return stage.project.git("log", "--format=", "--name-only", "--root", "-m", commit).encode()


def _is_noted(stage: Stage) -> bool:
    return b"one file per change" in stage.project.read(stage.project.git_dir / "gitcp/note")


def _has_run(stage: Stage) -> bool:
    return _last_label(stage) == "build" and (stage.project.root / "ran").is_symlink()


def _ran_back(stage: Stage) -> bool:
    return (
        not (stage.project.root / "ran").is_symlink()
        and last(stage.project, TALK).trigger == "restore"
    )


def _owe(stage: Stage) -> None:
    _make_room(stage)
    stage.project.gitcp("save", "owing", "--compensate", "echo paid >> ../out/effects", check=0)


def _paid(stage: Stage) -> list[str]:
    path = stage.place / "out/effects"
    return path.read_text().splitlines() if path.exists() else []


def _paid_once_at_most(stage: Stage) -> None:
    assert len(_paid(stage)) <= 1


def _is_enabled(stage: Stage) -> bool:
    settings = json.loads((stage.place / "home/.claude/settings.json").read_text())
    return settings["model"] == "mine" and "gitcp" in json.dumps(settings["hooks"])


def _set_up(stage: Stage) -> None:
    (stage.place / "home/.claude/settings.json").write_text('{"model": "mine"}')


def _is_disabled(stage: Stage) -> bool:
    home = stage.place / "home/.claude"
    return (
        "gitcp" not in (home / "settings.json").read_text()
        and not (home / "skills/gitcp/SKILL.md").exists()
    )


def _enable(stage: Stage) -> None:
    _set_up(stage)
    stage.project.gitcp("enable", "claude", "--user", "--yes", check=0)


def _settings_are_whole(stage: Stage) -> None:
    assert json.loads((stage.place / "home/.claude/settings.json").read_text())["model"] == "mine"


UNSEEN = "0dd0ba11-5d1c-4f0a-9b3e-2c6d8f1a7b90"
RAN = frozenset((b"ran",))
RUN = ("sh", "-c")
BY_SHELL = ("/begun", "/effects", "/code.new", "/code")
"""What the shell writes that runs a compensation: should it fail there, how it ended is unknown,
and that is said.
"""
PUSH = ("push", "hub", "--all")
EXPORT = ("export", "--output", "../out/talk.bundle")

SCENES = {
    "save": Scene(("save", "four"), _is_saved),
    "save many": Scene(("save", "four", "--tag", "many"), _are_saved, _make_many),
    "save large": Scene(("save", "four"), _is_saved, _make_large),
    "save first": Scene(("save", "four"), _is_saved, _forget),
    "save and pack": Scene(("save", "four"), _is_saved, _leave_loose),
    "adopt": Scene(("adopt", "--yes"), lambda s: UNSEEN[:8] in s.store.sessions(), _talk_unseen),
    "restore": Scene(("restore", "1", "--yes"), _is_back, goes_back=True),
    "restore index": Scene(
        ("restore", "1", "--index", "--yes"), _is_back, goes_back=True, writes_git=True
    ),
    "restore message": Scene(("restore", "--message", "u3", "--yes"), _is_restored, goes_back=True),
    "undo": Scene(("undo", "--yes"), _is_forth, _go_back, goes_back=True, back="redo"),
    "redo": Scene(("redo", "--yes"), _is_back, _redo, goes_back=True),
    "revert": Scene(("revert", "3", "--yes"), _is_reverted, goes_back=True),
    "tag": Scene(("tag", "v2", "2"), lambda s: "v2" in tagged(s.project)),
    "untag": Scene(("tag", "--delete", "v1"), lambda s: "v1" not in tagged(s.project)),
    "prune": Scene(("prune", "--keep-last", "1", "--yes"), _pruned),
    "delete": Scene(("delete", "beta", "--yes"), _is_gone),
    "undelete": Scene(("undo", "--yes"), lambda s: not _is_gone(s), _delete),
    "fork": Scene(("fork", "2", "--name", "branched"), lambda s: "branched" in s.store.sessions()),
    "rename": Scene(("rename", TALK, "postgres"), lambda s: "postgres" in s.store.sessions()),
    "purge": Scene(("purge", "--path", "d0/0", "--yes"), _is_purged),
    "note": Scene(("note", "--decided", "one file per change"), _is_noted),
    "push": Scene(
        ("push", "hub", "--all"),
        _is_sent,
        _name_a_hub,
        finish=("push", "hub", "--all"),
        judge=_hub_is_whole,
    ),
    "push delete": Scene(
        ("push", "hub", "--delete", TALK, "--yes"),
        lambda stage: not _at_hub(stage),
        _push,
        finish=("push", "hub", "--all"),
        judge=_is_pushed_again,
    ),
    "fetch": Scene(("fetch", "hub"), _named("hub"), _fill_a_hub, finish=("fetch", "hub")),
    "import": Scene(
        ("import", "../out/talk.bundle"),
        _named("imported"),
        _export,
        finish=("import", "../out/talk.bundle"),
    ),
    "export": Scene(
        EXPORT, _is_exported, _make_room, finish=(*EXPORT, "--force"), judge=_alone_and_whole
    ),
    "hook prompt": Scene(
        ("hook", "claude", "UserPromptSubmit"), _triggered("prompt"), given=_prompt, silent=True
    ),
    "hook stop": Scene(("hook", "claude", "Stop"), _triggered("turn"), given=_stop, silent=True),
    "run": Scene(
        ("run", "build", "--", *RUN, "ln -s d0 ran"),
        _has_run,
        goes_back=True,
        finish=("run", "--recover"),
        runs=RAN,
        others=("/ran",),
    ),
    "run back": Scene(
        ("run", "build", "--rollback", "--", *RUN, "ln -s d0 ran; exit 7"),
        _ran_back,
        goes_back=True,
        code=7,
        finish=("run", "--recover"),
        runs=RAN,
        others=("/ran",),
    ),
    "compensate": Scene(
        ("compensate", "--run", f"{TALK}@5:0"),
        lambda s: _paid(s) == ["paid"],
        _owe,
        judge=_paid_once_at_most,
        others=BY_SHELL,
    ),
    "enable": Scene(
        ("enable", "claude", "--user", "--yes"), _is_enabled, _set_up, judge=_settings_are_whole
    ),
    "disable": Scene(
        ("disable", "claude", "--user", "--yes"), _is_disabled, _enable, judge=_settings_are_whole
    ),
}

FILES = 500


def _make_all(stage: Stage) -> None:
    """Two states of many files."""
    project = stage.project
    for number in range(FILES):
        project.write(f"all/{number % 9}/{number}", f"first {number}\n" * (1 + number % 97))
    project.gitcp("save", "all", "--session", TALK, check=0)
    for number in range(FILES):
        project.write(f"all/{number % 9}/{number}", f"second {number}\n" * (1 + number % 89))


def _are_back(stage: Stage) -> bool:
    return all(
        stage.project.read(f"all/{number % 9}/{number}").startswith(b"first ")
        for number in range(FILES)
    )


LARGE = Scene(("restore", f"{TALK}@5", "--yes"), _are_back, _make_all, goes_back=True, undone=True)
"""A restore of many files."""
