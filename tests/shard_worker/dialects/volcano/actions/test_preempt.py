"""preempt: who may be evicted for whom, where, and what is undone."""

from __future__ import annotations

from typing import Any

import numpy as np

from shard_worker.dialects.volcano.actions.preempt import preempt_job
from shard_worker.dialects.volcano.actions.run import run_actions
from shard_worker.framework.rules import Check, Scope
from shard_worker.framework.session import Session
from shard_worker.harness import Cluster
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import Status
from shard_worker.session_model.world import World
from shard_worker.view.mode import Mode
from shared.model.constraints import Constraints
from shared.model.model import Role, TaskClass
from shared.model.topology import Topology
from shared.policy.model import PluginOption
from tests.shard_worker.images import image


def cluster(*plugins: Any, **fields: Any) -> Cluster:
    """Nodes of 4 cores; gang, priority and conformance decide."""
    named = plugins or ("priority", "gang", "conformance")
    return Cluster(*named, actions=("preempt",), **fields)


class TestBetweenJobs:
    def test_the_least_important_task_of_a_job_of_lower_priority_goes(self) -> None:
        c = cluster()
        c.node("n", cpu=4)
        c.job("low", tasks=4, minimum=1, on=["n"] * 4, priority=1)
        c.job("high", priority=2)
        result = c.run()
        assert result.evicted == ["default/low-3"]  # the one that would be placed last
        assert result.pipelined == {"default/high-0": "n"}

    def test_nothing_of_equal_priority_goes(self) -> None:
        c = cluster()
        c.node("n", cpu=4)
        c.job("first", tasks=4, minimum=1, on=["n"] * 4, priority=2)
        c.job("second", priority=2)
        assert c.run().evicted == []

    def test_nothing_of_another_queue_goes(self) -> None:
        c = cluster()
        c.node("n", cpu=4)
        c.queue("a")
        c.queue("b")
        c.job("low", queue="a", tasks=4, minimum=1, on=["n"] * 4, priority=1)
        c.job("high", queue="b", priority=2)
        assert c.run().evicted == []

    def test_a_pod_that_says_no_stays(self) -> None:
        c = cluster()
        c.node("n", cpu=4)
        marks = {"annotations": (("volcano.sh/preemptable", "false"),)}
        c.job("low", tasks=4, minimum=0, on=["n"] * 4, priority=1, members=marks)
        c.job("high", priority=2)
        assert c.run().evicted == []

    def test_a_preemptor_that_says_never_evicts_nobody(self) -> None:
        c = cluster()
        c.node("n", cpu=4)
        c.job("low", tasks=4, minimum=0, on=["n"] * 4, priority=1)
        c.job("high", priority=2, rules={"constraints": Constraints(preempts=False)})
        assert c.run().evicted == []

    def test_nobody_goes_for_a_task_that_asks_for_nothing_but_its_like(self) -> None:
        c = cluster()
        c.node("n", cpu=4, pods=2)
        c.job("asks", minimum=0, on=["n"], priority=1)
        c.job("idles", minimum=0, cpu=0, on=["n"], priority=1)
        c.job("high", cpu=0, priority=2)
        assert c.run().evicted == ["default/idles-0"]

    def test_a_whole_gang_or_nothing(self) -> None:
        c = cluster()
        c.node("n", cpu=4)
        c.job("low", tasks=4, minimum=2, on=["n"] * 4, priority=1)
        c.job("high", tasks=3, priority=2)  # only two of low may go
        session = c.open()
        before = image(session)
        run_actions(session)
        assert session.committed == []
        assert image(session) == before

    def test_eviction_stops_at_the_need_of_the_gang(self) -> None:
        c = cluster()
        c.node("n", cpu=4)
        c.job("low", tasks=4, minimum=0, on=["n"] * 4, priority=1)
        c.job("high", tasks=4, minimum=2, priority=2)
        result = c.run()
        assert len(result.evicted) == 2
        assert len(result.pipelined) == 2

    def test_a_job_that_is_not_let_in_evicts_nobody(self) -> None:
        for phase in ("Pending", ""):
            c = cluster()
            c.node("n", cpu=4)
            c.job("low", tasks=4, minimum=0, on=["n"] * 4, priority=1)
            c.job("high", priority=2, phase=phase)
            assert c.run().evicted == []

    def test_a_job_that_asks_for_a_domain_is_left_to_gangpreempt(self) -> None:
        c = cluster()
        c.node("n", cpu=4)
        c.job("low", tasks=4, minimum=0, on=["n"] * 4, priority=1)
        c.job("high", priority=2, topology=Topology(hard=True, highest_tier=1))
        assert c.run().evicted == []

    def test_a_gated_task_evicts_nobody(self) -> None:
        c = cluster()
        c.node("n", cpu=4)
        c.job("low", tasks=4, minimum=0, on=["n"] * 4, priority=1)
        c.job("high", priority=2, members={"gated": True})
        assert c.run().evicted == []

    def test_the_more_important_job_chooses_first(self) -> None:
        c = cluster()
        c.node("n", cpu=1)
        c.job("low", minimum=0, on=["n"], priority=1)
        c.job("middle", priority=2)
        c.job("high", priority=3)
        assert c.run().pipelined == {"default/high-0": "n"}

    def test_queues_take_their_turn_in_order(self) -> None:
        """The second to come pushes nobody out of what the first was promised."""
        c = cluster("priority", "gang", "proportion")
        c.node("n", cpu=4)
        c.queue("a", priority=1)
        c.queue("b", priority=2)
        c.job("a-low", queue="a", minimum=0, on=["n"], cpu=2, priority=1)
        c.job("b-low", queue="b", minimum=0, on=["n"], cpu=2, priority=1)
        c.job("a-high", queue="a", cpu=2, priority=2)
        c.job("b-high", queue="b", cpu=2, priority=2)
        result = c.run()
        assert result.evicted == ["default/a-low-0", "default/b-low-0"]
        assert len(result.pipelined) == 2


