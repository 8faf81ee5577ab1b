"""Hollow kubelets: nodes whose pods run without containers.

A pod that is bound to one of their nodes is admitted where it fits, runs, and ends after the
seconds of its annotation ``quadrant.dev/duration`` with the code of ``quadrant.dev/exit-code``. A
pod that is deleted goes after its grace, or after ``stop_seconds`` where that is sooner.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import UTC, datetime
from enum import Enum, auto
from http import HTTPStatus
from typing import Any

import aiohttp
import orjson

from laboratory.local_kubernetes.client import STRATEGIC_PATCH, ApiClient, Json
from laboratory.local_kubernetes.errors import UnexpectedAnswer
from laboratory.workloads.manifests import manifest
from shared.units.quantity import amount

DURATION = "quadrant.dev/duration"
EXIT_CODE = "quadrant.dev/exit-code"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
LEASE_SECONDS = 10.0
"""Between two renewals of a node's lease, as a real kubelet has it."""
_WRITERS = 16
_RETRY = 0.2
CONFLICTS = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
"""The pod is gone, or another one of its name is there: nothing is left to be done for it."""


class Step(Enum):
    START = auto()
    END = auto()
    REMOVE = auto()


class HollowKubelets:
    """``run`` serves the nodes that ``join`` added, until it is cancelled."""

    def __init__(
        self,
        client: ApiClient,
        *,
        start_seconds: float = 0.0,
        stop_seconds: float = 0.0,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self._client = client
        self._lease_seconds = lease_seconds
        self._start_seconds, self._stop_seconds = start_seconds, stop_seconds
        self._room = NodeRoom()
        self._silent: set[str] = set()
        self._nodes: set[str] = set()
        self._refusals: dict[str, list[str]] = {}
        self._verdicts: dict[str, str] = {}
        """Pod's uid -> why it was refused, "" for one that was admitted."""
        self._stuck: set[str] = set()
        self._pods: dict[str, Json] = {}
        self._planned: set[tuple[str, Step]] = set()
        self._due: list[tuple[float, int, str, Step]] = []
        self._order = itertools.count()
        self._more = asyncio.Event()
        self._work: asyncio.Queue[tuple[str, Step]] = asyncio.Queue()

    # --- nodes --------------------------------------------------------------------------------

    async def join(
        self,
        names: Iterable[str],
        allocatable: Mapping[str, str],
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Create nodes that are ready, all alike, and their leases."""
        amounts = {"pods": "110", **allocatable}
        for name in names:
            item = ready_node(name, amounts, labels or {})
            item["metadata"]["annotations"] = dict(annotations or {})
            self._room.add_node(name, amounts)
            self._nodes.add(name)
            await self._client.create(item)
            await self._client.ask("POST", LEASES, lease(name))

    def adopt(self, names: Iterable[str], allocatable: Mapping[str, str]) -> None:
        """Serve nodes that exist, all alike. They have no leases."""
        for name in names:
            self._nodes.add(name)
            self._room.add_node(name, dict(allocatable))

    def silence(self, node: str) -> None:
        """The machine stops: no lease is renewed, and nothing that runs there is told of."""
        self._silent.add(node)

    async def remove(self, node: str) -> None:
        """Delete the node under its pods, as whoever scales a cluster down."""
        self._nodes.discard(node)
        self._room.remove_node(node)
        await self._client.delete(f"/api/v1/nodes/{node}")

    def refuse(self, node: str, reason: str, times: int = 1) -> None:
        """Have the next pods on this node fail with a reason instead of starting."""
        self._refusals.setdefault(node, []).extend([reason] * times)

    def hold(self, pod: str) -> None:
        """A pod (``namespace/name``) that does not go when it is deleted."""
        self._stuck.add(pod)

    # --- what runs ----------------------------------------------------------------------------

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            group.create_task(self._dispatch())
            group.create_task(self._renew())
            for _ in range(_WRITERS):
                group.create_task(self._write())

    async def _follow(self) -> None:
        selector = {"fieldSelector": "spec.nodeName!="}
        async for kind, pod in changes(self._client, "/api/v1/pods", **selector):
            uid = pod["metadata"]["uid"]
            if kind == "DELETED":
                self._pods.pop(uid, None)
                self._room.release(uid)
            elif pod["spec"]["nodeName"] in self._nodes - self._silent:
                self._pods[uid] = pod
                self._plan(uid, pod)

    def _plan(self, uid: str, pod: Json) -> None:
        metadata, phase = pod["metadata"], pod.get("status", {}).get("phase", "Pending")
        annotations = metadata.get("annotations", {})
        if phase in ("Succeeded", "Failed"):
            self._room.release(uid)
        if "deletionTimestamp" in metadata:
            grace = float(metadata.get("deletionGracePeriodSeconds", 30))
            self._after(min(grace, self._stop_seconds), uid, Step.REMOVE)
        elif phase == "Pending":
            self._after(self._start_seconds, uid, Step.START)
        elif phase == "Running" and DURATION in annotations:
            self._after(float(annotations[DURATION]), uid, Step.END)

    def _after(self, seconds: float, uid: str, step: Step) -> None:
        if (uid, step) not in self._planned:
            self._planned.add((uid, step))
            heapq.heappush(self._due, (_clock() + seconds, next(self._order), uid, step))
            self._more.set()

    async def _dispatch(self) -> None:
        while True:
            self._more.clear()
            now = _clock()
            while self._due and self._due[0][0] <= now:
                *_, uid, step = heapq.heappop(self._due)
                self._work.put_nowait((uid, step))
            wait = self._due[0][0] - now if self._due else None
            try:
                async with asyncio.timeout(wait):
                    await self._more.wait()
            except TimeoutError:
                continue

    async def _write(self) -> None:
        while True:
            uid, step = await self._work.get()
            pod = self._pods.get(uid)
            if pod is None or pod["spec"]["nodeName"] not in self._nodes - self._silent:
                continue
            try:
                await self._do(step, pod)
            except (aiohttp.ClientError, TimeoutError, UnexpectedAnswer):
                self._planned.discard((uid, step))  # the server is away, or refused for a time
                self._after(_RETRY, uid, step)

    async def _do(self, step: Step, pod: Json) -> None:
        match step:
            case Step.START:
                # Asked again because its answer was lost, it must not take back an end that came
                # meanwhile.
                if pod.get("status", {}).get("phase", "Pending") == "Pending":
                    await self._start(pod)
            case Step.END:
                code = int(pod["metadata"]["annotations"].get(EXIT_CODE, "0"))
                await self._patch(pod, ended(pod, code))
            case Step.REMOVE:
                await self._remove(pod)

    async def _start(self, pod: Json) -> None:
        uid = pod["metadata"]["uid"]
        if uid not in self._verdicts:
            refusals = self._refusals.get(pod["spec"]["nodeName"])
            self._verdicts[uid] = refusals.pop(0) if refusals else self._room.admit(pod)
        reason = self._verdicts[uid]
        await self._patch(pod, refused(reason) if reason else started())

    async def _remove(self, pod: Json) -> None:
        metadata = pod["metadata"]
        if f"{metadata['namespace']}/{metadata['name']}" in self._stuck:
            return
        if pod.get("status", {}).get("phase") == "Running":
            await self._patch(pod, ended(pod, 143))
        preconditions = {"uid": metadata["uid"]}
        options = {"gracePeriodSeconds": 0, "preconditions": preconditions}
        answer = await self._client.delete(path_of(pod), code=None, options=options)
        check(answer)

    async def _patch(self, pod: Json, status: Json) -> None:
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        path = f"{path_of(pod)}/status"
        # Conditions are merged by their type: PodScheduled is somebody else's.
        check(await self._client.patch(path, body, form=STRATEGIC_PATCH, code=None))

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._lease_seconds)
            for node in sorted(self._nodes - self._silent):
                body = {"spec": {"renewTime": _now()}}
                # Where the server is away the next renewal comes in time.
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    await self._client.patch(f"{LEASES}/{node}", body, code=None)


def check(answer: Json) -> None:
    """A refusal that is not about the pod's end is asked again."""
    code = answer.get("code", 200) if answer.get("kind") == "Status" else 200
    if code != HTTPStatus.OK and code not in CONFLICTS:
        raise UnexpectedAnswer(str(answer))


def path_of(pod: Json) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def ready_node(name: str, amounts: Mapping[str, str], labels: Mapping[str, str]) -> Json:
    conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    metadata = {"labels": {"kubernetes.io/hostname": name, **labels}}
    status = {"allocatable": dict(amounts), "capacity": dict(amounts), "conditions": conditions}
    return manifest("Node", name, metadata=metadata, status=status)


def lease(node: str) -> Json:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": node},
        "spec": {"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": _now()},
    }


def started() -> Json:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kinds = ("Initialized", "Ready", "ContainersReady")
    conditions = [{"type": k, "status": "True", "lastTransitionTime": now} for k in kinds]
    return {"phase": "Running", "startTime": now, "conditions": conditions}


def ended(pod: Json, code: int) -> Json:
    terminated: dict[str, Any] = {"exitCode": code, "reason": "Error" if code else "Completed"}
    statuses = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": terminated},
        }
        for container in pod["spec"]["containers"]
    ]
    return {"phase": "Failed" if code else "Succeeded", "containerStatuses": statuses}


