"""Victim rules of gang, priority, conformance, pdb and cdp."""

from __future__ import annotations

from typing import Any

import pytest

from shard_worker.dialects.volcano.actions.run import run_actions
from shard_worker.dialects.volcano.plugins.job.pdb import allowed
from shard_worker.eviction.victims import joined
from shard_worker.framework.extension_points import SUB_JOB_PIPELINED
from shard_worker.framework.rules import PERMIT, REJECT, Purpose
from shard_worker.framework.session import Session
from shard_worker.framework.statement import WorldStatement
from shard_worker.harness import Cluster
from shard_worker.session_model.job import SessionJob, TaskInfo
from shard_worker.session_model.status import Status
from shared.codec.packed import replace
from shared.model.constraints import Requirement
from shared.model.model import Role, TaskClass
from shared.model.storage import Budget
from shared.model.topology import SubGroupPolicy
from shared.policy.model import PluginOption


def job_of(session: Session, name: str) -> SessionJob:
    return next(job for job in session.world.session_jobs() if job.job.name == name)


def named(tasks: list[TaskInfo]) -> list[str]:
    return [task.name for task in tasks]


class TestGang:
    def with_roles(self, minimum: int, minima: dict[str, int], running: dict[str, int]) -> Session:
        """A job with so many running tasks of each role, on one node."""
        c = Cluster("gang")
        c.node("n", cpu=64)
        cid = c.class_of(TaskClass(requests=c.requests(cpu=1, pods=1)))
        roles: list[Role] = []
        for name, count in running.items():
            first = sum(role.count for role in roles)
            names = tuple(f"{name}-{i}" for i in range(count))
            roles.append(Role(name, cid, first, count, names=names))
        total = sum(running.values())
        c.job(
            "job", roles=roles, minimum=minimum, on=["n"] * total, role_minima=tuple(minima.items())
        )
        c.job("other")
        return c.open()

    def preemptable(self, session: Session) -> list[str]:
        job, other = job_of(session, "job"), job_of(session, "other")
        return named(session.preemptable(other.tasks[0], job.tasks))

    def test_only_beyond_the_minimum(self) -> None:
        for minimum, spared in ((0, 3), (1, 2), (2, 1), (3, 0), (4, 0)):
            session = self.with_roles(minimum, {}, {"w": 3})
            assert len(self.preemptable(session)) == spared

    def test_no_role_below_its_minimum(self) -> None:
        session = self.with_roles(3, {"ps": 1, "w": 2}, {"ps": 1, "w": 4})
        assert self.preemptable(session) == ["w-0", "w-1"]

    def test_roles_do_not_count_where_the_job_needs_fewer(self) -> None:
        session = self.with_roles(2, {"ps": 1, "w": 2}, {"ps": 1, "w": 3})
        assert self.preemptable(session) == ["ps-0", "w-0"]

    def test_no_more_sub_jobs_below_their_size_than_their_policy_spares(self) -> None:
        c = Cluster("gang")
        c.node("n", cpu=64)
        policy = SubGroupPolicy("p", size=2, minimum=1, match_label_keys=("part",))
        cid = c.class_of(TaskClass(requests=c.requests(cpu=1, pods=1)))
        roles = [
            Role("w", cid, 2 * i, 2, labels=(("part", str(i)),), names=(f"{i}-a", f"{i}-b"))
            for i in range(2)
        ]
        c.job(
            "job", roles=roles, minimum=0, on=["n"] * 4, sub_groups=(replace(policy, selector=()),)
        )
        c.job("other")
        session = c.open()
        assert self.preemptable(session) == ["0-a", "0-b"]

    def test_evictions_of_this_session_count_against_the_gang_minimum(self) -> None:
        session = self.with_roles(1, {}, {"w": 3})
        WorldStatement(session).evict(job_of(session, "job").tasks[0], "test")
        assert len(self.preemptable(session)) == 1

    def test_victims_are_a_whole_gang_or_its_surplus(self) -> None:
        session = self.with_roles(2, {}, {"w": 3})
        job, other = job_of(session, "job"), job_of(session, "other")
        for purpose in (Purpose.PREEMPT, Purpose.RECLAIM):
            assert len(session.unified_evictable(other, job.tasks, purpose)) == 3
            assert len(session.unified_evictable(other, job.tasks[:2], purpose)) == 1

    def test_ready_and_pipelined_by_role_and_sub_job(self) -> None:
        session = self.with_roles(3, {"ps": 1, "w": 2}, {"ps": 1, "w": 2})
        job = job_of(session, "job")
        assert session.ready(job)
        job.move(job.tasks[0], Status.PENDING)
        assert not session.ready(job) and not session.pipelined(job)
        job.move(job.tasks[0], Status.PIPELINED)
        assert not session.ready(job) and session.pipelined(job)

    def test_valid_while_enough_of_each_role_may_come_about(self) -> None:
        session = self.with_roles(3, {"ps": 1, "w": 2}, {"ps": 1, "w": 3})
        job = job_of(session, "job")
        assert session.job_valid(job, session.world) is None
        job.move(job.tasks[0], Status.FAILED)
        reason = session.job_valid(job, session.world)
        assert reason is not None and reason.startswith("NotEnoughPodsOfTask: 0 of the 1")

    def test_sub_jobs_that_are_not_ready_first(self) -> None:
        c = Cluster("gang")
        c.node("n", cpu=64)
        policy = SubGroupPolicy("p", size=1, minimum=2, selector=(), match_label_keys=("part",))
        cid = c.class_of(TaskClass(requests=c.requests(cpu=1, pods=1)))
        roles = [Role("w", cid, i, 1, labels=(("part", str(i)),)) for i in range(2)]
        c.job("job", roles=roles, minimum=2, on=["n"], sub_groups=(policy,))
        session = c.open()
        job = job_of(session, "job")
        ready, waits = job.subs.values()
        assert session.sub_ready(ready) and not session.sub_ready(waits)
        assert session.compare_sub_jobs(waits, ready) < 0
        assert not session.ready(job)
        hook = session.rules(SUB_JOB_PIPELINED)[0]
        assert hook.scalar(ready, session.world) == PERMIT
        assert hook.scalar(waits, session.world) == REJECT


