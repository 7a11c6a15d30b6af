"""The resources: checkpoints, differences and conversations, each by its URI.

The list is paged, newest checkpoints first. What is read is at most MOST_BYTES and a bit: a longer
text names the URI of the rest in `next`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from mcp_types import Resource, ResourceTemplate

from gitcp import documents, wire
from gitcp.cli.context import Context
from gitcp.errors import BadValue
from gitcp.git import trees
from gitcp.git.object_format import FULL_NAME
from gitcp.history import show as show_op
from gitcp.history.log import Selection, select
from gitcp.mcp.arguments import Diff, nearest
from gitcp.mcp.documents import MOST_BYTES, bounded
from gitcp.mcp.reading import changed, compared, shown
from gitcp.model import RESERVED
from gitcp.store import CONVERSATION, Summary
from gitcp.value import replace
from gitcp.wire import Json

SCHEME = "gitcp"
JSON = "application/json"
PAGE = 30
"""Checkpoints on one page of the list; each is up to three resources."""
LONGEST_MESSAGE = 20_000
COMMIT = re.compile(FULL_NAME)

WHAT = {
    "checkpoint": "Checkpoint",
    "diff": "What changed in checkpoint",
    "conversation": "The conversation in checkpoint",
}

TEMPLATES = (
    ResourceTemplate(
        uri_template="gitcp://checkpoint/{revision}",
        name="checkpoint",
        title="A checkpoint",
        description="Label, facts, handoff, conversation and numbers of files of a checkpoint. "
        "revision is an id, @ for the last one, a tag or a label, percent-encoded.",
        mime_type=JSON,
    ),
    ResourceTemplate(
        uri_template="gitcp://diff/{old}/{new}{?from}",
        name="diff",
        title="The difference between two checkpoints",
        description="Changed paths and a patch. from continues a long patch: see next.",
        mime_type=JSON,
    ),
    ResourceTemplate(
        uri_template="gitcp://diff/{old}{?from}",
        name="diff-to-working-tree",
        title="What changed since a checkpoint",
        description="Changed paths and a patch from a checkpoint to the working tree.",
        mime_type=JSON,
    ),
    ResourceTemplate(
        uri_template="gitcp://conversation/{revision}{?from}",
        name="conversation",
        title="The conversation in a checkpoint",
        description="Its messages, oldest first. from is the number of the first: see next.",
        mime_type=JSON,
    ),
)


class Address(NamedTuple):
    """A URI in its parts."""

    kind: str
    names: tuple[str, ...]
    start: int

    def uri(self, start: int = 0) -> str:
        """Return the URI, of what begins at `start`."""
        parts = "/".join(quote(name, safe="@~+") for name in self.names)
        return f"{SCHEME}://{self.kind}/{parts}" + (f"?from={start}" if start else "")


def page(context: Context, cursor: str | None) -> tuple[list[Resource], str | None]:
    """Return a page of the list, and the cursor of the next one. Raises BadValue for a cursor that
    is unknown.
    """
    summaries = select(context.store, context.readable_tips(), Selection())
    if cursor is not None and not any(each.commit == cursor for each in summaries):
        raise BadValue("this cursor is unknown: the list has changed", hint="list from the start")
    shown = list(islice(summaries, PAGE + 1))
    following = shown[PAGE - 1].commit if len(shown) > PAGE else None
    return [each for summary in shown[:PAGE] for each in _of(context, summary)], following


def _of(context: Context, summary: Summary) -> Iterator[Resource]:
    id = context.id_of(summary.commit, summary.id)
    when = wire.encode_time(summary.created)
    title = " ".join(summary.subject.split())[:200]

    def resource(kind: str, *names: str) -> Resource:
        description = f"{WHAT[kind]} {id}, {when}: {title}"
        uri = Address(kind, names, 0).uri()
        return Resource(
            uri=uri, name=f"{kind} {id}", title=title, description=description, mime_type=JSON
        )

    yield resource("checkpoint", id)
    if summary.parent is not None:
        yield resource("diff", f"{id}~1", id)
    conversation = RESERVED + b"/" + CONVERSATION
    if trees.lookup(context.store.objects.reader, summary.root, conversation) is not None:
        yield resource("conversation", id)


def read(context: Context, uri: str) -> Json:
    """Return a resource. Raises BadValue for a URI that names none."""
    address = _parse(uri)
    if address.kind == "checkpoint" and len(address.names) == 1:
        return shown(context, context.checkpoint(address.names[0], None))
    if address.kind == "diff" and len(address.names) <= 2:
        return _diff(context, address)
    if address.kind == "conversation" and len(address.names) == 1:
        return _conversation(context, address)
    kinds = ["checkpoint", "diff", "conversation"]
    raise BadValue(f"there is no resource {uri[:200]!r}{nearest(address.kind, kinds)}")


def _parse(uri: str) -> Address:
    try:
        parts = urlsplit(uri)
        start = int(dict(parse_qsl(parts.query)).get("from", "0"))
    except ValueError as error:
        raise BadValue(f"{uri[:200]!r} is not a URI: {error}") from None
    names = tuple(map(unquote, parts.path.removeprefix("/").split("/")))
    if parts.scheme != SCHEME or not all(names) or start < 0:
        raise BadValue(f"there is no resource {uri[:200]!r}", hint="list the resource templates")
    return Address(parts.netloc, names, start)


def _diff(context: Context, address: Address) -> Json:
    old, *new = address.names
    given = Diff(old=old, new=new[0] if new else None)
    with compared(context, given) as comparison:
        patch = comparison.text()
        changes = changed(context, given, comparison)
    end = min(address.start + MOST_BYTES, len(patch))
    if end < len(patch):
        end = patch.rfind(b"\n", address.start, end) + 1 or end
    text = patch[address.start : end].decode("utf-8", "replace")
    rest = address.uri(end) if end < len(patch) else None
    fields = {"changes": changes, "patch": text, "cut": rest is not None, "next": rest}
    return bounded("differences", fields)


def _conversation(context: Context, address: Address) -> Json:
    checkpoint = context.checkpoint(address.names[0], None)
    if checkpoint.conversation is None:
        raise BadValue(f"checkpoint {checkpoint.id} has no conversation")
    messages: list[Json] = []
    size, rest = 0, None
    stored = show_op.messages(context.store, checkpoint.conversation)
    for number, message in enumerate(stored):
        if number < address.start:
            continue
        if size > MOST_BYTES:
            rest = address.uri(number)
            break
        text = message.text[:LONGEST_MESSAGE]
        shown = replace(message, text=text).to_json()
        shown["cut"] = len(message.text) > LONGEST_MESSAGE
        del shown["kind"]
        messages.append(shown)
        size += len(text)
    fields = {"id": str(checkpoint.id), "from": address.start, "messages": messages, "next": rest}
    return documents.document("conversation", fields)
