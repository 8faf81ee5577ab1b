"""Holding our decisions against those of another scheduler's own code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from laboratory.replay.scenario import read_scenario, replay
from laboratory.replay.sharded import ShardedRun, run_sharded
from shard_worker.view.mode import Mode
from tests.oracle.differences import Kind, kind_of
from tests.oracle.drawn import drawn, scenario_of
from tests.oracle.outcome import Outcome, Shape
from tests.oracle.peers import RUNS, ask
from tests.oracle.variants import variant

Scenario = Mapping[str, Any]
STAGES = (2, RUNS, 10 * RUNS)
"""Runs until ours is among the outcomes: most scenarios have one, and a few a rare tie."""
BATCH = 200
QUIET = 1.5
"""Seconds of virtual time without changes that end a run in shards."""
VARIED = 0.8
"""Share of our own forms that are a variant of a drawn one, and not the drawn one itself."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A scenario that came out otherwise than in any run of the other scheduler."""

    scenario: Scenario
    ours: Outcome
    theirs: list[Outcome]
    kind: Kind | None
    """The kind of a difference by design; None is a fault of one of the two."""


def variants(
    count: int, *, seed: int, tables: Sequence[Scenario] = (), first: int = 0
) -> Iterator[Scenario]:
    """Random scenarios, each by its own number. Where there are ``tables`` every second one is a
    variant of one of their scenarios."""
    for i in range(first, first + count):
        draw = Random(f"{seed} {i}")
        if tables and i % 2:
            base = draw.choice(tables)
            cluster = variant(base["cluster"], draw)
            yield {**base, "id": f"{seed}-{i}", "cluster": cluster}
        else:
            yield scenario_of(f"{seed}-{i}", form_of(draw))


def form_of(draw: Random) -> dict[str, Any]:
    form = drawn(draw)
    return variant(form, draw) if draw.random() < VARIED else form


def differences(
    binary: Path,
    scenarios: Sequence[Scenario],
    *,
    shards: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> Iterator[Difference]:
    """Each scenario whose outcome is none of the other scheduler's. ``shards``: decide it by a
    service with so many, 0 by one session. Raises PeerError."""
    for first in range(0, len(scenarios), BATCH):
        batch = scenarios[first : first + BATCH]
        left = [(scenario, decided(scenario, shards)) for scenario in batch]
        theirs: list[list[Outcome]] = []
        for runs in STAGES:
            theirs = ask(binary, [scenario for scenario, _ in left], runs=runs)
            pairs = zip(left, theirs, strict=True)
            open_cases = [
                (case, them) for case, them in pairs if not among(*case, them, service=bool(shards))
            ]
            left, theirs = [case for case, _ in open_cases], [them for _, them in open_cases]
        for (scenario, ours), them in zip(left, theirs, strict=True):
            kind = kind_of(scenario, ours, them, service=bool(shards))
            yield Difference(scenario, ours, them, kind)
        progress(first + len(batch))


def decided(scenario: Scenario, shards: int) -> Outcome:
    """Our outcome, of one session, or of a service with so many shards that is halted where one
    session ends."""
    if not shards:
        return Outcome.of(replay(scenario))
    read = read_scenario(scenario)
    sharding = ShardedRun(shards, Mode.NONE, seed=0, one_session=True, window=1, quiet=QUIET)
    result = run_sharded(read.policy, read.recorded, sharding, name=read.id)
    return Outcome.of(result).placed()


def among(
    scenario: Scenario, ours: Outcome, theirs: Sequence[Outcome], *, service: bool = False
) -> bool:
    """True if our outcome is one of theirs, but for an exchange of equals."""
    shape = Shape(scenario)
    comparable = [their.placed() if service else their for their in theirs]
    return shape.canonical(ours) in map(shape.canonical, comparable)
