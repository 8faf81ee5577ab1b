"""topology: keeps a group within one domain of a level, or tries to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shard_worker.dialects.kai.model import KaiJob, Member, constraint_of, pod_set_of
from shard_worker.dialects.kai.rules.domains import (
    Domain,
    GroupRequest,
    common_domain,
    domains_to_try,
    grown,
    in_order,
    level_scores,
    limits_of,
)
from shard_worker.dialects.kai.rules.groups import ACTIVE, SubGroupSet
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.framework.rules import Mask, Scores
from shard_worker.session_model.job import TaskInfo
from shared.model.kai import DEFAULT_POD_SET, KaiTopology, topology_of
from shared.policy.model import PluginOption
from shared.units.slots import CPU, MEMORY, PODS

if TYPE_CHECKING:
    from shard_worker.session_model.world import World

SCORE = 1e5


class TopologyAware:
    """The scores of a group count for all tasks below it, until a group below has its own."""

    name = "topology"

    def __init__(self, option: PluginOption) -> None:
        del option
        self._ssn: KaiSession | None = None
        self._jid = -1
        self._scores: dict[str, Scores] = {}
        """Group of the job that has its turn -> the score of each row."""

    def on_session_open(self, ssn: KaiSession) -> None:
        self._ssn = ssn
        ssn.entering.append(self._begin)
        ssn.add_subset_nodes_fn(self._node_sets)
        ssn.add_batch_node_order_fn(self._score)

    def _begin(self, world: World) -> None:
        del world
        self._jid, self._scores = -1, {}

    def _node_sets(
        self, job: KaiJob, group: Member, tasks: Sequence[TaskInfo], within: Mask
    ) -> list[Mask]:
        if self._jid != job.job.job.jid:
            self._jid, self._scores = job.job.job.jid, {}
        constraint = constraint_of(job, group)
        if constraint is None or not tasks:
            return [within]
        world = self._world
        topology = topology_of(constraint, world.objects.kai_topologies)
        limits = None if topology is None else limits_of(topology, constraint)
        if topology is None or limits is None:
            return []
        root = tree_of(topology, world, within)
        request = asked_by(tasks, world, own=self._session.preferred_rows())
        start = common_domain(root, limits)
        if not request.fits(start):
            return []
        ordered = in_order(start, request, limits.deepest)
        if limits.preferred is not None:
            scores = level_scores(ordered, limits.preferred, world.size)
            self._scores[group.name] = scores * SCORE
        domains = domains_to_try(ordered, request, limits, _active_rows(group))
        return [_mask(domain, world.size) for domain in domains]

    def _score(self, task: TaskInfo, rows: NDArray[np.intp], world: World) -> Scores:
        del world
        job = self._session.kai_job(task.job)
        if job is not None and job.job.job.jid == self._jid:
            for name in reversed(names_above(job, task)):
                if name in self._scores:
                    return self._scores[name][rows]
        return np.zeros(len(rows), np.float64)

    @property
    def _session(self) -> KaiSession:
        if self._ssn is None:
            raise RuntimeError("topology has no session yet")
        return self._ssn

    @property
    def _world(self) -> World:
        return self._session.world


def tree_of(topology: KaiTopology, world: World, within: Mask) -> Domain:
    """The domains over those of the rows that have the labels of all levels."""
    columns = [world.view.label(level.label) for level in topology.levels]
    codes = [column.codes[: world.size] for column in columns]
    member = within & world.view.exists()
    for code in codes:
        member &= code >= 0
    return grown(np.flatnonzero(member), codes, [column.values for column in columns])


def asked_by(tasks: Sequence[TaskInfo], world: World, *, own: Mask | None) -> GroupRequest:
    """Sum up the requests of tasks. Their ``pods`` are counted only if, apart from cores and
    memory, every resource is requested by all tasks or by none. ``own``: the rows whose domains go
    first."""
    totals: dict[int, int] = {}
    largest: dict[int, int] = {}
    askers: dict[int, int] = {}
    for task in tasks:
        for slot, amount in task.requests:
            totals[slot] = totals.get(slot, 0) + amount
            largest[slot] = max(largest.get(slot, 0), amount)
            askers[slot] = askers.get(slot, 0) + 1
    alike = all(n == len(tasks) for slot, n in askers.items() if slot not in (CPU, MEMORY))
    ratios = [(amount, world.future_idle(slot)) for slot, amount in totals.items() if slot != PODS]
    pods = _pods(largest, len(tasks), world) if alike else None
    return GroupRequest(len(tasks), pods, ratios, own)


def _pods(largest: dict[int, int], tasks: int, world: World) -> NDArray[np.int64]:
    """How many of the largest task each row has room for."""
    room = np.full(world.size, tasks, np.int64)
    if set(largest) <= {PODS}:
        return room
    for slot, amount in largest.items():
        np.minimum(room, world.future_idle(slot) // amount, out=room)
    return np.maximum(room, 0)


def names_above(job: KaiJob, task: TaskInfo) -> list[str]:
    """The names of the groups that a task is in, the job's first."""
    pod_set = pod_set_of(task) if job.group.sub_groups else DEFAULT_POD_SET
    return _path(job.root, pod_set) or [job.root.name]


def _path(group: Member, pod_set: str) -> list[str]:
    if not isinstance(group, SubGroupSet):
        return [group.name] if group.name == pod_set else []
    for member in group.members:
        if below := _path(member, pod_set):
            return [group.name, *below]
    return []


def _active_rows(group: Member) -> NDArray[np.intp]:
    rows = {
        task.row
        for pod_set in group.pod_sets()
        for task in pod_set.tasks
        if task.status & ACTIVE and task.row >= 0
    }
    return np.array(sorted(rows), np.intp)


def _mask(domain: Domain, size: int) -> Mask:
    mask = np.zeros(size, np.bool_)
    mask[domain.rows] = True
    return mask
