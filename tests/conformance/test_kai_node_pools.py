"""KAI's scenarios in a cluster of two node pools: what is in the other one changes nothing, in a
session and with shards.

Each scenario's own objects are in pool blue; beside them stand an empty node with room for
everything, and a queue that is first and may have all of it, with a gang that waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from laboratory.replay.kai.scenario import read_kai_scenario
from laboratory.replay.kai.service import run_kai_sharded
from tests.conformance.forms import Form
from tests.conformance.kai_at_rest import differences
from tests.conformance.kai_differing import DIFFERS
from tests.conformance.kai_judge import wrong
from tests.conformance.kai_names import NAMES
from tests.conformance.test_kai import Scenarios, kai, lines_of

__all__ = ["kai"]
Json = dict[str, Any]

POOL = "kai.scheduler/node-pool"
EVERY = 8
"""Every so many of an action's scenarios are tried."""
ALL = {"quota": 1_000, "overQuotaWeight": 100, "limit": -1}
OFFERS = {"cpu": "9000", "memory": "9000G", "pods": "1000", "nvidia.com/gpu": "64"}
OTHERS: dict[str, list[Json]] = {
    "nodes": [
        {
            "metadata": {"name": "a-other", "labels": {"nvidia.com/gpu.count": "64"}},
            "status": {"capacity": OFFERS, "allocatable": OFFERS},
        }
    ],
    "queues": [
        {
            "metadata": {"name": "other", "creationTimestamp": "2020-01-01T00:00:00Z"},
            "spec": {"priority": 9_000, "resources": dict.fromkeys(("cpu", "memory", "gpu"), ALL)},
        }
    ],
    "podGroups": [
        {
            "metadata": {"name": "other", "namespace": "other"},
            "spec": {"queue": "other", "minMember": 1, "priorityClassName": "inference"},
        }
    ],
}
WAITING: Json = {
    "metadata": {
        "name": "other-0",
        "namespace": "other",
        "annotations": {"pod-group-name": "other"},
    },
    "spec": {
        "schedulerName": "kai-scheduler",
        "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
    },
    "status": {"phase": "Pending"},
}
SOME = [
    name
    for action in sorted({name.split("/")[1] for name in NAMES})
    for name in [name for name in NAMES if name.split("/")[1] == action][::EVERY]
]


def labelled(objects: list[Json], pool: str) -> Iterator[Json]:
    for item in objects:
        metadata = item["metadata"]
        labels = {**(metadata.get("labels") or {}), POOL: pool}
        yield {**item, "metadata": {**metadata, "labels": labels}}


def beside_another_pool(scenario: Mapping[str, Any]) -> Mapping[str, Any]:
    cluster = dict(scenario["cluster"])
    for kind, others in OTHERS.items():
        own = labelled(cluster.get(kind) or [], "blue")
        cluster[kind] = [*labelled(others, "red"), *own]
    cluster["pods"] = [WAITING, *(cluster.get("pods") or [])]
    policy = scenario["policy"]
    options = {**(policy.get("options") or {}), "partition-label-value": "blue"}
    return {**scenario, "cluster": cluster, "policy": {**policy, "options": options}}


def test_a_session_comes_out_as_in_kai(kai: Scenarios, subtests: pytest.Subtests) -> None:
    for name in SOME:
        with subtests.test(name):
            assert wrong(kai[name], lines_of(beside_another_pool(kai[name]))) == []


@pytest.mark.all
def test_three_shards_decide_as_kai(kai: Scenarios, subtests: pytest.Subtests) -> None:
    for name in SOME:
        with subtests.test(name):
            read = read_kai_scenario(beside_another_pool(kai[name]))
            rest = run_kai_sharded(read, Form.THREE_SOFT.sharding(0))
            assert not any(pod.startswith("other/") for pod in rest.binds)
            lines = differences(kai[name], read, rest, anywhere=True)
            assert bool(lines) is (Form.THREE_SOFT in DIFFERS.get(name, ())), lines
