"""Slots that only queues count: no node has to have them, and no pod can name them.

A task class says what a task takes of its node (``requests``), and what its queue counts beside
that (``charges``). KAI's queues count all GPUs as one resource, and what may not be evicted by
itself. In the ledger a charge is a request that every node offers without saying so
(docs/decisions/0064).
"""

from __future__ import annotations

GPU_SHARE = "queue:gpus"
"""Whatever counts as a GPU, in thousandths of a device. A colon is in no name of a resource."""
NON_PREEMPTIBLE = ("non-preemptible:cpu", "non-preemptible:memory", "non-preemptible:gpus")
"""Amounts of tasks that may not be evicted, for the three resources that KAI divides."""
QUEUE_SLOTS = (GPU_SHARE, *NON_PREEMPTIBLE)
OFFERED = 2**46
"""The amount of such a slot that every node offers: more than any node can be asked for, and a sum
over a hundred thousand nodes still fits into 64 bits."""


def resource_of(name: str) -> str:
    """The resource that a slot of queues is an amount of, for its unit; other names are their
    own."""
    return name.rpartition(":")[2]
