"""``python -m tests.laboratory.chaos.pairs``: two processes of a run are struck at the same moment.

Every pair of processes, under every pair of signals. Prints how long a pod waited at most in each,
and at the end a table with the longest wait of each process. Ends with 1 where that was longer than
promised, or the checker found a broken promise.
"""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from itertools import combinations
from typing import TextIO

from tests.laboratory.chaos.process_tree import (
    AGENT,
    END,
    ENVIRONMENTS,
    KILL,
    OTHER_WORKER,
    PLACED_SECONDS,
    RAYLET,
    STOP,
    STOPPED_SECONDS,
    STORE,
    WORKER,
    Strike,
    running_tree,
)

NAMES = ("coordinator", "standby", "ledger", "cluster", WORKER, OTHER_WORKER, "ray", RAYLET, STORE)
HELPERS = (AGENT, ENVIRONMENTS)
"""They end, and the raylet with them; none of ours waits for one that is stopped."""
SIGNALS = ((KILL, KILL), (KILL, STOP), (STOP, KILL), (STOP, STOP), (END, END))

Pair = tuple[Strike, Strike]

PAIRS_OF_A_TREE = 3
"""The supervisor gives up a process that dies five times in a minute."""

SAMPLE: tuple[Pair, ...] = (
    (("coordinator", KILL), ("ledger", KILL)),
    (("standby", KILL), (WORKER, STOP)),
    (("cluster", STOP), (OTHER_WORKER, KILL)),
)
"""For `make test-all`: a minute and a half."""


def all_pairs() -> Iterator[Pair]:
    """By signals, so that each process of a tree is struck in few of its pairs."""
    for first_signal, second_signal in SIGNALS:
        names = NAMES if STOP in (first_signal, second_signal) else (*NAMES, *HELPERS)
        for first, second in combinations(names, 2):
            yield (first, first_signal), (second, second_signal)


def bound(pair: Pair) -> float:
    """Seconds that a pod may wait: the ledger's server may be the stopped process."""
    return PLACED_SECONDS + STOPPED_SECONDS * any(number is STOP for _, number in pair)


def title(pair: Pair) -> str:
    return " and ".join(f"{number.name} to {name}" for name, number in pair)


async def measure(pairs: list[Pair], out: TextIO) -> dict[Pair, float]:
    """Strike the pairs on one tree. An infinite time for those after which it did not recover, and
    for all of them where a promise was broken."""
    waits: dict[Pair, float] = {}
    try:
        async with running_tree() as tree:
            for pair in pairs:
                waits[pair] = await tree.strike(*pair)
                out.write(f"{waits[pair]:6.1f} s  {title(pair)}\n")
                out.flush()
    except* AssertionError as errors:
        failed = [pair for pair in pairs if pair not in waits] or pairs
        out.write(f"failed, or not struck: {'; '.join(map(title, failed))}: {errors!r}\n")
        out.flush()
        waits |= dict.fromkeys(failed, float("inf"))
    return waits


def table(waits: dict[Pair, float]) -> Iterator[str]:
    """A row for each process: the longest wait under each pair of signals, and with whom."""
    heads = [f"{own.name}, another {other.name}" for own, other in SIGNALS]
    yield f"| process | {' | '.join(heads)} |"
    yield "|---" * (len(heads) + 1) + "|"
    for name in (*NAMES, *HELPERS):
        cells = []
        for signals in SIGNALS:
            longest = [
                (seconds, other[0])
                for pair, seconds in waits.items()
                for own, other in (pair, pair[::-1])
                if own[0] == name and (own[1], other[1]) == signals
            ]
            cells.append("{:.1f} s, {}".format(*max(longest)) if longest else "")
        yield f"| {name} | {' | '.join(cells)} |"


def main() -> int:
    parser = ArgumentParser(prog="python -m tests.laboratory.chaos.pairs", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="number of the first pair")
    parser.add_argument("--most", type=int, default=1000, help="number of pairs at most")
    options = parser.parse_args()
    pairs = list(all_pairs())[options.first : options.first + options.most]
    waits: dict[Pair, float] = {}
    for at in range(0, len(pairs), PAIRS_OF_A_TREE):
        waits |= asyncio.run(measure(pairs[at : at + PAIRS_OF_A_TREE], sys.stdout))
    sys.stdout.writelines(f"{line}\n" for line in table(waits))
    return 0 if all(seconds <= bound(pair) for pair, seconds in waits.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
