"""Deleted jobs and members: what they hold counts to the end, then they are purged."""

from __future__ import annotations

import pytest

from coordinator.bind.binder import read_names
from coordinator.cluster.protocol import BindAnswer, BindRequests
from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.instructions import Fail, ReleaseNominations, Reread
from coordinator.intake.changes import Changes
from coordinator.jobs.deletion import STOP_AGAIN_LIMIT_SECONDS, STOP_AGAIN_SECONDS
from coordinator.jobs.state import SchedulingStatus
from shared.codec.packed import replace
from shared.messages.messages import OutcomeCode, StatusItem, TaskState
from shared.model.model import Queue
from shared.model.topology import HyperNode
from shared.units.slots import CPU
from tests.builders.rows import ONE, job
from tests.coordinator.jobs.leaving import (
    BINDING,
    BOUND,
    FAILED,
    PENDING,
    RELEASING,
    RUNNING,
    SUCCEEDED,
    coordinator,
    drop,
    idle,
    opened,
    purge,
    record,
    run,
    step,
    stop_of,
    stopped,
    truth,
)
from tests.coordinator.order.helpers import answer, placed

# --- jobs -----------------------------------------------------------------------------------------


def test_a_pending_job_is_purged_at_once_and_leaves_no_trace() -> None:
    core = coordinator(job(1, count=40))
    drop(core, 1)
    assert 1 in core.leaving
    assert 1 not in core.order.jobs
    purge(core, 1)
    assert core.leaving == {}
    assert core.order.accounts.tasks.total() == 0
    assert core.order.accounts.cluster.queues[0].requested.get(CPU, 0) == 0
    assert step(core) == []
    assert core.status()["jobs"]["deleted"] == 1
    assert core.status()["tasks"]["deleted"] == 40


def test_a_running_job_keeps_its_nodes_until_its_tasks_have_ended() -> None:
    core = coordinator(job(1, count=3))
    run(core, 1)
    drop(core, 1)
    assert step(core) == [stop_of([(1, 0), (1, 1), (1, 2)])]
    assert idle(core) == 1
    record(core, RELEASING, 1, [0, 1, 2])
    record(core, FAILED, 1, [0, 1])
    assert idle(core) == 3
    assert core.order.accounts.cluster.queues[0].releasing[CPU] == 1000
    assert step(core) == []
    record(core, FAILED, 1, [2])
    assert idle(core) == 4
    purge(core, 1)


@pytest.mark.parametrize("was", ["pending", "open", "running"])
@pytest.mark.parametrize("returns", [False, True])
def test_the_queue_of_a_deleted_job_leaves_the_node_pool(was: str, returns: bool) -> None:
    """And it may come back before the job is purged."""
    core = coordinator(job(1, count=3))
    accounts = core.order.accounts
    turn = None
    if was == "open":
        turn = opened(core)[1]
    elif was == "running":
        run(core, 1)
    drop(core, 1)
    core.order.drop_queue(0)
    core.validate()
    held = {"pending": 0, "open": 3000, "running": 3000}[was]
    assert accounts.nowhere.allocated.get(CPU, 0) == held
    assert 0 not in accounts.cluster.queues
    if returns:
        core.order.put_queue(Queue(qid=0, name="a"))
        core.validate()
        assert accounts.cluster.queues[0].allocated.get(CPU, 0) == held
        assert not any(accounts.nowhere.allocated.values())
    if turn is not None:
        core.turns_returned(0, turn[0], [answer(turn[1], OutcomeCode.INFEASIBLE)])
        step(core)
        core.reread({1: truth(PENDING, PENDING, PENDING)})
    elif was == "running":
        step(core)
        record(core, FAILED, 1, [0, 1, 2])
    purge(core, 1)
    assert idle(core) == 4
    assert not any(accounts.nowhere.allocated.values())


def test_stopping_is_asked_for_again_until_the_end_is_recorded() -> None:
    core = coordinator(job(1, count=2))
    run(core, 1)
    drop(core, 1)
    assert step(core, 0.0) == [stop_of([(1, 0), (1, 1)])]
    assert step(core, STOP_AGAIN_SECONDS * 0.9) == []
    record(core, FAILED, 1, [1])
    assert step(core, STOP_AGAIN_SECONDS) == [stop_of([(1, 0)])]
    due = core.order.next_due()
    assert due == STOP_AGAIN_SECONDS * 3
    waits = []
    for _ in range(10):
        due = core.order.next_due()
        assert due is not None
        assert step(core, due) == [stop_of([(1, 0)])]
        waits.append((core.order.next_due() or 0) - due)
    assert waits[-1] == STOP_AGAIN_LIMIT_SECONDS
    record(core, FAILED, 1, [0])
    purge(core, 1)
    assert step(core, 1e6) == []
    assert core.order.next_due() is None


