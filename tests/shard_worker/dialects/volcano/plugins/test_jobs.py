"""gang, priority, drf and conformance: what they say of a job."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from shard_worker.dialects.open_session import open_session
from shard_worker.dialects.volcano.plugins.job import gang
from shard_worker.dialects.volcano.plugins.job.conformance import SYSTEM_PRIORITY, evictable
from shard_worker.framework.extension_points import PREEMPTABLE, RECLAIMABLE, UNIFIED_EVICTABLE
from shard_worker.framework.rules import PERMIT, REJECT
from shard_worker.session_model.job import TaskInfo, open_session_job
from shard_worker.session_model.workload import ClusterInfo, JobInfo, Progress
from shared.codec.packed import replace
from shared.messages.messages import Group
from shared.model.model import Job, Role, TaskClass
from shared.policy.model import PluginOption, Policy
from shared.policy.volcano import DEFAULT_POLICY
from shared.units.slots import CPU, MEMORY, PODS

CLUSTER = ClusterInfo(total={CPU: 10_000, MEMORY: 1000, PODS: 100})


def progress(
    minimum: list[int],
    held: list[int],
    *,
    waiting: list[int] | None = None,
    best_effort: list[int] | None = None,
) -> Progress:
    none = [0] * len(minimum)
    return Progress(
        parent=[-1] + [0] * (len(minimum) - 1),
        minimum=minimum,
        held=held,
        waiting=waiting or none,
        best_effort=best_effort or none,
    )


def job(
    minimum: Sequence[int] = (1,),
    counts: Sequence[int] = (1,),
    *,
    held: int = 0,
    waiting: int = 0,
    best_effort: int = 0,
    failed: int = 0,
    priority: int = 0,
    allocated: dict[int, int] | None = None,
) -> JobInfo:
    """``minimum`` per group; ``counts`` per role, role i in group i + 1 where that exists."""
    groups = tuple(Group(parent=-1 if i == 0 else 0, minimum=m) for i, m in enumerate(minimum))
    roles = tuple(
        Role(
            name=f"r{i}",
            cid=0,
            first=sum(counts[:i]),
            count=count,
            group=i + 1 if i + 1 < len(groups) else 0,
        )
        for i, count in enumerate(counts)
    )
    rest = [0] * (len(groups) - 1)
    return JobInfo(
        job=Job(1, "ns", "j", "Job", "u", "q", 0.0, priority=priority, groups=groups, roles=roles),
        qid=0,
        held=[held, *rest],
        waiting=[waiting, *rest],
        best_effort=[best_effort, *rest],
        failed=failed,
        allocated=allocated or {},
    )


class TestGangReady:
    @pytest.mark.parametrize(("held", "ready"), [(0, False), (2, False), (3, True), (4, True)])
    def test_the_whole_job(self, held: int, ready: bool) -> None:
        assert gang.job_ready(progress([3], [held])) is ready

    def test_a_minimum_of_nothing_is_reached(self) -> None:
        assert gang.job_ready(progress([0], [0]))

    def test_pending_best_effort_members_count(self) -> None:
        assert gang.job_ready(progress([3], [2], best_effort=[1]))

    def test_nominated_members_do_not(self) -> None:
        assert not gang.job_ready(progress([3], [2], waiting=[1]))

    def test_each_role_needs_its_own(self) -> None:
        assert not gang.job_ready(progress([3, 1, 2], [3, 0, 3]))
        assert gang.job_ready(progress([3, 1, 2], [3, 1, 2]))
        assert gang.job_ready(progress([3, 1, 2], [3, 0, 3], best_effort=[1, 1, 0]))

    def test_roles_are_bypassed_where_the_job_needs_fewer_than_all_of_them(self) -> None:
        assert gang.job_ready(progress([2, 1, 2], [2, 0, 2]))
        assert not gang.job_ready(progress([2, 1, 2], [1, 0, 1]))

    def test_the_job_may_need_more_than_its_roles(self) -> None:
        assert not gang.job_ready(progress([5, 1, 2], [4, 1, 3]))


class TestGangPipelined:
    def test_nominated_members_count(self) -> None:
        assert gang.job_pipelined(progress([3], [1], waiting=[1], best_effort=[1])) == PERMIT
        assert gang.job_pipelined(progress([3], [1], waiting=[1])) == REJECT

    def test_in_their_role(self) -> None:
        assert gang.job_pipelined(progress([3, 1, 2], [2, 0, 2], waiting=[1, 1, 0])) == PERMIT
        assert gang.job_pipelined(progress([3, 1, 2], [2, 0, 2], waiting=[1, 0, 1])) == REJECT


class TestGangValid:
    def test_enough_members(self) -> None:
        assert gang.job_valid(job([3], [3]), CLUSTER) is None

    def test_too_few_members(self) -> None:
        reason = gang.job_valid(job([3], [2]), CLUSTER)
        assert reason == "NotEnoughPods: 2 of the 3 members that the job needs exist"

    def test_failed_members_do_not_count(self) -> None:
        reason = gang.job_valid(job([3], [3], failed=1), CLUSTER)
        assert reason is not None
        assert reason.startswith("NotEnoughPods: 2 of the 3")

    def test_too_few_of_a_role(self) -> None:
        reason = gang.job_valid(job([3, 1, 2], [3, 1]), CLUSTER)
        assert reason == "NotEnoughPodsOfTask: 1 of the 2 that role r1 needs exist"

    def test_a_role_without_members(self) -> None:
        reason = gang.job_valid(job([3, 1, 2], [5]), CLUSTER)
        assert reason == "NotEnoughPodsOfTask: 0 of the 2 that role of group 2 needs exist"
        named = job([3, 1, 2], [5])
        named = replace(named, job=replace(named.job, role_minima=(("r0", 1), ("ps", 2))))
        reason = gang.job_valid(named, CLUSTER)
        assert reason == "NotEnoughPodsOfTask: 0 of the 2 that role ps needs exist"

    def test_roles_are_bypassed(self) -> None:
        assert gang.job_valid(job([2, 1, 2], [3, 1]), CLUSTER) is None


class TestStarving:
    def test_gang_until_its_minimum_has_or_will_have_places(self) -> None:
        assert gang.job_starving(job([3], [5], held=1, waiting=1))
        assert not gang.job_starving(job([3], [5], held=1, waiting=2))
        assert gang.job_starving(job([3], [5], held=2, best_effort=1))

    def test_priority_until_all_have(self) -> None:
        session = open_session(Policy(("allocate",), ((PluginOption("priority"),),)))
        assert session.job_starving(job([3], [5], held=3, waiting=1))
        assert not session.job_starving(job([3], [5], held=3, waiting=2))

    def test_both_in_one_tier_must_agree(self) -> None:
        session = open_session(DEFAULT_POLICY)
        assert session.job_starving(job([3], [5], held=2))
        assert not session.job_starving(job([3], [5], held=3))


class TestOrder:
    def test_default_policy_priority_then_unready_then_share(self) -> None:
        session = open_session(DEFAULT_POLICY)
        urgent = job(priority=5, held=1)
        unready = job([2], [2], held=1, allocated={CPU: 9000})
        modest = job(held=1, allocated={CPU: 1000, MEMORY: 200})
        greedy = job(held=1, allocated={CPU: 3000})
        jobs = [greedy, modest, unready, urgent]
        ordered = sorted(jobs, key=lambda info: session.job_key(info, CLUSTER))
        assert ordered == [urgent, unready, modest, greedy]

    def test_drf_takes_the_largest_share_of_any_resource(self) -> None:
        session = open_session(Policy(("allocate",), ((PluginOption("drf"),),)))
        assert session.job_key(job(allocated={CPU: 1000, MEMORY: 200}), CLUSTER) == (0.2,)
        assert session.job_key(job(), CLUSTER) == (0.0,)

    def test_best_effort_members_make_a_job_ready(self) -> None:
        assert gang.job_order(job([2], [2], held=1, best_effort=1), CLUSTER) == 1.0


def test_conformance_keeps_what_keeps_the_cluster_alive() -> None:
    def task(namespace: str, priority: int) -> TaskInfo:
        role = Role("r", 0, 0, 1, priority=priority)
        job = Job(1, namespace, "a", "Pod", "u", "q", 0.0, roles=(role,))
        return open_session_job(job, queue=None, classes={0: TaskClass(())}).tasks[0]

    plain = task("ns", 0)
    critical = [task("ns", SYSTEM_PRIORITY), task("ns", SYSTEM_PRIORITY + 1000)]
    victims = [plain, *critical, task("kube-system", 0)]
    assert evictable(plain, victims) == [plain]
    session = open_session(DEFAULT_POLICY)
    for point in (PREEMPTABLE, RECLAIMABLE, UNIFIED_EVICTABLE):
        assert "conformance" in [rule.plugin for rule in session.rules(point)]
