"""A secret scanner of the user's own: what it finds is treated as what we find, and where it fails
nothing leaves.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from talk import Talk
from tokens import tokens

from gitcp.secrets.external_scanner import Reported, parse_report
from gitcp.secrets.scan import fingerprint, redact, scan

from driver import Project

CODE = "harbour-lantern-7"
"""What only the scanner takes for a secret."""

ID = fingerprint("house-code", CODE.encode())
TOKEN = tokens()["github-token"]

SCANNER = """
import json, os, sys
found = []
files = sorted(os.listdir("."))
for name in files:
    for number, line in enumerate(open(name, errors="replace"), 1):
        if "CODE" in line:
            found.append({"RuleID": "House Code", "File": name, "StartLine": number, "Secret": "CODE"})
with open("LOG", "a") as log:
    print(len(files), file=log)
json.dump(found, sys.stdout)
"""  # noqa: E501


@pytest.fixture
def hub(project: Project) -> Path:
    """A bare remote that checkpoints may go to."""
    path = project.root.parent / "hub.git"
    subprocess.run(["git", "init", "--quiet", "--bare", path], check=True)
    project.write("a.txt", "nothing\n")
    project.gitcp("save", "clean", "--session", "alpha", check=0)
    project.gitcp("remote", "hub", str(path), check=0)
    return path


def runs(project: Project) -> list[int]:
    """How many files the scanner was given, each time."""
    path = project.root.parent / "log"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def scanning(project: Project, program: str) -> None:
    """Set a scanner: a Python program."""
    path = project.root.parent / "scanner.py"
    path.write_text(program.replace("CODE", CODE).replace("LOG", str(project.root.parent / "log")))
    project.git(
        "config", "--global", "gitcp.secretScanner", shlex.join([sys.executable, str(path)])
    )


def sent(hub: Path) -> bytes:
    """Everything that a remote holds."""
    asked = ["git", "-C", str(hub), "cat-file", "--batch-all-objects", "--batch", "--buffer"]
    return subprocess.run(asked, capture_output=True, check=True).stdout


def leftovers(project: Project) -> list[Path]:
    """What a scan left behind."""
    return sorted((project.git_dir / "gitcp").glob("scan.*"))


def test_push(project: Project, hub: Path) -> None:
    """A finding of the scanner stops a push, masked and with its place; it can be redacted, or let
    pass by its ID.
    """
    scanning(project, SCANNER)
    project.write("src/code.txt", f"one\nopen with {CODE} and {TOKEN}\n")
    project.gitcp("save", f"the {CODE}", "--session", "alpha", check=0)
    project.gitcp("tag", "opened", "-m", f"by {CODE}", "--session", "alpha", check=0)

    refused = project.gitcp("push", "--session", "alpha", check=15)
    assert "2 secrets found; nothing was sent" in refused.err
    assert (
        f"{ID}  house-code  harb… (17 bytes)  in alpha@2, file src/code.txt, line 2" in refused.err
    )
    assert "tag opened" in refused.err
    assert CODE not in refused.err
    assert ID in project.gitcp("secrets", "--session", "alpha", check=15).out
    found = project.json("push", "--session", "alpha", "--dry-run", "--redact")["redacted"]
    assert (ID, "file", "src/code.txt", 2) in {
        (f["id"], f["place"], f["path"], f["line"]) for f in found
    }

    project.gitcp("push", "--session", "alpha", "--redact", check=0)
    assert CODE.encode() not in sent(hub)
    assert b"[REDACTED:house-code] and [REDACTED:github-token]" in sent(hub)
    assert project.gitcp("show", "alpha@2:src/code.txt", check=0).out.endswith(f"{TOKEN}\n")
    assert leftovers(project) == []

    other = project.root.parent / "other.git"
    subprocess.run(["git", "init", "--quiet", "--bare", other], check=True)
    project.gitcp("remote", "other", str(other), check=0)
    allowed = ("--allow", ID, "--allow", fingerprint("github-token", TOKEN.encode()))
    project.gitcp("push", "other", "--session", "alpha", *allowed, check=0)
    assert CODE.encode() in sent(other)


def test_what_is_new(project: Project, hub: Path) -> None:
    """What was clean is not given to the scanner again, until it is another scanner."""
    scanning(project, SCANNER)
    project.gitcp("push", "--session", "alpha", check=0)
    first = runs(project)
    assert len(first) == 1
    assert first[0] > 3

    project.gitcp("push", "--session", "alpha", check=0)
    assert runs(project) == first
    project.write("b.txt", "new\n")
    project.gitcp("save", "more", "--session", "alpha", check=0)
    project.gitcp("push", "--session", "alpha", check=0)
    assert runs(project)[1] < first[0] + 3

    project.git(
        "config",
        "--global",
        "gitcp.secretScanner",
        project.git("config", "gitcp.secretScanner") + " --harder",
    )
    project.gitcp("secrets", "--session", "alpha", check=0)
    assert runs(project)[2] > first[0]
    assert hub.exists()


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys; sys.exit('broken rules')", "failed with exit code 1: broken rules"),
        ("print('all is well')", "unknown format"),
        ("print('[{\"what\": 1}]')", "unknown format"),
        ('print(\'[{"RuleID": "x", "File": "/etc/passwd", "Secret": "root"}]\')', "unknown file"),
        ("import time; print('[]', flush=True); time.sleep(900)", "timed out after 1 seconds"),
    ],
)
def test_failure(project: Project, hub: Path, program: str, said: str) -> None:
    """A scanner that fails, hangs or says what nobody understands: nothing is sent, and it is said
    why.
    """
    scanning(project, program)
    project.git("config", "--global", "gitcp.secretScannerTimeout", "1s")

    refused = project.gitcp("push", "--session", "alpha", check=1)

    assert said in refused.err
    assert "nothing left this machine" in refused.err
    assert "gitcp.secretScanner" in refused.err
    assert not list((hub / "refs").rglob("alpha"))
    assert leftovers(project) == []


def test_no_such_scanner(project: Project, hub: Path) -> None:
    """One that is not there, or is no command, stops everything that leaves; saving does not need
    it.
    """
    for command in ("no-such-scanner --json", "'unclosed"):
        project.git("config", "--global", "gitcp.secretScanner", command)
        for arguments in (
            ("push",),
            ("export", "-o", "../x.bundle"),
            ("view", "-o", "../x.html"),
            ("secrets",),
        ):
            refused = project.gitcp(*arguments, "--session", "alpha")
            assert refused.code in (1, 2)
            assert "gitcp.secretScanner" in refused.err
            assert "Traceback" not in refused.err
    assert sorted(path.name for path in project.root.parent.glob("x.*")) == []
    assert hub.exists()
    project.write("b.txt", "b\n")
    project.gitcp("save", "--session", "alpha", check=0)


def test_only_from_git_config(project: Project) -> None:
    """A checkpoint, or a file of the project, names no program; nor can one be a setting of the
    scanner's.
    """
    project.write(".gitcp.toml", '[secrets]\nsecret_scanner = "touch ../ran"\n')
    assert "unknown settings" in project.gitcp("save", "--session", "alpha", check=0).err
    project.write("more", "x")
    project.write(".gitcp.toml", "")
    listing = (
        "import os, json; print(json.dumps([])); open('LOG', "
        "'w').write(str(sorted(os.listdir('.'))))"
    )
    project.write(".gitleaks.toml", "[allowlist]\n")
    project.write("x/.gitleaksignore", "*\n")
    project.gitcp("save", "--session", "alpha", check=0)
    scanning(project, listing)

    project.gitcp("secrets", "--session", "alpha", check=0)

    names = (project.root.parent / "log").read_text()
    assert "gitleaks" not in names
    assert "0000000.txt" in names
    assert not (project.root.parent / "ran").exists()


@pytest.mark.parametrize("form", ["bundle", "json", "markdown", "atif", "transcript"])
def test_export(project: Project, form: str) -> None:
    """What the scanner finds is in no export, in whatever form it stands there."""
    talk = Talk(project)
    talk.say(f"Open with {CODE}.", "Yes.")
    project.write("a.txt", f"{CODE}\n")
    project.gitcp("save", check=0)
    scanning(project, SCANNER)

    assert ID in project.gitcp("export", "-f", form, "-o", "../out", check=15).err
    project.gitcp("export", "-f", form, "-o", "../out", "--redact", check=0)
    path = project.root.parent / "out"
    if form == "bundle":
        clone = project.root.parent / "clone"
        subprocess.run(["git", "init", "--quiet", "--bare", clone], check=True)
        subprocess.run(
            ["git", "-C", clone, "fetch", "--quiet", path, "refs/gitcp/*:refs/gitcp/*"], check=True
        )
        data = sent(clone)
    else:
        data = path.read_bytes()
    assert CODE.encode() not in data
    assert b"[REDACTED:house-code]" in data


def test_pages_and_branches(project: Project) -> None:
    """Nor is it in a page, a review or a published branch."""
    project.git("commit", "--quiet", "--allow-empty", "-m", "start")
    talk = Talk(project)
    talk.say(f"Open with {CODE}.", "Yes.")
    project.write("a.txt", f"{CODE}\n")
    project.gitcp("save", check=0)
    scanning(project, SCANNER)
    ways = {
        "x.html": ("view", "--no-open", "-o", "../x.html"),
        "x.md": ("review", "-o", "../x.md", "--session", "e7baae82"),
        "": ("publish", "--branch", "shown", "--yes"),
    }

    for name, arguments in ways.items():
        assert ID in project.gitcp(*arguments, check=15).err
        project.gitcp(*arguments, "--redact", check=0)
        if name:
            assert CODE not in (project.root.parent / name).read_text()
    shown = project.git("log", "-p", "shown")
    assert CODE not in shown
    assert "[REDACTED:house-code]" in shown
    project.gitcp("view", "--no-open", check=0)


def test_text_that_is_not_there(project: Project, hub: Path) -> None:
    """What the scanner says without its text, or decoded, cannot be left out: it stays, unless it
    is let pass.
    """
    project.write("key.txt", "aGFyYm91ci1sYW50ZXJuLTc=\n")
    project.gitcp("save", "--session", "alpha", check=0)
    program = """
