"""Pods whose ``schedulerName`` names another scheduler: theirs, not ours.

They are kept and shown. They use their nodes, and are never bound or evicted by us
(docs/decisions/0052).
"""

from __future__ import annotations

from collections.abc import Collection

from shared.manifests.fields.metadata import scheduler_name
from shared.model.model import Job


def other_scheduler(job: Job, ours: Collection[str]) -> str:
    """The scheduler, not one of ours, that the job or one of its roles names; "" for none. A pod
    template's own name goes before its Job's."""
    of_job = scheduler_name(job.annotations)
    for role in job.roles:
        name = scheduler_name(role.annotations) or of_job
        if name and name not in ours:
            return name
    return ""
