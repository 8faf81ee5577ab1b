"""The first commands of a new user, and what they print where something is not as expected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.coordinator.cli.conftest import Quadrant
from tests.coordinator.cli.test_service import Command
from tests.end_to_end.one_process.harness import running

OBJECTS = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "16", memory: 64Gi, pods: "20"}}
---
apiVersion: v1
kind: Pod
metadata: {name: ours}
spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: waits}
spec: {schedulerName: other, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
"""
NATIVE_GROUP = """
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: ring}
spec: {schedulingPolicy: {gang: {minCount: 1}}}
---
apiVersion: v1
kind: Pod
metadata: {name: ring-0}
spec:
  schedulingGroup: {podGroupName: ring}
  containers: [{name: c, resources: {requests: {cpu: "1"}}}]
"""
LABELLED = """
apiVersion: v1
kind: Pod
metadata: {name: labelled, labels: {volcano.sh/queue-name: research}}
spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
"""


@pytest.fixture
async def command(quadrant: Quadrant, redis_url: str, short_dir: Path) -> AsyncIterator[Command]:
    async with running(redis_url, short_dir, shards=1) as service:
        command = Command(quadrant, service)
        await command("apply", "-f", "-", stdin=OBJECTS)
        await service.until(lambda status: status["tasks"]["running"] == 1)
        yield command


async def test_a_kind_and_a_name_may_be_one_word(command: Command) -> None:
    for verb in ("explain", "story"):
        in_one, in_two = await command(verb, "pod/ours"), await command(verb, "pod", "ours")
        assert in_one.lines[0] == in_two.lines[0], verb
    elsewhere = await command("explain", "pod/default/ours", code=0)
    assert elsewhere.lines[0].startswith("JOB default/ours")


async def test_a_group_of_kubernetes_is_found_by_the_names_that_kubectl_takes(
    command: Command,
) -> None:
    planned = await command("plan", "-f", "-", stdin=NATIVE_GROUP)
    assert planned.lines[0].startswith("+ PodGroup default/ring: 1 task now on n1")
    await command("apply", "-f", "-", stdin=NATIVE_GROUP)
    for words in (
        ("podgroup", "ring"),
        ("podgroups.scheduling.k8s.io/ring",),
        ("podgroup.scheduling.k8s.io", "ring"),
        ("job", "ring"),
        ("po", "ring-0"),
    ):
        explained = await command("explain", *words)
        assert explained.lines[0].startswith("JOB default/ring queue default"), words
    missing = await command("explain", "podgroups.scheduling.volcano.sh/ring", code=1)
    assert 'podgroups.scheduling.volcano.sh "ring" not found' in missing.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("explain", "pod"), "no name; write pod NAME or pod/NAME"),
        (("explain", "pod/a", "b"), "pod/a names one already; leave out b"),
        (("explain", "node/n1"), "node: not one of job, pod, podgroup"),
        (("create", "queue", "q"), "run quadrant apply -f FILE, or use kubectl create"),
        (("label", "pod", "p"), "change the object's file and run quadrant apply -f FILE"),
    ],
)
def test_a_wrong_form_is_refused_with_the_right_one(
    quadrant: Quadrant, words: tuple[str, ...], message: str
) -> None:
    result = quadrant(*words)
    assert result.code == 2
    assert message in result.err


async def test_the_servers_warnings_are_shown(command: Command) -> None:
    result = await command("apply", "-f", "-", stdin=LABELLED)
    assert "Warning: volcano.sh/queue-name 'research' does not choose the queue" in result.err
    assert "name it in the annotation scheduling.volcano.sh/queue-name" in result.err


async def test_a_pod_of_another_scheduler_is_not_called_unschedulable(command: Command) -> None:
    """An autoscaler would add a node for it."""
    await asyncio.sleep(0.5)  # until a reason would have been reported
    described = await command("describe", "pod", "waits")
    assert "other places it, not we" in described.out
    assert "Unschedulable" not in described.out
    assert "FailedScheduling" not in described.out
