"""Keep what `gitcp enable` installed in the working tree: a restore to a checkpoint from before it
removed the hooks, and nothing was saved from then on.

A file in which gitcp installed something that the checkpoint lacks stays as it is, with the
settings that the user added since. It is recognized by its place and by what gitcp writes into it,
also if a clone brought it. `gitcp disable` removes it, and a restore of its path restores it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from gitcp.agents import COMMAND_NAMES, KNOWN
from gitcp.errors import StoreDamaged
from gitcp.restoring.plan import Disk, FilePlan, FileStep, Kept, SnapshotReader, parents
from gitcp.value import replace

REASON = "installed by gitcp since; gitcp disable removes it"
COMMANDS = rf"(?:{'|'.join(COMMAND_NAMES)})\.(?:md|toml)"
"""The names of slash commands, as gitcp installs them."""


def _installed(*, own: bool, names: str = "") -> Iterator[str]:
    """Yield patterns of what `gitcp enable` installs in a project: the files of gitcp alone, or
    those that may be the user's, in directories of the user's with these `names`.
    """
    for agent in KNOWN:
        for piece in agent.pieces:
            path = re.escape(f"{agent.project}/{piece.target}".removeprefix("./"))
            if piece.shared:
                target = f"{path}/{names}"
            elif piece.how == "copy" and "." not in piece.target:
                target = f"{path}/.+"  # a directory
            else:
                target = path
            if own is (piece.how == "copy" and not piece.shared):
                yield target


def _pattern(paths: Iterable[str]) -> re.Pattern[bytes]:
    """Match these paths, in the project or in a directory of it."""
    return re.compile(f"(?:.+/)?(?:{'|'.join(dict.fromkeys(paths))})".encode())


OWN = _pattern(_installed(own=True))
"""Files of gitcp alone."""
SHARED = _pattern((*_installed(own=False, names="[^/]+"), "prepare-commit-msg"))
"""Files that may be the user's, or have the user's settings beside gitcp's."""
WRITTEN = _pattern(_installed(own=False, names=COMMANDS))
"""Those of them that `gitcp enable` writes to together with its own ones."""
MARKS = re.compile(rb"\bgitcp hook [a-z]|installed by gitcp enable|gitcp: begin")
"""What gitcp writes into them."""


def written(paths: Collection[bytes]) -> frozenset[bytes]:
    """Return which of the paths that a change has `gitcp enable` writes to. If none of them is
    gitcp's alone, the change is not one of `gitcp enable`: then none.
    """
    if not any(map(OWN.fullmatch, paths)):
        return frozenset()
    return frozenset(path for path in paths if OWN.fullmatch(path) or WRITTEN.fullmatch(path))


def kept(files: FilePlan, reader: SnapshotReader, disk: Disk) -> FilePlan:
    """Return the plan without the changes that would remove what gitcp installed."""
    steps = {step.path for step in (*files.write, *files.remove) if _uninstalls(step, reader, disk)}
    if not steps:
        return files
    needed = {parent for path in steps for parent in parents(path)}
    all_kept = (*files.kept, *(Kept(path, REASON) for path in steps))
    return replace(
        files,
        write=tuple(step for step in files.write if step.path not in steps),
        remove=tuple(step for step in files.remove if step.path not in steps),
        remove_directories=tuple(p for p in files.remove_directories if p not in needed),
        permissions=tuple(each for each in files.permissions if each.path not in steps),
        kept=tuple(sorted(all_kept, key=lambda each: each.path)),
    )


def _uninstalls(step: FileStep, reader: SnapshotReader, disk: Disk) -> bool:
    """Return whether gitcp installed something in a file that it would no longer have."""
    if step.old is None or not (OWN.fullmatch(step.path) or SHARED.fullmatch(step.path)):
        return False
    try:
        wanted = reader.read_blob(step.new.oid) if step.new else None
    except StoreDamaged:
        return False  # the restore reports it
    return _is_installed(step.path, disk.read(step.path)) and not _is_installed(step.path, wanted)


def _is_installed(path: bytes, data: bytes | None) -> bool:
    if data is None:
        return False
    return b"gitcp" in data if OWN.fullmatch(path) else MARKS.search(data) is not None
