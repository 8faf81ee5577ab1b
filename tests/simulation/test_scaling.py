"""What sharding costs on virtual time: the command, and the bound on how far shares drift apart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.cluster.local import LocalCluster
from coordinator.commands.failure import CommandError
from coordinator.core import Coordinator
from coordinator.dispatch import Dispatcher
from coordinator.order import Order
from coordinator.simulation.run import Simulation
from coordinator.simulation.scaling import Backlog, Run, compare, run_backlog
from coordinator.simulation.timeline import CALM
from coordinator.trace import Trace
from coordinator.workloads import Shape, job_items, node_items, queue_items
from shard_worker.session import open_session
from shard_worker.task_class import Mode
from shared.policy import DEFAULT_POLICY

SHAPE = Shape(nodes=8, units=4)


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
    backlog = Backlog(trace(50), SHAPE, 1000.0, Mode.SOFT, DEFAULT_POLICY)
    first = run_backlog(backlog, shards=4, seed=1)
    assert first == run_backlog(backlog, shards=4, seed=1)
    assert first != run_backlog(backlog, shards=4, seed=2)
    assert first.started == backlog.trace.tasks
    assert 0.8 < first.used < 1.0


def test_medians_are_held_against_the_first_number_of_shards() -> None:
    runs = [
        Run(shards, seed, used, 1.0, 1)
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
    asked = ["scaling", str(file), *cluster, "--processes", "1"]
    told = CliRunner().invoke(app, [*asked, "-o", "json"])
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout.splitlines()[-1])
    assert [row["shards"] for row in found["compared"]] == [1, 2]
    assert all(run["started"] == 79 for run in found["runs"])
    assert "AGAINST THE FIRST" in CliRunner().invoke(app, asked).stdout


@pytest.mark.parametrize(
    ("more", "told"),
    [(["--shards", "1,x"], "is not a list"), (["--nodes", "1"], "give more --nodes")],
)
def test_a_mistake_is_told(tmp_path: Path, more: list[str], told: str) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text("submit,duration,gpus,queue\n0,1,99,q\n")
    found = CliRunner().invoke(app, ["scaling", str(file), *more])
    assert isinstance(found.exception, CommandError)
    assert told in str(found.exception)


# --- the share gap of two equal queues ----------------------------------------------------------


@pytest.mark.parametrize(("shards", "window"), [(1, 1), (4, 4), (8, 6)])
def test_equal_queues_drift_apart_by_no_more_than_the_open_turns(shards: int, window: int) -> None:
    """With W turns open no queue is given more than another one that waits, by W largest jobs.

    What ends makes a gap too; but then it is the smaller queue that is given next. Jobs are alike:
    one that has to wait for room leaves its queue's share to others, whatever W is."""
    backlog = trace(jobs=120, queues=2, widths=(2,))
    order: list[Order] = []

    def core() -> Coordinator:
        order.append(Order(open_session(DEFAULT_POLICY), window=window))
        return Coordinator(order[-1], Dispatcher(shards, turns_per_call=2), mode="soft")

    simulation = Simulation(
        core,
        session=lambda: open_session(DEFAULT_POLICY),
        kubelets=LocalCluster(speedup=1000.0, grace=0.0),
        mode=Mode.SOFT,
        seed=3,
        network=CALM,
    )
    simulation.submit([*node_items(SHAPE), *queue_items(backlog)])
    simulation.submit(list(job_items(backlog, resource=SHAPE.resource)), at=0.2)
    before = (0, 0)
    gaps: list[int] = []

    def look() -> None:
        nonlocal before
        held = _both_wait(order[-1])
        if held is None:
            return
        for mine, other in ((0, 1), (1, 0)):
            if held[mine] > before[mine]:
                gaps.append(held[mine] - held[other])
        before = held

    simulation.run(inspect=look, until=simulation.timeline.now + 60.0)
    assert simulation.over
    assert len(gaps) > 20
    assert max(gaps) <= window * int(backlog.width.max())


def _both_wait(order: Order) -> tuple[int, int] | None:
    """GPUs of the two queues, None where one of them has nothing that waits."""
    infos: list[Any] = [q for q in order.accounts.cluster.queues.values() if q.jobs]
    if len(infos) != 2:
        return None
    slot = 3  # the first resource after cpu, memory and pods
    held = [info.allocated.get(slot, 0) // 1000 for info in infos]
    wanted = [info.requested.get(slot, 0) // 1000 for info in infos]
    if any(wants - has <= 0 for wants, has in zip(wanted, held, strict=True)):
        return None
    return held[0], held[1]
