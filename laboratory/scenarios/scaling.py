"""Cost of sharding in quality: the same backlog on virtual time, cut into more and more shards.

Every job is there from the start, so that the figure is about packing and order alone: GPU-seconds
used / (GPUs x time until the last task started). Real coordinator, workers and scripts of the
ledger run it; the seed delays every message. Durations are those of the trace by ``speedup``, which
is what makes a message cost something: at 1000 a delay of 3 ms stands for 3 s of a job.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coordinator.cluster.events import ClusterEvent
from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.dispatcher import Dispatcher
from coordinator.order.order import Order
from laboratory.history.utilisation import busy
from laboratory.simulation.history import Notes
from laboratory.simulation.policy_file import SeededPolicies
from laboratory.simulation.run import Simulation
from laboratory.simulation.virtual_time import CALM
from laboratory.workloads.generators import (
    ClusterShape,
    job_items,
    node_items,
    queue_items,
)
from laboratory.workloads.trace import Trace
from shard_worker.dialects.open_session import open_session
from shard_worker.view.mode import Mode
from shared.policy.model import Policy

WINDOW = 16
"""Open turns at a time over all shards."""
SLICE = 1.0
"""Virtual seconds between reports of progress."""
IDLE_SLICES = 60
"""Maximum number of slices in which nothing runs and nothing starts."""
STARTED, ENDED = "start", ("succeeded", "failed")


@dataclass(frozen=True, slots=True)
class ScalingBacklog:
    """The backlog to run."""

    trace: Trace
    shape: ClusterShape
    speedup: float
    mode: Mode
    policy: Policy
    window: int = WINDOW


@dataclass(frozen=True, slots=True)
class ScalingRun:
    """The result of one seed with one number of shards."""

    shards: int
    seed: int
    used: float
    """GPU-seconds used / (GPUs x time to the last start), 0 to 1."""
    seconds: float
    """Virtual seconds from the first to the last start."""
    started: int
    """Number of tasks."""


@dataclass(frozen=True, slots=True)
class ShardComparison:
    """The runs with one number of shards, compared with those of the first number."""

    shards: int
    median: float
    low: float
    high: float
    against: float
    """median / median of the first - 1; negative is worse."""


class UnfitBacklog(ValueError):
    """A backlog whose runs cannot be compared. The message is complete, with the remedy."""


class _Starts(Notes):
    """Records only when tasks started and ended."""

    reads_ledger = False

    def __init__(self) -> None:
        super().__init__()
        self.started: list[float] = []
        self.ended: list[float] = []

    def cluster_events(self, events: list[ClusterEvent]) -> None:
        for event in events:
            if event.kind == STARTED:
                self.started += [event.t] * len(event.tasks)
            elif event.kind in ENDED:
                self.ended += [event.t] * len(event.tasks)


def run_backlog(
    backlog: ScalingBacklog,
    *,
    shards: int,
    seed: int,
    step: Callable[[float], None] = lambda _: None,
) -> ScalingRun:
    """Run one seed to the end. ``step`` is called with the fraction of tasks that have started.

    Raises UnfitBacklog.
    """
    starts = _Starts()

    def core() -> Coordinator:
        order = Order(
            open_session(backlog.policy), window=backlog.window, walls=backlog.mode is Mode.HARD
        )
        return Coordinator(order, Dispatcher(shards), mode=backlog.mode.value)

    simulation = Simulation(
        core,
        policies=SeededPolicies(backlog.policy),
        kubelets=LocalCluster(speedup=backlog.speedup, grace=0.0),
        mode=backlog.mode,
        seed=seed,
        network=CALM,
        notes=starts,
        audits=False,
    )
    trace, shape = backlog.trace, backlog.shape
    simulation.submit([*node_items(shape), *queue_items(trace)])
    simulation.submit(list(job_items(trace, resource=shape.resource)), at=0.5)
    until, idle = simulation.timeline.now, 0
    while len(starts.started) < trace.tasks and not simulation.over and idle < IDLE_SLICES:
        until += SLICE
        before = len(starts.started)
        simulation.run(until=until)
        step(len(starts.started) / trace.tasks)
        idle = 0 if len(starts.started) > min(before, len(starts.ended)) else idle + 1
    if len(starts.started) < trace.tasks:
        raise UnfitBacklog(
            f"{len(starts.started):,} of {trace.tasks:,} tasks started, and nothing more happens: "
            "the policy has to place Jobs of Volcano's queues"
        )
    first, last = min(starts.started), max(starts.started)
    share = busy(
        occupied=starts.started, freed=starts.ended, start=first, end=last, capacity=shape.capacity
    )
    if share.share <= 0:
        raise UnfitBacklog(
            f"all {trace.tasks:,} tasks start before any has used a GPU for a while, so that there "
            "is nothing to compare; give more jobs, fewer --nodes or a lower --speedup"
        )
    return ScalingRun(shards, seed, share.share, last - first, len(starts.started))


def compare(runs: Sequence[ScalingRun]) -> list[ShardComparison]:
    """Medians over the seeds, in the order in which numbers of shards first appear."""
    compared: list[ShardComparison] = []
    for shards in dict.fromkeys(run.shards for run in runs):
        used = [run.used for run in runs if run.shards == shards]
        median = statistics.median(used)
        base = compared[0].median if compared else median
        compared.append(ShardComparison(shards, median, min(used), max(used), median / base - 1))
    return compared
