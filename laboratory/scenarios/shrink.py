"""Shrinks a failing scenario: removes parts as long as it still fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from laboratory.scenarios.play import ScenarioResult, play
from laboratory.simulation.scenario import Scenario
from laboratory.simulation.virtual_time import Network
from shared.codec.packed import replace

T = TypeVar("T")
Fails = Callable[[Scenario], bool]


def shrink(failed: ScenarioResult, *, seconds: float) -> ScenarioResult:
    """The smallest scenario found in ``seconds``. It fails by the same rule, not necessarily at the
    same place."""
    rule = failed.broken[0].rule
    ends = time.monotonic() + seconds
    best = failed

    def fails(scenario: Scenario) -> bool:
        nonlocal best
        if time.monotonic() > ends:
            return False
        played = play(scenario)
        if played.broken and played.broken[0].rule == rule:
            best = played
            return True
        return False

    while time.monotonic() < ends:
        before = best.scenario
        _less_happens(before, fails)
        _fewer_faults(best.scenario, fails)
        _calmer(best.scenario, fails)
        if best.scenario == before:
            break
    return best


def _less_happens(scenario: Scenario, fails: Fails) -> None:
    stories = scenario.stories()
    smallest(stories, lambda subset: fails(scenario.without(set(stories) - set(subset))))


def _fewer_faults(scenario: Scenario, fails: Fails) -> None:
    smallest(scenario.faults, lambda subset: fails(replace(scenario, faults=tuple(subset))))


def _calmer(scenario: Scenario, fails: Fails) -> None:
    """Try without the cluster's faults, without evictions, and without each network fault."""
    if scenario.faulty and fails(calmer := replace(scenario, faulty=False)):
        scenario = calmer
    if scenario.evicting and fails(calmer := replace(scenario, evicting=False)):
        scenario = calmer
    for name in ("request_lost", "answer_lost", "echo", "dies_with_sender"):
        if getattr(scenario.network, name):
            network: Network = replace(scenario.network, **{name: 0.0})
            if fails(calmer := replace(scenario, network=network)):
                scenario = calmer


def smallest(parts: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Delta debugging: leave out halves, then quarters, down to single parts, as long as it still
    fails. ``parts`` are known to fail."""
    size = max(1, len(parts) // 2)
    while parts:
        for start in range(0, len(parts), size):
            fewer = [*parts[:start], *parts[start + size :]]
            if fails(fewer):
                parts = fewer
                break
        else:
            if size == 1:
                return parts
            size = max(1, size // 2)
    return parts
