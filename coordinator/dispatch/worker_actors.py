"""The Ray actors of shard workers: how one is created, and how it is asked what it is."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from coordinator.dispatch.worker_versions import usable_nodes

LIFE = "life"
"""Ray's name for the thread in which a worker answers that it lives, whatever its turns do."""

ASIDE = "aside"
"""Ray's name for the thread in which a worker is looked at while it works. Not that of its sign of
life, which a profile would hold up for so long that the worker is taken for dead."""

_NODE_LABEL = "ray.io/node-id"
"""The label that Ray itself gives to each node."""


def create(name: str, *, cpus: float, avoided: Collection[str]) -> Any:
    """``avoided``: ids of Ray nodes where it must not be."""
    import ray

    from shard_worker.worker.actor import ShardActor

    made_remote: Any = ray.remote  # its types do not know the groups
    remote = made_remote(concurrency_groups={LIFE: 1, ASIDE: 1})(ShardActor)
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


def introduce(actor: Any) -> Any:
    """Ask a worker of any version for the fields of an Introduction; returns Ray's reference.

    The function below travels as code, because it has no name that could be imported: a worker
    from before :meth:`ShardActor.hello` runs it as well, and a method that it lacks would be an
    error of Ray's that says nothing.
    """

    def answer(worker: Any) -> tuple[bytes, str, str]:
        import ray

        hello = getattr(worker, "hello", None)
        said = hello() if hello is not None else b""
        there: Any = ray.util
        return said, ray.get_runtime_context().get_node_id(), there.get_node_ip_address()

    return actor.__ray_call__.remote(answer)


def find_usable_nodes(cpus: float) -> set[str]:
    """Ids of the Ray nodes that can hold a worker; blocks."""
    import ray

    listing: Any = ray.nodes  # without types
    return usable_nodes(listing(), cpus=cpus)
