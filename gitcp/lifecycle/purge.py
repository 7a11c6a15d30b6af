"""Purge: remove a text or path from every checkpoint, tag, the trash, and gitcp's own files.

A plan, then an apply. Ids stay, commits change. The working tree, the agent's files and git's own
history are not touched. Copies on remotes remain; the plan lists them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from gitcp import state_files, wire
from gitcp.errors import BadValue, GitcpError, Refused, RevisionNotFound, StoreDamaged
from gitcp.git import held, partial_clone, refs, repack, shared, trees
from gitcp.git.fsync import replace_file
from gitcp.git.repo import Repository
from gitcp.lifecycle.edit import Edit, Editor
from gitcp.model import Checkpoint, CheckpointId, Oid
from gitcp.secrets import checkpoint_scan
from gitcp.state import journal, rewrite, run_journal, trash
from gitcp.state.oplog import Operation
from gitcp.state.rewrite import RefMove
from gitcp.store import Store, Summary
from gitcp.value import EMPTY, Value

Text = Callable[[bytes], bytes]

CACHES = frozenset(state_files.named(is_cache=True))
"""Files that can be made again. A page may have the text in an encoding that is not searched."""

MARK = b"[PURGED]"
# A text that JSON spelled with `\u00F6`, `\u002B` or `\u0027` stayed after its purge.
ESCAPED = (r"[^\x00-\x7f]", r"[<>&]", r"[<>&]|[^\x00-\x7f]", r"[<>&'+`]", r"[<>&'+`]|[^\x00-\x7f]")
"""Characters that JSON writers escape in addition to the required ones: for ASCII, HTML, or
both.
"""

SHORTEST = 4
"""Bytes. Shorter texts occur everywhere."""


class PurgeRequest(Value):
    """What to remove: texts (encodings of one text) or paths.

    `said` describes it in the operation log, which must not contain the text itself.
    """

    said: str
    texts: tuple[bytes, ...] = ()
    paths: tuple[bytes, ...] = ()


class PurgePlan(Value):
    """What a purge would change: the checkpoints by place ("file a.txt", "conversation main",
    "words"), tags, and trash entries. `elsewhere` are remote tracking refs that contain it.
    `beside` are gitcp's own files.
    """

    places: Mapping[tuple[str, bytes], tuple[CheckpointId, ...]] = EMPTY
    tags: tuple[str, ...] = ()
    trash: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    beside: tuple[Path, ...] = ()

    @property
    def checkpoints(self) -> tuple[CheckpointId, ...]:
        """All checkpoints that would change."""
        return tuple(sorted({id for ids in self.places.values() for id in ids}))

    def __bool__(self) -> bool:
        return bool(self.places or self.tags or self.trash or self.beside)


class PurgeReport(Value):
    """The result. `operation` is None if no checkpoint or tag contained it."""

    plan: PurgePlan
    operation: Operation | None


def of_text(text: bytes) -> PurgeRequest:
    """Return the request for a text. Raises BadValue for one that is too short."""
    if len(text.strip()) < SHORTEST:
        raise BadValue(f"a text shorter than {SHORTEST} bytes is too common; nothing was purged")
    return PurgeRequest("a text", texts=(text,))


def of_secret(store: Store, id: str) -> PurgeRequest:
    """Return the request for a secret, by the ID of its finding. Raises
    RevisionNotFound if there is none.
    """
    secrets = checkpoint_scan.texts(
        store, dict.fromkeys(node.commit for node in _all_checkpoints(store))
    )
    if id not in secrets:
        raise RevisionNotFound(
            f"no checkpoint contains secret {id}; nothing was purged",
            hint="gitcp push --scan --all",
        )
    return PurgeRequest(f"secret {id}", texts=secrets[id])


def of_paths(paths: tuple[bytes, ...]) -> PurgeRequest:
    """Return the request for paths, each with everything below it. Raises BadValue for the whole
    tree.
    """
    if not paths or any(path.split(b"/")[0] in (b"", b".gitcp", b".git") for path in paths):
        raise BadValue(
            "the path must be inside the working tree; nothing was purged",
            hint="to remove a whole session: gitcp delete SESSION",
        )
    return PurgeRequest("a path", paths=paths)


def plan(store: Store, request: PurgeRequest) -> PurgePlan:
    """Return what `purge` would do. Creates no ref and keeps no object. Raises StoreDamaged and
    Refused.
    """
    scratch = Store(store.repo)
    try:
        return _plan(scratch, _edit(scratch, request))
    finally:
        scratch.writer.discard()


def purge(store: Store, request: PurgeRequest) -> PurgeReport:
    """Remove it from everything in this repository.

    Writes objects, refs under `refs/gitcp/` and files in `<git dir>/gitcp/`. Raises StoreDamaged
    if a checkpoint cannot be read, and Refused if a name contains it or a restore or run is
    open; nothing was changed then.
    """
    final = plan(store, request)
    if not final:
        return PurgeReport(final, None)
    # The slow part runs without the lock. Its objects are reused below.
    _edit(store, request)
    store.writer.flush(keep=True)
    with store.lock():
        rewrite.finish(store)
        editor = _edit(store, request)
        final = _plan(store, editor)
        moves = list(_moves(store, editor))
        store.writer.flush(keep=True)
        _clean_files(store.repo, editor.edit.text)
        done = None
        if moves:
            summary = f"{request.said} from {trash.summarize(final.checkpoints)}"
            operation = Operation(
                0, store.repo.host.now(), "purge", summary, store.repo.worktree_name
            )
            done = rewrite.carry_out(store, moves, operation)
        report = PurgeReport(final, done)
        # Release packs of killed saves, which may contain the text, for git to remove.
        repack.release_packs(store.repo)
        held.join(store.repo, settled=False)
        return report


def _edit(store: Store, request: PurgeRequest) -> Editor:
    """Edit everything that sessions, tags and trash reach."""
    _refuse_open(store)
    _refuse_names(store, request)
    editor = Editor(
        store,
        Edit(
            replacing(*request.texts),
            request.paths,
            across=any(b"\n" in text for text in request.texts),
        ),
    )
    editor.chains(_all_checkpoints(store))
    return editor


def replacing(*texts: bytes) -> Text:
    """Return a function that replaces texts by the mark, in each of their JSON encodings."""
    forms = sorted({form for text in texts for form in _forms(text)}, key=len, reverse=True)

    def edited(data: bytes) -> bytes:
        for form in forms:
            data = data.replace(form, MARK)
        return data

    return edited


def _forms(text: bytes) -> set[bytes]:
    """Return the encodings of a text: plain, in JSON, and in JSON inside JSON, with optional
    escapes.
    """
    forms = {text, text.decode("latin-1").encode("utf-8")}  # the second as in a LangGraph state
    for _ in range(2):
        forms |= {encoded for form in forms for encoded in _in_json(form)}
    return forms


def _in_json(text: bytes) -> set[bytes]:
    try:
        encoded = wire.dumps(text.decode("utf-8"))[1:-1].decode("utf-8")
    except UnicodeDecodeError:
        return set()
    escaped = [re.sub(kind, _escape, encoded) for kind in ESCAPED]
    large = [
        re.sub(kind, lambda match: _escape(match).upper().replace("U", "u"), encoded)
        for kind in ESCAPED
    ]
    return {
        form.encode("utf-8") for form in (encoded, encoded.replace("/", "\\/"), *escaped, *large)
    }


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


# ---------------------------------------------------------------- the plan


def _all_checkpoints(store: Store) -> Iterator[Summary]:
    """Yield every checkpoint that sessions, tags and the trash reach, parents first."""
    yield from rewrite.read(store).nodes.values()
    for entry in trash.entries(store):
        yield from entry.read(store).nodes.values()


def _moves(store: Store, editor: Editor) -> Iterator[RefMove]:
    """Yield the ref moves, including the trash's."""
    for prefix in (refs.SESSIONS, refs.TAGS, refs.TRASH):
        for ref, value in store.repo.refs.list(prefix).items():
            new = editor.tag(value, editor.becomes[store.peel(value)])
            if new != value:
                yield RefMove(ref, value, new)


