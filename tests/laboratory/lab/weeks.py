"""Small weeks, and results worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

from laboratory.cli.app import app
from laboratory.lab.cluster import Cluster
from laboratory.lab.play import Played, RunSettings, played_week
from laboratory.lab.pod_record import PodRuns
from laboratory.lab.week import Week


def lab(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, ["lab", *map(str, arguments)])


def by_hand() -> Played:
    """Three jobs on two nodes of 4 GPUs, in 100 s:

    - ``a`` (queue prod): one pod of 4 GPUs, 0 to 40 on node 0;
    - ``b`` (queue dev): two pods of 2 GPUs, submitted at 0; 0 to 20 both on node 1,
      evicted at 20, and again 40 to 80, one on each node;
    - ``c`` (queue dev): one pod of 4 GPUs, submitted at 10, 80 to 100 on node 0.
    """
    week = Week.of(
        name=["a", "b", "c"],
        submit=[0, 0, 10],
        duration=[40, 40, 20],
        gpus=[4, 2, 4],
        pods=[1, 2, 1],
        queue=["prod", "dev", "dev"],
    )
    runs = PodRuns(
        job=np.array([0, 1, 1, 1, 1, 2]),
        pod=np.array([0, 0, 1, 0, 1, 0]),
        node=np.array([0, 1, 1, 0, 1, 0]),
        start=np.array([0.0, 0, 0, 40, 40, 80]),
        end=np.array([40.0, 20, 20, 80, 80, 100]),
        evicted=np.array([False, True, True, False, False, False]),
    )
    status = {
        "statements": {"committed": 4, "rechecked": 0, "conflicts_true": 1, "conflicts_read": 2},
        "levels": {"L1": 4, "L2": 1, "L3": 1, "L4": 0},
    }
    cluster = Cluster.equal(2, gpus=4)
    return played_week(week, cluster, RunSettings(), submit=week.submit, runs=runs, status=status)


def small() -> tuple[Week, Cluster]:
    """Twelve jobs of all sizes that compete for two nodes of 4 GPUs."""
    week = Week.of(
        name=[f"job {i}" for i in range(12)],
        submit=np.arange(12) * 100.0,
        duration=[600.0, 300, 900] * 4,
        gpus=[1, 2, 4, 8, 1, 1] * 2,
        queue=["prod", "dev"] * 6,
        user=["ann", "bob", "cy"] * 4,
        priority=[0, 0, 5] * 4,
    )
    return week, Cluster.equal(2, gpus=4)


def write_csv(week: Week) -> str:
    """The week as a CSV file with the default names of columns."""
    rows = zip(week.submit, week.duration, week.gpus, week.queue, week.user, strict=True)
    lines = [
        f"{submit:g},{duration:g},{gpus},{queue},{user}"
        for submit, duration, gpus, queue, user in rows
    ]
    return "\n".join(["submit,duration,gpus,queue,user", *lines, ""])
