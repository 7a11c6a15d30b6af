"""What a save writes down for gitcp.fastpath, so that the next one with nothing to do ends early.

A save that found nothing new, and every save of a hook, write down what decided so: stamps of the
files it came from. Both files are caches in `<git dir>/gitcp/`; where one cannot be written the
next save takes longer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gitcp import adapters
from gitcp.fastpath import answer, hook_memo, stat_check
from gitcp.git import config, fsync, refs, shared
from gitcp.policy.settings import Settings
from gitcp.saving.save import Saved
from gitcp.store import Store
from gitcp.worktree import basis

if TYPE_CHECKING:
    from gitcp.fastpath.hook_memo import Stamps


def remember_answer(store: Store, saved: Saved, options: Sequence[str], text: str) -> None:
    """Write down what decided that nothing changed; `text` is what was said. Not where more than
    files decided.
    """
    repo, snapshot = store.repo, saved.checkpoint.snapshot
    state = repo.state_dir / answer.STATE
    if (
        not answer.started
        or snapshot.nested
        or snapshot.submodules
        or repo.root != repo.git_dir.parent
        or not state.exists()
    ):
        return
    files = [(path, answer.stamp(path)) for path in sorted(set(_deciding(store, saved)))]
    if any(
        found is not None and found[-1] > answer.started[0] - answer.TICK_NS for _, found in files
    ):
        return
    identity = stat_check.identity(os.stat(state))
    _write(str(repo.state_dir / answer.MEMO), (answer.decided(options), files, identity, text))


def remember_settings(store: Store, found: Settings) -> None:
    """Write the settings down; not where a file they come from is so young that it may change
    unseen.
    """
    repo = store.repo
    own = config.stamps(repo.git_dir)
    others = [str(repo.root / hook_memo.TEAM), str(repo.git_dir / "HEAD")]
    files = [*own, *((path, hook_memo.short_stamp(path)) for path in others)]
    young = time.time_ns() - hook_memo.SETTLED_NS
    if own and not any(stamp is not None and stamp[-1] > young for _, stamp in files):
        _write(
            os.path.join(repo.git_dir, "gitcp", hook_memo.POLICY),
            (hook_memo.variables(), files, found.plain()),
        )


def deciding(store: Store) -> Stamps:
    """The stamps of what decides over a save besides the working tree; to be taken before the
    save.
    """
    repo = store.repo
    branch = repo.head().branch
    own = ("HEAD", "index", "gitcp/note", *answer.OPERATIONS)
    common = (
        "packed-refs",
        "info/exclude",
        "gitcp/damaged",
        *([f"refs/heads/{branch}"] if branch else []),
    )
    paths: Iterable[str] = (
        *(str(repo.git_dir / name) for name in own),
        *(str(repo.common_dir / name) for name in common),
        str(repo.root / hook_memo.TEAM),
        *config.files(repo.git_dir),
        *basis.files(repo),
    )
    return [(path, answer.stamp(path)) for path in sorted(set(paths))]


def remember_hook(
    store: Store,
    agent: str,
    session_id: str,
    saved: Saved,
    files: Stamps,
    named: str,
    *,
    missing: bool = False,
) -> None:
    """Write down what this save left nothing to do for; `named` is the transcript that the agent
    named.

    `missing` says that it was waited for, where it is not there.
    """
    repo, checkpoint = store.repo, saved.checkpoint
    snapshot = checkpoint.snapshot
    tip = (str(repo.common_dir / (refs.SESSIONS + checkpoint.id.session)), str(checkpoint.commit))
    memory = saved.taken.memory
    scan = (
        None if snapshot.nested or snapshot.submodules or memory is None else memory.file.identity
    )
    talk = _talk(saved) or (
        named,
        hook_memo.size_and_time(named) or (hook_memo.MISSING if missing else None),
    )
    _write(
        hook_memo.place(str(repo.git_dir), agent, session_id),
        (checkpoint.created.timestamp(), tip, files, scan, *talk, hook_memo.variables()),
    )


def _deciding(store: Store, saved: Saved) -> Iterable[str]:
    """Every file, there or not, that had a part in the answer."""
    repo = store.repo
    base = saved.checkpoint.snapshot.base
    own = (
        f"gitcp/{name}"
        for name in (answer.STATE, "current", "manual", "note", "restore.json", "damaged")
    )
    branch = f"refs/heads/{base.branch}"
    session = refs.SESSIONS + saved.checkpoint.id.session
    inside = (
        "HEAD",
        "index",
        *answer.OPERATIONS,
        *own,
        "packed-refs",
        "info/exclude",
        refs.SESSIONS,
        session,
        branch,
    )
    yield from (str(repo.git_dir / name) for name in inside)
    yield str(repo.root / ".gitcp.toml")
    yield from config.files(repo.git_dir)
    yield from basis.files(repo)
    yield from map(str, adapters.watched(repo.root, repo.host))
    yield from map(str, _sources(saved))


def _sources(saved: Saved) -> Iterable[Path]:
    """The files of the conversation and the directories beside the main one."""
    for source in saved.sources:
        if source.path is not None:
            yield source.path
            yield source.path.parent


def _talk(saved: Saved) -> tuple[str, tuple[int, ...] | None] | None:
    """The main file of the conversation that was saved, and its size and time if all of it was.

    None if there was no conversation. Of one that is in no file, nothing tells whether it went on.
    """
    main = next((source for source in saved.sources if source.path is not None), None)
    conversation = saved.checkpoint.conversation
    if conversation is None:
        return None
    if main is None:
        return "", ()
    written = hook_memo.size_and_time(str(main.path))
    stream = next((stream for stream in conversation.streams if stream.name == main.name), None)
    whole = stream is not None and written is not None and written[0] == stream.bytes + stream.torn
    return str(main.path), written if whole else ()


def _write(path: str, value: tuple[Any, ...]) -> None:
    try:
        shared.make_directory(os.path.dirname(path))
        fsync.replace_cache(path, value)
    except (OSError, ValueError):
        return
