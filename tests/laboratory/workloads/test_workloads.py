"""The seeded workload's widths and totals, and the API objects made of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from laboratory.workloads.generators import (
    CPU,
    GANG_WIDTHS,
    LONGEST,
    MEAN_DURATION,
    PHILLY_WIDTHS,
    ClusterShape,
    job_items,
    lists,
    node_items,
    pod_items,
    queue_items,
    queue_names,
    seeded_workload,
    wide_job,
)
from laboratory.workloads.trace import Trace


def _trace(queues: tuple[str, ...] = ("a",)) -> Trace:
    return Trace(
        submit=np.array([0.0, 1.5]),
        duration=np.array([10.0, 0.25]),
        width=np.array([1, 3]),
        queue=np.array([0, len(queues) - 1]),
        queues=queues,
    )


def test_a_fifth_are_gangs_and_the_rest_has_the_published_widths() -> None:
    trace = seeded_workload(jobs=2000, seed=5, capacity=8000)
    narrowest, widest = GANG_WIDTHS
    gangs = trace.width >= narrowest
    philly_wide = sum(n for width, n in PHILLY_WIDTHS.items() if width >= narrowest)
    assert 400 <= gangs.sum() <= 402  # a Philly job is as wide once in 9,000
    assert philly_wide / sum(PHILLY_WIDTHS.values()) < 1 / 9000
    assert trace.width.max() <= widest
    narrow = trace.width[~gangs]
    assert set(narrow.tolist()) <= PHILLY_WIDTHS.keys()
    share = PHILLY_WIDTHS[1] / sum(PHILLY_WIDTHS.values())
    assert (narrow == 1).mean() == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize("seed", range(5))
def test_the_default_workload_keeps_8000_gpus_busy_for_less_than_a_minute(seed: int) -> None:
    trace = seeded_workload(jobs=2000, seed=seed, capacity=8000)
    seconds = float((trace.width * trace.duration).sum()) / 8000 / 1000  # at speedup 1000
    assert 40 < seconds < 50
    assert trace.duration.max() <= LONGEST * MEAN_DURATION
    assert trace.duration.min() > 0


def test_the_seed_decides_everything() -> None:
    one, same, other = (seeded_workload(jobs=300, seed=s, capacity=800) for s in (1, 1, 2))
    for column in ("submit", "duration", "width", "queue"):
        assert (getattr(one, column) == getattr(same, column)).all()
        assert not (getattr(one, column) == getattr(other, column)).all()


def test_no_job_is_wider_than_the_cluster_and_arrivals_ask_for_nine_tenths() -> None:
    trace = seeded_workload(jobs=2000, seed=1, capacity=100)
    assert trace.width.max() == 100
    load = float((trace.width * trace.duration).sum()) / (100 * trace.submit[-1])
    assert load == pytest.approx(0.9, abs=0.1)
    assert trace.submit[0] == 0
    assert (np.diff(trace.submit) >= 0).all()


def test_a_single_job() -> None:
    assert seeded_workload(jobs=1, seed=1, capacity=10).jobs == 1


def test_job_objects() -> None:
    first, second = job_items(_trace(("Vision Lab", "b")), resource=CPU)
    assert first["metadata"] == {"name": "job-1", "namespace": "default"}
    assert first["spec"]["queue"] == "vision-lab"
    assert second["spec"]["queue"] == "b"
    assert second["spec"]["minAvailable"] == 3
    (role,) = second["spec"]["tasks"]
    assert role["replicas"] == 3
    assert role["template"]["metadata"]["annotations"] == {"quadrant.dev/duration": "0.25"}
    container = role["template"]["spec"]["containers"][0]
    assert container["resources"]["requests"] == {"cpu": "1"}


def test_queue_names_are_object_names_and_differ() -> None:
    trace = _trace(("A B", "a-b", "root", "--", "x" * 300, "6214e9"))
    names = queue_names(trace)
    assert names == ["a-b", "a-b-2", "root-2", "queue", "x" * 200, "6214e9"]
    weights = {item["metadata"]["name"]: item["spec"]["weight"] for item in queue_items(trace)}
    assert weights == dict.fromkeys(names, 1)


def test_node_objects_offer_a_place_for_every_task() -> None:
    nodes = list(node_items(ClusterShape(11, 8)))
    assert [n["metadata"]["name"] for n in nodes][::10] == ["node-00", "node-10"]
    assert nodes[0]["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    (wide,) = node_items(ClusterShape(1, 300, CPU))
    offer = wide["status"]["allocatable"]
    assert (offer["cpu"], offer["pods"]) == ("300", "300")
    assert "nvidia.com/gpu" not in offer


def test_pods_of_their_own_run_until_deleted() -> None:
    pods = list(pod_items(3))
    assert [p["metadata"]["name"] for p in pods] == ["pod-0", "pod-1", "pod-2"]
    assert all(p["metadata"]["annotations"] == {} for p in pods)
    assert wide_job(7)["spec"]["tasks"][0]["replicas"] == 7


def test_lists_hold_at_most_the_limit_in_order() -> None:
    items: list[dict[str, Any]] = [{"n": i} for i in range(5)]
    bodies = list(lists(items, limit=2))
    assert [len(body["items"]) for body in bodies] == [2, 2, 1]
    assert [item["n"] for body in bodies for item in body["items"]] == list(range(5))
    assert list(lists([])) == []
