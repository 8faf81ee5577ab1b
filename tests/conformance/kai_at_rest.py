"""Holding the running path against a scenario of KAI's: what a service came to that went on until
rest.

A scenario of one action stops after its session, and one with rounds after as many as it says;
coordinator, workers and ledger go on until nothing changes. So what a session promised may be bound
by then, and what it evicted waits again, or runs elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from laboratory.replay.kai.rounds import Round, observed_states
from laboratory.replay.kai.scenario import KaiScenario
from laboratory.replay.outcome import ReplayResult
from shard_worker.framework.operation import OpKind
from tests.conformance.kai_judge import members_of

AT_REST = {
    "Allocated": "Running",
    "Binding": "Running",
    "Bound": "Running",
    "Releasing": "Pending",
    "Pipelined": "Running",
}
"""A state of a session -> what becomes of it, where the policy binds what it promised."""


@dataclass(slots=True)
class SessionPlan:
    """Decisions of one session, by pod (``namespace/name``)."""

    binds: dict[str, str] = field(default_factory=dict)
    promises: dict[str, str] = field(default_factory=dict)
    """Pod -> node, of those that move, too."""
    victims: set[str] = field(default_factory=set)


def plan_of(played: Round) -> SessionPlan:
    plan, session = SessionPlan(), played.session
    for operation in session.committed:
        key, node = operation.task.key, session.world.node(operation.row).name
        match operation.kind:
            case OpKind.ALLOCATE:
                plan.binds[key] = node
            case OpKind.PIPELINE:
                plan.promises[key] = node
            case OpKind.EVICT:
                plan.victims.add(key)
    return plan


def differences(
    scenario: Mapping[str, Any], read: KaiScenario, rest: ReplayResult, *, anywhere: bool
) -> list[str]:
    """One line for each thing that is not as the scenario wants it. ``anywhere``: shards prefer
    their own nodes, so that another one is as good."""
    observed = list(observed_states(read))
    if read.rounds is not None:
        return list(_of_states(scenario, rest))
    return list(_of_plan(plan_of(observed[-1].round), rest, anywhere=anywhere))


def _of_states(scenario: Mapping[str, Any], rest: ReplayResult) -> Iterator[str]:
    """Every job ends in the state that is expected of it."""
    members, leaving = members_of(scenario), _leaving(scenario)
    for job, expected in (scenario["expect"].get("jobs") or {}).items():
        if "status" in expected:
            status = AT_REST.get(expected["status"], expected["status"])
            counts = rest.tasks.get(job, {})
            if status == "Pending" and leaving.issuperset(members.get(job, ())):
                status = "Failed"  # a scenario makes deleted pods anew, here nobody does
            if counts != {status: len(members.get(job, ()))}:
                yield f"{job}: expected {len(members.get(job, ()))} {status}, got {counts}"


def _leaving(scenario: Mapping[str, Any]) -> set[str]:
    """Pods (``namespace/name``) that were deleted before the scenario begins."""
    return {
        f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"
        for pod in scenario["cluster"].get("pods") or ()
        if "deletionTimestamp" in pod["metadata"]
    }


def _of_plan(plan: SessionPlan, rest: ReplayResult, *, anywhere: bool) -> Iterator[str]:
    evicted = Counter(rest.evicted)
    if again := {pod: times for pod, times in evicted.items() if times > 1}:
        yield f"evicted more than once: {again}"
    if sorted(plan.victims) != sorted(evicted):
        yield f"evicted: expected {sorted(plan.victims)}, got {sorted(evicted)}"
    places = rest.binds | rest.pipelined
    for pod, node in plan.binds.items():
        bound = rest.binds.get(pod)
        if bound is None or (bound != node and not anywhere):
            yield f"{pod}: expected on {node}, bound to {bound}"
    for pod, node in plan.promises.items():
        place = places.get(pod)
        if place is None or (place != node and not anywhere):
            yield f"{pod}: promised {node}, promised or bound {place}"
    beyond = sorted(places.keys() - plan.binds.keys() - plan.promises.keys() - evicted.keys())
    if beyond and not plan.victims:
        yield f"bound or promised though they were to wait: {beyond}"
