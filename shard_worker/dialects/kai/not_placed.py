"""Why a turn placed nothing of a job, as a reason and a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shard_worker.dialects.kai.rules.capacity import OverCapacity
from shard_worker.dialects.kai.rules.groups import ALIVE, tasks_to_allocate
from shared.messages.reason import Reason
from shared.model.kai import topology_of
from shared.units.amount_text import some
from shared.units.quantity import quantity

if TYPE_CHECKING:
    from shard_worker.dialects.kai.model import KaiJob
    from shard_worker.dialects.kai.session import KaiSession
    from shard_worker.session_model.job import SessionJob
    from shard_worker.session_model.world import World

GATED = "all of its waiting pods have a scheduling gate"
NO_NODES = "no set of nodes has room for all of it together"


def why_no_turn(job: SessionJob, kai_job: KaiJob | None) -> tuple[Reason, str]:
    """Why the job has no turn, where it is no job of KAI's, or not ready."""
    if kai_job is None:
        text = f"queue {job.job.queue} does not exist, or has queues below it"
        return Reason.MISCONFIGURED, text
    return Reason.NOT_ENOUGH_TASKS, "too few of its pods exist, or wait without a gate"


def why_not_placed(ssn: KaiSession, job: KaiJob) -> tuple[Reason, str] | None:
    """Why the turn of a job placed nothing; None where its nodes say it
    (:attr:`SessionJob.unschedulable`)."""
    refusal = ssn.over_capacity.get(job.job.job.jid)
    if refusal is not None:
        return Reason.WAITING_FOR_QUOTA, _over(refusal)
    if not tasks_to_allocate(job.root):
        return Reason.NOT_ENOUGH_TASKS, _too_few(job)
    if missing := _missing_level(job, ssn.world):
        return Reason.MISCONFIGURED, missing
    if job.job.job.topology_key:
        return Reason.TOPOLOGY_PLACEMENT_FAILED, ssn.label_search(job).why_not()
    if not job.job.unschedulable:
        return Reason.TOPOLOGY_PLACEMENT_FAILED, NO_NODES
    return None


def _too_few(job: KaiJob) -> str:
    """The pod sets that no turn can fill: some of their pods are missing, or gated."""
    lacking = [
        f"{pod_set.name or 'the job'} has {counts} of the {pod_set.minimum} pods that it needs"
        for pod_set in job.root.pod_sets()
        if not pod_set.ready
        for counts in [pod_set.number(ALIVE) - pod_set.gated]
    ]
    return f"sub group {some(lacking)}" if lacking else GATED


def _over(refusal: OverCapacity) -> str:
    """Why the turn would exceed what a queue may have, in one sentence."""
    resource = refusal.resource
    has, asks, may = (quantity(resource, n) for n in (refusal.has, refusal.asks, refusal.may))
    return (
        f"{refusal.bound.value}: queue {refusal.queue} has {has} of the {may} {resource} that it "
        f"may have, and the job asks for {asks}"
    )


def _missing_level(job: KaiJob, world: World) -> str:
    """Explain which topology or level that the job names does not exist; "" if all do."""
    constraints = (job.group.topology, *(sub.topology for sub in job.group.sub_groups))
    for constraint in filter(None, constraints):
        topology = topology_of(constraint, world.objects.kai_topologies)
        if topology is None:
            return f"topology {constraint.topology} does not exist; create it, or name another"
        for level in filter(None, (constraint.required, constraint.preferred)):
            if topology.level(level) is None:
                return f"topology {topology.name} has no level {level}; add it, or name another"
    return ""
