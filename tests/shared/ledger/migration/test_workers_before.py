"""Workers of the version before still live while the leader takes their ledger up, and go on
sending commits, by their own scripts. Nothing of it lands, whatever the moment is.

The ledger, its records and the scripts are those of schema 4, as that version left them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis

from coordinator.cluster.simulated.cluster import LocalCluster
from shared.ledger.errors import LedgerUnavailable
from shared.ledger.keys import key
from shared.ledger.migration.take_up import take_up
from shared.ledger.protocol import COORDINATOR
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.ownership import STEPS
from shared.ledger.redis.server import EmbeddedServer
from shared.ledger.schema import SCHEMA
from shared.messages.messages import Statement, TaskState, Verdict
from tests.end_to_end.one_process.harness import running
from tests.shared.ledger.migration.dump import ClusterColumns, load, path_of
from tests.shared.ledger.migration.test_take_up import (
    Failing,
    everything_given_back,
    free_the_seat,
    held,
    memory_of,
)
from tests.shared.ledger.migration.worker_before import SCHEMA as BEFORE
from tests.shared.ledger.migration.worker_before import (
    WriterBefore,
    renewed_promise,
    scripts_digest,
    writer_before,
)

REFUSED = (Verdict.EPOCH, Verdict.RUN)
SHARDS = (0, 1)
SLICE = 10
"""Records of one call of the take-up."""
NOTHING = b"\x90"
"""A batch of task states, or of objects, that has none: whether it would be taken is the same."""


@dataclass(slots=True)
class VersionBefore:
    """Its workers and its leader, none of which knows that anything has changed."""

    client: Any
    cluster: ClusterColumns
    workers: list[WriterBefore]
    leader: WriterBefore
    intake: WriterBefore
    statement: Statement
    """As planned on what its workers have read last."""
    log: list[tuple[str, str, Verdict]] = field(default_factory=list)
    """(moment, writer, verdict) of every batch that was sent."""

    def taken_up(self) -> bool:
        """Whether the first slice of it is written."""
        return bool(self.client.hget(key("meta"), "schema") == str(SCHEMA).encode())

    def send_everything(self, moment: str) -> None:
        """Each process sends what it would send now."""
        for worker in self.workers:
            worker.renew()  # as each does before it sends a batch
            verdict, _ = worker.commit(self.statement)
            self.log.append((moment, worker.writer, verdict))
        for writer, name in ((self.leader, "record"), (self.intake, "store")):
            verdict, _ = writer.batch(name, NOTHING, *([NOTHING] if name == "store" else []))
            self.log.append((moment, writer.writer, verdict))


@pytest.fixture
def before(client: Any) -> VersionBefore:
    """The ledger as it was left, on this server: its leader has accepted the run."""
    return version_before(client)


def version_before(client: Any) -> VersionBefore:
    cluster = load(path_of(BEFORE), client)
    client.hset(key("meta"), "run", client.info("server")["run_id"])
    return VersionBefore(
        client,
        cluster,
        [writer_before(client, str(shard)) for shard in SHARDS],
        writer_before(client, COORDINATOR),
        writer_before(client, "intake"),
        renewed_promise(client),
    )


@pytest.fixture
async def ledger(embedded_server: EmbeddedServer) -> Any:
    found = RedisLedger(embedded_server.url)
    yield found
    await found.close()


def test_the_scripts_are_those_of_the_version_that_left_the_ledger(before: VersionBefore) -> None:
    assert before.client.hget(key("meta"), "scripts") == scripts_digest()


def test_its_workers_commit_as_long_as_nobody_took_over(before: VersionBefore) -> None:
    """Else it would show nothing that they are refused afterwards."""
    for worker in before.workers:
        assert worker.renew()
        assert worker.commit(renewed_promise(before.client)) == (
            Verdict.COMMITTED,
            [Verdict.COMMITTED],
        )


class Watched(Failing):
    """A take-up during which the processes of the version before go on."""

    def __init__(self, before: VersionBefore, ledger: RedisLedger, **how: Any) -> None:
        super().__init__(ledger._run, ledger._writer, **how)
        self._before = before

    async def write_slice(self, *args: Any) -> None:
        self._go_on()
        await super().write_slice(*args)
        self._go_on()

    def _go_on(self) -> None:
        if self._before.taken_up():
            self._before.send_everything(f"around call {self.calls}")


async def taken_up(before: VersionBefore, ledger: RedisLedger, *, at: int, answered: bool) -> int:
    """Killed once at this call, or after it; whoever leads next goes on. Returns how many calls
    there were."""
    calls = 0
    while True:
        free_the_seat(before.client)
        leader = await ledger.claim(COORDINATOR)
        taking = Watched(before, ledger, leader=leader, at=at, answered=answered)
        try:
            await take_up(taking, STEPS, lambda progress: None, size=SLICE)
            return calls + taking.calls
        except LedgerUnavailable:
            calls, at = taking.calls, 0


@pytest.mark.parametrize("answered", [False, True], ids=["killed before", "killed after"])
async def test_no_slice_lets_anything_of_theirs_in_though_nobody_ended_their_epochs(
    client: Any, ledger: RedisLedger, answered: bool
) -> None:
    """The worst that can be: their epochs count all the time, because no leader lives for long
    enough to claim a shard."""
    wanted: dict[bytes, Any] = {}
    at = total = 0
    while at <= total:  # 0: nobody is killed
        before = version_before(client)
        calls = await taken_up(before, ledger, at=at, answered=answered)
        assert {verdict for _, _, verdict in before.log} == {Verdict.RUN}
        assert len(before.log) >= 4 * calls
        total = total or calls
        wanted = wanted or held(client)
        assert (await ledger.schema()).current
        assert held(client) == wanted, "what they sent changed something"
        at += 1
    assert total > 10


async def test_the_leader_that_was_deposed_cannot_bring_its_schema_back(
    before: VersionBefore, ledger: RedisLedger
) -> None:
    """Its script that accepts a run does not look at the schema, and would write its own: there its
    epoch alone keeps it out. Whoever claims the leadership later reads the schema first."""
    cluster = before.client.hget(key("meta"), "cluster")

    def accept() -> Any:
        return before.leader.call("bless", cluster, BEFORE, b"digest", 0, 0)

    assert accept()[0] == 0, "as long as it leads"
    free_the_seat(before.client)
    leader = await ledger.claim(COORDINATOR)
    assert accept() == [1]
    await ledger.take_up(leader, lambda progress: None)
    assert accept() == [1]
    assert before.taken_up()


# --- a whole service ------------------------------------------------------------------------------


@pytest.fixture
def between_calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[str], None]]]:
    """What is called between any two script calls of any ledger of this version, with the call."""
    hooks: list[Callable[[str], None]] = []
    run = RedisLedger._run

    async def watched(self: RedisLedger, name: str, writer: str, *args: Any) -> Any:
        answer = await run(self, name, writer, *args)
        for hook in hooks:
            hook(f"{name} {writer}")
        return answer

    monkeypatch.setattr(RedisLedger, "_run", watched)
    yield hooks
    hooks.clear()


@pytest.mark.parametrize("shards", [2, 1], ids=["as many shards", "a shard less"])
async def test_jobs_go_on_with_new_workers_while_the_old_ones_send_what_they_have(
    before: VersionBefore,
    between_calls: list[Callable[[str], None]],
    embedded_server: EmbeddedServer,
    short_dir: Path,
    shards: int,
) -> None:
    client = before.client
    free_the_seat(client)
    calls: list[str] = []

    def old_ones_go_on(call: str) -> None:
        if calls or call == f"claim {COORDINATOR}":
            calls.append(call)
            if len(calls) < 400:  # long after the take-up; else it only takes long
                before.send_everything(f"{len(calls)} {call}")

    between_calls.append(old_ones_go_on)
    kubelets = LocalCluster(speedup=1e9, grace=0.01)
    kubelets.restore(memory_of(before.cluster, seconds=2e9))
    ran = len(before.cluster.tasks)
    async with running(embedded_server.url, short_dir, kubelets=kubelets, shards=shards) as service:

        def ended(status: dict[str, Any]) -> bool:
            counts = status["jobs"]
            return bool(counts["finished"] + counts["deleted"] == counts["submitted"])

        await service.until(ended)
        await service.until(lambda _: everything_given_back(client))
        counted = service.service.core.order.accounts.tasks
        assert counted[TaskState.SUCCEEDED] >= ran
        assert service.service.core.tally.repaired.total() == 0

    first_slice = next(n for n, call in enumerate(calls, 1) if call.startswith("take_up"))
    claimed = {w: calls.index(f"claim {w}") + 1 for w in ("intake", *map(str, range(shards)))}
    claimed[COORDINATOR] = 1
    assert max(claimed.values()) < first_slice, calls
    for moment, writer, verdict in before.log:
        at = int(moment.partition(" ")[0])
        if at >= min(first_slice, claimed.get(writer, first_slice)):
            assert verdict in REFUSED, (moment, writer)
    assert {int(moment.partition(" ")[0]) for moment, _, _ in before.log} >= {*range(1, 40)}
    assert not any(worker.renew() for worker in before.workers), "they would learn it now"


def test_an_old_worker_is_told_by_the_ledger_and_by_nobody_else(
    embedded_server: EmbeddedServer, client: Any
) -> None:
    """It renews its lease before each batch: there it hears that the shard is another's."""
    before = version_before(client)
    assert all(worker.renew() for worker in before.workers)
    with redis.Redis.from_url(embedded_server.url, protocol=2) as other:
        epoch = other.hget(key("epoch"), "0").decode()
        other.hset(key("epoch"), "0", f"{int(epoch.partition(':')[0]) + 1}:another")
    assert [worker.renew() for worker in before.workers] == [False, True]
