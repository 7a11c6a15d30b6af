"""What is shipped: the files of the top-level `hooks/`, in a wheel beside the package's own
modules.
"""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parents[2]


def directory() -> Path:
    """Where they lie: in the wheel, or in the checkout that gitcp runs from."""
    packed = PACKAGE / "_hooks"
    return packed if packed.is_dir() else PACKAGE.parent / "hooks"


def read(name: str) -> bytes:
    """One of them."""
    return (directory() / name).read_bytes()


def below(name: str) -> tuple[str, ...]:
    """The names of all files below a directory, or of the file itself, relative to it ("")."""
    root = directory() / name
    if root.is_file():
        return ("",)
    return tuple(
        sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    )
