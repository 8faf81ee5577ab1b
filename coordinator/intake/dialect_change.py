"""A start with a policy of the other dialect than the one before.

Jobs of the other dialect would go on under rules that know neither their queue nor their group: a
service that finds such jobs does not start. Without them its queues are dropped, and the queues and
groups of the dialect in force, which were kept and not looked at, are taken up
(docs/decisions/0070). Under KAI's the GPUs of nodes are devices from then on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial

from coordinator.intake.admission.deletion import numbers_of
from coordinator.intake.admission.registry import Registry
from coordinator.intake.admission.result import Admission
from coordinator.intake.documents.document import Key
from coordinator.intake.documents.kinds import KAI_POD_GROUP, KAI_QUEUE, NODE, POD_GROUP, QUEUE
from coordinator.intake.intake import Intake
from coordinator.intake.writer import IntakeWriter
from shared.ledger.entries.intake_batch import DropQueue
from shared.ledger.errors import LedgerIdentity
from shared.model.kai import KaiQueue
from shared.model.kai_devices import with_gpus
from shared.model.model import Job, Queue
from shared.policy.model import Dialect
from shared.units.amount_text import plural, some

_QUEUES = {Dialect.VOLCANO: QUEUE.kind, Dialect.KAI: KAI_QUEUE.kind}
NODES_AT_ONCE = 50
"""Nodes that are admitted again in one go: some five milliseconds."""
_GROUPS = {Dialect.VOLCANO: POD_GROUP.kind, Dialect.KAI: KAI_POD_GROUP.kind}


def check_dialect(registry: Registry) -> None:
    """Raises LedgerIdentity where the ledger has jobs of the dialect that is not in force."""
    jobs = [job.key for job in _jobs_of_other(registry)]
    if jobs:
        ours, other = registry.dialect, _other(registry)
        raise LedgerIdentity(
            f"it has {plural(len(jobs), 'job')} under a policy of {other.scheduler}'s "
            f"({some(sorted(jobs))}), and the policy is {ours.scheduler}'s; start with a policy of "
            f"{other.scheduler}'s, let its jobs end or delete them, then start with this one; or "
            "use another ledger"
        )


async def take_up_dialect(writer: IntakeWriter, intake: Intake) -> None:
    """Drop the queues of the other dialect, and take up what was kept of the one in force."""
    queues = _queues_of_other(intake.registry)
    if queues:
        await writer.apply(lambda now: _drop(intake, queues))
    if queues or any(_unread(intake)) or _has_other_shape(intake.registry):
        await writer.apply(lambda now: _admit(intake, now))
    await _make_devices_of_gpus(writer, intake)


async def _make_devices_of_gpus(writer: IntakeWriter, intake: Intake) -> None:
    """Under a KAI policy admit again the nodes that came under another one: pods share their GPUs
    as devices. Nobody is on them, because jobs of another dialect stop a start."""
    registry = intake.registry
    if registry.dialect is not Dialect.KAI:
        return
    names, nodes = registry.slots.names, list(registry.nodes.values())
    for at in range(0, len(nodes), NODES_AT_ONCE):
        lacking = [
            Key(NODE.kind, "", node.name)
            for node in nodes[at : at + NODES_AT_ONCE]
            if with_gpus(node.annotations, [(names[s], n) for s, n in node.allocatable])
            != node.annotations
        ]
        if lacking:
            await writer.apply(partial(_admit_again, intake, lacking))
        await asyncio.sleep(0)


def _admit_again(intake: Intake, keys: Sequence[Key], now: float) -> Admission:
    """Admit objects as they are stored; those that went meanwhile are left out."""
    documents = intake.registry.documents
    return intake.admit([documents[key].object() for key in keys if key in documents], now)


def _other(registry: Registry) -> Dialect:
    return next(dialect for dialect in Dialect if dialect is not registry.dialect)


def _queues_of_other(registry: Registry) -> list[Queue]:
    """Queues that exist only in the other dialect, children before their parents."""
    ours, theirs = _QUEUES[registry.dialect], _QUEUES[_other(registry)]
    documents, depth = registry.documents, dict[int, int]()
    for queue in sorted(registry.queues.values(), key=lambda queue: queue.qid):
        depth[queue.qid] = depth.get(queue.parent, -1) + 1
    leftovers = [
        queue
        for name, queue in registry.queues.items()
        if Key(theirs, "", name) in documents and Key(ours, "", name) not in documents
    ]
    return sorted(leftovers, key=lambda queue: -depth[queue.qid])


def _jobs_of_other(registry: Registry) -> Iterator[Job]:
    queues = {queue.name for queue in _queues_of_other(registry)}
    ours, documents = registry.group_kind, registry.documents
    theirs = _GROUPS[_other(registry)]
    for jobs in (registry.jobs, registry.leaving):
        for job in jobs.values():
            is_group = job.kind == "PodGroup" and not job.dangling
            key = Key(theirs, job.namespace, job.name)
            if job.queue in queues or (
                is_group and key in documents and Key(ours, *key[1:]) not in documents
            ):
                yield job


def _has_other_shape(registry: Registry) -> bool:
    """Whether a queue stands below another although the policy counts none so, or the other way
    round: the start before was with another ``full-hierarchy-fairness``."""
    if registry.dialect is not Dialect.KAI:
        return False
    queues = registry.queues
    return any(
        (queues[record.name].parent < 0) is not registry.flat
        for record in registry.objects.values()
        if isinstance(record, KaiQueue) and record.parent and record.name in queues
    )


def _drop(intake: Intake, queues: list[Queue]) -> Admission:
    registry = intake.registry
    for queue in queues:
        del registry.queues[queue.name]
    qids = [queue.qid for queue in queues]
    return Admission(ops=[*map(DropQueue, qids), numbers_of(registry)], queues_gone=qids)


def _unread(intake: Intake) -> Iterator[Key]:
    """Queues of the dialect in force that do not count yet, and groups that are no jobs yet."""
    registry = intake.registry
    for key, document in registry.documents.items():
        if key.kind == registry.queue_kind:
            if key.name not in registry.queues:
                yield key
        elif key.kind == registry.group_kind and document.jid < 0:
            yield key


def _admit(intake: Intake, now: float) -> Admission:
    """Admit what was kept as if it were submitted again. A group becomes another incarnation: it
    was no job before."""
    registry = intake.registry
    keys = [key for key in registry.documents if key.kind == registry.queue_kind]
    groups = [key for key in _unread(intake) if key.kind == registry.group_kind]
    items = [registry.documents[key].object() for key in (*keys, *groups)]
    for key in groups:
        registry.documents.pop(key)
    return intake.admit(items, now)
