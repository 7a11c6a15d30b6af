"""The story of a change: the checkpoints behind its commits, with prompts, attempts and tests.
Reads only.

The same checkpoints and commits always give the same story. It contains complete plain texts: they
are scanned for secrets (`texts`) before a page truncates them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gitcp import wire
from gitcp.history import activity, authors, diffstat, tokens
from gitcp.history.activity import Activity, CommandRun
from gitcp.history.chains import Chain, ChainLines, load
from gitcp.history.diffstat import FileStat
from gitcp.history.usage import UsageReader
from gitcp.model import Checkpoint, Oid, Trigger
from gitcp.policy.settings import Settings
from gitcp.review import interdiff, links, sources
from gitcp.review.interdiff import Since
from gitcp.review.links import Commit, Link
from gitcp.review.sources import SourcedDiff
from gitcp.store import Store, subject
from gitcp.value import Value, replace

FOLLOWING = 20
"""Checkpoints after the last one of a change that are looked at."""

AFTER_TOOLS = (Trigger.TOOLS, Trigger.ON_TEST_FAILURE, Trigger.INTERVAL)


class ReviewedCommit(Value):
    """A commit of the change, how it was linked ("" if it was not), its checkpoints, its diff,
    which is empty unless requested, and the test runs that tested its content.
    """

    commit: str
    subject: str
    how: str
    checkpoints: tuple[str, ...]
    diff: SourcedDiff = SourcedDiff()
    tests: tuple[CommandRun, ...] = ()


class ReviewStep(Value):
    """One checkpoint of the story. `decided` and `failed` are the entries of its note that the
    checkpoint before it does not have.

    `run` is the command of a `gitcp run` with its exit code. `commits` are the commits it
    contributed to. `restored_from` is the id of the checkpoint that a restore went back to, "" for
    other checkpoints.
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
    restored_from: str = ""


class ReviewTokens(Value):
    """The tokens of the requests behind a change. `abandoned` are those of turns that a restore
    took back.
    """

    requests: int
    total: int
    abandoned: int


class Story(Value):
    """A change: its commits and checkpoints, oldest first. `objective` is the last one recorded, ""
    if there is none. `since` is set only if a comparison was requested. `onto` names what it is
    compared with, "" if that has no name.
    """

    base: str | None
    head: str | None
    branch: str | None
    commits: tuple[ReviewedCommit, ...]
    steps: tuple[ReviewStep, ...]
    since: Since | None
    objective: str = ""
    onto: str = ""
    tokens: ReviewTokens | None = None

    @property
    def request(self) -> tuple[str, str]:
        """The prompt that the work began with, and the id of its checkpoint; "" without one."""
        for step in sorted(self.steps, key=lambda step: step.created):
            if step.activity.prompts:
                return step.activity.prompts[0], step.id
        return "", ""


class ReviewRange(Value):
    """The commits after `base` up to `head`, and optionally one `session`.

    `reviewed` is the head of the last review, and `seen` the last checkpoint in it. `branch` is
    what was made, and `onto` what it is compared with, if they have names.
    """

    base: Oid | None
    head: Oid
    session: str | None = None
    reviewed: Oid | None = None
    seen: str | None = None
    branch: str = ""
    onto: str = ""


def build(store: Store, scope: ReviewRange, policy: Settings, *, diffs: bool = False) -> Story:
    """Return the story of a range, with the commits' `diffs` if a page shall show them. A given
    session is included whole; otherwise, only the part of each session that is related to the
    commits.

    Raises StoreDamaged where a chain is broken.
    """
    commits = links.commits(store, scope.base, scope.head)
    chains = load(store, store.base_tree(scope.base), scope.session)
    lines = ChainLines(store)
    linked = links.find(commits, chains, lines)
    names = {summary.commit: str(summary.id) for chain in chains for summary in chain.summaries}
    parts = [(chain, _part(chain, commits, linked, scope)) for chain in chains]
    attempts = [_attempts(store, *part, policy) for part in parts]
    steps = [
        step
        for part, tried in zip(parts, attempts, strict=True)
        for step in _steps(store, *part, linked, tried)
    ]
    shown = sources.diffs(store, commits, linked, chains, lines) if diffs else None
    since = None
    if scope.reviewed is not None or scope.seen is not None:
        since = interdiff.since(
            store, scope.base, commits, scope.reviewed, lines, _after(steps, scope.seen)
        )
    return Story(
        base=scope.base,
        head=scope.head,
        branch=scope.branch or store.repo.head().branch,
        onto=scope.onto,
        commits=tuple(
            _reviewed_commit(commit, linked.get(commit.oid), names, each, attempts)
            for commit, each in zip(commits, shown or [SourcedDiff()] * len(commits), strict=True)
        ),
        steps=tuple(steps),
        since=since,
        objective=_objective(store, parts),
        tokens=_tokens(store, parts),
    )


