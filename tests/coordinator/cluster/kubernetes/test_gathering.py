"""Items that come one by one are taken together, in virtual time."""

from __future__ import annotations

import asyncio

from coordinator.cluster.kubernetes.gathering import FEW, GATHER_SECONDS, EventGathering
from tests.laboratory.simulation.test_virtual_loop import LoopStage


def test_few_things_wait_for_others_unless_it_was_quiet() -> None:
    stage, gathering = LoopStage(), EventGathering()

    async def take(waiting: int) -> None:
        await gathering.pause(waiting)
        stage.note(str(waiting))

    async def main() -> None:
        await take(1)  # at once
        await take(2)
        await asyncio.sleep(GATHER_SECONDS / 2)
        await take(3)  # the other half
        await take(FEW)  # at once
        await asyncio.sleep(10 * GATHER_SECONDS)
        await take(4)  # it was quiet

    stage.loop.start(main())
    pace = GATHER_SECONDS
    expected = [("1", 0.0), ("2", pace), ("3", 2 * pace), (str(FEW), 2 * pace), ("4", 12 * pace)]
    assert stage.run() == [(what, round(at, 3)) for what, at in expected]
