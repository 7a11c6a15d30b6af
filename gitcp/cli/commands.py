"""The commands: names by task, summaries, and loading.

`gitcp -h` imports no command, and running one imports only that one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module

import click

from gitcp.errors import BadValue, GitcpError

COMMANDS = {
    "Save": {
        "save": "Save files and conversation as a checkpoint",
        "adopt": "Store the conversations that agents keep",
    },
    "Look": {
        "ui": "Show sessions and checkpoints in the terminal",
        "log": "Show checkpoints, newest first",
        "show": "Show a checkpoint, or a file or the conversation in it",
        "diff": "Compare a checkpoint with your files, or with another one",
        "status": "Show unsaved changes and what can be undone",
        "sessions": "List sessions",
        "why": "Show which checkpoint and prompt changed a line or path",
        "find": "Search conversations, notes and files of all checkpoints",
        "oplog": "List operations other than saves",
        "stats": "Show the disk usage of checkpoints",
        "view": "Show a session in the browser",
    },
    "Go back": {
        "restore": "Restore files and conversation from a checkpoint",
        "rollback": "Restore the state before the last prompt",
        "undo": "Undo the last restore, prune or delete",
        "redo": "Redo what was undone",
        "revert": "Undo the changes of one checkpoint, keeping later ones",
        "resume": "Resume the agent from a checkpoint",
    },
    "Branch off": {
        "fork": "Start a new session from a checkpoint",
        "worktree": "Remove a worktree after saving what is in it",
    },
    "Name": {
        "tag": "Name a checkpoint, or list tags",
        "rename": "Rename a session",
        "note": "Add a note to the next checkpoint",
    },
    "Run": {
        "watch": "Save automatically while files change",
        "run": "Run a command between two checkpoints",
        "compensate": "Run compensations for effects outside the files",
    },
    "Tidy": {
        "prune": "Drop checkpoints that no rule keeps",
        "delete": "Delete a session or a checkpoint",
        "purge": "Remove a text or a path from every checkpoint",
    },
    "Share": {
        "remote": "List the remotes checkpoints may go to, or change them",
        "push": "Send a session and its tags to a remote",
        "fetch": "Fetch sessions from a remote",
        "export": "Write a session or a conversation to a file",
        "review": "Explain how commits were made: prompts, attempts, tests",
        "import": "Import a bundle, JSON messages or a transcript",
        "publish": "Make a branch from a session, for a pull request",
        "secrets": "List secrets in checkpoints: tokens, keys, passwords",
    },
    "Check": {
        "check": "Verify that every checkpoint is intact",
    },
    "Set up": {
        "enable": "Set up agents to save automatically",
        "disable": "Remove what enable installed",
        "init": "Prepare a directory without git for checkpoints",
        "doctor": "Check the installation",
        "hook": "Handle an event from an agent (agents call this)",
        "mcp": "Serve checkpoints to MCP clients on stdin and stdout",
        "completion": "Print the completion script for a shell",
        "demo": "Show gitcp at work in a scratch repository",
        "help": "Show all commands, or how to use one",
    },
}
EVERYDAY = (
    *("enable", "save", "status", "log", "show", "diff"),
    *("restore", "undo", "find", "sessions", "tag", "push"),
)
"""The commands that `gitcp -h` shows."""

ALIASES = {"list": ("log", "--table"), "version": ("--version",)}
"""Other ways to type a command."""

MEANT = {
    "annotate": "why",
    "back": "restore",
    "backup": "save",
    "blame": "why",
    "branch": "fork --name",
    "bundle": "export",
    "cat": "show",
    "checkout": "restore",
    "checkpoint": "save",
    "checkpoints": "log",
    "ci": "save",
    "clone": "fetch",
    "commit": "save",
    "commits": "log",
    "continue": "resume",
    "conversations": "sessions",
    "create": "save",
    "difftool": "diff",
    "drop": "prune",
    "du": "stats",
    "fsck": "check",
    "goto": "restore",
    "grep": "find",
    "history": "log",
    "hooks": "enable",
    "info": "show",
    "install": "enable",
    "labels": "log",
    "ls": "log --table",
    "mv": "rename",
    "op": "oplog",
    "operations": "oplog",
    "pull": "fetch",
    "reflog": "oplog",
    "reset": "restore",
    "rewind": "restore",
    "search": "find",
    "session": "sessions",
    "setup": "enable",
    "snapshot": "save",
    "snapshots": "log",
    "st": "status",
    "stat": "status",
    "switch": "restore",
    "tags": "tag",
    "uninstall": "disable",
    "verify": "check",
    "web": "view",
}
"""Commands of other tools, and gitcp's equivalent."""

