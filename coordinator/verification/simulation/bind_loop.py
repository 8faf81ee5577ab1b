"""The binder of a seeded run: binds from the ledger to the cluster, reports back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from coordinator.bind.binder import BindPlan, part_of, plan_binds, read_names, still_wanted
from coordinator.cluster.protocol import BindAnswer, BindAnswers, ClusterTimeout, Reports
from coordinator.cluster.simulated.kubelets import Kubelets
from coordinator.core.coordinator import Coordinator
from coordinator.verification.simulation.process import Alarm, Lane, Process
from coordinator.verification.simulation.service_edges import ServiceEdges
from coordinator.verification.simulation.virtual_time import ECHO_SECONDS, Event, Place
from shared.ledger.entries.stored import BindEntry
from shared.ledger.memory.ledger import LedgerDouble
from shared.ledger.memory.synchronous import at_once

CONSUMER = "coordinator"

ENTRIES = 64
"""Entries of the bind stream per call to the cluster."""

LOOK_BACK_SECONDS = 5.0
"""Interval of the search for entries that were delivered under the name :data:`CONSUMER` and that
nobody processes."""

EVERYTHING = 1_000_000

REPORT_SECONDS = 0.25
"""Interval of requests for reports if none are known to be due."""

ASK_AGAIN_SECONDS = 0.2
"""Pause before a retry if the cluster did not answer."""


T = TypeVar("T")


class SimulatedBinding:
    def __init__(
        self,
        *,
        process: Process,
        ledger: LedgerDouble,
        core: Coordinator,
        kubelets: Kubelets,
        edges: ServiceEdges,
    ) -> None:
        self._process = process
        self._mean = process.network.cluster
        self._ledger = ledger
        self._core = core
        self._kubelets = kubelets
        self._edges = edges
        self.elsewhere = 0
        """Tasks that the cluster has on another node than the ledger; 0 if all is well."""
        self.redelivered = 0
        """Binds left unfinished by an earlier coordinator."""
        self._redelivering = True
        self._under_way: set[str] = set()
        self._seen = 0
        self._alarm = Alarm(process, self._cluster_moves)
        self._reading = Lane(process, Place.LEDGER)
        self._asking = Lane(process, Place.CLUSTER)

    # --- binds --------------------------------------------------------------------------------

    def start(self) -> None:
        """First process what an earlier coordinator did not acknowledge, and reports it did not
        receive."""
        self._look_back()
        self._ask_again()

    def _ask_again(self) -> None:
        """Request reports periodically: binds that another coordinator requested have reports
        too."""
        self._cluster_moves()
        self._process.round(REPORT_SECONDS, self._ask_again, background=True)

    def look(self) -> None:
        """The bind stream may have new entries."""
        if not self._redelivering:
            process = self._process
            process.say(process.network.ledger, self._read, "read binds asked")

    def _read(self) -> None:
        """At the ledger: entries that were read but whose delivery is lost wait for the next look
        back."""
        process, timeline = self._process, self._process.timeline
        if not timeline.reaches(Place.LEDGER):
            process.after(ASK_AGAIN_SECONDS, self.look)
            return
        entries = at_once(self._ledger.read_binds(CONSUMER, count=ENTRIES))
        if entries and not timeline.strikes(process.network.answer_lost, "answer lost"):
            process.after(0.0, lambda: self._begin(entries), "read binds answered")

    def _begin(self, entries: list[BindEntry]) -> None:
        self.look()
        ids = {entry.id for entry in entries}
        self._under_way |= ids
        self._plan(entries, lambda: self._acknowledge_binds(ids))

    def _acknowledge_binds(self, ids: set[str]) -> None:
        self._reading.push(
            "acknowledge binds",
            lambda: at_once(self._ledger.ack_binds(sorted(ids))),
            lambda _: self._under_way.difference_update(ids),
        )

    def _look_back(self) -> None:
        """Process delivered entries that are neither acknowledged nor being processed. The first
        time, each batch is finished before the next is read."""
        attended = set(self._under_way)
        read, ledger = self._reading, self._ledger

        def found(own: list[BindEntry]) -> None:
            entries = [entry for entry in own if entry.id not in attended]
            ids = {entry.id for entry in entries}
            self._under_way |= ids

            def done() -> None:
                self._acknowledge_binds(ids)
                if self._redelivering:
                    self._look_back()

            if entries:
                read.push(
                    "read wanted",
                    lambda: self._wanted(entries),
                    lambda left: self._plan(left, done),
                )
            else:
                self._redelivering = False
                self.look()
            if not self._redelivering:
                self._process.round(LOOK_BACK_SECONDS, self._look_back)

        read.push(
            "look back",
            lambda: at_once(ledger.read_binds(CONSUMER, count=EVERYTHING, own=True)),
            found,
        )

    def _wanted(self, entries: list[BindEntry]) -> list[BindEntry]:
        """The part of these entries that the ledger still waits for."""
        jids = sorted({jid for entry in entries for jid, *_ in entry.binds})
        truth = at_once(self._ledger.read_tasks(jids))
        left = still_wanted(entries, {jid: tasks for jid, (_, tasks) in truth.items()})
        self.redelivered += sum(len(entry.binds) for entry in left)
        return left

    def _plan(self, entries: list[BindEntry], done: Event) -> None:
        """Stop evicted tasks first, then bind."""
        self._core.places.assigned(entries)
        victims, uids = self._core.evicted(entries)
        if victims:
            self._evict(victims, uids, lambda: self._plan_binds(entries, done))
        else:
            self._plan_binds(entries, done)

    def _plan_binds(self, entries: list[BindEntry], done: Event) -> None:
        plan = plan_binds(entries, jobs=self._core.job, node=self._core.names.get)
        if plan is None:
            self._process.after(ASK_AGAIN_SECONDS, lambda: self._plan_binds(entries, done))
        elif plan.jids:
            self._drive(plan, done)
        else:
            done()

    def _drive(self, plan: BindPlan, done: Event) -> None:
        """Send binds to the cluster, and retry those without an answer."""
        process, copy = self._process, plan

        def bind() -> BindAnswers:
            """A node that refuses a request refuses every copy of it."""
            nonlocal copy
            answers = self._kubelets.bind(copy.requests, process.now)
            kept = [i for i, a in enumerate(answers.answers) if a != BindAnswer.REFUSED]
            copy = part_of(copy, kept)
            return answers

        def arrive() -> None:
            try:
                answers = self._asked(bind)
            except ClusterTimeout:
                process.after(0.0, lambda: self._again(plan, done))
            else:
                process.hear(
                    self._mean, lambda: self._answered(plan, answers, done), "bind answered"
                )
            process.after(0.0, self._await_cluster)

        process.say(self._mean, arrive, "bind asked")

    def _asked(self, ask: Callable[[], T]) -> T:
        """The cluster's answer if request and answer arrive; ClusterTimeout otherwise. Sometimes
        the same request arrives again later."""
        timeline, network = self._process.timeline, self._process.network
        lost = timeline.strikes(network.request_lost, "request lost")
        if lost or not timeline.reaches(Place.CLUSTER):
            raise ClusterTimeout("the request was lost on its way")

        def once_more() -> None:
            with suppress(ClusterTimeout):
                ask()

        if timeline.strikes(network.echo, "request twice"):
            timeline.send(ECHO_SECONDS, once_more, "cluster asked twice")
        answer = ask()
        if timeline.strikes(network.answer_lost, "answer lost"):
            raise ClusterTimeout("the answer was lost on its way")
        return answer

    def _again(self, plan: BindPlan, done: Event) -> None:
        self._process.after(ASK_AGAIN_SECONDS, lambda: self._drive(plan, done))

    def _answered(self, plan: BindPlan, answers: BindAnswers, done: Event) -> None:
        result = self._core.bind_answered(plan, answers, self._process.now)
        self.elsewhere += len(result.elsewhere)

        def recorded() -> None:
            if result.again:
                self._again(part_of(plan, result.again), done)
            else:
                done()

        if result.items:
            self._edges.record(result.items, [], recorded)
        else:
            recorded()

    # --- deleted ones -------------------------------------------------------------------------

    def stop(self, tasks: list[tuple[int, int]], uids: list[str]) -> None:
        """Stop tasks in the cluster once; after a lost request the coordinator asks again."""
        self._stop(tasks, uids, lambda: None, lambda: None)

    def _evict(self, tasks: list[tuple[int, int]], uids: list[str], done: Event) -> None:
        """The same, repeated until the cluster answers."""
        again = partial(self._evict, tasks, uids, done)
        self._stop(tasks, uids, done, lambda: self._process.after(ASK_AGAIN_SECONDS, again))

    def _stop(
        self, tasks: list[tuple[int, int]], uids: list[str], done: Event, unanswered: Event
    ) -> None:
        process = self._process
        names = [f"{jid}.{tix}" for jid, tix in tasks]

        def arrive() -> None:
            try:
                never = self._asked(lambda: self._kubelets.delete(names, process.now, uids))
            except ClusterTimeout:
                process.after(0.0, unanswered)
            else:
                process.hear(self._mean, lambda: answered(never), "stop answered")
            process.after(0.0, self._cluster_moves)

        def answered(never: list[str]) -> None:
            items = self._core.stopped(tasks, uids, read_names(never))
            if items:
                self._edges.record(items, [], done)
            else:
                done()

        process.say(self._mean, arrive, "stop asked")

    # --- reports ------------------------------------------------------------------------------

    def _await_cluster(self) -> None:
        self._alarm.set(self._kubelets.next_due())

    def _cluster_moves(self) -> None:
        self._kubelets.advance(self._process.now)
        self._asking.push("report", lambda: self._kubelets.reports(self._seen), self._report)
        self._await_cluster()

    def _report(self, reports: Reports) -> None:
        items = self._core.victims.read(reports, self._core.rows)
        if items:
            self._edges.record(items, [], lambda: self._acknowledge(reports.last))

    def _acknowledge(self, last: int) -> None:
        """The reports up to here are durable: the next request lets the cluster drop them."""
        self._seen = max(self._seen, last)
