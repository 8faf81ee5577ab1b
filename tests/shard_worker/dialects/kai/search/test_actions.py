"""The evicting actions on small clusters: who goes, who stays, and who may not be touched."""

from __future__ import annotations

import pytest

from shard_worker.dialects.kai.actions.run import run_action
from shard_worker.dialects.kai.actions.searching import is_delayed
from shard_worker.dialects.kai.evictions import EvictionScenario, KaiEvictionUnit, Probe, Uncounted
from shard_worker.dialects.kai.plugins.reclaiming import parts_of
from shard_worker.dialects.kai.search.generators import multi_node_gang, node_local_greedy
from shard_worker.dialects.kai.search.job_lines import JobLines
from shard_worker.dialects.kai.search.node_capacities import gpu_room
from shard_worker.dialects.kai.search.victims import VictimOrder
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.framework.operation import OpKind
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import Status
from shared.codec.packed import replace
from shared.model.gpu_request import WHOLE
from tests.shard_worker.dialects.kai.clusters import KaiCluster, placed


def evicted(session: KaiSession) -> list[str]:
    return [op.task.name for op in session.committed if op.kind is OpKind.EVICT]


def two_queues(*, rich: int = 0, poor: int = 0, **policy: object) -> KaiCluster:
    """``rich``, ``poor``: their quotas in GPUs."""
    cluster = KaiCluster(**policy)
    cluster.queue("department", parent="")
    cluster.queue("rich", quota=rich)
    cluster.queue("poor", quota=poor)
    return cluster


def fill(cluster: KaiCluster, node: str, jobs: int, queue: str = "rich", **fields: object) -> None:
    cluster.node(node, gpus=jobs)
    for device in range(jobs):
        holding = [((f"kai-gpu/{device}", (WHOLE,)),)]
        cluster.job(f"{node}{device}", queue=queue, on=[node], holding=holding, **fields)  # type: ignore[arg-type]


# --- the order of victims, and what generators make of it -----------------------------------------


def order_of(session: KaiSession, *queues: str) -> list[list[str]]:
    jobs = [job for job in session.kai_jobs.values() if job.queue.record.name in queues]
    running = (job for job in jobs if not job.waits)
    units = VictimOrder(session, JobLines(session, running).victims(), lambda job: True)
    return [[task.name for task in unit.tasks] for unit in units]


def test_victims_go_by_fullest_queue_last_job_and_surplus_first() -> None:
    cluster = two_queues(rich=1, poor=2)
    cluster.node("n", gpus=8)
    cluster.job("old", queue="rich", on=["n"])
    cluster.job("gang", queue="rich", tasks=3, minimum=2, on=["n"] * 3)
    cluster.job("low", queue="rich", priority=10, on=["n"])
    cluster.job("other", queue="poor", on=["n"])
    session = cluster.open()
    units = order_of(session, "rich", "poor")
    assert [unit for unit in units if unit != ["other-0"]] == [
        ["low-0"],
        ["gang-2"],
        ["gang-0", "gang-1"],  # at its minimum, as old is, and younger
        ["old-0"],
    ]
    assert units.index(["other-0"]) > units.index(["low-0"])


def probe_over(session: KaiSession, *, tasks: int = 1) -> tuple[Probe, list[KaiEvictionUnit]]:
    job = next(job for job in session.kai_jobs.values() if job.waits)
    running = (job for job in session.kai_jobs.values() if not job.waits)
    order = VictimOrder(session, JobLines(session, running).victims(), lambda job: True)
    gpus = gpu_room(session.world)
    probe = Probe(
        job=job,
        tasks=list(job.root.tasks())[:tasks],
        order=order,
        feasible=gpus > 0,
        gpus=gpus,
        gpus_of=lambda task: (
            session.asked_by([task]).gpu if isinstance(task, TaskInfo) else task.gpus
        ),
        node_name=lambda row: session.world.node(row).name,
        gathering=Uncounted,
    )
    return probe, list(order)


def names(scenario: EvictionScenario) -> list[str]:
    return [task.name for task in scenario.tasks]


