"""Binding of claims to volumes after a placement, as Kubernetes' volume controllers do it.

The claim's volume is chosen (the smallest free one that fits and that the node reaches, as in the
task's session) or created, where the claim's class has a provisioner; then volume and claim name
each other. Both are changed in one step of the single writer of objects, so that no volume ever
gets two claims, whatever several workers chose at the same time. No I/O and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator.bind.binder import BindPlan, part_of
from coordinator.bind.volume_gate import VOLUME_SECONDS, VolumeGate
from coordinator.core.coordinator import Coordinator
from coordinator.intake.admission.result import Admission
from coordinator.intake.documents.document import Document, Key
from coordinator.intake.intake import Intake
from shard_worker.kube_scheduler.filters.node_checks import matcher
from shard_worker.kube_scheduler.filters.volumes import (
    AFFINITY,
    NOT_MADE,
    NOTHING_FREE,
    bound,
    class_name,
    class_of,
    fits,
    waits,
)
from shared.messages.messages import StatusItem
from shared.model.constraints import Requirement, Terms
from shared.model.model import Node
from shared.model.objects import ClusterObjects
from shared.model.storage import StorageClass, Volume, VolumeClaim

BOUND = "pv.kubernetes.io/bind-completed"
AT_ONCE = 32
"""Claims whose volumes are chosen in one look: each looks at every volume."""
WITHDRAWN = "evicted while it waited for its volume"
NODE_GONE = "it went away before there was a volume"
NOTHING_REFUSED: Mapping[str, str] = {}
_VOLUME, _CLAIM = "PersistentVolume", "PersistentVolumeClaim"


@dataclass(frozen=True, slots=True)
class ClaimBinding:
    """The volume that a claim gets."""

    claim: str
    """``namespace/name``"""
    volume: str
    """"" for one that is created for the node."""
    node: Node


@dataclass(slots=True)
class VolumeLook:
    """Next steps of binds that wait for volumes."""

    ready: BindPlan
    """Their volumes are bound: they go out."""
    waiting: BindPlan
    items: list[StatusItem]
    """The places that are given up."""
    bindings: list[ClaimBinding]
    """Bindings to write; one task's claims follow each other."""


class VolumeController:
    def __init__(self, core: Coordinator) -> None:
        self._core = core
        self.gate = VolumeGate(core.order)
        self._withdrawn: set[tuple[int, int]] = set()

    def withdraw(self, tasks: Iterable[tuple[int, int]]) -> None:
        """Have these tasks (jid, tix), which wait for volumes, give their places back."""
        self._withdrawn.update(tasks)

    def look(
        self,
        plan: BindPlan,
        *,
        expired: bool = False,
        asked: Callable[[str], bool] = lambda claim: False,
        refused: Mapping[str, str] = NOTHING_REFUSED,
    ) -> VolumeLook:
        """Sort the binds. ``expired``: they have waited for too long, and their places are given
        up. ``asked``: whether a claim's volume is being bound already, so that none is chosen.
        ``refused``: claim -> why it can have no volume."""
        plan = self.gate.wanted(plan)
        objects = self.gate.objects.objects
        ready: list[int] = []
        failures: dict[int, str] = {}
        bindings: list[ClaimBinding] = []
        for i in range(len(plan.jids)):
            task = (plan.jids[i], plan.tasks[i])
            if task in self._withdrawn:
                self._withdrawn.discard(task)
                failures[i] = WITHDRAWN
                continue
            job, node = self._core.order.jobs[plan.jids[i]].job, self._core.nodes.get(plan.rows[i])
            claims = self.gate.claims(job, plan.tasks[i])
            unbound = [key for key in claims if self.gate.objects.unbound(key)]
            if node is None and not unbound:
                ready.append(i)  # the node is gone: the cluster refuses the bind, and says so
            elif node is None:
                # It may be back there already, and only not be known here yet: then the cluster
                # would take the bind.
                failures[i] = NODE_GONE
            elif why := _out_of_reach(objects, claims, node):
                failures[i] = why
            elif not unbound:
                ready.append(i)
            elif expired:
                failures[i] = f"{', '.join(unbound)}: not bound within {VOLUME_SECONDS:g} s"
            elif why := next((refused[key] for key in unbound if key in refused), ""):
                failures[i] = why
            elif len(bindings) < AT_ONCE:
                left = [key for key in unbound if not asked(key)]
                chosen, why = choose(objects, left, node, others=bindings)
                bindings += chosen
                if why:
                    failures[i] = why
        items = self.gate.release(plan, failures, name_of=self._core.names.get)
        settled = {*ready, *failures}
        rest = [i for i in range(len(plan.jids)) if i not in settled]
        return VolumeLook(part_of(plan, ready), part_of(plan, rest), items, bindings)


def choose(
    objects: ClusterObjects,
    claims: Sequence[str],
    node: Node,
    *,
    others: Sequence[ClaimBinding] = (),
) -> tuple[list[ClaimBinding], str]:
    """A volume for each claim, the smallest request first; or ([], why there is none). ``others``:
    the choices for other tasks; a claim among them is left to its first task."""
    unbound: list[VolumeClaim] = []
    decided = {binding.claim for binding in others}
    for key in (key for key in claims if key not in decided):
        claim, name = objects.volume_claims.get(key), key.partition("/")[2]
        if claim is None:
            return [], f'persistentvolumeclaim "{name}" not found'
        if not waits(claim, objects):
            return [], f'persistentvolumeclaim "{name}" is bound by nobody here'
        unbound.append(claim)
    chosen: list[ClaimBinding] = []
    for claim in sorted(unbound, key=lambda claim: claim.request):
        taken_names = {binding.volume for binding in (*others, *chosen)}
        if claim.node not in ("", node.name):
            return [], f'persistentvolumeclaim "{claim.name}" gets its volume on node {claim.node}'
        volume = None if claim.node else _free(objects, claim, node, taken_names)
        if volume is None and not _creates(class_of(claim, objects), node):
            return [], NOTHING_FREE
        key = f"{claim.namespace}/{claim.name}"
        chosen.append(ClaimBinding(key, "" if volume is None else volume.name, node))
    return chosen, ""


