"""Resolve what people type for a checkpoint ("@~2", "e7baae82@12", a tag, a label) to its commit.

    @  latest          the last checkpoint of the current session
    12  #12            by number in the current session
    SESSION@12         by number in that session; SESSION@ and SESSION mean its last checkpoint
    REMOTE/SESSION@12  by number in a fetched session
    TAG                by tag
    LABEL              the newest checkpoint with exactly this label, as `log` shows it
    3fa9c1             by commit (at least 4 digits); it must be reachable from a gitcp ref
    SES                the only session whose name begins with it (at least 3 characters)
    yesterday  @{TIME}  SESSION@{TIME}   the last checkpoint made at or before that time
    :/text             the newest whose label contains the text, else whose subject does
    REV~2  REV^  @-    two before REV, one before
    A..B  A..  ..B     after A up to B; a missing end is the start, or the last checkpoint

They are tried in this order. Text that is still ambiguous is an error that lists the candidates:
two sessions with one label, two names with one prefix. Own checkpoints come before fetched ones. A
fork's chain continues behind its fork point, so `FORK@12` may be a checkpoint of the older session.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice

from gitcp.errors import (
    BadValue,
    GitcpError,
    GitFailed,
    RevisionAmbiguous,
    RevisionNotFound,
    StoreDamaged,
)
from gitcp.git import refs
from gitcp.model import Oid
from gitcp.saving import session as session_op
from gitcp.state.tag import LATEST
from gitcp.store import Store, Summary, is_generated, one_line

NUMBER = re.compile(r"#?([0-9]{1,18})")
IN_SESSION = re.compile(r"([^@]+)@([0-9]{0,18})")
AT_TIME = re.compile(r"([^@]*)@\{([^{}]*)\}")
STEPS = re.compile(r"(.+)(?:~([0-9]{0,9})|\^([01]?))", re.DOTALL)
DASHES = re.compile(r"([^@]*@)(-+)")
HEX = re.compile(r"[0-9a-f]{4,64}", re.IGNORECASE)

SHORTEST = 3
LARGEST = 10**6
"""A larger number is rather the beginning of a commit's id."""


def resolve(store: Store, text: str, *, current: str | None, within: str | None = None) -> Oid:
    """Return the commit of the checkpoint that `text` means.

    `current` is the session of `@`, of bare numbers and of times. `within` limits labels and `:/`
    to one session; None searches all. Raises RevisionNotFound, RevisionAmbiguous, StoreDamaged.
    Reads only.
    """
    name, steps = _split_steps(text)
    if text.startswith(":/"):
        exact = _containing(store, text[2:], current, within)
        start = _containing(store, name[2:], current, within) if steps and not exact else None
    else:
        start = _by_name(store, name, current)
        exact = None if start else _by_label(store, text, within)
        if not (start or exact):
            start = (_by_label(store, name, within) if steps else None) or _by_prefix(store, name)
        if not (start or exact):
            exact = _by_time(store, text, current)
    if exact is not None:
        return exact
    if start is None:
        raise _not_found(store, text, name, current)
    return _ancestor(store, start, steps, text)


def resolve_range(
    store: Store, text: str, current: str | None, within: str | None = None
) -> tuple[Oid | None, Oid]:
    """Return the two ends of `A..B`: the commit before the first checkpoint of the range (None for
    the start), and the last one.

    A single revision is a range from the start. Raises what `resolve` raises.
    """
    if not is_range(store, text):
        return None, resolve(store, text, current=current, within=within)
    after, last = split_range(text)
    begin = resolve(store, after, current=current, within=within) if after else None
    return begin, resolve(store, last or "@", current=current, within=within)


def split_range(text: str) -> tuple[str, str]:
    """Return the two ends of `A..B`; git's three dots are refused."""
    if "..." in text:
        raise _suggestion(
            f"{_quoted(text)} would compare with a common ancestor; a range has two dots",
            text,
            text.replace("...", ".."),
        )
    after, _, last = text.partition("..")
    return after, last


