"""Export a session, or a checkpoint's conversation, after a scan for secrets.

A bundle contains all checkpoints up to the given one, with tags. The other formats
contain one checkpoint's conversation: as JSON, as the agent's own transcript or another agent's,
as Markdown, as an ATIF trajectory, or as a session trace.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any

from gitcp import wire
from gitcp.adapters.base import Message
from gitcp.errors import RevisionNotFound
from gitcp.git import bundle, refs
from gitcp.history import memory, show
from gitcp.history.usage import UsageReader
from gitcp.model import MAIN, Checkpoint, CheckpointId, Conversation, Oid
from gitcp.restoring import converting
from gitcp.restoring.converting import Converted
from gitcp.restoring.restore_notice import handoff_lines
from gitcp.secrets import checkpoint_scan
from gitcp.secrets.checkpoint_scan import Finding, Sieve
from gitcp.sharing import filtered, markdown, output_file, redact, session_trace, trajectory
from gitcp.store import Store
from gitcp.value import Value

Clean = Callable[[str], str]
"""Redacts a text."""

Chunks = Callable[[], Iterable[bytes]]
"""Gives the parts of a long text: a conversation of a GB need not be in memory."""


class Format(StrEnum):
    """Output formats."""

    BUNDLE = "bundle"
    JSON = "json"
    TRANSCRIPT = "transcript"
    MARKDOWN = "markdown"
    ATIF = "atif"
    STS = "sts"


ENDINGS = {
    ".bundle": Format.BUNDLE,
    ".json": Format.JSON,
    ".jsonl": Format.TRANSCRIPT,
    ".md": Format.MARKDOWN,
}


class ExportRequest(Value):
    """What to export. `stream` selects the stream of a transcript, `agent` another agent to convert
    it for. `redact` replaces secrets, except those in `allowed`; `unfiltered` lets a bundle have
    files that git would filter in a commit.
    """

    checkpoint: Checkpoint
    format: Format
    stream: str = MAIN
    allowed: frozenset[str] = frozenset()
    redact: bool = False
    agent: str | None = None
    unfiltered: bool = False


class Exported(Value):
    """What gives the exported bytes, as often as it is called; the number of checkpoints in them,
    the secrets that were replaced, and the conversion of a transcript for another agent.
    """

    chunks: Chunks
    checkpoints: int
    redacted: tuple[Finding, ...]
    converted: Converted | None = None


class ExportedFile(Value):
    """A file that was written: its size, its SHA-256, the checkpoints and the number of replaced
    secrets in it, and the conversion for another agent.
    """

    checkpoint: CheckpointId
    format: Format
    path: Path
    bytes: int
    sha256: str
    checkpoints: int
    redacted: int
    converted: Converted | None = None

    def to_json(self) -> wire.Json:
        """Return the fields that `gitcp export -o FILE --json` prints."""
        return {
            "checkpoint": str(self.checkpoint),
            "format": self.format.value,
            "path": wire.encode_path(os.fsencode(self.path)),
            "bytes": self.bytes,
            "sha256": self.sha256,
            "checkpoints": self.checkpoints,
            "redacted": self.redacted,
            "converted": self.converted.to_json() if self.converted else None,
        }


class _Counted:
    """Chunks, with their size and hash once they were read."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.bytes = 0
        self.hash = sha256()

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self.bytes += len(chunk)
            self.hash.update(chunk)
            yield chunk


def format_of(path: Path) -> Format | None:
    """Return the format that the ending of a file's name means, None if it means none."""
    return ENDINGS.get(path.suffix.lower())


def file_name(request: ExportRequest) -> str:
    """Return the name of a file in a directory of several sessions: `e7baae82.jsonl`."""
    endings = {form: ending for ending, form in ENDINGS.items()}
    endings |= {Format.STS: ".jsonl", Format.ATIF: ".json"}
    return f"{request.checkpoint.id.session}{endings[request.format]}"


def write(request: ExportRequest, made: Exported, path: Path, *, force: bool) -> ExportedFile:
    """Write what was exported to a file, whole or not at all. Raises Refused if it exists, unless
    `force`.
    """
    chunks = _Counted(made.chunks())
    output_file.write(path, chunks, force=force)
    return ExportedFile(
        checkpoint=request.checkpoint.id,
        format=request.format,
        path=path,
        bytes=chunks.bytes,
        sha256=chunks.hash.hexdigest(),
        checkpoints=made.checkpoints,
        redacted=len({finding.id for finding in made.redacted}),
        converted=made.converted,
    )


