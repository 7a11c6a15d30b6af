"""What is known of the agents' transcripts: which repository each belongs to, and where it is
stored.

One file of the user's, since the transcripts are the user's: `transcripts.json` in the user's state
directory (gitcp.user_state). It has paths and no text of a conversation, and nothing is lost with
it: the next run reads every transcript again.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from gitcp import wire
from gitcp.adapters.base import Listed, Origin
from gitcp.git import records
from gitcp.git.fsync import replace_file
from gitcp.model import Host
from gitcp.state import documents

VERSION = 2
NAME = "transcripts.json"


class AdoptedBefore:
    """What earlier runs learned, by transcript. An entry counts while the transcript's files have
    the same size and time.
    """

    def __init__(self, host: Host) -> None:
        self._path = records.state_directory(host) / NAME
        self._entries = _read(self._path)
        self._changed = False

    def origin(self, listed: Listed) -> Origin | None:
        """Return where a session ran, None if that is to be read again."""
        fields = self._current(listed).get("origin")
        if not isinstance(fields, dict):
            return None
        lists = {name: tuple(map(str, v)) for name, v in fields.items() if isinstance(v, list)}
        known = {name: value for name, value in lists.items() if name in Origin.fields}
        return Origin(**known)

    def learn(self, listed: Listed, origin: Origin) -> None:
        """Remember where a session ran."""
        fields = {name: list(getattr(origin, name)) for name in Origin.fields}
        self._entry(listed)["origin"] = {name: value for name, value in fields.items() if value}

    def empty(self, listed: Listed) -> str | None:
        """Return why there is nothing to store, "" if there is, None if unknown."""
        reason = self._current(listed).get("empty")
        return reason if isinstance(reason, str) else None

    def learn_empty(self, listed: Listed, reason: str) -> None:
        """Remember why there is nothing to store, "" if there is."""
        self._entry(listed)["empty"] = reason

    def stored_in(self, listed: Listed, common_dir: Path) -> str | None:
        """Return the session that has all of a transcript in this repository, None if unknown."""
        stored = self._current(listed).get("stored")
        known = stored.get(str(common_dir)) if isinstance(stored, dict) else None
        return known if isinstance(known, str) else None

    def store(self, listed: Listed, common_dir: Path, session: str) -> None:
        """Remember that a session has all of a transcript."""
        entry = self._entry(listed)
        stored = entry.get("stored")
        known = stored if isinstance(stored, dict) else {}
        entry["stored"] = {**known, str(common_dir): session}
        entry["homes"] = sorted({*map(str, self.homes(listed)), str(common_dir)})

    def homes(self, listed: Listed) -> tuple[Path, ...]:
        """Return the repositories that have a session of a transcript, as it is or as it was."""
        homes = self._entries.get(_key(listed), {}).get("homes")
        return tuple(Path(str(home)) for home in homes) if isinstance(homes, list) else ()

    def save(self) -> None:
        """Write the file if anything changed. It is a cache: errors are ignored."""
        if self._changed:
            with suppress(OSError):
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                document = {"version": VERSION, "transcripts": self._entries}
                replace_file(self._path, wire.dumps(document), durable=False, private=True)
            self._changed = False

    def _current(self, listed: Listed) -> dict[str, Any]:
        entry = self._entries.get(_key(listed))
        return entry if entry is not None and entry.get("stamp") == listed.stamp else {}

    def _entry(self, listed: Listed) -> dict[str, Any]:
        self._changed = True
        entry = self._current(listed)
        if not entry:
            homes = [str(home) for home in self.homes(listed)]
            entry = self._entries[_key(listed)] = {"stamp": listed.stamp, "homes": homes}
        return entry


def _key(listed: Listed) -> str:
    return f"{listed.found.agent} {listed.found.session_id} {listed.found.path}"


def _read(path: Path) -> dict[str, dict[str, Any]]:
    document = documents.peek(path)
    entries = document.get("transcripts")
    if document.get("version") != VERSION or not isinstance(entries, dict):
        return {}
    return {key: entry for key, entry in entries.items() if isinstance(entry, dict)}
