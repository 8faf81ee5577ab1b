"""Devices for the claims of tasks that have a node: chosen from what is free, and written as
Kubernetes writes it into the claims' status."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from coordinator.controllers.volume_controller import reaches
from coordinator.intake.documents.document import Key
from coordinator.intake.intake import Intake
from shard_worker.kube_scheduler.cel.tree import CelError
from shard_worker.kube_scheduler.devices.claims import ELSEWHERE, NONE_FREE, UNJUDGED
from shard_worker.kube_scheduler.devices.pools import DevicePool, Offer, Pools
from shard_worker.kube_scheduler.devices.search import (
    AssignedDevice,
    DeviceSearch,
    DeviceUsage,
    OpenClaim,
)
from shared.manifests.kubernetes.devices import read_claim
from shared.model.constraints import Terms
from shared.model.devices import ResourceClaim, ResourceClaimTemplate, own_claim
from shared.model.model import Job, Node
from shared.records.specs import OBJECT_KEYS
from shared.units.quantity import quantity

Json = dict[str, Any]
CLAIM, TEMPLATE, CLASS = "ResourceClaim", "ResourceClaimTemplate", "DeviceClass"


@dataclass(frozen=True, slots=True)
class DeviceUser:
    """A task that is being bound, and what it claims."""

    at: int
    """Its position in the plan."""
    job: Job
    tix: int
    node: Node
    claims: tuple[str, ...]
    templates: tuple[str, ...]

    @property
    def pod(self) -> str:
        return self.job.pod_name(self.tix)


@dataclass(slots=True)
class _Claim:
    """One claim of a task, as it is to be written."""

    key: str
    written: Json
    model: ResourceClaim
    open: bool
    """It has no devices yet."""


class ClaimBooks:
    """One pass over tasks: what they get is in use for those that follow."""

    def __init__(self, intake: Intake, pools: Pools, *, own: bool = True) -> None:
        """``own``: claims of templates are made here, and not by the cluster."""
        self._intake = intake
        self._pools = pools
        self._own = own
        self._usage = DeviceUsage()
        self._written: dict[str, Json] = {}
        for claim in claims_of(intake):
            for got in self._devices(claim):
                self._usage.add(got)

    def written(self) -> list[Json]:
        """The claims that have changed."""
        return list(self._written.values())

    def serve(self, user: DeviceUser, uid: str) -> str:
        """Give the task's claims devices of its node; why that is impossible, else ""."""
        claims: list[_Claim] = []
        for claim, why in self._claims(user, uid):
            if claim is None:
                return why
            claims.append(claim)
        open_claims = [
            OpenClaim(c.key, c.model.requests, c.model.matches) for c in claims if c.open
        ]
        try:
            devices = DeviceSearch(self._pools, self._offers(user.node), self._usage).run(
                open_claims
            )
        except CelError as error:
            return f"{UNJUDGED}{error}"
        if devices is None:
            return NONE_FREE
        for got in devices:
            self._usage.add(got)
        for claim in claims:
            status = claim.written.setdefault("status", {})
            before = users_of(claim.written)
            if claim.open:
                allocated = [got for got in devices if got.claim == claim.key]
                status["allocation"] = self._allocation(claim, allocated, user.node)
            if all(served.get("uid") != uid for served in before):
                reserved = {"resource": "pods", "name": user.pod, "uid": uid}
                status["reservedFor"] = [*before, reserved]
            elif not claim.open:
                continue  # written already: its bind is repeated
            self._written[claim.key] = claim.written
        return ""

    # --- claims ---------------------------------------------------------------------------------

    def _claims(self, user: DeviceUser, uid: str) -> Iterator[tuple[_Claim | None, str]]:
        space = user.job.namespace
        for name in user.claims:
            claim = self._known(f"{space}/{name}")
            if claim is None:
                yield None, f'resourceclaim "{name}" not found'
                continue
            if not self._reaches(claim.model, user.node):
                if claim.model.reserved:
                    yield None, ELSEWHERE
                    continue
                self._give_back(claim)  # nobody uses them, as Kubernetes' scheduler does
            yield claim, ""
        for name in user.templates:
            key = f"{space}/{own_claim(user.job.uid, user.pod, name)}"
            claim = self._known(key) or self._made(key, name, user, uid)
            if claim is None and not self._own:
                yield None, f'no claim is made of resourceclaimtemplate "{name}" yet'
                continue
            if claim is None:
                yield None, f'resourceclaimtemplate "{name}" not found'
                continue
            if not claim.open and not self._reaches(claim.model, user.node):
                self._give_back(claim)  # of an earlier incarnation, which was on another node
            yield claim, ""

    def _known(self, key: str) -> _Claim | None:
        namespace, _, name = key.partition("/")
        document = self._intake.documents.get(Key(CLAIM, namespace, name))
        written = self._written.get(key) or (None if document is None else document.object())
        if written is None:
            return None
        model = read_claim(written)
        return _Claim(key, written, model, model.allocation is None)

    def _made(self, key: str, template: str, user: DeviceUser, uid: str) -> _Claim | None:
        """A claim of the template, for this pod alone."""
        namespace, _, name = key.partition("/")
        document = self._intake.documents.get(Key(TEMPLATE, namespace, template))
        at = f"{OBJECT_KEYS[ResourceClaimTemplate]}{namespace}/{template}"
        if not self._own or document is None or at not in self._intake.registry.objects:
            return None
        owner = {"apiVersion": "v1", "kind": "Pod", "name": user.pod, "uid": uid}
        written: Json = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": CLAIM,
            "metadata": {
                "name": name,
                "namespace": namespace,
                "ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}],
            },
            "spec": document.object()["spec"]["spec"],
        }
        return _Claim(key, written, read_claim(written), open=True)

    def _give_back(self, claim: _Claim) -> None:
        for got in self._devices(claim.model):
            self._usage.drop(got)
        claim.written["status"] = {}
        claim.open = True

    # --- devices --------------------------------------------------------------------------------

    def _devices(self, claim: ResourceClaim) -> Iterator[AssignedDevice]:
        """The devices of an allocated claim that slices still offer."""
        for result in () if claim.allocation is None else claim.allocation.results:
            offer = self._pools.offers.get((result.driver, result.pool, result.device))
            if offer is not None:
                yield AssignedDevice(
                    claim.name, result.request, offer, result.admin, result.capacity
                )

    def _offers(self, node: Node) -> list[Offer]:
        """The devices that the node reaches, in the order in which a session tries them."""
        offers = list(self._pools.local.get(node.name, ()))
        for pool in self._pools.wide:
            if reaches(pool.reach, node):
                offers += pool.offers
        return offers

    @staticmethod
    def _reaches(claim: ResourceClaim, node: Node) -> bool:
        return claim.allocation is None or reaches(claim.allocation.nodes, node)

    def _allocation(self, claim: _Claim, devices: list[AssignedDevice], node: Node) -> Json:
        """The field ``allocation``. Its node selector: the node, if one of the devices is of this
        node alone; else where the devices that several nodes reach are."""
        allocation: Json = {"devices": {"results": [_result(got) for got in devices]}}
        if config := list(self._config(claim)):
            allocation["devices"]["config"] = config
        local = {offer.key for offer in self._pools.local.get(node.name, ())}
        if any(got.offer.key in local for got in devices):
            name = {"key": "metadata.name", "operator": "In", "values": [node.name]}
            allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [name]}]}
        elif reach := [pool.reach for pool in self._pools_of(devices) if pool.reach is not None]:
            allocation["nodeSelector"] = {"nodeSelectorTerms": _written(reach[0])}
        return allocation

    def _config(self, claim: _Claim) -> Iterator[Json]:
        """Configuration for the drivers: by the class of each request, then by the claim, as
        Kubernetes' scheduler passes it on."""
        spec = claim.written["spec"].get("devices") or {}
        for request in spec.get("requests") or ():
            exact = request.get("exactly")
            for name, class_name in _asked(request["name"], exact, request.get("firstAvailable")):
                document = self._intake.documents.get(Key(CLASS, "", class_name))
                written = {} if document is None else document.object()["spec"]
                for entry in written.get("config") or ():
                    yield {"source": "FromClass", "requests": [name], **entry}
        for entry in spec.get("config") or ():
            yield {"source": "FromClaim", **entry}

    def _pools_of(self, devices: list[AssignedDevice]) -> Iterator[DevicePool]:
        for pool in self._pools.wide:
            if any(got.offer in pool.offers for got in devices):
                yield pool


