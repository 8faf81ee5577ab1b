"""Limits on pending jobs per queue and on tasks of all Jobs: excess objects are refused, and may be
submitted again later.

Counting the pending jobs takes a pass over all jobs. So it happens only where a queue has more jobs
than may be pending, of which some run, and not again within :data:`COUNT_SECONDS`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Protocol

from coordinator.errors import Problem
from coordinator.intake.queue_of import (
    Item,
    QueueNames,
    group_of,
    key_of,
    key_of_group,
    name_of,
    queue_of,
    replicas_of,
)
from shared.errors import Refusal, shown

TOO_MANY = "TooManyPending"
COUNT_SECONDS = 1.0
RETRY_SECONDS = 5.0
"""Retry-After of refusals; room appears as jobs start."""


MOST_TASKS = 10_000_000
"""Most unfinished tasks of all jobs. A Job of a million is written in one line, and takes 5 MB here
and more in the ledger."""

UNSORTED = ""
"""Stands for "any queue": jobs under it count for each queue."""


class Jobs(Protocol):
    """The coordinator's jobs, counted by queue."""

    def unfinished(self, queue: str) -> int:
        """Unfinished jobs: at least as many as are pending. Cheap."""
        ...

    def most_unfinished(self) -> int:
        """The largest :meth:`unfinished` of any queue. Cheap."""
        ...

    def tasks(self) -> int:
        """Tasks that have not ended. Cheap."""
        ...

    def waiting(self, queue: str) -> int:
        """Jobs without a started task; costs a pass over all jobs."""
        ...


class PendingBound:
    """Checks submitted requests against the limits, one by one in the order of storing."""

    def __init__(
        self,
        jobs: Jobs,
        names: Callable[[], QueueNames],
        *,
        limit: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._jobs = jobs
        self._names = names
        self._limit = limit
        self._clock = clock
        self._coming: Counter[str] = Counter()
        """Jobs that were admitted, and that the coordinator may not know yet."""
        self._coming_tasks = 0
        """The same in tasks of Jobs."""
        self._counted: dict[str, tuple[float, int]] = {}
        """Queue -> when its waiting jobs were counted, and how many more it takes since then."""

    def split(self, items: list[Any]) -> tuple[list[Any], list[Refusal]]:
        """(objects within the limits, in their order; refusals of the others)."""
        items, large = self._split_tasks(items)
        admitted, refused = self._split_jobs(items)
        return admitted, large + refused

    def _split_tasks(self, items: list[Any]) -> tuple[list[Any], list[Refusal]]:
        """Check the limit on tasks. Only Jobs can exceed it: a pod is one task, and jobs are
        limited."""
        jobs = [i for i in items if isinstance(i, dict) and i.get("kind") == "Job"]
        if not jobs:
            return items, []
        names, room = self._names(), MOST_TASKS - self._jobs.tasks() - self._coming_tasks
        beyond: dict[int, Refusal] = {}
        for item in jobs:
            present = names.jobs.get(names.batch_jobs.get(key_of(item), -1))
            # A Job that exists is counted by what it would grow: sending it again must not be
            # refused for its own tasks.
            count = max(0, replicas_of(item) - (0 if present is None else present.tasks))
            if count > room:
                why = (
                    f"{MOST_TASKS - room} tasks of all queues did not end yet, and no more than "
                    f"{MOST_TASKS} may; send it again when some have, or with fewer replicas"
                )
                beyond[id(item)] = Refusal("Job", name_of(item), "spec.tasks", "", why, TOO_MANY)
            else:
                room -= count
                self._coming_tasks += count
        admitted = [item for item in items if id(item) not in beyond] if beyond else items
        return admitted, [*beyond.values()]

    def _split_jobs(self, items: list[Any]) -> tuple[list[Any], list[Refusal]]:
        coming = max(self._coming.values(), default=0) if self._coming else 0
        # Nearly always: not even the fullest queue could exceed the limit, so nobody looks at which
        # queue each object names.
        if self._jobs.most_unfinished() + coming + len(items) <= self._limit:
            self._coming[UNSORTED] += len(items)
            self._counted.clear()
            return items, []
        return self._judge(items)

    def published(self) -> None:
        """Note that the coordinator counts every task that was admitted so far."""
        self._coming.clear()
        self._coming_tasks = 0

    def _judge(self, items: list[Any]) -> tuple[list[Any], list[Refusal]]:
        names = self._names()
        verdicts: dict[str, str] = {}
        for item in items:
            if isinstance(item, Mapping) and item.get("kind") == "PodGroup":
                verdicts[key_of_group(item)] = self._take_group(item, names)
        admitted: list[Any] = []
        refused: list[Refusal] = []
        for item in items:
            why = self._why_not(item, names, verdicts) if isinstance(item, Mapping) else ""
            if why:
                refused.append(Refusal(str(item["kind"]), name_of(item), "", "", why, TOO_MANY))
            else:
                admitted.append(item)
        return admitted, refused

    def _why_not(self, item: Item, names: QueueNames, verdicts: dict[str, str]) -> str:
        match item.get("kind"):
            case "PodGroup":
                return verdicts[key_of_group(item)]
            case "Job":
                return self._take(item, names, existing=names.batch_jobs)
            case "Pod":
                group = group_of(item, names)
                if not group:
                    return self._take(item, names, existing=names.pods)
                if group not in verdicts and group not in names.groups:
                    verdicts[group] = self._take(item, names, existing={})
                return verdicts.get(group, "")
            case _:
                return ""

    def _take_group(self, item: Item, names: QueueNames) -> str:
        return "" if key_of_group(item) in names.groups else self._take(item, names, existing={})

    def _take(self, item: Item, names: QueueNames, *, existing: Mapping[str, int]) -> str:
        """Reserve room for one more job, unless it exists already; returns the reason of a refusal,
        "" for none."""
        if key_of(item) in existing:
            return ""
        queue = queue_of(item, names)
        if self._room(queue) <= 0:
            return (
                f"{self._limit} jobs wait in queue {shown(queue)}, and no more may; send it again "
                "when some have started"
            )
        self._coming[queue] += 1
        # What has started since the count is not given back: the bound must not be exceeded, and
        # the next count is a second away (decision 0015).
        if queue in self._counted:
            at, remaining = self._counted[queue]
            self._counted[queue] = at, remaining - 1
        return ""

    def _room(self, queue: str) -> int:
        """How many more jobs the queue accepts."""
        coming = self._coming[queue] + self._coming[UNSORTED]
        # An upper bound without a walk: more jobs are unfinished than wait.
        if (room := self._limit - self._jobs.unfinished(queue) - coming) > 0:
            return room
        now = self._clock()
        at, remaining = self._counted.get(queue, (-COUNT_SECONDS, 0))
        if now - at >= COUNT_SECONDS:
            remaining = self._limit - self._jobs.waiting(queue) - coming
            self._counted[queue] = now, remaining
        return remaining


def too_many(refused: list[Refusal]) -> Problem:
    """The response where no object of a request was accepted."""
    first = refused[0]
    return Problem(
        HTTPStatus.TOO_MANY_REQUESTS,
        f"{first.kind} {first.name}: {first.message}",
        retry_after=RETRY_SECONDS,
        refused=[
            {"kind": r.kind, "name": r.name, "reason": r.reason, "message": r.message}
            for r in refused
        ],
    )
