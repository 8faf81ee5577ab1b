"""Amounts that a pod takes of its node, by Kubernetes' rule (component-helpers, PodRequests).

Of the containers' sum and of each init step the maximum, or what the pod asks for as a whole, plus
overhead. Of a pod that is resized where it runs (KEP-1287) the largest of what its spec asks for,
what its node allocated and what it has counts, per resource; a resize that the node will never
carry out (Infeasible) does not.

:func:`usage` reads pods that others wrote: whatever else such a pod has, its amounts count. An
amount that cannot be read counts as more than any node has, and its path is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.errors import InvalidInput
from shared.manifests.fields.amounts import add, frozen, raise_to
from shared.model.storage import Amounts
from shared.units.quantity import amount
from shared.units.things import port_name

MORE_THAN_A_NODE = 2**46
"""An unreadable amount. Sums over all pods of a node stay below 2**53."""
UNKNOWN_REQUESTS = {"cpu": MORE_THAN_A_NODE, "memory": MORE_THAN_A_NODE}
"""The requests of a container whose list cannot be read."""
_RESIZABLE = ("cpu", "memory")
"""Resources that a node can change of a pod that runs."""
_PROTOCOLS = ("TCP", "UDP", "SCTP")

Step = tuple[dict[str, int], bool, bool]
"""(requests, whether of an init container, whether it stays)"""


def summed(steps: Iterable[Step]) -> dict[str, int]:
    """The requests of containers that run together, after init steps one by one.

    An init container that always restarts (a sidecar) keeps running, and counts in every later
    step.
    """
    total: dict[str, int] = {}
    start: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for requests, is_init, stays in steps:
        if not is_init:
            add(total, requests)
            continue
        if stays:
            add(total, requests)
            add(sidecars, requests)
            # Its own start counts with the sidecars before it, which run already.
            raise_to(start, sidecars)
        else:
            step = dict(requests)
            add(step, sidecars)
            raise_to(start, step)
    raise_to(total, start)
    return total


def apply_pod_level(
    total: dict[str, int], requests: Mapping[str, int], limits: Mapping[str, int]
) -> None:
    """Put the amounts of the pod as a whole in place of its containers' sum; a limit alone counts
    where no container requests the resource (the API server's default)."""
    for name, most in limits.items():
        if is_pod_level(name) and name not in requests:
            total.setdefault(name, most)
    total.update((name, n) for name, n in requests.items() if is_pod_level(name))


def is_pod_level(name: str) -> bool:
    """Whether a pod can ask for the resource as a whole."""
    return name in _RESIZABLE or name.startswith("hugepages-")


@dataclass(frozen=True, slots=True)
class PodUsage:
    """The amounts and ports that a pod takes of its node, beside its place among the pods."""

    amounts: Amounts
    ports: tuple[str, ...] = ()
    """Names of its host ports."""
    unread: tuple[str, ...] = ()
    """Paths of amounts that could not be read."""


def usage(spec: object, status: object = None) -> PodUsage:
    """The usage of a pod on its node, whatever other fields it has."""
    read = _Reading()
    pod, reported = read.mapping(spec, "spec"), _mapping(status)
    containers = [
        *read.containers(pod, "containers", is_init=False),
        *read.containers(pod, "initContainers", is_init=True),
    ]
    overhead = read.amounts(pod.get("overhead"), "spec.overhead")
    resize = _Resize(read, reported, overhead)
    total = resize.largest(containers)
    add(total, read.of_claims(reported))
    whole = read.mapping(pod.get("resources"), "spec.resources")
    requests = read.amounts(whole.get("requests"), "spec.resources.requests")
    limits = read.amounts(whole.get("limits"), "spec.resources.limits")
    apply_pod_level(total, resize.of_pod(requests), limits)
    add(total, overhead)
    total.pop("pods", None)
    amounts = {name: min(n, MORE_THAN_A_NODE) for name, n in total.items()}
    return PodUsage(frozen(amounts), read.ports(pod), tuple(read.unread))


def has_resources(status: Mapping[str, object]) -> bool:
    """Whether a status says what its pod was given."""
    statuses = [
        *_maps(status.get("containerStatuses")),
        *_maps(status.get("initContainerStatuses")),
    ]
    told = any("allocatedResources" in one or "resources" in one for one in statuses)
    whole = ("allocatedResources", "resources", "nodeAllocatableResourceClaimStatuses")
    return told or any(status.get(name) for name in whole)


def resources_of_status(status: Mapping[str, Any]) -> dict[str, object]:
    """The parts of a status that :func:`usage` reads."""
    kept: dict[str, object] = {
        name: status[name]
        for name in ("allocatedResources", "resources", "nodeAllocatableResourceClaimStatuses")
        if status.get(name)
    }
    for part in ("containerStatuses", "initContainerStatuses"):
        fields = ("name", "allocatedResources", "resources")
        shown = [{n: one[n] for n in fields if n in one} for one in _maps(status.get(part))]
        if shown:
            kept[part] = shown
    if _is_infeasible(status):
        kept["conditions"] = [{"type": _PENDING, "status": "True", "reason": _INFEASIBLE}]
    return kept


_PENDING, _INFEASIBLE = "PodResizePending", "Infeasible"


def _is_infeasible(status: Mapping[str, object]) -> bool:
    """Whether the node will never carry out the resize that the spec asks for. ``resize``: as
    kubelets before 1.33 have it."""
    pending = (c for c in _maps(status.get("conditions")) if c.get("type") == _PENDING)
    reasons = [condition.get("reason") for condition in pending]
    return _INFEASIBLE in (*reasons[:1], status.get("resize"))


@dataclass(slots=True)
class _Container:
    name: object
    requests: dict[str, int]
    is_init: bool
    stays: bool


class _Resize:
    """The amounts of a pod as its spec has them, as its node allocated them and as they are."""

    def __init__(
        self, read: _Reading, status: Mapping[str, Any], overhead: Mapping[str, int]
    ) -> None:
        self._read = read
        self._infeasible = _is_infeasible(status)
        statuses = [
            *_maps(status.get("containerStatuses")),
            *_maps(status.get("initContainerStatuses")),
        ]
        self._statuses = {one.get("name"): one for one in statuses}
        self._allocated = self._of_node(status.get("allocatedResources"), overhead)
        actual = _mapping(status.get("resources")).get("requests")
        self._actual = self._of_node(actual, overhead)

    def _of_node(self, value: object, overhead: Mapping[str, int]) -> dict[str, int]:
        """Amounts of the whole pod, which a node reports with the overhead."""
        amounts = self._read.amounts(value, "status")
        return {name: max(n - overhead.get(name, 0), 0) for name, n in amounts.items()}

    def largest(self, containers: list[_Container]) -> dict[str, int]:
        """The sum over the containers: per resource the largest of the three."""
        spec = summed((c.requests, c.is_init, c.stays) for c in containers)
        if not (self._statuses or self._allocated):
            return spec
        total = self._lasting(spec)
        if self._allocated and self._actual:
            raise_to(total, self._allocated)
            raise_to(total, self._actual)
            return total
        for part in ("allocated", "actual"):
            raise_to(total, summed((self._of(c, part), c.is_init, c.stays) for c in containers))
        return total

    def _of(self, container: _Container, part: str) -> dict[str, int]:
        """The amounts of one container by its node, or by its spec where the node has none."""
        status = self._statuses.get(container.name, {})
        allocated = status.get("allocatedResources")
        actual = _mapping(status.get("resources")).get("requests")
        value = actual if part == "actual" and actual is not None else allocated
        if value is None:
            value = actual
        return container.requests if value is None else self._read.amounts(value, "status")

    def of_pod(self, requests: dict[str, int]) -> dict[str, int]:
        """The requests of the pod as a whole: per resource the largest of the three."""
        largest = self._lasting(requests)
        for part in (self._allocated, self._actual):
            raise_to(largest, {name: n for name, n in part.items() if name in requests})
        return requests | largest

    def _lasting(self, spec: Mapping[str, int]) -> dict[str, int]:
        """The requests of the spec that the node may still grant."""
        left_out = _RESIZABLE if self._infeasible else ()
        return {name: n for name, n in spec.items() if name not in left_out}


@dataclass(slots=True)
class _Reading:
    """Reads what somebody else wrote; what it cannot read counts as more than any node has."""

    unread: list[str] = field(default_factory=list)

    def mapping(self, value: object, at: str) -> Mapping[str, Any]:
        if value is not None and not isinstance(value, Mapping):
            self.unread.append(at)
        return _mapping(value)

    def amounts(self, value: object, at: str) -> dict[str, int]:
        """A resource list; ``at``: its path."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.unread.append(at)
            return dict(UNKNOWN_REQUESTS)
        amounts: dict[str, int] = {}
        for name, written in value.items():
            try:
                amounts[name] = amount(name, written, at)
            except InvalidInput:
                self.unread.append(f"{at}.{name}")
                amounts[name] = MORE_THAN_A_NODE
        return amounts

    def containers(
        self, spec: Mapping[str, Any], part: str, *, is_init: bool
    ) -> Iterable[_Container]:
        containers = spec.get(part)
        if not isinstance(containers, list) and (containers is not None or not is_init):
            self.unread.append(f"spec.{part}")
            yield _Container(None, dict(UNKNOWN_REQUESTS), is_init, is_init)
            return
        for i, container in enumerate(containers or ()):
            at = f"spec.{part}[{i}]"
            fields = self.mapping(container, at)
            resources = self.mapping(fields.get("resources"), f"{at}.resources")
            requests = {
                **self.amounts(resources.get("limits"), f"{at}.resources.limits"),
                **self.amounts(resources.get("requests"), f"{at}.resources.requests"),
            }
            stays = is_init and fields.get("restartPolicy") == "Always"
            yield _Container(fields.get("name"), requests, is_init, stays)

    def of_claims(self, status: Mapping[str, Any]) -> dict[str, int]:
        """Amounts of the node itself that the pod's devices come with."""
        total: dict[str, int] = {}
        for claim in _maps(status.get("nodeAllocatableResourceClaimStatuses")):
            count = len(claim.get("containers") or ())
            shares = [(m.get("name"), m.get("quantity"), 1) for m in _maps(claim.get("mapping"))]
            for more in _maps(claim.get("overhead")):
                shares.append((more.get("name"), more.get("perPod"), 1))
                shares.append((more.get("name"), more.get("perContainer"), count))
            for name, quantity, times in shares:
                if isinstance(name, str) and quantity is not None:
                    [n] = self.amounts({name: quantity}, "status").values()
                    add(total, {name: n * times})
        return total

    def ports(self, spec: Mapping[str, Any]) -> tuple[str, ...]:
        """The host ports of containers that stay."""
        names: dict[str, None] = {}
        for part in ("containers", "initContainers"):
            for container in _maps(spec.get(part)):
                if part == "containers" or container.get("restartPolicy") == "Always":
                    for port in _maps(container.get("ports")):
                        if name := _host_port(port, bool(spec.get("hostNetwork"))):
                            names[name] = None
        return tuple(sorted(names))


def _host_port(port: Mapping[str, Any], host_network: bool) -> str:
    number: object = port.get("hostPort") or (port.get("containerPort") if host_network else 0)
    protocol = port.get("protocol") or "TCP"
    if not isinstance(number, int) or not 0 < number <= 65535 or protocol not in _PROTOCOLS:
        return ""
    return port_name(protocol, number)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _maps(value: object) -> list[Mapping[str, Any]]:
    """The objects of a list."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
