"""The funnel adds up to all nodes, and what it says of a check is what is true without it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.explain.verdict import from_funnel
from shard_worker.dialects.open_session import open_session
from shard_worker.inquiry.findings import RoleFunnel
from shard_worker.inquiry.funnel import APART, PROMISED, Funnel, FunnelCheck, funnel
from shard_worker.placement.task_class import CompiledClasses
from shard_worker.view.mode import Mode
from shard_worker.view.node_reasons import FOREIGN
from shard_worker.view.view import View
from shared.ledger.records import pack_thing
from shared.messages.messages import Rows
from shared.model.constraints import Taint, Toleration
from shared.model.model import Node, TaskClass
from shared.policy.dialect import parse_policy
from shared.units.slots import CPU, MEMORY, PODS
from shared.units.things import port_name
from tests.examples import examples
from tests.shard_worker.placement.support import GIB, record, view_of

GPU = 3
SESSION = open_session(
    parse_policy(
        {"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}, {"name": "predicates"}]}]}
    )
)
TAINTS = (
    Taint("dedicated", "infer", "NoSchedule"),
    Taint("maintenance", "", "NoExecute"),
    Taint("old", "yes", "PreferNoSchedule"),
)


@dataclass(frozen=True)
class FunnelNode:
    """One node and what runs on it, by slot."""

    model: str
    zone: str
    taints: tuple[Taint, ...]
    cordoned: bool
    allocatable: tuple[int, int, int, int]
    used: tuple[int, int, int, int]
    releasing: tuple[int, int, int, int]
    nominated: tuple[int, int, int, int]

    def node(self, row: int) -> Node:
        return Node(
            row=row,
            name=f"n{row}",
            allocatable=tuple(enumerate(self.allocatable)),
            labels={"model": self.model, "zone": self.zone},
            taints=self.taints,
            unschedulable=self.cordoned,
            spec=1,
        )

    def record(self) -> bytes:
        return record(
            allocatable=dict(enumerate(self.allocatable)),
            used=dict(enumerate(self.used)),
            releasing=dict(enumerate(self.releasing)),
            nominated=dict(enumerate(self.nominated)),
        )

    def free(self, slot: int) -> int:
        return self.allocatable[slot] - self.used[slot]

    def future(self, slot: int) -> int:
        return self.free(slot) + self.releasing[slot] - self.nominated[slot]


@st.composite
def machines(draw: st.DrawFn) -> FunnelNode:
    def amounts(most: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
        cpu, memory, pods, gpu = most
        return (
            draw(st.integers(0, cpu // 500)) * 500,
            draw(st.integers(0, memory // GIB)) * GIB,
            draw(st.integers(0, pods)),
            draw(st.integers(0, gpu // 1000)) * 1000,
        )

    whole = (8000, 16 * GIB, 6, draw(st.sampled_from([0, 4000, 8000])))
    used = amounts(whole)
    releasing = amounts(used)
    return FunnelNode(
        model=draw(st.sampled_from(["a", "b"])),
        zone=draw(st.sampled_from(["x", "y"])),
        taints=tuple(draw(st.lists(st.sampled_from(TAINTS), unique=True, max_size=2))),
        cordoned=draw(st.integers(0, 7)) == 0,
        allocatable=whole,
        used=used,
        releasing=releasing,
        nominated=amounts(releasing) if draw(st.booleans()) else (0, 0, 0, 0),
    )


@st.composite
def classes(draw: st.DrawFn) -> TaskClass:
    requests = {CPU: draw(st.integers(1, 8)) * 500, PODS: 1}
    if draw(st.booleans()):
        requests[MEMORY] = draw(st.integers(1, 8)) * GIB
    if draw(st.booleans()):
        requests[GPU] = draw(st.integers(1, 4)) * 1000
    selector = draw(
        st.lists(st.sampled_from([("model", "a"), ("zone", "x")]), unique=True, max_size=2)
    )
    tolerated = draw(st.booleans())
    return TaskClass(
        requests=tuple(sorted(requests.items())),
        selector=tuple(sorted(selector)),
        tolerations=(Toleration("dedicated", "Exists", "", ""),) if tolerated else (),
    )


def passes(check: FunnelCheck, machine: FunnelNode, cls: TaskClass, *, own: bool) -> bool:
    """The check on one node, by hand."""
    match check.kind:
        case "foreign":
            return own
        case "check":
            assert check.name == "were unschedulable"
            return not machine.cordoned
        case "selector":
            key, _, value = check.name.removeprefix("label ").partition("=")
            return {"model": machine.model, "zone": machine.zone}[key] == value
        case "taint":
            key = check.name.removeprefix("taint ").partition("=")[0]
            return all(taint.key != key for taint in machine.taints)
        case "amount":
            return machine.free(check.slot) >= dict(cls.requests)[check.slot]
        case "promised":
            return all(
                machine.free(slot) < amount or machine.future(slot) >= amount
                for slot, amount in cls.requests
            )
        case other:
            raise AssertionError(other)


def tasks(machine: FunnelNode, cls: TaskClass, without: FunnelCheck) -> int:
    """How many tasks start on one node by its amounts, one check left out."""
    return min(
        max(
            0,
            (
                machine.free(slot)
                if without.kind == "promised"
                else min(machine.free(slot), machine.future(slot))
            )
            // amount,
        )
        for slot, amount in cls.requests
        if slot != without.slot
    )


def look(
    cluster: list[FunnelNode], cls: TaskClass, *, mode: Mode, own: set[int], wanted: int = 2
) -> tuple[Funnel, View]:
    view = view_of(
        [m.record() for m in cluster],
        own=own,
        classes={0: cls},
        nodes=[m.node(row) for row, m in enumerate(cluster)],
    )
    return funnel(cls, view=view, session=SESSION, mode=mode, needed=wanted), view


@settings(max_examples=examples(80), deadline=None)
@given(
    cluster=st.lists(machines(), min_size=1, max_size=12),
    cls=classes(),
    mode=st.sampled_from([Mode.SOFT, Mode.HARD]),
    data=st.data(),
)
def test_every_node_counts_once_and_leave_one_out_equals_brute_force(
    cluster: list[FunnelNode], cls: TaskClass, mode: Mode, data: st.DataObject
) -> None:
    own = data.draw(st.sets(st.integers(0, len(cluster) - 1)))
    result, view = look(cluster, cls, mode=mode, own=own)
    assert result.total == len(cluster)
    assert sum(check.count for check in result.checks) + result.fits == result.total

    compiled = CompiledClasses(view=view, session=SESSION, mode=mode, seed=1).get(0)
    fitting = [row for row in range(len(cluster)) if compiled.fits(row)[0]]
    assert result.fits == len(fitting)

    checks = every_check(cls, mode)
    verdicts = [
        [passes(check, machine, cls, own=row in own) for check in checks]
        for row, machine in enumerate(cluster)
    ]
    reports = {(check.kind, check.name, check.slot): check for check in result.checks}
    for i, named in enumerate(checks):
        check = reports.pop((named.kind, named.name, named.slot), None)
        fails = [r for r, v in enumerate(verdicts) if not v[i]]
        others = [r for r, v in enumerate(verdicts) if all(v[:i] + v[i + 1 :])]
        if check is None:  # whoever fails it fails another one before
            assert all(not all(verdicts[r][:i]) for r in fails)
            continue
        assert check.only == len({*fails} & {*others})
        assert check.starts == sum(tasks(cluster[r], cls, check) for r in others)
        first = [r for r in fails if all(verdicts[r][:i])]
        assert (check.count, check.examples) == (len(first), first[:5])
    assert not reports


def every_check(cls: TaskClass, mode: Mode) -> list[FunnelCheck]:
    """All checks of a class in the order of the funnel, without figures."""
    named = [("foreign", FOREIGN, -1)] if mode is Mode.HARD else []
    named.append(("check", "were unschedulable", -1))
    named += [("selector", f"label {key}={value}", -1) for key, value in cls.selector]
    if not cls.tolerations:
        named.append(("taint", "taint dedicated=infer", -1))
    named.append(("taint", "taint maintenance", -1))
    names = {CPU: "cpu", MEMORY: "memory", PODS: "pods", GPU: "slot 3"}
    named += [("amount", names[slot], slot) for slot, _ in cls.requests]
    named.append(("promised", PROMISED, -1))
    return [FunnelCheck(kind, name, slot, 0, 0, 0, []) for kind, name, slot in named]


@settings(max_examples=examples(50), deadline=None)
@given(
    cluster=st.lists(machines(), min_size=1, max_size=12),
    cls=classes(),
    wanted=st.integers(1, 12),
)
def test_a_smaller_request_that_is_proposed_fits_and_the_next_step_does_not(
    cluster: list[FunnelNode], cls: TaskClass, wanted: int
) -> None:
    everyone = set(range(len(cluster)))
    result, _ = look(cluster, cls, mode=Mode.SOFT, own=everyone, wanted=wanted)
    if result.starts >= wanted:
        assert result.smaller == []
    for slot, amount in result.smaller:
        step = 100 if slot == CPU and dict(cls.requests)[CPU] > 100 else 1000
        step = 1 << 26 if slot == MEMORY else step
        assert 0 < amount < dict(cls.requests)[slot]
        for tried, enough in ((amount, True), (amount + step, False)):
            requests = tuple((s, tried if s == slot else a) for s, a in cls.requests)
            again = TaskClass(requests, cls.selector, cls.affinity, cls.tolerations)
            if not enough and tried >= dict(cls.requests)[slot]:
                continue
            starts = look(cluster, again, mode=Mode.SOFT, own=everyone, wanted=wanted)[0].starts
            assert (starts >= wanted) is enough


def test_the_nearest_nodes_lack_the_least() -> None:
    def machine(free: int, leaving: int = 0) -> FunnelNode:
        whole = (8000, 16 * GIB, 10, 8000)
        used = (0, 0, 0, 8000 - free)
        return FunnelNode("a", "x", (), False, whole, used, (0, 0, 0, leaving), (0, 0, 0, 0))

    cls = TaskClass(requests=((CPU, 1000), (PODS, 1), (GPU, 8000)))
    cluster = [machine(0), machine(6000, leaving=2000), machine(4000)]
    result, _ = look(cluster, cls, mode=Mode.SOFT, own={0, 1, 2})
    assert [near.row for near in result.near] == [1, 2, 0]
    assert result.near[0].lacks == [(GPU, 8000, 6000, 8000)]
    assert (result.starts, result.later, result.empty) == (0, 1, 3)


def test_a_host_port_holds_back_by_its_name() -> None:
    """Two free nodes, one whose port is taken, one where it is promised: two tasks can start."""
    machine = FunnelNode("a", "x", (), False, (8000, 16 * GIB, 10, 0), *((0, 0, 0, 0),) * 3)
    cls = TaskClass(requests=((CPU, 1000), (PODS, 1)), things=((port_name("TCP", 80), (1,)),))
    view = view_of(
        [machine.record()] * 4, classes={0: cls}, nodes=[machine.node(row) for row in range(4)]
    )
    counts, promised = [0, 1, 0, 0, 0], [0, 0, 0, 0, 1]
    reports = [(0, counts), (1, promised)]
    name = port_name("TCP", 80)
    view.set_rows(Rows([], [], [(row, name, pack_thing(2, what)) for row, what in reports]))
    result = funnel(cls, view=view, session=SESSION, mode=Mode.SOFT, needed=3)
    assert (result.fits, result.starts, result.later, result.empty) == (2, 2, 2, 4)
    assert (result.named, result.scarce) == (["host port 80/TCP"], [])
    counted = [(check.kind, check.name, check.count) for check in result.checks]
    assert counted == [("thing", "host port 80/TCP", 1), ("promised", PROMISED, 1)]
    why = from_funnel(RoleFunnel(0, "web", 3, result), cls.requests, ["cpu", "memory", "pods"])
    assert why.message == (
        "gang of 3 (web), 2 can start now; each takes host port 80/TCP of its node, "
        "free on 2 of 4 matching nodes"
    )


@pytest.mark.parametrize(("kinds", "checks"), [(APART, APART), (APART + 1, 1)])
def test_many_different_taints_are_told_as_one(kinds: int, checks: int) -> None:
    whole = (8000, 16 * GIB, 10, 0)
    none = (0, 0, 0, 0)
    cluster = [
        FunnelNode(
            "a", "x", (Taint("owner", f"u{n}", "NoSchedule"),), False, whole, none, none, none
        )
        for n in range(kinds)
    ]
    cls = TaskClass(requests=((CPU, 1000), (PODS, 1)))
    result, _ = look(cluster, cls, mode=Mode.SOFT, own=set(range(kinds)))
    assert len(result.checks) == checks
    assert sum(check.count for check in result.checks) == kinds
