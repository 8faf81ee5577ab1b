"""A row for each job that the scheduler knows, in the words and counts of its object.

Each cell is computed by the function that renders the same field of the object, so that the page
and ``quadrant get`` cannot differ.
"""

from __future__ import annotations

from typing import Any

from coordinator.api.web.table import Row
from coordinator.intake.documents.kinds import BY_KIND, JOB, POD, POD_GROUPS
from coordinator.jobs.state import JobState
from coordinator.objects.context import ReadModel, phase
from coordinator.objects.gangs import job_phase, task_counts
from coordinator.objects.pods import phase_of, task_of

JOB_COLUMNS = (
    "id",
    "namespace",
    "name",
    "kind",
    "queue",
    "phase",
    "reason",
    "tasks",
    "minimum",
    "pending",
    "running",
    "terminating",
    "succeeded",
    "failed",
    "created",
)


def job_row(read_model: ReadModel, state: JobState) -> Row:
    job, why = state.job, read_model.why(state.job.jid)
    counts = task_counts(state)
    return (
        job.jid,
        job.namespace,
        job.name,
        read_model.registry.document_kind(job),
        job.queue,
        _phase(read_model, state),
        "" if why is None else why.reason.value,
        job.tasks,
        job.groups[0].minimum,
        counts["pending"],
        counts["running"],
        counts["terminating"],
        counts["succeeded"],
        counts["failed"],
        job.created,
    )


def _phase(read_model: ReadModel, state: JobState) -> str:
    job = state.job
    match job.kind:
        case "Job":
            record = read_model.record("Job", job.key)
            return phase(state) if record is None else job_phase(record.document, state)
        case "Pod":
            return phase_of(task_of(read_model, job.jid, 0))
        case _:
            return phase(state)


def job_kinds() -> dict[str, dict[str, Any]]:
    """How the kinds of jobs are written in a command and found in the API, by the word in the
    rows."""
    kinds = (JOB, POD, *POD_GROUPS)
    return {
        kind.kind: {
            "kind": BY_KIND[kind.kind].written,
            "word": kind.singular if kind in (JOB, POD) else f"{kind.singular}.{kind.group}",
            "root": kind.root,
            "plural": kind.plural,
        }
        for kind in kinds
    }
