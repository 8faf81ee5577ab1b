"""Devices of claims: where they can be had, and that none is given twice."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shard_worker.framework.extension_points import LIVE_PREDICATE
from shard_worker.framework.session import Session
from shard_worker.framework.statement import WorldStatement
from shard_worker.harness import Cluster
from shard_worker.kube_scheduler.devices import claims as devices
from shard_worker.kube_scheduler.devices.claims import ELSEWHERE, IN_USE, NONE_FREE
from shard_worker.kube_scheduler.devices.search import AssignedDevice
from shard_worker.placement.candidates import feasible
from shard_worker.session_model.job import TaskInfo
from shared.codec.packed import replace
from shared.model.constraints import Constraints, Requirement, Taint, Toleration
from shared.model.devices import (
    Allocation,
    Attribute,
    Device,
    DeviceAsk,
    DeviceClass,
    DeviceMatch,
    DeviceRequest,
    DeviceResult,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from tests.examples import examples
from tests.shard_worker.neighbourhood import (
    HOST,
    open_to,
    place_all,
    reasons,
    task_of,
    where,
    zones,
)

DRIVER = "gpu.example.com"
ANY = DeviceClass("gpu", (f'device.driver == "{DRIVER}"',))


def gpu(name: str, model: str = "a", **fields: Any) -> Device:
    return Device(name, attributes=(Attribute("model", "string", model),), **fields)


def slice_of(node: str, *given: Device, name: str = "", **fields: Any) -> ResourceSlice:
    return ResourceSlice(name or f"{node}-s", DRIVER, node, node=node, devices=given, **fields)


def ask(count: int = 1, **fields: Any) -> DeviceAsk:
    return DeviceAsk(fields.pop("device_class", "gpu"), count=count, **fields)


def claim(name: str, *asks: DeviceAsk, **fields: Any) -> ResourceClaim:
    requests = tuple(DeviceRequest(f"r{i}", (one,)) for i, one in enumerate(asks or (ask(),)))
    return ResourceClaim("default", name, **{"requests": requests, **fields})


def uses(*names: str, templates: tuple[str, ...] = ()) -> dict[str, object]:
    return {"constraints": Constraints(claims=tuple(sorted(names)), claim_templates=templates)}


Known = ResourceClaim | ResourceSlice | DeviceClass | ResourceClaimTemplate


def with_devices(cluster: Cluster, *objects: Known) -> Cluster:
    cluster_objects = cluster.world.objects
    for value in (ANY, *objects):
        match value:
            case ResourceClaim():
                cluster_objects.claims[f"{value.namespace}/{value.name}"] = value
            case ResourceClaimTemplate():
                cluster_objects.claim_templates[f"{value.namespace}/{value.name}"] = value
            case ResourceSlice():
                cluster_objects.slices[value.name] = value
            case DeviceClass():
                cluster_objects.device_classes[value.name] = value
    return cluster


def two(*objects: Known, tasks: int = 1, **arguments: Any) -> Session:
    """Nodes n0 and n1, and a job whose tasks use claim c."""
    cluster = with_devices(zones("a", "b", **arguments), *objects)
    cluster.job("new", tasks=tasks, rules=uses("c"))
    return cluster.open()


def assigned_devices(session: Session, name: str) -> list[AssignedDevice]:
    return dra_of(session).got(task_of(session, name))


def dra_of(session: Session) -> devices.DeviceClaimFilter:
    results = [getattr(hook.scalar, "__self__", None) for hook in session.rules(LIVE_PREDICATE)]
    dra = next(one for one in results if isinstance(one, devices.DeviceClaimFilter))
    return dra


class TestDeviceNodes:
    def test_where_enough_of_the_class_are(self) -> None:
        slices = slice_of("n0", gpu("g0")), slice_of("n1", gpu("g0"), gpu("g1"))
        session = two(claim("c", ask(2)), *slices)
        assert open_to(session, "new-0") == ["n1"]
        assert reasons(session, "new-0") == {NONE_FREE: 1}

    def test_selectors_of_class_and_request_all_hold(self) -> None:
        picky = ask(selectors=(f'device.attributes["{DRIVER}"].model == "b"',))
        session = two(
            claim("c", picky), slice_of("n0", gpu("g", "a")), slice_of("n1", gpu("g", "b"))
        )
        assert open_to(session, "new-0") == ["n1"]

    def test_devices_that_many_nodes_reach(self) -> None:
        reach = ((Requirement("zone", "In", ("b",)),),)
        wide = ResourceSlice("w", DRIVER, "w", selector=reach, devices=(gpu("g"),))
        session = two(claim("c"), wide)
        assert open_to(session, "new-0") == ["n1"]
        everywhere = ResourceSlice("w", DRIVER, "w", all_nodes=True, devices=(gpu("g"),))
        assert open_to(two(claim("c"), everywhere), "new-0") == ["n0", "n1"]

    def test_only_whole_pools_of_the_newest_generation_count(self) -> None:
        old = slice_of("n0", gpu("g"), name="old", generation=1)
        new = slice_of("n0", name="new", generation=2)
        half = slice_of("n1", gpu("g"), slices=2)
        assert open_to(two(claim("c"), old, new, half), "new-0") == []

    def test_all_devices(self) -> None:
        slices = slice_of("n0", gpu("g0")), slice_of("n1", gpu("g0"), gpu("g1"))
        used = claim("used", allocation=Allocation((DeviceResult("r0", DRIVER, "n1", "g1"),), None))
        every = claim("c", ask(everything=True))
        session = two(every, *slices)
        WorldStatement(session).allocate(task_of(session, "new-0"), 1)
        assert sorted(one.offer.device.name for one in assigned_devices(session, "new-0")) == [
            "g0",
            "g1",
        ]
        assert open_to(two(every, used, *slices), "new-0") == ["n0"]

    def test_the_first_alternative_that_can_be_had(self) -> None:
        many, one = ask(2, name="many"), ask(1, name="one")
        either = claim("c", requests=(DeviceRequest("r", (many, one)),))
        slices = slice_of("n0", gpu("g0")), slice_of("n1", gpu("g0"), gpu("g1"))
        session = two(either, *slices)
        assert open_to(session, "new-0") == ["n0", "n1"]
        WorldStatement(session).allocate(task_of(session, "new-0"), 0)
        assert [one.request for one in assigned_devices(session, "new-0")] == ["r/one"]

    def test_devices_that_have_to_match_or_to_differ(self) -> None:
        mixed = slice_of("n0", gpu("g0", "a"), gpu("g1", "b"))
        same = slice_of("n1", gpu("g0", "b"), gpu("g1", "b"))
        name = f"{DRIVER}/model"
        alike = claim("c", ask(), ask(), matches=(DeviceMatch(name),))
        apart = claim("c", ask(), ask(), matches=(DeviceMatch(name, distinct=True),))
        assert open_to(two(alike, mixed, same), "new-0") == ["n1"]
        assert open_to(two(apart, mixed, same), "new-0") == ["n0"]

    def test_a_search_that_goes_back(self) -> None:
        """The first request must leave the only device that the second takes."""
        only_a = ask(selectors=(f'device.attributes["{DRIVER}"].model == "a"',))
        session = two(claim("c", ask(), only_a), slice_of("n0", gpu("g0", "a"), gpu("g1", "b")))
        assert open_to(session, "new-0") == ["n0"]

    def test_tainted_devices_have_to_be_tolerated(self) -> None:
        broken = gpu("g", taints=(Taint("broken", "", "NoSchedule"),))
        bears = ask(tolerations=(Toleration("broken", "Exists", "", ""),))
        assert open_to(two(claim("c"), slice_of("n0", broken)), "new-0") == []
        assert open_to(two(claim("c", bears), slice_of("n0", broken)), "new-0") == ["n0"]

    def test_a_shared_device_by_its_capacity(self) -> None:
        big = gpu("g", shared=True, capacity=(("memory", 10_000),))
        part = ask(capacity=(("memory", 6_000),))
        cluster = with_devices(
            zones("a"), claim("c", part), claim("d", part), claim("e"), slice_of("n0", big)
        )
        for name in "cde":
            cluster.job(name, rules=uses(name))
        session = cluster.open()
        assert open_to(session, "e-0") == ["n0"]
        WorldStatement(session).allocate(task_of(session, "c-0"), 0)
        assert open_to(session, "d-0") == open_to(session, "e-0") == []

    def test_a_request_with_admin_access_takes_nothing(self) -> None:
        cluster = with_devices(
            zones("a"), claim("c", ask(admin=True)), claim("d"), slice_of("n0", gpu("g"))
        )
        cluster.job("watch", rules=uses("c"))
        cluster.job("work", rules=uses("d"))
        session = cluster.open()
        statement = WorldStatement(session)
        statement.allocate(task_of(session, "watch-0"), 0)
        assert open_to(session, "work-0") == ["n0"]
        statement.allocate(task_of(session, "work-0"), 0)
        assert len(assigned_devices(session, "work-0")) == 1


class TestMistakes:
    def test_a_selector_that_is_no_expression(self) -> None:
        bad = DeviceClass(
            "gpu", ('device.attributes["some-driver"].resourcev1.QualifiedName(...)',)
        )
        session = two(claim("c"), bad, slice_of("n0", gpu("g")), slice_of("n1"))
        assert open_to(session, "new-0") == []
        reports = [c for c in session.checks(task_of(session, "new-0")) if "judged" in c.reason]
        assert len(reports) == 1 and not reports[0].curable

    def test_a_selector_that_fails_for_a_device(self) -> None:
        session = two(
            claim("c", ask(selectors=('device.attributes["other"].model == "a"',))),
            slice_of("n0", gpu("g")),
        )
        assert reasons(session, "new-0") == {
            "claim cannot be judged: no such key: model": 1,
            NONE_FREE: 1,
        }

    def test_a_missing_claim_or_device_class_is_the_reason(self) -> None:
        session = two()
        assert session.pre_predicate(task_of(session, "new-0")) == 'resourceclaim "c" not found'
        session = two(claim("c", ask(device_class="tpu")))
        why = session.pre_predicate(task_of(session, "new-0"))
        assert why == "request r0: device class tpu does not exist"

    def test_it_can_be_switched_off(self) -> None:
        session = two(predicate_DynamicResourceAllocationEnable=False)
        assert open_to(session, "new-0") == ["n0", "n1"]


class TestWhatIsGiven:
    def test_an_allocated_claim_pins_its_tasks(self) -> None:
        there = ((Requirement(HOST, "In", ("n1",)),),)
        result = DeviceResult("r0", DRIVER, "n1", "g")
        session = two(claim("c", allocation=Allocation((result,), there)), slice_of("n1", gpu("g")))
        assert open_to(session, "new-0") == ["n1"]
        assert reasons(session, "new-0") == {ELSEWHERE: 1}

    def test_a_claim_with_all_the_users_it_may_have(self) -> None:
        full = claim("c", allocation=Allocation(), reserved=tuple(map(str, range(256))))
        session = two(full)
        assert session.pre_predicate(task_of(session, "new-0")) == IN_USE

    def test_nothing_is_given_twice_and_undoing_frees_it(self) -> None:
        template = ResourceClaimTemplate("default", "t", claim("x").requests)
        cluster = with_devices(zones("a", "b"), template, slice_of("n0", gpu("g")))
        cluster.job("new", tasks=2, rules=uses(templates=("t",)))
        session = cluster.open()
        statement = WorldStatement(session)
        statement.allocate(task_of(session, "new-0"), 0)
        assert open_to(session, "new-1") == []
        statement.rollback()
        assert open_to(session, "new-1") == ["n0"]

    def test_tasks_that_share_a_claim_are_together(self) -> None:
        slices = slice_of("n0", gpu("g")), slice_of("n1", gpu("g"))
        session = two(claim("c"), *slices, tasks=2)
        statement = WorldStatement(session)
        statement.allocate(task_of(session, "new-0"), 1)
        assert open_to(session, "new-1") == ["n1"]
        statement.allocate(task_of(session, "new-1"), 1)
        assert assigned_devices(session, "new-0") == assigned_devices(session, "new-1") != []
        statement.rollback()
        assert open_to(session, "new-1") == ["n0", "n1"]

    def test_running_tasks_occupy_devices_until_evicted(self) -> None:
        cluster = with_devices(zones("a"), claim("c"), claim("d"), slice_of("n0", gpu("g")))
        cluster.job("old", on=["n0"], rules=uses("c"))
        cluster.job("new", rules=uses("d"))
        session = cluster.open()
        assert open_to(session, "new-0") == []
        WorldStatement(session).evict(task_of(session, "old-0"), "test")
        assert open_to(session, "new-0") == ["n0"]


def test_a_template_claim_and_its_generated_claim_count_once() -> None:
    """A running pod's claim from a template is an object of its own, kept for the pod's uid."""
    template = ResourceClaimTemplate("default", "t", claim("x").requests)
    written = claim(
        "old-0-t-x7",
        allocation=Allocation((DeviceResult("r0", DRIVER, "n0", "g0"),)),
        reserved=("uid-0",),
    )
    cluster = with_devices(zones("a"), template, written, slice_of("n0", gpu("g0"), gpu("g1")))
    cluster.job("old", on=["n0"], rules=uses(templates=("t",)), members={"uids": ("uid-0",)})
    cluster.job("new", tasks=2, rules=uses(templates=("t",)))
    session = cluster.open()
    assert open_to(session, "new-0") == ["n0"]
    WorldStatement(session).allocate(task_of(session, "new-0"), 0)
    assert open_to(session, "new-1") == []


def test_the_next_world_over_the_same_nodes_knows_allocated_devices() -> None:
    wide = ResourceSlice("w", DRIVER, "w", all_nodes=True, devices=(gpu("w"),))
    template = ResourceClaimTemplate("default", "t", claim("x").requests)
    cluster = with_devices(zones("a", "b"), template, slice_of("n0", gpu("g")), wide)
    cluster.job("new", tasks=3, rules=uses(templates=("t",)))
    session = cluster.open()
    statement = WorldStatement(session)
    for i, open_now in enumerate((["n0", "n1"], ["n0"], [])):
        session.enter(replace(session.world))
        assert open_to(session, "new-2") == open_now
        if open_now:
            statement.allocate(task_of(session, f"new-{i}"), 1 - i)


requests = st.lists(
    st.tuples(st.integers(1, 2), st.sampled_from(["", "a", "b"])), min_size=1, max_size=2
)
shelves = st.lists(st.lists(st.sampled_from("ab"), max_size=3), min_size=1, max_size=3)


def cluster_of(models: list[list[str]], wanted: list[list[tuple[int, str]]]) -> Cluster:
    slices = [
        slice_of(f"n{i}", *(gpu(f"g{j}", model) for j, model in enumerate(each)))
        for i, each in enumerate(models)
    ]
    claims = []
    for i, each in enumerate(wanted):
        asks = [
            ask(n, selectors=(f'device.attributes["{DRIVER}"].model == "{m}"',) if m else ())
            for n, m in each
        ]
        claims.append(claim(f"c{i}", *asks))
    cluster = with_devices(zones(*("a" for _ in models)), *slices, *claims)
    for i in range(len(wanted)):
        cluster.job(f"j{i}", rules=uses(f"c{i}"))
    return cluster


@settings(max_examples=examples(60), deadline=None)
@given(shelves, st.lists(requests, min_size=1, max_size=4))
def test_every_placed_task_has_what_it_asked_for_and_nobody_else_has_it(
    models: list[list[str]], wanted: list[list[tuple[int, str]]]
) -> None:
    session = cluster_of(models, wanted).open()
    place_all(session)
    given_away = []
    for i, each in enumerate(wanted):
        task = task_of(session, f"j{i}-0")
        if task.row < 0:
            assert not open_to(session, task.name)
            continue
        mine = assigned_devices(session, task.name)
        assert len(mine) == sum(n for n, _ in each)
        assert {one.offer.pool for one in mine} <= {f"n{task.row}"}
        for j, (n, model) in enumerate(each):
            served = [one for one in mine if one.request == f"r{j}"]
            values = [one.offer.device.attributes[0].value for one in served]
            assert len(served) == n and (not model or set(values) == {model})
        given_away += [one.offer.key for one in mine]
    assert len(set(given_away)) == len(given_away)
    assert len(where(session)) <= len(wanted)


@settings(max_examples=examples(60), deadline=None)
@given(shelves, st.lists(requests, min_size=2, max_size=3))
def test_nodes_judged_as_one_are_alike(
    models: list[list[str]], wanted: list[list[tuple[int, str]]]
) -> None:
    """A session that has judged many nodes says the same as one that is asked of a node alone."""
    session = cluster_of(models, wanted).open()
    statement = WorldStatement(session)
    first = task_of(session, "j0-0")
    rows = feasible(session, first).mask.nonzero()[0]
    if len(rows):
        statement.allocate(first, int(rows[0]))
    for i in range(1, len(wanted)):
        task = task_of(session, f"j{i}-0")
        mask = feasible(session, task).mask
        assert mask.tolist() == [_alone(session, task, row) for row in range(len(models))]


def _alone(session: Session, task: TaskInfo, row: int) -> bool:
    free = {"a": 0, "b": 0}
    for offer in dra_of(session)._pools.local.get(f"n{row}", []):
        if offer.key not in dra_of(session)._usage.whole:
            free[str(offer.device.attributes[0].value)] += 1
    claim_of = session.world.objects.claims[f"default/c{task.name[1]}"]
    loose = 0
    for request in claim_of.requests:
        (one,) = request.asks
        model = next((m for m in "ab" if one.selectors and f'"{m}"' in one.selectors[0]), "")
        if model:
            free[model] -= one.count
        else:
            loose += one.count
    return min(free.values()) >= 0 and sum(free.values()) >= loose
