"""What programs save, as people and other programs read it: rows of the log, files as JSON, facts
and the handoff in an exported page.
"""

from __future__ import annotations

import json

import gitcp

from driver import Project


def test_rows(project: Project) -> None:
    """A row of a program that saves only its position says where it is; a label of the user stays
    one, whatever it begins with.
    """
    session = gitcp.open(project.root).session("orders")
    for record in (100, 200):
        project.write("out.txt", f"{record}\n")
        session.save(position={"record": record, "file": "part-07.csv"})
    project.write("out.txt", "more\n")
    session.save()
    project.write("out.txt", "named\n")
    session.save("position record=7")

    rows = project.gitcp("log", "--oneline", "--session", "orders", check=0).out.splitlines()
    assert [row.split(" ", 1)[1] for row in rows] == [
        "position record=7",
        "(no label)",
        "position file=part-07.csv, record=200",
        "position file=part-07.csv, record=100",
    ]
    session.save("last")
    policy = gitcp.Policy(last=0, labelled=True)
    plan = gitcp.open(project.root).plan_prune(policy, session="orders")
    assert {str(summary.id) for summary, _ in plan.dropped} == {"orders@1", "orders@3"}


def test_files_as_json(project: Project) -> None:
    """`show REV:PATH --json` has a file's text, or its bytes, or the names in a directory."""
    project.write("sub/a.txt", "ä\n")
    project.write("sub/b.bin", b"\xff\x00")
    gitcp.open(project.root).save("one", session="s")

    assert project.json("show", "s:sub/a.txt") == {
        "schema": "gitcp.file/1",
        "id": "s@1",
        "path": "sub/a.txt",
        "text": "ä\n",
        "base64": None,
        "bytes": 3,
        "cut": False,
    }
    binary = json.loads(project.gitcp("show", "s", "sub/b.bin", "--json", check=0).out)
    assert (binary["text"], binary["base64"], binary["bytes"]) == (None, "/wA=", 2)
    listed = project.json("show", "s:sub")
    assert (listed["schema"], listed["names"]) == ("gitcp.directory/1", ["a.txt", "b.bin"])


def test_handoff_in_a_page(project: Project) -> None:
    """An exported page has the facts and the handoff before the conversation, verbatim."""
    handoff = gitcp.Handoff(task="ship *it*", decisions=("one <b>table</b>",), next=("a\n# b",))
    gitcp.open(project.root).save(
        "one",
        session="s",
        conversation=[{"role": "user", "content": "Hello."}],
        facts={"db": "sqlite"},
        handoff=handoff,
    )

    page = project.gitcp("export", "s", "-f", "markdown", check=0).out
    head, _, talk = page.partition("## User")
    assert head.partition("\n\n")[2].splitlines()[1:] == [
        "",
        "Facts:",
        "",
        "- db = sqlite",
        "",
        "Task: ship \\*it\\*",
        "",
        "",
        "Decided:",
        "",
        "- one \\<b\\>table\\</b\\>",
        "",
        "Next:",
        "",
        "- a \\# b",
        "",
    ]
    assert "Hello." in talk
