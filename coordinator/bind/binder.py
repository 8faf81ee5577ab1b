"""Bind: from an entry of the bind stream to the cluster, and from the cluster's answers to the
ledger.

At least once on the wire, once in effect: the stream redelivers what was never acknowledged, the
cluster answers "already" for what it has, and both count as success. An entry is acknowledged after
its answers are recorded, never before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from coordinator.bind.quarantine import RefusedBind
from coordinator.cluster.protocol import (
    BindAnswer,
    BindAnswers,
    BindRequests,
    Report,
    Reports,
    incarnation_uid,
)
from shared.codec.packed import replace
from shared.ledger.entries.stored import BindEntry, TaskRecord
from shared.messages.messages import StatusItem, TaskState
from shared.model.model import Job
from shared.units.things import Things


@dataclass(frozen=True, slots=True)
class BindPlan:
    """One call to the cluster. ``jids``, ``tasks`` and ``rows`` run parallel to the requests."""

    ids: list[str]
    jids: list[int]
    tasks: list[int]
    rows: list[int]
    requests: BindRequests


def plan_binds(
    entries: list[BindEntry],
    *,
    jobs: Callable[[int], Job | None],
    node: Callable[[int], str | None],
) -> BindPlan | None:
    """Columns for the driver. Tasks of removed jobs are left out (their entry is only
    acknowledged), and so are members that a job does not have: a leader that stood still may read
    here what its successor has placed, before it knows that it was deposed.

    None where a node is not known yet: workers learn of a new node from the log, and their
    placement there may be read here before the coordinator knows the node. Plan again a little
    later.
    """
    jids: list[int] = []
    tixs: list[int] = []
    rows: list[int] = []
    names: list[str] = []
    uids: list[str] = []
    pods: list[str] = []
    nodes: list[str] = []
    durations: list[float | None] = []
    codes: list[int] = []
    statements: list[str] = []
    devices: list[Things] = []
    for entry in entries:
        again, held = entry.incarnations, entry.devices  # nearly always empty
        for jid, _cid, placed, on in entry.binds:
            job = jobs(jid)
            if job is None:
                continue
            uid = job.uid
            # Nearly all have one task: a loop, where a list by column would be nine for each.
            for tix, row in zip(placed, on, strict=True):
                if (role := job.known_role(tix)) is None:
                    continue
                if (name := node(row)) is None:
                    return None
                jids.append(jid)
                tixs.append(tix)
                rows.append(row)
                nodes.append(name)
                uids.append(incarnation_uid(uid, again.get((jid, tix), 0)) if again else uid)
                # The job's number and not its name: a Job that begins anew has another number, so
                # what comes late of its earlier incarnation cannot be taken for the new one
                # (decision 0018).
                names.append(f"{jid}.{tix}")
                pods.append(f"{job.namespace}/{job.pod_name(tix)}")
                durations.append(role.duration)
                codes.append(role.exit_code)
                statements.append(entry.id)
                devices.append(held.get((jid, tix), ()) if held else ())
    return BindPlan(
        ids=[entry.id for entry in entries],
        jids=jids,
        tasks=tixs,
        rows=rows,
        requests=BindRequests(
            tasks=names,
            uids=uids,
            pods=pods,
            nodes=nodes,
            durations=durations,
            exit_codes=codes if any(codes) else [],
            entries=statements,
            devices=devices if any(devices) else [],
        ),
    )


def still_wanted(
    entries: list[BindEntry], tasks: Mapping[int, Mapping[int, TaskRecord]]
) -> list[BindEntry]:
    """The entries without binds of tasks that the ledger does not hold as BINDING on that node.

    For redelivered entries: before the previous reader died, the answer may have been recorded and
    the task placed on another node.
    """
    remaining = []
    for entry in entries:
        binds = []
        for jid, cid, tixs, rows in entry.binds:
            records = tasks.get(jid, {})
            keep = [
                i
                for i, (tix, row) in enumerate(zip(tixs, rows, strict=True))
                if tix in records
                and records[tix].state == TaskState.BINDING
                and records[tix].row == row
            ]
            if keep:
                binds.append((jid, cid, [tixs[i] for i in keep], [rows[i] for i in keep]))
        remaining.append(replace(entry, binds=binds))
    return remaining


@dataclass(frozen=True, slots=True)
class BindResult:
    items: list[StatusItem]
    again: list[int]
    """Positions in the plan whose outcome is unknown: they are asked again later."""
    pending: list[int]
    """Positions that another binder was asked for and has not answered."""
    elsewhere: list[int]
    """Positions that the cluster has on another node: an alarm, because a second writer is at work.
    The ledger follows the cluster."""
    refused: list[RefusedBind] = field(default_factory=list)


def judge_answers(plan: BindPlan, answers: BindAnswers) -> BindResult:
    """Derive the task states to record in the ledger from the cluster's answers."""
    outcome: dict[tuple[int, TaskState], tuple[list[int], list[int]]] = {}
    unrecorded: dict[int, list[int]] = {}
    for i, answer in enumerate(answers.answers):
        state = _RECORDED.get(answer)
        # About an incarnation that was evicted since: recorded, it would end or place the one that
        # came after it (decision 0028).
        if answer == BindAnswer.OVER:
            continue
        if state is None:
            unrecorded.setdefault(answer, []).append(i)
            continue
        tasks, rows = outcome.setdefault((plan.jids[i], state), ([], []))
        tasks.append(plan.tasks[i])
        rows.append(plan.rows[i])
    items = [
        StatusItem(state=state, jid=jid, tasks=tasks, rows=rows)
        for (jid, state), (tasks, rows) in outcome.items()
    ]
    return BindResult(
        items=items,
        again=unrecorded.get(BindAnswer.UNKNOWN, []),
        pending=unrecorded.get(BindAnswer.PENDING, []),
        elsewhere=unrecorded.get(BindAnswer.ELSEWHERE, []),
        refused=_refused(plan, answers),
    )


