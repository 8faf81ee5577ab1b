"""Policies that a worker's commits may follow."""

from __future__ import annotations

import pytest

from laboratory.checker.state.policy import CheckedPolicies

ALLOCATE = {"actions": ["allocate"], "tiers": []}
BACKFILL = {"actions": ["backfill"], "tiers": []}
RECLAIM = {"actions": ["reclaim"], "tiers": []}


@pytest.mark.parametrize(
    ("since", "followed"),
    [(0.006, ["allocate", "backfill"]), (3.0, ["backfill"])],
    ids=["just stored", "stored long ago"],
)
def test_a_worker_may_be_started_with_the_policy_before_a_new_one(
    since: float, followed: list[str]
) -> None:
    """Seed 130645: a worker's epoch began 6 ms after a policy was stored, of which who started it
    had not heard yet."""
    policies = CheckedPolicies()
    policies.put(ALLOCATE, t=0.0)
    policies.put(BACKFILL, t=10.0)
    policies.begins("0", t=10.0 + since)
    assert [next(iter(policy.actions)) for policy in policies.of("0")] == followed
    policies.put(RECLAIM, t=20.0)
    assert [next(iter(policy.actions)) for policy in policies.of("0")] == [*followed, "reclaim"]


def test_there_may_be_one_alone_or_none() -> None:
    policies = CheckedPolicies()
    policies.begins("0", t=1.0)
    assert policies.of("0") == []
    policies.put(ALLOCATE, t=1.5)
    policies.begins("0", t=1.6)
    assert len(policies.of("0")) == 1
