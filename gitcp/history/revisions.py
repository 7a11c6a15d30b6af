"""What a person types for a checkpoint ("@~2", "e7baae82@12", a tag, ":/text") → its commit.

    @                 the last checkpoint of the current session 12  #12           a number in the
    current session REMOTE/SESSION@12 the same of what was fetched SESSION@12        a number in
    that session;  SESSION@  and  SESSION  its last. A unique beginning (>= 3) will do TAG
    what is tagged so 3fa9c1            the beginning (>= 4) of the commit's own name; it must be
    reachable from a gitcp ref :/text            the newest whose subject holds the text, in the
    current session, else in any REV~2             two before it A..B  A..  ..B    from after A up
    to B; an end left out is the start, or the last of the current session

What could be two things is refused and the candidates are listed. Exact names win over beginnings;
nothing else wins by rank. A session that was forked goes on behind its fork point, so `SESSION@12`
may be a checkpoint of the older session.

This knows no times but those of the checkpoints, and which session is the current one it is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from itertools import islice

from gitcp.errors import RevisionAmbiguous, RevisionNotFound
from gitcp.git import refs
from gitcp.model import Oid
from gitcp.store import Store, Summary, one_line

NUMBER = re.compile(r"#?([0-9]{1,18})")
IN_SESSION = re.compile(r"([^@]+)@([0-9]{0,18})")
STEPS = re.compile(r"(.+)~([0-9]{0,9})", re.DOTALL)
HEX = re.compile(r"[0-9a-f]{4,40}", re.IGNORECASE)

SHORTEST = 3


def resolve(store: Store, text: str, *, current: str | None) -> Oid:
    """The commit of the checkpoint that `text` means; `current` is the session of `@` and of bare
    numbers.

    Digits alone are a number if the current session has it, and the beginning of a session's or a
    commit's name only if it has not. Raises RevisionNotFound, RevisionAmbiguous, StoreDamaged.
    Reads only.
    """
    if text.startswith(":/") and (found := _mentioning(store, text[2:], current)) is not None:
        return found
    name, steps = text, 0
    while match := STEPS.fullmatch(name):
        name, steps = match[1], steps + int(match[2] or 1)
    return _before(store, _resolve(store, name, current), steps, text)


def _resolve(store: Store, text: str, current: str | None) -> Oid:
    """The same for a revision without steps."""
    if text.startswith(":/"):
        found = _mentioning(store, text[2:], current)
        if found is None:
            raise RevisionNotFound(
                f"no checkpoint's subject holds {_quoted(text[2:])}", hint="gitcp find TEXT"
            )
        return found
    if text == "@":
        return _tip(store, current)
    if text.startswith("#") and (match := NUMBER.fullmatch(text)):
        return numbered(store, _known(current), int(match[1]))
    if "/" in text:
        return _fetched(store, text)
    if match := IN_SESSION.fullmatch(text):
        session = session_named(store, match[1])
        return numbered(store, session, int(match[2])) if match[2] else _tip(store, session)
    return _named(store, text, current)


def resolve_range(store: Store, text: str, current: str | None) -> tuple[Oid | None, Oid]:
    """The two ends of `A..B`: the commit before the first one meant (None: from the start), and the
    last one.

    A revision that is no range is one from the start. Raises what `resolve` raises.
    """
    if text.startswith(":/") and (found := _mentioning(store, text[2:], current)) is not None:
        return None, found
    after, dots, last = text.partition("..")
    if not dots:
        return None, resolve(store, text, current=current)
    return resolve(store, after, current=current) if after else None, resolve(
        store, last or "@", current=current
    )


def at(store: Store, session: str, time: datetime) -> Oid:
    """The newest checkpoint of a session that was made at or before `time`. Raises
    RevisionNotFound.
    """
    first = None
    for summary in store.history(_tip(store, session)):
        if summary.created <= time:
            return summary.commit
        first = summary
    raise RevisionNotFound(
        f"session {session} has no checkpoint from {_shown(time)} or before",
        hint=f"its first is {first.id}, of {_shown(first.created)}" if first else "gitcp log",
    )


def in_phase(store: Store, session: str, phase: str) -> Oid:
    """The newest checkpoint of a session that was made in `phase`. Raises RevisionNotFound."""
    wanted = one_line(phase, 100)
    others: dict[str, None] = {}
    for summary in store.history(_tip(store, session)):
        found = summary.trailers.get("Gitcp-Phase", "")
        if found == wanted:
            return summary.commit
        others[found] = None
    phases = ", ".join(filter(None, others))
    raise RevisionNotFound(
        f"session {session} has no checkpoint of phase {wanted!r}",
        hint=f"its phases are: {phases}" if phases else "gitcp log",
    )


def numbered(store: Store, session: str, number: int) -> Oid:
    """The checkpoint with this number in a session's chain. Raises RevisionNotFound."""
    tip = _tip(store, session)
    found = _find(store, tip, number)
    if found is None:
        hint = (
            _brought_back(store, session, number)
            or f"gitcp log (its last is {store.summary(tip).id})"
        )
        raise RevisionNotFound(f"session {session} has no checkpoint {number}", hint=hint)
    return found


