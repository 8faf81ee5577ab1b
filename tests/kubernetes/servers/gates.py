"""Feature gates of Kubernetes' own PodGroups, which 1.37 has and does not turn on by itself.

Without WorkloadWithJob: with it the Job controller makes a PodGroup for each Job, and the walks
with Jobs are those of clusters of today.
"""

from __future__ import annotations

_GATES = (
    "GenericWorkload",
    "TopologyAwareWorkloadScheduling",
    "CompositePodGroup",
    "DRAWorkloadResourceClaims",
    "PodGroupPreemptionPolicy",
)
GROUP_GATES = f"--feature-gates={','.join(f'{gate}=true' for gate in _GATES)}"
"""Option of each of Kubernetes' programs: an object's fields are dropped by one without it."""
GROUP_VERSIONS = "--runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true"
"""Option of the API server: versions that it serves beside its usual ones."""
