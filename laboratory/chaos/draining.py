"""Drains of nodes in a chaos run, as ``kubectl drain`` does them: cordoned, emptied by evictions
that budgets may refuse, and given back.

The checker judges from the history what was evicted: budgets held, gangs left as a whole.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import orjson

from laboratory.chaos.plan import COOL_DOWN, WARM_UP
from laboratory.chaos.report import ChaosReport
from laboratory.chaos.stage import ATTEMPT_SECONDS, Stage
from laboratory.workloads.bulk_client import BulkClient, BulkError
from laboratory.workloads.generators import Item

DRAIN_EVERY = 12.0
"""Average seconds between two drains."""
PATIENCE_SECONDS = 2.0
"""How long one eviction is asked for, while nobody leads or a budget refuses it, before the next
pod has its turn."""
ROUND_SECONDS = 0.2
_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class PlannedDrain:
    at: float
    """Seconds after the start of the load."""
    length: float
    """Seconds after which it gives up, as with ``--timeout``."""
    pick: float
    """In [0, 1): chooses the node."""


def plan_drains(seed: int, duration: float) -> list[PlannedDrain]:
    """The drains of a run in order of time; a pure function of its arguments."""
    rng = Random(seed + 1_000_003)
    window = max(duration - WARM_UP - COOL_DOWN, 0.1)
    count = max(1, round(window / DRAIN_EVERY))
    times = sorted(WARM_UP + rng.uniform(0.0, window) for _ in range(count))
    return [
        PlannedDrain(round(at, 3), round(rng.uniform(2.0, 6.0), 3), rng.random()) for at in times
    ]


class NodeDrains:
    def __init__(self, stage: Stage, nodes: Sequence[Item], report: ChaosReport) -> None:
        self._stage = stage
        self._nodes = nodes
        self._report = report

    async def run(self, drains: Sequence[PlannedDrain]) -> None:
        """Drain nodes at their times. Raises ApiError where a node cannot be cordoned."""
        stage = self._stage
        async with (
            BulkClient(
                *stage.parts.urls,
                timeout=ATTEMPT_SECONDS,
                patience=PATIENCE_SECONDS,
                token=stage.token,
            ) as api,
            asyncio.TaskGroup() as group,
        ):
            for drain in drains:
                group.create_task(self._at(drain, api))

    async def _at(self, drain: PlannedDrain, api: BulkClient) -> None:
        await asyncio.sleep(drain.at)
        node = self._nodes[int(drain.pick * len(self._nodes))]
        name: str = node["metadata"]["name"]
        began = time.monotonic()
        self._report.fault("drain node")
        self._stage.timeline.note(f"drain of node {name}")
        await self._stage.submit([node | {"spec": {"unschedulable": True}}])
        evicted, empty = await self._empty(name, api, until=began + drain.length)
        seconds = time.monotonic() - began
        if empty:
            self._report.recovered("drained node", seconds)
        verdict = "is empty" if empty else "is given back as it is"
        text = f"node {name} {verdict} after {seconds:.1f} s, {evicted} evictions were granted"
        self._stage.timeline.note(text)
        await self._stage.submit([node])

    async def _empty(self, name: str, api: BulkClient, *, until: float) -> tuple[int, bool]:
        """Evict the pods of Jobs on a node; (how many evictions were granted, whether none is
        left)."""
        evicted: set[str] = set()
        while time.monotonic() < until:
            try:
                pods = await _pods_on(name, api)
            except BulkError:  # nobody leads for a while
                continue
            if not pods:
                return len(evicted), True
            for uid, path in pods:
                if uid not in evicted and await _evict(path, api):
                    evicted.add(uid)
            await asyncio.sleep(ROUND_SECONDS)
        return len(evicted), False


async def _pods_on(name: str, api: BulkClient) -> list[tuple[str, str]]:
    """(uid, path) of the pods on a node that a Job makes anew; drains without force touch no
    others."""
    listed = await api.get(f"/api/v1/pods?fieldSelector=spec.nodeName={name}")
    return [
        (pod["metadata"]["uid"], f"/api/v1/namespaces/{space}/pods/{pod['metadata']['name']}")
        for pod in listed["items"]
        if (space := pod["metadata"]["namespace"])
        and pod["status"]["phase"] not in _ENDED
        and any(owner["kind"] == "Job" for owner in pod["metadata"].get("ownerReferences", ()))
    ]


async def _evict(path: str, api: BulkClient) -> bool:
    """Whether the eviction is granted. Refused, by a budget or because the pod has left or moves:
    the next look shows what is left to do."""
    space, name = path.split("/")[4], path.rpartition("/")[2]
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": space, "name": name},
    }
    try:
        await api.post(f"{path}/eviction", orjson.dumps(body))
    except BulkError:
        return False
    return True
