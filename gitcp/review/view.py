"""The story of a session for `gitcp view`: messages and changes by checkpoint. Reads only.

Every text written by a user or an agent goes through `mapped`, so redaction cannot miss one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from gitcp import progress
from gitcp.errors import RevisionNotFound
from gitcp.history import log
from gitcp.history.diff import Comparison, compare, tree_before
from gitcp.history.turns import Turn, turns
from gitcp.model import GITLINK, Checkpoint, FileChange, Oid
from gitcp.review.patches import FilePatch, parse
from gitcp.secrets import checkpoint_scan
from gitcp.secrets.checkpoint_scan import OURS, Finding, Sieve
from gitcp.store import Store, subject
from gitcp.value import Value, replace
from gitcp.worktree.paths import display

MOST_FILES = 200
LARGEST_FILE = 1 << 20
LARGEST_CHECKPOINT = 8 << 20

V = TypeVar("V")
Shown = tuple[list[bytes], list[bytes]]


class ViewStep(Value):
    """One checkpoint of the story. `patches` has the files whose changes are shown, `others` the
    paths of files that are too large or too many. `skipped` has the paths that were not captured,
    with the reason.
    """

    checkpoint: Checkpoint
    subject: str
    tags: tuple[str, ...]
    turn: Turn
    patches: tuple[FilePatch, ...]
    others: tuple[str, ...]
    skipped: tuple[str, ...]


class Story(Value):
    """Checkpoints of one session, oldest first. The first one includes all earlier messages."""

    session: str
    title: str
    steps: tuple[ViewStep, ...]


def story(store: Store, after: Oid | None, last: Oid) -> Story:
    """Return the story of the checkpoints after `after` (None: from the start) up to `last`.

    Raises RevisionNotFound for an empty range and StoreDamaged.
    """
    chain = [store.read(s.commit) for s in log.select(store, [last], log.Selection(after=after))]
    chain.reverse()
    if not chain:
        raise RevisionNotFound("no checkpoint in this range; nothing was written", hint="gitcp log")
    earlier = [store.read(after).conversation] if after else []
    story_turns = turns(store, [*earlier, *(each.conversation for each in chain)])[len(earlier) :]
    compared = progress.each(chain, "comparing", "checkpoints", len(chain))
    diffs = [compare(store, tree_before(store, each), each.root) for each in compared]
    sizes = _sizes(store, diffs)
    tags = log.tags(store)
    steps = [
        _step(store, each, tags.get(each.commit, ()), turn, _shown(diff, sizes))
        for each, turn, diff in zip(chain, story_turns, diffs, strict=True)
    ]
    return Story(chain[-1].id.session, _title(chain[-1], steps), tuple(steps))


def _title(last: Checkpoint, steps: Iterable[ViewStep]) -> str:
    """Return the conversation's title, else the objective, else the first prompt."""
    title = last.conversation.digest.title if last.conversation else None
    prompts = (
        message.text for step in steps for message in step.turn.messages if message.role == "user"
    )
    return title or last.note.objective or next(prompts, "") or subject(last)


def _step(
    store: Store, checkpoint: Checkpoint, tags: tuple[str, ...], turn: Turn, diff: Shown
) -> ViewStep:
    shown, others = diff
    patch = (
        compare(store, tree_before(store, checkpoint), checkpoint.root, shown).text()
        if shown
        else b""
    )
    skipped = tuple(
        f"{display(skip.path)}: {skip.reason.value}" for skip in checkpoint.snapshot.skipped
    )
    return ViewStep(
        checkpoint,
        subject(checkpoint),
        tags,
        turn,
        parse(patch),
        tuple(map(display, others)),
        skipped,
    )


def _sizes(store: Store, diffs: Iterable[Comparison]) -> dict[bytes, int]:
    """Return the size in bytes of every changed blob by its id, without reading the blobs."""
    oids = {oid for diff in diffs for change in diff.changes for oid in _blobs(change)}
    request = "".join(f"{oid}\n" for oid in sorted(oids)).encode("ascii")
    listed = store.repo.git("cat-file", "--batch-check=%(objectname) %(objectsize)", input=request)
    rows = (line.split(b" ") for line in listed.splitlines())
    return {row[0]: int(row[1]) for row in rows if row[1].isdigit()}


def _blobs(change: FileChange) -> list[Oid]:
    return [entry.oid for entry in (change.old, change.new) if entry and entry.mode != GITLINK]


def _shown(diff: Comparison, sizes: Mapping[bytes, int]) -> Shown:
    """Split the changed paths into those to show and those that are too large or too many."""
    shown: list[bytes] = []
    others: list[bytes] = []
    total = 0
    for change in diff.changes:
        size = sum(sizes.get(oid.encode("ascii"), 0) for oid in _blobs(change))
        if len(shown) < MOST_FILES and size <= LARGEST_FILE and total + size <= LARGEST_CHECKPOINT:
            shown.append(change.path)
            total += size
        else:
            others.append(change.path)
    return shown, others


def texts(story: Story) -> bytes:
    """Return all text of a story, for a scanner."""
    return _encoded("\n".join(_texts(story)))


def findings(story: Story, sieve: Sieve = OURS) -> tuple[Finding, ...]:
    """Return the secrets in a story, once for each checkpoint and place."""
    unique: dict[tuple[str, str, bytes, object], Finding] = {}
    for step in story.steps:
        id = step.checkpoint.id
        for kind, path, part in _parts(story, step):
            for text in _texts(part):
                for each in checkpoint_scan.in_text(_encoded(text), kind, path, sieve):
                    unique.setdefault((each.id, kind, path, id), replace(each, checkpoint=id))
    return tuple(unique.values())


def redacted(story: Story, sieve: Sieve = OURS) -> Story:
    """Return the story with every secret replaced by `[REDACTED:rule]`, except allowed ones."""
    return mapped(story, checkpoint_scan.Cleaner(sieve, [texts(story)]))


def _parts(story: Story, step: ViewStep) -> Iterator[tuple[str, bytes, object]]:
    yield "conversation", b"", step.turn
    for patch in step.patches:
        yield "file", patch.path.encode("utf-8"), patch
    yield "metadata", b"", (story.title, replace(step, turn=Turn(), patches=()))


def _texts(value: object) -> list[str]:
    collected: list[str] = []

    def collect(text: str) -> str:
        collected.append(text)
        return text

    mapped(value, collect)
    return collected


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def mapped(value: V, function: Callable[[str], str]) -> V:
    """Return a copy of `value` with `function` applied to every str in it, recursively. Times,
    bytes and enums are left alone.
    """
    given: Any = value
    copy: Any = value
    if type(given) is str:
        copy = function(given)
    elif isinstance(given, Value):
        copy = replace(
            given, **{name: mapped(getattr(given, name), function) for name in given.fields}
        )
    elif isinstance(given, Mapping):
        copy = {mapped(name, function): mapped(item, function) for name, item in given.items()}
    elif type(given) is tuple:
        copy = tuple(mapped(item, function) for item in given)
    result: V = copy
    return result