def export(store: Store, request: ExportRequest, fields: wire.Json) -> Exported:
    """Return what gives the exported bytes. `fields` is the checkpoint as `--json` prints it.

    Writes no ref; with `redact`, unreferenced objects. Raises SecretsFound, FilteredFiles, and
    RevisionNotFound if the checkpoint has no conversation to export.
    """
    if request.format is Format.BUNDLE:
        return _bundle(store, request)
    if request.agent is not None:
        return _converted(store, request, request.agent)
    chunks = _rendered(store, request, fields)
    # In Markdown, the escaped `_` of a GitHub token hid it from the scan.
    unescaped = _unescaped(store, request)
    texts = (
        window for each in (unescaped, chunks) for _, window in checkpoint_scan.windows(each())
    )
    sieve = checkpoint_scan.sieve(store, (), request.allowed, texts)
    stream = request.stream.encode("utf-8", "replace")
    findings = _once(
        finding
        for each in (unescaped, chunks)
        for finding in checkpoint_scan.in_chunks(each(), "conversation", stream, sieve)
    )
    _require_allowed(request, sieve, findings)
    if findings:
        whole = [b"".join(unescaped()), b"".join(chunks())]
        cleaner = checkpoint_scan.Cleaner(sieve, whole)
        data = b"".join(_rendered(store, request, fields, cleaner)())
        return _exported(checkpoint_scan.redacted(data, sieve), 1, findings)
    return Exported(chunks, 1, ())


def _exported(
    data: bytes,
    checkpoints: int,
    findings: tuple[Finding, ...],
    converted: Converted | None = None,
) -> Exported:
    return Exported(lambda: (data,), checkpoints, findings, converted)


def _converted(store: Store, request: ExportRequest, agent: str) -> Exported:
    """Return the main file of the conversation as another agent's transcript."""
    converted = converting.convert(store, request.checkpoint, agent, store.repo.root)
    data = converting.main_file(store, converted)
    note = "\n".join(handoff_lines(request.checkpoint.note)).encode("utf-8", "surrogatepass")
    sieve = checkpoint_scan.sieve(store, (), request.allowed, [data, note])
    findings = _once(checkpoint_scan.in_text(data, "conversation", b"main", sieve))
    _require_allowed(request, sieve, findings)
    clean = checkpoint_scan.redacted(data, sieve) if findings else data
    return _exported(clean, 1, findings, converted)


def _require_allowed(request: ExportRequest, sieve: Sieve, findings: tuple[Finding, ...]) -> None:
    """Raise SecretsFound if there are secrets that are not to be replaced, or cannot be."""
    if findings and not request.redact:
        raise checkpoint_scan.refused(findings)
    checkpoint_scan.require_redactable(sieve)


