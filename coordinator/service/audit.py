"""The ledger audit of a leader, connected to its ledger and its observer."""

from __future__ import annotations

from functools import partial

from coordinator.bind.status_writer import Recorder
from coordinator.core.coordinator import Coordinator
from coordinator.ledger_audit.findings import Finding
from coordinator.ledger_audit.looker import AuditReader
from coordinator.ledger_audit.loop import LedgerAudit
from shared.ledger.protocol import Ledger
from shared.ledger.retry import insist


def ledger_audit(
    ledger: Ledger, *, core: Coordinator, recorder: Recorder, every: float
) -> LedgerAudit:
    """The loop that compares the ledger's totals with its task records, with pauses of ``every``
    seconds."""

    async def request_recount(reason: str) -> None:
        await insist(partial(ledger.request_recount, reason), call_name="mark the ledger")

    def report(finding: Finding, outcome: str) -> str:
        text = f"{finding.describe()}: {outcome}"
        return f"{core.observer.ledger_contradicted(finding, text)}: {text}"

    figures, own = core.tally.ledger_audit, ledger.for_another_loop()
    return LedgerAudit(
        AuditReader(own, figures=figures),
        closing=own.close,
        request_recount=request_recount,
        report=report,
        figures=figures,
        every=every,
        recorded=lambda: recorder.tasks_recorded,
    )
