"""A ledger of an earlier schema, with jobs that run, is taken up, also where it is killed then.

``schema-N.json`` are the ledgers that versions of that schema left (see ``record.py``).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import redis
from typer.testing import CliRunner

from coordinator.cli.admin.ledger import app
from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.cluster.simulated.memory import KeptPod, Memory
from shared.ledger.class_op import put_class
from shared.ledger.errors import Deposed, LedgerIdentity, LedgerUnavailable
from shared.ledger.keys import key
from shared.ledger.migration.take_up import Write, take_up
from shared.ledger.protocol import COORDINATOR
from shared.ledger.records import NOMINATED, RELEASING, USED, WIDTH, unpack_class, unpack_node
from shared.ledger.redis.acceptance import Care, LedgerCondition, judge
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.identity import LedgerIdentityNote
from shared.ledger.redis.server import EmbeddedServer
from shared.ledger.redis.take_up import TakingUp
from shared.ledger.schema import OLDEST, SCHEMA, SchemaState, TakeUpProgress
from shared.messages.messages import CommitBatch, Epoch, TaskState, Verdict
from shared.records.specs import SLOTS_KEY, decode_class, decode_slots
from tests.end_to_end.one_process.harness import PATIENCE, running
from tests.shared.ledger.migration.dump import ClusterColumns, load, path_of
from tests.shared.ledger.promises import add_up, check_records

SCHEMAS = range(OLDEST, SCHEMA)
"""Those that are taken up."""

DUMPS = range(OLDEST, SCHEMA + 1)
"""Of which there must be a dump. Of today's too: the version that changes the schema next takes up
what this one left, and can no longer write it."""


@pytest.fixture
async def ledger(embedded_server: EmbeddedServer) -> AsyncIterator[RedisLedger]:
    found = RedisLedger(embedded_server.url)
    yield found
    await found.close()


def held(client: Any) -> dict[bytes, Any]:
    """All that a take-up may change, and nothing of who leads or when."""
    kinds = ("node", "thing", "queue", "class", "job", "jobspec", "task", "nom", "object")
    names = [key(kind) for kind in kinds]
    meta = client.hgetall(key("meta"))
    found = {name: client.hgetall(name) for name in names}
    return found | {b"meta": (meta.get(b"schema"), meta.get(b"take_up"), meta.get(b"implied"))}


def free_the_seat(client: Any) -> None:
    """The dump's leader is not there any more, whatever the clock says."""
    client.hset(key("epoch"), "coordinator/lease", "0 0")


# --- the steps ------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", DUMPS)
def test_there_is_a_dump_of_each_schema_that_can_be_read(schema: int, client: Any) -> None:
    load(path_of(schema), client)
    assert client.hget(key("meta"), "schema") == str(schema).encode()


class Failing(TakingUp):
    """Fails at one call of a script: before the call, or when only its answer is lost."""

    def __init__(self, *parts: Any, leader: Epoch, at: int, answered: bool) -> None:
        super().__init__(*parts, leader=leader)
        self.calls = 0
        self._at, self._answered = at, answered

    async def write_slice(self, before: Any, after: Any, writes: Sequence[Write]) -> None:
        self.calls += 1
        if self.calls == self._at and not self._answered:
            raise LedgerUnavailable("killed before")
        await super().write_slice(before, after, writes)
        if self.calls == self._at:
            raise LedgerUnavailable("killed after")


@pytest.mark.parametrize("schema", SCHEMAS)
async def test_a_kill_at_any_call_loses_nothing_and_does_nothing_twice(
    schema: int, client: Any, ledger: RedisLedger
) -> None:
    from shared.ledger.redis.ownership import STEPS

    async def run(at: int, *, answered: bool) -> int:
        """Returns how many calls there were; whoever goes on has another epoch."""
        load(path_of(schema), client)
        calls = 0
        while True:
            free_the_seat(client)
            leader = await ledger.claim(COORDINATOR)
            parts = (ledger._run, ledger._writer)
            taking = Failing(*parts, leader=leader, at=at, answered=answered)
            try:
                await take_up(taking, STEPS, lambda progress: None, size=2)
            except LedgerUnavailable:
                calls, at = taking.calls, 0
                assert not (await ledger.schema()).current or calls == total
            else:
                return calls + taking.calls

    total = -1
    total = await run(0, answered=True)
    wanted = held(client)
    assert wanted[b"meta"][:2] == (str(SCHEMA).encode(), None)
    for at in range(1, total + 1):
        for answered in (False, True):
            assert await run(at, answered=answered) >= total
            assert held(client) == wanted, (at, answered)


