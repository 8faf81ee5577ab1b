"""The real actor keeps the model's rule for an adopted worker (check ``turn-epoch``)."""

from __future__ import annotations

import asyncio

import pytest

from shard_worker.worker.actor import ShardActor
from shard_worker.worker.transport import CONFIG, REPLY, WorkerConfig
from shared.ledger.redis.access import Access
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.server import EmbeddedServer
from shared.messages.messages import Epoch
from shared.messages.wire import TURNS
from tests.conftest import flush
from tests.shared.ledger.support import Desk


def test_an_adopted_worker_leaves_calls_of_its_earlier_coordinator_alone(
    embedded_server: EmbeddedServer,
) -> None:
    flush(embedded_server)
    actor = ShardActor()
    desk, old = asyncio.run(claimed(embedded_server))
    actor.begin(config(embedded_server, desk, old))
    assert REPLY.decode(actor.turns(str(old).encode(), 0, TURNS.encode([]))).outcomes == []
    desk, new = asyncio.run(claimed(embedded_server))
    actor.begin(config(embedded_server, desk, new))
    with pytest.raises(RuntimeError, match="a call under epoch 1:"):
        actor.turns(str(old).encode(), 0, TURNS.encode([]))
    assert REPLY.decode(actor.turns(str(new).encode(), 0, TURNS.encode([]))).outcomes == []
    actor.end()
    with pytest.raises(RuntimeError, match="not begun"):
        actor.turns(str(new).encode(), 0, TURNS.encode([]))
    actor._runner.close()  # in Ray its process ends instead


@pytest.mark.all
def test_a_call_that_arrives_twice_is_served_once(embedded_server: EmbeddedServer) -> None:
    flush(embedded_server)
    actor = ShardActor()
    desk, epoch = asyncio.run(claimed(embedded_server))
    actor.begin(config(embedded_server, desk, epoch))
    of = str(epoch).encode()
    actor.turns(of, 2, TURNS.encode([]))
    actor.turns(of, 1, TURNS.encode([]))  # two are in flight at once
    with pytest.raises(RuntimeError, match=r"call 2 .* was served before"):
        actor.turns(of, 2, TURNS.encode([]))
    actor.begin(config(embedded_server, desk, epoch))  # anew: another coordinator counts from 1
    actor.turns(of, 2, TURNS.encode([]))
    actor.end()
    actor._runner.close()  # in Ray its process ends instead


async def claimed(server: EmbeddedServer) -> tuple[Desk, Epoch]:
    """A coordinator that takes the leadership, and the epoch that it claims for shard 0."""
    ledger = RedisLedger(server.url)
    desk = await Desk(ledger).open()
    await ledger.close()
    return desk, desk.epochs["0"]


def config(server: EmbeddedServer, desk: Desk, epoch: Epoch) -> bytes:
    worker = WorkerConfig(
        shard=0,
        epoch=epoch,
        run_id=desk.run_id,
        mode="soft",
        seed=1,
        policy=None,
        access=Access(server.url),
        nomination_seconds=10.0,
        lease_seconds=3.0,
    )
    return CONFIG.encode(worker)
