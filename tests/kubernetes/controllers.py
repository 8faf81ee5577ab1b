"""Controllers of Kubernetes, Volcano and KAI beside a test's API server, as processes.

Their webhooks do not run: a test writes the fields that those would fill in.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.server_process import ServerProcess
from tests.kubernetes.servers.build import KAI, KUBERNETES, VOLCANO

Command = list[str | Path]
REQUESTS_A_SECOND = 1000
"""Their own limits on requests would make the tests wait."""


@contextlib.contextmanager
def beside(plane: ControlPlane, *commands: Command) -> Iterator[None]:
    """Run these as long as the context is open. Raises LocalClusterFailed where one ended by
    itself."""
    processes = [ServerProcess(command, plane.folder) for command in commands]
    try:
        for process in processes:
            process.start()
        yield
        for process in processes:
            process.check()
    finally:
        for process in processes:
            process.kill()


def kubernetes(plane: ControlPlane) -> Command:
    """Kubernetes' controllers of workloads and of what these leave behind."""
    names = (
        "cronjob-controller",
        "deployment-controller",
        "garbage-collector-controller",
        "job-controller",
        "replicaset-controller",
        "statefulset-controller",
        "ttl-after-finished-controller",
    )
    return [
        KUBERNETES.folder / "kube-controller-manager",
        f"--kubeconfig={plane.admin.kubeconfig}",
        f"--controllers={','.join(names)}",
        "--leader-elect=false",
        "--secure-port=0",
        f"--kube-api-qps={REQUESTS_A_SECOND}",
        f"--kube-api-burst={REQUESTS_A_SECOND}",
    ]


def volcano(plane: ControlPlane) -> Command:
    """Volcano's controllers of Jobs, PodGroups, Queues, CronJobs and JobFlows."""
    return [
        VOLCANO.folder / "vc-controller-manager",
        f"--kubeconfig={plane.admin.kubeconfig}",
        "--leader-elect=false",
        f"--kube-api-qps={REQUESTS_A_SECOND}",
        f"--kube-api-burst={REQUESTS_A_SECOND}",
    ]


def kai_binder(kubeconfig: Path) -> Command:
    return _kai("binder", kubeconfig)


def kai_pod_grouper(plane: ControlPlane) -> Command:
    return _kai("podgrouper", plane.admin.kubeconfig)


def _kai(program: str, kubeconfig: Path) -> Command:
    """Without ports of its own."""
    return [
        KAI.folder / program,
        f"--kubeconfig={kubeconfig}",
        f"--qps={REQUESTS_A_SECOND}",
        f"--burst={REQUESTS_A_SECOND}",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
    ]
