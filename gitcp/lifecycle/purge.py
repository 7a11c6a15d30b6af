"""Purge: take a text or a path out of every checkpoint, out of tags, the trash and what gitcp keeps
beside them.

A plan, then an apply. Ids stay, commits change. Nothing of the user's is touched: not the working
tree, not the agent's files, not git's own history. What was sent somewhere is there still; the plan
says where.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gitcp import wire
from gitcp.errors import BadValue, Refused, RevisionNotFound, StoreDamaged
from gitcp.git import refs, repack, trees
from gitcp.git.repo import Repository
from gitcp.lifecycle import scrub_state
from gitcp.lifecycle.edit import Edit, Editor
from gitcp.model import Checkpoint, CheckpointId, Oid
from gitcp.secrets import checkpoint_scan
from gitcp.state import journal, rewrite, trash
from gitcp.state.oplog import Operation
from gitcp.state.rewrite import Move
from gitcp.store import Store, Summary
from gitcp.value import EMPTY, Value

MARK = b"[PURGED]"
ESCAPED = (r"[^\x00-\x7f]", r"[<>&]", r"[<>&]|[^\x00-\x7f]", r"[<>&'+`]", r"[<>&'+`]|[^\x00-\x7f]")
"""What writers of JSON escape besides what they must: for ASCII, for HTML, and more carefully."""

SHORTEST = 4
"""Bytes. What is shorter stands in everything."""


class Request(Value):
    """What is to go: texts (one, in each of the ways it is written) or paths.

    `said` says it in the operation log, which must not hold the text itself.
    """

    said: str
    texts: tuple[bytes, ...] = ()
    paths: tuple[bytes, ...] = ()


class Plan(Value):
    """What a purge would change: by place ("file a.txt", "conversation main", "words") the
    checkpoints, the tags, and entries of the trash. `elsewhere` are refs of remotes that have it:
    what was sent there, or fetched from there. `beside` are files of gitcp's own.
    """

    places: Mapping[tuple[str, bytes], tuple[CheckpointId, ...]] = EMPTY
    tags: tuple[str, ...] = ()
    trash: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    beside: tuple[Path, ...] = ()

    @property
    def checkpoints(self) -> tuple[CheckpointId, ...]:
        """All that would be changed."""
        return tuple(sorted({id for ids in self.places.values() for id in ids}))

    def __bool__(self) -> bool:
        return bool(self.places or self.tags or self.trash or self.beside)


class Report(Value):
    """What was done. `operation` is None where no checkpoint or tag held it."""

    plan: Plan
    operation: Operation | None


def of_text(text: bytes) -> Request:
    """The request for a text. Raises BadValue for one that is too short to be meant."""
    if len(text.strip()) < SHORTEST:
        raise BadValue(
            f"a text of less than {SHORTEST} bytes stands everywhere: nothing was purged"
        )
    return Request("a text", texts=(text,))


def of_secret(store: Store, id: str) -> Request:
    """The request for the text of a secret, by the ID of its finding. Raises RevisionNotFound if
    there is none.
    """
    found = checkpoint_scan.texts(store, dict.fromkeys(node.commit for node in _everything(store)))
    if id not in found:
        raise RevisionNotFound(
            f"no checkpoint holds a secret {id}: nothing was purged", hint="gitcp secrets --all"
        )
    return Request(f"secret {id}", texts=found[id])


def of_paths(paths: tuple[bytes, ...]) -> Request:
    """The request for paths, each with all below it. Raises BadValue for the whole tree."""
    if not paths or any(path.split(b"/")[0] in (b"", b".gitcp", b".git") for path in paths):
        raise BadValue(
            "name a path inside of the working tree: nothing was purged",
            hint="gitcp delete SESSION",
        )
    return Request("a path", paths=paths)


def plan(store: Store, request: Request) -> Plan:
    """What `purge` would do. Names nothing, and keeps no object. Raises StoreDamaged, Refused."""
    scratch = Store(store.repo)
    try:
        return _plan(scratch, _edited(scratch, request))
    finally:
        scratch.objects.discard()


def purge(store: Store, request: Request) -> Report:
    """Take it out of everything that is here.

    Writes objects, refs under `refs/gitcp/` and files in `<git dir>/gitcp/`; nothing else. Raises
    StoreDamaged if a checkpoint cannot be read, Refused if its name holds it, or a restore or run
    is unfinished: nothing was changed.
    """
    made = plan(store, request)
    if not made:
        return Report(made, None)
    # the long part, before others have to wait; what it wrote is found again
    _edited(store, request)
    store.objects.flush(held=True)
    with store.lock():
        rewrite.finish(store)
        editor = _edited(store, request)
        made = _plan(store, editor)
        moves = list(_moves(store, editor))
        store.objects.flush(held=True)
        scrub_state.clean(store.repo, editor.edit.text)
        report = Report(
            made,
            rewrite.carry_out(store, moves, _operation(store, request, made)) if moves else None,
        )
        # what a killed save left, and the text in it, is git's to remove
        repack.let_go_of_held(store.repo)
        return report


def _operation(store: Store, request: Request, made: Plan) -> Operation:
    said = f"{request.said} from {trash.said(made.checkpoints)}"
    return Operation(0, store.repo.host.now(), "purge", said, store.repo.worktree_name)


def _edited(store: Store, request: Request) -> Editor:
    """Everything that sessions, tags and trash reach, edited."""
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
    editor.chains(_everything(store))
    return editor


def replacing(*texts: bytes) -> scrub_state.Text:
    """What puts the mark in the place of texts, however JSON may have written them."""
    forms = sorted({form for text in texts for form in _forms(text)}, key=len, reverse=True)

    def edited(data: bytes) -> bytes:
        for form in forms:
            data = data.replace(form, MARK)
        return data

    return edited


def _forms(text: bytes) -> set[bytes]:
    """The text as it is, in JSON, and in JSON that stands in JSON, with whatever their writers
    escape.
    """
    forms = {text, text.decode("latin-1").encode("utf-8")}  # the other as a state of a graph has it
    for _ in range(2):
        forms |= {spelt for form in forms for spelt in _in_json(form)}
    return forms


def _in_json(text: bytes) -> set[bytes]:
    try:
        plain = wire.dumps(text.decode("utf-8"))[1:-1].decode("utf-8")
    except UnicodeDecodeError:
        return set()
    escaped = [re.sub(kind, _escape, plain) for kind in ESCAPED]
    large = [
        re.sub(kind, lambda match: _escape(match).upper().replace("U", "u"), plain)
        for kind in ESCAPED
    ]
    return {form.encode("utf-8") for form in (plain, plain.replace("/", "\\/"), *escaped, *large)}


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[place : place + 2].hex()}" for place in range(0, len(units), 2))


# ---------------------------------------------------------------- what there is


def _everything(store: Store) -> Iterator[Summary]:
    """Every checkpoint that sessions, tags and the trash reach, each after the one before it."""
    yield from rewrite.read(store).nodes.values()
    for entry in trash.entries(store):
        yield from entry.read(store).nodes.values()


def _moves(store: Store, editor: Editor) -> Iterator[Move]:
    """The refs that follow their commits, those of the trash too."""
    for prefix in (refs.SESSIONS, refs.TAGS, refs.TRASH):
        for ref, value in refs.list_refs(store.repo.common_dir, prefix).items():
            new = editor.tag(value, editor.becomes[store.peel(value)])
            if new != value:
                yield Move(ref, value, new)


def _plan(store: Store, editor: Editor) -> Plan:
    places: dict[tuple[str, bytes], dict[CheckpointId, None]] = {}
    for old in editor.changed:
        before, after = store.read(old), store.read(editor.becomes[old])
        for place in _differing(store, before, after):
            places.setdefault((place[0], editor.edit.text(place[1])), {})[before.id] = None
    moved = [move.ref for move in _moves(store, editor)]
    texts = [ref.removeprefix(refs.TAGS) for ref in moved if ref.startswith(refs.TAGS)]
    return Plan(
        {place: tuple(sorted(ids)) for place, ids in sorted(places.items())},
        tuple(texts),
        tuple(
            dict.fromkeys(
                r.removeprefix(refs.TRASH).partition("/")[0]
                for r in moved
                if r.startswith(refs.TRASH)
            )
        ),
        _elsewhere(store, editor),
        scrub_state.holding(store.repo, editor.edit.text),
    )


def _differing(store: Store, before: Checkpoint, after: Checkpoint) -> Iterator[tuple[str, bytes]]:
    """Where two forms of a checkpoint differ."""
    files = [
        change.path
        for change in trees.diff(store.objects, before.snapshot.tree, after.snapshot.tree)
    ]
    found = [
        ("file", path) for path in files if trees.lookup(store.objects, before.snapshot.tree, path)
    ]
    old, new = (each.conversation.streams if each.conversation else () for each in (before, after))
    found += [("conversation", a.name.encode()) for a, b in zip(old, new, strict=True) if a != b]
    found += [("results of steps", b"")] if before.steps != after.steps else []
    found += [("state of a graph", b"")] if before.state != after.state else []
    words = (before.note, before.run, before.agent, before.extra) != (
        after.note,
        after.run,
        after.agent,
        after.extra,
    )
    yield from (found if found and not words else [*found, ("words", b"")])


def _elsewhere(store: Store, editor: Editor) -> tuple[str, ...]:
    """The refs of remotes behind which it stands."""
    tracked = refs.list_refs(store.repo.common_dir, refs.REMOTES)
    scratch = Store(store.repo)
    other = Editor(scratch, editor.edit)
    try:
        return tuple(
            ref for ref, oid in tracked.items() if _stands_behind(scratch, other, ref, oid)
        )
    finally:
        scratch.objects.discard()


def _stands_behind(store: Store, editor: Editor, ref: str, value: Oid) -> bool:
    """Whether there is something to purge behind a ref. What cannot be read, in a partial clone
    say, may hold it.
    """
    try:
        commit = store.peel(value)
        editor.chains(rewrite.read(store, {ref: commit}, {}).nodes.values())
        return editor.tag(value, editor.becomes[commit]) != value
    except StoreDamaged:
        return True


# ---------------------------------------------------------------- what cannot be


def _refuse_names(store: Store, request: Request) -> None:
    """The name of a session or tag stays what it is."""
    texts = [text.decode("utf-8", "surrogateescape") for text in request.texts]
    for kind, names in (("session", store.sessions()), ("tag", store.tags())):
        found = next((name for name in names if any(text in name for text in texts)), None)
        if found is not None:
            hint = "gitcp rename OLD NEW" if kind == "session" else "gitcp tag --delete NAME"
            raise Refused(
                f"the name of a {kind} holds the text, and names stay: nothing was purged",
                hint=hint,
            )


def _refuse_open(store: Store) -> None:
    """What was begun goes by what the checkpoints say now."""
    for git_dir in _git_dirs(store.repo):
        repo = Repository(store.repo.root, git_dir, store.repo.host)
        if journal.unfinished(repo) is not None:
            raise Refused(
                "a restore is not finished: nothing was purged", hint="gitcp restore --continue"
            )
        if journal.runs(repo):
            raise Refused(
                "a run is under way, or was cut off: nothing was purged", hint="gitcp run --recover"
            )


def _git_dirs(repo: Repository) -> Iterable[Path]:
    return (repo.common_dir, *sorted(repo.common_dir.glob("worktrees/*")))
