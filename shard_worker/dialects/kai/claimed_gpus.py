"""GPUs that tasks hold by claims (dynamic resource allocation), as KAI's queues count them.

A claim counts once in a queue, however many of its tasks share it; each task has its own claim of
each template. Requests with alternatives are not counted, as in KAI.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set

from shard_worker.session_model.job import TaskInfo
from shared.model.constraints import Constraints
from shared.model.devices import DeviceRequest, ResourceSlice
from shared.model.gpu_request import ONE
from shared.model.objects import ClusterObjects

MOST = 2**40
"""Devices that a claim counts for at most: the API takes any positive number, and sums of amounts
have 53 bits."""
_NONE = Constraints()


def is_gpu(name: str) -> bool:
    """Whether a device class, or a driver, is one of GPUs."""
    return "gpu" in name.lower()


def gpus_of(requests: Sequence[DeviceRequest]) -> int:
    """GPUs that a claim asks for, in thousandths. All there are count for one, as in KAI."""
    asks = [ask for request in requests for ask in request.asks if not ask.name]
    numbers = [1 if ask.everything else ask.count for ask in asks if is_gpu(ask.device_class)]
    return min(sum(numbers), MOST) * ONE


def gpus_of_nodes(slices: Iterable[ResourceSlice]) -> dict[str, int]:
    """Node -> its GPUs that drivers offer, in thousandths."""
    found: dict[str, int] = {}
    for each in slices:
        if each.node and is_gpu(each.driver):
            found[each.node] = found.get(each.node, 0) + len(each.devices) * ONE
    return found


def claims_of(
    objects: ClusterObjects, namespace: str, task: str, constraints: Constraints | None
) -> Iterator[tuple[str, int]]:
    """(key, thousandths of GPUs) of each claim of a task. ``task``: tells its own claims apart."""
    wanted = constraints or _NONE
    for name in wanted.claims:
        claim = objects.claims.get(f"{namespace}/{name}")
        if claim is not None:
            yield f"{namespace}/{name}", gpus_of(claim.requests)
    for name in wanted.claim_templates:
        template = objects.claim_templates.get(f"{namespace}/{name}")
        if template is not None:
            yield f"{task}/{name}", gpus_of(template.requests)


class ClaimedGpus:
    """The tasks of each queue that hold a claim, and what a task adds or leaves."""

    def __init__(self, objects: ClusterObjects, *, whole: bool) -> None:
        """``whole``: all tasks of the cluster come; else a claim in use that no task was seen with
        is held by others of the queue."""
        self._objects = objects
        self._whole = whole
        self._users: dict[tuple[str, str], set[TaskInfo]] = {}

    def hold(self, queue: str, task: TaskInfo) -> int:
        """A task got its claims; returns what its queue holds more."""
        more = 0
        for key, gpus in self._claims(task):
            more += 0 if self._others(queue, key, {task}) else gpus
            self._users.setdefault((queue, key), set()).add(task)
        return more

    def leave(self, queue: str, task: TaskInfo) -> int:
        """A task left its claims; returns what its queue holds less."""
        less = 0
        for key, gpus in self._claims(task):
            self._users.get((queue, key), set()).discard(task)
            less += 0 if self._others(queue, key, {task}) else gpus
        return less

    def of(self, queue: str, tasks: Iterable[TaskInfo]) -> int:
        """GPUs of claims that only these tasks of the queue hold, or would hold."""
        return sum(self.of_each(queue, tasks).values())

    def of_each(self, queue: str, tasks: Iterable[TaskInfo]) -> Counter[TaskInfo]:
        """The same by task; of those that share a claim the last one has it."""
        mine = {task: [*self._claims(task)] for task in tasks}
        last = {key: (task, gpus) for task, claims in mine.items() for key, gpus in claims}
        held: Counter[TaskInfo] = Counter()
        for key, (task, gpus) in last.items():
            held[task] += 0 if self._others(queue, key, mine.keys()) else gpus
        return held

    def _others(self, queue: str, key: str, mine: Set[TaskInfo]) -> bool:
        """Whether other tasks of the queue hold a claim."""
        users = self._users.get((queue, key))
        if users:
            return not users <= mine
        claim = None if self._whole else self._objects.claims.get(key)
        own = {task.uid for task in mine}
        return claim is not None and not own.issuperset(claim.reserved)

    def _claims(self, task: TaskInfo) -> Iterator[tuple[str, int]]:
        constraints = task.cls.constraints
        if constraints is None:
            return iter(())
        return claims_of(self._objects, task.job.job.namespace, task.key, constraints)
