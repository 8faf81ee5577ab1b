"""The ledger neither takes nor gives what was altered: records, entries, answers, calls."""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from shared.codec.packed import replace
from shared.ledger import codec, records, replies
from shared.ledger.entries.intake_batch import Move, PutObject, PutPartition
from shared.ledger.entries.stored import JobRecord, QueueRecord, TaskRecord
from shared.ledger.errors import LedgerAltered
from shared.ledger.keys import key, script_keys
from shared.ledger.redis.calls import call_seal, script
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.integrity import check_records
from shared.ledger.redis.server import EmbeddedServer
from shared.messages.messages import NOMINATE, DomainOp, Group, StatusItem, TaskState, Verdict
from tests.security.alter import altered, refuses, survives, turned
from tests.shared.ledger.support import Desk, cluster, job, run, statement

RECORDS: dict[str, tuple[bytes, Callable[[bytes], object]]] = {
    "node": (records.pack_node(7, 2, [8000, 100, 0, 0, 0, 110, 1, 0, 0, 0]), records.unpack_node),
    "task": (
        records.pack_task(TaskRecord(3, 70_000, 4, 2, 1), 7, 900),
        lambda data: records.unpack_task(data, 7, 900),
    ),
    "job": (
        records.pack_job(JobRecord(3, 2, False, [Group(-1, 2, 1), Group(0, 1, 1)], 9)),
        records.unpack_job,
    ),
    "queue": (
        records.pack_queue(QueueRecord(-1, {0: 2**60, 1: 3}, {1: 2**55})),
        records.unpack_queue,
    ),
    "class": (records.pack_class([(0, 100, 0), (2, 1, 110)], b"spec"), records.unpack_class),
    "counter": (records.pack_count(3), records.unpack_count),
    "nominations": (
        records.sealed(codec.pack([5, 1.5, 9.5, [[4, 1, [0, 1], [5, 6], [3, 4]]]])),
        lambda data: replies.unpack_nomination(7, data),
    ),
    "partition": (
        records.sealed(codec.pack([9, 3, [[0, [1, 2]], [1, []]], [[0, 1, [2]]], b"soft"])),
        replies.unpack_partition,
    ),
}


@pytest.mark.parametrize("name", RECORDS)
def test_an_altered_record_is_refused(name: str) -> None:
    data, read = RECORDS[name]
    assert refuses(read, data, LedgerAltered) > 8 * len(data)


@pytest.mark.parametrize("name", [name for name in RECORDS if name != "task"])
def test_behind_a_seal_that_fits_no_form_crashes_the_reader(name: str) -> None:
    data, read = RECORDS[name]

    def reseal(body: bytes) -> object:
        return read(records.sealed(body))

    assert survives(reseal, data[: -records.SEAL], LedgerAltered, most=3000) > 0


@given(st.binary(max_size=120))
def test_noise_is_no_record(data: bytes) -> None:
    for _, read in RECORDS.values():
        with pytest.raises(LedgerAltered):
            read(data)


def test_a_task_is_refused_under_another_name() -> None:
    data, _ = RECORDS["task"]
    for jid, tix in ((7, 901), (8, 900), (900, 7)):
        with pytest.raises(LedgerAltered):
            records.unpack_task(data, jid, tix)


# --- with a server -------------------------------------------------------------------------------


@pytest.fixture
async def desk(redis_url: str) -> AsyncIterator[Desk]:
    ledger = RedisLedger(redis_url)
    try:
        desk = await Desk(ledger).open()
        await desk.store(*cluster(), job(1), job(2), PutObject("numbers", b"x"))
        partition = PutPartition(1, {0: [0, 1], 1: [2]}, [Move(0, 1, [1])], "soft")
        await desk.store(partition)
        yield desk
    finally:
        await ledger.close()


@pytest.fixture
def client(embedded_server: EmbeddedServer) -> Any:
    with redis.Redis.from_url(embedded_server.url, protocol=2) as client:
        yield client


