"""Usage of KAI's queues: limits at every level of the tree, and quotas of what may not be evicted.

Everything is added up from KAI's own objects, the requests of classes and the names of slots. The
capabilities that the scheduler derives for its ledger are not looked at: they may be wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Facts = dict[str, Any]

QUEUE = "kaiqueue/"
GROUP = "kaipodgroup/"
SLOTS = "slots"

_RESOURCES = ("cpu", "memory", "gpu")
_GPU = 2
_UNLIMITED = -1
_PREEMPTIBLE_BELOW = 100

Amounts = tuple[int, int, int]
"""By resource."""
Charge = tuple[str, Amounts, bool]
"""(queue, what a task holds of it, whether it may not be evicted)"""


class _CheckedKaiQueue:
    __slots__ = ("fixed", "leaving", "limit", "parent", "quota", "runtime", "used", "weight")

    def __init__(self) -> None:
        self.parent = ""
        self.limit = self.quota = [_UNLIMITED] * len(_RESOURCES)
        self.weight = [0] * len(_RESOURCES)
        """For what is left beyond quotas."""
        self.used = [0] * len(_RESOURCES)
        self.fixed = [0] * len(_RESOURCES)
        """The part of it that may not be evicted."""
        self.leaving = [0] * len(_RESOURCES)
        """The part of what is used that begins to leave."""
        self.runtime: dict[str, float | None] = {}
        """Action -> seconds for which its jobs are kept from it; absent or None: not said."""


class CheckedKaiQueues:
    """Usage per queue, with that of all queues below it."""

    def __init__(self) -> None:
        self._queues: dict[str, _CheckedKaiQueue] = {}
        self._names: dict[int, str] = {}
        """qid -> name"""
        self._kind_of: list[int] = []
        """Slot -> index of the resource that it counts as; -1 for none."""
        self.changed = 0.0
        """When a queue was stored last."""
        self._group_queues: dict[str, tuple[str, float]] = {}
        """PodGroup -> (its queue, when it changed to that; 0: it never had another)."""
        self._preemptible: dict[str, bool] = {}
        """PodGroup -> what it says of itself; those that say nothing are absent."""

    # --- what is known --------------------------------------------------------------------------

    def put_object(self, key: str, facts: Facts, *, t: float) -> None:
        if key.startswith(QUEUE):
            self.changed = t
        if key == SLOTS:
            self._kind_of = [_kind(name) for name in facts["names"]]
        elif key.startswith(QUEUE):
            self._put_queue(key.removeprefix(QUEUE), facts)
        elif key.startswith(GROUP):
            self._put_group_queue(key.removeprefix(GROUP), facts.get("queue", ""), t)
            self._preemptible.pop(key.removeprefix(GROUP), None)
            if facts.get("preemptible") is not None:
                self._preemptible[key.removeprefix(GROUP)] = facts["preemptible"]

    def drop_object(self, key: str) -> None:
        self._queues.pop(key.removeprefix(QUEUE) if key.startswith(QUEUE) else "", None)
        self._preemptible.pop(key.removeprefix(GROUP) if key.startswith(GROUP) else "", None)
        self._group_queues.pop(key.removeprefix(GROUP) if key.startswith(GROUP) else "", None)

    def _put_group_queue(self, group: str, queue: str, t: float) -> None:
        before, _ = self._group_queues.get(group, (queue, 0.0))
        if before != queue or group not in self._group_queues:
            self._group_queues[group] = queue, (t if before != queue else 0.0)

    def group_queue(self, group: str) -> tuple[str, float]:
        """The queue that a PodGroup names, "" for none, and when it changed to that; 0: it
        never had another."""
        return self._group_queues.get(group, ("", 0.0))

    def name(self, qid: int, name: str) -> None:
        self._names[qid] = name

    def name_of(self, qid: int) -> str:
        return self._names.get(qid, "")

    def _put_queue(self, name: str, facts: Facts) -> None:
        """Add or change a queue. One that moves takes its usage with it."""
        queue = self._queues.setdefault(name, _CheckedKaiQueue())
        shares = [facts.get(resource, {}) for resource in _RESOURCES]
        queue.limit = [share.get("limit", 0) for share in shares]
        queue.quota = [share.get("quota", 0) for share in shares]
        queue.weight = [share.get("weight", 0) for share in shares]
        queue.runtime = {
            action: facts.get(f"{action}_min_runtime") for action in ("preempt", "reclaim")
        }
        parent = facts.get("parent", "")
        if parent != queue.parent:
            used, fixed = _amounts(queue.used), _amounts(queue.fixed)
            leaving = _amounts(queue.leaving)
            self._add(queue.parent, used, fixed, -1)
            self._leave(queue.parent, leaving, -1)
            queue.parent = parent
            self._add(parent, used, fixed, 1)
            self._leave(parent, leaving, 1)

    def branch(self, qid: int) -> list[str]:
        """A queue and those above it, the nearest first; empty where it is none of KAI's."""
        return [name for name, _ in self._chain(self._names.get(qid, ""))]

    def min_runtime(self, queues: list[str], action: str) -> float | None:
        """The time of the first queue that says one; None: none does."""
        times = (self._queues[name].runtime.get(action) for name in queues)
        return next((time for time in times if time is not None), None)

    # --- what happens ---------------------------------------------------------------------------

    def charge_of(
        self, qid: int, key: str, priority: int, requests: list[tuple[int, int]]
    ) -> Charge | None:
        """Charge of a placed task to its queue; None where the queue is none of KAI's."""
        name = self._names.get(qid, "")
        if name not in self._queues:
            return None
        total = [0] * len(_RESOURCES)
        for slot, amount in requests:
            kind = self._kind_of[slot] if slot < len(self._kind_of) else -1
            if kind >= 0:
                total[kind] += amount
        fixed = not self.preemptible(key, priority)
        return name, _amounts(total), fixed

    def preemptible(self, key: str, priority: int) -> bool:
        """Whether a job may be evicted."""
        return self._preemptible.get(key, priority < _PREEMPTIBLE_BELOW)

    def take(self, charge: Charge) -> str:
        """Count a placed task; returns the bound that it exceeds, "" if it exceeds none."""
        name, amounts, fixed = charge
        self._add(name, amounts, amounts if fixed else _NOTHING, 1)
        for above, queue in self._chain(name):
            for at, resource in enumerate(_RESOURCES):
                if not amounts[at]:
                    continue
                if _beyond(queue.used[at], queue.limit[at]):
                    return (
                        f"queue {above} {resource}: used {queue.used[at]}, limit {queue.limit[at]}"
                    )
                if fixed and _beyond(queue.fixed[at], queue.quota[at]):
                    return (
                        f"queue {above} {resource}: {queue.fixed[at]} that may not be evicted, "
                        f"quota {queue.quota[at]}"
                    )
        return ""

    def give_back(self, charge: Charge) -> None:
        name, amounts, fixed = charge
        self._add(name, amounts, amounts if fixed else _NOTHING, -1)

    def leave(self, charge: Charge, sign: int) -> None:
        """Count a task that begins to leave (1), or has left (-1)."""
        self._leave(charge[0], charge[1], sign)

    def _leave(self, name: str, amounts: Amounts, sign: int) -> None:
        for _, queue in self._chain(name):
            for at in range(len(_RESOURCES)):
                queue.leaving[at] += sign * amounts[at]

    def staying(self, name: str) -> Amounts:
        """Amounts that a queue and those below it hold, without leaving tasks."""
        queue = self._queues[name]
        stays = [used - leaving for used, leaving in zip(queue.used, queue.leaving, strict=True)]
        return _amounts(stays)

    def least_bound(self, name: str) -> Amounts:
        """Amounts that a queue may hold whatever its fair share: its quota, as far as its limit
        allows; -1 for any amount."""
        queue = self._queues[name]
        bounds = zip(queue.quota, queue.limit, strict=True)
        return _amounts([_least(quota, limit) for quota, limit in bounds])

    def largest_share(self, name: str) -> Amounts:
        """Upper bounds of a queue's fair share: its limit, and its quota where it has no weight for
        more; -1 for none."""
        queue = self._queues[name]
        columns = zip(queue.quota, queue.limit, queue.weight, strict=True)
        return _amounts([limit if w > 0 else _least(quota, limit) for quota, limit, w in columns])

    def is_limited(self, name: str) -> bool:
        return any(limit != _UNLIMITED for limit in self._queues[name].limit)

    def _add(self, name: str, amounts: Amounts, fixed: Amounts, sign: int) -> None:
        for _, queue in self._chain(name):
            for at in range(len(_RESOURCES)):
                queue.used[at] += sign * amounts[at]
                queue.fixed[at] += sign * fixed[at]

    def _chain(self, name: str) -> Iterator[tuple[str, _CheckedKaiQueue]]:
        """A queue and those above it, as far as they exist."""
        visited: set[str] = set()
        while name not in visited and (queue := self._queues.get(name)) is not None:
            yield name, queue
            visited.add(name)
            name = queue.parent


_NOTHING: Amounts = (0, 0, 0)


def _amounts(total: list[int]) -> Amounts:
    return total[0], total[1], total[2]


def _least(quota: int, limit: int) -> int:
    bounds = [bound for bound in (quota, limit) if bound != _UNLIMITED]
    return min(bounds, default=_UNLIMITED)


def _beyond(used: int, most: int) -> bool:
    return most != _UNLIMITED and used > most


def _kind(name: str) -> int:
    """Every resource whose name ends so is a GPU."""
    if name.endswith("gpu"):
        return _GPU
    return _RESOURCES.index(name) if name in _RESOURCES[:_GPU] else -1
