"""Whether the queue of one of Kubernetes' own PodGroups is settled: its API has none."""

from __future__ import annotations

from shared.manifests.fields.metadata import QUEUE_NAME
from shared.model.model import Job


def names_queue(job: Job) -> bool:
    """Whether the queue of a native group is settled: it names one, or it has had pods."""
    return bool(job.tasks) or any(name == QUEUE_NAME for name, _ in job.annotations)
