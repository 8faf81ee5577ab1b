"""``quadrant queue pairs`` of a whole service: who lacks what, and who has it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.builders.objects import Item, node, queue, simple_job
from tests.coordinator.cli.conftest import Quadrant
from tests.coordinator.cli.test_service import Command
from tests.end_to_end.one_process.harness import PATIENCE, running, submit
from tests.examples import first_of


@pytest.mark.parametrize("shards", first_of((2, 1)))
async def test_a_queue_that_lacks_its_share_is_paired_with_the_one_that_borrows(
    quadrant: Quadrant, redis_url: str, short_dir: Path, shards: int
) -> None:
    async with running(redis_url, short_dir, shards=shards) as service:
        command = Command(quadrant, service)
        nodes = [node(f"n{i}", cpu=4, memory="64Gi") for i in range(2)]
        await submit(service, queue("red"), queue("blue"), *nodes)
        await submit(service, simple_job("wide", 8, namespace="default", queue="red"))
        await service.until(lambda status: status["tasks"]["running"] == 8)
        assert (await command("queue", "pairs")).out == "no queue lacks cpu\n"
        late = simple_job("late", 6, namespace="default", queue="blue", minimum=5)
        await submit(service, late)
        await service.until(lambda status: status["pending_reasons"].get("NotEnoughResources") == 1)
        answer = await asyncio.wait_for(wait_for_hours(command), PATIENCE)
        (cpu,) = answer["resources"]
        pair = {"queue": "blue", "holder": "queue", "borrower": "red", "amount": "4"}
        assert cpu["pairs"] == [pair | {"hours": cpu["hours"]}]
        assert (cpu["lacking"], cpu["borrowed"]) == ("4", "4")
        head, row, _, sentence = (await command("queue", "pairs", "--resource", "cpu")).lines
        assert head == "RESOURCE QUEUE LACKS FROM HOURS"
        assert row.startswith("cpu blue 4 red 0.00")
        assert sentence == (
            "queue blue lacks 4 cpu of its share (4 with queue red): the policy has no reclaim, so "
            "it gets back only the room of tasks that end"
        )
        wrong = await command("queue", "pairs", "--resource", "gpu", code=1)
        assert "resource 'gpu' is not divided among queues here; choose of: cpu" in wrong.err


async def wait_for_hours(command: Command) -> Item:
    """The answer as soon as a look of the service has counted."""
    while True:
        answer: Item = json.loads((await command("queue", "pairs", "-o", "json")).out)
        if answer["resources"][0]["hours"]:
            return answer
        await asyncio.sleep(0.1)


async def test_a_policy_without_shares_has_no_pairs(
    quadrant: Quadrant, redis_url: str, short_dir: Path
) -> None:
    policy = short_dir / "policy.yaml"
    policy.write_text('actions: "allocate"\ntiers: [{plugins: [{name: gang}]}]\n')
    async with running(redis_url, short_dir, policy=str(policy)) as service:
        refused = await Command(quadrant, service)("queue", "pairs", code=1)
        assert "no plugin of the policy in force gives queues a share" in refused.err
