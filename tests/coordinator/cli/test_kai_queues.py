"""KAI's tree of queues on the command line, and what explain says of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from tests.coordinator.cli.conftest import Quadrant
from tests.coordinator.cli.test_service import Command
from tests.end_to_end.one_process.harness import running

TREE = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "16", memory: 64Gi, pods: "20", nvidia.com/gpu: "8"}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: all}
spec:
  resources:
    cpu: {quota: -1, limit: -1, overQuotaWeight: 1}
    memory: {quota: -1, limit: -1, overQuotaWeight: 1}
    gpu: {quota: 4, limit: 5, overQuotaWeight: 1}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: red}
spec:
  parentQueue: all
  priority: 200
  resources:
    cpu: {quota: -1, limit: -1, overQuotaWeight: 1}
    memory: {quota: -1, limit: -1, overQuotaWeight: 1}
    gpu: {quota: 2, limit: -1, overQuotaWeight: 3}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: blue}
spec:
  parentQueue: all
  resources:
    cpu: {quota: -1, limit: -1, overQuotaWeight: 1}
    memory: {quota: -1, limit: -1, overQuotaWeight: 1}
    gpu: {quota: 2, limit: -1, overQuotaWeight: 1}
"""


def gang(name: str, queue: str, pods: int) -> str:
    """A PodGroup of so many pods of one GPU."""
    group = f"""
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {{name: {name}}}
spec: {{queue: {queue}, minMember: {pods}}}
"""
    members = "".join(
        f"""---
apiVersion: v1
kind: Pod
metadata: {{name: {name}-{i}, annotations: {{pod-group-name: {name}}}}}
spec:
  schedulerName: kai-scheduler
  containers: [{{name: c, resources: {{requests: {{cpu: "1"}}, limits: {{nvidia.com/gpu: "1"}}}}}}]
"""
        for i in range(pods)
    )
    return group + members


@pytest.fixture
async def command(quadrant: Quadrant, redis_url: str, short_dir: Path) -> AsyncIterator[Command]:
    """A service under KAI's default policy: four of five GPUs are taken, and two gangs wait."""
    policy = short_dir / "kai.yaml"
    policy.write_text("dialect: kai\nactions: allocate\n")
    async with running(redis_url, short_dir, shards=2, policy=str(policy)) as service:
        command = Command(quadrant, service)
        for text in (TREE, gang("first", "red", 4)):
            await command("apply", "-f", "-", stdin=text)
        await service.until(lambda status: status["tasks"]["running"] == 4)
        for text in (gang("second", "red", 2), gang("third", "blue", 3)):
            await command("apply", "-f", "-", stdin=text)
        await service.until(lambda status: status["jobs"]["pending"] == 2)
        yield command


async def test_the_queue_tree_shows_figures_and_the_next_job(
    command: Command, tmp_path: Path
) -> None:
    result = await command("queue", "list")
    assert result.lines[0].split()[:4] == ["NAME", "RESOURCE", "QUOTA", "LIMIT"]
    rows = {tuple(line.split()[:2]): line.split()[2:] for line in result.lines[1:]}
    assert rows["all", "gpu"] == ["4", "5", "1", "5", "4", "0", "9", "-", "2"]
    assert rows["red", "gpu"] == ["2", "unlimited", "3", "3", "4", "0", "6", "-", "1"]
    assert rows["blue", "gpu"] == ["2", "unlimited", "1", "2", "0", "0", "3", "-", "1"]
    assert result.out.splitlines()[4].startswith("  red")
    described = await command("queue", "describe", "red")
    assert "fair-share" in described.out.lower()
    assert "blue" not in described.out.split("\n\n")[0]
    assert "Parent Queue" in described.out or "parentQueue" in described.out

    order = await command("queue", "order")
    first, second = order.lines[1:]
    assert first.startswith("1 red default/second 2 cpu, 2 nvidia.com/gpu"), "no quota has room"
    assert "red before blue: PRIORITY (their priorities differ" in first
    assert second.startswith("2 blue default/third 3 cpu, 3 nvidia.com/gpu")
    steps = json.loads((await command("queue", "order", "-o", "json")).out)["order"]
    assert [step["step"] for step in steps[0]["decided"]] == ["PRIORITY"]
    assert not steps[1]["decided"]

    dump = (await command("snapshot")).out
    kinds = {(item["apiVersion"], item["kind"]) for item in yaml.safe_load(dump)["items"]}
    assert {("scheduling.run.ai/v2", "Queue"), ("scheduling.run.ai/v2alpha2", "PodGroup")} <= kinds
    file = tmp_path / "now.yaml"
    file.write_text(dump)
    shares = json.loads(command._quadrant("queue", "shares", str(file), "-o", "json").out)
    fair = {queue["name"]: queue["resources"]["gpu"]["fairShare"] for queue in shares["queues"]}
    assert fair == {"all": "5", "red": "3", "blue": "2"}


