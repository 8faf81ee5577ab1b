"""Search bounds of a KAI policy on a running service: time, and jobs of each queue."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import aiohttp

from coordinator.cli.scheduling.explain_text import explanation
from coordinator.jobs.state import JobState
from shared.ledger.redis.server import EmbeddedServer
from tests.conftest import flush
from tests.coordinator.service.metrics.scrape import scrape, total
from tests.end_to_end.one_process.harness import Running, running_pods
from tests.end_to_end.one_process.test_kai_evictions import service_of
from tests.end_to_end.one_process.test_kai_order import leaf, single
from tests.end_to_end.one_process.test_kai_walk import NODES, read, submit

BOUNDED = """
dialect: kai
actions: allocate, reclaim, preempt
scenarioSearchBudgets: {maxJobSearchDuration: 1us}
"""
POD = "/api/v1/namespaces/ns/pods/"


async def explained(http: aiohttp.ClientSession, service: Running, pod: str) -> dict[str, Any]:
    answer: dict[str, Any] = await read(http, service, f"{POD}{pod}/explain")
    return answer


def told_actions(state: JobState) -> set[str]:
    failed = state.failed_eviction
    return set() if failed is None else {attempt.action for attempt in failed.considered}


async def test_a_search_that_its_time_ended_says_so_and_goes_on_with_more_of_it(
    embedded_server: EmbeddedServer, tmp_path: Path
) -> None:
    flush(embedded_server)
    async with (
        service_of(embedded_server.url, tmp_path, BOUNDED) as service,
        aiohttp.ClientSession() as http,
    ):
        queues = [leaf("red", 6, parent=""), leaf("blue", 6, parent="")]
        first = {"own", *(f"r{at:02}" for at in range(11))}
        pods = [single(name, "blue" if name == "own" else "red") for name in sorted(first)]
        await submit(http, service, *NODES, *queues, *pods)
        await service.until(lambda _: running_pods(service) == first)
        await submit(http, service, single("b", "blue"))
        state = next(s for s in service.service.core.order.jobs.values() if s.job.name == "b")
        # Both actions had their turn: preempt, the later one, does not hide what ended reclaim.
        await service.until(lambda _: told_actions(state) == {"reclaim", "preempt"})
        answer = await explained(http, service, "b")
        text = "\n".join(explanation(answer, columns=500, now=time.time()))
        assert "reclaim: ended by maxJobSearchDuration (1e-06 s) after 0 simulated" in text, text
        assert "raise it, or ask for fewer tasks at a time" in text
        series = await scrape(service.url)
        cut = {"action": "reclaim", "cause": "job"}
        assert total(series, "search_budgets_exhausted_total", **cut) >= 1
        assert total(series, "searches_total", action="reclaim", result="budget") >= 1
        assert total(series, "searches_total", action="reclaim", result="solved") == 0
        assert running_pods(service) == first
        (tmp_path / "kai.yaml").write_text(BOUNDED.replace("1us", "4m"))
        await service.until(lambda _: "b" in running_pods(service))
        series = await scrape(service.url)
        assert total(series, "searches_total", action="reclaim", result="solved") == 1
        assert total(series, "search_scenarios_total", action="reclaim", kind="simulated") >= 1


async def test_only_the_first_jobs_of_a_queue_take_from_others(
    embedded_server: EmbeddedServer, tmp_path: Path
) -> None:
    """The first asks for more than its queue's share, so that nobody goes for it; the second could
    have its place, and is not searched for until the first is gone."""
    flush(embedded_server)
    policy = "dialect: kai\nactions: allocate, reclaim\nqueueDepthPerAction: {reclaim: 1}\n"
    async with (
        service_of(embedded_server.url, tmp_path, policy) as service,
        aiohttp.ClientSession() as http,
    ):
        queues = [leaf("red", 9, parent=""), leaf("blue", 3, parent="")]
        reds = {f"r{at:02}" for at in range(12)}
        await submit(http, service, *NODES, *queues, *(single(name, "red") for name in reds))
        await service.until(lambda _: running_pods(service) == reds)
        await submit(http, service, single("large", "blue", 4))
        large = next(s for s in service.service.core.order.jobs.values() if s.job.name == "large")
        await service.until(lambda _: large.failed_eviction is not None)
        await submit(http, service, single("small", "blue"))
        looks = service.service.core.order.contention
        tried = looks.turns
        await service.until(lambda _: looks.turns >= tried + 2)  # further ones, all for the first
        small = next(s for s in service.service.core.order.jobs.values() if s.job.name == "small")
        assert small.failed_eviction is None
        assert running_pods(service) == reds
        async with http.delete(f"{service.url}{POD}large") as answer:
            assert answer.status == 200
        await service.until(lambda _: "small" in running_pods(service))
