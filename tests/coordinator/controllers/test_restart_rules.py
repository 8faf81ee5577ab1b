"""Restart policies: the pods that start again, how often, and the count after a takeover."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.controllers.job_controller import (
    RESTART_LOOK_SECONDS,
    Action,
    End,
    JobController,
    Note,
    Restart,
)
from shared.codec.packed import replace
from shared.manifests.volcano.topology import PARTITION_ID
from shared.messages.messages import TaskState
from tests.builders.objects import Item
from tests.coordinator.controllers.support import job, task, when
from tests.coordinator.controllers.test_rules import KEY, Standing, controller, document


def policy(event: str, action: str, **spec: Any) -> Item:
    """Roles a, with this policy, and b."""
    return job("j", task("a", 4, policies=[when(event, action)]), task("b", 2), **spec)


def demanded_incarnations(
    event: str, action: str, standing: Standing, **kept: Any
) -> dict[int, int] | None:
    """The incarnations that the document is to demand; None: nothing is asked."""
    _, actions = controller(policy(event, action, maxRetry=5), standing, **kept)
    if not actions:
        return None
    (note,) = actions
    assert isinstance(note, Note), note
    assert note.state["retryCount"] == kept.get("retryCount", 0) + 1
    return {int(tix): incarnation for tix, incarnation in note.state["incarnations"].items()}


def in_parts(words: str) -> Standing:
    """Role a in two partitions."""
    standing = Standing(words)
    *parts, last = standing.job.roles
    labelled = [replace(part, labels=((PARTITION_ID, str(i)),)) for i, part in enumerate(parts)]
    standing.job = replace(standing.job, roles=(*labelled, last))
    return standing


@pytest.mark.parametrize(
    ("event", "action", "words", "expected"),
    [
        ("PodFailed", "RestartPod", "a=rfrf b=rr", {1: 1, 3: 1}),
        ("PodFailed", "RestartPod", "a=rrrr b=rf", None),
        ("PodFailed", "RestartTask", "a=rfs. b=rr", {0: 1, 1: 1, 2: 1}),
        ("PodFailed", "RestartTask", "a=bflr b=rr", {1: 1, 2: 0, 3: 1}),  # b, l: not begun, leaves
        ("TaskCompleted", "RestartTask", "a=ssss b=rr", {0: 1, 1: 1, 2: 1, 3: 1}),
        ("TaskCompleted", "RestartTask", "a=sssr b=rr", None),
        ("*", "RestartPod", "a=frrr b=rr", {0: 1}),
        ("PodFailed", "RestartPartition", "a=frrr b=rr", None),  # it has none
    ],
)
def test_an_action_restarts_these_tasks(
    event: str, action: str, words: str, expected: dict[int, int] | None
) -> None:
    standing = Standing(words)
    standing.evicted = frozenset(
        t for t, s in enumerate(standing.states) if s == TaskState.RELEASING
    )
    answer = demanded_incarnations(event, action, standing)
    assert answer == (
        expected and {tix: incarnation for tix, incarnation in expected.items() if incarnation}
    )


def test_a_partition_is_that_of_the_pod_that_failed() -> None:
    assert demanded_incarnations("PodFailed", "RestartPartition", in_parts("a=rf a=rr b=rr")) == {
        0: 1,
        1: 1,
    }
    assert demanded_incarnations("PodFailed", "RestartPartition", in_parts("a=rr a=fr b=rr")) == {
        2: 1,
        3: 1,
    }


def test_an_eviction_is_answered_once() -> None:
    """The evicted pod is made anew already; with it the others of its task are."""
    standing = Standing("a=r.rr b=rr")
    standing.incarnations[1] = 1
    expected = {0: 1, 1: 1, 2: 1, 3: 1}
    assert demanded_incarnations("PodEvicted", "RestartTask", standing) == expected
    standing.incarnations |= expected
    standing.states[1] = TaskState.RUNNING
    state = {"retryCount": 1, "incarnations": {str(t): n for t, n in expected.items()}}
    assert demanded_incarnations("PodEvicted", "RestartTask", standing, **state) is None
    standing.incarnations[2] = 2
    standing.states[2] = TaskState.PENDING
    assert demanded_incarnations("PodEvicted", "RestartTask", standing, **state) == {
        0: 2,
        1: 2,
        2: 2,
        3: 2,
    }
    assert demanded_incarnations("PodEvicted", "RestartPod", standing, **state) == {
        0: 1,
        1: 1,
        2: 2,
        3: 1,
    }


def begun(standing: Standing, **kept: Any) -> tuple[JobController, list[Action]]:
    return controller(policy("PodFailed", "RestartTask"), standing, retryCount=1, **kept)


def test_restarts_in_the_document_come_before_new_decisions() -> None:
    standing = Standing("a=rf.r b=rr")
    standing.incarnations[2] = 1
    job_controller, actions = begun(standing, incarnations={"0": 1, "1": 1, "2": 1})
    assert actions == [Restart(KEY, 0, [0, 1])]
    job_controller.restarted(0, 100.1)
    assert job_controller.take(100.2) == []
    standing.states[1], standing.incarnations[1] = TaskState.PENDING, 1
    job_controller.recorded([0], 100.3)
    assert job_controller.take(100.4) == []  # that was asked for already
    assert job_controller.take(100.0 + RESTART_LOOK_SECONDS) == [Restart(KEY, 0, [0])]
    job_controller.restarted(0, 101.1)
    standing.states[0], standing.incarnations[0] = TaskState.PENDING, 1
    job_controller.recorded([0], 101.2)
    standing.states[3] = TaskState.FAILED
    job_controller.recorded([0], 101.3)
    (action,) = job_controller.take(101.4)
    assert isinstance(action, Note)
    assert action.state["incarnations"] == {"0": 1, "1": 1, "2": 1, "3": 1}


def test_a_job_that_restarts_pods_as_often_as_it_may_fails() -> None:
    _, (action,) = begun(Standing("a=frrr b=rr"))
    assert isinstance(action, Note)
    _, (action,) = controller(
        policy("PodFailed", "RestartPod"), Standing("a=frrr b=rr"), retryCount=2
    )
    assert isinstance(action, End)
    assert (action.state["next"], action.state["retryCount"]) == ("Failed", 3)


def test_a_job_that_runs_in_part_is_found_without_an_event() -> None:
    body = job("j", task("a", 2), policies=[when("Unknown", "RestartJob")])
    standing = Standing("a=r.", minimum=2)
    job_controller, actions = controller(body, standing)
    assert actions == []
    standing.in_part = True  # a turn found no place, and no event says so
    due = job_controller.next_due()
    assert due is not None
    (action,) = job_controller.take(due)
    assert isinstance(action, End)
    assert action.state["reason"] == "Unknown"


def test_any_event_is_no_reason_to_restart_pods_of_a_job_that_runs_in_part() -> None:
    body = job("j", task("a", 2), policies=[when("*", "RestartTask")])
    standing = Standing("a=r.", minimum=2)
    standing.in_part = True
    assert controller(body, standing)[1] == []
    assert document(body).state is None
