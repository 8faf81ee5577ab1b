"""Random queues of KAI that take from each other, on virtual time with three workers: the checker
finds nobody who lost more than its queue had beyond its quota, or too early."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from laboratory.checker.check import check_lines
from laboratory.checker.report.rules import Rule
from laboratory.simulation.virtual_time import Network
from laboratory.workloads.drawn_kai import kai_group
from shard_worker.dialects.kai.plugins import min_runtime, reclaiming
from shared.policy.dialect import parse_policy
from tests.builders.objects import Item
from tests.examples import examples
from tests.laboratory.checker.rich_kai import gpu_node, pod, queue
from tests.laboratory.simulation.contending import Run

POLICY = parse_policy({"dialect": "kai"})
NETWORK = Network()
NODES = 4
LEAVES = ("red", "blue", "green", "grey")
TIMES = ("", "", "1s", "4s")


def queues(draw: Random) -> list[Item]:
    """Two branches, a leaf in each, and two leaves of their own."""
    items = [queue("top", "", quota=draw.randint(2, 12), limit=-1)]
    for name in LEAVES:
        times = {field: draw.choice(TIMES) for field in ("preemptMinRuntime", "reclaimMinRuntime")}
        items.append(
            queue(
                name,
                draw.choice(["", "top"]),
                quota=draw.randint(0, 10),
                limit=draw.choice([-1, -1, 8]),
                **{field: time for field, time in times.items() if time},
            )
        )
    return items


def gang(draw: Random, name: str) -> list[Item]:
    members = draw.choice([1, 1, 2, 3, 4])
    spec: Item = {"queue": draw.choice(LEAVES), "minMember": draw.randint(1, members)}
    spec["priorityClassName"] = draw.choice(["train", "build-preemptible"])
    seconds = str(draw.choice([2, 6, 15]))
    pods = [pod(f"{name}-{at}", group=name, seconds=seconds) for at in range(members)]
    return [kai_group(name, spec), *pods]


def random_run(seed: int) -> Run:
    draw = Random(seed)
    run = Run(
        nodes=0,
        shards=3,
        seed=seed,
        policy=POLICY,
        network=NETWORK,
        setup=[*map(gpu_node, range(NODES)), *queues(draw)],
    )
    for at in range(draw.randint(8, 16)):
        run.submit(*gang(draw, f"g{at}"), at=draw.uniform(0.0, 8.0))
    return run


@pytest.mark.parametrize("first", range(0, examples(40, least=5), 5))
def test_queues_keep_their_share_from_reclaims(first: int) -> None:
    evicted: Counter[str] = Counter()
    for seed in range(first, first + 5):
        run = random_run(seed)
        run.end()
        evicted += run.sim.core.tally.evicted
    assert evicted["reclaim"], evicted


# --- that the checker would find it ---------------------------------------------------------------


def rules_broken(*seeds: int) -> set[str]:
    """The rules that the checker finds broken in these runs, which may come to no end."""
    result = set[str]()
    for seed in seeds:
        run = random_run(seed)
        run.until(40.0)
        result |= {v.rule for v in check_lines(run.notes.lines, name="planted").violations}
    return result


@pytest.mark.all
def test_a_reclaim_without_its_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("is_reclaimable", "may_lose", "may_cost"):
        monkeypatch.setattr(reclaiming, name, lambda *_, **__: True)
    assert Rule.RECLAIMED_SHARE.label in rules_broken(1, 8)


@pytest.mark.all
def test_a_job_that_nobody_protects_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(min_runtime, "is_protected", lambda *_, **__: False)
    assert Rule.MIN_RUNTIME.label in rules_broken(1, 2, 8)
