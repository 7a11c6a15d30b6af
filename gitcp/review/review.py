"""The story of a change: which checkpoints led to which commits, what was asked, tried and run on
the way. Reads only.

The same checkpoints and commits give the same story, whoever tells it and when. It holds plain
texts and numbers, and no half of a text: what leaves is scanned whole (`texts`), and cut where it
is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gitcp import wire
from gitcp.history import activity, diff, diffstat
from gitcp.history.activity import Activity
from gitcp.history.chains import Chain, Lines, load
from gitcp.history.diffstat import FileStat
from gitcp.model import Checkpoint, Oid
from gitcp.policy.settings import Settings
from gitcp.review import interdiff, links
from gitcp.review.interdiff import Since
from gitcp.review.links import Commit, Link
from gitcp.store import Store, subject
from gitcp.value import Value


class Told(Value):
    """A commit of the change, how it was linked ("" where it was not), and the checkpoints that led
    to it.
    """

    commit: str
    subject: str
    how: str
    checkpoints: tuple[str, ...]


class Step(Value):
    """One checkpoint of the story: `decided` and `failed` is what its note says and the one before
    did not.

    `run` is the command of a `gitcp run` and its exit code. `commits` are those that it had a part
    in.
    """

    id: str
    created: str
    title: str
    label: str
    trigger: str
    phase: str
    agent: str
    activity: Activity
    decided: tuple[str, ...]
    failed: tuple[str, ...]
    run: tuple[str, int | None] | None
    files: tuple[FileStat, ...]
    commits: tuple[str, ...]


class Story(Value):
    """A change: its commits and its checkpoints, the oldest first; `since` is what is new, where
    that was asked.
    """

    base: str | None
    head: str | None
    branch: str | None
    commits: tuple[Told, ...]
    steps: tuple[Step, ...]
    since: Since | None


class Asked(Value):
    """What is to be told: the commits after `base` up to `head`, of every session or of `session`
    alone.

    `reviewed` is the head of the last review and `seen` the last checkpoint in it.
    """

    base: Oid | None
    head: Oid
    session: str | None = None
    reviewed: Oid | None = None
    seen: str | None = None


def tell(store: Store, asked: Asked, policy: Settings) -> Story:
    """The story. A session that was asked for is told whole; else as much of each as has to do with
    the commits.

    Raises StoreDamaged where a chain breaks.
    """
    commits = links.commits(store, asked.base, asked.head)
    chains = load(store, diff.base_tree(store, asked.base), asked.session)
    lines = Lines(store)
    found = links.find(commits, chains, lines)
    names = {summary.commit: str(summary.id) for chain in chains for summary in chain.summaries}
    steps = [
        step
        for chain in chains
        for step in _steps(store, chain, _part(chain, commits, found, asked), found, policy)
    ]
    since = None
    if asked.reviewed is not None or asked.seen is not None:
        since = interdiff.since(
            store, asked.base, commits, asked.reviewed, lines, _after(steps, asked.seen)
        )
    return Story(
        base=asked.base,
        head=asked.head,
        branch=store.repo.head().branch,
        commits=tuple(_told(commit, found.get(commit.oid), names) for commit in commits),
        steps=tuple(steps),
        since=since,
    )


def _told(commit: Commit, link: Link | None, names: Mapping[Oid, str]) -> Told:
    ids = tuple(names[oid] for oid in link.checkpoints) if link else ()
    return Told(commit.oid, commit.subject, link.how.value if link else "", ids)


def _part(
    chain: Chain, commits: Sequence[Commit], found: Mapping[Oid, Link], asked: Asked
) -> range:
    """The places of a chain that belong to the story: from the first checkpoint on the same base as
    the first that led to a commit, up to the last one that did, with what was tried in between.
    """
    if asked.session is not None:
        return range(len(chain.summaries))
    linked = {oid for link in found.values() for oid in link.checkpoints}
    places = [place for place, summary in enumerate(chain.summaries) if summary.commit in linked]
    own = {commit.oid for commit in commits}
    # What stands on a commit of the change is work that goes on.
    places += [
        n for n, summary in enumerate(chain.summaries) if summary.trailers.get("Gitcp-Base") in own
    ]
    if not places:
        return range(0)
    first = min(places)
    base = chain.summaries[first].trailers.get("Gitcp-Base")
    while first and chain.summaries[first - 1].trailers.get("Gitcp-Base") == base:
        first -= 1
    return range(first, max(places) + 1)


def _steps(
    store: Store, chain: Chain, part: range, found: Mapping[Oid, Link], policy: Settings
) -> Iterator[Step]:
    if not part:
        return
    summaries = [chain.summaries[place] for place in part]
    parent = summaries[0].parent
    before = store.read(parent) if parent is not None else None
    checkpoints = [store.read(summary.commit) for summary in summaries]
    activities = activity.read(store, checkpoints, before, policy)
    changes = [
        (summary.commit, chain.changes[place])
        for summary, place in zip(summaries, part, strict=True)
    ]
    stats = diffstat.of(store, changes, chain.floor if parent is None else None)
    commits: dict[Oid, list[str]] = {}
    for commit, link in found.items():
        for oid in link.checkpoints:
            commits.setdefault(oid, []).append(commit)
    for checkpoint, done, files in zip(checkpoints, activities, stats, strict=True):
        yield _step(checkpoint, before, done, files, tuple(commits.get(checkpoint.commit, ())))
        before = checkpoint


def _step(
    checkpoint: Checkpoint,
    before: Checkpoint | None,
    done: Activity,
    files: tuple[FileStat, ...],
    commits: tuple[str, ...],
) -> Step:
    note, agent, run = checkpoint.note, checkpoint.agent, checkpoint.run
    earlier = before.note.handoff if before else None
    return Step(
        id=str(checkpoint.id),
        created=wire.encode_time(checkpoint.created),
        title=subject(checkpoint),
        label=note.label or "",
        trigger=checkpoint.trigger.value,
        phase=note.phase or "",
        agent=" ".join(filter(None, (agent.name, agent.version, agent.model))) if agent else "",
        activity=done,
        decided=_new(note.handoff.decisions, earlier.decisions if earlier else ()),
        failed=_new(note.handoff.failed, earlier.failed if earlier else ()),
        run=(" ".join(run.command), run.code) if run and run.command else None,
        files=files,
        commits=commits,
    )


def _new(now: tuple[str, ...], before: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(each for each in now if each not in before)


def _after(steps: Sequence[Step], seen: str | None) -> tuple[str, ...] | None:
    """The checkpoints behind the last one that was seen; None where it is not in the story."""
    ids = [step.id for step in steps]
    return tuple(ids[ids.index(seen) + 1 :]) if seen in ids else None


# ---------------------------------------------------------------- what leaves


def texts(value: Any) -> Iterator[str]:
    """Every text in a story."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes):
        yield value.decode("utf-8", "replace")
    elif isinstance(value, Value):
        for name in value.fields:
            yield from texts(getattr(value, name))
    elif isinstance(value, tuple):
        for each in value:
            yield from texts(each)


def rewritten(value: Any, change: Callable[[bytes], bytes]) -> Any:
    """The same story with every text changed."""
    if isinstance(value, str):
        return change(value.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
    if isinstance(value, bytes):
        return change(value)
    if isinstance(value, Value):
        return type(value)(
            **{name: rewritten(getattr(value, name), change) for name in value.fields}
        )
    if isinstance(value, tuple):
        return tuple(rewritten(each, change) for each in value)
    return value