def refused(core: Coordinator) -> None:
    """The bind of the first of two tasks is refused."""
    call, turn = opened(core)[1]
    core.turns_returned(0, call, [placed(turn)])
    record(core, PENDING, 1, [0])


def test_a_job_is_not_forgotten_while_a_refused_bind_may_still_be_carried_out() -> None:
    core = coordinator(job(1, count=2))
    refused(core)
    record(core, FAILED, 1, [1])
    drop(core, 1)
    assert step(core, 0.0) == [stop_of([(1, 0)])]
    assert step(core, STOP_AGAIN_SECONDS) == [stop_of([(1, 0)])]  # the cluster had not answered
    assert stopped(core, [(1, 0)], [(1, 0)]) == []  # it holds nothing: nothing to record
    purge(core, 1)
    assert step(core, 1e6) == []


def test_a_late_bind_starts_nothing_after_its_pod_was_deleted() -> None:
    core, cluster = coordinator(job(1, count=2)), LocalCluster()
    request = BindRequests(["1.0"], ["u1"], ["default/p"], ["n0"], [None])
    refused(core)
    drop(core, 1)
    (stop,) = step(core)
    assert stop == stop_of([(1, 0), (1, 1)])
    never = cluster.delete([f"{jid}.{tix}" for jid, tix in stop.tasks], 1.0)
    record_items(core, stopped(core, stop.tasks, read_names(never)))
    purge(core, 1)
    assert cluster.bind(request, 2.0).answers == [BindAnswer.GONE]


def record_items(core: Coordinator, items: list[StatusItem]) -> None:
    core.recorded(items, [item.tasks for item in items])
    core.validate()


def test_a_task_that_the_cluster_never_had_is_called_failed() -> None:
    """Its bind entry came when the job was deleted already, and was acknowledged without it. Named
    with class and group: where its bind was refused just before, the ledger has it as pending by
    then, and one that asks for nothing counted in its group ever after (seed 172770)."""
    core = coordinator(job(1, count=2))
    call, turn = opened(core)[1]
    core.turns_returned(0, call, [placed(turn)])
    drop(core, 1)
    assert step(core) == [stop_of([(1, 0), (1, 1)])]
    items = stopped(core, [], [(1, 0), (1, 1), (7, 0)])
    assert items == [StatusItem(FAILED, 1, [0, 1], [0, 0], 0, 0)]
    core.recorded(items, [[0, 1]])
    assert stopped(core, [], [(1, 0)]) == []
    assert idle(core) == 4
    purge(core, 1)


def test_a_turn_that_was_out_may_have_placed_tasks_of_a_deleted_job() -> None:
    core = coordinator(job(1, count=3))
    call, turn = opened(core)[1]
    drop(core, 1)
    assert step(core) == []  # its outcome is awaited
    assert core.order.open == 1
    core.turns_returned(0, call, [placed(turn)])
    core.validate()
    assert core.order.open == 0
    assert idle(core) == 1
    assert step(core) == [stop_of([(1, 0), (1, 1), (1, 2)])]
    record(core, FAILED, 1, [0, 1, 2])
    purge(core, 1)


def test_a_bind_may_be_recorded_before_the_outcome_of_the_deleted_jobs_turn() -> None:
    core = coordinator(job(1, count=2))
    call, turn = opened(core)[1]
    drop(core, 1)
    record(core, BOUND, 1, [0, 1])
    assert step(core) == [stop_of([(1, 0), (1, 1)])]
    record(core, FAILED, 1, [0, 1])
    assert step(core) == []
    core.turns_returned(0, call, [placed(turn)])
    core.validate()
    assert idle(core) == 4
    purge(core, 1)


@pytest.mark.parametrize("code", [OutcomeCode.INFEASIBLE, OutcomeCode.CONFLICT])
def test_a_turn_that_placed_nothing_frees_the_deleted_job(code: OutcomeCode) -> None:
    core = coordinator(job(1, count=3))
    call, turn = opened(core)[1]
    drop(core, 1)
    core.turns_returned(0, call, [answer(turn, code, {"Insufficient cpu": 1})])
    assert core.step(0.0) == [Reread([1])]
    core.reread({1: truth(PENDING, PENDING, PENDING)})
    purge(core, 1)


