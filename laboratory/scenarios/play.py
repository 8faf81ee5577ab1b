"""Plays a scenario: builds the parts, runs them, and judges the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from coordinator.cluster.protocol import Phase
from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.cluster.simulated.faulty import Faults, FaultyCluster
from coordinator.cluster.simulated.kubelets import Kubelets
from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.dispatcher import Dispatcher
from coordinator.order.order import Order
from laboratory.checker.check import check_lines
from laboratory.checker.report.report import CheckReport
from laboratory.simulation.history import Notes
from laboratory.simulation.invariants import Broken, broken_rules, crashed
from laboratory.simulation.policy_file import SeededPolicies
from laboratory.simulation.run import Crash, Simulation
from laboratory.simulation.scenario import Scenario
from laboratory.workloads.extender_answers import ask_in_process, refuses
from shard_worker.view.mode import Mode
from shared.policy.dialect import parse_policy
from shared.policy.volcano import DEFAULT_POLICY

FAULTS = Faults(
    refuse=0.05,
    unknown_before=0.05,
    unknown_after=0.05,
    silent_before=0.05,
    silent_after=0.05,
    duplicate=0.2,
)
LOST_AT_ONCE = 2
"""Tasks that vanish at a time."""

UNTIL = 1_200.0
"""Virtual end time: a run that has not ended by then (it begins at 1000 s, jobs run a second or
two) never will."""


@dataclass(slots=True)
class ScenarioResult:
    """The result of one scenario."""

    scenario: Scenario
    simulation: Simulation
    notes: Notes
    events: int
    report: CheckReport | None
    """None if the run aborted, or its history cannot be read."""
    broken: list[Broken] = field(default_factory=list)

    @property
    def seed(self) -> int:
        return self.scenario.seed


def build(scenario: Scenario, notes: Notes | None = None) -> Simulation:
    policies = SeededPolicies(parse_policy(scenario.policy) if scenario.policy else DEFAULT_POLICY)

    def core() -> Coordinator:
        order = Order(policies.session(), window=16, walls=scenario.mode is Mode.HARD)
        order.contexts.usage = lambda: scenario.usage
        dispatcher = Dispatcher(scenario.shards, turns_per_call=4)
        return Coordinator(order, dispatcher, mode=scenario.mode.value)

    local = LocalCluster(grace=0.05)
    kubelets: Kubelets = FaultyCluster(local, FAULTS, scenario.seed) if scenario.faulty else local

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
        policies=policies,
        kubelets=kubelets,
        mode=scenario.mode,
        seed=scenario.seed,
        network=scenario.network,
        lose=lose,
        standby=scenario.standby,
        evicting=scenario.evicting,
        notes=notes,
        evicts=scenario.drains or scenario.restarts,
        ask=ask_in_process,
    )
    simulation.submit(list(scenario.setup))
    for wish in scenario.wishes:
        if wish.delete is not None:
            simulation.delete(wish.delete, at=wish.at)
        elif wish.drain:
            simulation.drain(wish.drain, at=wish.at)
        else:
            simulation.submit(list(wish.items), at=wish.at)
    for fault in scenario.faults:
        simulation.strike(fault)
    for change in scenario.policy_changes:
        simulation.change_policy(parse_policy(change.policy), at=change.at)
    return simulation


def play(
    scenario: Scenario,
    *,
    crash: Crash | None = None,
    inspect: Callable[[Simulation], None] | None = None,
) -> ScenarioResult:
    """Run to the end and check all invariants. ``inspect`` is called after each event."""
    notes = Notes()
    simulation = build(scenario, notes)
    simulation.crash = crash
    look = None if inspect is None else lambda: inspect(simulation)
    try:
        events = simulation.run(until=UNTIL, inspect=look)
        notes.end(simulation.timeline.now)
        report = check_lines(
            notes.lines, name=f"seed {scenario.seed}", closed=True, refuses=refuses
        )
        broken = broken_rules(scenario, simulation, report)
    except Exception as error:  # whatever the production code raises is what we look for
        return ScenarioResult(
            scenario, simulation, notes, simulation.events, None, [crashed(error)]
        )
    return ScenarioResult(scenario, simulation, notes, events, report, broken)
