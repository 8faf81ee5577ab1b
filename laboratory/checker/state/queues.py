"""Usage of queues: usage of a leaf counts for its ancestors too (promise 2)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

Affinity = dict[str, list[str]] | None


@dataclass(slots=True, eq=False)
class _CheckedQueue:
    parent: int = -1
    affinities: list[tuple[float, Affinity]] = field(default_factory=list)
    """(since when, affinity to node groups), oldest first."""
    reclaimable: bool = True
    capability: dict[int, int] = field(default_factory=dict)
    guarantee: dict[int, int] = field(default_factory=dict)
    deserved: dict[int, int] = field(default_factory=dict)
    used: dict[int, int] = field(default_factory=dict)
    leaving: dict[int, int] = field(default_factory=dict)
    """The part of the usage that is releasing."""


class Queues:
    """Usage per queue, including that of its descendants."""

    def __init__(self) -> None:
        self._queues: dict[int, _CheckedQueue] = {}
        self.changed = 0.0
        """When amounts of a queue that there was were last stored anew."""
        self.choosy = False
        """Whether any queue ever named node groups."""

    def put(
        self,
        qid: int,
        parent: int,
        capability: Iterable[list[int]] | None,
        guarantee: Iterable[list[int]] = (),
        *,
        reclaimable: bool = True,
        deserved: Iterable[list[int]] = (),
        affinity: Affinity = None,
        t: float = 0.0,
    ) -> None:
        """Add or change a queue. One that moves takes its usage with it."""
        if qid in self._queues:
            self.changed = t
        queue = self._queues.setdefault(qid, _CheckedQueue())
        queue.capability = {limit[0]: limit[1] for limit in capability or ()}
        queue.reclaimable = reclaimable
        queue.deserved = {pair[0]: pair[1] for pair in deserved}
        queue.affinities.append((t, affinity))
        self.choosy |= affinity is not None
        queue.guarantee = {pair[0]: pair[1] for pair in guarantee}
        if queue.parent != parent:
            used, leaving = list(queue.used.items()), list(queue.leaving.items())
            self.charge(queue.parent, used, -1)
            self.leave(queue.parent, leaving, -1)
            queue.parent = parent
            self.charge(parent, used, 1)
            self.leave(parent, leaving, 1)

    def affinities(self, qid: int, *, since: float, inherits: bool) -> list[Affinity]:
        """The affinities to node groups that counted for a queue's tasks at some time since then.
        ``inherits``: a queue without one has that of the nearest ancestor."""
        queue = self._queues.get(qid)
        if queue is None:
            return [None]
        times = [t for t, _ in queue.affinities[1:]]
        ends = [*times, float("inf")]
        own = [a for (_, a), end in zip(queue.affinities, ends, strict=True) if end >= since]
        if not inherits or None not in own:
            return own
        above = self.affinities(queue.parent, since=since, inherits=True)
        return [a for a in own if a is not None] + above

    def branch(self, qid: int) -> list[int]:
        """A queue and those above it, the nearest first."""
        branch = []
        while (queue := self._queues.get(qid)) is not None:
            branch.append(qid)
            qid = queue.parent
        return branch

    def is_bounded(self, qid: int) -> bool:
        """Whether its tasks may lack room in the queue: by its capability, or by what is guaranteed
        to others."""
        guaranteed = any(queue.guarantee for queue in self._queues.values())
        return guaranteed or bool(self._queues[qid].capability)

    def deserved(self, qid: int) -> dict[int, int]:
        """Amounts that a queue deserves by its own specification, at least its guarantee."""
        queue = self._queues.get(qid, _CheckedQueue())
        slots = queue.deserved.keys() | queue.guarantee.keys()
        return {s: max(queue.deserved.get(s, 0), queue.guarantee.get(s, 0)) for s in slots}

    def staying(self, qid: int) -> dict[int, int]:
        """Amounts that a queue and those below it hold, without leaving tasks."""
        queue = self._queues.get(qid, _CheckedQueue())
        return {slot: used - queue.leaving.get(slot, 0) for slot, used in queue.used.items()}

    def reclaimable(self, qid: int) -> bool:
        queue = self._queues.get(qid)
        return queue is None or queue.reclaimable

    def leave(self, qid: int, requests: list[tuple[int, int]], times: int) -> None:
        """Requests begin to leave a queue and its ancestors or, if ``times`` is negative, have
        left."""
        while (queue := self._queues.get(qid)) is not None:
            for slot, amount in requests:
                queue.leaving[slot] = queue.leaving.get(slot, 0) + amount * times
            qid = queue.parent

    def robbed(self, qid: int, slots: Collection[int] | None = None) -> str:
        """The first queue, from this one up, that is left with less than its guarantee; "" if
        none. ``slots``: those that count, None for all."""
        while (queue := self._queues.get(qid)) is not None:
            for slot, guaranteed in queue.guarantee.items():
                if slots is not None and slot not in slots:
                    continue
                stays = queue.used.get(slot, 0) - queue.leaving.get(slot, 0)
                if stays < guaranteed:
                    return f"queue {qid} slot {slot}: {stays} stay, {guaranteed} are guaranteed"
            qid = queue.parent
        return ""

    def drop(self, qid: int) -> str:
        """Remove a queue; returns what was still used in it, "" if nothing."""
        queue = self._queues.pop(qid, None)
        used = {} if queue is None else {slot: n for slot, n in queue.used.items() if n}
        return f"queue {qid} is gone, but {used} of it is in use" if used else ""

    def charge(self, qid: int, requests: list[tuple[int, int]], times: int) -> str:
        """Add requests to a queue and its ancestors; returns the limit exceeded, "" if they fit."""
        broken = ""
        while (queue := self._queues.get(qid)) is not None:
            for slot, amount in requests:
                used = queue.used[slot] = queue.used.get(slot, 0) + amount * times
                limit = queue.capability.get(slot)
                if limit is not None and used > limit and not broken:
                    broken = f"queue {qid} slot {slot}: used {used}, capability {limit}"
            qid = queue.parent
        return broken
