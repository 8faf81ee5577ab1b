"""One week under one policy on virtual time, with the service's own coordinator, workers and
ledger scripts.

A second of virtual time stands for ``speedup`` seconds of the week. Messages are as much faster, so
that one of 3 ms takes 3 ms of the week; the service's own timers (leases, retries) are not: a retry
after one second comes ``speedup`` seconds of the week later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.dispatcher import Dispatcher
from coordinator.intake.intake import Intake
from coordinator.order.order import Order
from laboratory.lab.cluster import Cluster
from laboratory.lab.objects import Item, jobs, queue_names, setup
from laboratory.lab.pod_record import PodRecord, PodRuns
from laboratory.lab.policies import named
from laboratory.lab.waits.forecasts import Forecasts, ForecastWatch, sampled_rows
from laboratory.lab.waits.wait_watch import LOOK_SECONDS, WaitWatch
from laboratory.lab.waits.week_receipts import JobTimes, week_receipts
from laboratory.lab.week import SHARE, Week, WeekError, is_share
from laboratory.simulation.intervals import FAULTLESS
from laboratory.simulation.policy_file import SeededPolicies
from laboratory.simulation.run import Simulation
from laboratory.simulation.virtual_time import CALM, Network
from shard_worker.dialects.open_session import open_session
from shard_worker.view.mode import Mode
from shared.codec.packed import replace
from shared.policy.model import Dialect, Policy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SPEEDUP = 1000.0
WINDOW = 16
"""Open turns at a time over all shards."""
FIRST_ARRIVAL = 1.0
"""Virtual seconds until the first job, when all nodes are known and all workers are up."""
SLICE = 1.0
"""Virtual seconds between reports of progress."""
IDLE_SLICES = 60
"""Maximum number of slices in which nothing runs, starts or arrives."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """All that a run depends on beside the week, the cluster and the policy."""

    shards: int = 1
    seed: int = 1
    mode: str = Mode.SOFT.value
    speedup: float = SPEEDUP
    backlog: bool = False
    """Whether all jobs are there from the start."""
    window: int = WINDOW
    receipts: bool = False
    """Whether what each job waited for is recorded."""
    forecast: bool = False
    """Whether estimates of the wait are recorded, to compare them with what happened."""


@dataclass(frozen=True, slots=True)
class Played:
    """The result of one run. Columns of jobs run parallel to the week's."""

    week: Week
    """As it was played: cut for the cluster, without the jobs that have no room on it."""
    cluster: Cluster
    settings: RunSettings
    submit: Floats
    """Seconds after the first submission, as are all times."""
    start: Floats
    """When all pods of the job first ran."""
    end: Floats
    """When its last pod ended; NaN if the job never did."""
    evictions: NDArray[np.int64]
    """Runs of its pods that were evicted."""
    runs: PodRuns
    statements: dict[str, int]
    """Statements by their verdict: committed, rechecked, conflicts_true, conflicts_read."""
    levels: dict[str, int]
    """Placements by the gradient's level: L2 and L4 are on nodes of other shards."""
    receipts: tuple[dict[str, Any], ...] = ()
    """The receipt of each job, if they were recorded; see ``quadrant receipt``."""
    forecasts: Forecasts | None = None
    """Estimates of the wait, if they were recorded."""

    @property
    def wait(self) -> Floats:
        return self.start - self.submit

    @property
    def jct(self) -> Floats:
        """Job completion time: from submission to the end."""
        return self.end - self.submit

    @property
    def run_time(self) -> Floats:
        return self.end - self.start


def fitted(week: Week, cluster: Cluster, *policies: Policy) -> Week:
    """The week cut for a cluster, without the jobs that never fit it, and without those that ask
    for a part of a GPU unless all policies are KAI's. Raises :class:`WeekError` if none is left."""
    if any(policy.dialect is not Dialect.KAI for policy in policies):
        week = week.without(is_share(week.gpus), f"{SHARE}, which takes a policy of KAI's")
    cut = week.cut(int(cluster.gpus.max(initial=0)))
    left = cut.without(cluster.without_room(cut), "no room on the empty cluster")
    if not len(left):
        raise WeekError(
            f"{week.source}: none of its jobs fits the cluster of {len(cluster)} nodes; give more "
            "or larger nodes"
        )
    return left


def run(
    week: Week,
    cluster: Cluster,
    *,
    policy: Policy | Path | str | None = None,
    step: Callable[[float], None] = lambda _: None,
    **settings: Any,
) -> Played:
    """Play a week on a cluster under a policy, given as such or by its file; None: the default.

    ``settings``: those of :class:`RunSettings` by name. ``step`` is called with the fraction of the
    jobs that have ended. Raises :class:`WeekError`.
    """
    chosen = _policy(policy)
    return play(fitted(week, cluster, chosen), cluster, chosen, RunSettings(**settings), step)


def _policy(policy: Policy | Path | str | None) -> Policy:
    if isinstance(policy, Policy):
        return policy
    return named(policy).parse()


