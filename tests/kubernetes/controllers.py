"""Schedulers and controllers of Kubernetes, Volcano and KAI, as processes beside an API server.

Their webhooks do not run: a test writes the fields that those would fill in.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.server_process import ServerProcess
from tests.kubernetes.servers.build import KAI, KUBERNETES, VOLCANO
from tests.kubernetes.servers.gates import GROUP_GATES

Command = list[str | Path]
REQUESTS_A_SECOND = 1000
"""Their own limits on requests would make the tests wait."""


@contextlib.contextmanager
def beside(plane: ControlPlane, *commands: Command) -> Iterator[None]:
    """Run these as long as the context is open. Raises LocalClusterFailed where one ended by
    itself."""
    # KAI's controller of queues reads no option before it looks for its server.
    within = ("env", f"KUBECONFIG={plane.admin.kubeconfig}")
    processes = [ServerProcess(command, plane.folder, within=within) for command in commands]
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
        "podgroup-protection-controller",
        "replicaset-controller",
        "statefulset-controller",
        "ttl-after-finished-controller",
    )
    return [
        KUBERNETES.folder / "kube-controller-manager",
        f"--kubeconfig={plane.admin.kubeconfig}",
        f"--controllers={','.join(names)}",
        GROUP_GATES,
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


def volcano_scheduler(plane: ControlPlane, policy: Path) -> Command:
    return [
        VOLCANO.folder / "vc-scheduler",
        f"--kubeconfig={plane.admin.kubeconfig}",
        f"--scheduler-conf={policy}",
        "--leader-elect=false",
        "--cache-dumper=false",
        f"--kube-api-qps={REQUESTS_A_SECOND}",
        f"--kube-api-burst={REQUESTS_A_SECOND}",
    ]


def kai_scheduler(plane: ControlPlane) -> Command:
    return [
        KAI.folder / "scheduler",
        *_LIMITS,
        "--listen-address=127.0.0.1:0",
        "--plugin-server-port=0",
    ]


def kai(plane: ControlPlane) -> list[Command]:
    """KAI's controllers of pods, PodGroups and queues."""
    limits = (f"--kubeconfig={plane.admin.kubeconfig}", *_LIMITS)
    return [
        kai_pod_grouper(plane),
        [
            KAI.folder / "podgroupcontroller",
            *limits,
            *_WITHOUT_PORTS,
            "--enable-podgroup-webhook=false",
        ],
        [
            KAI.folder / "queuecontroller",
            *limits,
            "--metrics-listen-address=0",
            "--enable-webhook=false",
        ],
    ]


def kai_binder(kubeconfig: Path) -> Command:
    return _kai("binder", kubeconfig)


def kai_pod_grouper(plane: ControlPlane) -> Command:
    return _kai("podgrouper", plane.admin.kubeconfig)


def _kai(program: str, kubeconfig: Path) -> Command:
    return [KAI.folder / program, f"--kubeconfig={kubeconfig}", *_LIMITS, *_WITHOUT_PORTS]


_LIMITS = (f"--qps={REQUESTS_A_SECOND}", f"--burst={REQUESTS_A_SECOND}")
_WITHOUT_PORTS = ("--metrics-bind-address=0", "--health-probe-bind-address=0")
