"""`gitcp status`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from gitcp import adapters, clock, documents, humanize, wire
from gitcp.adopting.sweeps import Sweep, due
from gitcp.cli import deletions, rendering
from gitcp.cli.context import Context
from gitcp.cli.options import Command, json_option, session_option
from gitcp.cli.output import BOLD, YELLOW, Output, Styled
from gitcp.git import refs
from gitcp.history.states import StateStatus
from gitcp.history.status import Growth, Status, status
from gitcp.model import Checkpoint
from gitcp.state import hook_failures
from gitcp.worktree.paths import skip_line

if TYPE_CHECKING:
    from gitcp.agents import KnownAgent
    from gitcp.automation.install.plan import Silent
    from gitcp.restoring.placing import Placed
    from gitcp.sharing.push_queue import PushState, QueuedRef

MOST_TROUBLES = 5
"""Maximum lines about single sessions and tags of a remote."""

SHORTEST_LABEL = 12
"""Characters of a label that are shown however narrow the terminal is."""

MOST = 20
ENABLE = "gitcp enable"


@click.command(cls=Command)
@session_option
@json_option
@click.pass_obj
def command(context: Context, session: str | None, *, as_json: bool) -> None:
    """Show unsaved changes and what can be undone

    Saves nothing.

      gitcp status
      gitcp status --json
    """
    context.shows_faults = True
    current = status(context.store, context.cwd, session, context.limits())
    if as_json:
        context.output.document(documents.document("status", _fields(context, current)))
    else:
        silent = _silent(context)
        _print(context, current, is_silent=bool(silent))
        _print_failing(context)
        for each in silent:
            context.output.line(Styled("Hooks         ", BOLD), each.what)
            context.output.line("  to repair it: ", Styled(each.hint, BOLD))
        for number, line in enumerate(_push_lines(_pushes(context), context.host.now())):
            title = "" if number else "Pushes"
            context.output.line(Styled(f"{title:14}", BOLD), line)
        for line in deletions.lines(_due(context), context.host.now()):
            context.output.line(Styled("Not stored    ", BOLD), line)


def _print_automatic(context: Context, current: Status, *, is_silent: bool) -> None:
    """Print whether something saves by itself, and when that was done last in this session. Agents
    that are set up but run no hooks are named below it.
    """
    by = [agent.title for agent in _enabled(context)]
    by += [current.watcher] if current.watcher else []
    if not by:
        context.output.line(
            Styled("Auto-save     ", BOLD), "off; to set up your agents: ", Styled(ENABLE, BOLD)
        )
        return
    state = "set up for" if is_silent else "on for"
    last = "no automatic save in this session yet"
    if current.automatic is not None:
        when = humanize.ago(current.automatic.created, context.host.now())
        last = f"last {when} ({current.automatic.id})"
    context.output.line(Styled("Auto-save     ", BOLD), f"{state} {', '.join(by)}; {last}")


def _print_failing(context: Context) -> None:
    failing = hook_failures.of(context.store.repo)
    if failing is not None:
        context.output.line(Styled("Hooks         ", BOLD), str(failing))
        if failing.hint:
            context.output.line("  to repair it: ", Styled(failing.hint, BOLD))


def _enabled(context: Context) -> tuple[KnownAgent, ...]:
    from gitcp.automation.install import plan

    return plan.enabled(context.store.repo.root, context.host)


def _silent(context: Context) -> tuple[Silent, ...]:
    from gitcp.automation.install import plan  # rarely needed

    return tuple(plan.silent(context.store.repo.root, context.cwd, context.host))


def _pushes(context: Context) -> tuple[PushState, ...]:
    if not (context.store.repo.common_dir / "gitcp" / "push").exists():
        return ()
    from gitcp.sharing import push_queue  # most users push by hand

    return push_queue.states(context.store)


def _due(context: Context) -> tuple[Sweep, ...]:
    return due(context.store, context.cwd, context.host)


def _awaiting(context: Context, current: Status) -> Placed | None:
    """Return where the last checkpoint's conversation waits for its agent to import it."""
    growth, last = current.conversation, current.last
    if growth is None or last is None or growth.now >= growth.stored:
        return None
    from gitcp.restoring import placing  # rarely needed

    return placing.awaiting(context.store, last, context.cwd)


def _failing(failures: hook_failures.Failing | None) -> wire.Json | None:
    if failures is None:
        return None
    times = map(clock.local, (failures.since, failures.last))
    since, last = map(wire.encode_time, times)
    fields = {"count": failures.count, "reason": failures.reason, "hint": failures.hint}
    return {"since": since, "last": last, **fields}