def test_an_overtaking_answer_does_not_drop_the_first_placements() -> None:
    """The call reached its worker twice: it placed the job, and then found no room for it."""
    core = coordinator(job(1, count=2))
    call, turn = opened(core)[1]
    drop(core, 1)
    core.turns_returned(0, call, [answer(turn, OutcomeCode.INFEASIBLE, {"Insufficient cpu": 1})])
    assert core.step(0.0) == [Reread([1])]
    core.turns_returned(0, call, [placed(turn)])
    core.reread({1: truth(BINDING, BINDING)})
    core.validate()
    assert step(core) == [stop_of([(1, 0), (1, 1)])]
    record(core, FAILED, 1, [0, 1])
    purge(core, 1)


@pytest.mark.parametrize("states", [(PENDING, PENDING), (BINDING, BINDING), (RUNNING, SUCCEEDED)])
def test_a_deleted_job_whose_turn_was_lost_is_read_from_the_ledger(
    states: tuple[TaskState, ...],
) -> None:
    core = coordinator(job(1, count=2))
    opened(core)
    drop(core, 1)
    core.worker_lost(0)
    assert core.step(0.0) == [Reread([1])]
    core.order.validate()
    core.reread({1: truth(*states)})
    core.validate()
    held = [t for t, s in enumerate(states) if s in (BINDING, RUNNING)]
    assert idle(core) == 4 - len(held)
    if held:
        assert step(core) == [stop_of([(1, t) for t in held])]
        record(core, FAILED, 1, held)
    purge(core, 1)


def test_a_deleted_job_with_a_stale_turn_is_reread() -> None:
    core = coordinator(job(1, count=2))
    call, turn = opened(core)[1]
    drop(core, 1)
    core.turns_returned(0, call, [answer(turn, OutcomeCode.STALE)])
    assert core.order.open == 0
    assert step(core) == [Reread([1])]
    core.reread({1: truth(PENDING, PENDING)})
    purge(core, 1)


def test_a_job_that_is_read_anew_when_it_is_deleted_waits_for_that() -> None:
    core = coordinator(job(1, count=2))
    call, turn = opened(core)[1]
    core.turns_returned(0, call, [answer(turn, OutcomeCode.STALE)])
    assert step(core) == [Reread([1])]
    drop(core, 1)
    assert step(core) == []
    core.reread({1: truth(BINDING, BINDING)})
    assert step(core) == [stop_of([(1, 0), (1, 1)])]


def test_a_bind_that_is_refused_frees_the_deleted_job() -> None:
    core = coordinator(job(1, count=2))
    call, turn = opened(core)[1]
    core.turns_returned(0, call, [placed(turn)])
    drop(core, 1)
    step(core)
    record(core, PENDING, 1, [0, 1])
    assert idle(core) == 4
    assert stopped(core, [(1, 0), (1, 1)], [(1, 0), (1, 1)]) == []
    purge(core, 1)


def test_room_left_by_a_deleted_job_wakes_a_nominated_one() -> None:
    core = coordinator(job(1, count=4))
    run(core, 1)
    drop(core, 1)
    step(core)
    record(core, RELEASING, 1, [0, 1, 2, 3])
    core.admitted(Changes(jobs=[job(2, count=4)]))
    call, turn = opened(core)[2]
    core.turns_returned(0, call, [placed(turn, level=3)])
    core.validate()
    assert core.order.jobs[2].status is SchedulingStatus.NOMINATED
    record(core, FAILED, 1, [0, 1, 2])
    assert opened(core) == {}
    record(core, FAILED, 1, [3])
    assert list(opened(core)) == [2]


def test_a_nominated_job_that_is_deleted_promises_nothing_any_more() -> None:
    core = coordinator(job(1, count=4))
    run(core, 1)
    record(core, RELEASING, 1, [0, 1, 2, 3])
    core.admitted(Changes(jobs=[job(2, count=4)]))
    call, turn = opened(core)[2]
    core.turns_returned(0, call, [placed(turn, level=3)])
    drop(core, 2)
    assert not any(core.order.accounts.capacity.promised.values())
    purge(core, 2)
    record(core, FAILED, 1, [0, 1, 2, 3])
    assert opened(core) == {}


def test_a_job_that_has_ended_is_purged_at_once() -> None:
    core = coordinator(job(1, count=2))
    run(core, 1)
    record(core, SUCCEEDED, 1, [0, 1])
    drop(core, 1)
    purge(core, 1)


