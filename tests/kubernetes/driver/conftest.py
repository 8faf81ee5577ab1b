"""Empty ledgers for each test, and a scheduler beside ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from laboratory.local_kubernetes.binaries import Binaries
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.peers import peer
from laboratory.local_kubernetes.server_process import ServerProcess
from shared.ledger.redis.server import EmbeddedServer


@pytest.fixture
def second_ledger(short_dir: Path) -> Iterator[str]:
    server = EmbeddedServer(short_dir, short_dir / "second")
    server.start(30.0)
    yield server.url
    server.stop(10.0)


@pytest.fixture
def kube_scheduler(
    control_plane: ControlPlane, kubernetes_binaries: Binaries, short_dir: Path
) -> Iterator[ServerProcess]:
    theirs = peer(kubernetes_binaries.scheduler, control_plane.admin.kubeconfig)
    server = ServerProcess(theirs.command, short_dir)
    server.start()
    yield server
    server.kill()