class TestWhere:
    def test_no_eviction_where_a_node_is_free(self) -> None:
        c = cluster()
        c.node("full", cpu=4)
        c.node("free", cpu=4)
        c.job("low", tasks=4, minimum=0, on=["full"] * 4, priority=1)
        c.job("high", priority=2)
        result = c.run()
        assert result.evicted == []
        assert result.pipelined == {"default/high-0": "free"}

    def test_free_nodes_are_left_to_a_later_allocate_action(self) -> None:
        c = Cluster("priority", "gang", actions=("preempt", "allocate"))
        c.node("free", cpu=4)
        c.job("high", priority=2)
        result = c.run()
        assert result.pipelined == {}
        assert result.binds == {"default/high-0": "free"}

    def test_evictions_in_vain_are_taken_back(self) -> None:
        """The big node cannot be cleared enough; what was evicted there stays."""
        c = cluster()
        c.node("a", cpu=4)
        c.node("b", cpu=3)
        c.job("mine", minimum=0, on=["a"], cpu=3, priority=3)
        c.job("low-a", minimum=0, on=["a"], cpu=1, priority=1)
        c.job("low-b", minimum=0, on=["b"], cpu=3, priority=1)
        c.job("high", cpu=3, priority=2)
        result = c.run()
        assert result.evicted == ["default/low-b-0"]
        assert result.pipelined == {"default/high-0": "b"}

    def test_own_shard_with_evictions_before_others(self) -> None:
        c = cluster(mode=Mode.SOFT)
        c.node("other", cpu=1, own=False)
        c.node("own", cpu=1)
        c.job("low", tasks=2, minimum=0, on=["other", "own"], priority=1)
        c.job("high", priority=2)
        assert c.run().pipelined == {"default/high-0": "own"}

    def test_other_shards_where_the_own_cannot(self) -> None:
        for mode, expected in ((Mode.SOFT, {"default/high-0": "other"}), (Mode.HARD, {})):
            c = cluster(mode=mode)
            c.node("other", cpu=1, own=False)
            c.node("own", cpu=1)
            c.job("low", minimum=0, on=["other"], priority=1)
            c.job("equal", minimum=0, on=["own"], priority=2)
            c.job("high", priority=2)
            assert c.run().pipelined == expected

    def test_a_queue_without_room_makes_some_of_its_own(self) -> None:
        """The node has room, the queue has not: only an eviction helps."""
        c = cluster("priority", "gang", "proportion")
        c.node("n", cpu=8)
        c.queue("default", capability={"cpu": 2})
        c.job("low", tasks=2, minimum=0, on=["n"] * 2, priority=1)
        c.job("high", priority=2)
        result = c.run()
        assert result.evicted == ["default/low-1"]

    def test_not_eligible_where_the_promised_node_takes_it_already(self) -> None:
        """The free room there does not matter: placing the task is up to allocate."""
        assert self.with_promise(blocked=False, leaving=Status.RUNNING) == []

    def test_not_eligible_while_the_promised_node_waits_for_victims(self) -> None:
        assert self.with_promise(blocked=True, leaving=Status.RELEASING) == []

    def test_eligible_where_nobody_leaves_the_promised_node(self) -> None:
        assert self.with_promise(blocked=True, leaving=Status.RUNNING) == ["default/low-0"]

    def with_promise(self, *, blocked: bool, leaving: Status) -> list[str]:
        """A task was promised n, on which another is; "low" runs elsewhere. Whom it evicts."""

        class Blocks:
            name = "blocks"

            def __init__(self, option: PluginOption) -> None:
                del option

            def on_session_open(self, ssn: Session) -> None:
                def checks(task: TaskInfo, world: World) -> list[Check]:
                    return [Check("a neighbour", np.arange(world.size) != 0)] if blocked else []

                ssn.add_live_predicate_fn(checks, scope=Scope.NODE)

        c = cluster("priority", "gang", Blocks)
        c.node("n", cpu=1)
        c.node("m", cpu=1)
        c.job("there", minimum=0, on=["n"], priority=1, task_priority=0, status=leaving)
        c.job("low", minimum=0, on=["m"], priority=1)
        c.job("high", priority=2)
        session = c.open()
        session.world.session_job(2).tasks[0].nominated = 0
        run_actions(session)
        return c.result(session).evicted


