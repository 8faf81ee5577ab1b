"""Node pools: the nodes, queues and groups that exist for one of several schedulers of a cluster.

As KAI divides them (its options ``nodepool-label-key`` and ``partition-label-value``): an object is
in a pool by the value of a label, and in the default pool where it has no such label. Pods are in
the pool of their PodGroup, whatever node they run on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shared.model.kai import DEFAULT_POOL
from shared.model.model import Job
from shared.policy.model import Policy


@dataclass(frozen=True, slots=True)
class NodePool:
    label: str
    value: str
    """Value of the label; "": the pool of objects without the label."""

    @property
    def name(self) -> str:
        return self.value or DEFAULT_POOL

    def has(self, labels: Mapping[str, str]) -> bool:
        """Whether a node, queue or group with these labels exists for the scheduler."""
        return labels.get(self.label) == self.value if self.value else self.label not in labels

    def has_job(self, job: Job) -> bool:
        """Whether a job exists for the scheduler. Pods whose PodGroup is not there yet do: nobody
        knows of another pool for them, and they wait for it anyhow."""
        return job.dangling or self.has(labels_of_job(job))

    def why_not(self, labels: Mapping[str, str]) -> str:
        """Where an object is that the pool does not have, as the end of a sentence."""
        other = labels.get(self.label)
        where = f"in node pool {DEFAULT_POOL if other is None else other or repr(other)}"
        own = f"has the label {self.label}: {self.value}"
        if not self.value:
            own = f"has no label {self.label}"
        return f"{where}, and this scheduler has node pool {self.name}: what {own}"


def labels_of_job(job: Job) -> dict[str, str]:
    """Labels that decide the job's node pool: its own, or those of the pod where the job is a
    single pod."""
    if job.kind == "Pod" and job.roles:
        return dict(job.roles[0].labels)
    return dict(job.labels)


def node_pool_of(policy: Policy) -> NodePool | None:
    """The pool that a policy is for; None: that of all objects."""
    if policy.kai is None:
        return None
    options = policy.kai.options
    return NodePool(options.nodepool_label_key, options.partition_label_value)
