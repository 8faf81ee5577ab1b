"""Victims in the coordinator's books: they leave, are stopped by incarnation, and come back."""

from __future__ import annotations

from coordinator.bind.binder import BindPlan, plan_binds, still_wanted
from coordinator.cluster.protocol import (
    BindAnswer,
    BindAnswers,
    BindRequests,
    Report,
    Reports,
    incarnation_of,
    incarnation_uid,
)
from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.instructions import ReleaseNominations, Stop
from coordinator.intake.changes import Changes
from coordinator.jobs.deletion import STOP_AGAIN_SECONDS
from coordinator.jobs.state import NO_TASKS, SchedulingStatus
from shared.codec.packed import replace
from shared.ledger.entries.snapshot import Nomination
from shared.ledger.entries.stored import BindEntry, Evicted, JobRecord, TaskRecord
from shared.messages.messages import (
    NOBODY,
    EvictRun,
    Group,
    OutcomeCode,
    StatusItem,
    TaskState,
)
from tests.builders.rows import job
from tests.coordinator.jobs.leaving import (
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
)
from tests.coordinator.order.helpers import placed

VICTIM, WINNER = 1, 2


def entry(*tasks: int, jid: int = VICTIM, incarnation: int = 0, number: int = 1) -> BindEntry:
    rows, incarnations = [0] * len(tasks), [incarnation] * len(tasks)
    evicted = Evicted(
        jid, WINNER, "preempt (priority): for default/w-0", [*tasks], rows, incarnations
    )
    return BindEntry(f"{number}-0", [], {}, [evicted])


def filled(minimum: int = 1) -> Coordinator:
    """A job of three tasks runs on the only node, of four cores."""
    core = coordinator(job(VICTIM, count=3, minimum=minimum))
    while core.order.jobs[VICTIM].info.pending:
        run(core, VICTIM)
    return core


def evict(
    core: Coordinator, *tasks: int, incarnation: int = 0
) -> tuple[list[tuple[int, int]], list[str]]:
    result = core.evicted([entry(*tasks, incarnation=incarnation)])
    core.validate()
    return result


def reports(kind: Report, tasks: list[int], incarnation: int = 0) -> Reports:
    names = [f"{VICTIM}.{t}" for t in tasks]
    incarnations = dict.fromkeys(range(len(tasks)), incarnation) if incarnation else {}
    return Reports(9, [kind] * len(tasks), names, ["n0"] * len(tasks), incarnations)


def ends(core: Coordinator, *tasks: int, incarnation: int = 0) -> list[StatusItem]:
    """The cluster says that these failed; what becomes of that is recorded."""
    items = core.victims.read(reports(Report.FAILED, [*tasks], incarnation), {"n0": 0})
    core.recorded(items, [item.tasks for item in items])
    core.validate()
    return items


# --- out, and back ----------------------------------------------------------------------------


def test_a_victim_is_stopped_leaves_its_gang_and_is_pending_again() -> None:
    core = filled()
    assert evict(core, 1, 2) == ([(1, 1), (1, 2)], ["u1", "u1"])
    state = core.order.jobs[VICTIM]
    assert [TaskState(s) for s in state.states] == [RUNNING, RELEASING, RELEASING]
    assert state.info.held == [1]
    assert core.tally.evicted == {"preempt (priority)": 2}
    items = ends(core, 1, 2)
    assert items == [StatusItem(PENDING, VICTIM, [1, 2], [0, 0], incarnations=(0, 0))]
    assert [TaskState(s) for s in state.states] == [RUNNING, PENDING, PENDING]
    assert (state.info.held, state.evicted, state.incarnations) == ([1], NO_TASKS, {1: 1, 2: 1})
    assert (state.status, state.refusals) == (SchedulingStatus.READY, 0)
    assert core.victims.uids([(1, 0), (1, 1)]) == ["u1", "u1~~1"]
    assert idle(core) == 3


def test_a_whole_gang_may_go_and_is_placed_again() -> None:
    core = filled(minimum=3)
    evict(core, 0, 1, 2)
    assert core.order.jobs[VICTIM].info.held == [0]
    ends(core, 0, 1, 2)
    assert opened(core)[VICTIM][1].runs[0].tasks == [0, 1, 2]


def test_a_victim_that_succeeds_before_its_stop_has_ended() -> None:
    core = filled()
    evict(core, 1)
    record(core, SUCCEEDED, VICTIM, [1])
    state = core.order.jobs[VICTIM]
    assert (state.info.held, state.evicted, state.incarnations) == ([3], NO_TASKS, {})


