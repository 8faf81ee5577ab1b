"""Searches that several workers do together end as those of one worker, whatever happens to who
helps."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random

import pytest

from coordinator.dispatch.dispatcher import Dispatcher, ShardState
from coordinator.dispatch.shared_searches import HelpResult
from laboratory.checker.check import check_lines
from laboratory.simulation.virtual_time import CALM, Event, Network, Timeline
from laboratory.workloads.drawn_kai import kai_group
from shard_worker.worker.help import HelpAnswer, HelpRequest
from shard_worker.worker.server import ShardServer
from shared.messages.messages import TaskState, Turn
from shared.policy.dialect import parse_policy
from tests.examples import examples
from tests.laboratory.checker.rich_kai import gpu_node, pod, queue
from tests.laboratory.simulation.contending import Item, Run
from tests.laboratory.simulation.test_searches_at_once import single

POLICY = parse_policy({"dialect": "kai"})
NODES = 6
GPUS = 4 * NODES
SEARCHED = 6.0
"""When the gang is submitted: every GPU is held, or every node by half."""
END = 14.0


def gang(name: str, queue: str, members: int, priority: str, *, seconds: str = "500") -> list[Item]:
    """A gang of pods that take a node each."""
    spec = {"queue": queue, "minMember": members, "priorityClassName": priority}
    pods = [pod(f"{name}-{at}", group=name, seconds=seconds) for at in range(members)]
    for member in pods:
        member["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "4"
    return [kai_group(name, spec), *pods]


def cluster(action: str, shards: int, network: Network = CALM, seed: int = 1) -> Run:
    """Nodes full of small jobs, and a gang of five pods that take a whole node each: the first
    generator comes to four of them. For a consolidation every node is held by half."""
    moves = action == "consolidation"
    queues = [
        queue("top", "", quota=-1, limit=-1),
        queue("rich", "top", quota=0, limit=-1),
        queue("poor", "top", quota=GPUS, limit=-1),
    ]
    policy = parse_policy({"dialect": "kai", "actions": f"allocate, {action}"})
    nodes = list(map(gpu_node, range(2 * NODES if moves else NODES)))
    setup = [*nodes, *queues]
    run = Run(nodes=0, shards=shards, seed=seed, policy=policy, network=network, setup=setup)
    for at in range(2 * GPUS if moves else GPUS):
        # The second half of each node's ends before the search.
        seconds = SEARCHED - 1 - at / 100 if moves and at % 2 else 500
        made = single(f"low-{at}", "rich", "train", seconds=seconds)
        run.submit(*made, at=at / 100)
    leaf, priority = ("rich", "build-preemptible") if action == "preempt" else ("poor", "train")
    run.submit(*gang("wide", leaf, 5, priority), at=SEARCHED)
    return run


@dataclass
class Ended:
    """What is there after the search."""

    placed: dict[str, list[int]]
    """Job -> the nodes of its tasks that run."""
    evicted: int
    results: Counter[HelpResult]


def ended(run: Run) -> Ended:
    run.until(END)
    core = run.sim.core
    core.validate()
    states = [s for s in core.order.jobs.values() if s.states.count(TaskState.RUNNING)]
    placed = {state.job.name: list(state.rows) for state in states}
    report = check_lines(run.notes.lines, name="run", closed=False)
    assert not report.violations, report.violations
    return Ended(placed, run.evicted, core.searches.results)


def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on nobody helps anybody."""
    monkeypatch.setattr(Dispatcher, "exceeds_a_node", lambda self, need: False)


ACTIONS = {"reclaim": 20, "preempt": 20, "consolidation": 0}
"""Action -> small jobs that go for the gang."""


