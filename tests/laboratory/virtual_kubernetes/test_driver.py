"""The driver as it is, on virtual time, against the double of the API server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from coordinator.cluster.kubernetes.api.client import ApiReader
from coordinator.cluster.kubernetes.api.credentials import ApiServer, FixedToken
from coordinator.cluster.kubernetes.cluster import KubernetesCluster
from coordinator.cluster.kubernetes.state.mirror import Mirror
from coordinator.cluster.kubernetes.writes.writes import ApiWrites, WriteLeadership
from coordinator.cluster.protocol import BindAnswer, BindRequests, ClusterTimeout, Report
from coordinator.service.observed.kubernetes import followed_kinds
from shared.policy.model import Dialect
from tests.kubernetes.driver.harness import node, pod
from tests.laboratory.virtual_kubernetes.stage import URL, Json, Stage

PODS = "/api/v1/namespaces/default/pods"
RUNNING = {"status": {"phase": "Running"}}
MERGE_PATCH = "application/merge-patch+json"

Play = Callable[["Driven"], Awaitable[None]]


class Driven:
    """A driver with the place of intake: each pod is a task of its own."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        reader = ApiReader(ApiServer(URL, "double", None, FixedToken()))
        kinds = followed_kinds(Dialect.VOLCANO)
        names = tuple(kind.name for kind in kinds)
        self.mirror = Mirror(names, ours=lambda name: name == "quadrant")
        self.writes = ApiWrites(reader, self.mirror, clock=lambda: stage.timeline.now)
        self.writes.leadership = WriteLeadership("ledger/1")
        self.cluster = KubernetesCluster(
            reader,
            kinds,
            mirror=self.mirror,
            writes=self.writes,
            clock=lambda: stage.timeline.now,
            draw=random.Random(1),
        )
        self.reported: list[tuple[Report, str, str]] = []
        self.over = False

    async def run(self, play: Play) -> None:
        async with asyncio.TaskGroup() as group:
            running = [
                group.create_task(self.cluster.follow_forever(lambda jid: None)),
                group.create_task(self.writes.leases.keep_forever("ledger")),
                group.create_task(self._take_forever()),
                group.create_task(self._report_forever()),
            ]
            await play(self)
            self.over = True
            for task in running:
                task.cancel()
        await self.writes.close()

    async def _take_forever(self) -> None:
        while True:
            delta = await self.cluster.changes()
            for key, item in zip(delta.keys, delta.items, strict=True):
                if key.kind == "Pod":
                    task = int(key.name.rpartition("-")[2]), 0
                    uid = item["metadata"]["uid"]
                    self.cluster.admitted([((key.namespace, key.name), uid, task)])

    async def _report_forever(self) -> None:
        last = 0
        while True:
            reports = await self.cluster.reports(after=last, wait=10.0)
            last = reports.last
            columns = zip(reports.kinds, reports.tasks, reports.nodes, strict=True)
            self.reported += [(Report(kind), task, on) for kind, task, on in columns]

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():  # noqa: ASYNC110 - of the driver's state
            await asyncio.sleep(0.05)

    async def until_held(self) -> None:
        await self.until(lambda: self.mirror.accounts_for_all and self.writes.leases.held)

    async def bind(self, number: int, on: str) -> BindAnswer:
        requests = BindRequests([f"{number}.0"], [f"u{number}"], [f"p-{number}"], [on], [None])
        return BindAnswer((await self.cluster.bind(requests)).answers[0])


def driven(play: Play, *, seed: int = 1, until: float = 200.0) -> Driven:
    """What there was after the play, which has to end."""
    stage = Stage(seed)
    for name in ("n1", "n2"):
        stage.ask("POST", "/api/v1/nodes", node(name))
    driver = Driven(stage)
    stage.process(driver.run(play))
    try:
        stage.run(until=until)
    finally:
        stage.kill()
    assert driver.over
    return driver


def made(stage: Stage, number: int, **fields: object) -> Json:
    return stage.ask("POST", PODS, pod(f"p-{number}") | fields)


def on_server(stage: Stage, number: int) -> Json | None:
    return stage.server.store.get("pods", f"default/p-{number}")


async def bind_and_evict(driver: Driven) -> None:
    stage = driver.stage
    await driver.until_held()
    made(stage, 1)
    await driver.until(lambda: driver.mirror.pods.of_task((1, 0)) is not None)
    assert await driver.bind(1, "n1") is BindAnswer.OK
    found = on_server(stage, 1)
    assert found is not None and found["spec"]["nodeName"] == "n1"
    assert found["metadata"]["annotations"]["quadrant.dev/statement"] == "ledger/1/"
    assert await driver.bind(1, "n1") is BindAnswer.ALREADY
    stage.ask("PATCH", f"{PODS}/p-1/status", RUNNING, MERGE_PATCH)
    await driver.until(lambda: (Report.STARTED, "1.0", "n1") in driver.reported)
    assert await driver.cluster.delete(["1.0"]) == []
    assert "deletionTimestamp" in (on_server(stage, 1) or {})["metadata"]
    stage.ask("DELETE", f"{PODS}/p-1", {"gracePeriodSeconds": 0})
    await driver.until(lambda: driver.reported[-1][0] is Report.FAILED)


