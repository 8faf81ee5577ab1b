"""The choice among sibling queues by what each of them would place next.

QueueOrder (:mod:`shard_worker.framework.extension_points`) ranks each queue by itself. A dialect
that compares queues together with the next job of each registers a choice instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

from shard_worker.session_model.workload import Amounts, ClusterInfo, QueueInfo

C_contra = TypeVar("C_contra", contravariant=True)
C = TypeVar("C")
"""A queue with its next job, as the choice compares it; opaque to the caller."""


class SiblingQueues(Protocol[C_contra]):
    def put(self, qid: int, contender: C_contra | None, /) -> None:
        """Enter a queue, or enter it anew; None: it has no next job."""
        ...

    def first(self) -> int | None:
        """The queue that goes first; None where none has a next job."""
        ...


class QueueChoice(Protocol[C]):
    def chain(self, queue: QueueInfo) -> tuple[QueueInfo, ...]:
        """The queue and those above it that are compared with their siblings, nearest first."""
        ...

    def contender(self, queue: QueueInfo, asks: Amounts, cluster: ClusterInfo) -> C:
        """A queue whose next job, its own or of a queue below it, asks for these amounts. Valid
        until a total of the queue or of the cluster changes."""
        ...

    def shares(self, cluster: ClusterInfo) -> Mapping[str, tuple[int, int, int]]:
        """Queue -> its fair share of cores, memory and GPUs."""
        ...

    def total(self, cluster: ClusterInfo) -> tuple[int, int, int]:
        """The cores, memory and GPUs that are divided."""
        ...

    def held(self, cluster: ClusterInfo) -> Mapping[str, tuple[int, int, int]]:
        """Queue -> what it holds now, with all queues below it."""
        ...

    def siblings(self) -> SiblingQueues[C]:
        """The queues below one parent; none so far."""
        ...
