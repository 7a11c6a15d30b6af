"""The commands: names by task, summaries, spellings, and loading.

`gitcp -h` imports no command, and running one imports only that one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import NamedTuple

import click

COMMANDS = {
    "Save": {
        "save": "Save files and conversation as a checkpoint",
        "note": "Add a note to the next checkpoint",
        "tag": "Name a checkpoint, or list tags",
        "watch": "Save automatically while files change",
        "run": "Run a command between two checkpoints",
    },
    "Look": {
        "status": "Show unsaved changes and what can be undone",
        "log": "Show checkpoints or operations, newest first",
        "show": "Show a checkpoint, or a file or the conversation in it",
        "diff": "Compare a checkpoint with your files, or with another one",
        "sessions": "List sessions, their size, or worktrees; rename one",
        "why": "Show which checkpoint and prompt changed a line or path",
        "find": "Search conversations, notes and files of all checkpoints",
        "bisect": "Find the checkpoint that made a command fail",
        "ui": "Show sessions and checkpoints in the terminal",
        "view": "Show a session in the browser",
    },
    "Go back": {
        "restore": "Restore files and conversation from a checkpoint",
        "rollback": "Restore the state before the last prompt",
        "undo": "Undo the last restore or delete",
        "redo": "Redo what was undone",
        "revert": "Undo the changes of one checkpoint, keeping later ones",
        "resume": "Resume the agent from a checkpoint",
        "fork": "Start a new session from a checkpoint",
    },
    "Delete": {
        "delete": "Delete a session, a checkpoint, or old checkpoints",
        "purge": "Remove a text or a path from every checkpoint",
    },
    "Share": {
        "remote": "List the remotes checkpoints may go to, or change them",
        "push": "Send a session and its tags to a remote",
        "fetch": "Fetch sessions from a remote",
        "export": "Write a session or a conversation to a file",
        "import": "Import agents' conversations, or a file",
        "review": "Explain how commits were made: prompts, attempts, tests",
        "publish": "Make a branch from a session, for a pull request",
    },
    "Set up": {
        "enable": "Set up agents to save automatically",
        "disable": "Remove what enable installed",
        "doctor": "Check the installation, or every checkpoint",
        "adapters": "List the agents gitcp saves, or test a file for one",
        "help": "Show all commands, or how to use one",
    },
}
MORE = {
    "init": "Prepare a directory without git for checkpoints",
    "demo": "Show gitcp at work in a scratch repository",
    "completion": "Print the completion script for a shell",
    "mcp": "Serve checkpoints to MCP clients on stdin and stdout",
    "hook": "Handle an event from an agent (agents call this)",
}
"""Commands that are typed once, or by programs: `gitcp help --all` has their names on one line."""

EVERYDAY = (
    *("enable", "save", "status", "log", "show", "diff"),
    *("restore", "undo", "find", "sessions", "tag", "push"),
)
"""The commands that `gitcp -h` shows."""


class Form(NamedTuple):
    """A form of a command, chosen by its second word, with options of its own."""

    module: str
    summary: str


FORMS = {
    "adapters check": Form("gitcp.cli.adapter_check", "Test the description of an agent in a file"),
    "delete --old": Form("gitcp.cli.prune", "Delete old checkpoints by retention rules"),
    "doctor --store": Form("gitcp.cli.check", "Verify that every checkpoint is intact"),
    "doctor --state": Form("gitcp.cli.state_check", "Run the commands that save states"),
    "fork --remove": Form("gitcp.cli.worktree", "Remove a worktree after saving what is in it"),
    "log --operations": Form("gitcp.cli.oplog", "List restores, undos and other operations"),
    "push --scan": Form("gitcp.cli.secrets", "List secrets in checkpoints, and send nothing"),
    "run --compensations": Form(
        "gitcp.cli.compensate", "Run compensations for effects outside the files"
    ),
    "sessions --size": Form("gitcp.cli.stats", "Show the disk usage of checkpoints"),
    "sessions --tokens": Form("gitcp.cli.tokens", "Show the tokens that conversations used"),
    "sessions rename": Form("gitcp.cli.rename", "Rename a session"),
}
"""Each is a command by itself: its options are those of no other form."""

SPELLINGS = {
    # of gitcp, until there were forms
    "adopt": "import",
    "check": "doctor --store",
    "compensate": "run --compensations",
    "list": "log --table",
    "oplog": "log --operations",
    "prune": "delete --old",
    "rename": "sessions rename",
    "secrets": "push --scan",
    "stats": "sessions --size",
    "stats --tokens": "sessions --tokens",
    "version": "--version",
    "worktree remove": "fork --remove",
    "bisect run": "bisect",
    # of other tools, where it only looks, and means the same
    "annotate": "why",
    "blame": "why",
    "bookmark list": "tag --list",
    "cat": "show",
    "cat-file": "show",
    "cat-file -p": "show",
    "checkpoints": "log",
    "commits": "log",
    "conversations": "sessions",
    "du": "sessions --size",
    "dump": "show",
    "file annotate": "why",
    "file list": "show --files",
    "file show": "show",
    "fsck": "doctor --store",
    "grep": "find",
    "grep -n": "find",
    "history": "log",
    "count-objects": "sessions --size",
    "evolog": "log",
    "l": "log",
    "lg": "log",
    "list snapshots": "log",
    "ls": "log --table",
    "ls REV": "show --files",
    "ls-files": "show --files",
    "ls-tree": "show --files",
    "obslog": "log",
    "op log": "log --operations",
    "operation log": "log --operations",
    "operations": "log --operations",
    "reflog": "log --operations",
    "reflog show": "log --operations",
    "search": "find",
    "session": "sessions",
    "session REV": "log",
    "session list": "sessions",
    "session show": "log",
    "sessions list": "sessions",
    "shortlog": "sessions",
    "snapshots": "log",
    "st": "status",
    "stash list": "log",
    "stat": "status",
    "tags": "tag --list",
    "verify": "doctor --store",
    "whatchanged": "log --stat",
    "workspace list": "sessions --worktrees",
    "worktree list": "sessions --worktrees",
}
"""Other ways to type a command, which no help shows: by its first word, its first two, or its first
and a second that is no option (REV).
"""

MODULES = {
    "hook": "gitcp.hooks.command",
    "import": "gitcp.cli.importing",
    "mcp": "gitcp.mcp.command",
    **{name: form.module for name, form in FORMS.items()},
}
"""Commands whose module is not `gitcp.cli.NAME`."""

LINES: Mapping[str, str] = {
    **{name: line for commands in COMMANDS.values() for name, line in commands.items()},
    **MORE,
}
"""One-line summary of each command."""

NAMES = tuple(LINES)


def expanded(words: Sequence[str]) -> list[str]:
    """Return a command line, beginning with its command, as gitcp spells it."""
    first, second = words[0], words[1] if len(words) > 1 else ""
    ways = [(f"{first} {second}", 2), (first, 1)]
    if second and not second.startswith("-"):
        ways.insert(1, (f"{first} REV", 1))
    for spelled, count in ways:
        if spelled in SPELLINGS:
            return [*SPELLINGS[spelled].split(), *words[count:]]
    return [*words]


def form(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the command of a command line, as one of NAMES or FORMS, and the rest of its words."""
    first, rest = words[0], [*words[1:]]
    options = rest[: rest.index("--")] if "--" in rest else rest
    for name in FORMS:
        command, _, second = name.partition(" ")
        if first == command and second in (options if second.startswith("-") else options[:1]):
            rest.remove(second)
            return name, rest
    return first, rest


def load(name: str) -> click.Command:
    """Import and return the command `name`, one of NAMES or FORMS. What shows the options of a
    command shows its forms, too.
    """
    module = import_module(MODULES.get(name, f"gitcp.cli.{name}"))
    command: click.Command = module.command
    command.name = name
    known = {spelled for param in command.params for spelled in param.opts}
    for each, (_, summary) in FORMS.items():
        first, _, second = each.partition(" ")
        if first == name and second.startswith("-") and second not in known:
            line = summary[0].lower() + summary[1:]
            command.params.append(
                click.Option([second], is_flag=True, expose_value=False, help=line)
            )
    return command
