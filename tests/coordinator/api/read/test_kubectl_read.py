"""Stock kubectl reads a running service, as people and their tools do."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.coordinator.api.conftest import running_pod
from tests.coordinator.api.kubectl import SECONDS, Kubectl, found
from tests.end_to_end.one_process.harness import Running, submit

pytestmark = [pytest.mark.timeout(120)]


def columns(text: str) -> list[list[str]]:
    return [re.split(r" {2,}", line.strip()) for line in text.splitlines()]


async def test_it_finds_every_kind(kubectl: Kubectl) -> None:
    text = await kubectl.ok("api-resources", "--no-headers")
    kinds = {line.split()[-1] for line in text.splitlines()}
    assert kinds >= {"Pod", "Node", "Event", "Namespace", "PodGroup", "Queue", "Job", "HyperNode"}
    assert kinds >= {"PriorityClass", "Shard"}
    assert re.search(r"Server Version: v1\.32.*quadrant", await kubectl.ok("version"))
    assert "scheduling.volcano.sh/v1beta1" in await kubectl.ok("api-versions")


LISTS = {
    "pods -n ns": ["big", "p1", "p2", "train-w-0", "train-w-1", "train-w-2"],
    "po -A -l tier=train": ["ns", "ns", "ns"],
    "pods -n ns -l tier!=train": ["big", "p1", "p2"],
    "pods -n ns -l 'tier in (web,db)'": ["p1", "p2"],
    "pods -n ns --field-selector status.phase=Pending": ["big"],
    "pods -n ns --field-selector status.phase!=Running,metadata.name=p1": [],
    "nodes": ["n1", "n2"],
    "nodes -l zone=b": ["n2"],
    "queues": ["default", "research"],
    "vcjob -n ns": ["train"],
    "hn": ["rack"],
    "pc": ["high"],
    "ns": ["default", "ns"],
    "shards": ["shard-0", "shard-1"],
    "pods": [],
}
"""Words after ``kubectl get`` -> the first column."""


async def test_it_lists(kubectl: Kubectl, subtests: pytest.Subtests) -> None:
    for words, names in LISTS.items():
        with subtests.test(words):
            text = await kubectl.ok("get", *shlex.split(words), "--no-headers")
            assert [line.split()[0] for line in text.splitlines()] == names


async def test_a_wide_table_has_more_columns(kubectl: Kubectl) -> None:
    narrow = columns(await kubectl.ok("get", "pods", "-n", "ns"))
    wide = columns(await kubectl.ok("get", "pods", "-n", "ns", "-o", "wide"))
    assert narrow[0] == ["NAME", "READY", "STATUS", "AGE"]
    assert wide[0][:4] == narrow[0]
    assert "NODE" in wide[0]
    node = wide[0].index("NODE")
    assert {row[node] for row in wide[2:]} == {"n1", "n2"}


async def test_it_shows_one_object_whole(kubectl: Kubectl) -> None:
    pod = json.loads(await kubectl.ok("get", "pod", "p1", "-n", "ns", "-o", "json"))
    assert (pod["kind"], pod["metadata"]["labels"]) == ("Pod", {"tier": "web"})
    assert pod["spec"]["nodeName"] in ("n1", "n2")
    assert pod["status"]["phase"] == "Running"
    assert "phase: Running" in await kubectl.ok("get", "pod", "train-w-1", "-n", "ns", "-o", "yaml")
    path = "jsonpath={.items[*].metadata.name}"
    assert await kubectl.ok("get", "nodes", "-o", path) == "n1 n2"
    sort = ("--sort-by=.spec.nodeName", "-o", "name")
    assert (await kubectl.ok("get", "pods", "-n", "ns", *sort)).startswith("pod/big\n")


async def test_it_reads_long_lists_in_pages(kubectl: Kubectl) -> None:
    result = await kubectl("get", "pods", "-n", "ns", "--chunk-size=2", "--no-headers", "-v=6")
    assert [line.split()[0] for line in result.out.splitlines()][-1] == "train-w-2"
    assert len(result.out.splitlines()) == 6
    assert result.err.count("limit=2") == 3


async def test_kubectl_auth_can_i_answers(kubectl: Kubectl) -> None:
    assert (await kubectl.ok("auth", "can-i", "create", "pods")).strip() == "yes"
    assert (await kubectl.ok("auth", "can-i", "*", "*")).strip() == "yes"
    listed = await kubectl.ok("auth", "can-i", "--list", "-n", "ns")
    verbs = {line.split()[0]: line.partition("[]")[2] for line in listed.splitlines()[1:]}
    assert verbs["pods"].endswith("[create delete get list patch update watch]")
    assert verbs["pods/explain"].endswith("[create get]")
    assert verbs["events"].endswith("[get list watch]")
    assert verbs["podgroups.scheduling.volcano.sh"].endswith("list patch update watch]")


@pytest.mark.all
async def test_it_describes_with_events(kubectl: Kubectl) -> None:
    text = await kubectl.ok("describe", "pod", "big", "-n", "ns")
    assert re.search(r"Warning +FailedScheduling .*100 cpu, the largest node has 8", text)
    text = await kubectl.ok("describe", "pod", "train-w-1", "-n", "ns")
    assert re.search(r"Scheduled .* Successfully assigned ns/[\w-]+ to n[12]", text)
    text = await kubectl.ok("events", "--for", "pod/train-w-1", "-n", "ns", "--no-headers")
    assert "Pod/train-w-1" in text and " to n" in text
    text = await kubectl.ok("describe", "podgroup", "gang", "-n", "ns")
    assert re.search(r"Normal +Scheduled .*quadrant +2 tasks placed by shard-\d", text)
    text = await kubectl.ok("describe", "node", "n1")
    assert "Non-terminated Pods" in text
    assert re.search(r"^  ns +(p1|p2|train-w-\d) ", text, re.M)
    for words in ("queue research", "vcjob train -n ns", "podgroup gang -n ns", "shard shard-0"):
        assert "Name:" in await kubectl.ok("describe", *words.split())


@pytest.mark.all
async def test_it_explains_fields(kubectl: Kubectl) -> None:
    text = await kubectl.ok("explain", "pod.spec.containers.resources.requests")
    assert "Amounts that are set aside for it" in text
    text = await kubectl.ok("explain", "vcjob.spec.tasks")
    assert "minAvailable\t<integer>" in text
    assert "weight\t<integer>" in await kubectl.ok("explain", "queue.spec")
    assert "nodeSelectorTerms" in await kubectl.ok("explain", "pod", "--recursive")


@pytest.mark.all
async def test_its_mistakes_are_told(kubectl: Kubectl) -> None:
    result = await kubectl("get", "pod", "nope", "-n", "ns")
    assert result.code == 1
    assert result.err == 'Error from server (NotFound): pods "nope" not found\n'
    result = await kubectl("get", "pods", "--field-selector", "spec.wheel=4")
    assert "'spec.wheel' cannot be selected by; use metadata.name" in result.err
    result = await kubectl("get", "pods", "-l", "a=b=c")
    assert result.code == 1
    result = await kubectl("get", "wheels")
    assert "doesn't have a resource type" in result.err
    for words in (("cluster-info",), ("top", "pods")):  # what they ask for is not served
        assert "panic" not in (await kubectl(*words)).err


@pytest.mark.all
async def test_the_plugin_is_the_command(kubectl: Kubectl, service: Running) -> None:
    """``kubectl-quadrant`` stands beside ``quadrant``; kubectl finds it in PATH."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    server = {"PATH": programs, "QUADRANT_SERVER": service.url}
    words = ("quadrant", "get", "pods", "-n", "ns", "-l", "tier=train", "-o", "name")
    output = await kubectl.plugin(*words, **server)
    assert output.out.splitlines() == [f"pod/train-w-{i}" for i in range(3)], output
    output = await kubectl.plugin("quadrant", "explain", "pod", "ns/big", **server)
    assert "ExceedsNodeCapacity" in output.out, output
    names = (await kubectl.ok("get", "all", "-n", "ns", "-o", "name")).split()
    assert {"pod/big", "pod/train-w-2", "job.batch.volcano.sh/train"} <= {*names}