def _free(
    objects: ClusterObjects, claim: VolumeClaim, node: Node, taken: set[str]
) -> Volume | None:
    """The volume reserved for the claim, else the smallest free one that the node reaches."""
    candidates = [
        volume
        for volume in objects.volumes.values()
        if volume.name not in taken
        and fits(volume, claim, objects)
        and reaches(volume.affinity, node)
    ]
    return min(candidates, key=lambda v: (v.claim == "", v.capacity, v.name), default=None)


def _creates(cls: StorageClass | None, node: Node) -> bool:
    return cls is not None and cls.provisioner not in NOT_MADE and reaches(cls.topologies, node)


def reaches(terms: Terms | None, node: Node) -> bool:
    """Whether node selector terms select the node; None selects every node."""
    if terms is None:
        return True
    return any(term and all(_meets(each, node) for each in term) for term in terms)


def _meets(requirement: Requirement, node: Node) -> bool:
    if requirement.field:
        return (node.name in requirement.values) is (requirement.operator == "In")
    return matcher(requirement)(node.labels.get(requirement.key))


def _out_of_reach(objects: ClusterObjects, claims: Sequence[str], node: Node) -> str:
    """Why a task on the node cannot use the volumes that its claims have; "" if it can. Another
    task with the same claim may have got it a volume that is local to its own node."""
    for key in claims:
        claim = objects.volume_claims.get(key)
        volume = None if claim is None or not bound(claim) else objects.volumes.get(claim.volume)
        if volume is not None and not reaches(volume.affinity, node):
            return AFFINITY
    return ""


# --- what is written ----------------------------------------------------------------------------


def bind_claims(intake: Intake, bindings: Sequence[ClaimBinding], now: float) -> Admission:
    """Write volumes and claims. A pair of which one has changed since the choice is left out: the
    next look chooses anew, from what was published meanwhile."""
    items: list[dict[str, Any]] = []
    for binding in bindings:
        items += _pair(intake, binding) or []
    return intake.admit(items, now) if items else Admission()


def _pair(intake: Intake, binding: ClaimBinding) -> list[dict[str, Any]] | None:
    """Volume and claim as they will be; None where the claim is bound or gone, or the volume is
    another claim's."""
    namespace, _, name = binding.claim.partition("/")
    document = intake.documents.get(Key(_CLAIM, namespace, name))
    claim = intake.registry.objects.get(f"volumeclaim/{binding.claim}")
    if document is None or not isinstance(claim, VolumeClaim) or bound(claim) or claim.volume:
        return None
    if binding.volume:
        volume = _claimed(intake, binding)
    else:
        volume = _created(intake, claim, document, binding.node)
    if volume is None:
        return None
    written = document.object()
    written["spec"]["volumeName"] = volume["metadata"]["name"]
    written["metadata"].setdefault("annotations", {})[BOUND] = "yes"
    written["status"] = (written.get("status") or {}) | {"phase": "Bound"}
    return [volume, written]


def _claimed(intake: Intake, binding: ClaimBinding) -> dict[str, Any] | None:
    """An existing volume with a reference to its claim."""
    document = intake.documents.get(Key(_VOLUME, "", binding.volume))
    volume = intake.registry.objects.get(f"volume/{binding.volume}")
    if document is None or not isinstance(volume, Volume):
        return None
    if volume.claim not in ("", binding.claim):
        return None
    written = document.object()
    written["spec"]["claimRef"] = _reference(binding.claim)
    written["status"] = (written.get("status") or {}) | {"phase": "Bound"}
    return written


def _created(
    intake: Intake, claim: VolumeClaim, document: Document, node: Node
) -> dict[str, Any] | None:
    """A new volume, as the class's provisioner makes it for this node."""
    objects = intake.registry.objects
    classes = {cls.name: cls for cls in objects.values() if isinstance(cls, StorageClass)}
    cls = class_of(claim, ClusterObjects(storage_classes=classes))
    if cls is None:
        return None
    name = f"pvc-{document.uid}"
    spec: dict[str, Any] = {
        "capacity": {"storage": str(claim.request)},
        "accessModes": list(claim.access_modes),
        "volumeMode": claim.mode,
        "storageClassName": class_name(claim, ClusterObjects(storage_classes=classes)),
        "claimRef": _reference(f"{claim.namespace}/{claim.name}"),
        "csi": {"driver": cls.provisioner, "volumeHandle": name},
    }
    if cls.topologies is not None:
        keys = {each.key for term in cls.topologies for each in term if each.key in node.labels}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [_place(sorted(keys), node)]}}
    return {
        "apiVersion": "v1",
        "kind": _VOLUME,
        "metadata": {"name": name},
        "spec": spec,
        "status": {"phase": "Bound"},
    }


def _reference(claim: str) -> dict[str, str]:
    namespace, _, name = claim.partition("/")
    return {"apiVersion": "v1", "kind": _CLAIM, "namespace": namespace, "name": name}


def _place(keys: Sequence[str], node: Node) -> dict[str, Any]:
    """The term that selects nodes which agree with this one in the labels."""
    values = [{"key": key, "operator": "In", "values": [node.labels[key]]} for key in keys]
    return {"matchExpressions": values}
