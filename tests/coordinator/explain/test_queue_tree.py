"""Order of KAI's tree of queues in explanations."""

from __future__ import annotations

from coordinator.explain.queues.queue_tree import order_of, tree_of
from tests.builders.objects import kai_group, kai_queue, node
from tests.coordinator.objects.test_kai import GPUS, KAI, member
from tests.coordinator.objects.world import World, placed


def jobs_in_order(world: World) -> list[str]:
    return [job.job for job in order_of(world.core, tree_of(world.core))]


def test_a_job_is_the_first_of_its_queue_until_it_is_placed() -> None:
    world = World(policy=KAI)
    world.put(node("n0") | GPUS, kai_queue("all"), kai_queue("red", "all"))
    world.put(kai_group("g", "red"), member("g0", "g"))
    assert jobs_in_order(world) == ["ns/g"]
    ((send, turn),) = world.turns()
    assert jobs_in_order(world) == ["ns/g"], "its turn is open"
    world.core.turns_returned(send.shard, send.call, [placed(turn, 0)], now=world.now)
    assert jobs_in_order(world) == []
