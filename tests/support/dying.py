"""A process that changes a store and dies at its n-th change to the file system, for every n; and
what is left then.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from gitcp.lifecycle.check import check
from gitcp.state import rewrite

from driver import SOURCE, Project
from samples import open_store

DYING = """
import os, shutil, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from gitcp import user_state
from gitcp.git.repo import Repository
from gitcp.model import Host
from gitcp.lifecycle import delete, prune, purge
from gitcp.saving import recorded
from gitcp.sharing import push_queue
from gitcp.state import oplog, push_policy, trash
from gitcp.retention import Policy
from gitcp.store import Store

what, original, copies, most = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
if what in ("put", "puts"):
    import graphs
now = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
CALLS = "open write pwrite ftruncate fsync fchmod chmod rename replace link unlink rmdir mkdir"

def run(last):
    count = 0

    def dying(call, name):
        def counted(*args, **named):
            nonlocal count
            count += 1
            if count == last:
                os.kill(os.getpid(), signal.SIGKILL)
            return None if name == "fsync" else call(*args, **named)
        return counted

    host = Host(os.environ, Path(os.environ["HOME"]), lambda: now)
    store = Store(Repository.open(Path.cwd(), host))
    if what == "push":  # consent is given to one directory, so to each copy again
        consent = push_policy.read(Repository.open(Path(original), host), "hub")
        push_policy.record(store.repo, consent)
    for name in f"{CALLS} symlink utime".split():
        setattr(os, name, dying(getattr(os, name), name))
    if what == "prune":
        prune.prune(store, prune.PruneRequest(Policy(last=1)))
    elif what == "delete":
        delete.delete(store, "beta")
    elif what == "purge":
        purge.purge(store, purge.of_text(b"the same"))
    elif what == "commit":
        recorded.commit_all(store)
    elif what == "put":
        graphs.put(graphs.GitSaver("."), graphs.thread(), graphs.state(2, n=2))
    elif what == "puts":
        made = graphs.put_together(graphs.GitSaver("."), "t", "u", "t", "v", step=2)
        assert all(put.is_done for put in made)
    elif what == "push":
        push_queue.drain(store, "hub", push_queue.Timing(apart=0, wait=0))
    else:
        trash.bring_back(store, oplog.entries(store.repo)[-1])
    return count

def child(last):
    copy = copies / str(last)
    shutil.copytree(original, copy, symlinks=True)
    reading, writing = os.pipe()
    if not os.fork():
        os.chdir(copy)
        try:
            os.write(writing, b"%d" % run(last))
        finally:
            os._exit(0)
    os.close(writing)
    count = os.read(reading, 20)
    os.close(reading)
    _, status = os.wait()
    assert os.WIFSIGNALED(status) == bool(last) and bool(count) != bool(last), (last, status, count)
    return int(count or 0)

# of this user, not of a copy: else only the first process would create it
user_state.make_key(user_state.directory(os.environ, os.environ["HOME"]))
changes = child(0)
for last in range(1, changes + 1, max(1, changes // most)) if most else ():
    child(last)
print(changes)
"""


def die(project: Project, what: str, copies: Path, most: int) -> int:
    """Let processes prune, delete a session, purge, push to the remote hub, bring back, commit what
    is recorded or put a second state of a graph, each in a copy and killed at another change.

    In `copies/0` it lives. At most so many, evenly spread. How many changes it makes.
    """
    command = [sys.executable, "-P", "-c", DYING, what, str(project.root), str(copies), str(most)]
    env = {**os.environ, "PYTHONPATH": f"{SOURCE}:{SOURCE / 'tests/support'}"}
    done = subprocess.run(command, cwd=project.root, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def finish(project: Project) -> None:
    """What the next command does first."""
    store = open_store(project)
    with store.lock():
        rewrite.finish(store)


def is_whole(project: Project) -> None:
    """Insist on a store in which every checkpoint can be read, and nothing is under way."""
    report = check(open_store(project))
    assert report.ok, report.problems


def shrink(project: Project, *, packed: bool) -> None:
    """Few files, since they are copied often: one pack, and no examples of hooks. Refs stay loose
    unless `packed`.
    """
    project.git("repack", "-a", "-d", "--quiet")
    project.git("prune-packed", "--quiet")
    shutil.rmtree(project.path(f"{project.git_dir}/hooks"), ignore_errors=True)
    if packed:
        project.git("pack-refs", "--all")
