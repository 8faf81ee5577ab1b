"""The measures of a played week, by the field's names. :data:`MEASURES` defines each in a sentence;
``docs/laboratory.md`` shows the same sentences.

Amounts are GPUs, or cores where a week asks for no GPU. Time runs from the first submission to the
end of the last job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from laboratory.lab.play import Played
from laboratory.lab.steps.node_steps import fragmented_nodes, fragments, largest_gang
from laboratory.lab.steps.occupancy import Occupancy, capacity, run_amounts
from laboratory.lab.week import Week

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SHORTEST = 10.0
"""Seconds: a shorter duration counts as this one where a ratio is divided by it."""
SIZES = ((1, "0-1"), (7, "2-7"), (8, "8"), (63, "9-63"))
"""Largest GPUs of a job -> its size class."""
LARGEST = "64+"
"""The class of all larger ones."""

Values = dict[str, float]


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure. Its values' names begin with ``name``: ``wait.p99{queue=prod}``."""

    name: str
    definition: str
    values: Callable[[Played], Values]
    better: int = -1
    """-1: lower is better; 1: higher; 0: neither."""
    unit: str = ""
    """s, or "" for numbers and ratios."""


def measured(played: Played) -> Values:
    """All measures by name."""
    values: Values = {}
    for measure in MEASURES:
        values |= measure.values(played)
    return values


def measure_of(name: str) -> Measure:
    """The measure that a value belongs to. Raises KeyError."""
    return BY_NAME[name.partition("{")[0].partition(".")[0]]


WAIT_PERCENTS = (50, 90, 99)


def size_class(size: float) -> str:
    return next((name for most, name in SIZES if size <= most), LARGEST)


def amounts(week: Week) -> Floats:
    """GPUs of each job, or cores in a week without GPUs."""
    return week.size.astype(np.float64) if week.has_gpus else week.cores


# --- times --------------------------------------------------------------------------------------


def _makespan(played: Played) -> Values:
    return {"makespan": float(played.end.max())}


def _jct(played: Played) -> Values:
    return {
        "jct.mean": float(played.jct.mean()),
        "jct.p50": _percentile(played.jct, 50),
        "jct.p99": _percentile(played.jct, 99),
    }


def bounded_slowdown(played: Played) -> Floats:
    alone = np.maximum(played.week.duration, SHORTEST)
    return np.maximum(1.0, played.jct / alone)


def _slowdown(played: Played) -> Values:
    slowdown = bounded_slowdown(played)
    return {
        "bounded_slowdown.mean": float(slowdown.mean()),
        "bounded_slowdown.p99": _percentile(slowdown, 99),
    }


def _wait(played: Played) -> Values:
    wait = played.wait
    values = {"wait.mean": float(wait.mean())}
    groups = {"": np.ones(len(wait), dtype=bool)} | _labels(played.week)
    for label, members in groups.items():
        for percent in WAIT_PERCENTS:
            values[f"wait.p{percent}{label}"] = _percentile(wait[members], percent)
    return values


def labelled_names(week: Week) -> list[str]:
    """The names of the values by queue and by size, which depend on the week."""
    return [f"wait.p{percent}{label}" for label in _labels(week) for percent in WAIT_PERCENTS]


def _labels(week: Week) -> dict[str, NDArray[np.bool_]]:
    """The jobs of each queue and of each size."""
    classes = [size_class(size) for size in amounts(week).tolist()]
    return _groups("queue", week.queue) | _groups("size", classes)


def _groups(what: str, keys: Sequence[str]) -> dict[str, NDArray[np.bool_]]:
    column = np.asarray(keys)
    return {f"{{{what}={key}}}": column == key for key in sorted(set(column.tolist()))}


def _percentile(values: Floats, percent: float) -> float:
    return float(np.percentile(values, percent))


# --- the cluster --------------------------------------------------------------------------------


def _allocation(played: Played) -> Values:
    steps = Occupancy.of(played)
    waiting = steps.share_while_waiting(played)
    return {"gar.p50": steps.share.at_least(0.5), "gar.waiting": waiting}


