"""No script writes by half: whatever fails in it on the real server, nothing of its call is there.

Lua does not take back what a script wrote before it failed. So each thing in the scripts that may
fail (packing, unpacking, hashing, reading) is made to fail in turn, by its number in the order of
calls, until the script comes through; after each failure every key is as it was before.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
import redis

from shared.codec.packed import replace
from shared.ledger.entries.intake_batch import (
    DropNode,
    IntakeBatch,
    IntakeOp,
    Observe,
    PurgeJob,
    PutClass,
    PutJob,
    PutNode,
    PutObject,
    PutPartition,
    PutQueue,
)
from shared.ledger.entries.stored import BindEntry, ThingAsk, Write
from shared.ledger.errors import LedgerAltered, LedgerArgument, LedgerFault, LedgerUnavailable
from shared.ledger.keys import key, window
from shared.ledger.redis import calls
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.server import EmbeddedServer
from shared.ledger.redis.take_up import TakingUp
from shared.ledger.schema import SCHEMA, TakeUpProgress
from shared.messages.messages import (
    NOMINATE,
    DomainOp,
    EvictRun,
    Group,
    StatusBatch,
    StatusItem,
    TaskState,
)
from tests.conftest import flush
from tests.shared.ledger.conftest import NOW
from tests.shared.ledger.support import (
    COORDINATOR,
    CPU,
    DEVICE,
    HOST_PORT,
    LEAF,
    NAMED,
    NOTHING,
    PODS,
    ROOT,
    SHARED,
    SMALL,
    Desk,
    cluster,
    job,
    node,
    run,
    statement,
)

COUNTDOWN = b"countdown"
"""Key of the number of the call that is to fail; 0: none."""

# The script's own text stands in a function of its own: one function may have 200 local names, and
# the longest script is not far from that.
FAILING = b"""
local countdown = tonumber(redis.call('GET', 'countdown'))
local function failing(f)
  return function(...)
    countdown = countdown - 1
    if countdown == 0 then error('PLANTED', 0) end
    return f(...)
  end
end
local function all_failing(library)
  local made = {}
  for name, f in pairs(library) do made[name] = type(f) == 'function' and failing(f) or f end
  return made
