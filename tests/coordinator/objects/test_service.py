"""Objects of a whole service: real ledger and workers, and what a successor shows."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from coordinator.intake.documents.document import Key
from coordinator.objects.store import EPOCH_BITS
from coordinator.objects.watchers import WatchExpired
from shared.slices import at_once
from tests.builders.objects import job, node, pod, queue, task
from tests.coordinator.objects.world import KIND
from tests.end_to_end.one_process.harness import Running, running, submit

LISTS = "/apis/quadrant.dev/v1alpha1/lists"


def lasting(item: dict[str, Any]) -> dict[str, Any]:
    item["metadata"]["annotations"] |= {"quadrant.dev/duration": "600"}
    return item


async def test_a_successor_shows_the_same_objects_under_newer_versions(
    redis_url: str, tmp_path: Path
) -> None:
    live: dict[str, Any] = {}
    async with running(redis_url, tmp_path) as first:
        annotations = {"quadrant.dev/duration": "600"}
        template = {"metadata": {"annotations": annotations}, "spec": pod()["spec"]}
        roles = [{"name": "w", "replicas": 2, "template": template}]
        items = [node("n0"), queue("q"), lasting(pod("p")), job("j", tasks=roles, queue="q")]
        await submit(first, *items, job("large", tasks=[task(replicas=99)]))
        await first.until(lambda status: status["tasks"]["running"] == 3)
        objects = first.service.objects
        for kind, name in (("Pod", "p"), ("Pod", "j-w-1"), ("Job", "j"), ("Node", "n0")):
            namespace = "" if kind == "Node" else "ns"
            live[f"{kind}/{name}"] = objects.get(KIND[kind], namespace, name)
        last = objects.version
        assert live["Pod/p"]["status"]["phase"] == "Running"
    async with running(redis_url, tmp_path) as second:
        await second.until(lambda status: status["tasks"]["running"] == 3)
        objects = second.service.objects
        for path, before in live.items():
            kind, name = path.split("/")
            now = objects.get(KIND[kind], "" if kind == "Node" else "ns", name)
            assert now is not None
            assert now["metadata"]["uid"] == before["metadata"]["uid"]
            assert now["metadata"]["creationTimestamp"] == before["metadata"]["creationTimestamp"]
            assert now["spec"] == before["spec"]
            assert now["status"].get("phase") == before["status"].get("phase")
            assert int(now["metadata"]["resourceVersion"]) > last
        assert objects.version >> EPOCH_BITS > last >> EPOCH_BITS
        with pytest.raises(WatchExpired):
            at_once(objects.changes(last, KIND["Pod"]))
        # Who waited before is told why again.
        await second.until(lambda status: bool(_event_message(second, "large")))
        report = _event_message(second, "large")
        assert "ExceedsNodeCapacity" in report or "NotEnoughResources" in report


def _event_message(service: Running, job_name: str) -> str:
    page = service.service.objects.list(KIND["Event"], namespace="ns", limit=None)
    about = (e for e in page.items if e.field("involvedObject.name") == job_name)
    return next((e.object()["message"] for e in about), "")


async def test_a_deleted_pod_is_seen_terminating_and_then_deleted(
    redis_url: str, tmp_path: Path
) -> None:
    async with running(redis_url, tmp_path) as service:
        await submit(service, node("n0"), lasting(pod("p")))
        await service.until(lambda status: status["tasks"]["running"] == 1)
        objects, writer = service.service.objects, service.service._writer
        assert writer is not None
        observed, words = objects.version, []
        await writer.change(Key("Pod", "ns", "p"), lambda before: None)
        async with asyncio.timeout(60):
            while "DELETED" not in words:
                changes = at_once(objects.changes(observed, KIND["Pod"]))
                words += [change.type for change in changes]
                value = objects.get(KIND["Pod"], "ns", "p")
                if value is not None:
                    assert value["metadata"]["deletionTimestamp"]
                observed = objects.version
                await objects.wait(observed) if "DELETED" not in words else None
        assert changes[-1].last is not None
        assert changes[-1].last()["metadata"]["name"] == "p"
        assert objects.get(KIND["Pod"], "ns", "p") is None