def session_named(store: Store, text: str) -> str:
    """The name of the session that `text` is, or is the only one to begin with.

    Raises RevisionNotFound, RevisionAmbiguous.
    """
    if _session_tip(store, text) is not None:
        return text
    found = _beginning(store, text)
    if len(found) > 1:
        raise _ambiguous(store, text, found.values(), hint="write more of its name")
    if not found:
        raise RevisionNotFound(
            f"there is no session {_quoted(text)}", hint=_existing(store, text, "gitcp sessions")
        )
    return next(iter(found))


def first(store: Store, tip: Oid) -> Oid:
    """The first checkpoint of a chain."""
    *_, last = store.history(tip)
    return last.commit


# ---------------------------------------------------------------- one form each


def _known(current: str | None) -> str:
    if current is None:
        raise RevisionNotFound(
            "there is no current session yet", hint="gitcp sessions, then --session NAME"
        )
    return current


def _tip(store: Store, session: str | None) -> Oid:
    name = _known(session)
    tip = _session_tip(store, name)
    if tip is None:
        raise RevisionNotFound(f"session {_quoted(name)} has no checkpoint", hint="gitcp sessions")
    return tip


def _session_tip(store: Store, name: str) -> Oid | None:
    return store.tip(name) if refs.NAME.match(name) else None  # a name becomes a path


def _tagged(store: Store, name: str) -> Oid | None:
    found = (
        refs.read_ref(store.repo.common_dir, refs.TAGS + name) if refs.NAME.match(name) else None
    )
    return store.peel(found) if found else None


def _find(store: Store, tip: Oid, number: int) -> Oid | None:
    """Numbers only fall from the tip on, so the walk ends where the number would be."""
    summary = next((s for s in store.history(tip) if s.id.number <= number), None)
    return summary.commit if summary and summary.id.number == number else None


def _before(store: Store, commit: Oid, steps: int, text: str) -> Oid:
    if not steps:
        return commit
    found = next(islice(store.history(commit), steps, None), None)
    if found is None:
        raise RevisionNotFound(
            f"{_quoted(text)} is before the first checkpoint: there are no {steps} before "
            f"{store.summary(commit).id}",
            hint="gitcp log",
        )
    return found.commit


def _mentioning(store: Store, text: str, current: str | None) -> Oid | None:
    """The newest checkpoint whose subject holds `text`, whatever its case: in the current session,
    else in any.
    """
    wanted = text.casefold()
    if not wanted:
        return None
    sessions = store.sessions()
    here = sessions.pop(current, None) if current is not None else None
    for tips in ([here] if here else [], sessions.values()):
        found = [
            s for s in (_first_mentioning(store, tip, wanted) for tip in tips) if s is not None
        ]
        if found:
            return max(found, key=lambda summary: summary.created).commit
    return None


def _first_mentioning(store: Store, tip: Oid, wanted: str) -> Summary | None:
    return next((s for s in store.history(tip) if wanted in s.subject.casefold()), None)


def _named(store: Store, text: str, current: str | None) -> Oid:
    """A word by itself: a tag, a session or a number, exactly; else the beginning of a session's or
    a commit's name.
    """
    number = NUMBER.fullmatch(text)
    tip = _session_tip(store, current) if number and current is not None else None
    exact = [_tagged(store, text), _session_tip(store, text)]
    if number and tip:
        exact.append(_find(store, tip, int(number[1])))
    meant = [commit for commit in exact if commit is not None]
    if len(meant) > 1:
        raise _ambiguous(
            store,
            text,
            meant,
            hint=f"{text}@ is the session's last; a number can be written #NUMBER",
        )
    if not meant:
        meant = list({*_beginning(store, text).values(), *_commits(store, text)})
    if len(meant) > 1:
        raise _ambiguous(store, text, meant, hint="write more of it")
    if not meant:
        dropped = (
            _brought_back(store, current, int(number[1])) if number and current is not None else ""
        )
        hint = dropped or _existing(store, text, "gitcp log")
        raise RevisionNotFound(f"there is no checkpoint {_quoted(text)}", hint=hint)
    return meant[0]


