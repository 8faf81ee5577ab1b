"""The single writer: one object at a time, in order, durable before it is told."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any

import pytest
import pytest_asyncio

from coordinator.errors import Problem
from coordinator.intake.changes import Changes
from coordinator.intake.documents.document import Document, Key
from coordinator.intake.intake import Intake
from coordinator.intake.principal import CALLER, Principal, TokenRole
from coordinator.intake.writer import PART_OBJECTS, QUEUE_REQUESTS, IntakeFull, IntakeWriter
from coordinator.ledger_refusals import LedgerRefusals, StoreRefused, WriteKind
from shared.ledger.entries.intake_batch import IntakeBatch, IntakeReply
from shared.ledger.entries.log import IntakeEntry
from shared.ledger.errors import LedgerAltered, LedgerArgument, LedgerFault
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.protocol import COORDINATOR
from shared.ledger.retry import AcceptedRun
from shared.manifests.fields.metadata import QUEUE_NAME
from shared.slices import SLICE_CLOCK, SliceClock
from tests.builders.objects import EVERY_KIND, job, node, pod, pod_group, queue
from tests.coordinator.intake.bench import same, state

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(100)]
POD, JOB = Key("Pod", "ns", "p"), Key("Job", "ns", "j")


class WriterDesk:
    """A writer over a ledger, with what it told."""

    def __init__(self) -> None:
        self.ledger = YieldingLedger()
        self.intake = Intake()
        self.told: list[Changes] = []
        self.durable: list[set[str]] = []
        self.refusals = LedgerRefusals()
        """The documents in the ledger when each change was told."""

    async def open(self) -> IntakeWriter:
        leader = await self.ledger.claim(COORDINATOR)
        await self.ledger.bless(leader)
        return IntakeWriter(
            self.intake,
            self.ledger,
            writer="intake",
            epoch=await self.ledger.claim("intake", leader=leader),
            run=AcceptedRun(lambda: self.ledger.bless(leader), await self.ledger.run_id()),
            stored=self._stored,
            refusals=self.refusals,
        )

    def _stored(self, changes: Changes) -> None:
        self.told.append(changes)
        self.durable.append(set(self.ledger.kept))


class YieldingLedger(MemoryLedger):
    """A ledger that lets others go first, and remembers what it was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[IntakeBatch] = []
        self.kept: dict[str, bytes | None] = {}

    async def store(self, batch: IntakeBatch) -> IntakeReply:
        await asyncio.sleep(0.001)
        self.batches.append(batch)
        reply = await super().store(batch)
        self.kept |= dict(batch.documents)
        return reply


@pytest_asyncio.fixture
async def desk() -> WriterDesk:
    return WriterDesk()


@pytest_asyncio.fixture
async def writer(desk: WriterDesk) -> AsyncIterator[IntakeWriter]:
    opened = await desk.open()
    running = asyncio.create_task(opened.run())
    yield opened
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def labelled(key: str, value: str) -> Any:
    def make(before: Document | None) -> dict[str, Any]:
        assert before is not None
        obj = before.object()
        obj["metadata"].setdefault("labels", {})[key] = value
        return obj

    return make


async def test_an_object_is_created_changed_and_deleted(
    desk: WriterDesk, writer: IntakeWriter
) -> None:
    created = await writer.change(POD, lambda before: pod("p"))
    assert created.before is None
    assert created.after is not None
    assert created.after.object() == pod("p")
    changed = await writer.change(POD, labelled("a", "b"))
    assert changed.before == created.after
    assert changed.after is not None
    assert (changed.after.generation, changed.after.uid) == (1, created.after.uid)
    same_again = await writer.change(POD, labelled("a", "b"))
    assert same_again.after is same_again.before
    deleted = await writer.change(POD, lambda before: None)
    assert deleted.after is not None
    assert deleted.after.deleting is not None
    (jid,) = deleted.admission.jobs_gone
    await writer.purge([jid], [])
    assert [len(c.documents) for c in desk.told] == [2, 1, 0, 1, 0]
    assert (desk.told[-1].jobs_purged, desk.told[-1].documents_gone) == ([jid], [POD])
    snapshot = await desk.ledger.snapshot()
    assert (snapshot.jobs, set(snapshot.documents)) == ({}, {"Queue//default"})


