"""A ledger that is asked, step by step, what happens on a way through the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from laboratory.model import ledger as model
from laboratory.model.explore import ALL
from laboratory.model.state import (
    ACCEPTED,
    CLAIMED,
    FENCED,
    JOBS,
    REFUSED,
    SHARDS,
    STANDBY,
    UNANSWERED,
    Message,
    ModelCoordinator,
    ModelStep,
    State,
)
from shared.ledger.entries.intake_batch import DropJob, IntakeBatch, PutPartition
from shared.ledger.errors import Deposed, LeaseHeld
from shared.ledger.protocol import COORDINATOR, Ledger
from shared.messages.messages import ACCEPTED as TAKEN
from shared.messages.messages import (
    CommitBatch,
    Epoch,
    Group,
    StatusBatch,
    StatusItem,
    TaskState,
    Verdict,
)
from tests.shared.ledger.support import cluster, job, node, run, statement

LONG, ENDED = 1e6, 1e-6
"""Seconds of leases that last, and of one that is over when the next call comes."""
JIDS = (10, 11)
FULL = 1000
"""Thousandths of a core of a node: as many as one task needs."""


@dataclass
class ModelDriver:
    """Real counterparts of the model's numbers: epochs, runs, requests."""

    ledger: Ledger
    restart: Callable[[], Awaitable[None]]
    runs: list[str] = field(default_factory=list)
    leaderships: dict[int, Epoch] = field(default_factory=dict)
    shards: dict[tuple[int, int], Epoch] = field(default_factory=dict)
    sequence: int = 0
    sent: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """(job, shard, epoch) -> sequence of the newest request."""
    met: Counter[str] = field(default_factory=Counter)

    async def begin(self) -> None:
        await self.ledger.open()
        self.leaderships[1] = await self.ledger.claim(COORDINATOR, lease=LONG)
        for shard in SHARDS:
            await self._claim_shard(shard, 1, self.leaderships[1])
        self.runs.append(await self.ledger.bless(self.leaderships[1]))
        objects = [*cluster(3, FULL), job(JIDS[0], Group(-1, 2)), job(JIDS[1])]
        assert (await self.ledger.store(self._intake(1, 0, objects))).verdict is Verdict.COMMITTED

    async def follow(self, before: State, step: ModelStep) -> None:
        """Do what this step of the model does, and expect what it expects."""
        after = step.after
        if after.run != before.run:
            await self.restart()
        if step.request is not None:
            await self._judged(before, step.request)
        await self._seat_moved(before, after)
        for old, new in zip(before.coordinators, after.coordinators, strict=True):
            await self._coordinator_moved(before, after, old, new, step.label)
        await self._changed(before, after)
        await self._leases_moved(before, after)
        await self._rights(after)

    async def same_places(self, s: State) -> None:
        """The ledger has every job where the model has it."""
        snapshot = await self.ledger.snapshot()
        for index in JOBS:
            tasks = snapshot.tasks.get(JIDS[index], {})
            held = {t: task.row for t, task in tasks.items() if task.state == TaskState.BINDING}
            assert held == dict(enumerate(s.places[index]))

    # --- requests -----------------------------------------------------------------------------

    async def _judged(self, s: State, m: Message) -> None:
        expected = model.judge(s, m, ALL)
        name = (m.job, m.shard, m.epoch)
        if m.answer == UNANSWERED:
            self.sequence += 1
            self.sent[name] = self.sequence
        place = statement(JIDS[m.job], run(list(range(len(m.place))), list(m.place)))
        epoch = self.shards[m.shard, m.epoch]
        batch = CommitBatch(str(m.shard), epoch, self.sent[name], self.runs[m.run], [place])
        reply = await self.ledger.commit(batch)
        assert reply.replayed == (m.answer != UNANSWERED and expected != FENCED)
        if reply.verdict is not Verdict.COMMITTED:
            assert reply.verdict in (Verdict.EPOCH, Verdict.RUN)
            assert expected == FENCED
        else:
            assert expected == (ACCEPTED if reply.answers[0].verdict in TAKEN else REFUSED)
            self.met[f"judged {reply.answers[0].verdict.name}"] += 1
        self.met[f"batch {reply.verdict.name}{' again' if reply.replayed else ''}"] += 1

    # --- who leads ----------------------------------------------------------------------------

    async def _seat_moved(self, before: State, after: State) -> None:
        if after.leadership != before.leadership:
            self.leaderships[after.leadership] = await self.ledger.claim(COORDINATOR, lease=LONG)
            self.met["leadership claimed"] += 1

    async def _coordinator_moved(
        self, before: State, after: State, old: ModelCoordinator, new: ModelCoordinator, label: str
    ) -> None:
        if "deposed" in label and old.role != STANDBY == new.role:
            with pytest.raises(Deposed):
                await self.ledger.claim("0", leader=self.leaderships[old.leadership], lease=LONG)
            with pytest.raises(Deposed):
                await self.ledger.bless(self.leaderships[old.leadership])
            self.met["deposed"] += 1
            return
        for shard in SHARDS:
            if new.shards[shard] != old.shards[shard] and new.role >= CLAIMED:
                await self._claim_shard(shard, new.shards[shard], self.leaderships[new.leadership])
        if "blesses" in label and new != old:
            run_id = await self.ledger.bless(self.leaderships[new.leadership])
            if new.run == len(self.runs):
                self.runs.append(run_id)
            assert self.runs[new.run] == run_id
            self.met["blessed"] += 1

    async def _claim_shard(self, shard: int, number: int, leader: Epoch) -> None:
        epoch = await self.ledger.claim(str(shard), leader=leader, lease=LONG)
        self.shards[shard, number] = epoch

    async def _leases_moved(self, before: State, after: State) -> None:
        if after.leadership == before.leadership and after.lease_lasts != before.lease_lasts:
            await self._lease(
                COORDINATOR, self.leaderships[after.leadership], lasts=after.lease_lasts
            )
        for shard in SHARDS:
            same = after.shards[shard] == before.shards[shard]
            if same and after.lasts[shard] != before.lasts[shard]:
                epoch = self.shards[shard, after.shards[shard]]
                await self._lease(str(shard), epoch, lasts=after.lasts[shard])

    async def _lease(self, writer: str, epoch: Epoch, *, lasts: bool) -> None:
        assert await self.ledger.renew(writer, epoch, lease=LONG if lasts else ENDED)
        self.met["renewed" if lasts else "lease ended"] += 1

    # --- what the coordinator writes ----------------------------------------------------------

    async def _changed(self, before: State, after: State) -> None:
        leadership, run_number = after.leadership, after.blessed
        if after.phase != before.phase:
            await self._store(
                leadership, run_number, PutPartition(after.phase, {0: [0], 1: [1, 2]})
            )
        if after.cordoned and not before.cordoned:
            await self._store(leadership, run_number, node(1, FULL, spec=2))
        if after.change == 1 != before.change:
            await self._store(leadership, run_number, DropJob(JIDS[1]))
        if after.change == 2 != before.change:
            self.sequence += 1
            epoch, items = (
                self.leaderships[leadership],
                [StatusItem(TaskState.FAILED, JIDS[1], [0], [0])],
            )
            batch = StatusBatch(COORDINATOR, epoch, self.sequence, self.runs[run_number], items, [])
            assert (await self.ledger.record(batch)).applied == [[0]]

    async def _store(self, leadership: int, run_number: int, op: object) -> None:
        reply = await self.ledger.store(self._intake(leadership, run_number, [op]))
        assert reply.verdict is Verdict.COMMITTED

    def _intake(self, leadership: int, run_number: int, ops: list) -> IntakeBatch:  # type: ignore[type-arg]
        self.sequence += 1
        epoch = self.leaderships[leadership]
        return IntakeBatch(COORDINATOR, epoch, self.sequence, self.runs[run_number], ops)

    async def _rights(self, s: State) -> None:
        """Compare the right to write with the model's; the leadership is not given away."""
        for c in s.coordinators:
            if c.role >= CLAIMED and c.run < len(self.runs):
                reply = await self.ledger.store(self._intake(c.leadership, c.run, []))
                may = reply.verdict is Verdict.COMMITTED
                assert may == model.may_write(s, c, ALL), (reply.verdict, c)
                self.met["may write" if may else "may not write"] += 1
        if s.lease_lasts:
            with pytest.raises(LeaseHeld):
                await self.ledger.claim(COORDINATOR, lease=LONG)