def _fetched(store: Store, text: str) -> Oid:
    """`REMOTE/SESSION` and `REMOTE/SESSION@N`: a checkpoint as it was fetched."""
    name, _, rest = text.partition("/")
    session, _, number = rest.partition("@")
    missing = RevisionNotFound(
        f"there is no checkpoint {_quoted(text)}", hint=_to_fetch(store, name, session)
    )
    if not refs.NAME.match(name) or not session or (number and not NUMBER.fullmatch(number)):
        raise missing
    prefix = f"{refs.REMOTES}{name}/sessions/"
    tips = {
        ref.removeprefix(prefix): tip
        for ref, tip in refs.list_refs(store.repo.common_dir, prefix).items()
    }
    likely = (
        [tips[session]]
        if session in tips
        else [tip for full, tip in tips.items() if full.startswith(session)]
    )
    if len(likely) > 1:
        raise _ambiguous(store, text, likely, hint="write more of its name")
    found = (
        _find(store, likely[0], int(number)) if likely and number else likely[0] if likely else None
    )
    if found is None:
        raise missing
    return found


def _to_fetch(store: Store, name: str, session: str) -> str:
    from gitcp.git import partial_clone  # only for what was fetched

    part, prefix = partial_clone.find(store.repo, name), f"{refs.REMOTES}{name}/sessions/"
    there = refs.list_refs(part.common_dir, prefix) if part else {}
    if not session or not any(ref.startswith(prefix + session) for ref in there):
        return "gitcp fetch"
    return (
        f"gitcp fetch {name} {session}  (it was fetched without its files: log and show can look "
        "at it)"
    )


def _beginning(store: Store, text: str) -> dict[str, Oid]:
    """The sessions whose names begin with `text`."""
    if len(text) < SHORTEST:
        return {}
    return {name: tip for name, tip in store.sessions().items() if name.startswith(text)}


def _commits(store: Store, text: str) -> list[Oid]:
    """The checkpoints whose commits' names begin with `text`: what any gitcp ref reaches, and no
    other commit.
    """
    if not HEX.fullmatch(text):
        return []
    tips = refs.list_refs(store.repo.common_dir, refs.PREFIX, refs.NOTHING).values()
    listed = store.repo.git(
        "rev-list", "--ignore-missing", "--stdin", input="\n".join(tips).encode()
    )
    return [Oid(line) for line in listed.decode("ascii").split() if line.startswith(text.lower())]


# ---------------------------------------------------------------- what is said


def _ambiguous(store: Store, text: str, commits: Iterable[Oid], *, hint: str) -> RevisionAmbiguous:
    found = sorted(
        map(store.summary, dict.fromkeys(commits)), key=lambda s: s.created, reverse=True
    )
    lines = tuple(f"{s.id}  {_shown(s.created)}  {s.subject}" for s in found)
    return RevisionAmbiguous(f"{_quoted(text)} could be more than one checkpoint", lines, hint=hint)


def _brought_back(store: Store, session: str, number: int) -> str:
    """How a checkpoint comes back that lies in the trash; "" if it does not."""
    trash = refs.list_refs(store.repo.common_dir, refs.TRASH).items()
    tips = (tip for ref, tip in trash if ref.endswith(f"/sessions/{session}"))
    if not any(_find(store, tip, number) for tip in tips):
        return ""
    return "gitcp oplog  (it was dropped; gitcp undo N brings it back)"


def _existing(store: Store, text: str, command: str) -> str:
    from difflib import get_close_matches  # only on the way to an error

    names = [*store.sessions(), *(name.removeprefix(refs.TAGS) for name in _tag_refs(store))]
    close = get_close_matches(text[:100], names, n=3)
    return f"{command} (there is: {', '.join(close)})" if close else command


def _tag_refs(store: Store) -> Iterable[str]:
    return refs.list_refs(store.repo.common_dir, refs.TAGS)


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:59] + "…")


def _shown(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")