def test_a_failure_before_word_of_the_eviction_is_a_failure() -> None:
    core = filled()
    assert ends(core, 1) == [StatusItem(FAILED, VICTIM, [1], [0])]
    assert evict(core, 1) == ([], [])


def test_a_report_about_both_is_divided() -> None:
    core = filled()
    evict(core, 1)
    assert ends(core, 0, 1, 2) == [
        StatusItem(PENDING, VICTIM, [1], [0], incarnations=(0,)),
        StatusItem(FAILED, VICTIM, [0, 2], [0, 0]),
    ]


def test_word_of_an_eviction_may_be_quicker_than_the_answer_before_it() -> None:
    """The ledger has it as running; here its bind is not known to have been answered yet."""
    core = coordinator(job(VICTIM))
    call, turn = opened(core)[VICTIM]
    evict(core, 0)
    core.recorded([StatusItem(BOUND, VICTIM, [0], [0])], [[0]])
    core.turns_returned(0, call, [placed(turn)])
    core.validate()
    state = core.order.jobs[VICTIM]
    assert TaskState(state.states[0]) is RELEASING
    ends(core, 0)
    assert (idle(core), state.status) == (4, SchedulingStatus.READY)


def test_it_may_be_back_before_the_outcome_that_placed_it() -> None:
    core = coordinator(job(VICTIM))
    call, turn = opened(core)[VICTIM]
    record(core, RUNNING, VICTIM, [0])
    evict(core, 0)
    ends(core, 0)
    core.turns_returned(0, call, [placed(turn)])
    core.validate()
    assert TaskState(core.order.jobs[VICTIM].states[0]) is PENDING
    assert opened(core)[VICTIM][1].runs[0].tasks == [0]


def test_the_ledger_has_evictions_of_which_no_word_came_yet() -> None:
    core = filled()
    job_of_it = JobRecord(spec_version=0, qid=0, gone=False, groups=[Group(-1, 1)])
    leaving, stays = TaskRecord(RELEASING, 0, 0, 1, by=WINNER), TaskRecord(RUNNING, 0, 0, 1)
    by_itself = TaskRecord(RELEASING, 0, 0, 1)
    records = {VICTIM: (job_of_it, {0: leaving, 1: stays, 2: by_itself})}
    unheard = core.victims.unheard
    assert unheard(records, lost=[WINNER]) == unheard(records, lost=[NOBODY]) == {WINNER}
    assert unheard(records, lost=[VICTIM]) == set()
    core.order.spanning.take(WINNER, [])
    assert unheard(records, lost=[NOBODY]) == set(), "it may be that turn's"
    evict(core, 0)
    assert unheard(records, lost=[WINNER]) == set()


def test_the_same_word_twice_is_told_once() -> None:
    core = filled()
    assert evict(core, 1) == evict(core, 1)
    ends(core, 1)
    assert evict(core, 1) == ([], [])


# --- earlier incarnations ---------------------------------------------------------------------


def again(core: Coordinator) -> None:
    """Task 1 was evicted, came back, and runs."""
    evict(core, 1)
    ends(core, 1)
    run(core, VICTIM)


def test_a_late_report_of_an_earlier_incarnation_means_nothing() -> None:
    core = filled()
    again(core)
    assert ends(core, 1) == []
    assert ends(core, 0, 1) == [StatusItem(FAILED, VICTIM, [0], [0], incarnations=(0,))]
    assert ends(core, 1, incarnation=1) == [StatusItem(FAILED, VICTIM, [1], [0], incarnations=(1,))]


def test_an_end_reported_twice_takes_no_place_from_the_next_incarnation() -> None:
    """Both were read before the first was recorded; then the task was placed where it had been."""
    core = filled()
    evict(core, 1)
    first, second = (core.victims.read(reports(Report.FAILED, [1]), {"n0": 0}) for _ in range(2))
    assert (
        core.victims.current(first)
        == first
        == [StatusItem(PENDING, VICTIM, [1], [0], incarnations=(0,))]
    )
    core.recorded(first, [[1]])
    run(core, VICTIM)
    assert core.victims.current(second) == []
    evict(core, 1, incarnation=1)
    assert core.victims.current(second) == []


