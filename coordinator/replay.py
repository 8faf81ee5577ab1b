"""Replay: one session over a recorded cluster state, by the same two halves as the service.

One process, no Ray, no Redis: Order with a window of one, a worker, and the ledger's double between
them. With one turn open at a time and no borrowing beyond shares this is Volcano's loop, so that
its own test tables can be replayed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from coordinator.intake import Admission, Intake
from coordinator.jobs import JobState
from coordinator.order import Order
from shard_worker.session import Session, open_session
from shard_worker.task_class import Mode
from shard_worker.view import View
from shard_worker.worker import CommitBatchRequest, Outcomes, Worker
from shared.ledger.double import LedgerDouble
from shared.ledger.protocol import COORDINATOR, IntakeBatch, IntakeOp, Observe, PutPartition
from shared.ledger.synchronous import at_once
from shared.messages import NOMINATE, Outcome, TaskState, Turn
from shared.policy import parse_policy

KINDS = {
    "nodes": ("v1", "Node"),
    "pods": ("v1", "Pod"),
    "podGroups": ("scheduling.volcano.sh/v1beta1", "PodGroup"),
    "queues": ("scheduling.volcano.sh/v1beta1", "Queue"),
    "priorityClasses": ("scheduling.k8s.io/v1", "PriorityClass"),
    "hyperNodes": ("topology.volcano.sh/v1alpha1", "HyperNode"),
}
"""The lists of a scenario's cluster and the kind their objects leave out."""

OURS, OTHERS = 0, 1
"""The two shards of a replay: the one whose session it is, and all else."""

RUNNING_PHASES = {"Running": TaskState.RUNNING, "Pending": TaskState.BOUND}
ENDED_PHASES = {"Succeeded": TaskState.SUCCEEDED, "Failed": TaskState.FAILED}

VOLCANO_STATUS = {
    TaskState.PENDING: "Pending",
    TaskState.BINDING: "Binding",
    TaskState.BOUND: "Bound",
    TaskState.RUNNING: "Running",
    TaskState.RELEASING: "Releasing",
    TaskState.SUCCEEDED: "Succeeded",
    TaskState.FAILED: "Failed",
}


class ScenarioError(ValueError):
    """The scenario cannot be replayed: which part, and what to do."""


@dataclass(slots=True)
class Result:
    """What one session did. Keys are ``namespace/name``."""

    id: str
    binds: dict[str, str]
    pipelined: dict[str, str]
    pod_groups: dict[str, dict[str, Any]]
    tasks: dict[str, dict[str, int]]

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "binds": self.binds,
            "evicted": [],
            "pipelined": self.pipelined,
            "podGroups": self.pod_groups,
            "tasks": self.tasks,
        }


def replay(scenario: Mapping[str, Any]) -> Result:
    """Run the scenario's actions once. Raises ScenarioError, PolicyError."""
    name = str(scenario.get("id", ""))
    for part in ("policy", "cluster"):
        if not isinstance(scenario.get(part), Mapping):
            raise ScenarioError(f"scenario {name!r}: {part}: missing; give a mapping")
    session = open_session(parse_policy(scenario["policy"]))
    run = _Run(session, scenario.get("sharding"))
    run.load(list(_items(name, scenario["cluster"])), name)
    run.allocate()
    phases = {
        _key(obj): obj.get("status", {}).get("phase", "Pending")
        for obj in scenario["cluster"].get("podGroups", [])
    }
    return run.result(name, phases)


