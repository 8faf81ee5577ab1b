"""enqueue: queues take turns, what is let in counts at once, and the refused hold up nobody."""

from __future__ import annotations

from shard_worker.dialects.volcano.actions.enqueue import enqueue, execute
from shard_worker.framework.rules import PERMIT
from shard_worker.framework.session import Session
from shard_worker.harness import Cluster
from shard_worker.session_model.queue_totals import INQUEUE
from shard_worker.session_model.workload import ClusterInfo, JobInfo
from shared.policy.model import PluginOption


class Listens:
    """Lets everybody in, and notes the order."""

    name = "listens"
    heard: list[str]

    def __init__(self, option: PluginOption) -> None:
        del option

    def on_session_open(self, ssn: Session) -> None:
        Listens.heard = []
        ssn.add_job_enqueueable_fn(lambda info, cluster: PERMIT)
        ssn.add_job_enqueued_fn(lambda info, cluster: self.heard.append(info.job.name))


def waiting(cluster: Cluster, name: str, queue: str, cpu: float, **fields: object) -> None:
    least = cluster.requests(cpu=cpu)
    cluster.job(name, queue=queue, phase="Pending", min_resources=least, **fields)  # type: ignore[arg-type]


def test_queues_take_turns_job_by_job() -> None:
    cluster = Cluster(Listens, "priority", actions=["enqueue"])
    for queue in ("a", "b"):
        cluster.queue(queue)
        for i in range(2):
            waiting(cluster, f"{queue}{i}", queue, cpu=1)
    waiting(cluster, "urgent", "b", cpu=1, priority=9)
    assert set(cluster.run().phases.values()) == {INQUEUE}
    # without QueueOrder the earlier queue is the first each time it is there
    assert Listens.heard == ["a0", "a1", "urgent", "b0", "b1"]


def test_shares_decide_anew_after_each_job() -> None:
    cluster = Cluster(Listens, "proportion", actions=["enqueue"])
    cluster.node("n", cpu=10)
    for queue, has in (("a", 2), ("b", 4)):
        cluster.queue(queue)
        cluster.job(f"{queue}-runs", queue=queue, tasks=has, on=["n"] * has, phase="Running")
        waiting(cluster, queue, queue, cpu=1)
    cluster.run()
    assert Listens.heard == ["a", "b"]


def test_a_refused_job_holds_up_nobody_and_admitted_jobs_count() -> None:
    cluster = Cluster("proportion", "gang", actions=["enqueue"])
    cluster.node("n", cpu=8)
    cluster.queue("q", capability={"cpu": 4})
    waiting(cluster, "large", "q", cpu=5)
    waiting(cluster, "first", "q", cpu=3)
    waiting(cluster, "second", "q", cpu=2)
    waiting(cluster, "small", "q", cpu=1)
    session = cluster.open()
    execute(session)
    phases = {job.job.name: job.phase for job in session.world.session_jobs()}
    assert phases == {"large": "Pending", "first": INQUEUE, "second": "Pending", "small": INQUEUE}
    assert {session.world.jobs[jid].job.name for jid in session.skipped} == {"large", "second"}
    word, detail = session.skipped[0]
    assert word == "WaitingForQuota" and "proportion" in detail


def test_a_job_without_min_resources_is_enqueued_without_a_vote() -> None:
    cluster = Cluster("proportion", actions=["enqueue"])
    cluster.queue("q", open=False)
    cluster.job("silent", queue="q", phase="")
    waiting(cluster, "told", "q", cpu=1)
    session = cluster.open()
    execute(session)
    silent, report = session.world.session_jobs()
    assert (silent.phase, report.phase) == (INQUEUE, "Pending")
    assert session.skipped[report.job.jid][0] == "QueueClosed"


def test_only_pending_jobs_of_queues_that_exist_are_judged() -> None:
    cluster = Cluster(Listens, actions=["enqueue"])
    cluster.queue("q")
    cluster.job("runs", queue="q", phase="Running")
    cluster.job("unknown", queue="q", phase="Unknown")
    cluster.job("lost", queue="nowhere", phase="Pending")
    assert cluster.run().phases == {
        "default/runs": "Running",
        "default/unknown": "Unknown",
        "default/lost": "Pending",
    }
    assert not Listens.heard


def test_a_caller_may_stop_after_any_job() -> None:
    cluster = Cluster(Listens, actions=["enqueue"])
    cluster.queue("q")
    waiting(cluster, "one", "q", cpu=1)
    waiting(cluster, "two", "q", cpu=1)
    session = cluster.open()
    world: ClusterInfo = session.world
    jobs: list[JobInfo] = list(world.jobs.values())
    first, entered = next(enqueue(session, world, jobs))
    assert entered and first.job.name == "one"
    assert [job.phase for job in jobs] == [INQUEUE, "Pending"]
    assert world.queues[0].inqueue == {0: 1000}
