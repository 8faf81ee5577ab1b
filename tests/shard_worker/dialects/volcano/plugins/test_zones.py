"""tdm: zones by the hour. rescheduling: from busy nodes to idle ones."""

from __future__ import annotations

from typing import Any

import pytest

from shard_worker.dialects.open_session import open_session
from shard_worker.dialects.volcano.actions.run import run_actions
from shard_worker.dialects.volcano.plugins.job.tdm import Hours, dispensable
from shard_worker.framework.extension_points import JOB_ORDER, JOB_STARVING
from shard_worker.framework.registered import there
from shard_worker.harness import Cluster
from shard_worker.session_model.status import Status
from shared.model.model import PriorityClass
from shared.policy.model import PluginOption, Policy, PolicyError

HOUR = 3600.0
ZONE = {"volcano.sh/revocable-zone": "rz"}
MAY_GO = {"annotations": (("volcano.sh/preemptable", "true"),)}


def tdm(*, hour: float, actions: tuple[str, ...] = ("allocate",), **arguments: object) -> Cluster:
    option = PluginOption("tdm", {"tdm.revocable-zone.rz": "10:00-21:00", **arguments})
    return Cluster("priority", option, actions=actions, now=hour * HOUR)


class TestHours:
    def test_revocable_hours_within_a_day_and_over_midnight(self) -> None:
        day, night = Hours(10 * 3600, 21 * 3600), Hours(21 * 3600, 6 * 3600)
        results = [(h, day.at(h * HOUR), night.at(h * HOUR)) for h in (5, 9, 10, 21, 23, 24 + 12)]
        assert results == [
            (5, False, True),
            (9, False, False),
            (10, True, False),
            (21, True, True),
            (23, False, True),
            (36, True, False),
        ]

    @pytest.mark.parametrize("text", ["", "10:00", "10:00-25:00", "10-12", "a:b-c:d"])
    def test_malformed_revocable_hours_are_refused(self, text: str) -> None:
        option = PluginOption("tdm", {"tdm.revocable-zone.rz": text})
        with pytest.raises(PolicyError, match="10:00-21:00"):
            open_session(Policy(("allocate",), ((option,),)))


