"""A server of the control plane beside the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.coordinator.cli.interrupting import lives

STUBBORN = "trap '' TERM; echo ready > ready; while :; do sleep 0.1; done"
"""As an API server whose etcd is gone, it goes on after SIGTERM."""
STARTER = f"""
import sys, time
from pathlib import Path
from laboratory.local_kubernetes.server_process import ServerProcess

server = ServerProcess(["sh", "-c", {STUBBORN!r}], Path(sys.argv[1]))
server.start()
while not Path(sys.argv[1], "ready").exists():
    time.sleep(0.01)
print(server.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports a parent's death")
@pytest.mark.parametrize("paused", [False, True], ids=["running", "paused"])
def test_a_server_that_ignores_sigterm_ends_with_its_starter(tmp_path: Path, paused: bool) -> None:
    command = [sys.executable, "-c", STARTER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as starter:
        assert starter.stdout is not None
        server = int(starter.stdout.readline())
        if paused:
            os.kill(server, signal.SIGSTOP)
        starter.kill()
    deadline = time.monotonic() + 60
    while lives(server) and time.monotonic() < deadline:
        time.sleep(0.01)
    survived = lives(server)
    if survived:
        os.kill(server, signal.SIGKILL)
    assert not survived
