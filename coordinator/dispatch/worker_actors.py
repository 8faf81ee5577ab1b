"""The Ray actors of shard workers: how one is created, and how it is asked what it is."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from coordinator.dispatch.ray_connection import apart
from coordinator.dispatch.worker_versions import Introduction, address_of_unloadable, usable_nodes

LIFE = "life"
"""Ray's name for the thread in which a worker answers that it lives, whatever its turns do."""

INSPECTION = "inspection"
"""Ray's name for the thread in which a worker is inspected while it works. Not that of its sign of
life, which a profile would hold up for so long that the worker is taken for dead."""

_NODE_LABEL = "ray.io/node-id"
"""The label that Ray itself gives to each node."""


def create(name: str, *, cpus: float, avoided: Collection[str]) -> Any:
    """``avoided``: ids of Ray nodes where it must not be."""
    import ray

    from shard_worker.worker.actor import ShardActor

    made_remote: Any = ray.remote  # its types do not know the groups
    remote = made_remote(concurrency_groups={LIFE: 1, INSPECTION: 1})(ShardActor)
    elsewhere = {_NODE_LABEL: f"!in({','.join(sorted(avoided))})"}
    return remote.options(
        name=name,
        lifetime="detached",
        num_cpus=cpus,
        # Ray's default fills a machine to the half before it takes another: all shards were on one
        # of two, and were lost with it.
        scheduling_strategy="SPREAD",
        label_selector=elsewhere if avoided else None,
        # Not Ray's restarts: see the class. A repeated task would be a repeated write (decision
        # 0006).
        max_restarts=0,
        max_task_retries=0,
        max_concurrency=1,
        # A record for each call, which costs memory and nobody reads (decision 0009).
        enable_task_events=False,
    ).remote()


async def introduction_of(actor: Any) -> Introduction:
    """Ask a worker of any version what it is and where it runs.

    The function below travels as code, because it has no name that could be imported. So a version
    from before this question answers it too; a method that the actor lacks would be an error of
    Ray's that says nothing.
    """
    from ray.exceptions import ActorDiedError

    def answer(_: Any) -> tuple[bytes, str, str]:
        import ray

        try:
            from shard_worker.worker.worker_version import own_version

            version = own_version().encode()
        except ImportError:
            version = b""
        ray_util: Any = ray.util
        return version, ray.get_runtime_context().get_node_id(), ray_util.get_node_ip_address()

    try:
        return Introduction(*await asyncio.wrap_future(actor.__ray_call__.remote(answer).future()))
    except ActorDiedError as error:
        address = address_of_unloadable(str(error))
        if not address:
            raise
        nodes = await apart(lambda: _find_nodes(address))
        return Introduction(b"", nodes[0] if nodes else "", address)


def _find_nodes(address: str) -> list[str]:
    """Ids of the living Ray nodes at an address; blocks."""
    import ray

    listing: Any = ray.nodes  # without types
    return [n["NodeID"] for n in listing() if n["Alive"] and n["NodeManagerAddress"] == address]


def find_usable_nodes(cpus: float) -> set[str]:
    """Ids of the Ray nodes that can hold a worker; blocks."""
    import ray

    listing: Any = ray.nodes
    return usable_nodes(listing(), cpus=cpus)
