"""Searches in several trees of queues at the same moment end as they do one after the other."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random

import pytest

from coordinator.order import starvation
from laboratory.simulation.virtual_time import CALM
from laboratory.workloads.drawn_kai import kai_group
from shared.messages.messages import TaskState
from shared.policy.dialect import parse_policy
from tests.builders.objects import Item
from tests.laboratory.checker.rich_kai import gpu_node, pod, queue
from tests.laboratory.simulation.contending import Run

pytestmark = pytest.mark.all

TREES = 3
NODES = 6
GPUS = 4 * NODES
FILLED = 20.0
"""Seconds after which every GPU is held."""
END = 45.0


@dataclass
class SearchesResult:
    """State after all searches."""

    running: list[str]
    """The jobs that run."""
    most: int
    """The most searches that were open at the same moment."""
    actions: set[str]
    """Actions by which searches were open."""


def single(
    name: str, queue: str, priority: str, *, gpus: int = 1, seconds: float = 500
) -> list[Item]:
    """A job of one pod."""
    spec = {"queue": queue, "minMember": 1, "priorityClassName": priority}
    member = pod(f"{name}-0", group=name, seconds=f"{seconds:g}")
    member["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = str(gpus)
    return [kai_group(name, spec), member]


def ended(seed: int, shards: int, action: str) -> SearchesResult:
    """In each tree as many GPUs are held as are its own. Then jobs preempt others of their leaves;
    beside them some of a starved leaf reclaim from the other one of their tree, or one needs two
    GPUs of one node, of two that are free on two nodes and that only its tree may use."""
    draw, own = Random(seed), GPUS // TREES
    starved = 2 if "reclaim" in action else 0
    queues = [
        item
        for tree in range(TREES)
        for item in (
            queue(f"top{tree}", "", quota=own, limit=own),
            queue(f"leaf{tree}", f"top{tree}", quota=own - starved, limit=-1),
            queue(f"poor{tree}", f"top{tree}", quota=starved, limit=-1),
        )
    ]
    nodes = list(map(gpu_node, range(NODES)))
    policy = parse_policy({"dialect": "kai", "actions": f"allocate, {action}"})
    run = Run(nodes=0, shards=shards, policy=policy, network=CALM, setup=[*nodes, *queues])
    trees = [tree for tree in range(TREES) for _ in range(own)]
    ends = {1, 5} if "consolidation" in action else ()
    for at, tree in enumerate(trees):  # the last goes first
        seconds = FILLED - 2 - at / 10 if at in ends else 500
        run.submit(*single(f"low-{at}", f"leaf{tree}", "train", seconds=seconds), at=at / 10)
    first = 1 if ends else 0
    for at in range(8):
        leaf = f"leaf{draw.randrange(first, TREES)}"
        run.submit(*single(f"high-{at}", leaf, "build-preemptible"), at=FILLED)
    for at in range(4 if "reclaim" in action else 0):
        run.submit(*single(f"starved-{at}", f"poor{at % TREES}", "train"), at=FILLED)
    if ends:
        run.submit(*single("wide", "leaf0", "train", gpus=2), at=FILLED - 0.01)
    result, now = SearchesResult([], 0, set()), FILLED - 0.01
    while now < END:
        now += 0.01 if now < FILLED + 2 else 1.0
        run.until(now)
        out = run.sim.core.order.contention.out
        result.most = max(result.most, len(out))
        result.actions |= set(out.values())
    states = run.sim.core.order.jobs.values()
    result.running = sorted(s.job.name for s in states if s.states.count(TaskState.RUNNING))
    run.sim.core.validate()
    return result


WANTED = {
    "preempt": {"high": 8, "low": GPUS - 8},
    "preempt, reclaim": {"high": 8, "starved": 4, "low": GPUS - 12},
    "consolidation, preempt": {"high": 8, "wide": 1, "low": GPUS - 10},
}
"""Actions -> how many jobs of each kind run in the end: nobody is evicted in vain."""


@pytest.mark.parametrize(
    ("seed", "action", "shards"),
    [
        (0, "preempt", 1),
        (1, "preempt", 4),
        (0, "preempt, reclaim", 1),
        (0, "preempt, reclaim", 2),
        (0, "consolidation, preempt", 2),
        (0, "consolidation, preempt", 4),
    ],
)
def test_searches_at_once_end_as_one_after_the_other(
    seed: int, action: str, shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = ended(seed, shards, action)
    assert at_once.most > 1, "several searches are open at the same moment"
    assert at_once.actions == set(action.split(", "))
    assert Counter(name.partition("-")[0] for name in at_once.running) == WANTED[action]
    monkeypatch.setattr(starvation, "OPEN", 1)
    alone = ended(seed, shards, action)
    assert alone.most == 1
    assert at_once.running == alone.running
