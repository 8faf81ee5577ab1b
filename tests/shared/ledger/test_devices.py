"""Devices of a node: the writer says which one a task takes, the ledger holds it to that one."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.codec.packed import replace
from shared.ledger.entries.intake_batch import (
    DropJob,
    DropNode,
    Observe,
    PutClass,
    PutNode,
)
from shared.ledger.entries.log import CommitEntry, IntakeEntry, StatusEntry
from shared.ledger.entries.stored import ThingAsk
from shared.ledger.errors import LedgerArgument
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.protocol import Ledger
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.server import EmbeddedServer
from shared.messages.messages import (
    ACCEPTED,
    ALLOCATE,
    NOMINATE,
    EvictRun,
    Run,
    StatusItem,
    TaskState,
)
from shared.messages.messages import Verdict as V
from shared.units.things import Things, Vector
from tests.conftest import flush
from tests.examples import examples
from tests.shared.ledger import support
from tests.shared.ledger.conftest import NOW
from tests.shared.ledger.support import (
    CPU,
    PODS,
    SMALL,
    Desk,
    cluster,
    entry_of_kind,
    job,
    node,
    statement,
)
from tests.shared.ledger.test_things import Amounts, amounts, things

S = TaskState
TWO: Things = (("gpu/0", (1000, 100)), ("gpu/1", (1000, 100)))
NONE: Things = (("gpu/0", (0, 0)), ("gpu/1", (0, 0)))


def run(
    tasks: list[int],
    rows: list[int],
    *,
    devices: Things = (),
    kind: int = ALLOCATE,
    cid: int = SMALL,
) -> Run:
    return replace(support.run(tasks, rows, kind=kind, cid=cid), devices=devices)


def part(memory: int, cores: int = 10, *, of: int = 0) -> Things:
    return ((f"gpu/{of}", (memory, cores)),)


async def two_devices(desk: Desk, *jids: int) -> None:
    await desk.store(node(0, things=TWO), *map(job, jids))


async def placed(desk: Desk, jid: int, devices: Things, *, tix: int = 0, kind: int = 0) -> V:
    reply = await desk.commit(statement(jid, run([tix], [0], kind=kind, devices=devices)))
    return reply.answers[0].verdict


async def test_two_parts_fit_one_device_only_where_it_has_room_for_both(desk: Desk) -> None:
    """The node has 2,000 of which 1,200 are used: no matter, 500 more do not fit the first."""
    await two_devices(desk, 7, 8, 9)
    assert await placed(desk, 7, part(600)) in ACCEPTED
    assert await placed(desk, 8, part(600)) is V.FIT
    assert await placed(desk, 8, part(600, of=1)) in ACCEPTED
    assert await placed(desk, 9, part(500)) is V.FIT
    assert await placed(desk, 9, part(400, 91)) is V.FIT, "each dimension is a limit"
    assert await placed(desk, 9, part(400, 90)) in ACCEPTED
    assert await things(desk) == {
        "gpu/0": [(1000, 1000, 0, 0, 0), (100, 100, 0, 0, 0)],
        "gpu/1": [(1000, 600, 0, 0, 0), (100, 10, 0, 0, 0)],
    }


async def test_a_device_that_no_node_declares_has_nothing(desk: Desk) -> None:
    await two_devices(desk, 7)
    assert await placed(desk, 7, part(1, of=2)) is V.FIT
    assert await placed(desk, 7, part(1, of=2), kind=NOMINATE) is V.NOMINATION


async def test_one_task_takes_parts_of_several_devices_or_of_none(desk: Desk) -> None:
    await two_devices(desk, 7, 8)
    both = (*part(600), *part(600, of=1))
    assert await placed(desk, 7, both) in ACCEPTED
    assert await placed(desk, 8, both) is V.FIT
    assert {name: of[0][1] for name, of in (await things(desk)).items()} == {
        "gpu/0": 600,
        "gpu/1": 600,
    }


async def test_task_record_bind_stream_and_log_tell_which(desk: Desk) -> None:
    await two_devices(desk, 7)
    plain, sharing = run([0], [1]), run([1], [0], devices=part(600, of=1))
    assert (await desk.commit(statement(7, plain, tail=(sharing,)))).answers[0].verdict in ACCEPTED
    snapshot = await desk.ledger.snapshot()
    assert {tix: task.devices for tix, task in snapshot.tasks[7].items()} == {
        0: (),
        1: part(600, of=1),
    }
    assert (await desk.ledger.read_binds("b"))[-1].devices == {(7, 1): part(600, of=1)}
    *_, entry = await desk.ledger.read_log("0")
    accepted = entry_of_kind(entry, CommitEntry).accepted[0]
    assert [r.devices for r in (*accepted.core, *accepted.tail)] == [(), part(600, of=1)]


@pytest.mark.parametrize("end", [S.PENDING, S.SUCCEEDED, S.FAILED, S.LOST])
async def test_every_end_frees_the_device(desk: Desk, end: TaskState) -> None:
    await two_devices(desk, 7, 8)
    assert await placed(desk, 7, part(600)) in ACCEPTED
    await desk.record(StatusItem(end, 7, [0], [0]))
    assert (await things(desk))["gpu/0"][0] == (1000, 0, 0, 0, 0)
    there = (await desk.ledger.snapshot()).tasks.get(7, {})
    assert {tix: task.devices for tix, task in there.items()} == (
        {} if end is S.PENDING else {0: part(600)}
    ), "what has ended says what it had"
    assert await placed(desk, 8, part(600)) in ACCEPTED


async def test_a_releasing_device_can_be_nominated_and_is_freed_at_the_end(desk: Desk) -> None:
    await two_devices(desk, 6, 7, 8)
    assert await placed(desk, 6, part(600)) in ACCEPTED
    assert await placed(desk, 7, part(600), kind=NOMINATE) is V.NOMINATION
    await desk.record(StatusItem(S.RELEASING, 6, [0], [0]))
    assert (await things(desk))["gpu/0"][0] == (1000, 600, 0, 600, 0)
    assert await placed(desk, 7, part(600), kind=NOMINATE) in ACCEPTED
    nomination = (await desk.ledger.snapshot()).nominations[7]
    assert [r.devices for r in nomination.runs] == [part(600)]
    await desk.record(StatusItem(S.SUCCEEDED, 6, [0], [0]))
    assert await placed(desk, 8, part(600)) is V.NOMINATION, "idle, and promised"
    assert await placed(desk, 8, part(600, of=1)) in ACCEPTED
    await desk.store(DropJob(7))
    assert (await things(desk))["gpu/0"][0] == (1000, 0, 0, 0, 0)


async def test_a_victims_device_is_promised_in_the_statement_that_evicts_it(desk: Desk) -> None:
    await two_devices(desk, 6, 7)
    assert await placed(desk, 6, part(600)) in ACCEPTED
    await desk.record(StatusItem(S.RUNNING, 6, [0], [0]))
    promise = run([0], [0], kind=NOMINATE, devices=part(700))
    victims = [EvictRun(6, 1, SMALL, 0, [0], [0], 0)]
    evicting = replace(statement(7, promise), evictions=victims, reason="preempt: priority")
    assert (await desk.commit(evicting)).answers[0].verdict in ACCEPTED
    assert (await things(desk))["gpu/0"][0] == (1000, 600, 0, 600, 700)
    leaving = (await desk.ledger.snapshot()).tasks[6][0]
    assert (leaving.devices, leaving.by, leaving.why) == (part(600), 7, "preempt: priority")
    await desk.record(StatusItem(S.PENDING, 6, [0], [0]))
    again = (await desk.ledger.snapshot()).tasks[6][0]
    assert (again.devices, again.incarnation) == ((), 1), "it is pending, and has none"
    assert await placed(desk, 6, part(300, of=1)) in ACCEPTED
    reborn = (await desk.ledger.snapshot()).tasks[6][0]
    assert (reborn.devices, reborn.incarnation) == (part(300, of=1), 1)


async def test_a_statement_that_evicts_in_vain_leaves_devices_as_they_were(desk: Desk) -> None:
    await two_devices(desk, 6, 7)
    assert await placed(desk, 6, part(600)) in ACCEPTED
    await desk.record(StatusItem(S.RUNNING, 6, [0], [0]))
    promise = run([0], [0], kind=NOMINATE, devices=part(1001))
    victims = [EvictRun(6, 1, SMALL, 0, [0], [0], 0)]
    before = await desk.ledger.snapshot()
    reply = await desk.commit(replace(statement(7, promise), evictions=victims, reason="preempt"))
    assert reply.answers[0].verdict is V.NOMINATION
    after = await desk.ledger.snapshot()
    assert (after.nodes, after.tasks) == (before.nodes, before.tasks)


async def test_the_refused_writer_is_shown_the_device(desk: Desk) -> None:
    await two_devices(desk, 7, 8)
    assert await placed(desk, 7, part(600)) in ACCEPTED
    reply = await desk.commit(statement(8, run([0], [0], devices=part(600))))
    assert [(row, name) for row, name, _ in reply.fresh.things] == [(0, "gpu/0")]


async def test_one_that_the_cluster_has_elsewhere_gives_its_device_back(desk: Desk) -> None:
    """Adopted: with the devices that its report names, those of its old node are free."""
    await two_devices(desk, 7, 8)
    await desk.store(node(1, things=TWO))
    assert await placed(desk, 7, part(600)) in ACCEPTED
    await desk.record(StatusItem(S.RUNNING, 7, [0], [1], SMALL, 0, part(700, of=1)))
    assert (await things(desk))["gpu/0"][0] == (1000, 0, 0, 0, 0)
    assert (await things(desk, 1))["gpu/1"][0] == (1000, 700, 0, 0, 0)
    assert (await desk.ledger.snapshot()).tasks[7][0].devices == part(700, of=1)
    await desk.record(StatusItem(S.RELEASING, 8, [0], [1], SMALL, 0, part(700, of=1)))
    assert (await things(desk, 1))["gpu/1"][0] == (1000, 1400, 0, 700, 0), "as it is, also beyond"
    *_, entry = await desk.ledger.read_log("0")
    assert entry_of_kind(entry, StatusEntry).items[0].devices == part(700, of=1)


async def test_a_node_declares_what_it_has_and_takes_back_what_it_has_no_more(desk: Desk) -> None:
    await two_devices(desk, 7, 8)
    assert await placed(desk, 7, part(600)) in ACCEPTED
    await desk.store(node(0, things=(("gpu/0", (500, 100)), ("gpu/1", (0, 0)))))
    assert await things(desk) == {"gpu/0": [(500, 600, 0, 0, 0), (100, 10, 0, 0, 0)]}
    assert await placed(desk, 8, part(1, of=1)) is V.FIT
    entry = entry_of_kind((await desk.ledger.read_log("0"))[-2], IntakeEntry)
    assert sorted(name for _, name, _ in entry.fresh.things) == ["gpu/0", "gpu/1"]
    await desk.store(DropNode(0, NONE))
    await desk.record(StatusItem(S.SUCCEEDED, 7, [0], [0]))
    assert await things(desk) == {}, "a node that went, and its last task, leave nothing"


async def test_device_usage_by_foreign_pods_counts(desk: Desk) -> None:
    await two_devices(desk, 7)
    await desk.store(Observe(0, [], [("gpu/0", (600, 0))]))
    assert await placed(desk, 7, part(600)) is V.FIT
    assert await placed(desk, 7, part(400)) in ACCEPTED


async def test_a_class_that_names_the_thing_itself_may_not_be_given_it_again(desk: Desk) -> None:
    own = PutClass(40, [(PODS, 1, 0)], b"", [ThingAsk("gpu/0", (500, 1), (0, 0))])
    await two_devices(desk, 7)
    await desk.store(own)
    with pytest.raises(LedgerArgument, match="its class names gpu/0"):
        await desk.commit(statement(7, run([0], [0], cid=40, devices=part(600))))
    assert await things(desk) == {name: [(n, 0, 0, 0, 0) for n in of] for name, of in TWO}


BAD: tuple[Things, ...] = (
    (("", (1,)),),
    (("x" * 129, (1,)),),
    (("a\0b", (1,)),),
    (("gpu/0", ()),),
    (("gpu/0", (1,) * 5),),
    (("gpu/0", (-1,)),),
    (("gpu/0", (2**53,)),),
    (*part(1), *part(1)),
)


@pytest.mark.parametrize("devices", BAD)
async def test_the_form_of_devices_is_checked(desk: Desk, devices: Things) -> None:
    await two_devices(desk, 7)
    with pytest.raises(LedgerArgument):
        await placed(desk, 7, devices)
    with pytest.raises(LedgerArgument):
        await desk.record(StatusItem(S.RUNNING, 7, [0], [0], SMALL, 0, devices))
    with pytest.raises(LedgerArgument):
        await desk.store(node(0, things=devices))


# --- against a naive model -----------------------------------------------------------------------

JOBS, ROWS = 4, 2
NAMES = ("gpu/0", "gpu/1", "gpu/2")
CAPACITIES: tuple[Vector, ...] = ((1000, 100), (1000, 100), (600, 40), (0, 0))
Task = tuple[int, int]
At = tuple[int, str, int]
"""(row, device, dimension)."""
Held = tuple[int, Things]
"""(row, devices) of one task."""


def added_up(some: Iterable[Held]) -> Counter[At]:
    total: Counter[At] = Counter()
    for row, devices in some:
        for name, vector in devices:
            for d, amount in enumerate(vector):
                total[row, name, d] += amount
    return total


@dataclass
class Model:
    """Oracle of device use: holders alone, with sums made anew for every question."""

    has: dict[Task, Held] = field(default_factory=dict)
    leaving: set[Task] = field(default_factory=set)
    promised: dict[int, Held] = field(default_factory=dict)
    offers: dict[tuple[int, str], Vector] = field(default_factory=dict)

    def used(self) -> Counter[At]:
        return added_up(self.has.values())

    def releasing(self, *more: Task) -> Counter[At]:
        return added_up(self.has[task] for task in {*self.leaving, *more})

    def verdict(self, jid: int, held: Held, *, promise: bool, victims: tuple[Task, ...] = ()) -> V:
        """Expected verdict on one task of a job; the job's own promises are given back first."""
        others = [of for other, of in self.promised.items() if other != jid]
        used, releasing, promised = self.used(), self.releasing(*victims), added_up(others)
        verdict = V.COMMITTED
        for at, amount in added_up([held]).items():
            offered = self.offers.get(at[:2], (0, 0))[at[2]]
            if not promise and used[at] + amount > offered:
                return V.FIT
            if used[at] - releasing[at] + promised[at] + amount > offered:
                verdict = V.NOMINATION
        return verdict

    def check(self, amounts: dict[int, Amounts]) -> None:
        """Check that the ledger's amounts of every device equal the sums of the tasks."""
        used, releasing, promised = (
            self.used(),
            self.releasing(),
            added_up(self.promised.values()),
        )
        results = {
            (row, name, d): numbers
            for row, of in amounts.items()
            for name, dimensions in of.items()
            for d, numbers in enumerate(dimensions)
        }
        for at in {*results, *used, *promised}:
            offered = self.offers.get(at[:2], (0, 0))[at[2]]
            expected = (offered, used[at], 0, releasing[at], promised[at])
            assert results.get(at, (0,) * 5) == expected, at


