"""What a session asks of very many queues, counted, and that asking rarely changes no decision."""

from __future__ import annotations

from random import Random

import pytest

from coordinator.order.order import Order
from shard_worker.framework.session import Session
from tests.builders.rows import job
from tests.coordinator.order.helpers import order, turns
from tests.examples import first_of

QUEUES = 200


def _keys_asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []
    ask = Session.queue_key

    def counted(self, queue, cluster):  # type: ignore[no-untyped-def]
        asked.append(queue.queue.name)
        return ask(self, queue, cluster)

    monkeypatch.setattr(Session, "queue_key", counted)
    return asked


@pytest.mark.parametrize("nodes", [100, 4], ids=["with room", "beyond all shares"])
def test_a_session_asks_each_queue_for_its_key_a_few_times(
    monkeypatch: pytest.MonkeyPatch, nodes: int
) -> None:
    names = tuple(f"q{number}" for number in range(QUEUES))
    many = order(nodes=nodes, queues=names, window=64)
    for jid, name in enumerate(names):
        many.put_job(job(jid, queue=name))
    asked = _keys_asked(monkeypatch)
    opened = turns(many)
    assert len(opened) == min(64, 4 * nodes)
    assert len(asked) <= 2 * QUEUES + 2 * len(opened)


@pytest.mark.parametrize("seed", first_of(range(20)))
def test_kept_keys_choose_the_same_turns_as_keys_asked_for_at_each_pick(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    kept = [turn.jid for turn in turns(_random_order(seed))]
    monkeypatch.setattr(Session, "sorts_queues", False)
    assert [turn.jid for turn in turns(_random_order(seed))] == kept


def _random_order(seed: int) -> Order:
    random = Random(seed)
    names = tuple(f"q{number}" for number in range(random.randint(2, 9)))
    drawn = order(
        nodes=random.randint(1, 9), queues=names, window=64, work_conserving=random.random() < 0.7
    )
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
