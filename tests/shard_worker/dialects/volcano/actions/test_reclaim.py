"""reclaim: what queues take back from each other."""

from __future__ import annotations

from typing import Any

from shard_worker.dialects.volcano.actions.reclaim import reclaim_job
from shard_worker.dialects.volcano.actions.run import run_actions
from shard_worker.framework.session import Session
from shard_worker.harness import Cluster
from shard_worker.session_model.status import Status
from shard_worker.view.mode import Mode
from shared.model.constraints import Constraints
from shared.model.topology import Topology
from shared.policy.model import PluginOption
from tests.shard_worker.images import image


def cluster(*plugins: Any, actions: tuple[str, ...] = ("reclaim",), **fields: Any) -> Cluster:
    """Two queues of equal weight; "rich" has had everything so far."""
    c = Cluster(*(plugins or ("gang", "proportion")), actions=actions, **fields)
    c.queue("rich")
    c.queue("poor")
    return c


def full(c: Cluster, *nodes: str, minimum: int = 0, **fields: Any) -> None:
    """Nodes of 4 cores, full of tasks of the rich queue."""
    for node in nodes:
        c.node(node, cpu=4)
    on = [node for node in nodes for _ in range(4)]
    c.job("rich", queue="rich", tasks=len(on), minimum=minimum, on=on, **fields)


def test_as_much_as_it_deserves_and_no_more() -> None:
    c = cluster()
    full(c, "n")
    c.job("poor", queue="poor", tasks=4, minimum=1, cpu=1)
    c.job("poor2", queue="poor", tasks=4, minimum=1, cpu=1)
    c.job("poor3", queue="poor", tasks=4, minimum=1, cpu=1)
    result = c.run()
    assert result.evicted == ["default/rich-2", "default/rich-3"]
    assert len(result.pipelined) == 2


def test_only_running_tasks_go() -> None:
    c = cluster()
    full(c, "n", status=Status.BOUND)
    c.job("poor", queue="poor")
    assert c.run().evicted == []


def test_a_pod_that_says_no_stays() -> None:
    c = cluster()
    full(c, "n", members={"labels": (("volcano.sh/preemptable", "false"),)})
    c.job("poor", queue="poor")
    assert c.run().evicted == []


def test_a_queue_that_gives_nothing_back() -> None:
    c = Cluster("gang", "proportion", actions=("reclaim",))
    c.queue("rich", reclaimable=False)
    c.queue("poor")
    full(c, "n")
    c.job("poor", queue="poor")
    assert c.run().evicted == []


def test_its_own_queue_gives_nothing() -> None:
    c = cluster("gang", "conformance")  # everybody may be evicted
    full(c, "n")
    c.job("mine", queue="rich")
    assert c.run().evicted == []


def test_a_task_that_evicts_nobody_is_passed_over_others_are_not() -> None:
    c = cluster("gang", "conformance")
    full(c, "n")
    c.job("never", queue="poor", rules={"constraints": Constraints(preempts=False)})
    c.job("poor", queue="poor")
    assert c.run().pipelined == {"default/poor-0": "n"}


def test_the_gang_of_the_victim_stays_whole() -> None:
    c = cluster()
    full(c, "n", minimum=4)
    c.job("poor", queue="poor")
    assert c.run().evicted == []


def test_all_or_nothing() -> None:
    c = cluster()
    full(c, "n")
    c.job("poor", queue="poor", tasks=3)
    session = c.open()
    before = image(session)
    run_actions(session)
    assert session.committed == []
    assert image(session) == before


def test_no_eviction_where_a_node_is_free() -> None:
    c = cluster()
    full(c, "n")
    c.node("free", cpu=4)
    c.job("poor", queue="poor")
    result = c.run()
    assert result.evicted == []
    assert result.pipelined == {"default/poor-0": "free"}


def test_free_nodes_are_left_to_a_later_allocate_action() -> None:
    c = cluster(actions=("reclaim", "allocate"))
    full(c, "n")
    c.node("free", cpu=4)
    c.job("poor", queue="poor")
    result = c.run()
    assert result.evicted == []
    assert result.binds == {"default/poor-0": "free"}


