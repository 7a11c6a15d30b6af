"""Do the tests notice when the code is wrong? Changes one small thing at a time in a module and
runs its tests.

    python tests/mutants.py                                  40 random mutants of each critical
    module python tests/mutants.py --sample 0 gitcp/retention.py    every mutant of one module
    python tests/mutants.py --seed 7 --jobs 2

Prints each mutant that lives, then a row for each module: how many were tried, how many died. Ends
with 1 if fewer than 95 % of all died. Some mutants that live change nothing that could be seen:
these are for a person to judge.

Works on copies of the project in temporary directories; the project itself is only read.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple, cast

SOURCE = Path(__file__).parents[1]

SECRETS = ("test_named_secrets", "test_encodings", "test_secret_rules", "test_secrets")

TESTS = {
    "gitcp/restoring/plan.py": (
        "test_restore",
        "test_spelling",
        "test_permissions",
        "test_revert",
        "test_undo",
        "test_shut_directories",
        "test_cli_restore",
    ),
    "gitcp/worktree/writer.py": ("test_writer", "test_restore", "test_durable"),
    "gitcp/worktree/blobs.py": ("test_segmented", "test_promised", "test_convert", "test_snapshot"),
    "gitcp/restoring/apply.py": (
        "test_restore",
        "test_spelling",
        "test_permissions",
        "test_undo",
        "test_cli_restore",
        "test_journal",
    ),
    "gitcp/state/journal.py": ("test_restore", "test_undo", "test_revert", "test_journal"),
    "gitcp/conversation/segments.py": ("test_segments",),
    "gitcp/git/refs.py": ("test_refs", "test_store", "test_shared"),
    "gitcp/retention.py": ("test_retention", "test_auto_retention", "test_prune"),
    "gitcp/secrets/encodings.py": SECRETS,
    "gitcp/secrets/named.py": SECRETS,
    "gitcp/secrets/rules.py": SECRETS,
    "gitcp/secrets/scan.py": SECRETS,
    "gitcp/secrets/values.py": SECRETS,
}
"""The critical modules, each with the tests that are to notice, the quick ones first."""

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}

NEEDED = 0.95
SLOWEST = 600.0
"""Seconds that the tests of one mutant may take: it loops then, and has been noticed."""


class Mutant(NamedTuple):
    """A module with one thing changed, at a line of the original."""

    module: str
    line: int
    change: str
    text: str


class Alternative(NamedTuple):
    """Something else that could stand in the place of a node, and what was changed, in words."""

    change: str
    node: ast.AST


def mutants(module: str, source: str) -> list[Mutant]:
    """Every mutant of a module's source, in the order of its lines."""
    made: list[Mutant] = []
    while True:
        change = Change(len(made))
        tree = change.visit(ast.parse(source))
        if change.made is None:
            return made
        made.append(
            Mutant(module, change.line, change.made, ast.unparse(ast.fix_missing_locations(tree)))
        )


class Change(ast.NodeTransformer):
    """Changes the n-th place of a module that can be changed; `made` is None if it has fewer.

    Left alone: types, assertions, the texts and arguments of errors, and what is only for type
    checkers.
    """

    def __init__(self, number: int) -> None:
        self.made: str | None = None
        self.line = 0
        self._left = number

    def visit(self, node: ast.AST) -> ast.AST:
        if (
            isinstance(node, ast.If)
            and isinstance(node.test, ast.Name)
            and node.test.id == "TYPE_CHECKING"
        ):
            return node
        if isinstance(node, ast.keyword) and node.arg == "strict":
            return node  # a check that never says no
        for alternative in alternatives(node):
            self._left -= 1
            if self._left < 0:
                self.made = alternative.change
                self.line = next(
                    each.lineno for each in ast.walk(node) if isinstance(each, ast.expr | ast.stmt)
                )
                return alternative.node
        return cast("ast.AST", super().visit(node))

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Go on below a node until the change is made, in the order of the source."""
        for name, value in ast.iter_fields(node):
            if name in UNCHANGED.get(type(node), ()):
                continue
            if isinstance(value, ast.AST) and self.made is None:
                setattr(node, name, self.visit(value))
            elif isinstance(value, list):
                value[:] = [
                    self.visit(v) if isinstance(v, ast.AST) and self.made is None else v
                    for v in value
                ]
        return node

    def _leave(self, node: ast.AST) -> ast.AST:
        return node

    visit_Assert = visit_JoinedStr = visit_Raise = visit_arg = _leave  # noqa: N815  (ast's names)


UNCHANGED = {
    ast.AnnAssign: ("target", "annotation"),
    ast.AsyncFunctionDef: ("decorator_list", "returns"),
    ast.ClassDef: ("bases", "keywords", "decorator_list"),
    ast.FunctionDef: ("decorator_list", "returns"),
}
"""Fields that tests cannot notice, or only by failing to import."""


def alternatives(node: ast.AST) -> Iterator[Alternative]:
    """What else could stand there."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in SWAPPED:
            swapped = SWAPPED[type(op)]
            yield Alternative(f"{_name(op)} → {swapped.__name__}", _like(node, ops=[swapped()]))
        case ast.BoolOp(op=op) | ast.BinOp(op=op) if type(op) in SWAPPED:
            swapped = SWAPPED[type(op)]
            yield Alternative(f"{_name(op)} → {swapped.__name__}", _like(node, op=swapped()))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield Alternative("not removed", operand)
        case ast.If(test=test) | ast.While(test=test) if not isinstance(
            test, ast.Compare | ast.UnaryOp
        ):
            yield Alternative("condition negated", _like(node, test=ast.UnaryOp(ast.Not(), test)))
        case ast.IfExp(body=body, orelse=orelse):
            yield Alternative("branches swapped", _like(node, body=orelse, orelse=body))
        case ast.Constant(value=bool(value)):
            yield Alternative(f"{value} → {not value}", ast.Constant(not value))
        case ast.Constant(value=int(value)):
            yield Alternative(f"{value} → {value + 1}", ast.Constant(value + 1))
        case ast.Constant(value=bytes(value)) if value:
            yield Alternative(f"{value!r} → b''", ast.Constant(b""))
        case ast.Slice(lower=lower, upper=upper):
            yield from (
                Alternative("slice: no beginning", _like(node, lower=None))
                for _ in (lower,)
                if lower
            )
            yield from (
                Alternative("slice: no end", _like(node, upper=None)) for _ in (upper,) if upper
            )
        case ast.comprehension(ifs=[_, *_]):
            yield Alternative("filter dropped", _like(node, ifs=[]))
        case ast.Return(value=value) if value is not None and not _is_nothing(value):
            yield Alternative("returns None", ast.Return(ast.Constant(None)))
        case ast.Expr(value=value) if not isinstance(
            value, ast.Constant | ast.Yield | ast.YieldFrom
        ):
            yield Alternative("call removed", ast.Pass())
        case ast.Raise() | ast.AugAssign() | ast.Delete() | ast.Continue():
            yield Alternative(f"{_name(node)} removed", ast.Pass())
        case ast.Break():
            yield Alternative("Break → Continue", ast.Continue())


