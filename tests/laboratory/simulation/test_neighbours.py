"""Jobs whose places depend on one another, or on the network, over several shards."""

from __future__ import annotations

from collections import Counter

import pytest

from shared.policy.dialect import parse_policy
from tests.builders.objects import Item, hyper_node, queue
from tests.laboratory.simulation.contending import HOSTNAME, Run, job

POLICY = parse_policy(
    {
        "actions": "enqueue, allocate, backfill, preempt",
        "tiers": [
            {"plugins": [{"name": name} for name in ("priority", "gang", "conformance")]},
            {
                "plugins": [
                    {"name": name}
                    for name in ("predicates", "proportion", "nodeorder", "network-topology-aware")
                ]
            },
        ],
    }
)


def racks() -> list[Item]:
    return [
        hyper_node("rack-0", "n0", "n1", "n2"),
        hyper_node("rack-1", "n3", "n4", "n5"),
    ]


def test_a_topology_job_lands_in_one_domain() -> None:
    run = Run(nodes=6, setup=racks(), policy=POLICY)
    run.submit(job("wide", 5, seconds=9), at=0.1)
    near: Item = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
    run.submit(job("near", 6, seconds=3, **near), at=0.5)
    run.until(1.5)
    rows = run.rows("near")
    assert len(rows) == 6
    assert {row // 3 for row in rows} in ({0}, {1})
    run.end()


def test_a_domain_that_is_too_small_is_none() -> None:
    run = Run(nodes=6, setup=racks(), policy=POLICY)
    near: Item = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
    run.submit(job("near", 13, seconds=3, **near), at=0.5)
    run.until(2.0)
    assert run.running("near") == 0


@pytest.mark.parametrize("seed", range(3))
def test_members_that_keep_apart_do_so_across_shards(seed: int) -> None:
    apart: Item = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOSTNAME}
            ]
        }
    }
    run = Run(nodes=6, shards=3, seed=seed, policy=POLICY)
    for number in range(3):
        web = job(f"web{number}", 2, seconds=4, minimum=1, labels={"app": "web"}, affinity=apart)
        run.submit(web, at=0.2)
    # Not bound by a rule of its own, but by that of the others.
    run.submit(job("plain", 1, seconds=4, labels={"app": "web"}), at=0.3)
    run.until(2.0)
    there = Counter(row for n in range(3) for row in run.rows(f"web{n}"))
    there.update(run.rows("plain"))
    assert len(there) == 6
    assert max(there.values()) == 1
    run.end()


def test_unusable_shares_go_to_gangs_of_queues_above_their_share() -> None:
    """As for flat jobs: with each of two queues deserving half, neither gang would ever start."""
    run = Run(nodes=4, setup=[queue("red"), queue("blue")], policy=POLICY)
    soft: Item = {"networkTopology": {"mode": "soft"}}
    names = ("red", "blue")
    run.submit(*(job(f"wide-{n}", 13, seconds=1, queue=n, **soft) for n in names), at=0.1)
    assert run.end().summary.tasks_finished == 26
