"""``quadrant chaos run``: real processes, real signals, and the check of what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from coordinator.cli.options.failure import EXIT_ERROR, CommandError
from coordinator.cli.options.options import Output
from laboratory.cli.chaos.chaos_options import ChaosCluster, ChaosOptions

if TYPE_CHECKING:
    from rich.console import Console

    from laboratory.chaos.kubernetes.run import KubernetesChaos
    from laboratory.chaos.run import Chaos
    from laboratory.cli.stack import Workspace

NODES, UNITS = 24, 8
KUBERNETES_NODES, KUBERNETES_CORES = 12, 8
"""Fewer than on the simulated cluster: every pod costs the API server one or two milliseconds."""


def chaos_run(*, options: ChaosOptions) -> None:
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
    if options.cluster is ChaosCluster.KUBERNETES:
        if options.servers is None:
            raise CommandError("--cluster kubernetes: give the folder of its programs by --servers")
        code = _run_on_kubernetes(options, options.servers)
    else:
        code = _run_simulated(options)
    if code:
        raise typer.Exit(code)


def _run_simulated(options: ChaosOptions) -> int:
    """Returns the exit code. Raises CommandError."""
    from rich.console import Console

    from laboratory.chaos.draining import plan_drains
    from laboratory.chaos.faults import kinds_of
    from laboratory.chaos.plan import plan
    from laboratory.chaos.run import Chaos
    from laboratory.chaos.timeline import ChaosTimeline
    from laboratory.cli.stack import workspace
    from laboratory.workloads.generators import ClusterShape

    console = Console(stderr=True, highlight=False)
    seed, duration, kai = options.seed, options.duration, options.kai
    with workspace(
        history=options.history,
        shards=options.shards,
        mode=options.mode.value,
        seed=seed,
        standby=options.standby,
        cluster_faults=options.driver_faults,
        log_format="json",
    ) as space:
        blows = plan(seed, duration, targets=kinds_of(options.standby)) if options.faults else []
        chaos = Chaos(
            settings=space.settings,
            shape=ClusterShape(NODES, UNITS),
            seed=seed,
            duration=duration,
            blows=blows,
            drains=plan_drains(seed, duration) if options.faults else [],
            hostile=options.hostile,
            of_kai=kai,
            post_limit=options.post_limit / 1000,
            timeline=ChaosTimeline(lambda line: console.print(line, markup=False, soft_wrap=True)),
        )
        return _run_and_tell(chaos, space, console, options.output)


def _run_on_kubernetes(options: ChaosOptions, servers: Path) -> int:
    """Run the same on an API server and etcd of its own. ``servers``: the folder of the programs.
    Returns the exit code. Raises CommandError."""
    from rich.console import Console

    from laboratory.chaos.kubernetes.kai import KaiChaos, is_of_kai
    from laboratory.chaos.kubernetes.loss import draw_loss
    from laboratory.chaos.kubernetes.run import KubernetesChaos
    from laboratory.chaos.kubernetes.volcano import VolcanoChaos
    from laboratory.chaos.plan import KUBERNETES_TARGETS, STANDBY, plan
    from laboratory.chaos.timeline import ChaosTimeline
    from laboratory.cli.control_plane import own_control_plane
    from laboratory.cli.stack import workspace
    from shared.telemetry.logging import configure_logging

    configure_logging("error")  # that a struck server does not answer is no news here
    console = Console(stderr=True, highlight=False)
    targets = [t for t in KUBERNETES_TARGETS if options.standby or t != STANDBY]
    blows = plan(options.seed, options.duration, targets=targets) if options.faults else []
    with (
        own_control_plane(servers) as plane,
        workspace(
            history=options.history,
            shards=options.shards,
            mode=options.mode.value,
            seed=options.seed,
            standby=options.standby,
            kubeconfig=plane.admin.kubeconfig,
            log_format="json",
        ) as space,
    ):
        chaos = KubernetesChaos(
            settings=space.settings,
            plane=plane,
            nodes=KUBERNETES_NODES,
            cores=KUBERNETES_CORES,
            dialect=KaiChaos() if options.kai or is_of_kai(options.seed) else VolcanoChaos(),
            seed=options.seed,
            duration=options.duration,
            blows=blows,
            loss=draw_loss(options.seed, options.duration) if options.faults else None,
            timeline=ChaosTimeline(lambda line: console.print(line, markup=False, soft_wrap=True)),
        )
        return _run_and_tell(chaos, space, console, options.output)


def _run_and_tell(
    chaos: Chaos | KubernetesChaos, space: Workspace, console: Console, output: Output
) -> int:
    """Carry the run out and show the result. Returns the exit code. Raises CommandError."""
    from laboratory.cli.stack import run_to_exit_code

    async def run() -> int:
        await chaos.run()
        return 0

    if code := run_to_exit_code(run):
        return code
    return _tell(chaos, space, console, output)


def _tell(
    chaos: Chaos | KubernetesChaos, space: Workspace, console: Console, output: Output
) -> int:
    """The timeline with what was found out at the end, the result, the exit code."""
    from rich.console import Console

    report = chaos.report
    console.print("\nTimeline")
    for line in chaos.timeline.in_order():
        console.print(line, markup=False, soft_wrap=True)
    if output is Output.JSON:
        typer.echo(report.line())
    else:
        Console(soft_wrap=True).print(report.table())
    if report.ok:
        return 0
    space.keep = True
    console.print(f"History: {space.history}\nLogs: {space.settings.run_dir}", markup=False)
    return EXIT_ERROR
