"""Two versions of the package on the Ray nodes of one cluster: they serve side by side where they
have the same wire, and where they have not, the one that is not the coordinator's gets nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson
import pytest

from coordinator.dispatch.worker_client import OtherVersion, RayShards
from coordinator.supervisor.supervisor import COORDINATOR, Supervisor
from laboratory.checker.check import check
from laboratory.workloads.bulk_client import BulkClient
from laboratory.workloads.generators import DURATION
from shard_worker.worker.transport import WorkerConfig
from shared.ledger.redis.access import Access
from shared.messages.messages import Epoch
from shared.settings.settings import Settings, load_settings
from tests.builders.objects import a_list, node, pod
from tests.end_to_end.real_processes.ray_nodes import (
    VERSION_BEFORE,
    RayNodes,
    ray_nodes,
    version_before,
    with_another_message,
    with_another_method,
    without_a_handshake,
)

pytestmark = [pytest.mark.all, pytest.mark.slow, pytest.mark.timeout(900)]

WITHIN = 300.0
NODES, PODS = 6, 24
LONG = 1e6
"""Seconds of a pod that is not to end."""


@pytest.fixture
def nodes(short_dir: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RayNodes]:
    # A Ray driver has the workers look for packages in its working directory first.
    monkeypatch.chdir(short_dir)
    # Ray writes it at a user's first `ray.init()`: from then on his heads ask for it by default.
    (home / ".ray").mkdir()
    (home / ".ray/auth_token").write_text("0" * 64)
    with ray_nodes(short_dir) as nodes:
        yield nodes


def settings_of(nodes: RayNodes, short_dir: Path) -> Settings:
    return load_settings(
        run_dir=short_dir / "run",
        shards=2,
        ray_address=nodes.address,
        worker_cpus=1.0,
        grace=0.05,
        speedup=100.0,
        worker_deadline_seconds=20.0,
    )


def lasting(name: str, seconds: float) -> dict[str, Any]:
    pod_item = pod(name)
    pod_item["metadata"].setdefault("annotations", {})[DURATION] = str(seconds)
    return pod_item


class VersionedService:
    def __init__(self, api: BulkClient) -> None:
        self.api = api

    async def submit(self, *items: dict[str, Any]) -> None:
        assert not (await self.api.submit(orjson.dumps(a_list(*items)))).refused

    async def until(self, done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + WITHIN
        while not done(status := await self.api.status()):
            assert time.monotonic() < deadline, status
            await asyncio.sleep(0.1)
        return status

    async def work(self, name: str) -> None:
        """Jobs come, are placed and end."""
        finished = (await self.api.status())["jobs"]["finished"]
        await self.submit(*(lasting(f"{name}-{i}", 1.0) for i in range(PODS)))
        await self.until(lambda status: bool(status["jobs"]["finished"] >= finished + PODS))

    async def health(self, check: str) -> str:
        checks = (await self.api.get("/health"))["checks"]
        return str(next(result["message"] for result in checks if result["name"] == check))


def both_up(status: dict[str, Any]) -> bool:
    return all(shard["up"] for shard in status["shards"])


def placed_by(history: Path) -> set[int]:
    """The shards whose statements placed something."""
    events = [orjson.loads(line) for line in history.read_bytes().splitlines()]
    return {int(event["writer"]) for event in events if event.get("statements")}


async def test_workers_of_two_versions_with_one_wire_serve_side_by_side(
    nodes: RayNodes, short_dir: Path
) -> None:
    nodes.start_head()
    nodes.start(1, version_before(short_dir / "before"))
    settings = settings_of(nodes, short_dir)
    async with Supervisor(settings) as parts, BulkClient(*parts.urls) as api:
        service = VersionedService(api)
        await service.submit(*(node(f"n{i}") for i in range(NODES)))
        await service.until(both_up)
        serving = [
            line for line in parts.log(COORDINATOR).read_text().splitlines() if SERVES in line
        ]
        assert len(serving) == 1, "one worker of each version"
        assert VERSION_BEFORE in serving[0]
        for round_ in range(3):
            await service.work(f"r{round_}")
        assert await service.health("worker_versions") == "ok"
    assert placed_by(settings.history) == {0, 1}
    report = check(settings.history, closed=True)
    assert report.ok, [str(violation) for violation in report.violations]
    assert report.summary.jobs_finished == 3 * PODS


SERVES = "A worker of another version serves"


async def test_a_node_with_another_wire_gets_nothing_until_it_is_replaced(
    nodes: RayNodes, short_dir: Path
) -> None:
    """Running work is not touched by any of it."""
    nodes.start_head()
    nodes.start(1, version_before(short_dir / "before", with_another_message))
    settings = settings_of(nodes, short_dir)
    async with Supervisor(settings) as parts, BulkClient(*parts.urls) as api:
        service = VersionedService(api)
        await service.submit(*(node(f"n{i}") for i in range(NODES)), lasting("long", LONG))
        status = await service.until(lambda status: any(s["refused"] for s in status["shards"]))
        (why,) = {shard["refused"] for shard in status["shards"] if shard["refused"]}
        assert f"on Ray node 127.0.1.2 is version {VERSION_BEFORE} (schema " in why
        assert f"this coordinator is version {version('quadrant')} (schema " in why
        assert "replace that Ray node by one of the coordinator's image" in why
        await service.until(lambda status: sum(s["up"] for s in status["shards"]) == 1)
        assert why in await service.health("worker_versions")
        await service.work("alone")

        nodes.stop(1)
        nodes.start(1)
        status = await service.until(both_up)
        assert not any(shard["refused"] for shard in status["shards"])
        assert await service.health("worker_versions") == "ok"
        await service.work("together")
        assert (await api.status())["tasks"]["running"] == 1, "the long one"
    report = check(settings.history)
    assert not report.violations, [str(violation) for violation in report.violations]


async def test_an_unidentified_worker_is_refused_on_each_node(
    nodes: RayNodes, short_dir: Path
) -> None:
    """One is from before it was asked, of the other's package Ray can make no actor."""
    nodes.start_head(cpus=0)
    nodes.start(1, version_before(short_dir / "before", without_a_handshake))
    nodes.start(2, version_before(short_dir / "other", with_another_method))
    shards = RayShards(address=nodes.address, cluster="c", call_seconds=30.0, cpus=1.0)
    joined = asyncio.create_task(shards.keep_joined())
    try:
        refused = []
        for counter in range(1, 4):
            with pytest.raises(OtherVersion) as error:
                await shards.start(config(Epoch(counter, "nonce")))
            await shards.give_up(0)
            refused.append(error.value)
        sentences = [str(error) for error in refused]
        assert all("is a version that cannot tell which it is, and" in why for why in sentences)
        hosts = [why.partition("on Ray node ")[2].split()[0] for why in sentences]
        assert set(hosts[:2]) == {"127.0.1.2", "127.0.1.3"}
        if refused[2].pause:
            assert hosts[2] in hosts[:2], "not started: neither is to be tried again yet"
    finally:
        joined.cancel()
        await shards.close()


def config(epoch: Epoch) -> WorkerConfig:
    """Configuration of a worker that never gets it."""
    return WorkerConfig(
        shard=0,
        epoch=epoch,
        run_id="",
        mode="none",
        seed=0,
        policy=None,
        access=Access(""),
        nomination_seconds=1.0,
    )
