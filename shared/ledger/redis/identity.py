"""The identity of the ledger and how far its log was seen, stored in the data directory.

Without this note an empty server could not be distinguished from a new one, nor an old copy from
the present ledger.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shared.ledger.errors import LedgerIdentity
from shared.ledger.keys import log_position

if TYPE_CHECKING:
    from shared.ledger.redis.client import RedisLedger

FILE = "ledger.json"

NOTE_SECONDS = 1.0
"""Interval of checks whether there is anything new to note."""

LAG_SECONDS = {"always": 0.0, "everysec": 5.0}
"""Age of a log id before it is noted, by the server's fsync setting: what the server may lose by
itself must not look like an old copy. For "no" (the system decides) no log id is noted."""


@dataclass(frozen=True, slots=True)
class LedgerIdentityNote:
    """``cluster`` "": nothing is expected. ``log``: an id that was in its log, "0" for none."""

    cluster: str = ""
    log: str = "0"


def path_of(data_dir: Path) -> Path:
    return data_dir / FILE


def expected(data_dir: Path, cluster_id: str) -> LedgerIdentityNote:
    """The ledger that this data directory expects. ``cluster_id`` takes precedence over the file.

    Errors: LedgerIdentity where the file cannot be read.
    """
    noted = recall(path_of(data_dir))
    if cluster_id and cluster_id != noted.cluster:
        return LedgerIdentityNote(cluster_id)
    return noted


def recall(path: Path) -> LedgerIdentityNote:
    try:
        fields = json.loads(path.read_text())
        identity = LedgerIdentityNote(str(fields["cluster"]), str(fields["log"]))
        log_position(identity.log)
    except FileNotFoundError:
        return LedgerIdentityNote()
    except (OSError, ValueError, KeyError, TypeError) as error:
        text = f"{path}, which names our ledger, cannot be read: {error}; remove it if it is broken"
        raise LedgerIdentity(text) from None
    return identity


def note(path: Path, identity: LedgerIdentityNote) -> None:
    """Write the note to disk atomically. Errors: OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("w") as file:
        # Not json.dump: its functions refer to each other, and stay until a collection.
        file.write(json.dumps({"cluster": identity.cluster, "log": identity.log}))
        # On disk before the name is moved: after a loss of power there is the old note or the new
        # one, never an empty one.
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


class IdentityNotes:
    """Decides what to note of a ledger, and when. ``lag`` None: never a log id.

    The previous note stays until something newer may be noted: a coordinator that ends at once must
    not make its successor forget it. Errors: LedgerIdentity where the note cannot be read.
    """

    def __init__(self, path: Path, *, lag: float | None) -> None:
        self._path = path
        self._lag = lag
        self._noted = recall(path)
        self._seen: list[tuple[float, str]] = []

    def look(self, ledger: RedisLedger, *, now: float) -> LedgerIdentityNote | None:
        """The note to write now, None where nothing is new. ``now``: seconds, never backwards."""
        if not ledger.cluster:
            return None  # not opened yet
        identity = LedgerIdentityNote(ledger.cluster, self._log(ledger.cluster, ledger.newest, now))
        return None if identity == self._noted else identity

    def _log(self, cluster: str, newest: str, now: float) -> str:
        if self._lag is None:
            return "0"
        log = self._noted.log if self._noted.cluster == cluster else "0"
        if not self._seen or self._seen[-1][1] != newest:
            self._seen.append((now, newest))
        # A server that syncs once a second may lose its last entries by itself: an id is noted only
        # when it is old enough to be on disk, or a crash would look like an old copy.
        while self._seen and now - self._seen[0][0] >= self._lag:
            log = self._seen.pop(0)[1]
        return log

    def keep(self, identity: LedgerIdentityNote) -> None:
        note(self._path, identity)
        self._noted = identity


@contextlib.asynccontextmanager
async def remembering(data_dir: Path, ledger: RedisLedger, *, fsync: str) -> AsyncIterator[None]:
    """Note the ledger's identity in the background while the block runs."""
    import asyncio

    import structlog

    log = structlog.get_logger(__name__)
    notes = IdentityNotes(path_of(data_dir), lag=LAG_SECONDS.get(fsync))

    async def forever() -> None:
        while True:
            identity = notes.look(ledger, now=time.monotonic())
            if identity is not None:
                try:
                    await asyncio.to_thread(notes.keep, identity)
                except OSError as error:  # a full disk is no reason to stop what works
                    log.warning("Cannot note which ledger is ours", error=str(error))
            await asyncio.sleep(NOTE_SECONDS)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(forever())
        try:
            yield
        finally:
            task.cancel()
