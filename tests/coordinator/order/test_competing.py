"""Jobs that may want the same volume or device never have two turns out at a time."""

from __future__ import annotations

import pytest

from coordinator.jobs.accounts import Accounts
from coordinator.order.cross_node import ASKED_FOR, DEVICES, FREE, Spanning
from shared.messages.messages import NOBODY
from shared.model.constraints import Constraints
from shared.model.model import Job, Role, TaskClass
from shared.model.storage import StorageClass, Volume, VolumeClaim
from tests.builders.rows import job
from tests.coordinator.order.helpers import order

PLAIN = TaskClass(((0, 1000), (2, 1)))


def with_job(spanning: Spanning, jid: int, **asks: tuple[str, ...]) -> None:
    cls = TaskClass(PLAIN.requests, constraints=Constraints(**asks))  # type: ignore[arg-type]
    roles = (Role("task", 0, 0, 1),)
    asking = Job(jid, "ns", f"j{jid}", "Job", f"u{jid}", "default", 0.0, roles=roles)
    spanning.put_job(asking, {0: cls})


def test_jobs_with_device_claims_share_a_key() -> None:
    spanning = Spanning()
    with_job(spanning, 1, claims=("c",))
    with_job(spanning, 2, claim_templates=("t",))
    with_job(spanning, 3)
    assert DEVICES in spanning.keys(1) and DEVICES in spanning.keys(2)
    assert spanning.members([DEVICES]) == {1, 2}
    assert spanning.touches(2) and not spanning.touches(3)


def test_volumes_are_competed_for_while_there_are_free_ones() -> None:
    spanning = Spanning()
    with_job(spanning, 1, volumes=("a",))
    with_job(spanning, 2, volumes=("b",))
    own = ["volume/ns/a"]
    assert spanning.keys(1) == own
    spanning.put_object(Volume("v", claim="ns/other"))
    assert spanning.keys(1) == own
    spanning.put_object(Volume("v"))
    assert spanning.keys(1) == [FREE, *own] and spanning.members([FREE]) == {1, 2}
    spanning.put_object(VolumeClaim("ns", "a", volume="w", bound=True))
    assert spanning.keys(1) == own and FREE in spanning.keys(2)
    spanning.drop_object(Volume("v"))
    assert FREE not in spanning.keys(2)


def test_turns_that_were_out_when_a_free_volume_came_are_waited_for() -> None:
    spanning = Spanning(lambda jid: jid == 1)
    with_job(spanning, 1, volumes=("a",))
    assert not spanning.touched([FREE])
    spanning.put_object(Volume("v"))
    assert spanning.touched([FREE])
    spanning.give_back(1)
    assert not spanning.touched([FREE])


def test_an_object_that_comes_or_goes_wakes_those_who_wait() -> None:
    accounts = Accounts()
    before = accounts.capacity.changes
    accounts.put_object(StorageClass("slow"))
    accounts.drop_object(StorageClass("slow"))
    assert accounts.capacity.changes == before + 2


# --- word of evictions ----------------------------------------------------------------------------

BUDGET_KEY = "budget/ns/db"


def waits(spanning: Spanning, jid: int) -> bool:
    """Whether a turn of this job that touches the budget would have to wait."""
    new_order = order(nodes=1)
    new_order.put_job(job(jid))
    new_order.jobs[jid].stamp = 7
    return spanning.busy([BUDGET_KEY], new_order.jobs[jid])


def evicting(spanning: Spanning) -> None:
    """Job 1 has a turn out that may take pods of the budget."""
    spanning.take(1, [BUDGET_KEY])
    spanning.out_now.add(1)


def returned(spanning: Spanning, *, evicts: bool = True) -> list[tuple[int, int]]:
    spanning.accepted(1, {BUDGET_KEY: 1}, evicts=evicts)
    spanning.out_now.discard(1)
    return spanning.give_back(1)


def test_a_budgets_key_is_busy_until_word_of_the_victims_has_come() -> None:
    """With the version that the outcome moved, the next turn context would vouch for books that
    still count the victims as healthy (seed 131676)."""
    spanning = Spanning()
    evicting(spanning)
    assert waits(spanning, 2)
    assert returned(spanning) == [] and spanning.versions[BUDGET_KEY] == 1
    assert waits(spanning, 1) and spanning.touched([BUDGET_KEY])
    assert spanning.evictions_reported(1) == [(2, 7), (1, 7)]
    assert not waits(spanning, 2)


def test_word_that_comes_before_the_outcome_counts_for_that_turn_alone() -> None:
    spanning = Spanning()
    evicting(spanning)
    assert spanning.evictions_reported(1) == []
    returned(spanning)
    assert not waits(spanning, 2)
    spanning.evictions_reported(1)  # once more, after the turn: redelivered
    evicting(spanning)
    returned(spanning)
    assert waits(spanning, 2)


def test_a_turn_without_evictions_holds_up_nobody() -> None:
    spanning = Spanning()
    evicting(spanning)
    returned(spanning, evicts=False)
    assert not waits(spanning, 2)


@pytest.mark.parametrize("out_as", [ASKED_FOR, NOBODY])
def test_requested_and_shuffle_evictions_are_waited_for_too(
    out_as: int,
) -> None:
    spanning = Spanning()
    for first in (True, False):
        spanning.take(out_as, [BUDGET_KEY])
        if first:
            spanning.evictions_reported(1)
        returned_in_the_name_of_1(spanning, out_as)
        assert waits(spanning, 2) is not first
    assert spanning.evictions_reported(1)
    assert not waits(spanning, 2)


def returned_in_the_name_of_1(spanning: Spanning, out_as: int) -> None:
    spanning.accepted(1, {BUDGET_KEY: 1}, evicts=True, out_as=out_as)
    spanning.out_now.discard(out_as)
    spanning.give_back(out_as)


@pytest.mark.parametrize("out_as", [ASKED_FOR, NOBODY])
def test_word_of_such_an_eviction_is_not_forgotten_with_a_turn_that_returns(out_as: int) -> None:
    """Seed 223: a turn of another job returned between the word and the answer. The word was
    forgotten, and the keys were busy for ever."""
    for other in (3, 1):
        spanning = Spanning()
        spanning.take(out_as, [BUDGET_KEY])
        spanning.take(other, [])
        spanning.evictions_reported(1)
        spanning.out_now.discard(other)
        spanning.give_back(other)
        returned_in_the_name_of_1(spanning, out_as)
        assert not waits(spanning, 2)