def is_range(store: Store, text: str) -> bool:
    """Return whether `text` is `A..B`. Dots in a label, or in text after `:/` that is found, do not
    count.
    """
    if ".." not in text:
        return False
    if text.startswith(":/"):
        return _containing(store, text[2:], None, None) is None
    return not any(True for _ in _with_subject(store, store.sessions().values(), text))


def split_path(store: Store, text: str, current: str | None) -> tuple[str, str | None]:
    """Split `REV:PATH` into revision and path; the path is None if there is none.

    Colons in a label, in a time or after `:/` do not split.
    """
    colon = text.find(":", text.find("}") + 1 if "@{" in text else 0)
    if colon < 0 or text.startswith(":/"):
        return text, None
    name, path = text[:colon] or "@", text[colon + 1 :]
    if not _is_found(store, name, current) or _by_label(store, text, None):
        return (text, None) if _is_found(store, text, current) else (name, path)
    return name, path


def is_known(store: Store, text: str, current: str | None) -> bool:
    """Return whether `text` resolves, possibly to several checkpoints; False where a session has no
    checkpoint.
    """
    ends = text.split("..") if is_range(store, text) else [text]
    try:
        return all(not end or _is_found(store, end, current) for end in ends)
    except GitcpError:
        return False


def _is_found(store: Store, text: str, current: str | None) -> bool:
    try:
        resolve(store, text, current=current)
    except RevisionNotFound as error:
        return isinstance(error, RevisionAmbiguous)
    return True


def is_relative(text: str) -> bool:
    """Return whether `text` counts within the current session: `@~2`, `12`, `latest`."""
    name, _ = _split_steps(text)
    return name.startswith("@") or name == LATEST or NUMBER.fullmatch(name) is not None


def is_time(text: str, now: datetime) -> bool:
    """Return whether `text` has the form of a time: `yesterday`, `@{2 hours ago}`,
    `@{monday}~1`.
    """
    name, _ = _split_steps(text)
    if "@" in name:
        return AT_TIME.fullmatch(name) is not None
    return _time(text, now) is not None


def newest(
    store: Store, session: str, *, until: datetime | None = None, phase: str | None = None
) -> Oid:
    """Return the newest checkpoint of a session made at or before `until`, in `phase`.

    Raises RevisionNotFound, whose hint lists the existing phases.
    """
    wanted = None if phase is None else one_line(phase, 100)
    if wanted == "":  # `restore --phase "$PHASE"` without a PHASE
        raise BadValue("the phase is empty: nothing was changed", hint="gitcp log")
    phases: dict[str, None] = {}
    oldest = None
    for summary in store.history(_tip(store, session)):
        summary_phase = summary.trailers.get("Gitcp-Phase", "")
        if (until is None or summary.created <= until) and wanted in (None, summary_phase):
            return summary.commit
        phases[summary_phase] = None
        oldest = summary
    raise _none_matching(session, until, wanted, list(filter(None, phases)), oldest)


def _none_matching(
    session: str,
    until: datetime | None,
    phase: str | None,
    phases: list[str],
    oldest: Summary | None,
) -> RevisionNotFound:
    message = f"session {session} has no checkpoint"
    message += f" of phase {phase!r}" if phase is not None else ""
    if phase is not None and phase not in phases:
        hint = f"its phases are: {', '.join(phases)}" if phases else "gitcp log"
        return RevisionNotFound(message, hint=hint)
    message += f" from {_format_time(until)} or before" if until else ""
    hint = f"its first is {oldest.id}, of {_format_time(oldest.created)}" if oldest else "gitcp log"
    return RevisionNotFound(message, hint=hint)


def numbered(store: Store, session: str, number: int) -> Oid:
    """Return the checkpoint with this number in a session's chain. Raises RevisionNotFound."""
    tip = _tip(store, session)
    commit = _find(store, tip, number)
    if commit is None:
        message = f"session {session} has no checkpoint {number}"
        raise _dropped(store, message, session, number) or RevisionNotFound(
            f"{message}; its last is {store.summary(tip).id}", hint=f"gitcp log {session}"
        )
    return commit