class TestWithinAJob:
    def test_a_less_important_member_makes_way(self) -> None:
        c = cluster("priority")
        c.node("n", cpu=2)
        cid = c.class_of(TaskClass(requests=c.requests(cpu=1, pods=1)))
        plain = Role("plain", cid, 0, 2, names=("job-0", "job-1"))
        urgent = Role("urgent", cid, 2, 1, priority=9, names=("job-urgent",))
        c.job("job", roles=(plain, urgent), minimum=0, on=["n", "n"])
        result = c.run()
        assert result.evicted == ["default/job-1"]
        assert result.pipelined == {"default/job-urgent": "n"}

    def test_a_gang_that_cannot_start_reserves_nothing(self) -> None:
        c = cluster()
        c.node("n", cpu=2)
        c.job("gang", tasks=3, priority=2)
        session = c.open()
        before = image(session)
        run_actions(session)
        assert image(session) == before


class TestDryRun:
    def topology_aware(self, **arguments: object) -> Cluster:
        settings = {"preempt": {"enableTopologyAwarePreemption": True, **arguments}}
        return cluster("priority", "gang", "predicates", arguments=settings)

    def test_unneeded_victims_are_spared_the_most_important_first(self) -> None:
        """Three leave in order until the task fits; the big one alone would have done."""
        c = self.topology_aware()
        c.node("n", cpu=4)
        c.job("small", tasks=2, minimum=0, on=["n"] * 2, priority=1, task_priority=3)
        c.job("big", minimum=0, on=["n"], cpu=2, priority=1, task_priority=2)
        c.job("high", cpu=2, priority=2)
        assert c.run().evicted == ["default/big-0"]

    def test_the_node_whose_victims_matter_least(self) -> None:
        c = self.topology_aware(minCandidateNodesAbsolute=3)
        for name, priorities in (("a", (5, 1)), ("b", (3, 3)), ("c", (3, 2))):
            c.node(name, cpu=2)
            for at, priority in enumerate(priorities):
                c.job(f"{name}{at}", minimum=0, on=[name], priority=1, task_priority=priority)
        c.job("high", cpu=2, priority=2)
        assert c.run().pipelined == {"default/high-0": "c"}

    def test_equal_priorities_pick_fewest_then_latest_started_victims(self) -> None:
        c = self.topology_aware(minCandidateNodesAbsolute=3)
        c.node("many", cpu=2)
        c.node("early", cpu=2)
        c.node("late", cpu=2)
        c.job("many", tasks=2, minimum=0, on=["many"] * 2, priority=1)
        c.job("early", minimum=0, cpu=2, on=["early"], priority=1, created=10.0)
        c.job("late", minimum=0, cpu=2, on=["late"], priority=1, created=20.0)
        c.job("high", cpu=2, priority=2)
        assert c.run().evicted == ["default/late-0"]

    def test_no_more_candidates_than_asked_for(self) -> None:
        """With one candidate the first that would do is taken, with two the better one."""
        for enough, evicted in ((1, "default/first-0"), (2, "default/second-0")):
            c = self.topology_aware(minCandidateNodesAbsolute=enough, minCandidateNodesPercentage=0)
            c.node("a", cpu=1)
            c.node("b", cpu=1)
            c.job("first", minimum=0, on=["a"], priority=1, task_priority=5)
            c.job("second", minimum=0, on=["b"], priority=1, task_priority=1)
            c.job("high", priority=2)
            assert c.run().evicted == [evicted]

    def test_rules_hear_of_every_step_and_the_world_is_restored(self) -> None:
        reports: list[str] = []

        class PreemptWatch:
            name = "watch"

            def __init__(self, option: PluginOption) -> None:
                del option

            def on_session_open(self, ssn: Session) -> None:
                ssn.add_simulate_remove_task_fn(lambda *a: reports.append(f"-{a[1].name}"))
                ssn.add_simulate_add_task_fn(lambda *a: reports.append(f"+{a[1].name}"))
                ssn.add_simulate_predicate_fn(lambda *a: "never")

        c = Cluster(
            "priority",
            "gang",
            PreemptWatch,
            actions=("preempt",),
            arguments={"preempt": {"enableTopologyAwarePreemption": True}},
        )
        c.node("n", cpu=2)
        c.job("low", tasks=2, minimum=0, on=["n"] * 2, priority=1)
        c.job("high", priority=2)
        session = c.open()
        before = image(session)
        run_actions(session)
        assert reports == ["-low-1", "-low-0", "+low-1", "+low-0"]
        assert image(session) == before


