"""A service with a slow plugin of a third party: the metrics say whose time it is, and where."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from shared.ledger.redis.server import EmbeddedServer
from tests.builders.objects import container, node, pod
from tests.conftest import flush
from tests.coordinator.service.metrics.scrape import scrape, total
from tests.end_to_end.one_process.harness import running, submit
from tests.shard_worker.framework.installed import package

SLEEP = 0.1
SLEEPY = f"""
import time


class Sleepy:
    name = "sleepy"

    def __init__(self, option):
        pass

    def on_session_open(self, ssn):
        ssn.add_predicate_fn(self.passes)
        ssn.add_job_starving_fn(lambda job: False)

    def passes(self, cls, node):
        time.sleep({SLEEP})
"""
POLICY = "actions: allocate\ntiers: [{plugins: [{name: gang}, {name: binpack}, {name: sleepy}]}]\n"


async def test_the_metrics_name_the_slow_plugin_and_its_extension_point(
    embedded_server: EmbeddedServer,
    short_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(package(tmp_path, "sleepy", SLEEPY)))
    monkeypatch.delitem(sys.modules, "sleepy", raising=False)
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    flush(embedded_server)
    pods = [pod(f"p{cpu}", containers=[container(cpu=str(cpu))]) for cpu in (1, 2)]
    async with running(embedded_server.url, short_dir, policy=file, shards=1) as parts:
        await submit(parts, node("n0"), *pods)
        await parts.until(lambda s: s["tasks"]["bound"] == 2 and not s["open_turns"])
        series = await scrape(parts.url)
    slow = {"plugin": "sleepy", "point": "Predicate", "shard": "0"}
    assert total(series, "plugin_calls_total", **slow) >= 2
    assert total(series, "plugin_seconds_total", **slow) >= 2 * SLEEP
    assert total(series, "plugin_calls_total", plugin="sleepy", point="JobStarving") == 0
    times = {
        (dict(labels)["plugin"], dict(labels)["point"]): value
        for (name, labels), value in series.items()
        if name == "plugin_seconds_total" and dict(labels)["shard"] == "0"
    }
    assert max(times, key=lambda name: times[name]) == ("sleepy", "Predicate")
    assert ("binpack", "NodeOrder") in times
