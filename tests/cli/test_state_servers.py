"""The recipes of docs/state.md, with real servers: as a user has them, started for the test, on a
Unix socket below its own directory.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from talk import Talk

from driver import SOURCE, Project

Run = Callable[..., str]

POSTGRES = max(
    Path("/usr/lib/postgresql").glob("*/bin"), default=None, key=lambda path: int(path.parent.name)
)
REDIS, SQLITE = shutil.which("redis-server"), shutil.which("sqlite3")


def recipe(name: str) -> None:
    """Put a recipe of the guide into the user's own configuration."""
    page = SOURCE.joinpath("docs/state.md").read_text("utf-8")
    (text,) = re.findall(rf'```text\n(\[gitcp "state\.{name}"\]\n.*?)```', page, re.DOTALL)
    with Path(os.environ["HOME"], ".gitconfig").open("a") as file:
        file.write(text)


def run(*words: str, owner: int | None = None) -> str:
    """Run a program, as another user if one is given, and return what it printed."""
    other: dict[str, Any] = (
        {} if owner is None else {"user": owner, "group": owner, "extra_groups": ()}
    )
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd="/", **other)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


@pytest.fixture
def sql(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """A PostgreSQL server with a database `app`; runs SQL in it."""
    if POSTGRES is None:
        pytest.skip("PostgreSQL is not installed")
    place = Path(mkdtemp(prefix="gitcp-", dir="/tmp"))  # the path of a socket is short
    owner = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
    if owner is not None:  # PostgreSQL refuses root
        os.chown(place, owner, owner)
    control = (f"{POSTGRES}/pg_ctl", "-D", f"{place}/data")
    try:
        settings = ("-A", "trust", "-U", "app", "-N")
        run(f"{POSTGRES}/initdb", "-D", f"{place}/data", *settings, owner=owner)
        options = f"-k {place} -c listen_addresses='' -F"
        run(*control, "-w", "-l", f"{place}/log", "-o", options, "start", owner=owner)
        for name, value in (("PGHOST", str(place)), ("PGUSER", "app"), ("PGDATABASE", "app")):
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("PATH", f"{POSTGRES}:{os.environ['PATH']}")
        run("createdb", "app")
        yield lambda text: run("psql", "-qAt", "-v", "ON_ERROR_STOP=1", "-c", text)
    finally:
        with suppress(AssertionError):  # it was not started
            run(*control, "-m", "immediate", "stop", owner=owner)
        shutil.rmtree(place)


def test_postgres(project: Project, sql: Run) -> None:
    """A migration drops a table: a restore with --state brings files, conversation and rows back,
    and an undo goes forward again; the second dump costs little.
    """
    recipe("db")
    project.write("schema.sql", "create table users (id int, name text)\n")
    project.commit()
    talk = Talk(project)
    talk.say("store users", "done")
    sql("create table users (id int primary key, name text)")
    sql("insert into users select n, md5(n::text) from generate_series(1, 20000) n")
    project.gitcp("save", "users", check=0)
    sql("insert into users values (0, 'Ada')")
    assert "state: db  " in project.gitcp("save", "before migration", check=0).out

    talk.say("migrate", "I drop users")
    project.write("schema.sql", "create table people (id int)\n")
    sql("drop table users; create table people (id int)")
    lines = talk.path.read_text()

    done = project.gitcp("restore", "2", "--state", "--yes", check=0)
    assert "state db restored by your command" in done.out
    assert project.read("schema.sql") == b"create table users (id int, name text)\n"
    assert sql("select count(*), min(name) filter (where id = 0) from users") == "20001|Ada\n"
    assert sql("select to_regclass('people')") == "\n"
    assert project.json("show")["conversation"]["messages"] == 2

    project.gitcp("undo", "--state", "--yes", check=0)
    assert project.read("schema.sql") == b"create table people (id int)\n"
    assert sql("select to_regclass('users'), to_regclass('people')") == "|people\n"
    assert talk.path.read_text() == lines
    project.gitcp("redo", "--state", "--yes", check=0)
    assert sql("select count(*) from users") == "20001\n"


def test_postgres_fails_whole(project: Project, sql: Run) -> None:
    """Content that does not load leaves the rows as they are: it is one transaction."""
    recipe("db")
    sql("create table users (id int); insert into users values (1)")
    project.write("a", "1\n")
    project.git("config", "--global", "gitcp.state.db.save", "echo no dump")
    project.gitcp("save", "one", "--session", "s", check=0)
    recipe("db")
    failed = project.gitcp("restore", "1", "--state", "--yes", check=3)
    assert "state db not restored: its command ended with exit code 3: " in failed.out
    assert "ERROR:  syntax error" in failed.out, "its last line is a caret"
    assert "undo with: gitcp undo --state" in failed.out
    assert sql("select * from users") == "1\n"


@pytest.mark.skipif(REDIS is None, reason="Redis is not installed")
def test_redis(project: Project) -> None:
    """The keys of a Redis server go back and forward."""
    recipe("cache")
    place = Path(os.environ["HOME"], "redis")
    place.mkdir()
    settings = ("port 0", "unixsocket socket", f"dir {place}", 'save ""')
    place.joinpath("redis.conf").write_text("\n".join([*settings, "repl-diskless-sync-delay 0\n"]))
    # the path of a socket is short
    client = ("sh", "-c", 'cd ~/redis && exec redis-cli -s socket "$@"', "redis")
    run("redis-server", str(place / "redis.conf"), "--daemonize", "yes")
    try:
        _wait(client)
        project.write("a", "1\n")
        run(*client, "set", "user", "Ada")
        project.gitcp("save", "one", "--session", "s", check=0)
        run(*client, "flushall")
        project.gitcp("restore", "1", "--state", "--yes", check=0)
        _wait(client)
        assert run(*client, "get", "user") == "Ada\n"
        project.gitcp("undo", "--state", "--yes", check=0)
        _wait(client)
        assert run(*client, "get", "user") == "\n"
    finally:
        subprocess.run([*client, "shutdown", "nosave"], capture_output=True, check=False)


def _wait(client: tuple[str, ...]) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        done = subprocess.run([*client, "ping"], capture_output=True, check=False)
        if done.stdout == b"PONG\n":
            return
        time.sleep(0.02)
    raise AssertionError("Redis does not answer")


@pytest.mark.skipif(SQLITE is None, reason="sqlite3 is not installed")
def test_sqlite(project: Project) -> None:
    """A database outside of the working tree goes back under a program that has it open."""
    import sqlite3
    from contextlib import closing

    recipe("settings")
    with closing(sqlite3.connect(Path(os.environ["HOME"], "app.db"))) as program:
        program.execute("create table users (name)")
        program.execute("insert into users values ('Ada')")
        program.commit()
        project.write("a", "1\n")
        project.gitcp("save", "one", "--session", "s", check=0)
        program.execute("drop table users")
        program.commit()
        project.gitcp("restore", "1", "--state", "--yes", check=0)
        assert program.execute("select name from users").fetchall() == [("Ada",)]
        program.execute("insert into users values ('Bo')")
        program.commit()
        project.gitcp("undo", "--state", "--yes", check=0)
        assert not program.execute("select name from sqlite_master").fetchall()