def session_named(store: Store, text: str) -> str:
    """Return the session whose name is `text`, or the only one that begins with it; own ones before
    fetched ones. Raises RevisionNotFound, RevisionAmbiguous.
    """
    sessions, fetched = store.sessions(), store.fetched()
    names = _own_names(store, sessions, text) or _fetched_names(fetched, text)
    if len(names) > 1:
        tips = {**fetched, **sessions}
        raise _ambiguous_session(store, text, {name: tips[name] for name in names})
    if not names:
        raise RevisionNotFound(
            f"no session matches {_quoted(text)}{_similar_names(store, text)}",
            hint="gitcp sessions",
        )
    return names[0]


def first(store: Store, tip: Oid) -> Oid:
    """Return the first checkpoint of a chain."""
    *_, last = store.history(tip)
    return last.commit


def id_of(store: Store, summary: Summary) -> str:
    """Return the shortest unambiguous id of a checkpoint: `SESSION@12`, or `REMOTE/SESSION@12` if
    that names another checkpoint here, or its commit if no session has it.
    """
    id = summary.id
    own_commit = _find_in(store, _session_tip(store, id.session), id.number)
    if own_commit == summary.commit:
        return str(id)
    fetched = {
        name: tip for name, tip in store.fetched().items() if name.endswith(f"/{id.session}")
    }
    commits = {name: _find_in(store, tip, id.number) for name, tip in fetched.items()}
    names = [name for name, commit in commits.items() if commit == summary.commit]
    if not names:
        return summary.commit[:12]
    is_unique = own_commit is None and len({commit for commit in commits.values() if commit}) == 1
    return str(id) if is_unique else f"{names[0]}@{id.number}"


def other_ids(store: Store) -> dict[Oid, str]:
    """Return the ids of the fetched checkpoints for which `SESSION@12` is ambiguous:
    `REMOTE/SESSION@12`, by commit.
    """
    by_session: dict[str, dict[str, Oid]] = {}
    for full, tip in store.fetched().items():
        by_session.setdefault(full.partition("/")[2], {})[full] = tip
    ids: dict[Oid, str] = {}
    for session, tips in by_session.items():
        own = _session_tip(store, session)
        for full, tip in tips.items():
            others = [own] if own else [other for other in tips.values() if other != tip]
            ids |= _differing(store, full, tip, others)
    return ids


def _differing(store: Store, full: str, tip: Oid, others: list[Oid]) -> dict[Oid, str]:
    """Return the checkpoints that only the chain behind `tip` has, with numbers that other chains
    have too.
    """
    if not others or others == [tip]:
        return {}
    try:
        mine = list(store.forest([tip, *(f"^{other}" for other in others)]))
        theirs = store.forest([*others, f"^{tip}"]) if mine else ()
        numbers = {summary.id.number for summary in theirs}
    except (GitFailed, StoreDamaged):  # `gitcp doctor --store` reports a damaged chain
        return {}
    return {s.commit: f"{full}@{s.id.number}" for s in mine if s.id.number in numbers}


# ---------------------------------------------------------------- forms of a revision


def _split_steps(text: str) -> tuple[str, int]:
    """Split the steps back from a revision: `REV~2^` → `REV`, 3."""
    name, steps = text, 0
    while match := STEPS.fullmatch(name):
        name, steps = match[1], steps + int((match[2] if match[3] is None else match[3]) or 1)
    if match := DASHES.fullmatch(name):
        name, steps = match[1], steps + len(match[2])
    return name, steps


def _by_name(store: Store, name: str, current: str | None) -> Oid | None:
    """Resolve `@`, a number, an id, a time in braces, a session or a tag; None for anything
    else.
    """
    if name == "@":
        return _tip(store, current)
    number = NUMBER.fullmatch(name)
    if number and name.startswith("#"):
        return numbered(store, _require_session(current), int(number[1]))
    tip = _session_tip(store, current) if number and current is not None else None
    if number and tip and (commit := _find(store, tip, int(number[1]))):
        return commit
    if match := AT_TIME.fullmatch(name):
        return _at_braces(store, match, current)
    if match := IN_SESSION.fullmatch(name):
        return _in_session(store, match[1], int(match[2]) if match[2] else None)
    return _exact_name(store, name) or (_tip(store, current) if name == LATEST else None)


