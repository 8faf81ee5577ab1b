"""Status writes for queues and KAI's PodGroups. Pure: values in, a request out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from coordinator.cluster.kubernetes.api.pool import MERGE_PATCH, STRATEGIC_PATCH, HttpAnswer
from coordinator.controllers.placed_groups import stored_condition
from coordinator.intake.documents.document import Key
from coordinator.intake.documents.kinds import BY_KIND, KAI_POD_GROUP, QUEUE
from coordinator.jobs.state import JobState
from coordinator.objects.cluster import quantities
from coordinator.objects.context import ReadModel
from coordinator.objects.native_groups import initially_scheduled, is_same
from shard_worker.session_model.queue_totals import used
from shared.manifests.kai.groups import STAMPS

Json = dict[str, Any]
_ALWAYS = ("cpu", "memory")
"""Resources of which Volcano's scheduler also writes that a queue has none."""


@dataclass(frozen=True, slots=True)
class StatusWrite:
    method: str
    path: str
    body: Json
    form: str = MERGE_PATCH
    version: str = ""
    """The only version of the object that the write is for; "" for any. A pod that is bound
    meanwhile has another one."""

    @property
    def content(self) -> bytes:
        """Content that makes a write worth sending. For an event only its message: a repeat is
        reported with the next one."""
        return msgspec.json.encode(self.body.get("message") or self.body)

    def encoded(self) -> bytes:
        """The body to send."""
        if not self.version:
            return msgspec.json.encode(self.body)
        metadata = self.body["metadata"] | {"resourceVersion": self.version}
        return msgspec.json.encode(self.body | {"metadata": metadata})


class StatusWriter(Protocol):
    """Client that sends a write within the lease."""

    async def report(self, method: str, path: str, body: bytes, form: str) -> HttpAnswer | None:
        """None where there is no answer."""
        ...

    async def resources(self, api_version: str) -> frozenset[str]:
        """The names of resources and sub resources of a version. Raises ApiError."""
        ...


def queue_write(read_model: ReadModel, name: str, uid: str) -> StatusWrite | None:
    """Status write with the amounts allocated to a queue and all queues below it. Its state and its
    counts are the queue controller's."""
    queues = read_model.core.order.lines.queues
    queue = queues.get(read_model.queue_id(QUEUE.kind, name))
    if queue is None:
        return None
    # Of everything that the cluster has: a patch leaves what it does not name, and null takes away.
    total = read_model.core.order.accounts.cluster.total
    amounts = quantities(dict.fromkeys(total, 0) | used(queue.info), read_model.names)
    allocated = {
        name: None if amount == "0" and name not in _ALWAYS else amount
        for name, amount in amounts.items()
    }
    status = {"allocated": allocated, "reservation": {}}
    body = {"metadata": {"uid": uid}, "status": status}
    path = f"/apis/{QUEUE.api_version}/{QUEUE.plural}/{name}/status"
    return StatusWrite("PATCH", path, body)


def conditions_write(
    group: Json, uid: str, stored: list[Json], pool: str, *, said: bool
) -> StatusWrite | None:
    """Why a PodGroup of KAI's is not scheduled in its node pool; its phase is the PodGroup
    controller's.

    ``stored``: the conditions that the server has. Those of other node pools stay, and the newest
    comes last. ``said``: something was written before, and is to be taken back where nothing holds
    any more.
    """
    present: list[Json] = group["status"].get("schedulingConditions") or []
    if not present and not said:
        return None
    others = [c for c in stored if c.get("nodePool") != pool]
    conditions = others + [_numbered(c, stored) for c in present]
    body = {"metadata": {"uid": uid}, "status": {"schedulingConditions": conditions or None}}
    return StatusWrite("PATCH", f"{_path(group)}/status", body)


_SAME = ("type", "nodePool", "reason", "message", "status")


def _numbered(present: Json, stored: list[Json]) -> Json:
    """The condition with a ``transitionID`` above those of all others, as KAI counts them; one that
    is the newest already has its own."""
    last = max(stored, key=_transition, default=None)
    number = 0 if last is None else _transition(last)
    is_new = last is None or any(last.get(part) != present.get(part) for part in _SAME)
    return present | {"transitionID": str(number + is_new)}


def _transition(condition: Json) -> int:
    text = str(condition.get("transitionID", ""))
    return int(text) if text.isascii() and text.isdigit() else 0


def stamps_write(group: Json, uid: str, *, said: bool) -> StatusWrite | None:
    """The times that KAI's rules measure by. On the PodGroup they outlive the ledger."""
    annotations = group["metadata"].get("annotations") or {}
    stamps = {stamp: annotations.get(stamp) for stamp in STAMPS}
    if not any(stamps.values()) and not said:
        return None
    return StatusWrite("PATCH", _path(group), {"metadata": {"uid": uid, "annotations": stamps}})


def native_group_write(
    read_model: ReadModel, state: JobState, key: Key, uid: str
) -> StatusWrite | None:
    """Whether one of Kubernetes' own groups was placed; None where the server has it so.
    ``state``: of its job, or that of its tree."""
    record = read_model.record(key.kind, key.path)
    if record is None:
        return None
    document = record.document
    stored, present = stored_condition(document), initially_scheduled(read_model, state, document)
    if present is None or (stored is not None and is_same(stored, present)):
        return None
    base = f"/apis/{document.object()['apiVersion']}/namespaces/{key.namespace}"
    path = f"{base}/{BY_KIND[key.kind].plural}/{key.name}/status"
    body = {"metadata": {"uid": uid}, "status": {"conditions": [present]}}
    return StatusWrite("PATCH", path, body, STRATEGIC_PATCH)


def _path(group: Json) -> str:
    meta = group["metadata"]
    base = f"/apis/{KAI_POD_GROUP.api_version}/namespaces/{meta['namespace']}"
    return f"{base}/{KAI_POD_GROUP.plural}/{meta['name']}"