@pytest.mark.all
async def test_it_watches(kubectl: Kubectl, service: Running) -> None:
    words = ("get", "pods", "-n", "ns", "-w")
    async with watching(service, *words) as every, watching(service, *words, "-l=tier=web") as some:
        there = ["NAME", "big", "p1", "p2", "train-w-0", "train-w-1", "train-w-2"]
        assert [await every.name() for _ in there] == there
        assert [await some.name() for _ in range(2)] == ["NAME", "p1"]
        await submit(service, running_pod("late", tier="web"))
        await every.until("late")
        assert await some.name() == "late"
        await submit(service, running_pod("p2", group="gang", tier="db", colour="red"))
        await every.until("p2")
        await submit(service, running_pod("last", tier="web"))
        while (name := await some.name()) != "last":
            assert name == "late", "it is told of what it did not ask for"


class Watching:
    """A watch that prints a line for each event."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def name(self) -> str:
        """The first word of the next line."""
        assert self._process.stdout is not None
        async with asyncio.timeout(SECONDS):
            line = (await self._process.stdout.readline()).decode()
        assert line, "it has ended"
        return line.split()[0]

    async def until(self, name: str) -> None:
        while await self.name() != name:
            pass


@asynccontextmanager
async def watching(service: Running, *words: str) -> AsyncIterator[Watching]:
    program = found()
    assert program is not None
    process = await asyncio.create_subprocess_exec(
        program,
        f"--server={service.url}",
        *words,
        stdout=asyncio.subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "KUBECONFIG": os.devnull},
    )
    try:
        yield Watching(process)
    finally:
        process.terminate()
        await process.communicate()
