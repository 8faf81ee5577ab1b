"""Totals of the ledger that were made wrong in the midst of a seeded run."""

from __future__ import annotations

from coordinator.ledger_audit.findings import AuditKind
from laboratory.simulation.scenario import Fault, FaultKind
from shared.ledger.memory.synchronous import at_once
from shared.ledger.records import USED
from shared.messages.messages import TaskState
from shared.policy.volcano import DEFAULT_POLICY
from tests.coordinator.ledger_audit.damage import held_off, node_off
from tests.laboratory.simulation.contending import Run, job

DAMAGED, KILLED = 1.0, 3.0
"""Seconds after the start. The leader audits the ledger several times in between."""


def test_the_next_leader_places_by_the_right_totals() -> None:
    """One node seems full. What needs both of them waits until another leads."""
    run = Run(nodes=2, policy=DEFAULT_POLICY)
    run.submit(job("first", 2, cpu="1", seconds=10_000))
    run.until(DAMAGED)
    at_once(node_off(run.sim.ledger, 0, USED, 1_000_000))
    jid = next(iter(run.sim.core.order.jobs))
    at_once(held_off(run.sim.ledger, jid, 0, 7))
    run.submit(job("second", 3, cpu="2", seconds=10_000), at=0.0)
    run.sim.strike(Fault(FaultKind.LEADER_KILLED, KILLED - DAMAGED))
    run.until(KILLED)
    assert {finding.kind for finding in run.sim.audited} == {
        AuditKind.NODE_USED,
        AuditKind.GROUP_HELD,
    }
    assert run.state("second") == [TaskState.PENDING] * 3
    run.until(KILLED + 2.0)
    assert run.sim.core.tally.ledger_audit.recounted == {
        AuditKind.NODE_USED: 1,
        AuditKind.GROUP_HELD: 1,
    }
    assert run.state("second").count(TaskState.PENDING) == 0
    audit = run.sim.incarnation.audit
    assert audit is not None and not audit.found
