"""Reconciliation with the cluster in a seeded run: differences to the books, and repairs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from coordinator.cluster.protocol import ClusterTimeout, Listed
from coordinator.cluster.simulated.kubelets import Kubelets
from coordinator.core.coordinator import Coordinator
from coordinator.core.reconcile import ReconcilePass, Reconciler, Task
from coordinator.intake.admission.registry import Registry
from coordinator.verification.simulation.process import Lane, Process
from coordinator.verification.simulation.service_edges import ServiceEdges
from coordinator.verification.simulation.virtual_time import Event, Place

LOOK_SECONDS = 0.5
"""Interval of passes. A difference found twice is repaired."""

T = TypeVar("T")


class SimulatedReconciling:
    def __init__(
        self,
        *,
        process: Process,
        core: Coordinator,
        kubelets: Kubelets,
        edges: ServiceEdges,
        stop: Callable[[list[Task], list[str]], None],
        step: Event,
    ) -> None:
        """``stop``: stop tasks in the cluster; ``step``: the coordinator has news."""
        self._process = process
        self._core = core
        self._kubelets = kubelets
        self._edges = edges
        self._stop = stop
        self._step = step
        self._reconciler = Reconciler(core)
        self._asking = Lane(process, Place.CLUSTER)
        self._looking = False

    def begin(self, registry: Registry) -> None:
        """Before intake opens, skip job numbers that the cluster already knows, which an old copy
        of the ledger would give out again. The service waits for this answer, so nothing else
        happens meanwhile; without an answer it continues."""
        with suppress(ClusterTimeout):
            registry.next_jid = max(registry.next_jid, self._kubelets.listing("").highest + 1)

    def look(self) -> None:
        """Run a pass now, and periodically."""
        if not self._looking:
            self._looking = True
            self._list(ReconcilePass(self._core), "")
        self._process.round(LOOK_SECONDS, self.look, background=True)

    def _ask(self, what: str, ask: Callable[[], T], then: Callable[[T], None]) -> None:
        """Ask the cluster; without an answer the pass is abandoned."""

        def asked() -> T | None:
            try:
                return ask()
            except ClusterTimeout:
                return None

        def answered(answer: T | None) -> None:
            if answer is None:
                self._looking = False
            else:
                then(answer)

        self._asking.push(what, asked, answered)

    def _list(self, look: ReconcilePass, token: str) -> None:
        def listed(part: Listed) -> None:
            look.take(part)
            if part.token:
                self._list(look, part.token)
            else:
                self._see_missing(look)

        self._ask("list", lambda: self._kubelets.listing(token), listed)

    def _see_missing(self, look: ReconcilePass) -> None:
        states = [*self._core.order.jobs.values(), *self._core.leaving.values()]
        names = [f"{jid}.{tix}" for jid, tix in look.missing(states)]

        def seen(part: Listed) -> None:
            look.take_missing(part)
            self._judge(look)

        if names:
            self._ask("look at missing", lambda: self._kubelets.look(names), seen)
        else:
            self._judge(look)

    def _judge(self, look: ReconcilePass) -> None:
        repairs = self._reconciler.judge(look)

        def recorded() -> None:
            if repairs.stop:
                self._stop(repairs.stop, self._core.victims.uids(repairs.stop))
            self._step()

        self._looking = False
        if repairs.items:
            self._edges.record(repairs.items, [], recorded)
        elif repairs.stop:
            recorded()
