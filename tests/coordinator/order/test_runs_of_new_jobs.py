"""New jobs that say the same join the books as one run: as if each were put by itself."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.jobs.fresh_jobs import runs_of
from coordinator.order.order import Order
from shared.codec.packed import replace
from shared.messages.messages import TaskState
from shared.model.model import Job, TaskClass
from tests.builders.rows import job
from tests.coordinator.order.helpers import POLICY, order, placed, turns
from tests.examples import examples

EVICTING = {
    "actions": "allocate, preempt",
    "tiers": [{"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "sla"}]}],
}
NOTHING = 2
"""The class that asks for nothing."""


@st.composite
def lists(draw: st.DrawFn) -> list[Job]:
    """Jobs of which many in a row say the same."""
    jobs: list[Job] = []
    numbers = count(1)
    for _ in range(draw(st.integers(1, 6))):
        one = job(
            0,
            minimum=draw(st.sampled_from([0, 1, 1, 3])),
            queue=draw(st.sampled_from(["a", "a", "b", "nowhere"])),
            cid=draw(st.sampled_from([0, 0, 1, NOTHING])),
            priority=draw(st.sampled_from([0, 5])),
            created=draw(st.sampled_from([0.0, 1.0])),
        )
        role = replace(one.roles[0], gated=draw(st.sampled_from([False, False, False, True])))
        one = replace(one, roles=(role,), dangling=draw(st.sampled_from([False, False, True])))
        for _ in range(draw(st.integers(1, 5))):
            jid = draw(st.sampled_from([next(numbers), 3]))  # 3 may come again
            role = replace(role, count=2 if jid % 5 == 0 else 1)  # a job keeps its tasks
            jobs.append(replace(one, jid=jid, name=f"j{jid}", uid=f"u{jid}", roles=(role,)))
    return jobs


def books(o: Order) -> list[object]:
    """What the books have of each job, and their sums."""
    states = [
        (s.job, s.status, s.reason, s.need, s.stamp, s.served, s.line and s.line.key, s.counted)
        for _, s in sorted(o.jobs.items())
    ]
    lines = [
        (qid, line.key, line.jobs, +line.reasons, sorted(line.heap), {*line.starving})
        for qid, queue in o.lines.queues.items()
        for line in queue.lines.values()
    ]
    return [states, lines, o.accounts.tasks, o.lines.status_counts, o.pending_reasons()]


def both(policy: dict[str, Any], *, scanned: int) -> list[Order]:
    orders = [order(nodes=6, cpus=3, window=40, queues=("a", "b"), policy=policy) for _ in range(2)]
    for o in orders:
        o.lines.scanned = scanned
        o.accounts.classes[NOTHING] = TaskClass(requests=())
    return orders


@given(
    rounds=st.lists(lists(), min_size=1, max_size=3),
    policy=st.sampled_from([POLICY, EVICTING]),
    scanned=st.sampled_from([1, 16]),
)
@settings(max_examples=examples(300), deadline=None)
def test_a_run_is_put_as_if_each_job_came_by_itself(
    rounds: list[list[Job]], policy: dict[str, Any], scanned: int
) -> None:
    together, apart = both(policy, scanned=scanned)
    for now, new in enumerate(rounds):
        together.put_jobs(new)
        for one in new:
            apart.put_job(one)
        assert books(together) == books(apart)
        together.validate()
        opened = turns(together, float(now))
        assert opened == turns(apart, float(now))
        for turn in opened:
            if turn.action != "allocate":
                continue
            outcome = placed(turn)
            (on,) = outcome.placements
            for o in (together, apart):
                o.outcome(outcome)
                o.task_changed(turn.jid, TaskState.SUCCEEDED, on.tasks, on.rows)
        together.validate()


@pytest.mark.parametrize(
    ("field", "value"),
    [("priority", 1), ("created", 9.0), ("queue", "b"), ("labels", (("a", "b"),)), ("spec", 2)],
)
def test_jobs_that_differ_in_one_field_are_no_run(field: str, value: Any) -> None:
    one, like = job(1), replace(job(2), name="other", uid="u")
    assert list(runs_of([one, like])) == [[one, like]]
    other = replace(like, **{field: value})
    assert list(runs_of([one, other])) == [[one], [other]]
