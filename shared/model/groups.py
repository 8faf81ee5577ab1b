"""Names of PodGroups of all kinds, which may be equal in one namespace."""

from __future__ import annotations

NATIVE = "NativePodGroup"
"""Kind of the jobs and documents of Kubernetes' own PodGroups."""
COMPOSITE = "CompositePodGroup"
"""Kind of Kubernetes' groups of groups. The job of the one at the top has the pods of all below."""
NATIVE_KINDS = (NATIVE, COMPOSITE)
GROUP_KINDS = ("PodGroup", *NATIVE_KINDS)
"""Kinds of jobs that are PodGroups: the first is that of the policy's dialect."""


def group_key(kind: str, path: str) -> str:
    """The key of a PodGroup, ``path``: ``namespace/name``. Those of Kubernetes' own may have the
    name of one of the policy's dialect."""
    return f"{kind}/{path}" if kind in NATIVE_KINDS else path
