"""A real API server, etcd and the coordinators on one machine, shards and kubelets on two: one is
cut off for half a minute, Ray's head is killed, one is pulled."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pytest

from laboratory.checker.check import check
from laboratory.local_kubernetes.binaries import Binaries
from laboratory.local_kubernetes.control_plane import ControlPlane
from tests.kubernetes.definitions import definitions
from tests.kubernetes.driver.harness import pod_group
from tests.kubernetes.machines.identity import words_of
from tests.kubernetes.machines.kubelets import CORES
from tests.kubernetes.machines.recorder import WAITS
from tests.kubernetes.machines.users import (
    GONE,
    GROUPS,
    PODS,
    Json,
    Users,
    gang,
    lasting,
    single,
)
from tests.kubernetes.servers.build import VOLCANO
from tests.machines.cluster import CUT_SECONDS, SHARDS, Cluster, all_up, three_machines
from tests.machines.machine import Machine, possible

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not possible(), reason="network namespaces need root and iproute2"),
]

NODES = 6
"""Nodes of each of the two machines."""
TORN = [f"torn-{i}" for i in range(6)]
"""Members of the gang that loses some with their machine."""


@dataclass(frozen=True, slots=True)
class MachinesStage:
    cluster: Cluster
    users: Users
    recorder: subprocess.Popen[bytes]

    def complete_history(self) -> None:
        assert self.cluster.end(self.recorder) == 0, self.cluster.logs()


@pytest.fixture
def stage(kubernetes_binaries: Binaries) -> Iterator[MachinesStage]:
    folder = Path(tempfile.mkdtemp(prefix="qm-"))  # short: sockets stand in it
    planes: list[ControlPlane] = []

    @contextlib.contextmanager
    def api_server(head: Machine) -> Iterator[dict[str, str]]:
        plane = ControlPlane(folder, kubernetes_binaries, address=head.address, within=head.network)
        try:
            plane.start()
            Users(plane).define(*definitions(VOLCANO))
            planes.append(plane)
            yield {"QUADRANT_KUBECONFIG": str(plane.admin.kubeconfig)}
        finally:
            plane.stop()

    try:
        with three_machines(folder, api_server) as cluster:
            who = words_of(planes[0].admin)
            recorder = cluster.head.run(
                [*program("recorder"), cluster.history, *who], log="recorder", **cluster.settings
            )
            cluster.until_said(cluster.head, "recorder", WAITS)
            cluster.begin()
            for machine in cluster.workers:
                names = ",".join(f"{label(machine)}-{i}" for i in range(NODES))
                machine.run([*program("kubelets"), *who, names], log="kubelets")
            owned = len(cluster.workers) * NODES
            cluster.until(lambda status: sum(s["nodes"] for s in status["shards"]) == owned)
            yield MachinesStage(cluster, Users(planes[0]), recorder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def program(name: str) -> list[str | Path]:
    return [sys.executable, "-m", f"tests.kubernetes.machines.{name}"]


def label(machine: Machine) -> str:
    return f"m{machine.number}"


def torn(on: str = "") -> list[Json]:
    """Every second pod is to be on this machine."""
    return [lasting(name, group="torn", on=on if i % 2 else "") for i, name in enumerate(TORN)]


def test_a_machine_is_cut_off_the_head_is_killed_a_machine_is_pulled(stage: MachinesStage) -> None:
    cluster, users = stage.cluster, stage.users
    first, second = cluster.workers
    assert all(cluster.shard_workers()), "both machines have some"
    widths = (4, 8, NODES * CORES + 8, 16)  # one is wider than a machine
    gangs = chain(*(gang(f"before-{i}", width) for i, width in enumerate(widths)))
    before = users.create([*gangs, *(single(f"alone-{i}") for i in range(8))])
    cluster.until(users.are("Succeeded", before))

    with cluster.cut_off(first):
        gangs = chain(*(gang(f"cut-{i}", 6) for i in range(6)))
        during = users.create([*gangs, *(single(f"cut-alone-{i}") for i in range(8))])
        cluster.until(users.have_nodes(during), CUT_SECONDS)  # by the shards that are reached
    cluster.until(users.are("Succeeded", during))
    across = users.create(gang("across", NODES * CORES + 8))
    cluster.until(users.are("Succeeded", across))

    cluster.kill_ray_head()
    cluster.start_ray_head()
    headless = users.create(chain(*(gang(f"headless-{i}", 8) for i in range(4))))
    cluster.until(users.are("Succeeded", headless))
    cluster.until(all_up)

    stays = lasting("stays", on=label(first))
    users.create([pod_group("torn", len(TORN)), *torn(on=label(second)), stays])
    users.create([lasting("goes", on=label(second))])
    cluster.until(users.are("Running", [*TORN, "stays", "goes"]))
    cluster.pull(second)
    lost = users.lose_machine(label(second))
    assert {"goes", *TORN[1::2]} <= set(lost)
    pulled = users.create(chain(*(gang(f"pulled-{i}", 8) for i in range(4))))
    cluster.until(users.keep([*torn(), stays]))
    cluster.until(users.are("Succeeded", pulled))
    cluster.until(all_up)
    assert cluster.shard_workers()[0] == SHARDS, "all of them are on the machine that is left"

    users.delete(f"{GROUPS}/torn")
    for name in (*TORN, "stays"):
        users.delete(f"{PODS}/{name}")
    cluster.until(users.are(GONE, [*TORN, "stays"]))
    cluster.until(lambda status: status["tasks"]["submitted"] == status["tasks"]["finished"])
    stage.complete_history()
    cluster.stop_quadrant()
    judge(stage)


def judge(stage: MachinesStage) -> None:
    """Assert that the checker and the API server's audit log find nothing wrong."""
    history = stage.cluster.history
    report = check(history, closed=True)
    assert report.ok, [str(violation) for violation in report.violations]
    bindings, uncertain = stage.users.bindings()
    assert set(bindings.values()) == {1}, "a pod was bound twice"
    bound = report.summary.tasks_bound
    assert 200 < len(bindings) <= bound <= len(bindings.keys() | uncertain)
    events = {json.loads(line)["ev"] for line in history.read_bytes().splitlines()}
    assert {"bind", "start", "succeeded", "commit", "end"} <= events
