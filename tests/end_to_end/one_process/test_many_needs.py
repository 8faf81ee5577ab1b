"""Thousands of different needs in one queue, and of jobs with terms of their own, in a service.

Asserted is what was counted and the processor time of the thread: how long anything took is the
machine's. ``python -m tests.many_needs`` has 20,000 needs and 5,000 terms.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.instructions import Instruction
from tests.end_to_end.one_process.harness import running, submit
from tests.many_needs.objects import job, need, node, own_term

pytestmark = pytest.mark.all

NODES = 160
SMALL = 100
STEP_SECONDS = 0.25
"""Processor time of the dearest step of the loop: some 15 ms are usual, with any number of needs.
With 5,000 of them one pick by a scan takes 5 ms, and a step makes up to a window of picks."""


@dataclass(frozen=True, slots=True)
class Size:
    needs: int
    terms: int


def looks(core: Coordinator) -> int:
    """At lines and branches of their trees, for picks."""
    lines = core.order.lines
    orders = [queue.order for queue in lines.queues.values() if queue.order is not None]
    return lines.looks + sum(one.tree.looks for one in orders)


def timed(step: Callable[[float], list[Instruction]], spent: list[float]) -> Any:
    def timed_step(now: float) -> list[Instruction]:
        began = time.thread_time()
        try:
            return step(now)
        finally:
            spent.append(time.thread_time() - began)

    return timed_step


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "size",
    [
        Size(1_000, 200),
        pytest.param(Size(5_000, 1_000), marks=[pytest.mark.slow, pytest.mark.thorough]),
    ],
    ids=lambda size: f"{size.needs} needs, {size.terms} terms",
)
async def test_many_needs_and_terms_cost_small_jobs_nothing(
    size: Size, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The devices are taken; then small jobs come one by one, and each is placed."""
    async with running(redis_url, tmp_path) as service, aiohttp.ClientSession() as http:
        core, spent = service.service.core, list[float]()
        monkeypatch.setattr(core, "step", timed(core.step, spent))
        await submit(service, *map(node, range(NODES)))
        await submit(service, *map(own_term, range(size.terms)))
        held = 2 * size.terms
        await service.until(lambda s: s["tasks"]["running"] == held, within=300.0)
        terms = core.order.spanning
        assert terms._labels.looks + terms._selecting.looks <= 4 * size.terms
        for state in core.order.jobs.values():
            assert len(set(state.rows)) == 2, state.job.key

        await submit(service, *map(need, range(size.needs)))
        held += NODES
        await service.until(
            lambda s: s["open_turns"] == 0 and s["tasks"]["running"] == held, within=300.0
        )
        before, turns, steps = looks(core), core.tally.total().outcomes.total(), len(spent)
        for number in range(SMALL):
            await submit(service, job(f"s{number}", "1m"))
        await service.until(
            lambda _: all(
                core.order.jobs[jid].info.using
                for jid in [s.job.jid for s in core.order.jobs.values() if s.job.name[0] == "s"]
            ),
            within=300.0,
        )
        picks = core.tally.total().outcomes.total() - turns + len(spent) - steps  # one is the last
        assert looks(core) - before < 400 * picks
        assert max(spent) < STEP_SECONDS
        async with http.get(f"{service.url}/apis/quadrant.dev/v1alpha1/status") as answer:
            body = await answer.json()
        assert sum(body["pending_reasons"].values()) == body["jobs"]["pending"]
        async with http.get(f"{service.url}/metrics") as page:
            assert page.status == 200
        assert core.tally.workers_lost == 0
        core.validate()
