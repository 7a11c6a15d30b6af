"""The object store of a repository, in three parts: callers take the one that they need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gitcp.git.freshening import Freshener
from gitcp.git.pending import Pending
from gitcp.git.reader import ObjectReader
from gitcp.git.stored import StoredObjects
from gitcp.git.writer import ObjectWriter, Parts

if TYPE_CHECKING:
    from gitcp.git.repo import Repository


class Objects:
    """`reader` reads what is stored or about to be, `freshener` tells what can be relied on,
    `writer` writes, `stored` lists files.

    With `dry`, the writer only names. `reader` is the class of the reader.
    """

    def __init__(
        self, repo: Repository, *, dry: bool = False, reader: type[ObjectReader] = ObjectReader
    ) -> None:
        self.stored, pending = StoredObjects(repo.common_dir / "objects"), Pending()
        self.reader = reader(repo, self.stored, pending)
        self.freshener = Freshener(repo, self.stored, pending, self.reader)
        self._parts = Parts(repo, self.stored, pending, self.reader, self.freshener)
        self.writer = ObjectWriter(self._parts, dry=dry)
