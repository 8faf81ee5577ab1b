"""overcommit, sla and resourcequota: who is let in, and what sla says beside."""

from __future__ import annotations

import pytest

from shard_worker.dialects.volcano.plugins.queue.overcommit import in_use
from shard_worker.framework.extension_points import JOB_ENQUEUEABLE, JOB_PIPELINED
from shard_worker.framework.registered import there
from shard_worker.framework.rules import ABSTAIN, PERMIT, REJECT
from shard_worker.framework.session import Session
from shard_worker.harness import Cluster, Named
from shard_worker.session_model.status import Status
from shard_worker.session_model.workload import ClusterInfo
from shared.model.storage import ResourceQuota
from shared.policy.model import PluginOption, PolicyError
from shared.units.slots import CPU


def votes(session: Session) -> list[int]:
    """Votes of the first plugin, for each job."""
    ask = session.rules(JOB_ENQUEUEABLE)[0].fn
    return [ask(info, session.world) for info in session.world.session_jobs()]


# --- overcommit -----------------------------------------------------------------------------------


def overcommitted(**arguments: object) -> Cluster:
    cluster = Cluster(PluginOption("overcommit", arguments=arguments), actions=["enqueue"])
    cluster.node("n", cpu=10)
    return cluster


@pytest.mark.parametrize(
    ("factor", "least", "vote"),
    [
        (1.2, 9, PERMIT),  # of 12 are 3 in use
        (1.2, 10, REJECT),
        (2, 17, PERMIT),
        (0.5, 9, PERMIT),  # below 1 it counts as 1.2
        (0.5, 10, REJECT),
    ],
)
def test_overcommit_admits_up_to_factor_times_capacity_minus_use(
    factor: float, least: int, vote: int
) -> None:
    cluster = overcommitted(**{"overcommit-factor": factor})
    cluster.job("runs", tasks=3, on=["n"] * 3, phase="Running")
    cluster.job("new", phase="Pending", min_resources=cluster.requests(cpu=least))
    assert votes(cluster.open())[1] == vote


def test_an_inqueue_job_counts_with_its_whole_min_resources() -> None:
    cluster = overcommitted()
    asks = cluster.requests
    cluster.job("in", tasks=4, minimum=4, on=["n"] * 2, phase="Inqueue", min_resources=asks(cpu=4))
    cluster.job("fits", phase="Pending", min_resources=asks(cpu=6))
    cluster.job("not", phase="Pending", min_resources=asks(cpu=7))
    session = cluster.open()
    assert votes(session)[1:] == [PERMIT, REJECT]  # 12 - 2 in use - 4
    assert session.world.promised == {CPU: 4000} and session.world.inqueue == {CPU: 2000}


def test_a_running_job_counts_with_its_missing_minimum() -> None:
    cluster = overcommitted()
    asks = cluster.requests
    least = asks(cpu=4)
    cluster.job("runs", tasks=4, minimum=2, on=["n"] * 2, phase="Running", min_resources=least)
    cluster.job("fits", phase="Pending", min_resources=asks(cpu=8))
    assert votes(cluster.open())[1] == PERMIT


def test_each_that_is_let_in_leaves_less_for_the_next() -> None:
    cluster = overcommitted()
    for name in "abc":
        cluster.job(name, phase="Pending", min_resources=cluster.requests(cpu=5))
    assert list(cluster.run().phases.values()) == ["Inqueue", "Inqueue", "Pending"]


def test_a_job_without_min_resources_is_admitted() -> None:
    cluster = overcommitted()
    cluster.job("silent")
    assert votes(cluster.open()) == [PERMIT]


def test_in_use_amounts_agree_between_order_and_worker() -> None:
    cluster = overcommitted()
    cluster.job("runs", tasks=3, on=["n"] * 3)
    cluster.job("leaves", on=["n"], status=Status.RELEASING)
    world = cluster.open().world
    total = dict(world.total)
    free = dict(total)
    for task in world.tasks():
        for slot, amount in task.requests:
            free[slot] -= amount
    assert in_use(world) == in_use(ClusterInfo(total=total, free=free))


def test_the_order_counts_what_pods_of_others_use_as_a_session_does() -> None:
    """Their amounts are in a session's columns, and beside the order's own books."""
    info = ClusterInfo(total={CPU: 8000}, free={CPU: 7000}, foreign_sums={CPU: 6000})
    assert in_use(info) == {CPU: 7000}


# --- sla ------------------------------------------------------------------------------------------

ANNOTATION = "volcano.sh/sla-waiting-time"


def waiting(now: float, *plugins: PluginOption) -> Cluster:
    cluster = Cluster(*(plugins or (PluginOption("sla"),)), now=now)
    cluster.queue("default")
    return cluster


