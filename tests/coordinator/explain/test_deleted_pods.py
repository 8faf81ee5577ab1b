"""Pods that somebody deleted did not fail: not in a status, a story, a count or a metric."""

from __future__ import annotations

from pathlib import Path

from tests.coordinator.explain.cluster import asking, explained, node, pod, pod_group, settled
from tests.end_to_end.one_process.harness import running, submit

GROUP = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups/g"


async def test_a_running_and_a_waiting_pod_that_are_deleted_are_not_failed(
    tmp_path: Path, redis_url: str
) -> None:
    async with running(redis_url, tmp_path, shards=1) as service, asking(service) as http:
        await submit(service, node("a", cpu="64"), pod_group("g", 1))
        await submit(service, *[pod(f"p{i}", group="g", cpu="20") for i in range(4)])
        await settled(service, bound=3)
        pods = "/api/v1/namespaces/default/pods"
        async with http.get(pods) as answer:
            phases = {p["metadata"]["name"]: p["status"] for p in (await answer.json())["items"]}
        waiting = next(name for name, now in phases.items() if now["phase"] == "Pending")
        for name in (waiting, next(name for name in phases if name != waiting)):
            async with http.delete(f"{pods}/{name}") as answer:
                assert answer.status in (200, 202)
        await service.until(lambda status: status["tasks"]["deleted"] == 2)
        tasks = service.service.core.status()["tasks"]
        async with http.get(GROUP) as answer:
            group = (await answer.json())["status"]
        async with http.get("/metrics") as answer:
            metrics = await answer.text()
        explanation = await explained(service, "g", kind="podgroups")
    assert (tasks["submitted"], tasks["running"], tasks["finished"]) == (2, 2, 0)
    assert (group["running"], group["failed"]) == (2, 0)
    assert 'quadrant_tasks{state="failed"} 0.0' in metrics
    assert 'quadrant_tasks{state="deleted"} 2.0' in metrics
    assert (explanation["phase"], explanation["tasks"]["Deleted"]) == ("Running", 2)
    words = [entry["reason"] for entry in explanation["story"]]
    assert words.count("Deleted") == 2 and "Failed" not in words
