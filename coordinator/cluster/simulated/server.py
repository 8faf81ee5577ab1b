"""The cluster process: simulated kubelets and the history, beside the coordinator, outliving it.

``python -m coordinator.cluster.simulated.server --socket PATH --history FILE [--redis URL] ...``

SIGTERM ends it in order: no more requests, the rest of the ledger's log into the history, fsync.
Exit 0; 1 where the history could not be completed or written, 2 for wrong arguments.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from coordinator.cluster.history.file import HistoryFile, LogFollower, sync_regularly
from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.cluster.simulated.faulty import Faults, FaultyCluster, parse_faults
from coordinator.cluster.simulated.host import ClusterHost
from coordinator.cluster.simulated.kubelets import Kubelets
from coordinator.cluster.simulated.memory import read_memory
from shared.codec.packed import replace
from shared.garbage_collection import RestingCollector
from shared.ledger.errors import LedgerError, LedgerUnavailable
from shared.ledger.protocol import Ledger
from shared.ledger.redis.client import RedisLedger
from shared.settings.settings import Settings, SettingsError, load_settings
from shared.telemetry.logging import configure_logging, log_uncaught

DRAIN_WITHIN = 10.0
"""Seconds to read the rest of the ledger's log at the end."""

log = structlog.get_logger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        settings = load_settings()
    except SettingsError as error:
        parser.error(str(error))
    configure_logging(settings.log_level, settings.log_format, role="cluster")
    log_uncaught()
    code = 1
    try:
        code = asyncio.run(serve(options, _open_ledger(options.redis, settings)))
    except* (OSError, LedgerError) as failures:
        log.error("the cluster process failed", error=str(failures.exceptions[0]))
    return code


async def serve(options: argparse.Namespace, ledger: Ledger | None) -> int:
    """Run until SIGTERM or SIGINT; without a ledger the history has the cluster's side only."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    collector = RestingCollector()
    collector.begin()
    collector.look_regularly()
    history = HistoryFile(options.history)
    try:
        host = ClusterHost(_kubelets(options), history, _clock())
        follower = _follower(ledger, history)
        await _work(options.socket, host, history, follower, stop)
        code = await _drain(follower)
        history.end(time.time())
        return code
    finally:
        await asyncio.to_thread(options.socket.unlink, missing_ok=True)
        history.close()
        if ledger is not None:
            await ledger.close()


async def _work(
    socket: Path,
    host: ClusterHost,
    history: HistoryFile,
    follower: LogFollower | None,
    stop: asyncio.Event,
) -> None:
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(host.run()), group.create_task(sync_regularly(history))]
        if follower is not None:
            tasks.append(group.create_task(follower.run()))
        server = await loop.create_unix_server(host.connection, socket)
        try:
            await stop.wait()
        finally:
            server.close()
            host.close()
            for task in tasks:
                task.cancel()


async def _drain(follower: LogFollower | None) -> int:
    """Copy the rest of the log to the history; returns the exit code, nonzero if that is
    incomplete."""
    if follower is None:
        return 0
    try:
        async with asyncio.timeout(DRAIN_WITHIN):
            await follower.drain()
    except (TimeoutError, LedgerError) as error:
        log.error("the history lacks the end of the ledger's log", error=repr(error))
        return 1
    return 0


def _open_ledger(url: str, settings: Settings) -> Ledger | None:
    """Connect to the ledger. The password comes from the settings, since command lines are
    public."""
    if not url:
        return None
    return RedisLedger(replace(settings.access(), url=url))


def _kubelets(options: argparse.Namespace) -> Kubelets:
    cluster = LocalCluster(speedup=options.speedup, grace=options.grace)
    cluster.restore(read_memory(options.history))
    if options.faults == Faults():
        return cluster
    return FaultyCluster(cluster, options.faults, options.seed)


def _follower(ledger: Ledger | None, history: HistoryFile) -> LogFollower | None:
    if ledger is None:
        return None
    return LogFollower(ledger, history, unavailable=LedgerUnavailable)


def _clock() -> Callable[[], float]:
    """Seconds since 1970 that never run backwards."""
    origin = time.time() - time.monotonic()
    return lambda: origin + time.monotonic()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m coordinator.cluster.simulated.server")
    parser.add_argument("--socket", type=Path, required=True, help="unix socket to listen on")
    parser.add_argument("--history", type=Path, required=True, help="file to append events to")
    parser.add_argument("--redis", default="", help="the ledger, unix://PATH or redis://HOST")
    parser.add_argument(
        "--speedup", type=_above_zero, default=1.0, help="pods run this much faster"
    )
    parser.add_argument(
        "--grace", type=_not_negative, default=0.05, help="seconds a pod takes to end"
    )
    parser.add_argument("--faults", type=_faults, default=Faults(), help="refuse=0.1,duplicate=0.1")
    parser.add_argument("--seed", type=int, default=0, help="of the faults")
    return parser


def _above_zero(text: str) -> float:
    number = float(text)
    if not number > 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return number


def _not_negative(text: str) -> float:
    number = float(text)
    if not number >= 0:
        raise argparse.ArgumentTypeError(f"{text} is below 0")
    return number


def _faults(text: str) -> Faults:
    try:
        return parse_faults(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


if __name__ == "__main__":
    sys.exit(main())
