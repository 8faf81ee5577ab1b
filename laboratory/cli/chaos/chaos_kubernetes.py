"""``quadrant chaos run --cluster kubernetes``: the same on an API server and etcd of its own."""

from __future__ import annotations

from pathlib import Path

from laboratory.cli.chaos.chaos_options import ChaosOptions

NODES, CORES = 12, 8
"""Fewer than on the simulated cluster: every pod costs the API server one or two milliseconds."""


def run_on_kubernetes(options: ChaosOptions, servers: Path) -> int:
    """``servers``: the folder of the programs. Returns the exit code. Raises CommandError."""
    from rich.console import Console

    from laboratory.chaos.kubernetes.kai import KaiChaos, is_of_kai
    from laboratory.chaos.kubernetes.loss import draw_loss
    from laboratory.chaos.kubernetes.run import KubernetesChaos
    from laboratory.chaos.kubernetes.volcano import VolcanoChaos
    from laboratory.chaos.plan import KUBERNETES_TARGETS, STANDBY, plan
    from laboratory.chaos.timeline import ChaosTimeline
    from laboratory.cli.chaos.chaos_verdict import run_and_tell
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
            nodes=NODES,
            cores=CORES,
            dialect=KaiChaos() if options.kai or is_of_kai(options.seed) else VolcanoChaos(),
            seed=options.seed,
            duration=options.duration,
            blows=blows,
            loss=draw_loss(options.seed, options.duration) if options.faults else None,
            timeline=ChaosTimeline(lambda line: console.print(line, markup=False, soft_wrap=True)),
        )
        return run_and_tell(chaos, space, console, options.output)
