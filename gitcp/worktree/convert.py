"""Git's conversions between file and blob in plain Python: line ends, `$Id$`, encodings, LFS
pointers.

No filter or textconv is ever run, and no attribute is looked up here. A conversion is used only if
it restores exactly the same bytes. It is recorded as a model.Conversion, so that a restore does not
depend on the settings at that time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from gitcp import regular
from gitcp.errors import GitcpError, StoreDamaged
from gitcp.git.object_format import SHA1, ObjectFormat
from gitcp.model import Conversion, Oid
from gitcp.worktree.attributes import UNSPECIFIED, Attributes, autocrlf_of

_LONE_LF = re.compile(rb"(?<!\r)\n")
_COLLAPSED = re.compile(rb"\$Id:[^$\n]*\$")
_EXPANDABLE = re.compile(rb"\$Id(?:\$|:([^$\n]*)\$)")
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-[^\n]*\n)*oid "
    rb"sha256:([0-9a-f]{64})\nsize (\d{1,18})\n"
)
LONGEST_POINTER = 1024

_PRINTABLE = bytes((*range(32, 127), *range(128, 256), 8, 9, 12, 27))
_LINE_ENDS = b"\r\n"

_NO_OID = SHA1.null

_CODECS = {
    "utf-16": ("utf-16-le", b"\xff\xfe"),
    "utf-16le-bom": ("utf-16-le", b"\xff\xfe"),
    "utf-16be-bom": ("utf-16-be", b"\xfe\xff"),
    "utf-16le": ("utf-16-le", b""),
    "utf-16be": ("utf-16-be", b""),
    "utf-32": ("utf-32-le", b"\xff\xfe\0\0"),
    "utf-32le": ("utf-32-le", b""),
    "utf-32be": ("utf-32-be", b""),
}
_BYTE_CODECS = re.compile(
    r"(?:iso-?8859-?(?:[1-9]|1[0-6])|latin-?1|(?:windows-?|cp)125[0-8]|koi8-[ru])\Z"
)
_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")


class ConversionRule(NamedTuple):
    """How git converts a file: whether it is text (`auto`: if it looks like text), and whether it
    gets CRLF, `$Id$` or an encoding.
    """

    text: bool = False
    auto: bool = False
    crlf: bool = False
    ident: bool = False
    encoding: str = ""


def rule_of(attributes: Attributes, config: Mapping[str, str]) -> ConversionRule:
    """Return git's rule for a path from its attributes and the settings core.autocrlf and
    core.eol.
    """
    encoding = (
        "" if attributes.encoding in (UNSPECIFIED, "set", "unset") else attributes.encoding.lower()
    )
    ident = attributes.ident == "set"
    autocrlf = autocrlf_of(config)
    by_setting = autocrlf == "true" or (
        autocrlf != "input" and config.get("core.eol", "").lower() == "crlf"
    )
    text = (
        attributes.text if attributes.text in ("set", "unset", "input", "auto") else attributes.crlf
    )
    rule = ConversionRule(ident=ident, encoding="" if encoding in ("utf-8", "utf8") else encoding)
    if text == "unset":
        return rule
    if attributes.eol in ("lf", "crlf"):
        return rule._replace(text=True, auto=text == "auto", crlf=attributes.eol == "crlf")
    if text in ("set", "auto"):
        return rule._replace(text=True, auto=text == "auto", crlf=by_setting)
    if text == "input":
        return rule._replace(text=True)
    if autocrlf:
        return rule._replace(text=True, auto=True, crlf=autocrlf == "true")
    return rule


def store(
    path: bytes,
    data: bytes,
    rule: ConversionRule,
    indexed_crlf: Callable[[], bool],
    object_format: ObjectFormat,
) -> tuple[bytes, Conversion | None] | None:
    """Return the blob that git would store for a file's bytes, and its conversion back; None if
    that does not restore the same bytes.

    `indexed_crlf` returns whether the version in the index has CRLF line ends, which git then
    keeps.
    """
    blob = _clean(data, rule, indexed_crlf)
    if blob is None:
        return None
    conversion = _checkout_conversion(path, blob, rule)
    if conversion is None:
        return (blob, None) if blob == data else None
    try:
        restored = _checkout(blob, object_format.oid_of("blob", blob), conversion)
    except UnicodeError:
        return None
    return (blob, conversion) if restored == data else None


def blob_of(data: bytes, conversion: Conversion) -> bytes:
    """Return the blob of a file's current bytes, converted as recorded for an earlier version; the
    bytes themselves if they no longer fit the recorded encoding.
    """
    rule = ConversionRule(
        text=conversion.eol == "crlf", ident=conversion.ident, encoding=conversion.encoding
    )
    blob = _clean(data, rule, lambda: False)
    return data if blob is None else blob


def checkout(blob: bytes, oid: Oid, conversion: Conversion, lfs_dir: Path) -> bytes:
    """Return the bytes of the file from its blob `oid` and the recorded conversion.

    `lfs_dir` is the repository's LFS store (`<common git dir>/lfs`). Raises GitcpError if an LFS
    object is missing, StoreDamaged if it does not match its pointer. Writes nothing.
    """
    if not conversion.lfs:
        try:
            return _checkout(blob, oid, conversion)
        except UnicodeError:
            raise StoreDamaged(f"blob {oid} cannot be written as {conversion.encoding}") from None
    pointer = pointer_of(blob)
    if pointer is None:
        raise StoreDamaged(f"blob {oid} is not an LFS pointer, although the checkpoint records one")
    import hashlib  # 3 ms, only for LFS

    digest, size = pointer
    try:
        data = regular.content(lfs_object(lfs_dir, digest), size)
    except OSError:
        raise GitcpError(
            f"the LFS object {digest} is not in this repository: the file was not changed",
            hint="git lfs fetch --all",
        ) from None
    if len(data) != size or hashlib.sha256(data).hexdigest() != digest:
        raise StoreDamaged(f"the LFS object {digest} does not match its name", hint="git lfs fsck")
    return data


def pointer_of(blob: bytes) -> tuple[str, int] | None:
    """Return the SHA-256 in hex and the size in bytes of an LFS pointer, None if `blob` is not
    one.
    """
    match = _POINTER.fullmatch(blob) if len(blob) < LONGEST_POINTER else None
    return (match[1].decode("ascii"), int(match[2])) if match else None


def lfs_object(lfs_dir: Path, digest: str) -> Path:
    """Return the path of the content with this SHA-256 in the repository's LFS store."""
    return lfs_dir / "objects" / digest[:2] / digest[2:4] / digest


