"""The story of a session for `gitcp view`: messages and changes by checkpoint. Reads only.

Every text written by a user or an agent goes through `mapped`, so redaction cannot miss one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from gitcp import progress
from gitcp.errors import RevisionNotFound
from gitcp.history import log
from gitcp.history.diff import tree_before
from gitcp.history.turns import Turn, turns
from gitcp.model import Checkpoint, Oid
from gitcp.review.page_diff import PageDiff, page_diffs
from gitcp.review.patches import FilePatch
from gitcp.secrets import checkpoint_scan
from gitcp.secrets.checkpoint_scan import OURS, Finding, Sieve
from gitcp.sharing import filtered
from gitcp.state import tag
from gitcp.store import Store, subject
from gitcp.value import Value, replace
from gitcp.worktree.paths import display

V = TypeVar("V")


class ViewStep(Value):
    """One checkpoint of the story. `title` is its label or its prompt. `patches` has the files
    whose changes are shown, `others` the paths of files that are withheld, too large or too many.
    `skipped` has the paths that were not captured, with the reason.
    """

    checkpoint: Checkpoint
    title: str
    tags: tuple[str, ...]
    turn: Turn
    patches: tuple[FilePatch, ...]
    others: tuple[str, ...]
    skipped: tuple[str, ...]


class ViewStory(Value):
    """Checkpoints of one session, oldest first. The first one includes all earlier messages.
    `withheld` lists the files that are only named, with git's filters. `root` is the working tree,
    below which agents name files by absolute paths.
    """

    session: str
    title: str
    steps: tuple[ViewStep, ...]
    withheld: tuple[str, ...] = ()
    root: str = ""


def story(store: Store, after: Oid | None, last: Oid, *, leaves: bool = False) -> ViewStory:
    """Return the story of the checkpoints after `after` (None: from the start) up to `last`. If it
    `leaves` the machine, files that git filters in commits are named and not shown.

    Raises RevisionNotFound for an empty range and StoreDamaged.
    """
    chain = list(store.read_all(log.select(store, [last], log.Selection(after=after))))
    chain.reverse()
    if not chain:
        raise RevisionNotFound("no checkpoint in this range; nothing was written", hint="gitcp log")
    earlier = [store.read(after).conversation] if after else []
    story_turns = turns(store, [*earlier, *(each.conversation for each in chain)])[len(earlier) :]
    pairs = list(_pairs(store, chain))
    drivers = filtered.in_changes(store, pairs) if leaves else {}
    diffs = page_diffs(store, pairs, drivers)
    tags = tag.by_commit(store)
    steps = [
        _step(each, tags.get(each.commit, ()), turn, diff)
        for each, turn, diff in zip(chain, story_turns, diffs, strict=True)
    ]
    withheld = filtered.lines(drivers)
    root = display(os.fsencode(store.repo.root))
    return ViewStory(chain[-1].id.session, _title(chain[-1], steps), tuple(steps), withheld, root)


def _pairs(store: Store, chain: Sequence[Checkpoint]) -> Iterator[tuple[Oid | None, Oid]]:
    """Yield what to compare for each checkpoint: the tree before, and its own."""
    roots = {each.commit: each.root for each in chain}
    for each in progress.each(chain, "comparing", "checkpoints", len(chain)):
        before = roots[each.parent] if each.parent in roots else tree_before(store, each)
        yield before, each.root


def _title(last: Checkpoint, steps: Iterable[ViewStep]) -> str:
    """Return the conversation's title, else the objective, else the first prompt."""
    title = last.conversation.digest.title if last.conversation else None
    prompts = (
        message.text for step in steps for message in step.turn.messages if message.role == "user"
    )
    return title or last.note.objective or next(prompts, "") or subject(last)


def _step(checkpoint: Checkpoint, tags: tuple[str, ...], turn: Turn, diff: PageDiff) -> ViewStep:
    skipped = tuple(
        f"{display(skip.path)}: {skip.reason.value}" for skip in checkpoint.snapshot.skipped
    )
    others = tuple(map(display, diff.others))
    title = subject(checkpoint).removeprefix(f"{checkpoint.trigger.value}: ")
    return ViewStep(checkpoint, title, tags, turn, diff.files, others, skipped)


def texts(story: ViewStory) -> bytes:
    """Return all text of a story, for a scanner."""
    return _encoded("\n".join(_texts(story)))


def findings(story: ViewStory, sieve: Sieve = OURS) -> tuple[Finding, ...]:
    """Return the secrets in a story, once for each checkpoint and place.

    Everything is scanned at once, and text by text only if something was found: nearly always
    nothing is, and a story of 10,000 checkpoints has half a million texts.
    """
    if not checkpoint_scan.in_text(texts(story), "view", sieve=sieve):
        return ()
    unique: dict[tuple[str, str, bytes, object], Finding] = {}
    for step in story.steps:
        id = step.checkpoint.id
        for kind, path, part in _parts(story, step):
            for text in _texts(part):
                for each in checkpoint_scan.in_text(_encoded(text), kind, path, sieve):
                    unique.setdefault((each.id, kind, path, id), replace(each, checkpoint=id))
    return tuple(unique.values())


def redacted(story: ViewStory, sieve: Sieve = OURS) -> ViewStory:
    """Return the story with every secret replaced by `[REDACTED:rule]`, except allowed ones."""
    return mapped(story, checkpoint_scan.Cleaner(sieve, [texts(story)]))


def _parts(story: ViewStory, step: ViewStep) -> Iterator[tuple[str, bytes, object]]:
    yield "conversation", b"", step.turn
    for patch in step.patches:
        yield "file", patch.path.encode("utf-8"), patch
    about = (story.session, story.title, story.withheld, replace(step, turn=Turn(), patches=()))
    yield "metadata", b"", about


def _texts(value: object) -> list[str]:
    """Return every text that `mapped` would change. Makes no copies, for pages of many steps."""
    collected: list[str] = []
    waiting = [value]
    while waiting:
        given = waiting.pop()
        if type(given) is str:
            collected.append(given)
        elif isinstance(given, Value):
            waiting += filter(None, given.__dict__.values())
        elif isinstance(given, (tuple, list)):  # a checkpoint's id, a list in the position
            waiting += filter(None, given)
        elif isinstance(given, Mapping):
            waiting += (*given, *given.values())
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
    elif isinstance(given, (tuple, list)):
        items = [mapped(item, function) for item in given]
        copy = type(given)(items) if type(given) in (tuple, list) else type(given)(*items)
    result: V = copy
    return result