class TestPriority:
    def test_lower_jobs_and_lower_members_of_its_own(self) -> None:
        c = Cluster("priority")
        c.node("n", cpu=64)
        for name, priority in (("low", 1), ("equal", 2), ("higher", 3)):
            c.job(name, on=["n"], priority=priority, task_priority=9 - priority)
        cid = c.class_of(TaskClass(requests=c.requests(cpu=1, pods=1)))
        roles = [Role(f"r{p}", cid, p, 1, priority=p, names=(f"member-{p}",)) for p in range(3)]
        c.job("mine", roles=roles, priority=2, on=["n"] * 3)
        session = c.open()
        mine = job_of(session, "mine")
        everybody = list(session.world.tasks())
        assert named(session.preemptable(mine.tasks[1], everybody)) == ["low-0", "member-0"]
        evictable = session.unified_evictable(mine, everybody, Purpose.PREEMPT)
        assert named(evictable) == ["low-0"]

    def test_between_queues_it_has_no_say(self) -> None:
        c = Cluster("priority", "conformance")
        c.node("n", cpu=64)
        c.job("high", on=["n"], priority=9)
        c.job("mine", priority=1)
        session = c.open()
        high, mine = session.world.session_jobs()
        assert len(session.unified_evictable(mine, high.tasks, Purpose.RECLAIM)) == 1
        assert len(session.reclaimable(mine.tasks[0], high.tasks)) == 1


APP = (Requirement(key="app", operator="In", values=("web",)),)