_DROPPED = "prune drops old checkpoints, delete one of them or a whole session"

SIMILAR = 0.75
"""The share of letters, by difflib, from which on a word is a misspelled command."""

EXPLAINED = {
    "add": ("a save includes all files that git would track", "gitcp save"),
    "clean": (_DROPPED, "gitcp prune --dry-run"),
    "config": (
        "settings are git's: git config gitcp.NAME VALUE",
        "git config --get-regexp gitcp",
    ),
    "forget": (_DROPPED, "gitcp prune --dry-run"),
    "gc": (_DROPPED, "gitcp prune --dry-run"),
    "merge": (
        "sessions are never merged; gitcp restore REV PATH copies files",
        "gitcp restore -h",
    ),
    "label": ("a label is given with a save; later, a tag names a checkpoint", "gitcp tag -h"),
    "rebase": ("checkpoints cannot be edited", "gitcp log"),
    "cherry-pick": (
        "gitcp restore REV PATH copies files of a checkpoint",
        "gitcp restore -h",
    ),
    "remove": (_DROPPED, "gitcp prune --dry-run"),
    "reword": ("checkpoints cannot be edited; a tag names one", "gitcp tag -h"),
    "rm": (_DROPPED, "gitcp prune --dry-run"),
    "settings": (
        "settings are git's: git config gitcp.NAME VALUE",
        "git config --get-regexp gitcp",
    ),
    "squash": ("checkpoints cannot be edited", "gitcp log"),
    "stash": ("a save keeps your files unchanged, and a restore returns to it", "gitcp save"),
}
"""Commands of other tools that have no counterpart: why, and what to type next."""

MODULES = {
    "hook": "gitcp.hooks.command",
    "import": "gitcp.cli.importing",
    "mcp": "gitcp.mcp.command",
}
"""Commands whose module is not `gitcp.cli.NAME`."""

LINES = {name: line for commands in COMMANDS.values() for name, line in commands.items()}
"""One-line summary of each command."""

NAMES = tuple(LINES)


def unknown(name: str, words: Sequence[str]) -> BadValue:
    """Return the error for an unknown command, with the likely intended one and its `words`."""
    problem = f"there is no command {name!r}"
    if name in EXPLAINED:
        why, hint = EXPLAINED[name]
        return BadValue(f"{problem}: {why}", hint=hint)
    if name in MEANT:
        return BadValue(f"{problem}: use {MEANT[name]!r}", hint=_typed(MEANT[name], words))
    # "lst" is near "list", which is an alias and no command: an internal error once.
    close = _closest(name, (*NAMES, *ALIASES))
    if close is None:
        return BadValue(problem, hint="gitcp help --all")
    return BadValue(f"{problem}; did you mean {close!r}?", hint=_typed(close, words))


def _closest(name: str, known: Sequence[str]) -> str | None:
    """Return the command that was meant by a misspelled one: the same letters in another order, or
    else nearly the same. For less, "settings" was taken for stats, and "operations" for completion.
    """
    from difflib import get_close_matches  # only on the way to an error

    same = (each for each in known if sorted(each) == sorted(name))
    near = get_close_matches(name, known, 1, SIMILAR)
    return next(iter((*same, *near)), None)


def _typed(name: str, words: Sequence[str]) -> str:
    """Return the command line `name` with `words` if it accepts them, else without the options
    among them. git's HEAD becomes `@`.
    """
    import shlex

    command, *own = ALIASES.get(name) or name.split()
    if command not in NAMES:
        return f"gitcp {command}"
    if not {"-h", "--help"}.isdisjoint(words):
        return f"gitcp {command} -h"  # `help savee` proposed a save
    words = [re.sub(r"^HEAD\b", "@", word) for word in words]
    for accepted in (words, [word for word in words if not word.startswith("-")], []):
        if _is_accepted(load(command), [*own, *accepted]):
            return shlex.join(["gitcp", command, *own, *accepted])
    return f"gitcp {command} -h"


def _is_accepted(command: click.Command, words: Sequence[str]) -> bool:
    """Return whether a command takes these words, and does not only show its help."""
    if not {"-h", "--help"}.isdisjoint(words):
        return False
    try:
        command.make_context(str(command.name), [*words])
    except (GitcpError, click.ClickException, click.exceptions.Exit):
        return False
    return True


def load(name: str) -> click.Command:
    """Import and return the command `name`, one of NAMES."""
    module = import_module(MODULES.get(name, f"gitcp.cli.{name}"))
    command: click.Command = module.command
    command.name = name
    return command