def test_a_report_that_comes_twice_does_not_end_the_task_that_begins_anew() -> None:
    """Both were read before a policy of the Job began the ended task anew (seed 80083)."""
    core = filled()
    before, twice = (core.victims.read(reports(Report.FAILED, [0, 1]), {"n0": 0}) for _ in "ab")
    core.recorded(before, [[0, 1]])
    core.recorded([StatusItem(PENDING, VICTIM, [1], [0], restarts=(0,))], [[1]])
    assert core.victims.current(twice) == [StatusItem(FAILED, VICTIM, [0], [0], incarnations=(0,))]
    run(core, VICTIM)
    assert core.victims.current(twice) == [StatusItem(FAILED, VICTIM, [0], [0], incarnations=(0,))]
    started = core.victims.read(reports(Report.STARTED, [1], incarnation=1), {"n0": 0})
    assert (
        core.victims.current(started)
        == started
        == [StatusItem(RUNNING, VICTIM, [1], [0], incarnations=(1,))]
    )


def test_a_late_answer_of_an_earlier_incarnation_means_nothing() -> None:
    core = filled()
    again(core)
    requests = BindRequests(["1.1", "1.1"], ["u1", "u1~~1"], ["p", "p"], ["n0", "n0"], [None] * 2)
    plan = BindPlan(["1-0"], [1, 1], [1, 1], [0, 0], requests)
    answers = BindAnswers([BindAnswer.GONE, BindAnswer.ALREADY], ["", "n0"])
    result = core.bind_answered(plan, answers, 0.0)
    assert result.items == [StatusItem(BOUND, VICTIM, [1], [0])]
    assert result.again == result.elsewhere == []


def test_a_later_incarnation_that_the_cluster_does_not_have_is_lost() -> None:
    core = filled()
    evict(core, 1)
    ends(core, 1)
    requests = BindRequests(["1.1"], ["u1~~1"], ["p"], ["n0"], [None])
    plan = BindPlan(["1-0"], [1], [1], [0], requests)
    items = core.bind_answered(plan, BindAnswers([BindAnswer.GONE], [""]), 0.0).items
    assert core.victims.current(items) == [
        StatusItem(TaskState.LOST, VICTIM, [1], [0], incarnations=(1,))
    ]


def test_an_answer_to_an_earlier_stop_means_nothing() -> None:
    core = filled()
    tasks, uids = evict(core, 1)
    ends(core, 1)
    run(core, VICTIM)
    assert core.stopped(tasks, uids, tasks) == []
    assert stopped(core, tasks, tasks) == [StatusItem(FAILED, VICTIM, [1], [0], 0, 0)]


def test_the_uid_of_an_incarnation() -> None:
    assert incarnation_uid("a#4", 0) == "a#4"
    assert [incarnation_of(incarnation_uid("a#4", n)) for n in (0, 1, 12)] == [0, 1, 12]


def test_binds_name_the_incarnation() -> None:
    bind = BindEntry("1-0", [(VICTIM, 0, [0, 1], [0, 0])], {(VICTIM, 1): 2})
    plan = plan_binds([bind], jobs=lambda jid: job(jid, count=2), node=lambda row: "n0")
    assert plan is not None
    assert plan.requests.uids == ["u1", "u1~~2"]
    both = replace(bind, evicts=entry(0).evicts)
    assert still_wanted([both], {}) == [replace(both, binds=[])]


# --- stopping ---------------------------------------------------------------------------------


def test_a_victim_that_does_not_end_is_stopped_again_and_its_successor_is_not() -> None:
    core = filled()
    evict(core, 1)
    later = 2 * STOP_AGAIN_SECONDS
    assert stop_of([(1, 1)]) in step(core, later)
    ends(core, 1)
    run(core, VICTIM, later)
    assert not [i for i in step(core, 100.0) if isinstance(i, Stop)]


def test_a_repeated_stop_names_the_incarnation_it_was_decided_for() -> None:
    """The end of the victim may be recorded before the cluster is asked: named as it is then, its
    next incarnation would be refused before it was bound (seed 40600)."""
    core = filled()
    evict(core, 1)
    (instruction,) = [i for i in step(core, 2 * STOP_AGAIN_SECONDS) if isinstance(i, Stop)]
    ends(core, 1)
    assert (instruction.tasks, instruction.uids) == ([(VICTIM, 1)], [f"u{VICTIM}"])
    assert core.victims.uids([(VICTIM, 1)]) != instruction.uids