@pytest.mark.parametrize("shards", [1, 2, 4])
@pytest.mark.parametrize("action", ["reclaim", "preempt", "consolidation"])
def test_with_help_it_ends_as_alone(
    action: str, shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    helped = ended(cluster(action, shards))
    assert len(helped.placed["wide"]) == 5
    committed = {HelpResult.COMMITTED: 1} if shards > 1 else {}
    assert helped.results == committed
    alone(monkeypatch)
    by_one = ended(cluster(action, shards))
    assert not by_one.results
    assert helped.placed == by_one.placed
    assert helped.evicted == by_one.evicted


def test_whose_helper_is_killed_before_it_commits_is_searched_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = cluster("reclaim", 2)
    results = run.sim.core.searches.results
    now = SEARCHED
    while not results[HelpResult.COMMITTED]:  # the turn goes to it now
        now += 0.001
        run.until(now)
        assert now < END
    core = run.sim.core
    [shard] = [
        s.shard for s in core.dispatcher.shards.values() if any(t.prepared for t in turns_of(s))
    ]
    run.sim.shards.kill(shard)
    after = ended(run)
    assert core.tally.workers_lost == 1
    assert len(after.placed["wide"]) == 5
    assert after.evicted == ACTIONS["reclaim"]


def turns_of(state: ShardState) -> list[Turn]:
    return [*state.waiting, *(turn for call in state.calls.values() for turn in call)]


@pytest.mark.parametrize("message", ["help", "help answered"])
def test_whose_help_is_lost_is_searched_for_alone(
    message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[str] = []
    send = Timeline.send

    def lossy(self: Timeline, mean: float, event: Event, what: str = "") -> None:
        if what == message:
            lost.append(what)
        else:
            send(self, mean, event, what)

    monkeypatch.setattr(Timeline, "send", lossy)
    helped = ended(cluster("reclaim", 2))
    assert lost
    assert helped.results == {HelpResult.FAILED: len(lost)}
    alone(monkeypatch)
    by_one = ended(cluster("reclaim", 2))
    assert (helped.placed, helped.evicted) == (by_one.placed, by_one.evicted)


def contended(seed: int) -> Counter[HelpResult]:
    """Gangs that take back what is theirs, while workers die and messages are lost. Everything
    comes to its end, and no promise is broken."""
    draw = Random(seed)
    queues = [queue("rich", "", quota=draw.choice([0, 4]), limit=-1)]
    queues.append(queue("poor", "", quota=GPUS, limit=-1))
    network, nodes = Network(request_lost=0.05), map(gpu_node, range(NODES))
    run = Run(nodes=0, shards=3, seed=seed, policy=POLICY, network=network, setup=[*nodes, *queues])
    for at in range(GPUS):
        run.submit(*single(f"low-{at}", "rich", "train", seconds=15), at=at / 50)
    for at in range(2):
        members = draw.choice([5, 5, 6])
        made = gang(f"wide{at}", "poor", members, "train", seconds="3")
        run.submit(*made, at=SEARCHED + at * draw.uniform(0.0, 4.0))
    now = SEARCHED
    for _ in range(4):
        now += draw.uniform(0.0, 0.03)
        run.until(now)
        run.sim.shards.kill(draw.randrange(3))
        now += draw.choice([0.0, 1.0])
    run.end()
    return run.sim.core.searches.results


@pytest.mark.parametrize("first", range(0, examples(15, least=5), 5))
def test_helpers_die_and_nothing_is_lost(first: int) -> None:
    results: Counter[HelpResult] = Counter()
    for seed in range(first, first + 5):
        results += contended(seed)
    assert results[HelpResult.COMMITTED]
    assert results[HelpResult.FAILED]


def test_a_seed_shares_its_searches_the_same_way_again() -> None:
    assert contended(2) == contended(2)


def test_whose_helper_is_stopped_is_searched_for_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks at the clock before each scenario, and leaves nothing on its view."""
    stopped: list[int] = []
    do_help = ShardServer.help

    async def stop(self: ShardServer, request: HelpRequest) -> HelpAnswer:
        self.stop_help(request.number)
        stopped.append(request.number)
        return await do_help(self, request)

    monkeypatch.setattr(ShardServer, "help", stop)
    helped = ended(cluster("reclaim", 2))
    assert stopped
    assert helped.results == {HelpResult.FAILED: len(stopped)}
    alone(monkeypatch)
    by_one = ended(cluster("reclaim", 2))
    assert (helped.placed, helped.evicted) == (by_one.placed, by_one.evicted)
