"""From findings to the single call that repairs them, and from its reply to the report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from coordinator.ledger_audit.findings import AuditKind, Finding, Subject
from shared.ledger.entries.repair import EVIDENCE, RepairReply, RepairRequest, RepairResult
from shared.ledger.entries.stored import TaskRecord
from shared.ledger.records import ALLOCATABLE, OBSERVED, WIDTH, unpack_node
from shared.messages.messages import TaskState

REPAIRS = 256
"""Maximum findings per call; the next pass has the rest. A call costs as much as reading all tasks,
whatever it repairs."""

Task = tuple[int, int]


def request_of(findings: Iterable[Finding], tasks: Mapping[Task, bytes]) -> RepairRequest:
    """``tasks``: current records of the tasks among the findings."""
    numbered: defaultdict[Subject, dict[int, bytes]] = defaultdict(dict)
    domains: dict[str, bytes] = {}
    task_records: dict[Task, bytes] = {}
    for finding in findings:
        # The end of the record has its seal: the script repairs only what is still the record that
        # was found (decision 0039).
        evidence = finding.record[-EVIDENCE:]
        match finding.subject:
            case Subject.DOMAIN:
                domains[finding.key] = evidence
            case Subject.TASK:
                jid, tix = finding.name
                if (jid, tix) in tasks:  # else it went meanwhile: the next look tells
                    task_records[jid, tix] = tasks[jid, tix]
            case subject:
                numbered[subject][finding.name[0]] = evidence
    return RepairRequest(
        nodes=[*numbered[Subject.NODE].items()],
        queues=[*numbered[Subject.QUEUE].items()],
        jobs=[*numbered[Subject.JOB].items()],
        nominations=[*numbered[Subject.NOMINATION].items()],
        domains=[*domains.items()],
        tasks=[(jid, tix, record) for (jid, tix), record in task_records.items()],
    )


def results_of(
    request: RepairRequest, reply: RepairReply
) -> dict[tuple[Subject, tuple[int, ...], str], RepairResult]:
    """Result by subject, name and key of the finding."""
    names: list[list[tuple[Subject, tuple[int, ...], str]]] = [
        [(Subject.NODE, (row,), "") for row, _ in request.nodes],
        [(Subject.QUEUE, (qid,), "") for qid, _ in request.queues],
        [(Subject.JOB, (jid,), "") for jid, _ in request.jobs],
        [(Subject.NOMINATION, (jid,), "") for jid, _ in request.nominations],
        [(Subject.DOMAIN, (), name) for name, _ in request.domains],
        [(Subject.TASK, (jid, tix), "") for jid, tix, _ in request.tasks],
    ]
    result_of: dict[tuple[Subject, tuple[int, ...], str], RepairResult] = {}
    for those, results in zip(names, reply.results, strict=True):
        result_of.update(zip(those, results, strict=True))
    return result_of


def rows_to_store_again(findings: Iterable[Finding]) -> list[int]:
    """Nodes with a negative capacity or negative usage by others.

    No task record tells the right value. The ledger replaces it by one that prevents overcommitment
    (no capacity, no use), and the coordinator stores its own knowledge of the node again.
    """
    rows = []
    for finding in findings:
        if finding.subject is Subject.NODE and finding.kind is AuditKind.NEGATIVE:
            _, _, flat = unpack_node(finding.record)
            if any(n < 0 and at % WIDTH in (ALLOCATABLE, OBSERVED) for at, n in enumerate(flat)):
                rows.append(finding.name[0])
    return rows


def lost_binds(
    stuck: Mapping[Task, int],
    named: set[tuple[int, int, int]],
    records: Mapping[Task, tuple[TaskRecord, bytes]],
) -> Iterable[Finding]:
    """Tasks that are still BINDING (``stuck``, with their rows) and that no open bind entry names.

    ``records`` were read after the entries: a bind entry is written together with the task record,
    so an entry that was missed belongs to a newer record, and the ledger checks once more.
    """
    for (jid, tix), row in stuck.items():
        if (jid, tix) not in records or (jid, tix, row) in named:
            continue
        task, record = records[jid, tix]
        if task.state == TaskState.BINDING and task.row == row:
            yield Finding(AuditKind.BIND_LOST, Subject.TASK, (jid, tix), record)
