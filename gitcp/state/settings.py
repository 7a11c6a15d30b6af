"""User and team settings: git config `gitcp.*`, else `.gitcp.toml`, else the defaults.

`.gitcp.toml` is committed and so may come from anybody: it contains numbers and patterns, never
commands. An unknown key is an error, since it was meant to have an effect.

An invalid setting never stops a save or a restore: its default is used and the mistake is reported.
For protective settings (secrets that may be shared, what a prune drops) the mistake is an error.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gitcp.errors import BadValue, Refused
from gitcp.git import config
from gitcp.git.repo import Repository
from gitcp.policy.settings import AUTOMATIC, Settings
from gitcp.value import Value, replace
from gitcp.worktree.snapshot import Limits

if TYPE_CHECKING:
    from gitcp.retention import Limits as StoreLimits

FILE = ".gitcp.toml"
LARGEST_FILE = 1 << 16
LARGEST = 10**12
"""Upper bound for sizes in bytes and times in seconds."""
SIZE = re.compile(r"(\d{1,15})\s*([kmg]?)(?:i?b)?", re.IGNORECASE)
FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
SPAN = re.compile(r"(\d{1,6})\s*([smhd]?)", re.IGNORECASE)
SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
SWITCH = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}

SCANNER_LIMIT = 300

STATE_WHEN, RISKY = re.compile(r"gitcp\.state\..+\.when"), "before-risky-change"
"""The setting that names the saves which a state outside the files is a part of, and one of them.
Wherever it stands, hooks ask then; whether a command runs, gitcp.state.state_commands decides.
"""

Values = dict[str, Any]


class Scanner(Value):
    """The user's own secret scanner: its command, and its time limit in seconds."""

    command: tuple[str, ...]
    limit: int = SCANNER_LIMIT


def limits(
    repo: Repository, include: Sequence[str] = (), mistakes: list[BadValue] | None = None
) -> Limits:
    """Return the limits in force, with the `include` patterns of the command line added.

    An invalid setting gets its default; each mistake is appended to `mistakes`.
    """
    values = _values(repo, "save", [] if mistakes is None else mistakes)
    chosen = Limits(
        max_untracked_file=values.get("max_file_size", Limits().max_untracked_file),
        max_dependency_files=values.get("max_dependency_files", Limits().max_dependency_files),
        include=tuple(values.get("include", ())),
    )
    return replace(chosen, include=(*chosen.include, *include)) if include else chosen


def policy(repo: Repository, mistakes: list[BadValue] | None = None) -> Settings:
    """Return the settings of automatic checkpoints. Mistakes are handled as in `limits`."""
    collected: list[BadValue] = [] if mistakes is None else mistakes
    values, default = _values(repo, "hooks", collected), Settings()
    return Settings(
        off=frozenset(
            name for name, wanted in _values(repo, "triggers", collected).items() if not wanted
        ),
        interval=values.get("interval", default.interval),
        risky=tuple(values.get("risky_commands", ())),
        tests=tuple(values.get("tests", ())),
        large_rewrite=values.get("large_rewrite", default.large_rewrite),
        risky_states=any(
            STATE_WHEN.fullmatch(key) and RISKY in value for key, value in repo.config.items()
        ),
    )


def retention(repo: Repository) -> StoreLimits:
    """Return the limits above which a save prunes the store. Raises BadValue, naming the
    setting.
    """
    from gitcp.retention import Limits as StoreLimits  # most saves have no limit set

    count, values = _values(repo, "hooks").get("max_checkpoints"), _values(repo, "prune")
    age = values.get("max_age")
    return StoreLimits(
        count or None, timedelta(seconds=age) if age else None, values.get("max_size") or None
    )


def allowed_secrets(repo: Repository) -> dict[str, tuple[str, ...]]:
    """Return the ids of secrets that may be shared, by who says so: the user's own git config, and
    the team's file. Raises BadValue.
    """
    name = in_git("secrets", "allow_secrets")
    set_here = repo.config.get(name.lower()) is not None
    own = config.personal_values(repo.git, name) if set_here else ()
    team = _team(repo, "secrets").get("allow_secrets", ())
    return {f"git config --global {name}": tuple(own), FILE: tuple(team)}


