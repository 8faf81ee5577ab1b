"""GPUs that pods have by claims count in KAI's queues, and evictions free them: in one session,
with one shard and with three."""

from __future__ import annotations

from typing import Any

import pytest

from laboratory.replay.outcome import ReplayResult
from tests.builders.objects import UNLIMITED, kube_object
from tests.laboratory.replay.test_kai import BEFORE, group, node, pod, queue
from tests.laboratory.replay.test_kai_dump import objects
from tests.laboratory.replay.test_kai_every_form import every_form

Json = dict[str, Any]
DRIVER = "gpu.example.com"


def classes() -> list[Json]:
    return [
        kube_object(
            "resource.k8s.io/v1",
            "DeviceClass",
            name,
            spec={"selectors": [{"cel": {"expression": f"device.driver == '{name}'"}}]},
        )
        for name in (DRIVER, "nic.example.com")
    ]


def offers(on: str, number: int, driver: str = DRIVER) -> list[Json]:
    """A node without GPUs of a device plugin, and the devices that a driver offers there."""
    devices = [{"name": f"dev-{at}"} for at in range(number)]
    pool = {"name": on, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": on, "pool": pool, "devices": devices}
    name = {"name": f"{on}-{driver}"}
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": name,
            "spec": spec,
        }
    ]


def spec_of(count: int, device_class: str = DRIVER) -> Json:
    exactly = {"deviceClassName": device_class, "count": count}
    return {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}


def claim(name: str, count: int = 1, *, on: str = "", devices: list[int] | None = None) -> Json:
    """A claim; with ``devices`` of a node it is allocated, and pod ``NAME-0`` uses it."""
    item: Json = kube_object(
        "resource.k8s.io/v1", "ResourceClaim", name, namespace="default", spec=spec_of(count)
    )
    if devices is not None:
        results = [
            {"request": "r", "driver": DRIVER, "pool": on, "device": f"dev-{at}"} for at in devices
        ]
        field = {"key": "metadata.name", "operator": "In", "values": [on]}
        selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        item["status"] = {
            "allocation": {"devices": {"results": results}, "nodeSelector": selector},
            "reservedFor": [{"resource": "pods", "name": f"{name}-0", "uid": f"{name}-0"}],
        }
    return item


def template(name: str, count: int, device_class: str = DRIVER) -> Json:
    return kube_object(
        "resource.k8s.io/v1",
        "ResourceClaimTemplate",
        name,
        namespace="default",
        spec={"spec": spec_of(count, device_class)},
    )


def claiming(
    name: str, of: Json, *, on: str = "", team: str = "team", created: str = "", **spec: Any
) -> list[Json]:
    """A pod with this claim, or one of this template, in a PodGroup of its own."""
    item = pod(f"{name}-0", name, on=on)
    field = "resourceClaimName" if of["kind"] == "ResourceClaim" else "resourceClaimTemplateName"
    item["spec"]["resourceClaims"] = [{"name": "gpus", field: of["metadata"]["name"]}]
    item["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpus"}]
    mine = group(name, 1, **({"created": created} if created else {}))
    mine["spec"] |= {"queue": team, **spec}
    return objects({"podGroups": [mine], "pods": [item]})


def team(name: str = "team", **gpu: float) -> list[Json]:
    item = queue(name)
    item["spec"]["resources"]["gpu"] = UNLIMITED | gpu
    return objects({"queues": [item]})


def nodes(*names: str) -> list[Json]:
    return objects({"nodes": [node(name, 0) for name in names]})


def bound(result: ReplayResult) -> set[str]:
    return {name.removeprefix("default/") for name in result.binds}


def test_claims_of_templates_count_against_the_limit_of_a_queue() -> None:
    pair = template("pair", 2)
    pods = [item for i in range(3) for item in claiming(f"w{i}", pair)]
    cluster = [*nodes("a"), *offers("a", 6), *classes(), *team(limit=4), pair, *pods]
    for result in every_form(*cluster):
        assert len(bound(result)) == 2