def _once(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple({each.id: each for each in reversed(list(findings))}.values())


def _unescaped(store: Store, request: ExportRequest) -> Chunks:
    """Return the text of a conversation before any escaping, for the scanner; nothing if the format
    is what the agent wrote.
    """
    checkpoint, conversation = request.checkpoint, request.checkpoint.conversation
    if request.format is Format.TRANSCRIPT or conversation is None:
        return tuple
    known = _remembered(store, request) if request.format is Format.MARKDOWN else {}
    return lambda: markdown.texts(checkpoint, show.messages(store, conversation), known)


def _remembered(store: Store, request: ExportRequest) -> dict[str, str]:
    """Return what the agent of the conversation remembers of the project."""
    agent = request.checkpoint.agent
    stored = memory.stored(store, request.checkpoint, agent.name) if agent else {}
    return {path: data.decode("utf-8", "replace") for path, data in stored.items()}


def _rendered(
    store: Store, request: ExportRequest, fields: wire.Json, clean: Clean = str
) -> Chunks:
    checkpoint, conversation = request.checkpoint, request.checkpoint.conversation
    if request.format is Format.TRANSCRIPT:
        return lambda: show.stream(store, checkpoint, request.stream)
    if conversation is None:
        raise RevisionNotFound(
            f"checkpoint {checkpoint.id} has no conversation; nothing was exported",
            hint=f"gitcp export {checkpoint.id} --format bundle -o FILE",
        )
    if request.format is Format.MARKDOWN:
        known = _remembered(store, request)
        return lambda: markdown.render(checkpoint, show.messages(store, conversation), clean, known)
    messages = list(show.messages(store, conversation))
    documents: Iterable[Any] = (_document(fields, messages),)
    if request.format in (Format.ATIF, Format.STS):
        told = trajectory.render(checkpoint, messages, _spending(store, conversation))
        title = conversation.digest.title
        documents = session_trace.lines(told, title) if request.format is Format.STS else (told,)
    chunks = [wire.dumps(_cleaned(each, clean)) + b"\n" for each in documents]
    return lambda: chunks


def _spending(store: Store, conversation: Conversation) -> trajectory.Spending:
    reader = UsageReader(store)
    own = {usage.key: usage for usage in reader.of_stream(conversation, MAIN)}
    every = reader.of_conversation(conversation)
    asides = [usage for key, usage in every.items() if key not in own]
    return trajectory.Spending(list(own.values()), asides)


def _cleaned(value: Any, clean: Clean) -> Any:
    """Return a document with `clean` applied to every text in it."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {key: _cleaned(item, clean) for key, item in value.items()}
    return [_cleaned(item, clean) for item in value] if isinstance(value, (list, tuple)) else value


def _document(fields: wire.Json, messages: Sequence[Message]) -> wire.Json:
    """Return the checkpoint's fields with all messages."""
    return {
        **fields,
        "messages": [
            {
                "role": m.role,
                "content": m.text,
                "id": m.id,
                "timestamp": m.time,
                "tool": m.tool,
                **_call_fields(m),
                **_image_fields(m),
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


def _bundle(store: Store, request: ExportRequest) -> Exported:
    tip = request.checkpoint.commit
    nodes = list(store.history(tip))[::-1]
    chain = [node.commit for node in nodes]
    drivers = {} if request.unfiltered else filtered.in_checkpoints(store, chain)
    if drivers:
        raise filtered.refused(drivers, "nothing was written")
    tags = _tags_on(store, chain)
    names = {refs.SESSIONS + request.checkpoint.id.session: tip} | {
        refs.TAGS + name: tags[name] for name in tags
    }
    sieve, findings = _scan(store, chain, tags, request.allowed)
    in_name = checkpoint_scan.in_names("session", [request.checkpoint.id.session], sieve)
    if in_name:
        raise checkpoint_scan.refused(in_name, left="session names are not rewritten")
    if findings:
        if not request.redact:
            raise checkpoint_scan.refused(findings)
        editor = redact.chains(store, nodes, sieve)
        names = {
            ref: editor.tag(value, editor.becomes[store.peel(value)])
            for ref, value in names.items()
        }
        store.writer.flush(keep=True)
        # What could not be replaced, such as the name of a tag.
        commits = list(editor.becomes.values())
        _, remaining = _scan(store, commits, _tag_refs(names), request.allowed)
        if remaining:
            raise checkpoint_scan.refused(remaining, left="they cannot be redacted")
    try:
        return _exported(bundle.write(store.repo, names), len(chain), findings)
    finally:
        store.writer.release()


def _tags_on(store: Store, chain: Sequence[Oid]) -> dict[str, Oid]:
    listed = store.repo.refs.list(refs.TAGS)
    return {
        name.removeprefix(refs.TAGS): oid
        for name, oid in listed.items()
        if store.peel(oid) in chain
    }


def _scan(
    store: Store, chain: Sequence[Oid], tags: dict[str, Oid], allowed: Collection[str]
) -> tuple[Sieve, tuple[Finding, ...]]:
    search = checkpoint_scan.search(
        store, chain, allowed, checkpoint_scan.of_tags(store, tags).values()
    )
    in_tags = checkpoint_scan.in_tags(store, tags, search.sieve)
    return search.sieve, (*search.findings, *in_tags)


def _tag_refs(names: dict[str, Oid]) -> dict[str, Oid]:
    return {
        ref.removeprefix(refs.TAGS): oid for ref, oid in names.items() if ref.startswith(refs.TAGS)
    }


def _call_fields(message: Message) -> wire.Json:
    """Return a tool call's id and failure; no key for other messages."""
    call: wire.Json = {} if message.call is None else {"call": message.call}
    return {**call, "failed": True} if message.failed else call


def _image_fields(message: Message) -> wire.Json:
    """Return the images of a message; no key if it has none."""
    images = [
        {"mediaType": image.media, "bytes": image.size(), "data": image.data, "path": image.place}
        for image in message.images
    ]
    return {"images": images} if images else {}
