"""Three machines: one is cut off for half a minute, Ray's head is killed, one is pulled."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.verification.checker.check import check
from tests.machines.cluster import SHARDS, Cluster, three_machines
from tests.machines.machine import possible

pytestmark = [
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not possible(), reason="network namespaces need root and iproute2"),
]

Json = dict[str, Any]
NODES, CORES = 24, 8
CUT_SECONDS = 30.0


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="qm-"))  # short: sockets stand in it
    try:
        with three_machines(folder) as cluster:
            cluster.apply(*(node(f"n{i}") for i in range(NODES)))
            cluster.until(lambda status: sum(s["nodes"] for s in status["shards"]) == NODES)
            yield cluster
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def node(name: str) -> Json:
    amounts = {"cpu": str(CORES), "memory": "64Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": amounts},
    }


def gang(name: str, width: int, seconds: float = 1.0) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"annotations": {"quadrant.dev/duration": str(seconds)}},
        "spec": {"containers": [container]},
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "minAvailable": width,
            "tasks": [{"name": "work", "replicas": width, "template": template}],
        },
    }


def finished(jobs: int) -> Callable[[Json], bool]:
    return lambda status: bool(status["jobs"]["finished"] >= jobs)


def all_up(status: Json) -> bool:
    return all(shard["up"] for shard in status["shards"])


def shard_workers(cluster: Cluster) -> list[int]:
    """How many run on each of the two machines."""
    return [sum("ShardActor" in line for line in m.commands()) for m in cluster.workers]


def test_a_machine_is_cut_off_the_head_is_killed_a_machine_is_pulled(cluster: Cluster) -> None:
    first, second = cluster.workers
    assert all(shard_workers(cluster)), "both machines have some"
    jobs = [gang(f"before-{i}", width) for i, width in enumerate((4, 8, 60, 16))]
    cluster.apply(*jobs)
    cluster.until(finished(4))

    first.cut_off()
    began = time.monotonic()
    cluster.apply(*(gang(f"cut-{i}", 8) for i in range(8)))
    cluster.until(finished(12), CUT_SECONDS)  # by the shards that are reached
    time.sleep(max(0.0, began + CUT_SECONDS - time.monotonic()))
    first.join()
    cluster.until(all_up)
    cluster.apply(gang("across", NODES * CORES // 2))
    cluster.until(finished(13))

    cluster.kill_ray_head()
    cluster.start_ray_head()
    cluster.apply(*(gang(f"headless-{i}", 8) for i in range(4)))
    cluster.until(lambda status: finished(17)(status) and all_up(status))

    cluster.pull(second)
    cluster.apply(*(gang(f"pulled-{i}", 16) for i in range(4)))
    cluster.until(lambda status: finished(21)(status) and all_up(status))
    assert shard_workers(cluster)[0] == SHARDS, "all of them are on the machine that is left"

    cluster.stop_quadrant()
    report = check(cluster.history, closed=True)
    assert report.ok, [str(violation) for violation in report.violations]
    assert report.summary.jobs_finished == 21