def test_node_local_greedy_takes_one_node_at_a_time() -> None:
    cluster = two_queues()
    fill(cluster, "a", 2)
    fill(cluster, "b", 1)
    cluster.job("waits", queue="poor", gpus=2)
    probe, _ = probe_over(cluster.open())
    results = [names(scenario) for scenario in node_local_greedy(probe)]
    assert results == [["b0-0"], ["a1-0"], ["a1-0", "a0-0"]]


def test_multi_node_gang_begins_with_as_few_nodes_as_could_be_enough() -> None:
    cluster = two_queues()
    for node in ("a", "b", "c"):
        fill(cluster, node, 2)
    cluster.job("waits", queue="poor", tasks=2, gpus=2)
    probe, _ = probe_over(cluster.open(), tasks=2)
    results = [names(scenario) for scenario in multi_node_gang(probe)]
    assert results[0] == ["c1-0", "c0-0", "b1-0", "b0-0"]
    assert len(results[-1]) == 6


def test_a_gang_core_is_evicted_together_with_its_surplus() -> None:
    """The gang's core is on a, one more task of it on b: no scenario leaves one task behind."""
    cluster = two_queues()
    cluster.node("a", gpus=2)
    cluster.node("b", gpus=1)
    holding = [((f"kai-gpu/{device}", (WHOLE,)),) for device in (0, 1, 0)]
    cluster.job("gang", queue="rich", tasks=3, minimum=2, on=["a", "a", "b"], holding=holding)
    cluster.job("waits", queue="poor", gpus=2)
    probe, units = probe_over(cluster.open())
    assert [unit.alone for unit in units] == [True, False]
    for generator in (node_local_greedy, multi_node_gang):
        results = [sorted(names(scenario)) for scenario in generator(probe)]
        assert ["gang-0", "gang-1"] not in results
        assert ["gang-0", "gang-1", "gang-2"] in results


# --- reclaim --------------------------------------------------------------------------------------


def test_a_reclaim_takes_the_least_and_promises_the_room() -> None:
    cluster = two_queues(rich=2, poor=2)
    fill(cluster, "a", 4)
    cluster.job("waits", queue="poor", tasks=2)
    session = cluster.open()
    run_action(session, "reclaim")
    assert evicted(session) == ["a3-0", "a2-0"]
    where = placed(session)
    assert [where[f"waits-{i}"] for i in (0, 1)] == [("PIPELINED", "a")] * 2


def test_validators_get_surplus_tasks_one_by_one_and_the_core_together() -> None:
    cluster = two_queues()
    cluster.node("a", gpus=4)
    cluster.job("gang", tasks=4, minimum=2, queue="rich", on=["a"] * 4)
    session = cluster.open()
    (job,) = session.kai_jobs.values()
    tasks = list(job.root.tasks())
    assert list(parts_of(job, tasks, moved_count=True)) == [[tasks[2]], [tasks[3]], tasks[:2]]
    assert list(parts_of(job, tasks, moved_count=False)) == []  # all of them still have a place


@pytest.mark.parametrize(
    ("started", "spare", "gone"),
    [(900.0, 0, []), (900.0, 1, ["gang-1"]), (100.0, 0, ["gang-0", "gang-1"])],
)
def test_a_gang_within_its_min_runtime_keeps_its_minimum(
    started: float, spare: int, gone: list[str]
) -> None:
    plugins = ["predicates", "proportion", "priority", "elastic", "nodeavailability"]
    plugins += ["nodeplacement", "sg-nodelocalgreedy", "sg-multinodegang"]
    times = {"name": "minruntime", "arguments": {"defaultReclaimMinRuntime": "500s"}}
    tiers = [{"plugins": [*({"name": name} for name in plugins), times]}]
    cluster = two_queues(rich=0, poor=2, tiers=tiers)
    cluster.node("a", gpus=2)
    holding = [((f"kai-gpu/{device}", (WHOLE,)),) for device in (0, 1)]
    cluster.job("gang", queue="rich", tasks=2, minimum=2 - spare, on=["a", "a"], holding=holding)
    cluster.job("waits", queue="poor")
    session = cluster.open()
    session.world.now = 1000.0
    gang = session.kai_jobs[0]
    gang.group = replace(gang.group, last_start=started)
    run_action(session, "reclaim")
    assert sorted(evicted(session)) == gone


# --- preempt, consolidation, stale gangs ----------------------------------------------------------


