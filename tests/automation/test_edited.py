"""What an edit tool makes of a file, as its input says, and where that cannot be told."""

from __future__ import annotations

from typing import Any

import pytest

from gitcp.policy import edited
from gitcp.policy.events import EventCall

BEFORE = b"def a():\n    one\n\ndef b():\n    one\n"


def results(tool: str, path: str = "f.py", before: bytes = BEFORE, **fields: Any) -> list[bytes]:
    """What the file may contain after a call."""
    return edited.results(EventCall({"tool_name": tool, "tool_input": fields}), path, before)


PATCH = """*** Begin Patch
*** Update File: g.py
@@
-x
+y
*** Update File: f.py
@@ def b():
-    one
+    two
*** Add File: new
+one
+two
*** End Patch"""


@pytest.mark.parametrize(
    ("tool", "fields", "after"),
    [
        ("Write", {"content": "new\n"}, b"new\n"),
        ("create", {"path": "f.py", "file_text": "new\n"}, b"new\n"),
        ("Edit", {"old_string": "def b", "new_string": "def c"}, BEFORE.replace(b"b()", b"c()")),
        (
            "edit",
            {"oldString": "one", "newString": "1", "replaceAll": True},
            BEFORE.replace(b"one", b"1"),
        ),
        ("edit", {"old_str": "a():\n    one\n", "new_str": "x\n"}, b"def x\n\ndef b():\n    one\n"),
        (
            "MultiEdit",
            {
                "edits": [
                    {"old_string": "a()", "new_string": "x()"},
                    {"old_string": "x()", "new_string": "y()"},
                ]
            },
            BEFORE.replace(b"a()", b"y()"),
        ),
        ("apply_patch", {"command": PATCH}, BEFORE[:-8] + b"    two\n"),
    ],
)
def test_results(tool: str, fields: dict[str, Any], after: bytes) -> None:
    """The content after a call, but for blanks and line ends."""
    digests = [edited.digest(each) for each in results(tool, **fields)]
    assert edited.digest(after) in digests
    assert edited.digest(after.replace(b"\n", b" \r\n")) in digests
    assert edited.digest(after + b"a person\n") not in digests


def test_line_ends() -> None:
    """A text is found in a file with other line ends; a text that is deleted may take its line end
    with it.
    """
    crlf = BEFORE.replace(b"\n", b"\r\n")
    found = results("Edit", before=crlf, old_string="a():\n    one", new_string="b()")
    assert edited.digest(found[0]) == edited.digest(BEFORE.replace(b"a():\n    one", b"b()", 1))
    assert results("Edit", before=b"a\nb\n", old_string="a", new_string="") == [b"\nb\n", b"b\n"]


def test_new_files() -> None:
    """An edit may create a file; so does a patch."""
    assert results("Edit", before=b"", old_string="", new_string="new") == [b"new"]
    assert results("apply_patch", "new", b"", command=PATCH) == [b"one\ntwo"]


@pytest.mark.parametrize(
    ("tool", "fields"),
    [
        ("Edit", {"old_string": "gone", "new_string": "x"}),
        ("Edit", {"old_string": "", "new_string": "x"}),
        ("Edit", {"old_string": 3, "new_string": "x"}),
        ("Write", {}),
        ("MultiEdit", {"edits": ["x", {}]}),
        ("apply_patch", {"command": PATCH.replace("    one", "gone")}),
        ("apply_patch", {"command": "*** Update File: f.py\n*** Move to: g.py\n@@\n-x\n+y"}),
        ("apply_patch", {"command": "*** Update File: f.py\n@@\n+only added"}),
        ("apply_patch", {"command": ""}),
        ("NotebookEdit", {"new_source": "x"}),
    ],
)
def test_cannot_be_told(tool: str, fields: dict[str, Any]) -> None:
    """Nothing is said where the input does not fit the file, or says too little."""
    assert results(tool, **fields) == []


@pytest.mark.parametrize(
    ("tool", "fields", "expected"),
    [
        ("Edit", {"old_string": "a"}, True),
        ("Edit", {"old_string": "a", "replace_all": True}, False),
        ("MultiEdit", {"edits": [{}]}, False),
        ("NotebookEdit", {}, False),
        ("Write", {}, False),
    ],
)
def test_one_place(tool: str, fields: dict[str, Any], expected: bool) -> None:
    """An edit of one text changes lines that follow each other."""
    assert edited.is_one_place(EventCall({"tool_name": tool, "tool_input": fields})) is expected