class TestTdm:
    def test_a_revocable_zone_takes_preemptable_pods_in_its_hours_only(self) -> None:
        for hour, members, placed in ((12, MAY_GO, 1), (12, {}, 0), (9, MAY_GO, 0)):
            c = tdm(hour=hour)
            c.node("n", labels=ZONE)
            c.job("job", members=members)
            assert len(c.run().binds) == placed

    def test_the_pods_own_word_about_zones_counts_first(self) -> None:
        for value, placed in (("*", 1), ("rz", 0)):
            c = tdm(hour=12)
            c.node("n", labels=ZONE)
            marks = (("volcano.sh/preemptable", "true"), ("volcano.sh/revocable-zone", value))
            c.job("job", members={"annotations": marks})
            assert len(c.run().binds) == placed

    def test_a_zone_without_hours_is_closed(self) -> None:
        c = tdm(hour=12)
        c.node("n", labels={"volcano.sh/revocable-zone": "unknown"})
        c.job("job", members=MAY_GO)
        assert c.run().binds == {}

    def test_preemptable_tasks_prefer_revocable_zones(self) -> None:
        c = tdm(hour=12)
        c.node("a")
        c.node("z", labels=ZONE)
        c.node("b")
        c.job("job", members=MAY_GO)
        assert c.run().binds == {"default/job-0": "z"}

    def test_after_hours_preemptable_tasks_are_evicted_within_the_budget(self) -> None:
        for marks, gone in (
            ((), 1),
            ((("volcano.sh/jdb-max-unavailable", "50%"),), 2),
            ((("volcano.sh/jdb-min-available", "1"),), 3),
        ):
            c = tdm(hour=22, actions=("shuffle",))
            c.node("n", labels=ZONE)
            c.node("m")
            c.job("job", tasks=4, on=["n"] * 4, members=MAY_GO, annotations=marks)
            c.job("elsewhere", on=["m"], members=MAY_GO)
            c.job("stays", on=["n"])
            evicted = c.run().evicted
            assert len(evicted) == gone
            assert all(name.startswith("default/job") for name in evicted)

    def test_once_in_a_period(self) -> None:
        c = tdm(hour=22, actions=("shuffle",))
        c.node("n", labels=ZONE)
        c.job("job", tasks=4, on=["n"] * 4, members=MAY_GO)
        session = c.open()
        for seconds, evicted in ((0, 1), (59, 1), (60, 2)):
            session.world.now = 22 * HOUR + seconds
            run_actions(session)
            assert len(c.result(session).evicted) == evicted

    def test_the_policy_says_how_many_where_the_job_does_not(self) -> None:
        c = tdm(hour=22, actions=("shuffle",), **{"tdm.evict.max-num": "50%"})
        c.node("n", labels=ZONE)
        c.job("silent", tasks=4, on=["n"] * 4, members=MAY_GO)
        marks = (("volcano.sh/jdb-max-unavailable", "1"),)
        c.job("says", tasks=4, on=["n"] * 4, members=MAY_GO, annotations=marks)
        evicted = c.run().evicted
        assert [name.split("/")[1].split("-")[0] for name in evicted] == [
            "says",
            "silent",
            "silent",
        ]

    def test_the_period_goes_on_from_session_to_session(self) -> None:
        memory: dict[str, float] = {}
        for seconds, evicted in ((0, 1), (10, 0), (60, 1)):
            c = tdm(hour=22 + seconds / HOUR, actions=("shuffle",))
            c.node("n", labels=ZONE)
            c.job("job", tasks=4, on=["n"] * 4, members=MAY_GO)
            session = c.open()
            session.memory = memory
            run_actions(session)
            assert len(c.result(session).evicted) == evicted

    def test_nobody_goes_in_the_hours(self) -> None:
        c = tdm(hour=12, actions=("shuffle",))
        c.node("n", labels=ZONE)
        c.job("job", on=["n"], members=MAY_GO)
        assert c.run().evicted == []

    def test_non_preemptable_tasks_evict_preemptable_ones_on_ordinary_nodes(self) -> None:
        for members, labels, evicted in (({}, {}, 1), (MAY_GO, {}, 0), ({}, ZONE, 0)):
            c = tdm(hour=12, actions=("preempt",))
            c.node("n", cpu=2, labels=labels)
            c.job("low", tasks=2, on=["n"] * 2, members=MAY_GO, priority=1)
            c.job("job", members=members, priority=2)
            assert len(c.run().evicted) == evicted

    def test_a_non_preemptable_job_goes_first_and_starves_until_pipelined(self) -> None:
        c = tdm(hour=12)
        marked = (("volcano.sh/preemptable", "true"),)
        c.job("may", annotations=marked)
        c.job("not")
        session = c.open()
        may, stays = session.world.session_jobs()
        assert [h.fn(may) for h in session.rules(JOB_STARVING) if h.plugin == "tdm"] == [False]
        assert [h.fn(stays) for h in session.rules(JOB_STARVING) if h.plugin == "tdm"] == [True]
        rank = there(next(h for h in session.rules(JOB_ORDER) if h.plugin == "tdm").fn)
        first, second = rank(stays, session.world), rank(may, session.world)
        assert isinstance(first, float | int) and isinstance(second, float | int) and first < second
        assert not session.pipelined(stays)
        stays.move(stays.tasks[0], Status.PIPELINED)
        assert session.pipelined(stays)

    def test_missing_tasks_already_count_against_the_disruption_budget(self) -> None:
        c = tdm(hour=22)
        marks = (("volcano.sh/jdb-max-unavailable", "2"),)
        c.node("n")
        c.job("job", tasks=4, on=["n"] * 3, annotations=marks)
        assert dispensable(c.open().world.session_job(0)) == 1