def scanner(repo: Repository) -> Scanner | None:
    """Return the external secret scanner, from the user's own git configuration only, since it is a
    command. Raises BadValue, and Refused for one that the repository's configuration names: it is
    not run, and nothing leaves as if there were none.
    """
    name = "gitcp.secretScanner"
    named = repo.config.get(name.lower())
    if named is None:
        return None
    import shlex  # only where there is one

    text = repo.personal(name) or ""
    if text != named:
        is_set = bool(named) and f"git config --global {name} {shlex.quote(named)} && "
        raise Refused(
            f"{name} is set in this repository's own configuration, which may be a stranger's: it "
            "is not followed, and nothing was written or sent without it",
            hint=f"{is_set or ''}{repo.git_command_line} config --unset {name}",
        )
    if not text:
        return None
    try:
        command = tuple(shlex.split(text))
    except ValueError as error:
        raise BadValue(
            f"{name} is {text!r}, which is not a valid command: {error}",
            hint=f"git config {name} COMMAND",
        ) from None
    if not command:
        return None
    given = repo.config.get(f"{name}Timeout".lower())
    return Scanner(command, span(given, f"{name}Timeout") if given is not None else SCANNER_LIMIT)


def _values(repo: Repository, section: str, mistakes: list[BadValue] | None = None) -> Values:
    """Return the settings of a section. Raises BadValue for a mistake, unless they are
    collected.
    """
    return {**_team(repo, section, mistakes), **_own(repo, section, mistakes)}


@contextmanager
def _collected(mistakes: list[BadValue] | None) -> Iterator[None]:
    """Append mistakes to the list, each once; without a list raise them."""
    try:
        yield
    # A bad setting stopped restores, so nobody could undo the edit that had broken it.
    except BadValue as error:
        if mistakes is None:
            raise
        if str(error) not in map(str, mistakes):
            mistakes.append(error)


def _own(repo: Repository, section: str, mistakes: list[BadValue] | None = None) -> Values:
    """Return the settings in git config."""
    values: Values = {}
    for key, read in SECTIONS[section].items():
        name = in_git(section, key)
        text = repo.config.get(name.lower())
        if text is not None:
            with _collected(mistakes):
                values[key] = read(_all(repo, name, text) if read is _patterns else text, name)
    return values


def in_git(section: str, key: str) -> str:
    """Return the git config name of a setting."""
    if section == "triggers":
        return f"gitcp.trigger.{key}"
    first, *others = key.split("_")
    return f"gitcp.{first}{''.join(word.capitalize() for word in others)}"


def _all(repo: Repository, name: str, last: str) -> list[str]:
    """Return every value of a setting; the `last` alone where git cannot read its settings now."""
    output = repo.git("config", "--get-all", "-z", name, accept=(0, 1))
    return [os.fsdecode(value) for value in output.split(b"\0") if value] or [last]


def _team(repo: Repository, section_name: str, mistakes: list[BadValue] | None = None) -> Values:
    """Return the settings of one section of `.gitcp.toml`."""
    values: Values = {}
    text = None
    with _collected(mistakes):
        text = _read(repo)
    if text is None:
        return values
    sections: dict[str, Values] = {}
    with _collected(mistakes):
        sections = _sections(_parsed(text), text, mistakes)
    for key, value in sections.get(section_name, {}).items():
        with _collected(mistakes):
            values[key] = SECTIONS[section_name][key](
                value, f"{section_name}.{key} in {_place(text, section_name, key)}"
            )
    return values


def _parsed(text: str) -> Values:
    import tomllib  # 5 ms, and most projects have no such file

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also for oversized numbers and too deep nesting
        raise BadValue(f"{FILE} cannot be read: {error}", hint=f"mend {FILE}") from None


