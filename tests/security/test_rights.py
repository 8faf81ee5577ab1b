"""The rights of docs/security.md are enough for everything, and none of them is one too many."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import redis
from redis.exceptions import NoPermissionError

from coordinator.cli.admin.doctor import DoctorWarning, Failed
from coordinator.cli.admin.doctor_ledger import external_ledger
from shared.ledger.entries.changes import ChangedKeys
from shared.ledger.entries.intake_batch import DropJob, DropQueue, PurgeJob, PutPartition, PutQueue
from shared.ledger.errors import LedgerError
from shared.ledger.redis.acceptance import LedgerAcceptance
from shared.ledger.redis.access import Access
from shared.ledger.redis.acl import COMMANDS, USER, acl_rule
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.identity import LedgerIdentityNote
from shared.ledger.redis.server import EmbeddedServer
from shared.messages.messages import NOMINATE, StatusItem, TaskState, Verdict
from shared.settings.settings import load_settings
from tests.shared.ledger.support import Desk, cluster, job, run, statement

PASSWORD = "of-the-scheduler"


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with TemporaryDirectory(prefix="qt-") as path:
        server = EmbeddedServer(path, f"{path}/data", "of-the-admin")
        server.start()
        yield server
        server.stop()


class Admin:
    """Administrator of the server, who sets the scheduler's rights."""

    def __init__(self, server: EmbeddedServer) -> None:
        self.client = redis.Redis.from_url(server.url, password="of-the-admin", protocol=2)
        self.access = Access(server.url, USER, PASSWORD)

    def allow(self, *commands: str) -> None:
        """Exactly these, on an empty server."""
        self.client.flushall()
        self.client.script_flush()
        _, user, *rules = acl_rule(commands=commands).replace("PASSWORD", PASSWORD).split()
        self.client.execute_command("ACL", "SETUSER", user, "reset", *rules)  # type: ignore[no-untyped-call]


@pytest.fixture
async def admin(server: EmbeddedServer) -> AsyncIterator[Admin]:
    admin = Admin(server)
    yield admin
    admin.client.close()


async def everything(access: Access) -> None:
    """Make all requests that a coordinator, workers, a standby, the history and the commands send
    to the ledger."""
    ledger = RedisLedger(access)
    try:
        desk = await Desk(ledger).open("1")
        await desk.store(*cluster(), job(1), job(2), PutPartition(1, {0: [0]}, [], "soft"))
        assert (await desk.commit(statement(1, run([0, 1], [0, 1])))).verdict is Verdict.COMMITTED
        await desk.commit(statement(2, run([0], [2], kind=NOMINATE), expiry=9.0))
        await desk.record(StatusItem(TaskState.SUCCEEDED, 1, [0, 1], [0, 1]), expired=(2,))
        await desk.store(DropJob(1), PurgeJob(1), PutQueue(9, -1, None, b"q"), DropQueue(9))
        assert (await ledger.read_binds("a"))[0].binds
        assert await ledger.read_binds("b", own=True)
        assert len(await ledger.read_log("0")) > 5
        await ledger.ack_binds([entry.id for entry in await ledger.read_binds("b", own=True)])
        await ledger.trim(log_before=await ledger.log_tail())
        await ledger.snapshot()
        await ledger.read_tasks([2])
        await ledger.read_moved(ChangedKeys(jobs={2}, partition=True))
        await desk.claim("1", lease=5.0)
        await ledger.renew("1", desk.epochs["1"], lease=5.0)
        await ledger.release("1", desk.epochs["1"])
        assert await ledger.leader()
        await desk.bless()
    finally:
        await ledger.close()
    care = LedgerAcceptance(access)
    try:
        await care.accept(await care.look(LedgerIdentityNote()), LedgerIdentityNote())
    finally:
        await care.close()


def checked(access: Access) -> str:
    """Findings of quadrant doctor."""
    return external_ledger(
        load_settings(redis_url=access.url, redis_username=USER, redis_password=PASSWORD)
    )


async def test_these_rights_are_enough(admin: Admin) -> None:
    admin.allow(*COMMANDS)
    await everything(admin.access)


@pytest.mark.parametrize("missing", [c for c in COMMANDS if c not in ("ping", "config|get")])
async def test_one_right_less_is_too_few(missing: str, admin: Admin) -> None:
    admin.allow(*(command for command in COMMANDS if command != missing))
    with pytest.raises(LedgerError, match=r"(?i)permission|NOPERM"):
        await everything(admin.access)


def test_doctor_needs_no_more(server: EmbeddedServer) -> None:
    admin = Admin(server)
    admin.allow(*COMMANDS)
    whole = checked(admin.access)
    admin.allow(*(command for command in COMMANDS if command != "ping"))
    with pytest.raises(Failed, match="ping"):
        checked(admin.access)
    admin.allow(*(command for command in COMMANDS if command != "config|get"))
    with contextlib.suppress(DoctorWarning):  # what it cannot see, it doubts
        assert checked(admin.access) != whole
    admin.client.close()


async def test_other_keys_and_commands_are_out_of_reach(admin: Admin) -> None:
    admin.allow(*COMMANDS)
    with redis.Redis.from_url(admin.access.url, username=USER, password=PASSWORD) as client:
        for command in (
            ("GET", "somebody-elses"),
            ("KEYS", "*"),
            ("FLUSHALL",),
            ("CONFIG", "SET", "appendonly", "no"),
            ("ACL", "LIST"),
            ("EVAL", "return 1", "0"),
            ("SHUTDOWN",),
            ("MONITOR",),
        ):
            with pytest.raises(NoPermissionError):
                client.execute_command(*command)


def test_the_page_has_this_line() -> None:
    page = (Path(__file__).parents[2] / "docs/security.md").read_text()
    assert acl_rule() in page
    for command, why in COMMANDS.items():
        assert f"| `{command}` | {why} |" in page
