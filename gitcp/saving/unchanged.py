"""Record what a save depended on for `gitcp.fastpath`, so that the next save with no changes exits
early.

A save with no changes, and every save of a hook, records fingerprints of the files that its result
depended on. Both files are caches in `<git dir>/gitcp/`: if one cannot be written, the next save
takes longer.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gitcp import adapters, clock, fingerprint
from gitcp.adapters import described
from gitcp.fastpath import answer, hook_memo
from gitcp.fingerprint import CTIME
from gitcp.git import config, fsync, refs, shared
from gitcp.policy import events
from gitcp.policy.settings import Settings
from gitcp.saving.save import Saved
from gitcp.store import Store
from gitcp.worktree import basis

if TYPE_CHECKING:
    from gitcp.fastpath.hook_memo import Fingerprints

TEAM = ".gitcp.toml"
SETTLED_NS = 2_000_000_000
FORGOTTEN = 30 * 86400
"""Seconds without an event after which a session of a hook is forgotten."""

TICK_NS = 20_000_000
"""More than a tick of the clock that stamps files: what is not older than the save by this much
could change unseen.
"""

OPERATIONS = (
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "BISECT_LOG",
    "rebase-merge",
    "rebase-apply",
)


def remember_answer(
    store: Store, saved: Saved, options: Sequence[str], text: str, started: int
) -> None:
    """Record the files that a "nothing changed" result depended on.

    `text` is the printed output, `started` the time in nanoseconds when the scan began. Records
    nothing if the result depended on more than files.
    """
    repo, snapshot = store.repo, saved.checkpoint.snapshot
    state = repo.state_dir / answer.STATE
    if (
        snapshot.nested
        or snapshot.submodules
        or not (repo.is_own or repo.root == repo.git_dir.parent)
        or not state.exists()
    ):
        return
    files = fingerprint.each(sorted(set(_deciding(store, saved))))
    newest_allowed = started - TICK_NS
    if any(seen is not None and seen[CTIME] > newest_allowed for _, seen in files):
        return
    scan = fingerprint.of(os.stat(state))
    more = described.variables()
    memo = (answer.decided(options, more), files, scan, text, more)
    _write(str(repo.state_dir / answer.MEMO), memo)


def remember_settings(store: Store, settings: Settings) -> None:
    """Record the settings, unless a file they come from is so recent that a change could be
    missed.
    """
    repo = store.repo
    own = config.fingerprints(repo.git_dir)
    other_paths = [str(repo.root / TEAM), *repo.refs.files()]
    files = [*own, *fingerprint.each(other_paths)]
    newest_allowed = clock.nanoseconds() - SETTLED_NS
    if own and not any(seen is not None and seen[CTIME] > newest_allowed for _, seen in files):
        _write(
            os.path.join(repo.git_dir, "gitcp", hook_memo.POLICY),
            (hook_memo.variables(), files, settings.plain()),
        )


def deciding(store: Store) -> Fingerprints:
    """Return fingerprints of the files besides the working tree that a save depends on; call it
    before the save.
    """
    repo = store.repo
    branch = repo.head().branch
    own = ("index", "gitcp/note", *OPERATIONS)
    common = ("info/exclude", "gitcp/damaged")
    paths: Iterable[str] = (
        *repo.refs.files(*([f"refs/heads/{branch}"] if branch else [])),
        *(str(repo.git_dir / name) for name in own),
        *(str(repo.common_dir / name) for name in common),
        str(repo.root / TEAM),
        *config.files(repo.git_dir),
        *basis.files(repo),
    )
    return fingerprint.each(sorted(set(paths)))


def remember_hook(
    store: Store,
    agent: str,
    session_id: str,
    saved: Saved,
    files: Fingerprints,
    named: str,
    *,
    missing: bool = False,
) -> None:
    """Record the state after which a hook has nothing to do.

    `named` is the transcript that the agent named; `missing` means that it did not appear although
    the save waited for it.
    """
    repo, checkpoint = store.repo, saved.checkpoint
    snapshot = checkpoint.snapshot
    ref_file = repo.refs.file(refs.SESSIONS + checkpoint.id.session)
    tip = (ref_file, str(checkpoint.commit) if ref_file else "")
    memory = saved.taken.memory
    is_alone = not snapshot.nested and not snapshot.submodules
    scan = memory.file.fingerprint if is_alone and memory is not None else None
    transcript = _main_file(saved) or (
        named,
        hook_memo.size_and_time(named) or (hook_memo.MISSING if missing else None),
    )
    _write(
        hook_memo.place(str(repo.git_dir), agent, session_id),
        (checkpoint.created.timestamp(), tip, files, scan, *transcript, hook_memo.variables()),
    )


def forget_old_hooks(git_dir: str) -> None:
    """Remove what is remembered of sessions inactive for a month."""
    for name in hook_memo.names(git_dir):
        path = os.path.join(git_dir, "gitcp", events.HOOKED, name)
        try:
            if os.stat(path).st_mtime < clock.seconds() - FORGOTTEN:
                os.unlink(path)
        except OSError:
            continue


def _deciding(store: Store, saved: Saved) -> Iterable[str]:
    """Yield the path of every file, existing or not, that affected the result."""
    repo = store.repo
    base = saved.checkpoint.snapshot.base
    state_names = (
        f"gitcp/{name}"
        for name in (
            *(answer.STATE, hook_memo.LATEST),
            *("current", "manual", "note", "restore.json", "damaged"),
        )
    )
    names = ("index", *OPERATIONS, *state_names, "info/exclude")
    yield from (str(repo.git_dir / name) for name in names)
    session = refs.SESSIONS + saved.checkpoint.id.session
    # a JSON document names the tags
    yield from repo.refs.files(f"refs/heads/{base.branch}", session, refs.SESSIONS, refs.TAGS)
    yield str(repo.root / TEAM)
    yield from config.files(repo.git_dir)
    yield from basis.files(repo)
    yield from map(str, adapters.watched(repo.root, repo.host))
    yield from map(str, _sources(saved))


def _sources(saved: Saved) -> Iterable[Path]:
    """Yield the files of the conversation and their directories."""
    for source in saved.sources:
        if source.path is not None:
            yield source.path
            yield source.path.parent


def _main_file(saved: Saved) -> tuple[str, tuple[int, ...] | None] | None:
    """Return the main file of the saved conversation, and its size and time if all of it was saved.

    Return None if there was no conversation. A conversation that is in no file cannot be checked
    for changes.
    """
    main = next((source for source in saved.sources if source.path is not None), None)
    conversation = saved.checkpoint.conversation
    if conversation is None:
        return None
    if main is None:
        return "", ()
    written = hook_memo.size_and_time(str(main.path))
    stream = next((stream for stream in conversation.streams if stream.name == main.name), None)
    is_complete = (
        stream is not None and written is not None and written[0] == stream.bytes + stream.torn
    )
    return str(main.path), written if is_complete else ()


def _write(path: str, value: tuple[Any, ...]) -> None:
    try:
        shared.make_directory(os.path.dirname(path))
        fsync.replace_cache(path, value)
    except (OSError, ValueError):
        return
