"""Holding our decisions against those of another scheduler's own code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.oracle import differences as of_volcano
from tests.oracle import differences_kai as of_kai
from tests.oracle.decided import Scenario, decided
from tests.oracle.drawn import drawn, scenario_of
from tests.oracle.drawn_kai import drawn_kai, scenario_of_kai
from tests.oracle.outcome import Outcome, Shape
from tests.oracle.peers import RUNS, ask
from tests.oracle.variants import variant

Kind = of_volcano.Kind | of_kai.Kind
STAGES = (2, RUNS, 10 * RUNS)
"""Runs until ours is among the outcomes: most scenarios have one, and a few a rare tie."""
BATCH = 200
VARIED = 0.8
"""Share of our own forms that are a variant of a drawn one, and not the drawn one itself."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Another scheduler whose own code decides scenarios."""

    program: str
    """Folder of its Go program."""
    software: str
    module: str
    draw: Callable[[Random], dict[str, Any]]
    """A random form."""
    scenario_of: Callable[[str, dict[str, Any]], dict[str, Any]]
    """(id, form) -> scenario."""
    kind_of: Callable[[Scenario, Outcome, Sequence[Outcome], bool], Kind | None]
    """(scenario, ours, theirs, whether a service decided) -> the kind of the difference."""

    def form_of(self, draw: Random) -> dict[str, Any]:
        form = self.draw(draw)
        return variant(form, draw) if draw.random() < VARIED else form


VOLCANO = Peer("volcano", "Volcano", "volcano.sh/volcano", drawn, scenario_of, of_volcano.kind_of)
KAI = Peer(
    "kai",
    "KAI",
    "github.com/NVIDIA/KAI-scheduler",
    drawn_kai,
    scenario_of_kai,
    of_kai.kind_of,
)
PEERS = {peer.program: peer for peer in (VOLCANO, KAI)}


@dataclass(frozen=True, slots=True)
class Difference:
    """A scenario that came out otherwise than in any run of the other scheduler."""

    scenario: Scenario
    ours: Outcome
    theirs: list[Outcome]
    kind: Kind | None
    """The kind of a difference by design; None is a fault of one of the two."""


def variants(
    peer: Peer, count: int, *, seed: int, tables: Sequence[Scenario] = (), first: int = 0
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
            yield peer.scenario_of(f"{seed}-{i}", peer.form_of(draw))


def differences(
    peer: Peer,
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
            kind = peer.kind_of(scenario, ours, them, bool(shards))
            yield Difference(scenario, ours, them, kind)
        progress(first + len(batch))


def among(
    scenario: Scenario, ours: Outcome, theirs: Sequence[Outcome], *, service: bool = False
) -> bool:
    """True if our outcome is one of theirs, but for an exchange of equals."""
    shape = Shape(scenario)
    comparable = [their.placed() if service else their for their in theirs]
    return shape.canonical(ours) in map(shape.canonical, comparable)
