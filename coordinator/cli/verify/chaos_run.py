"""``quadrant chaos run``: real processes, real signals, and the check of what came of it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from coordinator.cli.options.failure import CommandError
from coordinator.cli.options.options import ModeChoice, ModeOption, Output, OutputOption, Seed

DRIVER_FAULTS = (
    "refuse=0.01,unknown_before=0.01,unknown_after=0.01,"
    "silent_before=0.005,silent_after=0.005,duplicate=0.05"
)
NODES, UNITS = 24, 8


class ClusterChoice(StrEnum):
    SIMULATED = "simulated"
    KUBERNETES = "kubernetes"


def chaos_run(
    *,
    seed: Seed = 0,
    duration: Annotated[
        float, typer.Option("--duration", min=5.0, help="Seconds of load and faults")
    ] = 60.0,
    shards: Annotated[
        int, typer.Option("--shards", min=1, max=16, help="Workers that are struck")
    ] = 3,
    mode: ModeOption = ModeChoice.SOFT,
    standby: Annotated[
        bool, typer.Option("--standby/--no-standby", help="Have a second coordinator")
    ] = True,
    driver_faults: Annotated[
        str,
        typer.Option(
            "--driver-faults",
            metavar="FAULT=P,...",
            help="How often the cluster refuses, is silent, says things twice; '' = never",
        ),
    ] = DRIVER_FAULTS,
    faults: Annotated[
        bool,
        typer.Option(
            "--faults/--no-faults", help="Kill, pause and restart processes, and drain nodes"
        ),
    ] = True,
    hostile: Annotated[
        bool,
        typer.Option(
            "--hostile/--no-hostile",
            help="Have a tenant that sends what could corrupt the ledger or hold up the service",
        ),
    ] = True,
    kai: Annotated[
        bool,
        typer.Option(
            "--kai/--no-kai",
            help="Run under KAI policies, with a tree of KAI's queues (and no hostile tenant)",
        ),
    ] = False,
    post_limit: Annotated[
        float,
        typer.Option(
            "--post-limit",
            metavar="MS",
            min=0.0,
            help="Milliseconds for 99% of users' POSTs, outside of recoveries; 0 = not judged",
        ),
    ] = 500.0,
    cluster: Annotated[
        ClusterChoice,
        typer.Option(
            "--cluster",
            help="simulated, or kubernetes: a real API server and etcd, which are struck too",
        ),
    ] = ClusterChoice.SIMULATED,
    servers: Annotated[
        Path | None,
        typer.Option(
            "--servers",
            metavar="FOLDER",
            file_okay=False,
            help="With --cluster kubernetes: where the programs etcd and kube-apiserver are",
        ),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(
            "--history", metavar="FILE", dir_okay=False, help="Keep the history of the run here"
        ),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Kill, pause and restart every process at random while users work, then check all promises

    Starts everything in a directory of its own: the embedded ledger, Ray with its workers, two
    coordinators, a cluster that refuses and forgets to answer. For --duration seconds jobs, gangs
    wider than a shard, edits, deletions and changes of the policy come in while faults strike and
    nodes are drained, all as --seed draws them; a tenant with a small role does what harm it can
    beside them.
    Then no more faults strike, everything has to finish, and the history is checked by code that
    shares nothing with the scheduler. Users' POSTs are held to --post-limit, except while a lost
    leader, ledger or Ray head comes back. Ends with 1 where any promise was broken.

    With --cluster kubernetes an API server and etcd of their own are started from the programs in
    --servers, with hollow kubelets, and struck like the rest. Users write to the API server, and
    its watch is the cluster's side of the history. Nobody is hostile there, no node is drained, and
    --driver-faults are not needed: the server's are real. Of nine seeds three (6, 7, 8, 15, ...)
    are KAI's there, and all with --kai.

    Examples:

      quadrant chaos run --seed 7 --duration 60

      quadrant chaos run --kai --seed 3

      quadrant chaos run --duration 600 -o json

      quadrant chaos run --cluster kubernetes --servers ~/kubernetes/bin
    """
    if cluster is ClusterChoice.KUBERNETES:
        from coordinator.cli.verify.chaos_kubernetes import KubernetesRun, run_on_kubernetes

        if servers is None:
            raise CommandError("--cluster kubernetes: give the folder of its programs by --servers")
        code = run_on_kubernetes(
            KubernetesRun(
                servers=servers,
                seed=seed,
                kai=kai,
                duration=duration,
                shards=shards,
                mode=mode,
                standby=standby,
                faults=faults,
                history=history,
                output=output,
            )
        )
        if code:
            raise typer.Exit(code)
        return
    from rich.console import Console

    from coordinator.cli.run.stack import workspace
    from coordinator.cli.verify.chaos_verdict import run_and_tell
    from coordinator.verification.chaos.draining import plan_drains
    from coordinator.verification.chaos.faults import kinds_of
    from coordinator.verification.chaos.plan import plan
    from coordinator.verification.chaos.run import Chaos
    from coordinator.verification.chaos.timeline import ChaosTimeline
    from coordinator.verification.workloads.generators import ClusterShape

    console = Console(stderr=True, highlight=False)
    with workspace(
        history=history,
        shards=shards,
        mode=mode.value,
        seed=seed,
        standby=standby,
        cluster_faults=driver_faults,
        log_format="json",
    ) as space:
        chaos = Chaos(
            settings=space.settings,
            shape=ClusterShape(NODES, UNITS),
            seed=seed,
            duration=duration,
            blows=plan(seed, duration, targets=kinds_of(standby)) if faults else [],
            drains=plan_drains(seed, duration) if faults else [],
            hostile=hostile and not kai,
            of_kai=kai,
            post_limit=post_limit / 1000,
            timeline=ChaosTimeline(lambda line: console.print(line, markup=False, soft_wrap=True)),
        )
        code = run_and_tell(chaos, space, console, output)
    if code:
        raise typer.Exit(code)
