"""Uniformity of Kubernetes' own PodGroups: kube-scheduler 1.37 places no member of a group whose
members differ in scheduler or priority. The sentences are its own."""

from __future__ import annotations

from shared.manifests.fields.metadata import scheduler_name
from shared.model.groups import NATIVE
from shared.model.model import Job

DEFAULT_SCHEDULER = "default-scheduler"


def mixed_members(job: Job) -> str:
    """Why no member of the group may be placed; "" where all are of one scheduler and of the
    group's priority, and for all other jobs."""
    if job.kind != NATIVE:
        return ""
    first = ""
    for role in job.roles:
        if not any(role.names):
            continue  # its pods are gone
        name = scheduler_name(role.annotations) or DEFAULT_SCHEDULER
        first = first or name
        if name != first:
            return (
                "all pods in a single pod group should have the same .spec.schedulerName set, "
                f'got: "{name}" and "{first}"'
            )
        if role.priority != job.priority:
            return (
                "all pods in a single pod group should have the same priority as the pod group's "
                f"priority, got {role.priority} and {job.priority}"
            )
    return ""
