"""Tags: the names of milestones. Annotated tag objects under `refs/gitcp/tags/`, which no `git push
--tags` carries.

A tag is on one checkpoint. It keeps that checkpoint from being pruned and is a revision by itself;
it says nothing that the checkpoint does not say, so deleting one loses a name and no work.
"""

from __future__ import annotations

from datetime import datetime

from gitcp.errors import Refused, RevisionNotFound, StoreBusy
from gitcp.git import refs
from gitcp.model import Checkpoint, Oid
from gitcp.store import Store, Summary, subject


def create(
    store: Store, name: str, checkpoint: Checkpoint, *, text: str | None, force: bool, now: datetime
) -> None:
    """Put the tag `name` on a checkpoint; `text` is its message, the checkpoint's subject where
    there is none.

    A tag that is on this checkpoint already stays as it is, unless `force`. Writes one object and
    one ref. Raises BadValue for a name that cannot be one, Refused if the tag is on another
    checkpoint and not `force`, StoreBusy.
    """
    ref = refs.TAGS + refs.check_name(name, "tag")
    with store.lock():
        old = refs.read_ref(store.repo.common_dir, ref)
        if old is not None and not force:
            if store.peel(old) == checkpoint.commit:
                return
            raise _taken(store, name, old)
        new = store.write_tag(name, checkpoint, text or subject(checkpoint), now)
        if not refs.update_ref(store.repo.common_dir, ref, new, old):
            raise StoreBusy(
                f"tag {name} was moved by another process: it was left there",
                hint=f"gitcp show {name}",
            )


def check_free(store: Store, name: str) -> None:
    """Raise what `create` would raise for a checkpoint that is still to be made."""
    old = refs.read_ref(store.repo.common_dir, refs.TAGS + refs.check_name(name, "tag"))
    if old is not None:
        raise _taken(store, name, old)


def delete(store: Store, name: str) -> None:
    """Take the tag `name` away; its checkpoint stays. Raises BadValue, RevisionNotFound,
    StoreBusy.
    """
    ref = refs.TAGS + refs.check_name(name, "tag")
    with store.lock():
        old = refs.read_ref(store.repo.common_dir, ref)
        if old is None:
            raise RevisionNotFound(f"there is no tag {name}", hint="gitcp tag")
        if not store.move_ref(ref, old, None):
            raise StoreBusy(
                f"tag {name} was moved by another process: it was left there",
                hint=f"gitcp show {name}",
            )


def listing(store: Store) -> list[tuple[str, Summary]]:
    """Every tag by name, and what its checkpoint says. Raises StoreDamaged."""
    return [(name, store.summary(commit)) for name, commit in store.tags().items()]


def _taken(store: Store, name: str, old: Oid) -> Refused:
    where = store.summary(store.peel(old)).id
    return Refused(
        f"tag {name} is on {where} already: it was left there", hint=f"gitcp tag --force {name}"
    )
