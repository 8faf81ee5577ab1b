"""Write permission in the ledger: its identity, epochs and their leases, the blessing of a run."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence

from redis.exceptions import ResponseError

from shared.ledger.entries.stored import BindEntry, Write
from shared.ledger.errors import Deposed, LeaseHeld, LedgerBehind, LedgerIdentity
from shared.ledger.keys import BINDERS, key, log_position
from shared.ledger.migration import STEPS, Stage, take_up
from shared.ledger.protocol import COORDINATOR, RECOUNT, Leader
from shared.ledger.redis.access import Access
from shared.ledger.redis.calls import Calls, script, translated
from shared.ledger.redis.integrity import check_records
from shared.ledger.redis.take_up import TakingUp, schema_of
from shared.ledger.schema import SCHEMA, SchemaState, TakeUpProgress
from shared.messages.messages import Epoch

_MICROSECONDS = 1_000_000
_CONTENT = ("node", "queue", "class", "job")
"""Where any of these keys exists, the server holds a ledger."""


def microseconds(lease: float) -> int:
    """A lease as the scripts take it."""
    return round(lease * _MICROSECONDS)


class Ownership(Calls):
    """``cluster``: the id this ledger must have; "" accepts any, and founds one on an empty
    server. ``nonce`` gives the random part of epochs and ids."""

    def __init__(
        self,
        access: Access,
        *,
        timeout: float,
        cluster: str,
        nonce: Callable[[], str] | None,
    ) -> None:
        super().__init__(access, timeout=timeout)
        self._cluster = cluster
        self._nonce = nonce or (lambda: secrets.token_hex(8))

    # --- identity -----------------------------------------------------------------------------

    @property
    def cluster(self) -> str:
        """The id this ledger must have; "" where any is accepted and it is not opened yet."""
        return self._cluster

    async def open(self) -> str:
        async with translated():
            cluster = await self._identity()
            if self._cluster and cluster != self._cluster:
                raise LedgerIdentity(
                    f"this is the ledger of {cluster}, not {self._cluster}: name the server that "
                    "has it, or accept this one with quadrant ledger restore"
                )
            await self._create_group()
        self._cluster = cluster  # a server that comes back as another's, or empty, is refused
        return cluster

    async def _identity(self) -> str:
        (await schema_of(self._writer)).check()
        cluster = await self._writer.hget(key("meta"), "cluster")
        if cluster is None:
            await self._found()
            cluster = await self._writer.hget(key("meta"), "cluster")
        return str(cluster, "utf-8")

    async def _found(self) -> None:
        """Create a new ledger on an empty server; of two concurrent attempts one succeeds."""
        used = await self._writer.exists(*map(key, _CONTENT))
        if used or self._cluster:
            missing = self._cluster or "an unknown cluster"
            raise LedgerIdentity(
                f"the identity record of {missing} is missing: restore the ledger's data, or "
                "accept what is there with quadrant ledger restore"
            )
        # Set only where nobody else was faster; what stands there is read again by the caller.
        await self._writer.hsetnx(key("meta"), "cluster", self._nonce())

    async def _create_group(self) -> None:
        try:
            await self._writer.xgroup_create(key("binds"), BINDERS, id="0", mkstream=True)
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise

    async def cluster_id(self) -> str:
        """The cluster's id, "" before the first ``open``."""
        async with translated():
            return str(await self._writer.hget(key("meta"), "cluster") or b"", "utf-8")

    # --- this run of the server ---------------------------------------------------------------

    async def run_id(self) -> str:
        async with translated():
            return str(await self._writer.hget(key("meta"), "run") or b"", "utf-8")

    async def bless(self, leader: Epoch, *, after: str = "0") -> str:
        cluster = await self.open()
        # Every record of a new run is looked at once, here: scripts do not check the seals of what
        # they read, which would cost 7 us a task (decision 0026).
        await self._check_new_run()
        scripts = hashlib.sha256(b"".join(script(n)[0] for n in ("commit", "record", "store")))
        self._saw(after)
        code, *reply = await self._run(
            "bless",
            COORDINATOR,
            str(leader),
            cluster,
            SCHEMA,
            scripts.hexdigest(),
            *log_position(self.newest),
        )
        match code:
            case 0:
                return str(reply[0], "utf-8")
            case 1:
                await self._still_ours()
                raise Deposed(f"epoch {leader} does not lead any more")
            case 2:
                owner = str(reply[0], "utf-8") if reply and reply[0] else "nobody"
                raise LedgerIdentity(f"this is the ledger of {owner}, not {cluster}")
            case 4:
                (await self.schema()).check_current()
                raise LedgerIdentity("its records are of another schema: begin anew")
            case _:
                raise LedgerBehind(
                    f"the ledger's log does not have {self.newest}, which was seen in it: this is "
                    "an old copy; bring back the newest, or accept what is there with quadrant "
                    "ledger restore"
                )

    async def _check_new_run(self) -> None:
        """Errors: LedgerAltered."""
        async with translated():
            blessed = await self._writer.hget(key("meta"), "run")
            if blessed is None or blessed.decode() != (await self._writer.info("server"))["run_id"]:
                await check_records(self._writer)

    # --- the schema of its records ------------------------------------------------------------

    async def schema(self) -> SchemaState:
        async with translated():
            return await schema_of(self._writer)

    async def take_up(self, leader: Epoch, on_progress: Callable[[TakeUpProgress], None]) -> str:
        taking = TakingUp(self._run, self._writer, leader=leader)
        async with translated():
            await take_up(taking, STEPS, on_progress, target=SCHEMA)
            return str(await self._writer.hget(key("meta"), RECOUNT) or b"", "utf-8")

    async def request_recount(self, reason: str) -> None:
        async with translated():
            await self._writer.hset(key("meta"), RECOUNT, reason)

    async def rewrite(
        self, leader: Epoch, writes: Sequence[Write], binds: Sequence[BindEntry] = ()
    ) -> None:
        stage: Stage = SCHEMA, None
        await TakingUp(self._run, self._writer, leader=leader).write_slice(
            stage, stage, writes, binds
        )

    # --- epochs and their leases --------------------------------------------------------------

    async def claim(
        self, writer: str, *, leader: Epoch | None = None, lease: float = 0.0, holder: str = ""
    ) -> Epoch:
        leading = "" if leader is None else str(leader)
        code, *reply = await self._run(
            "claim", writer, self._nonce(), leading, microseconds(lease), holder
        )
        match code:
            case 0:
                return Epoch.parse(reply[0].decode())
            case 1:
                epoch, time_left, leader_name = reply
                raise LeaseHeld(
                    Epoch.parse(epoch.decode()), time_left / _MICROSECONDS, leader_name.decode()
                )
            case _:
                await self._still_ours()
                raise Deposed(f"epoch {leading or '(none)'} does not lead: {writer} is not its own")

    async def renew(self, writer: str, epoch: Epoch, *, lease: float) -> bool:
        renewed = bool(await self._run("renew", writer, str(epoch), microseconds(lease)))
        if not renewed:
            await self._still_ours()
        return renewed

    async def _still_ours(self) -> None:
        """Raise where the ledger was emptied: it has no leader then, which would look as if we had
        been deposed.

        Errors: LedgerIdentity.
        """
        if self._cluster:
            await self.open()

    async def release(self, writer: str, epoch: Epoch) -> None:
        await self._run("release", writer, str(epoch))

    async def leader(self) -> Leader | None:
        reply = await self._run("leader", COORDINATOR)
        if reply is None:
            return None
        epoch, holder, time_left = reply
        return Leader(Epoch.parse(epoch.decode()), holder.decode(), time_left / _MICROSECONDS)
