"""Volcano's scheduling gate, as its webhook adds it and its scheduler removes it.

A pod whose annotation asks for it gets the gate when it is created, and keeps it until its queue
has room. Whoever sends the pod again as first written does not take it off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from coordinator.intake.admission.documents import body_of
from coordinator.intake.admission.membership import append_role, part_of_role
from coordinator.intake.documents.document import Document, Key
from shard_worker.session_model.queue_totals import QUEUE_GATE, opted_in
from shared.codec.packed import replace
from shared.manifests.kubernetes.objects import PodManifest
from shared.model.model import Job, Role

GATE = {"name": QUEUE_GATE}


def with_gate(new: PodManifest, sent: object, documents: Mapping[Key, Document]) -> object:
    """The pod as sent, with the gate if it is to have it; else the same object."""
    if not opted_in(new.annotations) or new.template.node_name:
        return sent
    assert type(sent) is dict
    before = documents.get(Key("Pod", new.namespace, new.name))
    gates = sent["spec"].get("schedulingGates") or []
    if GATE in gates or (before is not None and GATE not in _gates(before.object())):
        return sent
    return {**sent, "spec": {**sent["spec"], "schedulingGates": [*gates, GATE]}}


def role_with_gate(role: Role) -> Role:
    """A role of a Job, with the gate if its pods are to have it."""
    if role.gated or not opted_in(role.annotations):
        return role
    return replace(role, gated=True, own_gate=True)


def without_gate(job: Job, members: Iterable[int]) -> Job:
    """The job after these members lost the gate; it was their only one. They keep their indices, so
    that roles may split, and neighbours that became equal are merged."""
    removed = set(members)
    roles: list[Role] = []
    for role in job.roles:
        tasks, at = range(role.first, role.first + role.count), 0
        for loses, run in groupby(role.own_gate and tix in removed for tix in tasks):
            part = part_of_role(role, at, at + sum(1 for _ in run))
            at += part.count
            new = replace(part, gated=False, own_gate=False) if loses else part
            append_role(roles, new, job.created)
    return replace(job, roles=tuple(roles), spec=job.spec + 1)


def document_without_gate(document: Document) -> Document:
    """The pod's document after it lost its only gate."""
    pod = document.object()
    pod["spec"].pop("schedulingGates", None)
    return replace(document, body=body_of(pod), generation=document.generation + 1)


def _gates(pod: Mapping[str, Any]) -> list[Any]:
    return pod["spec"].get("schedulingGates") or []
