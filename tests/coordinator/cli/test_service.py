"""The command against a whole service: what is typed, and what comes of it in the cluster."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.coordinator.cli.conftest import CommandOutput, Quadrant
from tests.end_to_end.one_process.harness import Running, running

NODES = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1, labels: {zone: a}},
   status: {allocatable: {cpu: "4", memory: 16Gi, pods: "10"}}}
- {apiVersion: v1, kind: Node, metadata: {name: n2, labels: {zone: b}},
   status: {allocatable: {cpu: "4", memory: 16Gi, pods: "10"}}}
"""
GANG = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: research}
spec: {weight: 2}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: train}
spec: {minMember: 2, queue: research}
---
# members
apiVersion: v1
kind: Pod
metadata: {name: train-0, labels: {app: train},
           annotations: {scheduling.k8s.io/group-name: train}}
spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: train-1, labels: {app: train},
           annotations: {scheduling.k8s.io/group-name: train}}
spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
"""
GANG_LABELS = [
    "queue.scheduling.volcano.sh/research",
    "podgroup.scheduling.volcano.sh/train",
    "pod/train-0",
    "pod/train-1",
]


class Command:
    """``await quadrant("get", "pods")`` beside the service's loop."""

    def __init__(self, quadrant: Quadrant, service: Running) -> None:
        self._quadrant = quadrant
        self.service = service

    async def __call__(self, *words: str, stdin: str = "", code: int = 0) -> CommandOutput:
        output: CommandOutput = await asyncio.to_thread(
            self._quadrant, *words, "--server", self.service.url, stdin=stdin
        )
        assert output.code == code, output
        return output


@pytest.fixture
async def command(quadrant: Quadrant, redis_url: str, short_dir: Path) -> AsyncIterator[Command]:
    async with running(redis_url, short_dir) as service:
        yield Command(quadrant, service)


@pytest.fixture
async def gang(command: Command) -> Command:
    """Two nodes, and a gang that runs on them."""
    await command("apply", "-f", "-", stdin=NODES)
    await command("apply", "-f", "-", stdin=GANG)
    goal = "--for=jsonpath={.status.phase}=Running"
    await command("wait", "pods", "-l", "app=train", goal, "--timeout=60s")
    return command


async def test_from_files_to_running_and_gone(command: Command) -> None:
    result = await command("apply", "-f", "-", stdin=NODES)
    assert result.lines == ["node/n1 created", "node/n2 created"]
    assert (await command("apply", "-f", "-", stdin=NODES)).lines == [
        "node/n1 unchanged",
        "node/n2 unchanged",
    ]
    result = await command("apply", "-f", "-", stdin=GANG)
    assert result.lines == [f"{label} created" for label in GANG_LABELS]
    goal = "--for=jsonpath={.status.phase}=Running"
    result = await command("wait", "pod/train-0", "pod/train-1", goal, "--timeout=60s")
    assert result.lines == ["pod/train-0 condition met", "pod/train-1 condition met"]
    result = await command("wait", "pg/train", "--for=condition=Scheduled", "--timeout=60s")
    assert result.err == ""

    again = GANG.replace("{app: train}", "{app: train, tier: x}", 1)
    result = await command("apply", "-f", "-", stdin=again)
    verbs = [line.split()[1] for line in result.lines]
    assert verbs == ["unchanged", "unchanged", "configured", "unchanged"]

    result = await command("delete", "-f", "-", "--timeout=60s", stdin=GANG)
    assert result.lines == [f"{label} deleted" for label in reversed(GANG_LABELS)]
    result = await command("get", "pods,podgroups")
    assert (result.out, "No resources found" in result.err) == ("", True)
    await command("delete", "pod/train-0", code=1)