async def test_nothing_is_told_before_it_is_durable(desk: WriterDesk, writer: IntakeWriter) -> None:
    await asyncio.gather(*(writer.submit([pod(f"p-{i}"), node(f"n-{i}")]) for i in range(5)))
    for changes, durable in zip(desk.told, desk.durable, strict=True):
        assert {str(document.key) for document in changes.documents} <= durable
    assert len(desk.ledger.batches) < 5, "requests that wait together are stored together"


async def test_deleting_a_node_takes_effect_at_once(writer: IntakeWriter) -> None:
    key = Key("Node", "", "n")
    await writer.submit([node("n")])
    gone = await writer.change(key, lambda before: None)
    assert gone.before is not None
    assert gone.after is None
    (refusal,) = (await writer.change(key, lambda before: None)).admission.refused
    assert refusal.reason == "NotFound"


async def test_a_refusal_leaves_the_object_as_it_was(writer: IntakeWriter) -> None:
    await writer.change(POD, lambda before: pod("p"))
    refused = await writer.change(POD, lambda before: pod("p", priority=5))
    assert refused.after is refused.before
    assert [r.field for r in refused.admission.refused] == ["metadata.name"]


async def test_an_error_in_a_change_reaches_only_its_caller(writer: IntakeWriter) -> None:
    def refuse(before: Document | None) -> dict[str, Any]:
        raise Problem(HTTPStatus.CONFLICT, "somebody was quicker")

    def broken(before: Document | None) -> dict[str, Any]:
        raise KeyError("a mistake of ours")

    answers = await asyncio.gather(
        writer.change(POD, lambda before: pod("p")),
        writer.change(POD, refuse),
        writer.change(Key("Node", "", "n"), broken),
        writer.submit([node("n")]),
        return_exceptions=True,
    )
    assert [type(a).__name__ for a in answers] == [
        "ChangeResult",
        "Problem",
        "KeyError",
        "Admission",
    ]


async def test_a_change_sees_what_came_before_it_published(
    desk: WriterDesk, writer: IntakeWriter
) -> None:
    """Versions are given at publication: a precondition must not meet an older one."""
    observed: list[tuple[int, bool]] = []

    def count(before: Document | None) -> dict[str, Any]:
        reports = [d for changes in desk.told for d in changes.documents if d.key == POD]
        observed.append((len(reports), before is (reports[-1] if reports else None)))
        return pod("p") if before is None else labelled("n", str(len(observed)))(before)

    await asyncio.gather(
        writer.submit([pod("q")]),
        *(writer.change(POD, count) for _ in range(4)),
        writer.submit([pod_group("g")]),
    )
    assert observed == [(n, True) for n in range(4)]


async def test_the_bulk_path_counts_for_a_change_too(
    desk: WriterDesk, writer: IntakeWriter
) -> None:
    admission, changed = await asyncio.gather(
        writer.submit([pod("p")]), writer.change(POD, labelled("a", "b"))
    )
    assert changed.before in admission.documents


async def test_a_dry_run_stores_and_tells_nothing(desk: WriterDesk, writer: IntakeWriter) -> None:
    await writer.submit(EVERY_KIND)
    before, report, sent = state(desk.intake), len(desk.told), len(desk.ledger.batches)
    dry_run = await writer.submit([pod("new")], dry_run=True)
    assert [d.key.name for d in dry_run.documents] == ["new"]
    for key, make in (
        (POD, labelled("a", "b")),
        (POD, lambda before: None),
        (Key("Node", "", "n"), lambda before: None),
        (Key("Pod", "ns", "fresh"), lambda before: pod("fresh")),
    ):
        changed = await writer.change(key, make, dry_run=True)
        assert changed.after != changed.before
    assert same(state(desk.intake), before)
    assert (len(desk.told), len(desk.ledger.batches)) == (report, sent)


async def test_a_batch_stores_only_the_last_form_of_an_object(
    desk: WriterDesk, writer: IntakeWriter
) -> None:
    labels = node("n", labels={"a": "b"})
    await asyncio.gather(writer.submit([node("n")]), writer.submit([labels]))
    await asyncio.gather(
        *(writer.change(Key("Node", "", "n"), make) for make in (lambda b: None, lambda b: labels))
    )
    again = Intake()
    again.restore(await desk.ledger.snapshot())
    assert same(state(again), state(desk.intake))


async def test_words_of_the_server_are_not_the_authors(writer: IntakeWriter) -> None:
    sent = pod("p")
    sent["metadata"] |= {"uid": "abc", "resourceVersion": "7", "creationTimestamp": None}
    created = await writer.change(POD, lambda before: sent)
    assert created.after is not None
    assert created.after.object() == pod("p")


