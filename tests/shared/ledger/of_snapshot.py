"""Expected results of partial reads, computed from a whole snapshot."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

import numpy as np

from shared.ledger.entries.changes import ChangedKeys
from shared.ledger.entries.snapshot import Snapshot
from shared.ledger.entries.stored import TaskRecord
from shared.ledger.residents import DeviceCodes, Residents
from shared.messages.messages import Rows

K = TypeVar("K")
V = TypeVar("V")


def residents_of(snapshot: Snapshot) -> Residents:
    """Residents of a snapshot with its workload."""
    codes = DeviceCodes()
    columns = [
        (jid, tix, task.state, task.row, task.cid, codes.code(task.devices))
        for jid, tasks in snapshot.tasks.items()
        for tix, task in tasks.items()
    ]
    return Residents(
        np.array(columns, np.int64).reshape(-1, 6).T,
        [
            (jid, job.qid, job.gone, snapshot.job_specs.get(jid, b""))
            for jid, job in sorted(snapshot.jobs.items())
        ],
        codes,
    )


def part_of(snapshot: Snapshot, changed: ChangedKeys) -> Snapshot:
    """The changed records of a whole snapshot."""
    jids = changed.jobs | changed.tasks.keys()
    tasks: dict[int, dict[int, TaskRecord]] = {}
    for jid in jids & snapshot.tasks.keys():
        only = changed.tasks.get(jid) if jid not in changed.jobs else None
        records = snapshot.tasks[jid]
        part = records if only is None else {t: records[t] for t in only & records.keys()}
        if part:
            tasks[jid] = part
    return Snapshot(
        log_id=snapshot.log_id,
        nodes=Rows([], []),
        node_specs=_those(snapshot.node_specs, changed.nodes),
        queue_specs=_those(snapshot.queue_specs, changed.queues),
        classes=_those(snapshot.classes, changed.classes),
        jobs=_those(snapshot.jobs, jids),
        job_specs=_those(snapshot.job_specs, changed.jobs),
        tasks=tasks,
        objects=_those(snapshot.objects, changed.objects),
        partition=snapshot.partition if changed.partition else None,
        documents=_those(snapshot.documents, changed.documents),
    )


def _those(records: Mapping[K, V], keys: Collection[K]) -> dict[K, V]:
    return {key: records[key] for key in keys if key in records}
