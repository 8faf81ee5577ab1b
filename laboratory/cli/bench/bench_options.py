"""The options of a benchmark."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from coordinator.cli.options.options import (
    ModeChoice,
    ModeOption,
    Output,
    OutputOption,
    Seed,
    Shards,
)


class BenchSize(StrEnum):
    BASIC = "basic"
    WIDE = "wide"
    RECLAIM = "reclaim"
    FILL = "fill"
    FRACTIONS = "fractions"
    RECLAIM_MANY = "reclaim-many"
    RECLAIM_NEVER = "reclaim-never"
    CONSOLIDATE = "consolidate"
    TOPOLOGY = "topology"
    IDLE = "idle"
    KUBERNETES = "kubernetes"


SESSION_ONLY = frozenset({BenchSize.RECLAIM_NEVER})
"""Nothing is placed: what there is to measure is the search."""

SIZES = {
    BenchSize.BASIC: (5_000, 10_000),
    BenchSize.WIDE: (100_000, 100_000),
    BenchSize.RECLAIM: (1_000, 8_000),
    BenchSize.FILL: (500, 4_000),
    BenchSize.FRACTIONS: (1_000, 16_000),
    BenchSize.RECLAIM_MANY: (500, 4_000),
    BenchSize.RECLAIM_NEVER: (1_000, 8_000),
    BenchSize.CONSOLIDATE: (500, 500),
    BenchSize.TOPOLOGY: (10_000, 12_800),
    BenchSize.IDLE: (4_000, 140_000),
    BenchSize.KUBERNETES: (5_000, 10_000),
}
"""Nodes, pods."""


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """The options of the command."""

    size: Annotated[
        BenchSize,
        typer.Argument(
            help="basic: 5,000 nodes and 10,000 pods; wide: 100,000 nodes and 100,000 pods; "
            "reclaim: 1,000 nodes full of 8,000 pods, and a gang that has a right to half of them; "
            "fill: 500 nodes and 4,000 jobs of one GPU under KAI's default policy; fractions: "
            "1,000 nodes and 16,000 jobs of half a GPU under it; reclaim-many: 500 full nodes, and "
            "as many jobs as run; reclaim-never: victims that cannot be had; consolidate: 500 "
            "fragmented nodes, and gangs of whole ones; topology: 10,000 nodes in racks, and 200 "
            "gangs of 64; idle: 140,000 running pods; kubernetes: 5,000 nodes and 10,000 pods on a "
            "real API server"
        ),
    ]
    other_nodes: Annotated[
        int | None, typer.Option("--nodes", min=1, help="Another number of nodes")
    ] = None
    other_pods: Annotated[
        int | None, typer.Option("--pods", min=1, help="Another number of pods")
    ] = None
    shards: Shards = 4
    mode: ModeOption = ModeChoice.SOFT
    seed: Seed = 0
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy", metavar="FILE", dir_okay=False, help="A policy file instead of the default"
        ),
    ] = None
    history: Annotated[
        Path | None,
        typer.Option("--history", metavar="FILE", dir_okay=False, help="Keep the history here"),
    ] = None
    output: OutputOption = Output.TABLE
    session: Annotated[
        bool,
        typer.Option(
            "--session", help="The core alone, without a service: one session of KAI's policy"
        ),
    ] = False

    servers: Annotated[
        Path | None,
        typer.Option(
            "--servers",
            metavar="FOLDER",
            file_okay=False,
            help="kubernetes: where the programs etcd and kube-apiserver are",
        ),
    ] = None
    gang: Annotated[
        int, typer.Option("--gang", min=0, help="kubernetes: pods of each gang; 0: each by itself")
    ] = 0
    running: Annotated[
        int,
        typer.Option(
            "--running",
            min=0,
            help="kubernetes: so many other pods are on nodes before; Quadrant is then started a "
            "second time, with its ledger",
        ),
    ] = 0
    kubelets: Annotated[
        bool,
        typer.Option(
            "--kubelets", help="kubernetes: create the pods meanwhile, and have them started"
        ),
    ] = False
    against: Annotated[
        list[Path] | None,
        typer.Option(
            "--against",
            metavar="PROGRAM",
            help="kubernetes: give the same to this scheduler as well (kube-scheduler, "
            "vc-scheduler); may be repeated",
        ),
    ] = None

    @property
    def nodes(self) -> int:
        return self.other_nodes or SIZES[self.size][0]

    @property
    def pods(self) -> int:
        return self.other_pods or SIZES[self.size][1]
