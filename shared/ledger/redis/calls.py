"""Script calls to the ledger's server, and the translation of its errors.

A write is sent once: after an error its outcome is unknown, and the caller sends the same batch
again, which the window of the writer makes safe.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from redis.exceptions import (
    ClusterDownError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from shared.ledger.errors import (
    LedgerAltered,
    LedgerArgument,
    LedgerFault,
    LedgerIdentity,
    LedgerUnavailable,
)
from shared.ledger.keys import log_position, script_keys
from shared.ledger.redis.access import Access
from shared.ledger.redis.connection import open_client

SCRIPTS = Path(__file__).parent.parent / "scripts"
_JUDGING = ("prelude", "plan", "things", "books", "window")
_OWNING = ("prelude", "plan", "lease")
PARTS = {
    "commit": (*_JUDGING, "batch", "rules", "evict", "commit"),
    "record": (*_JUDGING, "record"),
    "store": (*_JUDGING, "store"),
    "claim": (*_OWNING, "claim"),
    "renew": (*_OWNING, "renew"),
    "release": (*_OWNING, "release"),
    "leader": (*_OWNING, "leader"),
    "bless": (*_OWNING, "bless"),
    "take_up": (*_OWNING, "take_up"),
    "page": ("prelude", "page"),
    "open": ("prelude", "open"),
}
"""Script -> the files it is composed of."""

_WRITERS = 8
_READERS = 16

_PASSING = ("BUSY", "MISCONF", "NOREPLICAS", "UNKILLABLE", "UNBLOCKED")
"""Transient refusals, which a repeated batch may not meet, by the first word of the server's
answer."""

_PASSING_ERRORS = (OutOfMemoryError, ReadOnlyError, TryAgainError, ClusterDownError)
"""The same for errors that the client library raises as its own types, without that word."""


_NO_STREAM = ("NOGROUP", "no such key")
"""Beginnings of what a server answers to a read of the bind stream's group, and of XINFO, where the
stream is not there. ``RedisLedger.log_tail`` takes the second for an empty log."""
_NO_GROUP = (
    "the bind stream is missing: the ledger's server came back without what it held; bring its "
    "data back, or accept what is there with quadrant ledger restore"
)


@cache
def script(name: str) -> tuple[bytes, str]:
    """(text, sha1) of one script, composed of its parts."""
    text = b"".join((SCRIPTS / f"{part}.lua").read_bytes() for part in PARTS[name])
    return text, hashlib.sha1(text, usedforsecurity=False).hexdigest()


def _bytes(argument: bytes | str | int) -> bytes:
    return argument if isinstance(argument, bytes) else str(argument).encode()


def call_seal(keys: Sequence[bytes], arguments: Sequence[bytes]) -> str:
    """Checksum of a call's keys and arguments, its last argument: the script refuses the call where
    it does not match."""
    parts = b"\n".join((*keys, *arguments))
    return hashlib.sha1(parts, usedforsecurity=False).hexdigest()


def script_call(
    name: str, writer: str, *args: bytes | str | int
) -> tuple[bytes, tuple[bytes | str | int, ...]]:
    """(text of the script, the command that calls it); the script's first argument is the
    writer."""
    text, sha = script(name)
    keys = script_keys(writer)
    arguments = [_bytes(argument) for argument in (writer, *args)]
    seal = call_seal(keys, arguments).encode()
    return text, ("EVALSHA", sha, len(keys), *keys, *arguments, seal)


@asynccontextmanager
async def translated() -> AsyncIterator[None]:
    """Translate errors of the client library into the ledger's own."""
    with errors_translated():
        yield


@contextmanager
def errors_translated() -> Iterator[None]:
    """:func:`translated` for a client outside of an event loop."""
    try:
        yield
    except (RedisConnectionError, RedisTimeoutError, OSError, TimeoutError) as error:
        raise LedgerUnavailable(f"no answer from the ledger's server: {error}") from error
    except ResponseError as error:
        text = str(error)
        if "QUADRANT-ALTERED " in text:
            _, _, record_name = text.partition("QUADRANT-ALTERED ")
            raise LedgerAltered(record_name.partition(" script: ")[0]) from error
        if "QUADRANT " in text:
            _, _, reason = text.partition("QUADRANT ")
            raise LedgerArgument(reason.partition(" script: ")[0]) from error
        if text.startswith(_NO_STREAM):
            raise LedgerIdentity(_NO_GROUP) from error
        if text.startswith(_PASSING) or isinstance(error, _PASSING_ERRORS):
            raise LedgerUnavailable(f"the ledger's server refused: {text}") from error
        raise LedgerFault(f"the ledger's server failed: {text}") from error


class Calls:
    """The connections to one server, and how its scripts are called.

    ``timeout``: seconds within which everything but a blocking read must be answered.
    """

    def __init__(self, access: Access, *, timeout: float) -> None:
        self._access = access
        self._writer = self._connect(limit=timeout, size=_WRITERS)
        self._reader = self._connect(limit=None, size=_READERS)
        self._timeout = timeout
        self._newest = "0"

    def _connect(self, *, limit: float | None, size: int) -> Any:
        return open_client(self._access, limit=limit, size=size)

    @property
    def newest(self) -> str:
        """The newest log id of any answer; the ledger's log can only have grown since."""
        return self._newest

    def _saw(self, log_id: str) -> None:
        if log_id and log_position(log_id) > log_position(self._newest):
            self._newest = log_id

    async def _run(self, name: str, writer: str, *args: bytes | str | int) -> Any:
        """Call one script, whose first argument is the writer; return its answer."""
        text, call = script_call(name, writer, *args)
        async with translated():
            try:
                return await self._writer.execute_command(*call)
            except NoScriptError:
                await self._writer.execute_command("SCRIPT LOAD", text)
                # A restarted server has forgotten its scripts. Nothing was run by the first call,
                # so that this is no second one.
                return await self._writer.execute_command(*call)

    async def close(self) -> None:
        await self._writer.aclose()
        await self._reader.aclose()
        await self._writer.connection_pool.disconnect()
        await self._reader.connection_pool.disconnect()
