"""Acknowledgements: independent evidence in the history of the jobs that users were told are
stored.

An acknowledged job that is missing from both the ledger and the cluster leaves no other trace
(docs/decisions/0045). The evidence is not part of the promise: it is sent beside the answers,
nobody waits for it, and losing some in a crash does no harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from coordinator.cluster.protocol import ClusterDriver, ClusterTimeout

EVERY = 0.1
"""Seconds between two reports; each is one call for all jobs acknowledged since the last."""

MOST_RUNS = 10_000
"""Maximum number of runs kept while the cluster is unavailable, some 100 kB; further ones are
dropped. Jobs of a list have consecutive numbers, so this exceeds any outage of a test."""

Runs = list[tuple[int, int]]
"""(first jid, number of jobs)"""


class Acknowledgements:
    def __init__(self, cluster: ClusterDriver) -> None:
        self._cluster = cluster
        self._runs: Runs = []
        self._noted = asyncio.Event()

    def note(self, jids: Iterable[int]) -> None:
        """Record that these jobs are stored and their users are being told."""
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
    """Append job numbers; one that follows the last run extends it."""
    for jid in jids:
        if runs and sum(runs[-1]) == jid:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((jid, 1))