@dataclass
class Play:
    """Two shards, each with statements of its own, and a coordinator that reports."""

    desk: Desk
    rng: random.Random
    model: Model = field(default_factory=Model)
    tasks: int = 0
    refused: int = 0

    async def begin(self) -> None:
        await self.desk.open("1")
        await self.desk.store(*cluster(0), *map(job, range(JOBS)))
        for row in range(ROWS):
            await self.declare(row, [(name, CAPACITIES[0]) for name in NAMES])

    async def declare(self, row: int, things: Iterable[tuple[str, Vector]]) -> None:
        named = tuple(things)
        await self.desk.store(PutNode(row, [(CPU, 10**6), (PODS, 10**3)], 1, b"node", named))
        self.model.offers.update({(row, name): of for name, of in named})

    async def step(self) -> None:
        await self.rng.choices((self.place, self.leave, self.end, self.redeclare), (8, 1, 3, 1))[
            0
        ]()
        rows = (await self.desk.ledger.snapshot()).nodes
        self.model.check({row: amounts(rows, row) for row in range(ROWS)})

    def devices(self) -> Things:
        names = self.rng.sample(NAMES, self.rng.choice((1, 1, 2)))
        return tuple(
            (name, (self.rng.choice((100, 400, 600, 1000)), self.rng.choice((0, 10, 50))))
            for name in sorted(names)
        )

    async def place(self) -> None:
        """One task, now or promised, perhaps in the place of one that is evicted for it."""
        model, rng = self.model, self.rng
        jid, row, promise = rng.randrange(JOBS), rng.randrange(ROWS), rng.random() < 0.4
        held = (row, self.devices())
        able = sorted(model.has.keys() - model.leaving)
        victims = (rng.choice(able),) if promise and able and rng.random() < 0.5 else ()
        self.tasks += 1
        devices, kind = held[1], NOMINATE if promise else ALLOCATE
        s = replace(
            statement(jid, run([self.tasks], [row], kind=kind, devices=devices)),
            evictions=[EvictRun(j, 1, SMALL, 0, [t], [model.has[j, t][0]], 0) for j, t in victims],
            reason="preempt: priority",
        )
        reply = await self.desk.commit(s, writer=rng.choice(("0", "1")))
        verdict = reply.answers[0].verdict
        expected = model.verdict(jid, held, promise=promise, victims=victims)
        assert (V.COMMITTED if verdict in ACCEPTED else verdict) is expected
        if verdict not in ACCEPTED:
            self.refused += 1
            return
        model.promised.pop(jid, None)
        model.leaving.update(victims)
        if promise:
            model.promised[jid] = held
        else:
            model.has[jid, self.tasks] = held
            await self.report(S.RUNNING, (jid, self.tasks))

    async def report(self, state: TaskState, task: Task) -> None:
        row = self.model.has[task][0]
        reply = await self.desk.record(StatusItem(state, task[0], [task[1]], [row]))
        assert reply.applied == [[task[1]]]

    async def leave(self) -> None:
        if able := sorted(self.model.has.keys() - self.model.leaving):
            task = self.rng.choice(able)
            await self.report(S.RELEASING, task)
            self.model.leaving.add(task)

    async def end(self) -> None:
        if self.model.has:
            task = self.rng.choice(sorted(self.model.has))
            await self.report(self.rng.choice((S.SUCCEEDED, S.FAILED, S.LOST)), task)
            self.model.leaving.discard(task)
            del self.model.has[task]

    async def redeclare(self) -> None:
        names = self.rng.sample(NAMES, 2)
        row = self.rng.randrange(ROWS)
        await self.declare(row, [(name, self.rng.choice(CAPACITIES)) for name in names])


@pytest.mark.parametrize("on_server", [True, False])
@settings(max_examples=examples(25))
@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(1, 40))
def test_every_verdict_and_every_sum_is_that_of_a_naive_model(
    embedded_server: EmbeddedServer, on_server: bool, seed: int, steps: int
) -> None:
    async def example() -> None:
        flush(embedded_server)
        real = RedisLedger(embedded_server.url, clock=lambda: NOW)
        ledger: Ledger = real if on_server else MemoryLedger(random.Random(1), clock=lambda: NOW)
        try:
            play = Play(Desk(ledger), random.Random(seed))
            await play.begin()
            for _ in range(steps):
                await play.step()
        finally:
            await real.close()

    asyncio.run(example())
