"""What a host refused because it checks objects with git's `fsck` (`receive.fsckObjects`, as GitHub
and GitLab do): which path, in which checkpoint.

git tells the object's name only, and refuses all refs of a push for one bad object.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gitcp import safe
from gitcp.errors import GitFailed
from gitcp.git import trees
from gitcp.git.remote import RemoteUpdate
from gitcp.model import Oid
from gitcp.store import Store
from gitcp.value import Value

FSCK_REASON = re.compile(r"object ([0-9a-f]{40,64}): (\w+: [^;)]*)")
"""`object NAME: gitmodulesUrl: disallowed submodule url: …`, as git's `fsck` prints it."""

CHECKED = "it checks objects with git's fsck, and refuses"


class RefusedObject(Value):
    """An object that a host refused, and why."""

    oid: Oid
    why: str


def refused(reasons: Iterable[str]) -> RefusedObject | None:
    """Return the first object that a host's answers name, None if it refused for another reason."""
    match = next(filter(None, map(FSCK_REASON.search, reasons)), None)
    return match and RefusedObject(Oid(match[1]), match[2].strip())


def holders(store: Store, updates: Iterable[RemoteUpdate], bad: RefusedObject) -> dict[str, str]:
    """Return the refs that would send an object, each with the reason in words. Raises
    StoreDamaged.
    """
    reasons = {}
    for each in updates:
        path = _path(store, each, bad.oid)
        if path is not None and each.new:
            where = _where(store, store.peel(each.new), path, bad.oid)
            reasons[each.ref] = f"{CHECKED} {where}: {bad.why}"
    return reasons


def path_in(reason: str) -> str | None:
    """Return the path that a reason of `holders` names, None for the root or another reason."""
    start, _, rest = reason.partition(f"{CHECKED} ")
    path = rest.partition(" in ")[0]
    return path if rest and not start and not path.startswith("the directory ") else None


def _path(store: Store, update: RemoteUpdate, oid: Oid) -> bytes | None:
    """Return the path by which git found an object in what a ref sends, None if it is not in it."""
    asked = [*([update.new] if update.new else []), *([f"^{update.old}"] if update.old else [])]
    try:
        listed = store.repo.git("rev-list", "--objects", "--stdin", input="\n".join(asked).encode())
    except GitFailed:
        return None  # the remote's old value is not here
    wanted = oid.encode("ascii")
    lines = (line.partition(b" ") for line in listed.splitlines())
    return next((path for name, _, path in lines if name == wanted), None)


def _where(store: Store, tip: Oid, path: bytes, oid: Oid) -> str:
    """Return the path, and the first checkpoint that has the object there, in words."""
    has = [s for s in store.history(tip) if _oid_at(store, s.root, path) == oid]
    is_tree = store.reader.read(oid)[0] == "tree"
    name = safe.flat(path.decode("utf-8", "replace")) or "/"
    what = f"the directory {name}" if is_tree else name
    return f"{what} in {has[-1].id}" if has else what


def _oid_at(store: Store, root: Oid, path: bytes) -> Oid | None:
    if not path:
        return root
    entry = trees.lookup(store.reader, root, path)
    return entry.oid if entry else None
