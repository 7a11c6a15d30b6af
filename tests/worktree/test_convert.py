"""Conversions: the blob is git's own wherever its checkout gives the same bytes back, and else the
bytes themselves.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from pathlib import Path

import pytest
from capturing import Camera, Shot, git_tree
from hypothesis import given
from hypothesis import strategies as st
from kinds import FORMAT

from gitcp.errors import GitcpError, StoreDamaged
from gitcp.git.objects import Objects
from gitcp.model import Conversion, Entry, Oid
from gitcp.worktree import blobs, convert
from gitcp.worktree.attributes import Attributes, ConversionHints, conversion_words
from gitcp.worktree.convert import ConversionRule, rule_of
from gitcp.worktree.snapshot import take

from driver import Project

NOTHING = Oid("0" * FORMAT.digits)

CONTENTS = {
    "empty": b"",
    "lf": b"a\nb\n",
    "crlf": b"a\r\nb\r\n",
    "mixed": b"a\r\nb\n",
    "cr": b"a\rb\r\n",
    "binary": b"\0\1\r\n",
    "odd": b"\1\2\3\4\r\n",
    "eof": b"ab\r\n\x1a",
    "id": b"x $Id$ y\n",
    "old id": b"x $Id: 1234 $ y\r\n",
    "their id": b"$Id: file,v 1.2 someone $\n$Id$",
    "broken id": b"$Id: no end\n$Id$ $Id:$",
    "utf-8": "h\u00e9\n".encode(),
    "utf-16": "h\u00e9\n\U0001f600".encode("utf-16"),
    "utf-16 crlf": "h\u00e9\r\n".encode("utf-16"),
    "utf-16 swapped": b"\xfe\xff" + "h\u00e9\n".encode("utf-16-be"),
    "utf-16 without mark": "h\u00e9\n".encode("utf-16-le"),
    "latin": b"caf\xe9\n",
    "half a character": b"\xff\xfe\x00\xd8",
}

RULES = (
    "text=auto",
    "text",
    "-text",
    "text eol=crlf",
    "text=auto eol=crlf",
    "eol=lf",
    "text=input",
    "crlf",
    "crlf=input",
    "-crlf",
    "ident",
    "ident text eol=crlf",
    "binary",
    "filter=unknown",
    "working-tree-encoding=UTF-16",
    "working-tree-encoding=UTF-16LE-BOM eol=crlf",
    "working-tree-encoding=UTF-16BE text",
    "working-tree-encoding=ISO-8859-1",
    "working-tree-encoding=UTF-8",
    "working-tree-encoding=no-such",
)

SETTINGS: tuple[dict[str, str], ...] = (
    {},
    {"core.autocrlf": "true"},
    {"core.autocrlf": "input"},
    {"core.eol": "crlf"},
    {"core.autocrlf": "false", "core.eol": "lf"},
)


def bytes_again(project: Project, shot: Shot) -> dict[bytes, bytes]:
    """The bytes of every captured file as a restore would write them."""
    conversions = {conversion.path: conversion for conversion in shot.snapshot.converted}
    lfs_dir = project.git_dir / "lfs"
    return {
        path: convert.checkout(shot.blob(path), entry.oid, conversions[path], lfs_dir)
        if path in conversions
        else shot.blob(path)
        for path, entry in shot.entries.items()
    }


def by_git(project: Project, paths: list[str], out: Path) -> dict[str, tuple[str, bytes]]:
    """The blob that git makes of each file now, and the bytes its checkout makes of that. Not of
    what git refuses.
    """
    out.mkdir(parents=True)
    env = {**os.environ, "GIT_INDEX_FILE": str(out.with_name("index"))}

    def git(*args: str, input: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["git", *args], cwd=project.root, env=env, input=input, capture_output=True
        )

    listed = project.git("ls-files", "--stage", "-z").encode()
    git("update-index", "-z", "--index-info", input=listed)
    if git("add", "--force", "--", *paths).returncode == 0:
        added = paths
    else:
        added = [path for path in paths if git("add", "--force", "--", path).returncode == 0]
    git("checkout-index", "--all", "--quiet", f"--prefix={out}/")
    lines = (
        line.split(b"\t") for line in git("ls-files", "--stage", "-z").stdout.split(b"\0")[:-1]
    )
    oids = {path.decode(): head.split(b" ")[1].decode() for head, path in lines}
    return {path: (oids[path], out.joinpath(path).read_bytes()) for path in added}


def compare(project: Project, shot: Shot, out: Path) -> None:
    """A snapshot's blobs are git's where git gives the bytes back, and raw bytes and listed where
    it does not.
    """
    paths = [os.fsdecode(path) for path in shot.entries if path != b".gitattributes"]
    theirs = by_git(project, paths, out)
    back = bytes_again(project, shot)
    for path in paths:
        name = path.encode()
        disk = project.read(path)
        assert back[name] == disk, f"{path} does not come back"
        if path in theirs and theirs[path][1] == disk:
            assert (name in shot.snapshot.raw, shot.entries[name].oid) == (
                False,
                theirs[path][0],
            ), path
        else:
            assert (name in shot.snapshot.raw, shot.blob(name)) == (True, disk), path


@pytest.mark.parametrize("before", [False, True], ids=["untracked", "tracked as it was"])
@pytest.mark.parametrize("rule", RULES)
def test_like_git(project: Project, tmp_path: Path, rule: str, before: bool) -> None:
    """For every content, attribute and setting: what git would store, exactly where git would give
    it back.
    """
    for name, content in CONTENTS.items():
        project.write(name.replace(" ", "-"), content)
    if before:
        project.git("add", "--all")
    project.write(
        ".gitattributes",
        f"* {rule}\n.gitattributes !text !eol !filter !crlf !ident !working-tree-encoding\n",
    )
    camera = Camera(project)
    for number, settings in enumerate(SETTINGS):
        for key in ("core.autocrlf", "core.eol"):
            project.git("config", "--unset", key, check=False)
        for key, value in settings.items():
            project.git("config", key, value)

        compare(project, camera.take(), tmp_path / str(number) / "out")


@pytest.mark.parametrize("settings", SETTINGS[1:])
def test_autocrlf(project: Project, tmp_path: Path, settings: dict[str, str]) -> None:
    """Settings alone convert as git does, without any attribute."""
    for name, content in CONTENTS.items():
        project.write(name.replace(" ", "-"), content)
    for key, value in settings.items():
        project.git("config", key, value)

    compare(project, Camera(project).take(), tmp_path / "out")


def test_eol(project: Project) -> None:
    """A CRLF file under eol=crlf is git's LF blob, and that it has CRLF is written down; a mixed
    one is raw.
    """
    project.write(".gitattributes", "*.bat eol=crlf\n")
    project.write("crlf.bat", b"a\r\nb\r\n")
    project.write("lf.bat", b"a\nb\n")
    project.write("mixed.bat", b"a\r\nb\n")
    project.write("other.txt", b"a\r\n")
    project.commit()

    shot = Camera(project).take()

    assert shot.blob(b"crlf.bat") == b"a\nb\n"
    assert shot.snapshot.converted == (Conversion(b"crlf.bat", eol="crlf"),)
    assert shot.snapshot.raw == (b"lf.bat", b"mixed.bat")
    assert shot.blob(b"mixed.bat") == b"a\r\nb\n"
    assert {entry.path for entry in shot.snapshot.staged} == {b"mixed.bat"}


def test_plain_text_needs_nothing(project: Project) -> None:
    """An LF file under text=auto is its own blob: neither raw nor converted, and git is not asked
    about it.
    """
    project.write(".gitattributes", "* text=auto\n")
    project.write("file", "a\nb\n")
    asked: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConversionHints, "ask", lambda _, paths: asked.append(paths))
        shot = Camera(project).take()

    assert (shot.snapshot.raw, shot.snapshot.converted, asked) == ((), (), [])


def test_ident(project: Project) -> None:
    """`$Id$` as git's checkout left it is collapsed in the blob; after an edit the bytes are kept
    as they are.
    """
    project.write(".gitattributes", "*.c ident\n")
    project.write("file.c", "/* $Id$ */\n")
    project.commit()
    project.remove("file.c")
    project.git("checkout", "--", "file.c")
    expanded = project.read("file.c")
    assert b"$Id: " in expanded
    camera = Camera(project)

    shot = camera.take()
    assert shot.blob(b"file.c") == b"/* $Id$ */\n"
    assert shot.snapshot.converted == (Conversion(b"file.c", ident=True),)

    project.write("file.c", expanded + b"more\n")
    shot = camera.take()
    assert (shot.snapshot.raw, shot.snapshot.converted) == ((b"file.c",), ())
    assert bytes_again(project, shot)[b"file.c"] == expanded + b"more\n"


def test_working_tree_encoding(project: Project) -> None:
    """A UTF-16 file is UTF-8 in its blob, as for git; what is no UTF-16 is kept as it is."""
    project.write(".gitattributes", "*.txt working-tree-encoding=UTF-16\n")
    text = "gr\u00fc\u00dfe\r\n"
    project.write("good.txt", b"\xff\xfe" + text.encode("utf-16-le"))
    project.write("bad.txt", "no mark".encode("utf-16-le"))

    shot = Camera(project).take()

    assert shot.blob(b"good.txt") == text.encode()
    assert shot.snapshot.converted == (Conversion(b"good.txt", encoding="utf-16"),)
    assert shot.snapshot.raw == (b"bad.txt",)


def test_attributes_changed(project: Project) -> None:
    """New attributes, in any file of them, are a new judgement of every file below."""
    project.write("dir/file.txt", b"a\r\n")
    camera = Camera(project)
    assert camera.take().snapshot.converted == ()

    project.write("dir/.gitattributes", "*.txt eol=crlf\n")
    assert [conversion.path for conversion in camera.take().snapshot.converted] == [b"dir/file.txt"]
    project.remove("dir/.gitattributes")
    assert camera.take().snapshot.converted == ()
    project.write(project.git_dir / "info/attributes", "*.txt eol=crlf\n")
    assert [conversion.path for conversion in camera.take().snapshot.converted] == [b"dir/file.txt"]
    project.git("config", "core.attributesFile", "~/mine")
    Path(os.environ["HOME"], "mine").write_text("*.txt -text\n")
    project.remove(project.git_dir / "info/attributes")
    assert camera.take().snapshot.converted == ()


def test_judged_by_the_index(project: Project) -> None:
    """Under text=auto git keeps CRLF that its index has; once the index has it no more, the file is
    judged anew.
    """
    project.write("file.txt", b"a\r\n")
    project.commit()
    project.write(".gitattributes", "* text=auto\n")
    camera = Camera(project)
    assert camera.take().snapshot.raw == ()

    project.git("rm", "--quiet", "--cached", "file.txt")
    assert camera.take().snapshot.raw == (b"file.txt",)


def test_attributes_of_the_index(project: Project) -> None:
    """Where .gitattributes is gone from the disk, git takes the one in its index, and so do we."""
    project.write(".gitattributes", "*.txt eol=crlf\n")
    project.git("add", ".gitattributes")
    project.remove(".gitattributes")
    project.write("file.txt", b"a\r\n")

    assert Camera(project).take().snapshot.converted == (Conversion(b"file.txt", eol="crlf"),)


def test_attributes_are_asked_once(project: Project) -> None:
    """The attributes of a file that was judged before are known when it changes."""
    project.write(".gitattributes", "*.txt eol=crlf\n")
    project.write("file.txt", b"a\r\n")
    camera = Camera(project)
    camera.take()
    project.write("file.txt", b"a\r\nb\r\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConversionHints, "ask", lambda *_: pytest.fail("git was asked again"))
        snapshot = take(camera.repo, Objects(camera.repo), camera.limits, camera.live).snapshot

    assert snapshot.converted == (Conversion(b"file.txt", eol="crlf"),)


# ---------------------------------------------------------------- filters


def lfs_file(project: Project, path: str, content: bytes, *, stored: bool = True) -> str:
    """A file as LFS checks it out, its bytes in the LFS store too; the oid of the pointer in the
    index.
    """
    digest = hashlib.sha256(content).hexdigest()
    pointer = (
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {len(content)}\n"
    )
    oid = project.git("hash-object", "-w", "--stdin", input=pointer.encode())
    project.git("update-index", "--add", "--cacheinfo", f"100644,{oid},{path}")
    project.write(path, content)
    if stored:
        project.write(project.git_dir / f"lfs/objects/{digest[:2]}/{digest[2:4]}/{digest}", content)
    return oid


@pytest.fixture
def lfs(project: Project) -> Project:
    """A project in which LFS keeps *.bin."""
    project.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    project.git("add", ".gitattributes")
    return project


@pytest.mark.parametrize("size", [10, 9 << 20], ids=["small", "large"])
def test_lfs_pointer_kept(lfs: Project, size: int) -> None:
    """An LFS file as it was checked out is its pointer, of any size, and comes back out of the LFS
    store.
    """
    content = os.urandom(16) * (size // 10)
    oid = lfs_file(lfs, "big.bin", content)

    shot = Camera(lfs).take()

    assert shot.entries[b"big.bin"].oid == oid
    assert shot.snapshot.converted == (Conversion(b"big.bin", lfs=True),)
    assert not shot.snapshot.staged
    assert bytes_again(lfs, shot)[b"big.bin"] == content


def test_lfs_pointer_of_head(lfs: Project) -> None:
    """A pointer that only HEAD has counts too."""
    oid = lfs_file(lfs, "big.bin", b"content\n")
    lfs.git("commit", "--quiet", "--message", "x")
    lfs.git("rm", "--quiet", "--cached", "big.bin")

    shot = Camera(lfs).take()

    assert shot.entries[b"big.bin"].oid == oid
    assert shot.snapshot.untracked == (b"big.bin",)


def test_lfs_modified(lfs: Project) -> None:
    """An LFS file that was edited, even to the same size, is kept as it is; so is one nobody has
    the bytes of.
    """
    lfs_file(lfs, "edited.bin", b"content\n")
    lfs_file(lfs, "lost.bin", b"only here\n", stored=False)
    lfs.write("edited.bin", b"CONTENT\n")
    lfs.write("new.bin", b"new\n")

    shot = Camera(lfs).take()

    assert shot.snapshot.raw == (b"edited.bin", b"lost.bin", b"new.bin")
    assert [shot.blob(path) for path in shot.snapshot.raw] == [
        b"CONTENT\n",
        b"only here\n",
        b"new\n",
    ]


def test_lfs_not_fetched(lfs: Project) -> None:
    """A pointer that lies in the working tree itself is its own blob, and so is an empty file."""
    oid = lfs_file(lfs, "pointer.bin", b"content\n", stored=False)
    lfs.write("pointer.bin", lfs.git("cat-file", "blob", oid) + "\n")
    lfs.write("empty.bin", b"")

    shot = Camera(lfs).take()

    assert shot.entries[b"pointer.bin"].oid == oid
    assert (shot.snapshot.raw, shot.snapshot.converted) == ((), ())


def test_other_filter(project: Project) -> None:
    """A filter is never run: the bytes are kept as they are, and listed unless the index has just
    those.
    """
    project.git("config", "filter.mine.clean", f"touch {project.root}/was-run; tr a-z A-Z")
    project.git("config", "filter.mine.smudge", f"touch {project.root}/was-run; cat")
    project.write("same.txt", "UPPER\n")
    project.write("differs.txt", "lower\n")
    project.commit()
    project.write(".gitattributes", "*.txt filter=mine\n")
    os.utime(project.root / "differs.txt")

    shot = Camera(project).take()
    assert shot.blob(b"differs.txt") == b"lower\n"
    assert shot.snapshot.raw == ()
    project.write("differs.txt", "other\n")
    project.write("new.txt", "new\n")
    shot = Camera(project).take()
    assert shot.snapshot.raw == (b"differs.txt", b"new.txt")
    assert not project.root.joinpath("was-run").exists()


@pytest.mark.parametrize("number", [5, blobs.SEED_FROM + 5])
def test_attributes_that_are_gone(project: Project, number: int) -> None:
    """What git stored under attributes that are no more is not taken for the file, whatever the
    index proves.
    """
    project.git("config", "core.autocrlf", "true")
    for count in range(number):
        project.write(f"{count}.txt", b"a\r\nb\r\n")
    time.sleep(0.02)
    project.commit()
    project.git("config", "core.autocrlf", "false")

    shot = Camera(project).take()

    assert {shot.blob(path) for path in shot.entries} == {b"a\r\nb\r\n"}
    assert len(shot.entries) == number


def test_seeds_under_attributes(project: Project) -> None:
    """Files that the index proves are judged by their attributes as if they had been read."""
    for name in ("old.txt", "old.php"):
        project.write(name, b"a\r\n")
        os.utime(project.root / name, (1_000_000_000, 1_000_000_000))
    time.sleep(0.02)
    project.git("add", "--all")
    project.write(".gitattributes", "* text=auto\n*.bat eol=crlf\n*.c ident\n*.php text\n")
    for count in range(blobs.SEED_FROM):
        project.write(f"{count}.txt", b"a\nb\n")
        project.write(f"{count}.bat", b"a\r\nb\r\n")
    project.write("file.c", "$Id$\n")
    time.sleep(0.02)
    project.git("add", "--all", "--", ".", ":!old.php")

    shot = Camera(project).take()

    assert len(shot.snapshot.converted) == blobs.SEED_FROM
    assert shot.snapshot.raw == (b"file.c", b"old.php"), (
        "git keeps the CRLF of old.txt, since text=auto"
    )
    assert bytes_again(project, shot)[b"0.bat"] == b"a\r\nb\r\n"


# ---------------------------------------------------------------- the pure part


def test_missing_lfs_object(tmp_path: Path) -> None:
    """A pointer whose bytes nobody has, has others, or that is none, is an error in words."""
    content = b"content\n"
    digest = hashlib.sha256(content).hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize 8\n".encode()
    place = convert.lfs_object(tmp_path, digest)
    place.parent.mkdir(parents=True)
    by_lfs = Conversion(b"f", lfs=True)

    with pytest.raises(GitcpError, match="not in this repository"):
        convert.checkout(pointer, NOTHING, by_lfs, tmp_path)
    place.write_bytes(b"CONTENT\n")
    with pytest.raises(StoreDamaged, match="does not match its name"):
        convert.checkout(pointer, NOTHING, by_lfs, tmp_path)
    with pytest.raises(StoreDamaged, match="pointer"):
        convert.checkout(b"something else", NOTHING, by_lfs, tmp_path)
    place.write_bytes(content)
    assert convert.checkout(pointer, NOTHING, by_lfs, tmp_path) == content


@pytest.mark.parametrize("encoding", ["utf-16", "no-such-encoding", "rot13", "idna"])
def test_encoding_that_does_not_fit(encoding: str, tmp_path: Path) -> None:
    """A blob that cannot be written in the encoding recorded for it is damage, not a traceback."""
    with pytest.raises(StoreDamaged, match="cannot be written"):
        convert.checkout(b"\xff\xff", NOTHING, Conversion(b"f", encoding=encoding), tmp_path)


@given(
    data=st.one_of(
        st.binary(max_size=40),
        st.lists(
            st.sampled_from([b"a", b"\r", b"\n", b"\r\n", b"$Id$", b"$Id: x $", b"$", b"\0"]),
            max_size=12,
        ).map(b"".join),
        st.text(max_size=20).map(lambda text: text.encode("utf-16", "surrogatepass")),
    ),
    rule=st.builds(
        ConversionRule,
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.sampled_from(["", "utf-16", "iso-8859-1", "x"]),
    ),
    indexed=st.booleans(),
)
def test_there_and_back(data: bytes, rule: ConversionRule, indexed: bool) -> None:
    """Whatever is stored converted comes back byte for byte; what would not is refused."""
    stored = convert.store(b"f", data, rule, lambda: indexed, FORMAT)

    if stored is not None:
        blob, conversion = stored
        oid = FORMAT.oid_of("blob", blob)
        assert (convert.checkout(blob, oid, conversion, Path()) if conversion else blob) == data


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"* text=auto", {"text"}),
        (b"*.bin binary\n*.c ident", {"text", "ident"}),
        (b"*.x -text !eol\n", {"text", "eol"}),
        (b"*.psd filter=lfs diff=lfs merge=lfs -text", {"filter", "text"}),
        (b"[attr]mine working-tree-encoding=UTF-16", {"working-tree-encoding"}),
        (b"*.txt export-ignore\ntextual linguist-generated\n", set()),
        (b"text diff=plain", {"text"}),
    ],
)
def test_words(content: bytes, words: set[str]) -> None:
    """The attributes that could change bytes are seen in a file of attributes; one too many does no
    harm.
    """
    assert conversion_words(content) == words


def test_rule_of_driver() -> None:
    """A filter is one by name only; attributes that are set or unset name none."""
    assert Attributes(filter="lfs").driver == "lfs"
    assert {Attributes(filter=value).driver for value in ("set", "unset", "unspecified")} == {""}
    assert rule_of(Attributes(text="auto", eol="crlf"), {}) == ConversionRule(
        text=True, auto=True, crlf=True
    )
    assert rule_of(Attributes(encoding="UTF-8"), {}) == ConversionRule()


def test_converted_entry_equals_index(project: Project) -> None:
    """A converted file that nobody edited is no difference to the index, and its tree is git's."""
    project.git("config", "core.autocrlf", "true")
    project.write("file.txt", b"a\r\nb\r\n")
    project.commit()

    shot = Camera(project).take()

    assert shot.entries[b"file.txt"] == Entry(0o100644, Oid(project.git("rev-parse", ":file.txt")))
    assert not shot.snapshot.staged
    assert shot.snapshot.tree == git_tree(project)
