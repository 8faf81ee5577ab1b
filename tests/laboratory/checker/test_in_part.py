"""The checker on promise 3 over time: gangs in part, whatever the cause, and who is exempt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.laboratory.checker.story import BEST_EFFORT, GPU_TASK, Story

LONG = 130.0
"""Seconds: longer than a gang may stay in part."""


def policy(*actions: str) -> dict[str, Any]:
    return {"actions": [*actions], "tiers": [[{"name": "gang"}], [{"name": "predicates"}]]}


def running(story: Story, places: dict[int, int], **job: Any) -> None:
    """Job 1 runs on these rows, on both sides."""
    story.job(1, len(places), minimum=len(places), **job)
    story.commit(1, places)
    story.acts("bind", 1, places)
    story.acts("start", 1, places)
    story.status("RUNNING", 1, places)


def rules(story: Story, folder: Path) -> list[str]:
    """Broken rules after a long time without further events."""
    story.t += LONG
    story.cluster("end", [], [])
    return [violation.rule for violation in story.check(folder).violations]


@pytest.mark.parametrize("kept", ["LOST", "FAILED"])
def test_a_lost_member_leaves_a_gang_in_part_by_whatever_name(tmp_path: Path, kept: str) -> None:
    """FAILED: as ledgers had it before they told the two apart, and as a leader that takes the one
    for the other would record it. The cluster said that the member vanished."""
    story = Story()
    running(story, {0: 0, 1: 1, 2: 2})
    story.acts("lost", 1, {2: 2})
    story.status(kept, 1, {2: 2})
    assert rules(story, tmp_path) == ["gang-repaired"]


def test_a_member_that_failed_by_itself_is_for_its_owner(tmp_path: Path) -> None:
    story = Story()
    running(story, {0: 0, 1: 1, 2: 2})
    story.acts("failed", 1, {2: 2})
    story.status("FAILED", 1, {2: 2})
    assert rules(story, tmp_path) == []


def test_a_member_that_was_stopped_is_no_failure_of_its_own(tmp_path: Path) -> None:
    """A release that stops half way."""
    story = Story()
    running(story, {0: 0, 1: 1, 2: 2})
    story.cluster("delete", ["1.2"], [])
    story.acts("failed", 1, {2: 2})
    story.status("FAILED", 1, {2: 2})
    assert rules(story, tmp_path) == ["gang-repaired"]


@pytest.mark.parametrize(
    ("actions", "messages"),
    [(("allocate",), ["gang-repaired"]), (("allocate", "backfill"), [])],
)
def test_members_that_ask_for_nothing_are_there_where_somebody_places_them(
    tmp_path: Path, actions: tuple[str, ...], messages: list[str]
) -> None:
    story = Story()
    story.ledger("policy", policy=policy(*actions))
    story.job(1, 3, minimum=3, roles=[[GPU_TASK, 0, 2, 0], [BEST_EFFORT, 2, 1, 0]])
    story.commit(1, {0: 0, 1: 1})
    story.acts("bind", 1, {0: 0, 1: 1})
    story.status("BOUND", 1, {0: 0, 1: 1})
    assert rules(story, tmp_path) == messages


def test_a_gang_of_which_nothing_is_left_is_not_in_part(tmp_path: Path) -> None:
    story = Story()
    running(story, {0: 0, 1: 1})
    for state, act in (("RELEASING", "releasing"), ("SUCCEEDED", "succeeded")):
        story.acts(act, 1, {0: 0})
        story.status(state, 1, {0: 0})
    story.acts("lost", 1, {1: 1})
    story.status("LOST", 1, {1: 1})
    assert rules(story, tmp_path) == []


def test_time_without_a_leader_does_not_count(tmp_path: Path) -> None:
    story = Story()
    running(story, {0: 0, 1: 1, 2: 2})
    story.acts("lost", 1, {2: 2})
    story.status("LOST", 1, {2: 2})
    story.t += 500.0
    story.ledger("refusal", writer="0", shard="0", refused=[])  # a worker is still at it
    story.t += 500.0
    story.ledger("epoch")["epoch"] = "2:b"
    story.cluster("end", [], [])
    assert [violation.rule for violation in story.check(tmp_path).violations] == []
