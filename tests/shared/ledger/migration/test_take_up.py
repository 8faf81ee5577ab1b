"""The mechanism that migrates a ledger, by a worked example: from today's schema to a made-up next.

A running service leaves a ledger of today's; a version with the next schema takes it up, killed at
every call, and its jobs go on and end.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import redis
from typer.testing import CliRunner

from coordinator.cli.admin.ledger import app
from coordinator.cluster.simulated.cluster import LocalCluster
from shared.ledger.entries.stored import BindEntry, Write
from shared.ledger.errors import Deposed, LedgerIdentity, LedgerUnavailable
from shared.ledger.keys import key
from shared.ledger.migration import STEPS as REAL_STEPS
from shared.ledger.migration import take_up
from shared.ledger.protocol import COORDINATOR
from shared.ledger.records import NOMINATED, RELEASING, USED, WIDTH, unpack_node
from shared.ledger.redis.acceptance import LedgerAcceptance, LedgerCondition, judge
from shared.ledger.redis.access import Access
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.identity import LedgerIdentityNote
from shared.ledger.redis.server import EmbeddedServer
from shared.ledger.redis.take_up import TakingUp
from shared.ledger.schema import OLDEST, SCHEMA, SchemaState, TakeUpProgress
from shared.messages.messages import CommitBatch, Epoch, TaskState, Verdict
from shared.records.specs import NUMBERS_KEY, decode_numbers
from tests.end_to_end.one_process.harness import running
from tests.shared.ledger.migration.busy_ledger import BusyLedger, free_leadership
from tests.shared.ledger.migration.next_schema import NEXT, NOTE, RESERVED, STEPS

pytestmark = pytest.mark.all

STARTED = TakeUpProgress(SCHEMA)


def migrated_records(client: Any) -> dict[bytes, Any]:
    """All that a migration may change, and nothing of who leads or when."""
    kinds = ("node", "thing", "queue", "class", "job", "jobspec", "task", "nom", "object")
    meta = client.hgetall(key("meta"))
    fields = {name: meta.get(name) for name in (b"schema", b"take_up", NOTE.encode())}
    return {key(kind): client.hgetall(key(kind)) for kind in kinds} | {b"meta": fields}


def test_there_are_steps_from_each_schema_that_is_taken_up() -> None:
    assert set(REAL_STEPS) == {*range(OLDEST, SCHEMA)}


# --- the steps ------------------------------------------------------------------------------------


class Failing(TakingUp):
    """Fails at one call of a script: before the call, or when only its answer is lost."""

    def __init__(self, *parts: Any, leader: Epoch, at: int, answered: bool) -> None:
        super().__init__(*parts, leader=leader)
        self.calls = 0
        self._at, self._answered = at, answered

    async def write_slice(
        self, before: Any, after: Any, writes: Sequence[Write], binds: Sequence[BindEntry] = ()
    ) -> None:
        self.calls += 1
        if self.calls == self._at and not self._answered:
            raise LedgerUnavailable("killed before")
        await super().write_slice(before, after, writes, binds)
        if self.calls == self._at:
            raise LedgerUnavailable("killed after")


@pytest.mark.usefixtures("next_version")
async def test_a_kill_at_any_call_loses_nothing_and_does_nothing_twice(
    busy: BusyLedger, client: Any, ledger: RedisLedger
) -> None:
    async def run(at: int, *, answered: bool) -> int:
        """Return the number of calls; each leader that goes on has another epoch."""
        busy.load(client)
        calls = 0
        while True:
            free_leadership(client)
            leader = await ledger.claim(COORDINATOR)
            parts = (ledger._run, ledger._writer)
            taking = Failing(*parts, leader=leader, at=at, answered=answered)
            try:
                await take_up(taking, {SCHEMA: STEPS}, lambda progress: None, target=NEXT, size=2)
            except LedgerUnavailable:
                calls, at = taking.calls, 0
                assert not (await ledger.schema()).current or calls == total
            else:
                return calls + taking.calls

    total = -1
    busy.load(client)
    today = migrated_records(client)
    total = await run(0, answered=True)
    expected = migrated_records(client)
    assert expected[b"meta"] == {b"schema": str(NEXT).encode(), b"take_up": None, b"note": None}
    for name, record in today[key("node")].items():
        version, *others = unpack_node(record)
        assert unpack_node(expected[key("node")][name]) == (version + 1, *others)
    numbers = [
        decode_numbers(records[key("object")][NUMBERS_KEY.encode()])
        for records in (today, expected)
    ]
    assert numbers[1] == tuple(number + RESERVED for number in numbers[0])
    for at in range(1, total + 1):
        for answered in (False, True):
            assert await run(at, answered=answered) >= total
            assert migrated_records(client) == expected, (at, answered)


@pytest.mark.usefixtures("next_version")
async def test_a_killed_server_keeps_the_progress(busy: BusyLedger, short_dir: Path) -> None:
    server = EmbeddedServer(short_dir, short_dir / "data")
    server.start()
    try:
        with redis.Redis.from_url(server.url, protocol=2) as client:
            busy.load(client)
        ledger = RedisLedger(server.url)
        leader = await ledger.claim(COORDINATOR)
        observed: list[TakeUpProgress] = []

        def on_progress(progress: TakeUpProgress) -> None:
            observed.append(progress)
            if progress.done:
                server.kill()

        with pytest.raises(LedgerUnavailable):
            await ledger.take_up(leader, on_progress)
            await ledger.schema()
        server.start()
        assert (await ledger.schema()).progress == observed[-1]
        await ledger.take_up(leader, observed.append)
        assert (await ledger.schema()).current
        await ledger.close()
    finally:
        server.kill()


# --- who may do what meanwhile --------------------------------------------------------------------


@pytest.mark.usefixtures("next_version")
async def test_nobody_writes_or_reads_before_the_end(
    busy: BusyLedger, client: Any, ledger: RedisLedger, embedded_server: EmbeddedServer
) -> None:
    """Also no worker of the version before, whose epoch nobody has ended."""
    busy.load(client)
    client.hset(key("meta"), "run", client.info("server")["run_id"])
    epoch = Epoch.parse(client.hget(key("epoch"), "0").decode())
    client.hdel(key("epoch"), "0/lease")
    leader = await ledger.claim(COORDINATOR)
    old = CommitBatch("0", epoch, 10**6, await ledger.run_id(), [])
    assert (await ledger.commit(old)).verdict is Verdict.COMMITTED
    with pytest.raises(LedgerIdentity, match="taken them up"):
        await ledger.snapshot()
    with pytest.raises(LedgerIdentity, match=f"schema {SCHEMA}"):
        await ledger.bless(leader)
    taking = TakingUp(ledger._run, ledger._writer, leader=leader)
    await taking.write_slice((SCHEMA, None), (NEXT, STARTED), [])
    assert (await ledger.commit(old)).verdict is Verdict.RUN
    with pytest.raises(LedgerIdentity, match=f"being taken up from schema {SCHEMA}"):
        await ledger.snapshot()
    with pytest.raises(LedgerIdentity, match=f"being taken up from schema {SCHEMA}"):
        await ledger.bless(leader)
    care = LedgerAcceptance(Access(embedded_server.url))
    try:
        state = await care.look(LedgerIdentityNote())
    finally:
        await care.close()
    assert judge(state, LedgerIdentityNote()) is LedgerCondition.OURS
    assert state.progress == STARTED
    # A leader that was deposed meanwhile changes nothing any more, nor does one that is behind.
    free_leadership(client)
    later = await ledger.claim(COORDINATOR)
    before = migrated_records(client)
    with pytest.raises(Deposed):
        await ledger.take_up(leader, lambda progress: None)
    behind = TakingUp(ledger._run, ledger._writer, leader=later)
    with pytest.raises(LedgerUnavailable, match="further"):
        await behind.write_slice((SCHEMA, None), (NEXT, STARTED), [])
    assert migrated_records(client) == before
    await ledger.take_up(later, lambda progress: None)
    assert await ledger.bless(later)


async def test_this_version_refuses_a_ledger_that_the_next_began_to_migrate(
    busy: BusyLedger, client: Any, ledger: RedisLedger
) -> None:
    busy.load(client)
    leader = await ledger.claim(COORDINATOR)
    taking = TakingUp(ledger._run, ledger._writer, leader=leader)
    await taking.write_slice((SCHEMA, None), (NEXT, STARTED), [])
    before = migrated_records(client)
    for call in (
        ledger.open,
        ledger.snapshot,
        lambda: ledger.bless(leader),
        lambda: ledger.take_up(leader, lambda progress: None),
    ):
        with pytest.raises(LedgerIdentity, match="run the version that wrote it, or a newer one"):
            await call()
    assert migrated_records(client) == before


@pytest.mark.parametrize(
    "state,why",
    [
        (SchemaState(SCHEMA + 1), "run the version that wrote it, or a newer one"),
        (SchemaState(SCHEMA + 1, TakeUpProgress(SCHEMA)), "run the version that wrote it"),
        (SchemaState(OLDEST - 1), "start anew with an empty data directory"),
    ],
)
def test_a_schema_that_cannot_be_taken_up_is_refused_with_the_remedy(
    state: SchemaState, why: str
) -> None:
    with pytest.raises(LedgerIdentity, match=why):
        state.check()


def test_an_unreadable_record_of_the_progress_is_refused() -> None:
    for text in ("", "4", '{"schema":4}', '{"schema":"x","step":"","after":"","done":0,"of":0}'):
        with pytest.raises(LedgerIdentity, match="its take-up cannot be read"):
            SchemaState.of(b"5", text.encode())


# --- a service ------------------------------------------------------------------------------------


def everything_given_back(client: Any) -> bool:
    if client.exists(key("thing")):
        return False
    return not any(
        any(unpack_node(record)[2][part::WIDTH])
        for record in client.hvals(key("node"))
        for part in (USED, RELEASING, NOMINATED)
    )


@pytest.mark.usefixtures("next_version")
async def test_the_jobs_that_ran_go_on_and_end_in_a_running_service(
    busy: BusyLedger, client: Any, embedded_server: EmbeddedServer, short_dir: Path
) -> None:
    busy.load(client)
    ran = len(busy.cluster.tasks)
    assert ran > 20
    kubelets = LocalCluster(speedup=1e9, grace=0.01)
    kubelets.restore(busy.memory(seconds=2e9))
    tasks = client.hlen(key("task"))
    async with running(embedded_server.url, short_dir, kubelets=kubelets) as service:
        counted = service.service.status()["tasks"]
        assert counted["submitted"] + counted["deleted"] >= tasks

        def ended(status: dict[str, Any]) -> bool:
            counts = status["jobs"]
            return bool(counts["finished"] + counts["deleted"] == counts["submitted"])

        await service.until(ended)
        await service.until(lambda _: everything_given_back(client))
        # Those that ran were neither stopped nor started a second time.
        states = service.service.core.order.accounts.tasks
        assert states[TaskState.SUCCEEDED] >= ran
        assert service.service.core.tally.repaired.total() == 0
    assert client.hget(key("meta"), "schema") == str(NEXT).encode()


@pytest.mark.usefixtures("next_version")
def test_the_command_shows_the_progress(
    busy: BusyLedger,
    client: Any,
    embedded_server: EmbeddedServer,
    short_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("QUADRANT_RUN_DIR", str(short_dir))
    monkeypatch.setenv("QUADRANT_REDIS_URL", embedded_server.url)

    def shown() -> tuple[str, Any]:
        table = CliRunner().invoke(app, ["show"])
        assert table.exit_code == 0, table.output
        (line,) = [line for line in table.stdout.splitlines() if line.startswith("Schema:")]
        document = json.loads(CliRunner().invoke(app, ["show", "-o", "json"]).stdout)
        return line.removeprefix("Schema:").strip(), document["takeUp"]

    busy.load(client)
    assert shown() == (f"{SCHEMA}; the next coordinator that leads takes it up to {NEXT}", None)
    progress = TakeUpProgress(SCHEMA, "versions of nodes", "n7", 500, 1200)
    client.hset(key("meta"), mapping={"schema": str(NEXT), "take_up": progress.encode()})
    text, document = shown()
    assert f"being taken up from schema {SCHEMA}: versions of nodes, 500 of 1200" in text
    assert (document["step"], document["done"], document["of"]) == ("versions of nodes", 500, 1200)


@pytest.mark.usefixtures("next_version")
async def test_a_coordinator_waits_for_a_leader_of_the_version_before(
    busy: BusyLedger, client: Any, embedded_server: EmbeddedServer, short_dir: Path
) -> None:
    """It reads nothing of the old records, and takes them up when the other leads no more."""
    busy.load(client)
    seconds, micros = client.time()
    ends = (seconds + 2) * 1_000_000 + micros
    client.hset(key("epoch"), "coordinator/lease", f"{ends} 5000000")
    kubelets = LocalCluster()
    kubelets.restore(busy.memory(seconds=1e9))
    async with running(embedded_server.url, short_dir, kubelets=kubelets):
        seconds, micros = client.time()
        assert seconds * 1_000_000 + micros >= ends
        assert client.hget(key("meta"), "schema") == str(NEXT).encode()
