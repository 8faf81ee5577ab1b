"""GPUs that tasks hold by MiB of a device, charged to their queues by the node that they are on.

The same MiB are another part of a device on each kind of node, so that a task class has no amount
of its own (:mod:`coordinator.jobs.charges.kai_charges`). As in KAI, a waiting task counts as on
the smallest device that a node names, and a placed one as on its own. An open turn is charged as on
the smallest: whichever node its worker takes, nobody else is promised the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from coordinator.jobs.charges.claims import is_protected
from coordinator.jobs.state import JobState, Need, amounts
from shard_worker.session_model.queue_totals import charge_total
from shard_worker.session_model.workload import Amounts, ClusterInfo, QueueInfo, add
from shared.codec.packed import replace
from shared.messages.messages import TaskState
from shared.model.kai_devices import LEAST_MEMORY, device_memory, has_gpus
from shared.model.model import Node, Role, TaskClass
from shared.units.queue_slots import GPU_SHARE, NON_PREEMPTIBLE

_USING = (TaskState.BINDING, TaskState.BOUND, TaskState.RUNNING)


def by_memory(cls: TaskClass) -> bool:
    """Whether tasks of the class ask for MiB of a device."""
    return cls.gpu_share is not None and cls.gpu_share.memory > 0


class GpuMemoryBook:
    """Charges to ``QueueInfo.claimed`` and ``QueueInfo.claims_requested``, as claims have them."""

    def __init__(self, cluster: ClusterInfo, classes: Mapping[int, TaskClass]) -> None:
        self._cluster = cluster
        self._classes = classes
        self._sizes: Counter[int] = Counter()
        """MiB of a device -> nodes that name it, or have devices and do not say how large."""
        self._held: dict[int, dict[int, tuple[int, Amounts]]] = {}
        """Job -> task -> (its row, what its queue is charged with for it)."""
        self._waiting: Counter[tuple[int, TaskClass]] = Counter()
        """(queue, class) -> tasks that wait."""
        self._rowless: dict[int, JobState] = {}
        """Jobs with placed tasks whose nodes were not known yet when they were charged."""

    # --- nodes ----------------------------------------------------------------------------------

    def count_node(self, node: Node, sign: int) -> None:
        """Count a node that came (1), or went (-1)."""
        memory = device_memory(node.labels)
        if memory <= LEAST_MEMORY and not has_gpus(node):
            return
        before, self._sizes = self._sizes, self._sizes.copy()
        self._sizes[memory] += sign
        self._sizes = +self._sizes
        if _smallest_named(self._sizes) != _smallest_named(before):
            self._count_waiting(before, -1)
            self._count_waiting(self._sizes, +1)

    def _count_waiting(self, sizes: Iterable[int], sign: int) -> None:
        for (qid, cls), count in self._waiting.items():
            if (queue := self._cluster.queues.get(qid)) is not None:
                self._ask(queue, cls, sizes, sign * count)

    # --- tasks ----------------------------------------------------------------------------------

    def wait(self, queue: QueueInfo, cls: TaskClass, by: int) -> None:
        """Count ``by`` tasks without gates that began to wait, or (if negative) do not any more."""
        key = queue.queue.qid, cls
        self._waiting[key] += by
        if not self._waiting[key]:
            del self._waiting[key]
        self._ask(queue, cls, self._sizes, by)

    def _ask(self, queue: QueueInfo, cls: TaskClass, sizes: Iterable[int], by: int) -> None:
        share, memory = cls.gpu_share, _smallest_named(sizes)
        gpus = share.devices * share.charge_of(memory) if share is not None and memory else 0
        add(queue.claims_requested, self._amounts(cls, gpus).items(), by)

    def settle(self, queue: QueueInfo, state: JobState, role: Role, tasks: Iterable[int]) -> None:
        """Charge or release tasks of a role by their states and nodes as they are now."""
        cls, held = self._classes[role.cid], self._held.setdefault(state.job.jid, {})
        for tix in tasks:
            row = state.rows[tix] if state.states[tix] in _USING else None
            charged = held.get(tix)
            if row == (None if charged is None else charged[0]):
                continue
            if charged is not None:
                self._charge(queue, held.pop(tix)[1], -1)
            if row is not None:
                now = self._amounts(cls, self._at(cls, row))
                held[tix] = row, now
                self._charge(queue, now, 1)
                if row < 0:
                    self._rowless[state.job.jid] = state
        if not held:
            del self._held[state.job.jid]

    def _charge(self, queue: QueueInfo, amounts: Amounts, times: int) -> None:
        charge_total(queue, "claimed", amounts.items(), times)
        add(queue.claims_requested, amounts.items(), times)

    def take_rowless(self) -> list[JobState]:
        """The jobs whose tasks were charged before their nodes were known; each once."""
        states, self._rowless = [*self._rowless.values()], {}
        return states

    def forget(self, queue: QueueInfo, jid: int) -> None:
        """Release whatever tasks of a job are charged with."""
        self._rowless.pop(jid, None)
        for _, charged in self._held.pop(jid, {}).values():
            self._charge(queue, charged, -1)

    # --- amounts --------------------------------------------------------------------------------

    def needed(self, need: Need, *, most: bool) -> Amounts:
        """The amounts of a need: at least as on the largest devices, or at most as on the
        smallest."""
        classes = {cid: self._classes[cid] for cid, _ in need}
        bounded = {cid: self._bounded(cls, most=most) for cid, cls in classes.items()}
        return amounts(need, bounded)

    def promised(self, state: JobState) -> Amounts:
        """Amounts beside those of the classes that a job's open turn or nominations are charged
        with: of a nominated task as on its node, of others as much as any task of the job may come
        to, since the worker may place another than was counted."""
        if not any(map(by_memory, state.info.classes)):
            return {}
        count = sum(count for _, count in state.charge)
        gpus = [self._at(self._class_of(state, tix), row) for tix, row in state.nominated.items()]
        gpus = gpus[:count]
        most = max(self._most(cls) for cls in state.info.classes)
        counted = sum(self._counted(self._classes[cid]) * n for cid, n in state.charge)
        beside = sum(gpus) + most * (count - len(gpus)) - counted
        return self._amounts(state.info.classes[0], max(beside, 0))

    def most(self, state: JobState, need: Need) -> Amounts:
        """Amounts that as many tasks of a job as are needed may come to at most."""
        tasks = sum(count for _, count in need)
        asks = [dict(self._bounded(cls, most=True).charged) for cls in state.info.classes]
        slots = {slot for ask in asks for slot in ask}
        return {slot: tasks * max(ask.get(slot, 0) for ask in asks) for slot in slots}

    def _class_of(self, state: JobState, tix: int) -> TaskClass:
        return self._classes[state.job.role_of(tix).cid]

    def _most(self, cls: TaskClass) -> int:
        return self.bound(cls, most=True) if by_memory(cls) else self._counted(cls)

    def _counted(self, cls: TaskClass) -> int:
        """GPUs that the class itself is charged with."""
        names = self._cluster.names
        return dict(cls.charges).get(names.index(GPU_SHARE), 0) if GPU_SHARE in names else 0

    def bound(self, cls: TaskClass, *, most: bool) -> int:
        """GPUs of a task of the class at most or at least, in thousandths; 0 where no device can
        hold its share, or the class asks for no MiB."""
        share = cls.gpu_share
        if share is None or not share.memory:
            return 0
        sizes = [memory for memory in self._sizes if memory >= share.memory]
        if not sizes:
            return 0
        return share.devices * share.charge_of(min(sizes) if most else max(sizes))

    def _bounded(self, cls: TaskClass, *, most: bool) -> TaskClass:
        if not by_memory(cls):
            return cls
        charges = dict(cls.charges)
        add(charges, self._amounts(cls, self.bound(cls, most=most)).items(), 1)
        return replace(cls, charges=tuple(sorted(charges.items())))

    def _at(self, cls: TaskClass, row: int) -> int:
        """GPUs of a task of the class on a row; on a node that is not known, at most."""
        node, share = self._cluster.nodes.get(row), cls.gpu_share
        if node is None or share is None or not share.memory:
            return self._most(cls)
        return share.devices * share.charge_of(device_memory(node.labels))

    def _amounts(self, cls: TaskClass, gpus: int) -> Amounts:
        """GPUs as the slots of queues that count them for a task of the class."""
        names = self._cluster.names
        if not gpus or GPU_SHARE not in names:
            return {}
        counted = {names.index(GPU_SHARE): gpus}
        if is_protected(cls, names):
            counted[names.index(NON_PREEMPTIBLE[-1])] = gpus
        return counted


def _smallest_named(sizes: Iterable[int]) -> int:
    """MiB of the smallest device that a node names; 0 for none. As in KAI, what it takes a device
    for without a label is no size."""
    return min((memory for memory in sizes if memory > LEAST_MEMORY), default=0)
