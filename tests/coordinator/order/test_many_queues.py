"""What a session asks of very many queues, counted, and that asking rarely changes no decision."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from coordinator.order.order import Order
from shard_worker.dialects.volcano.plugins.queue.capacity import Capacity
from shard_worker.framework.session import Session
from shared.codec.packed import replace
from shared.model.model import Queue
from shared.units.slots import CPU
from tests.builders.rows import job
from tests.coordinator.order.helpers import order, turns
from tests.examples import first_of

QUEUES = 200


def _places_asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []
    ask = Session.queue_place

    def counted(self, queue, cluster):  # type: ignore[no-untyped-def]
        asked.append(queue.queue.name)
        return ask(self, queue, cluster)

    monkeypatch.setattr(Session, "queue_place", counted)
    return asked


@pytest.mark.parametrize("nodes", [100, 4], ids=["with room", "beyond all shares"])
def test_a_session_asks_each_queue_for_its_place_a_few_times(
    monkeypatch: pytest.MonkeyPatch, nodes: int
) -> None:
    names = tuple(f"q{number}" for number in range(QUEUES))
    many = order(nodes=nodes, queues=names, window=64)
    for jid, name in enumerate(names):
        many.put_job(job(jid, queue=name))
    asked = _places_asked(monkeypatch)
    opened = turns(many)
    assert len(opened) == min(64, 4 * nodes)
    assert len(asked) <= 2 * QUEUES + 2 * len(opened)
    if nodes == 4:
        asked.clear()
        assert not turns(many, now=1.0)
        assert not asked, "the cluster is full"


def test_a_session_compares_the_queues_of_a_tree_a_few_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Plugin capacity with enableHierarchy: what a queue takes moves all those beside it."""
    compared: list[str] = []
    monkeypatch.setattr(Capacity, "compare_queues", lambda *_: compared.append(""))
    many = order(nodes=8, queues=(), window=64, policy=_policy(TREE))
    names = _tree(many, parents=20, leaves=QUEUES)
    for jid, name in enumerate(names):
        many.put_job(job(jid, queue=name))
    asked = _places_asked(monkeypatch)
    assert len(turns(many)) == 32
    assert len(asked) <= 2 * QUEUES + 64
    assert not compared


@pytest.mark.parametrize("seed", first_of(range(40)))
def test_kept_places_choose_the_same_turns_as_comparing_at_each_pick(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    kept = [turn.jid for turn in turns(_random_order(seed))]
    monkeypatch.setattr(Session, "sorts_queues", False)
    assert [turn.jid for turn in turns(_random_order(seed))] == kept


TREE = {"name": "capacity", "enableHierarchy": True}
ORDERING: list[list[dict[str, object]]] = [
    [{"name": "drf"}, {"name": "proportion"}],
    [TREE],
    [{"name": "drf", "enableHierarchy": True}, {"name": "capacity"}],
    [{"name": "proportion"}, TREE],
]


def _policy(ordering: Sequence[dict[str, object]] | dict[str, object]) -> dict[str, Any]:
    plugins = [ordering] if isinstance(ordering, dict) else list(ordering)
    tiers = [{"plugins": [{"name": "priority"}, {"name": "gang"}]}, {"plugins": plugins}]
    return {"actions": "allocate", "tiers": tiers}


def _tree(into: Order, *, parents: int, leaves: int, random: Random | None = None) -> list[str]:
    """Queues below parents; of one parent stand together by name too, as where two parents are
    level no order of single queues is right for all of them. The names of the leaves."""
    for parent in range(parents):
        into.put_queue(Queue(1000 + parent, f"q{parent:02}", deserved=((CPU, 4000),)))
    names = []
    for leaf in range(leaves):
        parent = leaf % parents
        deserves = 1000 if random is None else random.choice((0, 1000, 2000))
        names.append(f"q{parent:02}-{leaf:03}")
        priority = 0 if random is None else random.choice((0, 0, 0, 5))
        queue = Queue(leaf, names[-1], parent=1000 + parent, deserved=((CPU, deserves),))
        into.put_queue(replace(queue, priority=priority))
    return names


def _random_order(seed: int) -> Order:
    random = Random(seed)
    ordering = ORDERING[seed % len(ORDERING)]
    drawn = order(
        nodes=random.randint(1, 9),
        queues=(),
        window=64,
        work_conserving=random.random() < 0.7,
        policy=_policy(ordering),
    )
    names = _tree(drawn, parents=random.randint(1, 4), leaves=random.randint(2, 30), random=random)
    for jid in range(random.randint(5, 40)):
        count = random.choice((1, 1, 2, 5))
        drawn.put_job(
            job(
                jid,
                count=count,
                minimum=random.randint(1, count),
                queue=random.choice(names),
                cid=random.randint(0, 1),
                priority=random.choice((0, 0, 9)),
            )
        )
    return drawn
