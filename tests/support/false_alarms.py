"""Counts what the scan finds in directories of ordinary source, where nothing is secret:
`false_alarms.py DIRECTORY…`.

Texts are read, once each; what is minified or larger than 2 MiB is not source. A finding counts
once, by its ID, since one `--allow` lets it pass everywhere.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gitcp.secrets.scan import fingerprint, scan

SUFFIXES = frozenset(
    ".c .cfg .cjs .css .go .h .html .js .json .md .mjs .py .pyi .rs .rst .sh .toml .ts .txt .yaml .yml".split()  # noqa: E501
)
LARGEST = 2 << 20
LONGEST_LINE = 5000


class Count(NamedTuple):
    """How many bytes were looked through, and what was found: by ID the rule, the beginning and a
    file that has it.
    """

    size: int
    found: dict[str, tuple[str, bytes, Path]]


def count(directories: list[Path]) -> Count:
    """Look through all texts in directories."""
    size, found = 0, dict[str, tuple[str, bytes, Path]]()
    for path, data in texts(directories):
        size += len(data)
        for each in scan(data):
            found.setdefault(fingerprint(each.rule, each.text), (each.rule, each.text[:60], path))
    return Count(size, found)


def texts(directories: list[Path]) -> Iterator[tuple[Path, bytes]]:
    """Every text once, wherever else it lies too."""
    seen = set[bytes]()
    for path in (path for directory in directories for path in sorted(directory.rglob("*"))):
        if (
            path.suffix not in SUFFIXES
            or path.is_symlink()
            or not path.is_file()
            or path.stat().st_size > LARGEST
        ):
            continue
        data = path.read_bytes()
        digest = hashlib.sha256(data).digest()
        if digest not in seen and max(map(len, data.split(b"\n"))) <= LONGEST_LINE:
            seen.add(digest)
            yield path, data


if __name__ == "__main__":
    made = count([Path(name).expanduser() for name in sys.argv[1:]])
    for rule, text, path in made.found.values():
        sys.stdout.write(f"{rule}  {text.decode('utf-8', 'replace')}  {path}\n")
    sys.stdout.write(
        f"{len(made.found)} in {made.size / 1e6:.1f} MB: {len(made.found) * 1e7 / made.size:.2f} "
        "in 10 MB\n"
    )
