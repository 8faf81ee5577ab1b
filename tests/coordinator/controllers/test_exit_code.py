"""Pods that end badly, by their annotation: from the object to the report."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from coordinator.cluster.events import ClusterEvent, ReportedUsage
from coordinator.cluster.protocol import BindRequests, Report
from coordinator.cluster.simulated.client import SocketCluster
from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.cluster.simulated.host import ClusterHost
from coordinator.intake.documents.kinds import POD
from shared.errors import Refusal
from shared.manifests.parse import parse
from shared.model.model import Job, Role
from shared.records.specs_jobs import decode_job, encode_job
from tests.builders import objects
from tests.builders.objects import Item, node, pod_group
from tests.coordinator.controllers.support import submit, writer
from tests.end_to_end.one_process.harness import running


def pod(name: str, code: object, group: str = "") -> Item:
    annotations: Item = {"quadrant.dev/duration": "0.01", "quadrant.dev/exit-code": code}
    item = objects.pod(name, group=group)
    item["metadata"]["annotations"] |= annotations
    return item


@pytest.mark.parametrize("code", ["256", "-1", "one", 1, ""])
def test_an_invalid_exit_code_annotation_is_refused(code: object) -> None:
    refusal = parse(pod("p", code))
    assert isinstance(refusal, Refusal)
    assert refusal.field == "metadata.annotations.quadrant.dev/exit-code"
    assert "from 0 to 255" in refusal.message


@pytest.mark.parametrize("code", [0, 3])
def test_it_is_durable_with_the_role(code: int) -> None:
    role = Role("r", 1, 0, 2, duration=1.5, exit_code=code)
    job = Job(1, "ns", "j", "Job", "u", "q", 0.0, roles=(role,))
    assert decode_job(encode_job(job)) == job


async def test_only_pods_that_say_so_fail(tmp_path: Path, redis_url: str) -> None:
    group = pod_group("g", minMember=3)
    async with running(redis_url, tmp_path, grace=0.01) as service:
        pods = [pod("a", "0", "g"), pod("b", "7", "g"), pod("c", "0", "g"), pod("alone", "1")]
        await submit(service, node(), group, *pods)
        await service.until(lambda s: s["tasks"]["finished"] == 4)
        objects = service.service.objects.list(POD, namespace="ns", limit=None).items
        items = [entry.object() for entry in objects]
        phases = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in items}
        assert phases == {"a": "Succeeded", "b": "Failed", "c": "Succeeded", "alone": "Failed"}
        assert (await writer(service).submit(pods)).unchanged == 4
        assert (await writer(service).submit([pod("a", "1", "g")])).refused


class Unwritten:
    """A history that nobody keeps."""

    position = ""

    def cluster_events(self, events: list[ClusterEvent]) -> None:
        pass

    def acknowledged(self, t: float, jobs: list[tuple[int, int]]) -> None:
        pass

    def measured(self, t: float, measured: ReportedUsage) -> None:
        pass


async def test_it_reaches_the_cluster_over_its_socket(tmp_path: Path) -> None:
    host = ClusterHost(LocalCluster(grace=0.01), Unwritten(), time.monotonic)
    path = str(tmp_path / "c.sock")
    server = await asyncio.get_running_loop().create_unix_server(host.connection, path)
    moving = asyncio.create_task(host.run())
    cluster = SocketCluster(path)
    tasks = ["0.0", "0.1"]
    requests = BindRequests(tasks, ["u", "u"], ["p", "q"], ["n", "n"], [0.01, 0.01], [0, 1])
    await cluster.bind(requests)
    ends: dict[str, int] = {}
    async with asyncio.timeout(60.0):
        after = 0
        while len(ends) < 2:
            reports = await cluster.reports(after=after, wait=1.0)
            after = reports.last
            output = zip(reports.kinds, reports.tasks, strict=True)
            ends |= {t: k for k, t in output if k in (Report.SUCCEEDED, Report.FAILED)}
    assert ends == {"0.0": Report.SUCCEEDED, "0.1": Report.FAILED}
    await cluster.close()
    host.close()
    server.close()
    moving.cancel()
    await asyncio.gather(moving, return_exceptions=True)


def test_the_columns_of_a_bind_are_of_one_length() -> None:
    with pytest.raises(ValueError, match="exit codes"):
        LocalCluster().bind(BindRequests(["0.0"], ["u"], ["p"], ["n"], [1.0], [0, 0]), 0.0)
