"""The story of a session, checkpoint by checkpoint: what was said, and what changed. Reads only.

Everything in it that somebody wrote passes one function (`mapped`), so what leaves is looked at
whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

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


class Step(Value):
    """One checkpoint of the story. `patches` are the files whose changes are shown, `others` the
    paths of those that are too large or too many. `skipped` says what was not captured.
    """

    checkpoint: Checkpoint
    subject: str
    tags: tuple[str, ...]
    turn: Turn
    patches: tuple[FilePatch, ...]
    others: tuple[str, ...]
    skipped: tuple[str, ...]


class Story(Value):
    """Checkpoints of a session, oldest first; the first one of them tells all that was said before
    it.
    """

    session: str
    title: str
    steps: tuple[Step, ...]


def story(store: Store, after: Oid | None, last: Oid) -> Story:
    """The story from the checkpoint after `after` (None: from the start) to `last`. Raises
    StoreDamaged.
    """
    chain = [store.read(s.commit) for s in log.select(store, [last], log.Selection(after=after))]
    chain.reverse()
    if not chain:
        raise RevisionNotFound(
            "there is no checkpoint in that range: nothing was written", hint="gitcp log"
        )
    earlier = [store.read(after).conversation] if after else []
    said = turns(store, [*earlier, *(each.conversation for each in chain)])[len(earlier) :]
    diffs = [compare(store, tree_before(store, each), each.root) for each in chain]
    sizes = _sizes(store, diffs)
    tags = log.tags(store)
    steps = [
        _step(store, each, tags.get(each.commit, ()), turn, _shown(diff, sizes))
        for each, turn, diff in zip(chain, said, diffs, strict=True)
    ]
    return Story(chain[-1].id.session, _title(chain[-1], steps), tuple(steps))


def _title(last: Checkpoint, steps: Iterable[Step]) -> str:
    """What the conversation is called, else what it is for, else what was asked first."""
    called = last.conversation.digest.title if last.conversation else None
    asked = (said.text for step in steps for said in step.turn.messages if said.role == "user")
    return called or last.note.objective or next(asked, "") or subject(last)


def _step(store: Store, found: Checkpoint, tags: tuple[str, ...], turn: Turn, diff: Shown) -> Step:
    shown, others = diff
    patch = compare(store, tree_before(store, found), found.root, shown).text() if shown else b""
    skipped = tuple(f"{display(skip.path)}: {skip.reason.value}" for skip in found.snapshot.skipped)
    return Step(
        found, subject(found), tags, turn, parse(patch), tuple(map(display, others)), skipped
    )


def _sizes(store: Store, diffs: Iterable[Comparison]) -> dict[bytes, int]:
    """How large every file is that changed, by its blob: asked of git, so that none is read."""
    oids = {oid for diff in diffs for change in diff.changes for oid in _blobs(change)}
    asked = "".join(f"{oid}\n" for oid in sorted(oids)).encode("ascii")
    listed = store.repo.git("cat-file", "--batch-check=%(objectname) %(objectsize)", input=asked)
    rows = (line.split(b" ") for line in listed.splitlines())
    return {row[0]: int(row[1]) for row in rows if row[1].isdigit()}


def _blobs(change: FileChange) -> list[Oid]:
    return [entry.oid for entry in (change.old, change.new) if entry and entry.mode != GITLINK]


def _shown(diff: Comparison, sizes: Mapping[bytes, int]) -> Shown:
    """The paths whose changes are shown, and all others: too large, or too many."""
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
    """All that a story says, for a scanner."""
    return _encoded("\n".join(_texts(story)))


def findings(story: Story, sieve: Sieve = OURS) -> tuple[Finding, ...]:
    """The secrets in a story, each once for every checkpoint and place that has it."""
    found: dict[tuple[str, str, bytes, object], Finding] = {}
    for step in story.steps:
        id = step.checkpoint.id
        for place, path, part in _parts(story, step):
            for text in _texts(part):
                for each in checkpoint_scan.in_text(_encoded(text), place, path, sieve):
                    found.setdefault((each.id, place, path, id), replace(each, checkpoint=id))
    return tuple(found.values())


def redacted(story: Story, sieve: Sieve = OURS) -> Story:
    """The same story with every secret replaced by `[REDACTED:rule]`, but for those that are
    allowed.
    """
    return mapped(story, checkpoint_scan.Cleaner(sieve, [texts(story)]))


def _parts(story: Story, step: Step) -> Iterator[tuple[str, bytes, object]]:
    yield "conversation", b"", step.turn
    for patch in step.patches:
        yield "file", patch.path.encode("utf-8"), patch
    yield "metadata", b"", (story.title, replace(step, turn=Turn(), patches=()))


def _texts(value: object) -> list[str]:
    found: list[str] = []

    def keep(text: str) -> str:
        found.append(text)
        return text

    mapped(value, keep)
    return found


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def mapped(value: V, function: Callable[[str], str]) -> V:
    """The same value with `function` of every text in it, however deep. Times, bytes and
    enumerations stay.
    """
    given: Any = value
    found: Any = value
    if type(given) is str:
        found = function(given)
    elif isinstance(given, Value):
        found = replace(
            given, **{name: mapped(getattr(given, name), function) for name in given.fields}
        )
    elif isinstance(given, Mapping):
        found = {mapped(name, function): mapped(item, function) for name, item in given.items()}
    elif type(given) is tuple:
        found = tuple(mapped(item, function) for item in given)
    result: V = found
    return result
