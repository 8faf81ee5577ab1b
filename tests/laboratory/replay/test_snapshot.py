"""A snapshot of a running service, replayed: the same pods go to the same nodes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import yaml
from typer.testing import CliRunner

from laboratory.cli.app import app
from laboratory.replay.cases import Case, read_cases
from laboratory.replay.outcome import ReplayResult
from shard_worker.worker.transport import PlaceReply
from shared.messages.messages import Turn
from tests.end_to_end.one_process.harness import DirectShards, Running, running, submit
from tests.laboratory.replay.build import gang, node, sessions


class GatedShards(DirectShards):
    """Turns are not answered before the gate is open."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.gate = asyncio.Event()
        self.gate.set()

    async def place(self, shard: int, turns: list[Turn], *, call: int) -> PlaceReply:
        if turns:
            await self.gate.wait()
        return await super().place(shard, turns, call=call)


NODES = [node("n0", cpu=3), node("n1", cpu=5), node("n2", cpu=9)]


def cases(text: str) -> Case:
    [case] = read_cases([("now.yaml", [yaml.safe_load(text)])])
    return case


async def snapshot(service: Running) -> str:
    def ask() -> str:
        result = CliRunner().invoke(app, ["snapshot", "--server", service.url])
        assert result.exit_code == 0, result.output
        return result.stdout

    return await asyncio.to_thread(ask)


def test_replay_places_pending_pods_like_the_service(redis_url: str, tmp_path: Path) -> None:
    replayed, placed = asyncio.run(_both(redis_url, tmp_path))
    assert replayed.binds == placed
    assert len(placed) == 6
    assert replayed.pod_groups["ns/wide"]["phase"] != "Running"


async def _both(url: str, path: Path) -> tuple[ReplayResult, dict[str, str]]:
    """Binds of a replay, and the final nodes of the pods that waited."""
    workers = GatedShards(url)
    async with running(url, path, workers=workers, shards=1) as service:
        await submit(service, *NODES, *gang("runs", pods=2, cpu=2))
        await service.until(lambda status: status["tasks"]["running"] == 2)
        workers.gate.clear()
        for name, pods, cpu in (("first", 3, 2), ("wide", 9, 1), ("second", 3, 1)):
            await submit(service, *gang(name, pods=pods, cpu=cpu))
        before = await snapshot(service)
        workers.gate.set()
        await service.until(lambda status: status["tasks"]["running"] == 8)
        after = cases(await snapshot(service))
    [replayed] = sessions(cases(before))
    return replayed, _where(after) - _where(cases(before))


class _Where(dict[str, str]):
    def __sub__(self, other: dict[str, str]) -> dict[str, str]:
        return {pod: node for pod, node in self.items() if pod not in other}


def _where(case: Case) -> _Where:
    nodes = {node.row: node.name for node in case.recorded.nodes}
    return _Where(
        {
            f"{placed_job.job.namespace}/{placed_job.job.pod_name(tix)}": nodes[row]
            for placed_job in case.recorded.placed_jobs
            for tix, row in placed_job.rows.items()
        }
    )
