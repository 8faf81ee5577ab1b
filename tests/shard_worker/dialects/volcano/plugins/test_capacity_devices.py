"""Devices that tasks claim count against their queues, by class."""

from __future__ import annotations

from collections.abc import Mapping

from shard_worker.dialects.volcano.plugins.queue.capacity_devices import Claimed
from shard_worker.framework.session import Session
from shard_worker.framework.statement import WorldStatement
from shard_worker.harness import Cluster
from shard_worker.session_model.queue_totals import link
from shared.codec.packed import replace
from shared.model.constraints import Constraints
from shared.model.devices import DeviceAsk, DeviceRequest, ResourceClaim, ResourceClaimTemplate
from shared.policy.model import PluginOption

GPU = "deviceclass/gpu.com"
CORES = "cores.deviceclass/gpu.com"


def cluster_of(limits: Mapping[str, float], *, consumable: bool = False) -> Cluster:
    arguments: dict[str, object] = {
        "capacity.DynamicResourceAllocationEnable": True,
        "capacity.DRAConsumableCapacityEnable": consumable,
    }
    option = PluginOption("capacity", arguments=arguments, flags={"enableHierarchy": True})
    cluster = Cluster(option)
    cluster.node("n", cpu=8)
    cluster.queue("top", capability=limits)
    cluster.queue("q", parent="top")
    cluster.queue("p", parent="top")
    return cluster


def claim(cluster: Cluster, name: str, *asks: DeviceAsk) -> None:
    requests = tuple(DeviceRequest(f"r{i}", (ask,)) for i, ask in enumerate(asks))
    resource_claim = ResourceClaim("default", name, requests)
    cluster.world.objects.claims[f"default/{name}"] = resource_claim
    template = ResourceClaimTemplate("default", name, requests)
    cluster.world.objects.claim_templates[f"default/{name}"] = template


def job(cluster: Cluster, name: str, *, queue: str = "q", tasks: int = 1, **uses: str) -> None:
    named = {key: (value,) for key, value in uses.items()}
    constraints = Constraints(
        claims=named.get("claims", ()), claim_templates=named.get("claim_templates", ())
    )
    cluster.job(name, queue=queue, tasks=tasks, minimum=1, rules={"constraints": constraints})


def room(session: Session) -> list[bool]:
    """For the first task of each job in turn: may its queue take it?"""
    results = []
    for info in session.world.session_jobs():
        assert info.queue is not None
        results.append(session.task_allocatable(info.queue, info.tasks[0]))
    return results


def test_a_claim_counts_once_and_every_queue_above_counts_it() -> None:
    cluster = cluster_of({GPU: 3})
    claim(cluster, "two", DeviceAsk("gpu.com", count=2))
    claim(cluster, "other", DeviceAsk("gpu.com", count=2))
    claim(cluster, "unlimited", DeviceAsk("nic.com", count=9))
    job(cluster, "a", tasks=2, claims="two")
    job(cluster, "b", queue="p", claims="other")
    job(cluster, "c", claims="two")
    job(cluster, "d", claims="unlimited")
    session = cluster.open()
    a, *_ = session.world.session_jobs()
    assert room(session) == [True] * 4
    statement = WorldStatement(session)
    statement.allocate(a.tasks[0], 0)
    assert room(session) == [True, False, True, True]
    statement.pipeline(a.tasks[1], 0)
    one = cluster.requests(**{GPU: 1})  # both tasks hold the same two
    assert session.lacking(cluster.queue_named("p"), one, session.world) is None
    lacking = session.lacking(cluster.queue_named("p"), cluster.requests(**{GPU: 2}), session.world)
    assert lacking is not None and lacking.queue.queue.name == "top"
    statement.rollback(1)
    assert room(session) == [True, False, True, True]  # the other task holds it still
    statement.rollback()
    assert room(session) == [True] * 4


def test_a_rolled_back_device_allocation_is_counted_once() -> None:
    cluster = cluster_of({GPU: 3})
    claim(cluster, "two", DeviceAsk("gpu.com", count=2))
    claim(cluster, "one", DeviceAsk("gpu.com"))
    job(cluster, "a", claims="two")
    job(cluster, "b", claims="one")
    session = cluster.open()
    a, _ = session.world.session_jobs()
    statement = WorldStatement(session)
    statement.allocate(a.tasks[0], 0)
    statement.rollback()
    statement.allocate(a.tasks[0], 0)
    assert room(session) == [True, True]
    statement.rollback()
    assert (
        session.lacking(cluster.queue_named("q"), cluster.requests(**{GPU: 3}), session.world)
        is None
    )


