"""How long a worker may be at the searches of a call before it counts as hanging."""

from __future__ import annotations

import math
from typing import Any

import pytest

from coordinator.dispatch.search_time import SearchTime
from shared.messages.messages import Turn


def turn(action: str) -> Turn:
    return Turn(jid=1, job_version=0, qid=0, priority=0, groups=[], runs=[], total=1, action=action)


def budgets(**fields: object) -> dict[str, Any]:
    return {"dialect": "kai", "actions": "allocate, reclaim", "scenarioSearchBudgets": fields}


VOLCANO = {"actions": "allocate, reclaim", "tiers": [{"plugins": [{"name": "gang"}]}]}


@pytest.mark.parametrize(
    ("policy", "actions", "seconds"),
    [
        (budgets(), ["reclaim"], 240.0),
        (budgets(), ["allocate", "allocate"], 0.0),
        (budgets(), ["allocate", "reclaim", "preempt"], 480.0),
        (budgets(maxJobSearchDuration="10s"), ["reclaim"], 10.0),
        (budgets(maxActionSearchDuration={"reclaim": "5s"}), ["reclaim"], 5.0),
        (budgets(maxActionSearchDuration={"reclaim": "5s"}), ["preempt"], 240.0),
        (
            budgets(maxActionSearchDuration={"default": "5s"}, minJobSearchDuration="30s"),
            ["reclaim"],
            30.0,
        ),
        (budgets(maxJobSearchDuration="0s"), ["reclaim"], 300.0),
        (
            budgets(maxJobSearchDuration="0s", maxActionSearchDuration={"default": "0s"}),
            ["reclaim"],
            math.inf,
        ),
        (VOLCANO, ["reclaim"], 0.0),
        (None, ["reclaim"], 0.0),
    ],
)
def test_it_has_the_time_of_the_policys_budgets(
    policy: dict[str, Any] | None, actions: list[str], seconds: float
) -> None:
    assert SearchTime(policy).of([turn(action) for action in actions]) == seconds