def test_a_victim_unknown_to_the_cluster_is_pending_again() -> None:
    core = filled()
    tasks, uids = evict(core, 1)
    items = core.stopped(tasks, uids, tasks)
    assert items == [StatusItem(PENDING, VICTIM, [1], [0], incarnations=(0,))]


# --- the job changes or goes ------------------------------------------------------------------


def test_a_deleted_job_takes_its_victims_with_it() -> None:
    core = filled()
    evict(core, 1)
    drop(core, VICTIM)
    assert ends(core, 0, 1, 2) == [StatusItem(FAILED, VICTIM, [0, 1, 2], [0] * 3)]
    purge(core, VICTIM)


def test_word_of_an_eviction_of_a_job_that_goes() -> None:
    core = filled()
    drop(core, VICTIM)
    assert evict(core, 1) == ([(1, 1)], ["u1"])
    ends(core, 0, 1, 2)
    purge(core, VICTIM)


def test_another_specification_keeps_victims_and_lives() -> None:
    core = filled()
    again(core)
    evict(core, 0)
    job = core.order.jobs[VICTIM].job
    core.admitted(Changes(jobs=[replace(job, spec=job.spec + 1)]))
    core.validate()
    state = core.order.jobs[VICTIM]
    assert (state.evicted, state.incarnations, state.info.held) == (frozenset({0}), {1: 1}, [2])


# --- read from the ledger ---------------------------------------------------------------------


def truth(*tasks: TaskRecord) -> dict[int, tuple[JobRecord, dict[int, TaskRecord]]]:
    record_before = JobRecord(spec_version=0, qid=0, gone=False, groups=[Group(-1, 1)])
    return {VICTIM: (record_before, dict(enumerate(tasks)))}


def test_the_ledger_may_know_more_than_the_books() -> None:
    core = filled()
    core.reread(
        truth(
            TaskRecord(RUNNING, 0, 0, 3),
            TaskRecord(RELEASING, 0, 0, 4, 0, 2, WINNER, "why"),
            TaskRecord(PENDING, 0, 0, 5, 0, 3),
        )
    )
    core.validate()
    state = core.order.jobs[VICTIM]
    assert (state.evicted, state.incarnations, state.info.held) == (
        frozenset({1}),
        {1: 2, 2: 3},
        [1],
    )
    assert ends(core, 1, incarnation=2) == [
        StatusItem(PENDING, VICTIM, [1], [0], incarnations=(2,))
    ]
    assert state.incarnations == {1: 3, 2: 3}


# --- nominations --------------------------------------------------------------------------------


def nominated(core: Coordinator) -> None:
    """Another job evicts two tasks, and waits for their places."""
    core.admitted(Changes(jobs=[job(WINNER)]))
    call, turn = opened(core)[WINNER]
    outcome = placed(turn, level=3)
    victims = [EvictRun(VICTIM, 0, 0, 0, [1, 2], [0, 0], 0)]
    core.turns_returned(0, call, [replace(outcome, evictions=victims, reason="why")])
    core.validate()


def test_a_preemptor_waits_for_its_victims_in_any_order_of_reports() -> None:
    for told_first in (True, False):
        core = filled()
        if told_first:
            evict(core, 1, 2)
        nominated(core)
        if not told_first:
            assert core.order.jobs[WINNER].status is SchedulingStatus.NOMINATED
            evict(core, 1, 2)
        winner = core.order.jobs[WINNER]
        assert winner.status is SchedulingStatus.NOMINATED
        ends(core, 1)
        assert winner.status is SchedulingStatus.NOMINATED
        ends(core, 2)
        turn = opened(core)[WINNER][1]
        assert turn.nominated == {0: 0}


def test_nominations_end_with_the_preemptor_or_their_time() -> None:
    core = filled()
    evict(core, 1, 2)
    nominated(core)
    held = {WINNER: Nomination(WINNER, 0, 0.0, 50.0, [])}
    core.stray_nominations(held, 49.0)
    assert not [i for i in step(core) if isinstance(i, ReleaseNominations)]
    core.stray_nominations(held, 50.0)
    assert ReleaseNominations([WINNER]) in step(core)
    core = filled()
    evict(core, 1, 2)
    nominated(core)
    promised = dict(core.order.accounts.capacity.promised)
    drop(core, WINNER)
    assert any(promised.values())
    assert not any(core.order.accounts.capacity.promised.values())


def test_the_code_of_a_preemptors_outcome() -> None:
    core = filled()
    nominated(core)
    assert core.tally.of(0).outcomes[OutcomeCode.NOMINATED] == 1