def _plan(store: Store, editor: Editor) -> PurgePlan:
    by_place: dict[tuple[str, bytes], dict[CheckpointId, None]] = {}
    for old in editor.changed:
        before, after = store.read(old), store.read(editor.becomes[old])
        for location in _differences(store, before, after):
            by_place.setdefault((location[0], editor.edit.text(location[1])), {})[before.id] = None
    moved_refs = [move.ref for move in _moves(store, editor)]
    tags_moved = [ref.removeprefix(refs.TAGS) for ref in moved_refs if ref.startswith(refs.TAGS)]
    return PurgePlan(
        {location: tuple(sorted(ids)) for location, ids in sorted(by_place.items())},
        tuple(tags_moved),
        tuple(
            dict.fromkeys(
                r.removeprefix(refs.TRASH).partition("/")[0]
                for r in moved_refs
                if r.startswith(refs.TRASH)
            )
        ),
        _elsewhere(store, editor),
        tuple(path for path in _files(store.repo) if _has(path, editor.edit.text)),
    )


def _differences(
    store: Store, before: Checkpoint, after: Checkpoint
) -> Iterator[tuple[str, bytes]]:
    """Yield the places in which two versions of a checkpoint differ."""
    files = [
        change.path
        for change in trees.diff(store.reader, before.snapshot.tree, after.snapshot.tree)
    ]
    places = [
        ("file", path) for path in files if trees.lookup(store.reader, before.snapshot.tree, path)
    ]
    old, new = (each.conversation.streams if each.conversation else () for each in (before, after))
    places += [("conversation", a.name.encode()) for a, b in zip(old, new, strict=True) if a != b]
    places += [("results of steps", b"")] if before.steps != after.steps else []
    places += [("state of a graph", b"")] if before.state != after.state else []
    places += [("memory", b"")] if before.memory != after.memory else []
    places += [("state outside the files", b"")] if before.states != after.states else []
    words = (before.note, before.run, before.step, before.agent, before.extra) != (
        after.note,
        after.run,
        after.step,
        after.agent,
        after.extra,
    )
    yield from (places if places and not words else [*places, ("words", b"")])


