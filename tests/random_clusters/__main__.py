"""``python -m tests.random_clusters A..B``: these seeds, a line for each thing that is wrong.

Ends with 1 where something is, and says what was bound, evicted and held against which rule.
"""

from __future__ import annotations

import sys

import typer

from tests.random_clusters.extender import answering
from tests.random_clusters.forms import Tried, try_cluster


def main(seeds: str) -> int:
    first, _, last = seeds.partition("..")
    tried, report = Tried(), 0
    with answering() as extender:
        for seed in range(int(first), int(last or first) + 1):
            try:
                try_cluster(seed, tried, extender=extender)
            except Exception as error:  # a tool for people: whatever went wrong is shown
                tried.wrong.append(f"seed {seed}: {type(error).__name__}: {error}")
            for line in tried.wrong[report:]:
                typer.echo(line)
            report = len(tried.wrong)
    for counts in (tried.done, tried.facts, tried.plugins):
        typer.echo(", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    typer.echo(f"{tried.clusters} clusters, {len(tried.wrong)} things wrong")
    return 1 if tried.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
