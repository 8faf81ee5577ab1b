"""The coordinator's process: attach to ledger, cluster and Ray; serve until asked to stop."""

from __future__ import annotations

import asyncio
import contextlib
import sys

from coordinator.api.listener.listener import listener_options
from coordinator.api.listener.policy import open_gate
from coordinator.cluster.protocol import ClusterDriver
from coordinator.cluster.simulated.client import SocketCluster
from coordinator.dispatch.worker_client import RayShards
from coordinator.service.metrics.loop_time import LoopTime
from coordinator.service.observed.kubernetes import open_kubernetes
from coordinator.service.observed.refilling import refilled
from coordinator.service.process import exit_code, stop_on_signals
from coordinator.service.service import Service
from shared.garbage_collection import RestingCollector
from shared.heap import map_large_buffers
from shared.kubeconfig import ConfigError
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.identity import expected, remembering
from shared.ledger.retry import insist
from shared.settings.settings import Settings, SettingsError, load_settings
from shared.telemetry.logging import configure_logging, log_uncaught
from shared.telemetry.tracing import configure_tracing


async def serve(settings: Settings) -> None:
    """Connect to ledger, cluster and Ray, serve until SIGTERM or SIGINT, disconnect."""
    loop_time = LoopTime()
    loop_time.watch(asyncio.get_running_loop())
    collector = RestingCollector()
    collector.begin()
    collector.look_regularly()
    data_dir, cluster_id = settings.data_dir, settings.cluster_id
    if settings.kubernetes:
        identity = await refilled(settings.access(), data_dir, cluster_id)
    else:
        identity = expected(data_dir, cluster_id)
    async with contextlib.AsyncExitStack() as ended:
        ledger = RedisLedger(settings.access(), cluster=identity.cluster, newest=identity.log)
        ended.push_async_callback(ledger.close)
        observed = open_kubernetes(settings) if settings.kubernetes else None
        cluster: ClusterDriver = (
            SocketCluster(settings.cluster_socket or "") if observed is None else observed.cluster
        )
        ended.push_async_callback(cluster.close)
        shards = RayShards(
            cluster=await insist(ledger.open, call_name="open"),
            address=settings.ray_address or "",
            call_seconds=settings.worker_deadline_seconds,
            cpus=settings.worker_cpus,
        )
        ended.push_async_callback(shards.close)
        stop = asyncio.Event()
        stop_on_signals(stop)
        await ended.enter_async_context(
            remembering(settings.data_dir, ledger, fsync=settings.fsync)
        )
        await Service(
            settings,
            ledger=ledger,
            cluster=cluster,
            shards=shards,
            loop_time=loop_time,
            observed=observed,
        ).run(stop)


def main() -> int:
    """0 = asked to stop, 1 = a part failed or the ledger is not ours, :data:`DEPOSED` = another
    coordinator took the leadership."""
    try:
        settings = load_settings()
        open_gate(settings)
        listener_options(settings)
        if settings.kubernetes:
            open_kubernetes(settings)  # what it cannot use is told here, in one line
    except (SettingsError, ConfigError) as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    configure_logging(settings.log_level, settings.log_format, role="coordinator")
    log_uncaught()
    configure_tracing("coordinator")
    map_large_buffers()
    return exit_code(lambda: asyncio.run(serve(settings)))


if __name__ == "__main__":
    sys.exit(main())