class TestPdb:
    def cluster(self, budget: Budget, *, actions: tuple[str, ...] = ("preempt",)) -> Cluster:
        c = Cluster("pdb", "priority", actions=actions)
        c.node("n", cpu=4)
        c.job(
            "low",
            tasks=4,
            minimum=0,
            on=["n"] * 4,
            priority=1,
            members={"labels": (("app", "web"),)},
        )
        c.world.objects.budgets["default/b"] = budget
        return c

    @pytest.mark.parametrize(
        ("limits", "evicted"),
        [
            ({"min_available": "3"}, 1),
            ({"min_available": "75%"}, 1),
            ({"min_available": "70%"}, 1),  # 2.8 of 4 are 3
            ({"max_unavailable": "2"}, 2),
            ({"max_unavailable": "30%"}, 2),  # 1.2 of 4 are 2
            ({"max_unavailable": "0"}, 0),
            ({"max_unavailable": "2", "allowed": 1}, 1),
            ({}, 4),
        ],
    )
    def test_no_more_than_the_budget_allows(self, limits: dict[str, Any], evicted: int) -> None:
        """Four jobs want a core each; the gangs of one task come one after the other."""
        c = self.cluster(Budget("default", "b", selector=APP, **limits))
        for i in range(4):
            c.job(f"high-{i}", priority=2)
        assert len(c.run().evicted) == evicted

    def test_it_speaks_for_its_own_pods_alone(self) -> None:
        for budget in (
            Budget("other", "b", selector=APP, max_unavailable="0"),
            Budget("default", "b", selector=None, max_unavailable="0"),
        ):
            c = self.cluster(budget)
            c.job("high", priority=2)
            assert len(c.run().evicted) == 1

    def test_undone_evictions_free_the_disruption_budget(self) -> None:
        c = self.cluster(Budget("default", "b", selector=APP, max_unavailable="2"))
        c.job("high", priority=2)
        session = c.open()
        low, high = session.world.session_jobs()
        assert len(session.preemptable(high.tasks[0], low.tasks)) == 2
        statement = WorldStatement(session)
        statement.evict(low.tasks[0], "test")
        statement.evict(low.tasks[1], "test")
        assert session.preemptable(high.tasks[0], low.tasks[2:]) == []
        statement.give_back(low.tasks[0])
        assert len(session.preemptable(high.tasks[0], low.tasks[2:])) == 1
        statement.rollback()
        assert len(session.preemptable(high.tasks[0], low.tasks)) == 2

    def test_shuffle_spares_them_whoever_names_them(self) -> None:
        class All:
            name = "all"

            def __init__(self, option: PluginOption) -> None:
                del option

            def on_session_open(self, ssn: Session) -> None:
                ssn.add_victim_tasks_fn(lambda running, _: running)

        c = Cluster(tiers=[[All], ["pdb"]], actions=("shuffle",))
        c.node("n", cpu=4)
        labels = {"labels": (("app", "web"),)}
        c.job("low", tasks=4, minimum=0, on=["n"] * 4, members=labels)
        c.job("others", tasks=2, minimum=0, on=["n"] * 2, cpu=0)
        c.world.objects.budgets["default/b"] = Budget(
            "default", "b", selector=APP, max_unavailable="1"
        )
        session = c.open()
        run_actions(session)
        evicted = c.result(session).evicted
        assert evicted == ["default/low-0", "default/others-0", "default/others-1"]

    def test_a_budget_that_is_overdrawn_allows_nothing(self) -> None:
        assert allowed(Budget("n", "b", min_available="3"), healthy=2, expected=4) == 0


class TestCdp:
    @pytest.mark.parametrize(
        ("where", "value", "now", "evicted"),
        [
            ("members", "60s", 50.0, 0),
            ("members", "60s", 60.5, 1),
            ("job", "1m", 50.0, 0),
            ("job", "often", 50.0, 1),
        ],
    )
    def test_a_task_within_its_cooldown_is_not_evicted(
        self, where: str, value: str, now: float, evicted: int
    ) -> None:
        marks = (("volcano.sh/cooldown-time", value),)
        c = Cluster("cdp", "priority", actions=("preempt",), now=now)
        c.node("n", cpu=1)
        fields: dict[str, Any] = (
            {"members": {"labels": marks}} if where == "members" else {"annotations": marks}
        )
        c.job("low", minimum=0, on=["n"], priority=1, created=-100.0, **fields)
        c.job("high", priority=2)
        session = c.open()
        job_of(session, "low").tasks[0].started = 0.5
        run_actions(session)
        assert len(c.result(session).evicted) == evicted

    def test_a_bound_task_has_no_cooldown_yet(self) -> None:
        marks = (("volcano.sh/cooldown-time", "60s"),)
        c = Cluster("cdp", "priority", actions=("preempt",), now=1.0)
        c.node("n", cpu=1)
        c.job("low", minimum=0, on=["n"], status=Status.BOUND, priority=1, annotations=marks)
        c.job("high", priority=2)
        assert len(c.run().evicted) == 1


def test_a_statement_names_every_tier_that_decided_an_eviction_of_it() -> None:
    reports = [
        "reclaim (gang): for ns/a-0",
        "reclaim (gang): for ns/a-1",
        "reclaim (drf): for ns/a-1",
    ]
    assert joined(reports) == "reclaim (gang; drf): for ns/a-0"
    assert joined(reports[:2]) == reports[0]
    assert joined(["shuffle", "shuffle"]) == "shuffle"
