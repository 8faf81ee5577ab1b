"""A queue's share, and what a gang may have beyond it, in a service of several shards."""

from __future__ import annotations

from pathlib import Path

from tests.builders.objects import Item, container, node, pod, pod_group, queue
from tests.end_to_end.one_process.harness import Running, running, submit

POLICY = """
actions: allocate
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: proportion}]
"""
NODES = [node(f"n{number}", cpu=4) for number in range(3)]


def gang(name: str, of: str, minimum: int, *members: tuple[int, str]) -> list[Item]:
    """``members``: CPUs and memory of each."""
    group = pod_group(name, queue=of, minMember=minimum)
    pods = [
        pod(f"{name}-{i}", group=name, containers=[container(cpu, memory)])
        for i, (cpu, memory) in enumerate(members)
    ]
    return [group, *pods]


MIXED = gang("mixed", "blue", 3, (3, "1Gi"), (1, "2Gi"), (3, "1Gi"), (3, "1Gi"))
"""Three of the smallest members would be within half of the CPUs, three in their order are not."""


def held(service: Running) -> dict[str, int]:
    """Job -> its members that have nodes."""
    return {job.job.name: job.info.held[0] for job in service.service.core.order.jobs.values()}


async def test_a_gang_beyond_its_queues_share_waits_for_one_within_its_own(
    redis_url: str, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    async with running(redis_url, tmp_path, policy=policy, window=1) as service:
        queues = [queue(name) for name in ("blue", "red")]
        within = gang("within", "red", 2, (3, "1Gi"), (3, "1Gi"))
        await submit(service, *queues, *NODES, *within, *MIXED)
        await service.until(lambda _: held(service)["within"] == 2)
        assert held(service)["mixed"] == 0


async def test_a_gang_beyond_its_queues_share_gets_room_that_nobody_else_can_use(
    redis_url: str, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    async with running(redis_url, tmp_path, policy=policy) as service:
        queues = [queue(name) for name in ("blue", "red")]
        larger_than_any_node = gang("large", "red", 2, (6, "1Gi"), (6, "1Gi"))
        await submit(service, *queues, *NODES, *larger_than_any_node, *MIXED)
        await service.until(lambda _: held(service)["mixed"] >= 3)
        assert held(service)["large"] == 0
