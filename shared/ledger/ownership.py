"""Who may write to the ledger: its identity, epochs and their leases, the blessing of a run."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable

from redis.exceptions import ResponseError

from shared.ledger.access import Access
from shared.ledger.calls import Calls, script, translated
from shared.ledger.errors import Deposed, LeaseHeld, LedgerBehind, LedgerIdentity
from shared.ledger.keys import BINDERS, key, log_position
from shared.ledger.protocol import COORDINATOR, Leader
from shared.ledger.seals import check_records
from shared.messages import Epoch

SCHEMA = 4
"""The version of the records and scripts in this package."""

_MICROSECONDS = 1_000_000
_CONTENT = ("node", "queue", "class", "job")
"""Where any of these keys exists, the server holds somebody's ledger."""


def check_schema(schema: int) -> None:
    """Raises LedgerIdentity where records of this schema cannot be read here; 0: none written."""
    text = f"the ledger has schema {schema}, this version knows {SCHEMA}: "
    if schema > SCHEMA:
        raise LedgerIdentity(text + "run the version that wrote it, or a newer one")
    if 0 < schema < SCHEMA:
        raise LedgerIdentity(
            text + "run the version that wrote it until its jobs have ended, then start anew with "
            "an empty data directory"
        )


def _microseconds(lease: float) -> int:
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
        """The id this ledger must have, "" where any will do and it is not opened yet."""
        return self._cluster

    async def open(self) -> str:
        async with translated():
            found = await self._identity()
            if self._cluster and found != self._cluster:
                raise LedgerIdentity(
                    f"this is the ledger of {found}, not {self._cluster}: name the server that has "
                    "it, or accept this one with quadrant ledger restore"
                )
            await self._create_group()
        self._cluster = found  # a server that comes back as another's, or empty, is refused
        return found

    async def _identity(self) -> str:
        found, schema = await self._writer.hmget(key("meta"), "cluster", "schema")
        if found is None:
            await self._found()
            found = await self._writer.hget(key("meta"), "cluster")
        check_schema(int(schema or 0))
        return str(found, "utf-8")

    async def _found(self) -> None:
        """A new ledger on an empty server; of two who try at once, one does."""
        used = await self._writer.exists(*map(key, _CONTENT))
        if used or self._cluster:
            missing = self._cluster or "an unknown cluster"
            raise LedgerIdentity(
                f"the identity record of {missing} is missing: restore the ledger's data, or "
                "accept what is there with quadrant ledger restore"
            )
        await self._writer.hsetnx(key("meta"), "cluster", self._nonce())

    async def _create_group(self) -> None:
        try:
            await self._writer.xgroup_create(key("binds"), BINDERS, id="0", mkstream=True)
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise

    async def cluster_id(self) -> str:
        """The id of the cluster whose truth this is, "" before the first ``open``."""
        async with translated():
            return str(await self._writer.hget(key("meta"), "cluster") or b"", "utf-8")

    # --- this run of the server ---------------------------------------------------------------

    async def run_id(self) -> str:
        async with translated():
            return str(await self._writer.hget(key("meta"), "run") or b"", "utf-8")

    async def bless(self, leader: Epoch, *, after: str = "0") -> str:
        cluster = await self.open()
        await self._check_new_run()
        scripts = hashlib.sha256(b"".join(script(n)[0] for n in ("commit", "record", "store")))
        self._saw(after)
        code, *told = await self._run(
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
                return str(told[0], "utf-8")
            case 1:
                await self._still_ours()
                raise Deposed(f"epoch {leader} does not lead any more")
            case 2:
                found = str(told[0], "utf-8") if told and told[0] else "nobody"
                raise LedgerIdentity(f"this is the ledger of {found}, not {cluster}")
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

    # --- epochs and their leases --------------------------------------------------------------

    async def claim(
        self, writer: str, *, leader: Epoch | None = None, lease: float = 0.0, holder: str = ""
    ) -> Epoch:
        leading = "" if leader is None else str(leader)
        code, *told = await self._run(
            "claim", writer, self._nonce(), leading, _microseconds(lease), holder
        )
        match code:
            case 0:
                return Epoch.parse(told[0].decode())
            case 1:
                epoch, left, other = told
                raise LeaseHeld(Epoch.parse(epoch.decode()), left / _MICROSECONDS, other.decode())
            case _:
                await self._still_ours()
                raise Deposed(f"epoch {leading or '(none)'} does not lead: {writer} is not its own")

    async def renew(self, writer: str, epoch: Epoch, *, lease: float) -> bool:
        renewed = bool(await self._run("renew", writer, str(epoch), _microseconds(lease)))
        if not renewed:
            await self._still_ours()
        return renewed

    async def _still_ours(self) -> None:
        """Nobody leads in a ledger that was emptied: that is the news then, not that we do not.

        Errors: LedgerIdentity."""
        if self._cluster:
            await self.open()

    async def release(self, writer: str, epoch: Epoch) -> None:
        await self._run("release", writer, str(epoch))

    async def leader(self) -> Leader | None:
        found = await self._run("leader", COORDINATOR)
        if found is None:
            return None
        epoch, holder, left = found
        return Leader(Epoch.parse(epoch.decode()), holder.decode(), left / _MICROSECONDS)
