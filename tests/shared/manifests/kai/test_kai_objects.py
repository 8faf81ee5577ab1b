"""KAI's objects: what is read from them, and what its webhooks, and ours, refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shared.errors import InvalidInput
from shared.manifests.kai.groups import pod_set_of, read_kai_pod_group
from shared.manifests.kai.queues import read_kai_queue, read_kai_topology
from shared.model.kai import UNLIMITED, KaiLevel, KaiPodGroup, KaiShare, KaiTopologyConstraint

FREE = {"quota": -1, "overQuotaWeight": 1, "limit": -1}


def queue(**spec: Any) -> dict[str, Any]:
    resources = {"cpu": FREE, "memory": FREE, "gpu": FREE}
    return {"metadata": {"name": "team"}, "spec": {"resources": resources} | spec}


def group(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "train"}, "spec": {"queue": "team"} | spec}


def sub(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name} | more


def refused(read: Any, obj: dict[str, Any]) -> tuple[str, str]:
    with pytest.raises(InvalidInput) as caught:
        read(obj)
    return caught.value.field, caught.value.message


# --- queues ---------------------------------------------------------------------------------------


def test_amounts_are_in_the_unit_of_their_slot_and_finer_ones_are_rounded_down() -> None:
    resources = {
        "cpu": {"quota": 1500.7, "limit": -1},
        "memory": {"quota": 2.5, "overQuotaWeight": 0.5},
        "gpu": {"quota": 0.2999, "limit": 8},
    }
    read = read_kai_queue(queue(resources=resources))
    assert read.cpu == KaiShare(quota=1500, limit=UNLIMITED)
    assert read.memory == KaiShare(quota=2_500_000, weight=500)
    assert read.gpu == KaiShare(quota=299, limit=8000)


def test_a_resource_that_is_absent_has_nothing() -> None:
    read = read_kai_queue(queue(resources={"gpu": FREE}))
    assert read.cpu == KaiShare(quota=0, weight=0, limit=0)
    assert read.priority == 100
    assert (read.parent, read.reclaim_min_runtime) == ("", None)


def test_amounts_of_a_queue_are_as_large_as_totals_are() -> None:
    of_memory = {"quota": 22_517_998_136, "limit": 1e300}  # 10,000 nodes of 2Ti, in megabytes
    share = read_kai_queue(queue(resources={"memory": of_memory})).memory
    assert (share.quota, share.limit) == (22_517_998_136 * 10**6, 2**63 - 1)


def test_times_of_protection_are_seconds() -> None:
    read = read_kai_queue(queue(preemptMinRuntime="1m30s", reclaimMinRuntime="0s"))
    assert (read.preempt_min_runtime, read.reclaim_min_runtime) == (90, 0)


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"resources": None}, "spec.resources", "missing"),
        ({"resources": {"tpu": FREE}}, "spec.resources.tpu", "unknown field"),
        ({"resources": {"gpu": {"quota": "1"}}}, "spec.resources.gpu.quota", "not a number"),
        ({"resources": {"gpu": {"quota": -2}}}, "spec.resources.gpu.quota", "negative"),
        ({"resources": {"gpu": {"overQuotaWeight": -2}}}, "overQuotaWeight", "negative"),
        ({"resources": {"gpu": {"overQuotaWeight": 1e300}}}, "overQuotaWeight", "too large"),
        ({"resources": {"gpu": {"qouta": 1}}}, "spec.resources.gpu.qouta", "did you mean quota"),
        ({"parentQueue": "team"}, "spec.parentQueue", "the queue itself"),
        ({"reclaimMinRuntime": "-5m"}, "spec.reclaimMinRuntime", "not a duration"),
        ({"weight": 3}, "spec.weight", "unknown field"),
    ],
)
def test_refused_queues(spec: dict[str, Any], field: str, message: str) -> None:
    at, output = refused(read_kai_queue, queue(**spec))
    assert at.endswith(field)
    assert message in output


# --- PodGroups ------------------------------------------------------------------------------------


def test_a_flat_group() -> None:
    read = read_kai_pod_group(group(minMember=4, preemptionDelay="10m"))
    assert (read.key, read.min_member, read.sub_groups) == ("default/train", 4, ())
    assert read.preemption_delay == 600
    assert read.staleness_grace is None
    assert read.is_preemptible(50)
    assert not read.is_preemptible(100)


def test_explicit_preemptibility_overrides_the_priority() -> None:
    assert read_kai_pod_group(group(preemptibility="preemptible")).is_preemptible(125)
    assert not read_kai_pod_group(group(preemptibility="non-preemptible")).is_preemptible(50)


def test_a_negative_grace_is_for_ever() -> None:
    grace = read_kai_pod_group(group(stalenessGracePeriod="-1s")).staleness_grace
    assert grace is not None
    assert grace < 0


def test_a_tree_of_sub_groups() -> None:
    read = read_kai_pod_group(
        group(
            minSubGroup=1,
            subGroups=[
                sub("Left", minSubGroup=1, topologyConstraint={"topology": "t", **LEVELS}),
                sub("a", parent="LEFT", minMember=2),
                sub("b", parent="left", minMember=0),
                sub("right", minMember=1),
            ],
        )
    )
    assert [s.name for s in read.below()[""]] == ["left", "right"]
    left, a, b, right = read.sub_groups
    assert [s.name in read.below() for s in (left, a, b, right)] == [True, False, False, False]
    assert (left.min_sub_group, a.min_member, b.min_member) == (1, 2, 0)
    assert left.topology == KaiTopologyConstraint("t", "rack", "host")


LEVELS = {"requiredTopologyLevel": "rack", "preferredTopologyLevel": "host"}


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"minMember": 1, "minSubGroup": 1}, "spec.minSubGroup", "beside minMember"),
        ({"minSubGroup": 1}, "spec.minSubGroup", "without subGroups"),
        ({"subGroups": [sub("a", minSubGroup=1)]}, "spec.subGroups[0].minSubGroup", "below"),
        (
            {"subGroups": [sub("a", minMember=1), sub("A", minMember=1)]},
            "spec.subGroups[1].name",
            "twice",
        ),
        (
            {"subGroups": [sub("a", minMember=1, parent="c")]},
            "spec.subGroups[0].parent",
            "no sub group has this name; write one of a",
        ),
        (
            {"subGroups": [sub("a", parent="b"), sub("b", parent="a")]},
            "spec.subGroups[0].parent",
            "above itself",
        ),
        (
            {"subGroups": [sub("s0"), *(sub(f"s{i}", parent=f"s{i - 1}") for i in range(1, 400))]},
            "spec.subGroups[20].parent",
            "s20 is more than 20 levels deep",
        ),
        ({"preemptionDelay": "-10m"}, "spec.preemptionDelay", "negative"),
        ({"stalenessGracePeriod": "soon"}, "spec.stalenessGracePeriod", "not a duration"),
        ({"schedulingBackoff": 0}, "spec.schedulingBackoff", "write 1, or -1"),
        ({"preemptibility": "never"}, "spec.preemptibility", "unknown value"),
        ({"minTaskMember": {}}, "spec.minTaskMember", "unknown field"),
    ],
)
def test_refused_groups(spec: dict[str, Any], field: str, message: str) -> None:
    at, output = refused(read_kai_pod_group, group(**spec))
    assert at == field
    assert message in output


def test_what_earlier_versions_of_kai_pass_over_is_no_mistake() -> None:
    """A minimum above other sub groups, none of a leaf, levels of no topology."""
    groups = [sub("a", minMember=2), sub("b", parent="a", minMember=1), sub("c", parent="a")]
    read = read_kai_pod_group(group(subGroups=groups, topologyConstraint=LEVELS))
    assert [each.name in read.below() for each in read.sub_groups] == [True, False, False]
    assert [each.min_member for each in read.sub_groups] == [2, 1, None]
    assert read.topology is None


def test_the_pod_set_of_a_pod() -> None:
    assert pod_set_of({}) == "default"
    assert pod_set_of({"kai.scheduler/subgroup-name": "Workers"}) == "workers"


# --- topologies -----------------------------------------------------------------------------------


def test_levels_by_label_and_by_alias() -> None:
    levels = [{"nodeLabel": "x.io/zone", "alias": "zone"}, {"nodeLabel": "x.io/rack"}]
    read = read_kai_topology({"metadata": {"name": "t"}, "spec": {"levels": levels}})
    assert read.levels == (KaiLevel("x.io/zone", "zone"), KaiLevel("x.io/rack"))
    assert [read.level(n) for n in ("zone", "x.io/zone", "x.io/rack", "")] == [0, 0, 1, None]


@pytest.mark.parametrize(
    ("levels", "field"),
    [
        ([], "spec.levels"),
        ([{"nodeLabel": "a"}, {"nodeLabel": "a"}], "spec.levels[1].nodeLabel"),
        ([{"nodeLabel": "a b"}], "spec.levels[0].nodeLabel"),
    ],
)
def test_refused_topologies(levels: list[Any], field: str) -> None:
    obj = {"metadata": {"name": "t"}, "spec": {"levels": levels}}
    assert refused(read_kai_topology, obj)[0] == field


# --- the oracle's objects -------------------------------------------------------------------------


def test_every_object_of_the_oracle_is_read(shared_reference: Path) -> None:
    groups: list[KaiPodGroup] = []
    for file in sorted((shared_reference / "conformance" / "kai").glob("*.json")):
        document = json.loads(file.read_text())
        for scenario in document["scenarios"] if isinstance(document, dict) else document:
            cluster = scenario["cluster"]
            for item in cluster.get("queues", ()):
                read_kai_queue(item)
            for item in cluster.get("topologies", ()):
                read_kai_topology(item)
            groups += [read_kai_pod_group(item) for item in cluster.get("podGroups", ())]
    assert len(groups) > 600
    assert any(group.sub_groups for group in groups)
    assert any(group.last_start for group in groups)