async def test_another_object_cannot_come_by_this_ones_name(writer: IntakeWriter) -> None:
    for wrong in (pod("q"), node("p"), {"kind": "Pod", "metadata": []}):
        changed = await writer.change(POD, lambda before, made=wrong: made)  # type: ignore[misc]
        assert [r.field for r in changed.admission.refused] == ["metadata.name"]
        assert changed.after is None


async def test_controller_state_survives_changes_and_restarts(
    desk: WriterDesk, writer: IntakeWriter
) -> None:
    await writer.submit([job()])
    jid = desk.intake.documents[JOB].jid
    await writer.apply(lambda now: desk.intake.note(JOB, jid, {"retries": 1}))
    changed = await writer.change(JOB, labelled("a", "b"))
    assert changed.after is not None
    assert changed.after.state == {"retries": 1}
    again = Intake()
    again.restore(await desk.ledger.snapshot())
    assert again.documents[JOB] == changed.after


async def test_the_log_holds_only_the_keys_of_documents(
    desk: WriterDesk, writer: IntakeWriter
) -> None:
    await writer.submit([pod("p")])
    await writer.change(POD, labelled("a", "b"))
    entries = [e for e in await desk.ledger.read_log("0") if isinstance(e, IntakeEntry)]
    assert [bool(entry.ops) for entry in entries] == [True, True], "terms of others look at labels"
    assert [entry.documents for entry in entries] == [["Pod/ns/p", "Queue//default"], ["Pod/ns/p"]]


async def test_too_many_waiting_requests_are_turned_away(desk: WriterDesk) -> None:
    idle = await desk.open()
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(idle.submit([queue("q")])) for _ in range(QUEUE_REQUESTS)]
        await asyncio.sleep(0)
        with pytest.raises(IntakeFull):
            await idle.submit([queue("q")])
        other = group.create_task(idle.change(POD, lambda before: pod("p")))
        running = group.create_task(idle.run())
        await asyncio.wait([*waiting, other])
        running.cancel()


async def test_a_small_request_does_not_wait_for_all_the_queues_of_a_tenant(
    desk: WriterDesk, writer: IntakeWriter
) -> None:
    """More Lists than one store takes, each in a queue of its own. If the queues took turns, all of
    them would come before whoever asks last; by time the second turn is his."""
    names = [f"q{i}" for i in range(12)]
    await writer.submit([queue(name) for name in names])

    async def send(caller: str, items: list[dict[str, Any]]) -> str:
        CALLER.set(Principal(caller, TokenRole.SUBMIT))
        await writer.submit(items)
        answered.append(caller)
        return caller

    answered: list[str] = []
    desk.ledger.batches.clear()
    async with asyncio.TaskGroup() as group:
        for name in names:
            pods = [pod(f"{name}-{i}") for i in range(400)]
            for one in pods:
                one["metadata"]["annotations"][QUEUE_NAME] = name
            group.create_task(send("tenant", pods))
        group.create_task(send("user", [pod("small")]))
    assert len(desk.ledger.batches) > 2, "all went in one store: nothing was tried"
    assert [*dict(desk.ledger.batches[1].documents)] == ["Pod/ns/small"], "after the first List"
    assert answered.index("user") < 2


async def submit_as(
    writer: IntakeWriter, caller: str, items: list[dict[str, Any]], answered: list[str]
) -> None:
    CALLER.set(Principal(caller, TokenRole.SUBMIT))
    await writer.submit(items)
    answered.append(caller)


def pods(name: str, count: int) -> list[dict[str, Any]]:
    return [pod(f"{name}-{i}") for i in range(count)]


async def test_a_list_of_one_who_asks_alone_is_one_store(
    desk: WriterDesk, writer: IntakeWriter
) -> None:
    desk.ledger.batches.clear()
    admission = await writer.submit(pods("p", 3 * PART_OBJECTS))
    assert admission.accepted == 3 * PART_OBJECTS
    assert len(desk.ledger.batches) == 1


