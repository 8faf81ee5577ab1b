"""The way between ledger and cluster in a seeded run: binds go out, reports come in."""

from __future__ import annotations

from coordinator.binder import BindPlan, judge_answers, part_of, plan_binds, read_reports
from coordinator.cluster.kubelets import Kubelets
from coordinator.cluster.protocol import BindAnswers, ClusterTimeout, Reports
from coordinator.core import Coordinator
from coordinator.simulation.books import Seat
from coordinator.simulation.timeline import Alarm, Lane, Timeline
from shared.ledger.double import LedgerDouble
from shared.ledger.protocol import BindEntry
from shared.ledger.synchronous import at_once
from shared.model import Job

ENTRIES = 64
"""Entries of the bind stream in one call to the cluster."""

ASK_AGAIN_SECONDS = 0.2
"""Pause before asking again where the cluster did not answer."""


class SimulatedBinding:
    def __init__(
        self,
        *,
        timeline: Timeline,
        ledger: LedgerDouble,
        core: Coordinator,
        kubelets: Kubelets,
        seat: Seat,
    ) -> None:
        self._timeline = timeline
        self._mean = timeline.network.cluster
        self._ledger = ledger
        self._core = core
        self._kubelets = kubelets
        self._seat = seat
        self.elsewhere = 0
        """Tasks that the cluster has on another node than the ledger: never, if all is well."""
        self._seen = 0
        self._alarm = Alarm(timeline, self._cluster_moves)
        self._lane = Lane(timeline, self._mean)

    # --- binds --------------------------------------------------------------------------------

    def look(self) -> None:
        """The bind stream may have something new."""
        self._timeline.send(self._timeline.network.ledger, self._read)

    def _read(self) -> None:
        entries = at_once(self._ledger.read_binds("coordinator", count=ENTRIES))
        if entries:
            self._plan(entries)

    def _plan(self, entries: list[BindEntry]) -> None:
        plan = plan_binds(entries, jobs=self._job, node=self._core.names.get)
        if plan is None:
            self._timeline.after(ASK_AGAIN_SECONDS, lambda: self._plan(entries))
        else:
            self._drive(plan, [entry.id for entry in entries])

    def _job(self, jid: int) -> Job | None:
        state = self._core.order.jobs.get(jid)
        return None if state is None else state.job

    def _drive(self, plan: BindPlan, ids: list[str]) -> None:
        """Ask the cluster, and again for what it did not answer; the end acknowledges ``ids``."""

        def arrive() -> None:
            try:
                answers = self._kubelets.bind(plan.requests, self._timeline.now)
                if self._timeline.strikes(self._timeline.network.answer_lost):
                    raise ClusterTimeout("the answer was lost on its way")
            except ClusterTimeout:
                self._again(plan, ids)
            else:
                self._timeline.send(self._mean, lambda: self._answered(plan, answers, ids))
            self._await_cluster()

        self._timeline.send(self._mean, arrive)

    def _again(self, plan: BindPlan, ids: list[str]) -> None:
        self._timeline.after(ASK_AGAIN_SECONDS, lambda: self._drive(plan, ids))

    def _answered(self, plan: BindPlan, answers: BindAnswers, ids: list[str]) -> None:
        result = judge_answers(plan, answers)
        self.elsewhere += len(result.lost)

        def recorded() -> None:
            if result.again:
                self._again(part_of(plan, result.again), ids)
            else:
                at_once(self._ledger.ack_binds(ids))

        if result.items:
            self._seat.record(result.items, [], recorded)
        else:
            recorded()

    # --- reports ------------------------------------------------------------------------------

    def _await_cluster(self) -> None:
        self._alarm.set(self._kubelets.next_due())

    def _cluster_moves(self) -> None:
        self._kubelets.advance(self._timeline.now)
        self._lane.push(lambda: self._kubelets.reports(self._seen), self._report)
        self._await_cluster()

    def _report(self, reports: Reports) -> None:
        items = read_reports(reports, row=lambda name: self._core.rows.get(name, -1))
        if items:
            self._seat.record(items, [], lambda: self._acknowledge(reports.last))

    def _acknowledge(self, last: int) -> None:
        """Durable: the next question lets the cluster forget them."""
        self._seen = max(self._seen, last)
