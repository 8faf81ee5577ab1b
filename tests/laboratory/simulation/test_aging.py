"""A job that is first for too long gets nodes kept for it: no stream of small jobs starves it."""

from __future__ import annotations

import pytest

from coordinator.intake.documents.document import Key
from shard_worker.view.mode import Mode
from tests.examples import first_of
from tests.laboratory.simulation.contending import Run, job
from tests.shard_worker.turns.sessions import with_actions

SECONDS = 7.0
"""Duration of the stream."""


def stream(bound: float, *, mode: Mode = Mode.SOFT, wide: tuple[int, str] = (8, "1")) -> Run:
    """Two nodes of 4 cores, and always more small jobs than they can take."""
    run = Run(mode=mode, shards=1 if mode is Mode.HARD else 2, policy=with_actions("allocate"))
    run.sim.core.order.aging.bound = bound
    for number in range(int(SECONDS * 10)):
        run.submit(job(f"small{number}", 1, seconds=1.0), at=number * 0.1)
    tasks, cpu = wide
    run.submit(job("wide", tasks, cpu=cpu, seconds=1.0), at=1.0)
    return run


@pytest.mark.all
@pytest.mark.parametrize("wide", [(8, "1"), (1, "4")], ids=["wide gang", "large task"])
def test_without_a_bound_a_stream_starves_it(wide: tuple[int, str]) -> None:
    run = stream(0.0, wide=wide)
    run.until(SECONDS)
    assert run.running("wide") == 0
    assert run.reason("wide")


@pytest.mark.parametrize(
    ("mode", "wide"),
    first_of(
        [
            (Mode.SOFT, (8, "1")),
            (Mode.SOFT, (1, "4")),
            (Mode.NONE, (8, "1")),
            (Mode.HARD, (8, "1")),
        ],
        2,
    ),
)
def test_with_a_bound_it_is_bound_in_time(mode: Mode, wide: tuple[int, str]) -> None:
    run = stream(2.0, mode=mode, wide=wide)
    run.until(6.5)  # it came at 1, was first for 2, and what ran there took 1 at most
    assert run.sim.core.order.aging.kept == 1
    assert all(state for state in run.state("wide"))
    assert run.sim.core.order.aging.jid == -1
    run.end()


def test_the_nodes_are_everybodys_again_when_the_job_goes() -> None:
    run = stream(1.0, wide=(8, "1"))
    run.sim.delete(Key("Job", "ns", "wide"), at=3.0)
    run.until(2.95)
    assert run.sim.core.order.aging.rows == [0, 1]
    run.until(4.5)
    aging = run.sim.core.order.aging
    assert (aging.jid, aging.rows, aging.changes()) == (-1, [], {})
    assert sum(run.running(f"small{n}") for n in range(30)) > 4
