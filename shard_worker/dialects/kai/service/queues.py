"""KAI's queues in a service: fair shares and queue order on the coordinator's live totals."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from shard_worker.dialects.kai.claimed_gpus import gpus_of_nodes
from shard_worker.dialects.kai.model import amounts_of
from shard_worker.dialects.kai.node_kinds import divisible
from shard_worker.dialects.kai.rules.amounts import NOTHING, Amounts
from shard_worker.dialects.kai.rules.fair_share import QueueDemand, fair_shares
from shard_worker.dialects.kai.rules.queue_order import Candidate, QueueFigures
from shard_worker.dialects.kai.rules.sibling_order import SiblingOrder
from shard_worker.framework.session import Session
from shard_worker.session_model.queue_totals import used, whole
from shard_worker.session_model.workload import Amounts as BySlot
from shard_worker.session_model.workload import ClusterInfo, QueueInfo
from shared.codec.packed import replace
from shared.model.kai import KaiQueue
from shared.model.model import Node
from shared.policy.kai_model import KaiOptions, KaiPolicy
from shared.policy.model import Policy
from shared.units.queue_slots import GPU_SHARE
from shared.units.slots import CPU, MEMORY


def order_queues(session: Session, policy: Policy) -> QueueShares:
    """Have a service's session divide and order queues as the policy says."""
    shares = QueueShares(policy)
    session.queue_choice = shares
    session.depths = (policy.kai or KaiPolicy()).queue_depth
    session.add_queue_order_fn(key=shares.key)
    return shares


Candidates = dict[str, tuple[KaiQueue, tuple[Amounts, ...], Candidate]]
"""Queue -> its record and figures when it was last compared, and the candidate made of them."""


