"""A double of KAI's binder: what it does with BindRequests, beside a scheduler.

One attempt: a reservation pod for each shared GPU, the labels and annotations of the pod, the
binding; then the status. A failure takes the labels back, and is tried again after 1, 2, 4 ...
seconds while the request's limit allows it. Reservations that no pod needs any more are deleted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from laboratory.local_kubernetes.client import STRATEGIC_PATCH, ApiClient
from laboratory.local_kubernetes.errors import UnexpectedAnswer

Json = dict[str, Any]
REQUESTS = "/apis/scheduling.run.ai/v1alpha2/bindrequests"
RESERVATIONS = "kai-resource-reservation"
GROUP = "runai-gpu-group"
TICK_SECONDS = 0.1


class KaiBinder:
    """``run`` serves all namespaces until it is cancelled."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self.silent = False
        """Whether it stands still."""
        self.fails: Callable[[Json], str] = lambda request: ""
        """Why an attempt at a request fails; "" where it does not."""
        self.attempts: list[tuple[str, str]] = []
        """(pod, node) of each attempt, in order."""
        self._due: dict[str, float] = {}
        """uid of a request -> when it is tried again."""

    async def run(self) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RESERVATIONS}}
        await self._client.post("/api/v1/namespaces", namespace, code=None)
        while True:
            if not self.silent:
                await self.step()
            await asyncio.sleep(TICK_SECONDS)

    async def step(self) -> None:
        """Look at everything once, and do what follows from it."""
        for request in (await self._client.get(REQUESTS))["items"]:
            if self._is_due(request):
                await self._reconcile(request)
        await self._release()

    def _is_due(self, request: Json) -> bool:
        status = request.get("status") or {}
        match status.get("phase", "Pending"):
            case "Succeeded":
                return False
            case "Failed":
                limit = request["spec"].get("backoffLimit")
                if limit is None or status["failedAttempts"] >= limit:
                    return False
                return time.monotonic() >= self._due.get(request["metadata"]["uid"], 0.0)
            case _:
                return True

    async def _reconcile(self, request: Json) -> None:
        spec, namespace = request["spec"], request["metadata"]["namespace"]
        path = f"/api/v1/namespaces/{namespace}/pods/{spec['podName']}"
        self.attempts.append((spec["podName"], spec["selectedNode"]))
        pod = await self._client.ask("GET", path)
        why = "" if pod["kind"] == "Pod" else f"pods {spec['podName']} not found"
        if not why and not pod["spec"].get("nodeName"):
            try:
                why = self.fails(request)
                if not why:
                    await self._bind(pod, path, spec)
            except UnexpectedAnswer as error:
                why = str(error)
            if why:
                why = f"failed to bind pod {spec['podName']} to {spec['selectedNode']}: {why}"
                await self._label(path, dict.fromkeys(labels_of(spec)))
        await self._tell(request, path, why)

    async def _bind(self, pod: Json, path: str, spec: Json) -> None:
        node = spec["selectedNode"]
        await self._client.get(f"/api/v1/nodes/{node}")
        for group in spec.get("selectedGPUGroups") or ():
            await self._reserve(node, group)
        await self._label(path, labels_of(spec))
        annotations = {
            "received-resource-type": spec["receivedResourceType"],
            "kai.scheduler/numa-placement-predicted": "[]",  # and others, by its plugins
        }
        await self._client.patch(path, {"metadata": {"annotations": annotations}})
        await self._client.bind({"apiVersion": "v1", "kind": "Pod"} | pod, node)

    async def _label(self, path: str, labels: Json) -> None:
        if labels:
            await self._client.patch(path, {"metadata": {"labels": labels}}, code=None)

    async def _tell(self, request: Json, path: str, why: str) -> None:
        meta, status = request["metadata"], request.get("status") or {}
        reports: Json = {"phase": "Failed" if why else "Succeeded"}
        attempts, limit = status.get("failedAttempts", 0), request["spec"].get("backoffLimit")
        if why:
            reports["reason"] = why
            if limit is not None and attempts < limit:
                reports["failedAttempts"] = attempts + 1
                self._due[meta["uid"]] = time.monotonic() + 2**attempts
        own = f"/apis/scheduling.run.ai/v1alpha2/namespaces/{meta['namespace']}/bindrequests"
        # It may have been deleted meanwhile, and the pod too.
        await self._client.patch(f"{own}/{meta['name']}/status", {"status": reports}, code=None)
        condition = {
            "type": "PodBound",
            "status": "False" if why else "True",
            "reason": "BindingError" if why else "Bound",
            "message": why,
        }
        body = {"status": {"conditions": [condition]}}
        await self._client.patch(f"{path}/status", body, form=STRATEGIC_PATCH, code=None)

    # --- reservations ---------------------------------------------------------------------------

    async def _reserve(self, node: str, group: str) -> None:
        """A pod that has the GPU as the kubelet counts, for all that share it. A group is one
        device of the whole cluster."""
        for pod in await self.reservations():
            if pod["metadata"]["labels"][GROUP] == group:
                if pod["spec"]["nodeName"] != node:
                    raise UnexpectedAnswer(f"group {group} is on {pod['spec']['nodeName']}")
                return
        amounts = {"nvidia.com/gpu": "1"}
        container = {"name": "c", "image": "i", "resources": {"limits": amounts}}
        reservation = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": "gpu-reservation-",
                "namespace": RESERVATIONS,
                "labels": {GROUP: group, "app": RESERVATIONS},
            },
            "spec": {"nodeName": node, "containers": [container]},
        }
        await self._client.post(f"/api/v1/namespaces/{RESERVATIONS}/pods", reservation)

    async def reservations(self) -> list[Json]:
        items: list[Json] = (await self._client.get(f"/api/v1/namespaces/{RESERVATIONS}/pods"))[
            "items"
        ]
        return items

    async def _release(self) -> None:
        reservations = await self.reservations()
        if not reservations:
            return
        used: set[str] = set()
        for pod in (await self._client.get("/api/v1/pods"))["items"]:
            over = pod["status"].get("phase") in ("Succeeded", "Failed")
            if pod["metadata"]["namespace"] != RESERVATIONS and not over:
                labels = pod["metadata"].get("labels") or {}
                used |= {text for key, text in labels.items() if key.startswith(GROUP)}
        for request in (await self._client.get(REQUESTS))["items"]:
            if (request.get("status") or {}).get("phase", "Pending") == "Pending":
                used |= set(request["spec"].get("selectedGPUGroups") or ())
        for pod in reservations:
            meta = pod["metadata"]
            if meta["labels"][GROUP] not in used:
                path = f"/api/v1/namespaces/{RESERVATIONS}/pods/{meta['name']}"
                await self._client.delete(path, gracePeriodSeconds="0")


def labels_of(spec: Json) -> dict[str, str]:
    """One shared GPU has the label of its own, several have one each."""
    groups = spec.get("selectedGPUGroups") or []
    if len(groups) == 1:
        return {GROUP: groups[0]}
    return {f"{GROUP}/{group}": group for group in groups}
