"""Several users of one repository: real ones, with a group in common, each with a umask and a home
of its own.

Only root can become others. What they run is a fork that has loaded gitcp already: the interpreter
may lie where they cannot read it.
"""

from __future__ import annotations

import os
import subprocess
from importlib import import_module
from pathlib import Path

import pytest
from faults import process

from driver import Result

GROUP = 47100
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")


class Member:
    """One user, who works in `root`."""

    def __init__(self, number: int, root: Path, umask: int = 0o022) -> None:
        process.load()
        for name in ("_strptime", "encodings.ascii", "sqlite3"):  # only loaded when they are used
            import_module(name)
        self.uid = GROUP + number
        self.umask = umask
        self.root = root
        self.home = root.parent / f"home-{number}"
        self.home.mkdir(exist_ok=True)
        self.home.joinpath(".gitconfig").write_text(
            f"[safe]\n\tdirectory = *\n[user]\n\tname = member {number}\n\temail = "
            f"{number}@example.com\n"
        )
        for path in (self.home, self.home / ".gitconfig"):
            os.chown(path, self.uid, self.uid)

    @property
    def env(self) -> dict[str, str]:
        home = str(self.home)
        return {
            "HOME": home,
            "XDG_CONFIG_HOME": f"{home}/.config",
            "GIT_CONFIG_GLOBAL": f"{home}/.gitconfig",
        }

    def gitcp(
        self, *args: str, check: int | None = 0, cwd: Path | None = None, input: bytes = b""
    ) -> Result:
        """Run `gitcp ARGS`; `check` is the exit code that is insisted on."""
        command = process.forked(args)

        def become() -> None:
            self._become()
            command()

        done = process.run(become, cwd or self.root, self.env, input)
        assert check in (None, done.code), (
            f"gitcp {args!r} ended with {done.code}\n{done.out}\n{done.err}"
        )
        return done

    def run(self, *args: str, cwd: Path | None = None) -> str:
        """Run a command that must succeed; what it printed."""
        env = {**os.environ, **self.env}
        done = subprocess.run(
            args,
            cwd=cwd or self.root,
            env=env,
            capture_output=True,
            text=True,
            preexec_fn=self._become,
        )
        assert done.returncode == 0, f"{args!r}: {done.stderr}"
        return done.stdout

    def write(self, name: str, content: str, cwd: Path | None = None) -> None:
        """Write a file, as others may change it too."""
        path = (cwd or self.root) / name
        path.write_text(content)
        os.chown(path, self.uid, GROUP)

    def _become(self) -> None:
        os.setgroups([GROUP])
        os.setgid(self.uid)
        os.setuid(self.uid)
        os.umask(self.umask)


def meet(
    place: Path, setting: str, first: int = 0o022, second: int = 0o022
) -> tuple[Member, Member]:
    """Two members with these umasks, and a repository with this `core.sharedRepository` that the
    first one made.
    """
    root = place / "shared"
    root.mkdir()
    os.chown(root, -1, GROUP)
    os.chmod(root, 0o2775)
    one, two = Member(1, root, first), Member(2, root, second)
    one.run("git", "init", "-q", "-b", "main", f"--shared={setting}")
    one.run("git", "config", "gc.pruneExpire", "now")
    return one, two
