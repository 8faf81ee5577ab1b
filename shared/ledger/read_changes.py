"""Reading many changed records of the ledger at once, for a follower of its log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

from shared.ledger import records
from shared.ledger.entries.changes import ChangedKeys
from shared.ledger.entries.intake_batch import PutPartition
from shared.ledger.entries.snapshot import Snapshot
from shared.ledger.entries.stored import JobRecord, TaskRecord
from shared.messages.messages import Rows

K = TypeVar("K", int, str)

Fields = Callable[[str, list[int] | list[bytes] | list[str]], Awaitable[list[bytes | None]]]
"""The values of some fields of one of the ledger's hashes, None where a field is not there."""


async def read_moved(
    fields: Fields, partition: Callable[[], Awaitable[PutPartition | None]], changed: ChangedKeys
) -> Snapshot:
    """Read the changed records. Jobs are read first: what they refer to was stored before or with
    them."""

    async def those(name: str, numbers: Collection[K]) -> dict[K, bytes]:
        ordered = sorted(numbers)
        pairs = zip(ordered, await fields(name, ordered) if ordered else [], strict=True)
        return {number: record for number, record in pairs if record is not None}

    jobs = await those("job", changed.jobs | changed.tasks.keys())
    job_records = {jid: records.unpack_job(record, f"job {jid}") for jid, record in jobs.items()}
    specs = await those("jobspec", changed.jobs)
    classes = await those("class", changed.classes)
    return Snapshot(
        log_id="",
        nodes=Rows([], []),
        node_specs=await those("nodespec", changed.nodes),
        queue_specs=await those("queuespec", changed.queues),
        classes={
            cid: records.unpack_class(record, f"class {cid}")[1] for cid, record in classes.items()
        },
        jobs=job_records,
        job_specs=specs,
        tasks=await _tasks(fields, changed, job_records),
        objects=await those("object", changed.objects),
        partition=await partition() if changed.partition else None,
        documents=await those("doc", changed.documents),
    )


async def _tasks(
    fields: Fields, changed: ChangedKeys, job_records: dict[int, JobRecord]
) -> dict[int, dict[int, TaskRecord]]:
    """All tasks of jobs that changed as a whole, else only the changed ones."""
    names: list[tuple[int, int]] = []
    for jid, job in job_records.items():
        tasks = range(job.top) if jid in changed.jobs else sorted(changed.tasks[jid])
        names += [(jid, tix) for tix in tasks]
    values = await fields("task", [records.task_field(*task) for task in names]) if names else []
    tasks_of: dict[int, dict[int, TaskRecord]] = {}
    for (jid, tix), record in zip(names, values, strict=True):
        if record is not None:
            tasks_of.setdefault(jid, {})[tix] = records.unpack_task(record, jid, tix)
    return tasks_of