async def busy(desk: Desk) -> None:
    """Something of every kind in the log: allocations, nominations, counters, ends."""
    await desk.commit(statement(1, run([0, 1], [0, 1])))
    await desk.commit(statement(2, run([0], [2], kind=NOMINATE), expiry=99.0))
    await desk.record(StatusItem(TaskState.RUNNING, 1, [0], [0]), expired=(2,))


async def test_an_altered_entry_of_a_stream_is_refused(desk: Desk, client: Any) -> None:
    await busy(desk)
    entries, binds = client.xrange(key("log")), client.xrange(key("binds"))
    assert len(entries) >= 7
    assert len(binds) == 1
    for at, fields in entries:
        _refuses_fields(replies.unpack_entry, at.decode(), fields)
    _refuses_fields(replies.unpack_binds, binds[0][0].decode(), binds[0][1])


def _refuses_fields(read: Any, at: str, fields: dict[bytes, bytes]) -> None:
    read(at, fields)
    others = [fields | {b"x": b""}]
    for name, value in fields.items():
        others += [fields | {name: other} for other in altered(value, most=300)]
        others.append({n: v for n, v in fields.items() if n != name})
    for other in others:
        with pytest.raises(LedgerAltered, match=at):
            read(at, other)


async def test_no_entry_behind_a_seal_that_fits_crashes_a_reader(desk: Desk, client: Any) -> None:
    await busy(desk)
    for read, stream in ((replies.unpack_entry, "log"), (replies.unpack_binds, "binds")):
        for at, fields in client.xrange(key(stream)):
            for name in {replies.PAYLOAD, replies.RECORDS} & fields.keys():
                for other in altered(fields[name], most=400):
                    with contextlib.suppress(LedgerAltered):
                        read(at.decode(), _resealed(fields | {name: other}))


def _resealed(fields: dict[bytes, bytes]) -> dict[bytes, bytes]:
    seal = replies._sha1(fields[replies.PAYLOAD])
    if replies.RECORDS in fields:
        seal += replies._sha1(fields[replies.RECORDS])
    return fields | {replies.SEAL: seal}


async def test_an_altered_answer_is_refused(desk: Desk) -> None:
    ledger = desk.ledger
    assert isinstance(ledger, RedisLedger)
    batch = desk.commit_batch(statement(1, run([0, 1], [0, 1])))
    arguments = (str(batch.epoch), batch.sequence, batch.run_id)
    packed = codec.pack_statements(batch.statements)
    answer = await ledger._run("commit", "0", *arguments, packed, "")
    replies.open_reply(answer)
    for index, part in enumerate(answer):
        parts = [1 - part] if isinstance(part, int) else list(altered(part, most=800))
        for other in parts:
            with pytest.raises(LedgerAltered):
                replies.open_reply([*answer[:index], other, *answer[index + 1 :]])
    with pytest.raises(LedgerAltered):
        replies.open_reply(answer[:-1])


def everything(client: Any) -> dict[bytes, bytes]:
    names = client.keys("*")
    with client.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.dump(name)
        return dict(zip(names, pipe.execute(), strict=True))


