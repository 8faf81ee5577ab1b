"""Kueue's baseline on virtual time: until when, how soon, and how much in use."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from laboratory.lab.cluster import Cluster
from laboratory.lab.play import Played, RunSettings, play
from laboratory.lab.policies import NamedPolicy
from laboratory.lab.week import WeekError
from laboratory.papers.kueue.generator import Generated, class_of
from laboratory.papers.paper import PaperError, PaperRun
from laboratory.scenarios.worker_processes import worker_processes

FOLDER = "kueue_perf"
SEEDS = (1,)
DATA = "https://github.com/kubernetes-sigs/kueue/tree/main/test/performance/scheduler/configs"
CASE = "baseline"
COHORTS = 1
"""Cohorts that are played: all of the configuration are alike, and none lends to another."""
POLICY = """
actions: "allocate, preempt, reclaim"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: capacity
    enableHierarchy: true
  - name: predicates
"""
TIME, USE = "time s", "use %"


def measure(run: PaperRun) -> dict[tuple[str, str], float]:
    """Raises :class:`PaperError`."""
    figures: dict[str, list[float]] = {}
    file = file_of(run.data, CASE)
    with worker_processes(run.processes) as pool:
        futures = [pool.submit(play_configuration, file, seed) for seed in run.seeds]
        for number, future in enumerate(futures, start=1):
            for measure, value in future.result().items():
                figures.setdefault(measure, []).append(value)
            run.progress(number / len(futures))
    return {(CASE, name): round(float(np.mean(values)), 2) for name, values in figures.items()}


def file_of(data: Path, name: str) -> Path:
    return data / FOLDER / f"{name}.generator.yaml"


def play_configuration(
    file: Path, seed: int, *, cohorts: int = COHORTS, jobs_of_hundred: int = 100
) -> dict[str, float]:
    """Measure -> figure of one run. Raises :class:`PaperError`."""
    generated = Generated.read(file, cohorts=cohorts, jobs_of_hundred=jobs_of_hundred)
    # One node with all cores: in Kueue's test only quotas bound what runs.
    cluster = Cluster.equal(1, gpus=0, cpu=generated.quota)
    settings = RunSettings(seed=seed, speedup=1.0)
    policy = NamedPolicy("kueue", POLICY).parse()
    try:
        played = play(generated.week, cluster, policy, settings, queues=generated.queues)
    except WeekError as error:
        raise PaperError(f"{file}: {error}") from None
    return figures(played, generated.quota)


def figures(played: Played, quota: float) -> dict[str, float]:
    """As Kueue's recorder defines them. Admission is a job's last one, after all evictions."""
    runs, week = played.runs, played.week
    admitted = np.zeros(len(week))
    np.maximum.at(admitted, runs.job, runs.start)
    waits: dict[str, list[float]] = {}
    for name, wait in zip(week.name, (admitted - played.submit).tolist(), strict=True):
        waits.setdefault(class_of(name), []).append(wait)
    whole = float(played.end.max())
    used = float(((runs.end - runs.start) * week.cpu[runs.job]).sum())
    return {
        TIME: whole,
        USE: 100 * used / (quota * whole),
        **{f"{name} s": float(np.mean(times)) for name, times in waits.items()},
    }
