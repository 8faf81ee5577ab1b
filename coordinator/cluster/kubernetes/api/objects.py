"""Structs for the parts of the API server's answers that are read; the rest is skipped while
decoding.

5.5 us and 1.4 KiB a pod where dicts take 59 us and 7.9 KiB (100,000 pods, pages of 5,000).
"""

from __future__ import annotations

from typing import Any

import msgspec

from shared.units.bounded_numbers import int64


class ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class ListPage(msgspec.Struct):
    metadata: ListMetadata
    items: list[msgspec.Raw] | None = None
    """None: an empty list, as some servers write it."""


class WatchLine(msgspec.Struct):
    type: str
    object: msgspec.Raw


class ObjectMeta(msgspec.Struct, rename="camel"):
    """Identity of an object of any kind; a bookmark has a version alone."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Head(msgspec.Struct):
    metadata: ObjectMeta


class GroupStatus(msgspec.Struct):
    """The status of a group, whatever it is."""

    status: Any = None

    @property
    def phase(self) -> str:
        """ "" where there is none."""
        phase = self.status.get("phase") if isinstance(self.status, dict) else None
        return phase if isinstance(phase, str) else ""


class PodMetadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: list[str] | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class ReadPodStatus(msgspec.Struct, rename="camel"):
    phase: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    resize: str = ""
    resource_claim_statuses: msgspec.Raw = msgspec.Raw()
    conditions: msgspec.Raw = msgspec.Raw()
    container_statuses: msgspec.Raw = msgspec.Raw()
    init_container_statuses: msgspec.Raw = msgspec.Raw()
    allocated_resources: msgspec.Raw = msgspec.Raw()
    resources: msgspec.Raw = msgspec.Raw()
    node_allocatable_resource_claim_statuses: msgspec.Raw = msgspec.Raw()


class PodObject(msgspec.Struct):
    metadata: PodMetadata
    spec: msgspec.Raw
    status: ReadPodStatus = msgspec.field(default_factory=ReadPodStatus)


class SchedulingGroup(msgspec.Struct, rename="camel"):
    pod_group_name: str = ""


class PodSpec(msgspec.Struct, rename="camel"):
    """The fields of a spec that say who places it, where it is, and with whom."""

    node_name: str = ""
    scheduler_name: str = ""
    scheduling_group: SchedulingGroup | None = None


class GivenRequests(msgspec.Struct):
    """Resources of a container, as asked for or as it has them."""

    requests: dict[str, Any] | None = None


class Container(msgspec.Struct):
    name: str = ""
    resources: GivenRequests | None = None


class Containers(msgspec.Struct, rename="camel"):
    """The containers of a spec, with their requests alone."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None

    @property
    def all(self) -> list[Container]:
        return [*(self.containers or ()), *(self.init_containers or ())]


class ContainerStatus(msgspec.Struct, rename="camel"):
    name: str = ""
    allocated_resources: dict[str, Any] | None = None
    resources: GivenRequests | None = None


class PodClaim(msgspec.Struct, rename="camel"):
    """A claim that a pod names, or that is to be created from a template for it alone."""

    name: str
    resource_claim_template_name: str | None = None


class PodClaims(msgspec.Struct, rename="camel"):
    resource_claims: list[PodClaim] | None = None


class PodClaimStatus(msgspec.Struct):
    """The claim of this name in the pod was created, or turned out to need none."""

    name: str


class StatusCause(msgspec.Struct):
    message: str = ""


class StatusDetails(msgspec.Struct):
    causes: list[StatusCause] = msgspec.field(default_factory=list[StatusCause])


class ApiStatus(msgspec.Struct):
    """The API server's answer where it refuses, and in an ERROR event."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None

    @property
    def whole_message(self) -> str:
        """With the causes: of a refused eviction they name the budget and its figures."""
        causes = [] if self.details is None else self.details.causes
        return " ".join([self.message, *(cause.message for cause in causes)])


class ApiResource(msgspec.Struct):
    name: str


class ApiResourceList(msgspec.Struct):
    """Resources of an API version, by discovery."""

    resources: list[ApiResource]


page_of = msgspec.json.Decoder(ListPage).decode
line_of = msgspec.json.Decoder(WatchLine).decode
head_of = msgspec.json.Decoder(Head).decode
pod_of = msgspec.json.Decoder(PodObject).decode
spec_of = msgspec.json.Decoder(PodSpec).decode
containers_of = msgspec.json.Decoder(Containers).decode
container_statuses_of = msgspec.json.Decoder(list[ContainerStatus] | None).decode
claims_of = msgspec.json.Decoder(PodClaims).decode
claim_statuses_of = msgspec.json.Decoder(list[PodClaimStatus] | None).decode
_status_of = msgspec.json.Decoder(ApiStatus).decode


def resources_of(body: bytes) -> frozenset[str]:
    """The names of resources (``pods``) and sub resources (``pods/status``) of a version."""
    listed = msgspec.json.decode(body, type=ApiResourceList)
    return frozenset(resource.name for resource in listed.resources)


def status_of(body: bytes | msgspec.Raw, code: int) -> ApiStatus:
    """The Status in an answer; a proxy's page counts as one with its first words."""
    try:
        return _status_of(body)
    except msgspec.DecodeError:
        return ApiStatus(code=code, message=bytes(body[:200]).decode(errors="replace"))


def version_number(version: str) -> int:
    """A resourceVersion as a number, 0 for one that is none. Those of one object can be compared
    (Kubernetes 1.35, and with etcd before)."""
    return max(int64(version) or 0, 0)