def refused(reason: str) -> Json:
    message = f"Pod was rejected: {reason}"
    return {"phase": "Failed", "reason": reason, "message": message}


def _clock() -> float:
    """The loop's own: of a seeded run it is virtual."""
    return asyncio.get_running_loop().time()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


Amounts = dict[str, int]
_REASONS = {"cpu": "OutOfcpu", "memory": "OutOfmemory", "pods": "OutOfpods"}


class NodeRoom:
    """Admission of a kubelet: the admitted pods' requests of each node, against what it has."""

    def __init__(self) -> None:
        self._allocatable: dict[str, Amounts] = {}
        self._used: dict[str, Amounts] = defaultdict(lambda: defaultdict(int))
        self._admitted: dict[str, tuple[str, Amounts]] = {}

    def add_node(self, name: str, allocatable: dict[str, str]) -> None:
        self._allocatable[name] = {r: amount(r, text, r) for r, text in allocatable.items()}

    def remove_node(self, name: str) -> None:
        self._allocatable.pop(name, None)

    def admit(self, pod: Json) -> str:
        """Take the pod's room, once; otherwise return the reason that a kubelet gives."""
        uid, node = pod["metadata"]["uid"], pod["spec"]["nodeName"]
        if uid in self._admitted:
            return ""
        requests = requests_of(pod)
        used, allocatable = self._used[node], self._allocatable[node]
        for resource, amount_wanted in requests.items():
            if amount_wanted and used[resource] + amount_wanted > allocatable.get(resource, 0):
                return _REASONS.get(resource, f"OutOf{resource}")
        for resource, amount_wanted in requests.items():
            used[resource] += amount_wanted
        self._admitted[uid] = node, requests
        return ""

    def release(self, uid: str) -> None:
        node, requests = self._admitted.pop(uid, ("", {}))
        for resource, amounts in requests.items():
            self._used[node][resource] -= amounts


