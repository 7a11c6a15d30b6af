"""Every file and directory in `<git dir>/gitcp`, declared once: what it holds, who may read it, and
what a purge or a new name of a session does to it.

A hook loads this module, so it imports nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    Naming = Literal["", "text", "head", "json", "names"]


class StateFile:
    """A file or directory in gitcp's directory, by the part of its name before the first dot.

    One that `is_cache` is made again from other things, and a purge deletes it. One that
    `is_private` is for the user who made it alone, also in a shared repository: it is marshaled, or
    nobody else has use for it. `has_private`: that is so for what is in the directory. How it names
    sessions: its text is one ("text"), it begins with an id ("head"), it is JSON ("json"), or the
    names of its files begin with an id ("names").
    """

    __slots__ = ("has_private", "holds", "is_cache", "is_private", "name", "names_sessions")

    def __init__(
        self,
        name: str,
        holds: str,
        *,
        is_cache: bool = False,
        is_private: bool = False,
        has_private: bool = False,
        names_sessions: Naming = "",
    ) -> None:
        self.name = name
        self.holds = holds
        self.is_cache = is_cache
        self.is_private = is_private
        self.has_private = has_private
        self.names_sessions: Naming = names_sessions


STATE_FILES = (
    StateFile("ahead", "what a framework put, until it becomes checkpoints"),
    StateFile("appends", "the files that programs only append to"),
    StateFile("aside", "sessions that were fetched without files", has_private=True),
    StateFile("catalogues", "which list of each remote's sessions was seen last"),
    StateFile("changed", "notices of files that a restore changed, for agents"),
    StateFile("compensations", "how compensations ended", names_sessions="names"),
    StateFile("config", "git's settings", is_cache=True, is_private=True),
    StateFile("conversions", "which conversation was converted into which session"),
    StateFile("current", "the session that saves go to", names_sessions="text"),
    StateFile("damaged", "objects that could not be read, to be stored again"),
    StateFile("dropped", "what automatic retention moved to the trash, until that is reported"),
    StateFile("failing", "saves of hooks that failed: since when, and why"),
    StateFile("faults", "which fault of git's files was reported last"),
    StateFile("hook", "the log of hooks, and the mark of one at work"),
    StateFile("hooked", "the last save of each agent's session", is_cache=True, has_private=True),
    StateFile("imports", "which conversations of other programs were imported, and where to"),
    StateFile("incoming", "a bundle while it is checked", is_private=True),
    StateFile("index", "a copy of git's index while it is changed", is_private=True),
    StateFile("latest", "the last checkpoint of this working tree", names_sessions="head"),
    StateFile("limits", "what automatic retention has counted", is_cache=True),
    StateFile("lock", "the lock that a change of refs takes"),
    StateFile("locks", "one lock for each session"),
    StateFile("manual", "the session of saves without an agent", names_sessions="text"),
    StateFile("mark", "by which what the user decided about this repository is found"),
    StateFile("moves", "refs that are being moved"),
    StateFile(
        "note", "the note for the next save, and a copy while it is edited", names_sessions="json"
    ),
    StateFile("notice", "other notices for the agent"),
    StateFile("numbers", "which numbers sessions go on with", names_sessions="json"),
    StateFile("oplog", "the operation log, which undo and redo follow"),
    StateFile("outputs", "the files that programs named as their own"),
    StateFile("packs", "which packs are gitcp's"),
    StateFile("policy", "when hooks save", is_cache=True, is_private=True),
    StateFile("programs", "what the programs at work write"),
    StateFile("prompted", "where the turn began"),
    StateFile("push", "what is pushed in the background", has_private=True),
    StateFile("queue", "the lock of saves that wait for their turn"),
    StateFile("restore", "a restore that is not finished"),
    StateFile("restored", "conversations that an agent has yet to import"),
    StateFile("runs", "commands and transactions under way"),
    StateFile("scan", "data that the user's scanner reads", is_private=True),
    StateFile("scanned", "what was found free of secrets", is_cache=True),
    StateFile("search", "the index of words in conversations", is_cache=True),
    StateFile("stand-in", "a git directory for when git refuses the repository's"),
    StateFile("steps", "one lock for each step, and each thread of a framework"),
    StateFile("tokens", "the tokens that conversations record", is_cache=True, has_private=True),
    StateFile("tools", "which agent's session ran which tool, and the paths it changed"),
    StateFile("tree-lock", "the lock of saves of this working tree, one after another"),
    StateFile("unchanged", "the state at the last save", is_cache=True, is_private=True),
    StateFile("unread", "which unreadable conversation was reported last"),
    StateFile("untold", "the notice of a restore, for the agent", names_sessions="json"),
    StateFile("verified", "which objects check has read", is_cache=True, is_private=True),
    StateFile("view", "the page that view wrote", is_cache=True, is_private=True),
    StateFile("watch", "where watch listens", is_private=True),
    StateFile("watch-cookie", "a file by which watch knows that it is up to date", is_private=True),
    StateFile("watched", "what the watcher answered last", is_private=True),
    StateFile("worktree-id", "a name for this working tree in the operation log"),
    StateFile("worktree-state", "the last scan of the files", is_cache=True, is_private=True),
    StateFile("worktrees", "which worktree each session was saved in last"),
    StateFile("written", "which paths each restore wrote"),
)
"""In the order of their names."""


def named(**facts: object) -> Iterator[str]:
    """Yield the names of the files of which all these facts are so."""
    for file in STATE_FILES:
        if all(getattr(file, fact) == value for fact, value in facts.items()):
            yield file.name


def of(path_in_directory: str) -> str:
    """Return by which name a file in gitcp's directory is declared."""
    return path_in_directory.partition("/")[0].partition(".")[0]
