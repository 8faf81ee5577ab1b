"""A turn that searches victims makes objects of the jobs that its search reaches, and decides as if
it had made one of every job."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from shard_worker.dialects.kai.actions.run import EVICTING
from shard_worker.dialects.kai.actions.searching import _ActionRun
from shard_worker.dialects.kai.evictions import Probe, Uncounted, UnreadTask
from shard_worker.dialects.kai.rules.groups import elastic_class, is_elastic, tasks_to_evict
from shard_worker.dialects.kai.search.generators import multi_node_gang
from shard_worker.dialects.kai.search.node_capacities import gpu_room
from shard_worker.dialects.kai.search.unread_jobs import UnreadJob, UnreadJobs
from shard_worker.dialects.kai.service.turn_session import run_for_job
from shard_worker.framework.operation import OpKind
from shard_worker.session_model.other_jobs import JobReadCache
from shard_worker.session_model.status import EVICTABLE, OCCUPYING
from shared.codec.packed import replace
from shared.model.gpu_request import WHOLE
from shared.model.model import Job
from tests.examples import examples
from tests.shard_worker.dialects.kai.clusters import KaiCluster
from tests.shard_worker.dialects.kai.search.drawn_turns import (
    WITH_ONE_ENDED,
    DrawnTurn,
    clusters,
    opened,
)
from tests.shard_worker.dialects.kai.turns import did, turn_over

ACTIONS = ("consolidation", "reclaim", "preempt")

SLOW = settings(
    max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@SLOW
@given(clusters(), st.sampled_from(ACTIONS))
@example(WITH_ONE_ENDED, "consolidation")
def test_columns_change_no_outcome(drawn: DrawnTurn, action: str) -> None:
    by_objects, by_columns = opened(drawn, by_columns=False), opened(drawn, by_columns=True)
    expected = did(*by_objects, action)
    assert did(*by_columns, action) == expected
    eager, lazy = by_objects[0], by_columns[0]
    assert lazy.kai_jobs.keys() <= eager.kai_jobs.keys()
    evicted = any(op.task.job.job.name != "waits" for op in eager.committed)
    fewer = len(lazy.kai_jobs) < len(eager.kai_jobs)
    event(f"{action}: evicted {evicted}, fewer objects {fewer}")


def order_of_victims(
    drawn: DrawnTurn, action: str, *, by_columns: bool
) -> list[tuple[int, list[int], bool]]:
    """All units that may go, to the last one: job, rows of the tasks, and whether it goes alone."""
    ssn, job = opened(drawn, by_columns=by_columns)
    kai_job, rules = ssn.kai_job(job), EVICTING[action](ssn)
    assert kai_job is not None
    ssn.read_residents(kai_job, rules.of_own_queue)
    ssn.evictions.start_solution()
    units = list(_ActionRun(ssn, rules)._victims(kai_job))
    assert {unit.jid for unit in units if unit.is_read} <= ssn.kai_jobs.keys()
    return [(unit.jid, [task.row for task in unit.tasks], unit.alone) for unit in units]


@SLOW
@given(clusters(), st.sampled_from(ACTIONS))
def test_the_order_of_victims_is_the_same(drawn: DrawnTurn, action: str) -> None:
    """Searches read its beginning, mostly."""
    units = order_of_victims(drawn, action, by_columns=False)
    assert order_of_victims(drawn, action, by_columns=True) == units
    event(f"{action}: units {min(len(units), 4)}")


@SLOW
@given(clusters(), st.sampled_from(ACTIONS))
def test_columns_of_a_job_equal_its_object(drawn: DrawnTurn, action: str) -> None:
    ssn, job = opened(drawn, by_columns=True)
    other_ssn, other_job = opened(drawn, by_columns=False)
    for session, own in ((ssn, job), (other_ssn, other_job)):
        kai_job = session.kai_job(own)
        assert kai_job is not None
        session.read_residents(kai_job, {"preempt": True, "reclaim": False}.get(action))
    assert sorted(ssn.world.inhabited_rows()) == sorted(other_ssn.world.inhabited_rows())
    assert other_ssn.unread is None
    unread = ssn.unread
    assert isinstance(unread, UnreadJobs)
    columns = unread.columns
    for line, jid in enumerate(columns.jid.tolist()):
        assert jid not in ssn.kai_jobs
        other = unread.job(line)
        assert unread.key(line) == (ssn.kai_job_key(other), jid)
        assert columns.leaves[columns.leaf[line]] is other.queue
        assert columns.preemptible[line] == other.preemptible
        amounts = tuple(ssn.asked_by([task]) for task in other.root.tasks())
        assert sorted(columns.shapes[columns.shape[line]]) == sorted(amounts)
        started = ssn.started.get(jid, other.group.last_start)
        assert columns.started[line] == started or (
            started is None and np.isnan(columns.started[line])
        )
        assert columns.elastic_class[line] == elastic_class(other.root)
        assert columns.is_elastic[line] == is_elastic(other.root)
        holds = other.preemptible and other.job.census.of(OCCUPYING) > 0
        assert columns.may_lose[line] == (holds and ssn.may_lose(other))
        assert not other.waits
        if columns.at_once[line] and columns.may_lose[line]:
            reached = unread.reached(line)
            assert isinstance(reached, UnreadJob)
            tasks, unit = list(other.root.tasks()), reached.unit()
            by_number = sorted(tasks, key=lambda task: task.tix)
            for task, occupant in zip(by_number, unit.occupants, strict=True):
                assert isinstance(occupant, UnreadTask)
                assert occupant.gpus == ssn.asked_by([task]).gpu
                assert (occupant.row, occupant.cid) == (task.row, task.cid)
                assert (occupant.requests, occupant.devices) == (task.requests, task.devices)
                assert task.status & EVICTABLE
            assert reached.amounts == ssn.asked_by(tasks)
            assert list(unit.tasks) == tasks == tasks_to_evict(other.root)
        assert unread.reached(line) is other or columns.at_once[line]
    event(f"jobs in columns: {len(columns.jid)}")


# --- how many objects -----------------------------------------------------------------------------


def full(jobs: int, **fields: object) -> KaiCluster:
    """Jobs of one GPU of the queue ``rich``, and a gang that waits in ``poor``."""
    cluster = KaiCluster()
    cluster.queue("department", parent="")
    cluster.queue("rich", quota=0)
    cluster.queue("poor", quota=jobs)
    for node in range(jobs // 8):
        cluster.node(f"n{node}", gpus=8)
        for at in range(8):
            holding = [((f"kai-gpu/{at}", (WHOLE,)),)]
            cluster.job(f"j{node}-{at}", queue="rich", on=[f"n{node}"], holding=holding)
    cluster.job("waits", **{"queue": "poor", "priority": 90, **fields})  # type: ignore[arg-type]
    return cluster


@pytest.mark.parametrize(
    ("action", "queue"), [("reclaim", "poor"), ("preempt", "rich"), ("consolidation", "poor")]
)
def test_a_turn_makes_objects_of_the_jobs_that_it_reaches(action: str, queue: str) -> None:
    ssn, job = turn_over(full(800, tasks=10, queue=queue).open(), "waits")
    run_for_job(ssn, job, action)
    evicted = 0 if action == "consolidation" else 10
    assert sum(op.task.job is not job for op in ssn.committed) == evicted
    assert len(ssn.kai_jobs) == len(ssn.world.jobs) < 40


def test_victims_of_whole_nodes_are_the_only_objects() -> None:
    """Victims of one node are looked for in vain, through all of the order; those of several nodes
    are ten times eight."""
    ssn, job = turn_over(full(400, tasks=10, gpus=8).open(), "waits")
    run_for_job(ssn, job, "reclaim")
    assert sum(op.task.job is not job for op in ssn.committed) == 80
    assert len(ssn.kai_jobs) == 81


def test_gangs_are_no_objects_until_one_of_them_has_to_go() -> None:
    cluster = KaiCluster()
    cluster.queue("department", parent="")
    cluster.queue("rich", quota=0)
    cluster.queue("poor", quota=80)
    for node in range(40):
        cluster.node(f"n{node}", gpus=4)
    for at in range(40):
        holding = [
            ((f"kai-gpu/{2 * side + pair}", (WHOLE,)),) for side in (0, 1) for pair in (0, 1)
        ]
        on = [f"n{at}"] * 2 + [f"n{at ^ 1}"] * 2  # two nodes share two gangs
        devices = holding[:2] * 2 if at % 2 == 0 else holding[2:] * 2
        cluster.job(f"gang{at}", queue="rich", tasks=4, on=on, holding=devices)
    cluster.job("waits", queue="poor", tasks=4, gpus=4, priority=90)
    ssn, job = turn_over(cluster.open(), "waits")
    run_for_job(ssn, job, "reclaim")
    assert sum(op.task.job is not job for op in ssn.committed) == 16
    assert len(ssn.kai_jobs) == 5


def test_nodes_of_a_gang_are_ranked_in_its_task_order() -> None:
    """With equal gain, the node of the gang's first task is tried first."""

    def scenarios(*, by_columns: bool) -> list[list[str]]:
        cluster = KaiCluster()
        cluster.queue("department", parent="")
        cluster.queue("rich", quota=0)
        cluster.queue("poor", quota=9)
        devices = [((f"kai-gpu/{at}", (WHOLE,)),) for at in range(2)]
        for node in "ba":  # the last goes first
            cluster.node(node, gpus=2)
            cluster.job(f"one-{node}", queue="rich", on=[node], holding=devices[:1])
        cluster.job("gang", queue="rich", tasks=2, on=["a", "b"], holding=devices[1:] * 2)
        cluster.job("waits", queue="poor", gpus=2)

        def spec(job: Job) -> Job:
            if job.name != "gang":
                return job
            first, second = job.roles
            roles = (replace(first, created=(9.0,)), replace(second, created=(1.0,)))
            return replace(job, roles=roles)

        ssn, job = turn_over(cluster.open(), "waits", by_columns=by_columns, spec=spec)
        kai_job, gpus = ssn.kai_job(job), gpu_room(ssn.world)
        assert kai_job is not None
        ssn.read_residents(kai_job, of_own_queue=False)
        ssn.evictions.start_solution()
        probe = Probe(
            job=kai_job,
            tasks=list(kai_job.root.tasks()),
            order=_ActionRun(ssn, EVICTING["reclaim"](ssn))._victims(kai_job),
            feasible=gpus > 0,
            gpus=gpus,
            gpus_of=lambda task: 2000 if task is job.tasks[0] else 1000,
            node_name=str,
            gathering=Uncounted,
        )
        items = list(multi_node_gang(probe))
        return [[unit.job.job.job.name for unit in scenario.units] for scenario in items]

    expected = [["gang", "one-a"], ["gang", "one-b"], ["gang", "one-a", "one-b"]]
    assert scenarios(by_columns=False) == expected
    assert scenarios(by_columns=True) == expected


