"""The turn that examines running tasks: it is over where its worker is, too."""

from __future__ import annotations

from coordinator.core.coordinator import Coordinator
from coordinator.core.shuffle import SHUFFLE_SECONDS
from coordinator.dispatch.dispatcher import SendTurns
from shard_worker.dialects.open_session import open_session
from shared.codec.packed import replace
from shared.messages.messages import NOBODY, Epoch, EvictRun, Outcome, OutcomeCode
from tests.builders.rows import job
from tests.coordinator.jobs.leaving import coordinator, opened, run, step


def examined() -> Coordinator:
    """One task runs, and the policy shuffles."""
    core = coordinator(job(1))
    run(core, 1)
    policy = core.order.session.policy
    core.order.adopt(open_session(replace(policy, actions=(*policy.actions, "shuffle"))))
    return core


def test_a_shuffle_that_was_not_sent_is_over_with_its_worker() -> None:
    """Jobs that wait for the end of that turn would wait for ever (seed 181293)."""
    core = examined()
    core.shuffling.step(SHUFFLE_SECONDS)
    assert NOBODY in core.order.spanning.out_now
    core.worker_lost(0)
    assert NOBODY not in core.order.spanning.out_now
    core.worker_up(0, Epoch(2, "y"))
    sent = opened(core, 2 * SHUFFLE_SECONDS)
    assert NOBODY in sent, "the next round examines the shard again"


def test_a_budget_is_busy_until_a_shuffles_evictions_are_reported() -> None:
    """It evicts in the name of the victims' own job, which has no turn out."""
    core = examined()
    instructions = step(core, SHUFFLE_SECONDS)
    (call,) = [i.call for i in instructions if isinstance(i, SendTurns)]
    evicts = EvictRun(jid=1, job_version=0, cid=0, group=0, tasks=[0], rows=[0], guards=0)
    nothing = Outcome(jid=NOBODY, code=OutcomeCode.INFEASIBLE, placements=[], reasons={})
    part = replace(nothing, evictions=[evicts], moved={"budget/ns/web": 1})
    core.turns_returned(0, call, [part, nothing])
    spanning = core.order.spanning
    assert spanning.versions == {"budget/ns/web": 1}
    assert spanning.touched(["budget/ns/web"])
    spanning.evictions_reported(1)
    assert not spanning.touched(["budget/ns/web"])


def test_one_that_was_sent_is_over_once_the_ledger_was_read() -> None:
    core = examined()
    instructions = step(core, SHUFFLE_SECONDS)
    assert [t.jid for i in instructions if isinstance(i, SendTurns) for t in i.turns] == [NOBODY]
    core.worker_lost(0)
    assert NOBODY in core.order.spanning.out_now
    core.order.know([NOBODY], {}, unheard=())
    assert NOBODY not in core.order.spanning.out_now