def _reviewed_commit(
    commit: Commit,
    link: Link | None,
    names: Mapping[Oid, str],
    shown: SourcedDiff,
    attempts: Sequence[Sequence[Attempt]],
) -> ReviewedCommit:
    if link is None:
        return ReviewedCommit(commit.oid, commit.subject, "", (), shown)
    ids = tuple(names[oid] for oid in link.checkpoints)
    paths = frozenset(change.path for change in commit.changes)
    runs = (_runs_that_tested(tried, link.checkpoints[-1], paths) for tried in attempts)
    tests = next(filter(None, runs), ())
    return ReviewedCommit(commit.oid, commit.subject, link.how.value, ids, shown, tests)


def _objective(store: Store, parts: Sequence[tuple[Chain, range]]) -> str:
    """Return the objective recorded with the newest checkpoint of the story."""
    last = [chain.summaries[part[-1]] for chain, part in parts if part]
    if not last:
        return ""
    newest = max(last, key=lambda summary: summary.created)
    return store.read(newest.commit).note.objective or ""


def _tokens(store: Store, parts: Sequence[tuple[Chain, range]]) -> ReviewTokens | None:
    """Return the tokens of the requests that came with the checkpoints of the story; None if no
    agent recorded any.
    """
    reader = UsageReader(store)
    told = [[chain.summaries[index] for index in reversed(part)] for chain, part in parts if part]
    requests = tokens.of_chains(reader, (list(store.read_all(each)) for each in told))
    commits = {summary.commit for summaries in told for summary in summaries}
    before = {summaries[-1].parent for summaries in told} - commits
    for parent in filter(None, before):
        for key, _ in tokens.of_checkpoint(reader, store.read(parent)):
            requests.pop(key, None)
    sums = tokens.Tokens()
    for request in requests.values():
        sums = sums.plus(request.tokens)
    return ReviewTokens(sums.requests, sums.total, sums.abandoned) if sums.requests else None


def _part(
    chain: Chain, commits: Sequence[Commit], linked_commits: Mapping[Oid, Link], scope: ReviewRange
) -> range:
    """Return the indexes of a chain's checkpoints that belong to the story: from the first one on
    the same base as the first linked one, up to the last linked one, including failed attempts in
    between.
    """
    if scope.session is not None:
        return range(len(chain.summaries))
    linked = {oid for link in linked_commits.values() for oid in link.checkpoints}
    indexes = [index for index, summary in enumerate(chain.summaries) if summary.commit in linked]
    commit_ids = {commit.oid for commit in commits}
    # Checkpoints based on a commit of the change continue it.
    indexes += [
        n
        for n, summary in enumerate(chain.summaries)
        if summary.trailers.get("Gitcp-Base") in commit_ids
    ]
    if not indexes:
        return range(0)
    first = min(indexes)
    base = chain.summaries[first].trailers.get("Gitcp-Base")
    while first and chain.summaries[first - 1].trailers.get("Gitcp-Base") == base:
        first -= 1
    return range(first, max(indexes) + 1)


def _attempts(store: Store, chain: Chain, part: range, policy: Settings) -> list[Attempt]:
    """Return the checkpoints of a part and some after it, with what happened before each."""
    if not part:
        return []
    end = part.stop + FOLLOWING
    summaries, changes = chain.summaries[part.start : end], chain.changes[part.start : end]
    parent = summaries[0].parent
    before = store.read(parent) if parent is not None else None
    checkpoints = list(store.read_all(summaries))
    activities = activity.read(store, checkpoints, before, policy)
    return [
        Attempt(each.commit, each.trigger, done, frozenset(file.path for file in changed))
        for each, done, changed in zip(checkpoints, activities, changes, strict=True)
    ]


