"""Export: a session or the conversation of a checkpoint as bytes that somebody else can take.
Scanned before it leaves.

A bundle holds everything: the checkpoints up to the one that is meant, and the tags on them. The
other formats hold one checkpoint's conversation: as JSON, as its agent wrote it, as Markdown, as an
ATIF trajectory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import StrEnum
from typing import Any

from gitcp import wire
from gitcp.adapters.base import Message
from gitcp.errors import RevisionNotFound
from gitcp.git import bundle, refs
from gitcp.history import show
from gitcp.model import Checkpoint, Oid
from gitcp.saving.conversation import MAIN
from gitcp.secrets import checkpoint_scan
from gitcp.secrets.checkpoint_scan import Finding, Sieve
from gitcp.sharing import markdown, redact, trajectory
from gitcp.store import Store
from gitcp.value import Value

Clean = Callable[[str], str]
"""What makes a text one that may leave."""


class Format(StrEnum):
    """What is made of a session or checkpoint."""

    BUNDLE = "bundle"
    JSON = "json"
    TRANSCRIPT = "transcript"
    MARKDOWN = "markdown"
    ATIF = "atif"


class Request(Value):
    """What to export. `stream` is that of a transcript. Secrets: `redact` replaces them, but for
    those in `allowed`.
    """

    checkpoint: Checkpoint
    format: Format
    stream: str = MAIN
    allowed: frozenset[str] = frozenset()
    redact: bool = False


class Exported(Value):
    """What was made: the bytes, of how many checkpoints, and the secrets that were replaced in
    it.
    """

    data: bytes
    checkpoints: int
    redacted: tuple[Finding, ...]


def export(store: Store, request: Request, fields: wire.Json) -> Exported:
    """Make the bytes. `fields` is the checkpoint as `--json` has it.

    Writes no ref; with `redact`, objects of the copy. Raises SecretsFound for what may not leave,
    RevisionNotFound for a checkpoint without a conversation where that is what is exported.
    """
    if request.format is Format.BUNDLE:
        return _bundle(store, request)
    data, said = _rendered(store, request, fields)
    sieve = checkpoint_scan.sieve(store, (), request.allowed, [data, said])
    stream = request.stream.encode("utf-8", "replace")
    found = _once(
        [
            *checkpoint_scan.in_text(said, "conversation", stream, sieve),
            *checkpoint_scan.in_text(data, "conversation", stream, sieve),
        ]
    )
    if found and not request.redact:
        raise checkpoint_scan.refused(found)
    checkpoint_scan.require_placed(sieve)
    if found:
        data = _rendered(store, request, fields, checkpoint_scan.Cleaner(sieve, [said, data]))[0]
    return Exported(checkpoint_scan.redacted(data, sieve) if found else data, 1, found)


def _once(found: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple({each.id: each for each in reversed(list(found))}.values())


def _rendered(
    store: Store, request: Request, fields: wire.Json, clean: Clean = str
) -> tuple[bytes, bytes]:
    """The conversation of the checkpoint in the format that is wanted, and what it says before
    anything is escaped.
    """
    checkpoint = request.checkpoint
    if request.format is Format.TRANSCRIPT:
        return b"".join(show.stream(store, checkpoint, request.stream)), b""
    if checkpoint.conversation is None:
        raise RevisionNotFound(
            f"checkpoint {checkpoint.id} has no conversation", hint="--format bundle"
        )
    messages = list(show.messages(store, checkpoint.conversation))
    said = markdown.texts(checkpoint, messages)
    if request.format is Format.MARKDOWN:
        return markdown.render(checkpoint, messages, clean).encode(
            "utf-8", "backslashreplace"
        ), said
    document = (
        trajectory.render(checkpoint, messages)
        if request.format is Format.ATIF
        else _document(fields, messages)
    )
    return wire.dumps(_worded(document, clean)) + b"\n", said


def _worded(value: Any, clean: Clean) -> Any:
    """A document with `clean` of every text in it."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {key: _worded(item, clean) for key, item in value.items()}
    return [_worded(item, clean) for item in value] if isinstance(value, (list, tuple)) else value


def _document(fields: wire.Json, messages: Sequence[Message]) -> wire.Json:
    """The checkpoint with all that was said."""
    return {
        **fields,
        "messages": [
            {
                "role": m.role,
                "content": m.text,
                "id": m.id,
                "timestamp": m.time,
                "tool": m.tool,
                **_of_call(m),
                **_of_images(m),
            }
            for m in messages
        ],
        "metadata": {
            "savedAt": fields["created"],
            "phase": fields["phase"],
            "objective": fields["objective"],
        },
    }


# ---------------------------------------------------------------- bundles


def _bundle(store: Store, request: Request) -> Exported:
    tip = request.checkpoint.commit
    nodes = list(store.history(tip))[::-1]
    chain = [node.commit for node in nodes]
    tags = _tags_on(store, chain)
    names = {refs.SESSIONS + request.checkpoint.id.session: tip} | {
        refs.TAGS + name: tags[name] for name in tags
    }
    sieve, found = _found(store, chain, tags, request.allowed)
    named = checkpoint_scan.in_names("session", [request.checkpoint.id.session], sieve)
    if named:
        raise checkpoint_scan.refused(named, left="the name of a session is not rewritten")
    if found:
        if not request.redact:
            raise checkpoint_scan.refused(found)
        made = redact.chains(store, nodes, sieve)
        names = {
            ref: made.tag(value, made.becomes[store.peel(value)]) for ref, value in names.items()
        }
        store.objects.flush(held=True)
        _require_clean(store, list(made.becomes.values()), _tags_of(names), request.allowed)
    try:
        return Exported(bundle.write(store.repo, names), len(chain), found)
    finally:
        store.objects.let_go()


def _tags_on(store: Store, chain: Sequence[Oid]) -> dict[str, Oid]:
    """The tags on these checkpoints, as objects."""
    listed = refs.list_refs(store.repo.common_dir, refs.TAGS)
    return {
        name.removeprefix(refs.TAGS): oid
        for name, oid in listed.items()
        if store.peel(oid) in chain
    }


def _found(
    store: Store, chain: Sequence[Oid], tags: dict[str, Oid], allowed: Collection[str]
) -> tuple[Sieve, tuple[Finding, ...]]:
    sieve, found = checkpoint_scan.search(
        store, chain, allowed, checkpoint_scan.of_tags(store, tags).values()
    )
    return sieve, (*found, *checkpoint_scan.in_tags(store, tags, sieve))


def _tags_of(names: dict[str, Oid]) -> dict[str, Oid]:
    return {
        ref.removeprefix(refs.TAGS): oid for ref, oid in names.items() if ref.startswith(refs.TAGS)
    }


def _require_clean(
    store: Store, commits: Sequence[Oid], tags: dict[str, Oid], allowed: Collection[str]
) -> None:
    """What could not be replaced, like the name of a tag, does not leave either."""
    _, left = _found(store, commits, tags, allowed)
    if left:
        raise checkpoint_scan.refused(left, left="they cannot be left out")


def _of_call(message: Message) -> wire.Json:
    """What is known of a tool's call or result; no key for any other message."""
    call: wire.Json = {} if message.call is None else {"call": message.call}
    return {**call, "failed": True} if message.failed else call


def _of_images(message: Message) -> wire.Json:
    """The images of a message; no key where it has none."""
    images = [
        {"mediaType": image.media, "bytes": image.size(), "data": image.data, "path": image.place}
        for image in message.images
    ]
    return {"images": images} if images else {}
