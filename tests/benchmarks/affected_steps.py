"""How many steps run again after one change, beside running all of them: chains, trees, random
graphs. Counted in steps, so the figures are the same on every machine.

    python tests/benchmarks/affected_steps.py        a real session for each graph
"""

from __future__ import annotations

import random
import subprocess
import tempfile
from collections.abc import Iterator

import gitcp

STEPS = 31

Graph = dict[str, list[str]]


def graphs(seed: int = 1) -> dict[str, Graph]:
    """A chain, trees that branch out and join, and random graphs, all of as many steps."""
    chance = random.Random(seed)
    names = [str(number) for number in range(STEPS)]
    sparse, dense = (
        {
            name: sorted(
                chance.sample(names[:number], min(number, chance.randint(0, most))), key=int
            )
            for number, name in enumerate(names)
        }
        for most in (2, 4)
    )
    return {
        "chain": {name: names[max(0, number - 1) : number] for number, name in enumerate(names)},
        "tree, from the root to the leaves": {
            name: names[(number - 1) // 2 : (number + 1) // 2] if number else []
            for number, name in enumerate(names)
        },
        "tree, from the leaves to the root": {
            str(STEPS - 1 - number): [
                str(STEPS - 1 - child)
                for child in (2 * number + 2, 2 * number + 1)
                if child < STEPS
            ]
            for number in reversed(range(STEPS))
        },
        "random, up to 2 dependencies": sparse,
        "random, up to 4 dependencies": dense,
    }


def affected(graph: Graph, changed: str) -> list[str]:
    """What a change affects where every result changes: the step and all that follow from it."""
    found = {changed}
    for name, depends in graph.items():
        if found.intersection(depends):
            found.add(name)
    return [name for name in graph if name in found]


def row(title: str, graph: Graph, counts: list[int]) -> str:
    """A row of the table in docs/pipelines.md; `counts` are the steps that ran, by change."""
    mean, steps = sum(counts) / len(counts), len(graph)
    return f"| {title} | {steps} | {steps} | {mean:.1f} | {mean / steps:.0%} |"


def measured(graph: Graph) -> Iterator[int]:
    """Change every step in turn in a real session; how many steps ran each time."""
    inputs, ran = dict.fromkeys(graph, 0), list[str]()
    with tempfile.TemporaryDirectory(prefix="gitcp-steps-") as directory:
        subprocess.run(["git", "init", "--quiet", directory], check=True)
        session = gitcp.open(directory).session("steps")

        def run() -> int:
            ran.clear()
            results: dict[str, int] = {}
            for name, depends in graph.items():

                def work(name: str = name, depends: list[str] = depends) -> int:
                    ran.append(name)
                    return inputs[name] + sum(results[each] for each in depends)

                results[name] = session.step(name, work, inputs=inputs[name], depends=depends)
            return len(ran)

        if run() != len(graph):
            raise RuntimeError("the first run did not do every step")
        for name in graph:
            inputs[name] += 1
            yield run()


def main() -> None:
    """Print the table, and what differs from what the graph alone says."""
    for title, graph in graphs().items():
        counts = list(measured(graph))
        print(row(title, graph, counts))
        if counts != [len(affected(graph, name)) for name in graph]:
            raise SystemExit(f"{title}: not exactly the affected steps ran")


if __name__ == "__main__":
    main()
