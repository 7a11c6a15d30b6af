"""The Python that runs this program, to start another one."""

from __future__ import annotations

import os
import re
import sys

PYTHON = re.compile(r"(python|pypy)[0-9.]*t?d?")
"""Names of a Python interpreter. A program that embeds Python may report
itself, and would be started again.
"""


def interpreter() -> str | None:
    """Return the Python interpreter that runs this program, None if Python is embedded."""
    path = sys.executable or ""
    is_python = PYTHON.fullmatch(os.path.basename(path)) and not getattr(sys, "frozen", False)
    return path if is_python and os.access(path, os.X_OK) else None
