"""The user's own state directory, outside of every project: `$XDG_STATE_HOME/gitcp`, else
`~/.local/state/gitcp`.

A project may have come in an archive, with a git directory that a stranger prepared, and whoever
unpacks it owns all of it. So that a file in a project belongs to this user says nothing about who
wrote it: what only the user may decide is recorded here (gitcp.git.records), and so is the key by
which caches in a project are recognized (gitcp.trusted_cache).
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

KEY = "key"
_CONFIGURED: list[str] = []
"""The configuration directory of whoever runs this process."""
KEY_BYTES = 32


def directory(env: Mapping[str, str], home: str) -> str:
    """Return the path of the state directory, existing or not; "" if there is no home. A relative
    XDG_STATE_HOME is ignored, as its specification says.
    """
    base = env.get("XDG_STATE_HOME", "")
    if not base.startswith("/"):
        base = os.path.join(home, ".local", "state") if home.startswith("/") else ""
    return os.path.join(base, "gitcp") if base else ""


def config(env: Mapping[str, str], home: str) -> str:
    """Return the path of the user's configuration directory, `$XDG_CONFIG_HOME/gitcp` or
    `~/.config/gitcp`, existing or not; "" if there is no home.
    """
    base = env.get("XDG_CONFIG_HOME", "")
    if not base.startswith("/"):
        base = os.path.join(home, ".config") if home.startswith("/") else ""
    return os.path.join(base, "gitcp") if base else ""


def configure(env: Mapping[str, str], home: str) -> None:
    """Set the configuration directory for this process: a checkpoint is shown by the adapter of its
    agent, which may be described there, wherever in the program that is.
    """
    _CONFIGURED[:] = [config(env, home)]


def configured() -> str:
    """Return the configuration directory of this process, "" before `configure`."""
    return _CONFIGURED[0] if _CONFIGURED else ""


def key(state: str) -> bytes:
    """Return the key in a state directory, b"" if there is none. Never raises."""
    try:
        descriptor = os.open(os.path.join(state, KEY), os.O_RDONLY | os.O_CLOEXEC)
        try:
            content = os.read(descriptor, KEY_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError:
        return b""
    return content if len(content) == KEY_BYTES else b""


def make_key(state: str) -> bytes:
    """Return the key in a state directory, which is created if missing. Raises OSError."""
    if not state:
        raise FileNotFoundError("no home directory")
    if known := key(state):
        return known
    make_directory(state)
    path = os.path.join(state, KEY)
    temporary = f"{path}.{os.getpid()}"
    descriptor = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    try:
        os.write(descriptor, os.urandom(KEY_BYTES))
        _give(descriptor, state)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        if os.path.exists(path):  # damaged
            os.unlink(path)
        os.link(temporary, path)
    except FileExistsError:
        pass  # another process was faster
    finally:
        os.unlink(temporary)
    return key(state)


def make_directory(path: str) -> None:
    """Create a directory and its missing parents, for this user only. Raises OSError."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        make_directory(os.path.dirname(path))
        os.mkdir(path, 0o700)
    if os.geteuid() == 0:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _give(descriptor, os.path.dirname(path))
        finally:
            os.close(descriptor)


def _give(descriptor: int, directory: str) -> None:
    """Give what root made to the owner of the directory: `sudo` may keep the user's home."""
    if os.geteuid() == 0:
        above = os.stat(directory)
        try:
            os.fchown(descriptor, above.st_uid, above.st_gid)
        except OSError:
            return
