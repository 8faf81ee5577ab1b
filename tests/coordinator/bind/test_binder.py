"""Bind: what is asked of the cluster, and what its answers mean to the ledger."""

from __future__ import annotations

from coordinator.bind.binder import (
    BindPlan,
    judge_answers,
    part_of,
    plan_binds,
    read_reports,
    still_wanted,
)
from coordinator.cluster.protocol import BindAnswer, BindAnswers, Report, Reports
from shared.ledger.entries.stored import BindEntry, TaskRecord
from shared.messages.messages import StatusItem, TaskState
from tests.builders.rows import job

ENTRIES = [BindEntry(id="1-0", binds=[(1, 0, [0, 1], [5, 6]), (2, 0, [0], [7])])]


def plan() -> BindPlan:
    jobs = {1: job(1, count=2)}
    bind_plan = plan_binds(ENTRIES, jobs=jobs.get, node=lambda row: f"n{row}")
    assert bind_plan is not None
    return bind_plan


def test_a_bind_plan_names_task_incarnation_and_node_and_skips_deleted_jobs() -> None:
    bind_plan = plan()
    assert bind_plan.ids == ["1-0"]
    assert bind_plan.requests.tasks == ["1.0", "1.1"]
    assert bind_plan.requests.uids == ["u1", "u1"]
    assert bind_plan.requests.pods == ["ns/j1-worker-0", "ns/j1-worker-1"]
    assert bind_plan.requests.nodes == ["n5", "n6"]


def test_members_that_a_job_does_not_have_are_left_out() -> None:
    """A leader that stood still reads a bind of its successor's, of a pod that joined the job
    since. It raised: the process ended with a traceback where it should have stepped down."""
    jobs = {1: job(1, count=1), 2: job(2, count=1)}
    bind_plan = plan_binds(ENTRIES, jobs=jobs.get, node=lambda row: f"n{row}")
    assert bind_plan is not None
    assert (bind_plan.requests.tasks, bind_plan.requests.nodes) == (["1.0", "2.0"], ["n5", "n7"])
    assert (bind_plan.tasks, bind_plan.rows) == ([0, 0], [5, 7])


def test_a_bind_recorded_before_a_crash_is_not_repeated() -> None:
    """Refused and recorded, then placed on node 9: binding it on node 5 again would be a second."""
    tasks = {
        1: {
            0: TaskRecord(state=TaskState.BINDING, row=9, cid=0, version=3),
            1: TaskRecord(state=TaskState.BINDING, row=6, cid=0, version=1),
        },
        2: {0: TaskRecord(state=TaskState.RUNNING, row=7, cid=0, version=2)},
    }
    (entry,) = still_wanted(ENTRIES, tasks)
    assert entry.binds == [(1, 0, [1], [6])]


def test_answers_become_states_and_unknown_ones_are_asked_again() -> None:
    bind_plan = plan()
    result = judge_answers(
        bind_plan, BindAnswers([BindAnswer.ALREADY, BindAnswer.UNKNOWN], ["n5", ""])
    )
    assert result.items == [StatusItem(state=TaskState.BOUND, jid=1, tasks=[0], rows=[5])]
    again = part_of(bind_plan, result.again)
    assert again.requests.tasks == ["1.1"]
    assert again.ids == []


def test_a_refused_bind_goes_back_and_one_found_elsewhere_is_an_alarm() -> None:
    bind_plan = plan()
    result = judge_answers(
        bind_plan, BindAnswers([BindAnswer.REFUSED, BindAnswer.ELSEWHERE], ["", "x"])
    )
    assert result.items == [StatusItem(state=TaskState.PENDING, jid=1, tasks=[0], rows=[5])]
    assert result.elsewhere == [1]


def test_reports_of_a_job_keep_their_order_and_share_items() -> None:
    s, r, e = Report.STARTED, Report.RELEASING, Report.SUCCEEDED
    reports = Reports(
        last=6,
        kinds=[s, s, s, r, e, r],
        tasks=["1.0", "2.0", "1.1", "1.0", "1.0", "1.1"],
        nodes=["n1", "n2", "n1", "n1", "n1", "n1"],
    )
    items = read_reports(reports, rows={f"n{row}": row for row in range(10)})
    assert [(i.jid, i.state.name, i.tasks) for i in items] == [
        (1, "RUNNING", [0, 1]),
        (2, "RUNNING", [0]),
        (1, "RELEASING", [0]),
        (1, "SUCCEEDED", [0]),
        (1, "RELEASING", [1]),
    ]


def test_a_plan_carries_the_devices_of_its_entries_also_in_parts() -> None:
    half = (("kai-gpu/1", (500,)),)
    entry = BindEntry(id="1-0", binds=[(1, 0, [0, 1], [5, 6])], devices={(1, 1): half})
    jobs = {1: job(1, count=2)}
    bind_plan = plan_binds([entry], jobs=jobs.get, node=lambda row: f"n{row}")
    assert bind_plan is not None
    assert bind_plan.requests.devices == [(), half]
    assert part_of(bind_plan, [1]).requests.devices == [half]
    assert plan().requests.devices == []


def test_a_bind_pending_at_another_binder_is_not_recorded() -> None:
    answers = BindAnswers([BindAnswer.PENDING, BindAnswer.UNKNOWN], ["", ""])
    result = judge_answers(plan(), answers)
    assert (result.items, result.pending, result.again) == ([], [0], [1])
