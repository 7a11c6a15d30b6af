"""A repository that is mounted read-only, as a backup or another machine's is: what only reads
works there.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from launch import SOURCE
from talk import Talk

from gitcp.history.find import index_conversations
from gitcp.history.text_index import TextIndex

from driver import Project
from samples import open_store

READING = (
    "log",
    "log -p",
    "log --all",
    "show",
    "show --conversation",
    "diff 1 2",
    "diff 1",
    "status",
    "sessions",
    "find zebra",
    "find zebra --json",
    "why app.py:1",
    "why app.py",
    "check",
    "stats",
    "review",
    "tag",
    "adopt --dry-run",
    "prune --keep-last 1 --dry-run",
    "restore 1 --dry-run",
)

SCRIPT = """
mount --bind . . && mount -o remount,ro,bind . && cd / && cd "$OLDPWD" || exit 99
touch probe 2>/dev/null && exit 98
for command in "$@"; do
    "$PYTHON" -P -m gitcp $command >/dev/null || echo "$command"
done
"""


@pytest.mark.parametrize("is_indexed", [False, True])
def test_reading(project: Project, is_indexed: bool) -> None:
    """Every command that only reads works, with an index of words and without."""
    alone = ["unshare", "--map-root-user", "--mount", "--propagation", "private"]
    mounting = [*alone, "mount", "--bind", str(project.root), str(project.root)]
    if subprocess.run(mounting, check=False, capture_output=True).returncode != 0:
        pytest.skip("this user may not mount, not even in a namespace of its own")
    project.write("app.py", "one\n")
    project.commit()
    talk = Talk(project)
    for number in range(2):
        talk.say(f"the zebra {number}", "Which?")
        project.write("app.py", f"two {number}\n")
        project.gitcp("save", check=0)
    if is_indexed:
        store = open_store(project)
        index_conversations(store, TextIndex(store.repo))

    done = subprocess.run(
        [*alone, "sh", "-c", SCRIPT, "sh", *READING],
        cwd=project.root,
        env={**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, ""), done.stderr
