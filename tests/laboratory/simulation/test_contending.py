"""The service's halves with a policy that has every action, on virtual time."""

from __future__ import annotations

import pytest

from laboratory.simulation.virtual_time import Network
from shard_worker.view.mode import Mode
from shared.policy.dialect import parse_policy
from tests.builders.objects import priority_class, queue
from tests.examples import first_of
from tests.laboratory.simulation.contending import Run, group, job, named_node

HIGH = priority_class("high", 100)


@pytest.mark.parametrize("mode", list(Mode))
def test_a_job_of_higher_priority_takes_the_place_of_others(mode: Mode) -> None:
    run = Run(setup=[HIGH], mode=mode)
    run.submit(job("low", 8, minimum=1, seconds=5))
    run.submit(job("high", 3, priority="high", seconds=1), at=1.0)
    run.until(0.9)
    assert run.running("low") == 8
    run.until(1.8)
    assert run.running("high") == 3
    assert run.running("low") == 5
    assert run.evicted == 3
    report = run.end()
    assert report.summary.tasks_finished == 11


def test_a_gang_is_not_broken_and_waits_instead() -> None:
    run = Run(setup=[HIGH])
    run.submit(job("low", 8, minimum=8, seconds=3))
    run.submit(job("high", 3, priority="high"), at=1.0)
    run.until(2.5)
    assert run.running("low") == 8
    assert run.running("high") == 0
    run.end()
    assert run.evicted == 0


def test_a_queue_takes_back_its_share() -> None:
    run = Run(setup=[queue("red"), queue("blue")])
    run.submit(job("greedy", 8, minimum=1, seconds=20, queue="red"))
    run.submit(job("late", 4, seconds=5, queue="blue"), at=1.0)
    run.until(3.0)
    assert run.running("late") == 4
    assert run.running("greedy") == 4
    assert run.evicted == 4


def test_tasks_that_ask_for_nothing_are_bound_in_a_full_cluster() -> None:
    run = Run()
    run.submit(job("full", 8, seconds=5))
    run.submit(job("idle", 5, cpu="", seconds=1), at=0.5)
    run.until(1.2)
    assert run.running("full") == 8
    assert run.running("idle") == 5
    run.end()


def test_a_preemptor_is_pending_with_reason_waiting_for_victims() -> None:
    run = Run(setup=[HIGH], grace=2.0)
    run.submit(job("low", 8, minimum=1, seconds=30))
    run.submit(job("high", 2, priority="high", seconds=1), at=1.0)
    run.until(2.0)
    assert run.reason("high") == "WaitingForVictims"
    assert run.running("high") == 0
    run.until(3.7)
    assert run.running("high") == 2


@pytest.mark.parametrize("seed", first_of(range(8), 2))
def test_with_a_network_that_loses_messages_no_promise_breaks(seed: int) -> None:
    network = Network(
        call=0.002,
        ledger=0.003,
        cluster=0.004,
        request_lost=0.02,
        answer_lost=0.04,
        echo=0.03,
    )
    run = Run(
        nodes=4,
        seed=seed,
        mode=list(Mode)[seed % 3],
        network=network,
        setup=[HIGH, priority_class("mid", 10), queue("red"), queue("blue")],
    )
    for number in range(6):
        name = ("red", "blue")[number % 2]
        run.submit(job(f"low{number}", 4, minimum=1, seconds=2, queue=name), at=number * 0.1)
    for number in range(5):
        name, rank = ("red", "blue")[number % 2], ("high", "mid")[number % 2]
        at = 0.8 + number * 0.2
        run.submit(job(f"top{number}", 2, priority=rank, queue=name, seconds=0.5), at=at)
    run.submit(job("idle", 3, cpu=""), at=1.0)
    report = run.end()
    assert run.evicted > 0
    assert report.summary.tasks_failed == 0


def test_jobs_are_admitted_up_to_the_limit_of_their_queue() -> None:
    """Both say what they need at least; together it is more than the cluster has."""
    run = Run()
    for name in ("first", "second"):
        run.submit(*group(name, 6, needs={"cpu": "6"}, seconds=2), at=0.1)
    run.until(1.5)
    assert run.running("first") == 6
    assert (run.running("second"), run.reason("second")) == (0, "WaitingForQuota")
    report = run.end()
    assert report.summary.tasks_finished == 12


def test_a_shuffle_clears_nodes_whose_hours_are_over() -> None:
    """The run begins at 00:16:40; the zone closes at 00:17."""
    policy = parse_policy(
        {
            "actions": "allocate, backfill, shuffle",
            "tiers": [
                {"plugins": [{"name": "priority"}, {"name": "gang"}]},
                {
                    "plugins": [
                        {
                            "name": "tdm",
                            "arguments": {
                                "tdm.revocable-zone.rz1": "0:10-0:17",
                                "tdm.evict.period": "5s",
                                "tdm.evict.max-num": "10",
                            },
                        },
                        {"name": "predicates"},
                        {"name": "proportion"},
                    ]
                },
            ],
        }
    )
    run = Run(nodes=1, shards=1, policy=policy)
    mine = named_node(7)
    mine["metadata"]["labels"]["volcano.sh/revocable-zone"] = "rz1"
    run.submit(mine, job("full", 4, seconds=90))
    marks = {"volcano.sh/revocable-zone": "*", "volcano.sh/preemptable": "true"}
    run.submit(*group("guest", 2, needs={}, seconds=90, annotations=marks), at=0.5)
    run.until(15)
    assert run.running("guest") == 2
    assert run.evicted == 0
    run.until(45)
    assert run.evicted == 2
    assert run.running("guest") == 0
