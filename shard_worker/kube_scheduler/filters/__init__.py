"""kube-scheduler's filters: node checks, pod affinity, topology spread, volumes."""
