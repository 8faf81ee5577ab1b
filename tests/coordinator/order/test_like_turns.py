"""Turns of jobs that are like the one before: the same as if each were made from the start."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.order.order import Order
from shared.codec.packed import replace
from shared.messages.messages import Group, OutcomeCode, TaskState
from shared.model.model import Job
from tests.builders.rows import job
from tests.coordinator.order.helpers import answer, order, placed, turns
from tests.examples import examples


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """Mostly jobs of one task, which differ in little."""
    jid = draw(st.integers(1, 40))
    drawn = job(
        jid,
        count=2 if jid % 5 == 0 else 1,
        minimum=draw(st.sampled_from([0, 1, 1, 1])),
        queue=draw(st.sampled_from("aab")),
        cid=draw(st.sampled_from([0, 0, 0, 1])),
        priority=draw(st.sampled_from([0, 0, 5])),
    )
    role = replace(drawn.roles[0], name=draw(st.sampled_from(["worker", "worker", "other"])))
    groups = draw(st.sampled_from([drawn.groups, drawn.groups, (*drawn.groups, Group(0, 1))]))
    group = draw(st.integers(0, len(groups) - 1))
    spec = draw(st.integers(1, 3))
    return replace(drawn, roles=(replace(role, group=group),), groups=groups, spec=spec)


def from_the_start(o: Order, now: float) -> list[object]:
    """The turns of an order that has forgotten which turn it opened last."""
    o.begin(now)
    opened: list[object] = []
    while True:
        o._like = None
        if (turn := o.next_turn()) is None:
            return opened
        opened.append(turn)


@given(
    rounds=st.lists(st.lists(jobs(), max_size=12), min_size=1, max_size=5),
    codes=st.lists(st.sampled_from(["placed", "nominated", "infeasible", "conflict"]), max_size=30),
    window=st.integers(1, 12),
)
@settings(max_examples=examples(400), deadline=None)
def test_turns_of_like_jobs_are_the_same_as_if_each_were_made_from_the_start(
    rounds: list[list[Job]], codes: list[str], window: int
) -> None:
    alike, apart = (order(nodes=6, cpus=3, window=window, queues=("a", "b")) for _ in range(2))
    for now, new in enumerate(rounds):
        for one in new:  # a number that comes again replaces its job
            alike.put_job(one)
            apart.put_job(one)
        opened = turns(alike, float(now))
        assert opened == from_the_start(apart, float(now))
        for turn in opened:
            code = codes.pop() if codes else "placed"
            outcome = placed(turn, level=3 if code == "nominated" else 1)
            if code in ("infeasible", "conflict"):
                outcome = answer(turn, OutcomeCode[code.upper()], {"Insufficient cpu": 6})
            for o in (alike, apart):
                o.outcome(outcome)
                if code == "placed":
                    (on,) = outcome.placements
                    o.task_changed(turn.jid, TaskState.SUCCEEDED, on.tasks, on.rows)
        alike.validate()
        assert alike.accounts.capacity == apart.accounts.capacity
        assert alike.lines.status_counts == apart.lines.status_counts
