"""A worker that is busy for long is not taken for one that hangs. Real processes: about 20 s."""

from __future__ import annotations

from pathlib import Path

import pytest

from laboratory.workloads.generators import (
    CPU,
    job_manifest,
    pod_template,
    role_of,
)
from tests.laboratory.chaos.stack import running_stack
from tests.shard_worker.framework.installed import package

pytestmark = [pytest.mark.all, pytest.mark.slow, pytest.mark.timeout(300)]

DEADLINE_SECONDS = 5.0
"""As long as a process may stand still where others use the machine."""
BUSY_SECONDS = 2 * DEADLINE_SECONDS
SLOW = f'''
"""Thinks for long about what asks for two cores."""

import time


class Slow:
    name = "slow"

    def __init__(self, option):
        self.thought = False

    def on_session_open(self, ssn):
        ssn.add_predicate_fn(self.fits)

    def fits(self, cls, node):
        if (0, 2000) in cls.requests and not self.thought:
            self.thought = True
            end = time.monotonic() + {BUSY_SECONDS}
            while (now := time.monotonic()) < end:
                if int(now * 20) % 2:  # half of the time, so that it computes for less
                    time.sleep(0.01)
        return None
'''


async def test_a_turn_of_two_deadlines_costs_no_worker(
    short_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one rule, which lets nothing else of its thread run."""
    monkeypatch.setenv("PYTHONPATH", str(package(tmp_path, "slow", SLOW)))
    policy = tmp_path / "policy.yaml"
    policy.write_text("actions: allocate\ntiers: [{plugins: [{name: gang}, {name: slow}]}]\n")
    long = role_of(1, pod_template(CPU, duration=0.1, amount="2"))
    settings = {"worker_deadline_seconds": DEADLINE_SECONDS, "shards": 1, "policy": policy}
    async with running_stack(short_dir, **settings) as stack:
        epoch = (await stack.api.status())["shards"][0]["epoch"]
        await stack.submit(iter([job_manifest("long", [long], minimum=1)]))
        await stack.until_finished()
        status = await stack.api.status()
        assert (status["workers_lost"], status["shards"][0]["epoch"]) == (0, epoch)
