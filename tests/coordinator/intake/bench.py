"""An intake whose operations are kept as a ledger would keep them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from coordinator.intake.admission.registry import Registry
from coordinator.intake.admission.result import Admission
from coordinator.intake.documents.document import encode_document
from coordinator.intake.intake import Intake
from shared.ledger.entries.intake_batch import (
    DropClass,
    DropJob,
    DropNode,
    DropQueue,
    PurgeJob,
    PutClass,
    PutJob,
    PutNode,
    PutObject,
    PutQueue,
)
from shared.ledger.entries.snapshot import Snapshot
from shared.ledger.entries.stored import JobRecord
from shared.messages.messages import Rows
from shared.model.model import Job
from shared.records.specs import decode_node
from shared.records.specs_jobs import decode_job

BEST_EFFORT: dict[str, Any] = {"containers": [{"name": "c"}]}


def kept_documents(admission: Admission) -> list[tuple[str, bytes | None]]:
    """Documents of an admission, as a store call gets them."""
    documents = {str(d.key): encode_document(d) for d in admission.documents}
    return [*documents.items(), *((str(key), None) for key in admission.documents_gone)]


class StoredSnapshot:
    """Ledger that keeps intake's operations and gives them back as a snapshot."""

    def __init__(self) -> None:
        self.snapshot = Snapshot(log_id="0", nodes=Rows([], []), node_specs={})
        self.rows: set[int] = set()

    def store(self, admission: Admission) -> None:
        stored = self.snapshot
        for name, body in kept_documents(admission):
            if body is None:
                del stored.documents[name]
            else:
                stored.documents[name] = body
        for op in admission.ops:
            match op:
                case PutClass():
                    stored.classes[op.cid] = op.spec
                case DropClass():
                    del stored.classes[op.cid]
                case PutNode():
                    stored.node_specs[op.row] = op.spec
                    self.rows.add(op.row)
                case DropNode():
                    del stored.node_specs[op.row]
                case PutQueue():
                    stored.queue_specs[op.qid] = op.spec
                case PutJob():
                    record = JobRecord(op.spec_version, op.qid, False, op.groups)
                    stored.jobs[op.jid], stored.job_specs[op.jid] = record, op.spec
                case DropQueue():
                    del stored.queue_specs[op.qid]
                case DropJob():
                    stored.jobs[op.jid] = JobRecord(0, 0, True, [])
                case PurgeJob():
                    assert stored.jobs.pop(op.jid).gone
                    del stored.job_specs[op.jid]
                case PutObject(key, None):
                    del stored.objects[key]
                case PutObject(key, bytes() as spec):
                    stored.objects[key] = spec
                case _:
                    raise AssertionError(op)
        stored.nodes.rows[:] = sorted(self.rows)


class Bench:
    """An intake whose operations are kept, and checked against what it says it changed."""

    def __init__(self, *, observe: bool = False) -> None:
        self.intake = Intake(observe=observe)
        self.kept = StoredSnapshot()

    def admit(self, *items: Any, now: float = 1.0, atomic: bool = False) -> Admission:
        return self._keep(self.intake.admit(items, now, atomic=atomic))

    def take(self, *items: Any, now: float = 1.0) -> Admission:
        admission = self.admit(*items, now=now)
        assert admission.refused == []
        return admission

    def remove(self, kind: str, name: str, namespace: str = "ns", now: float = 9.0) -> Admission:
        return self._keep(self.intake.remove(kind, namespace, name, now))

    def purge(self, *jids: int, pods: list[tuple[int, int]] | None = None) -> Admission:
        return self._keep(self.intake.purge(jids, pods or []))

    def regroup(self, *jids: int, apart: Sequence[int] = (), now: float = 3.0) -> Admission:
        return self._keep(self.intake.regroup(jids, apart, [], now))

    def _keep(self, admission: Admission) -> Admission:
        self.kept.store(admission)
        put = [op for op in admission.ops if isinstance(op, PutJob)]
        assert [decode_job(op.spec) for op in put] == admission.jobs
        nodes = [decode_node(op.spec) for op in admission.ops if isinstance(op, PutNode)]
        assert nodes == admission.nodes
        return admission

    def restored(self) -> Intake:
        again = Intake()
        again.restore(self.kept.snapshot)
        return again

    @property
    def jobs(self) -> dict[int, Job]:
        return self.intake.registry.jobs

    def job(self, name: str) -> Job:
        """The one of this name."""
        (result,) = [job for job in self.jobs.values() if job.name == name]
        return result

    def only(self, admission: Admission) -> Job:
        (result,) = admission.jobs
        return result


def put_jobs(admission: Admission) -> list[PutJob]:
    return [op for op in admission.ops if isinstance(op, PutJob)]


def state(intake: Intake) -> Registry:
    result = copy.deepcopy(intake.registry)
    result.templates.clear()  # only a shortcut to the classes
    return result


def same(a: Registry, b: Registry) -> bool:
    """All that is durable: a name that a node had once is as good as one that it has."""
    return a.slots.names == b.slots.names and all(
        getattr(a, name) == getattr(b, name)
        for name in Registry.__slots__
        if name not in ("slots", "offered", "doubtful", "_journal")
    )


def members(job: Job) -> list[str]:
    return [job.pod_name(tix) for tix in range(job.tasks)]
