"""A program with mistakes: each line with a mark is one that both type checkers find."""

from pathlib import Path

import gitcp


def save_and_look(directory: Path) -> None:
    """Mistakes in calls."""
    checkpoints = gitcp.open(directory)
    checkpoints.save(lable="first")  # wrong
    checkpoints.save("first", tags=1)  # wrong
    checkpoints.save("first", facts=["a"])  # wrong
    checkpoints.log(limit="10")  # wrong
    checkpoints.diff("@", path=["a"])  # wrong
    checkpoints.restore("@", agreed="plan")  # wrong
    checkpoints.restore("@", paths=[1])  # wrong
    checkpoints.restroe("@")  # wrong
    gitcp.opne(directory)  # wrong
    gitcp.open(1)  # wrong
    gitcp.Policy(lst=3)  # wrong
    gitcp.Agent("planner").name = "other"  # wrong


def results(checkpoints: gitcp.Checkpoints) -> None:
    """Mistakes in what comes back."""
    label: int = checkpoints.save().checkpoint.id.session  # wrong
    path: str = checkpoints.diff()[0].path  # wrong
    checkpoints.file("@", "a").decode()  # wrong
    checkpoints.session("s").save("one", session="t")  # wrong
    checkpoints.session("s").save("one", positon={})  # wrong
    id: gitcp.CheckpointId = checkpoints.session("s").last.id  # wrong
    assert [label, path, id]


async def awaited(directory: Path) -> None:
    """Mistakes with asyncio: the methods have the types of the others."""
    checkpoints = await gitcp.aopen(directory)
    await checkpoints.save(lable="first")  # wrong
    await checkpoints.log(limit="10")  # wrong
    saved = checkpoints.save("first")
    assert saved.checkpoint  # wrong
    checkpoints.transaction("m", rolback=False)  # wrong
    with checkpoints.transaction("m"):  # wrong
        pass
    await checkpoints.session("s").save("one", positon={})  # wrong
