"""Makes the test bundle of format 2: `checkpoints.bundle`, and `expected.json`, which says what is
in it.

Run once by whoever fixed the format, from the root of a checkout:

    PYTHONPATH=.:tests:tests/support:tests/data/formats/v1 python tests/data/formats/v2/make_v2.py

It has what format 1 does not: a file that only grows, stored as segments, beside a checkpoint
without one. The bundle is never made again.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from make import Maker, _seal, _sessions

from gitcp.model import Note
from gitcp.state import tag

from driver import Project

HERE = Path(__file__).parent
NAME = "logs/out [1].csv"
LINE = b"a record\n"


def grow(maker: Maker, count: int) -> None:
    """Append lines, and save with the position; the file is one that only grows."""
    (maker.project.root / NAME).parent.mkdir(exist_ok=True)
    with (maker.project.root / NAME).open("ab") as out:
        out.write(LINE * count)
    position = {"record": (maker.project.root / NAME).stat().st_size // len(LINE)}
    maker.save(
        note=Note(facts={"kind": "batch"}, position=position),
        appends=(NAME.encode(),),
        session="e7baae82",
        conversation=None,
    )


def main() -> None:
    """Make both files anew."""
    with tempfile.TemporaryDirectory() as scratch:
        _seal(Path(scratch))
        maker = Maker(Project(Path(scratch, "shop")), Path(scratch, "home"))
        maker.project.write("app.py", "print('one')\n")
        maker.project.commit("A shop")
        for count in (1000, 150_000, 1, 60_000):
            grow(maker, count)
        maker.save(tags=("done",), session="e7baae82", conversation=None, note=Note("done"))
        tags = {name: str(summary.id) for name, summary in tag.listing(maker.store())}
        maker.project.git("gc", "--quiet")
        maker.project.git(
            "bundle", "create", "--quiet", str(HERE / "checkpoints.bundle"), "--glob=refs/gitcp/*"
        )
    document = {"tags": tags, "sessions": _sessions(maker.expected), "checkpoints": maker.expected}
    HERE.joinpath("expected.json").write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
