"""``POST .../pods/NAME/eviction``, and the deletion of a Job's pod: the Job gets a new pod.

A pod that was submitted by itself, or into a PodGroup, has no controller that would recreate it: as
in Kubernetes its eviction deletes it, once the disruption budgets allow that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from aiohttp import web

from coordinator.api.change.bodies import bad
from coordinator.api.change.change import check_incarnation
from coordinator.api.change.options import Deletion
from coordinator.api.change.refusals import conflict
from coordinator.api.write.ports import Evictor, PermissionCheck, PublishedObjects
from coordinator.core.pod_evictions import Action, EvictionObstacle, EvictionRefusal
from coordinator.errors import Cause, Problem, not_found
from coordinator.intake.documents.document import Key
from coordinator.intake.documents.kinds import JOB, POD
from coordinator.intake.principal import CALLER
from shared.errors import shown

PATH = "/api/v1/namespaces/{namespace}/pods/{name}/eviction"
RETRY_SECONDS = 1.0
EVICTED = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": HTTPStatus.CREATED.value,
}
_VERSIONS = ("policy/v1", "policy/v1beta1")


def options_of(sent: Mapping[str, Any], key: Key) -> dict[str, Any]:
    """The ``deleteOptions`` of an Eviction. Raises Problem where it is of another pod."""
    if sent.get("kind", "Eviction") != "Eviction":
        raise bad(f"kind is {shown(sent['kind'])}; send an Eviction of policy/v1")
    if sent.get("apiVersion", _VERSIONS[0]) not in _VERSIONS:
        raise bad(f"apiVersion is {shown(sent['apiVersion'])}; write {_VERSIONS[0]}")
    metadata, options = sent.get("metadata") or {}, sent.get("deleteOptions") or {}
    if not isinstance(metadata, dict) or not isinstance(options, dict):
        raise bad("metadata or deleteOptions is not an object; write fields between { and }")
    for field, expected in (("name", key.name), ("namespace", key.namespace)):
        if metadata.get(field) not in (None, "", expected):
            got = shown(metadata[field])
            raise bad(f"metadata.{field} is {got}, but the path is that of {expected}; correct it")
    return options


@dataclass(frozen=True, slots=True)
class JobPods:
    """Pods that a Job made. ``evictor`` None: they can be neither evicted nor deleted."""

    evictor: Evictor | None
    objects: PublishedObjects
    may: PermissionCheck

    def job_pod(self, key: Key) -> dict[str, Any] | None:
        """The pod as shown; None for one that was submitted, or does not exist."""
        if self.evictor is None or self.objects.document(key) is not None:
            return None
        return self.objects.get(POD, key.namespace, key.name)

    async def evict(
        self,
        request: web.Request,
        key: Key,
        live: dict[str, Any],
        deletion: Deletion,
        action: Action,
    ) -> None:
        """Evict or delete it. Raises Problem where that cannot be done now."""
        check_incarnation(live, POD, key.name, uid=deletion.uid, version=deletion.version)
        owner = Key(JOB.kind, key.namespace, live["metadata"]["ownerReferences"][0]["name"])
        job = self.objects.document(owner)
        if job is not None:
            self.may(request, JOB, job.object(), as_it_is=True)
        evictor = self.evictor
        task = None if evictor is None else evictor.task_of(key.namespace, key.name)
        if evictor is None or task is None:
            raise not_found(POD.plural, key.name, group=POD.group)
        user = CALLER.get().name
        came = await evictor.evict(task, action=action, requester=user, dry_run=deletion.dry_run)
        if isinstance(came, EvictionRefusal):
            raise refusal(came, key)


def refusal(came: EvictionRefusal, key: Key) -> Problem:
    match came.obstacle:
        case EvictionObstacle.ENDED | EvictionObstacle.LEFT:
            # kubectl drain takes this for done, and there is indeed nothing to wait for.
            message = f'pods "{key.name}" not found on a node: {came.obstacle.value}'
            return Problem(
                HTTPStatus.NOT_FOUND, message, reason="NotFound", kind=POD.plural, name=key.name
            )
        case EvictionObstacle.UNPLACED:
            return conflict(POD, key.name, came.obstacle.value)
        case EvictionObstacle.BUSY | EvictionObstacle.ENDING | EvictionObstacle.VOLUME:
            return Problem(
                HTTPStatus.TOO_MANY_REQUESTS,
                came.obstacle.value,
                kind=POD.plural,
                name=key.name,
                retry_after=RETRY_SECONDS,
            )
        case EvictionObstacle.BUDGET:
            return Problem(
                HTTPStatus.TOO_MANY_REQUESTS,
                came.obstacle.value,
                kind=POD.plural,
                name=key.name,
                causes=(Cause("", came.detail, "DisruptionBudget"),),
            )
