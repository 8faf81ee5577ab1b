"""Cost of sharding on virtual time: the command, and the bound on how far shares drift apart."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from coordinator.cli.options.failure import CommandError
from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.dispatcher import Dispatcher
from coordinator.order.order import Order
from laboratory.cli.app import app
from laboratory.scenarios.scaling import (
    ScalingBacklog,
    ScalingRun,
    UnfitBacklog,
    compare,
    run_backlog,
)
from laboratory.simulation.policy_file import SeededPolicies
from laboratory.simulation.run import Simulation
from laboratory.simulation.virtual_time import CALM, Network
from laboratory.workloads.generators import (
    ClusterShape,
    job_items,
    node_items,
    queue_items,
)
from laboratory.workloads.trace import Trace
from shard_worker.dialects.open_session import open_session
from shard_worker.view.mode import Mode
from shared.messages.messages import Turn
from shared.policy.dialect import parse_policy
from shared.policy.volcano import DEFAULT_POLICY
from tests.examples import examples, first_of

SHAPE = ClusterShape(nodes=8, units=4)


def trace(jobs: int, queues: int = 1, widths: Sequence[int] = (1, 1, 2, 4)) -> Trace:
    random = np.random.default_rng(1)
    return Trace(
        submit=np.zeros(jobs),
        duration=random.uniform(500, 1500, jobs),
        width=random.choice(widths, jobs),
        queue=np.arange(jobs) % queues,
        queues=tuple(f"q{i}" for i in range(queues)),
    )


def test_a_run_follows_from_its_seed_and_fills_the_cluster() -> None:
    backlog = ScalingBacklog(trace(50), SHAPE, 1000.0, Mode.SOFT, DEFAULT_POLICY)
    first = run_backlog(backlog, shards=4, seed=1)
    assert first == run_backlog(backlog, shards=4, seed=1)
    assert first != run_backlog(backlog, shards=4, seed=2)
    assert first.started == backlog.trace.tasks
    assert 0.8 < first.used < 1.0


def test_medians_are_held_against_the_first_number_of_shards() -> None:
    runs = [
        ScalingRun(shards, seed, used, 1.0, 1)
        for shards, shares in ((1, (0.8, 0.9, 0.7)), (4, (0.6, 0.6, 0.9)))
        for seed, used in enumerate(shares)
    ]
    one, four = compare(runs)
    assert (one.median, one.low, one.high, one.against) == (0.8, 0.7, 0.9, 0.0)
    assert four.against == pytest.approx(-0.25)


def test_the_command_tells_it_to_people_and_to_scripts(tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    rows = "\n".join(f"{i},{100 + i},{1 + i % 3},q" for i in range(40))
    file.write_text(f"submit,duration,gpus,queue\n{rows}\n")
    cluster = ["--nodes", "4", "--gpus-per-node", "4", "--shards", "1,2", "--seeds", "1"]
    arguments = ["scaling", str(file), *cluster, "--processes", "1"]
    result = CliRunner().invoke(app, [*arguments, "-o", "json"])
    assert result.exit_code == 0, result.output
    body = json.loads(result.stdout.splitlines()[-1])
    assert [row["shards"] for row in body["compared"]] == [1, 2]
    assert all(run["started"] == 79 for run in body["runs"])
    assert "AGAINST THE FIRST" in CliRunner().invoke(app, arguments).stdout


@pytest.mark.parametrize(
    ("more", "message"),
    [(["--shards", "1,x"], "is not a list"), (["--nodes", "1"], "give more --nodes")],
)
def test_a_mistake_is_told(tmp_path: Path, more: list[str], message: str) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text("submit,duration,gpus,queue\n0,1,99,q\n")
    result = CliRunner().invoke(app, ["scaling", str(file), *more])
    assert isinstance(result.exception, CommandError)
    assert message in str(result.exception)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["0,0,1"], "nothing to compare; give more jobs"),
        (["0,3600000,1"], "durations look like milliseconds: median 3,600,000"),
        (["-1e308,1,1", "1e308,1,1"], "submit 1e+308 s is too large"),
        (["0,1,1", "0,,1"], "1 of 2 rows are left out (1 with no duration)"),
    ],
)
def test_a_trace_whose_runs_cannot_be_compared_is_refused(
    tmp_path: Path, rows: list[str], message: str
) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text("\n".join(["submit,duration,gpus", *rows]))
    arguments = ["scaling", str(file), "--shards", "1", "--seeds", "1", "--processes", "1"]
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, CommandError), result.exception
    assert message in str(result.exception)


def test_a_policy_that_places_none_of_the_jobs_ends_the_run() -> None:
    policy = parse_policy({"dialect": "kai"})
    backlog = ScalingBacklog(trace(2), SHAPE, 1000.0, Mode.SOFT, policy)
    with pytest.raises(UnfitBacklog, match="nothing more happens"):
        run_backlog(backlog, shards=1, seed=1)


# --- the share gap of two equal queues ----------------------------------------------------------


@pytest.mark.parametrize("seed", range(1, 1 + examples(4, least=1)))
@pytest.mark.parametrize(("shards", "window"), first_of([(4, 4), (1, 1), (8, 6)]))
def test_equal_queues_drift_apart_by_no_more_than_the_open_turns(
    shards: int, window: int, seed: int
) -> None:
    """A queue gets the next turn while it has at most W - 1 largest jobs more than another one that
    waits, the turns that are open counted in: it is never given more by W of them.

    Looked at where it is decided: until the tasks are placed jobs of the other queue may end. Jobs
    are alike: one that has to wait for room leaves its queue's share to others, whatever W is."""
    backlog = trace(jobs=120, queues=2, widths=(2,))
    gaps: list[int] = []

    class WatchedOrder(Order):
        def next_turn(self) -> Turn | None:
            held = _both_wait(self)
            turn = super().next_turn()
            if turn is not None and held is not None:
                gaps.append(held[turn.qid] - min(held.values()))
            return turn

    def core() -> Coordinator:
        order = WatchedOrder(open_session(DEFAULT_POLICY), window=window)
        return Coordinator(order, Dispatcher(shards, turns_per_call=2), mode="soft")

    simulation = Simulation(
        core,
        policies=SeededPolicies(DEFAULT_POLICY),
        kubelets=LocalCluster(speedup=1000.0, grace=0.0),
        mode=Mode.SOFT,
        seed=seed,
        network=CALM,
    )
    simulation.submit([*node_items(SHAPE), *queue_items(backlog)])
    simulation.submit(list(job_items(backlog, resource=SHAPE.resource)), at=0.2)
    simulation.run(until=simulation.timeline.now + 60.0)
    assert simulation.over
    assert len(gaps) > 20
    assert max(gaps) <= (window - 1) * int(backlog.width.max())