def _elsewhere(store: Store, editor: Editor) -> tuple[str, ...]:
    """Return the remote tracking refs that contain it."""
    tracked = store.repo.refs.list(refs.REMOTES)
    scratch = Store(store.repo)
    other = Editor(scratch, editor.edit)
    try:
        return tuple(ref for ref, oid in tracked.items() if _contains(scratch, other, ref, oid))
    finally:
        scratch.writer.discard()


def _contains(store: Store, editor: Editor, ref: str, value: Oid) -> bool:
    """Return whether a ref reaches something to purge. Unreadable checkpoints
    (partial clone) count as such.
    """
    try:
        commit = store.peel(value)
        editor.chains(rewrite.read(store, {ref: commit}, {}).nodes.values())
        return editor.tag(value, editor.becomes[commit]) != value
    except StoreDamaged:
        return True


# ---------------------------------------------------------------- refusals


def _refuse_names(store: Store, request: PurgeRequest) -> None:
    """Raise Refused if a session or tag name contains the text: names are not rewritten."""
    texts = [text.decode("utf-8", "surrogateescape") for text in request.texts]
    for kind, names in (("session", store.sessions()), ("tag", store.tags())):
        name_found = next((name for name in names if any(text in name for text in texts)), None)
        if name_found is not None:
            hint = (
                "gitcp sessions rename OLD NEW" if kind == "session" else "gitcp tag --delete NAME"
            )
            raise Refused(
                f"the name of a {kind} contains the text, and names are not rewritten; nothing was "
                "purged",
                hint=hint,
            )


def _refuse_open(store: Store) -> None:
    """Raise Refused for an open restore or run: they refer to the current checkpoints."""
    for git_dir in _git_dirs(store.repo):
        repo = Repository(store.repo.root, git_dir, store.repo.host)
        if journal.unfinished(repo) is not None:
            raise Refused(
                "a restore is unfinished; nothing was purged", hint="gitcp restore --continue"
            )
        if run_journal.files(repo):
            raise Refused(
                "a run is open or was interrupted; nothing was purged", hint="gitcp run --recover"
            )


def _clean_files(repo: Repository, text: Text) -> None:
    """Delete the caches, which refer to purged objects, and edit all other files. Raises
    GitcpError.

    Partially fetched sessions are deleted too; they can be fetched again.
    """
    partial_clone.clear(repo)
    for path in _files(repo):
        try:
            if _is_cache(path):
                path.unlink(missing_ok=True)
            elif (edited := text(data := path.read_bytes())) != data:
                replace_file(path, edited)
        except OSError as error:
            raise _failed(error) from None


def _is_cache(path: Path) -> bool:
    directory, name = path.parts[-2:]
    return directory in CACHES or (directory == "gitcp" and state_files.of(name) in CACHES)


def _has(path: Path, text: Text) -> bool:
    try:
        data = path.read_bytes()
    except OSError as error:
        if _is_cache(path):  # another user's alone: it is deleted unread
            return False
        raise _failed(error) from None
    return text(data) != data


def _files(repo: Repository) -> Iterator[Path]:
    """Yield every file of gitcp's in any working tree. Raises GitcpError for a directory that
    cannot be read.
    """
    for directory in _git_dirs(repo):
        # A directory that could not be read was skipped, whatever it had of the text.
        for folder, subfolders, names in os.walk(directory / "gitcp", onerror=_fail):
            subfolders[:] = [name for name in subfolders if name != partial_clone.DIRECTORY]
            for path in (Path(folder, name) for name in sorted(names)):
                if path.is_file() and not path.is_symlink():
                    yield path


def _git_dirs(repo: Repository) -> Iterable[Path]:
    return (repo.common_dir, *sorted(repo.common_dir.glob("worktrees/*")))


def _fail(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise _failed(error)


def _failed(error: OSError) -> GitcpError:
    return GitcpError(
        f"cannot purge {error.filename}: {error.strerror}; no checkpoint was changed",
        hint=f"ls -ld {shared.quoted(str(error.filename))}",
    )
