"""Breadth-first exploration of all states, so that the first violation has a shortest trace."""

from __future__ import annotations

import time
from collections.abc import Iterator, Set
from dataclasses import dataclass, field

from laboratory.model import faults as failing
from laboratory.model import invariants, leader, worker
from laboratory.model.checks import ModelCheck, Promise
from laboratory.model.state import (
    FENCED,
    REQUEST,
    TURN,
    Came,
    FaultBudget,
    ModelStep,
    State,
    begin,
    canonical,
    way_to,
)

ALL = frozenset(ModelCheck)
SCOPES = (
    FaultBudget(crashes=1, pauses=1, cuts=0, changes=0),
    FaultBudget(crashes=1, pauses=0, cuts=1, changes=1),
    FaultBudget(crashes=0, pauses=1, cuts=1, changes=1),
)
"""The fault budgets explored by default: a crash and a pause; then each of them with lost answers
and user changes. All four at once are a million states and find nothing more."""


@dataclass(frozen=True, slots=True)
class Explored:
    faults: FaultBudget
    states: int
    """Number of distinct states visited."""
    steps: int
    depth: int
    """The largest distance of a state from the start, in steps."""
    seconds: float
    broken: Promise | None = None
    trace: list[str] = field(default_factory=list)
    """The steps to the violation; the last one breaks the promise."""


def successors(s: State, checks: Set[ModelCheck]) -> Iterator[ModelStep]:
    """Every step to explore from here, in a fixed order.

    If there is a message whose effect is already decided (see ``settled``), only that step:
    everything else may happen after it as well.
    """
    step = settled(s, checks)
    if step is not None:
        yield step
    else:
        yield from every_step(s, checks)


def every_step(s: State, checks: Set[ModelCheck]) -> Iterator[ModelStep]:
    """All possible next steps, without that reduction."""
    yield from leader.steps(s, checks)
    yield from worker.steps(s, checks)
    yield from failing.steps(s)


def settled(s: State, checks: Set[ModelCheck]) -> ModelStep | None:
    """The delivery of a message whose outcome nothing can change any more, and that changes nothing
    for others: a turn or request of an epoch that is over, or an answer to a leader that is not
    paused."""
    for m in s.messages:
        if m.kind == TURN:
            if ModelCheck.EPOCH in checks and ModelCheck.TURN in checks and m.epoch == 0:
                return ModelStep(
                    "a turn of an epoch that is over comes to nothing", worker.without(s, m)
                )
        elif m.kind == REQUEST:
            if ModelCheck.EPOCH in checks and m.epoch == 0:
                text = f"the ledger refuses a request of worker {m.shard}: its epoch is over"
                return ModelStep(text, worker.without(s, m))
        elif m.answer != FENCED:
            for index, c in enumerate(s.coordinators):
                if not c.paused and c.leadership == s.leadership:
                    return leader.hear(s, index, m)
    return None


def explore(
    faults: FaultBudget,
    checks: Set[ModelCheck] = ALL,
    *,
    promises: Set[Promise] = frozenset(Promise),
    within: int | None = None,
) -> Explored:
    """Explore every state reachable with these faults and checks. Stops at the first violation of
    one of ``promises``, which has a shortest trace. ``within``: maximum number of steps.
    """
    started = time.perf_counter()
    # States that differ only in the numbers of epochs, or in the order of messages, are explored
    # once.
    first = canonical(begin(faults))
    # Where each state came from, not its trace: only the trace that breaks a promise is ever read.
    came: Came[State] = {first: None}
    layer, depth, count = [first], 0, 0
    while layer and depth != within:
        fresh: list[State] = []
        for state in layer:
            for step in successors(state, checks):
                count += 1
                after = canonical(step.after)
                is_known = after in came
                if not is_known:
                    came[after] = (state, step.label)
                    fresh.append(after)
                elif not step.broken:
                    continue
                for promise in (*step.broken, *invariants.broken(after)):
                    if promise in promises:
                        seconds = time.perf_counter() - started
                        trace = [*way_to(came, state), step.label]
                        return Explored(
                            faults, len(came), count, depth + 1, seconds, promise, trace
                        )
        layer = fresh
        depth += bool(fresh)
    return Explored(faults, len(came), count, depth, time.perf_counter() - started)
