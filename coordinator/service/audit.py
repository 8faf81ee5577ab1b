"""The ledger audit of a leader: its reader, its repairs and whom it informs."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.bind.status_writer import Recorder
from coordinator.core.coordinator import Coordinator
from coordinator.core.foreign_use import observation
from coordinator.ledger_audit.findings import Finding
from coordinator.ledger_audit.looker import AuditReader
from coordinator.ledger_audit.loop import LedgerAudit
from coordinator.service.executor import Executor
from shared.ledger.entries.intake_batch import IntakeOp, PutNode
from shared.ledger.protocol import Ledger
from shared.records.specs import encode_node


def ledger_audit(
    ledger: Ledger, *, core: Coordinator, recorder: Recorder, executor: Executor, every: float
) -> LedgerAudit:
    """The loop that compares the ledger's totals with its task records, with pauses of ``every``
    seconds."""

    async def store_again(rows: Sequence[int]) -> None:
        """Store the known capacity and foreign usage of these nodes again."""
        ops: list[IntakeOp] = []
        nodes = core.partition.known
        for row in rows:
            if (node := nodes.get(row)) is not None:
                ops.append(PutNode(row, list(node.allocatable), node.spec, encode_node(node)))
                ops.append(observation(row, core.observed.get(row, {}), {}))
        if ops:
            await executor.store(ops)

    def report(finding: Finding, outcome: str) -> str:
        text = f"{finding.describe()}: {outcome}"
        return f"{core.observer.ledger_contradicted(finding, text)}: {text}"

    figures = core.tally.ledger_audit
    return LedgerAudit(
        AuditReader(ledger.for_another_loop(), figures=figures),
        repair=recorder.repair,
        store_again=store_again,
        report=report,
        figures=figures,
        every=every,
        recorded=lambda: recorder.tasks_recorded,
    )
