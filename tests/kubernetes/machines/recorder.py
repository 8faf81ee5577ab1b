"""``python -m tests.kubernetes.machines.recorder HISTORY IDENTITY...``: writes the history of what
runs, by the ledger's log and the API server's watch of pods. SIGTERM ends it, when the history has
all of the log."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from laboratory.chaos.kubernetes.recorder import ledger_begun, recording
from laboratory.local_kubernetes.client import client_of
from laboratory.local_kubernetes.identity import Identity
from shared.ledger.redis.client import RedisLedger
from shared.settings.settings import load_settings
from tests.kubernetes.driver.harness import QUADRANT
from tests.kubernetes.machines.identity import identity_of

WAITS = "waits for the ledger"
"""Its message when it is ready: a ledger that nobody reads forgets what it began with."""


async def main(history: Path, identity: Identity) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    ledger = RedisLedger(load_settings().access())
    sys.stdout.write(f"{WAITS}\n")
    sys.stdout.flush()
    try:
        async with client_of(identity) as client:
            await ledger_begun(ledger)
            async with recording(
                history, identity.kubeconfig, ledger, client, scheduler=QUADRANT
            ) as recorder:
                await stop.wait()
                await recorder.complete()
    finally:
        await ledger.close()


if __name__ == "__main__":
    path, *who = sys.argv[1:]
    asyncio.run(main(Path(path), identity_of(who)))
