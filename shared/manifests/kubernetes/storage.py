"""PersistentVolumes, their claims, storage classes, and volume limits of nodes."""

from __future__ import annotations

from shared.errors import InvalidInput
from shared.manifests.fields.metadata import Metadata, labels_of, read_metadata
from shared.manifests.fields.reader import Fields, part_of, subdomain
from shared.manifests.fields.selectors import read_selector
from shared.manifests.kubernetes.constraints import read_node_selector
from shared.model.constraints import Requirement, Terms
from shared.model.storage import CSINode, StorageClass, Volume, VolumeClaim
from shared.units.quantity import amount

_BOUND = "pv.kubernetes.io/bind-completed"
_NODE = "volume.kubernetes.io/selected-node"
_DEFAULT = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
_KINDS = ("Filesystem", "Block")
_VOLUME_PHASES = ("", "Pending", "Available", "Bound", "Released", "Failed")
_CLAIM_PHASES = ("", "Pending", "Bound", "Lost")


def read_volume(obj: dict[str, object]) -> Volume:
    """Read a PersistentVolume. Of its source (nfs, csi and the like) only the CSI driver
    and handle are used."""
    meta = read_metadata(obj, namespaced=False)
    spec = part_of(obj, "spec")
    csi, affinity = spec.child("csi"), spec.child("nodeAffinity")
    claim, uid = _claim_ref(spec.child("claimRef"))
    return Volume(
        name=meta.name,
        capacity=_bytes(spec.child("capacity")),
        storage_class=spec.text("storageClassName"),
        access_modes=_access_modes(spec),
        mode=spec.choice("volumeMode", _KINDS, "Filesystem"),
        claim=claim,
        claim_uid=uid,
        affinity=None if affinity is None else _required(affinity),
        labels=labels_of(meta),
        phase=_phase(obj, _VOLUME_PHASES),
        driver="" if csi is None else csi.text("driver"),
        handle="" if csi is None else csi.text("volumeHandle", longest=1024),
    )


def _claim_ref(fields: Fields | None) -> tuple[str, str]:
    """(namespace/name, uid) of the claim that a volume is reserved for."""
    if fields is None:
        return "", ""
    name = subdomain(fields.data.get("name"), fields.path("name"))
    return f"{fields.text('namespace') or 'default'}/{name}", fields.text("uid")


def _required(affinity: Fields) -> Terms | None:
    affinity.check("VolumeNodeAffinity")
    required = affinity.child("required")
    return None if required is None else read_node_selector(required)


def read_volume_claim(obj: dict[str, object]) -> VolumeClaim:
    meta = read_metadata(obj, namespaced=True)
    spec = part_of(obj, "spec", "PersistentVolumeClaimSpec")
    resources = spec.child("resources")
    named = spec.data.get("storageClassName") is not None
    return VolumeClaim(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        request=0 if resources is None else _bytes(resources.child("requests")),
        storage_class=spec.text("storageClassName") if named else None,
        access_modes=_access_modes(spec),
        mode=spec.choice("volumeMode", _KINDS, "Filesystem"),
        volume=spec.text("volumeName"),
        selector=read_selector(spec.child("selector")),
        phase=_phase(obj, _CLAIM_PHASES),
        bound=bool(_annotation(meta, _BOUND)),
        node=_annotation(meta, _NODE),
    )


def read_storage_class(obj: dict[str, object]) -> StorageClass:
    meta = read_metadata(obj, namespaced=False)
    fields = Fields(obj, "")
    fields.check("StorageClass")
    if not fields.data.get("provisioner"):
        raise InvalidInput("provisioner", None, "missing; write who makes the volumes")
    modes = ("Immediate", "WaitForFirstConsumer")
    terms = [_topology(t) for t in fields.children("allowedTopologies", longest=100)]
    return StorageClass(
        name=meta.name,
        provisioner=fields.text("provisioner"),
        waits=fields.choice("volumeBindingMode", modes, "Immediate") == "WaitForFirstConsumer",
        topologies=tuple(terms) if terms else None,
        default=any(_annotation(meta, key) == "true" for key in _DEFAULT),
    )


def _topology(term: Fields) -> tuple[Requirement, ...]:
    term.check("TopologySelectorTerm")
    requirements = []
    for expression in term.children("matchLabelExpressions", longest=100):
        expression.check("TopologySelectorRequirement")
        values = expression.texts("values")
        if not values:
            raise expression.wrong("values", "missing; write at least one value")
        requirements.append(Requirement(expression.label_key("key"), "In", values))
    return tuple(requirements)


def read_csi_node(obj: dict[str, object]) -> CSINode:
    """Read a CSINode. Drivers without a count have no limit."""
    meta = read_metadata(obj, namespaced=False)
    spec = part_of(obj, "spec", "CSINodeSpec")
    limits = {}
    for driver in spec.children("drivers"):
        driver.check("CSIDriver")
        allocatable = driver.child("allocatable")
        if allocatable is not None and allocatable.data.get("count") is not None:
            limits[driver.text("name")] = allocatable.integer("count", 0)
    return CSINode(meta.name, tuple(sorted(limits.items())))


# --- pieces -----------------------------------------------------------------------------------


def _bytes(fields: Fields | None) -> int:
    """The amount of ``storage`` in a resource list, in bytes."""
    value = None if fields is None else fields.data.get("storage")
    return (
        0 if fields is None or value is None else amount("storage", value, fields.path("storage"))
    )


def _access_modes(spec: Fields) -> tuple[str, ...]:
    modes = spec.texts("accessModes", longest=len(_MODES))
    if not set(modes) <= set(_MODES):
        raise spec.wrong("accessModes", f"unknown; write some of {', '.join(_MODES)}")
    return tuple(sorted(set(modes)))


def _phase(obj: dict[str, object], phases: tuple[str, ...]) -> str:
    status = obj.get("status")
    return "" if status is None else Fields(status, "status").choice("phase", phases, "")


def _annotation(meta: Metadata, key: str) -> str:
    value = meta.annotations.get(key)
    return value if type(value) is str else ""
