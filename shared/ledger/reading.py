"""Reading many records of the ledger at once: what moved, for who follows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

from shared.ledger import records
from shared.ledger.moved import Moved
from shared.ledger.protocol import JobRecord, PutPartition, Snapshot, TaskRecord
from shared.messages import Rows

K = TypeVar("K", int, str)

Fields = Callable[[str, list[int] | list[bytes] | list[str]], Awaitable[list[bytes | None]]]
"""The values of some fields of one of the ledger's hashes, None where a field is not there."""


async def read_moved(
    fields: Fields, partition: Callable[[], Awaitable[PutPartition | None]], moved: Moved
) -> Snapshot:
    """Jobs come first: what they refer to was stored before them or with them."""

    async def those(name: str, wanted: Collection[K]) -> dict[K, bytes]:
        asked = sorted(wanted)
        found = zip(asked, await fields(name, asked) if asked else [], strict=True)
        return {number: record for number, record in found if record is not None}

    jobs = await those("job", moved.jobs | moved.tasks.keys())
    known = {jid: records.unpack_job(record, f"job {jid}") for jid, record in jobs.items()}
    specs = await those("jobspec", moved.jobs)
    classes = await those("class", moved.classes)
    return Snapshot(
        log_id="",
        nodes=Rows([], []),
        node_specs=await those("nodespec", moved.nodes),
        queue_specs=await those("queuespec", moved.queues),
        classes={
            cid: records.unpack_class(record, f"class {cid}")[1] for cid, record in classes.items()
        },
        jobs=known,
        job_specs=specs,
        tasks=await _tasks(fields, moved, known),
        objects=await those("object", moved.objects),
        partition=await partition() if moved.partition else None,
        documents=await those("doc", moved.documents),
    )


async def _tasks(
    fields: Fields, moved: Moved, known: dict[int, JobRecord]
) -> dict[int, dict[int, TaskRecord]]:
    """All tasks of jobs that moved as a whole, else those that moved."""
    wanted: list[tuple[int, int]] = []
    for jid, job in known.items():
        tasks = range(job.top) if jid in moved.jobs else sorted(moved.tasks[jid])
        wanted += [(jid, tix) for tix in tasks]
    found = await fields("task", [records.task_field(*task) for task in wanted]) if wanted else []
    tasks_of: dict[int, dict[int, TaskRecord]] = {}
    for (jid, tix), record in zip(wanted, found, strict=True):
        if record is not None:
            tasks_of.setdefault(jid, {})[tix] = records.unpack_task(record, jid, tix)
    return tasks_of