class QueueShares:
    """proportion: fair shares by the tree, and whose turn it is among siblings. Without the plugin
    the oldest queue goes first."""

    def __init__(self, policy: Policy) -> None:
        kai = policy.kai or KaiPolicy()
        options = (option for tier in policy.tiers for option in tier)
        proportion = next((option for option in options if option.name == "proportion"), None)
        self.is_on = proportion is not None
        self.k = Fraction(1 if proportion is None else proportion.number("kValue", 1.0))
        self.flat = not kai.options.full_hierarchy_fairness
        """Only leaves count, below one parent without bounds."""
        self._whole = DivisibleTotal(kai.options)
        self._gpu_slot = -1
        """The slot in which queues count GPUs of every kind; -1 where no class has it."""
        self._fair: dict[str, Amounts] = {}
        self._rank: dict[str, float] = {}
        """Queue -> its place by age and name."""
        self._total = NOTHING
        self._computed_for: tuple[ClusterInfo, int] | None = None
        self._contenders: Candidates = {}
        self._by_itself: Candidates = {}
        """The same without a next job."""

    # --- figures --------------------------------------------------------------------------------

    def total(self, cluster: ClusterInfo) -> Amounts:
        """Amounts to divide among the queues."""
        self._refresh(cluster)
        return self._total

    def fair(self, cluster: ClusterInfo) -> Mapping[str, Amounts]:
        """The fair share of every queue that counts, by name."""
        self._refresh(cluster)
        return self._fair

    def figures(self, queue: QueueInfo, cluster: ClusterInfo) -> QueueFigures | None:
        """A queue as it is compared; None for one that is not KAI's."""
        self._refresh(cluster)
        name = queue.queue.name
        record = cluster.objects.kai_queues.get(name)
        if record is None:
            return None
        fair_share = self._fair.get(name, NOTHING)
        return figures_of(record, fair_share=fair_share, allocated=self._used(queue, cluster))

    def counted(self, cluster: ClusterInfo) -> list[KaiQueue]:
        """The queues among which the total is divided, the oldest first."""
        records = cluster.objects.kai_queues.values()
        by_age = sorted(records, key=lambda queue: (queue.created, queue.name))
        if not self.flat:
            return by_age
        inner = {record.parent for record in records}
        return [replace(record, parent="") for record in by_age if record.name not in inner]

    def requested(self, cluster: ClusterInfo) -> dict[str, Amounts]:
        """Amounts that each queue and all below it hold or request. Pods with gates do not count
        yet."""
        totals: dict[str, Amounts] = {}
        for info in cluster.queues.values():
            own = self._amounts(info.requested, cluster)
            own = own.plus(self._amounts(info.claims_requested, cluster))
            if info.gated:
                own = own.minus(self._amounts(info.gated, cluster))
            for queue in self.chain(info):
                name = queue.queue.name
                totals[name] = totals.get(name, NOTHING).plus(own)
        return totals

    def usage(self, cluster: ClusterInfo) -> dict[str, Amounts]:
        """Past usage of queues, in billionths of the cluster; queues without samples are left
        out."""
        return {name: Amounts(*used) for name, used in cluster.objects.queue_usage.items()}

    # --- the choice (framework/queue_choice.py) ---------------------------------------------------

    def chain(self, queue: QueueInfo) -> tuple[QueueInfo, ...]:
        return (queue,) if self.flat else (queue, *queue.above)

    def shares(self, cluster: ClusterInfo) -> Mapping[str, tuple[int, int, int]]:
        return self.fair(cluster)

    def held(self, cluster: ClusterInfo) -> Mapping[str, Amounts]:
        records = cluster.objects.kai_queues
        return {
            info.queue.name: self._used(info, cluster)
            for info in cluster.queues.values()
            if info.queue.name in records
        }

    def contender(self, queue: QueueInfo, asks: BySlot, cluster: ClusterInfo) -> Candidate:
        self._refresh(cluster)
        name = queue.queue.name
        record = cluster.objects.kai_queues.get(name)
        next_job = self._amounts(asks, cluster)
        if record is None:
            return Candidate(QueueFigures(uid=name), cluster=self._total, asks=next_job)
        return self._candidate(self._contenders, record, queue, next_job, cluster)

    def _candidate(
        self,
        known: Candidates,
        record: KaiQueue,
        queue: QueueInfo,
        next_job: Amounts,
        cluster: ClusterInfo,
    ) -> Candidate:
        """The known candidate, with its key, while it is the same: keys of a thousand queues take
        20 ms."""
        name = queue.queue.name
        fair_share, allocated = self._fair.get(name, NOTHING), self._used(queue, cluster)
        inputs = (fair_share, allocated, next_job, self._total)
        last = known.get(name)
        if last is not None and last[0] is record and last[1] == inputs:
            return last[2]
        figures = figures_of(record, fair_share=fair_share, allocated=allocated)
        candidate = Candidate(figures, cluster=self._total, asks=next_job)
        known[name] = record, inputs, candidate
        return candidate

    def siblings(self) -> SiblingOrder:
        return SiblingOrder(by_age=not self.is_on)

    # --- by itself ------------------------------------------------------------------------------

    def key(self, queue: QueueInfo, cluster: ClusterInfo) -> tuple[float, ...]:
        """A queue's place where nobody asks for its next job: the keys from the root down to it, so
        that siblings are compared where two paths part."""
        path = self.chain(queue)[::-1]
        return tuple(part for info in path for part in self._own_key(info, cluster))

    def _own_key(self, queue: QueueInfo, cluster: ClusterInfo) -> tuple[float, ...]:
        self._refresh(cluster)
        name = queue.queue.name
        record = cluster.objects.kai_queues.get(name)
        if record is None:
            return (float("inf"),) * 7
        if not self.is_on:
            return (self._rank[name],)
        candidate = self._candidate(self._by_itself, record, queue, NOTHING, cluster)
        over, beyond, priority, without, (with_job, _), (share, _) = candidate.key
        return over, beyond, priority, without, with_job, share, self._rank[name]

    # --- dividing -------------------------------------------------------------------------------

    def _refresh(self, cluster: ClusterInfo) -> None:
        computed = self._computed_for
        if computed is not None and computed[0] is cluster and computed[1] == cluster.revision:
            return
        counted = self.counted(cluster)
        self._rank = {queue.name: float(at) for at, queue in enumerate(counted)}
        self._total = self._whole.of(cluster)
        requested, usage = self.requested(cluster), self.usage(cluster)
        demands = [
            demand_of(
                record,
                requested.get(record.name, NOTHING),
                usage=usage.get(record.name, NOTHING),
            )
            for record in counted
        ]
        self._fair = fair_shares(self._total, demands, k=self.k)
        for known in (self._contenders, self._by_itself):
            for name in known.keys() - cluster.objects.kai_queues.keys():
                del known[name]
        self._computed_for = (cluster, cluster.revision)

    def _used(self, queue: QueueInfo, cluster: ClusterInfo) -> Amounts:
        """The amounts that a queue and those below it hold, GPUs of claims included."""
        own, claimed = (
            (queue.allocated, queue.claimed)
            if self.flat
            else (used(queue), whole(queue, "claimed"))
        )
        return self._amounts(own, cluster).plus(self._amounts(claimed, cluster))

    # --- amounts --------------------------------------------------------------------------------

    def _amounts(self, amounts: BySlot, cluster: ClusterInfo) -> Amounts:
        """Convert an amount to the resources that queues count. GPUs of every kind have a slot of
        their own there (docs/decisions/0064), which also has parts of devices."""
        names, at = cluster.names, self._gpu_slot
        if at < 0 or names[at] != GPU_SHARE:  # a slot that nothing uses may get another name
            at = self._gpu_slot = names.index(GPU_SHARE) if GPU_SHARE in names else -1
        if at < 0:
            return amounts_of(tuple(amounts.items()), names)
        return Amounts(amounts.get(CPU, 0), amounts.get(MEMORY, 0), amounts.get(at, 0))