import json, os
names = [name for name in os.listdir(".") if "aGFyYm91ci1" in open(name, errors="replace").read()]
print(json.dumps([{"RuleID": "decoded", "File": "./" + name, "StartLine": 1, "Secret": "CODE"} for name in names]))
"""  # noqa: E501
    scanning(project, program)
    id = fingerprint("decoded", CODE.encode())

    for option in ((), ("--redact",)):
        assert (
            f"{id}  decoded" in project.gitcp("push", "--session", "alpha", *option, check=15).err
        )
        refused = project.gitcp("view", "--session", "alpha", "-o", "../x.html", *option, check=15)
        assert f"{id}  decoded" in refused.err
        assert "reports no text to redact" in refused.err
    project.gitcp("push", "--session", "alpha", "--allow", id, check=0)
    assert hub.exists()


def test_purge(project: Project) -> None:
    """A finding of the scanner can be purged by its ID."""
    project.write("a.txt", f"open with {CODE}\n")
    project.gitcp("save", "--session", "alpha", check=0)
    scanning(project, SCANNER)

    project.gitcp("purge", "--secret", ID, "--yes", check=0)

    assert project.gitcp("show", "alpha@1:a.txt", check=0).out == "open with [PURGED]\n"
    project.gitcp("secrets", "--session", "alpha", check=0)


def test_what_was_cut_off(project: Project) -> None:
    """What a scan left that was killed is taken away by the next one."""
    project.write("a.txt", "a\n")
    project.gitcp("save", "--session", "alpha", check=0)
    scanning(project, SCANNER)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = project.git_dir / f"gitcp/scan.{gone.pid}"
    (left / "files").mkdir(parents=True)
    mine = project.git_dir / f"gitcp/scan.{os.getpid()}"
    mine.mkdir()

    project.gitcp("secrets", "--session", "alpha", check=0)

    assert leftovers(project) == [mine]


def test_reports() -> None:
    """The reports of three scanners are understood, and nothing else."""
    leaks = [
        {
            "RuleID": "aws-access-token",
            "File": "1.txt",
            "StartLine": 3,
            "Secret": "AKIA",
            "Match": "x",
        }
    ]
    hogs = [
        {
            "SourceMetadata": {"Data": {"Filesystem": {"file": "2.txt", "line": 4}}},
            "DetectorName": "AWS",
            "Raw": "AKIB",
        },
        {
            "SourceMetadata": {"Data": {"Filesystem": {"file": "3.txt"}}},
            "DetectorName": "Git Hub",
            "Raw": "ghp",
        },
    ]
    hashed = {
        "results": {"4.txt": [{"type": "AWS Access Key", "line_number": 5, "hashed_secret": "00"}]}
    }

    assert parse_report(json.dumps(leaks).encode()) == (
        Reported("1.txt", 3, "aws-access-token", b"AKIA"),
    )
    assert parse_report("\n".join(map(json.dumps, hogs)).encode()) == (
        Reported("2.txt", 4, "aws", b"AKIB"),
        Reported("3.txt", 1, "git-hub", b"ghp"),
    )
    assert parse_report(json.dumps(hogs[0]).encode())[0].rule == "aws"
    assert parse_report(json.dumps(hashed).encode()) == (
        Reported("4.txt", 5, "aws-access-key", b""),
    )
    assert [parse_report(text) for text in (b"", b"[]", b"null", b"\n")] == [()] * 4
    for text in (
        b"{",
        b"[1]",
        b'{"a": 1}',
        b'[{"RuleID": 1, "File": "x", "Secret": ""}]',
        b"[" * 100_000,
    ):
        with pytest.raises(ValueError, match="unknown report"):
            parse_report(text)


def test_overlaps() -> None:
    """No part of a secret is left, whoever found it and however two of them lie."""
    token = TOKEN.encode()
    for known, left in (
        ((("x", token[:10]),), b"a [REDACTED:github-token] b"),
        ((("x", token + b" b"),), b"a [REDACTED:github-token]"),
        ((("x", b"a " + token[:8]),), b"[REDACTED:x] b"),
        ((("x", token[-5:] + b" b"),), b"a [REDACTED:github-token]"),
    ):
        data = b"a " + token + b" b"
        cleaned = redact(data, literals=known)
        assert token[2:8] not in cleaned
        assert token[-4:] not in cleaned
        assert len(scan(data, known)) == 1
        assert cleaned == left
