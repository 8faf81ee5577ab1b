"""A plan says whom the policy would evict, and that is what then happens."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.ledger.entries.log import CommitEntry
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.server import EmbeddedServer
from tests.builders.objects import Item, priority_class, queue
from tests.conftest import flush
from tests.coordinator.explain.cluster import asking, job, node, settled
from tests.coordinator.explain.random_clusters import COMPARED, RandomCluster, at_rest, filled
from tests.coordinator.explain.test_plan import one, planned
from tests.end_to_end.one_process.harness import Running, running, submit

EVICTING = """
actions: "allocate, preempt, reclaim"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(EVICTING)
    return path


def important(value: int) -> Item:
    return priority_class(f"p{value}", value)


def ranked(item: Item, value: int) -> Item:
    item["spec"]["priorityClassName"] = f"p{value}"
    for task in item["spec"]["tasks"]:
        task["template"]["spec"]["priorityClassName"] = f"p{value}"
    return item


async def nodes_of(service: Running) -> Counter[str]:
    """Job -> its pods with a node."""
    async with asking(service) as client, client.get(PODS) as answer:
        pods = (await answer.json())["items"]
    return Counter(
        pod["metadata"]["labels"]["volcano.sh/job-name"]
        for pod in pods
        if pod["spec"].get("nodeName")
    )


async def test_a_preemption_is_foreseen_and_happens(
    tmp_path: Path, redis_url: str, policy: Path
) -> None:
    async with running(redis_url, tmp_path, shards=1, policy=policy) as service:
        await submit(service, node("a", cpu="4"), important(10), important(20))
        await submit(service, ranked(job("low", 4, minimum=1), 10))
        await settled(service, bound=4)
        high = ranked(job("high", 2, cpu="1"), 20)
        plan = await planned(service, high)
        again = await planned(service, high)
        await submit(service, high)
        await at_rest(service)
        runs = await nodes_of(service)
    assert plan == again
    foretold = one(plan)
    assert (foretold["verdict"], plan["verdict"]) == ("later", "waits")
    assert foretold["tasks"] == {"total": 2, "minimum": 2, "now": 0, "later": 2}
    assert foretold["evicts"] == [{"job": "default/low", "tasks": 2, "moved": 0}]
    assert foretold["evictedBy"].startswith("preempt")
    assert "reason" not in foretold
    assert runs == {"high": 2, "low": 2}


async def test_a_reclaim_is_foreseen_and_happens(
    tmp_path: Path, redis_url: str, policy: Path
) -> None:
    async with running(redis_url, tmp_path, shards=1, policy=policy) as service:
        await submit(service, node("a", cpu="4"), queue("rich"), queue("poor"))
        await submit(service, job("many", 4, minimum=1, queue="rich"))
        await settled(service, bound=4)
        own = [job("first", 1, queue="poor"), job("second", 1, queue="poor")]
        plan = await planned(service, *own, job("third", 2, queue="poor"))
        await submit(service, *own)
        await service.until(lambda status: status["jobs"]["pending"] == 0)
        await at_rest(service)
        runs = await nodes_of(service)
    first, second, third = plan["jobs"]
    assert [each["verdict"] for each in plan["jobs"]] == ["later", "later", "waits"]
    for each in (first, second):
        assert each["evicts"] == [{"job": "default/many", "tasks": 1, "moved": 0}]
        assert each["evictedBy"].startswith("reclaim")
    assert "evicts" not in third  # beyond what the queue deserves
    assert runs == {"first": 1, "second": 1, "many": 2}


async def test_a_job_that_may_not_preempt_evicts_nothing(
    tmp_path: Path, redis_url: str, policy: Path
) -> None:
    async with running(redis_url, tmp_path, shards=1, policy=policy) as service:
        await submit(service, node("a", cpu="4"), important(10), important(20))
        await submit(service, ranked(job("high", 4), 20))
        await settled(service, bound=4)
        low, huge = ranked(job("low", 1), 10), ranked(job("huge", 5), 20)
        plan = await planned(service, low, huge)
    assert [each["verdict"] for each in plan["jobs"]] == ["never", "waits"]
    assert all("evicts" not in each for each in plan["jobs"])


