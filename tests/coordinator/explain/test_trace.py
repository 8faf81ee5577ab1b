"""The trace of a job: every step of its next turns, from the shards that do them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from coordinator.cli.scheduling.trace import lines
from coordinator.explain.job_trace import MOST_TRACES
from laboratory.cli.app import run
from tests.builders.objects import GPU, queue
from tests.coordinator.explain.cluster import asking, job, node, settled
from tests.end_to_end.one_process.harness import Running, running, submit

Step = dict[str, Any]
ROOT = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"


async def traced(service: Running, name: str, **query: int) -> list[Step]:
    """All steps of a trace, once it has ended."""
    async with (
        asking(service) as client,
        client.get(f"{ROOT}/{name}/trace", params=query) as answer,
    ):
        assert answer.status == 200, await answer.text()
        return [json.loads(line) async for line in answer.content]


async def until_traced(service: Running, traces: int = 1) -> None:
    for _ in range(500):
        if sum(map(len, service.service.core.traces.followers.values())) == traces:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("no trace began")


def of(steps: list[Step], stage: str) -> list[Step]:
    return [step for step in steps if step["stage"] == stage]


async def test_a_flat_turn_is_told_from_the_queue_to_the_commit(
    tmp_path: Path, redis_url: str
) -> None:
    async with running(redis_url, tmp_path, shards=2, mode="soft") as service:
        await submit(service, node("a", gpus=8), node("b", gpus=8), node("c"))
        await settled(service, bound=0)
        # A worker that comes up, or a partition that is stored, is a reason to try the job again.
        core = service.service.core
        await service.until(lambda s: all(shard["up"] for shard in s["shards"]))
        await service.until(lambda _: core.partition.at_rest)
        await submit(service, job("wide", 3, gpus=5))
        await service.until(lambda s: s["outcomes"].get("infeasible", 0) > 0)
        trace = asyncio.create_task(traced(service, "wide", turns=1, timeoutSeconds=30))
        await until_traced(service)
        await submit(service, node("d", gpus=8))
        steps = await trace
        traced_jobs = set(service.service.core.order.traced)
    waits, *_ = of(steps, "job")
    assert "NotEnoughResources" in waits["message"] or "Fragmented" in waits["message"]
    (turn,) = of(steps, "turn")
    (nodes,) = of(steps, "predicate")
    assert turn["message"].startswith("allocate of 3 tasks goes to shard-")
    assert nodes["message"] == "3 of 4 nodes can take a task"
    assert nodes["role"] == "worker"
    assert nodes["reasons"] == {f"Insufficient {GPU}": 1}
    (gradient,) = of(steps, "gradient")
    assert sum(gradient["levels"].values()) == 3
    assert gradient["levels"]["L1"] + gradient["levels"]["L2"] == 3
    (scores,) = of(steps, "nodeOrder")
    assert {each["node"] for each in scores["candidates"]} <= {"a", "b", "d"}
    assert all(each["scores"] for each in scores["candidates"])
    (placement,) = of(steps, "placement")
    assert placement["message"].startswith("3 tasks placed")
    assert sorted(placement["nodes"]) == ["a", "b", "d"]
    (commit,) = of(steps, "commit")
    assert commit["message"].startswith("committed")
    assert {step["shard"] for step in (turn, nodes, gradient, commit)} == {turn["shard"]}
    assert of(steps, "outcome")[0]["message"].startswith("placed")
    assert steps[-1] == {"stage": "end", "message": "1 turn told"}
    assert traced_jobs == set()


async def test_a_turn_that_finds_nothing_says_why_it_was_discarded(
    tmp_path: Path, redis_url: str
) -> None:
    async with running(redis_url, tmp_path, shards=1) as service:
        await submit(service, node("a", gpus=8))
        await settled(service, bound=0)
        await submit(service, job("first", 1, gpus=6))
        await settled(service, bound=1)
        await submit(service, job("wide", 2, gpus=2))
        await service.until(lambda s: s["pending_reasons"].get("NotEnoughResources") == 1)
        trace = asyncio.create_task(traced(service, "wide", turns=1, timeoutSeconds=30))
        await until_traced(service)
        # Enough in all, and in no place: worth a turn, which finds that out.
        await submit(service, node("b", gpus=1), node("c", gpus=1))
        steps = await trace
    (placement,) = of(steps, "placement")
    assert placement["message"].startswith("discarded")
    assert of(steps, "commit") == []
    assert of(steps, "outcome")[0]["message"].startswith("infeasible")


async def test_a_queue_that_is_skipped_is_told_with_the_plugin(
    tmp_path: Path, redis_url: str
) -> None:
    async with running(redis_url, tmp_path, shards=1) as service:
        await submit(service, node("a", gpus=8), queue("small", capability={"cpu": "4", GPU: "1"}))
        await settled(service, bound=0)
        await submit(service, job("holds", 1, gpus=1, queue="small"))
        await settled(service, bound=1)
        await submit(service, job("more", 1, gpus=1, queue="small"))
        await service.until(lambda s: s["pending_reasons"].get("WaitingForQuota", 0) == 1)
        steps = await traced(service, "more", timeoutSeconds=1)
    assert any("small" in step["message"] for step in of(steps, "queue")), steps
    assert "WaitingForQuota" in of(steps, "job")[0]["message"]
    assert of(steps, "jobOrder")[0]["message"] == "1 of 1 in queue small"
    assert steps[-1] == {"stage": "end", "message": "1 s are over"}


async def test_impossible_and_excess_traces_are_refused(tmp_path: Path, redis_url: str) -> None:
    async with running(redis_url, tmp_path, shards=1) as service:
        await submit(service, node("a", gpus=1), job("waits", 1, gpus=2), job("runs", 1, gpus=1))
        await settled(service, bound=1)
        ended = await traced(service, "runs")
        assert ended == [{"stage": "end", "message": "nothing of it is left to place"}]
        async with asking(service) as client:
            missing = await client.get(f"{ROOT}/nobody/trace")
            odd = await client.get(f"{ROOT}/waits/trace", params={"turns": "many"})
            open_traces = [await client.get(f"{ROOT}/waits/trace") for _ in range(MOST_TRACES)]
            one_more = await client.get(f"{ROOT}/waits/trace")
            assert (missing.status, odd.status, one_more.status) == (404, 400, 429)
            assert "Retry-After" in one_more.headers
            for answer in open_traces:
                answer.close()
        # Who has left costs nothing any more: neither a place nor a mark.
        await until_traced(service, traces=0)
        assert not service.service.core.order.traced
        assert (await traced(service, "waits", timeoutSeconds=1))[-1]["stage"] == "end"


async def test_the_command_shows_lines_and_json(
    tmp_path: Path, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(redis_url, tmp_path, shards=1) as service:
        await submit(service, node("a", gpus=1), job("waits", 1, gpus=2))
        await service.until(lambda s: s["jobs"].get("total", 1) > 0)

        async def typed(*words: str) -> tuple[int, str, str]:
            capsys.readouterr()
            code = await asyncio.to_thread(run, [*words, "--server", service.url], "quadrant")
            out = capsys.readouterr()
            return code, out.out, out.err

        code, text, error = await typed("trace", "job", "default/waits", "--seconds", "1")
        as_json, report, _ = await typed("trace", "job", "waits", "--seconds", "1", "-o", "json")
        missing, _, unknown = await typed("trace", "job", "nope")
    assert (code, as_json, missing) == (0, 0, 1), error
    assert "ExceedsNodeCapacity" in text or "NotEnough" in text
    assert text.splitlines()[-1] == "End: 1 s are over"
    steps = [json.loads(line) for line in report.splitlines()]
    assert steps[-1]["stage"] == "end"
    assert unknown == 'Error: jobs.batch.volcano.sh "nope" not found\n'


def test_lines_show_reasons_levels_and_scores() -> None:
    step = {
        "time": "2026-01-02T03:04:05.678Z",
        "turn": 1,
        "stage": "predicate",
        "shard": "shard-0",
        "role": "worker",
        "message": "2 of 5 nodes can take a task",
        "reasons": {"Insufficient cpu": 1, "node(s) were unschedulable": 2},
    }
    assert lines(step) == [
        "03:04:05.678  turn 1  shard-0  nodes        worker: 2 of 5 nodes can take a task",
        "                      2 node(s) were unschedulable",
        "                      1 Insufficient cpu",
    ]
    gradient = {"time": "T03:04:05.678Z", "turn": 0, "stage": "gradient", "levels": {"L2": 3}}
    assert lines(gradient)[0].endswith("gradient     idle other 3")