def test_jobs_of_queues_within_their_quota_are_not_read() -> None:
    """A reclaim from a queue within its quota looks at none of its jobs."""
    cluster = full(80, tasks=2)
    cluster._queues[1] = replace(cluster._queues[1], gpu=replace(cluster._queues[1].gpu, quota=-1))
    ssn, job = turn_over(cluster.open(), "waits")
    run_for_job(ssn, job, "reclaim")
    assert not ssn.committed
    assert len(ssn.kai_jobs) == 1


@pytest.mark.parametrize("by_columns", [True, False])
@pytest.mark.parametrize(("most", "moved"), [(0, 0), (1, 1), (-1, 1)])
def test_a_consolidation_moves_no_more_than_it_may(most: int, moved: int, by_columns: bool) -> None:
    cluster = KaiCluster(options={"max-consolidation-preemptees": most})
    for node in "ab":
        cluster.node(node, gpus=2)
        cluster.job(f"on-{node}", on=[node], holding=[(("kai-gpu/0", (WHOLE,)),)])
    cluster.job("waits", gpus=2)
    ssn, job = turn_over(cluster.open(), "waits", by_columns=by_columns)
    run_for_job(ssn, job, "consolidation")
    assert sum(op.kind is OpKind.EVICT for op in ssn.committed) == moved


@pytest.mark.parametrize("action", ACTIONS)
def test_nobody_runs(action: str) -> None:
    cluster = KaiCluster()
    cluster.node("n", gpus=1)
    cluster.job("waits", gpus=2)
    ssn, job = turn_over(cluster.open(), "waits")
    kai_job = ssn.kai_job(job)
    assert kai_job is not None
    ssn.read_residents(kai_job, EVICTING[action](ssn).of_own_queue)
    assert ssn.unread is not None
    run_for_job(ssn, job, action)
    assert not ssn.committed


def test_specifications_are_decoded_once() -> None:
    reading = JobReadCache()
    for _ in range(2):
        ssn, job = turn_over(full(80, tasks=2).open(), "waits", reading=reading)
        run_for_job(ssn, job, "reclaim")
        assert ssn._residents().facts.decoded == 80
