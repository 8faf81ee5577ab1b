"""Which actions of a policy evict, by the queues that they take from; of every dialect."""

from __future__ import annotations

SAME_QUEUE = frozenset({"preempt", "gangpreempt"})
OTHER_QUEUES = frozenset({"reclaim", "gangreclaim"})
ANY_QUEUE = frozenset({"consolidation"})
EVICTING = SAME_QUEUE | OTHER_QUEUES | ANY_QUEUE
