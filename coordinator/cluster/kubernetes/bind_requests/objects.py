"""BindRequests of KAI's: what one says, and what it means for its pod. No I/O.

As KAI's scheduler writes them and its binder reads them: the name is the pod's, the owner the pod,
so that it goes with the pod. The binder makes reservations and volumes, binds, and tells in the
status what came of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, NamedTuple

import msgspec

from coordinator.cluster.kubernetes.api.reflector import WatchedKind
from coordinator.cluster.kubernetes.state.pods import STATEMENT, PodKey, PodRow
from shared.model.gpu_request import WHOLE
from shared.model.kai_devices import PREFIX, shared_groups
from shared.units.bounded_numbers import whole_number
from shared.units.things import Things

API_VERSION = "scheduling.run.ai/v1alpha2"
PLURAL = "bindrequests"
KIND = WatchedKind("BindRequest", f"/apis/{API_VERSION}/{PLURAL}", API_VERSION, "BindRequest")

ATTEMPTS = 1
"""``backoffLimit``: one attempt, then the task is placed anew, as where KAI's scheduler asks, which
sets no limit. Of a limit above 1 KAI's binder reports the first failure alone, and tries for ever.
"""
SELECTED_NODE = "selected-node"
_LONGEST_LABEL = 63
_ENTRY_PARTS = 2


class BindOrigin(NamedTuple):
    """The author of a bind, and its position in the bind stream."""

    ledger: str
    """"" where that was not Quadrant."""
    leader: str
    """Its epoch as written: a number that grows, and a drawn part."""
    epoch: int
    entry: tuple[int, ...]
    """Position in the bind stream."""

    def is_of_the_leader_of(self, other: BindOrigin) -> bool:
        return (self.ledger, self.leader) == (other.ledger, other.leader)

    def is_after(self, other: BindOrigin) -> bool:
        """Whether the same ledger decided it later."""
        when = self.epoch, self.entry
        return self.ledger == other.ledger and when > (other.epoch, other.entry)


class BindPhase(Enum):
    """State of a BindRequest, as far as it matters for its pod."""

    WAITING = auto()
    """The binder has it to do, or tries again."""
    FAILED = auto()
    """It will not be tried again."""
    SUCCEEDED = auto()


class OwnerReference(msgspec.Struct):
    kind: str = ""
    uid: str = ""


class RequestMetadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class RequestSpec(msgspec.Struct, rename="camel"):
    pod_name: str = ""
    selected_node: str = ""
    received_resource_type: str = ""
    selected_gpu_groups: list[str] | None = msgspec.field(default=None, name="selectedGPUGroups")
    backoff_limit: int | None = None


class RequestStatus(msgspec.Struct, rename="camel"):
    phase: str = ""
    failed_attempts: int = 0
    reason: str = ""


class BindRequest(msgspec.Struct):
    """The part of a BindRequest that is read; the rest is skipped."""

    metadata: RequestMetadata
    spec: RequestSpec = msgspec.field(default_factory=RequestSpec)
    status: RequestStatus = msgspec.field(default_factory=RequestStatus)

    @property
    def key(self) -> PodKey:
        """Key of its pod."""
        return self.metadata.namespace, self.metadata.name

    @property
    def path(self) -> str:
        return path_of(self.key)

    @property
    def pod_uid(self) -> str:
        owners = self.metadata.owner_references or []
        return next((owner.uid for owner in owners if owner.kind == "Pod"), "")

    @property
    def statement(self) -> BindOrigin:
        return read_statement((self.metadata.annotations or {}).get(STATEMENT, ""))

    @property
    def phase(self) -> BindPhase:
        match self.status.phase:
            case "Succeeded":
                return BindPhase.SUCCEEDED
            case "Failed" if self.status.failed_attempts >= (self.spec.backoff_limit or 0):
                return BindPhase.FAILED
            case _:
                return BindPhase.WAITING

    def is_of(self, row: PodRow | None) -> bool:
        """Whether it is of this pod, and not of an earlier one of its name."""
        return row is not None and self.pod_uid in ("", row.uid)

    def asks(self, node: str, devices: Things) -> bool:
        """Whether it has the pod bound to this node with these devices."""
        groups = sorted(self.spec.selected_gpu_groups or [])
        return self.spec.selected_node == node and groups == sorted(shared_groups(devices, node))


request_of = msgspec.json.Decoder(BindRequest).decode


def read_statement(text: str) -> BindOrigin:
    """Parse the annotation ``LEDGER/NUMBER:DRAWN/ENTRY``."""
    ledger, _, rest = text.partition("/")
    leader, _, entry = rest.partition("/")
    number = leader.partition(":")[0]
    epoch = whole_number(number) or 0
    numbers = map(whole_number, entry.split("-", _ENTRY_PARTS)[:_ENTRY_PARTS])
    parts = tuple(number for number in numbers if number is not None)
    return BindOrigin(ledger, leader, epoch, parts)


def path_of(key: PodKey) -> str:
    return f"{collection_of(key[0])}/{key[1]}"


def collection_of(namespace: str) -> str:
    return f"/apis/{API_VERSION}/namespaces/{namespace}/{PLURAL}"


def written_request(
    row: PodRow, node: str, devices: Things, *, statement: str, pool: Mapping[str, str]
) -> dict[str, Any]:
    """The request to have a pod bound. ``pool``: the label of the service's node pool, by which
    KAI tells whose request it is; the default pool has none."""
    own = [parts[0] for name, parts in devices if name.startswith(PREFIX)]
    groups = shared_groups(devices, node)
    portion = min(own, default=0)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": row.name, "uid": row.uid}
    spec: dict[str, Any] = {
        "podName": row.name,
        "selectedNode": node,
        "receivedResourceType": "Fraction" if groups else "Regular",
        "receivedGPU": {"count": len(own), "portion": f"{portion / WHOLE:.2f}"},
        "backoffLimit": ATTEMPTS,
    }
    if groups:
        spec["selectedGPUGroups"] = groups
    return {
        "apiVersion": API_VERSION,
        "kind": "BindRequest",
        "metadata": {
            "name": row.name,
            "namespace": row.namespace,
            "labels": {**pool, **({SELECTED_NODE: node} if len(node) <= _LONGEST_LABEL else {})},
            "annotations": {STATEMENT: statement},
            "ownerReferences": [owner],
        },
        "spec": spec,
    }