def requests_of(pod: Json) -> Amounts:
    """The sum over its containers, with the pod itself as one of ``pods``."""
    total: Amounts = defaultdict(int, pods=1)
    for container in pod["spec"]["containers"]:
        for resource, text in container.get("resources", {}).get("requests", {}).items():
            total[resource] += amount(resource, text, resource)
    return total


_PAUSE = 0.1
"""Seconds after a failed request."""


async def changes(client: ApiClient, path: str, **query: Any) -> AsyncIterator[tuple[str, Json]]:
    """Pairs (``ADDED`` | ``MODIFIED`` | ``DELETED``, object), for ever, across cut streams and
    restarts of the API server.

    After an expired version everything is listed anew, as ADDED; what was deleted meanwhile is
    not told.
    """
    version = ""
    while True:
        try:
            if not version:
                listed = await client.get(path, **query)
                version = listed["metadata"]["resourceVersion"]
                for item in listed["items"]:
                    yield "ADDED", item
            async with client.watch(
                path, resourceVersion=version, allowWatchBookmarks="true", **query
            ) as answer:
                async for line in answer.content:
                    event = orjson.loads(line)
                    if event["type"] == "ERROR":
                        version = ""
                        break
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        yield event["type"], event["object"]
        except (aiohttp.ClientError, UnexpectedAnswer, orjson.JSONDecodeError, TimeoutError):
            await asyncio.sleep(_PAUSE)  # the server is away, or overloaded
