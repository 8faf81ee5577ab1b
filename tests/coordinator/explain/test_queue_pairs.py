"""Pairs of queues: what is lacked is in the pairs, to the unit, and so are its hours."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.explain.queues import pair_hours
from coordinator.explain.queues.balances import scarce_resources
from coordinator.explain.queues.pair_hours import PairHours
from coordinator.explain.queues.pairs import Holder, QueueBalance, QueuePair, divided, pairs_of
from coordinator.explain.queues.pairs_json import queue_pairs
from shared.slices import at_once
from tests.builders.objects import Item, kai_group, kai_queue, node, queue, simple_job
from tests.coordinator.objects.test_kai import GPUS, KAI, member
from tests.coordinator.objects.world import World, infeasible
from tests.coordinator.order.helpers import POLICY
from tests.examples import examples

CAPACITY = {
    "actions": "allocate, reclaim",
    "tiers": [{"plugins": [{"name": "gang"}, {"name": "capacity"}]}],
}
amounts = st.integers(0, 2**53) | st.integers(0, 5)
balances = st.lists(
    st.builds(
        QueueBalance,
        queue=st.text(max_size=3),
        deserved=amounts,
        allocated=amounts,
        requested=amounts,
    ),
    unique_by=lambda balance: balance.queue,
    max_size=60,
)


@settings(max_examples=examples(1000))
@given(balances)
def test_pairs_sum_to_what_queues_lack_and_overdraw_no_borrower(listed: list[QueueBalance]) -> None:
    pairs = at_once(pairs_of(listed))
    lacks: dict[str, int] = {}
    from_queues: dict[str, int] = {}
    for pair, amount in pairs.items():
        assert amount > 0
        lacks[pair.queue] = lacks.get(pair.queue, 0) + amount
        if pair.holder is Holder.QUEUE:
            from_queues[pair.borrower] = from_queues.get(pair.borrower, 0) + amount
    assert lacks == {each.queue: each.lack for each in listed if each.lack}
    borrowed = {each.queue: each.borrowed for each in listed}
    assert all(amount <= borrowed[name] for name, amount in from_queues.items())
    lacking, lent = sum(lacks.values()), sum(borrowed.values())
    free = sum(amount for pair, amount in pairs.items() if pair.holder is Holder.FREE)
    assert free == max(0, lacking - lent)


def test_a_lack_is_divided_in_proportion_to_what_each_borrows() -> None:
    listed = [
        QueueBalance("a", deserved=5, allocated=0, requested=9),
        QueueBalance("b", deserved=4, allocated=2, requested=4),
        QueueBalance("x", deserved=1, allocated=5, requested=5),
        QueueBalance("y", deserved=0, allocated=2, requested=2),
        QueueBalance("z", deserved=3, allocated=1, requested=1),
    ]
    # 6 are borrowed of 7 that are lacked: 30/7 and 12/7 are 4 and 2, and 4 are 16/6 and 8/6.
    assert at_once(pairs_of(listed)) == {
        QueuePair("a", Holder.QUEUE, "x"): 3,
        QueuePair("a", Holder.QUEUE, "y"): 1,
        QueuePair("a", Holder.FREE): 1,
        QueuePair("b", Holder.QUEUE, "x"): 1,
        QueuePair("b", Holder.QUEUE, "y"): 1,
    }
    assert [each.idle for each in listed] == [0, 0, 0, 0, 2]
    assert divided(2, [1, 1, 1]) == [1, 1, 0]


def test_borrowers_beyond_the_largest_are_one() -> None:
    listed = [QueueBalance(f"b{i}", allocated=2, requested=2) for i in range(40)]
    listed.append(QueueBalance("a", deserved=80, requested=80))
    pairs = at_once(pairs_of(listed))
    assert pairs.pop(QueuePair("a", Holder.OTHERS)) == 16
    assert [*pairs.values()] == [2] * 32


# --- of a service ---------------------------------------------------------------------------------


def answer_of(world: World, hours: PairHours, resource: str = "") -> Item:
    resources = [resource] if resource else scarce_resources(world.core)
    answer: Item
    (answer,) = at_once(queue_pairs(world.core, hours, resources))["resources"]
    return answer


def pairs(answer: Item) -> list[tuple[str, str, str]]:
    return [
        (pair["queue"], pair["borrower"] or pair["holder"], pair["amount"])
        for pair in answer["pairs"]
    ]


def shared_node(policy: dict[str, Any], *queues: Item) -> World:
    """A node of eight cores, all of them with red; then two queues ask for three each."""
    world = World(policy=policy)
    world.put(*queues, node("n0", cpu=8, memory="256Gi"))
    world.put(simple_job("wide", 8, namespace="ns", queue="red"))
    world.place()
    for name in ("blue", "green"):
        world.put(simple_job(name, 3, namespace="ns", queue=name))
    world.answer(infeasible)
    return world


def test_pairs_by_proportion() -> None:
    world = shared_node(POLICY, queue("red"), queue("blue"), queue("green"))
    answer = answer_of(world, PairHours(world.core))
    # A third of 8 cores for each, in whole thousandths.
    assert pairs(answer) == [("blue", "red", "2666m"), ("green", "red", "2666m")]
    assert (answer["resource"], answer["lacking"], answer["borrowed"]) == ("cpu", "5332m", "5334m")
    assert [each["reclaimable"] for each in answer["recovery"]] == ["0", "0"], "it has no reclaim"


def test_pairs_by_capacity_and_what_reclaim_may_take() -> None:
    queues = (
        queue("red", deserved={"cpu": "6"}),
        queue("blue", deserved={"cpu": "2"}),
        queue("green", deserved={"cpu": "1"}),
        queue("empty", deserved={"cpu": "4"}),
    )
    world = shared_node(CAPACITY, *queues)
    answer = answer_of(world, PairHours(world.core))
    assert pairs(answer) == [
        ("blue", "red", "1333m"),
        ("blue", "free", "667m"),
        ("green", "red", "667m"),
        ("green", "free", "333m"),
    ]
    assert answer["recovery"][0] == {
        "queue": "blue",
        "lacks": "2",
        "reclaimable": "2",
        "idleOfOthers": "4",
    }
    world.put(queue("red", deserved={"cpu": "6"}, reclaimable=False))
    assert answer_of(world, PairHours(world.core))["recovery"][0]["reclaimable"] == "0"


def test_a_queue_above_others_is_in_no_pair_of_capacity() -> None:
    tiers = [{"plugins": [{"name": "gang"}, {"name": "capacity", "enableHierarchy": True}]}]
    queues = (
        queue("team", deserved={"cpu": "4"}),
        queue("blue", parent="team", deserved={"cpu": "3"}),
        queue("green", parent="team", deserved={"cpu": "1"}),
        queue("red", deserved={"cpu": "4"}),
    )
    world = shared_node({"actions": "allocate", "tiers": tiers}, *queues)
    answer = answer_of(world, PairHours(world.core))
    assert pairs(answer) == [("blue", "red", "3"), ("green", "red", "1")]
    assert [each["queue"] for each in answer["queues"]] == ["blue", "green", "red"]


def test_pairs_by_fair_shares_of_a_tree() -> None:
    world = World(policy=KAI)
    shares = {"red": (1, 3), "blue": (2, 1), "empty": (1, 1)}
    world.put(
        node("n0") | GPUS,
        kai_queue("all"),
        *(
            kai_queue(name, "all", gpu={"quota": quota, "overQuotaWeight": weight, "limit": -1})
            for name, (quota, weight) in shares.items()
        ),
    )
    world.put(kai_group("g", "red", minMember=4), *(member(f"g{i}", "g") for i in range(4)))
    world.place()
    world.put(kai_group("h", "blue", minMember=3), *(member(f"h{i}", "h") for i in range(3)))
    world.answer(infeasible)
    answer = answer_of(world, PairHours(world.core))
    # Quotas of 1 and 2; the fourth GPU goes to the larger weight; empty asks for nothing.
    assert pairs(answer) == [("blue", "red", "2")]
    assert [each["queue"] for each in answer["queues"]] == ["blue", "empty", "red"]
    (recovery,) = answer["recovery"]
    assert (recovery["reclaimable"], recovery["idleOfOthers"]) == ("2", "1")
    assert answer["resource"] == "nvidia.com/gpu"


# --- hours ----------------------------------------------------------------------------------------


class Hours:
    def __init__(self, world: World) -> None:
        self.now = 50.0
        self.hours = PairHours(world.core, clock=lambda: self.now)

    def look(self, after: float) -> int:
        self.now += after
        return at_once(self.hours.look())


def test_hours_count_while_a_queue_lacks_something() -> None:
    world = shared_node(POLICY, queue("red"), queue("blue"), queue("green"))
    watch = Hours(world)
    watch.look(10.0)
    watch.look(900.0)
    watch.look(900.0)
    answer = answer_of(world, watch.hours)
    by_pair = {(pair["queue"], pair["borrower"]): pair["hours"] for pair in answer["pairs"]}
    assert by_pair == {("blue", "red"): 1.333, ("green", "red"): 1.333}
    world.remove("Job", "blue")
    world.remove("Job", "green")
    assert watch.look(900.0) == 0, "nothing is compared while no task waits"
    watch.look(900.0)
    answer = answer_of(world, watch.hours)
    assert answer["hours"] == pytest.approx(2 * 1.333 * 1.5)
    assert {pair["amount"] for pair in answer["pairs"]} == {"0"}


def test_hours_are_bounded_and_keep_their_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_hours, "MOST_PAIRS", 4)
    names = [f"q{i}" for i in range(6)]
    world = World(policy=CAPACITY)
    world.put(*(queue(name, deserved={"cpu": "1"}) for name in names), queue("red"))
    world.put(node("n0", cpu=4, memory="256Gi"))
    world.put(simple_job("wide", 4, namespace="ns", queue="red"))
    world.place()
    for name in names:
        world.put(simple_job(name, 1, namespace="ns", queue=name))
    world.answer(infeasible)
    watch = Hours(world)
    for _ in range(3):
        watch.look(1800.0)
    answer = answer_of(world, watch.hours)
    assert len(watch.hours.milliseconds["cpu"]) <= 4
    assert answer["hours"] == 6.0
    own = sum(pair["hours"] for pair in answer["pairs"])
    assert own + answer["otherHours"] == pytest.approx(6.0)
    assert answer["otherHours"] > 0
