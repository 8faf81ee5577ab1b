"""Nodes change hands while everything else happens: workers and coordinators die and stand still,
messages are lost, late and doubled. No node is ever two shards' own, and every job still ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random

import pytest

from coordinator.dispatch.dispatcher import ShardState
from coordinator.dispatch.handover import Handover
from coordinator.dispatch.partition import NOBODY, Shards
from coordinator.intake.documents.document import Key
from laboratory.scenarios.generate import LARGE_EVERY, scenario
from laboratory.scenarios.play import play
from laboratory.scenarios.workload import node, with_hostname
from laboratory.simulation.scenario import Item, Scenario, UserRequest
from shard_worker.view.mode import Mode
from shared.codec.packed import replace
from shared.ledger.entries.intake_batch import PutPartition
from tests.builders.objects import hyper_node
from tests.examples import examples

NODES = 8
SEEDS = examples(20, least=2)
FLIPS = 14


_SMALL = {
    mode: [
        seed for seed in range(500) if seed % 3 == rest and seed % LARGE_EVERY != LARGE_EVERY - 1
    ]
    for rest, mode in enumerate((Mode.NONE, Mode.SOFT, Mode.HARD))
}
"""Seeds of small scenarios: their jobs fit into one shard of ours."""


def tide(number: int, mode: Mode) -> Scenario:
    """A small scenario of this mode on more nodes. A domain of three of them is another one again
    and again: it goes where most of it is, so that a node or two have to move each time."""
    seed = _SMALL[mode][number]
    draw, base = Random(seed + 3_000_003), scenario(seed)
    nodes = tuple(with_hostname(node(number)) for number in range(NODES))
    others = tuple(item for item in base.setup if item["kind"] != "Node")
    times = sorted(draw.uniform(0.0, 2.5) for _ in range(FLIPS))
    flips = [UserRequest(at, (_domain(draw.sample(range(NODES), 3)),)) for at in times]
    flips.append(UserRequest(3.0, delete=Key("HyperNode", "", "tide")))
    setup = (*nodes, *others)
    return replace(base, shards=2, setup=setup, wishes=(*base.wishes, *flips))


def _domain(members: list[int]) -> Item:
    return hyper_node("tide", *(f"n{number}" for number in members))


@pytest.mark.parametrize("mode", [Mode.SOFT, pytest.param(Mode.HARD, marks=pytest.mark.all)])
def test_every_job_ends_and_no_promise_breaks_while_nodes_change_hands(mode: Mode) -> None:
    for number in range(SEEDS):
        result = play(tide(number, mode))
        assert not result.broken, f"tide {number}, {mode.value}: {result.broken[0]}"


@pytest.mark.all
def test_handovers_meet_open_statements_older_views_and_successors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the runs above would prove little."""
    observed: Counter[str] = Counter()
    waits_for, restore = Handover.waits_for, Handover.restore

    def counted(self: Handover, workers: Mapping[int, ShardState]) -> list[int] | None:
        result = waits_for(self, workers)
        for giver in result or ():
            open_calls = [c for c in workers[giver].calls if c <= self._last_call]
            observed["statements under way"] += bool(open_calls)
            observed["an older view"] += not open_calls
        return result

    def restored(self: Handover, put: PutPartition, *, at: str) -> None:
        restore(self, put, at=at)
        observed["successor between the phases"] += bool(self.moving)

    monkeypatch.setattr(Handover, "waits_for", counted)
    monkeypatch.setattr(Handover, "restore", restored)
    moved = 0
    for number in range(8):
        simulation = play(tide(number, Mode.HARD)).simulation
        moved += simulation.core.tally.nodes_moved
    assert moved > 20
    for what in ("statements under way", "an older view", "successor between the phases"):
        assert observed[what] > 0, (what, observed)


# --- it finds what it is there to find --------------------------------------------------------


@pytest.mark.all
@pytest.mark.parametrize(("mode", "first"), [(Mode.SOFT, 44), (Mode.HARD, 16)], ids=str)
def test_without_waiting_for_the_giver_a_node_is_two_shards_own(
    mode: Mode, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Handover, "_may_use", lambda *_: False)
    assert _caught("promise 4", mode, first=first)


def test_without_the_first_phase_a_node_jumps(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(self: Handover, desired: Shards) -> dict[int, int] | None:
        self._grow(len(desired))
        changed = {
            row: shard
            for row, shard in enumerate(desired.tolist())
            if shard not in (NOBODY, self.in_use.item(row))
        }
        for row, shard in changed.items():
            self.in_use[row] = shard
        return changed or None

    monkeypatch.setattr(Handover, "assign", at_once)
    assert _caught("promise 4", Mode.HARD)


def _caught(rule: str, mode: Mode, *, first: int = 0) -> bool:
    """Whether some tide breaks the rule; ``first``: one that did when this was written."""
    for number in (first, *range(60)):
        if any(rule in broken.rule for broken in play(tide(number, mode)).broken):
            return True
    return False
