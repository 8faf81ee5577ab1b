"""Kubernetes' own groups of which no member is placed: those of a tree that is not whole or not
valid, and those whose members differ in scheduler or priority. The sentences are those of
kube-scheduler 1.37."""

from __future__ import annotations

from shared.manifests.fields.metadata import scheduler_name
from shared.model.groups import COMPOSITE, NATIVE_KINDS
from shared.model.model import Job

DEFAULT_SCHEDULER = "default-scheduler"


JOINS_TREE = "waiting for its pods to join the tree of its composite pod groups"
"""Of a PodGroup whose tree is known by now: its job is about to end."""
WAITS = "waiting for "
"""How the sentence begins where more objects are all that is needed."""


def group_refusal(job: Job) -> str:
    """Why no member of the group may be placed; "" where all are of one scheduler and of the
    group's priority, and for all other jobs."""
    if job.kind not in NATIVE_KINDS:
        return ""
    if job.refused:
        return job.refused
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


def named_group(job: Job) -> str:
    """A group as sentences name it: kind, namespace and name."""
    return f"{'CompositePodGroup' if job.kind == COMPOSITE else 'PodGroup'} {job.key}"