def test_a_calm_run_has_no_worker_of_another_version() -> None:
    """Whatever its seed: one of 6 mod 11 has a rolling upgrade where faults are simulated."""
    assert _started_at_once(Network())["worker of another version"] > 0
    assert _started_at_once(CALM)["worker of another version"] == 0


def _started_at_once(network: Network) -> Counter[str]:
    """The faults of a run in which eight workers start."""
    simulation = Simulation(
        lambda: Coordinator(Order(open_session(DEFAULT_POLICY)), Dispatcher(8), mode="soft"),
        policies=SeededPolicies(DEFAULT_POLICY),
        kubelets=LocalCluster(),
        mode=Mode.SOFT,
        seed=6,
        network=network,
    )
    simulation.submit([*node_items(SHAPE)])
    simulation.run(until=simulation.timeline.now + 1.0)
    return simulation.timeline.struck


def _both_wait(order: Order) -> dict[int, int] | None:
    """GPUs of the two queues, by number; None where one of them has nothing that waits."""
    infos: dict[int, Any] = {q: i for q, i in order.accounts.cluster.queues.items() if i.jobs}
    if len(infos) != 2:
        return None
    slot = 3  # the first resource after cpu, memory and pods
    held = {q: info.allocated.get(slot, 0) // 1000 for q, info in infos.items()}
    expected = {q: info.requested.get(slot, 0) // 1000 for q, info in infos.items()}
    if any(expected[q] - held[q] <= 0 for q in infos):
        return None
    return held