async def test_host_ports_that_were_slots_become_things(client: Any, ledger: RedisLedger) -> None:
    """Whatever tasks hold, and what was promised, is what the records say; no queue counts it."""
    load(path_of(4), client)
    before = decode_slots(client.hget(key("object"), SLOTS_KEY)).names
    assert any(name.startswith("port/") for name in before)
    free_the_seat(client)
    await ledger.take_up(await ledger.claim(COORDINATOR), lambda progress: None)
    snapshot = await ledger.snapshot()
    classes = {int(c): unpack_class(r) for c, r in client.hgetall(key("class")).items()}
    requests = {cid: requests for cid, (requests, _, _) in classes.items()}
    things = {cid: things for cid, (_, _, things) in classes.items() if things}
    assert things
    for cid, (_, spec, asks) in classes.items():
        assert put_class(cid, decode_class(spec)).things == asks
    check_records(snapshot, add_up(snapshot, requests, things))
    held = [name for _, name, _ in snapshot.nodes.things]
    assert held
    assert all(name.startswith("port/") for name in held)
    after = decode_slots(snapshot.objects[SLOTS_KEY]).names
    assert not any(name.startswith("port/") for name in after)
    both = zip(after, before, strict=False)
    assert all(now == was or was.startswith("port/") for now, was in both)
    longest = max(len(unpack_node(record)[2]) for record in snapshot.nodes.records)
    assert longest <= WIDTH * len(after)


@pytest.mark.parametrize("schema", SCHEMAS)
async def test_a_server_that_is_killed_has_kept_how_far_it_was(
    schema: int, short_dir: Path
) -> None:
    server = EmbeddedServer(short_dir, short_dir / "data")
    server.start()
    try:
        with redis.Redis.from_url(server.url, protocol=2) as client:
            load(path_of(schema), client)
            free_the_seat(client)
        ledger = RedisLedger(server.url)
        leader = await ledger.claim(COORDINATOR)
        seen: list[TakeUpProgress] = []

        def told(progress: TakeUpProgress) -> None:
            seen.append(progress)
            if progress.done:
                server.kill()

        with pytest.raises(LedgerUnavailable):
            await ledger.take_up(leader, told)
            await ledger.schema()
        server.start()
        assert (await ledger.schema()).progress == seen[-1]
        await ledger.take_up(leader, seen.append)
        assert (await ledger.schema()).current
        await ledger.close()
    finally:
        server.kill()


# --- who may do what meanwhile --------------------------------------------------------------------


async def test_nobody_writes_or_reads_before_it_is_at_its_end(
    client: Any, ledger: RedisLedger, embedded_server: EmbeddedServer
) -> None:
    """Also no worker of the version before, whose epoch nobody has ended."""
    load(path_of(OLDEST), client)
    client.hset(key("meta"), "run", client.info("server")["run_id"])
    epoch = Epoch.parse(client.hget(key("epoch"), "0").decode())
    client.hdel(key("epoch"), "0/lease")
    free_the_seat(client)
    leader = await ledger.claim(COORDINATOR)
    old = CommitBatch("0", epoch, 10**6, await ledger.run_id(), [])
    assert (await ledger.commit(old)).verdict is Verdict.COMMITTED
    with pytest.raises(LedgerIdentity, match="taken them up"):
        await ledger.snapshot()
    with pytest.raises(LedgerIdentity, match=f"schema {OLDEST}"):
        await ledger.bless(leader)
    taking = TakingUp(ledger._run, ledger._writer, leader=leader)
    await taking.write_slice((OLDEST, None), (OLDEST + 1, TakeUpProgress(OLDEST)), [])
    assert (await ledger.commit(old)).verdict is Verdict.RUN
    with pytest.raises(LedgerIdentity, match=f"being taken up from schema {OLDEST}"):
        await ledger.snapshot()
    with pytest.raises(LedgerIdentity, match=f"being taken up from schema {OLDEST}"):
        await ledger.bless(leader)
    care = Care(ledger_access(embedded_server))
    try:
        found = await care.look(LedgerIdentityNote())
        assert (judge(found, LedgerIdentityNote()), found.progress) == (
            LedgerCondition.OURS,
            TakeUpProgress(OLDEST),
        )
    finally:
        await care.close()
    # A leader that was deposed meanwhile changes nothing any more, nor does one that is behind.
    free_the_seat(client)
    later = await ledger.claim(COORDINATOR)
    before = held(client)
    with pytest.raises(Deposed):
        await ledger.take_up(leader, lambda progress: None)
    behind = TakingUp(ledger._run, ledger._writer, leader=later)
    with pytest.raises(LedgerUnavailable, match="further"):
        await behind.write_slice((OLDEST, None), (OLDEST + 1, TakeUpProgress(OLDEST)), [])
    assert held(client) == before
    await ledger.take_up(later, lambda progress: None)
    assert await ledger.bless(later)


def ledger_access(server: EmbeddedServer) -> Any:
    from shared.ledger.redis.access import Access

    return Access(server.url)


