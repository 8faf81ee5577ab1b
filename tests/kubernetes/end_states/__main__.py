"""Run walks with the real scheduler and with Quadrant, and record what both leave.

``python -m tests.kubernetes.end_states.page`` writes the page of it, once each difference has a
reason.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from laboratory.local_kubernetes.binaries import Binaries
from laboratory.local_kubernetes.client import client_of
from laboratory.local_kubernetes.control_plane import ControlPlane
from shared.ledger.redis.server import EmbeddedServer
from tests.kubernetes.emptying import empty
from tests.kubernetes.end_states import recorded
from tests.kubernetes.end_states.schedulers import Peer, Surroundings
from tests.kubernetes.end_states.walk import Walk
from tests.kubernetes.servers.build import build

LEDGER_SECONDS = 30.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="part of the names of walks; all by default")
    parser.add_argument("--peer", choices=[peer.value for peer in Peer], help="both by default")
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--ours", action="store_true", help="Quadrant alone")
    one.add_argument("--theirs", action="store_true", help="the real scheduler alone")
    options = parser.parse_args()
    chosen = [peer for peer in Peer if options.peer in (None, peer.value)]
    sides = [real for real in (True, False) if not (options.ours if real else options.theirs)]
    asyncio.run(_run(chosen, sides, options.words))


async def _run(chosen: list[Peer], sides: list[bool], words: list[str]) -> None:
    """All beside each other: walks mostly wait."""
    binaries = build()
    async with asyncio.TaskGroup() as group:
        for peer in chosen:
            walks = [w for w in peer.walks if not words or any(word in w.name for word in words)]
            for real in sides:
                group.create_task(_side(binaries, peer, walks, real=real))


async def _side(binaries: Binaries, peer: Peer, walks: list[Walk], *, real: bool) -> None:
    folder = Path(tempfile.mkdtemp(prefix="qt-"))
    plane = ControlPlane(folder, binaries)
    try:
        plane.start()
        for walk in walks:
            await _record(plane, peer, walk, real=real)
    finally:
        plane.stop()
        shutil.rmtree(folder, ignore_errors=True)


async def _record(plane: ControlPlane, peer: Peer, walk: Walk, *, real: bool) -> None:
    side = recorded.THEIRS if real else recorded.OURS
    folder = Path(tempfile.mkdtemp(prefix="qt-"))
    ledger = EmbeddedServer(folder, folder / "data")
    ledger.start(LEDGER_SECONDS)
    try:
        async with client_of(plane.admin) as cluster:
            await empty(cluster)
            around = Surroundings(plane, cluster, folder, ledger.url)
            moments = await recorded.walked(
                around,
                peer,
                walk,
                real=real,
                # Quadrant has time to come to the same.
                expected={} if real else _record_of(peer, walk).get(recorded.THEIRS, {}),
                unchanged=recorded.UNCHANGED_SECONDS[real],
            )
    finally:
        ledger.stop(LEDGER_SECONDS)
        shutil.rmtree(folder, ignore_errors=True)
    record = recorded.read()
    record.setdefault(peer.value, {}).setdefault(walk.name, {})[side] = moments
    recorded.write(record)
    print(f"{peer}: {walk.name}: {side}", file=sys.stderr)  # noqa: T201


def _record_of(peer: Peer, walk: Walk) -> dict[str, recorded.Moments]:
    return recorded.read().get(peer.value, {}).get(walk.name, {})


if __name__ == "__main__":
    main()
