"""The books are compared with the ledger while evictions may be told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.instructions import Reread
from coordinator.service.executor import Executor
from coordinator.service.reconcile_loop import Reconciling
from shared.ledger.entries.stored import JobRecord, TaskRecord
from shared.messages.messages import StatusItem, TaskState
from tests.coordinator.bind.test_victims import VICTIM, ends, evict, filled, truth

HELD = TaskRecord(TaskState.RUNNING, 0, 0, 3)
LEAVES = TaskRecord(TaskState.RELEASING, 0, 0, 3, by=1)


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


async def test_older_records_do_not_undo_an_eviction_reported_meanwhile() -> None:
    core = running()
    assert await audited(core, lambda: evict(core, 1)) == 0
    assert core.order.jobs[VICTIM].evicted == {1}
    assert ends(core, 1) == [StatusItem(TaskState.PENDING, VICTIM, [1], [0], incarnations=(0,))]


async def test_books_that_nothing_changes_meanwhile_follow_the_ledger() -> None:
    core = running()
    evict(core, 1)
    assert await audited(core, lambda: None) == 1
    assert core.order.jobs[VICTIM].evicted == set()


async def test_records_are_read_again_after_an_eviction_reported_meanwhile() -> None:
    """A lost turn's job is read anew, and the bind stream tells of a victim before the answer."""
    core, read = running(), 0

    class Ledger:
        async def read_tasks(self, jids: list[int]) -> Any:
            nonlocal read
            read += 1
            if read == 1:
                evict(core, 1)
                return truth(HELD, HELD, HELD)
            return truth(HELD, LEAVES, HELD)

    nobody = cast(Any, None)
    async with asyncio.TaskGroup() as group:
        executor = Executor(
            group,
            ledger=cast(Any, Ledger()),
            core=core,
            guard=asyncio.Lock(),
            recorder=nobody,
            writer=nobody,
            binding=nobody,
            workers=nobody,
            kick=lambda: None,
        )
        executor.execute(Reread([VICTIM]))
    assert read == 2
    assert core.order.jobs[VICTIM].evicted == {1}
    assert ends(core, 1) == [StatusItem(TaskState.PENDING, VICTIM, [1], [0], incarnations=(0,))]


def running() -> Coordinator:
    """The books have three tasks as running, as the records do."""
    core = filled()
    core.reread(truth(HELD, HELD, HELD))
    core.order.nominations_released([VICTIM])  # as after every reread
    core.validate()
    return core
