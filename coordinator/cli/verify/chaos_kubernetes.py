"""``quadrant chaos run --cluster kubernetes``: the same on an API server and etcd of its own."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coordinator.cli.options.failure import CommandError
from coordinator.cli.options.options import ModeChoice, Output

if TYPE_CHECKING:
    from coordinator.verification.local_kubernetes.control_plane import ControlPlane

NODES, CORES = 12, 8
"""Fewer than on the simulated cluster: every pod costs the API server some 2 ms."""


@dataclass(frozen=True, slots=True)
class KubernetesRun:
    """The options that such a run has."""

    servers: Path
    seed: int
    duration: float
    shards: int
    mode: ModeChoice
    standby: bool
    faults: bool
    history: Path | None
    output: Output


def run_on_kubernetes(options: KubernetesRun) -> int:
    """Returns the exit code. Raises CommandError."""
    from rich.console import Console

    from coordinator.cli.run.stack import workspace
    from coordinator.cli.verify.chaos_verdict import run_and_tell
    from coordinator.verification.chaos.kubernetes.run import KubernetesChaos
    from coordinator.verification.chaos.plan import KUBERNETES_TARGETS, STANDBY, plan
    from coordinator.verification.chaos.timeline import ChaosTimeline
    from shared.telemetry.logging import configure_logging

    configure_logging("error")  # that a struck server does not answer is no news here
    console = Console(stderr=True, highlight=False)
    targets = [t for t in KUBERNETES_TARGETS if options.standby or t != STANDBY]
    blows = plan(options.seed, options.duration, targets=targets) if options.faults else []
    with (
        _control_plane(options.servers) as plane,
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
            seed=options.seed,
            duration=options.duration,
            blows=blows,
            timeline=ChaosTimeline(lambda line: console.print(line, markup=False, soft_wrap=True)),
        )
        return run_and_tell(chaos, space, console, options.output)


@contextlib.contextmanager
def _control_plane(folder: Path) -> Iterator[ControlPlane]:
    """An API server and etcd of these programs, in a folder that is removed afterwards."""
    from coordinator.verification.local_kubernetes.binaries import Binaries
    from coordinator.verification.local_kubernetes.control_plane import ControlPlane
    from coordinator.verification.local_kubernetes.errors import LocalClusterFailed

    binaries = Binaries(folder.absolute())
    if missing := binaries.missing():
        raise CommandError(f"--servers: {folder} has no {missing[0]}; name the folder that has it")
    path = Path(tempfile.mkdtemp(prefix="qk-"))  # short: etcd has a socket there
    try:
        plane = ControlPlane(path, binaries)
        try:
            plane.start()
            yield plane
        finally:
            plane.stop()
    except LocalClusterFailed as error:
        raise CommandError(str(error)) from None
    finally:
        shutil.rmtree(path, ignore_errors=True)
