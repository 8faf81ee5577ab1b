"""How a session's end is told: phases of PodGroups, and what a snapshot adds to the objects."""

from __future__ import annotations

from typing import Any

import pytest

from laboratory.replay.cases import read_cases
from laboratory.replay.outcome import phase_by
from laboratory.replay.snapshot import snapshot
from shard_worker.session_model.status import Status
from tests.laboratory.replay.build import group, node, pod, policy

RUNNING, DONE, PENDING = Status.RUNNING, Status.SUCCEEDED, Status.PENDING


@pytest.mark.parametrize(
    ("counts", "more", "phase"),
    [
        ({RUNNING: 2}, {}, "Running"),
        ({RUNNING: 1, Status.BOUND: 1}, {}, "Running"),
        ({RUNNING: 1}, {"leaving": 1}, "Running"),
        ({RUNNING: 1, PENDING: 1}, {"unschedulable": True}, "Unknown"),
        ({PENDING: 2}, {"unschedulable": True}, "Pending"),
        ({PENDING: 2}, {"before": "Inqueue"}, "Inqueue"),
        ({PENDING: 2}, {"before": "Running"}, "Pending"),
        ({Status.BINDING: 2}, {"before": "Inqueue"}, "Inqueue"),
        ({DONE: 1, Status.FAILED: 1}, {}, "Completed"),
        ({DONE: 2, RUNNING: 1}, {}, "Running"),
        ({DONE: 1}, {"leaving": 1}, "Running"),
        ({DONE: 1, PENDING: 1}, {}, "Pending"),
    ],
)
def test_the_phase_of_a_group_of_two(
    counts: dict[Status, int], more: dict[str, Any], phase: str
) -> None:
    report: dict[str, Any] = {"leaving": 0, "before": "Pending", "unschedulable": False} | more
    assert phase_by(counts, minimum=2, **report) == phase


def test_a_snapshot_has_the_state_that_only_the_service_has() -> None:
    timestamp = 1_800_000_000.25
    jobs = [
        {"kind": "PodGroup", "namespace": "ns", "name": name, "number": number, "created": 1e9}
        for number, name in enumerate(["z", "a"])
    ]
    record = {
        "takenAt": timestamp,
        "shards": 2,
        "policy": policy("allocate", "gang"),
        "jobs": jobs,
        "promised": {"ns/a-0": "n"},
        "leaving": ["ns/z-0"],
    }
    objects = [
        node("n"),
        group("a"),
        group("z"),
        pod("z-0", group="z", on="n"),
        pod("a-0", group="a"),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}},
    ]
    dump = snapshot(objects, record)
    assert [item["kind"] for item in dump["items"]].count("Namespace") == 0
    [built] = read_cases([("dump", [dump])])
    assert (built.now, built.policy.actions, built.notes) == (timestamp, ("allocate",), [])
    jobs_of = {placed_job.job.name: placed_job for placed_job in built.recorded.placed_jobs}
    assert jobs_of["z"].states == {0: Status.RELEASING}
    assert jobs_of["a"].nominated == {0: 0}
    assert jobs_of["z"].job.created < jobs_of["a"].job.created
