"""Which jobs users were told are stored: evidence for the history from a hand of its own.

An acknowledged job that neither the ledger nor the cluster speaks of any more leaves no other trace
(docs/decisions/0045). The evidence is no part of the promise: it is sent beside the answers, nobody
waits for it, and what a crash cuts off is missing without harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from coordinator.cluster.protocol import ClusterDriver, ClusterTimeout

EVERY = 0.1
"""Seconds between two reports: one call for all that was acknowledged meanwhile."""

MOST_RUNS = 10_000
"""Runs of jobs kept while the cluster is away, some 100 kB; further ones are forgotten. Jobs of a
list have numbers in a row, so that this is more than any outage of a test brings."""

Runs = list[tuple[int, int]]
"""(first jid, how many)"""


class Acknowledgements:
    def __init__(self, cluster: ClusterDriver) -> None:
        self._cluster = cluster
        self._runs: Runs = []
        self._noted = asyncio.Event()

    def note(self, jids: Iterable[int]) -> None:
        """These jobs are stored, and their users are being told."""
        add_runs(self._runs, jids)
        del self._runs[MOST_RUNS:]
        if self._runs:
            self._noted.set()

    async def report_forever(self) -> None:
        while True:
            await self._noted.wait()
            await asyncio.sleep(EVERY)
            self._noted.clear()
            runs, self._runs = self._runs, []
            try:
                await self._cluster.acknowledged(runs)
            except ClusterTimeout:
                self._runs = runs + self._runs
                self._noted.set()


def add_runs(runs: Runs, jids: Iterable[int]) -> None:
    """Append job numbers; one that follows the last is counted with it."""
    for jid in jids:
        if runs and sum(runs[-1]) == jid:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((jid, 1))
