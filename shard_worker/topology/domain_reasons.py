"""Why no domain takes a job, in one sentence with figures.

One of three: too little is free in the whole cluster; or no domain of the allowed tiers has enough;
or amounts suffice, but node checks leave too few nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from shard_worker.session_model.job import requested
from shard_worker.topology.domain_room import DomainRoom, alike
from shared.messages.reason import Reason
from shared.units.quantity import unit_of
from shared.units.slots import PODS

if TYPE_CHECKING:
    from shard_worker.session_model.job import TaskInfo
    from shard_worker.topology.domain_search import DomainSearch
    from shard_worker.view.hyper_tree import HyperDomain
    from shared.model.topology import Topology

GIB = 2**30
BYTES = ("memory", "ephemeral-storage")


def why_not(search: DomainSearch) -> tuple[Reason, str]:
    """(reason word, sentence) for a job that found no domain."""
    job, ssn, tree, room = search.job, search.ssn, search.tree, search.room
    waiting = [task for sub in search.sheet.queued for task in sub.left()]
    missing = max(job.minimum - job.census.ready - job.census.pending_best_effort, 1)
    needed = waiting[:missing]
    if room.hopeless(tree.root, alike(waiting), search.good) or _short(room, needed, tree.root):
        return Reason.NOT_ENOUGH_RESOURCES, _everywhere(room, needed)
    text = _within(
        search,
        job.job.topology,
        job.allocated_hyper_node,
        needed=needed,
        waiting=waiting,
        good=search.good,
    )
    if text:
        return Reason.TOPOLOGY_PLACEMENT_FAILED, text
    for sheet in search.sheet.queued if job.has_sub_groups else ():
        sub, tasks = sheet.sub, sheet.left()

        def good() -> bool:
            return ssn.sub_ready(sub) or ssn.sub_pipelined(sub)  # noqa: B023

        at = sub.allocated_hyper_node
        needed = tasks[: sub.minimum]
        text = _within(
            search, sub.topology, at, needed=needed, waiting=tasks, good=good, together=True
        )
        if text:
            return Reason.TOPOLOGY_PLACEMENT_FAILED, f"sub job {sub.name}: {text}"
    return (
        Reason.TOPOLOGY_PLACEMENT_FAILED,
        "domains with enough room have too few nodes that pass every check",
    )


def _within(
    search: DomainSearch,
    topology: Topology | None,
    allocated: str,
    *,
    needed: Sequence[TaskInfo],
    waiting: Sequence[TaskInfo],
    good: Callable[[], bool],
    together: bool = False,
) -> str:
    """Why no domain allowed by the topology suffices; "" if the counts alone do not explain it.

    ``together``: the domain must have room for all waiting tasks, as it must for a sub job.
    """
    tree = search.tree
    highest = tree.highest(topology)
    if highest is None:
        return ""
    bound = tree.widest(allocated, highest) if allocated else tree.root
    if bound is None:
        return f"its tasks are spread over {allocated}, which is wider than tier {highest}"
    among = [d for d in tree.listed if d.tier <= highest and d.within(bound)]
    if not among:
        return f"no hyper node has tier {highest}, or a lower one"
    groups = alike(waiting)
    if all(search.room.hopeless(domain, groups, good, "why") for domain in among):
        return shortfall(search.room, needed, among)
    if together and not allocated and all(_short(search.room, waiting, d) for d in among):
        return f"{shortfall(search.room, waiting, among)}, and all its tasks are looked at together"
    return ""


def _short(room: DomainRoom, tasks: Sequence[TaskInfo], domain: HyperDomain) -> bool:
    return any(room.free(slot)[domain.index] < n for slot, n in requested(tasks).items())


def shortfall(room: DomainRoom, tasks: Sequence[TaskInfo], among: Sequence[HyperDomain]) -> str:
    """The amounts free in all, and in the one of these domains that has the most."""
    tier = max(domain.tier for domain in among)
    indices = [domain.index for domain in among]
    most = {slot: int(room.free(slot)[indices].max()) for slot in requested(tasks)}
    slot = _scarcest(tasks, most)
    if slot is not None:
        name = room.name(slot)
        return (
            f"{_told(name, int(room.free(slot)[0]))} {name} are free, "
            f"no tier-{tier} domain has more than {_told(name, most[slot])}"
        )
    fit = max(_fit(room, tasks, index) for index in indices)
    if fit < len(tasks):
        return f"no tier-{tier} domain has room for more than {fit} of {len(tasks)} tasks"
    return f"no tier-{tier} domain has room for as many of each kind as are needed"


def _everywhere(room: DomainRoom, tasks: Sequence[TaskInfo]) -> str:
    free = {slot: int(room.free(slot)[0]) for slot in requested(tasks)}
    slot = _scarcest(tasks, free)
    if slot is not None:
        name, needed = room.name(slot), requested(tasks)[slot]
        return f"{_told(name, free[slot])} {name} are free, {_told(name, needed)} are needed"
    return f"the nodes have room for {_fit(room, tasks, 0)} of {len(tasks)} tasks that are needed"


def _scarcest(tasks: Sequence[TaskInfo], most: dict[int, int]) -> int | None:
    """The slot with the largest relative shortfall; None if no slot falls short."""
    short = {s: n / (most[s] + 1) for s, n in requested(tasks).items() if s != PODS and most[s] < n}
    return max(short, key=lambda slot: short[slot]) if short else None


def _fit(room: DomainRoom, tasks: Sequence[TaskInfo], index: int) -> int:
    return sum(min(len(group), int(room.of(group[0])[index])) for group in alike(tasks))


def _told(name: str, amount: int) -> str:
    if name in BYTES:
        return f"{amount / GIB:.4g} GiB of"
    return f"{np.round(amount / unit_of(name), 3):.12g}"
