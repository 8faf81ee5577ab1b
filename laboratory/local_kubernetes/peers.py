"""Other schedulers, as programs that are given: how each is started, and what it calls itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from laboratory.local_kubernetes.errors import LocalClusterFailed

REQUESTS_A_SECOND = 5000
"""Their own limit on requests (50 and 2,000 by default) is not what is to be measured."""


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    """In ``spec.schedulerName`` of its pods."""
    command: list[str | Path]


def peer(program: Path, kubeconfig: Path) -> Peer:
    """The scheduler of this program, known by the file's name. Raises LocalClusterFailed."""
    limits = (f"--kube-api-qps={REQUESTS_A_SECOND}", f"--kube-api-burst={REQUESTS_A_SECOND}")
    alone = "--leader-elect=false"
    match program.name:
        case "kube-scheduler":
            flags = [
                f"--{kind}kubeconfig={kubeconfig}"
                for kind in ("", "authentication-", "authorization-")
            ]
            return Peer("default-scheduler", [program, *flags, alone, "--secure-port=0", *limits])
        case "vc-scheduler":
            config = f"--kubeconfig={kubeconfig}"
            return Peer("volcano", [program, config, alone, "--scheduler-name=volcano", *limits])
        case name:
            raise LocalClusterFailed(
                f"--against: {name} is not known; give kube-scheduler or vc-scheduler"
            )
