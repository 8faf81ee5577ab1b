"""A failing scenario made small: what can be left out while it still fails in the same way is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from coordinator.simulation.play import Played, play
from coordinator.simulation.scenario import Scenario
from coordinator.simulation.timeline import Network

T = TypeVar("T")
Fails = Callable[[Scenario], bool]


def shrink(failed: Played, *, seconds: float) -> Played:
    """The smallest that is found in that time. It fails by the same rule, not necessarily at the
    same place."""
    rule = failed.broken[0].rule
    ends = time.monotonic() + seconds
    best = failed

    def fails(wanted: Scenario) -> bool:
        nonlocal best
        if time.monotonic() > ends:
            return False
        played = play(wanted)
        if played.broken and played.broken[0].rule == rule:
            best = played
            return True
        return False

    while time.monotonic() < ends:
        before = best.wanted
        _less_happens(before, fails)
        _fewer_faults(best.wanted, fails)
        _calmer(best.wanted, fails)
        if best.wanted == before:
            break
    return best


def _less_happens(wanted: Scenario, fails: Fails) -> None:
    stories = wanted.stories()
    smallest(stories, lambda kept: fails(wanted.without(set(stories) - set(kept))))


def _fewer_faults(wanted: Scenario, fails: Fails) -> None:
    smallest(wanted.faults, lambda kept: fails(replace(wanted, faults=tuple(kept))))


def _calmer(wanted: Scenario, fails: Fails) -> None:
    """Fewer kinds of trouble on the way of messages."""
    if wanted.faulty and fails(calmer := replace(wanted, faulty=False)):
        wanted = calmer
    if wanted.evicting and fails(calmer := replace(wanted, evicting=False)):
        wanted = calmer
    for name in ("request_lost", "answer_lost", "echo", "dies_with_sender"):
        if getattr(wanted.network, name):
            network: Network = replace(wanted.network, **{name: 0.0})
            if fails(calmer := replace(wanted, network=network)):
                wanted = calmer


def smallest(parts: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Delta debugging: leave out halves, then quarters, and so on down to single parts, as long as
    it still fails. ``parts`` are known to fail."""
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