def _require_session(current: str | None) -> str:
    if current is None:
        raise RevisionNotFound(
            "no current session yet; name one with --session", hint="gitcp sessions"
        )
    return current


def _tip(store: Store, session: str | None) -> Oid:
    name = _require_session(session)
    tip = _session_tip(store, name)
    if tip is None:
        raise RevisionNotFound(f"session {_quoted(name)} has no checkpoint", hint="gitcp sessions")
    return tip


def _session_tip(store: Store, name: str) -> Oid | None:
    """Return the last checkpoint of `SESSION` or `REMOTE/SESSION`; None if there is none."""
    if "/" in name:
        return store.fetched().get(name)
    return store.tip(name) if refs.NAME.match(name) else None  # the name becomes a file path


def _exact_name(store: Store, name: str) -> Oid | None:
    """Return the session or tag of exactly this name; fetched ones last."""
    hint = f"{name}@ means the last checkpoint of the session"
    own = filter(None, (_session_tip(store, name), _tag_commit(store, name)))
    if (commit := _single(store, name, own, hint=hint)) is not None:
        return commit
    tags = store.fetched("tags")
    if "/" in name:
        return store.peel(tags[name]) if name in tags else None
    suffix = f"/{name}"
    tips = [tip for full, tip in store.fetched().items() if full.endswith(suffix)]
    peeled = [store.peel(oid) for full, oid in tags.items() if full.endswith(suffix)]
    return _single(store, name, tips or peeled, hint="type REMOTE/NAME")


def _tag_commit(store: Store, name: str) -> Oid | None:
    oid = store.repo.refs.read(refs.TAGS + name) if refs.NAME.match(name) else None
    return store.peel(oid) if oid else None


def _in_session(store: Store, name: str, number: int | None) -> Oid | None:
    """Return a numbered checkpoint of a session, own or fetched, given its name or a prefix; the
    last one if `number` is None.
    """
    own = {} if "/" in name else store.sessions()
    matching = _own_names(store, own, name)
    if len(matching) > 1:
        raise _ambiguous_session(store, name, {each: own[each] for each in matching})
    commit = _find_in(store, own[matching[0]], number) if matching else None
    if commit is not None:
        return commit
    fetched = store.fetched()
    names = _fetched_names(fetched, matching[0] if matching else name)
    # of two remotes that have the same one, the first is enough
    by_commit = {_find_in(store, fetched[each], number): each for each in reversed(names)}
    holders = {each: commit for commit, each in by_commit.items() if commit is not None}
    if len(holders) > 1:
        raise _ambiguous_session(store, name, holders)
    return next(iter(holders.values()), None)


def _own_names(store: Store, own: Mapping[str, Oid], text: str) -> list[str]:
    """Return the sessions among `own` whose name is `text`, or begins with it, or else those whose
    conversation has this id.
    """
    names = _matching(own, text)
    return names or [name for name in session_op.of_conversation(store, text) if name in own]


def _fetched_names(fetched: Mapping[str, Oid], text: str) -> list[str]:
    """Return the fetched sessions that `SESSION` or `REMOTE/SESSION`, or a prefix of it,
    matches.
    """
    short = {full: full if "/" in text else full.partition("/")[2] for full in fetched}
    matching = _matching(dict.fromkeys(short.values()), text)
    return [full for full, name in short.items() if name in matching]


def _matching(names: Mapping[str, object], text: str) -> list[str]:
    """Return `text` if it is one of the names, else the names that begin with it."""
    if text in names:
        return [text]
    return [name for name in names if name.startswith(text)] if len(text) >= SHORTEST else []


def _find(store: Store, tip: Oid, number: int) -> Oid | None:
    """Return the checkpoint with this number. Numbers decrease from the tip on, so the walk ends
    early.
    """
    summary = next((s for s in store.history(tip) if s.id.number <= number), None)
    return summary.commit if summary and summary.id.number == number else None