def _occupancy(played: Played) -> Values:
    return {"sor": Occupancy.of(played).share.mean()}


def _fragmentation(played: Played) -> Values:
    return {"gfr": fragmented_nodes(played)}


def _fragment_amount(played: Played) -> Values:
    expected, free = (steps.mean() for steps in fragments(played))
    return {
        "fgd.amount": expected / capacity(played),
        "fgd.ratio": expected / free if free else 0.0,
    }


def _largest_gang(played: Played) -> Values:
    steps = largest_gang(played)
    return {"largest_gang.mean": steps.mean(), "largest_gang.p10": steps.at_least(0.9)}


def _training_time(played: Played) -> Values:
    ratio = node_ratio(played)
    wide = played.week.pods + (played.week.rest > 0) > 1
    if not wide.any():
        return {"jtted.mean": 1.0, "jtted.p99": 1.0}
    return {"jtted.mean": float(ratio[wide].mean()), "jtted.p99": _percentile(ratio[wide], 99)}


def node_ratio(played: Played) -> Floats:
    """Nodes of each job / fewest nodes that could hold its GPUs (or cores)."""
    largest = float((played.cluster.gpus if played.week.has_gpus else played.cluster.cpu).max())
    fewest = np.maximum(1.0, np.ceil(amounts(played.week) / largest))
    return node_counts(played) / fewest


def node_counts(played: Played) -> NDArray[np.int64]:
    """Different nodes of each job, of its runs that were not evicted."""
    runs = played.runs
    completed = ~runs.evicted
    pairs = np.unique(np.stack([runs.job[completed], runs.node[completed]], axis=1), axis=0)
    return np.bincount(pairs[:, 0], minlength=len(played.week))


# --- fairness -----------------------------------------------------------------------------------


def _jain(played: Played) -> Values:
    speed = 1.0 / bounded_slowdown(played)
    groups = _groups("queue", played.week.queue)
    means = np.array([speed[members].mean() for members in groups.values()])
    return {"jain": float(means.sum() ** 2 / (len(means) * (means**2).sum()))}


def _finish_time(played: Played) -> Values:
    return {"finish_time_fairness.worst": float(finish_time_ratio(played).max())}


def finish_time_ratio(played: Played) -> Floats:
    """Each job's completion time / its time on an equal share of the cluster."""
    asked = amounts(played.week)
    moments = np.concatenate([played.submit, played.end])
    order = np.argsort(moments, kind="stable")
    times, change = moments[order], np.concatenate([asked, -asked])[order]
    demand = np.cumsum(change)
    area = np.concatenate([[0.0], np.cumsum(demand[:-1] * np.diff(times))])

    asked_for = np.interp(played.end, times, area) - np.interp(played.submit, times, area)
    lived = np.maximum(played.jct, 1e-9)
    contention = np.maximum(1.0, asked_for / lived / capacity(played))
    ratio: Floats = played.jct / (np.maximum(played.week.duration, SHORTEST) * contention)
    return ratio


# --- work and shards ----------------------------------------------------------------------------


def _goodput(played: Played) -> Values:
    runs, amount = played.runs, run_amounts(played)
    work = (runs.end - runs.start) * amount
    total = float(work.sum())
    lost = float(work[runs.evicted].sum())
    return {"goodput.lost": lost / total if total else 0.0}


def _evictions(played: Played) -> Values:
    return {"evictions": float(played.evictions.sum())}


def _cross_shard(played: Played) -> Values:
    placed = sum(played.levels.values())
    other = played.levels["L2"] + played.levels["L4"]
    return {"cross_shard": other / placed if placed else 0.0}


def _conflicts(played: Played) -> Values:
    return {"conflicts": float(played.statements["conflicts_true"])}


def _retries(played: Played) -> Values:
    refused = ("conflicts_true", "conflicts_read")
    return {"retries": float(sum(played.statements[kind] for kind in refused))}


