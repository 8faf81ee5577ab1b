"""Intake and the real ledger: what was stored comes back as the same state."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.intake.admission.result import Admission
from coordinator.intake.intake import Intake
from shared.ledger.entries.intake_batch import IntakeBatch
from shared.ledger.protocol import COORDINATOR
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.server import EmbeddedServer
from shared.messages.messages import Verdict
from tests.builders.objects import EVERY_KIND, node, pod, pod_group, queue
from tests.coordinator.intake.bench import BEST_EFFORT, kept_documents, same, state

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(100)]


async def test_intake_is_restored_from_the_ledger(short_dir: Path) -> None:
    server = EmbeddedServer(short_dir, short_dir / "data")
    server.start()
    ledger = RedisLedger(server.url)
    try:
        leader = await ledger.claim(COORDINATOR)
        await ledger.bless(leader)
        run_id, epoch = await ledger.run_id(), await ledger.claim("intake", leader=leader)
        intake = Intake()
        sequence = 0

        async def store(admission: Admission) -> None:
            nonlocal sequence
            sequence += 1
            batch = IntakeBatch(
                "intake", epoch, sequence, run_id, admission.ops, kept_documents(admission)
            )
            assert (await ledger.store(batch)).verdict is Verdict.COMMITTED

        early = [pod("e-0", group="later", role="w", **BEST_EFFORT), node("m"), pod("gone")]
        await store(intake.admit([*EVERY_KIND, *early, pod_group("x", queue="none")], 1.5))
        await store(intake.admit([queue("up"), queue("none", parent="up"), queue("root")], 2.0))
        late = pod_group("later", minMember=2, minTaskMember={"w": 1})
        await store(intake.admit([late, pod("e-1", group="later", role="w")], 3.0))
        for kind, name in (("Node", "m"), ("Pod", "gone"), ("Pod", "e-1"), ("HyperNode", "h")):
            await store(intake.remove(kind, "ns", name, 4.0))

        snapshot = await ledger.snapshot()
        again = Intake()
        again.restore(snapshot)
        assert same(state(again), state(intake))
        later = snapshot.jobs[intake.registry.groups["ns/later"]]
        assert [g.held for g in later.groups] == [1, 1]
        assert (
            snapshot.jobs[intake.registry.groups["ns/x"]].qid == again.registry.queues["none"].qid
        )
    finally:
        await ledger.close()
        server.stop()
