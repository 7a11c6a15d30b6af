"""What leaves as words for people: no secret stands in it, however the words are escaped, and
wherever they are cut.
"""

from __future__ import annotations

import html

import pytest
from talk import Talk
from test_export import spoken
from tokens import tokens

from gitcp.secrets.checkpoint_scan import Cleaner, Sieve

from driver import Project

__all__ = ["spoken"]

TOKENS = tokens()
TOKEN = TOKENS["github-token"]
FORMS = ("markdown", "json", "atif", "transcript")


def told(project: Project) -> dict[str, str]:
    """Everything that can be made of a session for others, redacted, as a reader sees it."""
    found = {}
    for form in FORMS:
        project.gitcp("export", "-f", form, "-o", f"../out.{form}", "--redact", check=0)
        found[form] = project.read(f"../out.{form}").decode()
    project.gitcp("view", "-o", "../out.html", "--redact", check=0)
    found["view"] = project.read("../out.html").decode()
    project.gitcp("publish", "--branch", "told", "--redact", "--yes", check=0)
    found["publish"] = project.git("log", "-p", "main..told")
    files = ("-o", "../r.md", "-o", "../r.html")
    project.gitcp("review", "main..told", *files, "--redact", check=0)
    found["review"] = project.read("../r.md").decode() + project.read("../r.html").decode()
    found["review --json"] = project.gitcp(
        "review", "main..told", "--redact", "--json", check=0
    ).out
    return {form: html.unescape(text).replace("\\", "") for form, text in found.items()}


def test_every_kind(spoken: Project) -> None:
    """Signs that Markdown and HTML know are in many secrets: they are looked for before anything is
    escaped.
    """
    talk = Talk(spoken)
    for token in TOKENS.values():
        talk.say(f"Use {token} for it, or k={token}", f"It is `{token}`, and {token}.")
    spoken.gitcp("save", check=0)
    for form in FORMS:
        spoken.gitcp("export", "-f", form, "-o", "../out", check=15)

    left = {
        form: [name for name, token in TOKENS.items() if token in text]
        for form, text in told(spoken).items()
    }

    assert not any(left.values()), left


@pytest.mark.parametrize("before", [20, 180])
def test_cut_short(spoken: Project, before: int) -> None:
    """Where a prompt, a label or an answer is cut inside of a secret, the beginning does not leave
    either.
    """
    talk = Talk(spoken)
    talk.say("x" * before + f" {TOKEN} go", "y" * before + f" {TOKEN} done")
    spoken.write("a.txt", "three\n")
    spoken.gitcp("save", check=0)
    spoken.write("a.txt", "four\n")
    words = "z" * before + f" {TOKEN}"
    spoken.gitcp("save", words, "--fact", f"key={words}", "--objective", words, check=0)

    assert [form for form, text in told(spoken).items() if TOKEN[:7] in text] == []


def test_cleaner() -> None:
    """A text ends before the secret that it was cut in; what may be shown of one, and one that is
    allowed, stay.
    """
    clean = Cleaner(Sieve(), [f"a {TOKEN} b".encode()])
    assert clean(f"see {TOKEN} there") == "see [REDACTED:github-token] there"
    assert clean(f"see {TOKEN[:30]}…") == "see [REDACTED:github-token]…"
    assert clean(f"see {TOKEN[:7]}") == "see [REDACTED:github-token]"
    assert clean(f"see {TOKEN[:6]}") == f"see {TOKEN[:6]}"
    assert clean("see there…") == "see there…"
    assert Cleaner(Sieve(), [])(f"see {TOKEN[:30]}") == f"see {TOKEN[:30]}"
