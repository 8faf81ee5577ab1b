"""How Jobs of Volcano's end beside its own controllers: policies, retries, minima of success,
commands, flows."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.kubelets import EXIT_CODE
from tests.builders.objects import kube_object, simple_job
from tests.kubernetes.controllers import beside, kubernetes
from tests.kubernetes.driver.harness import Followed, until
from tests.kubernetes.driver.volcano.objects import (
    DONE,
    GROUPS,
    JOBS,
    PODS,
    Json,
    command,
    phase,
    until_ended,
    with_defaults,
)

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("volcanos")]

FLOWS = "/apis/flow.volcano.sh/v1alpha1/namespaces/default/jobflows"
LONG = 600.0


def job(name: str, *, code: int = 0, seconds: float = 0.5, minimum: int = 2, **spec: Any) -> Json:
    """Two pods that end with this code after so many seconds."""
    item = simple_job(name, 2, namespace="default", seconds=seconds, minimum=minimum, **spec)
    [role] = item["spec"]["tasks"]
    role["minAvailable"] = minimum
    return with_defaults(ending(item, code))


def ending(item: Json, code: int) -> Json:
    """The Job, whose first role ends with this code."""
    template = item["spec"]["tasks"][0]["template"]
    template["metadata"]["annotations"][EXIT_CODE] = str(code)
    template["spec"]["restartPolicy"] = "Never"
    return item


def one_ends(name: str, event: str, action: str, *, code: int = 1, **spec: Any) -> Json:
    """A pod ends with this code, and another one would go on: the policy of the first decides."""
    item = simple_job(name, 1, namespace="default", role="short", seconds=0.5, **spec)
    other = simple_job(name, 1, role="long", seconds=LONG)
    item["spec"] |= {"tasks": [*item["spec"]["tasks"], *other["spec"]["tasks"]], "minAvailable": 2}
    item["spec"]["tasks"][0]["policies"] = [{"event": event, "action": action}]
    return with_defaults(ending(item, code))


ENDS: list[tuple[Json, str, int]] = [
    (job("succeeds"), DONE, 0),
    (job("fails", code=1), "Failed", 0),
    (job("succeeds-in-part", minimum=1, minSuccess=1), DONE, 0),
    (one_ends("restarts", "PodFailed", "RestartJob", maxRetry=2), "Failed", 2),
    (one_ends("aborts", "PodFailed", "AbortJob"), "Aborted", 0),
    (one_ends("terminates", "PodFailed", "TerminateJob"), "Terminated", 0),
    (one_ends("completes", "PodFailed", "CompleteJob"), DONE, 0),
    (one_ends("first-role", "TaskCompleted", "CompleteJob", code=0), DONE, 0),
]
"""Job, its last phase, how often it was begun again."""


async def test_each_job_ends_as_its_policies_say(
    cluster: ApiClient, quadrant: AbstractAsyncContextManager[Followed], subtests: pytest.Subtests
) -> None:
    names = [item["metadata"]["name"] for item, _, _ in ENDS]
    async with quadrant:
        await cluster.create(*(item for item, _, _ in ENDS))
        phases = await until_ended(cluster, names, 90.0)
        for name, (_, end, retries) in zip(names, ENDS, strict=True):
            with subtests.test(name):
                status = (await cluster.get(f"{JOBS}/{name}"))["status"]
                assert (phases[name], status.get("retryCount", 0)) == (end, retries)
        await until(lambda: _none(cluster, GROUPS))


async def test_a_job_goes_away_some_time_after_its_end(
    cluster: ApiClient,
    control_plane: ControlPlane,
    quadrant: AbstractAsyncContextManager[Followed],
) -> None:
    """Volcano deletes it once its pods have gone, which Kubernetes' garbage collector sees to."""
    with beside(control_plane, kubernetes(control_plane)):
        async with quadrant:
            await cluster.create(job("short", ttlSecondsAfterFinished=1))
            await until(lambda: _none(cluster, JOBS))
            await until(lambda: _none(cluster, PODS))


async def test_an_aborted_job_goes_on_when_it_is_resumed(
    cluster: ApiClient, quadrant: AbstractAsyncContextManager[Followed]
) -> None:
    async with quadrant:
        [created] = await cluster.create(job("long", seconds=LONG))
        await until(lambda: _is(cluster, "long", "Running"))
        await cluster.create(command("abort", "AbortJob", created))
        await until(lambda: _is(cluster, "long", "Aborted"))
        await until(lambda: _none(cluster, PODS))
        await cluster.create(command("resume", "ResumeJob", created))
        await until(lambda: _is(cluster, "long", "Running"))


async def test_the_jobs_of_a_flow_run_one_after_the_other(
    cluster: ApiClient, quadrant: AbstractAsyncContextManager[Followed]
) -> None:
    flow = "flow.volcano.sh/v1alpha1"
    templates = [
        kube_object(flow, "JobTemplate", name, spec=job(name)["spec"]) for name in ("a", "b")
    ]
    steps = [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}]
    spec = {"jobRetainPolicy": "retain", "flows": steps}
    async with quadrant:
        await cluster.create(*templates, kube_object(flow, "JobFlow", "ab", spec=spec))
        await until(lambda: _flow_is(cluster, "Succeed"))
        ends = {item["metadata"]["name"]: phase(item) for item in await _items(cluster, JOBS)}
    assert ends == {"ab-a": DONE, "ab-b": DONE}


async def _items(cluster: ApiClient, path: str) -> list[Json]:
    items: list[Json] = (await cluster.get(path))["items"]
    return items


async def _none(cluster: ApiClient, path: str) -> bool:
    return await _items(cluster, path) == []


async def _is(cluster: ApiClient, name: str, expected: str) -> bool:
    return phase(await cluster.get(f"{JOBS}/{name}")) == expected


async def _flow_is(cluster: ApiClient, expected: str) -> bool:
    [flow] = await _items(cluster, FLOWS)
    return bool((flow.get("status") or {}).get("state", {}).get("phase") == expected)
