"""The pairs of a service over time: amounts that queues lacked, times the hours they lacked them.

Each look at the queues counts for the time until the next. Nothing is done per task or job, and
while no task waits a look is one comparison.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable

from coordinator.core.coordinator import Coordinator
from coordinator.explain.queues.balances import balances_of, has_shares, scarce_resources
from coordinator.explain.queues.pairs import QueuePair, pairs_of
from shared.messages.messages import TaskState
from shared.slices import Steps, in_slices

EVERY_SECONDS = 1.0
"""Minimum interval of comparing all queues."""
STEPS_PER_SECOND = 1000
"""Queues and pairs compared in a second of time: a look at more of them is followed by a longer
pause, so that it takes less than a hundredth of the time."""
MOST_PAIRS = 1024
"""Pairs of a resource with hours of their own. Above it the smaller half is added up as one
number."""


class PairHours:
    def __init__(self, core: Coordinator, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._core = core
        self._clock = clock
        self._at = self._now()
        self._lacking: dict[str, dict[QueuePair, int]] = {}
        """Resource -> the pairs of the last look."""
        self.since = time.time()
        self.milliseconds: dict[str, Counter[QueuePair]] = {}
        """Resource -> units times milliseconds: whole numbers, so that sums are exact."""
        self.others: Counter[str] = Counter()
        """Resource -> the sum of the pairs that are not in ``milliseconds``."""

    async def follow_forever(self) -> None:
        """Look again and again, in slices, until cancelled."""
        while True:
            compared = await in_slices(self.look())
            await asyncio.sleep(max(EVERY_SECONDS, compared / STEPS_PER_SECOND))

    def look(self) -> Steps[int]:
        """Count the time since the last look, and compare the queues; return how many queues and
        pairs that took."""
        yield from self._count()
        if not self._core.order.accounts.tasks[TaskState.PENDING] or not has_shares(self._core):
            return 0
        # Begun for all of them at once: in between the policy or the names of resources may change.
        looks = [(name, balances_of(self._core, name)) for name in scarce_resources(self._core)]
        compared = 0
        lacking: dict[str, dict[QueuePair, int]] = {}
        for resource, look in looks:
            balances = yield from look
            lacking[resource] = yield from pairs_of(balances)
            compared += len(balances) + len(lacking[resource])
        self._lacking = lacking
        return compared

    def _now(self) -> int:
        return round(self._clock() * 1000)

    def _count(self) -> Steps[None]:
        now, lacking = self._now(), self._lacking
        passed, self._at, self._lacking = now - self._at, now, {}
        for resource, pairs in lacking.items():
            sums = self.milliseconds.setdefault(resource, Counter())
            for pair, amount in pairs.items():
                sums[pair] += amount * passed
                yield
            if len(sums) > MOST_PAIRS:
                for pair, amount in sums.most_common()[MOST_PAIRS // 2 :]:
                    del sums[pair]
                    self.others[resource] += amount
