"""Calling the scripts without the care that the client takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from shared.ledger.errors import LedgerArgument
from shared.ledger.keys import key, script_keys
from shared.ledger.redis import calls
from shared.ledger.redis.client import RedisLedger
from tests.shared.ledger.support import COORDINATOR, Desk


@dataclass(frozen=True, slots=True)
class Scripts:
    desk: Desk
    ledger: RedisLedger

    def header(self) -> list[Any]:
        """Epoch, sequence and run of the coordinator's next batch."""
        w = COORDINATOR
        return [str(self.desk.epochs[w]), self.desk.next(w), self.desk.run_id]

    async def rejected(self, name: str, *packed: bytes) -> None:
        """The script itself refuses these arguments, and nothing changed."""
        before = await self.ledger.snapshot()
        with pytest.raises(LedgerArgument):
            await self.ledger._run(name, COORDINATOR, *self.header(), *packed)
        assert await self.ledger.snapshot() == before

    async def call(self, name: str, *arguments: Any) -> None:
        """With these arguments exactly; raises what the client library raises."""
        keys = script_keys(COORDINATOR)
        sha = await self.set_up(calls.script(name)[0])
        await self.ledger._writer.execute_command("EVALSHA", sha, len(keys), *keys, *arguments)

    async def set_up(self, text: bytes) -> str:
        sha: str = await self.ledger._writer.script_load(text)
        return sha

    async def write(self, name: str, field: str, value: bytes | str) -> None:
        """A field of one of the ledger's hashes, past the scripts."""
        await self.ledger._writer.hset(key(name), field, value)

    async def read(self, name: str, field: str) -> bytes:
        result: bytes = await self.ledger._writer.hget(key(name), field)
        return result

    async def alter(self, name: str, field: str, at: int) -> None:
        """Flip one bit of a stored record."""
        result = bytearray(await self.read(name, field))
        result[at] ^= 1
        await self.write(name, field, bytes(result))