def test_an_evicted_task_lets_go_of_its_devices() -> None:
    cluster = cluster_of({GPU: 2})
    claim(cluster, "two", DeviceAsk("gpu.com", count=2))
    claim(cluster, "one", DeviceAsk("gpu.com"))
    rules = {"constraints": Constraints(claims=("two",))}
    cluster.job("old", queue="q", rules=rules, on=["n"])
    job(cluster, "new", queue="p", claims="one")
    session = cluster.open()
    old, _ = session.world.session_jobs()
    assert room(session)[1] is False
    statement = WorldStatement(session)
    statement.evict(old.tasks[0], "test")
    assert room(session)[1] is True
    statement.rollback()
    assert room(session)[1] is False


def test_every_task_has_its_own_from_a_template() -> None:
    cluster = cluster_of({GPU: 3})
    claim(cluster, "two", DeviceAsk("gpu.com", count=2))
    job(cluster, "a", tasks=2, claim_templates="two")
    session = cluster.open()
    (a,) = session.world.session_jobs()
    WorldStatement(session).allocate(a.tasks[0], 0)
    assert a.queue is not None and not session.task_allocatable(a.queue, a.tasks[1])


def test_shared_device_capacity_counts_only_when_enabled() -> None:
    for consumable in (False, True):
        cluster = cluster_of({CORES: 100}, consumable=consumable)
        claim(cluster, "c", DeviceAsk("gpu.com", count=2, capacity=(("cores", 60_000),)))
        job(cluster, "a", claims="c")
        assert room(cluster.open()) == [not consumable]


def test_device_claims_ignored_by_volcano_are_not_counted() -> None:
    cluster = cluster_of({GPU: 0.001})
    claim(cluster, "all", DeviceAsk("gpu.com", everything=True))
    claim(cluster, "admin", DeviceAsk("gpu.com", count=4, admin=True))
    job(cluster, "a", claims="all")
    job(cluster, "b", claims="admin")
    job(cluster, "c", claims="missing")
    either = (DeviceAsk("gpu.com", count=4), DeviceAsk("nic.com"))
    resource_claim = ResourceClaim("default", "either", (DeviceRequest("r", either),))
    cluster.world.objects.claims["default/either"] = resource_claim
    job(cluster, "d", claims="either")
    assert room(cluster.open()) == [True] * 4


def test_entry_counts_the_devices_of_as_many_tasks_as_the_job_needs() -> None:
    cluster = cluster_of({GPU: 3})
    claim(cluster, "one", DeviceAsk("gpu.com"))
    rules = {"constraints": Constraints(claim_templates=("one",))}
    least = cluster.requests(cpu=1)
    for name, minimum in (("fits", 3), ("not", 4)):
        cluster.job(name, queue="q", tasks=5, minimum=minimum, rules=rules, min_resources=least)
    session = cluster.open()
    results = [
        session.job_enqueueable(info, session.world) for info in session.world.session_jobs()
    ]
    assert results == [True, False]
    claimed = Claimed(session.world, consumable=False)
    assert claimed.least(session.world.session_job(0)) == {claimed.slots[GPU]: 3000}


def test_without_the_switch_no_device_counts() -> None:
    cluster = Cluster(PluginOption("capacity"))
    cluster.node("n")
    cluster.queue("q", capability={GPU: 0.001})
    claim(cluster, "two", DeviceAsk("gpu.com", count=2))
    job(cluster, "a", claims="two")
    assert room(cluster.open()) == [True]


def test_totals_in_an_excerpt_include_jobs_outside_it() -> None:
    cluster = cluster_of({GPU: 3})
    claim(cluster, "two", DeviceAsk("gpu.com", count=2))
    claim(cluster, "held", DeviceAsk("gpu.com", count=2))
    claims = cluster.world.objects.claims
    claims["default/held"] = replace(claims["default/held"], reserved=("somebody",))
    job(cluster, "a", claims="two")
    job(cluster, "b", claims="held")
    session = cluster.open()
    world = session.world
    world.whole = False
    info = cluster.queue_named("q")
    info.claimed.update(cluster.requests(**{GPU: 2}))
    link(world.queues)
    assert room(session) == [False, True]  # the second is held, and counted, already
    assert world.queues[0].below is not None and world.queues[0].below.claimed == info.claimed