def _find_in(store: Store, tip: Oid | None, number: int | None) -> Oid | None:
    return tip if tip is None or number is None else _find(store, tip, number)


def _ancestor(store: Store, commit: Oid, steps: int, text: str) -> Oid:
    if not steps:
        return commit
    ancestor = next(islice(store.history(commit), steps, None), None)
    if ancestor is None:
        raise RevisionNotFound(
            f"{_quoted(text)} is before the first checkpoint: {store.summary(commit).id} has fewer "
            f"than {steps} {'ancestor' if steps == 1 else 'ancestors'}",
            hint="gitcp log",
        )
    return ancestor.commit


# ---------------------------------------------------------------- labels and subjects


def _by_label(store: Store, text: str, within: str | None) -> Oid | None:
    """Return the newest checkpoint whose label (or subject, as `log` shows it) is `text`.

    Raises RevisionAmbiguous if more than one session has it.
    """
    own = store.sessions() if within is None else {within: _tip(store, within)}
    fetched = {} if within is not None else store.fetched()
    for tips in (own.values(), fetched.values()):
        by_session = {s.id.session: s for s in _with_subject(store, tips, text)}
        if len(by_session) > 1:
            raise _ambiguous(store, text, [s.commit for s in by_session.values()], hint="gitcp log")
        if by_session:
            return next(iter(by_session.values())).commit
    return None


def _with_subject(store: Store, tips: Iterable[Oid], text: str) -> Iterator[Summary]:
    """Yield the checkpoints with exactly this subject, older ones first."""
    wanted, ends = one_line(text, 200), list(tips)
    if not wanted or not ends or re.search("[\ud800-\udfff]", wanted):
        return iter(())
    limits = ("--fixed-strings", f"--grep={wanted}")
    try:
        candidates = list(store.forest(ends, *limits))
    except (GitFailed, StoreDamaged):
        candidates = [s for tip in ends for s in reversed(list(store.readable(tip)))]
    return (summary for summary in candidates if summary.subject == wanted)


def _containing(store: Store, text: str, current: str | None, within: str | None) -> Oid | None:
    """Return the newest checkpoint whose label contains `text`, ignoring case, else whose subject
    does: in the current session, else in any own session, else in any fetched one.
    """
    wanted = text.casefold()
    if not wanted:
        return None
    first = within or current
    current_tip = _session_tip(store, first) if first else None
    others = () if within else store.sessions().values()
    for tips in (
        [current_tip] if current_tip else [],
        others,
        () if within else store.fetched().values(),
    ):
        summaries = list(filter(None, (_newest_containing(store, tip, wanted) for tip in tips)))
        if summaries:
            return max(summaries, key=lambda s: (not is_generated(s), s.created)).commit
    return None


def _newest_containing(store: Store, tip: Oid, wanted: str) -> Summary | None:
    generated = None
    for summary in store.readable(tip):
        if wanted in summary.subject.casefold():
            if not is_generated(summary):
                return summary
            generated = generated or summary
    return generated


# ---------------------------------------------------------------- prefixes and times


def _by_prefix(store: Store, text: str) -> Oid | None:
    """Return the only session or commit that begins with `text`; fetched sessions last."""
    sessions, fetched = store.sessions(), store.fetched()
    commits = [*(sessions[name] for name in _matching(sessions, text)), *_commits(store, text)]
    commits = commits or [sessions[name] for name in _own_names(store, sessions, text)]
    commits = commits or [fetched[name] for name in _fetched_names(fetched, text)]
    return _single(store, text, commits, hint="type a longer prefix")


def _commits(store: Store, text: str) -> list[Oid]:
    """Return the checkpoints whose commit ids begin with `text`, among those that gitcp
    refs reach.
    """
    if not HEX.fullmatch(text):
        return []
    tips = refs.tips(store.repo.refs.list(refs.PREFIX)).values()
    listed = store.repo.git(
        "rev-list", "--ignore-missing", "--stdin", input="\n".join(tips).encode()
    )
    return [Oid(line) for line in listed.decode("ascii").split() if line.startswith(text.lower())]


