"""Outcomes that bind one task each are taken as runs: the same as if each were taken alone."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.dispatch.dispatcher import SendTurns
from coordinator.intake.changes import Changes
from shared.codec.packed import replace
from shared.messages.messages import Outcome, StatusItem, TaskState, Turn
from shared.model.model import Job, Queue
from tests.builders.rows import ONE, TWO, node
from tests.coordinator.objects.world import World, infeasible, nominated, placed
from tests.coordinator.order.test_like_turns import jobs
from tests.examples import examples

CODES = ("placed", "placed", "placed", "nominated", "infeasible")


class Follower:
    """Follows a job; while anybody follows one, the core takes each outcome alone."""

    wants_turns = True

    def opened(self, turn: Turn, shard: int) -> None: ...

    def returned(self, shard: int, outcome: Outcome) -> None: ...

    def stepped(self, now: float) -> None: ...


def world() -> World:
    made = World(window=12)
    core = made.core
    nodes = [node(row) for row in range(6)]
    queues = [Queue(qid=qid + 10, name=name) for qid, name in enumerate("ab")]
    core.admitted(Changes(nodes=nodes, queues=queues, classes={0: ONE, 1: TWO}))
    core.dispatcher.assign(dict.fromkeys(range(6), 0))
    return made


def outcome_of(turn: Turn, code: str, row: int) -> Outcome:
    if code == "placed":
        return replace(placed(turn, row), committed=1, conflicts_true=row % 2)
    return nominated(turn, row) if code == "nominated" else infeasible(turn)


def books(world: World) -> list[object]:
    """All that an outcome may move, without amounts of 0."""
    core, order = world.core, world.core.order
    states = [
        {**msgspec.structs.asdict(state), "line": state.line and state.line.key}
        for state in order.jobs.values()
    ]
    for state in states:
        state["info"] = {
            name: _sums(v) for name, v in msgspec.structs.asdict(state["info"]).items()
        }
    sums = [_sums(getattr(order.accounts.capacity, n)) for n in ("idle", "releasing", "promised")]
    queues = [
        _sums(getattr(queue, name))
        for queue in order.accounts.cluster.queues.values()
        for name in ("allocated", "requested", "releasing", "reserved", "jobs")
    ]
    lines = order.lines
    return [
        *(states, sums, queues, order.open, order.accounts.started, +order.accounts.tasks),
        *(+lines.status_counts, +lines.served, order.pending_reasons()),
        *(core.tally.shards, core.tally.waits.jobs, core.tally.waits.tasks),
        *({jid: s.happenings for jid, s in world.objects.stories.jobs.items()},),
        *(_sums(state.idle) for state in core.dispatcher.shards.values()),
    ]


def _sums(value: object) -> object:
    return {k: v for k, v in value.items() if v} if isinstance(value, Mapping) else value


@given(
    rounds=st.lists(st.lists(jobs(), max_size=12), min_size=1, max_size=4),
    codes=st.lists(st.tuples(st.sampled_from(CODES), st.integers(0, 5)), max_size=30),
    ends=st.sets(st.integers(1, 40)),
)
@settings(max_examples=examples(300), deadline=None)
def test_outcomes_taken_as_runs_leave_the_books_as_if_each_were_taken_alone(
    rounds: list[list[Job]], codes: list[tuple[str, int]], ends: set[int]
) -> None:
    together, alone = world(), world()
    alone.core.traces.begin(1_000, Follower())
    for new in rounds:
        sends: list[list[SendTurns]] = []
        for each in (together, alone):
            each.core.admitted(Changes(jobs=new))
            sends.append([i for i in each.core.step(each.now) if isinstance(i, SendTurns)])
            each.now += 1
        assert sends[0] == sends[1]
        for send in sends[0]:
            outcomes = [
                outcome_of(turn, *(codes.pop() if codes else ("placed", turn.jid % 6)))
                for turn in send.turns
            ]
            items = [
                StatusItem(TaskState.SUCCEEDED, outcome.jid, p.tasks, p.rows)
                for outcome in outcomes
                for p in outcome.placements
                if outcome.jid in ends
            ]
            for each in (together, alone):
                each.core.turns_returned(send.shard, send.call, outcomes, now=each.now)
            assert books(together) == books(alone)
            for each in (together, alone):
                each.core.recorded(items, [item.tasks for item in items])
                each.core.validate()
    assert books(together) == books(alone)
