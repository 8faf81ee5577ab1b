"""The shadow beside another scheduler: it decides, tells what it would have done, and writes
nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from coordinator.cluster.kubernetes.shadow.record import NAME as RECORD
from coordinator.cluster.kubernetes.shadow.record import trace_rows
from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from shared.settings.settings import load_settings
from tests.kubernetes.access import grant, user
from tests.kubernetes.audit import requests_of
from tests.kubernetes.definitions import install_volcano
from tests.kubernetes.driver.harness import Followed, followed, node, pod, pod_group, until

pytestmark = pytest.mark.timeout(180)

NAME = "watcher"
REPORT = "/apis/quadrant.dev/v1alpha1/shadow"
THEIRS = "default-scheduler"


async def report(quadrant: Followed) -> dict[str, Any]:
    async with aiohttp.ClientSession(quadrant.service.url) as session, session.get(REPORT) as reply:
        value: dict[str, Any] = await reply.json()
        return value


async def verdicts(quadrant: Followed) -> dict[str, str]:
    return {of["pod"].partition("/")[2]: of["verdict"] for of in (await report(quadrant))["pods"]}


async def test_a_shadow_compares_with_the_cluster_and_writes_nothing(
    cluster: ApiClient,
    control_plane: ControlPlane,
    redis_url: str,
    short_dir: Path,
) -> None:
    await install_volcano(cluster)
    watcher = control_plane.user(NAME)
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
    await grant(cluster, user(NAME), [everything])
    await cluster.create(node("n1"), node("n2"))
    (before,) = await cluster.create(pod("before", scheduler=THEIRS))
    await cluster.bind(before, "n1")
    await cluster.create(pod("strange", group="No Name", scheduler=THEIRS))
    async with followed(redis_url, short_dir, cluster, watcher.kubeconfig, shadow=True) as quadrant:
        # As the other scheduler would leave them: alone, on another node, in part.
        (big,) = await cluster.create(pod("big", cpu=4, scheduler=THEIRS))
        await until(lambda: ours(quadrant, "big"))
        (alone, huge) = await cluster.create(
            pod("alone", scheduler=THEIRS), pod("huge", cpu=9, scheduler=THEIRS)
        )
        await until(lambda: ours(quadrant, "alone"))
        nodes = {of["pod"]: of["ours"] for of in (await report(quadrant))["pods"]}
        assert nodes["default/big"] == "n2", "n1 has a pod already, which counts"
        await cluster.bind(alone, nodes["default/alone"])
        await cluster.bind(huge, "n2")
        await until(lambda: has_verdicts(quadrant, alone="same node", huge="theirs alone"))
        assert (await verdicts(quadrant)) == {
            "before": "placed before",
            "alone": "same node",
            "big": "ours alone",
            "huge": "theirs alone",
        }
        report_lines = await report(quadrant)
        (why,) = [of["why"] for of in report_lines["pods"] if of["pod"] == "default/huge"]
        assert why.startswith("ExceedsNodeCapacity: "), why
        assert list(report_lines["notUnderstood"]["last"]) == ["default/strange"]
        # A gang that the other scheduler starts in part.
        await cluster.create(pod_group("gang", 9))
        gang = await cluster.create(
            *(pod(f"g{i}", group="gang", scheduler=THEIRS) for i in range(9))
        )
        await until(lambda: quadrant.states()["submitted"] == 13)
        await cluster.bind(gang[0], "n1")
        await until(lambda: has_verdicts(quadrant, g0="theirs alone", g1="both wait"))
        queue = (await report(quadrant))["queues"]["default"]
        assert queue["pods"] == 13
        assert queue["verdicts"]["both wait"] == 8
        assert big["spec"].get("nodeName") is None
    record = load_settings(run_dir=short_dir).data_dir / RECORD
    rows = list(trace_rows(record.read_bytes().splitlines(keepends=True)))
    assert [(row[2], row[3]) for row in rows][-1] == ("9", "default"), "the gang, as one job"
    assert len(rows) == 5
    requests = list(requests_of(control_plane.audit_log, NAME))
    assert any(request.verb == "watch" for request in requests)
    assert not [request for request in requests if request.writes]
    assert not [request for request in requests if request.code == 403], (
        "it needs no more than that"
    )
    assert set(await quadrant.nodes_of()) == {"before", "alone", "huge", "g0"}


async def ours(quadrant: Followed, *pods: str) -> bool:
    reports = {of["pod"]: of["ours"] for of in (await report(quadrant))["pods"]}
    return all(reports.get(f"default/{name}") for name in pods)


async def has_verdicts(quadrant: Followed, **wanted: str) -> bool:
    verdict_list = await verdicts(quadrant)
    return all(verdict_list.get(name) == verdict for name, verdict in wanted.items())
