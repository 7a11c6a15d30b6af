"""Writes to a state of a graph, as tasks do: `graph_writes.py REPOSITORY COUNT`. Says the number of
each once it is stored.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from gitcp.langgraph import GitSaver

CONFIG: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "1"}}


def main(repository: str, count: str) -> None:
    """Write so many times."""
    saver = GitSaver(repository)
    for number in range(int(count)):
        saver.put_writes(CONFIG, [("n", number)], f"task {number}")
        os.write(1, b"%d\n" % number)


if __name__ == "__main__":
    main(*sys.argv[1:])
