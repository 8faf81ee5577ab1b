"""Real processes, real SIGKILL: nothing is lost or bound twice, no gang is held in part."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from coordinator.supervisor.supervisor import COORDINATOR, RAY
from shared.messages.messages import Verdict
from tests.examples import examples
from tests.laboratory.chaos.stack import (
    SHARDS,
    Stack,
    running_stack,
    strike,
    workload,
)

pytestmark = [
    pytest.mark.all,  # `real_processes/test_up.py` kills one of each role
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow,
    pytest.mark.timeout(400),
]

DEADLINE_SECONDS = 5.0
END_SECONDS = 40.0
"""Long enough for a loaded machine; without a head to ask, the coordinator ends by itself."""
MORE_SEEDS = range(50, 70, 2)
"""Of workers that are killed upon a commit, and not frozen before."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack() -> AsyncIterator[Stack]:
    """One stack for all of these: its history grows, and is checked whole after every blow."""
    with tempfile.TemporaryDirectory(prefix="qt-", ignore_cleanup_errors=True) as path:
        async with running_stack(Path(path), worker_deadline_seconds=DEADLINE_SECONDS) as started:
            yield started


async def finishes_without_fault(stack: Stack) -> None:
    await stack.until_finished()
    report = await stack.report()
    assert report.ok, report.first
    summary = report.summary
    assert summary.jobs_finished == summary.jobs_submitted
    assert summary.tasks_bound == summary.tasks_finished == summary.tasks_submitted
    assert summary.tasks_bound_twice == 0
    assert summary.gangs_partly_bound == 0
    assert summary.gangs_across_shards > 0
    assert stack.commits_of_void_epochs() == []


async def struck_at_work(
    stack: Stack, seed: int, victim: int, pid: int, number: signal.Signals
) -> float:
    """Strike a worker upon its next commit. Where the others did all there was, more comes."""
    striking = asyncio.create_task(stack.strike_upon_commit(victim, pid, number))
    more = seed
    while not (await asyncio.wait({striking}, timeout=1.0))[0]:
        more += 1000
        await stack.submit(workload(more, random.Random(more)))
    return await striking


@pytest.mark.parametrize("seed", range(examples(24, least=2)))
async def test_sigkill_of_a_worker_loses_nothing_and_binds_nothing_twice(
    stack: Stack, seed: int
) -> None:
    """Killed after a seeded moment, just when it has committed something; every other seed freezes
    it then for a while, so that more turns are sent to it before it dies."""
    await kill_a_worker(stack, seed)


async def kill_a_worker(stack: Stack, seed: int) -> None:
    rng = random.Random(seed)
    victim = rng.randrange(SHARDS)
    await stack.submit(workload(seed, rng))
    await asyncio.sleep(rng.uniform(0.0, 1.2))
    old = (await stack.api.status())["shards"][victim]
    if seed % 2:
        await struck_at_work(stack, seed, victim, old["pid"], signal.SIGSTOP)
        await asyncio.sleep(rng.uniform(0.0, 0.2))
        killed = strike(old["pid"], signal.SIGKILL)
    else:
        killed = await struck_at_work(stack, seed, victim, old["pid"], signal.SIGKILL)
    await stack.until_replaced(victim, old["epoch"])
    await finishes_without_fault(stack)
    print(f"seed {seed}: {stack.times(victim, old['epoch'], killed)}")  # noqa: T201 - shown by pytest -s


async def test_some_of_them_died_between_a_commit_and_its_answer(stack: Stack) -> None:
    """At least one worker died between a commit and its answer, so the tests above covered that
    case. Whether a worker was quicker than its killer is chance: where all were, more die."""
    for seed in MORE_SEEDS:
        committed = (await stack.report()).summary.committed
        untold = committed - (await stack.api.status())["statements"]["committed"]
        print(f"{untold} of {committed} statements were committed and never told")  # noqa: T201
        if untold > 0:
            return
        await kill_a_worker(stack, seed)
    raise AssertionError(f"each of {len(MORE_SEEDS)} more workers was quicker than its killer")


