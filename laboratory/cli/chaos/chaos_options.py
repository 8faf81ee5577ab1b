"""Options of ``quadrant chaos run``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from coordinator.cli.options.options import ModeChoice, ModeOption, Output, OutputOption, Seed

DRIVER_FAULTS = (
    "refuse=0.01,unknown_before=0.01,unknown_after=0.01,"
    "silent_before=0.005,silent_after=0.005,duplicate=0.05"
)


class ChaosCluster(StrEnum):
    SIMULATED = "simulated"
    KUBERNETES = "kubernetes"


@dataclass(frozen=True, slots=True)
class ChaosOptions:
    """The options, each a field."""

    seed: Seed = 0
    duration: Annotated[
        float, typer.Option("--duration", min=5.0, help="Seconds of load and faults")
    ] = 60.0
    shards: Annotated[
        int, typer.Option("--shards", min=1, max=16, help="Number of workers under faults")
    ] = 3
    mode: ModeOption = ModeChoice.SOFT
    standby: Annotated[
        bool, typer.Option("--standby/--no-standby", help="Have a second coordinator")
    ] = True
    driver_faults: Annotated[
        str,
        typer.Option(
            "--driver-faults",
            metavar="FAULT=P,...",
            help="Probability of each fault of the cluster; '' = none",
        ),
    ] = DRIVER_FAULTS
    faults: Annotated[
        bool,
        typer.Option(
            "--faults/--no-faults", help="Kill, pause and restart processes, and drain nodes"
        ),
    ] = True
    hostile: Annotated[
        bool,
        typer.Option(
            "--hostile/--no-hostile",
            help="Add a tenant that tries to corrupt the ledger or hold up the service",
        ),
    ] = True
    kai: Annotated[
        bool,
        typer.Option(
            "--kai/--no-kai",
            help="Run under KAI policies, with a tree of KAI's queues",
        ),
    ] = False
    post_limit: Annotated[
        float,
        typer.Option(
            "--post-limit",
            metavar="MS",
            min=0.0,
            help="Milliseconds for 99% of users' POSTs, outside of recoveries; 0 = no limit",
        ),
    ] = 500.0
    cluster: Annotated[
        ChaosCluster,
        typer.Option(
            "--cluster",
            help="simulated, or kubernetes: a real API server and etcd, which suffer faults too",
        ),
    ] = ChaosCluster.SIMULATED
    servers: Annotated[
        Path | None,
        typer.Option(
            "--servers",
            metavar="FOLDER",
            file_okay=False,
            help="With --cluster kubernetes: where the programs etcd and kube-apiserver are",
        ),
    ] = None
    history: Annotated[
        Path | None,
        typer.Option(
            "--history", metavar="FILE", dir_okay=False, help="Keep the history of the run here"
        ),
    ] = None
    output: OutputOption = Output.TABLE
