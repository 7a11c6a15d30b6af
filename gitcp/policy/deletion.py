"""Name the directories that a shell command is about to delete, where they may be worktrees."""

from __future__ import annotations

from gitcp.policy import risk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitcp.policy.events import Call


def directories(call: Call) -> list[str]:
    """Return the paths that `git worktree remove` or `rm -r` would delete, as they are typed."""
    paths = []
    for command in risk.in_shell(call):
        words = list(command.words[1:])
        if command.program == "rm" and any(_is_recursive(word) for word in words):
            paths += [word for word in words if not word.startswith("-")]
        elif command.program == "git" and words[-1:] and "worktree" in words:
            rest = words[words.index("worktree") + 1 :]
            if rest[:1] == ["remove"]:
                paths += [word for word in rest[1:] if not word.startswith("-")]
    return paths


def _is_recursive(word: str) -> bool:
    short = word.startswith("-") and not word.startswith("--")
    return word == "--recursive" or (short and ("r" in word or "R" in word))
