"""Own samples of usage: what is taken when, what the ledger gets of it, and what a new leader
knows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.dispatch.instructions import StoreUsage
from coordinator.order.usage_over_time import UsageOverTime
from shard_worker.dialects.open_session import open_session
from shard_worker.framework.session import Session
from shard_worker.session_model.workload import ClusterInfo, QueueInfo
from shared.ledger.entries.intake_batch import PutObject
from shared.model.kai import KaiQueue, KaiShare
from shared.model.model import Node, Queue
from shared.policy.dialect import parse_policy
from shared.policy.kai_usage import USAGE_ONE
from shared.records.usage import usage_moment
from shared.units.slots import CPU

START = 1_767_571_200.0
CORES = 8
LEDGER = {"clientType": "ledger", "usageParams": {"windowSize": "1h"}}


def session_of(usage: dict[str, Any] | None = None) -> Session:
    policy: dict[str, object] = {"dialect": "kai"}
    return open_session(parse_policy(policy | ({"usageDBConfig": usage} if usage else {})))


@dataclass
class Leader:
    """One after the other over the same ledger and cluster."""

    objects: dict[str, bytes] = field(default_factory=dict)
    cores: int = 0
    """Cores that queue a holds."""
    session: Session = field(default_factory=lambda: session_of(LEDGER))

    def __post_init__(self) -> None:
        share = KaiShare(weight=1000, limit=-1)
        self.cluster = ClusterInfo(names=["cpu", "memory"])
        self.cluster.nodes[0] = Node(row=0, name="n", allocatable=((CPU, 1000 * CORES),))
        self.cluster.nodes_revision += 1
        self.queue = QueueInfo(queue=Queue(qid=0, name="a"))
        self.cluster.queues[0] = self.queue
        self.cluster.objects.kai_queues["a"] = KaiQueue("a", share, share, share)
        self.usage = UsageOverTime(self.session, self.cluster)
        self.usage.restore(self.objects)

    def step(self, now: float, *, stores: bool = True) -> int:
        """Returns the number of records that were written."""
        self.queue.allocated = {CPU: 1000 * self.cores}
        self.usage.begin(now)
        instruction = StoreUsage(self.usage.changes())
        if instruction.marks and stores:
            for op in instruction.ops():
                assert isinstance(op, PutObject)
                if op.spec is None:
                    del self.objects[op.key]
                else:
                    self.objects[op.key] = op.spec
            self.usage.stored(instruction.marks)
        return len(instruction.marks)

    @property
    def known(self) -> float:
        return self.cluster.objects.queue_usage.get("a", (0, 0, 0))[0] / USAGE_ONE

    def next(self) -> Leader:
        """The one that takes over, with what the ledger has."""
        return Leader(self.objects, self.cores, self.session)


def test_one_sample_a_minute_is_taken_and_written() -> None:
    leader = Leader(cores=4)
    written = sum(leader.step(START + 0.05 * number) for number in range(20 * 150))
    assert written == 3
    assert len(leader.objects) == 3, "of 30 s of the window each, rounded up to a minute"
    assert leader.known == 0.5


def test_without_the_setting_nothing_is_sampled_and_old_records_go() -> None:
    leader = Leader(cores=4)
    leader.step(START)
    assert leader.objects
    leader.session = session_of()
    after = leader.next()
    revision = after.cluster.revision
    after.step(START + 60.0)
    assert after.objects == {}
    assert after.cluster.objects.queue_usage == {}
    assert after.cluster.revision == revision


def test_shares_are_divided_anew_when_usage_changed_and_only_then() -> None:
    leader = Leader(cores=4)
    leader.step(START)
    revision = leader.cluster.revision
    leader.step(START + 60.0)
    assert leader.cluster.revision == revision, "half of the cluster as before"
    leader.cores = 8
    leader.step(START + 120.0)
    assert leader.cluster.revision == revision + 1


def test_a_new_leader_knows_it_before_its_first_sample() -> None:
    leader = Leader(cores=4)
    for minute in range(30):
        leader.step(START + 60.0 * minute)
    after = leader.next()
    after.step(START + 60.0 * 29 + 5.0)
    assert after.known == leader.known == 0.5


def test_a_standby_that_follows_the_records_knows_the_same() -> None:
    leader, standby = Leader(cores=8), Leader()
    objects: dict[str, bytes] = {}
    for minute in range(90):
        leader.cores = 8 - minute // 15
        leader.step(START + 60.0 * minute)
        changed = {key: data for key, data in leader.objects.items() if objects.get(key) != data}
        standby.usage.forget(objects.keys() - leader.objects.keys())
        standby.usage.restore(changed)
        objects = dict(leader.objects)
    standby.step(START + 60.0 * 89)
    assert standby.known == leader.known > 0.0


def test_a_leader_that_dies_before_its_sample_is_stored_loses_that_one() -> None:
    leader = Leader(cores=8)
    leader.step(START)
    leader.cores = 0
    leader.step(START + 60.0, stores=False)
    assert leader.known == 0.5
    after = leader.next()
    after.step(START + 61.0)
    assert after.known == 0.5, "it takes the sample of that minute itself"
    late = leader.next()
    late.cores = 8
    late.step(START + 130.0)
    assert late.known == pytest.approx(2 / 3), "its own as well"


def test_one_write_is_on_its_way_at_a_time() -> None:
    leader = Leader(cores=4)
    leader.usage.begin(START)
    first = leader.usage.changes()
    assert first
    leader.usage.begin(START + 60.0)
    assert leader.usage.changes() == {}
    leader.usage.stored(first)
    assert leader.usage.changes()


def test_old_buckets_leave_the_ledger() -> None:
    leader = Leader(cores=4)
    leader.step(START)
    leader.step(START + 3 * 3600.0)
    assert [usage_moment(key) for key in leader.objects] == [int(START) + 3 * 3600]


def test_a_clock_that_was_set_back_stops_no_samples() -> None:
    leader = Leader(cores=4)
    leader.step(START + 86_400.0)
    leader.step(START)
    assert [usage_moment(key) for key in leader.objects] == [int(START)]


def test_a_new_window_takes_up_the_samples_there_are() -> None:
    leader = Leader(cores=8)
    for minute in range(10):
        leader.step(START + 60.0 * minute)
    leader.cores = 0
    for minute in range(10, 20):
        leader.step(START + 60.0 * minute)
    leader.usage.adopt(session_of({"clientType": "ledger", "usageParams": {"windowSize": "10m"}}))
    assert leader.cluster.objects.queue_usage == {}
    leader.step(START + 60.0 * 19 + 1.0)
    assert leader.known == 0.0
    assert leader.cluster.objects.queue_usage == {"a": (0, 0, 0)} or not leader.known


def test_measured_usage_counts_only_if_the_policy_names_a_server() -> None:
    printed = {"a": (1, 2, 3)}
    leader = Leader(cores=4)
    leader.usage.measured(printed)
    assert leader.cluster.objects.queue_usage == {}
    leader.usage.adopt(session_of({"connectionString": "http://p"}))
    leader.usage.measured(printed)
    assert leader.cluster.objects.queue_usage == printed
    leader.usage.adopt(session_of())
    assert leader.cluster.objects.queue_usage == {}


@given(
    cores=st.lists(st.integers(0, CORES), min_size=1, max_size=90),
    takeovers=st.sets(st.integers(0, 90)),
)
def test_takeovers_between_samples_change_nothing(cores: list[int], takeovers: set[int]) -> None:
    alone, leader = Leader(), Leader()
    for minute, held in enumerate(cores):
        if minute in takeovers:
            leader = leader.next()
        alone.cores = leader.cores = held
        alone.step(START + 60.0 * minute)
        leader.step(START + 60.0 * minute)
        assert leader.known == alone.known
        assert leader.objects == alone.objects
