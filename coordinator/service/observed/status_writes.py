"""Status writes for queues and KAI's PodGroups. Pure: values in, a request out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from coordinator.cluster.kubernetes.api.pool import MERGE_PATCH
from coordinator.intake.documents.kinds import KAI_POD_GROUP, QUEUE
from coordinator.objects.cluster import quantities
from coordinator.objects.context import ReadModel
from shared.manifests.kai.groups import STAMPS

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StatusWrite:
    method: str
    path: str
    body: Json
    form: str = MERGE_PATCH

    @property
    def content(self) -> bytes:
        """Content that makes a write worth sending. For an event only its message: a repeat is
        reported with the next one."""
        return msgspec.json.encode(self.body.get("message") or self.body)


def queue_write(read_model: ReadModel, name: str, uid: str) -> StatusWrite | None:
    """Status write with the amounts allocated to a queue. Its state and its counts are the queue
    controller's."""
    queues = read_model.core.order.lines.queues
    queue = queues.get(read_model.queue_id(QUEUE.kind, name))
    if queue is None:
        return None
    # Of everything that the cluster has, also 0: a patch leaves what it does not name.
    amounts = dict.fromkeys(read_model.core.order.accounts.cluster.total, 0)
    allocated = quantities(amounts | queue.info.allocated, read_model.names)
    body = {"metadata": {"uid": uid}, "status": {"allocated": allocated}}
    path = f"/apis/{QUEUE.api_version}/{QUEUE.plural}/{name}/status"
    return StatusWrite("PATCH", path, body)


def conditions_write(group: Json, uid: str, *, said: bool) -> StatusWrite | None:
    """Why a PodGroup of KAI's is not scheduled; its phase is the PodGroup controller's. ``said``:
    something was written before, and is to be taken back where nothing holds any more."""
    conditions = group["status"].get("schedulingConditions")
    if conditions is None and not said:
        return None
    body = {"metadata": {"uid": uid}, "status": {"schedulingConditions": conditions}}
    return StatusWrite("PATCH", f"{_path(group)}/status", body)


def stamps_write(group: Json, uid: str, *, said: bool) -> StatusWrite | None:
    """The times that KAI's rules measure by. On the PodGroup they outlive the ledger."""
    annotations = group["metadata"].get("annotations") or {}
    stamps = {stamp: annotations.get(stamp) for stamp in STAMPS}
    if not any(stamps.values()) and not said:
        return None
    return StatusWrite("PATCH", _path(group), {"metadata": {"uid": uid, "annotations": stamps}})


def _path(group: Json) -> str:
    meta = group["metadata"]
    base = f"/apis/{KAI_POD_GROUP.api_version}/namespaces/{meta['namespace']}"
    return f"{base}/{KAI_POD_GROUP.plural}/{meta['name']}"
