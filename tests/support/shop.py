"""A small shop whose history has one of everything that the interface shows; its clock is set."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from talk import Talk

from gitcp.git.repo import Repository
from gitcp.lifecycle.fork import ForkRequest, fork
from gitcp.model import Checkpoint, Handoff, Host, Note, Trigger
from gitcp.saving.save import SaveRequest, save
from gitcp.store import Store

from driver import Project

NOW = datetime(2026, 11, 5, 15, 30, tzinfo=UTC)
SESSION = "e7baae82-5d1c-4f0a-9b3e-2c6d8f1a7b90"
OTHER = "91ac03de-1111-4222-8333-444455556666"

SHOP = """\
import sqlite3


def connect(name="shop.db"):
    \"\"\"Open the shop's database.\"\"\"
    return sqlite3.connect(name)


def total(prices):
    return sum(prices)
"""

DRIVER = """\
import psycopg


def connect():
    return psycopg.connect(DSN)
"""


class Shop:
    """The project, its agent's conversation, and a clock that is set by hand."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.time = NOW
        self.talk = Talk(project, SESSION)
        self.made: list[Checkpoint] = []

    @property
    def host(self) -> Host:
        """The sealed environment, at the time that the clock shows."""
        return Host(os.environ, Path(os.environ["HOME"]), lambda: self.time)

    @property
    def store(self) -> Store:
        """The store, opened anew."""
        return Store(Repository.open(self.project.root, self.host))

    def at(self, **before: float) -> Shop:
        """Set the clock to so long before NOW."""
        self.time = NOW - timedelta(**before)
        return self

    def save(self, label: str | None = None, **more: Any) -> Checkpoint:
        """Save a checkpoint at this time."""
        note = more.pop("note", Note())
        if label is not None:
            note = Note(label=label, phase=note.phase, objective=note.objective)
        session = more.pop("session", SESSION)
        request = SaveRequest(self.project.root, note, session=session, **more)
        saved = save(self.store, request)
        self.made.append(saved.checkpoint)
        return saved.checkpoint


def furnished(project: Project) -> Shop:
    """Make the history: two days, two phases, tags, a restore, a fork, and another agent."""
    shop = Shop(project)
    project.write("app/shop.py", SHOP)
    project.write("README.md", "# Shop\n\nSells things.\n")
    project.write("schema.sql", "create table items (id integer primary key, price integer);\n")
    dates = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), NOW.isoformat())
    os.environ.update(dates)  # so that the commit's name is always the same
    project.commit("the shop")
    for name in dates:
        del os.environ[name]
    shop.at(days=1, hours=3)
    shop.talk.say("Set up the shop and its schema.", "Done: a module, a schema and a README.")
    objective = "Move the shop to Postgres"
    shop.save("before migration", tags=("v1",), note=Note(phase="design", objective=objective))
    _first_day(shop)
    _second_day(shop)
    return shop


def _first_day(shop: Shop) -> None:
    project = shop.project
    shop.at(days=1, hours=2)
    shop.talk.say("first put the driver behind one function", "I will wrap connect().")
    project.write("app/shop.py", SHOP.replace("sqlite3.connect(name)", "driver().connect(name)"))
    shop.save(trigger=Trigger.TURN)
    shop.at(days=1, hours=1, minutes=50)
    shop.talk.run("python -m pytest -q", "2 failed, 39 passed")
    shop.save(trigger=Trigger.ON_TEST_FAILURE)
    shop.at(days=1, hours=1, minutes=40)
    fork(shop.store, ForkRequest(shop.made[1], project.root, name="asyncpg"))


def _second_day(shop: Shop) -> None:
    project = shop.project
    handoff = Handoff(
        task="Replace sqlite3 by psycopg",
        decisions=("one connection per request",),
        failed=("asyncpg: the test suite is synchronous",),
        next=("migrate the data", "drop shop.db"),
    )
    shop.at(minutes=40)
    shop.talk.say("now move everything over", "Rewriting db.py; schema.sql goes.")
    project.write(
        "db.py", "import psycopg\n\n\ndef connect(dsn):\n    return psycopg.connect(dsn)\n"
    )
    project.remove("schema.sql")
    shop.save(trigger=Trigger.TOOLS, note=Note(phase="build", handoff=handoff))
    shop.at(minutes=36)
    project.write("db.py", DRIVER)
    shop.save(trigger=Trigger.TURN)
    shop.at(minutes=9)
    shop.talk.run("python -m pytest -q", "41 passed")
    project.write("app/shop.py", SHOP.replace("sqlite3", "psycopg").replace("shop.db", "shop"))
    shop.talk.say("update the docs too", "README.md says Postgres now.")
    project.write("README.md", "# Shop\n\nSells things, from Postgres.\n")
    shop.save(trigger=Trigger.TURN)
    shop.at(minutes=2)
    project.write("docs/ü name.md", "Übersicht\n")
    shop.save("driver in place", tags=("works",))
    shop.time = NOW
    moment_ago = NOW.timestamp() - 60
    os.utime(shop.talk.path, (moment_ago, moment_ago))
