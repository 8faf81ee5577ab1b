"""Admission of queues: parents first, no cycles; ``default`` always exists."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.intake.admission.step import AdmissionStep
from shared.codec.packed import replace
from shared.errors import InvalidInput
from shared.manifests.volcano.objects import QueueManifest
from shared.model.model import Job, Queue

DEFAULT = "default"
HOLDS_JOBS = (
    "{0.kind} {0.key} is in it, and a queue that holds jobs has none below it; choose another "
    "parent, or delete its jobs and wait until they are gone"
)
"""Why a queue with this job cannot get children."""
ROOT = "root"
"""The parent of all queues, whether a Queue of this name was submitted or not."""


def admit_queues(step: AdmissionStep, manifests: Sequence[QueueManifest]) -> None:
    """Admit all queues of a list, in whatever order they were written."""
    if DEFAULT not in step.draft.queues:
        _new(step, DEFAULT)
    # `root` first: the queues of the list that name no parent become its children.
    remaining = sorted(manifests, key=lambda queue: queue.name != ROOT)
    while remaining:
        # Round by round until nothing more finds its parent: what is left has none, or is in a
        # circle.
        later = [new for new in remaining if not _judge(step, new)]
        if len(later) == len(remaining):
            break
        remaining = later
    for new in remaining:
        message = "does not exist, or is below this queue; create it first, without a circle"
        error = InvalidInput("spec.parent", new.parent, message)
        step.refuse(new, error)


def _judge(step: AdmissionStep, new: QueueManifest) -> bool:
    """Admit or refuse one queue; False where its parent is not known yet."""
    parent = _parent(step, new)
    if parent is None:
        return False
    old = step.draft.queues.get(new.name)
    if old is not None and old.parent != parent and _above(step, old.qid, parent):
        message = "is below this queue; choose a parent outside of it"
        error = InvalidInput("spec.parent", new.parent, message)
        step.refuse(new, error)
        return True
    if (old is None or old.parent != parent) and (job := holder(step, new.parent)) is not None:
        step.refuse(new, InvalidInput("spec.parent", new.parent, HOLDS_JOBS.format(job)))
        return True
    try:
        parsed = _queue(step, new, parent)
    except InvalidInput as error:
        step.refuse(new, error)
        return True
    queue = replace(
        parsed,
        qid=step.draft.next_qid if old is None else old.qid,
        spec=0 if old is None else old.spec,
    )
    if queue == old:
        step.same.add(id(new))
    elif old is None:
        _new(step, new.name, queue)
    else:
        step.draft.queues[new.name] = replace(queue, spec=old.spec + 1)
    return True


def _queue(step: AdmissionStep, new: QueueManifest, parent: int) -> Queue:
    draft = step.draft
    return Queue(
        qid=-1,
        name=new.name,
        weight=new.weight,
        parent=parent,
        priority=new.priority,
        open=new.open,
        reclaimable=new.reclaimable,
        capability=None
        if new.capability is None
        else draft.requests(new.capability, "spec.capability", offers=True),
        deserved=draft.requests(new.deserved, "spec.deserved", offers=True),
        guarantee=draft.requests(new.guarantee, "spec.guarantee.resource", offers=True),
        deserved_set=new.deserved_set,
        created=(new.created or 0.0) if step.observe else 0.0,
        annotations=new.annotations,
        affinity=new.affinity,
    )


def _parent(step: AdmissionStep, new: QueueManifest) -> int | None:
    """The parent's number, -1 for none; None where it does not exist (yet)."""
    name = new.parent or ROOT
    if new.name == ROOT:
        return -1
    queue = step.draft.queues.get(name)
    if queue is not None:
        return queue.qid
    return -1 if name == ROOT else None


def holder(step: AdmissionStep, parent: str) -> Job | None:
    """A job that is in this parent queue, or waits for it, so that the queue may not get children.
    ``root`` is exempt: all queues are its children, and an observed cluster is taken as it is."""
    if parent in ("", ROOT) or step.observe:
        return None
    if step.holders is None:
        # Once a list: a pass over all jobs.
        step.holders = {job.queue: job for job in step.draft.present_jobs()}
    return step.holders.get(parent)


def _above(step: AdmissionStep, qid: int, parent: int) -> bool:
    """Whether queue ``qid`` is ``parent`` or one of its ancestors."""
    parents = {queue.qid: queue.parent for queue in step.draft.queues.values()}
    while parent >= 0:
        if parent == qid:
            return True
        parent = parents[parent]
    return False


def _new(step: AdmissionStep, name: str, queue: Queue | None = None) -> None:
    """Create a queue; ``root`` gets its children."""
    draft = step.draft
    root = draft.queues.get(ROOT)
    if queue is None:
        queue = Queue(qid=draft.next_qid, name=name, parent=-1 if root is None else root.qid)
    put_new(step, queue)
    if name == ROOT:
        for child in list(draft.queues.values()):
            if child.parent == -1 and child.name != ROOT:
                draft.queues[child.name] = replace(child, parent=queue.qid, spec=child.spec + 1)


def put_new(step: AdmissionStep, queue: Queue) -> None:
    """Add a queue of the next number, and give it the jobs that waited for its name."""
    draft, name = step.draft, queue.name
    draft.queues[name] = queue
    draft.next_qid += 1
    for jid in draft.waiting_for(name):
        job = draft.jobs.get(jid)
        if job is not None and job.queue == name:
            # A new version, so that the ledger and whoever reads its log learn of the queue that
            # the job is in now.
            draft.jobs[jid] = replace(job, spec=job.spec + 1)