def _items(name: str, cluster: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for field, objects in cluster.items():
        if field not in KINDS:
            if objects:
                raise ScenarioError(
                    f"scenario {name!r}: cluster.{field}: not in this version; remove it "
                    f"(known: {', '.join(KINDS)})"
                )
            continue
        version, kind = KINDS[field]
        for obj in objects:
            yield {"apiVersion": version, "kind": kind, **obj}


def _key(obj: Mapping[str, Any]) -> str:
    metadata = obj["metadata"]
    return f"{metadata.get('namespace', 'default')}/{metadata['name']}"


class _Run:
    def __init__(self, session: Session, sharding: Mapping[str, Any] | None) -> None:
        sharding = sharding or {"mode": "none"}
        self.order = Order(session, window=1, work_conserving=False, count_first=False)
        self.session = session
        self.mine: set[str] = set(sharding.get("nodesInShard", []))
        self.sharded = "nodesInShard" in sharding
        self.ledger = LedgerDouble(random.Random(0))
        self.view = View(shard=OURS)
        self.worker = Worker(
            session=session, view=self.view, mode=Mode(sharding["mode"]), shard=OURS, seed=0
        )
        self.names: dict[int, str] = {}
        self.binds: dict[str, str] = {}
        self.pipelined: dict[str, str] = {}
        self.reasons: dict[int, dict[str, int]] = {}

    # --- the cluster --------------------------------------------------------------------------

    def load(self, items: list[dict[str, Any]], name: str) -> None:
        """Take the objects up in Order, ledger and view."""
        intake = Intake(observe=True)
        admission = intake.admit(items, 0.0)
        if admission.refused:
            refused = admission.refused[0]
            raise ScenarioError(f"scenario {name!r}: {refused}")
        self.names = {node.row: node.name for node in admission.nodes}
        leader = at_once(self.ledger.claim(COORDINATOR))
        at_once(self.ledger.bless(leader))
        epoch = at_once(self.ledger.claim("intake", leader=leader))
        ops = [*admission.ops, *self._observed(admission), self._partition()]
        at_once(self.ledger.store(IntakeBatch("intake", epoch, 1, self._run_id(), ops)))
        snapshot = at_once(self.ledger.snapshot(workload=False))
        self.view.load(snapshot)
        self.worker.begin(at_once(self.ledger.claim(str(OURS), leader=leader)), self._run_id())
        self._order(admission)

    def _run_id(self) -> str:
        return at_once(self.ledger.run_id())

    def _partition(self) -> PutPartition:
        rows = sorted(self.names)
        if not self.sharded:
            return PutPartition(revision=1, shards={OURS: rows})
        mine = [row for row in rows if self.names[row] in self.mine]
        return PutPartition(
            revision=1, shards={OURS: mine, OTHERS: [row for row in rows if row not in mine]}
        )

    def _observed(self, admission: Admission) -> list[IntakeOp]:
        """What the pods that were there before the session use of their nodes."""
        rows = {name: row for row, name in self.names.items()}
        jobs = {job.jid: job for job in admission.jobs}
        used: dict[int, Counter[int]] = {}
        for pod in admission.placed:
            if pod.phase not in RUNNING_PHASES or pod.node not in rows:
                continue
            requests = admission.classes[jobs[pod.jid].role_of(pod.tix).cid].requests
            used.setdefault(rows[pod.node], Counter()).update(dict(requests))
        return [Observe(row=row, used=sorted(amounts.items())) for row, amounts in used.items()]

    def _order(self, admission: Admission) -> None:
        order = self.order
        order.accounts.classes.update(admission.classes)
        for node in admission.nodes:
            order.accounts.put_node(node)
        for queue in admission.queues:
            order.put_queue(queue)
        states = {job.jid: bytearray(job.tasks) for job in admission.jobs}
        for pod in admission.placed:
            states[pod.jid][pod.tix] = (RUNNING_PHASES | ENDED_PHASES)[pod.phase]
        for job in admission.jobs:
            order.put_job(job, states[job.jid])

    # --- the session --------------------------------------------------------------------------

    def allocate(self) -> None:
        """Volcano's allocate: one turn after the other until nothing can be tried."""
        self.order.begin(0.0)
        while (turn := self.order.next_turn()) is not None:
            for outcome in self._place(turn):
                self._note(outcome)
                self.order.outcome(outcome)

    def _place(self, turn: Turn) -> list[Outcome]:
        outcomes: list[Outcome] = []
        instructions = self.worker.on_turns([turn], now=0.0)
        while instructions:
            replies = []
            for instruction in instructions:
                match instruction:
                    case Outcomes():
                        outcomes += instruction.outcomes
                    case CommitBatchRequest():
                        replies.append(at_once(self.ledger.commit(instruction.batch)))
            instructions = [more for reply in replies for more in self.worker.on_reply(reply)]
        return outcomes

    def _note(self, outcome: Outcome) -> None:
        job = self.order.jobs[outcome.jid].job
        if outcome.reasons:
            self.reasons[outcome.jid] = outcome.reasons
        for p in outcome.placements:
            into = self.pipelined if p.kind == NOMINATE else self.binds
            for tix, row in zip(p.tasks, p.rows, strict=True):
                into[f"{job.namespace}/{job.pod_name(tix)}"] = self.names[row]

    # --- the result ---------------------------------------------------------------------------

    def result(self, name: str, phases: Mapping[str, str]) -> Result:
        groups: dict[str, dict[str, Any]] = {}
        tasks: dict[str, dict[str, int]] = {}
        for state in self.order.jobs.values():
            if state.job.key not in phases:
                continue
            groups[state.job.key] = {
                "phase": self._phase(state, phases[state.job.key]),
                "reasons": self._reasons(state),
            }
            tasks[state.job.key] = _statuses(state)
        return Result(name, self.binds, self.pipelined, groups, tasks)

    def _phase(self, state: JobState, before: str) -> str:
        """The phase Volcano writes when the session closes."""
        counts = Counter(TaskState(s) for s in state.states)
        unschedulable = state.job.jid in self.reasons
        if counts[TaskState.RUNNING] and unschedulable:
            return "Unknown"
        ended = counts[TaskState.SUCCEEDED] + counts[TaskState.FAILED]
        scheduled = counts[TaskState.RUNNING] + counts[TaskState.BOUND] + ended
        if scheduled and scheduled >= state.job.groups[0].minimum:
            return "Completed" if ended == len(state.states) else "Running"
        tried = before in ("Inqueue", "Pending", "")
        return "Inqueue" if tried else "Pending"

    def _reasons(self, state: JobState) -> list[str]:
        nodes = self.reasons.get(state.job.jid, {})
        reasons = [f"{count} {text}" for text, count in sorted(nodes.items())]
        return reasons or ([state.reason] if state.reason else [])


def _statuses(state: JobState) -> dict[str, int]:
    counts = Counter(
        "Pipelined" if tix in state.nominated else VOLCANO_STATUS[TaskState(s)]
        for tix, s in enumerate(state.states)
    )
    return dict(counts)
