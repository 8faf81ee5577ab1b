"""The story of a job: what happened, in order, in one command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from coordinator.cli.scheduling.explain_text import explanation
from coordinator.explain.job_story import story_of
from tests.builders.objects import job as written
from tests.builders.objects import node as machine
from tests.builders.objects import task
from tests.coordinator.explain.cluster import job, node, settled
from tests.coordinator.explain.test_commands import Shell, plain_terminal
from tests.coordinator.objects.world import World, infeasible
from tests.end_to_end.one_process.harness import running, submit

__all__ = ["plain_terminal"]


async def test_a_job_is_told_from_its_submission_to_its_end(
    tmp_path: Path, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(redis_url, tmp_path, shards=1) as service:
        shell = Shell(service, capsys)
        await submit(service, node("a", gpus=2))
        await submit(service, job("runs", 2, gpus=1))
        await settled(service, bound=2)
        code, text, _ = await shell.type("story", "job", "default/runs")
        pod_code, pod, _ = await shell.type("story", "pod", "runs-worker-1")
        body = json.loads((await shell.type("story", "job", "runs", "-o", "json"))[1])
    assert (code, pod_code) == (0, 0)
    words = [line.split()[2] for line in text.splitlines()[1:]]
    assert words[:2] == ["Submitted", "Scheduled"]
    assert "2 tasks, at least 2 together, to queue default" in text
    placed = r"2 tasks placed by shard-0 \(2 L[12]\) on a  \[runs-worker-0, runs-worker-1\]"
    assert re.search(placed, text)
    assert "runs-worker-1" in pod
    assert body["kind"] == "Story"
    times = [entry["time"] for entry in body["story"]]
    assert times == sorted(times)


def test_repeated_events_are_counted_and_filtered_by_pod() -> None:
    world = World()
    world.put(machine("n0"), written("j", tasks=[task("w", replicas=2)]))
    for _ in range(3):
        world.now += 10
        world.answer(lambda turn: infeasible(turn, Insufficient=3))
        world.core.order.accounts.capacity.freed()
    (jid,) = world.core.order.jobs
    state, story = world.core.order.jobs[jid], world.objects.stories.jobs[jid]
    submitted, waited = story_of(world.core, state, story)
    assert (submitted["reason"], waited["reason"], waited["count"]) == (
        "Submitted",
        "FailedScheduling",
        3,
    )
    assert waited["lastTime"] > waited["time"]
    world.objects.evicted(jid, [0], jid, "shuffle (tdm)")
    assert story_of(world.core, state, story, 0)[-1]["reason"] == "Evicted"
    assert story_of(world.core, state, story, 1)[-1]["reason"] == "FailedScheduling"


def test_an_eviction_is_reported_once_for_victim_and_preemptor() -> None:
    world = World()
    world.put(written("low", tasks=[task("w", replicas=3)]), written("high"))
    jobs = {state.job.name: jid for jid, state in world.core.order.jobs.items()}
    reason = "preempt (priority, gang): for ns/high-w-0"
    world.objects.evicted(jobs["low"], [2, 0], jobs["high"], reason)
    for name, word, text, names in (
        ("low", "Evicted", "evicted for ns/high by preempt (priority, gang)", [0, 2]),
        ("high", "Evicting", "2 tasks of ns/low evicted for it by preempt (priority, gang)", []),
    ):
        state = world.core.order.jobs[jobs[name]]
        story = story_of(world.core, state, world.objects.stories.jobs[jobs[name]])
        (report,) = [entry for entry in story if entry["reason"] == word]
        assert report["message"] == text
        assert report["names"] == [f"{name}-w-{index}" for index in names]


def test_an_explanation_says_who_evicted_the_tasks_that_wait() -> None:
    evicted = {
        "time": "2026-01-02T03:04:05.000Z",
        "lastTime": "2026-01-02T03:04:05.000Z",
        "count": 1,
        "reason": "Evicted",
        "message": "evicted for ns/high by preempt (priority, gang)",
        "tasks": 2,
        "names": ["w-0", "w-1"],
    }
    answer = {
        "of": {"kind": "Job", "namespace": "ns", "name": "low"},
        "phase": "Running",
        "ageSeconds": 1,
        "queue": "q",
        "tasks": {"total": 3, "minimum": 1},
        "attempts": dict.fromkeys(
            ("placed", "nominated", "infeasible", "trueConflicts", "readConflicts", "shards"), 0
        ),
        "places": [],
        "message": "none can start now",
        "story": [evicted],
    }
    line = "EVICTED 2 tasks for ns/high by preempt (priority, gang), at 03:04:05"
    assert line in explanation(answer | {"reason": "Fragmented"}, columns=100, now=0.0)
    runs = explanation(answer | {"reason": None}, columns=100, now=0.0)
    assert not any("EVICTED" in text for text in runs)
