"""The shadow beside kube-scheduler on a real API server: both decide about the same pods."""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial
from pathlib import Path

import pytest

from coordinator.cluster.kubernetes.shadow.record import NAME as RECORD
from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.server_process import ServerProcess
from shared.settings.settings import load_settings
from tests.conftest import ROOT
from tests.deploy.rendered import of_kind, render
from tests.kubernetes.access import grant, user
from tests.kubernetes.audit import requests_of
from tests.kubernetes.driver.harness import Followed, followed, node, pod, until
from tests.kubernetes.driver.test_shadow import report

pytestmark = pytest.mark.timeout(240)

NAME = "shadow"
THEIRS = "default-scheduler"
PODS = 12


async def quadrant_says(*words: str, url: str = "", cwd: Path) -> str:
    """Output of a command of ours; it has to end with 0."""
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("quadrant"),
        *words,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "QUADRANT_SERVER": url, "COLUMNS": "200"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, error = await process.communicate()
    assert process.returncode == 0, error.decode()
    return out.decode()


def _has(quadrant: Followed, running: int) -> bool:
    return quadrant.states()["running"] == running


async def test_the_report_compares_and_the_record_is_a_trace_and_a_dump(
    cluster: ApiClient,
    control_plane: ControlPlane,
    kube_scheduler: ServerProcess,
    redis_url: str,
    short_dir: Path,
) -> None:
    """It has the rights that ``k8s/overlays/shadow`` gives."""
    (role,) = of_kind(render("shadow"), "ClusterRole")
    await grant(cluster, user(NAME), role["rules"])
    await cluster.create(*(node(f"n{i}") for i in range(4)))
    kubeconfig = control_plane.user(NAME).kubeconfig
    async with followed(redis_url, short_dir, cluster, kubeconfig, shadow=True) as quadrant:
        await until(lambda: quadrant.observed.cluster.mirror.complete)
        pods = [pod(f"p{i}", scheduler=THEIRS) for i in range(PODS)]
        await cluster.create(*pods, pod("huge", cpu=9, scheduler=THEIRS))
        await quadrant.until_bound(*(f"p{i}" for i in range(PODS)))

        async def compared() -> dict[str, str] | None:
            reports = {of["pod"]: of["verdict"] for of in (await report(quadrant))["pods"]}
            both = ("same node", "other node")
            result = sum(verdict in both for verdict in reports.values()) == PODS
            return reports if result and reports.get("default/huge") == "both wait" else None

        await until(compared)
        url = quadrant.service.url
        table = await quadrant_says("shadow", "report", url=url, cwd=short_dir)
        assert "default/huge" in table and "the largest node has 4" in table
        snapshot = await quadrant_says("snapshot", url=url, cwd=short_dir)
        (short_dir / "now.yaml").write_text(snapshot)
        for phase in ("Running", "Succeeded"):  # as kubelets would say; a trace has durations
            for i in range(PODS):
                path = f"/api/v1/namespaces/default/pods/p{i}/status"
                await cluster.patch(path, {"status": {"phase": phase}})
            running = PODS if phase == "Running" else 0
            await until(partial(_has, quadrant, running))
            await asyncio.sleep(1.0)
    requests = list(requests_of(control_plane.audit_log, NAME))
    assert not [request for request in requests if request.writes or request.code == 403]

    record = load_settings(run_dir=short_dir).data_dir / RECORD
    trace = await quadrant_says("shadow", "trace", str(record), cwd=short_dir)
    (short_dir / "jobs.csv").write_text(trace)
    replayed = await quadrant_says("replay", "now.yaml", cwd=short_dir)
    assert "1 wait" in replayed and "default/huge" in replayed
    result = await quadrant_says("demo", "--trace", "jobs.csv", "--nodes", "4", cwd=short_dir)
    assert f"{PODS} of {PODS} submitted" in " ".join(result.split()), result
