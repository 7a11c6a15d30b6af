"""The program that changes code to see whether tests notice: what it changes, and that it can tell
dead from alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue

import mutants
import pytest

CODE = '''"""A module."""
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    LIMIT = 3
def cut(text: bytes, length: int = 8) -> bytes:
    """A cut."""
    if length < 0:
        raise ValueError(f"{length + 1} is too short")
    return text[:length] or b"-"
'''

CHANGES = [
    "8 → 9",
    "Lt → LtE",
    "0 → 1",
    "Raise removed",
    "returns None",
    "Or → And",
    "slice: no end",
    "b'-' → b''",
]


def test_what_is_changed() -> None:
    """One thing at a time; not types, texts of errors, or what is only for type checkers."""
    made = mutants.mutants("code.py", CODE)
    assert [mutant.change for mutant in made] == CHANGES
    assert len({mutant.text for mutant in made}) == len(made)
    for mutant in made:
        compile(mutant.text, "code.py", "exec")


def test_what_has_no_line_of_its_own() -> None:
    """It gets that of what is in it. `strict` is left alone: it only checks."""
    (only,) = mutants.mutants(
        "code.py", "\npairs = [pair for pair in zip(ones, others, strict=True) if pair]"
    )
    assert (only.line, only.change) == (2, "filter dropped")


def test_dead_and_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant lives where the tests pass with it. Afterwards the module is as it was."""
    source, module = tmp_path / "source", "gitcp/cut.py"
    source.joinpath("gitcp").mkdir(parents=True)
    source.joinpath("tests").mkdir()
    source.joinpath(module).write_text(CODE)
    test = 'from gitcp.cut import cut\ndef test_cut():\n    assert (cut(b"abc", 2), cut(b"")) == (b"ab", b"-")\n'  # noqa: E501
    source.joinpath("tests/test_cut.py").write_text(test)
    monkeypatch.setattr(mutants, "SOURCE", source)
    monkeypatch.setattr(mutants, "TESTS", {module: ("test_cut",)})
    place = mutants.Workplace(tmp_path / "place")
    free: SimpleQueue[mutants.Workplace] = SimpleQueue()
    free.put(place)
    tried = [
        each
        for each in mutants.mutants(module, CODE)
        if each.change in ("Lt → LtE", "slice: no end")
    ]
    assert [each.change for each in tried if mutants.survives(each, free)] == ["Lt → LtE"]
    assert place.root.joinpath(module).read_text() == CODE


@pytest.mark.parametrize("module", sorted(mutants.TESTS))
def test_every_critical_module_has_its_tests(module: str) -> None:
    """Modules and tests that are named are there."""
    tests: Sequence[str] = mutants.TESTS[module]
    assert mutants.SOURCE.joinpath(module).is_file()
    known = {path.stem for path in mutants.SOURCE.joinpath("tests").rglob("test_*.py")}
    assert set(tests) <= known