async def test_tables_and_forms(gang: Command) -> None:
    gang_items = await gang("get", "pods")
    assert gang_items.lines[0].startswith("NAME READY STATUS")
    assert [line.split()[2] for line in gang_items.lines[1:]] == ["Running", "Running"]
    wide = await gang("get", "pods", "-o", "wide")
    assert "NODE" in wide.lines[0]
    assert "NODE" not in gang_items.lines[0]
    everywhere = await gang("get", "pods", "-A", "--no-headers")
    assert [line.split()[:2] for line in everywhere.lines] == [
        ["default", "train-0"],
        ["default", "train-1"],
    ]
    names = await gang("get", "po", "-o", "name", "--field-selector", "metadata.name=train-1")
    assert names.out == "pod/train-1\n"
    nodes = await gang("get", "nodes", "-l", "zone=b", "-o", "jsonpath={.items[*].metadata.name}")
    assert nodes.out == "n2"
    by_name = await gang("get", "pods", "--sort-by", "{.metadata.name}", "-o", "name")
    assert by_name.lines == ["pod/train-0", "pod/train-1"]

    value = yaml.safe_load((await gang("get", "pod/train-0", "-o", "yaml")).out)
    assert value["spec"]["nodeName"] in ("n1", "n2")
    value = json.loads((await gang("get", "pg,q", "-o", "json")).out)
    assert {item["kind"] for item in value["items"]} == {"PodGroup", "Queue"}
    shards = await gang("shard", "list")
    assert len(shards.lines) == 3
    assert "Up" in shards.lines[1]
    missing = await gang("get", "pod/nobody", code=1)
    assert missing.err == 'Error: pods "nobody" not found\n'


async def test_describe_and_events(gang: Command) -> None:
    gang_items = await gang("describe", "podgroup/train")
    assert gang_items.lines[0] == "Name: train"
    assert "Conditions:" in gang_items.lines
    assert "Min Member: 2" in gang_items.lines
    gang_items = await gang("describe", "pod/train-0")
    at = gang_items.lines.index("Events:")
    assert re.search(r"^Normal Scheduled \S+ ", "\n".join(gang_items.lines[at:]), re.MULTILINE)
    gang_items = await gang("events", "--for", "podgroup/train")
    assert gang_items.lines[0] == "LAST SEEN TYPE REASON OBJECT MESSAGE"
    assert "Scheduled podgroup/train" in gang_items.lines[1]
    assert len(gang_items.lines) == 2
    for words in (("describe", "nodes"), ("describe", "shards"), ("shard", "describe", "shard-0")):
        assert (await gang(*words)).err == ""


async def test_a_pending_pod_shows_its_reason(gang: Command) -> None:
    big = {"name": "big", "namespace": "default"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": big,
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "64"}}}]},
    }
    await gang("apply", "-f", "-", stdin=json.dumps(pod))
    goal = "--for=jsonpath={.status.conditions[?(@.type=='PodScheduled')].reason}=Unschedulable"
    await gang("wait", "pod/big", goal, "--timeout=60s")
    gang_items = await gang("describe", "pod/big")
    (reason,) = [line for line in gang_items.lines if line.startswith("Reason:")]
    assert "ExceedsNodeCapacity" in reason or "cpu" in reason
    late = await gang("wait", "pod/big", "--for=condition=PodScheduled", "--timeout=300ms", code=1)
    assert late.err == "Error: timed out waiting for the condition on pods/big\n"


async def test_pretended_and_compared(gang: Command) -> None:
    labelled = GANG.replace("{app: train}", "{app: other}", 1)
    assert (await gang("diff", "-f", "-", stdin=GANG)).out == ""
    gang_items = await gang("diff", "-f", "-", stdin=labelled, code=1)
    changes = [line for line in gang_items.out.splitlines() if re.match(r"[-+] ", line)]
    assert changes == ["-    app: train", "+    app: other"]
    gang_items = await gang("apply", "-f", "-", "--dry-run=server", stdin=labelled)
    assert gang_items.lines[2] == "pod/train-0 configured (server dry run)"
    gang_items = await gang("delete", "pg/train", "--dry-run=server")
    assert gang_items.out == "podgroup.scheduling.volcano.sh/train deleted (server dry run)\n"
    assert (await gang("diff", "-f", "-", stdin=GANG)).out == ""