def test_it_lists_watches_binds_and_evicts() -> None:
    driver = driven(bind_and_evict)
    kinds = [report for report, *_ in driver.reported]
    # The watch may be quicker than the answer to the binding, and tells it then.
    assert kinds[-3:] == [Report.STARTED, Report.RELEASING, Report.FAILED]
    assert {counts.lists for counts in driver.cluster.streams().values()} == {1}


def test_a_seed_repeats_a_run_and_another_one_does_not() -> None:
    first, again, other = (driven(bind_and_evict, seed=seed) for seed in (1, 1, 2))
    assert _requests(first) == _requests(again)
    assert first.stage.timeline.random.random() == again.stage.timeline.random.random()
    assert first.stage.timeline.random.random() != other.stage.timeline.random.random()


def _requests(driver: Driven) -> dict[tuple[str, str, str], int]:
    assert driver.stage.server.requests
    return driver.stage.server.requests


async def bind_what_another_bound(driver: Driven) -> None:
    stage = driver.stage
    await driver.until_held()
    made(stage, 1)
    await driver.until(lambda: driver.mirror.pods.of_task((1, 0)) is not None)
    target = {"kind": "Node", "name": "n2"}
    # Another scheduler is quicker, and the watch has yet to tell.
    stage.ask("POST", f"{PODS}/p-1/binding", {"metadata": {"name": "p-1"}, "target": target})
    # By the look, if the watch has it meanwhile.
    assert await driver.bind(1, "n1") in (BindAnswer.UNKNOWN, BindAnswer.ELSEWHERE)
    assert driver.writes.counts.looks == 1
    await driver.until(lambda: (Report.BOUND, "1.0", "n2") in driver.reported)
    assert await driver.bind(1, "n1") is BindAnswer.ELSEWHERE


def test_a_pod_that_another_scheduler_bound_is_found_there() -> None:
    driven(bind_what_another_bound)


async def bind_across_a_restart(driver: Driven) -> None:
    stage = driver.stage
    await driver.until_held()
    made(stage, 1)
    await driver.until(lambda: driver.mirror.pods.of_task((1, 0)) is not None)
    stage.kill()
    await asyncio.sleep(30.0)  # the Lease runs out meanwhile
    with pytest.raises(ClusterTimeout):
        await driver.bind(1, "n1")
    made(stage, 2)
    stage.start()
    await driver.until(lambda: driver.mirror.pods.of_task((2, 0)) is not None)
    await driver.until_held()
    assert await driver.bind(1, "n1") is BindAnswer.OK
    assert await driver.bind(2, "n2") is BindAnswer.OK


def test_a_server_that_was_down_is_found_again() -> None:
    driver = driven(bind_across_a_restart)
    assert {counts.lists for counts in driver.cluster.streams().values()} <= {1, 2}
    assert sum(counts.errors for counts in driver.cluster.streams().values()) > 0


@pytest.mark.parametrize("part", [0, 1])
def test_watches_that_are_cut_are_resumed_and_old_ones_begun_anew(part: int) -> None:
    async def play(driver: Driven) -> None:
        stage = driver.stage
        await driver.until_held()
        stage.network.reset(lambda end: end.process is not stage.serving)
        if part:  # what was written meanwhile is told no more
            made(stage, 1)
            stage.server.store.restart()
        else:
            made(stage, 1)
        await driver.until(lambda: driver.mirror.pods.of_task((1, 0)) is not None)

    driver = driven(play)
    assert driver.cluster.streams()["Pod"].lists == 1 + part


async def bind_to_a_silent_server(driver: Driven) -> None:
    stage = driver.stage
    await driver.until_held()
    made(stage, 1)
    await driver.until(lambda: driver.mirror.pods.of_task((1, 0)) is not None)
    stage.serving.pause(30.0)
    began = stage.timeline.now
    # Given up in time, and looked for: it took effect once the server went on.
    assert await driver.bind(1, "n1") is BindAnswer.ALREADY
    assert driver.writes.counts.without_answer >= 1
    assert driver.writes.counts.looks == 1
    assert stage.timeline.now - began >= 30.0


def test_an_answer_that_is_late_is_none() -> None:
    driven(bind_to_a_silent_server)
