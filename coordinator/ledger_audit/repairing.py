"""From findings to the one call that repairs them, and from its answer to what is reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinator.ledger_audit.findings import AuditKind, Finding, Subject
from shared.ledger.entries.repair import EVIDENCE, RepairReply, RepairRequest, RepairResult
from shared.ledger.entries.stored import TaskRecord
from shared.ledger.records import ALLOCATABLE, OBSERVED, WIDTH, unpack_node
from shared.messages.messages import TaskState

REPAIRS = 256
"""Findings of one call: the next look has the rest. One call costs as much as reading all tasks,
whatever it repairs."""

Task = tuple[int, int]


def request_of(findings: Iterable[Finding], tasks: Mapping[Task, bytes]) -> RepairRequest:
    """``tasks``: records of the tasks among the findings, as they stand now."""
    nodes: dict[int, bytes] = {}
    queues: dict[int, bytes] = {}
    jobs: dict[int, bytes] = {}
    nominations: dict[int, bytes] = {}
    domains: dict[str, bytes] = {}
    task_records: dict[Task, bytes] = {}
    for finding in findings:
        evidence = finding.record[-EVIDENCE:]
        match finding.subject:
            case Subject.NODE:
                nodes[finding.name[0]] = evidence
            case Subject.QUEUE:
                queues[finding.name[0]] = evidence
            case Subject.JOB:
                jobs[finding.name[0]] = evidence
            case Subject.NOMINATION:
                nominations[finding.name[0]] = evidence
            case Subject.DOMAIN:
                domains[finding.key] = evidence
            case Subject.TASK:
                jid, tix = finding.name
                if (jid, tix) in tasks:  # else it went meanwhile: the next look tells
                    task_records[jid, tix] = tasks[jid, tix]
    return RepairRequest(
        [*nodes.items()],
        [*queues.items()],
        [*jobs.items()],
        [*nominations.items()],
        [*domains.items()],
        [(jid, tix, record) for (jid, tix), record in task_records.items()],
    )


def results_of(
    request: RepairRequest, reply: RepairReply
) -> dict[tuple[Subject, tuple[int, ...], str], RepairResult]:
    """By subject, name and key of the finding."""
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
    """Nodes whose capacity, or what others use of them, was below 0. No task record tells what it
    should be; the ledger puts it where nothing can be placed too much (no capacity, no use), and
    the coordinator stores what it knows of the node."""
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
    """Tasks that are BINDING still (``stuck``: with their rows), and that no open bind entry names.

    ``records`` were read after the entries: an entry comes with the record that it is for, so that
    one that was missed is of a newer record, and the ledger looks once more."""
    for (jid, tix), row in stuck.items():
        if (jid, tix) not in records or (jid, tix, row) in named:
            continue
        task, record = records[jid, tix]
        if task.state == TaskState.BINDING and task.row == row:
            yield Finding(AuditKind.BIND_LOST, Subject.TASK, (jid, tix), record)