def test_a_job_of_an_unknown_queue_is_purged_at_once() -> None:
    core = coordinator(job(1, queue="nope"))
    assert core.order.jobs[1].reason == "Misconfigured"
    drop(core, 1)
    purge(core, 1)
    core.admitted(Changes(queues=[Queue(qid=5, name="nope")]))
    assert opened(core) == {}


def test_a_job_is_deleted_while_another_of_its_name_was_not_created_yet() -> None:
    """Deleting it twice changes nothing more."""
    core = coordinator(job(1, count=2))
    run(core, 1)
    drop(core, 1)
    drop(core, 1)
    assert step(core) == [stop_of([(1, 0), (1, 1)])]


# --- queues and domains ---------------------------------------------------------------------------


def test_tasks_of_a_job_that_moves_to_an_unknown_queue_still_count() -> None:
    core = coordinator(job(1, count=4, minimum=2))
    run(core, 1)
    moved = replace(core.order.jobs[1].job, queue="nope", spec=1)
    core.admitted(Changes(jobs=[moved]))
    core.validate()
    assert idle(core) == 2
    assert opened(core) == {}
    record(core, SUCCEEDED, 1, [0])
    assert idle(core) == 3
    core.admitted(Changes(queues=[Queue(qid=5, name="nope")]))
    core.validate()
    assert core.order.accounts.cluster.queues[5].allocated[CPU] == 1000
    assert list(opened(core)) == [1]


def test_a_job_whose_turn_is_out_may_move_to_an_unknown_queue_and_back() -> None:
    core = coordinator(job(1, count=2))
    call, turn = opened(core)[1]
    job_before = core.order.jobs[1].job
    core.admitted(Changes(jobs=[replace(job_before, queue="nope", spec=1)]))
    core.validate()
    core.admitted(Changes(queues=[Queue(qid=5, name="nope")]))
    core.validate()
    assert opened(core) == {}  # one turn at a time
    core.turns_returned(0, call, [placed(turn)])
    core.validate()
    assert core.order.accounts.cluster.queues[5].allocated[CPU] == 2000


def test_a_queue_goes_and_its_jobs_have_none() -> None:
    core = coordinator(job(1, queue="b"))
    core.admitted(Changes(queues_gone=[1]))
    core.validate()
    assert core.order.jobs[1].reason == "Misconfigured"
    assert 1 not in core.order.accounts.cluster.queues
    assert opened(core) == {}
    core.admitted(Changes(queues=[Queue(qid=7, name="b")]))
    assert list(opened(core)) == [1]


def test_a_domain_that_goes_leaves_its_nodes_where_they_are() -> None:
    core = coordinator(nodes=2)
    core.admitted(Changes(hyper_nodes=[HyperNode.of("h", 1, ("n0", "n1"))]))
    assert core.repartition() is None
    core.admitted(Changes(hyper_nodes_gone=["h"]))
    assert core.hyper_nodes == {}
    core.admitted(Changes(hyper_nodes_gone=["h"]))
    assert core.repartition() is None


# --- another coordinator --------------------------------------------------------------------------


def test_a_new_leader_asks_once_in_its_first_step_to_stop_what_leaves() -> None:
    core, now = coordinator(), 1_800_000_000.0
    core.order.put_leaving(job(1, count=2), bytearray([TaskState.RUNNING] * 2))
    assert step(core, now) == [stop_of([(1, 0), (1, 1)])]
    assert step(core, now + STOP_AGAIN_SECONDS) == [stop_of([(1, 0), (1, 1)])]


def test_a_successor_continues_with_leaving_tasks() -> None:
    core = coordinator(job(2))
    states = bytearray([PENDING, RUNNING, SUCCEEDED])
    core.order.put_leaving(job(1, count=3), states)
    core.order.departures.jobs[1].put_rows([1], [0])
    core.dispatcher.used([0], ONE.requests, +1)
    core.order.drop_members([(2, 0)])
    core.validate()
    assert idle(core) == 3
    instructions = step(core)
    assert stop_of([(1, 1)]) in instructions
    assert Fail([StatusItem(FAILED, 2, [0], [0], 0, 0)]) in instructions
    assert stopped(core, [], [(1, 1)]) == [StatusItem(FAILED, 1, [1], [0], 0, 0)]
    record(core, FAILED, 1, [1])
    purge(core, 1)


def test_nominations_that_a_deleted_job_left_are_given_up() -> None:
    core = coordinator(job(1))
    drop(core, 1)
    core.order.give_up_nominations(1)
    assert ReleaseNominations([1]) in step(core)