def test_devices_that_are_no_gpus_do_not_count() -> None:
    pair = template("pair", 2, "nic.example.com")
    pods = [item for i in range(3) for item in claiming(f"w{i}", pair)]
    devices = offers("a", 6, "nic.example.com")
    for result in every_form(*nodes("a"), *devices, *classes(), *team(limit=0), pair, *pods):
        assert len(bound(result)) == 3


def test_a_claim_of_several_pods_counts_once() -> None:
    """Three share two GPUs of a limit of three; another pair is beyond it."""
    ours, another = claim("ours", 2), claim("another", 2)
    sharers = [item for i in range(3) for item in claiming(f"s{i}", ours)]
    late = claiming("late", another, created="2026-01-01T00:00:30Z")
    cluster = [*nodes("a"), *offers("a", 6), *classes(), *team(limit=3), ours, another]
    for result in every_form(*cluster, *sharers, *late):
        assert bound(result) == {"s0-0", "s1-0", "s2-0"}


def test_a_queue_takes_back_what_its_quota_gives_it() -> None:
    """The other queue has no quota, and its newer pod goes."""
    held = [claim(f"p{at}", on="a", devices=[at]) for at in range(3)]
    mine = claim("w", 1)
    running = [
        item
        for at, each in enumerate(held)
        for item in claiming(
            f"p{at}", each, on="a", team="poor", created=f"2025-12-31T23:0{at}:00Z"
        )
    ]
    queues = [*team("team", quota=1), *team("poor", quota=0)]
    cluster = [*nodes("a"), *offers("a", 3), *classes(), *queues, *held, mine, *running]
    session, *shards = every_form(*cluster, *claiming("w", mine))
    assert set(session.evicted) == {"default/p2-0"}
    for result in shards:
        assert set(result.evicted) == {"default/p2-0"}
        assert bound(result) == {"w-0"}


@pytest.mark.parametrize(("count", "gone"), [(1, 1), (2, 2)])
def test_a_pod_of_higher_priority_takes_the_devices_of_others_of_its_queue(
    count: int, gone: int
) -> None:
    held = [claim(f"p{at}", on="a", devices=[at]) for at in range(2)]
    mine = claim("high", count)
    running = [
        item
        for at, each in enumerate(held)
        for item in claiming(f"p{at}", each, on="a", created=BEFORE)
    ]
    high = claiming("high", mine, priorityClassName="build-preemptible")
    cluster = [*nodes("a"), *offers("a", 2), *classes(), *team(quota=2), *held, mine, *running]
    session, *shards = every_form(*cluster, *high)
    assert len(session.evicted) == gone
    for result in shards:
        assert len(result.evicted) == gone
        assert bound(result) == {"high-0"}


def test_pods_move_together_for_one_that_claims_a_whole_node() -> None:
    held = [claim("left", on="a", devices=[0]), claim("right", on="b", devices=[0])]
    mine = claim("wide", 2)
    running = [
        *claiming("left", held[0], on="a", created=BEFORE),
        *claiming("right", held[1], on="b", created=BEFORE),
    ]
    cluster = [*nodes("a", "b"), *offers("a", 2), *offers("b", 2), *classes(), *team()]
    session, *_ = every_form(*cluster, *held, mine, *running, *claiming("wide", mine))
    assert len(session.evicted) == 1
    assert "default/wide-0" in session.pipelined


def test_pods_that_share_a_claim_go_together_and_give_it_back_once() -> None:
    held, mine = claim("p0", on="a", devices=[0]), claim("w")
    users = [f"p{at}-0" for at in range(2)]
    held["status"]["reservedFor"] = [{"resource": "pods", "name": u, "uid": u} for u in users]
    running = [
        item
        for at in range(2)
        for item in claiming(f"p{at}", held, on="a", team="poor", created=BEFORE)
    ]
    queues = [*team("team", quota=1), *team("poor", quota=0)]
    cluster = [*nodes("a"), *offers("a", 1), *classes(), *queues, held, mine, *running]
    for result in every_form(*cluster, *claiming("w", mine)):
        assert set(result.evicted) == {f"default/{user}" for user in users}
        assert set(result.binds) | set(result.pipelined) == {"default/w-0"}
