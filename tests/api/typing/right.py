"""A program as a user writes it: a type checker has nothing to say, and knows what comes back."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, assert_type

import gitcp


def save_and_look(directory: Path) -> None:
    """Save, list, show and compare."""
    checkpoints = gitcp.open(directory)
    saved = checkpoints.save("first", facts={"count": 1}, tags=["v1"], force=True)
    assert_type(saved, gitcp.Saved)
    assert_type(saved.checkpoint.id, gitcp.CheckpointId)
    for summary in checkpoints.log(limit=10):
        assert_type(summary, gitcp.Summary)
        name: str = summary.subject
        assert name
    content = checkpoints.file("@", "a.txt")
    if isinstance(content, gitcp.Listing):
        names: tuple[str, ...] = content.names_text
        assert names
    else:
        assert_type(content, bytes)
    for change in checkpoints.diff("@~1", "@"):
        assert_type(change.path, bytes)
        assert_type(change.path_text, str)
        assert change.kind is not gitcp.Kind.DELETED


def go_back(checkpoints: gitcp.Checkpoints) -> gitcp.Report:
    """Plan, restore, and undo."""
    plan = checkpoints.plan("@~1", paths=["a.txt", b"b.txt"])
    assert_type(plan, gitcp.RestorePlan)
    report = checkpoints.restore("@~1", paths=["a.txt"], agreed=plan)
    paths: tuple[str, ...] = report.written_text
    assert paths
    checkpoints.prune(gitcp.Policy(last=3))
    return checkpoints.undo()


def look(checkpoints: gitcp.Checkpoints) -> None:
    """Search, explain, and continue elsewhere."""
    for hit in checkpoints.find("text", where=["files"]):
        assert_type(hit, gitcp.Hit)
    assert_type(checkpoints.why("a.txt", 3), gitcp.LineOrigin)
    assert_type(checkpoints.why("a.txt"), gitcp.PathHistory)
    assert_type(checkpoints.messages(), list[dict[str, Any]])
    assert_type(checkpoints.push(sessions="s"), gitcp.PushReport)
    checkpoints.restore(at="yesterday", to=Path("elsewhere"))


def resume(checkpoints: gitcp.Checkpoints) -> int:
    """Continue a batch at its position."""
    session = checkpoints.session("nightly")
    session.resume()
    position: Mapping[str, Any] = session.position
    start: int = position.get("record", 0)
    session.save("a label", position={"record": start + 1}, conversation={"main": b"x"})
    return start


def guarded(checkpoints: gitcp.Checkpoints) -> None:
    """A transaction, and errors that are Python's too."""
    try:
        with checkpoints.transaction("migrate", compensate=["echo back"]) as step:
            step.compensate("echo further back")
            assert_type(step.before, gitcp.CheckpointId)
    except gitcp.RevisionAmbiguous as error:
        candidates: tuple[str, ...] = error.candidates
        assert candidates
    except (ValueError, LookupError, FileExistsError):
        return


async def awaited(directory: Path) -> None:
    """The same for asyncio."""
    checkpoints = await gitcp.aopen(directory)
    saved = await checkpoints.save("first", facts={"count": 1})
    assert_type(saved, gitcp.Saved)
    assert_type(await checkpoints.restore("@", files=True), gitcp.Report)
    async with checkpoints.transaction("migrate", rollback=False) as step:
        await step.compensate("echo back")
    async with checkpoints.session("s") as session:
        await session.save("one", position={"record": 1})
        start: int = (await session.position()).get("record", 0)
        assert start