async def test_a_refusal_names_object_field_and_remedy(command: Command) -> None:
    bad = NODES.replace('cpu: "4"', 'cpu: "many"', 1)
    result = await command("apply", "-f", "-", stdin=bad, code=1)
    assert result.out == "node/n2 created\n"
    assert result.err.startswith("Error: standard input: Node n1: ")
    assert "status.allocatable.cpu" in result.err
    result = await command("apply", "-f", "-", stdin="kind: Nod\napiVersion: v1\n", code=1)
    assert "did you mean Node?" in result.err


async def test_queues(gang: Command) -> None:
    gang_items = await gang("queue", "list")
    heads, *rows = (re.split(r"\s{3,}", line) for line in gang_items.out.splitlines())
    table = {row[0]: dict(zip(heads, row, strict=True)) for row in rows}
    assert table["research"]["WEIGHT"] == "2"
    assert table["research"]["ALLOCATED"] == "2 cpu"
    assert float(table["research"]["SHARE"]) > 0
    await gang("queue", "close", "research")
    assert "Closing" in (await gang("queue", "list")).out  # until its job has left
    await gang("queue", "open", "research")
    assert "Closing" not in (await gang("queue", "list")).out
    await gang("queue", "close", "nobody", code=1)
    assert (await gang("queue", "describe", "research")).lines[0] == "Name: research"


async def test_a_watch_shows_what_happens(gang: Command) -> None:
    watching = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "laboratory.cli", "get", "pods", "-w", "-s", gang.service.url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "HOME": "/nonexistent"},
    )
    assert watching.stdout is not None

    async def until_line(text: str) -> None:
        async with asyncio.timeout(60.0):
            while text not in (line := await _line(watching)):
                assert line

    await until_line("train-1")
    pod: dict[str, Any] = next(v for v in yaml.safe_load_all(GANG) if v["kind"] == "Pod")
    pod["metadata"] = {"name": "late"}
    await gang("apply", "-f", "-", stdin=json.dumps(pod))
    await until_line("late")
    await gang("delete", "pod/train-0", "--no-wait")
    await until_line("train-0")
    watching.send_signal(2)
    _, error = await asyncio.wait_for(watching.communicate(), 60.0)
    assert (watching.returncode, error) == (130, b"")


async def _line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode()


async def test_at_a_glance(gang: Command) -> None:
    gang_items = await gang("top", "--once")
    assert "1 running, 0 pending" in gang_items.out
    assert "2 of 8, 25%" in gang_items.out
    assert "research" in gang_items.out
    gang_items = await gang("version")
    assert gang_items.lines[1].startswith("server v1.")


COMPLETIONS = {
    "get pods train": ["train-0", "train-1"],
    "describe podgroup ": ["train"],
    "delete pod/train-1 pod/": ["pod/train-0", "pod/train-1"],
    "wait node/": ["node/n1", "node/n2"],
    "events --for podgroup/": ["podgroup/train"],
    "explain pod ": ["train-0", "train-1"],
    "story podgroup ": ["train"],
    "trace podgroup tr": ["train"],
    "queue describe re": ["research"],
    "queue close re": ["research"],
    "queue open re": ["research"],
    "shard describe ": ["shard-0", "shard-1"],
    "debug profile ": ["coordinator", "shard-0", "shard-1"],
    "debug dump s": ["shard-0", "shard-1"],
    "debug loglevel c": ["coordinator"],
    "chaos kill ": ["coordinator", "ledger", "ray", "shard-0", "shard-1"],
    "get pods --namespace d": ["default"],
}
"""Words of a command, the last one begun -> the names that fit."""


async def test_every_verb_completes_names(gang: Command, subtests: pytest.Subtests) -> None:
    code = "from laboratory.cli.app import kubectl_complete as c; c()"
    for words, names in COMPLETIONS.items():
        verb, *rest = words.split(" ")
        if verb in ("queue", "shard", "debug", "chaos"):
            verb, rest = f"{verb} {rest[0]}", rest[1:]
        asking = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", code, *verb.split(), "--server", gang.service.url, *rest),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, error = await asyncio.wait_for(asking.communicate(), 60.0)
        with subtests.test(words):
            assert (sorted(out.decode().split()), error) == (sorted([*names, ":4"]), b"")
