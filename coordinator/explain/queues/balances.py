"""What each leaf queue of a service deserves, has and asks for, by the shares of its policy.

It walks over all queues, never over jobs or tasks.
"""

from __future__ import annotations

from coordinator.core.coordinator import Coordinator
from coordinator.explain.queues.pairs import QueueBalance
from coordinator.explain.queues.queue_tree import NAMES
from shard_worker.dialects.kai.rules.amounts import NOTHING
from shard_worker.dialects.kai.service.queues import QueueShares, share_of
from shared.slices import Steps
from shared.units.amount_text import name_of
from shared.units.queue_slots import QUEUE_SLOTS

SHARE_PLUGINS = frozenset({"capacity", "proportion"})
"""The plugins of both dialects that give queues a share."""


def has_shares(core: Coordinator) -> bool:
    """Whether a plugin of the policy gives queues a share."""
    tiers = core.order.session.policy.tiers
    return any(option.name in SHARE_PLUGINS for tier in tiers for option in tier)


def divisible_resources(core: Coordinator) -> list[str]:
    """The resources of the cluster whose shares can be compared, accelerators first."""
    cluster, shares = core.order.accounts.cluster, core.order.session.queue_choice
    if isinstance(shares, QueueShares):
        total = shares.total(cluster)
        names = [name for name, amount in zip(NAMES, total, strict=True) if amount]
    else:
        slots = (slot for slot, amount in sorted(cluster.total.items()) if amount)
        names = [
            name for slot in slots if (name := name_of(slot, cluster.names)) not in QUEUE_SLOTS
        ]
    return sorted(names, key=lambda name: not is_accelerator(name))


def is_accelerator(resource: str) -> bool:
    """Whether it is an extended resource, which only devices have."""
    return "/" in resource


def scarce_resources(core: Coordinator) -> list[str]:
    """The accelerators of the cluster; its cpu if it has none."""
    names = divisible_resources(core)
    return [name for name in names if is_accelerator(name)] or [n for n in names if n == "cpu"]


def balances_of(core: Coordinator, resource: str) -> Steps[list[QueueBalance]]:
    """The balance of each leaf queue. ``resource``: one of :func:`divisible_resources`."""
    shares = core.order.session.queue_choice
    if isinstance(shares, QueueShares):
        return _of_kai(core, shares, NAMES.index(resource))
    return _of_volcano(core, list(core.order.accounts.cluster.names).index(resource))


def _of_volcano(core: Coordinator, slot: int) -> Steps[list[QueueBalance]]:
    session, cluster = core.order.session, core.order.accounts.cluster
    balances = []
    for info in list(cluster.queues.values()):
        if info.below is None:
            balance = QueueBalance(
                info.queue.name,
                # A fraction of a unit is no unit that a task could get.
                deserved=int(session.deserved(info, cluster).get(slot, 0)),
                allocated=info.allocated.get(slot, 0),
                requested=info.requested.get(slot, 0) - info.gated.get(slot, 0),
                quota=dict(info.queue.guarantee).get(slot, 0),
                reclaimable=info.queue.reclaimable,
            )
            balances.append(balance)
        yield
    return balances


def _of_kai(core: Coordinator, shares: QueueShares, at: int) -> Steps[list[QueueBalance]]:
    cluster = core.order.accounts.cluster
    fair, requested = shares.fair(cluster), shares.requested(cluster)
    balances = []
    for info in list(cluster.queues.values()):
        name = info.queue.name
        record, figures = cluster.objects.kai_queues.get(name), shares.figures(info, cluster)
        if record is not None and figures is not None and info.below is None:
            balance = QueueBalance(
                name,
                deserved=fair.get(name, NOTHING)[at],
                allocated=figures.allocated[at],
                requested=requested.get(name, NOTHING)[at],
                quota=share_of(record, "quota")[at],
            )
            balances.append(balance)
        yield
    return balances
