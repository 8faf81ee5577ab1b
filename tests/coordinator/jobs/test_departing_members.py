"""Members that are deleted from jobs that stay."""

from __future__ import annotations

from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.dispatcher import SendTurns
from coordinator.dispatch.instructions import Fail, Purge
from coordinator.intake.changes import Changes
from coordinator.jobs.state import SchedulingStatus
from shared.codec.packed import replace
from shared.messages.messages import Epoch, StatusItem
from tests.builders.rows import job
from tests.coordinator.jobs.leaving import (
    FAILED,
    PENDING,
    RELEASING,
    SUCCEEDED,
    coordinator,
    drop,
    opened,
    purge,
    record,
    run,
    step,
    stop_of,
    stopped,
)
from tests.coordinator.order.helpers import placed


def delete_members(core: Coordinator, jid: int, *tasks: int) -> None:
    job_before = core.order.jobs[jid].job
    core.admitted(
        Changes(
            jobs=[replace(job_before, spec=job_before.spec + 1)],
            tasks_gone=[(jid, t) for t in tasks],
        )
    )
    core.validate()


def test_a_pending_member_is_failed_and_not_placed_any_more() -> None:
    core = coordinator(job(1, count=4, minimum=2))
    core.worker_lost(0)
    step(core)
    delete_members(core, 1, 0, 3)
    (fail,) = step(core)
    assert fail == Fail([StatusItem(FAILED, 1, [0, 3], [0, 0], 0, 0)])
    core.worker_up(0, Epoch(2, "y"))
    _, turn = opened(core)[1]
    assert turn.runs[0].tasks == [1, 2]
    core.recorded(fail.items, [[0, 3]])
    core.failed(fail.items)
    assert step(core) == [Purge([], [(1, 0), (1, 3)])]
    assert core.order.departures.members == {}


def test_a_running_member_is_stopped_and_then_purged() -> None:
    core = coordinator(job(1, count=2, minimum=2))
    run(core, 1)
    delete_members(core, 1, 1)
    assert step(core) == [stop_of([(1, 1)])]
    record(core, RELEASING, 1, [1])
    assert step(core) == []
    record(core, FAILED, 1, [1])
    assert step(core) == [Purge([], [(1, 1)])]
    record(core, SUCCEEDED, 1, [0])
    assert core.order.jobs[1].status is SchedulingStatus.DONE


def test_a_member_that_ended_is_purged_at_once() -> None:
    core = coordinator(job(1, count=2))
    run(core, 1)
    record(core, SUCCEEDED, 1, [0, 1])
    delete_members(core, 1, 1)
    assert step(core) == [Purge([], [(1, 1)])]


def test_a_member_is_deleted_while_its_turn_is_out() -> None:
    core = coordinator(job(1, count=2, minimum=1))
    call, turn = opened(core)[1]
    delete_members(core, 1, 0, 1)
    assert step(core) == []
    core.turns_returned(0, call, [placed(turn, count=1)])
    core.validate()
    instructions = step(core)
    assert stop_of([(1, 0)]) in instructions
    assert Fail([StatusItem(FAILED, 1, [1], [0], 0, 0)]) in instructions
    assert not any(isinstance(i, SendTurns) for i in instructions)


def test_a_deleted_member_whose_bind_was_refused_is_not_placed_again() -> None:
    core = coordinator(job(1, count=2, minimum=2))
    call, turn = opened(core)[1]
    core.turns_returned(0, call, [placed(turn)])
    delete_members(core, 1, 1)
    assert step(core) == [stop_of([(1, 1)])]
    record(core, PENDING, 1, [1])
    assert stopped(core, [(1, 1)], [(1, 1)]) == []
    assert step(core, 5.0) == [Fail([StatusItem(FAILED, 1, [1], [0], 0, 0)])]


def test_a_deleted_member_with_a_refused_bind_is_sent_to_the_cluster() -> None:
    core = coordinator(job(1, count=2, minimum=1))
    call, turn = opened(core)[1]
    core.turns_returned(0, call, [placed(turn, count=1)])
    record(core, PENDING, 1, [0])
    delete_members(core, 1, 0)
    assert stop_of([(1, 0)]) in step(core)


def test_a_job_goes_with_the_members_that_were_deleted_before() -> None:
    core = coordinator(job(1, count=2))
    run(core, 1)
    delete_members(core, 1, 1)
    assert step(core) == [stop_of([(1, 1)])]
    drop(core, 1)
    assert step(core) == [stop_of([(1, 0)])]
    record(core, FAILED, 1, [0, 1])
    purge(core, 1)
