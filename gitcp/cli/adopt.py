"""`gitcp import` without a file: the conversations that agents keep on this machine."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable

from gitcp import clock, discovery, documents, humanize
from gitcp.adopting import personal
from gitcp.adopting.apply import Adopted, apply
from gitcp.adopting.memory import AdoptedBefore
from gitcp.adopting.plan import AdoptPlan, AdoptRequest, FoundTranscript, Share, pending, plan
from gitcp.cli import confirm, deletions
from gitcp.cli.context import Context
from gitcp.cli.failure import IN_PART, end
from gitcp.cli.output import GREEN, RED, Styled
from gitcp.conversation.segments import LARGEST
from gitcp.history.text_index import MANY
from gitcp.value import Value
from gitcp.wire import Json, encode_time

HEADINGS = ("store", "agent", "to store", "size", "oldest", "agent deletes", "stored")
PERSONAL = "personal"
MOST = 5

NO_CHANGE = "nothing was stored"


class Options(Value):
    """What was typed."""

    everywhere: bool
    agent: str | None
    since: str | None
    former: tuple[bytes, ...]
    dry_run: bool
    yes: bool
    as_json: bool


def adopt(context: Context, given: Options) -> None:
    """Import the conversations that agents keep, after the plan and a question."""
    memory = AdoptedBefore(context.host)
    request = _request(context, given)
    store = None if request.everywhere and not _is_inside(context) else context.store
    planned = plan(context.host, store, request, memory)
    if given.dry_run:
        _show(context, planned, as_json=given.as_json)
        return
    if pending(planned.items) and not given.yes:
        confirm.ask(
            context,
            "Store?",
            _lines(context, planned),
            nobody=NO_CHANGE,
            no=f"not stored: {NO_CHANGE}",
        )
    results = apply(context.host, planned, memory) if planned.unsure else []
    _tidy(context, planned, results)
    _report(context, planned, results, as_json=given.as_json)
    end(IN_PART if any(each.failed for each in results) else 0)


def _tidy(context: Context, planned: AdoptPlan, results: list[Adopted]) -> None:
    """Start in the background what is due in each store: packing, and indexing for a search."""
    for share in planned.shares:
        stored = [each for each in results if each.store == share.path and each.checkpoint]
        store = share.store or personal.find(context.host)
        if store is None or not stored:
            continue
        from gitcp.cli import indexing
        from gitcp.lifecycle import housekeeping

        if stored[-1].checkpoint is not None:
            housekeeping.after_save(store, stored[-1].checkpoint.id)
        if sum(each.item.listed.bytes for each in stored) > MANY * LARGEST:
            indexing.begin(store)


def _is_inside(context: Context) -> bool:
    home = str(context.host.home)
    location = discovery.discover(str(context.cwd), home)
    return location is not None and not discovery.is_above_home(location[0], home)


def _request(context: Context, given: Options) -> AdoptRequest:
    since = None
    if given.since is not None:
        from gitcp.history import dates

        since = dates.parse(given.since, context.host.now(), end=False)
    former = (os.path.join(context.cwd, os.fsdecode(path)) for path in given.former)
    return AdoptRequest(given.everywhere, given.agent, since, tuple(map(os.path.normpath, former)))


def _show(context: Context, plan: AdoptPlan, *, as_json: bool) -> None:
    if as_json:
        context.output.document(documents.document("adopt-plan", _plan_fields(plan)))
        return
    for line in _lines(context, plan):
        context.output.line(line)


def _lines(context: Context, plan: AdoptPlan) -> list[str]:
    """Return the plan as lines: a table by store and agent, and remarks."""
    rows = [_row(context, share, *group) for share in plan.shares for group in _groups(share.items)]
    if not rows:
        return ["no conversations found", *_empty(plan), *_remarks(plan)]
    table = [HEADINGS, *rows]
    if [share.is_personal for share in plan.shares] == [False]:
        table = [row[1:] for row in table]
    return [*_aligned(table), *_empty(plan), *_remarks(plan)]


def _report(context: Context, plan: AdoptPlan, results: list[Adopted], *, as_json: bool) -> None:
    """Print what was stored, and what could not be."""
    if as_json:
        fields = {**_plan_fields(plan), "adopted": [_result(each) for each in results]}
        context.output.document(documents.document("adopt", fields))
        return
    output = context.output
    stored = [each for each in results if each.checkpoint]
    empty = sum(1 for item in plan.items if item.empty)
    already = len(plan.items) - empty - sum(1 for e in results if e.checkpoint or e.failed)
    if not stored:
        output.line(f"nothing new: {humanize.count(already, 'conversation')} stored already")
    for share in plan.shares:
        number = sum(each.store == share.path for each in stored)
        if number:
            what = humanize.count(number, "conversation")
            output.line(Styled("stored", GREEN), f" {what} in {share.path}")
    for each in results:
        if each.failed:
            name = f"{each.item.listed.found.agent} {each.item.listed.found.session_id}"
            output.say(Styled("not stored", RED), f": {name}: {each.failed}")
    if any(share.is_personal for share in plan.shares):
        path = next(share.path for share in plan.shares if share.is_personal)
        output.line(f"show conversations of no repository: gitcp -C {path} log --all")
    if empty:
        what = humanize.count(empty, "transcript")
        output.say(f"nothing to store in {what} without a message: --dry-run shows why")
    for line in _remarks(plan):
        output.say(line)


def _groups(items: Iterable[FoundTranscript]) -> list[tuple[str, list[FoundTranscript]]]:
    """Return the conversations by agent."""
    agents: dict[str, list[FoundTranscript]] = {}
    for item in items:
        if not item.empty:
            agents.setdefault(item.listed.found.agent, []).append(item)
    return sorted(agents.items())


def _row(
    context: Context, share: Share, agent: str, items: list[FoundTranscript]
) -> tuple[str, ...]:
    new, now = pending(items), context.host.now()
    oldest = min((item.listed.found.modified for item in new), default=None)
    swept = min((item.listed.deleted for item in new if item.listed.deleted), default=None)
    return (
        PERSONAL if share.is_personal else str(share.path),
        agent,
        f"{len(new):,}",
        humanize.size(sum(item.listed.bytes for item in new)) if new else "",
        humanize.ago(clock.local(oldest), now) if oldest is not None else "",
        deletions.when(swept, now) if swept is not None else "",
        f"{len(items) - len(new):,}" if len(items) > len(new) else "",
    )


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    used = [n for n, _ in enumerate(rows[0]) if any(row[n] for row in rows[1:])]
    widths = {n: max(len(row[n]) for row in rows) for n in used}
    return ["  ".join(row[n].ljust(widths[n]) for n in used).rstrip() for row in rows]


def _empty(plan: AdoptPlan) -> list[str]:
    """Return how many transcripts have nothing to store, and why."""
    reasons = Counter((i.listed.found.agent, i.empty) for i in plan.items if i.empty)
    remarks = [
        f"nothing to store in {humanize.count(number, 'transcript')} of {agent}: {reason}"
        for (agent, reason), number in reasons.most_common()
    ]
    return humanize.listed(remarks, MOST)


def _remarks(plan: AdoptPlan) -> list[str]:
    remarks = [
        f"skipped: {each.found.agent} {each.found.path.name}: {each.unread}" for each in plan.unread
    ]
    remarks = humanize.listed(remarks, MOST)
    groups = Counter((each.agent, each.what, str(each.path.parent)) for each in plan.unlisted)
    remarks += humanize.listed(
        [
            f"not read: {humanize.count(number, 'file')} of {agent} in {directory}: {what}"
            for (agent, what, directory), number in groups.most_common()
        ],
        MOST,
    )
    for directory, number in sorted(plan.possible.items()):
        what = humanize.count(number, "conversation")
        remarks.append(f"{what} ran in {directory}, which is gone. If that was this repository:")
        remarks.append(f"  gitcp import --from {directory}")
    return remarks


# ---------------------------------------------------------------- JSON


def _plan_fields(plan: AdoptPlan) -> Json:
    return {
        "stores": [_share_fields(share) for share in plan.shares],
        "skipped": [
            {"agent": each.found.agent, "path": str(each.found.path), "reason": each.unread}
            for each in plan.unread
        ]
        + [
            {"agent": each.agent, "path": str(each.path), "reason": f"not read: {each.what}"}
            for each in plan.unlisted
        ],
        "possible": [
            {"directory": d, "conversations": n} for d, n in sorted(plan.possible.items())
        ],
    }


def _share_fields(share: Share) -> Json:
    return {
        "path": str(share.path),
        "personal": share.is_personal,
        "conversations": [_item_fields(item) for item in share.items],
    }


def _item_fields(item: FoundTranscript) -> Json:
    conversation, deleted = item.listed.found, item.listed.deleted
    return {
        "agent": conversation.agent,
        "agent_session": conversation.session_id,
        "bytes": item.listed.bytes,
        "modified": encode_time(clock.local(conversation.modified)),
        "deleted": encode_time(clock.local(deleted)) if deleted else None,
        "directories": list(item.origin.directories),
        "reason": item.reason,
        "state": item.state,
        "session": item.session,
        "empty": item.empty or None,
    }


def _result(adopted: Adopted) -> Json:
    checkpoint = adopted.checkpoint
    return {
        "agent": adopted.item.listed.found.agent,
        "agent_session": adopted.item.listed.found.session_id,
        "store": str(adopted.store),
        "id": str(checkpoint.id) if checkpoint else None,
        "failed": adopted.failed or None,
    }
