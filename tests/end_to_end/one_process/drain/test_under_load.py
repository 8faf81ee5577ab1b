"""Two nodes are drained while jobs come in all the time: at the end they are empty, no budget was
broken at any moment, gangs left as a whole, and the history shows all of it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from laboratory.checker.report.report import CheckReport
from shared.ledger.redis.server import EmbeddedServer
from tests.builders.objects import Item, budget, node, pod
from tests.coordinator.api.kubectl import Kubectl, found
from tests.end_to_end.one_process.drain.support import drain, job, pods, put, recorded
from tests.end_to_end.one_process.harness import Running

pytestmark = [pytest.mark.all, pytest.mark.timeout(200)]

SHARDS = 3
WEB, DATABASE = 6, 6
"""Pods under the budgets that must never be broken; they run for the whole test."""
WEB_NEEDS, DATABASE_NEEDS = 4, 3
GANG = 3


def standing() -> list[Item]:
    """Objects that run for the whole test: 24 of the 48 cores of six nodes, 32 when two are
    drained."""
    return [
        *(node(f"n{number}") for number in range(6)),
        job("web", WEB, minimum=1, app="web"),
        budget("web", WEB_NEEDS, app="web"),
        *(job(f"db{number}", GANG, minimum=GANG, app="db") for number in range(DATABASE // GANG)),
        budget("db", DATABASE_NEEDS, app="db"),
        *(job(f"gang{number}", 6, minimum=6) for number in range(2)),
        budget("batch", "50%", app="batch"),
    ]


def wave(number: int) -> list[Item]:
    """A gang, a job under a budget, and a pod of its own, all of them short."""
    single = pod(f"single{number}")
    single["metadata"]["annotations"] = {"quadrant.dev/duration": "0.2"}
    return [
        job(f"short{number}", GANG, minimum=GANG, seconds=0.3),
        job(f"batch{number}", 2, minimum=1, seconds=0.4, app="batch"),
        single,
    ]


@asynccontextmanager
async def load(session: aiohttp.ClientSession) -> AsyncIterator[None]:
    """Jobs come in all the time."""

    async def submit() -> None:
        for number in count():
            await put(session, *wave(number))
            await asyncio.sleep(0.1)

    submitting = asyncio.create_task(submit())
    try:
        yield
        assert not submitting.done(), submitting.exception()
    finally:
        submitting.cancel()
        await asyncio.gather(submitting, return_exceptions=True)


async def all_run(session: aiohttp.ClientSession) -> None:
    """Wait until all standing pods run."""
    names = {item["metadata"]["name"] for item in standing() if item["kind"] == "Job"}
    async with asyncio.timeout(60):
        while True:
            live = await pods(session)
            here = [p for name, p in live.items() if name.rpartition("-w-")[0] in names]
            if len(here) == 24 and {p["status"]["phase"] for p in here} == {"Running"}:
                return
            await asyncio.sleep(0.05)


async def fullest(session: aiohttp.ClientSession) -> tuple[str, str]:
    """The two nodes with the most pods whose budgets must hold."""
    counts = Counter(
        live["spec"]["nodeName"]
        for name, live in (await pods(session)).items()
        if name.startswith(("web", "db")) and live["spec"].get("nodeName")
    )
    (first, _), (second, _) = counts.most_common(2)
    return first, second


async def stays_empty(session: aiohttp.ClientSession, nodes: tuple[str, ...]) -> None:
    for _ in range(20):
        for name in nodes:
            left = await pods(session, name)
            assert [n for n, p in left.items() if p["status"]["phase"] in LIVING] == []
        await asyncio.sleep(0.05)


LIVING = ("Pending", "Running")


def judge(path: Path, report: CheckReport) -> None:
    assert report.violations == ()
    checked = {row.rule: row.checked for row in report.rows}
    assert checked["eviction-reason"] > 0
    assert checked["eviction-policy"] > 0
    witness = DrainWitness(path)
    assert witness.fewest_running("web", since=WEB) >= WEB_NEEDS
    assert witness.fewest_running("db", since=DATABASE) >= DATABASE_NEEDS
    left = witness.left_together()
    for name, width in (("db", GANG), ("gang", 6)):
        assert {n for job, ns in left.items() if job.startswith(name) for n in ns} <= {width}
    assert sum(map(len, left.values())) > 3


async def drained_under_load(
    service: Running, session: aiohttp.ClientSession, home: Path | None
) -> None:
    await put(session, *standing())
    await all_run(session)
    async with load(session):
        await service.until(lambda status: status["jobs"]["submitted"] > 20)
        nodes = await fullest(session)
        if home is None:
            await drain(session, nodes)
        else:
            kubectl = Kubectl(service.url, home)
            output = await kubectl.ok("drain", *nodes, "--force", "--timeout=80s")
            assert all(f"node/{name} drained" in output for name in nodes)
        await stays_empty(session, nodes)
    await all_run(session)
    await stays_empty(session, nodes)


@pytest.mark.parametrize(
    "program",
    [
        "requests",
        pytest.param(
            "kubectl",
            # It sends what was refused again every 5 s.
            marks=[
                pytest.mark.slow,
                pytest.mark.skipif(found() is None, reason="no kubectl in PATH or $KUBECTL"),
            ],
        ),
    ],
)
async def test_two_nodes_are_drained_while_jobs_come_in(
    embedded_server: EmbeddedServer, short_dir: Path, program: str
) -> None:
    reports: list[CheckReport] = []
    path = short_dir / "h.jsonl"
    home = short_dir if program == "kubectl" else None
    async with (
        recorded(embedded_server.url, path, reports, shards=SHARDS) as service,
        aiohttp.ClientSession(service.url) as session,
    ):
        await drained_under_load(service, session, home)
    judge(path, reports[0])


Event = dict[str, Any]


class DrainWitness:
    def __init__(self, path: Path) -> None:
        self._events: list[Event] = [json.loads(line) for line in path.read_bytes().splitlines()]
        self._names = {
            job["jid"]: job["key"].partition("/")[2]
            for event in self._events
            if event["ev"] == "job"
            for job in event["jobs"]
        }

    def fewest_running(self, prefix: str, *, since: int) -> int:
        """The lowest number of pods in the cluster that run and do not stop, of jobs whose name
        begins with ``prefix``, from the moment when there were ``since`` of them."""
        running: set[str] = set()
        lowest: int | None = None
        for event in self._events:
            if event["src"] != "cluster" or "tasks" not in event:
                continue
            for task, uid in zip(event["tasks"], event["uids"], strict=True):
                if not self._names[int(task.split(".")[0])].startswith(prefix):
                    continue
                if event["ev"] == "start":
                    running.add(f"{task} {uid}")
                elif event["ev"] not in ("bind", "delete"):
                    running.discard(f"{task} {uid}")
            if lowest is not None or len(running) == since:
                lowest = len(running) if lowest is None else min(lowest, len(running))
        assert lowest is not None, f"there were never {since} pods of {prefix}"
        return lowest

    def left_together(self) -> dict[str, list[int]]:
        """Job -> how many of its pods left in each statement that somebody asked for."""
        left: dict[str, list[int]] = {}
        for event in self._events:
            for statement in event.get("statements", ()):
                if statement.get("reason", "").startswith("evict"):
                    name = self._names[statement["jid"]]
                    count = sum(len(run[4]) for run in statement["evict"])
                    left.setdefault(name, []).append(count)
        return left
