"""Edit the files of agents, atomically, and so that removal is the exact inverse.

A hook is gitcp's if its command contains `gitcp hook AGENT`; it is added in the format of Claude
Code, Codex and Gemini CLI: under "hooks", for each event, a list of groups, each with a list of
hooks, or in that of Cursor, a list of hooks. A block is appended to a text with an empty line
before it, unless it is the whole text; a text without a final line feed has none afterwards either.
So nothing needs to be remembered.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gitcp import jsonc, wire
from gitcp.errors import BadValue, GitcpError
from gitcp.git import shared
from gitcp.git.fsync import FULL, make_directories, replacing, sync_directory, write_all
from gitcp.value import Value

HOOKS = "hooks"
VERSION = "version"

Groups = Mapping[str, list[Any]]
"""Groups of hooks by event."""


class OwnHooks(NamedTuple):
    """A group of gitcp's, or a hook of gitcp's in another group: its path in the document, and its
    value.
    """

    path: tuple[str | int, ...]
    value: Any


def groups(content: bytes) -> Groups:
    """Return the hooks of a shipped file."""
    hooks: Groups = wire.loads(content)[HOOKS]
    return hooks


def version(content: bytes) -> int | None:
    """Return the version of a shipped file's format, None if it names none."""
    number: int | None = wire.loads(content).get(VERSION)
    return number


def merged(text: str, wanted: Groups, agent: str, version: int | None = None) -> str:
    """Return `text` with these hooks, replacing those of an earlier version; unchanged if they are
    there. A new file begins with them, and names the `version` of its format.

    Raises BadValue if `removed` would not restore the original text.
    """
    if text and _by_event(own(text, agent)) == dict(wanted):
        return text
    bare = result = removed(text, agent) if text else ""
    for event, groups in wanted.items():
        for group in groups:
            result = jsonc.append(result, (HOOKS, event), group)
    if not bare and version is not None:
        result = jsonc.add(result, VERSION, version)
    if removed(result, agent) != bare:
        raise BadValue("its formatting cannot be changed safely")
    return result


def removed(text: str, agent: str) -> str:
    """Return `text` without gitcp's hooks for this agent; "" if nothing is left.
    Raises BadValue for invalid JSON.
    """
    before = [item.key for item in jsonc.parse(text).items]
    for entry in reversed(own(text, agent)):
        text = jsonc.remove(text, entry.path)
    # What people wrote has it first, or hooks of their own, even if there are none in them.
    is_made = before == [HOOKS, VERSION] and [i.key for i in jsonc.parse(text).items] == [VERSION]
    return jsonc.remove(text, (VERSION,)) if is_made else text


def own(text: str, agent: str) -> list[OwnHooks]:
    """Return gitcp's hooks for this agent, in file order. Raises BadValue for invalid JSON."""
    mark = re.compile(rf"\bgitcp hook {re.escape(agent)}\b")
    hooks = jsonc.parse(text).find(HOOKS)
    events = hooks.node.items if hooks and isinstance(hooks.node.value, dict) else ()
    return [
        entry
        for event in events
        if isinstance(event.node.value, list)
        for number, group in enumerate(event.node.value)
        for entry in _in_group((HOOKS, event.key, number), group, mark)
    ]


def _in_group(path: tuple[str | int, ...], group: Any, mark: re.Pattern[str]) -> Iterator[OwnHooks]:
    if _is_own(group, mark):
        yield OwnHooks(path, group)
        return
    hooks = group.get(HOOKS) if isinstance(group, dict) else None
    if not isinstance(hooks, list):
        return
    ours = [number for number, hook in enumerate(hooks) if _is_own(hook, mark)]
    if ours and len(ours) == len(hooks):
        yield OwnHooks(path, group)
    else:
        yield from (OwnHooks((*path, HOOKS, number), hooks[number]) for number in ours)


def _is_own(hook: Any, mark: re.Pattern[str]) -> bool:
    command = hook.get("command") if isinstance(hook, dict) else None
    return isinstance(command, str) and mark.search(command) is not None


def _by_event(entries: list[OwnHooks]) -> dict[str, list[Any]]:
    events: dict[str, list[Any]] = {}
    for each in entries:
        events.setdefault(str(each.path[1]), []).append(each.value)
    return events


def appended(text: str | None, block: str) -> str:
    """Return `text` with a block appended, which ends with a line feed. None stands for a missing
    file.
    """
    if text is None:
        return block
    newline = "\r\n" if "\r\n" in text else "\n"
    block = newline + block.replace("\n", newline)
    if not text or text.endswith("\n"):
        return text + block
    return text + newline + block.removesuffix(newline)


def cut(text: str, block: re.Pattern[str], chosen: Callable[[re.Match[str]], bool]) -> str | None:
    """Return `text` without the chosen blocks; None if nothing else is left.

    `block` matches whole lines, including the empty line before it.
    """
    result = block.sub(lambda match: "" if chosen(match) else match[0], text)
    if result == text:
        return text
    if not text.startswith(("\n", "\r\n")):
        if not result:
            return None
        result = re.sub(r"\A\r?\n", "", result)
    return result if text.endswith("\n") else re.sub(r"\r?\n\Z", "", result)


LARGEST = 4 << 20


class Unusable(GitcpError):
    """A file that cannot be changed. The message is the reason alone, without the path."""


class NoSpace(Unusable):
    """A file that cannot be changed because the disk is full."""


class FileState(Value):
    """The state of a file: its real path, and its bytes (None: it does not exist)."""

    target: Path
    data: bytes | None


def read_state(path: Path, within: Path | None) -> FileState:
    """Read the file at `path`, following links. Raises Unusable if it could not be replaced.

    `within` is a directory that links must not leave: a project may be a stranger's.
    """
    target = Path(os.path.realpath(path))
    if within is not None and not target.is_relative_to(os.path.realpath(within)):
        raise Unusable(f"points outside the project, to {target}")
    try:
        descriptor = os.open(target, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return FileState(target, None)
    except OSError as error:
        raise Unusable(f"cannot be read: {error.strerror}") from None
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            raise Unusable("not a regular file, or too large")
        if not status.st_mode & 0o222:
            raise Unusable("read-only")
        return FileState(target, file.read())


def replace(seen: FileState, data: bytes | None, *, runs: bool = False) -> None:
    """Write `data`, or remove the file (None). A new file is executable if `runs`.

    Raises Unusable if the file has changed since `seen`, and NoSpace.
    """
    if read_state(seen.target, None).data != seen.data:
        raise Unusable("changed in the meantime")
    try:
        if data is None:
            seen.target.unlink()
            sync_directory(seen.target.parent)
        else:
            _write(seen.target, data, 0o777 if runs else 0o666)
    except OSError as error:
        kind = NoSpace if error.errno in FULL else Unusable
        raise kind(f"cannot be written: {error.strerror}") from None


def _write(target: Path, data: bytes, mode: int) -> None:
    make_directories(target.parent)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    with replacing(target, temporary=temporary, mode=mode, private=True) as descriptor:
        shared.give(descriptor, os.path.dirname(target))
        _copy_permissions(descriptor, target)
        write_all(descriptor, data)


def _copy_permissions(descriptor: int, target: Path) -> None:
    """Apply the old file's permissions and owner."""
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(target)
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, status.st_uid, status.st_gid)


def prune_directories(directory: Path, keep: Path) -> None:
    """Remove `directory` and its parents while they are empty and below `keep`."""
    while directory != keep and directory.is_relative_to(keep):
        try:
            directory.rmdir()
        except OSError:
            return
        directory = directory.parent
