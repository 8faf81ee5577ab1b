"""proportion: what queues deserve, and what follows from it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_worker.dialects.open_session import open_session
from shard_worker.dialects.volcano.plugins.queue.proportion import Shares, water_fill
from shard_worker.framework.session import Session
from shard_worker.session_model.workload import ClusterInfo, QueueInfo
from shared.model.model import Queue, Requests
from shared.policy.model import PluginOption, Policy
from shared.units.slots import CPU, MEMORY, PODS

PORT = 7
"""A slot that no node lists: a host port."""
DIMENSIONS = (CPU, MEMORY, PODS)


def queue(
    qid: int,
    requested: dict[int, int],
    *,
    weight: int = 1,
    allocated: dict[int, int] | None = None,
    capability: Requests | None = None,
    guarantee: Requests = (),
    priority: int = 0,
    open_: bool = True,
    jobs: int = 1,
) -> QueueInfo:
    spec = Queue(
        qid=qid,
        name=f"q{qid}",
        weight=weight,
        capability=capability,
        guarantee=guarantee,
        priority=priority,
        open=open_,
    )
    return QueueInfo(queue=spec, allocated=allocated or {}, requested=requested, jobs=jobs)


def cluster(total: dict[int, int], *queues: QueueInfo) -> ClusterInfo:
    return ClusterInfo(total=total, queues={info.queue.qid: info for info in queues})


def deserved(total: dict[int, int], *queues: QueueInfo) -> dict[int, dict[int, float]]:
    return water_fill(cluster(total, *queues))


@pytest.fixture
def session() -> Session:
    return open_session(Policy(("allocate",), ((PluginOption("proportion"),),)))


class TestWaterFilling:
    def test_by_weight(self) -> None:
        want = {CPU: 9000, MEMORY: 900}
        shares = deserved({CPU: 9000, MEMORY: 900}, queue(0, want), queue(1, want, weight=2))
        assert shares == {0: {CPU: 3000, MEMORY: 300}, 1: {CPU: 6000, MEMORY: 600}}

    def test_an_unwanted_share_is_divided_among_the_other_queues(self) -> None:
        shares = deserved(
            {CPU: 9000}, queue(0, {CPU: 1000}), queue(1, {CPU: 9000}), queue(2, {CPU: 9000})
        )
        assert [shares[qid][CPU] for qid in range(3)] == [1000, 4000, 4000]

    def test_never_more_than_the_capability(self) -> None:
        shares = deserved(
            {CPU: 9000},
            queue(0, {CPU: 9000}, capability=((CPU, 2000),)),
            queue(1, {CPU: 9000}),
        )
        assert [shares[qid][CPU] for qid in range(2)] == [2000, 7000]

    def test_a_capability_of_no_cpu_is_unlimited(self) -> None:
        capability = ((MEMORY, 5),)
        shares = deserved(
            {CPU: 9000, MEMORY: 9},
            queue(0, {CPU: 9000, MEMORY: 9}, capability=((CPU, 0), *capability)),
        )
        assert shares[0] == {CPU: 9000, MEMORY: 5}

    def test_a_guarantee_is_kept_for_its_queue(self) -> None:
        shares = deserved(
            {CPU: 9000},
            queue(0, {CPU: 100}, guarantee=((CPU, 4000),)),
            queue(1, {CPU: 9000}),
        )
        assert [shares[qid][CPU] for qid in range(2)] == [4000, 5000]

    def test_the_own_guarantee_does_not_limit_a_queue(self) -> None:
        shares = deserved(
            {CPU: 9000},
            queue(0, {CPU: 9000}, guarantee=((CPU, 4000),), weight=9),
            queue(1, {CPU: 9000}),
        )
        assert [shares[qid][CPU] for qid in range(2)] == [8100, 900]

    def test_a_guarantee_of_a_queue_without_jobs_is_kept_too(self) -> None:
        shares = deserved(
            {CPU: 9000},
            queue(0, {}, guarantee=((CPU, 4000),), jobs=0),
            queue(1, {CPU: 9000}),
        )
        assert shares == {1: {CPU: 5000, MEMORY: 0}}

    def test_weights_that_do_not_divide_leave_no_rounding_error(self) -> None:
        shares = deserved(
            {CPU: 100}, queue(0, {CPU: 99}, weight=29), queue(1, {CPU: 99}, weight=71)
        )
        assert shares[0][CPU] == 29

    def test_no_weight_no_share(self) -> None:
        assert deserved({CPU: 100}, queue(0, {CPU: 99}, weight=0))[0][CPU] == 0

    def test_nobody_there(self) -> None:
        assert deserved({CPU: 100}) == {}


queues = st.lists(
    st.builds(
        queue,
        qid=st.just(0),
        requested=st.dictionaries(st.sampled_from(DIMENSIONS), st.integers(0, 10_000)),
        weight=st.integers(1, 9),
        capability=st.none()
        | st.dictionaries(st.sampled_from(DIMENSIONS), st.integers(1, 8000)).map(
            lambda limits: tuple(sorted(limits.items()))
        ),
    ),
    min_size=1,
    max_size=6,
)
totals = st.fixed_dictionaries({slot: st.integers(0, 20_000) for slot in DIMENSIONS})


def numbered(infos: list[QueueInfo]) -> list[QueueInfo]:
    return [
        queue(
            qid,
            info.requested,
            weight=info.queue.weight,
            capability=info.queue.capability,
        )
        for qid, info in enumerate(infos)
    ]


class TestLaws:
    @given(totals, queues)
    def test_no_more_is_dealt_than_there_is(
        self, total: dict[int, int], infos: list[QueueInfo]
    ) -> None:
        shares: Shares = deserved(total, *numbered(infos))
        for slot in DIMENSIONS:
            assert sum(row[slot] for row in shares.values()) <= total[slot] + 0.01

    @given(totals, queues)
    def test_never_above_request_or_capability(
        self, total: dict[int, int], infos: list[QueueInfo]
    ) -> None:
        shares = deserved(total, *numbered(infos))
        for qid, info in enumerate(infos):
            limits = dict(info.queue.capability or ())
            for slot in DIMENSIONS:
                assert shares[qid][slot] <= info.requested.get(slot, 0)
                assert shares[qid][slot] <= limits.get(slot, float("inf"))
                assert shares[qid][slot] >= 0

    @given(totals, queues, st.integers(0, 5), st.integers(1, 20))
    def test_more_weight_never_gives_less(
        self, total: dict[int, int], infos: list[QueueInfo], which: int, extra: int
    ) -> None:
        """One resource: with several, what a queue cannot take of one may hold it open longer."""
        infos, which = numbered(infos), which % len(infos)
        for info in infos:
            info.requested = {CPU: info.requested.get(CPU, 0)}
        before = deserved({CPU: total[CPU]}, *infos)[which][CPU]
        heavier = infos[which]
        infos[which] = queue(
            which,
            heavier.requested,
            weight=heavier.queue.weight + extra,
            capability=heavier.queue.capability,
        )
        after = deserved({CPU: total[CPU]}, *infos)[which][CPU]
        assert after >= before - 0.2 - 1e-6 * before

    @given(totals, queues)
    def test_alone_a_queue_gets_all_it_may_have(
        self, total: dict[int, int], infos: list[QueueInfo]
    ) -> None:
        info = numbered(infos)[0]
        limits = dict(info.queue.capability or ())
        shares = deserved(total, info)
        for slot in DIMENSIONS:
            limit = min(info.requested.get(slot, 0), limits.get(slot, total[slot]), total[slot])
            assert shares[0][slot] == pytest.approx(limit, abs=0.11)

    @given(totals, queues)
    def test_equal_queues_deserve_the_same(
        self, total: dict[int, int], infos: list[QueueInfo]
    ) -> None:
        twins = numbered([infos[0], *infos])
        shares = deserved(total, *twins)
        assert shares[0] == pytest.approx(shares[1])


class TestHooks:
    def test_overused_when_every_dimension_is_used_up(self, session: Session) -> None:
        full = queue(0, {CPU: 9000}, allocated={CPU: 4000})
        half = queue(1, {CPU: 9000}, allocated={CPU: 3999})
        totals = cluster({CPU: 8000}, full, half)
        assert session.overused(full, totals)
        assert not session.overused(half, totals)

    def test_a_queue_that_just_came_is_not_overused(self, session: Session) -> None:
        assert not session.overused(queue(3, {CPU: 1}), cluster({CPU: 8000}))

    def test_allocatable_within_the_share_of_requested_resources(self, session: Session) -> None:
        info = queue(0, {CPU: 9000, MEMORY: 10}, allocated={CPU: 5000, MEMORY: 0})
        other = queue(1, {CPU: 9000, MEMORY: 10})
        totals = cluster({CPU: 8000, MEMORY: 20, PODS: 1}, info, other)
        assert session.allocatable(info, ((MEMORY, 10), (PODS, 9)), totals)  # cpu is beyond
        assert not session.allocatable(info, ((MEMORY, 11),), totals)
        assert not session.allocatable(info, ((CPU, 1),), totals)
        assert session.allocatable(other, ((CPU, 4000), (PORT, 1)), totals)

    def test_a_closed_queue_gets_nothing(self, session: Session) -> None:
        closed = queue(0, {CPU: 9000}, open_=False)
        assert not session.allocatable(closed, ((CPU, 1),), cluster({CPU: 8000}, closed))

    def test_queue_order(self, session: Session) -> None:
        first = queue(0, {CPU: 8000}, priority=1, allocated={CPU: 4000})
        less = queue(1, {CPU: 8000}, allocated={CPU: 1000})
        more = queue(2, {CPU: 8000}, allocated={CPU: 2000})
        totals = cluster({CPU: 9000}, more, less, first)
        ordered = sorted([more, less, first], key=lambda info: session.queue_key(info, totals))
        assert ordered == [first, less, more]

    def test_shares_are_computed_anew_when_the_totals_moved(self, session: Session) -> None:
        info = queue(0, {CPU: 8000})
        totals = cluster({CPU: 4000}, info)
        assert not session.allocatable(info, ((CPU, 5000),), totals)
        totals.total[CPU] = 6000
        assert not session.allocatable(info, ((CPU, 5000),), totals)
        totals.revision += 1
        assert session.allocatable(info, ((CPU, 5000),), totals)

    def test_queue_order_reads_the_current_allocation(self, session: Session) -> None:
        info = queue(0, {CPU: 8000})
        totals = cluster({CPU: 4000}, info)
        assert session.queue_key(info, totals) == ((0, 0.0),)
        info.allocated[CPU] = 2000
        assert session.queue_key(info, totals) == ((0, 0.5),)
