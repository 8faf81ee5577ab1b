"""Several runs side by side: their progress."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from laboratory.lab.cluster import Cluster
from laboratory.lab.experiment import Experiment, play_all
from laboratory.lab.play import RunSettings, fitted
from laboratory.lab.policies import NamedPolicy
from laboratory.lab.week import Week, WeekSource


def test_progress_counts_parts_of_runs() -> None:
    jobs = 60
    week = Week.of(
        submit=np.arange(jobs) * 500.0, duration=np.full(jobs, 500.0), gpus=np.full(jobs, 4)
    )
    cluster = Cluster.equal(2, gpus=4)
    experiment = Experiment(
        week=fitted(week, cluster),
        source=WeekSource(),
        cluster=cluster,
        policies=(NamedPolicy(),),
        shards=(1,),
        seeds=(1, 2),
        settings=RunSettings(),
    )
    reports: list[float] = []
    runs = play_all(experiment, processes=1, progress=reports.append)
    assert [run.seed for run in runs] == [1, 2]
    assert reports[-1] == 2
    assert all(before <= after for before, after in pairwise(reports))
    assert any(0 < count < 1 for count in reports)
    assert any(1 < count < 2 for count in reports)