def _fields(context: Context, current: Status) -> wire.Json:
    last = current.last
    return {
        "session": current.session,
        "why": current.why,
        "candidates": list(current.candidates),
        "noted": current.noted,
        "last": documents.checkpoint(last, context.tags.get(last.commit, ())) if last else None,
        "base": current.base.commit,
        "branch": current.base.branch,
        "operation": current.base.operation,
        "faults": documents.faults(current.faults),
        "failing": _failing(hook_failures.of(context.store.repo)),
        "last_automatic": {
            "id": str(current.automatic.id),
            "created": wire.encode_time(current.automatic.created),
        }
        if current.automatic
        else None,
        "enabled": [target.command for target in _enabled(context)],
        "silent": [{"what": each.what, "hint": each.hint} for each in _silent(context)],
        "changes": [documents.change(change) for change in current.changes],
        "skipped": documents.skipped(current.skipped),
        "conversation": _conversation_fields(context, current),
        "unfinished": str(current.unfinished.target) if current.unfinished else None,
        "undo": str(current.undo) if current.undo else None,
        "redo": str(current.redo) if current.redo else None,
        "pushes": _push_fields(_pushes(context)),
        "watched": {"by": current.watcher, "trusted": current.missed is None}
        if current.watcher
        else None,
        "states": [_state_fields(state) for state in current.states],
        "deleted_soon": deletions.fields(_due(context)),
    }


def _state_fields(state: StateStatus) -> wire.Json:
    last = str(state.last) if state.last else None
    return {**state._asdict(), "when": list(state.when), "last": last}


def _conversation_fields(context: Context, current: Status) -> wire.Json | None:
    growth = current.conversation
    if growth is None:
        return None
    awaiting = _awaiting(context, current)
    return {
        "agent": growth.agent,
        "session_id": growth.session_id,
        "stored": growth.stored,
        "now": growth.now,
        "new_messages": growth.messages,
        "prepare": [list(command) for command in awaiting.prepare] if awaiting else [],
    }


def _print(context: Context, current: Status, *, is_silent: bool) -> None:
    output = context.output
    session = current.session or ("?" if current.candidates else "new")
    output.line(Styled("Session       ", BOLD), session, f"  ({current.why})")
    for candidate in current.candidates:
        output.line(f"              {candidate}")
    if current.last is not None:
        _print_last(context, current.last)
    else:
        output.line(Styled("Last saved    ", BOLD), "never")
    _print_automatic(context, current, is_silent=is_silent)
    if current.conversation is not None:
        _print_conversation(context, current, current.conversation)
    if current.noted:
        output.line(Styled("Note          ", BOLD), "pending for the next save (gitcp note)")
    if current.base.operation:
        output.line(
            Styled("In progress   ", BOLD),
            f"a {current.base.operation}: finish it before you restore",
        )
    for state in current.states:
        output.line(Styled("State         ", BOLD), str(state))
    _print_problems(output, current)
    _print_files(output, current)
    if current.watcher is not None:
        doubt = (
            "" if current.missed is None else f", not trusted: {rendering.missed(current.missed)}"
        )
        output.line(Styled("Watched by    ", BOLD), current.watcher, doubt)
    if current.undo is not None:
        output.line(
            Styled("gitcp undo    ", BOLD), f"restores {current.undo}, from before the last restore"
        )
    if current.redo is not None:
        output.line(
            Styled("gitcp redo    ", BOLD), f"restores {current.redo}, from before the last undo"
        )


def _print_problems(output: Output, current: Status) -> None:
    for fault in current.faults:
        output.line(Styled("Git           ", BOLD), fault.what)
        if fault.hint:
            output.line("  to repair it: ", Styled(fault.hint, BOLD))
    for line in current.damage:
        output.line(Styled("Damaged       ", BOLD), line)
    last = current.last
    if last is not None and last.conversation is not None:
        unknown = adapters.unknown(last.agent, last.conversation.digest.unknown)
        if unknown:
            output.line(Styled("Records       ", BOLD), unknown)


def _print_last(context: Context, last: Checkpoint) -> None:
    when = humanize.ago(last.created, context.host.now())
    tags = rendering.decoration(context.tags.get(last.commit, ()))
    title, label = "Last saved    ", last.note.label
    if label and context.output.width:
        used = len(f'{title}{last.id}{tags.text}  {when}  ""')
        label = humanize.cut(label, max(context.output.width - used, SHORTEST_LABEL))
    quoted = f'  "{label}"' if label else ""
    context.output.line(
        Styled(title, BOLD), Styled(str(last.id), YELLOW), tags, f"  {when}", quoted
    )


