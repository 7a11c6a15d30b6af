"""Runs `git` itself, for the few things that only git knows. No shell, no hooks, no locks, a scrubbed environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gitcp.errors import GitFailed

KEPT = ("GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_COUNT")
KEPT_PREFIXES = ("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "GIT_SSH", "GIT_ASKPASS")

SAFE = (
    "--no-optional-locks",
    "--literal-pathspecs",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "diff.external=",
)


def scrubbed(env: Mapping[str, str]) -> dict[str, str]:
    """`env` without the variables by which an outer git (a hook, an alias) would redirect ours."""
    kept = {
        name: value
        for name, value in env.items()
        if not name.startswith("GIT_") or name in KEPT or name.startswith(KEPT_PREFIXES)
    }
    return {**kept, "GIT_TERMINAL_PROMPT": "0", "GIT_FLUSH": "0", "GIT_NO_REPLACE_OBJECTS": "1", "LC_ALL": "C"}


def run(
    args: Sequence[str | bytes],
    *,
    cwd: str,
    env: Mapping[str, str],
    input: bytes = b"",
    accept: Sequence[int] = (0,),
    index: Path | None = None,
) -> bytes:
    """Run `git ARGS` in `cwd` and return its stdout; `index` takes the place of git's index.

    Raises GitFailed on any other exit code than `accept`.
    """
    import subprocess  # 4 ms, and most saves need no git command

    try:
        done = subprocess.run(
            ["git", *SAFE, *args],
            cwd=cwd,
            env={**scrubbed(env), **({"GIT_INDEX_FILE": str(index)} if index else {})},
            input=input,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        raise GitFailed("the command `git` was not found", hint="install git and put it on PATH") from None
    if done.returncode not in accept:
        said = done.stderr.decode("utf-8", "replace").strip()
        verb = next((a for a in args if isinstance(a, str) and not a.startswith("-")), "")
        raise GitFailed(f"`git {verb}` ended with {done.returncode}: {said or 'no message'}")
    return done.stdout