def _sections(document: Values, text: str, mistakes: list[BadValue] | None) -> dict[str, Values]:
    """Return the known tables with their known keys."""
    with _collected(mistakes):
        _refuse_unknown([key for key in document if key not in SECTIONS], list(SECTIONS))
    sections: dict[str, Values] = {}
    for name, section in document.items():
        with _collected(mistakes):
            if not isinstance(section, dict):
                raise BadValue(
                    f"{_place(text, '', name)}: {name} is not a table", hint=f"write [{name}]"
                )
            known = SECTIONS.get(name, {})
            sections[name] = {key: value for key, value in section.items() if key in known}
            unknown = [f"{name}.{key}" for key in section if key not in known and name in SECTIONS]
            _refuse_unknown(unknown, [f"{name}.{key}" for key in known])
    return sections


def _place(text: str, section: str, key: str) -> str:
    """Return the file and, if found, the line that sets a key: `.gitcp.toml:3`."""
    current = ""
    for number, line in enumerate(text.splitlines(), 1):
        table = re.match(r"\s*\[\s*([\w.\"'-]+)\s*\]", line)
        current = table[1].strip("\"'") if table else current
        if (
            not table
            and current == section
            and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line)
        ):
            return f"{FILE}:{number}"
    return FILE


def _read(repo: Repository) -> str | None:
    """Return the file's text, None if there is none. Never blocks, and reads a limited size."""
    try:
        descriptor = os.open(repo.root / FILE, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise BadValue(f"{FILE} cannot be read: {error.strerror}", hint=f"mend {FILE}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_FILE:
            raise BadValue(f"{FILE} is not a small file", hint=f"mend {FILE}")
        data = os.read(descriptor, LARGEST_FILE)
    except OSError as error:
        raise BadValue(f"{FILE} cannot be read: {error.strerror}", hint=f"mend {FILE}") from None
    finally:
        os.close(descriptor)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise BadValue(f"{FILE} is not UTF-8", hint=f"mend {FILE}") from None


def _refuse_unknown(keys: Sequence[str], known: Sequence[str]) -> None:
    if keys:
        hint = f"use one of {', '.join(known)}"
        raise BadValue(f"{FILE} has unknown settings: {', '.join(keys)}", hint=hint)


def size(value: object, name: str) -> int:
    """Return a size in bytes, given as a number or with git's suffixes k, m, g."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST:
        return value
    match = SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise BadValue(
            f"{name} is {value!r}, which is not a size", hint="write it like 500k, 20m or 1g"
        )
    return int(match[1]) * FACTORS[match[2].lower()]


def _patterns(value: object, name: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadValue(
            f"{name} is not a list of patterns", hint='write it like ["*.log", "data/**"]'
        )
    return value


def _number(value: object, name: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST:
        return value
    if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value.strip()):
        return int(value)
    raise BadValue(f"{name} is {value!r}, which is not a number", hint="write it like 100")


def span(value: object, name: str) -> int:
    """Return seconds, given as a number or with s, m, h or d."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST:
        return value
    match = SPAN.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise BadValue(
            f"{name} is {value!r}, which is not a time",
            hint="write it like 90s, 30m or 2h; 0 for never",
        )
    return int(match[1]) * SECONDS[match[2].lower()]


def _switch(value: object, name: str) -> bool:
    switched = (
        value
        if isinstance(value, bool)
        else SWITCH.get(value.strip().lower())
        if isinstance(value, str)
        else None
    )
    if switched is None:
        raise BadValue(
            f"{name} is {value!r}, which is neither true nor false", hint="write true or false"
        )
    return switched


Reader = Callable[[object, str], Any]

SECTIONS: dict[str, dict[str, Reader]] = {
    "save": {"max_file_size": size, "max_dependency_files": size, "include": _patterns},
    "secrets": {"allow_secrets": _patterns},
    "hooks": {
        "interval": span,
        "large_rewrite": size,
        "risky_commands": _patterns,
        "tests": _patterns,
        "max_checkpoints": _number,
    },
    "prune": {"max_age": span, "max_size": size},
    "triggers": dict.fromkeys(AUTOMATIC, _switch),
}
"""Every setting: its section in `.gitcp.toml`, its key, and its parser."""
