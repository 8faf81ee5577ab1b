"""``python -m tests.bench NAME [--nodes N]``: the search for victims, or for shares of GPUs, alone.

A session of KAI's default policy in this process, without a service; ends with 1 where a task has
no place that should have one.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from dataclasses import asdict

from tests.bench.sessions import time_session
from tests.bench.shapes import SHAPES


def main() -> int:
    parser = ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("name", choices=SHAPES)
    parser.add_argument("--nodes", type=int, help="another number of nodes")
    options = parser.parse_args()
    wrong = 0
    for shape in SHAPES[options.name]:
        for nodes in [options.nodes] if options.nodes else shape.goals:
            measured = time_session(shape, nodes)
            figures = ", ".join(f"{name} {value:g}" for name, value in asdict(measured).items())
            goal = f"goal {shape.goals[nodes]:g} s" if nodes in shape.goals else "no goal"
            sys.stdout.write(f"{shape.title}, {nodes:,} nodes, {goal}: {figures}\n")
            wrong += measured.placed != shape.placed(nodes)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
