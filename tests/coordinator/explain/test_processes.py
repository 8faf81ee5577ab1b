"""Explain and plan between real processes: the questions travel to Ray actors and back."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from aiohttp import ClientSession

from coordinator.supervisor.supervisor import Supervisor
from laboratory.cli.stack import Sender, until_nodes_are_shared_out
from laboratory.workloads.bulk_client import BulkClient
from shared.settings.settings import load_settings
from tests.builders.objects import Item, a_list
from tests.coordinator.explain.cluster import job, node
from tests.coordinator.explain.test_plan import PLANS

pytestmark = pytest.mark.all

EXPLAIN = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs/waits/explain"


@pytest.mark.slow
async def test_workers_in_other_processes_answer_and_a_missing_one_is_reported(
    short_dir: Path,
) -> None:
    settings = load_settings(run_dir=short_dir, shards=1)
    async with (
        Supervisor(settings) as running,
        BulkClient(running.url) as api,
        ClientSession(running.url) as client,
    ):
        await Sender(api).send([node("a", gpus=8), job("waits", 9, gpus=1)])
        await until_nodes_are_shared_out(api, nodes=1)

        async def ask(path: str, body: Item | None = None) -> Item:
            async with client.post(path, json=body or {}) as answer:
                report: Item = await answer.json()
                assert answer.status == 200, report
                return report

        report = await ask(EXPLAIN)
        assert report["nodes"]["total"] == 1
        assert report["reason"] == "NotEnoughResources"
        listed = a_list(job("new", 2, gpus=4))
        assert (await ask(PLANS, listed))["jobs"][0]["nodes"] == [{"node": "a", "tasks": 2}]

        (worker,) = running.worker_pids()
        os.kill(worker, signal.SIGKILL)
        report = await ask(EXPLAIN)
        assert report["reason"] == "NotEnoughResources"
        assert "nodes" in report or "remembers" in report["incomplete"]
