"""Tags: names of milestones, stored as refs under `refs/gitcp/tags/`, which `git push --tags` does
not push.

A tag is a ref on a checkpoint's commit. Only one with a message of its own is an annotated tag
object: `git fast-export --all | git fast-import` makes a tag below `refs/tags/` of such an object,
wherever its ref is, and then `git push --tags` sends the conversation.

A tag points to one checkpoint. It protects that checkpoint from being pruned and can be used as a
revision. Deleting a tag loses only a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from itertools import count

from gitcp.errors import AlreadyExists, BadValue, RevisionNotFound, StoreBusy, StoreDamaged
from gitcp.git import refs
from gitcp.model import Checkpoint, Oid
from gitcp.store import Store, Summary, subject

LATEST = "latest"
"""The last checkpoint of the current session, as in restic."""


def create(
    store: Store, name: str, checkpoint: Checkpoint, *, text: str | None, force: bool, now: datetime
) -> None:
    """Set the tag `name` on a checkpoint, annotated if it has a message `text`.

    A tag already on this checkpoint is left unchanged, unless `force`. Writes a ref, and an object
    for a message. Raises BadValue for an invalid name, Refused if the tag is on another checkpoint
    and not `force`, StoreBusy.
    """
    ref = refs.TAGS + _check_name(store, name)
    with store.lock():
        old = store.repo.refs.read(ref)
        if old is not None and not force:
            if store.peel(old) == checkpoint.commit:
                return
            where = store.summary(store.peel(old)).id
            raise AlreadyExists(
                f"tag {name} already exists, on {where}; it was not moved",
                hint=f"gitcp tag --force {name} {checkpoint.id}",
            )
        new = checkpoint.commit
        if text is not None:
            new = store.write_tag(name, checkpoint, text or subject(checkpoint), now)
        if not store.repo.refs.update(ref, new, old):
            raise StoreBusy(
                f"tag {name} was moved by another process: it was left there",
                hint=f"gitcp show {name}",
            )


def check_free(store: Store, name: str) -> None:
    """Raise what `create` would raise for a checkpoint that does not exist yet."""
    old = store.repo.refs.read(refs.TAGS + _check_name(store, name))
    if old is not None:
        id, tags = store.summary(store.peel(old)).id, store.tags()
        free = next(new for n in count(2) if (new := f"{name}-{n}") not in tags)
        error = AlreadyExists(
            f"tag {name} already exists, on {id}; nothing was saved",
            hint=f"gitcp save --tag {free}",
        )
        error.argument, error.suggestion = name, free
        raise error


def delete(store: Store, name: str) -> None:
    """Delete the tag `name`; its checkpoint stays. Raises BadValue, RevisionNotFound, StoreBusy."""
    ref = refs.TAGS + refs.check_name(name, "tag")
    with store.lock():
        old = store.repo.refs.read(ref)
        if old is None:
            raise RevisionNotFound(f"no tag named {name}", hint="gitcp tag")
        if not store.move_ref(ref, old, None):
            raise StoreBusy(
                f"tag {name} was moved by another process: it was left there",
                hint=f"gitcp show {name}",
            )


def listing(store: Store) -> list[tuple[str, Summary]]:
    """Return every tag by name with its checkpoint's summary: first our own, then fetched ones as
    `REMOTE/TAG`, unless we have the same tag. Raises StoreDamaged.
    """
    own = store.tags()
    fetched = {name: store.peel(oid) for name, oid in store.fetched("tags").items()}
    new = {n: commit for n, commit in fetched.items() if own.get(n.partition("/")[2]) != commit}
    return [(name, store.summary(commit)) for name, commit in {**own, **new}.items()]


def by_commit(store: Store) -> dict[Oid, tuple[str, ...]]:
    """Return the names of tags by the commit they are on; damaged ones are left to `gitcp
    check`.
    """
    names: dict[Oid, tuple[str, ...]] = {}
    for ref, commit in _commits(store, store.repo.refs.list(refs.TAGS)):
        names[commit] = (*names.get(commit, ()), ref.removeprefix(refs.TAGS))
    return names


def shown(store: Store) -> dict[Oid, tuple[str, ...]]:
    """Return what `by_commit` does, and fetched tags as `REMOTE/TAG`, unless a tag of this name is
    on the same commit.
    """
    names = by_commit(store)
    for name, commit in _commits(store, store.fetched("tags")):
        known = names.get(commit, ())
        if name.partition("/")[2] not in known:
            names[commit] = (*known, name)
    return names


def _commits(store: Store, tags: Mapping[str, Oid]) -> Iterator[tuple[str, Oid]]:
    """Yield tags with the commits they are on, without damaged ones."""
    for name, oid in tags.items():
        with suppress(StoreDamaged):
            yield name, store.peel(oid)


def _check_name(store: Store, name: str) -> str:
    """Return a tag's name. Raises BadValue if it would mean something else as a revision."""
    number = name.isdigit() and name.isascii()
    free = f"v{name}" if number else f"{name}-tag"
    if number:
        why = f"{name} means checkpoint {name}"
    elif name == LATEST or re.fullmatch(r"@[-~^0-9]*", name):
        why, free = "it means the last checkpoint, or one before it", "newest"
    elif re.fullmatch(r"[^@]+@[0-9]*", name):
        why, free = "it has the form of an id", name.replace("@", "-").strip("-")
    elif store.tip(refs.check_name(name, "tag")) is not None:
        why = "a session has this name"
    else:
        return name
    error = BadValue(f"a tag cannot be named {name}: {why}", hint=f"gitcp tag {free}")
    error.argument, error.suggestion = name, free
    raise error