def test_reclaim_evicts_where_allocate_gives_the_free_room_to_another_queue() -> None:
    c = Cluster("gang", "capacity", actions=("reclaim", "allocate"))
    c.queue("rich", priority=1)
    c.queue("poor", deserved={"cpu": 2})
    full(c, "n")
    c.node("free", cpu=1)
    c.job("first", queue="rich")
    c.job("poor", queue="poor")
    result = c.run()
    assert result.binds == {"default/first-0": "free"}
    assert result.evicted == ["default/rich-3"]
    assert result.pipelined == {"default/poor-0": "n"}


def test_free_room_left_to_allocate_is_not_taken_by_a_less_important_job() -> None:
    c = Cluster("gang", "priority", "capacity", actions=("reclaim", "allocate"))
    c.queue("rich")
    c.queue("poor", deserved={"cpu": 8})
    c.node("n", cpu=7)
    c.job("rich", queue="rich", tasks=3, minimum=0, on=["n"] * 3)
    c.job("high", queue="poor", tasks=2, cpu=2, priority=100)
    c.job("low", queue="poor", tasks=3, cpu=2, priority=10)
    result = c.run()
    assert result.binds == {"default/high-0": "n", "default/high-1": "n"}


def test_a_gang_takes_what_is_free_and_evicts_for_the_rest() -> None:
    """Free room on the node counts: no task is evicted for it."""
    c = cluster(actions=("reclaim", "allocate"))
    c.node("n", cpu=4)
    c.job("rich", queue="rich", tasks=3, minimum=0, on=["n"] * 3)
    c.job("poor", queue="poor", tasks=2)
    result = c.run()
    assert result.evicted == ["default/rich-2"]
    assert len(result.pipelined) == 2


def test_own_shard_before_others() -> None:
    c = cluster(mode=Mode.SOFT)
    c.node("other", cpu=1, own=False)
    c.node("own", cpu=1)
    c.job("rich", queue="rich", tasks=2, minimum=0, on=["other", "own"])
    c.job("poor", queue="poor")
    assert c.run().pipelined == {"default/poor-0": "own"}


def test_a_job_that_asks_for_a_domain_is_left_to_gangreclaim() -> None:
    c = cluster()
    full(c, "n")
    c.job("poor", queue="poor", topology=Topology(hard=True, highest_tier=1))
    assert c.run().evicted == []


class Shy:
    """No queue may reclaim; every queue but "poor" has its share."""

    name = "shy"
    may = True
    overused = False

    def __init__(self, option: PluginOption) -> None:
        del option

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_preemptive_fn(lambda *_: self.may)
        ssn.add_overused_fn(lambda *_: self.overused)


def test_a_queue_that_may_not_or_has_its_share() -> None:
    for may, overused, victims in ((True, False, 1), (False, False, 0), (True, True, 0)):

        class ShyWithRequest(Shy):
            pass

        ShyWithRequest.may, ShyWithRequest.overused = may, overused
        c = cluster("gang", "conformance", ShyWithRequest)
        full(c, "n")
        c.job("poor", queue="poor")
        assert len(c.run().evicted) == victims


def test_the_queue_that_is_last_in_order_pays_first() -> None:
    c = Cluster("gang", "proportion", actions=("reclaim",))
    for name, priority in (("a", 5), ("b", 1), ("poor", 0)):
        c.queue(name, priority=priority)
    c.node("n", cpu=6)
    for name in "ab":
        c.job(name, queue=name, tasks=3, minimum=0, on=["n"] * 3)
    c.job("poor", queue="poor")
    assert c.run().evicted == ["default/b-2"]


def test_a_lone_job_gets_the_same_from_turn_and_action() -> None:
    c = cluster()
    full(c, "n")
    c.job("poor", queue="poor", tasks=2)
    session = c.open()
    reclaim_job(session, session.world.session_job(1))
    assert c.result(session).evicted == ["default/rich-2", "default/rich-3"]