def test_only_a_lower_priority_of_the_same_queue_is_preempted() -> None:
    cluster = two_queues(rich=-1, poor=-1)
    fill(cluster, "a", 1, priority=40)
    fill(cluster, "b", 1, priority=60)
    fill(cluster, "c", 1, queue="poor", priority=40)
    cluster.job("urgent", queue="rich", priority=60)
    cluster.job("urgent2", queue="rich", priority=60)
    session = cluster.open()
    run_action(session, "preempt")
    assert evicted(session) == ["a0-0"]


@pytest.mark.parametrize(("most", "moved"), [(0, 0), (1, 0), (2, 2), (-1, 2)])
def test_consolidation_moves_at_most_so_many_jobs(most: int, moved: int) -> None:
    cluster = two_queues(rich=-1, poor=-1, options={"max-consolidation-preemptees": most})
    for node in ("a", "b", "c", "d"):
        cluster.node(node, gpus=2)
        holding = [(("kai-gpu/0", (WHOLE,)),)]
        cluster.job(f"on-{node}", queue="rich", on=[node], holding=holding)
    cluster.job("waits", queue="poor", tasks=2, gpus=2)
    session = cluster.open()
    run_action(session, "consolidation")
    assert len(evicted(session)) == moved
    moving = [task for task in session.world.tasks() if task.name in evicted(session)]
    assert all(task.status is Status.PIPELINED for task in moving)


def test_consolidation_moves_tasks_of_the_emptiest_nodes() -> None:
    """The two that were placed last are on one node: without either of them it is not empty."""
    options = {"max-consolidation-preemptees": 1}
    cluster = two_queues(rich=-1, poor=-1, options=options)
    for node in ("a", "b", "c"):
        cluster.node(node, gpus=3)
    for name, node, device in (
        ("one", "a", 0),
        ("two", "b", 0),
        ("three", "c", 0),
        ("four", "c", 1),
    ):
        holding = [((f"kai-gpu/{device}", (WHOLE,)),)]
        cluster.job(name, queue="rich", on=[node], holding=holding)
    cluster.job("waits", queue="poor", gpus=3)
    session = cluster.open()
    run_action(session, "consolidation")
    assert evicted(session) == ["two-0"]


@pytest.mark.parametrize(
    ("since", "grace", "gone", "stamp"),
    [(None, None, 0, 1000.0), (939.0, None, 1, "kept"), (939.0, 100.0, 0, "kept")],
)
def test_a_broken_gang_goes_when_its_grace_is_over(
    since: float | None, grace: float | None, gone: int, stamp: object
) -> None:
    cluster = two_queues()
    cluster.node("a", gpus=2)
    cluster.job("gang", queue="rich", tasks=2, on=["a", None])
    session = cluster.open()
    session.world.now = 1000.0
    gang = session.kai_jobs[0]
    gang.group = replace(gang.group, stale_since=since, staleness_grace=grace)
    run_action(session, "stalegangeviction")
    assert len(evicted(session)) == gone
    assert session.stale.get(0, "kept") == stamp


def test_nobody_is_evicted_for_a_job_in_its_delay() -> None:
    cluster = two_queues(rich=0, poor=1)
    fill(cluster, "a", 1)
    cluster.job("waits", queue="poor")
    session = cluster.open()
    job = session.kai_jobs[1]
    job.group = replace(job.group, created=100.0, preemption_delay=60.0)
    assert is_delayed(job, 159.0)
    assert not is_delayed(job, 160.0)
    session.world.now = 159.0
    run_action(session, "reclaim")
    assert evicted(session) == []
    session.world.now = 160.0
    run_action(session, "reclaim")
    assert evicted(session) == ["a0-0"]


def test_the_number_of_simulated_scenarios_is_bounded() -> None:
    cluster = two_queues(rich=2, poor=2)
    fill(cluster, "a", 4)
    cluster.job("waits", queue="poor", tasks=2)
    session = cluster.open()
    session.kai = replace(session.kai, budgets=replace(session.kai.budgets, scenarios=1))
    run_action(session, "reclaim")
    assert evicted(session) == []
    assert session.searches.simulated == 1
    (report,) = session.searches.ended.values()
    assert report.startswith("ended after 1 simulated scenario, the most for one job")