def rescheduling(**params: object) -> Cluster:
    strategy = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}, **params}
    strategies = [{"name": "lowNodeUtilization", "params": strategy}]
    option = PluginOption("rescheduling", {"strategies": strategies})
    return Cluster(option, "predicates", actions=("shuffle",))


class TestLowNodeUtilization:
    def test_a_busy_node_gives_away_down_to_its_target_the_least_important_first(self) -> None:
        c = rescheduling()
        c.node("busy", cpu=10)
        c.node("idle", cpu=10)
        c.job("low", tasks=4, on=["busy"] * 4, task_priority=1)
        c.job("high", tasks=4, on=["busy"] * 4, task_priority=2)
        assert c.run().evicted == [f"default/low-{i}" for i in range(3)]

    def test_no_more_than_the_idle_nodes_take(self) -> None:
        c = rescheduling()
        c.node("busy", cpu=10)
        c.node("idle", cpu=4)
        c.job("low", tasks=9, on=["busy"] * 9)
        assert len(c.run().evicted) == 2  # up to the idle one's own target

    @pytest.mark.parametrize(
        ("params", "setup"),
        [
            ({"numberOfNodes": 1}, {}),
            ({"thresholdPriority": 1}, {}),
            ({"thresholdPriorityClassName": "urgent"}, {}),
            ({}, {"members": {"labels": (("volcano.sh/preemptable", "false"),)}}),
            ({}, {"rules": {"selector": (("only", "busy"),)}}),
        ],
    )
    def test_rescheduling_spares_these_tasks(
        self, params: dict[str, object], setup: dict[str, Any]
    ) -> None:
        """Too few idle nodes; too important; unwilling; at home nowhere else."""
        c = rescheduling(**params)
        c.node("busy", cpu=10, labels={"only": "busy"})
        c.node("idle", cpu=10)
        c.world.priority_classes["urgent"] = PriorityClass("urgent", 1)
        c.job("low", tasks=8, on=["busy"] * 8, **setup)
        assert c.run().evicted == []

    def test_reported_usage_replaces_requests_on_a_busy_node(self) -> None:
        c = rescheduling()
        c.node("busy", cpu=10)
        c.node("idle", cpu=10)
        c.world.objects.usage["busy"] = {"cpu": 40.0}
        c.job("low", tasks=8, on=["busy"] * 8)
        assert c.run().evicted == []

    def test_only_once_in_the_interval(self) -> None:
        c = rescheduling()
        c.node("busy", cpu=10)
        c.node("idle", cpu=10)
        c.world.objects.usage["busy"] = {"cpu": 80.0}  # whatever leaves
        c.job("low", tasks=8, on=["busy"] * 8)
        session = c.open()
        for now, evicted in ((0.0, 3), (299.0, 3), (300.0, 6)):
            session.world.now = now
            run_actions(session)
            assert len(c.result(session).evicted) == evicted

    def test_tasks_already_leaving_count_as_rescheduled(self) -> None:
        c = rescheduling()
        c.node("busy", cpu=10)
        c.node("idle", cpu=10)
        c.job("low", tasks=8, on=["busy"] * 8)
        session = c.open()
        for now in (0.0, 300.0):
            session.world.now = now
            run_actions(session)
        assert len(c.result(session).evicted) == 3

    @pytest.mark.parametrize(
        "strategies",
        [
            [{"name": "offlineOnly"}],
            [{"name": "lowNodeUtilization", "params": {"treshold": {}}}],
            [{"name": "lowNodeUtilization", "params": {"thresholds": {"gpu": 1}}}],
            [{"name": "lowNodeUtilization", "params": {"thresholds": {"cpu": "x"}}}],
            "lowNodeUtilization",
        ],
    )
    def test_unknown_rescheduling_strategies_are_refused(self, strategies: object) -> None:
        option = PluginOption("rescheduling", {"strategies": strategies})
        with pytest.raises(PolicyError, match="rescheduling"):
            open_session(Policy(("shuffle",), ((option,),)))
