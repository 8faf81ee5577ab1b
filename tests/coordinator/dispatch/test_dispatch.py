"""Dispatch: home shards, batches, and what happens to the turns of a worker that is gone."""

from __future__ import annotations

from coordinator.dispatch.dispatcher import Dispatcher, cost
from shared.codec.packed import replace
from shared.messages.messages import Epoch, Group, TaskRun, Turn

CPU = ((0, 1000),)


def turn(jid: int, tasks: int = 1, attempt: int = 0) -> Turn:
    return Turn(
        jid=jid,
        job_version=1,
        qid=0,
        priority=0,
        groups=[Group(parent=-1, minimum=tasks)],
        runs=[TaskRun(cid=0, group=0, role="w", tasks=list(range(tasks)))],
        total=tasks,
        attempt=attempt,
    )


def dispatcher(shards: int = 2, **options: int) -> Dispatcher:
    new_dispatcher = Dispatcher(shards, **options)
    for row in range(4):
        new_dispatcher.offer(row, ((0, 4000),), +1)
    new_dispatcher.assign({row: row % shards for row in range(4)})
    for shard in range(shards):
        new_dispatcher.up(shard, Epoch(1, "x"))
    return new_dispatcher


def homes(dispatcher: Dispatcher) -> dict[int, int]:
    return {t.jid: send.shard for send in dispatcher.send() for t in send.turns}


def test_least_outstanding_work_goes_first() -> None:
    d = dispatcher()
    d.route(turn(1, tasks=3), {0: 3000})
    d.route(turn(2), {0: 1000})
    d.route(turn(3), {0: 1000})
    assert homes(d) == {1: 0, 2: 1, 3: 1}


def test_a_shard_that_can_hold_the_need_is_preferred() -> None:
    d = dispatcher()
    d.used([0, 0, 0, 0, 2, 2, 2], CPU, +1)
    d.route(turn(1, tasks=2), {0: 2000})
    assert homes(d) == {1: 1}


def test_home_is_kept_and_changed_after_a_failed_attempt() -> None:
    d = dispatcher(shards=3)
    d.route(turn(1), {0: 1000})
    assert homes(d) == {1: 0}
    d.route(turn(2), {0: 1000})
    assert homes(d) == {2: 1}
    d.returned(0, 1)
    d.route(turn(1), {0: 1000})
    assert homes(d) == {1: 0}
    d.returned(0, 3)
    d.returned(1, 2)
    d.route(turn(1, attempt=1), {0: 1000})
    assert homes(d) == {1: 1}


def test_a_busy_worker_gets_full_calls_alone_until_it_is_idle() -> None:
    """It would take up a small one no sooner, and each commit costs the ledger and everybody."""
    d = dispatcher(shards=1, calls_in_flight=2, turns_per_call=3, tasks_per_call=8)
    d.route(turn(1), {})
    (first,) = d.send()
    d.route(turn(2), {})
    d.route(turn(3), {})
    assert d.send() == []
    d.returned(0, first.call)
    (second,) = d.send()
    assert [t.jid for t in second.turns] == [2, 3]
    for jid in (4, 5, 6):
        d.route(turn(jid), {})
    (full,) = d.send()
    assert [t.jid for t in full.turns] == [4, 5, 6]
    d.returned(0, second.call)
    d.route(turn(7, tasks=9), {})
    (large,) = d.send()
    assert [t.jid for t in large.turns] == [7], "as full by its tasks"


def test_calls_are_bounded_in_turns_tasks_and_number() -> None:
    d = dispatcher(shards=1, calls_in_flight=2, turns_per_call=3, tasks_per_call=8)
    for jid, tasks in enumerate([1, 1, 1, 5, 4, 1, 20], 1):
        d.route(turn(jid, tasks), {})
    sent = d.send()
    assert [[t.jid for t in send.turns] for send in sent] == [[1, 2, 3], [4]]
    d.returned(0, sent[0].call)
    assert [[t.jid for t in send.turns] for send in d.send()] == [[5, 6]]
    d.returned(0, sent[1].call)
    assert [[t.jid for t in send.turns] for send in d.send()] == [[7]]


def test_turns_that_need_sessions_come_back_in_small_calls() -> None:
    """However many may be open: a call that takes longer than a worker may be silent loses it."""
    d = dispatcher(shards=1, calls_in_flight=2)
    for jid in range(1, 101):
        d.route(replace(turn(jid), world=b"a turn context"), {})
    sent = d.send()
    assert [len(send.turns) for send in sent] == [16, 16]
    assert sum(cost(t) for t in sent[0].turns) <= d.tasks_per_call
    assert d.shards[0].outstanding == 100  # as work it counts as it did


def test_a_lost_worker_gives_back_sent_and_unsent_turns() -> None:
    d = dispatcher(shards=1, calls_in_flight=1, turns_per_call=1)
    d.route(turn(1), {})
    d.route(turn(2), {})
    (send,) = d.send()
    sent, unsent = d.down(0)
    assert [t.jid for t in sent] == [1]
    assert [t.jid for t in unsent] == [2]
    assert not d.ready()
    assert d.returned(0, send.call) == []