async def test_small_requests_go_between_the_parts_of_lists(desk: WriterDesk) -> None:
    """All of them before the second part: to judge and to publish one takes as long as many."""
    writer, answered, ticks = await desk.open(), list[str](), itertools.count()

    def look() -> float:
        return 0.0005 * next(ticks)

    SLICE_CLOCK.set(SliceClock(passed=look, used=look))
    running = asyncio.create_task(writer.run())
    await asyncio.create_task(submit_as(writer, "user", [pod("first")], answered))
    await asyncio.create_task(submit_as(writer, "tenant", [pod("second")], answered))
    desk.ledger.batches.clear()
    async with asyncio.TaskGroup() as group:
        for name in ("a", "b"):
            items = pods(name, 2 * PART_OBJECTS)
            group.create_task(submit_as(writer, "tenant", items, answered))
        for number in range(40):
            small = [pod(f"small-{number}")]
            group.create_task(submit_as(writer, "user", small, answered))
    running.cancel()
    assert answered[2:] == ["user"] * 40 + ["tenant"] * 2
    sizes = [len(batch.documents) for batch in desk.ledger.batches]
    assert sizes == [PART_OBJECTS, 40, *[PART_OBJECTS] * 3]


async def test_the_parts_of_a_list_refer_only_to_what_comes_before(
    desk: WriterDesk, writer: IntakeWriter
) -> None:
    """Its author may not name PodGroups that nobody has created."""
    answered: list[str] = []
    await asyncio.create_task(submit_as(writer, "user", [pod("first")], answered))
    items: list[Any] = [
        *(pod(f"p{i}", group=f"g{i}") for i in range(2 * PART_OBJECTS)),
        *(pod_group(f"g{i}", queue="late") for i in range(2 * PART_OBJECTS)),
        queue("late"),
        "no object",
    ]
    CALLER.set(Principal("tenant", TokenRole.SUBMIT))
    admission = await writer.submit(items)
    assert admission.accepted == 4 * PART_OBJECTS + 1
    assert len(admission.refused) == 1
    assert not [job for job in desk.intake.registry.jobs.values() if job.dangling]


# --- what the ledger refuses ----------------------------------------------------------------------


class Refusing(YieldingLedger):
    """A ledger that refuses whatever names one of these objects."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: dict[str, Exception] = {}

    async def store(self, batch: IntakeBatch) -> IntakeReply:
        for key, _ in batch.documents:
            if (error := self.wrong.get(key)) is not None:
                raise error
        return await super().store(batch)


@pytest.mark.parametrize(
    "error,status",
    [
        (LedgerArgument("class 5: slot 9000 is outside 0..4095"), HTTPStatus.UNPROCESSABLE_ENTITY),
        (LedgerFault("the ledger's server failed"), HTTPStatus.INTERNAL_SERVER_ERROR),
        (LedgerAltered("job 5"), HTTPStatus.INTERNAL_SERVER_ERROR),
    ],
)
async def test_a_store_that_the_ledger_refuses_is_refused_to_its_request_alone(
    error: Exception, status: HTTPStatus
) -> None:
    desk = WriterDesk()
    desk.ledger = ledger = Refusing()
    writer = await desk.open()
    running = asyncio.create_task(writer.run())
    ledger.wrong["Pod/ns/bad"] = error
    try:
        requests: list[asyncio.Task[Any]] = [
            asyncio.create_task(writer.submit([pod(name)])) for name in ("first", "bad", "last")
        ]
        requests.append(asyncio.create_task(writer.change(POD, lambda before: pod("p"))))
        result = await asyncio.gather(*requests, return_exceptions=True)
        refused = [answer for answer in result if isinstance(answer, BaseException)]
        assert [(type(e), getattr(e, "status", 0)) for e in refused] == [(StoreRefused, status)]
        assert str(error) in str(refused[0])
        assert desk.refusals.count == {WriteKind.STORE: 1}
        assert not running.done()
        # Nothing of it is known: its name is free, and a follower knows the same.
        again = Intake()
        again.restore(await ledger.snapshot())
        assert same(state(desk.intake), state(again))
        ledger.wrong.clear()
        assert (await writer.submit([pod("bad")])).accepted == 1
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_refused_purge_can_be_repeated() -> None:
    """A purge that is refused leaves the job as it was: it can be purged later."""
    desk = WriterDesk()
    desk.ledger = ledger = Refusing()
    writer = await desk.open()
    running = asyncio.create_task(writer.run())
    try:
        await writer.submit([pod("p")])
        deleted = await writer.change(POD, lambda before: None)
        ledger.wrong[str(POD)] = LedgerArgument("job 0: a task of it still holds node 3")
        with pytest.raises(StoreRefused, match="still holds node 3"):
            await writer.purge(deleted.admission.jobs_gone, [])
        ledger.wrong.clear()
        assert (await writer.purge(deleted.admission.jobs_gone, [])).jobs_purged
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