def _at_braces(store: Store, match: re.Match[str], current: str | None) -> Oid:
    """Resolve `@{TIME}` and `SESSION@{TIME}`."""
    time = _time(match[2], store.repo.host.now())
    if time is None:
        steps = match[2].strip()
        instead = f"{match[1]}@~{steps}" if steps.isdigit() else ""
        message = f"{_quoted(match[2])} is not a time" + (
            "; use ~ to count back" if instead else ""
        )
        raise _suggestion(message, match[0], instead, hint="@{yesterday}, @{2 hours ago}")
    return newest(
        store, session_named(store, match[1]) if match[1] else _require_session(current), until=time
    )


def _by_time(store: Store, text: str, current: str | None) -> Oid | None:
    time = _time(text, store.repo.host.now())
    return newest(store, current, until=time) if time and current is not None else None


def _time(text: str, now: datetime) -> datetime | None:
    from gitcp.history import dates  # only for text that is no name

    try:
        return dates.parse(text, now, end=True)
    except BadValue:
        return None


# ---------------------------------------------------------------- errors


def _single(store: Store, text: str, commits: Iterable[Oid], *, hint: str) -> Oid | None:
    """Return the only one of these commits; None if there are none. Raises RevisionAmbiguous for
    more.
    """
    unique = list(dict.fromkeys(commits))
    if len(unique) > 1:
        raise _ambiguous(store, text, unique, hint=hint)
    return unique[0] if unique else None


def _ambiguous(store: Store, text: str, commits: Iterable[Oid], *, hint: str) -> RevisionAmbiguous:
    summaries = sorted(
        map(store.summary, dict.fromkeys(commits)), key=lambda s: s.created, reverse=True
    )
    ids = [id_of(store, summary) for summary in summaries]
    rows = zip(ids, summaries, strict=True)
    lines = tuple(f"{id}  {_format_time(s.created)}  {s.subject}" for id, s in rows)
    error = RevisionAmbiguous(f"{_quoted(text)} matches more than one checkpoint", lines, hint=hint)
    error.argument, error.suggestion = text, ids[0]
    return error


def _ambiguous_session(store: Store, text: str, tips: Mapping[str, Oid]) -> RevisionAmbiguous:
    """Return the error for a name that several sessions have, or begin with."""
    # As a checkpoint, the suggestion made `alpha@3` to `hub/alpha@7@3`, and was no `--session`.
    lasts = {name: store.summary(tip) for name, tip in tips.items()}
    names = sorted(lasts, key=lambda name: lasts[name].created, reverse=True)
    lines = (f"{n}  {_format_time(lasts[n].created)}  {lasts[n].subject}" for n in names)
    error = RevisionAmbiguous(
        f"{_quoted(text)} matches more than one session", tuple(lines), hint="type a longer prefix"
    )
    error.argument, error.suggestion = text, names[0]
    return error


def _not_found(store: Store, text: str, name: str, current: str | None) -> RevisionNotFound:
    """Return the error for text that matches nothing, with the form that would have worked."""
    if text.startswith(":/"):
        return RevisionNotFound(
            f"no label or subject contains {_quoted(text[2:])}",
            hint=f"gitcp find {shlex.quote(text[2:])}" if text[2:].isprintable() else "gitcp log",
        )
    if instead := _equivalent(text):
        why = "HEAD is a git commit; @ is the last checkpoint"
        why = why if text.upper().startswith("HEAD") else f"write {instead}"
        return _suggestion(f"no checkpoint matches {_quoted(text)}: {why}", text, instead)
    if (match := IN_SESSION.fullmatch(name)) and "/" not in name:
        numbered(store, session_named(store, match[1]), int(match[2] or 0))
    message = f"no checkpoint matches {_quoted(text)}"
    if "/" in name:
        remote, _, session = name.partition("/")
        if not _is_remote(store, remote):  # a path, most likely one that was deleted
            hint = f"gitcp log -- {shlex.quote(text)}" if text.isprintable() else "gitcp log"
            return RevisionNotFound(message, hint=hint)
        return _to_fetch(store, message, remote, session.partition("@")[0])
    number = NUMBER.fullmatch(name)
    if number and current is not None and store.tip(current) and int(number[1]) < LARGEST:
        numbered(store, current, int(number[1]))
    if number and current and (error := _dropped(store, message, current, int(number[1]))):
        return error
    if HEX.fullmatch(text) and _is_commit(store, text):
        return RevisionNotFound(
            f"{_quoted(text)} is a git commit, and no checkpoint", hint=f"git show {text}"
        )
    if len(text) >= SHORTEST and _containing(store, text, current, None):
        return _suggestion(message, text, f":/{text}")
    return RevisionNotFound(f"{message}{_similar_names(store, text)}", hint="gitcp log")


