"""What users of git, jj, restic and gh type by habit: how gitcp spells it, or why it has none.

Loaded only where a command or an option is unknown. Nothing here runs a command that changes
something: a hint names it, and only where it was asked for.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import click

from gitcp.cli.commands import FORMS, NAMES, SPELLINGS, expanded, form, load
from gitcp.errors import BadValue, GitcpError

SIMILAR = 0.75
"""The share of letters, by difflib, from which on a word is a misspelled command."""

LOOKING = frozenset(
    ("diff", "doctor", "find", "help", "log", "sessions", "show", "status", "view", "why")
)
"""Commands that change nothing, whatever follows: a misspelled one is completed with its words."""

MEANT = {
    "backout": "revert",
    "backup": "save",
    "backup .": "save",
    "bookmark create": "tag",
    "bookmark delete": "tag --delete",
    "bookmark set": "tag",
    "branch": "sessions",
    "branch -D": "delete",
    "branch -a": "sessions",
    "branch -d": "delete",
    "branch -v": "sessions",
    "branch REV": "fork --name",
    "bundle": "export",
    "bundle create": "export -o",
    "checkout": "restore",
    "checkout -b": "fork --name",
    "checkpoint": "save",
    "ci": "save",
    "commit": "save",
    "commit --amend -m": "save --amend -m",
    "continue": "resume",
    "create": "save",
    "describe -m": "save --amend -m",
    "desc -m": "save --amend -m",
    "edit": "restore",
    "git fetch": "fetch",
    "git push": "push",
    "goto": "restore",
    "hooks": "enable",
    "info": "status",
    "install": "enable",
    "interdiff": "diff",
    "jump": "restore",
    "labels": "log",
    "load": "restore",
    "op undo": "undo",
    "pr": "publish",
    "pull": "fetch",
    "reset": "restore",
    "rev-list": "log --oneline",
    "rewind": "restore",
    "back": "restore",
    "setup": "enable",
    "snapshot": "save",
    "stash push": "save",
    "stash save": "save",
    "stash show": "show",
    "switch": "restore",
    "switch -c": "fork --name",
    "uninstall": "disable",
    "untag": "tag --delete",
    "use": "restore",
    "util completion": "completion",
    "web": "view",
    "workspace add": "fork --worktree",
    "worktree add": "fork --worktree",
}
"""Commands of other tools, and gitcp's equivalent: by the first word, the first two or three, or
the first and a second that is no option (REV).
"""

_COPIES = ("gitcp restore REV PATH copies files of a checkpoint", "gitcp help restore")
_DELETES = (
    "use `delete` for one checkpoint or session, `delete --old` for old ones",
    "gitcp help delete",
)
_AMENDED = ("the label of the last checkpoint can be changed", "gitcp save --amend -m LABEL")
_EARLIER = ("an earlier checkpoint is restored by its number", "gitcp log")
_LABEL = ("a label is changed with `save --amend`, for the last checkpoint", "gitcp help save")
_NOT_EDITED = ("checkpoints are not combined, split or moved", "gitcp log")
_SETTINGS = (
    "settings are git's: git config gitcp.NAME VALUE",
    "git config --get-regexp gitcp",
)
_STASH = (
    "gitcp has no stash: save leaves your files alone; restore brings a checkpoint back",
    "gitcp log",
)

EXPLAINED: Mapping[str, tuple[str, str]] = {
    "abandon": _DELETES,
    "add": ("a save includes all files that git would track", "gitcp status"),
    "am": _COPIES,
    "amend": _AMENDED,
    "apply": _COPIES,
    "archive": ("a checkpoint's files go to a directory", "gitcp restore REV --to DIR"),
    "bookmark": ("a checkpoint is named by a tag", "gitcp tag --list"),
    "checkout -": _EARLIER,
    "cherry-pick": _COPIES,
    "cache": ("caches are in .git/gitcp and are built again when needed", "gitcp sessions --size"),
    "clean": _DELETES,
    "clone": ("git clones; sessions are fetched afterwards", "gitcp help fetch"),
    "commit --amend": _AMENDED,
    "config": _SETTINGS,
    "desc": _LABEL,
    "describe": _LABEL,
    "difftool": ("git's takes the commits of checkpoints", "git difftool COMMIT"),
    "drop": _DELETES,
    "duplicate": _COPIES,
    "env": _SETTINGS,
    "forget": _DELETES,
    "format-patch": ("a checkpoint as a patch", "gitcp show REV -p"),
    "gc": _DELETES,
    "git init": ("gitcp saves into the repository that is here", "git init"),
    "label": _LABEL,
    "merge": ("sessions are never merged; gitcp restore REV PATH copies files", _COPIES[1]),
    "migrate": ("every version reads the checkpoints of earlier ones", "gitcp doctor --store"),
    "mount": ("a checkpoint's files go to a directory", "gitcp restore REV --to DIR"),
    "mv": ("a session is renamed, no file", "gitcp help sessions rename"),
    "new": ("work goes on from a checkpoint after a restore", "gitcp help restore"),
    "next": ("a later checkpoint is restored by its number", "gitcp log"),
    "op": ("operations are undone and redone one by one", "gitcp log --operations"),
    "operation": ("operations are undone and redone one by one", "gitcp log --operations"),
    "parallelize": _NOT_EDITED,
    "pop": _STASH,
    "prev": _EARLIER,
    "rebase": _NOT_EDITED,
    "reflog expire": _DELETES,
    "remove": _DELETES,
    "resolve": ("gitcp leaves no conflicts in files, unless asked for --markers", "gitcp status"),
    "rev-parse": ("the commit is in the output for programs", "gitcp show --json"),
    "reset --hard ORIG_HEAD": ("the last restore is undone by undo", "gitcp undo"),
    "reword": _LABEL,
    "rewrite": ("a text or a path is removed from every checkpoint", "gitcp help purge"),
    "rm": _DELETES,
    "self-update": ("what installed gitcp updates it", "gitcp doctor"),
    "settings": _SETTINGS,
    "sparse": ("git decides which files are checked out", "gitcp status"),
    "split": _NOT_EDITED,
    "squash": _NOT_EDITED,
    "stash": _STASH,
    "submodule": ("submodules are not entered; their commits are recorded", "git submodule status"),
    "switch -": _EARLIER,
    "unlock": ("gitcp's locks end with their process", "gitcp doctor"),
    "upgrade": ("what installed gitcp updates it", "gitcp doctor"),
    "worktree": (
        "`fork` makes and removes worktrees; `sessions --worktrees` lists them",
        "gitcp sessions --worktrees",
    ),
}
"""Commands of other tools that have no counterpart: why, and what to type next."""


class Instead(NamedTuple):
    """How gitcp spells an option. With `place`, its value is the argument of that number, or after
    all others (-1). An empty `name` means that it says nothing here, and is left out; one with `=`
    at its end takes the option as typed.
    """

    name: str = ""
    place: int | None = None


class RefusedHabit(NamedTuple):
    """Why there is no such option, and what to type. `{rest}` are the other words, `{value}` what
    follows the option, `{others}` the words without both.
    """

    why: str
    hint: str


IGNORED = Instead()
GIT = Instead("--option=")
FIRST, SECOND, LAST = Instead(place=0), Instead(place=1), Instead(place=-1)

_FORMAT = RefusedHabit("the format is for people", "gitcp log --json")

OPTIONS: Mapping[str, Mapping[str, Instead | RefusedHabit]] = {
    "delete": {"--prune": IGNORED},
    "delete --old": {"--prune": IGNORED},
    "diff": {
        "--cached": RefusedHabit("gitcp does not compare git's index", "git diff --cached"),
        "--from": FIRST,
        "--check": GIT,
        "--git": IGNORED,
        "--ignore-all-space": GIT,
        "--ignore-space-change": GIT,
        "--name-status": GIT,
        "--numstat": GIT,
        "--quiet": RefusedHabit(
            "it prints what differs", "gitcp diff --name-only --exit-code {rest}"
        ),
        "--staged": RefusedHabit("gitcp does not compare git's index", "git diff --staged"),
        "--to": SECOND,
        "--shortstat": GIT,
        "--summary": GIT,
        "--word-diff": GIT,
        "-R": GIT,
        "-U": GIT,
        "-b": GIT,
        "-w": GIT,
        "--tool": RefusedHabit("git's takes the commits of checkpoints", "git difftool COMMIT"),
        "-q": RefusedHabit("it prints what differs", "gitcp diff --name-only --exit-code {rest}"),
        "-r": RefusedHabit("what a checkpoint changed is shown by show", "gitcp show {value} -p"),
    },
    "doctor --store": {"--read-data": Instead("--all")},
    "fetch": {
        "--all": IGNORED,
        "--prune": RefusedHabit("what a remote deleted stays here", "gitcp sessions --fetched"),
        "--rebase": IGNORED,
    },
    "find": {
        "--snapshot": RefusedHabit("it searches all checkpoints", "gitcp find {others}"),
        "-r": RefusedHabit("it searches all checkpoints", "gitcp find {rest}"),
    },
    "fork": {"-b": Instead("--branch")},
    "init": {
        "--repo": RefusedHabit("the repository of a directory is used", "gitcp -C {value} init"),
    },
    "log": {
        "--after": Instead("--since"),
        "--before": Instead("--until"),
        "--decorate": IGNORED,
        "--diff-filter": RefusedHabit(
            "--name-status marks what was added, modified or deleted", "gitcp log --name-status"
        ),
        "--follow": IGNORED,
        "--format": _FORMAT,
        "--format=oneline": Instead("--oneline"),
        "--latest": Instead("-n"),
        "--limit": Instead("-n"),
        "--max-count": Instead("-n"),
        "--no-merges": IGNORED,
        "--pretty": _FORMAT,
        "--pretty=oneline": Instead("--oneline"),
        "--summary": IGNORED,
        "--tag": RefusedHabit("tags have a list", "gitcp tag --list"),
        "--tags": RefusedHabit("tags have a list", "gitcp tag --list"),
        "-L": RefusedHabit("a line's history is shown by why", "gitcp why PATH:LINE"),
        "-T": _FORMAT,
        "-i": IGNORED,
        "-r": FIRST,
    },
    "push": {
        "--set-upstream": IGNORED,
        "--tags": IGNORED,
        "-f": Instead("--force"),
        "-u": IGNORED,
    },
    "remote": {"-v": IGNORED},
    "restore": {
        "--changes-in": RefusedHabit(
            "the changes of one checkpoint are undone by revert", "gitcp revert {value}"
        ),
        "--exclude": RefusedHabit("name the paths to restore", "gitcp restore REV PATH"),
        "--from": FIRST,
        "--hard": IGNORED,
        "--include": LAST,
        "--quiet": RefusedHabit("a restore prints what it changed", "gitcp restore {rest}"),
        "--source": FIRST,
        "--staged": RefusedHabit("gitcp does not change git's index", "git restore --staged PATH"),
        "--target": Instead("--to"),
        "--verify": RefusedHabit("what was written is always verified", "gitcp restore {rest}"),
        "-f": RefusedHabit(
            "your state is saved first, so nothing has to be forced", "gitcp restore {rest}"
        ),
        "-o": Instead("--to"),
        "-q": RefusedHabit("a restore prints what it changed", "gitcp restore {rest}"),
        "-s": FIRST,
        "-t": Instead("--to"),
    },
    "revert": {
        "--abort": RefusedHabit("a revert is done or not, never in progress", "gitcp status"),
        "--no-edit": IGNORED,
        "-r": FIRST,
    },
    "save": {
        "--all": IGNORED,
        "--no-edit": IGNORED,
        "--verbose": IGNORED,
        "-A": IGNORED,
        "-a": IGNORED,
        "-am": Instead("-m"),
        "-v": IGNORED,
    },
    "sessions": {"--all": IGNORED, "-l": IGNORED},
    "sessions --size": {
        "--mode": RefusedHabit("it shows all sizes", "gitcp sessions --size"),
        "-v": IGNORED,
    },
    "show": {
        "--no-patch": IGNORED,
        "--summary": IGNORED,
        "-q": IGNORED,
        "-r": FIRST,
        "-s": IGNORED,
    },
    "status": {
        "--porcelain": RefusedHabit("the output for programs is JSON", "gitcp status --json"),
        "--short": IGNORED,
        "-b": IGNORED,
        "-s": IGNORED,
        "-sb": IGNORED,
        "-v": IGNORED,
    },
    "tag": {
        "--add": IGNORED,
        "--contains": RefusedHabit("log shows the tags behind a checkpoint", "gitcp log {value}"),
        "--set": IGNORED,
        "--sort": IGNORED,
        "-a": IGNORED,
        "-n": IGNORED,
        "-r": LAST,
    },
    "why": {
        "-L": RefusedHabit("write the line after the path", "gitcp why PATH:LINE"),
        "-r": LAST,
    },
}
"""Options of other tools, by the command that they were typed with."""

EVERYWHERE: Mapping[str, Instead | RefusedHabit] = {
    "--color": RefusedHabit("the environment sets colors", "FORCE_COLOR=1 gitcp {command} {rest}"),
    "--no-color": RefusedHabit("the environment sets colors", "NO_COLOR=1 gitcp {command} {rest}"),
    "--no-pager": RefusedHabit("it goes before the command", "gitcp --no-pager {command} {rest}"),
    "-C": RefusedHabit("it goes before the command", "gitcp -C {value} {command} {others}"),
}
"""Options that no command has, with any command."""

EXTRA = {"sessions": "log"}
"""Commands without an argument, and the one that has it."""
ALONE = ("sessions --size", "log --operations")
"""Forms that show everything, and take no argument."""

ROOT_OPTIONS: Mapping[str, tuple[str, str]] = {
    "--continue": ("the agent is continued by resume", "gitcp resume"),
    "--git-dir": ("the repository is found from a directory", "gitcp -C DIR status"),
    "--resume": ("the agent is continued by resume", "gitcp resume"),
    "-c": ("a setting for one command is given to git", "git -c NAME=VALUE gitcp log"),
}


# ---------------------------------------------------------------- commands


def unknown_command(name: str, words: Sequence[str]) -> BadValue:
    """Return the error for an unknown command, with the likely intended one and its `words`."""
    problem = f"there is no command {name!r}"
    typed = [name, *words]
    if name == "?":
        return BadValue(problem, hint="gitcp help")
    for spelled, count in _spellings(typed):
        if spelled in MEANT:
            meant, rest = MEANT[spelled], typed[count:]
            whole = ", which saves all files" if meant == "save" and "--" in rest else ""
            return BadValue(f"{problem}: use {meant!r}{whole}", hint=typed_line(meant, rest))
        if spelled in EXPLAINED:
            why, hint = EXPLAINED[spelled]
            if name == "forget" and any(word.startswith("--keep") for word in words):
                hint = typed_line("delete --old", words)
            return BadValue(f"{problem}: {why}", hint=hint)
    close = _closest(name)
    if close is None:
        return BadValue(problem, hint="gitcp help --all")
    command = expanded([close])[0]
    if command in LOOKING:
        hint = typed_line(close, words)
    else:
        hint = f"gitcp help {command}" if command in NAMES else f"gitcp {command}"
    return BadValue(f"{problem}; did you mean {close!r}?", hint=hint)


def _spellings(typed: Sequence[str]) -> list[tuple[str, int]]:
    """Return the keys by which a command line is in a table, each with its number of words."""
    first, second = typed[0], typed[1] if len(typed) > 1 else ""
    keys = [(" ".join(typed[:3]), 3), (f"{first} {second}", 2)]
    if second and not second.startswith("-"):
        keys.append((f"{first} REV", 1))
    return [*keys, (first, 1)]


def _closest(name: str) -> str | None:
    """Return the command that was meant by a misspelled one: the same letters in another order, or
    else nearly the same. For less, "settings" was taken for stats, and "operations" for completion.
    """
    from difflib import get_close_matches

    known = (*NAMES, *(each for each in SPELLINGS if " " not in each and len(each) > 2))
    same = (each for each in known if sorted(each) == sorted(name))
    near = get_close_matches(name, known, 1, SIMILAR)
    return next(iter((*same, *near)), None)


def typed_line(meant: str, words: Sequence[str]) -> str:
    """Return the command line `meant` with `words` if it accepts them, else without the options
    among them. git's HEAD becomes `@`.
    """
    name, own = form(expanded(meant.split()))
    if name not in NAMES and name not in FORMS:
        return f"gitcp {name}"
    if not {"-h", "--help"}.isdisjoint(words):
        return f"gitcp help {name}"  # `help savee` proposed a save
    words = [re.sub(r"^HEAD\b", "@", word) for word in words]
    if name == "save" and "--" in words:  # it saves all files, not those named
        words = words[: words.index("--")]
    command = load(name)
    for accepted in (words, [word for word in words if not word.startswith("-")], []):
        line = _spelled(command, [*own, *accepted])
        if _is_accepted(command, line):
            return shlex.join(["gitcp", *name.split(), *line])
    return f"gitcp help {name}"


def _spelled(command: click.Command, words: list[str]) -> list[str]:
    """Return the words with options of other tools as gitcp spells them; those that it refuses
    stay.
    """
    try:
        return rewritten(command, words) or words
    except BadValue:
        return words


def _is_accepted(command: click.Command, words: Sequence[str]) -> bool:
    """Return whether a command takes these words, and does not only show its help."""
    if not {"-h", "--help"}.isdisjoint(words):
        return False
    try:
        # it keeps the help options of its first context
        names = click.get_current_context().help_option_names
        command.make_context(str(command.name), [*words], help_option_names=names)
    except (GitcpError, click.ClickException, click.exceptions.Exit):
        return False
    return True


# ---------------------------------------------------------------- options


def rewritten(command: click.Command, words: Sequence[str]) -> list[str] | None:
    """Return the words of a command with options of other tools as gitcp spells them, None if there
    is none of them. Raises BadValue for one that has another way.
    """
    table = {**EVERYWHERE, **OPTIONS.get(str(command.name), {})}
    own = {spelled for param in command.params for spelled in param.opts}
    placed: dict[int, str] = {}
    line: list[str] = []
    last: list[str] = []
    is_changed = False
    end = words.index("--") if "--" in words else len(words)
    rest = iter(words[:end])
    for word in rest:
        name, equals, value = word.partition("=")
        instead = (
            table.get(word)
            or table.get(name)
            or (not word.startswith("--") and table.get(word[:2]))
        )
        if not instead or word in own or (name in own and not word.startswith("--")):
            line.append(word)
            continue
        is_changed = True
        if isinstance(instead, RefusedHabit):
            value = value or next(rest, "")
            raise _refused(command, word if word in table else name, instead, value, words)
        if instead.name.endswith("="):
            line.append(instead.name + word)
            continue
        if instead.place is None:
            line += [instead.name] if instead.name else []
            line += [value] if equals and instead.name and word not in table else []
            continue
        value = value if equals else next(rest, "")
        if instead.place < 0:
            last.append(value)
        else:
            placed[instead.place] = value
    if 1 in placed:
        placed.setdefault(0, "@")
    first = [value for _, value in sorted(placed.items())]
    return [*first, *line, *last, *words[end:]] if is_changed else None


def _refused(
    command: click.Command, name: str, refused: RefusedHabit, value: str, words: Sequence[str]
) -> BadValue:
    rest = [word for word in words if word.partition("=")[0] != name]
    hint = refused.hint.format(
        command=command.name,
        rest=shlex.join(rest),
        others=shlex.join(word for word in rest if word != value),
        value=shlex.quote(value or "REV"),
    ).rstrip()
    return BadValue(f"there is no option {name}: {refused.why}", hint=hint)


def extra_word(command: str, words: Sequence[str]) -> str | None:
    """Return the line that was meant by a word which a command does not take; None if unknown."""
    if command in ALONE:
        return f"gitcp {command}"
    return typed_line(EXTRA[command], words) if command in EXTRA else None


def unknown_root_option(error: click.NoSuchOption, args: Sequence[str]) -> BadValue:
    """Return the error for an unknown option before the command: why, or where it belongs."""
    option = error.option_name
    problem = f"there is no option {option} before the command"
    if option in ROOT_OPTIONS:
        why, hint = ROOT_OPTIONS[option]
        return BadValue(f"{problem}: {why}", hint=hint)
    at = next((at for at, word in enumerate(args) if not word.startswith("-")), len(args))
    words = expanded(args[at:]) if args[at:] else []
    name, rest = form(words) if words else ("", [])
    moved = [*args[:at], *rest]
    if (name in NAMES or name in FORMS) and _is_accepted(load(name), moved):
        hint = shlex.join(["gitcp", *name.split(), *rest, *args[:at]])
        return BadValue(f"{problem}: {name} has it", hint=hint)
    return BadValue(problem, hint="gitcp -h")
