"""Admission of nodes, hyper nodes, priority classes and the other cluster objects."""

from __future__ import annotations

from coordinator.intake.admission.registry import INERT_OBJECTS
from coordinator.intake.admission.step import AdmissionStep
from coordinator.intake.documents.document import Key
from shared.errors import InvalidInput
from shared.manifests.kubernetes.inert import InertObject
from shared.manifests.kubernetes.objects import NodeManifest
from shared.manifests.parse import parse_stored
from shared.model.kai_devices import with_gpus
from shared.model.model import Node, PriorityClass, WorldObject
from shared.model.topology import HyperNode
from shared.policy.model import Dialect
from shared.records.specs import object_key


def admit_node(step: AdmissionStep, new: NodeManifest) -> None:
    """Admit a node: new, changed or unchanged.

    The version of the node's specification rises when labels, taints or schedulability change, not
    with its amounts. A node that comes back under its name gets its former row, because its earlier
    tasks may still run on the machine and are accounted there.
    """
    for message in new.notices:
        step.notice(new, message)
    draft, old = step.draft, step.draft.nodes.get(new.name)
    before = old or draft.gone_node(new.name)
    annotations = new.annotations
    if step.dialect is Dialect.KAI:
        annotations = with_gpus(annotations, new.allocatable)
    node = Node(
        row=draft.next_row if before is None else before.row,
        name=new.name,
        allocatable=draft.requests(new.allocatable, "status.allocatable", offers=True),
        labels=new.labels,
        taints=new.taints,
        unschedulable=new.unschedulable,
        spec=0 if before is None else before.spec + (old is None or _moved(before, new)),
        annotations=annotations,
        images=new.images if draft.images else (),
    )
    if node == old:
        step.same.add(id(new))
        return
    draft.nodes[new.name] = node
    draft.next_row += before is None


def _moved(old: Node, new: NodeManifest) -> bool:
    return (old.labels, old.taints, old.unschedulable) != (
        new.labels,
        new.taints,
        new.unschedulable,
    )


def admit_hyper_node(step: AdmissionStep, new: HyperNode) -> None:
    if step.draft.hyper_nodes.get(new.name) == new:
        step.same.add(id(new))
    else:
        step.draft.hyper_nodes[new.name] = new


def admit_object(step: AdmissionStep, new: WorldObject) -> None:
    """Admit an object that placement reads (volume, budget, device) and that only a later
    submission changes."""
    key = object_key(new)
    if step.draft.objects.get(key) == new:
        step.same.add(id(new))
    else:
        step.draft.objects[key] = new


def admit_inert(step: AdmissionStep, new: InertObject) -> None:
    """Admit an object without effect. A namespace has at most INERT_OBJECTS of them: unlike jobs,
    no limit of a queue bounds them."""
    if new.notice:
        step.notice(new, new.notice)
    step.same.add(id(new))
    draft, where = step.draft, new.namespace
    key = Key(new.kind, where, new.name)
    old = draft.document(key)
    if new.fixed and old is not None:
        _check_fixed(new, parse_stored(old.object()))
    if key in step.inert or old is not None:
        return
    count = draft.inert.get(where) or 0
    if where and count >= INERT_OBJECTS:
        message = f"{where} has {count} objects without effect already; delete those not needed"
        raise InvalidInput("metadata.namespace", where, message)
    step.inert.add(key)
    draft.inert[where] = count + 1


def _check_fixed(new: InertObject, old: object) -> None:
    if isinstance(old, InertObject) and old.fixed != new.fixed:
        message = f"field is immutable; delete the {new.kind} and create it with the new value"
        raise InvalidInput("spec", None, message)


def admit_priority_class(step: AdmissionStep, new: PriorityClass) -> None:
    """Admit a priority class. Its value is immutable (jobs carry it), and at most one is the
    default."""
    old = step.draft.priority_classes.get(new.name)
    if old == new:
        step.same.add(id(new))
        return
    if old is not None and old.value != new.value:
        message = f"cannot change (it is {old.value}); use another name"
        raise InvalidInput("value", new.value, message)
    if old is not None and old.preempts != new.preempts:
        raise InvalidInput("preemptionPolicy", None, "cannot change; use another name")
    for priority_class in step.draft.priority_classes.values():
        if new.default and priority_class.default and priority_class.name != new.name:
            message = f"{priority_class.name} is the default already; write false"
            raise InvalidInput("globalDefault", True, message)
    step.draft.priority_classes[new.name] = new
