"""Which ledger is ours, and how far its log was seen, remembered beside its data.

Without it nobody could tell an empty server from a new one, or a copy of last week from today's.
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
    from shared.ledger.redis_ledger import RedisLedger
    from shared.settings import Settings

FILE = "ledger.json"

NOTE_SECONDS = 1.0
"""How often it is looked whether there is anything to note."""

LAG_SECONDS = {"always": 0.0, "everysec": 5.0}
"""How old a log id must be before it is noted: what the server may lose by itself must not look
like an old copy. Where it syncs when it likes ("no"), no log id is noted."""


@dataclass(frozen=True, slots=True)
class Known:
    """``cluster`` "": nothing is expected. ``log``: an id that was in its log, "0" for none."""

    cluster: str = ""
    log: str = "0"


def path_of(settings: Settings) -> Path:
    return settings.data_dir / FILE


def expected(settings: Settings) -> Known:
    """What the ledger of these settings must be. ``cluster_id`` goes before the file.

    Errors: LedgerIdentity where the file cannot be read."""
    known = recall(path_of(settings))
    if settings.cluster_id and settings.cluster_id != known.cluster:
        return Known(settings.cluster_id)
    return known


def recall(path: Path) -> Known:
    try:
        found = json.loads(path.read_text())
        known = Known(str(found["cluster"]), str(found["log"]))
        log_position(known.log)
    except FileNotFoundError:
        return Known()
    except (OSError, ValueError, KeyError, TypeError) as error:
        text = f"{path}, which names our ledger, cannot be read: {error}; remove it if it is broken"
        raise LedgerIdentity(text) from None
    return known


def note(path: Path, known: Known) -> None:
    """Whole or not at all, and on disk when this returns. Errors: OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("w") as file:
        json.dump({"cluster": known.cluster, "log": known.log}, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


class Notes:
    """What is to be noted of a ledger, and when. ``lag`` None: never a log id.

    What was noted before stays until something newer may be: a coordinator that ends at once must
    not make its successor forget. Errors: LedgerIdentity where it cannot be read."""

    def __init__(self, path: Path, *, lag: float | None) -> None:
        self._path = path
        self._lag = lag
        self._noted = recall(path)
        self._seen: list[tuple[float, str]] = []

    def look(self, ledger: RedisLedger, *, now: float) -> Known | None:
        """What to note now, None where nothing is new. ``now``: seconds, never backwards."""
        if not ledger.cluster:
            return None  # not opened yet
        known = Known(ledger.cluster, self._log(ledger.cluster, ledger.newest, now))
        return None if known == self._noted else known

    def _log(self, cluster: str, newest: str, now: float) -> str:
        if self._lag is None:
            return "0"
        log = self._noted.log if self._noted.cluster == cluster else "0"
        if not self._seen or self._seen[-1][1] != newest:
            self._seen.append((now, newest))
        while self._seen and now - self._seen[0][0] >= self._lag:
            log = self._seen.pop(0)[1]
        return log

    def keep(self, known: Known) -> None:
        note(self._path, known)
        self._noted = known


@contextlib.asynccontextmanager
async def remembering(settings: Settings, ledger: RedisLedger) -> AsyncIterator[None]:
    """Note in the background what becomes known of the ledger, as long as the block runs."""
    import asyncio

    import structlog

    log = structlog.get_logger(__name__)
    notes = Notes(path_of(settings), lag=LAG_SECONDS.get(settings.fsync))

    async def forever() -> None:
        while True:
            known = notes.look(ledger, now=time.monotonic())
            if known is not None:
                try:
                    await asyncio.to_thread(notes.keep, known)
                except OSError as error:  # a full disk is no reason to stop what works
                    log.warning("Cannot note which ledger is ours", error=str(error))
            await asyncio.sleep(NOTE_SECONDS)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(forever())
        try:
            yield
        finally:
            task.cancel()
