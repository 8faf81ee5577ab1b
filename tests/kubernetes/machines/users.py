"""Users and their controllers at the API server of several machines, in calls that return when the
work is done."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar

from laboratory.local_kubernetes.client import ApiClient, client_of
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.definitions import install
from laboratory.local_kubernetes.kubelets import DURATION
from tests.kubernetes.audit import entries
from tests.kubernetes.driver.harness import pod, pod_group
from tests.kubernetes.machines.kubelets import MACHINE

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
NODES = "/api/v1/nodes"
GONE = "gone"

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Users:
    plane: ControlPlane

    def define(self, *definitions: Json) -> None:
        self._do(lambda client: install(client, *definitions))

    def create(self, items: Iterable[Json]) -> list[str]:
        """The names of the pods among them."""
        built = list(items)
        self._do(lambda client: client.create(*built))
        return [item["metadata"]["name"] for item in built if item["kind"] == "Pod"]

    def phases(self, names: Iterable[str]) -> Counter[str]:
        """Phase -> number of these pods; those that are not there are :data:`GONE`."""
        listed = self._do(lambda client: client.get(PODS))["items"]
        phase_of = {item["metadata"]["name"]: item["status"]["phase"] for item in listed}
        return Counter(phase_of.get(name, GONE) for name in names)

    def are(self, phase: str, names: Iterable[str]) -> Callable[[object], bool]:
        """Whether all these pods are in a phase, whatever it is asked with."""
        expected = list(names)
        return lambda _: self.phases(expected).keys() == {phase}

    def have_nodes(self, names: Iterable[str]) -> Callable[[object], bool]:
        expected = set(names)

        def all_bound(_: object) -> bool:
            listed = self._do(lambda client: client.get(PODS, fieldSelector="spec.nodeName!="))
            return expected <= {item["metadata"]["name"] for item in listed["items"]}

        return all_bound

    def keep(self, items: Iterable[Json]) -> Callable[[object], bool]:
        """Recreate missing pods, as their controller does. True once all of them run."""
        expected = {item["metadata"]["name"]: item for item in items}

        async def look(client: ApiClient) -> bool:
            there = {item["metadata"]["name"]: item for item in (await client.get(PODS))["items"]}
            await client.create(*(expected[name] for name in expected.keys() - there.keys()))
            return all(
                name in there and there[name]["status"]["phase"] == "Running" for name in expected
            )

        return lambda _: self._do(look)

    def delete(self, path: str, *, at_once: bool = False) -> None:
        options = {"gracePeriodSeconds": 0} if at_once else None
        self._do(lambda client: client.delete(path, options=options))

    def lose_machine(self, label: str) -> list[str]:
        """Remove a lost machine as a cloud's controllers do: its nodes are deleted, and then their
        pods. Returns the pods."""
        selector = f"{MACHINE}={label}"
        nodes = self._do(lambda client: client.names(NODES, labelSelector=selector))
        listed = self._do(lambda client: client.get(PODS, fieldSelector="spec.nodeName!="))["items"]
        lost = [
            item["metadata"]["name"] for item in listed if item["spec"]["nodeName"] in set(nodes)
        ]
        for name in nodes:
            self.delete(f"{NODES}/{name}")
        for name in lost:
            self.delete(f"{PODS}/{name}", at_once=True)
        return lost

    def bindings(self) -> tuple[Counter[str], set[str]]:
        """Pod's uid -> how often the API server said that it was bound; and the pods of which it
        said once that it does not know, as it does where its store is slow."""
        answers = [
            (entry["requestObject"]["metadata"]["uid"], entry["responseStatus"].get("code", 0))
            for entry in entries(self.plane.audit_log)
            if entry.get("objectRef", {}).get("subresource") == "binding"
        ]
        return (
            Counter(uid for uid, code in answers if code == HTTPStatus.CREATED),
            {uid for uid, code in answers if code >= HTTPStatus.INTERNAL_SERVER_ERROR},
        )

    def _do(self, work: Callable[[ApiClient], Awaitable[_Answer]]) -> _Answer:
        async def within() -> _Answer:
            async with client_of(self.plane.admin) as client:
                return await work(client)

        return asyncio.run(within())


def lasting(name: str, *, group: str = "", on: str = "") -> Json:
    """A pod without an end; ``on``: a machine, where it is to be on nodes of that one alone."""
    pod_item = pod(name, group=group)
    pod_item["spec"]["terminationGracePeriodSeconds"] = 1
    if on:
        pod_item["spec"]["nodeSelector"] = {MACHINE: on}
    return pod_item


def single(name: str, seconds: float = 1.0, *, group: str = "") -> Json:
    lasting_item = lasting(name, group=group)
    lasting_item["metadata"]["annotations"][DURATION] = str(seconds)
    return lasting_item


def gang(name: str, width: int, seconds: float = 1.0) -> list[Json]:
    members = (single(f"{name}-{i}", seconds, group=name) for i in range(width))
    return [pod_group(name, width), *members]