def test_the_earlier_deadline_first_and_none_last() -> None:
    cluster = waiting(0.0)
    cluster.job("none", created=0.0)
    cluster.job("late", created=1.0, annotations=((ANNOTATION, "1h"),))
    cluster.job("soon", created=2.0, annotations=((ANNOTATION, "1m30s"),))
    session = cluster.open()
    none, late, soon = session.world.session_jobs()
    assert session.compare_jobs(soon, late) < 0 < session.compare_jobs(none, late)


@pytest.mark.parametrize(("now", "vote"), [(189.9, ABSTAIN), (190.0, PERMIT)])
def test_an_overdue_job_is_admitted_and_stays_pipelined(now: float, vote: int) -> None:
    option = PluginOption("sla", arguments={"sla-waiting-time": "3m"})
    cluster = waiting(now, option)
    cluster.job("j", created=10.0)
    session = cluster.open()
    (job,) = session.world.session_jobs()
    assert votes(session) == [vote]
    assert there(session.rules(JOB_PIPELINED)[0].scalar)(job, session.world) == vote


@pytest.mark.parametrize("text", ["soon", "0s", ""])
def test_an_annotation_that_is_none_leaves_it_to_the_argument(text: str) -> None:
    cluster = waiting(100.0, PluginOption("sla", arguments={"sla-waiting-time": "90s"}))
    cluster.job("j", created=0.0, annotations=((ANNOTATION, text),))
    assert votes(cluster.open()) == [PERMIT]


def test_its_permission_overrules_later_tiers_and_no_others() -> None:
    long = PluginOption("sla", arguments={"sla-waiting-time": "1s"})
    later: list[list[Named]] = [[long], ["proportion"]]
    beside: list[list[Named]] = [[long, "proportion"]]
    for tiers, entered in ((later, True), (beside, False)):
        cluster = Cluster(tiers=tiers, actions=["enqueue"], now=100.0)
        cluster.node("n", cpu=1)
        cluster.job("j", created=0.0, phase="Pending", min_resources=cluster.requests(cpu=9))
        assert (cluster.run().phases["default/j"] == "Inqueue") is entered


def test_the_fast_path_serves_it_where_its_permission_changes_nothing() -> None:
    before = Cluster(tiers=[["sla"], ["gang"]]).open()
    beside = Cluster(tiers=[["gang", "sla"]]).open()
    assert before.slow == ("sla: JobPipelined",)
    assert beside.slow == ()


@pytest.mark.parametrize("text", ["soon", "0s"])
def test_an_argument_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(PolicyError, match="sla-waiting-time"):
        waiting(0.0, PluginOption("sla", arguments={"sla-waiting-time": text})).open()


# --- resourcequota --------------------------------------------------------------------------------


def quotas(*made: ResourceQuota) -> Cluster:
    cluster = Cluster("resourcequota", actions=["enqueue"])
    cluster.node("n")
    for quota in made:
        cluster.world.objects.quotas[f"{quota.namespace}/{quota.name}"] = quota
    return cluster


def quota(**fields: object) -> ResourceQuota:
    return ResourceQuota(**{"namespace": "default", "name": "q", **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("resource_quota", "vote"),
    [
        (quota(hard=(("cpu", 4000),), used=(("cpu", 1000),)), PERMIT),
        (quota(hard=(("cpu", 4000),), used=(("cpu", 1001),)), REJECT),
        (quota(hard=(("requests.cpu", 2999),)), REJECT),
        (quota(hard=(("limits.cpu", 0), ("memory", 0), ("pods", 1))), PERMIT),  # not asked for
        (quota(hard=(("cpu", 0),), scoped=True), PERMIT),
        (quota(hard=(("cpu", 0),), namespace="other"), PERMIT),
    ],
)
def test_a_quota_leaves_room_in_what_the_job_needs(
    resource_quota: ResourceQuota, vote: int
) -> None:
    cluster = quotas(resource_quota)
    cluster.job("j", phase="Pending", min_resources=cluster.requests(cpu=3))
    assert votes(cluster.open()) == [vote]


def test_every_quota_of_the_namespace_counts() -> None:
    cluster = quotas(quota(hard=(("cpu", 9000),)), quota(name="other", hard=(("cpu", 1000),)))
    cluster.job("j", phase="Pending", min_resources=cluster.requests(cpu=3))
    assert votes(cluster.open()) == [REJECT]


def test_admitted_jobs_count_until_the_quota_totals_are_refreshed() -> None:
    cluster = quotas(quota(hard=(("cpu", 4000),)))
    for name, space in (("a", "default"), ("b", "default"), ("c", "other")):
        least = cluster.requests(cpu=3)
        cluster.job(name, namespace=space, phase="Pending", min_resources=least)
    session = cluster.open()
    a, b, c = session.world.session_jobs()
    assert session.job_enqueueable(a, session.world)
    session.job_enqueued(a, session.world)
    assert not session.job_enqueueable(b, session.world)
    assert session.job_enqueueable(c, session.world)
    session.world.revision += 1
    assert session.job_enqueueable(b, session.world)
