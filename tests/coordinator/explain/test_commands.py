"""The two commands against a service: text that fits, JSON, exit codes, what they load."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coordinator.cli.scheduling.explain_text import explanation
from laboratory.cli.app import run
from tests.builders.objects import GPU, Item, a_list, queue
from tests.coordinator.explain.cluster import job, node, settled, tried
from tests.end_to_end.one_process.harness import Running, running, submit


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")


class Shell:
    def __init__(self, service: Running, capsys: pytest.CaptureFixture[str]) -> None:
        self._url = service.url
        self._capsys = capsys

    async def type(self, *words: str) -> tuple[int, str, str]:
        """Exit code, output and errors of a command."""
        self._capsys.readouterr()
        code = await asyncio.to_thread(run, [*words, "--server", self._url], "quadrant")
        out = self._capsys.readouterr()
        return code, out.out, out.err


async def test_explain_in_text_and_json(
    tmp_path: Path, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(redis_url, tmp_path, shards=1) as service:
        shell = Shell(service, capsys)
        await submit(service, node("a", gpus=8), node("b", gpus=8), node("c"))
        await submit(service, job("runs", 2, gpus=5))
        await settled(service, bound=2)
        await submit(service, job("wide", 3, gpus=2))
        await tried(service)
        code, text, _ = await shell.type("explain", "job", "default/wide")
        pod, pod_text, _ = await shell.type("explain", "pod", "wide-worker-2", "-n", "default")
        as_json, report, _ = await shell.type("explain", "job", "wide", "-o", "json")
        missing, _, error = await shell.type("explain", "job", "nope")
        usage, _, odd = await shell.type("explain", "job", "a/b/c")
    assert (code, pod, as_json, missing, usage) == (0, 0, 0, 1, 2)
    lines = text.splitlines()
    assert all(len(line) <= 80 for line in lines)
    heads = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert heads == ["JOB", "WHY", "ROOM", "QUOTA", "NODES", "NEAR", "IF", "TRIED", "NEXT"]
    assert "default/wide  queue default  Pending" in text
    assert "Fragmented: 3 cpu, 6 nvidia.com/gpu are free in total, but not where" in text
    assert "ROOM    gang of 3 (worker), 2 can start now" in text
    assert f"3 = 3 {GPU} + 0 fit" in text or f"3 = 1 {GPU} + 2 fit" in text
    assert "a minimum of 2 instead of 3: fits now" in text
    assert "wide-worker-2  role worker  Pending" in pod_text
    assert json.loads(report)["reason"] == "Fragmented"
    assert error == 'Error: jobs.batch.volcano.sh "nope" not found\n'
    assert "write NAME or NAMESPACE/NAME" in odd


async def test_the_exit_code_of_plan_is_its_verdict(
    tmp_path: Path, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(redis_url, tmp_path, shards=1) as service:
        shell = Shell(service, capsys)
        await submit(service, node("a", gpus=8), queue("lab", capability={GPU: "4"}))
        await submit(service, job("runs", 1, gpus=5))
        await settled(service, bound=1)
        results = {
            name: await shell.type("plan", "-f", write(tmp_path / f"{name}.json", *items))
            for name, items in {
                "now": [job("fits", 3, gpus=1)],
                "waits": [job("fits", 3, gpus=1), job("waits", 1, gpus=2)],
                "never": [job("never", 1, gpus=9), job("waits", 1, gpus=4)],
                "quota": [job("beyond", 1, gpus=5, queue="lab")],
            }.items()
        }
        code, report, _ = await shell.type("plan", "-f", str(tmp_path / "now.json"), "-o", "yaml")
        broken, _, error = await shell.type("plan", "-f", str(tmp_path / "none.json"))
    codes = {name: code for name, (code, _, _) in results.items()}
    assert codes == {"now": 0, "waits": 10, "never": 11, "quota": 11}
    now = results["now"][1]
    assert "+ Job default/fits: 3 tasks now on a (3) [L1 of shard-0]" in now
    assert "1 job: 1 now; 3 of 3 tasks could start now" in now
    assert f"To submit: quadrant apply -f {tmp_path / 'now.json'}" in now
    assert "~ Job default/waits: not now, NotEnoughResources" in results["waits"][1]
    assert "! Job default/never: never, ExceedsNodeCapacity" in results["never"][1]
    assert "quadrant apply" not in results["never"][1]
    assert all(
        len(line) <= 80 or str(tmp_path) in line
        for _, text, _ in results.values()
        for line in text.splitlines()
    )
    assert (code, "kind: Plan" in report) == (0, True)
    assert (broken, "cannot be read" in error) == (1, True)


def write(path: Path, *items: Item) -> str:
    path.write_text(json.dumps(a_list(*items)))
    return str(path)


def test_the_shape_of_an_explanation() -> None:
    answer: dict[str, Any] = {
        "of": {"kind": "Job", "namespace": "default", "name": "train-7"},
        "queue": "research",
        "phase": "Pending",
        "ageSeconds": 252.0,
        "position": 3,
        "waiting": 41,
        "ahead": ["research/train-5", "ops/bench-1"],
        "reason": "Fragmented",
        "message": "64 nvidia.com/gpu are free in total, but not where its tasks fit: 774 "
        "nodes: 774 Insufficient nvidia.com/gpu",
        "room": "gang of 8, 5 can start now",
        "evaluatedAt": "2026-01-02T03:04:05.200Z",
        "shard": 3,
        "session": 18231,
        "epoch": "7:ab",
        "nodes": {
            "total": 1213,
            "fits": 0,
            "first": [
                {"check": "taint dedicated=infer", "count": 37},
                {"check": "label gpu-model=a100", "count": 402},
                {"check": GPU, "count": 774},
            ],
        },
        "near": [
            {
                "node": "node-118",
                "shard": 2,
                "lacks": [{"resource": GPU, "needs": "8", "idle": "6", "futureIdle": "8"}],
                "heldBy": [],
                "leaving": ["default/eval-3"],
            }
        ],
        "if": [
            {"change": f"4 {GPU} per task", "fits": True, "starts": 8, "nodes": 0},
            {"change": "tolerate dedicated=infer", "fits": False, "starts": 7, "nodes": 31},
        ],
        "attempts": {
            "placed": 0,
            "nominated": 0,
            "infeasible": 9,
            "trueConflicts": 1,
            "readConflicts": 2,
            "shards": 4,
        },
        "next": "woken when capacity is freed or nodes come",
    }
    assert explanation(answer, columns=80, now=1767323046.0) == [
        "JOB     default/train-7  queue research  Pending 4m12s  position 3 of 41",
        "WHY     Fragmented: 64 nvidia.com/gpu are free in total, but not where its tasks",
        "          fit: 774 nodes: 774 Insufficient nvidia.com/gpu",
        "        evaluated 0.8s ago by shard-3, session 18231, epoch 7:ab",
        "ROOM    gang of 8, 5 can start now",
        "NODES   1213 = 37 taint dedicated=infer + 402 label gpu-model=a100 +",
        "        774 nvidia.com/gpu + 0 fit",
        "NEAR    node-118 (shard-2) needs 8 nvidia.com/gpu: idle 6, future idle 8 when",
        "        default/eval-3 has left",
        "IF      4 nvidia.com/gpu per task: fits now",
        "        tolerate dedicated=infer: +31 nodes, 7 tasks could start",
        "AHEAD   research/train-5, ops/bench-1",
        "TRIED   9 turns on 4 shards: 9 infeasible, 2 read and 1 true conflicts",
        "NEXT    woken when capacity is freed or nodes come",
    ]


@pytest.mark.parametrize("module", ["explain", "explain_text", "plan", "plan_text"])
def test_the_commands_load_nothing_heavy(module: str) -> None:
    code = (
        f"import sys, coordinator.cli.scheduling.{module}; "
        "print([m for m in ('ray', 'numpy', 'aiohttp', 'pydantic_settings') if m in sys.modules])"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert out.stdout == "[]\n"
