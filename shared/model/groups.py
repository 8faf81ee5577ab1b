"""Names of PodGroups of all kinds, which may be equal in one namespace."""

from __future__ import annotations

NATIVE = "NativePodGroup"
"""Kind of the jobs and documents of Kubernetes' own PodGroups."""
GROUP_KINDS = ("PodGroup", NATIVE)
"""Kinds of jobs that are PodGroups: the first is that of the policy's dialect."""


def group_key(kind: str, path: str) -> str:
    """The key of a PodGroup, ``path``: ``namespace/name``. One of Kubernetes' own may have the name
    of one of the policy's dialect."""
    return f"{kind}/{path}" if kind == NATIVE else path
