"""The files of an experiment: ``jobs.csv`` with every job, ``summary.json`` with the rest."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import asdict, astuple
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from laboratory.lab.cluster import Cluster
from laboratory.lab.comparison import VariantComparison
from laboratory.lab.experiment import Experiment, SeedRun, of_variant
from laboratory.lab.measures import amounts, bounded_slowdown, measured
from laboratory.lab.play import Played, RunSettings, fitted
from laboratory.lab.policies import NamedPolicy
from laboratory.lab.steps.node_steps import largest_gang
from laboratory.lab.steps.occupancy import Occupancy, waiting_jobs
from laboratory.lab.waits.forecast_accuracy import forecast_accuracy
from laboratory.lab.week import WeekError, WeekSource

FORMAT = 1
"""Version of ``summary.json``."""
POINTS = 60
"""Parts of the time in a series."""
JOB_COLUMNS = (
    *("policy", "shards", "seed", "job", "queue", "user", "priority", "gpus", "pods", "submit"),
    *("start", "end", "wait", "run_time", "duration", "slowdown", "nodes", "evictions"),
)


FORECAST_COLUMNS = (
    *("policy", "shards", "seed", "job", "gpus", "waited", "p50", "p90", "alike", "remaining"),
)


def write_jobs(path: Path, runs: Sequence[SeedRun]) -> None:
    """Write a row for each job of each run; times in seconds after the first submission. May raise
    OSError."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(JOB_COLUMNS)
        for run in runs:
            writer.writerows(_rows(run))


def write_receipts(path: Path, runs: Sequence[SeedRun]) -> None:
    """Write a line of JSON for each job of each run. May raise OSError."""
    with path.open("w") as file:
        for run in runs:
            head = {**asdict(run.variant), "seed": run.seed}
            for job in run.played.receipts:
                file.write(json.dumps(head | job, separators=(",", ":")) + "\n")


