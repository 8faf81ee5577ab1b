"""Explain and story of Jobs that one of their policies ended, and of their restarts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.builders.objects import Item, node
from tests.coordinator.controllers.support import job, phase, submit, task, when
from tests.coordinator.explain.cluster import asking
from tests.end_to_end.one_process.harness import PATIENCE, Running, running


async def explanation(service: Running, name: str, *, verb: str = "explain") -> tuple[int, Item]:
    path = f"/apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs/{name}/{verb}"
    async with asking(service) as client, client.get(path) as answer:
        return answer.status, await answer.json()


@pytest.mark.parametrize(
    ("action", "end", "restarts"),
    [
        ("RestartPod", "Failed", 2),
        ("TerminateJob", "Terminated", 0),
        ("AbortJob", "Aborted", 0),
        ("CompleteJob", "Completed", 0),
    ],
)
async def test_an_ended_job_is_explained_with_the_policy_that_ended_it(
    tmp_path: Path, redis_url: str, action: str, end: str, restarts: int
) -> None:
    policies = [when("PodFailed", action)]
    async with running(redis_url, tmp_path, grace=0.01) as service:
        members = task("good"), task("bad", runs=0.02, code=1)
        await submit(service, node(), job("j", *members, policies=policies, maxRetry=3))
        await phase(service, "j", end)
        status, answer = await explanation(service, "j")
    assert status == 200, answer
    assert answer["phase"] == end
    assert answer["message"] == f"it has ended: PodFailed in task bad: {action}"
    assert answer["tasks"] == {"total": 2, "minimum": 2, "Succeeded": 0, "Failed": 1}
    story = answer["story"]
    assert story[0]["message"] == "2 tasks, at least 2 together, to queue default"
    assert story[-1]["reason"] == end
    assert story[-1]["message"] == f"PodFailed in task bad: {action}"
    assert sum(e["count"] for e in story if e["reason"] == "Restarting") == restarts + bool(
        restarts
    )


async def test_the_next_leader_explains_an_ended_job_from_its_document(
    tmp_path: Path, redis_url: str
) -> None:
    policies = [when("PodFailed", "AbortJob")]
    async with running(redis_url, tmp_path, grace=0.01) as service:
        bad = task("bad", runs=0.02, code=1)
        await submit(service, node(), job("j", bad, policies=policies))
        await phase(service, "j", "Aborted")
    async with running(redis_url, tmp_path) as service:
        status, answer = await explanation(service, "j")
        _, trace = await explanation(service, "j", verb="trace")
    assert status == 200, answer
    assert [entry["reason"] for entry in answer["story"]] == ["Submitted", "Aborted"]
    assert trace["message"].endswith('"j": it has ended, and has no pods and no turns')


async def test_the_story_of_a_running_job_has_the_restarts_of_its_pods(
    tmp_path: Path, redis_url: str
) -> None:
    policies = [when("PodFailed", "RestartPod")]
    async with running(redis_url, tmp_path, grace=0.01) as service:
        bad = task("bad", runs=0.05, code=1)
        await submit(service, node(), job("j", bad, policies=policies, maxRetry=1000))
        await service.until(lambda status: status["tasks"]["bound"] >= 1)
        words: dict[str, str] = {}
        async with asyncio.timeout(PATIENCE):
            while "Restarting" not in words:
                status, answer = await explanation(service, "j")
                assert status == 200, answer
                words = {entry["reason"]: entry["message"] for entry in answer["story"]}
    assert words["Restarting"] == "PodFailed in task bad: RestartPod"
