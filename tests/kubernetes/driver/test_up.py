"""``quadrant up --kubeconfig``: kubectl goes on asking the cluster, and quadrant asks Quadrant."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import pytest_asyncio

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from tests.kubernetes.driver.harness import node, pod

pytestmark = pytest.mark.timeout(180)
SECONDS = 90.0


def quadrant(*words: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "laboratory.cli", *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, env=environment, check=False
    )


@pytest_asyncio.fixture
async def _a_pod(cluster: ApiClient) -> None:
    await cluster.create(node("n1"), pod("a"))


@pytest.mark.usefixtures("_a_pod")
def test_the_output_of_up_leads_to_the_cluster_and_to_quadrant(
    control_plane: ControlPlane, short_dir: Path
) -> None:
    kubeconfig = control_plane.admin.kubeconfig
    environment = (
        os.environ
        | {"KUBECONFIG": str(kubeconfig), "HOME": str(short_dir)}
        | {"QUADRANT_RUN_DIR": str(short_dir / "run")}
    )
    environment.pop("QUADRANT_SERVER", None)
    output = short_dir / "said"
    with output.open("w") as stderr:
        options = ["--kubeconfig", str(kubeconfig), "--listen", "127.0.0.1:0", "--shards", "1"]
        up = subprocess.Popen(
            [sys.executable, "-m", "laboratory.cli", "up", *options],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
    try:
        deadline = time.monotonic() + SECONDS
        while not (
            export := re.search(r"^export QUADRANT_SERVER=(\S+)$", output.read_text(), re.M)
        ):
            assert up.poll() is None, output.read_text()
            assert time.monotonic() < deadline, output.read_text()
            time.sleep(0.1)
        assert "export KUBECONFIG" not in output.read_text(), "kubectl asks the cluster"
        there = environment | {"QUADRANT_SERVER": export[1]}
        # It may be up before the API server has told it of all pods.
        while (explained := quadrant("explain", "pod", "a", environment=there)).returncode:
            assert time.monotonic() < deadline, explained.stderr
        lost = quadrant("explain", "pod", "a", environment=environment)
        assert lost.returncode == 1
        assert "is a Kubernetes API server" in lost.stderr
        assert "QUADRANT_SERVER" in lost.stderr
    finally:
        up.send_signal(signal.SIGTERM)
        up.wait(60)