def play(
    week: Week,
    cluster: Cluster,
    policy: Policy,
    settings: RunSettings,
    step: Callable[[float], None] = lambda _: None,
    *,
    queues: Sequence[Item] = (),
) -> Played:
    """Play a fitted week to its end. ``queues``: objects in place of equal queues, each with a name
    that the week has, or a parent of those. Raises :class:`WeekError` if some jobs never start, or
    the service refuses a node or a priority."""
    submit = np.zeros(len(week)) if settings.backlog else week.submit
    record = PodRecord(list(cluster.name))
    simulation = _simulation(policy, settings, record)
    watch = forecasts = None
    looks: list[Callable[[float], None]] = []
    if settings.receipts:
        watch = WaitWatch(simulation.core, lambda: simulation.incarnation.registry)
        looks.append(watch.look)
    if settings.forecast:
        forecasts = ForecastWatch(
            simulation.core, record.submitted, sampled_rows(len(week)), settings.speedup
        )
        looks.append(forecasts.look)
    objects = setup(week, cluster, policy.dialect, queues)
    _check_objects(objects, policy.dialect)
    simulation.submit(objects)
    names = queue_names(week)
    for moment, rows in groupby(range(len(week)), key=lambda row: float(submit[row])):
        items = jobs(week, list(rows), names)
        simulation.submit(items, at=FIRST_ARRIVAL + moment / settings.speedup)
    origin = simulation.timeline.now + FIRST_ARRIVAL
    last = origin + float(submit[-1]) / settings.speedup
    pods = int((week.pods + (week.rest > 0)).sum())
    until, idle = simulation.timeline.now, 0
    while not simulation.over and idle < IDLE_SLICES:
        until += SLICE
        before = record.started
        if looks:
            _run_and_look(simulation, looks, until, every=LOOK_SECONDS / settings.speedup)
        else:
            simulation.run(until=until)
        step(min(1.0, record.ended / pods))
        still = record.started == before == record.ended and until > last
        idle = idle + 1 if still else 0
    core = simulation.core
    numbered = {jid: state.job.name for jid, state in core.order.jobs.items()}
    runs = record.runs(numbered, origin=origin, speedup=settings.speedup)
    status = core.status()
    played = played_week(week, cluster, settings, submit=submit, runs=runs, status=status)
    if forecasts is not None:
        given = forecasts.compared(origin=origin, submit=submit, start=played.start)
        played = replace(played, forecasts=given)
    if watch is None:
        return played
    times = JobTimes(submit, played.start, played.end, played.evictions)
    receipts = week_receipts(week, times, core, watch, origin=origin, speedup=settings.speedup)
    return replace(played, receipts=tuple(receipts))


def _run_and_look(
    simulation: Simulation, looks: Sequence[Callable[[float], None]], until: float, *, every: float
) -> None:
    """Run on, and look at waiting jobs after each ``every`` virtual seconds."""
    at = until - SLICE
    while at < until and not simulation.over:
        at = min(until, at + every)
        simulation.run(until=at)
        for look in looks:
            look(at)


def _check_objects(objects: list[Item], dialect: Dialect) -> None:
    if refused := Intake(dialect=dialect).admit(objects, 0.0).refused:
        raise WeekError(
            f"the service refuses {len(refused):,} of the nodes, queues and priorities; the "
            f"first: {refused[0]}"
        )


def _simulation(policy: Policy, settings: RunSettings, record: PodRecord) -> Simulation:
    mode, speedup = Mode(settings.mode), settings.speedup

    def core() -> Coordinator:
        order = Order(open_session(policy), window=settings.window, walls=mode is Mode.HARD)
        return Coordinator(order, Dispatcher(settings.shards), mode=mode.value)

    network: Network = replace(
        CALM,
        call=CALM.call / speedup,
        ledger=CALM.ledger / speedup,
        cluster=CALM.cluster / speedup,
    )
    return Simulation(
        core,
        policies=SeededPolicies(policy),
        kubelets=LocalCluster(speedup=speedup, grace=0.0),
        mode=mode,
        seed=settings.seed,
        network=network,
        notes=record,
        intervals=FAULTLESS,
        audits=False,  # a proof of the ledger's scripts, which a tenth of the time would go to
    )


def played_week(
    week: Week,
    cluster: Cluster,
    settings: RunSettings,
    *,
    submit: Floats,
    runs: PodRuns,
    status: dict[str, Any],
) -> Played:
    """The result of the runs of all pods. Raises :class:`WeekError` if jobs are missing."""
    count = week.pods + (week.rest > 0)
    start, end = np.full(len(week), -np.inf), np.full(len(week), -np.inf)
    first = _first_runs(runs)
    np.maximum.at(start, runs.job[first], runs.start[first])
    done = np.flatnonzero(~runs.evicted & ~np.isnan(runs.end))
    np.maximum.at(end, runs.job[done], runs.end[done])
    started = np.bincount(runs.job[first], minlength=len(week)) == count
    ended = np.bincount(runs.job[done], minlength=len(week)) == count
    if not ended.all():
        names = [week.name[row] for row in np.flatnonzero(~ended)[:3]]
        raise WeekError(
            f"{week.source}: {int(started.sum()):,} of {len(week):,} jobs started and "
            f"{int(ended.sum()):,} ended, and nothing more happens; waiting are {', '.join(names)} "
            "and perhaps more. The policy has to place them: look whether its queues or plugins "
            "keep jobs of this size out"
        )
    return Played(
        week=week,
        cluster=cluster,
        settings=settings,
        submit=submit,
        start=start,
        end=end,
        evictions=np.bincount(runs.job[runs.evicted], minlength=len(week)),
        runs=runs,
        statements=dict(status["statements"]),
        levels=dict(status["levels"]),
    )


def _first_runs(runs: PodRuns) -> NDArray[np.intp]:
    """The first run of each pod; runs are in the order of their starts."""
    pods = np.stack([runs.job, runs.pod], axis=1)
    return np.unique(pods, axis=0, return_index=True)[1]