def _name(node: ast.AST) -> str:
    return type(node).__name__


def _is_nothing(node: ast.expr) -> bool:
    """Whether it is None, or False, which is tested as None is."""
    return isinstance(node, ast.Constant) and (node.value is None or node.value is False)


def _like(node: ast.AST, **fields: object) -> ast.AST:
    return type(node)(**{**dict(ast.iter_fields(node)), **fields})


class Workplace:
    """A copy of the project, and an interpreter that imports gitcp from there."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "project"
        self._changes = 0
        wanted = shutil.ignore_patterns(".git", "__pycache__", ".*cache")
        shutil.copytree(SOURCE, self.root, ignore=wanted)
        venv.create(directory / "venv", with_pip=False)
        self._bin = directory / "venv" / "bin"
        packages = next(directory.glob("venv/lib/python*/site-packages"))
        known = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
        packages.joinpath("project.pth").write_text("\n".join((str(self.root), *known)) + "\n")

    def write(self, module: str, text: str) -> None:
        """Put a module's text in its place, with a time of its own: what was compiled before is not
        taken for it.
        """
        self._changes += 1
        path = self.root / module
        path.write_text(text)
        os.utime(path, (self._changes, self._changes))

    def passes(self, tests: Sequence[str]) -> bool:
        """Whether these tests pass. Those that do not end in time have noticed something."""
        paths = [path for name in tests for path in self.root.joinpath("tests").rglob(f"{name}.py")]
        command = [
            str(self._bin / "python"),
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            *map(str, paths),
        ]
        environment = {**os.environ, "PATH": f"{self._bin}:{os.environ['PATH']}"}
        with subprocess.Popen(
            command,
            cwd=self.root,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                return process.wait(SLOWEST) == 0
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return False


def survives(mutant: Mutant, places: SimpleQueue[Workplace]) -> bool:
    """Whether the tests of a mutant's module pass with it."""
    place = places.get()
    try:
        place.write(mutant.module, mutant.text)
        return place.passes(TESTS[mutant.module])
    finally:
        place.write(mutant.module, SOURCE.joinpath(mutant.module).read_text())
        places.put(place)


def chosen(module: str, sample: int, seed: int) -> list[Mutant]:
    """Mutants of a module: `sample` of them by chance, or all (0)."""
    made = mutants(module, SOURCE.joinpath(module).read_text())
    return (
        made
        if not sample or sample >= len(made)
        else random.Random(f"{seed} {module}").sample(made, sample)
    )


def run(modules: Sequence[str], sample: int, seed: int, places: Sequence[Workplace]) -> bool:
    """Try mutants of these modules and print what became of them. Whether enough of them died."""
    free: SimpleQueue[Workplace] = SimpleQueue()
    for place in places:
        free.put(place)
    tried, alive = 0, 0
    with ThreadPoolExecutor(len(places)) as pool:
        for module in modules:
            picked = chosen(module, sample, seed)
            lived = 0
            for mutant, lives in zip(
                picked, pool.map(lambda each: survives(each, free), picked), strict=True
            ):
                if lives:
                    lived += 1
                    print(f"{mutant.module}:{mutant.line}: lives: {mutant.change}", flush=True)
            print(f"{module}: {len(picked)} tried, {len(picked) - lived} died", flush=True)
            tried, alive = tried + len(picked), alive + lived
    print(f"all: {tried} tried, {tried - alive} died ({(tried - alive) / max(tried, 1):.1%})")
    return tried - alive >= NEEDED * tried


def main() -> int:
    """Run what the command line asks for; 1 if the tests fail on the code as it is, or notice too
    little.
    """
    parser = argparse.ArgumentParser(description="Do the tests notice when the code is wrong?")
    parser.add_argument(
        "modules", nargs="*", metavar="MODULE", help="modules, by path (default: all critical ones)"
    )
    parser.add_argument(
        "--sample", type=int, default=40, metavar="N", help="mutants of each module; 0 for all"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    modules = given.modules or list(TESTS)
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)  # tests of shared repositories import gitcp as other users
        places = [Workplace(Path(directory, str(number))) for number in range(given.jobs)]
        if not places[0].passes(sorted({test for module in modules for test in TESTS[module]})):
            print("the tests fail on the code as it is", file=sys.stderr)
            return 1
        return 0 if run(modules, given.sample, given.seed, places) else 1


if __name__ == "__main__":
    sys.exit(main())
