"""Check paths of a tree before they are written to a working tree, and format paths for people.

Pure: it checks names only and does not access the file system, so it cannot know whether a
directory above is a symbolic link; the writer does. A tree may come from someone else, and may be
restored to another file system: names equivalent to `.git` on any file system are refused on all.
"""

from __future__ import annotations

from functools import lru_cache

from gitcp.errors import BadValue
from gitcp.model import RESERVED, Skip

LONGEST_NAME = 255
LONGEST_PATH = 4096
DEEPEST = LONGEST_PATH // 2
"""A path of this length cannot name more directories."""

# HFS+ drops these when it compares names: zero-width, direction and shaping marks, the byte order
# mark.
_HFS_IGNORED = dict.fromkeys(
    (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF)
)

_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_UNESCAPES = {escape[1:].encode(): char.encode() for char, escape in _ESCAPES.items()}
_HEX_DIGITS = frozenset(b"0123456789abcdefABCDEF")
_HARMLESS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+@,="

TEMPORARY = b".gitcp-tmp-"
"""Name prefix of the writer's unfinished files; 16 hex digits follow."""


def is_temporary(name: bytes) -> bool:
    """Return whether `name` is a name that `Writer` gives to unfinished files."""
    prefix, digits = name[:-16], name[-16:]
    # Any file whose name began like ours was in no checkpoint.
    return prefix == TEMPORARY and _HEX_DIGITS.issuperset(digits) and digits == digits.lower()


def problem(path: bytes) -> str | None:
    """Return why this path of a tree must not be written ("contains a NUL byte"), None if it is
    valid.

    The text completes a sentence that starts with the path. Never raises.
    """
    if not path:
        return "is empty"
    if b"\0" in path:
        return "contains a NUL byte"
    if path.startswith(b"/"):
        return "is absolute"
    if len(path) > LONGEST_PATH:
        return f"is longer than {LONGEST_PATH} bytes"
    components = path.split(b"/")
    if components[0] == RESERVED:
        return f"lies in {RESERVED.decode()}, which is gitcp's own"
    if names_store(path):
        return "is in a store of gitcp"
    return next(
        (reason for component in components if (reason := _component_problem(component))), None
    )


def names_store(path: bytes) -> bool:
    """Return whether any file system treats a path as gitcp's own store (gitcp.git.own_store) or as
    something in one, at any depth: whoever writes there decides the settings git runs with.
    """
    folded = path.lower()
    if folded.isascii() and b"gitcp" not in folded:
        return False
    names = b"/".join(name for each in path.split(b"/") for name in _equivalents(each))
    return b"/.gitcp/store.git/" in b"/" + names + b"/"


def name_problem(path: bytes, name: bytes) -> str | None:
    """Return the problem of a path whose directory is known to be valid. Fast for ordinary
    names.
    """
    if name[:1] != b"." and not name.translate(None, _HARMLESS) and len(path) < LONGEST_PATH:
        return None
    return problem(path)


def folded(path: bytes) -> str:
    """Return the path as compared by a file system that ignores case and Unicode normalization."""
    import unicodedata  # rarely needed

    return unicodedata.normalize("NFC", path.decode("utf-8", "surrogateescape")).casefold()


def skip_line(skip: Skip) -> str:
    """Return a skipped path with its reason, on one line."""
    detail = f", {skip.detail}" if skip.detail else ""
    return f"{display(skip.path)}  ({skip.reason.value}{detail})"


def display(path: bytes) -> str:
    r"""Return the path as printable text, different for different paths.

    Printable characters are unchanged. Everything else becomes a backslash escape: \\ \n \t \r, and
    \xNN for each byte of a control, invisible or direction-changing character, or of invalid UTF-8.
    """
    text = path.decode("utf-8", "surrogateescape")
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(char if char.isprintable() and char != "\\" else _escaped(char) for char in text)


def parse_display(text: str) -> bytes:
    """Return the path that `display` shows as `text`. Raises BadValue for an escape that `display`
    does not write.
    """
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise BadValue(f"{text!a} is not a path: it contains a lone surrogate") from None
    path = bytearray()
    position = 0
    while (backslash := data.find(b"\\", position)) >= 0:
        byte, length = _unescaped(data[backslash + 1 : backslash + 4], text)
        path += data[position:backslash] + byte
        position = backslash + 1 + length
    return bytes(path + data[position:])


@lru_cache(4096)  # paths have most of their directories in common
def _component_problem(name: bytes) -> str | None:
    if not name:
        return "has an empty component"
    if name in (b".", b".."):
        return f"has the component {name.decode()}"
    if len(name) > LONGEST_NAME:
        return f"has a name longer than {LONGEST_NAME} bytes"
    if _is_dot_git(name):
        return "has a component that some file systems treat as .git"
    return None


def _is_dot_git(name: bytes) -> bool:
    """Return whether any file system treats `name` as `.git`, for which NTFS has the short form
    `git~1`.
    """
    folded = name.lower()
    if folded.isascii() and b"git" not in folded:
        return False
    return any(part in (b".git", b"git~1") for part in _equivalents(name))


@lru_cache(4096)
def _equivalents(name: bytes) -> tuple[bytes, ...]:
    r"""Return the names that file systems may take a name for, in lower case.

    NTFS folds case, drops trailing dots and spaces, treats ":" as the start of a stream name and
    "\" as a separator. HFS+ folds case and ignores some code points.
    """
    folded = name.lower()
    if not folded.isascii():
        folded = (
            folded.decode("utf-8", "surrogateescape")
            .translate(_HFS_IGNORED)
            .encode("utf-8", "surrogateescape")
        )
    return tuple(part.partition(b":")[0].rstrip(b" .") for part in folded.split(b"\\"))


def _escaped(char: str) -> str:
    return _ESCAPES.get(char) or "".join(
        f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape")
    )


def _unescaped(rest: bytes, text: str) -> tuple[bytes, int]:
    """Return the byte of the escape at the start of `rest` (after its backslash), and the escape's
    length.
    """
    if rest[:1] in _UNESCAPES:
        return _UNESCAPES[rest[:1]], 1
    if rest[:1] == b"x" and len(rest) == 3 and _HEX_DIGITS.issuperset(rest[1:]):
        return bytes.fromhex(rest[1:].decode()), 3
    raise BadValue(
        f"{text!a} is not a path: it contains an unknown backslash escape",
        hint="write a backslash as \\\\, and a byte as \\xNN",
    )
