"""enqueue: may the pods of a job be created? A job whose PodGroup is Pending waits for it.

Volcano's loop: the first queue in order, its first job; the job is let in or not, and either way
the queue goes back, so that queues take turns. A job that is refused holds up nobody, and is not
asked again in this session. What is let in counts at once in the totals that the next is judged by.

The loop reads totals alone: :func:`enqueue` runs over what Order has as well as over a world.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from shard_worker.priority_queue import PriorityQueue
from shard_worker.queue_totals import let_in, waits_for_entry
from shard_worker.workload import ClusterInfo, JobInfo, QueueInfo

if TYPE_CHECKING:
    from shard_worker.session import Key, Session

CLOSED, NO_ROOM, WRONG = "QueueClosed", "WaitingForQuota", "Misconfigured"


def execute(ssn: Session) -> None:
    """Let in what may be let in; the others are told why not."""
    world = ssn.world
    for job, entered in enqueue(ssn, world, list(world.session_jobs())):
        if not entered:
            word, detail = refusal(ssn, world, job)
            ssn.skip(world.session_job(job.job.jid), word, detail)


def enqueueable(ssn: Session, cluster: ClusterInfo, info: JobInfo) -> bool:
    """May this job be let in now? One that does not say what it needs always may."""
    return info.job.min_resources is None or ssn.job_enqueueable(info, cluster)


def refusal(ssn: Session, cluster: ClusterInfo, info: JobInfo) -> tuple[str, str]:
    """(reason word, detail) of a job that is not let in."""
    queue = cluster.queues[info.qid].queue
    if not queue.open:
        return CLOSED, f"queue {queue.name} takes no jobs now"
    lacking = ssn.lacking(cluster.queues[info.qid], (), cluster)
    if lacking is not None:  # of nothing: it is not a matter of amounts
        return WRONG, lacking.why
    by = ssn.rejecting("JobEnqueueable", info, cluster)
    return NO_ROOM, f"plugin {by}: what it needs at least (minResources) is not to be had now"


def enqueue(
    ssn: Session, cluster: ClusterInfo, jobs: Iterable[JobInfo]
) -> Iterator[tuple[JobInfo, bool]]:
    """Judge the jobs in Volcano's order: (job, was it let in), one by one.

    ``jobs``: those that are Pending; others, and those of queues that do not exist, are passed
    over. A caller may stop at any time; what was let in until then is."""
    waiting = enqueue_order(ssn, cluster, jobs)
    order = _by_queue_order(ssn, cluster)
    queues = PriorityQueue(order, (cluster.queues[qid] for qid in sorted(waiting)))
    while queues:
        queue = queues.pop()
        line = waiting[queue.queue.qid]
        if not line:
            continue
        job = line.popleft()
        entered = enqueueable(ssn, cluster, job)
        if entered:
            let_in(cluster, job)
            ssn.job_enqueued(job, cluster)
        queues.push(queue)
        yield job, entered


def enqueue_order(
    ssn: Session, cluster: ClusterInfo, jobs: Iterable[JobInfo]
) -> dict[int, deque[JobInfo]]:
    """Queue -> its jobs that wait for entry, in JobOrder; nothing of it moves while they wait."""
    waiting: dict[int, list[JobInfo]] = {}
    for info in jobs:
        if waits_for_entry(info.phase) and info.qid in cluster.queues:
            waiting.setdefault(info.qid, []).append(info)

    def key(info: JobInfo) -> Key:
        return (ssn.job_key(info, cluster), info.job.created, info.job.key)

    return {qid: deque(sorted(infos, key=key)) for qid, infos in waiting.items()}


def _by_queue_order(ssn: Session, cluster: ClusterInfo) -> Callable[[QueueInfo, QueueInfo], float]:
    """Which queue goes first, as the session has it at the moment it is asked."""

    def key(info: QueueInfo) -> Key:
        return (ssn.queue_key(info, cluster), info.queue.created, info.queue.name)

    def compare(left: QueueInfo, right: QueueInfo) -> float:
        one, other = key(left), key(right)
        return -1.0 if one < other else 1.0 if other < one else 0.0

    return compare