def _print_conversation(context: Context, current: Status, growth: Growth) -> None:
    title, awaiting = Styled("Conversation  ", BOLD), _awaiting(context, current)
    if awaiting is None:
        context.output.line(title, _growth(growth))
        return
    from gitcp.cli.restore_view import continuation

    context.output.line(title, f"{_who(growth)}: restored, but not imported yet")
    context.output.line("  continue with: ", Styled(continuation(context, awaiting), BOLD))


def _print_files(output: Output, current: Status) -> None:
    if not current.changes:
        if current.last:
            what = "no unsaved changes"
        else:
            what = "no changes since the last commit" if current.base.commit else "none"
        output.line(Styled("Files         ", BOLD), what)
    else:
        kinds = Counter(change.kind.value for change in current.changes)
        since = "changed since then"
        if not current.last:
            since = "changed since the last commit" if current.base.commit else "in no commit yet"
        numbers = ", ".join(f"{number:,} {kind}" for kind, number in sorted(kinds.items()))
        output.line(
            Styled("Files         ", BOLD),
            f"{humanize.count(len(current.changes), 'file')} {since}: {numbers}",
        )
        rendering.changed(output, current.changes, MOST)
    if current.skipped:
        output.line(Styled("Not captured  ", BOLD), humanize.count(len(current.skipped), "path"))
        for line in humanize.listed([skip_line(skip) for skip in current.skipped], MOST):
            output.line(f"  {line}")


def _growth(growth: Growth) -> str:
    who = _who(growth)
    more = growth.now - growth.stored
    if more == 0:
        change = "saved"
    elif more < 0:
        change = f"{humanize.size(-more)} shorter than what was saved"
    elif growth.messages is None:
        change = f"changed since it was saved, {humanize.size(more)} more"
    elif growth.messages:
        change = humanize.count(growth.messages, "new message")
    else:
        change = f"no new messages, {humanize.size(more)} more"
    return f"{who}: {change}" if who else change


def _who(growth: Growth) -> str:
    return " ".join(filter(None, (growth.agent, growth.session_id)))


def _push_fields(states: Sequence[PushState]) -> list[wire.Json]:
    return [
        {
            "remote": state.consent.remote,
            "push": state.consent.policy.value,
            "pushing": state.is_pushing,
            "problem": state.problem or None,
            "last_push": wire.encode_time(clock.local(state.queue.pushed))
            if state.queue.pushed
            else None,
            "waiting": [
                {
                    "ref": item.ref,
                    "commit": item.tip,
                    "failures": item.failures,
                    "held": item.is_held,
                    "reason": item.reason or None,
                }
                for item in state.queue.items
            ],
        }
        for state in states
    ]


def _push_lines(states: Sequence[PushState], now: datetime) -> Iterator[str]:
    """Yield the background pushes, a line for each remote and those that did not succeed."""
    for state in states:
        yield f"{state.consent.remote}: {_push_summary(state, now)}"
        if not state.problem:
            yield from humanize.listed(list(_push_troubles(state.queue.items)), MOST_TROUBLES)


def _push_summary(state: PushState, now: datetime) -> str:
    items = state.queue.items
    if state.problem:
        return f"not pushed, {state.problem}"
    sessions = sum(item.ref.startswith(refs.SESSIONS) for item in items)
    counts = [(sessions, "session"), (len(items) - sessions, "tag")]
    what = " and ".join(humanize.count(number, word) for number, word in counts if number)
    if state.is_pushing:
        return f"pushing {what}" if what else "pushing"
    if what:
        return f"{what} not pushed yet"
    pushed = clock.local(state.queue.pushed)
    return f"pushed {humanize.ago(pushed, now)}" if state.queue.pushed else "nothing to push yet"


def _push_troubles(items: Sequence[QueuedRef]) -> Iterator[str]:
    """Yield each reason once, with what it is about."""
    reasons: dict[str, list[str]] = {}
    for item in items:
        if item.reason:
            reasons.setdefault(item.reason, []).append(item.ref.rpartition("/")[2])
    for reason, names in reasons.items():
        more = f" and {len(names) - 1} more" if names[1:] else ""
        yield f"  {names[0]}{more}: {reason}"