def test_a_lone_job_gets_the_same_from_turn_and_action() -> None:
    c = cluster()
    c.node("n", cpu=4)
    c.job("low", tasks=4, minimum=1, on=["n"] * 4, priority=1)
    c.job("high", tasks=2, priority=2)
    session = c.open()
    preempt_job(session, session.world.session_job(1))
    assert c.result(session).evicted == ["default/low-2", "default/low-3"]


def test_why_nobody_makes_way_is_counted() -> None:
    """Each task that is somewhere is counted once, by what comes first."""
    c = cluster("priority", "gang", "predicates")
    c.queue("default")
    c.queue("other")
    c.node("n", cpu=8)
    c.node("cordoned", cpu=4, unschedulable=True)
    c.job("equal", tasks=3, minimum=0, on=["n"] * 3, priority=2)
    c.job("gang", tasks=2, on=["n"] * 2, priority=1)
    c.job("elsewhere", queue="other", on=["n"])
    c.job("late", minimum=0, on=["n"], status=Status.RELEASING)
    c.job("unwilling", on=["n"], members={"labels": (("volcano.sh/preemptable", "false"),)})
    c.job("high", cpu=4, priority=2)
    session = c.open()
    run_actions(session)
    assert session.spared[5] == {
        "kept by priority": 3,
        "kept by gang": 2,
        "of other queues": 1,
        "leaving, or not there yet": 1,
        "not preemptable, as they say": 1,
    }
    word, detail = session.skipped[5]
    assert word == "NotEnoughResources"
    assert detail.startswith("nobody makes way: 3 kept by priority; 2 kept by gang")


def test_too_small_victims_are_counted_in_the_reason() -> None:
    c = cluster("conformance", "gang")
    c.node("n", cpu=2)
    c.node("m", cpu=1)
    c.job("low", tasks=3, minimum=1, on=["n", "n", "m"], priority=1)
    c.job("high", cpu=3, priority=2)
    session = c.open()
    run_actions(session)
    assert session.spared[1] == {
        "kept by gang": 1,
        "may be evicted, but with them not all that it needs fits": 2,
    }


def test_a_job_alone_that_does_not_starve_gets_nothing() -> None:
    c = cluster()
    c.node("n", cpu=4)
    c.job("low", tasks=3, minimum=0, on=["n"] * 3, priority=1)
    c.job("high", tasks=3, minimum=1, on=["n"], priority=2)
    session = c.open()
    preempt_job(session, session.world.session_job(1))
    assert session.committed == []


def test_an_eviction_tells_by_which_rules_and_for_whom() -> None:
    c = Cluster(tiers=[["priority", "gang"], ["conformance"]], actions=("preempt",))
    c.node("n", cpu=1)
    c.job("low", minimum=0, on=["n"], priority=1)
    c.job("high", priority=2)
    session = c.open()
    run_actions(session)
    assert session.committed[0].reason == "preempt (priority, gang): for default/high-0"
