"""minruntime: who has not run for long enough is not evicted."""

from __future__ import annotations

from itertools import chain

import numpy as np

from shard_worker.dialects.kai.evictions import Proposal
from shard_worker.dialects.kai.model import KaiJob, QueueState
from shard_worker.dialects.kai.rules.groups import ACTIVE, is_elastic
from shard_worker.dialects.kai.rules.min_runtime import (
    ReclaimMethod,
    is_protected,
    longest,
    preempt_runtime,
    reclaim_runtime,
)
from shard_worker.dialects.kai.search.resident_columns import Mask, ResidentColumns
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.session_model.workload import ClusterInfo
from shared.policy.model import PluginOption


class MinRuntime:
    """A protected job without surplus tasks is no victim; of one with some, those may go alone."""

    name = "minruntime"

    def __init__(self, option: PluginOption) -> None:
        self._preempt = _seconds(option, "defaultPreemptMinRuntime")
        self._reclaim = _seconds(option, "defaultReclaimMinRuntime")
        self._method = ReclaimMethod(option.text("reclaimResolveMethod") or "lca")
        self._against_reclaim: dict[tuple[str, str], float] = {}
        """(queue of the reclaimer, of the victim) -> seconds: asked of every candidate. Of one
        world, as queues change."""
        self._ssn: KaiSession | None = None

    def on_session_open(self, ssn: KaiSession) -> None:
        self._ssn = ssn
        ssn.entering.append(lambda _: self._against_reclaim.clear())
        points = ssn.evictions
        points.add_preempt_victim_filter_fn(
            lambda job, other: not self._from_preempt(other) or is_elastic(other.root),
            column=lambda job, columns: self._unprotected(
                columns, [self._against_preempt(leaf) for leaf in columns.leaves]
            ),
        )
        points.add_reclaim_victim_filter_fn(
            lambda job, other: not self._from_reclaim(job, other) or is_elastic(other.root),
            column=lambda job, columns: self._unprotected(
                columns, [self._reclaim_runtime(job, leaf) for leaf in columns.leaves]
            ),
        )
        points.add_preempt_validator_fn(
            lambda proposal: all(
                keeps_minimum(other) for other, _ in proposal.victims if self._from_preempt(other)
            )
        )
        points.add_reclaim_validator_fn(self._valid_reclaim)

    def _valid_reclaim(self, proposal: Proposal) -> bool:
        return all(
            keeps_minimum(other)
            for other, _ in proposal.victims
            if self._from_reclaim(proposal.job, other)
        )

    def _from_preempt(self, victim: KaiJob) -> bool:
        return self._is_protected(victim, self._against_preempt(victim.queue))

    def _against_preempt(self, leaf: QueueState) -> float:
        chain = [queue.record.name for queue in leaf.chain]
        times = {queue.record.name: queue.record.preempt_min_runtime for queue in leaf.chain}
        return preempt_runtime(chain, times, self._preempt)

    def _from_reclaim(self, job: KaiJob, victim: KaiJob) -> bool:
        key = job.queue.uid, victim.queue.uid
        runtime = self._against_reclaim.get(key)
        if runtime is None:
            runtime = self._against_reclaim[key] = self._reclaim_runtime(job, victim.queue)
        return self._is_protected(victim, runtime)

    def _reclaim_runtime(self, job: KaiJob, leaf: QueueState) -> float:
        chain = leaf.chain
        return reclaim_runtime(
            [queue.record.name for queue in job.queue.chain],
            [queue.record.name for queue in chain],
            {queue.record.name: queue.record.reclaim_min_runtime for queue in chain},
            self._reclaim,
            self._method,
        )

    def _is_protected(self, job: KaiJob, runtime: float) -> bool:
        if self._ssn is None:
            raise RuntimeError("minruntime has no session yet")
        started = self._ssn.started.get(job.job.job.jid, job.group.last_start)
        return is_protected(started, runtime, self._ssn.world.now)

    def _unprotected(self, columns: ResidentColumns, runtimes: list[float]) -> Mask:
        """Lines of jobs that may go, or of which surplus tasks may. ``runtimes``: by leaf."""
        if self._ssn is None:
            raise RuntimeError("minruntime has no session yet")
        until = columns.started + np.array(runtimes, np.float64)[columns.leaf]
        protected = self._ssn.world.now < until  # False where the start is no number
        return ~protected | columns.is_elastic


class LongestRuntime:
    """How far back a service has to know when jobs started."""

    def __init__(self, option: PluginOption) -> None:
        arguments = ("defaultPreemptMinRuntime", "defaultReclaimMinRuntime")
        self._defaults = [_seconds(option, name) for name in arguments]

    def seconds(self, cluster: ClusterInfo) -> float:
        queues = cluster.objects.kai_queues.values()
        times = ((queue.preempt_min_runtime, queue.reclaim_min_runtime) for queue in queues)
        return longest(chain.from_iterable(times), self._defaults)


def keeps_minimum(job: KaiJob) -> bool:
    """Whether every pod set of a job has its minimum, as things stand."""
    return all(pod_set.number(ACTIVE) >= pod_set.minimum for pod_set in job.root.pod_sets())


def _seconds(option: PluginOption, name: str) -> float:
    return option.duration(name, 0.0)
