"""A service with a plugin of a third party that raises. About 2 s: one service, two shards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest
from structlog.typing import EventDict

from shared.ledger.redis.server import EmbeddedServer
from tests.builders.objects import container, node, pod, pod_group, queue
from tests.conftest import flush
from tests.end_to_end.one_process.harness import running, submit
from tests.shard_worker.framework.installed import frail_policy, install_frail


@pytest.fixture
def raising_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Installs the plugin; returns the file of a policy whose plugin raises at a point."""
    install_frail(tmp_path, monkeypatch)

    def policy(at: str) -> Path:
        file = tmp_path / "policy.yaml"
        file.write_text(frail_policy(at))
        return file

    return policy


async def test_its_jobs_wait_by_name_the_service_is_degraded_and_no_worker_is_lost(
    embedded_server: EmbeddedServer,
    short_dir: Path,
    raising_at: Callable[[str], Path],
    log_lines: list[EventDict],
) -> None:
    file = raising_at("LivePredicate")
    flush(embedded_server)
    two = [container(cpu="2")]
    pods = [pod("bad", containers=two), pod("worse", containers=two), pod("good")]
    async with running(embedded_server.url, short_dir, policy=file) as parts:
        await submit(parts, node("n0"), node("n1"))
        await parts.until(lambda s: sum(shard["nodes"] for shard in s["shards"]) == 2)
        await submit(parts, *pods)
        status = await parts.until(
            lambda s: (
                s["pending_reasons"].get("PluginError") == 2
                and s["tasks"]["running"] == 1
                and not s["open_turns"]
            )
        )
        turns = dict(status["outcomes"])
        async with aiohttp.ClientSession(parts.url) as client:
            async with client.get("/health") as reply:
                assert reply.status == 200
                health = await reply.json()
            async with client.get("/metrics") as reply:
                metrics = await reply.text()
            async with client.get("/api/v1/namespaces/ns/pods/bad") as reply:
                text = await reply.text()
        assert (health["healthy"], health["ready"]) == (False, True)
        (check,) = [c for c in health["checks"] if not c["healthy"]]
        assert check["name"] == "plugins"
        assert check["message"] == (
            "plugin frail raised KeyError at LivePredicate; 2 jobs wait for it"
        )
        assert f'quadrant_plugin_errors_total{{plugin="frail"}} {turns["infeasible"]}' in metrics
        assert "plugin frail raised at LivePredicate: KeyError: 'rack'" in text
        assert parts.service.status()["workers_lost"] == 0
        assert parts.service.status()["outcomes"] == turns  # nothing changed: nothing is tried
        logged = [line for line in log_lines if line["event"].startswith("A plugin raised")]
        assert [line["plugin"] for line in logged] == ["frail"]
        assert "in fail" in logged[0]["traceback"]


@pytest.mark.parametrize(
    "at",
    [
        "JobOrder",
        "TaskOrder",
        "QueueOrder",
        "JobValid",
        "Overused",
        "Allocatable",
        "JobReady",
        "JobStarving",
        "JobEnqueueable",
    ],
)
async def test_a_plugin_error_in_the_coordinator_holds_only_its_job(
    embedded_server: EmbeddedServer,
    short_dir: Path,
    raising_at: Callable[[str], Path],
    log_lines: list[EventDict],
    at: str,
) -> None:
    """A gang of three in the plugin's queue waits by the plugin's name; a job of another queue,
    stored after it, runs."""
    file = raising_at(at)
    flush(embedded_server)
    group = pod_group("bad", minMember=3, queue="frail", minResources={"cpu": "3"})
    bad = [pod(f"bad-{i}", group="bad") for i in range(3)]
    items = [node("n0"), node("n1"), queue("frail"), group, *bad, pod("good")]
    async with running(embedded_server.url, short_dir, policy=file) as parts:
        await submit(parts, *items)
        await parts.until(
            lambda s: s["pending_reasons"].get("PluginError") == 1 and s["jobs"]["running"] == 1
        )
        async with aiohttp.ClientSession(parts.url) as client:
            async with client.get("/health") as reply:
                checks = {c["name"]: c["message"] for c in (await reply.json())["checks"]}
            async with client.get("/metrics") as reply:
                metrics = await reply.text()
            async with client.get("/api/v1/namespaces/ns/pods/bad-0") as reply:
                text = await reply.text()
        logged = [line for line in log_lines if line["event"].startswith("A plugin raised")]
        (error,) = logged
        assert (error["plugin"], error["point"]) == ("frail", at)
        assert error["traceback"].startswith("Traceback")
        raised = f"plugin frail raised {error['exception']} at {at}"
        assert checks["plugins"] == f"{raised}; 1 job wait for it"
        assert f"plugin frail raised at {at}: {error['exception']}" in text
        assert 'quadrant_plugin_errors_total{plugin="frail"}' in metrics
        assert parts.service.status()["workers_lost"] == 0
        # It goes on serving: what comes now runs as well.
        await submit(parts, pod("later"))
        await parts.until(lambda s: s["jobs"]["running"] == 2)
