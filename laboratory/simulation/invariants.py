"""Invariants at the end of a seeded run, and violations of them."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass

from laboratory.checker.report.report import CheckReport
from laboratory.simulation.leader import settled
from laboratory.simulation.run import Simulation
from laboratory.simulation.scenario import FaultKind, Scenario
from shard_worker.view.view import View
from shared.ledger.memory.synchronous import at_once
from shared.ledger.records import NOMINATED, RELEASING, USED, WIDTH, unpack_node


@dataclass(frozen=True, slots=True)
class Broken:
    """``rule`` identifies the kind of failure; ``message`` has the details."""

    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.message}"


def crashed(error: Exception) -> Broken:
    """The production code itself raised an error."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{frame.filename.rpartition('/')[2]} {frame.name}"
    text = str(error).splitlines()[0] if str(error) else (frame.line or "")
    return Broken(f"{type(error).__name__} in {place}", text)


def broken_rules(wanted: Scenario, simulation: Simulation, report: CheckReport) -> list[Broken]:
    """All violations at the end of a run; the first one is the most telling."""
    broken = run_violations(simulation, report)
    if not simulation.over:
        broken.append(Broken("unfinished", f"at {simulation.timeline.now:.0f} s it is not over"))
    if not settled(simulation.core):
        broken.append(Broken("unfinished", str(simulation.core.status()["jobs"])))
        return broken  # what follows is only true of runs that came to their end
    broken += _account(wanted, report)
    return broken + final_violations(simulation)


def run_violations(simulation: Simulation, report: CheckReport) -> list[Broken]:
    """Violations that checker, audits and ledger found while the run lasted."""
    broken = [Broken(f"promise {v.promise}", str(v)) for v in report.violations]
    broken += _audited(simulation)
    broken += _refused(simulation)
    return broken


def final_violations(simulation: Simulation) -> list[Broken]:
    """Violations at the end of a run in which every job has ended."""
    broken: list[Broken] = []
    try:
        simulation.core.validate()
    except AssertionError as error:
        broken.append(crashed(error))
    broken += _nothing_left(simulation)
    broken += _views(simulation)
    return broken


def _audited(simulation: Simulation) -> Iterator[Broken]:
    """Findings of the ledger audits of all leaders."""
    for finding in simulation.audited:
        yield Broken("ledger audit", str(finding))


def _refused(simulation: Simulation) -> Iterator[Broken]:
    """Check that the ledger had nothing to refuse."""
    if simulation.refused_writes:
        yield Broken("refused", f"{simulation.refused_writes} writes that the ledger refused")


def _account(wanted: Scenario, report: CheckReport) -> Iterator[Broken]:
    """Check that everything submitted ended, once and as a whole."""
    summary = report.summary
    ended = summary.tasks_finished + summary.tasks_failed + summary.tasks_deleted
    if ended != summary.tasks_submitted:
        yield Broken("account", f"{summary.tasks_submitted} submitted, {ended} ended: {summary}")
    if (
        wanted.deletes
        or wanted.restarts
        or any(fault.kind is FaultKind.TASKS_LOST for fault in wanted.faults)
    ):
        return
    whole = summary.jobs_finished == summary.jobs_submitted
    if not (whole and summary.tasks_finished == summary.tasks_bound):
        yield Broken("account", f"nothing was taken away, and not everything finished: {summary}")


def _nothing_left(simulation: Simulation) -> Iterator[Broken]:
    """Check that jobs returned all they used: on nodes, in queues, nominations and streams."""
    core, snapshot = simulation.core, at_once(simulation.ledger.snapshot())
    for row, record in zip(snapshot.nodes.rows, snapshot.nodes.records, strict=True):
        slots = unpack_node(record)[2]
        if any(any(slots[part::WIDTH]) for part in (USED, RELEASING, NOMINATED)):
            yield Broken("left behind", f"row {row} still holds something")
    for qid, queue in snapshot.queues.items():
        if queue.used:
            yield Broken("left behind", f"queue {qid} still counts {queue.used}")
    if snapshot.nominations:
        yield Broken("left behind", f"nominations of jobs {sorted(snapshot.nominations)}")
    if unread := at_once(simulation.ledger.read_binds("coordinator", own=True)):
        yield Broken("left behind", f"{len(unread)} bind entries that nobody acknowledged")
    if core.leaving or core.order.departures.members:
        yield Broken("left behind", f"deleted jobs {sorted(core.leaving)}")
    if core.order.open:
        yield Broken("left behind", f"{core.order.open} open turns")


def _views(simulation: Simulation) -> Iterator[Broken]:
    """Check that each view, with the log read to its end, equals a freshly loaded one."""
    for shard, worker in simulation.shards.workers.items():
        if not worker.process.alive:
            continue
        worker.follow()
        server = worker.server
        server.worker.validate()
        fresh = View(shard=shard, pool=simulation.core.order.session.eligibility.pool)
        fresh.load(at_once(simulation.ledger.snapshot(workload=False)))
        slots = max(server.view.columns.slots, fresh.columns.slots)
        for view in (server.view, fresh):
            view.columns.grow(slots=slots)
        if server.worker.open_turns:
            yield Broken("views", f"shard {shard} has {server.worker.open_turns} open turns")
        if server.view.columns.image() != fresh.columns.image():
            yield Broken("views", f"shard {shard} counts other amounts than the ledger")
        if server.view.things.image() != fresh.things.image():
            yield Broken("views", f"shard {shard} counts other named things than the ledger")
        if not _same(server.view, fresh):
            yield Broken("views", f"shard {shard} knows other objects than the ledger")


def _same(view: View, fresh: View) -> bool:
    return (
        view.nodes == fresh.nodes
        and view.classes == fresh.classes
        and view.nominations == fresh.nominations == {}
        and bool((view.own == fresh.own).all())
    )
