"""enqueue: admit jobs, so that their pods may be created. A Pending PodGroup waits for this.

Volcano's loop: take the first queue in order and its first job, admit the job or not, and put the
queue back either way, so that queues alternate. A refused job blocks no other and is not judged
again in this session. An admitted job counts at once in the totals by which the next is judged. The
loop reads only totals, so :func:`enqueue` runs over Order's totals as well as over a world.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from shard_worker.framework.extension_points import JOB_ENQUEUEABLE
from shard_worker.session_model.priority_queue import PriorityQueue
from shard_worker.session_model.queue_totals import mark_inqueue, waits_for_entry
from shard_worker.session_model.workload import ClusterInfo, JobInfo, QueueInfo
from shared.messages.reason import Reason

if TYPE_CHECKING:
    from shard_worker.framework.session import Session
    from shard_worker.framework.sort_keys import Key


def execute(ssn: Session) -> None:
    """Admit the jobs that fit; record the reason for every other one."""
    world = ssn.world
    for job, admitted in enqueue(ssn, world, list(world.session_jobs())):
        if not admitted:
            word, detail = refusal(ssn, world, job)
            ssn.skip(world.session_job(job.job.jid), word, detail)


def enqueueable(ssn: Session, cluster: ClusterInfo, info: JobInfo) -> bool:
    """Whether the job may be admitted now. A job without minResources always may."""
    return info.job.min_resources is None or ssn.job_enqueueable(info, cluster)


def refusal(ssn: Session, cluster: ClusterInfo, info: JobInfo) -> tuple[Reason, str]:
    """(reason word, detail) for a job that is not admitted."""
    queue = cluster.queues[info.qid].queue
    if not queue.open:
        return Reason.QUEUE_CLOSED, f"queue {queue.name} takes no jobs now"
    lacking = ssn.lacking(cluster.queues[info.qid], (), cluster)
    if lacking is not None:  # of nothing: it is not a matter of amounts
        return Reason.MISCONFIGURED, lacking.why
    with ssn.watching() as errors:
        by = ssn.rejecting(JOB_ENQUEUEABLE, info, cluster)
    if errors:  # it has begun to raise since the job came into line
        return Reason.PLUGIN_ERROR, str(errors[0])
    text = f"plugin {by}: what it needs at least (minResources) is not to be had now"
    return Reason.WAITING_FOR_QUOTA, text


def enqueue(
    ssn: Session, cluster: ClusterInfo, jobs: Iterable[JobInfo]
) -> Iterator[tuple[JobInfo, bool]]:
    """Judge the jobs in Volcano's order; yields (job, admitted).

    ``jobs``: the Pending ones; others, and those of unknown queues, are skipped. A caller may stop
    at any time; what was admitted until then stays admitted.
    """
    waiting = enqueue_order(ssn, cluster, jobs)
    order = _by_queue_order(ssn, cluster)
    queues = PriorityQueue(order, (cluster.queues[qid] for qid in sorted(waiting)))
    while queues:
        queue = queues.pop()
        line = waiting[queue.queue.qid]
        if not line:
            continue
        job = line.popleft()
        admitted = enqueueable(ssn, cluster, job)
        if admitted:
            mark_inqueue(cluster, job)
            ssn.job_enqueued(job, cluster)
        queues.push(queue)
        yield job, admitted


def enqueue_order(
    ssn: Session, cluster: ClusterInfo, jobs: Iterable[JobInfo]
) -> dict[int, deque[JobInfo]]:
    """Queue -> its jobs that wait for admission, in JobOrder as it was when this was computed."""
    waiting: dict[int, list[JobInfo]] = {}
    for info in jobs:
        if waits_for_entry(info.phase) and info.qid in cluster.queues:
            waiting.setdefault(info.qid, []).append(info)

    def key(info: JobInfo) -> Key:
        return (ssn.job_key(info, cluster), info.job.created, info.job.key)

    # Sorted once: what is admitted moves the totals of queues, by which these are compared anew at
    # each pop.
    return {qid: deque(sorted(infos, key=key)) for qid, infos in waiting.items()}


def _by_queue_order(ssn: Session, cluster: ClusterInfo) -> Callable[[QueueInfo, QueueInfo], float]:
    """The comparison of two queues with the session's totals at the time of each call."""

    def key(info: QueueInfo) -> Key:
        return (ssn.queue_key(info, cluster), info.queue.created, info.queue.name)

    def compare(left: QueueInfo, right: QueueInfo) -> float:
        left_key, right_key = key(left), key(right)
        return -1.0 if left_key < right_key else 1.0 if right_key < left_key else 0.0

    return compare