@pytest.mark.parametrize(
    "state,why",
    [
        (SchemaState(SCHEMA + 1), "run the version that wrote it, or a newer one"),
        (SchemaState(SCHEMA + 1, TakeUpProgress(SCHEMA)), "run the version that wrote it"),
        (SchemaState(OLDEST - 1), "a version in between first"),
    ],
)
def test_what_cannot_be_taken_up_is_refused_with_the_order_of_upgrade(
    state: SchemaState, why: str
) -> None:
    with pytest.raises(LedgerIdentity, match=why):
        state.check()


def test_a_record_of_progress_that_cannot_be_read_is_told() -> None:
    for text in ("", "4", '{"schema":4}', '{"schema":"x","step":"","after":"","done":0,"of":0}'):
        with pytest.raises(LedgerIdentity, match="its take-up cannot be read"):
            SchemaState.of(b"5", text.encode())


# --- a service ------------------------------------------------------------------------------------


def memory_of(cluster: ClusterColumns, *, seconds: float) -> Memory:
    """What the kubelets still run, each task for so long from now on."""
    columns = zip(cluster.tasks, cluster.uids, cluster.nodes, strict=True)
    now = time.time()
    pods = {
        task: KeptPod(uid, node, seconds, bound=now, failing=False, started=True)
        for task, uid, node in columns
    }
    return Memory(pods=pods)


def everything_given_back(client: Any) -> bool:
    if client.exists(key("thing")):
        return False
    for record in client.hvals(key("node")):
        slots = unpack_node(record)[2]
        if any(any(slots[part::WIDTH]) for part in (USED, RELEASING, NOMINATED)):
            return False
    return True


@pytest.mark.parametrize("schema", DUMPS)
async def test_the_jobs_that_ran_go_on_and_end_in_a_running_service(
    schema: int, client: Any, embedded_server: EmbeddedServer, short_dir: Path
) -> None:
    cluster = load(path_of(schema), client)
    free_the_seat(client)
    ran = len(cluster.tasks)
    kubelets = LocalCluster(speedup=1e9, grace=0.01)
    kubelets.restore(memory_of(cluster, seconds=2e9))
    tasks = client.hlen(key("task"))
    async with running(embedded_server.url, short_dir, kubelets=kubelets) as service:
        status = service.service.status()
        counted_tasks = status["tasks"]
        assert counted_tasks["submitted"] + counted_tasks["deleted"] >= tasks
        assert ran > 20

        def ended(status: dict[str, Any]) -> bool:
            counts = status["jobs"]
            return bool(counts["finished"] + counts["deleted"] == counts["submitted"])

        await service.until(ended)
        deadline = time.monotonic() + PATIENCE
        while not everything_given_back(client):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        # Those that ran were neither stopped nor started a second time.
        counted = service.service.core.order.accounts.tasks
        assert counted[TaskState.SUCCEEDED] >= ran
        assert service.service.core.tally.repaired.total() == 0


def test_the_command_tells_how_far_it_is(
    client: Any, embedded_server: EmbeddedServer, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUADRANT_RUN_DIR", str(short_dir))
    monkeypatch.setenv("QUADRANT_REDIS_URL", embedded_server.url)

    def shown() -> tuple[str, Any]:
        table = CliRunner().invoke(app, ["show"])
        assert table.exit_code == 0, table.output
        (line,) = [line for line in table.stdout.splitlines() if line.startswith("Schema:")]
        said = json.loads(CliRunner().invoke(app, ["show", "-o", "json"]).stdout)
        return line.removeprefix("Schema:").strip(), said["takeUp"]

    load(path_of(OLDEST), client)
    text = f"{OLDEST}; the next coordinator that leads takes it up to {SCHEMA}"
    assert shown() == (text, None)
    progress = TakeUpProgress(OLDEST, "host ports of nodes", "n7", 500, 1200)
    fields = {"schema": str(OLDEST + 1), "take_up": progress.encode()}
    client.hset(key("meta"), mapping=fields)
    text, said = shown()
    assert f"being taken up from schema {OLDEST}: host ports of nodes, 500 of 1200" in text
    assert (said["step"], said["done"], said["of"]) == ("host ports of nodes", 500, 1200)


async def test_one_that_is_started_beside_a_leader_of_the_version_before_waits_for_it(
    client: Any, embedded_server: EmbeddedServer, short_dir: Path
) -> None:
    """It reads nothing of the old records, and takes them up when the other leads no more."""
    cluster = load(path_of(OLDEST), client)
    seconds, micros = client.time()
    ends = (seconds + 2) * 1_000_000 + micros
    client.hset(key("epoch"), "coordinator/lease", f"{ends} 5000000")
    kubelets = LocalCluster()
    kubelets.restore(memory_of(cluster, seconds=1e9))
    async with running(embedded_server.url, short_dir, kubelets=kubelets):
        took = client.time()
        assert took[0] * 1_000_000 + took[1] >= ends
        assert client.hget(key("meta"), "schema") == str(SCHEMA).encode()
