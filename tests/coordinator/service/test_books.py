"""The books are compared with the ledger while evictions may be told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from coordinator.core.coordinator import Coordinator
from coordinator.service.reconcile_loop import Reconciling
from shared.ledger.entries.stored import JobRecord, TaskRecord
from shared.messages.messages import StatusItem, TaskState
from tests.coordinator.bind.test_victims import VICTIM, ends, evict, filled, truth

HELD = TaskRecord(TaskState.RUNNING, 0, 0, 3)


class SlowLedger:
    """Its records are those of before whatever happens until the answer is there."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._meanwhile = meanwhile

    async def read_tasks(
        self, jids: list[int]
    ) -> dict[int, tuple[JobRecord, dict[int, TaskRecord]]]:
        assert jids == [VICTIM]
        self._meanwhile()
        return truth(HELD, HELD, HELD)


async def audited(core: Coordinator, meanwhile: Callable[[], object]) -> int:
    """How many jobs were found to differ. Nothing but the ledger is asked."""
    nobody = cast(Any, None)
    reconciling = Reconciling(
        cast(Any, SlowLedger(meanwhile)),
        nobody,
        core=core,
        intake=nobody,
        recorder=nobody,
        writer=nobody,
        binding=nobody,
        guard=asyncio.Lock(),
        every=1.0,
        kick=lambda: None,
    )
    return await reconciling.audit([VICTIM])


async def test_older_records_do_not_take_back_an_eviction_that_is_told_meanwhile() -> None:
    core = running()
    assert await audited(core, lambda: evict(core, 1)) == 0
    assert core.order.jobs[VICTIM].evicted == {1}
    assert ends(core, 1) == [StatusItem(TaskState.PENDING, VICTIM, [1], [0])]


async def test_books_that_nothing_changes_meanwhile_follow_the_ledger() -> None:
    core = running()
    evict(core, 1)
    assert await audited(core, lambda: None) == 1
    assert core.order.jobs[VICTIM].evicted == set()


def running() -> Coordinator:
    """The books have three tasks as running, as the records do."""
    core = filled()
    core.reread(truth(HELD, HELD, HELD))
    core.order.nominations_released([VICTIM])  # as after every reread
    core.validate()
    return core
