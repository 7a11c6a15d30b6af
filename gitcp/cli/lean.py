"""Makes Python 3.11 and 3.12 load no more of their own library than 3.13 does: four milliseconds of every command.

For one method of pathlib both load `urllib.parse` and `ipaddress`; 3.11 loads all of `datetime` that is written in
Python, and then takes what is written in C. For processes of our own only: a library leaves others' modules alone.
"""

from __future__ import annotations

import sys


def prepare() -> None:
    """Load pathlib and datetime as 3.13 would. What they are and do stays the same."""
    if sys.version_info >= (3, 13) or "pathlib" in sys.modules or sys.implementation.name != "cpython":
        return
    if sys.version_info < (3, 12):
        import _datetime  # type: ignore[import-not-found]

        sys.modules.setdefault("datetime", _datetime)
    known = sys.modules.get("urllib.parse")
    if known is None:
        sys.modules["urllib.parse"] = stand_in = type(sys)("urllib.parse")
        stand_in.quote_from_bytes = _quoted  # type: ignore[attr-defined]
    try:
        import pathlib  # noqa: F401 -- it takes that one function along
    finally:
        if known is None:
            del sys.modules["urllib.parse"]


def _quoted(path: bytes) -> str:
    """A path in a URL, for `Path.as_uri`."""
    from urllib.parse import quote_from_bytes

    return quote_from_bytes(path)
