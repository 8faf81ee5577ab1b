"""The parser of submitted objects: each becomes a checked, frozen value or is refused.

``parse`` is a pure function; the service's API and ``replay`` both use it.
"""

from __future__ import annotations

from collections.abc import Callable

from shared.errors import InvalidInput, Refusal, shown
from shared.manifests.fields.reader import Fields
from shared.manifests.fields.shapes import ACCEPTED
from shared.manifests.foreign import OTHER_FORM, unknown_kind
from shared.manifests.kai.groups import read_kai_pod_group
from shared.manifests.kai.queues import read_kai_queue, read_kai_topology
from shared.manifests.kubernetes.budgets import read_budget, read_quota
from shared.manifests.kubernetes.devices import (
    read_claim,
    read_claim_template,
    read_device_class,
    read_slice,
)
from shared.manifests.kubernetes.groups import (
    CompositePodGroupManifest,
    NativePodGroupManifest,
    read_composite_pod_group,
    read_native_pod_group,
    read_workload,
)
from shared.manifests.kubernetes.inert import INERT, InertObject, reader_of
from shared.manifests.kubernetes.nodes import read_node
from shared.manifests.kubernetes.objects import NodeManifest, PodManifest
from shared.manifests.kubernetes.pods import read_pod
from shared.manifests.kubernetes.storage import (
    read_csi_node,
    read_storage_class,
    read_volume,
    read_volume_claim,
)
from shared.manifests.mistakes import further_mistakes
from shared.manifests.volcano.gangs import read_job, read_pod_group
from shared.manifests.volcano.numa import read_numatopology
from shared.manifests.volcano.objects import JobManifest, PodGroupManifest, QueueManifest
from shared.manifests.volcano.queues import read_priority_class, read_queue
from shared.manifests.volcano.topology import read_hyper_node
from shared.model.model import PriorityClass, WorldObject
from shared.model.topology import HyperNode

Manifest = (
    NodeManifest
    | QueueManifest
    | PodManifest
    | PodGroupManifest
    | NativePodGroupManifest
    | CompositePodGroupManifest
    | JobManifest
    | HyperNode
    | PriorityClass
    | WorldObject
    | InertObject
)

_INERT = {kind: reader_of(kind) for kind in INERT}
KINDS: dict[tuple[str, str], Callable[[dict[str, object]], Manifest]] = {
    ("v1", "Pod"): read_pod,
    ("v1", "Node"): read_node,
    ("scheduling.volcano.sh/v1beta1", "PodGroup"): read_pod_group,
    ("scheduling.volcano.sh/v1beta1", "Queue"): read_queue,
    ("batch.volcano.sh/v1alpha1", "Job"): read_job,
    ("scheduling.k8s.io/v1", "PriorityClass"): read_priority_class,
    ("topology.volcano.sh/v1alpha1", "HyperNode"): read_hyper_node,
    ("policy/v1", "PodDisruptionBudget"): read_budget,
    ("v1", "ResourceQuota"): read_quota,
    ("v1", "PersistentVolume"): read_volume,
    ("v1", "PersistentVolumeClaim"): read_volume_claim,
    ("storage.k8s.io/v1", "StorageClass"): read_storage_class,
    ("storage.k8s.io/v1", "CSINode"): read_csi_node,
    ("resource.k8s.io/v1", "ResourceClaim"): read_claim,
    ("resource.k8s.io/v1", "ResourceClaimTemplate"): read_claim_template,
    ("resource.k8s.io/v1", "ResourceSlice"): read_slice,
    ("resource.k8s.io/v1", "DeviceClass"): read_device_class,
    ("nodeinfo.volcano.sh/v1alpha1", "Numatopology"): read_numatopology,
    ("scheduling.run.ai/v2", "Queue"): read_kai_queue,
    ("scheduling.run.ai/v2alpha2", "PodGroup"): read_kai_pod_group,
    ("kai.scheduler/v1alpha1", "Topology"): read_kai_topology,
    ("scheduling.k8s.io/v1beta1", "PodGroup"): read_native_pod_group,
    ("scheduling.k8s.io/v1alpha3", "CompositePodGroup"): read_composite_pod_group,
    ("scheduling.k8s.io/v1beta1", "CompositePodGroup"): read_composite_pod_group,
    ("scheduling.k8s.io/v1beta1", "Workload"): read_workload,
    **{("v1", kind): read for kind, read in _INERT.items()},
}
"""(apiVersion, kind) -> parser, for every kind that this version accepts."""
_FLAT = frozenset((read_priority_class, read_storage_class, *_INERT.values()))
"""Parsers of kinds whose fields are at the top level, not below ``spec``."""
_TOP = frozenset(("apiVersion", "kind", "metadata", "spec", "status"))


def parse(item: object) -> Manifest | Refusal:
    """Parse one object. A refusal names every wrong field with its remedy."""
    if type(item) is not dict:
        return Refusal("object", "", "", shown(item), "not an object; write it between { and }")
    try:
        return _read(item)
    except InvalidInput as error:
        more = further_mistakes(item, _read_as_meant, error)
        return error.refusal(_kind(item), _name(item), tuple(more))


def parse_stored(item: object) -> Manifest | Refusal:
    """Parse an object that was accepted before, by this version or an earlier one."""
    token = ACCEPTED.set(True)
    try:
        return parse(item)
    finally:
        ACCEPTED.reset(token)


def _read(item: dict[str, object]) -> Manifest:
    return _read_by(_reader(item), item)


def _read_by(read: Callable[[dict[str, object]], Manifest], item: dict[str, object]) -> Manifest:
    if not item.keys() <= _TOP and read not in _FLAT:
        Fields(item, "").only(_TOP)
    return read(item)


def _read_as_meant(item: dict[str, object]) -> object:
    """Read an object whose apiVersion may be missing or that of another API: by its kind, and by
    its group where two have one of that name."""
    versions = _versions(item)
    return _read_by(KINDS[versions[0], str(item.get("kind"))], item) if versions else None


def _versions(item: dict[str, object]) -> list[str]:
    """The versions that have its kind; of several groups only its own, if it is one of them."""
    version, kind = str(item.get("apiVersion")), item.get("kind")
    supported = [known_version for known_version, known_kind in KINDS if known_kind == kind]
    group = version.partition("/")[0] + "/"
    return [v for v in supported if v.startswith(group)] or supported


def _reader(item: dict[str, object]) -> Callable[[dict[str, object]], Manifest]:
    version, kind = item.get("apiVersion"), item.get("kind")
    if type(version) is str and type(kind) is str:
        read = KINDS.get((version, kind))
        if read is not None:
            return read
    if versions := _versions(item):
        remedy = OTHER_FORM.get((str(version), str(kind)), f"write {' or '.join(versions)}")
        raise InvalidInput("apiVersion", version, f"unknown; {remedy}")
    message = f"unknown, or not in this version; {unknown_kind(version, kind, KINDS)}"
    raise InvalidInput("kind", kind, message)


def _kind(item: dict[str, object]) -> str:
    kind = item.get("kind")
    return kind if type(kind) is str and len(kind) <= 63 else "object"


def _name(item: dict[str, object]) -> str:
    """The object's name for an error message, as far as it can be read: ``namespace/name`` or
    ``name``."""
    meta = item.get("metadata")
    if type(meta) is not dict:
        return ""
    name, namespace = meta.get("name"), meta.get("namespace")
    if type(name) is not str:
        return ""
    return f"{namespace}/{name}"[:317] if type(namespace) is str else name[:253]
