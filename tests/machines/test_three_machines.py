"""Three machines: one is cut off for half a minute, Ray's head is killed, one is pulled."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from laboratory.checker.check import check
from tests.builders.objects import node, simple_job
from tests.machines.cluster import CUT_SECONDS, SHARDS, Cluster, all_up, three_machines
from tests.machines.machine import possible

pytestmark = [
    pytest.mark.slow,
    pytest.mark.thorough,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not possible(), reason="network namespaces need root and iproute2"),
]

Json = dict[str, Any]
NODES, CORES = 24, 8


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="qm-"))  # short: sockets stand in it
    try:
        with three_machines(folder) as cluster:
            cluster.begin()
            cluster.apply(*(node(f"n{i}", cpu=CORES, memory="64Gi") for i in range(NODES)))
            cluster.until(lambda status: sum(s["nodes"] for s in status["shards"]) == NODES)
            yield cluster
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def gang(name: str, width: int, seconds: float = 1.0) -> Json:
    return simple_job(name, width, namespace="default", seconds=seconds)


def finished(jobs: int) -> Callable[[Json], bool]:
    return lambda status: bool(status["jobs"]["finished"] >= jobs)


def test_a_machine_is_cut_off_the_head_is_killed_a_machine_is_pulled(cluster: Cluster) -> None:
    first, second = cluster.workers
    assert all(cluster.shard_workers()), "both machines have some"
    jobs = [gang(f"before-{i}", width) for i, width in enumerate((4, 8, 60, 16))]
    cluster.apply(*jobs)
    cluster.until(finished(4))

    with cluster.cut_off(first):
        cluster.apply(*(gang(f"cut-{i}", 8) for i in range(8)))
        cluster.until(finished(12), CUT_SECONDS)  # by the shards that are reached
    cluster.apply(gang("across", NODES * CORES // 2))
    cluster.until(finished(13))

    cluster.kill_ray_head()
    cluster.start_ray_head()
    cluster.apply(*(gang(f"headless-{i}", 8) for i in range(4)))
    cluster.until(lambda status: finished(17)(status) and all_up(status))

    cluster.pull(second)
    cluster.apply(*(gang(f"pulled-{i}", 16) for i in range(4)))
    cluster.until(lambda status: finished(21)(status) and all_up(status))
    assert cluster.shard_workers()[0] == SHARDS, "all of them are on the machine that is left"

    cluster.stop_quadrant()
    report = check(cluster.history, closed=True)
    assert report.ok, [str(violation) for violation in report.violations]
    assert report.summary.jobs_finished == 21