MEASURES = (
    Measure(
        "makespan",
        "Seconds from the first submission to the end of the last job.",
        _makespan,
        unit="s",
    ),
    Measure(
        "jct",
        "Job completion time: seconds from a job's submission to the end of its last pod; mean, "
        "median and 99th percentile over jobs.",
        _jct,
        unit="s",
    ),
    Measure(
        "bounded_slowdown",
        "Completion time / max(duration, 10 s), at least 1; mean and 99th percentile over jobs.",
        _slowdown,
    ),
    Measure(
        "wait",
        "Seconds from a job's submission until all of its pods run for the first time; mean, and "
        "percentiles over all jobs, those of a queue, and those of a size in GPUs. The percentiles "
        "by size are Kant's job waiting time distribution (JWTD).",
        _wait,
        unit="s",
    ),
    Measure(
        "gar",
        "GPU allocation ratio: GPUs of running pods / GPUs of the cluster at one moment. `gar.p50` "
        "is the ratio that holds or is exceeded half of the time, `gar.waiting` the mean over the "
        "time in which at least one job waits (1 if none ever does).",
        _allocation,
        better=1,
    ),
    Measure(
        "sor",
        "Scheduling occupancy rate: GPU-seconds of running pods / (GPUs of the cluster x "
        "makespan).",
        _occupancy,
        better=1,
    ),
    Measure(
        "gfr",
        "GPU node fragmentation ratio: share of the nodes with GPUs on which some GPUs are in use "
        "and some are free, mean over the time.",
        _fragmentation,
    ),
    Measure(
        "fgd",
        "FGD's fragmentation: a free GPU is a fragment for a pod that asks for no GPU, or for more "
        "GPUs or cores than are free on its node (the GPUs of a node are not told apart: a part of "
        "a GPU fits where so much is free on them together). `fgd.amount` is the number of "
        "fragments expected for a pod drawn from the week / GPUs of the cluster, mean over the "
        "time; `fgd.ratio` the same / free GPUs.",
        _fragment_amount,
    ),
    Measure(
        "largest_gang",
        "GPUs of the largest gang that would fit beside the running pods, each of its pods having "
        "as many GPUs as the largest pod of the week: mean over the time, and the size (p10) that "
        "fits in 90% of the time.",
        _largest_gang,
        better=1,
    ),
    Measure(
        "jtted",
        "Job training time estimation distribution: nodes of a job / fewest nodes that could hold "
        "its GPUs, mean and 99th percentile over jobs of several pods. 1 is as compact as "
        "possible. Kant divides groups of nodes in the network in the same way; a week here has no "
        "network.",
        _training_time,
    ),
    Measure(
        "jain",
        "Jain's index (sum x)^2 / (n x sum x^2) over queues, x being the mean of 1 / bounded "
        "slowdown of a queue's jobs: 1 if all queues are slowed down alike, 1/n if one is served.",
        _jain,
        better=1,
    ),
    Measure(
        "finish_time_fairness",
        "Worst ratio, over jobs, of the completion time to max(duration, 10 s) x contention: "
        "contention is the mean, while the job is in the system, of the GPUs that all jobs in it "
        "ask for / GPUs of the cluster, at least 1. Above 1 a job would have been better off with "
        "an equal share.",
        _finish_time,
    ),
    Measure(
        "goodput",
        "Share of the GPU-seconds of all pods that evictions threw away: a pod begins again.",
        _goodput,
    ),
    Measure("evictions", "Number of pods that were evicted.", _evictions),
    Measure(
        "cross_shard",
        "Share of the placements that a worker made on a node of another shard.",
        _cross_shard,
        better=0,
    ),
    Measure(
        "conflicts",
        "Statements that the ledger refused because another worker had taken the room.",
        _conflicts,
    ),
    Measure(
        "retries",
        "Statements that the ledger refused for any reason, so that a worker planned anew.",
        _retries,
    ),
)
BY_NAME = {measure.name.partition(".")[0]: measure for measure in MEASURES}
