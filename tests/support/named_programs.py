"""Every setting of git that can name a program, with a program that leaves a mark.

The settings are those that git itself lists (`git help -c`), so that a newer git's are tried too.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

NAMING = frozenset(
    "alternateRefsCommand askPass browser clean cmd command defaultKeyCommand diffFilter driver "
    "editor external fsmonitor gitProxy guitool headerCmd ccCmd toCmd tocmd helper hooksPath "
    "packObjectsHook pager path process program proxy pushurl receivepack recentObjectsHook "
    "smtpServer smudge sshCommand templateDir textconv tool tunnel update uploadpack url vcs "
    "<cmd>".split()
)
"""The last words of settings that name a program, or an address that can be one (`ext::`)."""

LIKE = re.compile(
    r"(?i)cmd|command|program|driver|helper|pager|editor|hook|proxy|external|textconv"
)
"""Words that such a setting is likely to have."""

HARMLESS = re.compile(
    r"advice\.|color\.|notes\.|ProxySSL|proxySSL|proxyAuthMethod|fsmonitorHookVersion|dbDriver"
    r"|abbreviateCommands|cachetextconv|completion\.|clean\.|commit\.|column\."
)
"""Those among them that name none."""

HOOKS = (
    "applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg "
    "commit-msg post-commit pre-rebase post-checkout post-merge pre-push pre-receive update "
    "proc-receive post-receive post-update reference-transaction push-to-checkout pre-auto-gc "
    "post-rewrite sendemail-validate fsmonitor-watchman p4-changelist p4-prepare-changelist "
    "p4-post-changelist p4-pre-submit post-index-change"
).split()

ALIASED = (
    "add cat-file config diff fetch for-each-ref log ls-files push rev-list rev-parse show".split()
)
SUBSECTIONS = {"remote": "origin", "submodule": "sub", "gpg": "openpgp", "url": "ext::touch"}
ATTRIBUTES = "* filter=evil diff=evil merge=evil\n"


def documented() -> list[str]:
    """Return the settings that this git documents."""
    done = subprocess.run(["git", "help", "-c"], capture_output=True, text=True, check=True)
    return sorted({line.split()[0] for line in done.stdout.splitlines() if "." in line})


def names_program(setting: str) -> bool:
    """Return whether a documented setting can name a program."""
    return setting.rpartition(".")[2] in NAMING and not HARMLESS.search(setting)


def forgotten() -> list[str]:
    """Return documented settings that look as if they named a program, and are not tried."""
    return [
        setting
        for setting in documented()
        if LIKE.search(setting.rpartition(".")[2])
        and not names_program(setting)
        and not HARMLESS.search(setting)
    ]


class Marks:
    """A directory in which each program leaves a file of its name."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()

    def touch(self, name: str) -> str:
        """Return a command that leaves a mark."""
        return f"touch {self.directory}/{re.sub(r'[^A-Za-z0-9]+', '-', name)}"

    def left(self) -> list[str]:
        """Return the marks."""
        return sorted(path.name for path in self.directory.iterdir())


def config(marks: Marks, url: str) -> str:
    """Return a configuration in which each of these settings leaves a mark."""
    given = {}
    for setting in documented():
        if names_program(setting) and setting not in ("include.path", "core.hooksPath"):
            section, _, key = setting.rpartition(".")
            top, _, sub = section.partition(".")
            sub = SUBSECTIONS.get(top, "evil") if sub else ""
            for last in ("log", "diff", "show", "blame") if key == "<cmd>" else (key,):
                given[top, sub, last] = marks.touch(setting + last) + ("; cat" if sub else "")
    for name in ("clean", "smudge", "process"):
        given["filter", "evil", name] = marks.touch("filter" + name) + "; cat"
    given["filter", "evil", "required"] = "false"
    given["remote", "origin", "url"] = url
    given["remote", "origin", "pushurl"] = url
    given["submodule", "sub", "update"] = "!" + marks.touch("submodule")
    given["tar", "tgz", "command"] = marks.touch("tar")
    given["gpg", "ssh", "program"] = given["gpg", "x509", "program"] = marks.touch("gpg")
    given["credential", "", "helper"] = "!" + marks.touch("credential")
    given["credential", "https://example.org", "helper"] = "!" + marks.touch("credential-url")
    given["log", "", "showSignature"] = given["commit", "", "gpgSign"] = "true"
    given["protocol", "ext", "allow"] = given["protocol", "", "allow"] = "always"
    given["fetch", "", "bundleURI"] = "http://127.0.0.1:9/bundle"
    given["gitcp", "", "secretScanner"] = marks.touch("scanner")
    for key in ("save", "restore"):
        given["gitcp", "state.db", key] = marks.touch("state-" + key)
    given["gitcp", "state.db", "when"] = "manual, before-risky-change"
    given["gitcp", "", "pager"] = given["gitcp", "", "editor"] = marks.touch("gitcp")
    for number, event in enumerate(HOOKS):
        given["hook", f"evil{number}", "command"] = marks.touch("config-hook-" + event)
        given["hook", f"evil{number}", "event"] = event
    for name in ALIASED:
        given["alias", "", name] = "!" + marks.touch("alias-" + name)
    return "".join(_lines(*key, value) for key, value in given.items())


def _lines(section: str, sub: str, key: str, value: str) -> str:
    head = f'[{section} "{sub}"]' if sub else f"[{section}]"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{head}\n\t{key} = "{escaped}"\n'


def plant_hooks(git_dir: Path, marks: Marks) -> None:
    """Write a file for each hook, where git looks for it."""
    hooks = git_dir / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in HOOKS:
        hooks.joinpath(name).write_text(f"#!/bin/sh\n{marks.touch('hook-' + name)}\n")
        hooks.joinpath(name).chmod(0o755)
    git_dir.joinpath("info").mkdir(exist_ok=True)
    git_dir.joinpath("info/attributes").write_text(ATTRIBUTES)
