"""Fields of a recorded cluster that a service under this policy would keep waiting.

A replay places such jobs as Volcano does, which ignores the fields; it says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from coordinator.intake.documents.kinds import BY_KIND
from laboratory.replay.recorded import Recorded
from shard_worker.dialects.open_session import open_session
from shard_worker.session_model.demands import unknown_tier, unserved
from shard_worker.session_model.workload import ClusterInfo, JobInfo, QueueInfo
from shared.ledger.entries.intake_batch import PutObject
from shared.model.model import Job
from shared.policy.model import Policy
from shared.records.specs import SLOTS_KEY, decode_slots


def not_served(policy: Policy, recorded: Recorded) -> Iterator[str]:
    """One line for each thing that the policy does not serve, with the first job that asks for
    it."""
    served = open_session(policy).eligibility.served
    cluster = _cluster_of(recorded)
    qids = {queue.name: queue.qid for queue in recorded.queues}
    counts: Counter[str] = Counter()
    first: dict[str, Job] = {}
    for placed_job in recorded.placed_jobs:
        job = placed_job.job
        if placed_job.foreign:
            continue
        classes = tuple(recorded.classes[role.cid] for role in job.roles if role.count)
        info = JobInfo(job, qids.get(job.queue, -1), [], [], [], classes=classes)
        lacks = unserved(info, cluster, served) or unknown_tier(job, cluster.tiers)
        if lacks is not None:
            counts[lacks] += 1
            first.setdefault(lacks, job)
    for lacks, count in counts.items():
        job = first[lacks]
        many = f" and {count - 1} more" if count > 1 else ""
        yield (
            f"{BY_KIND[job.kind].written} {job.key}{many}: {lacks}. A service keeps such a job "
            "waiting (NotServed); here it is placed without, as Volcano does"
        )


def _cluster_of(recorded: Recorded) -> ClusterInfo:
    cluster = ClusterInfo(queues={queue.qid: QueueInfo(queue) for queue in recorded.queues})
    cluster.tiers = frozenset(h.tier_name for h in recorded.hyper_nodes if h.tier_name)
    for op in recorded.admission.ops:
        if isinstance(op, PutObject) and op.key == SLOTS_KEY and op.spec is not None:
            cluster.names = decode_slots(op.spec).names
    return cluster
