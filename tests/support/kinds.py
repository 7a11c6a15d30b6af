"""The kind of repository that tests make: `GITCP_TEST_KIND` is sha1-files (without it),
sha256-files, sha1-reftable, sha256-reftable, or own-store: a directory without git that has gitcp's
own store. Reftable needs git 2.45.
"""

from __future__ import annotations

import os
import subprocess

import pytest

from gitcp.git.object_format import FORMATS

KIND = os.environ.get("GITCP_TEST_KIND") or "sha1-files"
IS_OWN_STORE = KIND == "own-store"
OBJECTS, REFS = ("sha1", "files") if IS_OWN_STORE else KIND.split("-")

FORMAT = FORMATS[OBJECTS]
"""How the tests' repositories name objects."""

DEFAULTS = {"GIT_DEFAULT_HASH": OBJECTS, "GIT_DEFAULT_REF_FORMAT": REFS}
"""Variables of git by which each new repository is of that kind."""


in_files = pytest.mark.skipif(REFS != "files", reason="about files of refs: reftable has none")
"""Marks a test that damages or reads the file of a ref."""


def oid(character: str) -> str:
    """Return a name of no object, of this hex digit alone."""
    return character * FORMAT.digits


def has_reftable() -> bool:
    """Whether git here knows reftable."""
    done = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True)
    version = done.stdout.split()[2].split(".")
    return tuple(map(int, version[:2])) >= (2, 45)