def demand_of(record: KaiQueue, requested: Amounts, *, usage: Amounts = NOTHING) -> QueueDemand:
    """Input of one queue for the division."""
    return QueueDemand(
        uid=record.name,
        parent=record.parent or None,
        created=record.created,
        priority=record.priority,
        quota=share_of(record, "quota"),
        limit=share_of(record, "limit"),
        weight=share_of(record, "weight"),
        requested=requested,
        usage=usage,
    )


def figures_of(record: KaiQueue, *, fair_share: Amounts, allocated: Amounts) -> QueueFigures:
    """One queue as the queue order compares it."""
    return QueueFigures(
        uid=record.name,
        created=record.created,
        priority=record.priority,
        quota=share_of(record, "quota"),
        limit=share_of(record, "limit"),
        fair_share=fair_share,
        allocated=allocated,
    )


def share_of(record: KaiQueue, part: str) -> Amounts:
    """A queue's quotas, limits or weights."""
    cpu, memory, gpu = record.cpu, record.memory, record.gpu
    return Amounts(getattr(cpu, part), getattr(memory, part), getattr(gpu, part))


NOT_READY = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Taints that Kubernetes gives a node that is not ready."""

ForeignUse = Mapping[int | str, object]
"""Slot or named thing -> what pods of other schedulers use of it."""


class DivisibleTotal:
    """The sum over ready nodes, less what pods of other schedulers use there.

    Kept by node: when one changes only that one is counted anew.
    """

    def __init__(self, options: KaiOptions) -> None:
        self._options = options
        self._nodes: dict[int, tuple[Node, ForeignUse | None, Amounts]] = {}
        self._total = NOTHING
        self._revision = -1
        self._claimable: dict[str, int] = {}
        """Node -> GPUs that drivers offer there."""
        self._devices = -1
        """The version of these."""

    def of(self, cluster: ClusterInfo) -> Amounts:
        if cluster.objects.devices != self._devices:
            self._devices = cluster.objects.devices
            self._claimable = gpus_of_nodes(cluster.objects.slices.values())
            self._nodes, self._total, self._revision = {}, NOTHING, -1
        if cluster.nodes_revision != self._revision:
            self._revision = cluster.nodes_revision
            self._read(cluster)
        return self._total

    def _read(self, cluster: ClusterInfo) -> None:
        for row in self._nodes.keys() - cluster.nodes.keys():
            self._total = self._total.minus(self._nodes.pop(row)[2])
        for row, node in cluster.nodes.items():
            foreign = cluster.foreign.get(row)
            before = self._nodes.get(row)
            if before is not None and before[0] is node and before[1] is foreign:
                continue
            offered = self._of_node(node, foreign, cluster)
            self._total = self._total.plus(offered).minus(NOTHING if before is None else before[2])
            self._nodes[row] = node, foreign, offered

    def _of_node(self, node: Node, foreign: ForeignUse | None, cluster: ClusterInfo) -> Amounts:
        if any(taint.key in NOT_READY for taint in node.taints):
            return NOTHING
        offered = amounts_of(node.allocatable, cluster.names)
        offered = offered.plus(Amounts(gpu=self._claimable.get(node.name, 0)))
        if foreign:
            slots = ((at, n) for at, n in foreign.items() if type(at) is int and type(n) is int)
            offered = offered.minus(amounts_of(tuple(slots), cluster.names))
        return divisible(offered, node.labels, self._options)
