"""Every key, once: bindings, footer and help come from this table."""

from __future__ import annotations

from typing import NamedTuple

PANES = ("sessions", "timeline", "preview")


class Key(NamedTuple):
    """A key: its textual names, how it is written, what it calls, and what that does.

    `panes` are those in which it acts (default: all). `footer` is a short word for the footer;
    `command` the command line that it runs.
    """

    names: str
    written: str
    action: str
    about: str
    footer: str = ""
    panes: tuple[str, ...] = PANES
    command: str = ""


TIMELINE = ("timeline", "preview")

MOVING = (
    Key("j,down", "j ↓", "move(1)", "next line"),
    Key("k,up", "k ↑", "move(-1)", "previous line"),
    Key("pagedown,ctrl+f", "PgDn", "page(1)", "next page"),
    Key("pageup,ctrl+b", "PgUp", "page(-1)", "previous page"),
    Key("g,home", "g Home", "end(-1)", "first line"),
    Key("G,end", "G End", "end(1)", "last line"),
    Key("1", "1", "pane('sessions')", "go to the sessions"),
    Key("2", "2", "pane('timeline')", "go to the timeline"),
    Key("3", "3", "pane('preview')", "go to the preview"),
    Key("tab,l,right", "Tab l →", "next_pane(1)", "next pane"),
    Key("shift+tab,h,left", "Shift-Tab h ←", "next_pane(-1)", "previous pane"),
    Key("enter", "Enter", "open", "open session or file, expand steps", "open"),
    Key("right_square_bracket", "]", "tab(1)", "next tab of the preview"),
    Key("left_square_bracket", "[", "tab(-1)", "previous tab of the preview", "tabs"),
    Key("J,ctrl+d", "J Ctrl-d", "scroll_preview(1)", "scroll the preview down"),
    Key("K,ctrl+u", "K Ctrl-u", "scroll_preview(-1)", "scroll the preview up"),
    Key("at", "@", "current", "go to the last checkpoint of the current session"),
    Key("plus", "+", "enlarge", "show only this pane; again: show all"),
)

LOOKING = (
    Key(
        "slash",
        "/",
        "search",
        "search all sessions: titles, prompts, answers, notes, paths",
        "search",
        ("sessions",),
    ),
    Key(
        "slash",
        "/",
        "search",
        "search labels, prompts, answers and paths; tag:v1 phase:design trigger:turn filter",
        "search",
        TIMELINE,
    ),
    Key("n", "n", "match(1)", "next match", "", TIMELINE),
    Key("N", "N", "match(-1)", "previous match", "", TIMELINE),
    Key("escape", "Esc", "back", "clear the search, close a file, go back"),
    Key(
        "space",
        "Space",
        "mark",
        "mark this checkpoint: to compare with, or as good for B",
        "mark",
        TIMELINE,
    ),
    Key("b", "b", "base", "compare with: parent, files now, marked checkpoint", "base", TIMELINE),
    Key("y", "y", "copy", "copy the id", "", TIMELINE),
    Key("o", "o", "browse", "open in the browser", "", PANES, "gitcp view REV"),
)

ACTS = (
    Key(
        "r",
        "r",
        "restore",
        "restore: both, files, conversation, or the file under the cursor",
        "restore",
        TIMELINE,
        "gitcp restore REV",
    ),
    Key("f", "f", "fork", "start a new session here", "fork", TIMELINE, "gitcp fork REV"),
    Key("R", "R", "resume", "resume the agent here", "resume", PANES, "gitcp resume REV"),
    Key("s", "s", "save", "save now, with a label", "save", PANES, "gitcp save LABEL"),
    Key("t", "t", "tag", "tag this checkpoint", "tag", TIMELINE, "gitcp tag NAME REV"),
    Key(
        "v",
        "v",
        "revert",
        "undo only what this checkpoint changed",
        "",
        TIMELINE,
        "gitcp revert REV",
    ),
    Key(
        "B",
        "B",
        "bisect",
        "find what broke a command, from the marked checkpoint to this one",
        "",
        TIMELINE,
        "gitcp bisect run --to REV -- CMD",
    ),
    Key(
        "a",
        "a",
        "note",
        "add a note to the next checkpoint",
        "",
        PANES,
        "gitcp note --decided TEXT",
    ),
    Key("X", "X", "drop", "delete this session", "delete", ("sessions",), "gitcp delete SESSION"),
    Key("x", "x", "delete", "delete this checkpoint", "", TIMELINE, "gitcp delete REV"),
    Key(
        "X",
        "X",
        "drop",
        "drop old checkpoints of this session",
        "",
        TIMELINE,
        "gitcp delete --old --session SESSION",
    ),
    Key("u", "u", "undo", "undo the last restore, prune or delete", "undo", PANES, "gitcp undo"),
    Key(
        "W",
        "W",
        "undo_all",
        "undo the last restore and what changed since",
        "",
        PANES,
        "gitcp undo --whole-tree",
    ),
    Key("U", "U", "redo", "redo what was undone", "", PANES, "gitcp redo"),
)

APP = (
    Key("colon", ":", "acts", "command palette", ""),
    Key("question_mark", "?", "keys", "every key", "keys"),
    Key("q,ctrl+c", "q Ctrl-c", "quit", "quit", "quit"),
)

FOOTER = (
    *("restore", "undo", "fork", "save", "tag", "search"),
    *("resume", "open", "mark", "delete", "tabs", "base"),
)
"""What the footer names, the most useful first: on a narrow terminal only these have room."""

SECTIONS = (("Move", MOVING), ("Look", LOOKING), ("Act", ACTS), ("Other", APP))
KEYS = tuple(key for _, keys in SECTIONS for key in keys)

PLAN = (
    Key("y", "y", "apply", "apply the plan", "apply"),
    Key("escape,q", "Esc", "cancel", "cancel: nothing is changed", "cancel"),
    Key("j,down", "j ↓", "move(1)", "scroll the plan down"),
    Key("k,up", "k ↑", "move(-1)", "scroll the plan up"),
)
"""The keys of every plan."""

CHOICE = (
    Key("y", "y", "apply", "yes", "yes"),
    Key("n", "n", "decline", "no: the command goes on without it", "no"),
)
"""The keys of a question in a plan, other than whether to carry it out."""

TRUST = Key("T", "T", "trust", "allow a checkpoint from another repository", "trust it")
"""The key of a plan that was refused because its checkpoint was made elsewhere."""

SHARED = (
    Key("m", "m", "share('--mine')", "only what its session changed", "only its changes"),
    Key(
        "a",
        "a",
        "share('--whole-tree')",
        "everything, also what sessions at work changed",
        "everything",
    ),
)
"""The keys of a plan that would undo changes of other sessions at work."""

SCOPES = (
    Key("b", "b", "scope('both')", "files and conversation", "both"),
    Key("f", "f", "scope('files')", "only the files", "files"),
    Key("c", "c", "scope('conversation')", "only the conversation", "conversation"),
    Key("d", "d", "to_directory", "write to a directory instead", "directory"),
    Key("w", "w", "to_worktree", "a new session in a new working tree", "worktree"),
)
"""The keys of the plan of a restore."""


def of_pane(pane: str) -> tuple[Key, ...]:
    """Return the keys that act in a pane."""
    return tuple(key for key in KEYS if pane in key.panes)