async def test_behind_walls_each_shard_is_asked(
    tmp_path: Path, redis_url: str, policy: Path
) -> None:
    async with running(redis_url, tmp_path, shards=2, mode="hard", policy=policy) as service:
        zones = {name: {"zone": name} for name in "ab"}
        await submit(service, *(node(name, cpu="4", labels=zones[name]) for name in zones))
        await submit(service, important(10), important(20))
        low = [job(f"low-{z}", 4, minimum=1, nodeSelector=zones[z]) for z in zones]
        await submit(service, *(ranked(each, 10) for each in low))
        await settled(service, bound=8)
        jobs = [ranked(job(f"high-{z}", 3, nodeSelector=zones[z]), 20) for z in zones]
        plan = await planned(service, *jobs)
        await submit(service, *jobs)
        for _ in range(200):
            if (runs := await nodes_of(service))["high-a"] + runs["high-b"] == 6:
                break
            await asyncio.sleep(0.05)
    assert [each["verdict"] for each in plan["jobs"]] == ["later", "later"]
    assert [each["evicts"] for each in plan["jobs"]] == [
        [{"job": f"default/low-{z}", "tasks": 3, "moved": 0}] for z in zones
    ]
    assert runs == {"low-a": 1, "low-b": 1, "high-a": 3, "high-b": 3}


def ranked_job(
    draw: st.DrawFn, name: str, *, tasks: list[int], priorities: list[int], elastic: bool
) -> Item:
    count = draw(st.sampled_from(tasks))
    item = job(
        name,
        count,
        cpu=draw(st.sampled_from(["1", "2"])),
        minimum=draw(st.sampled_from([1, count] if elastic else [count])),
        queue=draw(st.sampled_from(["default", "lab"])),
    )
    return ranked(item, draw(st.sampled_from(priorities)))


@st.composite
def full_clusters(draw: st.DrawFn) -> RandomCluster:
    """Most have no room left, and jobs of no great importance."""
    sizes = draw(st.lists(st.sampled_from(["2", "4", "6"]), min_size=1, max_size=3))
    nodes = [node(f"n{number}", cpu=cpu) for number, cpu in enumerate(sizes)]
    queues = [queue("lab"), *map(important, (10, 20, 30))]
    old = [
        ranked_job(draw, f"old{number}", tasks=[2, 3, 6], priorities=[10, 10, 20], elastic=True)
        for number in range(draw(st.integers(2, 4)))
    ]
    return RandomCluster(nodes, queues, old)


@st.composite
def new_gangs(draw: st.DrawFn) -> list[Item]:
    return [
        ranked_job(draw, f"new{number}", tasks=[1, 2, 3], priorities=[10, 20, 30], elastic=False)
        for number in range(draw(st.integers(1, 3)))
    ]


@given(cluster=full_clusters(), new=new_gangs())
@pytest.mark.timeout(300)
@COMPARED
def test_planned_evictions_and_placements_happen(
    cluster: RandomCluster,
    new: list[Item],
    tmp_path: Path,
    policy: Path,
    embedded_server: EmbeddedServer,
) -> None:
    flush(embedded_server)
    asyncio.run(_compare(cluster, new, tmp_path, policy, embedded_server.url))


async def _compare(
    cluster: RandomCluster, new: list[Item], path: Path, policy: Path, url: str
) -> None:
    async with running(url, path, shards=1, policy=policy) as service:
        await filled(service, cluster)
        before = await evictions(service)
        plan = await planned(service, *new)
        await submit(service, *new)
        await at_rest(service)
        runs = await nodes_of(service)
        after = await evictions(service)
    happened = {pair: count for pair, count in after.items() if pair not in before}
    foretold = {
        (f"default/{each['name']}", victim["job"]): victim["tasks"]
        for each in plan["jobs"]
        for victim in each.get("evicts", ())
    }
    of_new = {f"default/{item['metadata']['name']}" for item in new}
    happened = {pair: count for pair, count in happened.items() if pair[0] in of_new}
    report = plan, runs, happened
    assert bool(foretold) == bool(happened), report
    if len({by for by, _ in foretold}) == 1:
        assert foretold == happened, report
    for each in plan["jobs"]:
        places = each["tasks"]["now"] + each["tasks"]["later"]
        if each["certain"] or each["verdict"] == "later":
            assert runs[each["name"]] == places, report
        else:  # what evictions free beyond what they are for: a gang gets it as a whole
            assert runs[each["name"]] in (0, each["tasks"]["total"]), report
            assert foretold, report


async def evictions(service: Running) -> dict[tuple[str, str], int]:
    """(job, victim's job) -> tasks that were evicted, as the ledger's log has it."""
    ledger = RedisLedger(service.service._settings.redis_url or "")
    try:
        entries = await ledger.read_log("0", count=100_000)
    finally:
        await ledger.close()
    counter: Counter[tuple[str, str]] = Counter()
    for entry in entries:
        for committed in entry.accepted if isinstance(entry, CommitEntry) else ():
            for run in committed.evictions:
                counter[_key(service, committed.jid), _key(service, run.jid)] += len(run.tasks)
    return counter


def _key(service: Running, jid: int) -> str:
    state = service.service.core.order.known(jid)
    assert state is not None
    return state.job.key
