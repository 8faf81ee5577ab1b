"""What became of the estimates that users were given, judged from the stories of the jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinator.cli.scheduling.explain_text import explanation
from coordinator.explain.estimate_record import EstimateRecord
from coordinator.jobs.state import JobState
from coordinator.objects.timeline import Stories
from coordinator.objects.wait_log import PLACED, STOPPED, WaitLog, WaitMark
from shared.messages.messages import TaskState
from tests.builders.objects import Item, job, node, queue, task
from tests.coordinator.explain.cluster import explained, settled
from tests.coordinator.explain.cluster import job as waiting_job
from tests.coordinator.objects.world import World
from tests.end_to_end.one_process.harness import running, submit

ESTIMATE = {"p50": 60.0, "p90": 120.0, "basis": "12 jobs like it"}
AT = 1_000_100.0
"""When every estimate was given."""


def six_jobs() -> tuple[Stories, list[JobState]]:
    """Six jobs of one task, and one in another queue."""
    world = World()
    names = [("default", f"j{i}") for i in range(6)] + [("other", "j6")]
    world.put(
        *(node("n0"), queue("other")),
        *(job(name, queue=where, tasks=[task("w", replicas=1)]) for where, name in names),
    )
    states, stories = list(world.core.order.jobs.values()), Stories()
    for state in states:
        stories.move(state.job.jid, 1, None, of=1)
    return stories, states


def given(stories: Stories, states: list[JobState]) -> EstimateRecord:
    record = EstimateRecord(stories)
    for state in states:
        record.give(state, ESTIMATE, AT)
    return record


def test_estimates_are_judged_when_the_job_was_placed_or_the_p90_is_over() -> None:
    stories, states = six_jobs()
    record = given(stories, states)
    for state, wait in zip(states, (60.0, 120.0, 59.0, 150.0), strict=False):
        stories.jobs[state.job.jid].placed_since = AT + wait
    assert record.of_queue("default", AT + 119) is None  # four are too few; two may come true yet
    assert record.of_queue("default", AT + 200) == {
        "estimates": 6,
        "cameTrue": 2,
        "sooner": 1,
        "medianError": 75.0,  # of 0, 1, 60, 90, and 140 twice, so far
    }
    assert record.of_queue("other", AT + 200) is None


def test_the_first_place_after_the_estimate_counts() -> None:
    stories, states = six_jobs()
    record = given(stories, states)
    marks = [
        WaitMark(AT - 50, PLACED),
        WaitMark(AT - 10, STOPPED),
        WaitMark(AT + 70, PLACED),
        WaitMark(AT + 80, STOPPED),
        WaitMark(AT + 500, PLACED),
    ]
    for state in states:
        stories.jobs[state.job.jid].waits = WaitLog(AT - 100, marks=list(marks))
    figures = record.of_queue("default", AT + 600)
    assert figures is not None
    assert (figures["cameTrue"], figures["medianError"]) == (6, 10.0)


def test_a_deleted_job_counts_only_if_it_was_placed() -> None:
    stories, states = six_jobs()
    record = given(stories, states)
    stories.jobs[states[0].job.jid].placed_since = AT + 90
    for state in states[:2]:
        stories.forget(state.job.jid)
    figures = record.of_queue("default", AT + 300)
    assert figures is not None
    assert (figures["estimates"], figures["cameTrue"]) == (5, 1)


def test_the_first_estimate_of_a_job_counts_and_only_so_many_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stories, states = six_jobs()
    for state in states:
        stories.jobs[state.job.jid].placed_since = AT + 100
    record = given(stories, states)
    record.give(states[0], {**ESTIMATE, "p50": 0.0}, AT + 90)
    figures = record.of_queue("default", AT + 300)
    assert figures is not None
    assert figures["medianError"] == 40.0
    assert figures["cameTrue"] == figures["estimates"] == 6
    monkeypatch.setattr(EstimateRecord, "MOST", 6)
    figures = given(stories, states).of_queue("default", AT + 300)
    assert figures is not None
    assert figures["estimates"] == 5  # of seven jobs the oldest is dropped


def test_a_job_that_holds_a_place_is_not_counted() -> None:
    world = World()
    world.put(node("n0"), job("j", tasks=[task("w", replicas=2)]))
    (state,) = world.core.order.jobs.values()
    world.record(TaskState.RUNNING, state.job.jid, [0])
    stories = Stories()
    stories.move(state.job.jid, 1, None, of=2)
    record = given(stories, [state])
    assert record._given == {}


async def test_a_service_says_what_became_of_its_estimates(tmp_path: Path, redis_url: str) -> None:
    async with running(redis_url, tmp_path) as service:
        await submit(service, node("n0", gpus=1), simple("runs"))
        await settled(service, bound=1)
        core, names = service.service.core, [f"waits-{n}" for n in range(5)]
        await submit(service, *map(simple, names))
        await service.until(lambda status: status["jobs"]["pending"] == 5)
        for wait in (3000.0,) * 5:  # those of jobs that were placed before
            core.tally.waits.likes.placed(next(iter(core.order.jobs.values())), wait)
        first = [(await explained(service, name))["eta"] for name in names]
        assert all("record" not in eta and eta["p50"] > 2000 for eta in first)
        await submit(service, *(node(f"more-{n}", gpus=1) for n in range(5)))
        await settled(service, bound=6)
        await submit(service, simple("last"))
        for wait in (3000.0,) * 6:
            core.tally.waits.likes.placed(next(iter(core.order.jobs.values())), wait)
        record = (await explained(service, "last"))["eta"]["record"]
    assert (record["estimates"], record["cameTrue"], record["sooner"]) == (5, 0, 5)
    assert record["medianError"] > 2000


def simple(name: str) -> Item:
    return waiting_job(name, gpus=1)


def test_the_text_says_how_estimates_came_true() -> None:
    record = {"estimates": 40, "cameTrue": 17, "sooner": 9, "medianError": 720.0}
    answer: dict[str, Any] = {
        "of": {"kind": "Job", "namespace": "ns", "name": "j"},
        "queue": "q",
        "phase": "Pending",
        "ageSeconds": 3,
        "reason": "WaitingForQuota",
        "message": "m",
        "attempts": dict.fromkeys(
            ("placed", "nominated", "infeasible", "trueConflicts", "readConflicts", "shards"), 0
        ),
        "eta": ESTIMATE | {"record": record},
        "next": "woken",
    }
    text = "\n".join(explanation(answer, columns=300, now=0.0))
    expected = (
        "of the last 40 estimates in the queue 17 came true and 9 were too long, median error"
    )
    assert f"{expected} 12min" in text
