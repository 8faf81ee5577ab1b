"""Playing a scenario: the parts built from it, the run, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from coordinator.checker import CheckReport
from coordinator.checker.check import check_lines
from coordinator.cluster.faulty import Faults, FaultyCluster
from coordinator.cluster.kubelets import Kubelets
from coordinator.cluster.local import LocalCluster
from coordinator.cluster.protocol import Phase
from coordinator.core import Coordinator
from coordinator.dispatch import Dispatcher
from coordinator.order import Order
from coordinator.simulation.notes import Notes
from coordinator.simulation.run import Crash, Simulation
from coordinator.simulation.scenario import Scenario
from coordinator.simulation.verdict import Broken, broken_rules, crashed
from shard_worker.session import open_session
from shard_worker.task_class import Mode
from shared.policy import DEFAULT_POLICY, parse_policy

FAULTS = Faults(
    refuse=0.05,
    unknown_before=0.05,
    unknown_after=0.05,
    silent_before=0.05,
    silent_after=0.05,
    duplicate=0.2,
)
LOST_AT_ONCE = 2
"""Tasks that vanish together."""

UNTIL = 1_200.0
"""A run that has not ended by then (it begins at 1000 s, jobs run a second or two) never will."""


@dataclass(slots=True)
class Played:
    """What came of one scenario."""

    wanted: Scenario
    simulation: Simulation
    notes: Notes
    events: int
    report: CheckReport | None
    """None where the run could not go on, or its history cannot be read."""
    broken: list[Broken] = field(default_factory=list)


def build(wanted: Scenario, notes: Notes | None = None) -> Simulation:
    policy = parse_policy(wanted.policy) if wanted.policy else DEFAULT_POLICY

    def core() -> Coordinator:
        order = Order(open_session(policy), window=16, walls=wanted.mode is Mode.HARD)
        dispatcher = Dispatcher(wanted.shards, turns_per_call=4)
        return Coordinator(order, dispatcher, mode=wanted.mode.value)

    local = LocalCluster(grace=0.05)
    kubelets: Kubelets = FaultyCluster(local, FAULTS, wanted.seed) if wanted.faulty else local

    def lose() -> None:
        local.advance(simulation.timeline.now)
        listed = local.listing("")
        running = [
            t for t, p in zip(listed.tasks, listed.phases, strict=True) if p == Phase.RUNNING
        ]
        timeline = simulation.timeline
        some = timeline.random.sample(running, min(len(running), LOST_AT_ONCE))
        local.lose(some, timeline.now)

    simulation = Simulation(
        core,
        session=lambda: open_session(policy),
        kubelets=kubelets,
        mode=wanted.mode,
        seed=wanted.seed,
        network=wanted.network,
        lose=lose,
        standby=wanted.standby,
        evicting=wanted.evicting,
        notes=notes,
    )
    simulation.submit(list(wanted.setup))
    for wish in wanted.wishes:
        if wish.delete is not None:
            simulation.delete(wish.delete, at=wish.at)
        else:
            simulation.submit(list(wish.items), at=wish.at)
    for fault in wanted.faults:
        simulation.strike(fault)
    return simulation


def play(
    wanted: Scenario,
    *,
    crash: Crash | None = None,
    inspect: Callable[[Simulation], None] | None = None,
) -> Played:
    """Run to the end and hold it to everything that must be true there. ``inspect`` is called after
    each event."""
    notes = Notes()
    simulation = build(wanted, notes)
    simulation.crash = crash
    look = None if inspect is None else lambda: inspect(simulation)
    try:
        events = simulation.run(until=UNTIL, inspect=look)
        report = check_lines(notes.lines, name=f"seed {wanted.seed}", closed=True)
        broken = broken_rules(wanted, simulation, report)
    except Exception as error:  # whatever the production code raises is what we look for
        return Played(wanted, simulation, notes, simulation.events, None, [crashed(error)])
    return Played(wanted, simulation, notes, events, report, broken)
