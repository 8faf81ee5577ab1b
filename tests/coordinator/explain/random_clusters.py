"""Random small clusters and jobs that fit, wait, lack quota or can never run."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from tests.builders.objects import GPU, Item, queue
from tests.coordinator.explain.cluster import job, node
from tests.end_to_end.one_process.harness import Running, submit
from tests.examples import examples

COMPARED = settings(
    max_examples=examples(18),
    derandomize=True,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
"""For comparisons of a plan with what then happens: each example is a service of its own, so that
none is made smaller."""

TAINT = [{"key": "dedicated", "value": "infer", "effect": "NoSchedule"}]


@dataclass(frozen=True, slots=True)
class RandomCluster:
    nodes: list[Item]
    queues: list[Item]
    jobs: list[Item]


@st.composite
def jobs(draw: st.DrawFn, *, prefix: str, most: int, elastic: bool = True) -> list[Item]:
    """``elastic``: some start with fewer tasks than they have."""
    items = []
    for number in range(draw(st.integers(1, most))):
        tasks = draw(st.integers(1, 5))
        constraint = draw(st.sampled_from([{}, {}, {"nodeSelector": {"zone": "x"}}]))
        item = job(
            f"{prefix}{number}",
            tasks,
            cpu=draw(st.sampled_from(["1", "3", "5", "20"])),
            gpus=draw(st.sampled_from([0, 0, 1, 3, 9])),
            minimum=draw(st.sampled_from([1, tasks] if elastic else [tasks])),
            queue=draw(st.sampled_from(["default", "lab", "lab", "none-such"])),
            **constraint,
        )
        items.append(item)
    return items


@st.composite
def clusters(draw: st.DrawFn, *, prefix: str = "j", most: int = 6) -> RandomCluster:
    nodes = [
        node(
            f"n{number}",
            cpu=draw(st.sampled_from(["4", "8", "16"])),
            gpus=draw(st.sampled_from([0, 4, 8])),
            labels={"zone": draw(st.sampled_from("xy"))},
            **draw(st.sampled_from([{}, {}, {"taints": TAINT}])),
        )
        for number in range(draw(st.integers(1, 5)))
    ]
    limit = draw(st.sampled_from([None, {"cpu": "6"}, {"cpu": "12", GPU: "6"}]))
    lab = queue("lab") if limit is None else queue("lab", capability=limit)
    return RandomCluster(nodes, [lab], draw(jobs(prefix=prefix, most=most)))


async def filled(service: Running, cluster: RandomCluster) -> None:
    """Send the cluster, and wait until its jobs have what they can have."""
    await submit(service, *cluster.nodes, *cluster.queues)
    await at_rest(service)
    await submit(service, *cluster.jobs)
    await at_rest(service)


async def at_rest(service: Running) -> None:
    """Until nothing has moved for a while."""
    await service.until(lambda status: not status["open_turns"])
    objects, still = service.service.objects, 0
    version = -1
    while still < 8:
        await asyncio.sleep(0.05)
        open_turns = service.service.core.status()["open_turns"]
        still = still + 1 if objects.version == version and not open_turns else 0
        version = objects.version
