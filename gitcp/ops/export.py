"""Export: a session or the conversation of a checkpoint as bytes that somebody else can take. Scanned before it leaves.

A bundle holds everything: the checkpoints up to the one that is meant, and the tags on them. The other formats hold one
checkpoint's conversation: as JSON, as its agent wrote it, as Markdown, as an ATIF trajectory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum

from gitcp import wire
from gitcp.adapters.base import Message
from gitcp.errors import RevisionNotFound
from gitcp.git import bundle, refs
from gitcp.model import Checkpoint, Oid
from gitcp.ops import redact, secrets, show, telling, trajectory
from gitcp.ops.conversation import MAIN
from gitcp.ops.secrets import Finding, Sieve
from gitcp.store import Store
from gitcp.value import Value


class Format(StrEnum):
    """What is made of a session or checkpoint."""

    BUNDLE = "bundle"
    JSON = "json"
    TRANSCRIPT = "transcript"
    MARKDOWN = "markdown"
    ATIF = "atif"


class Request(Value):
    """What to export. `stream` is that of a transcript. Secrets: `redact` replaces them, but for those in `allowed`."""

    checkpoint: Checkpoint
    format: Format
    stream: str = MAIN
    allowed: frozenset[str] = frozenset()
    redact: bool = False


class Exported(Value):
    """What was made: the bytes, of how many checkpoints, and the secrets that were replaced in it."""

    data: bytes
    checkpoints: int
    redacted: tuple[Finding, ...]


def export(store: Store, request: Request, fields: wire.Json) -> Exported:
    """Make the bytes. `fields` is the checkpoint as `--json` has it.

    Writes no ref; with `redact`, objects of the copy. Raises SecretsFound for what may not leave, RevisionNotFound for
    a checkpoint without a conversation where that is what is exported.
    """
    if request.format is Format.BUNDLE:
        return _bundle(store, request)
    data = _rendered(store, request, fields)
    sieve = secrets.sieve(store, (), request.allowed, [data])
    found = secrets.in_text(data, "conversation", request.stream.encode("utf-8", "replace"), sieve)
    if found and not request.redact:
        raise secrets.refused(found)
    secrets.require_placed(sieve)
    return Exported(secrets.redacted(data, sieve) if found else data, 1, found)


def _rendered(store: Store, request: Request, fields: wire.Json) -> bytes:
    """The conversation of the checkpoint in the format that is wanted."""
    checkpoint = request.checkpoint
    if request.format is Format.TRANSCRIPT:
        return b"".join(show.stream(store, checkpoint, request.stream))
    if checkpoint.conversation is None:
        raise RevisionNotFound(f"checkpoint {checkpoint.id} has no conversation", hint="--format bundle")
    messages = list(show.messages(store, checkpoint.conversation))
    if request.format is Format.MARKDOWN:
        return telling.render(checkpoint, messages).encode("utf-8", "backslashreplace")
    document = trajectory.render(checkpoint, messages) if request.format is Format.ATIF else _document(fields, messages)
    return wire.dumps(document) + b"\n"


def _document(fields: wire.Json, messages: Sequence[Message]) -> wire.Json:
    """The checkpoint with all that was said."""
    return {
        **fields,
        "messages": [
            {"role": m.role, "content": m.text, "id": m.id, "timestamp": m.time, "tool": m.tool} for m in messages
        ],
        "metadata": {"savedAt": fields["created"], "phase": fields["phase"], "objective": fields["objective"]},
    }


# ---------------------------------------------------------------- bundles


def _bundle(store: Store, request: Request) -> Exported:
    tip = request.checkpoint.commit
    nodes = list(store.history(tip))[::-1]
    chain = [node.commit for node in nodes]
    tags = _tags_on(store, chain)
    names = {refs.SESSIONS + request.checkpoint.id.session: tip} | {refs.TAGS + name: tags[name] for name in tags}
    sieve, found = _found(store, chain, tags, request.allowed)
    if found:
        if not request.redact:
            raise secrets.refused(found)
        made = redact.chains(store, nodes, sieve)
        names = {ref: made.tag(value, made.becomes[store.peel(value)]) for ref, value in names.items()}
        store.objects.flush()
        _require_clean(store, list(made.becomes.values()), request.allowed)
    return Exported(bundle.write(store.repo, names), len(chain), found)


def _tags_on(store: Store, chain: Sequence[Oid]) -> dict[str, Oid]:
    """The tags on these checkpoints, as objects."""
    listed = refs.list_refs(store.repo.common_dir, refs.TAGS)
    return {name.removeprefix(refs.TAGS): oid for name, oid in listed.items() if store.peel(oid) in chain}


def _found(
    store: Store, chain: Sequence[Oid], tags: dict[str, Oid], allowed: Collection[str]
) -> tuple[Sieve, tuple[Finding, ...]]:
    held = {name: store.objects.read(oid)[1] for name, oid in tags.items()}
    sieve, found = secrets.search(store, chain, allowed, held.values())
    in_tags = (each for name, data in held.items() for each in secrets.in_text(data, "tag", name.encode(), sieve))
    return sieve, (*found, *in_tags)


def _require_clean(store: Store, commits: Sequence[Oid], allowed: Collection[str]) -> None:
    """What could not be replaced does not leave either."""
    left = secrets.findings(store, commits, allowed)
    if left:
        raise secrets.refused(left, left="they cannot be left out")