class Calls:
    """Calls to the scripts, recorded so that altered ones can be sent."""

    def __init__(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        ledger = desk.ledger
        assert isinstance(ledger, RedisLedger)
        self.sent: list[tuple[str, list[bytes]]] = []
        self.fresh = 1000
        sending = ledger._run

        async def note(name: str, *args: Any) -> Any:
            self.sent.append((name, [a if isinstance(a, bytes) else str(a).encode() for a in args]))
            return await sending(name, *args)

        monkeypatch.setattr(ledger, "_run", note)

    def again(self, client: Any, name: str, args: list[bytes], seal: str = "") -> Any:
        keys = script_keys(args[0].decode())
        sealed = [*args, seal or call_seal(keys, args)]
        return client.evalsha(script(name)[1], len(keys), *keys, *sealed)

    def anew(self, args: list[bytes]) -> list[bytes]:
        """With a sequence number that was not used yet."""
        self.fresh += 1
        return [*args[:2], b"%d" % self.fresh, *args[3:]]


@pytest.fixture
def calls(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(desk, monkeypatch)


async def all_calls(desk: Desk) -> None:
    """Each script once, with something of everything."""
    domains = [DomainOp("spread/a", 1, "le", 5)]
    placed = replace(statement(1, run([0, 1], [0, 1])), domains=domains, displaced=[2], expiry=5.0)
    await desk.commit(placed)
    await desk.record(StatusItem(TaskState.RUNNING, 1, [0], [0]), expired=(2,))
    await desk.store(*cluster(), job(3), PutObject("numbers", None))
    await desk.claim("1", lease=5.0)
    await desk.ledger.renew("1", desk.epochs["1"], lease=5.0)
    await desk.ledger.leader()
    await desk.ledger.release("1", desk.epochs["1"])
    await desk.bless()


async def test_a_script_takes_no_altered_call(desk: Desk, calls: Calls, client: Any) -> None:
    await all_calls(desk)
    assert {name for name, _ in calls.sent} >= {"commit", "record", "store", "claim", "bless"}
    before = everything(client)
    for name, args in calls.sent:
        whole = calls.anew(args) if name in ("commit", "record", "store") else args
        seal = call_seal(script_keys(args[0].decode()), whole)
        for index, argument in enumerate(whole):
            for other in [*altered(argument, most=30)][:90]:
                if index == 0 and not other.isascii():
                    continue  # the name is part of a key: no such key could be asked for
                printed = [*whole[:index], other, *whole[index + 1 :]]
                with pytest.raises(redis.ResponseError, match="QUADRANT-ALTERED"):
                    calls.again(client, name, printed, seal)
    assert everything(client) == before


async def test_no_call_behind_a_seal_that_fits_is_applied_by_half(
    desk: Desk, calls: Calls, client: Any
) -> None:
    await all_calls(desk)
    r = random.Random(3)
    refused, before = 0, everything(client)
    for name, args in [c for c in calls.sent if c[0] in ("commit", "record", "store")]:
        for index in range(4, len(args)):
            others = list(altered(args[index], most=400))
            for other in r.sample(others, min(80, len(others))):
                whole = calls.anew(args)
                try:
                    calls.again(client, name, [*whole[:index], other, *whole[index + 1 :]])
                    before = everything(client)
                except redis.ResponseError:
                    refused += 1
                    assert everything(client) == before, (name, other)
    assert refused > 100
    await desk.store(*cluster())
    await check_records(desk.ledger._writer)  # type: ignore[attr-defined]


# --- a new run of the server ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["node", "queue", "class", "job", "nom", "task", "domain"])
async def test_a_run_with_an_altered_record_is_not_blessed(
    name: str, desk: Desk, client: Any
) -> None:
    await all_calls(desk)
    await desk.commit(statement(2, run([0], [2], kind=NOMINATE), expiry=99.0))
    client.hdel(key("meta"), "run")  # as after a restart
    field, record = next(iter(client.hgetall(key(name)).items()))
    client.hset(key(name), field, turned(record, 9))
    with pytest.raises(LedgerAltered, match=field.decode()):
        await desk.bless()
    assert (await desk.store()).verdict is Verdict.RUN
    client.hset(key(name), field, record)
    await desk.bless()
    assert (await desk.store()).verdict is Verdict.COMMITTED


async def test_a_snapshot_and_the_reads_of_a_follower_refuse_what_is_altered(
    desk: Desk, client: Any
) -> None:
    await all_calls(desk)
    for name in ("node", "queue", "class", "job", "task", "domain"):
        field, record = next(iter(client.hgetall(key(name)).items()))
        client.hset(key(name), field, turned(record, 3))
        with pytest.raises(LedgerAltered):
            await desk.ledger.snapshot()
        client.hset(key(name), field, record)
    await desk.ledger.snapshot()
