"""The objects that sessions read besides nodes, queues and jobs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shared.model.devices import (
        DeviceClass,
        ResourceClaim,
        ResourceClaimTemplate,
        ResourceSlice,
    )
    from shared.model.kai import KaiPodGroup, KaiQueue, KaiTopology
    from shared.model.storage import (
        Budget,
        CSINode,
        Numatopology,
        ResourceQuota,
        StorageClass,
        Volume,
        VolumeClaim,
    )


@dataclass(slots=True)
class ClusterObjects:
    """Objects by key: ``namespace/name``, or the name for kinds without a namespace."""

    budgets: dict[str, Budget] = field(default_factory=dict)
    volumes: dict[str, Volume] = field(default_factory=dict)
    volume_claims: dict[str, VolumeClaim] = field(default_factory=dict)
    storage_classes: dict[str, StorageClass] = field(default_factory=dict)
    csi_nodes: dict[str, CSINode] = field(default_factory=dict)
    quotas: dict[str, ResourceQuota] = field(default_factory=dict)
    claims: dict[str, ResourceClaim] = field(default_factory=dict)
    claim_templates: dict[str, ResourceClaimTemplate] = field(default_factory=dict)
    slices: dict[str, ResourceSlice] = field(default_factory=dict)
    device_classes: dict[str, DeviceClass] = field(default_factory=dict)
    devices: int = 0
    """Version: changes whenever ``slices`` or ``device_classes`` change."""
    numa: dict[str, Numatopology] = field(default_factory=dict)
    kai_queues: dict[str, KaiQueue] = field(default_factory=dict)
    kai_parents: Counter[str] = field(default_factory=Counter)
    """Name -> number of KAI queues directly below that one; in the coordinator only."""
    kai_groups: dict[str, KaiPodGroup] = field(default_factory=dict)
    kai_topologies: dict[str, KaiTopology] = field(default_factory=dict)
    queue_usage: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """KAI queue -> its use over time of cpu, memory and GPUs, in billionths of what there was."""
    usage: dict[str, dict[str, float]] = field(default_factory=dict)
    """Node name -> its usage as reported by a metrics source: ``cpu`` and ``memory`` in percent."""
    extender: dict[str, object] = field(default_factory=dict)
    """Question -> answer of an HTTP extender, fetched before the session."""