def _is_commit(store: Store, text: str) -> bool:
    """Return whether git knows a commit by this id or its beginning."""
    spelled = f"{text}^{{commit}}"
    known = store.repo.git("rev-parse", "--verify", "--quiet", spelled, accept=(0, 1, 128))
    return bool(known)


def _equivalent(text: str) -> str:
    """Return the revision for a form known from git; "" if it is none."""
    if match := re.fullmatch(r"(?:HEAD|head)((?:[~^][0-9]{0,9}){0,5})", text):
        return "@" + match[1]
    if match := re.fullmatch(r"@([0-9]{1,18})", text):
        return match[1]
    if match := re.fullmatch(r"(@|.{1,99}@[0-9]*)\^([0-9]{1,9})", text):
        return f"{match[1]}~{match[2]}"
    if text == "-":
        return "@-"
    if re.fullmatch(r"(?:[~^][0-9]{0,9}){1,5}", text):
        return "@" + text
    return ""


def _suggestion(
    message: str, typed: str, instead: str, hint: str = "gitcp log"
) -> RevisionNotFound:
    error = RevisionNotFound(message, hint=hint)
    error.argument, error.suggestion = typed, instead
    return error


def _is_remote(store: Store, name: str) -> bool:
    """Return whether git knows a remote of this name, or something was fetched from one."""
    if any(fetched.startswith(f"{name}/") for fetched in store.fetched()):
        return True
    known = refs.NAME.match(name) is not None
    return known and bool(
        store.repo.git("config", "--get-all", f"remote.{name}.url", accept=(0, 1))
    )


def _to_fetch(store: Store, message: str, name: str, session: str) -> RevisionNotFound:
    """Return the error for a session of a remote that is not here, or not with its files."""
    from gitcp.git import partial_clone  # only for what was fetched

    if not refs.NAME.match(name):
        return RevisionNotFound(message, hint="gitcp log")
    part, prefix = partial_clone.find(store.repo, name), f"{refs.REMOTES}{name}/sessions/"
    remote_refs = part.refs.list(prefix) if part else {}
    if not session or not any(ref.startswith(prefix + session) for ref in remote_refs):
        return RevisionNotFound(message, hint="gitcp fetch")
    return RevisionNotFound(
        f"{message}; it was fetched without files, for log and show only",
        hint=f"gitcp fetch {name} {session}",
    )


def _dropped(store: Store, message: str, session: str, number: int) -> RevisionNotFound | None:
    """Return the error for a checkpoint in the trash, None if it is not there."""
    trash = store.repo.refs.list(refs.TRASH).items()
    tips = (tip for ref, tip in trash if ref.endswith(f"/sessions/{session}"))
    if not any(_find(store, tip, number) for tip in tips):
        return None
    return RevisionNotFound(
        f"{message}; it was dropped, and gitcp undo N restores it", hint="gitcp log --operations"
    )


def _similar_names(store: Store, text: str) -> str:
    """Return a question for the names of sessions and tags that are spelled nearly like this."""
    from difflib import get_close_matches  # only for an error

    tags = store.repo.refs.list(refs.TAGS)
    names = [*store.sessions(), *(name.removeprefix(refs.TAGS) for name in tags)]
    close = get_close_matches(text[:100], [*names, *store.fetched()], n=3)
    return f"; did you mean {', '.join(map(repr, close))}?" if close else ""


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:59] + "…")


def _format_time(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")
