"""Intake, Order and Objects together as the service wires them; a test plays the workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.dispatcher import Dispatcher, SendTurns
from coordinator.intake.changes import Changes
from coordinator.intake.documents.document import Key
from coordinator.intake.documents.kinds import KINDS, Kind
from coordinator.intake.intake import Intake
from coordinator.objects.store import Objects
from coordinator.order.order import Order
from shard_worker.dialects.open_session import open_session
from shared.messages.messages import (
    ALLOCATE,
    NOMINATE,
    Epoch,
    Outcome,
    OutcomeCode,
    Placement,
    StatusItem,
    TaskState,
    Turn,
)
from shared.policy.dialect import parse_policy
from shared.slices import at_once
from tests.coordinator.order.helpers import POLICY

KIND = {kind.kind: kind for kind in KINDS}
EPOCH = 7
BASE = EPOCH << 40


class World:
    def __init__(
        self, *, shards: int = 1, window: int = 16, policy: Mapping[str, Any] = POLICY
    ) -> None:
        session = open_session(parse_policy(policy))
        self.core = Coordinator(Order(session, window=window), Dispatcher(shards))
        self.intake = Intake(dialect=session.policy.dialect)
        self.core.order.accounts.cluster.names = self.intake.registry.slots.names
        self.now = 1_000_000.0
        self.objects = Objects(
            self.core, lambda: self.intake.registry, epoch=EPOCH, clock=lambda: self.now
        )
        self.core.observe(self.objects)
        self.intake.node_of = self.objects.node_of
        self.put()
        for shard in range(shards):
            self.core.worker_up(shard, Epoch(shard + 1, "x"))

    # --- intake -------------------------------------------------------------------------------

    def put(self, *items: dict[str, Any]) -> None:
        self._stored(self.intake.admit([*items], self.now))

    def remove(self, kind: str, name: str, namespace: str = "ns") -> None:
        self._stored(self.intake.remove(kind, namespace, name, self.now))

    def purge(self, *jids: int, pods: tuple[tuple[int, int], ...] = ()) -> None:
        self._stored(self.intake.purge([*jids], [*pods]))

    def _stored(self, admission: Any) -> None:
        assert not admission.refused, admission.refused
        changes: Changes = admission
        self.objects.publish(changes.documents, changes.documents_gone, purged=changes.jobs_purged)
        self.core.admitted(changes)
        if changes.nodes:
            self.core.repartition()

    # --- the workers' part --------------------------------------------------------------------

    def turns(self) -> list[tuple[SendTurns, Turn]]:
        sends = [i for i in self.core.step(self.now) if isinstance(i, SendTurns)]
        return [(send, turn) for send in sends for turn in send.turns]

    def answer(self, make: Callable[[Turn], Outcome]) -> list[Turn]:
        """Every turn that is out now is answered by ``make``."""
        out = self.turns()
        sends = {send.call: send for send, _ in out}
        for send in sends.values():
            outcomes = [make(turn) for turn in send.turns]
            self.core.turns_returned(send.shard, send.call, outcomes, now=self.now)
        return [turn for _, turn in out]

    def place(self, row: int = 0, *, conflicts: int = 0) -> list[Turn]:
        return self.answer(lambda turn: placed(turn, row, conflicts=conflicts))

    def record(self, state: TaskState, jid: int, tasks: list[int], row: int = 0) -> None:
        item = StatusItem(state, jid, tasks, [row] * len(tasks))
        self.core.recorded([item], [tasks])

    def jid(self, kind: str, name: str, namespace: str = "ns") -> int:
        return self.intake.documents[Key(kind, namespace, name)].jid

    # --- reading ------------------------------------------------------------------------------

    def get(self, kind: str, name: str, namespace: str = "ns") -> dict[str, Any]:
        obj = self.objects.get(KIND[kind], namespace, name)
        assert obj is not None, (kind, name)
        return obj

    def names(self, kind: str, namespace: str | None = None, limit: int = 3) -> list[str]:
        """Names of all objects, read page by page."""
        result, after = [], ""
        while True:
            page = self.objects.list(KIND[kind], namespace=namespace, after=after, limit=limit)
            result += [entry.key.name for entry in page.items]
            if not (after := page.next):
                return result

    def changes(self, since: int, kind: str) -> list[tuple[str, str]]:
        return [(c.type, c.key.name) for c in at_once(self.objects.changes(since, KIND[kind]))]

    def events(self, kind: str, name: str) -> list[tuple[str, str]]:
        """(reason, message) of what is told of an object, as describe asks for it."""
        about = self.get(kind, name, "ns" if KIND[kind].namespaced else "")
        event: Kind = KIND["Event"]
        page = self.objects.list(event, namespace=None, limit=None)
        return [
            (e.object()["reason"], e.object()["message"])
            for e in page.items
            if e.field("involvedObject.name") == name
            and e.field("involvedObject.kind") == KIND[kind].written
            and e.field("involvedObject.uid") == about["metadata"]["uid"]
        ]


def placed(turn: Turn, row: int, *, conflicts: int = 0) -> Outcome:
    placements = [
        Placement(run.cid, ALLOCATE, run.tasks, [row] * len(run.tasks), [1] * len(run.tasks))
        for run in turn.runs
    ]
    return Outcome(
        jid=turn.jid,
        code=OutcomeCode.PLACED,
        placements=placements,
        reasons={},
        conflicts_true=conflicts,
        session=1,
    )


def nominated(turn: Turn, row: int = 0) -> Outcome:
    placements = [
        Placement(run.cid, NOMINATE, run.tasks, [row] * len(run.tasks), [3] * len(run.tasks))
        for run in turn.runs
    ]
    return Outcome(
        jid=turn.jid, code=OutcomeCode.NOMINATED, placements=placements, reasons={}, session=1
    )


def infeasible(turn: Turn, **reasons: int) -> Outcome:
    output = reasons or {"Insufficient cpu": 3}
    return Outcome(
        jid=turn.jid,
        code=OutcomeCode.INFEASIBLE,
        placements=[],
        reasons=output,
        failed_role="w",
        session=2,
    )