async def test_pairs_are_by_fair_shares(command: Command) -> None:
    answer = json.loads((await command("queue", "pairs", "-o", "json")).out)
    (gpus,) = answer["resources"]
    assert [list(pair.values())[:4] for pair in gpus["pairs"]] == [
        ["blue", "queue", "red", "1"],
        ["blue", "free", "", "1"],
    ]
    assert (gpus["lacking"], gpus["borrowed"]) == ("2", "1")
    sentence = (await command("queue", "pairs")).lines[-1]
    assert "(1 with queue red, 1 free, but not usable yet)" in sentence


async def test_the_word_of_explain_is_that_of_get_describe_and_events(command: Command) -> None:
    sentence = "queue all, above red, uses 4 of the 5 nvidia.com/gpu it may have, the job asks 2"
    answer = json.loads((await command("explain", "podgroup", "second", "-o", "json")).out)
    assert answer["of"]["kind"] == "PodGroup"
    assert (answer["reason"], answer["message"].split(";")[0]) == ("WaitingForQuota", sentence)
    assert [row["queue"] for row in answer["quota"]] == ["red", "all"]
    top = answer["quota"][1]
    assert (top["allocated"]["nvidia.com/gpu"], top["quota"], top["fairShare"]) == (
        "4",
        {"nvidia.com/gpu": "4"},
        {"nvidia.com/gpu": "5", "cpu": top["fairShare"]["cpu"]},
    )
    assert answer["next"] == "woken when queue all uses less, or gets more"
    assert any(entry["change"] == "1 nvidia.com/gpu more for queue all" for entry in answer["if"])
    text = (await command("explain", "job", "second")).out
    assert "all: has" in " ".join(text.split())
    pod = json.loads((await command("explain", "pod", "second-0", "-o", "json")).out)
    assert pod["message"] == answer["message"]
    group = await command("get", "podgroup", "second", "-o", "json")
    status = json.loads(group.out)["status"]
    (condition,) = status["schedulingConditions"]
    assert condition["message"] == f"WaitingForQuota: {answer['message']}"
    assert condition["reasons"][0]["reason"] == "OverLimit"
    described = " ".join((await command("describe", "podgroup", "second")).out.split())
    assert sentence in described
    events = " ".join((await command("events", "--for", "podgroup/second")).out.split())
    assert f"WaitingForQuota: {sentence}" in events
    plan = await command("plan", "-f", "-", stdin=gang("fourth", "red", 6), code=11)
    assert "queue all may have 5 at most; raise its limit" in " ".join(plan.out.split())
    plan = await command("plan", "-f", "-", stdin=gang("fifth", "red", 2), code=10)
    assert sentence.replace(" uses ", " would use ") in " ".join(plan.out.split())


def test_shares_of_a_file(quadrant: Quadrant, tmp_path: Path) -> None:
    file = tmp_path / "tree.yaml"
    file.write_text(TREE)
    result = quadrant("queue", "shares", str(file), "--total", "nvidia.com/gpu=16")
    assert (result.code, result.lines[1].split()[:6]) == (0, ["all", "gpu", "4", "5", "1", "5"])
    assert [line.split()[5] for line in result.lines[1:]] == ["5", "3", "2"]
    file.write_text(TREE.split("---", 1)[1].replace("parentQueue: all", "parentQueue: gone", 1))
    nothing = quadrant("queue", "shares", str(file))
    assert (nothing.code, "write --total" in nothing.err) == (2, True)
    lost = quadrant("queue", "shares", str(file), "--total", "nvidia.com/gpu=16")
    assert "queue red is left out" in lost.err
    wrong = quadrant("queue", "shares", str(file), "--total", "nvidia.com/gpu")
    assert (wrong.code, "write RESOURCE=AMOUNT" in wrong.err) == (2, True)
    file.write_text(TREE.replace("quota: 4", "qouta: 4"))
    mistake = quadrant("queue", "shares", str(file))
    assert "spec.resources.gpu.qouta" in mistake.err


async def test_top_shows_kais_tree_with_its_columns(command: Command) -> None:
    out = (await command("top", "--once")).out
    rows = [line.split() for line in out.splitlines()]
    heads = ["QUEUE", "RESOURCE", "QUOTA", "LIMIT", "FAIR-SHARE"]
    assert [*heads, "ALLOCATED", "PENDING"] in rows
    figures = {(row[0], row[1]): row[2:] for row in rows if len(row) > 4}
    assert figures["all", "gpu"][:2] == ["4", "5"]
    assert figures["red", "gpu"][:2] == ["2", "unlimited"]
    assert "  red" in out, "children stand below their parents"