def write_forecasts(path: Path, runs: Sequence[SeedRun]) -> None:
    """Write a row for each question about a waiting job; times in seconds. May raise OSError."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FORECAST_COLUMNS)
        for run in runs:
            if (given := run.played.forecasts) is None:
                continue
            week, size = run.played.week, amounts(run.played.week).tolist()
            times = (given.waited, given.p50, given.p90, given.remaining)
            columns = (given.job, *times, given.alike)
            for row, waited, p50, p90, left, alike in zip(
                *(column.tolist() for column in columns), strict=True
            ):
                estimate = (f"{p50:.1f}", f"{p90:.1f}") if alike else ("", "")
                head = (*astuple(run.variant), run.seed, week.name[row], f"{size[row]:g}")
                writer.writerow((*head, f"{waited:.3f}", *estimate, alike, f"{left:.3f}"))


def _rows(run: SeedRun) -> list[list[Any]]:
    played, week = run.played, run.played.week
    times = (played.submit, played.start, played.end, played.wait, played.run_time, week.duration)
    seconds = [[f"{value:.3f}" for value in column.tolist()] for column in times]
    slowdown, nodes = bounded_slowdown(played).tolist(), _node_sets(played)
    size, pods = amounts(week).tolist(), (week.pods + (week.rest > 0)).tolist()
    head = [run.variant.policy, run.variant.shards, run.seed]
    return [
        [
            *head,
            *(week.name[row], week.queue[row], week.user[row], int(week.priority[row])),
            *(f"{size[row]:g}", pods[row], *(column[row] for column in seconds)),
            *(f"{slowdown[row]:.4f}", nodes[row], int(played.evictions[row])),
        ]
        for row in range(len(week))
    ]


def _node_sets(played: Played) -> list[str]:
    """Names of the nodes on which each job ran to its end, separated by spaces."""
    sets: list[list[str]] = [[] for _ in range(len(played.week))]
    completed = np.flatnonzero(~played.runs.evicted)
    ran = np.stack([played.runs.job[completed], played.runs.node[completed]], axis=1)
    pairs = np.unique(ran, axis=0)
    for job, node in pairs.tolist():
        sets[job].append(played.cluster.name[node])
    return [" ".join(names) for names in sets]


# --- summary --------------------------------------------------------------------------------------


def summary(
    experiment: Experiment, runs: Sequence[SeedRun], compared: Sequence[VariantComparison]
) -> dict[str, Any]:
    """All that the results depend on, and the results."""
    week, cluster = experiment.week, experiment.cluster
    settings = asdict(experiment.settings)
    body = {
        "format": FORMAT,
        "quadrant": version("quadrant"),
        "week": {
            "file": week.source,
            "source": asdict(experiment.source),
            "digest": week.digest(),
            "jobs": len(week),
            "pods": int((week.pods + (week.rest > 0)).sum()),
            "rows": week.rows,
            "dropped": dict(week.dropped),
        },
        "cluster": {
            "digest": cluster.digest(),
            "nodes": list(cluster.name),
            "gpus": cluster.gpus.tolist(),
            "cpu": cluster.cpu.tolist(),
            "memory": cluster.memory.tolist(),
            "model": list(cluster.model),
        },
        "settings": {
            **{name: settings[name] for name in ("mode", "speedup", "backlog", "window")},
            "shards": list(experiment.shards),
            "seeds": list(experiment.seeds),
        },
        "policies": [asdict(policy) for policy in experiment.policies],
        "runs": [
            {**asdict(run.variant), "seed": run.seed, "measures": measured(run.played)}
            for run in runs
        ],
        "compared": [comparison.as_json() for comparison in compared],
        "series": [_series(of_variant(runs, variant)[0]) for variant in experiment.variants],
    }
    if experiment.settings.forecast:
        body["forecast"] = [_forecast(of_variant(runs, one)) for one in experiment.variants]
    return body


def _forecast(runs: Sequence[SeedRun]) -> dict[str, Any]:
    """The accuracy of the estimates of all seeds of one variant."""
    groups = forecast_accuracy([run.played for run in runs])
    return {**asdict(runs[0].variant), "groups": [asdict(group) for group in groups]}


def _series(run: SeedRun) -> dict[str, Any]:
    """The allocation ratio, the waiting jobs and the largest gang that fits, over time."""
    times, shares = Occupancy.of(run.played).share.series(POINTS)
    _, waiting = waiting_jobs(run.played, POINTS)
    return {
        **asdict(run.variant),
        "seed": run.seed,
        "time": times.tolist(),
        "gar": shares.tolist(),
        "waiting": waiting.tolist(),
        "largest_gang": largest_gang(run.played).series(POINTS)[1].tolist(),
    }


def write_summary(path: Path, body: dict[str, Any]) -> None:
    """May raise OSError."""
    path.write_text(json.dumps(body, indent=1) + "\n")


def repeat(path: Path, file: Path) -> Experiment:
    """The experiment of a summary, over the same week. Raises :class:`WeekError` if the file has
    another week, or the summary is none."""
    try:
        body = json.loads(path.read_text())
        if body["format"] != FORMAT:
            raise WeekError(f"{path}: has format {body['format']}, this version reads {FORMAT}")
        recorded, settings, nodes = body["week"], dict(body["settings"]), body["cluster"]
        shards, seeds = tuple(settings.pop("shards")), tuple(settings.pop("seeds"))
        source = WeekSource(**recorded["source"] | {"nulls": tuple(recorded["source"]["nulls"])})
        cluster = Cluster(
            name=nodes["nodes"],
            gpus=np.array(nodes["gpus"], dtype=np.int64),
            cpu=np.array(nodes["cpu"], dtype=np.float64),
            memory=np.array(nodes["memory"], dtype=np.float64),
            model=nodes["model"],
        )
        policies = tuple(NamedPolicy(**policy) for policy in body["policies"])
        common = RunSettings(**settings)
        digest, jobs = str(recorded["digest"]), int(recorded["jobs"])
    except OSError as error:
        raise WeekError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise WeekError(
            f"{path}: is no summary of quadrant lab ({type(error).__name__}: {error}); give the "
            "summary.json of a run"
        ) from None
    week = fitted(source.read(file), cluster, *(policy.parse() for policy in policies))
    if week.digest() != digest:
        raise WeekError(
            f"{file}: has {len(week):,} jobs and digest {week.digest()[:12]}, but {path} was made "
            f"of {recorded['file']} with {jobs:,} and {digest[:12]}; give that file"
        )
    return Experiment(week, source, cluster, policies, shards, seeds, common)