async def test_a_worker_paused_beyond_its_deadline_commits_nothing(
    stack: Stack,
) -> None:
    """It stands still with turns open, is given up, and goes on where it was."""
    rng = random.Random(100)
    victim = rng.randrange(SHARDS)
    await stack.submit(workload(100, rng))
    status = await stack.until(lambda status: status["shards"][victim]["outstanding"] > 0)
    old = status["shards"][victim]
    paused = strike(old["pid"], signal.SIGSTOP)
    await stack.submit(workload(101, rng))  # it may have answered all it had before it stood still
    await stack.until(lambda status: status["shards"][victim]["epoch"] != old["epoch"])
    with contextlib.suppress(ProcessLookupError):  # a few seconds later Ray has ended it
        strike(old["pid"], signal.SIGCONT)
    assert await stack.commit_under(victim, old["epoch"]) is Verdict.EPOCH
    await stack.until_replaced(victim, old["epoch"])
    await stack.until_gone(old["pid"])
    await finishes_without_fault(stack)
    times = stack.times(victim, old["epoch"], paused)
    print(f"pause: {times}")  # noqa: T201
    assert times.noticed > DEADLINE_SECONDS / 2, "not by our deadline"
    assert times.turns > 0


async def test_sigkill_of_the_coordinator_loses_nothing(stack: Stack) -> None:
    """Its successor goes on from what the ledger holds, and from nothing else."""
    rng = random.Random(200)
    await stack.submit(workload(200, rng))
    before = await stack.until(lambda status: status["open_turns"] > 0)
    await asyncio.sleep(rng.uniform(0.0, 1.0))
    stack.supervisor.kill(COORDINATOR)
    await stack.supervisor.restart(COORDINATOR)
    status = await stack.until(lambda status: all(shard["up"] for shard in status["shards"]))
    assert status["jobs"]["submitted"] == before["jobs"]["submitted"]
    await finishes_without_fault(stack)


async def test_the_coordinator_outlives_the_ray_head_and_joins_the_next_one(stack: Stack) -> None:
    """It knows all that the ledger has; only its workers are new."""
    await stack.submit(workload(250, random.Random(250)))
    before = await stack.until(lambda status: status["open_turns"] > 0)
    coordinator = stack.supervisor.pids()[COORDINATOR]
    for _ in range(2):  # the second head that is lost is one that it joined anew
        gone = {shard["pid"] for shard in before["shards"]}
        stack.supervisor.kill(RAY)
        await stack.supervisor.restart(RAY)

        def replaced(status: dict[str, Any], gone: set[int] = gone) -> bool:
            return all(shard["up"] and shard["pid"] not in gone for shard in status["shards"])

        before = await stack.until(replaced)
        assert stack.supervisor.pids()[COORDINATOR] == coordinator
    await finishes_without_fault(stack)


async def test_death_of_the_ray_head_neither_loses_work_nor_holds_up_the_end(stack: Stack) -> None:
    """All workers die with it, and every question to it hangs."""
    await stack.submit(workload(300, random.Random(300)))
    await stack.until(lambda status: status["open_turns"] > 0)
    stack.supervisor.kill(RAY)
    await stack.until(lambda status: not any(shard["up"] for shard in status["shards"]))
    blow = strike(stack.supervisor.pids()[COORDINATOR], signal.SIGTERM)
    while COORDINATOR in stack.supervisor.pids():
        assert time.time() - blow < END_SECONDS, "it waits for the Ray head"
        await asyncio.sleep(0.05)
    stack.supervisor.kill(COORDINATOR)  # has ended, as it should: no fault
    await stack.supervisor.restart(RAY)
    await stack.supervisor.restart(COORDINATOR)
    await finishes_without_fault(stack)
