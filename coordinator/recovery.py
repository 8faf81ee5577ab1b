"""Recovery: the coordinator's state from the ledger alone."""

from __future__ import annotations

from coordinator.admission.registry import unpack_task
from coordinator.core import Changes, Coordinator
from coordinator.intake import Intake
from shared.ledger.protocol import Snapshot
from shared.model import Job
from shared.specs import decode_class, decode_job, decode_node, decode_queue


def recover(snapshot: Snapshot, intake: Intake, core: Coordinator) -> None:
    """Take up everything that was acknowledged before.

    Nominations are given up (the step that follows records it): who waited for what is not worth
    recovering, and each of these jobs is tried again at once. Deleted jobs and members go on
    leaving: what holds a node is stopped again. Binds that were not acknowledged come
    back through the bind stream, reports through the cluster.
    """
    hyper_nodes = intake.restore(snapshot)
    states: dict[int, bytearray] = {}
    jobs: list[Job] = []
    leaving: list[Job] = []
    for jid, spec in sorted(snapshot.job_specs.items()):
        record = snapshot.jobs.get(jid)
        if record is None:
            continue
        job = decode_job(spec)
        (leaving if record.gone else jobs).append(job)
        states[jid] = bytearray(job.tasks)
        for tix, task in snapshot.tasks.get(jid, {}).items():
            if tix < job.tasks:
                states[jid][tix] = task.state
    core.restore_gone_nodes(intake.registry.gone_nodes.values())
    if snapshot.partition is not None:
        core.restore_partition(snapshot.partition)
    core.admitted(
        Changes(
            classes={cid: decode_class(spec) for cid, spec in snapshot.classes.items()},
            nodes=[decode_node(spec) for _, spec in sorted(snapshot.node_specs.items())],
            queues=[decode_queue(spec) for _, spec in sorted(snapshot.queue_specs.items())],
            hyper_nodes=hyper_nodes,
            jobs=jobs,
        ),
        states,
    )
    for job in leaving:
        core.order.put_leaving(job, states[job.jid])
    for jid, tasks in snapshot.tasks.items():
        core.occupied(jid, tasks)
    core.order.drop_members(unpack_task(task) for task in sorted(intake.registry.deleting))
    for jid in sorted(snapshot.nominations):
        core.order.give_up_nominations(jid)
