"""Policies end to end: intake, a real ledger, workers, a simulated cluster."""

from __future__ import annotations

from pathlib import Path

from coordinator.objects.kinds import POD
from tests.controller.support import (
    gone,
    job,
    ledger_of,
    node,
    phase,
    shown,
    status,
    submit,
    task,
    when,
)
from tests.service.harness import running

RESTART = [when("PodFailed", "RestartJob")]


async def test_a_failed_pod_begins_the_job_anew_until_it_may_not_any_more(
    tmp_path: Path, url: str
) -> None:
    async with running(url, tmp_path, grace=0.01) as service:
        bad, good = task("bad", 1, runs=0.02, code=3), task("good", 2)
        await submit(service, node(), job("j", bad, good, policies=RESTART, maxRetry=3))
        ended = await phase(service, "j", "Failed")
        assert ended["retryCount"] == 3
        assert ended["state"]["reason"] == "PodFailed"
        assert service.service.status()["jobs"]["deleted"] == 3  # incarnations
        assert not service.service.core.order.jobs
        snapshot = await ledger_of(service)
        assert (snapshot.jobs, snapshot.tasks) == ({}, {})
        assert list(service.service.objects.list(POD, namespace="ns", limit=None).items) == []
        service.service.core.validate()