end
local writes = {HSET = 1, HDEL = 1, XADD = 1, SET = 1, DEL = 1}
local plain = redis
local reading = failing(redis.call)
local unpack, struct, cmsgpack = failing(unpack), all_failing(struct), all_failing(cmsgpack)
local string, table = all_failing(string), all_failing(table)
local redis = {
  sha1hex = failing(plain.sha1hex),
  call = function(command, ...)
    if writes[command] then return plain.call(command, ...) end
    return reading(command, ...)
  end,
}
local function script()
"""

WIDE, WIDE_CLASS, WIDE_ROW = 2000, 20, 9
"""Slots of a class that needs more numbers than one call of Lua takes; its node."""

Call = Callable[[Desk], Callable[[], Awaitable[Any]]]
"""Prepares a call; the call itself may be sent as often as wanted."""


@dataclass(frozen=True, slots=True)
class ScriptStage:
    desk: Desk
    client: Any

    def everything(self) -> dict[bytes, bytes]:
        names = [name for name in self.client.keys("*") if name != COUNTDOWN]
        return {name: self.client.dump(name) for name in names}

    def fail_at(self, number: int) -> None:
        self.client.set(COUNTDOWN, number)


@pytest.fixture
async def stage(embedded_server: EmbeddedServer) -> AsyncIterator[ScriptStage]:
    flush(embedded_server)
    ledger = RedisLedger(embedded_server.url, clock=lambda: NOW)
    with redis.Redis.from_url(embedded_server.url, protocol=2) as client:
        yield ScriptStage(await _busy(ledger), client)
        client.config_set("maxmemory", 0)
        client.config_set("min-replicas-to-write", 0)
    await ledger.close()
    flush(embedded_server)


async def _busy(ledger: RedisLedger) -> Desk:
    """Something of every kind, and a node, a class and a queue that are wider than one call."""
    desk = await Desk(ledger).open("1")
    slots = range(3, WIDE)
    requests = [(CPU, 10, 0), (PODS, 1, 0), *((slot, 1, 1) for slot in slots)]
    await desk.store(
        *cluster(),
        PutClass(WIDE_CLASS, requests, b"wide"),
        PutQueue(LEAF, ROOT, [(slot, 9) for slot in slots], b"leaf"),
        PutNode(WIDE_ROW, [(CPU, 9000), (PODS, 50), (WIDE, 1)], 1, b"wide"),
        *(job(jid) for jid in range(1, 9)),
        *(job(jid) for jid in (11, 12)),
        PutObject("settings", b"x"),
        Observe(1, [], [(HOST_PORT, (1,))]),
    )
    await desk.commit(statement(11, run([0], [0], cid=NAMED)))
    await desk.commit(statement(1, run([0, 1], [0, 1])), statement(2, run([0], [0])))
    await desk.commit(statement(3, run([0], [2], kind=NOMINATE), expiry=99.0))
    await desk.commit(statement(4, run([0], [3], kind=NOMINATE), expiry=99.0))
    await desk.record(StatusItem(TaskState.RUNNING, 1, [0, 1], [0, 1]))
    await desk.commit(replace(statement(5), evictions=[EvictRun(1, 1, SMALL, 0, [0], [0], 0)]))
    await desk.record(StatusItem(TaskState.PENDING, 1, [0], [0]))
    await desk.claim("2", lease=3600.0)
    return desk


# --- representative calls, one or more of every script -------------------------------------------


def _commit(desk: Desk) -> Callable[[], Awaitable[Any]]:
    """All that a batch may hold: cores, tails, displaced nominations, evictions, counters, a task
    that was evicted before, a refused statement, a node wider than one call."""
    batch = desk.commit_batch(
        replace(
            statement(6, run([0], [3]), tail=(run([1], [3]),), displaced=(3,), priority=5),
            domains=[DomainOp("term/a", 1, "eq0")],
            evictions=[EvictRun(1, 1, SMALL, 0, [1], [1], 0)],
            reason="preempt",
        ),
        statement(1, run([0], [2])),
        statement(4, run([1], [2], kind=NOMINATE), expiry=120.0),
        statement(7, run([0, 1], [WIDE_ROW, WIDE_ROW], cid=WIDE_CLASS, spec=7)),
        statement(8, run([0], [WIDE_ROW], cid=WIDE_CLASS)),
        statement(12, run([0], [2], cid=SHARED)),
    )
    return lambda: desk.ledger.commit(batch)


def _record(desk: Desk) -> Callable[[], Awaitable[Any]]:
    items = [
        StatusItem(TaskState.RELEASING, 1, [1], [1]),
        StatusItem(TaskState.RUNNING, 2, [0], [0]),
        StatusItem(TaskState.FAILED, 7, [3], [0], NOTHING, 0),
        StatusItem(TaskState.RUNNING, 8, [0], [WIDE_ROW], WIDE_CLASS, 0),
        StatusItem(TaskState.SUCCEEDED, 11, [0], [0]),
        StatusItem(TaskState.BOUND, 12, [0], [2], SHARED, 0),
    ]
    w = COORDINATOR
    batch = StatusBatch(w, desk.epochs[w], desk.next(w), desk.run_id, items, [3, 4])
    return lambda: desk.ledger.record(batch)


def _store(desk: Desk) -> Callable[[], Awaitable[Any]]:
    ops: list[IntakeOp] = [
        PutClass(21, [(slot, 1, 1) for slot in range(WIDE)], b"wider"),
        node(7),
        PutNode(WIDE_ROW, [(CPU, 9000), (PODS, 40), (WIDE + 10, 1)], 2, b"wider"),
        PutClass(22, [(PODS, 1, 0)], b"named", [ThingAsk(DEVICE, (1, 2), (3, 4))]),
        Observe(WIDE_ROW, [(CPU, 100)]),
        Observe(1, [], [(HOST_PORT, (0,)), (DEVICE, (5, 1))]),
        DropNode(3),
        PutQueue(LEAF, -1, [(CPU, 10**6)], b"moved"),
        PutJob(2, ROOT, 2, [Group(-1, 1)], b"moved"),
        job(9, Group(-1, 2), Group(0, 1)),
        PutObject("settings", None),
        PutPartition(1, {0: [0, 1], 1: [2]}, [], "soft"),
    ]
    documents = [("Job/default/a", b"{}"), ("Job/default/b", None)]
    w = COORDINATOR
    batch = IntakeBatch(w, desk.epochs[w], desk.next(w), desk.run_id, ops, documents)
    return lambda: desk.ledger.store(batch)


def _claim(desk: Desk) -> Callable[[], Awaitable[Any]]:
    leader = desk.epochs[COORDINATOR]
    return lambda: desk.ledger.claim("0", leader=leader, lease=60.0, holder="somebody")


def _renew(desk: Desk) -> Callable[[], Awaitable[Any]]:
    return lambda: desk.ledger.renew("2", desk.epochs["2"], lease=60.0)


def _release(desk: Desk) -> Callable[[], Awaitable[Any]]:
    return lambda: desk.ledger.release("2", desk.epochs["2"])


def _bless(desk: Desk) -> Callable[[], Awaitable[Any]]:
    return lambda: desk.ledger.bless(desk.epochs[COORDINATOR])


def _leader(desk: Desk) -> Callable[[], Awaitable[Any]]:
    return lambda: desk.ledger.leader()


def _take_up(desk: Desk) -> Callable[[], Awaitable[Any]]:
    ledger = desk.ledger
    assert isinstance(ledger, RedisLedger)
    taking = TakingUp(ledger._run, ledger._writer, leader=desk.epochs[COORDINATOR])
    writes = [Write("node", b"%d" % row, b"record") for row in range(2000)]
    writes.append(Write("job", b"1", None))
    stages = (SCHEMA, None), (SCHEMA + 1, TakeUpProgress(SCHEMA))
    binds = [
        BindEntry("", [(1, SMALL, [2], [0])], {(1, 2): 1}, devices={(1, 2): ((DEVICE, (1,)),)})
    ]
    return lambda: taking.write_slice(*stages, writes, binds)


CALLS: dict[str, Call] = {
    "commit": _commit,
    "record": _record,
    "store": _store,
    "claim": _claim,
    "renew": _renew,
    "release": _release,
    "bless": _bless,
    "leader": _leader,
    "take_up": _take_up,
}
READING = {"page", "open"}
"""Scripts that never write."""


def test_every_script_has_a_call() -> None:
    assert set(CALLS) == set(calls.PARTS) - READING


def _failing(name: str) -> Callable[[str], tuple[bytes, str]]:
    original = calls.script

    def script(expected: str) -> tuple[bytes, str]:
        if expected != name:
            return original(expected)
        text = FAILING + original(expected)[0] + b"\nend\nreturn script()\n"
        return text, hashlib.sha1(text, usedforsecurity=False).hexdigest()

    return script


@pytest.mark.parametrize("name", CALLS)
async def test_a_script_that_fails_anywhere_writes_nothing(
    name: str, stage: ScriptStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "leader":  # writes only where the clock was set back: the lease begins anew
        stage.client.hset(key("epoch"), "coordinator/lease", f"{10**17} 5000000")
    if name == "bless":
        stage.client.hset(key("meta"), "run", "0" * 40)
    call = CALLS[name](stage.desk)
    before = stage.everything()
    monkeypatch.setattr(calls, "script", _failing(name))
    failures = 0
    while True:
        stage.fail_at(failures + 1)
        try:
            await call()
        except LedgerFault as error:
            assert "PLANTED" in str(error)
            assert stage.everything() == before, f"what call {failures + 1} left behind"
            failures += 1
        else:
            break
    assert failures >= (3 if name in ("renew", "release", "leader") else 8)
    assert stage.everything() != before


# --- what the server itself refuses ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["commit", "record", "store", "claim"])
@pytest.mark.parametrize("setting", ["maxmemory", "min-replicas-to-write"])
async def test_a_server_that_may_not_write_has_written_nothing(
    name: str, setting: str, stage: ScriptStage
) -> None:
    """It says so at the first write of a script, and at no later one."""
    call = CALLS[name](stage.desk)
    before = stage.everything()
    stage.client.config_set(setting, 1)
    with pytest.raises(LedgerUnavailable):
        await call()
    assert stage.everything() == before
    stage.client.config_set(setting, 0)
    await call()


@pytest.mark.parametrize(
    "name,wrong",
    [
        *(("commit", key(k)) for k in ("log", "binds", "domain", "nom")),
        *(("record", key(k)) for k in ("log", "nom", "task")),
        *(("store", key(k)) for k in ("log", "doc", "nodespec", "object", "jobspec")),
        ("claim", key("log")),
    ],
)
async def test_a_key_of_another_type_is_seen_before_the_first_write(
    name: str, wrong: bytes, stage: ScriptStage
) -> None:
    call = CALLS[name](stage.desk)
    stage.client.delete(wrong)
    stage.client.set(wrong, "a string")
    before = stage.everything()
    with pytest.raises((LedgerAltered, LedgerFault)):
        await call()
    assert stage.everything() == before


async def test_a_refusal_in_the_last_operation_takes_all_others_with_it(stage: ScriptStage) -> None:
    before = stage.everything()
    with pytest.raises(LedgerArgument):
        await stage.desk.store(node(7), job(9), PurgeJob(1))
    assert stage.everything() == before


# --- the text -------------------------------------------------------------------------------------


def test_only_the_plan_writes() -> None:
    """A script that called a writing command itself would do so before all is ready."""
    reads = {"HGET", "HMGET", "HKEYS", "HLEN", "HSCAN", "TIME", "INFO", "TYPE"}
    reads |= {"XRANGE", "XINFO", "XPENDING"}
    for path in calls.SCRIPTS.glob("*.lua"):
        used = re.findall(r"\bcall\((?!')[^)]*\)|\bcall\('(\w+)'", path.read_text())
        printed = {command for command in used if command}
        assert printed <= reads, path.name
        others = re.findall(r"(?<!plan_)\bcall\((?!')([^)]*)\)", path.read_text())
        assert others == (["..."] if path.name == "plan.lua" else []), path.name


def test_the_window_is_one_of_the_keys(stage: ScriptStage) -> None:
    assert window("0") in stage.everything()
