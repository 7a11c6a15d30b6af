"""The object store of a repository, in three parts: callers take the one that they need."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from gitcp.git.reader import ObjectReader
from gitcp.git.stored import Pending, StoredObjects

if TYPE_CHECKING:
    from gitcp.git.freshening import Freshener
    from gitcp.git.repo import Repository
    from gitcp.git.writer import ObjectWriter


class Objects:
    """`reader` reads what is stored or about to be, `freshener` tells what can be relied on,
    `writer` writes, `stored` lists files.

    With `dry`, the writer only names. `reader` is the class of the reader.
    """

    def __init__(
        self, repo: Repository, *, dry: bool = False, reader: type[ObjectReader] = ObjectReader
    ) -> None:
        self.repo = repo
        self.dry = dry
        self.stored = StoredObjects(repo.common_dir / "objects", repo.object_format)
        self.pending = Pending(repo.object_format)
        self.reader = reader(repo, self.stored, self.pending)

    @cached_property
    def freshener(self) -> Freshener:
        """Return what tells which objects can be relied on."""
        from gitcp.git.freshening import Freshener  # not for who only reads

        return Freshener(self.repo, self.stored, self.pending, self.reader)

    @cached_property
    def writer(self) -> ObjectWriter:
        """Return what writes objects."""
        from gitcp.git.writer import ObjectWriter

        return ObjectWriter(
            self.repo, self.stored, self.pending, self.reader, self.freshener, dry=self.dry
        )
