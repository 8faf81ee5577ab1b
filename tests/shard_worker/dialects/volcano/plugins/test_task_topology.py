"""task-topology: what belongs together shares nodes, what keeps apart does not."""

from __future__ import annotations

import numpy as np

from shard_worker.dialects.volcano.plugins.job.task_topology import (
    AFFINITY,
    ANTI_AFFINITY,
    TASK_ORDER,
    lay_out,
)
from shard_worker.harness import Cluster
from shared.codec.packed import replace
from shared.model.model import Role, TaskClass
from shared.policy.model import PluginOption


def roles(cluster: Cluster, **counts: int) -> list[Role]:
    cid = cluster.class_of(TaskClass(requests=cluster.requests(cpu=1, pods=1)))
    results: list[Role] = []
    first = 0
    for name, count in counts.items():
        names = tuple(f"{name}-{i}" for i in range(count))
        results.append(Role(name, cid, first, count, names=names))
        first += count
    return results


def training(**nodes: float) -> Cluster:
    cluster = Cluster("gang", "task-topology")
    for name, cpu in nodes.items():
        cluster.node(name, cpu=cpu)
    marks = ((AFFINITY, "ps,worker"), (ANTI_AFFINITY, "ps"))
    cluster.job("tf", roles=roles(cluster, ps=2, worker=4), annotations=marks)
    return cluster


def test_a_bucket_for_each_that_keeps_apart_and_the_rest_dealt_out() -> None:
    (job,) = training(a=8).open().world.session_jobs()
    layout = lay_out(job)
    assert layout is not None
    buckets: dict[int, list[str]] = {}
    for task, bucket in layout.bucket.items():
        buckets.setdefault(bucket.index, []).append(task.name)
    assert buckets == {
        0: ["ps-0", "worker-0", "worker-2"],
        1: ["ps-1", "worker-1", "worker-3"],
    }


def test_buckets_go_to_the_nodes_that_take_most_of_them() -> None:
    binds = training(two=2, one=1, four=4).run().binds
    on = {task.partition("/")[2]: node for task, node in binds.items()}
    assert {on["ps-0"], on["worker-0"], on["worker-2"]} == {"four"}
    assert on["ps-1"] == on["worker-1"] == "two"


def test_the_order_of_roles_is_kept() -> None:
    cluster = Cluster("gang", "task-topology")
    cluster.node("a", cpu=8)
    marks = ((TASK_ORDER, "chief,worker"),)
    cluster.job("tf", roles=roles(cluster, worker=1, chief=1), annotations=marks)
    session = cluster.open()
    worker, chief = session.world.session_job(0).tasks
    assert session.compare_tasks(chief, worker) < 0 < session.compare_tasks(worker, chief)


def test_a_job_without_annotations_is_not_looked_at() -> None:
    job_demand = training(a=8)
    job, states, on = job_demand._jobs[0]
    job_demand._jobs[0] = (replace(job, annotations=()), states, on)
    (plain,) = job_demand.open().world.session_jobs()
    assert lay_out(plain) is None


def test_its_weight_is_an_argument() -> None:
    option = PluginOption("task-topology", {"task-topology.weight": 3})
    scores = []
    for named in ("task-topology", option):
        cluster = Cluster(named)
        cluster.node("a", cpu=8)
        cluster.node("b", cpu=1)
        cluster.job("tf", roles=roles(cluster, ps=2), annotations=((AFFINITY, "ps"),))
        session = cluster.open()
        task = session.world.session_job(0).tasks[0]
        scores.append(session.node_scores(task, np.array([0, 1])))
    assert scores[1].tolist() == (3 * scores[0]).tolist()
    assert scores[0][0] > scores[0][1] > 0
