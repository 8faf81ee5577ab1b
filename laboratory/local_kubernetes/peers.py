"""Other schedulers, as programs that are given: how each is started, and what it needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from laboratory.local_kubernetes.errors import LocalClusterFailed

REQUESTS_A_SECOND = 5000
"""Their own limit on requests (50 and 2,000 by default) is not what is to be measured."""
VOLCANO_CONTROLLERS = "vc-controller-manager"

Command = list[str | Path]


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    """In ``spec.schedulerName`` of its pods."""
    command: Command
    controllers: Command | None = None
    """Controllers beside it, without which it places no pod."""
    definitions: tuple[Path, ...] = ()
    """YAML files of its own CustomResourceDefinitions."""


def peer(program: Path, kubeconfig: Path) -> Peer:
    """The scheduler of this program, known by the file's name. Raises LocalClusterFailed."""
    match program.name:
        case "kube-scheduler":
            flags = [
                f"--{kind}kubeconfig={kubeconfig}"
                for kind in ("", "authentication-", "authorization-")
            ]
            return Peer("default-scheduler", [program, *flags, "--secure-port=0", *_COMMON])
        case "vc-scheduler":
            return _volcano(program, kubeconfig)
        case name:
            raise LocalClusterFailed(
                f"--against: {name} is not known; give kube-scheduler or vc-scheduler"
            )


_COMMON = (
    "--leader-elect=false",
    f"--kube-api-qps={REQUESTS_A_SECOND}",
    f"--kube-api-burst={REQUESTS_A_SECOND}",
)


def _volcano(program: Path, kubeconfig: Path) -> Peer:
    """Volcano's controllers make the PodGroups of single pods, and admit all; its scheduler reads
    kinds that our definitions lack."""
    folder = program.parent
    definitions = tuple(sorted(folder.glob("*.volcano.sh_*.yaml")))
    if not (folder / VOLCANO_CONTROLLERS).is_file() or not definitions:
        raise LocalClusterFailed(
            f"--against: vc-scheduler needs {VOLCANO_CONTROLLERS} and Volcano's definitions "
            f"(scheduling.volcano.sh_queues.yaml and the others) beside it, in {folder}"
        )
    own = (f"--kubeconfig={kubeconfig}", *_COMMON)
    return Peer(
        "volcano",
        [program, "--scheduler-name=volcano", *own],
        [folder / VOLCANO_CONTROLLERS, *own],
        definitions,
    )