def has_crlf(blob: bytes) -> bool:
    """Return whether git treats a blob as text with CRLF line ends."""
    return b"\r\n" in blob and not _is_binary(blob)


# ---------------------------------------------------------------- file → blob


def _clean(data: bytes, rule: ConversionRule, indexed_crlf: Callable[[], bool]) -> bytes | None:
    """Return the bytes that git would store, None if the content does not fit its encoding."""
    if rule.encoding and data:
        decoded = _decode(data, rule.encoding)
        if decoded is None:
            return None
        data = decoded
    if rule.text and b"\r\n" in data and not (rule.auto and (_is_binary(data) or indexed_crlf())):
        data = data.replace(b"\r\n", b"\n")
    return _COLLAPSED.sub(b"$Id$", data) if rule.ident else data


def _is_binary(data: bytes) -> bool:
    """Return git's guess whether the content is binary."""
    if b"\0" in data or data.count(b"\r") != data.count(b"\r\n"):
        return True
    odd = len(data.translate(None, _PRINTABLE + _LINE_ENDS))
    printable = len(data.translate(None, _LINE_ENDS)) - odd
    return printable >> 7 < odd - data.endswith(b"\x1a")


def _decode(data: bytes, encoding: str) -> bytes | None:
    codec, mark = _codec(encoding)
    if (
        not codec
        or not data.startswith(mark)
        or (not mark and encoding in _CODECS and data.startswith(_MARKS))
    ):
        return None
    try:
        return data[len(mark) :].decode(codec).encode("utf-8")
    except UnicodeError:
        return None


def _codec(encoding: str) -> tuple[str, bytes]:
    """Return Python's codec for an encoding and its byte order mark, ("", b"") if the encoding is
    not supported.
    """
    codec = _CODECS.get(encoding.replace("utf16", "utf-16").replace("utf32", "utf-32"))
    if codec is not None:
        return codec
    return (encoding, b"") if _BYTE_CODECS.match(encoding) else ("", b"")


# ---------------------------------------------------------------- blob → file


def _checkout_conversion(path: bytes, blob: bytes, rule: ConversionRule) -> Conversion | None:
    """Return what git's checkout would do to this blob, None for nothing."""
    ident = rule.ident and _expand(blob, _NO_OID) != blob
    # `$Id$` contains no line end, so the order of the two does not matter.
    eol = (
        rule.crlf
        and _LONE_LF.search(blob) is not None
        and not (rule.auto and (b"\r" in blob or _is_binary(blob)))
    )
    encoding = rule.encoding if blob else ""
    if not (ident or eol or encoding):
        return None
    return Conversion(path, eol="crlf" if eol else "", ident=ident, encoding=encoding)


def _checkout(blob: bytes, oid: Oid, conversion: Conversion) -> bytes:
    data = _expand(blob, oid) if conversion.ident else blob
    if conversion.eol == "crlf":
        data = _LONE_LF.sub(b"\r\n", data)
    if not conversion.encoding:
        return data
    codec, mark = _codec(conversion.encoding)
    if not codec:
        raise UnicodeError(conversion.encoding)
    return mark + data.decode("utf-8").encode(codec)


def _expand(blob: bytes, oid: Oid) -> bytes:
    """Return the blob with its id in each `$Id$`. As git does, leave ids that contain spaces:
    another system wrote them.
    """

    def expanded(match: re.Match[bytes]) -> bytes:
        inside = match[1]
        if inside is not None and -1 < inside.find(b" ", 1) < len(inside) - 1:
            return match[0]
        return b"$Id: " + oid.encode("ascii") + b" $"

    return _EXPANDABLE.sub(expanded, blob)