def _refused(plan: BindPlan, answers: BindAnswers) -> list[RefusedBind]:
    if BindAnswer.REFUSED not in answers.answers:
        return []
    reasons = answers.reasons or [""] * len(answers.answers)
    return [
        RefusedBind(plan.jids[i], plan.tasks[i], plan.rows[i], reasons[i])
        for i, answer in enumerate(answers.answers)
        if answer == BindAnswer.REFUSED
    ]


def adopt(
    plan: BindPlan,
    answers: BindAnswers,
    positions: list[int],
    *,
    jobs: Callable[[int], Job | None],
    rows: Mapping[str, int],
    devices: Callable[[Job, int, int], Things],
) -> list[StatusItem]:
    """Status items for tasks that the cluster runs on other nodes than requested; tasks whose job
    or node is unknown are left out."""
    items: list[StatusItem] = []
    for i in positions:
        job, row = jobs(plan.jids[i]), rows.get(answers.where[i])
        if job is not None and row is not None:
            items.append(_adopted(job, plan.tasks[i], row, devices))
    return items


def taken_by(plan: BindPlan, answers: BindAnswers, among: Collection[int]) -> set[int]:
    """The rows of ``among`` that accepted a bind."""
    if not among:
        return set()
    return {
        row
        for row, answer in zip(plan.rows, answers.answers, strict=True)
        if answer == BindAnswer.OK and row in among
    }


_RECORDED: dict[int, TaskState] = {
    BindAnswer.OK: TaskState.BOUND,
    BindAnswer.ALREADY: TaskState.BOUND,
    # The node is free again at once; which node refused is for the quarantine to count.
    BindAnswer.REFUSED: TaskState.PENDING,
    # Lost, not failed: the loss came from outside, so the gang is repaired and the job's policies
    # do not decide alone (decision 0040).
    BindAnswer.GONE: TaskState.LOST,
    BindAnswer.SUCCEEDED: TaskState.SUCCEEDED,
}


def part_of(plan: BindPlan, positions: list[int]) -> BindPlan:
    """The plan that asks again for these positions; it acknowledges nothing."""
    return BindPlan(
        ids=[],
        jids=[plan.jids[i] for i in positions],
        tasks=[plan.tasks[i] for i in positions],
        rows=[plan.rows[i] for i in positions],
        requests=plan.requests.select(positions),
    )


def read_names(names: list[str]) -> list[tuple[int, int]]:
    """(jid, tix) of each task name that the cluster uses."""
    parts = [name.partition(".") for name in names]
    return [(int(jid), int(tix)) for jid, _, tix in parts]


_REPORTED = {
    Report.STARTED: TaskState.RUNNING,
    Report.RELEASING: TaskState.RELEASING,
    Report.SUCCEEDED: TaskState.SUCCEEDED,
    Report.FAILED: TaskState.FAILED,
}


def read_reports(
    reports: Reports,
    *,
    rows: Mapping[str, int],
    jobs: Callable[[int], Job | None] = lambda jid: None,
    devices: Callable[[Job, int, int], Things] = lambda job, tix, row: (),
) -> list[StatusItem]:
    """The cluster's reports as ledger items; consecutive reports of one kind and job are merged.

    ``rows``: node name -> row, deleted nodes included. ``jobs``: what the books know of a job;
    asked where a task is on a node that somebody else chose. ``devices``: (job, tix, row) -> what
    the task has there.

    The order within a job is kept, because a task starts before it ends.
    """
    items: list[StatusItem] = []
    last: dict[int, tuple[int, StatusItem]] = {}
    for kind, task, node in zip(reports.kinds, reports.tasks, reports.nodes, strict=True):
        head, _, tix = task.partition(".")
        jid = int(head)
        if kind == Report.BOUND:
            last.pop(jid, None)
            job, row = jobs(jid), rows.get(node)
            # Where the job, the member or the node is not known (any more) reconciling finds it
            # again once they are.
            if job is not None and row is not None and job.known_role(int(tix)) is not None:
                _append_adopted(items, _adopted(job, int(tix), row, devices))
            continue
        previous = last.get(jid)
        if previous is None or previous[0] != kind:
            item = StatusItem(state=_REPORTED[Report(kind)], jid=jid, tasks=[], rows=[])
            last[jid] = (kind, item)
            items.append(item)
        else:
            item = previous[1]
        item.tasks.append(int(tix))
        # -1 is no task's row: the script changes nothing whose record names another row.
        item.rows.append(rows.get(node, -1))
    return items


def _adopted(
    job: Job, tix: int, row: int, devices: Callable[[Job, int, int], Things]
) -> StatusItem:
    """Status item of a task that is bound to a node, whoever bound it there."""
    role, taken = job.role_of(tix), devices(job, tix, row)
    return StatusItem(TaskState.BOUND, job.jid, [tix], [row], role.cid, role.group, taken)


def _append_adopted(items: list[StatusItem], adopted: StatusItem) -> None:
    """Append, merged into the last item where that adopts members of the same role."""
    previous = items[-1] if items else None
    if previous is not None and replace(previous, tasks=[], rows=[]) == replace(
        adopted, tasks=[], rows=[]
    ):
        previous.tasks.extend(adopted.tasks)
        previous.rows.extend(adopted.rows)
    else:
        items.append(adopted)