def claims_of(intake: Intake) -> Iterator[ResourceClaim]:
    for value in intake.registry.objects.values():
        if isinstance(value, ResourceClaim):
            yield value


def users_of(claim: Json) -> list[Json]:
    """The entries of ``status.reservedFor``."""
    users = (claim.get("status") or {}).get("reservedFor")
    return list(users or ())


def _asked(name: str, exact: Json | None, first: list[Json] | None) -> Iterator[tuple[str, str]]:
    """(request, its device class); each alternative is a request of its own."""
    if exact is not None:
        yield name, exact["deviceClassName"]
    for each in first or ():
        yield f"{name}/{each['name']}", each["deviceClassName"]


def _result(got: AssignedDevice) -> Json:
    result: Json = {
        "request": got.request,
        "driver": got.offer.driver,
        "pool": got.offer.pool,
        "device": got.offer.device.name,
    }
    if got.admin:
        result["adminAccess"] = True
    if got.capacity:
        result["consumedCapacity"] = {name: quantity("device", n) for name, n in got.capacity}
    return result


def _written(terms: Terms) -> list[Json]:
    """Node selector terms as Kubernetes writes them."""
    return [
        {
            field: [
                {"key": each.key, "operator": each.operator, "values": list(each.values)}
                for each in term
                if each.field is is_field
            ]
            for field, is_field in (("matchExpressions", False), ("matchFields", True))
        }
        for term in terms
    ]
