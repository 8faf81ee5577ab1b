"""``python -m tests.machines.ledger FOLDER ADDRESS PORT CERTIFICATE KEY``: the ledger's server,
over TLS, for the machines of a test. Runs until it is killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from shared.ledger.redis.server import EmbeddedServer
from tests.security.tls import tls_before


async def main(folder: Path, address: str, port: int, certificate: Path, key: Path) -> None:
    server = EmbeddedServer(folder, folder / "data", "secret")
    server.start(30.0)
    async with tls_before(server, (certificate, key), address=address, port=port):
        await asyncio.Event().wait()


if __name__ == "__main__":
    where, at, number, shown, by = sys.argv[1:]
    asyncio.run(main(Path(where), at, int(number), Path(shown), Path(by)))