def _steps(
    store: Store,
    chain: Chain,
    part: range,
    linked_commits: Mapping[Oid, Link],
    attempts: Sequence[Attempt],
) -> Iterator[ReviewStep]:
    if not part:
        return
    summaries = [chain.summaries[index] for index in part]
    parent = summaries[0].parent
    before = store.read(parent) if parent is not None else None
    checkpoints = list(store.read_all(summaries))
    activities = [attempt.activity for attempt in attempts[: len(part)]]
    changes = [
        (summary, chain.changes[index]) for summary, index in zip(summaries, part, strict=True)
    ]
    stats = diffstat.file_stats(store, changes, chain.floor if parent is None else None)
    commits: dict[Oid, list[str]] = {}
    for commit, link in linked_commits.items():
        for oid in link.checkpoints:
            commits.setdefault(oid, []).append(commit)
    line = authors.WorktreeHistory(store)
    for checkpoint, step_activity, counted in zip(checkpoints, activities, stats, strict=True):
        by = authors.others(line.changed_by(checkpoint), checkpoint.id.session)
        files = tuple(replace(file, by=str(by.get(file.path, ""))) for file in counted)
        yield _step(
            checkpoint, before, step_activity, files, tuple(commits.get(checkpoint.commit, ()))
        )
        before = checkpoint


def _step(
    checkpoint: Checkpoint,
    before: Checkpoint | None,
    step_activity: Activity,
    files: tuple[FileStat, ...],
    commits: tuple[str, ...],
) -> ReviewStep:
    note, agent, run = checkpoint.note, checkpoint.agent, checkpoint.run
    earlier = before.note.handoff if before else None
    return ReviewStep(
        id=str(checkpoint.id),
        created=wire.encode_time(checkpoint.created),
        title=subject(checkpoint).removeprefix(f"{checkpoint.trigger.value}: "),
        label=note.label or "",
        trigger=checkpoint.trigger.value,
        phase=note.phase or "",
        agent=" ".join(filter(None, (agent.name, agent.version, agent.model))) if agent else "",
        activity=step_activity,
        decided=_new(note.handoff.decisions, earlier.decisions if earlier else ()),
        failed=_new(note.handoff.failed, earlier.failed if earlier else ()),
        run=(" ".join(run.command), run.code) if run and run.command else None,
        files=files,
        commits=commits,
        restored_from=str(checkpoint.restored_from or ""),
    )


def _new(now: tuple[str, ...], before: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(each for each in now if each not in before)


def _after(steps: Sequence[ReviewStep], seen: str | None) -> tuple[str, ...] | None:
    """Return the ids of the checkpoints after `seen`, or None if `seen` is not in the story."""
    ids = [step.id for step in steps]
    return tuple(ids[ids.index(seen) + 1 :]) if seen in ids else None


# ---------------------------------------------------------------- texts, for scanning and redaction


def texts(value: Any) -> Iterator[str]:
    """Yield every text in a story."""
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
    """Return a copy of a story with `change` applied to every text."""
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


class Attempt(NamedTuple):
    """A checkpoint, what happened before it, and the paths it changed."""

    commit: Oid
    trigger: Trigger
    activity: Activity
    paths: frozenset[bytes]


def _runs_that_tested(
    attempts: Sequence[Attempt], last: Oid, paths: frozenset[bytes]
) -> tuple[CommandRun, ...]:
    """Return the test runs of a commit that changed `paths` and came from the checkpoint `last`.

    `attempts` are checkpoints of one session in order. An earlier run tested other content: it is
    not among them.
    """
    at = next((n for n, attempt in enumerate(attempts) if attempt.commit == last), None)
    if at is None:
        return ()
    return tuple(ran for ran in _commands(attempts[at:], paths) if ran.is_test)


def _commands(attempts: Sequence[Attempt], paths: frozenset[bytes]) -> Iterator[CommandRun]:
    own = attempts[0].activity
    if own.edits:
        yield from own.commands[own.edits[-1] :]
    elif attempts[0].trigger in AFTER_TOOLS:  # saved after the command that changed the files
        yield from own.commands[-1:]
    else:
        yield from own.commands
    for attempt in attempts[1:]:
        commands, edits = attempt.activity.commands, attempt.activity.edits
        # An edit that changed nothing is one that failed, or the last one: some agents write a call
        # to their transcript only after the hook.
        if attempt.paths & paths or (edits and attempt.paths):
            yield from commands[: edits[0]] if edits else ()
            return
        yield from commands
