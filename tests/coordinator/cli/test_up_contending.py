"""``quadrant up`` with a policy that names every action, all of them at work on one cluster.

Two queues share four nodes; a job of little weight fills them; then come, one after another, a job
of higher priority, a queue that wants its share, tasks that ask for nothing, and a job that has to
stay in one domain of the network.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.cli.run.up import KUBECONFIG
from tests.builders.objects import a_list, hyper_node, priority_class, queue
from tests.coordinator.cli.conftest import Quadrant
from tests.laboratory.simulation.contending import job, named_node

pytestmark = [pytest.mark.all, pytest.mark.slow, pytest.mark.timeout(400)]

START_SECONDS = 100.0
SECONDS = 60.0
NODES = 4

POLICY = """
actions: "enqueue, allocate, backfill, preempt, reclaim, gangpreempt, gangreclaim, shuffle"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
  - name: sla
  - name: tdm
  - name: pdb
  - name: cdp
- plugins:
  - name: overcommit
    arguments: {overcommit-factor: 10.0}
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
  - name: network-topology-aware
  - name: deviceshare
  - name: nodegroup
    arguments: {strict: false}
  - name: numa-aware
  - name: rescheduling
  - name: resource-strategy-fit
  - name: resourcequota
  - name: task-topology
  - name: usage
"""


@pytest.fixture
def up(short_dir: Path) -> Iterator[Path]:
    """The kubeconfig of a service with that policy."""
    policy = short_dir / "policy.yaml"
    policy.write_text(POLICY)
    words = ["up", "--shards", "2", "--listen", "127.0.0.1:0", "--policy", str(policy)]
    with tempfile.TemporaryFile("w+") as errors:
        service = subprocess.Popen(
            [sys.executable, "-m", "laboratory.cli", *words],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "QUADRANT_RUN_DIR": str(short_dir / "run")},
            start_new_session=True,
        )
        try:
            assert service.stdout is not None
            ready, _, _ = select.select([service.stdout], [], [], START_SECONDS)
            if not ready or not service.stdout.readline():
                errors.seek(0)
                pytest.fail(f"not up in time: {errors.read()}")
            path = short_dir / "run" / KUBECONFIG
            _until(path.exists, "a kubeconfig")
            yield path
        finally:
            service.send_signal(signal.SIGINT)
            service.communicate(timeout=60)


class ContendingUsers:
    """Users' writes, and their view of the results."""

    def __init__(self, quadrant: Quadrant, directory: Path) -> None:
        self._quadrant = quadrant
        self._file = directory / "objects.json"

    def apply(self, *items: dict[str, Any]) -> None:
        self._file.write_text(json.dumps(a_list(*items)))
        result = self._quadrant("apply", "-f", str(self._file))
        assert result.code == 0, result

    def pods(self, name: str) -> list[dict[str, Any]]:
        """The pods of a job."""
        result = self._quadrant("get", "pods", "-n", "ns", "-o", "json")
        assert result.code == 0, result
        items: list[dict[str, Any]] = json.loads(result.out)["items"]
        return [one for one in items if one["metadata"]["name"].startswith(f"{name}-")]

    def nodes(self, name: str) -> list[str]:
        """The nodes of its pods that run."""
        return [
            pod["spec"]["nodeName"]
            for pod in self.pods(name)
            if pod["status"]["phase"] == "Running"
        ]

    def runs(self, name: str, count: int) -> None:
        """Wait until so many of its pods run."""
        _until(
            lambda: len(self.nodes(name)) == count,
            f"{count} of {name} that run",
            lambda: self._quadrant("explain", "job", f"ns/{name}"),
        )

    def delete(self, name: str) -> None:
        result = self._quadrant("delete", "jobs", name, "-n", "ns")
        assert result.code == 0, result


def _until(true: Callable[[], object], what: str, why: Callable[[], object] = str) -> None:
    end = time.monotonic() + SECONDS
    while not true():
        if time.monotonic() > end:
            pytest.fail(f"no {what}: {why()}")
        time.sleep(0.1)


def test_every_action_at_work(
    up: Path, quadrant: Quadrant, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(up))
    users = ContendingUsers(quadrant, tmp_path)
    users.apply(
        *map(named_node, range(NODES)),
        hyper_node("rack-0", "n0", "n1"),
        hyper_node("rack-1", "n2", "n3"),
        priority_class("high", 1000),
        queue("red"),
        queue("blue"),
    )
    users.apply(job("low", 16, minimum=2, seconds=600, queue="red"))
    users.runs("low", 16)

    # A job of higher priority in the same queue takes the place of some.
    users.apply(job("high", 3, priority="high", seconds=600, queue="red"))
    users.runs("high", 3)
    users.runs("low", 13)
    events = quadrant("get", "events", "-n", "ns").out
    assert "Evict" in events

    # The other queue takes back its share.
    users.apply(job("late", 6, seconds=600, queue="blue"))
    users.runs("late", 6)
    users.runs("low", 7)

    # What asks for nothing finds a place in a full cluster.
    users.apply(job("idle", 3, cpu="", seconds=600, queue="blue"))
    users.runs("idle", 3)

    # Room comes; who was evicted is placed again.
    users.delete("late")
    users.runs("low", 13)
    users.delete("low")
    users.delete("high")

    # Six of sixteen places would do anywhere, but they have to be close to one another.
    near: dict[str, Any] = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
    users.apply(job("near", 6, seconds=600, queue="red", **near))
    users.runs("near", 6)
    assert {int(node[1:]) // 2 for node in users.nodes("near")} in ({0}, {1})
